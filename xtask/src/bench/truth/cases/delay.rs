//! Delay that is known exactly: through the relay, between ends that have one clock and between
//! ends that have two.

use std::time::Duration;

use anyhow::Context as _;

use super::super::claim::{Claim, Relation, Tolerance, Unit};
use super::super::ground::{Between, CLOCK_AHEAD_S, End, Family, Ground, PLAIN};
use super::super::judge::run_plan;
use super::super::relay::Delays;
use super::{Clock, Fault, Load, Network, Packets, Seen, Special, Watch, special};
use Relation::{AtLeast, AtMost, Equal, Withheld};
use Unit::{BitRate, Ratio, Seconds};

type Check = fn(&Seen<'_>) -> anyhow::Result<Claim>;

const DELAY_US: u64 = 5000;
const PAYLOAD: u64 = 400;
const RELAYED: Between = Between { family: Family::Relay, ..PLAIN };
const DELAYED: Fault = Fault::Relay { delays: Delays::Load, delay_us: DELAY_US, reorder_every: 0 };
/// The control connection is slow and the load is not, so that clocks are known worse than the
/// delay.
const CONTROL_DELAYED: Fault =
    Fault::Relay { delays: Delays::Others, delay_us: DELAY_US, reorder_every: 0 };

const fn case(name: &'static str, load: Load, checks: &'static [Check]) -> Network {
    Network { name, between: RELAYED, fault: DELAYED, load, watch: Watch::Nothing, checks }
}

const FRAMES: Load = Load {
    workload: "frames",
    params: "mode = \"udp\", frame_size = \"446 B\", rate = \"500 pps\", allow_outside_lab = true, \
        device = \"lrx\"",
    duration_ms: 1500,
    warmup_ms: 0,
    due: 750,
    packets: Packets::Udp(PAYLOAD),
    clock: Clock::Same,
};

const REQUESTS: Load = Load {
    workload: "udp_rr",
    params: "request_size = \"400 B\", response_size = \"400 B\", depth = 64, rate = \"200 pps\"",
    due: 300,
    ..FRAMES
};

const STREAM: Load = Load {
    workload: "udp_stream",
    params: "datagram_size = \"400 B\", rate = \"2 kpps\"",
    due: 3000,
    ..FRAMES
};

pub(super) static CASES: &[Network] = &[
    case("frames, 5 ms one way, one clock", FRAMES, &[one_way, uncertainty_of_one_clock]),
    case(
        "frames, 5 ms one way, two clocks a day apart",
        Load { clock: Clock::Other, ..FRAMES },
        &[one_way, uncertainty],
    ),
    Network {
        fault: CONTROL_DELAYED,
        ..case(
            "frames without delay, two clocks known to 5 ms",
            Load { clock: Clock::Other, ..FRAMES },
            &[one_way_is_withheld, p50_is_withheld],
        )
    },
    case("udp_rr, 5 ms each way", REQUESTS, &[round_trip, response_time]),
    case("udp_stream, 5 ms one way", STREAM, &[no_loss, no_loss_in_any_interval, nothing_falls]),
];

/// Median time in the relay, as it counted itself; it cannot be shorter than asked for.
fn stayed_s(seen: &Seen<'_>, way: &str) -> f64 {
    seen.relayed(way, "stayed_us") / 1e6
}

/// Largest addition of the kernel, two wake-ups and the relay's own queue on a busy machine.
const WAKE_UPS: f64 = 1e-3;

fn one_way(seen: &Seen<'_>) -> anyhow::Result<Claim> {
    let doubt = seen.study.metric("clock_uncertainty").unwrap_or_default();
    let why = "wake-ups of the receiver on a busy machine, and the clock uncertainty printed";
    let tolerance = Tolerance::absolute(WAKE_UPS + doubt, why);
    let claim = Claim::new("one-way delay, median", Seconds, median(seen), Equal(tolerance));
    Ok(claim
        .beside(stayed_s(seen, "there"), format!("the relay of {} ms, median", DELAY_US / 1000)))
}

fn median(seen: &Seen<'_>) -> Option<f64> {
    seen.study.metric("service_time_p50").or_else(|| seen.study.metric("response_time_p50"))
}

const NOT_KNOWN: &str = "the delay is no longer than the clocks are uncertain";

fn one_way_is_withheld(seen: &Seen<'_>) -> anyhow::Result<Claim> {
    Ok(Claim::new("one-way delay, median", Seconds, median(seen), Withheld(NOT_KNOWN)))
}

/// The same number in another place.
fn p50_is_withheld(seen: &Seen<'_>) -> anyhow::Result<Claim> {
    let printed = seen
        .study
        .percentile_s("service", 0.5)
        .or_else(|| seen.study.percentile_s("response", 0.5));
    Ok(Claim::new("p50 among the percentiles", Seconds, printed, Withheld(NOT_KNOWN)))
}

fn uncertainty_of_one_clock(seen: &Seen<'_>) -> anyhow::Result<Claim> {
    let tolerance = Tolerance::absolute(1e-6, "both ends read one clock");
    let printed = seen.study.metric("clock_uncertainty").or(Some(0.0));
    let claim =
        Claim::new("clock uncertainty, 0 if not printed", Seconds, printed, AtMost(tolerance));
    Ok(claim.expect(0.0, "one clock"))
}

/// The doubt about the other clock is printed, and small where the control connection is fast.
fn uncertainty(seen: &Seen<'_>) -> anyhow::Result<Claim> {
    let tolerance = Tolerance::absolute(2.0 * WAKE_UPS, "wake-ups on a busy machine, both ways");
    let printed = seen.study.metric("clock_uncertainty").filter(|doubt| *doubt > 0.0);
    let claim = Claim::new("clock uncertainty", Seconds, printed, AtMost(tolerance));
    Ok(claim.expect(0.0, format!("half a fast round trip; the clocks are {CLOCK_AHEAD_S} s apart")))
}

/// The fastest response waits for nothing but the relay.
fn round_trip(seen: &Seen<'_>) -> anyhow::Result<Claim> {
    let tolerance = Tolerance::absolute(WAKE_UPS, "four wake-ups at the least");
    let printed = seen.study.metric("service_time_min").or_else(|| shortest_s(seen));
    let claim = Claim::new("service time, shortest", Seconds, printed, Equal(tolerance));
    Ok(claim.expect(2.0 * DELAY_US as f64 / 1e6, "twice the relay's delay"))
}

/// The lowest bucket of the distribution of service times.
fn shortest_s(seen: &Seen<'_>) -> Option<f64> {
    Some(seen.study.job()["distributions"]["service"]["buckets"][0][0].as_f64()? / 1e9)
}

/// The median is what the relay kept requests and responses for, and what a busy machine adds.
fn response_time(seen: &Seen<'_>) -> anyhow::Result<Claim> {
    let why = "a response cannot be faster than the relay; histogram buckets are 1 % wide";
    let tolerance = Tolerance::relative(0.01, why);
    let printed = seen.study.metric("response_time_p50");
    let claim = Claim::new("response time, median", Seconds, printed, AtLeast(tolerance));
    let claim = claim.expect(2.0 * DELAY_US as f64 / 1e6, "twice the relay's delay");
    Ok(claim.beside(
        seen.study.percentile_s("response", 0.5).unwrap_or(f64::NAN),
        "the same among the percentiles",
    ))
}

fn no_loss(seen: &Seen<'_>) -> anyhow::Result<Claim> {
    let claim = Claim::count("datagrams lost", seen.study.lost()).expect(0.0, "nothing is dropped");
    let lost = seen.relayed("there", "seen") - seen.case.load.due as f64;
    Ok(claim.beside(lost.abs(), "the relay, less than due"))
}

/// Checks that datagrams in flight at the end of an interval are not lost.
fn no_loss_in_any_interval(seen: &Seen<'_>) -> anyhow::Result<Claim> {
    let worst = seen.study.series("loss_ratio").into_iter().fold(0.0, f64::max);
    let tolerance = Tolerance::absolute(1e-9, "nothing is lost in any");
    let claim =
        Claim::new("largest loss ratio of an interval", Ratio, Some(worst), AtMost(tolerance));
    Ok(claim.expect(0.0, "nothing is dropped"))
}

/// The last interval of a steady stream is no fall: a partial one is not drawn as if it were whole.
fn nothing_falls(seen: &Seen<'_>) -> anyhow::Result<Claim> {
    let series = ["goodput", "goodput_tx"]
        .iter()
        .map(|name| seen.study.series(name))
        .find(|series| !series.is_empty());
    let last = series.and_then(|series| series.last().copied());
    let why = "one interval of 0.1 s on a busy machine";
    let tolerance = Tolerance::relative(0.2, why);
    let claim = Claim::new("goodput of the last interval", BitRate, last, AtLeast(tolerance));
    Ok(claim.expect((2000 * PAYLOAD * 8) as f64, "2000 a second of 400 B"))
}

pub(super) static SPECIAL: &[Special] =
    &[special("udp_rr while the agent is stopped for 300 ms", stopped_tester)];

/// A pause of the tester must not be printed as the path's latency without a mark.
fn stopped_tester(ground: &mut Ground) -> anyhow::Result<Vec<Claim>> {
    const STOPPED: Duration = Duration::from_millis(300);
    ground.lay(&PLAIN, false)?;
    let agent = ground.agent().to_string();
    let signal = |name: &str| send_signal(&agent, name);
    let load = Load {
        workload: "udp_rr",
        params: "request_size = \"200 B\", response_size = \"200 B\", depth = 1024, rate = \"200 \
            pps\"",
        duration_ms: 2000,
        ..FRAMES
    };
    let host = Ground::address(Family::V4, End::B);
    let study = std::thread::scope(|scope| {
        let ground = &*ground;
        let measuring = scope.spawn(move || run_plan(ground, &load.plan(), Some(host)));
        // Set-up takes less than this, and the measurement lasts longer.
        std::thread::sleep(Duration::from_millis(1200));
        let stopped = signal("-STOP").and_then(|()| {
            std::thread::sleep(STOPPED);
            signal("-CONT")
        });
        let study = measuring.join().expect("a run does not panic");
        stopped.and(study)
    })?;
    let is_marked = study.validity().contains("stood still")
        || study.validity().contains("tester")
        || study.validity().contains("stall");
    let claim = Claim::count(
        "trials marked because the tester stood still",
        Some(f64::from(u8::from(is_marked))),
    );
    Ok(vec![claim.expect(1.0, "SIGSTOP for 300 ms")])
}

fn send_signal(agent: &str, name: &str) -> anyhow::Result<()> {
    let status =
        std::process::Command::new("kill").args([name, agent]).status().context("start kill")?;
    anyhow::ensure!(status.success(), "kill {name} {agent} failed");
    Ok(())
}
