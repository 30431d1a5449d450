//! Many short runs of requests and files: every N-th packet is dropped, there, back or both ways,
//! or the path goes silent before the end.
//!
//! Timeouts range from 0.1 to 2 times the duration, loops are open and closed. Requests over UDP
//! are lost with their packet: the rules' counters say how many. TCP sends again: an operation is
//! answered if its last byte came before its connection was closed, which is when its time was over
//! or the trial ended; `tcpdump` says when that was. Each run is exact to the operation, or counts
//! as one that differs. The runs follow from their number alone, so that one that differs can be
//! repeated.

use std::collections::BTreeMap;

use super::super::capture::Connection;
use super::super::claim::Claim;
use super::super::ground::{Ground, PLAIN};
use super::super::judge;
use super::super::serving::PORT;
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
/// Drop rates that TCP still survives.
const EVERY_SEGMENT: [u64; 5] = [5, 11, 23, 37, 101];
/// Files, and how many are under way at once.
const FILE_BYTES: u64 = 20 << 10;
const STREAMS: u64 = 2;
/// Timeouts, in tenths of the duration.
const TIMEOUTS: [u64; 6] = [1, 3, 5, 10, 15, 20];
/// Workloads in turn. In some runs the path goes silent, at one of these times.
const TURNS: [&str; 8] =
    ["udp_rr", "tcp_rr", "udp_rr", "tcp_crr", "udp_rr", "http", "udp_rr", "ftp"];
const SILENCE_EVERY: u64 = 5;
const SILENT_FROM_MS: [u64; 5] = [200, 350, 450, 550, 600];
/// Requests around the rank of a percentile that may be on either side of it: answers on the way
/// when silence began.
const AROUND_RANK: f64 = 3.0;
/// How far a bound may be below arithmetic.
const BOUND_TOLERANCE: f64 = 0.05;

/// Differences found in one run; empty if it is exact.
type Wrong = Vec<String>;

/// Makes `n_runs` runs; the claims are how many of each workload's are exact.
pub(in super::super) fn run(ground: &mut Ground, n_runs: u64) -> Vec<Claim> {
    let mut tallies: BTreeMap<(&str, bool), [u64; 2]> = BTreeMap::new();
    for number in 0..n_runs {
        let case = case(number);
        let is_silent = matches!(case.fault, Fault::DropFrom { .. });
        let wrong = match judge::run(ground, &case) {
            Ok(Ok(seen)) => wrong(&seen),
            Ok(Err(skipped)) => vec![skipped.to_string()],
            Err(error) => vec![format!("{error:#}")],
        };
        let [exact, all] = tallies.entry((case.load.workload, is_silent)).or_default();
        *all += 1;
        *exact += u64::from(wrong.is_empty());
        let verdict = if wrong.is_empty() { "exact".to_owned() } else { wrong.join("; ") };
        eprintln!("run {number}: {}, {:?}: {verdict}", case.load.workload, case.fault);
    }
    let claims = tallies.iter().map(|((workload, is_silent), [exact, all])| {
        let how = match (*is_silent, *workload) {
            (false, _) => "drops whose operations are answered, lost or open to the last one",
            (true, "udp_rr" | "tcp_crr") => {
                "silence that are exact, and whose p90 and p99 are numbers or at least the time \
                    waited"
            }
            (true, _) => "silence whose operations are answered, lost or open to the last one",
        };
        let source = if *workload == "udp_rr" {
            "runs; per run nft's counters"
        } else {
            "runs; per run tcpdump's segments"
        };
        Claim::count(format!("{workload}: runs with {how}"), Some(*exact as f64))
            .expect(*all as f64, source)
    });
    claims.collect()
}

/// The run with this number.
fn case(number: u64) -> Network {
    let pick = |of: &[u64], n: u64| of[(n % of.len() as u64) as usize];
    let workload = TURNS[(number % TURNS.len() as u64) as usize];
    let is_silent = number % SILENCE_EVERY == SILENCE_EVERY - 1;
    let every = pick(if workload == "udp_rr" { &EVERY } else { &EVERY_SEGMENT }, number);
    // Each workload has every timeout, first with open loops, then with closed ones.
    let round = number / TURNS.len() as u64;
    let fault = match number % 3 {
        _ if is_silent => {
            Fault::DropFrom { after_ms: pick(&SILENT_FROM_MS, number / SILENCE_EVERY) }
        }
        0 => Fault::Drop { every, back: false },
        1 => Fault::DropAnswers { every },
        _ => Fault::Drop { every, back: true },
    };
    // Large segments go one way.
    let of_files = if is_silent { fault } else { Fault::DropAnswers { every } };
    let timeout_ms = pick(&TIMEOUTS, round) * DURATION_MS / 10;
    let timeout = if is_silent {
        "timeout = \"10 s\"".to_owned()
    } else {
        format!("timeout = \"{timeout_ms} ms\"")
    };
    let is_open = is_silent || (round / TIMEOUTS.len() as u64).is_multiple_of(2);
    let due = |rate: u64| if is_open { rate } else { 0 };
    let pace = |rate: u64| pace(due(rate));
    let sizes = format!("request_size = \"{PAYLOAD} B\", response_size = \"{PAYLOAD} B\"");
    let udp_rate = if is_silent { FAST_RATE } else { RATE };
    match workload {
        "tcp_rr" => network(workload, format!("{sizes}, {}", pace(RATE)), fault, due(RATE)),
        "tcp_crr" => {
            let params = format!(
                "{sizes}, streams = 256, close = \"reset\", {timeout}, rate = \"{CONNECTION_RATE} \
                    pps\""
            );
            network(workload, params, fault, CONNECTION_RATE)
        }
        "http" | "ftp" => {
            let params = format!(
                "streams = {STREAMS}, file_size = \"{FILE_BYTES} B\", port = {PORT}, {timeout}"
            );
            network(workload, params, of_files, 0)
        }
        _ => network(
            workload,
            format!("{sizes}, {timeout}, {}", pace(udp_rate)),
            fault,
            due(udp_rate),
        ),
    }
}

/// Returns the parameters of an open loop with `due` operations a second; 0 is a closed loop.
fn pace(due: u64) -> String {
    match due {
        0 => "depth = 8".to_owned(),
        _ => format!("depth = 4096, rate = \"{due} pps\""),
    }
}

fn network(workload: &'static str, params: String, fault: Fault, rate: u64) -> Network {
    let (packets, watch) = match workload {
        "udp_rr" => (Packets::Udp(PAYLOAD), Watch::Nothing),
        "http" | "ftp" => (Packets::TcpData, Watch::Segments),
        _ => (Packets::Tcp(PAYLOAD), Watch::Segments),
    };
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
    Network { name: "requests in many runs", between: PLAIN, fault, load, watch, checks: &[] }
}

/// The account of operations as printed: due, answered, lost, open.
fn account(seen: &Seen<'_>) -> Option<[f64; 4]> {
    let get = |name| seen.study.metric(name);
    Some([
        get("operations_due")?,
        get("operations_answered")?,
        get("operations_lost")?,
        get("operations_open")?,
    ])
}

fn equal(wrong: &mut Wrong, what: &str, printed: f64, counted: f64) {
    if (printed - counted).abs() > 0.5 {
        wrong.push(format!("{what}: printed {printed}, counted {counted}"));
    }
}

/// Returns the differences of a run.
fn wrong(seen: &Seen<'_>) -> Wrong {
    let Some(account) = account(seen) else { return vec!["no account is printed".into()] };
    let [due, answered, lost, open] = account;
    let mut wrong = Wrong::new();
    equal(&mut wrong, "answered + lost + open", answered + lost + open, due);
    let is_silent = matches!(seen.case.fault, Fault::DropFrom { .. });
    wrong.extend(match seen.case.load.workload {
        "udp_rr" if !is_silent => drops(seen, account),
        "http" => files(seen, account),
        "ftp" => transfers(seen, account),
        _ => delivered(seen, account),
    });
    if is_silent && ["udp_rr", "tcp_crr"].contains(&seen.case.load.workload) {
        wrong.extend(bounds(seen, due));
    }
    wrong
}

/// Answered is what came whole, and all that was due is in the account.
fn delivered(seen: &Seen<'_>, [due, printed, ..]: [f64; 4]) -> Wrong {
    let mut wrong = Wrong::new();
    if seen.case.load.due > 0 {
        equal(&mut wrong, "due", due, seen.case.load.due as f64);
    }
    equal(&mut wrong, "answered", printed, answered(seen));
    wrong
}

/// Every answered file came whole. One of each stream may have come whole and not be answered, as
/// the end of the load cut it off: it is open.
fn covered(wrong: &mut Wrong, [answered, lost, open]: [f64; 3], whole: f64) {
    if !(answered..=answered + (lost + open).min(STREAMS as f64)).contains(&whole) {
        wrong.push(format!(
            "answered: printed {answered} and {} lost or open, whole files {whole}",
            lost + open
        ));
    }
}

/// A request of HTTP is a segment, and its answer was whole when the next one was asked for; all
/// are equally long.
fn files(seen: &Seen<'_>, [due, answered, lost, open]: [f64; 4]) -> Wrong {
    let mut wrong = Wrong::new();
    let asking: Vec<&Connection> =
        seen.connections.iter().filter(|connection| connection.served_at == PORT).collect();
    let asked: usize = asking.iter().map(|connection| connection.departures_s().len()).sum();
    let second =
        |connection: &&Connection| Some(connection.come_by(*connection.departures_s().get(1)?));
    let Some(answer) = asking.iter().find_map(second).filter(|answer| *answer >= FILE_BYTES) else {
        return vec!["no stream asked for a second file".into()];
    };
    equal(&mut wrong, "due", due, asked as f64);
    let whole = asking.iter().map(|one| one.come() / answer).sum::<u64>() as f64;
    covered(&mut wrong, [answered, lost, open], whole);
    wrong
}

/// A transfer of FTP has a data connection of its own, and is answered once the server has said so
/// after the file's last byte.
fn transfers(seen: &Seen<'_>, [due, answered, lost, open]: [f64; 4]) -> Wrong {
    let mut wrong = Wrong::new();
    let is_data = |connection: &&Connection| connection.served_at != PORT && connection.sent() == 0;
    let files: Vec<&Connection> = seen.connections.iter().filter(is_data).collect();
    let whole = files.iter().filter(|one| one.come() == FILE_BYTES).count() as f64;
    covered(&mut wrong, [answered, lost, open], whole);
    let begun = files.len() as f64;
    if !(begun..=begun + STREAMS as f64).contains(&due) {
        wrong.push(format!("due: printed {due}, data connections {begun}"));
    }
    wrong
}

/// Every request that was dropped, or whose answer was, is lost or open, and no other.
fn drops(seen: &Seen<'_>, [due, _, lost, open]: [f64; 4]) -> Wrong {
    let mut wrong = Wrong::new();
    let unsent = unsent(seen);
    equal(&mut wrong, "due", due, requests(seen) + unsent);
    equal(
        &mut wrong,
        "lost and open",
        lost + open,
        seen.packets("there_hit") + seen.packets("back_hit") + unsent,
    );
    wrong
}

/// After silence began nothing is answered; percentiles among what is not answered are bounds.
fn bounds(seen: &Seen<'_>, due: f64) -> Wrong {
    let mut wrong = Wrong::new();
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
            // The requests due since then are as many as were due after this one, and each was
            // waited for until the end at least.
            let waited = (unanswered - beyond) / rate;
            let is_right = number.is_none()
                && bound.is_some_and(|bound| bound >= waited * (1.0 - BOUND_TOLERANCE));
            if !is_right {
                wrong.push(format!(
                    "p{}: printed {number:?}, > {bound:?}; waited for {waited} s",
                    quantile * 100.0
                ));
            }
        } else if unanswered < beyond - AROUND_RANK
            && number.is_none_or(|number| number > DURATION_MS as f64 / 1e3)
        {
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
        let of =
            |workload: &str| cases.iter().filter(|case| case.load.workload == workload).count();
        let silent =
            cases.iter().filter(|case| matches!(case.fault, Fault::DropFrom { .. })).count();
        let distinct: BTreeSet<String> =
            cases.iter().map(|case| format!("{:?} {}", case.fault, case.load.params)).collect();
        assert_eq!(silent, 20);
        assert!(distinct.len() >= 75, "{} distinct runs", distinct.len());
        for tenths in TIMEOUTS {
            let timeout = format!("timeout = \"{} ms\"", tenths * DURATION_MS / 10);
            assert!(cases.iter().any(|case| case.load.params.contains(&timeout)), "{timeout}");
        }
        assert!(
            cases.iter().any(|case| case.load.due == 0 && case.load.workload == "tcp_rr"),
            "closed loops over TCP"
        );
        assert_eq!(["udp_rr", "tcp_rr", "tcp_crr", "http", "ftp"].map(of), [50, 13, 13, 12, 12]);
    }
}
