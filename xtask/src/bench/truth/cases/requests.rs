//! Requests and responses: none may vanish from the count, whenever they were lost.

use super::super::capture::Connection;
use super::super::claim::{Claim, Relation, Tolerance, Unit};
use super::super::ground::PLAIN;
use super::super::judge::Skipped;
use super::{Clock, Fault, Load, Network, Packets, Seen, Watch};
use Relation::{Equal, Withheld};
use Unit::{PerSecond, Seconds};

type Check = fn(&Seen<'_>) -> anyhow::Result<Claim>;

/// Bytes of payload of requests and responses: no other datagram on the path is as long.
const PAYLOAD: u64 = 200;
const EVERY: u64 = 37;

/// Returns parameters with the sizes of requests and responses before them.
macro_rules! sized {
    ($params:literal) => {
        concat!("request_size = \"200 B\", response_size = \"200 B\", ", $params)
    };
}

const fn open_loop(
    workload: &'static str,
    params: &'static str,
    due: u64,
    duration_ms: u64,
) -> Load {
    let packets =
        if workload.as_bytes()[0] == b'u' { Packets::Udp(PAYLOAD) } else { Packets::Tcp(PAYLOAD) };
    Load { workload, params, duration_ms, warmup_ms: 0, due, packets, clock: Clock::Same }
}

const fn case(name: &'static str, fault: Fault, load: Load, checks: &'static [Check]) -> Network {
    let watch =
        if matches!(load.packets, Packets::Udp(_)) { Watch::Nothing } else { Watch::Segments };
    Network { name, between: PLAIN, fault, load, watch, checks }
}

const BOTH_WAYS: Fault = Fault::Drop { every: EVERY, back: true };
const EXACT_LOSS: &[Check] = &[due, lost_by_drops];
const TAIL: &[Check] = &[due, lost_by_silence, p90_is_withheld];

const fn dropped(name: &'static str, params: &'static str) -> Network {
    case(name, BOTH_WAYS, open_loop("udp_rr", params, 750, 1500), EXACT_LOSS)
}

pub(super) static CASES: &[Network] = &[
    case(
        "udp_rr, nothing lost",
        Fault::None,
        open_loop("udp_rr", sized!("depth = 1024, rate = \"400 pps\""), 400, 1000),
        &[due, lost_by_drops, rate],
    ),
    dropped(
        "udp_rr, every 37th dropped both ways, timeout 0.1 of the duration",
        sized!("depth = 4096, rate = \"500 pps\", timeout = \"150 ms\""),
    ),
    dropped(
        "udp_rr, every 37th dropped both ways, timeout 0.5 of the duration",
        sized!("depth = 4096, rate = \"500 pps\", timeout = \"750 ms\""),
    ),
    dropped(
        "udp_rr, every 37th dropped both ways, timeout 2 times the duration",
        sized!("depth = 4096, rate = \"500 pps\", timeout = \"3 s\""),
    ),
    case(
        "udp_rr closed loop of 8, every 37th dropped both ways, timeout 0.3 s",
        BOTH_WAYS,
        open_loop("udp_rr", sized!("depth = 8, timeout = \"300 ms\""), 0, 2000),
        &[lost_by_drops],
    ),
    case(
        "udp_rr, everything dropped after 0.6 s of 1 s",
        Fault::DropFrom { after_ms: 600 },
        open_loop("udp_rr", sized!("depth = 4096, rate = \"500 pps\""), 500, 1000),
        TAIL,
    ),
    case(
        "udp_rr, everything dropped",
        Fault::DropFrom { after_ms: 0 },
        open_loop("udp_rr", sized!("depth = 4096, rate = \"500 pps\""), 500, 1000),
        &[due, lost_by_silence],
    ),
    case(
        "tcp_rr, nothing lost",
        Fault::None,
        open_loop("tcp_rr", sized!("depth = 1024, rate = \"400 pps\""), 400, 1000),
        &[rate],
    ),
    case(
        "tcp_rr, everything dropped after 0.6 s of 1 s",
        Fault::DropFrom { after_ms: 600 },
        open_loop("tcp_rr", sized!("depth = 1024, rate = \"500 pps\""), 500, 1000),
        &[lost_by_silence, p90_is_withheld],
    ),
    case(
        "tcp_crr, everything dropped after 0.6 s of 1 s",
        Fault::DropFrom { after_ms: 600 },
        open_loop(
            "tcp_crr",
            sized!("streams = 256, close = \"reset\", rate = \"200 pps\""),
            200,
            1000,
        ),
        &[lost_by_silence, p90_is_withheld],
    ),
];

/// Requests that came to the bridge: what is dropped from some time on is counted apart.
pub(super) fn requests(seen: &Seen<'_>) -> f64 {
    let apart = if matches!(seen.case.fault, Fault::DropFrom { .. }) {
        seen.packets("there_hit")
    } else {
        0.0
    };
    seen.packets("there_seen") + apart
}

/// Requests of an open loop that were due and never sent: none, unless the machine was so busy that
/// the last came too late.
pub(super) fn unsent(seen: &Seen<'_>) -> f64 {
    if seen.case.load.due > 0 { seen.case.load.due as f64 - requests(seen) } else { 0.0 }
}

/// Requests that an open loop offers: none is missing from the account.
fn due(seen: &Seen<'_>) -> anyhow::Result<Claim> {
    let claim = Claim::count("requests due", seen.study.operations());
    Ok(claim
        .expect(seen.case.load.due as f64, "rate times duration")
        .beside(requests(seen) + unsent(seen), "nft, requests, and unsent"))
}

/// Every request or response that the rules dropped is one lost request.
fn lost_by_drops(seen: &Seen<'_>) -> anyhow::Result<Claim> {
    let claim = Claim::count("requests lost or open", seen.study.unanswered());
    let dropped = seen.packets("there_hit") + seen.packets("back_hit");
    let claim = claim.beside(dropped + unsent(seen), "nft, dropped, and unsent");
    let Fault::Drop { every, .. } = seen.case.fault else {
        return Ok(claim.expect(unsent(seen), "nothing is dropped"));
    };
    let requests = requests(seen) as u64;
    let there = requests / every;
    let back = (requests - there) / every;
    Ok(claim.expect(
        (there + back) as f64 + unsent(seen),
        format!("of {requests}, every {every}th each way"),
    ))
}

/// After silence begins, a request is unanswered unless its response passed before.
fn lost_by_silence(seen: &Seen<'_>) -> anyhow::Result<Claim> {
    let claim = Claim::count("requests lost or open", seen.study.unanswered());
    Ok(claim.beside(
        seen.case.load.due as f64 - answered(seen),
        format!("due less responses let through, by {}", source(seen)),
    ))
}

/// Responses let through.
pub(super) fn answered(seen: &Seen<'_>) -> f64 {
    if matches!(seen.case.load.packets, Packets::Udp(_)) {
        seen.packets("back_seen")
    } else {
        answers(seen) as f64
    }
}

/// Who counted them.
fn source(seen: &Seen<'_>) -> &'static str {
    if matches!(seen.case.load.packets, Packets::Udp(_)) { "nft" } else { "tcpdump" }
}

/// Bytes of the proofs that open a connection of `tcp_rr`: those that the measuring end sends, and
/// those that come to it.
const OPENING: [u64; 2] = [44 + 32, 48 + 32];

/// Responses that came to `a` whole over TCP before it closed their connection. Several may share a
/// segment, and one that is sent again is the same: they are counted by their bytes' numbers.
fn answers(seen: &Seen<'_>) -> u64 {
    let opening = if seen.case.load.workload == "tcp_rr" { OPENING[1] } else { 0 };
    let of = |connection: &Connection| connection.come().saturating_sub(opening) / PAYLOAD;
    exchanges(seen).map(of).sum()
}

/// Connections that carry requests. That of `tcp_crr`'s companion has the proofs alone.
fn exchanges<'a>(seen: &'a Seen<'_>) -> impl Iterator<Item = &'a Connection> {
    let is_exchange = |connection: &&Connection| connection.sent() != OPENING[0];
    seen.connections.iter().filter(is_exchange)
}

/// More than a tenth was never answered: the 90th percentile is not known.
fn p90_is_withheld(seen: &Seen<'_>) -> anyhow::Result<Claim> {
    let unanswered = 1.0 - answered(seen) / seen.case.load.due as f64;
    // Half as much again as a tenth: what is rounded or cut off cannot matter.
    if unanswered < 0.15 {
        anyhow::bail!(Skipped(format!(
            "the machine was too busy to cut the path in time: {:.0} % unanswered",
            unanswered * 100.0
        )));
    }
    let why = "more than a tenth of the requests has no response";
    let printed =
        seen.study.percentile_s("response", 0.9).or_else(|| seen.study.metric("response_time_p90"));
    Ok(Claim::new("p90 of response times", Seconds, printed, Withheld(why)))
}

/// Answered requests a second.
fn rate(seen: &Seen<'_>) -> anyhow::Result<Claim> {
    let seconds = seen.case.load.duration_ms as f64 / 1e3;
    let tolerance = Tolerance::relative(0.01, "a response on the way at the end is not counted");
    let metric =
        if seen.case.load.workload == "tcp_crr" { "connection_rate" } else { "transaction_rate" };
    let claim =
        Claim::new("answered a second", PerSecond, seen.study.metric(metric), Equal(tolerance));
    // Over TCP several requests may share a segment: only their answers are counted.
    let is_counted = matches!(seen.case.load.packets, Packets::Udp(_));
    let expected = (seen.case.load.due as f64 - unsent(seen)) / seconds;
    let claim = if is_counted { claim.expect(expected, "the rate asked for") } else { claim };
    Ok(claim
        .beside(answered(seen) / seconds, format!("{}, responses over the duration", source(seen))))
}
