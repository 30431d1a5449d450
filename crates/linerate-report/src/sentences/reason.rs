//! Sentences on reasons why a trial or point is not valid.

use linerate_analysis::thresholds::{
    LONGEST_STAND, MOST_CHANGED, MOST_STEAL, MOST_VERY_LATE, MOST_WAITED,
};
use linerate_analysis::{Imbalance, Reason, Stall, Stopped, TrialSettling};
use linerate_model::{Direction, Incident, Metric, metric};

use super::rate;
use crate::words::count;

/// Hertz in a gigahertz.
const GIGA: f64 = 1e9;
/// Nanoseconds in a millisecond.
const MILLI: f64 = 1e6;

/// Returns the reason why a trial or point is not valid, and what to do about it.
#[must_use]
pub fn reason(reason: &Reason) -> String {
    match advice(reason) {
        None => fact(reason),
        Some(advice) => format!("{}. {advice}", fact(reason)),
    }
}

/// Returns the consequence of a reason and its remedy, which are the same for every trial.
fn advice(reason: &Reason) -> Option<&'static str> {
    Some(match reason {
        Reason::Waited { .. } => {
            "Stop them, or give the endpoint CPUs of its own: `cpus = [2, 3]` in a testbed file \
                (`linerate testbed init HOST` writes one)"
        }
        Reason::OperationsUnbalanced { .. } => "Report this as a defect",
        Reason::NoLocalPort { .. } => {
            "A closed connection keeps its port in TIME_WAIT for 60 s, which limits the rate. \
                Close with a reset or at the server (`close = \"reset\"` or `\"server\"`), \
                measure for a shorter time, or widen net.ipv4.ip_local_port_range"
        }
        Reason::StartedLate { .. } => "Use response times, which include the delay",
        Reason::DiskLess { .. } => "A cache, or blocks that were never written, served the rest",
        Reason::Swapped { .. } => "Free memory, or disable swap (`swapoff -a`)",
        Reason::Frequency { .. } => {
            "Fix its frequency (`cpupower frequency-set -g performance`), or let it settle \
                (`warmup`)"
        }
        Reason::NotCounted { .. } => {
            "Its counters are late or of another port, or frames were lost before it"
        }
        Reason::Stood(Stall { what: Stopped::Machine, .. }) => {
            "Times of operations in flight are left out. The hypervisor paused it, or something \
                stopped all of linerate. Give the machine dedicated CPUs and repeat"
        }
        Reason::Stood(Stall { what: Stopped::Tester, .. }) => {
            "Times of operations in flight are left out. A signal, a debugger, a CPU quota or \
                other programs stopped linerate, not the machine. Remove the cause and repeat"
        }
        Reason::OfTrials { reason, .. } => return advice(reason),
        _ => return None,
    })
}

/// Returns what was observed, without consequence and remedy: for many trials below each other.
#[must_use]
pub fn fact(reason: &Reason) -> String {
    match reason {
        Reason::Failed => "the trial failed".to_owned(),
        Reason::Interrupted => "the trial was interrupted".to_owned(),
        Reason::CampaignEnded => "the campaign ended during the trial".to_owned(),
        Reason::NotRun => "not run".to_owned(),
        Reason::Incident(Incident { host, message, .. }) if host.is_empty() => message.clone(),
        Reason::Incident(Incident { host, message, .. }) => format!("{host}: {message}"),
        Reason::NothingRecorded { job } => format!("{job}: nothing was recorded"),
        Reason::Covered { job, share } => {
            format!("{job}: the receiving end recorded {:.0} % of the measurement", percent(*share))
        }
        Reason::NothingDone { job } => format!("{job}: nothing was sent, received or stepped"),
        Reason::Waited { job, host, worker, share } => format!(
            "{job}: worker {worker} on {host} waited up to {:.1} % of the measurement for a \
                    CPU that other programs used (limit {} %)",
            percent(*share),
            percent(MOST_WAITED)
        ),
        Reason::OperationsUnbalanced { job, due, answered, lost, open } => format!(
            "{job}: {due} operations due, but {answered} answered + {lost} lost + {open} open"
        ),
        Reason::LossesUnbalanced { imbalance } => {
            format!("the loss ledger does not balance: {}", self::imbalance(imbalance))
        }
        Reason::NoLocalPort { job, refused, share } => format!(
            "{job}: {refused:.0} connections found no free local port ({:.1} % of the \
                    attempts)",
            percent(*share)
        ),
        Reason::Offered { job, share } => format!(
            "{job}: {:.1} % of the intended load was offered, because the sender or the path \
                    was saturated",
            percent(*share)
        ),
        Reason::StartedLate { job, share } => format!(
            "{job}: {:.1} % of the requests started more than one gap late",
            percent(*share)
        ),
        Reason::DepthError { job, depth, error } => format!(
            "{job}: {depth:.2} transfers were in flight, {:.1} % from the sum of the service \
                    times (Little's law): one of the two figures is wrong",
            percent(*error)
        ),
        Reason::LongTransfer { job, seconds } => format!(
            "{job}: a transfer in flight at the end of the measurement took {seconds:.2} s, \
                    longer than any counted transfer"
        ),
        Reason::DiskLess { job, direction, share } => format!(
            "{job}: the disk {} {:.1} % of the load's bytes",
            moved(*direction),
            percent(*share)
        ),
        Reason::DiskMore { job, direction, share } => format!(
            "{job}: the disk {} {:.1} % more than the load, because other programs used it",
            moved(*direction),
            percent(*share)
        ),
        Reason::Stood(stall) => stood(stall),
        Reason::Stolen { share } => format!(
            "the hypervisor took {:.1} % of the CPUs' time (limit {} %)",
            percent(*share),
            percent(MOST_STEAL)
        ),
        Reason::Swapped { host, pages } => {
            format!("{pages} pages of {host} moved to or from swap during the measurement")
        }
        Reason::Frequency { host, cpu, low_hz, high_hz } => format!(
            "{cpu} of {host} ran at {:.2} to {:.2} GHz, {:.0} % apart (limit {} %)",
            low_hz / GIGA,
            high_hz / GIGA,
            percent(1.0 - low_hz / high_hz),
            percent(MOST_CHANGED)
        ),
        Reason::BacklogDrops { host, packets } => {
            format!("{packets} packets were dropped at the per-CPU backlog of {host}")
        }
        Reason::OthersSent { observer, port, faces, direction, share } => format!(
            "observer {observer}: {:.1} % of the octets {} {faces} at {port} were other traffic",
            percent(share.abs()),
            way(*direction)
        ),
        Reason::NotCounted { observer, port, faces, direction, share } => format!(
            "observer {observer}: {:.1} % of the load's octets {} {faces} were not counted at \
                    {port}",
            percent(share.abs()),
            way(*direction)
        ),
        Reason::NotSteady { metric, direction, settling } => {
            not_steady(metric, *direction, settling)
        }
        Reason::AboveCeiling {
            metric,
            direction,
            unit,
            value,
            limit,
            ceiling,
            allowed,
            quantum_bytes,
            late_bytes,
        } => {
            format!(
                "{metric} {direction} of {value:.6e} {unit} exceeds its ceiling of {limit:.6e} \
                        {unit} ({ceiling}) by {excess:.2} % (tolerance {tolerance:.3} %), which is \
                        impossible. Check, in this order: byte counts at the sender, counts in \
                        steps (here {quantum_bytes:.0} B), a wrong layer, offload or compression, \
                        two directions counted as one, a wrong link speed, and a backlog that \
                        arrived late (more than the {late_bytes:.0} B that are allowed for)",
                excess = percent(value / limit - 1.0),
                tolerance = percent(*allowed),
            )
        }
        Reason::AboveLine { n, line, unit, ceiling } => format!(
            "{} above {line:.6e} {unit} without loss, which is more than the path carries \
             ({ceiling}): buffers held the excess. They are no lower bound. Longer trials show the \
             loss",
            count(*n, "trial")
        ),
        Reason::NoFrames => "no frame was sent".to_owned(),
        Reason::BurstCut { unsent, of } => {
            format!("{unsent} of {of} frames of the burst were not sent")
        }
        Reason::SentVeryLate { share, unexplained } => {
            let (late, most) = (percent(*share), percent(MOST_VERY_LATE));
            let more = unexplained.map_or_else(String::new, |more| {
                format!("; {more} more frames were lost than that explains")
            });
            format!(
                "the tester sent {late:.1} % of the frames more than 1 ms late (limit {most} \
                        %){more}"
            )
        }
        Reason::LeftLate { frames } => {
            format!("{frames} frames left more than 1 ms late, which may explain some losses")
        }
        Reason::TesterLost { frames, place } => {
            format!("the tester lost {frames} frames ({place})")
        }
        Reason::Squeezed { host, rounds } => {
            format!("{rounds} softirq rounds of {host} ended with work left (time_squeeze)")
        }
        Reason::NoFigure => "no trial has a valid figure".to_owned(),
        Reason::LeftOutAbove { n, of } => {
            format!(
                "{n} of {of} trials exceed a ceiling and are left out, so the figures of the \
                        others are biased low"
            )
        }
        Reason::LeftOutInvalid { n, of } => {
            format!("{n} of {of} trials are invalid and left out")
        }
        Reason::Drifts { metric, direction, rho } => {
            format!("{metric} {direction} drifts over the runs of the point (Spearman {rho:+.2})")
        }
        Reason::OfTrials { n, of, alike, reason: inner } => {
            let such_as = if *alike { "" } else { ", for example" };
            format!("{n} of {of} trials{such_as}: {}", fact(inner))
        }
    }
}

/// Returns why a ledger of datagrams does not balance.
#[must_use]
pub fn imbalance(imbalance: &Imbalance) -> String {
    match imbalance {
        Imbalance::Counts { flow, sent, received, next_sequence } => format!(
            "flow {flow}: {sent} datagrams sent, {received} distinct ones received, sequence \
                    numbers below {next_sequence} seen"
        ),
        Imbalance::UnknownFlow { flow } => {
            format!("flow {flow}: datagrams received of a flow the sender does not know")
        }
    }
}

fn moved(direction: Direction) -> &'static str {
    if direction == Direction::Rx { "read" } else { "wrote" }
}

fn way(direction: Direction) -> &'static str {
    if direction == Direction::Tx { "from" } else { "to" }
}

/// Returns a fraction in per cent.
fn percent(share: f64) -> f64 {
    share * 100.0
}

/// Returns a stall of a worker or a machine.
fn stood(stall: &Stall) -> String {
    match stall.what {
        Stopped::Machine => machine_stood(stall),
        Stopped::Tester => tester_stood(stall),
    }
}

fn machine_stood(stall: &Stall) -> String {
    let why = match stall.stolen.0 {
        0 => "every worker of both ends at once".to_owned(),
        stolen => format!("the hypervisor took {:.0} ms of a CPU around it", stolen as f64 / MILLI),
    };
    format!(
        "the machine of {} stood still for {:.0} ms at {:.2} s ({why}; limit {:.0} ms)",
        stall.host,
        stall.length.0 as f64 / MILLI,
        stall.start.as_secs_f64(),
        LONGEST_STAND.0 as f64 / MILLI,
    )
}

fn tester_stood(stall: &Stall) -> String {
    format!(
        "tester stall: worker {} of {} on {} did not run for {:.0} ms at {:.2} s (limit {:.0} ms)",
        stall.worker,
        stall.workload,
        stall.host,
        stall.length.0 as f64 / MILLI,
        stall.start.as_secs_f64(),
        LONGEST_STAND.0 as f64 / MILLI,
    )
}

/// Returns a sentence on a rate of a trial with this `settling`.
fn not_steady(metric: &'static Metric, direction: Direction, settling: &TrialSettling) -> String {
    let (word, levels) = (settling.class.word(), levels(metric, settling));
    if settling.class.has_single_number() {
        format!("{metric} {direction} {word} during the measurement: {levels}")
    } else {
        format!("no steady state: {metric} {direction} {word}: {levels}")
    }
}

/// Returns the levels of a trial in words: `17.5 Mbit/s to second 12, 3.9 Mbit/s to second 60`.
fn levels(metric: &'static Metric, settling: &TrialSettling) -> String {
    /// Number of levels in a sentence; the JSON has all of them.
    const MOST_NAMED: usize = 6;
    let named = settling.levels.iter().take(MOST_NAMED).map(|level| {
        let value = if metric == metric::GOODPUT {
            rate(level.value)
        } else {
            format!("{:.0} /s", level.value)
        };
        format!("{value} to second {:.1}", level.to)
    });
    let more = settling.levels.len().saturating_sub(MOST_NAMED);
    let named = named.collect::<Vec<_>>().join(", ");
    if more > 0 { format!("{named}, and {more} more") } else { named }
}

#[cfg(test)]
mod tests {
    use linerate_analysis::RateLevel;
    use linerate_analysis::statistics::Class;
    use linerate_model::{Nanos, Side};

    use super::*;

    #[test]
    fn a_reason_of_several_trials_contains_its_first() {
        let waited =
            Reason::Waited { job: "tcp_rr".into(), host: "a".into(), worker: 0, share: 0.022 };
        let of = Reason::OfTrials { n: 2, of: 6, alike: false, reason: Box::new(waited) };
        let text = reason(&of);
        let start = "2 of 6 trials, for example: tcp_rr: worker 0 on a waited up to 2.2 %";
        assert!(text.starts_with(start), "{text}");
    }

    #[test]
    fn a_fact_is_the_reason_without_its_remedy() {
        let waited =
            Reason::Waited { job: "tcp_rr".into(), host: "a".into(), worker: 0, share: 0.022 };
        let of = Reason::OfTrials { n: 2, of: 6, alike: true, reason: Box::new(waited.clone()) };
        for (reason_of, start) in [(waited, "tcp_rr: worker 0"), (of, "2 of 6 trials: tcp_rr: w")] {
            let (fact, whole) = (fact(&reason_of), reason(&reason_of));
            assert!(fact.starts_with(start) && fact.ends_with("(limit 1 %)"), "{fact}");
            assert!(whole.strip_prefix(&fact).is_some_and(|rest| rest.starts_with(". Stop them")));
        }
        let failed = Reason::Failed;
        assert_eq!(fact(&failed), reason(&failed), "there is no remedy that fits every failure");
    }

    #[test]
    fn a_frequency_and_a_stall_are_written_with_their_limits() {
        let (host, cpu) = ("a".to_owned(), "cpu1".to_owned());
        let slower = Reason::Frequency { host, cpu, low_hz: 2.4e9, high_hz: 3e9 };
        let start = "cpu1 of a ran at 2.40 to 3.00 GHz, 20 % apart (limit 5 %).";
        assert!(reason(&slower).starts_with(start), "{}", reason(&slower));
        let stall = Stall {
            workload: "udp_rr".into(),
            host: "b".into(),
            side: Side::Passive,
            worker: 0,
            start: Nanos::from_millis(250),
            length: Nanos::from_millis(150),
            stolen: Nanos(0),
            what: Stopped::Tester,
        };
        let text = reason(&Reason::Stood(stall));
        assert!(text.contains("on b did not run for 150 ms at 0.25 s (limit 35 ms)"), "{text}");
    }

    #[test]
    fn a_level_is_written_to_four_digits() {
        let level = |value| RateLevel { from: 0.0, to: 34.5, value };
        let one = TrialSettling {
            class: Class::SlowsDown,
            levels: vec![level(15_897_001.0), level(0.0)],
        };
        assert_eq!(
            levels(metric::GOODPUT, &one),
            "15.9 Mbit/s to second 34.5, 0 bit/s to second 34.5"
        );
    }
}
