//! Many short runs of requests: every N-th request, every N-th answer or both are dropped, or the path goes silent before the end.
//!
//! Timeouts range from 0.1 to 2 times the duration, loops are open and closed. Each run is exact to the request against the rules'
//! counters, or counts as one that differs. The runs follow from their number alone, so that one that differs can be repeated.

use super::super::claim::Claim;
use super::super::ground::{Ground, PLAIN};
use super::super::judge;
use super::requests::{answered, requests, unsent};
use super::{Clock, Fault, Load, Network, Packets, Seen, Watch};

/// Bytes of payload of requests and responses: no other datagram on the path is as long.
const PAYLOAD: u64 = 200;
const DURATION_MS: u64 = 700;
/// Of an open loop with drops, and of one whose 99th percentile is judged.
const RATE: u64 = 400;
const FAST_RATE: u64 = 2_000;
/// Connections a second.
const CONNECTION_RATE: u64 = 200;
const EVERY: [u64; 7] = [2, 3, 5, 11, 37, 53, 101];
/// Timeouts, in tenths of the duration.
const TIMEOUTS: [u64; 6] = [1, 3, 5, 10, 15, 20];
/// Every so many runs the path goes silent instead, at one of these times.
const SILENCE_EVERY: u64 = 5;
const SILENT_FROM_MS: [u64; 5] = [200, 350, 450, 550, 600];
/// Requests around the rank of a percentile that may be on either side of it: answers on the way when silence began.
const AROUND_RANK: f64 = 3.0;
/// How far a bound may be below arithmetic.
const BOUND_TOLERANCE: f64 = 0.05;

/// What was found wrong in one run; empty if it is exact.
type Wrong = Vec<String>;

/// Makes `n_runs` runs; the claims are how many of them are exact.
pub(in super::super) fn run(ground: &mut Ground, n_runs: u64) -> Vec<Claim> {
    let mut exact = [0_u64; 2];
    let mut all = [0_u64; 2];
    for number in 0..n_runs {
        let case = case(number);
        let is_silent = matches!(case.fault, Fault::DropFrom { .. });
        let wrong = match judge::run(ground, &case) {
            Ok(Ok(seen)) if is_silent => silence(&seen),
            Ok(Ok(seen)) => drops(&seen),
            Ok(Err(skipped)) => vec![skipped.to_string()],
            Err(error) => vec![format!("{error:#}")],
        };
        all[usize::from(is_silent)] += 1;
        exact[usize::from(is_silent)] += u64::from(wrong.is_empty());
        let verdict = if wrong.is_empty() { "exact".to_owned() } else { wrong.join("; ") };
        eprintln!("run {number}: {}, {:?}: {verdict}", case.load.workload, case.fault);
    }
    let claim = |quantity: &str, place: usize, source: &str| {
        Claim::count(quantity, Some(exact[place] as f64)).expect(all[place] as f64, source)
    };
    vec![
        claim(
            "runs with drops whose requests are answered, lost or open to the last one",
            0,
            "runs; per run nft's counters",
        ),
        claim(
            "runs with silence that are exact, and whose p90 and p99 are numbers or at least the time waited",
            1,
            "runs; per run nft's counters, and rate times time",
        ),
    ]
}

/// The run with this number.
fn case(number: u64) -> Network {
    let pick = |of: &[u64], n: u64| of[(n % of.len() as u64) as usize];
    let sizes = format!("request_size = \"{PAYLOAD} B\", response_size = \"{PAYLOAD} B\"");
    if number % SILENCE_EVERY == SILENCE_EVERY - 1 {
        let turn = number / SILENCE_EVERY;
        let fault = Fault::DropFrom { after_ms: pick(&SILENT_FROM_MS, turn) };
        return if turn.is_multiple_of(2) {
            let params = format!("{sizes}, depth = 4096, timeout = \"10 s\", rate = \"{FAST_RATE} pps\"");
            network("udp_rr", params, fault, FAST_RATE)
        } else {
            let params = format!("{sizes}, streams = 256, close = \"reset\", rate = \"{CONNECTION_RATE} pps\"");
            network("tcp_crr", params, fault, CONNECTION_RATE)
        };
    }
    let every = pick(&EVERY, number);
    let fault = match number % 3 {
        0 => Fault::Drop { every, back: false },
        1 => Fault::DropAnswers { every },
        _ => Fault::Drop { every, back: true },
    };
    // The places of both lists have no common divisor: all pairs come.
    let timeout_ms = pick(&TIMEOUTS, number) * DURATION_MS / 10;
    let is_open = (number / 2).is_multiple_of(2);
    let (pace, rate) =
        if is_open { (format!("depth = 4096, rate = \"{RATE} pps\""), RATE) } else { ("depth = 8".to_owned(), 0) };
    network("udp_rr", format!("{sizes}, {pace}, timeout = \"{timeout_ms} ms\""), fault, rate)
}

fn network(workload: &'static str, params: String, fault: Fault, rate: u64) -> Network {
    let packets = if workload == "udp_rr" { Packets::Udp(PAYLOAD) } else { Packets::Tcp(PAYLOAD) };
    let load = Load {
        workload,
        // As long as the program, which ends after the runs.
        params: String::leak(params),
        duration_ms: DURATION_MS,
        warmup_ms: 0,
        due: rate * DURATION_MS / 1000,
        packets,
        clock: Clock::Same,
    };
    Network { name: "requests in many runs", between: PLAIN, fault, load, watch: Watch::Nothing, checks: &[] }
}

/// The account of operations as printed: due, answered, lost, open.
fn account(seen: &Seen<'_>) -> Option<[f64; 4]> {
    let get = |name| seen.study.metric(name);
    Some([get("operations_due")?, get("operations_answered")?, get("operations_lost")?, get("operations_open")?])
}

fn equal(wrong: &mut Wrong, what: &str, printed: f64, counted: f64) {
    if (printed - counted).abs() > 0.5 {
        wrong.push(format!("{what}: printed {printed}, counted {counted}"));
    }
}

/// Every request that was dropped, or whose answer was, is lost or open, and no other.
fn drops(seen: &Seen<'_>) -> Wrong {
    let Some([due, answered, lost, open]) = account(seen) else { return vec!["no account is printed".into()] };
    let mut wrong = Wrong::new();
    let unsent = unsent(seen);
    equal(&mut wrong, "due", due, requests(seen) + unsent);
    equal(&mut wrong, "answered + lost + open", answered + lost + open, due);
    equal(&mut wrong, "lost and open", lost + open, seen.packets("there_hit") + seen.packets("back_hit") + unsent);
    wrong
}

/// After silence began nothing is answered; percentiles among what is not answered are bounds.
fn silence(seen: &Seen<'_>) -> Wrong {
    let Some([due, printed, lost, open]) = account(seen) else { return vec!["no account is printed".into()] };
    let mut wrong = Wrong::new();
    equal(&mut wrong, "due", due, seen.case.load.due as f64);
    equal(&mut wrong, "answered + lost + open", printed + lost + open, due);
    equal(&mut wrong, "answered", printed, answered(seen));
    let unanswered = due - answered(seen);
    let rate = seen.case.load.due as f64 * 1e3 / DURATION_MS as f64;
    for quantile in [0.9, 0.99] {
        // Ten operations beyond a percentile are needed for it to be printed.
        if due * (1.0 - quantile) < 10.0 {
            continue;
        }
        let beyond = due - (quantile * due).ceil();
        let number = seen.study.percentile_s("response", quantile);
        let bound = seen.study.bound_s("response", quantile);
        if unanswered > beyond + AROUND_RANK {
            // The requests due since then are as many as were due after this one, and each was waited for until the end at least.
            let waited = (unanswered - beyond) / rate;
            let is_right = number.is_none() && bound.is_some_and(|bound| bound >= waited * (1.0 - BOUND_TOLERANCE));
            if !is_right {
                wrong.push(format!("p{}: printed {number:?}, > {bound:?}; waited for {waited} s", quantile * 100.0));
            }
        } else if unanswered < beyond - AROUND_RANK && number.is_none_or(|number| number > DURATION_MS as f64 / 1e3) {
            wrong.push(format!("p{}: printed {number:?} among the answered", quantile * 100.0));
        }
    }
    wrong
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_hundred_runs_vary_what_is_dropped_and_how_long_is_waited() {
        let cases: Vec<Network> = (0..100).map(case).collect();
        let silent = cases.iter().filter(|case| matches!(case.fault, Fault::DropFrom { .. })).count();
        let distinct: BTreeSet<String> =
            cases.iter().map(|case| format!("{:?} {}", case.fault, case.load.params)).collect();
        assert_eq!(silent, 20);
        assert!(distinct.len() >= 75, "{} distinct runs", distinct.len());
        for tenths in TIMEOUTS {
            let timeout = format!("timeout = \"{} ms\"", tenths * DURATION_MS / 10);
            assert!(cases.iter().any(|case| case.load.params.contains(&timeout)), "{timeout}");
        }
        assert!(
            cases.iter().any(|case| case.load.due == 0) && cases.iter().any(|case| case.load.workload == "tcp_crr")
        );
    }
}
