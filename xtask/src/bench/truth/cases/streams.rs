//! TCP streams: goodput on shaped paths, and what the sender's kernel says, for both directions and
//! several connections.

use super::super::claim::{Claim, EXACT, Relation, Tolerance, Unit};
use super::super::ground::{Between, End, Family, Ground, PLAIN};
use super::super::instruments::{self, Shaper, Socket};
use super::super::judge::of_load;
use super::super::study::Study;
use super::{Clock, Fault, Load, Network, Packets, Seen, Special, Watch, special};
use Relation::{AtLeast, AtMost, Equal};
use Unit::{BitRate, Bytes, Count, PerSecond, Seconds};
use serde_json::Value;

type Check = fn(&Seen<'_>) -> anyhow::Result<Claim>;

/// Ethernet, IPv4, IPv6, and TCP with time stamps, B; frames are shaped without FCS.
const ETHERNET: u64 = 14;
const IPV4: u64 = 20;
const IPV6: u64 = 40;
const TCP: u64 = 32;
/// Bytes that VXLAN adds: Ethernet's header inside, VXLAN, UDP, IPv4 (RFC 7348 clause 5).
const VXLAN: u64 = 14 + 8 + 8 + 20;

const fn load(params: &'static str, duration_ms: u64, warmup_ms: u64) -> Load {
    Load {
        workload: "tcp_stream",
        params,
        duration_ms,
        warmup_ms,
        due: 0,
        packets: Packets::TcpData,
        clock: Clock::Same,
    }
}

const fn shaped(name: &'static str, family: Family, mtu: u32, bits_per_second: u64) -> Network {
    let between = Between { family, mtu, bits_per_second, ..PLAIN };
    Network {
        name,
        between,
        fault: Fault::None,
        load: load("", 1500, 1000),
        watch: Watch::Counters,
        checks: RATE,
    }
}

const fn watched(name: &'static str, params: &'static str) -> Network {
    let between = Between { bits_per_second: 50_000_000, ..PLAIN };
    Network {
        name,
        between,
        fault: Fault::None,
        load: load(params, 2000, 0),
        watch: Watch::Sockets,
        checks: SENDER,
    }
}

const RATE: &[Check] = &[intervals_add_up, goodput, goodput_is_possible, frames_carry_payload];
const SLOW_RATE: &[Check] = &[intervals_add_up, goodput, goodput_is_possible, goodput_of_iperf3];
const SENDER: &[Check] = &[rtt, window, retransmits];

pub(super) static CASES: &[Network] = &[
    Network {
        checks: SLOW_RATE,
        ..shaped("tcp_stream through 3 Mbit/s, MTU 1500", Family::V4, 1500, 3_000_000)
    },
    Network {
        checks: SLOW_RATE,
        ..shaped("tcp_stream through 10 Mbit/s over IPv6, MTU 1280", Family::V6, 1280, 10_000_000)
    },
    shaped("tcp_stream through 100 Mbit/s, MTU 9000", Family::V4, 9000, 100_000_000),
    Network {
        // Of what is in the tunnel, instruments at the bridge see no more than that it is there.
        checks: &[goodput, goodput_is_possible, goodput_of_iperf3, frames_carry_payload],
        ..shaped(
            "tcp_stream through 100 Mbit/s in VXLAN, MTU 1500",
            Family::Vxlan,
            1500,
            100_000_000,
        )
    },
    Network {
        between: Between { bits_per_second: 1_000_000_000, offloads: true, ..PLAIN },
        ..shaped("tcp_stream through 1 Gbit/s, MTU 1500", Family::V4, 1500, 1_000_000_000)
    },
    watched("tcp_stream, sends, 1 connection", "direction = \"tx\", streams = 1"),
    watched("tcp_stream, sends, 8 connections", "direction = \"tx\", streams = 8"),
    watched("tcp_stream, receives, 2 connections", "direction = \"rx\", streams = 2"),
    watched("tcp_stream, both ways, 2 connections each", "direction = \"both\", streams = 2"),
    Network {
        fault: Fault::Drop { every: 500, back: false },
        checks: &[retransmits],
        ..watched("tcp_stream, every 500th segment dropped", "direction = \"tx\", streams = 2")
    },
];

/// Headers of a segment in the packets of the path, B.
fn headers(family: Family) -> u64 {
    match family {
        Family::V4 => IPV4 + TCP,
        Family::V6 => IPV6 + TCP,
        Family::Vxlan | Family::Relay => VXLAN + IPV4 + TCP,
    }
}

/// Goodput that frames of the path's MTU leave at its rate.
fn possible(between: &Between) -> f64 {
    let mtu = u64::from(between.mtu);
    let headers = headers(between.family);
    between.bits_per_second as f64 * (mtu - headers) as f64 / (mtu + ETHERNET) as f64
}

/// The result is the mean of its own intervals, whose sum [`intervals_add_up`] judges.
fn goodput(seen: &Seen<'_>) -> anyhow::Result<Claim> {
    let tolerance = Tolerance::relative(0.01, "an interval at either end that is not whole");
    let claim = Claim::new("goodput", BitRate, seen.study.metric("goodput"), Equal(tolerance));
    let from = seen.case.load.warmup_ms as f64 / 1e3;
    let intervals: Vec<(f64, f64)> =
        intervals(seen).into_iter().filter(|(_, until)| *until > from + 1e-6).collect();
    let mean = intervals.iter().map(|(rate, _)| rate).sum::<f64>() / intervals.len() as f64;
    Ok(claim.expect(mean, "mean of the intervals after the warm-up"))
}

/// Goodput and end of each interval until the measurement's end, s; all are equally long.
fn intervals(seen: &Seen<'_>) -> Vec<(f64, f64)> {
    let end = (seen.case.load.warmup_ms + seen.case.load.duration_ms) as f64 / 1e3;
    let intervals = seen.study.series("goodput_tx").into_iter().zip(seen.study.series("seconds"));
    intervals.filter(|(_, until)| *until <= end + 1e-6).collect()
}

/// Payload in frames that the shaper sent, B; it counts from the Ethernet header on.
fn payload(seen: &Seen<'_>, shaper: Shaper) -> f64 {
    shaper.bytes as f64
        - shaper.packets as f64 * (headers(seen.case.between.family) + ETHERNET) as f64
}

/// All intervals, those of the warm-up too, add up to what passed the bridge: this needs no steady
/// rate.
fn intervals_add_up(seen: &Seen<'_>) -> anyhow::Result<Claim> {
    let why =
        "segments sent again, and the time that tc takes to be read, at the rate of that moment";
    let tolerance = Tolerance::relative(0.03, why);
    let intervals = intervals(seen);
    let length_s = intervals.first().map_or(0.0, |(_, until)| *until);
    let bytes = intervals.iter().map(|(rate, _)| rate * length_s / 8.0).sum();
    let printed = (!intervals.is_empty()).then_some(bytes);
    let claim = Claim::new("payload of all intervals", Bytes, printed, Equal(tolerance));
    let window = seen.window.unwrap_or_default();
    Ok(claim.beside(payload(seen, window.shaper), "tc, bytes sent less headers"))
}

fn goodput_is_possible(seen: &Seen<'_>) -> anyhow::Result<Claim> {
    let tolerance = Tolerance::absolute(
        burst_bits(&seen.case.between) / 1.5,
        "one burst of the shaper in 1.5 s",
    );
    let claim = Claim::new("goodput", BitRate, seen.study.metric("goodput"), AtMost(tolerance));
    Ok(claim.expect(possible(&seen.case.between), "rate x payload / frame"))
}

fn goodput_of_iperf3(seen: &Seen<'_>) -> anyhow::Result<Claim> {
    let tolerance = Tolerance::relative(0.05, "another second: its losses fall otherwise");
    let claim = Claim::new("goodput", BitRate, seen.study.metric("goodput"), Equal(tolerance));
    let beside = instruments::iperf3(seen.ground, seen.case.between.family, 2)?;
    Ok(claim.beside(beside, "iperf3, its receiver"))
}

/// Returns the bits that the shaper sends at once.
fn burst_bits(between: &Between) -> f64 {
    let is_large = between.bits_per_second >= 500_000_000 || between.mtu > 4000;
    if is_large { 64e3 * 8.0 } else { 4e3 * 8.0 }
}

/// Frames carry their payload and headers: layer 2 moves more bits than layer 4.
fn frames_carry_payload(seen: &Seen<'_>) -> anyhow::Result<Claim> {
    let printed = seen.study.metric("throughput_l2");
    let claim = Claim::new("throughput of frames", BitRate, printed, AtLeast(EXACT));
    Ok(claim.expect(seen.study.metric("goodput").unwrap_or(f64::NAN), "the goodput they carry"))
}

/// Sockets that send load, of all readings of `ss` but the first, which may be before the load.
fn senders(seen: &Seen<'_>) -> Vec<Vec<Socket>> {
    /// A socket that has sent no more is one of set-up.
    const LEAST_BYTES: f64 = 20e3;
    let is_sender = |socket: &Socket| socket.bytes_sent > LEAST_BYTES;
    let readings =
        seen.sockets.iter().map(|[a, b]| a.iter().chain(b).copied().filter(is_sender).collect());
    readings.filter(|sockets: &Vec<Socket>| !sockets.is_empty()).collect()
}

/// The mean over readings of what `of` makes of each.
fn mean(readings: &[Vec<Socket>], of: impl Fn(&[Socket]) -> f64) -> f64 {
    readings.iter().map(|sockets| of(sockets)).sum::<f64>() / readings.len() as f64
}

const SAMPLED: Tolerance =
    Tolerance::relative(0.1, "both sample a swinging value at times of their own");

fn rtt(seen: &Seen<'_>) -> anyhow::Result<Claim> {
    let readings = senders(seen);
    let claim = Claim::new("rtt", Seconds, seen.study.metric("rtt"), Equal(SAMPLED));
    let of = |sockets: &[Socket]| {
        sockets.iter().map(|socket| socket.rtt_s).sum::<f64>() / sockets.len() as f64
    };
    Ok(claim.beside(mean(&readings, of), format!("ss, {} readings", readings.len())))
}

/// Windows of all connections together.
fn window(seen: &Seen<'_>) -> anyhow::Result<Claim> {
    let readings = senders(seen);
    let is_both = seen.case.load.params.contains("both");
    let names: &[&str] = if is_both {
        &["congestion_window_tx", "congestion_window_rx"]
    } else {
        &["congestion_window"]
    };
    let printed = names.iter().map(|name| seen.study.metric(name)).sum::<Option<f64>>();
    let claim = Claim::new("congestion windows, sum", Bytes, printed, Equal(SAMPLED));
    let of = |sockets: &[Socket]| sockets.iter().map(|socket| socket.window_bytes).sum();
    Ok(claim.beside(mean(&readings, of), format!("ss, {} readings", readings.len())))
}

fn retransmits(seen: &Seen<'_>) -> anyhow::Result<Claim> {
    let [least, most] = seen.window.unwrap_or_default().sent_again;
    let why = "1, and half of what is sent again within 60 ms of the end";
    let tolerance = Tolerance::absolute(1.0 + (most - least) / 2.0, why);
    let is_both = seen.case.load.params.contains("both");
    let names: &[&str] =
        if is_both { &["retransmits_tx", "retransmits_rx"] } else { &["retransmits"] };
    let printed = names.iter().map(|name| seen.study.metric(name)).sum::<Option<f64>>();
    let claim = Claim::new("segments sent again", Count, printed, Equal(tolerance));
    Ok(claim.beside(least.midpoint(most), "SNMP, RetransSegs of both ends"))
}

pub(super) static SPECIAL: &[Special] = &[
    special("live lines of `to -P 4`, every 500th segment dropped", |ground| {
        live_lines(ground, &["-P", "4"])
    }),
    special("live lines of `to -P 2 --bidir`, every 500th segment dropped", |ground| {
        live_lines(ground, &["-P", "2", "--bidir"])
    }),
    special("live lines of `to crr`", |ground| live_lines(ground, &["crr"])),
];

/// Lines add up to the result, and their segments sent again to the kernel's count.
fn live_lines(ground: &mut Ground, arguments: &[&str]) -> anyhow::Result<Vec<Claim>> {
    use anyhow::Context as _;
    let is_crr = arguments.contains(&"crr");
    let rate = if is_crr { 0 } else { 50_000_000 };
    ground.lay(&Between { bits_per_second: rate, ..PLAIN }, false)?;
    if !is_crr {
        ground.nft(&format!(
            "table netdev truth {{ \n chain there {{ type filter hook ingress device lra priority \
                0; policy accept; \n\
             {} meta length > 1000 numgen inc mod 500 == 499 drop\n }}\n}}\n",
            of_load()
        ))?;
    }
    let before = [instruments::snmp(ground, End::A)?, instruments::snmp(ground, End::B)?];
    let mut command = ground.linerate(End::A);
    let output = command
        .args(["to", Ground::address(Family::V4, End::B)])
        .args(arguments)
        .args(["-t", "3", "--json"])
        .output();
    let output = output.context("start linerate to")?;
    let after = [instruments::snmp(ground, End::A)?, instruments::snmp(ground, End::B)?];
    let study = Study::parse(&String::from_utf8_lossy(&output.stdout)).with_context(|| {
        format!("linerate to {}: {}", arguments.join(" "), String::from_utf8_lossy(&output.stderr))
    })?;
    let figures: &[&str] =
        if is_crr { &["connections"] } else { &["payload_bytes_tx", "payload_bytes_rx"] };
    // The drain has a line of its own: the result is without it.
    let measured = || study.lines().filter(|line| line["is_drain"] == false);
    let count: f64 = figures.iter().map(|figure| total(measured(), figure)).sum();
    let seconds = total(measured(), "until_s") - total(measured(), "from_s");
    let mean = if is_crr { count } else { count * 8.0 } / seconds;
    let names: &[&str] = match (is_crr, arguments.contains(&"--bidir")) {
        (true, _) => &["connection_rate"],
        (false, true) => &["goodput_tx", "goodput_rx"],
        (false, false) => &["goodput"],
    };
    let result = names.iter().map(|name| study.metric(name)).sum::<Option<f64>>();
    let unit = if is_crr { PerSecond } else { BitRate };
    let why = "the aim: lines add up to the result";
    let tolerance = Tolerance::relative(0.002, why);
    let claim = Claim::new("mean of the lines", unit, Some(mean), Equal(tolerance));
    let mut claims = vec![claim.expect(result.context("no result")?, "the result of the same run")];
    if !is_crr {
        let risen = |end: usize| after[end]["Tcp.RetransSegs"] - before[end]["Tcp.RetransSegs"];
        let tolerance = Tolerance::absolute(1.0, "one may leave after the last line");
        let printed = total(study.lines(), "retransmits");
        let claim = Claim::new(
            "segments sent again, sum of the lines",
            Count,
            Some(printed),
            Equal(tolerance),
        );
        claims.push(claim.beside(risen(0) + risen(1), "SNMP, RetransSegs of both ends"));
    }
    Ok(claims)
}

/// The sum of a number of each line.
fn total<'a>(lines: impl Iterator<Item = &'a Value>, name: &str) -> f64 {
    lines.filter_map(|line| line[name].as_f64()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn goodput_of_a_path_is_arithmetic() {
        let path = |family, mtu| Between { family, mtu, bits_per_second: 100_000_000, ..PLAIN };
        assert!((possible(&path(Family::V4, 1500)) - 95_640_687.0).abs() < 1.0);
        assert!((possible(&path(Family::V6, 1280)) - 93_353_941.0).abs() < 1.0);
        assert!((possible(&path(Family::Vxlan, 1500)) - 92_338_177.0).abs() < 1.0);
    }
}
