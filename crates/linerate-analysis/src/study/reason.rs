//! Reasons why a trial or point is not valid, with their numbers. Reasons are compared as values;
//! the sentence is for readers.
//!
//! Thresholds are not part of a reason: they are defined beside the test that finds it, and appear
//! in the sentence.

use core::fmt;
use std::collections::BTreeSet;

use linerate_model::{Direction, Incident, Metric, Unit};
use serde::{Deserialize, Serialize};

use super::judge::{MOST_STEAL, MOST_WAITED};
use super::loss::Imbalance;
use super::loss_place::LossPlace;
use super::search_trial::MOST_VERY_LATE;
use super::settling::{self, TrialSettling};
use super::stalls::{self, Stall, Stopped};
use super::unrest::{GIGA, MOST_CHANGED};

/// One reason. `job` is the workload of the job it is about; shares are of one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "fields that are not explained are what they are called")]
pub enum Reason {
    /// The trial failed.
    Failed,
    /// It was interrupted.
    Interrupted,
    /// The campaign ended while it ran.
    CampaignEnded,
    /// It was not run.
    NotRun,
    /// An incident that was recorded.
    Incident(Incident),
    /// No end recorded anything.
    NothingRecorded { job: String },
    /// The receiving end recorded this share of the measurement.
    Covered { job: String, share: f64 },
    /// No end counted anything.
    NothingDone { job: String },
    /// A worker waited for a CPU that other programs used.
    Waited { job: String, host: String, worker: u32, share: f64 },
    /// The ledger of operations does not add up.
    OperationsUnbalanced { job: String, due: u64, answered: u64, lost: u64, open: u64 },
    /// The ledger of datagrams does not balance.
    LossesUnbalanced { imbalance: Imbalance },
    /// Connections found no free local port.
    NoLocalPort { job: String, refused: f64, share: f64 },
    /// This share of an open load was offered.
    Offered { job: String, share: f64 },
    /// This share of the requests started late.
    StartedLate { job: String, share: f64 },
    /// The time with transfers in flight differs from the sum of their service times.
    DepthError { job: String, depth: f64, error: f64 },
    /// A transfer in flight at the end took longer than any that is counted.
    LongTransfer { job: String, seconds: f64 },
    /// The disk moved only this share of the load's bytes.
    DiskLess { job: String, direction: Direction, share: f64 },
    /// The disk moved more than the load's bytes, by this share.
    DiskMore { job: String, direction: Direction, share: f64 },
    /// A worker, or a machine, did not run.
    Stood(Stall),
    /// The hypervisor used this fraction of the CPUs' time.
    Stolen { share: f64 },
    /// Pages of a host went to swap or came from it.
    Swapped { host: String, pages: f64 },
    /// A CPU worked at several frequencies.
    Frequency { host: String, cpu: String, low_hz: f64, high_hz: f64 },
    /// Packets were dropped at the per-CPU backlog of a host.
    BacklogDrops { host: String, packets: u64 },
    /// An observer counted octets at a port that were not the load's.
    OthersSent { observer: String, port: String, faces: String, direction: Direction, share: f64 },
    /// An observer did not count this share of the load's octets.
    NotCounted { observer: String, port: String, faces: String, direction: Direction, share: f64 },
    /// A rate was not steady.
    NotSteady { metric: &'static Metric, direction: Direction, settling: TrialSettling },
    /// A figure exceeds its ceiling.
    AboveCeiling {
        metric: &'static Metric,
        direction: Direction,
        unit: Unit,
        value: f64,
        limit: f64,
        /// Name of the ceiling.
        ceiling: String,
        /// Share by which it might have been exceeded.
        allowed: f64,
        /// Bytes by which one count may be off.
        quantum_bytes: f64,
        /// Bytes seen to have been received late.
        late_bytes: f64,
    },
    /// No frame of a search's trial was sent.
    NoFrames,
    /// Frames of a burst were not sent.
    BurstCut { unsent: u64, of: u64 },
    /// The tester sent this share of the frames very late; `unexplained` more were lost than that
    /// explains, if any.
    SentVeryLate { share: f64, unexplained: Option<u64> },
    /// Frames left late, which may be why some were lost.
    LeftLate { frames: u64 },
    /// The tester itself lost frames.
    TesterLost { frames: u64, place: LossPlace },
    /// Softirq rounds of a host ended with work left.
    Squeezed { host: String, rounds: f64 },
    /// No trial of a point carries a figure.
    NoFigure,
    /// Trials of a point exceed a ceiling and are left out.
    LeftOutAbove { n: usize, of: usize },
    /// Trials of a point that were run are invalid and left out.
    LeftOutInvalid { n: usize, of: usize },
    /// A figure drifts over the trials of a point, Spearman's rank correlation with their order.
    Drifts { metric: &'static Metric, direction: Direction, rho: f64 },
    /// A reason against trials of a point, as it was met first.
    OfTrials { n: usize, of: usize, alike: bool, reason: Box<Self> },
}

/// Key of reasons of one kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kind {
    variant: core::mem::Discriminant<Reason>,
    about: [String; 2],
}

impl Reason {
    /// Returns the part that reasons share if they differ in their numbers only.
    #[must_use]
    pub fn kind(&self) -> Kind {
        let about = match self {
            // A recorded incident is free text, with its numbers in it.
            Self::Incident(Incident { host, message, .. }) => {
                let is_number = |letter: char| letter.is_ascii_digit() || letter == '.';
                [host.clone(), message.chars().filter(|letter| !is_number(*letter)).collect()]
            }
            // The reason inside it decides the kind.
            Self::OfTrials { reason, .. } => return reason.kind(),
            _ => self.about().map(str::to_owned),
        };
        Kind { variant: core::mem::discriminant(self), about }
    }

    /// Returns the host, job or device concerned.
    fn about(&self) -> [&str; 2] {
        match self {
            Self::Waited { job, host, .. } => [job, host],
            Self::NothingRecorded { job }
            | Self::Covered { job, .. }
            | Self::NothingDone { job }
            | Self::OperationsUnbalanced { job, .. }
            | Self::NoLocalPort { job, .. }
            | Self::Offered { job, .. }
            | Self::StartedLate { job, .. }
            | Self::DepthError { job, .. }
            | Self::LongTransfer { job, .. }
            | Self::DiskLess { job, .. }
            | Self::DiskMore { job, .. } => [job, ""],
            Self::Stood(stall) => {
                [&stall.host, if stall.what == Stopped::Machine { "machine" } else { "tester" }]
            }
            Self::Swapped { host, .. }
            | Self::BacklogDrops { host, .. }
            | Self::Squeezed { host, .. } => [host, ""],
            Self::Frequency { host, cpu, .. } => [host, cpu],
            Self::OthersSent { observer, port, .. } | Self::NotCounted { observer, port, .. } => {
                [observer, port]
            }
            Self::NotSteady { metric, settling, .. } => [metric.name, settling.class.word()],
            Self::AboveCeiling { metric, ceiling, .. } => [metric.name, ceiling],
            Self::Drifts { metric, .. } => [metric.name, ""],
            _ => ["", ""],
        }
    }
}

/// Returns a fraction in per cent.
fn percent(share: f64) -> f64 {
    share * 100.0
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed => f.write_str("the trial failed"),
            Self::Interrupted => f.write_str("the trial was interrupted"),
            Self::CampaignEnded => f.write_str("the campaign ended during the trial"),
            Self::NotRun => f.write_str("not run"),
            Self::Incident(Incident { host, message, .. }) if host.is_empty() => {
                f.write_str(message)
            }
            Self::Incident(Incident { host, message, .. }) => write!(f, "{host}: {message}"),
            Self::NothingRecorded { job } => write!(f, "{job}: nothing was recorded"),
            Self::Covered { job, share } => {
                write!(
                    f,
                    "{job}: the receiving end recorded {:.0} % of the measurement",
                    percent(*share)
                )
            }
            Self::NothingDone { job } => write!(f, "{job}: nothing was sent, received or stepped"),
            Self::Waited { job, host, worker, share } => write!(
                f,
                "{job}: worker {worker} on {host} waited up to {:.1} % of the measurement for a \
                    CPU that other programs used (limit {} %). Stop them, or pin the endpoint to \
                    CPUs of its own (`cpus` and `pin`)",
                percent(*share),
                percent(MOST_WAITED)
            ),
            Self::OperationsUnbalanced { job, due, answered, lost, open } => write!(
                f,
                "{job}: {due} operations due, but {answered} answered + {lost} lost + {open} open. \
                    Report this as a defect"
            ),
            Self::LossesUnbalanced { imbalance } => {
                write!(f, "the loss ledger does not balance: {imbalance}")
            }
            Self::NoLocalPort { job, refused, share } => write!(
                f,
                "{job}: {refused:.0} connections found no free local port ({:.1} % of the \
                    attempts). A closed connection keeps its port in TIME_WAIT for 60 s, which \
                    limits the rate. Close with a reset or at the server (`close = \"reset\"` or \
                    `\"server\"`), measure for a shorter time, or widen \
                    net.ipv4.ip_local_port_range",
                percent(*share)
            ),
            Self::Offered { job, share } => write!(
                f,
                "{job}: {:.1} % of the intended load was offered, because the sender or the path \
                    was saturated",
                percent(*share)
            ),
            Self::StartedLate { job, share } => write!(
                f,
                "{job}: {:.1} % of the requests started more than one gap late. Use response \
                    times, which include the delay",
                percent(*share)
            ),
            Self::DepthError { job, depth, error } => write!(
                f,
                "{job}: {depth:.2} transfers were in flight, {:.1} % from the sum of the service \
                    times (Little's law): one of the two figures is wrong",
                percent(*error)
            ),
            Self::LongTransfer { job, seconds } => write!(
                f,
                "{job}: a transfer in flight at the end of the measurement took {seconds:.2} s, \
                    longer than any counted transfer"
            ),
            Self::DiskLess { job, direction, share } => write!(
                f,
                "{job}: the disk {} {:.1} % of the load's bytes. A cache, or blocks that were \
                    never written, served the rest",
                moved(*direction),
                percent(*share)
            ),
            Self::DiskMore { job, direction, share } => write!(
                f,
                "{job}: the disk {} {:.1} % more than the load, because other programs used it",
                moved(*direction),
                percent(*share)
            ),
            Self::Stood(stall) => f.write_str(&stalls::told(stall)),
            Self::Stolen { share } => write!(
                f,
                "the hypervisor took {:.1} % of the CPUs' time (limit {} %)",
                percent(*share),
                percent(MOST_STEAL)
            ),
            Self::Swapped { host, pages } => write!(
                f,
                "{pages} pages of {host} moved to or from swap during the measurement. Free \
                    memory, or disable swap (`swapoff -a`)"
            ),
            Self::Frequency { host, cpu, low_hz, high_hz } => write!(
                f,
                "{cpu} of {host} ran at {:.2} to {:.2} GHz, {:.0} % apart (limit {} %). Fix its \
                    frequency (`cpupower frequency-set -g performance`), or let it settle \
                    (`warmup`)",
                low_hz / GIGA,
                high_hz / GIGA,
                percent(1.0 - low_hz / high_hz),
                percent(MOST_CHANGED)
            ),
            Self::BacklogDrops { host, packets } => {
                write!(f, "{packets} packets were dropped at the per-CPU backlog of {host}")
            }
            Self::OthersSent { observer, port, faces, direction, share } => write!(
                f,
                "observer {observer}: {:.1} % of the octets {} {faces} at {port} were other \
                    traffic",
                percent(share.abs()),
                way(*direction)
            ),
            Self::NotCounted { observer, port, faces, direction, share } => write!(
                f,
                "observer {observer}: {:.1} % of the load's octets {} {faces} were not counted at \
                    {port}. Its counters are late or of another port, or frames were lost before \
                    it",
                percent(share.abs()),
                way(*direction)
            ),
            Self::NotSteady { metric, direction, settling } => {
                f.write_str(&settling::told(metric, *direction, settling))
            }
            Self::AboveCeiling {
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
                write!(
                    f,
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
            Self::NoFrames => f.write_str("no frame was sent"),
            Self::BurstCut { unsent, of } => {
                write!(f, "{unsent} of {of} frames of the burst were not sent")
            }
            Self::SentVeryLate { share, unexplained } => {
                let (late, most) = (percent(*share), percent(MOST_VERY_LATE));
                write!(
                    f,
                    "the tester sent {late:.1} % of the frames more than 1 ms late (limit {most} %)"
                )?;
                unexplained.map_or(Ok(()), |more| {
                    write!(f, "; {more} more frames were lost than that explains")
                })
            }
            Self::LeftLate { frames } => {
                write!(f, "{frames} frames left more than 1 ms late, which may explain some losses")
            }
            Self::TesterLost { frames, place } => {
                write!(f, "the tester lost {frames} frames ({place})")
            }
            Self::Squeezed { host, rounds } => {
                write!(f, "{rounds} softirq rounds of {host} ended with work left (time_squeeze)")
            }
            Self::NoFigure => f.write_str("no trial has a valid figure"),
            Self::LeftOutAbove { n, of } => {
                write!(
                    f,
                    "{n} of {of} trials exceed a ceiling and are left out, so the figures of the \
                        others are biased low"
                )
            }
            Self::LeftOutInvalid { n, of } => {
                write!(f, "{n} of {of} trials are invalid and left out")
            }
            Self::Drifts { metric, direction, rho } => {
                write!(
                    f,
                    "{metric} {direction} drifts over the runs of the point (Spearman {rho:+.2})"
                )
            }
            Self::OfTrials { n, of, alike, reason } => {
                let such_as = if *alike { "" } else { ", for example" };
                write!(f, "{n} of {of} trials{such_as}: {reason}")
            }
        }
    }
}

impl fmt::Display for Imbalance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Counts { flow, sent, received, next_sequence } => write!(
                f,
                "flow {flow}: {sent} datagrams sent, {received} distinct ones received, sequence \
                    numbers below {next_sequence} seen"
            ),
            Self::UnknownFlow { flow } => {
                write!(f, "flow {flow}: datagrams received of a flow the sender does not know")
            }
        }
    }
}

fn moved(direction: Direction) -> &'static str {
    if direction == Direction::Rx { "read" } else { "wrote" }
}

fn way(direction: Direction) -> &'static str {
    if direction == Direction::Tx { "from" } else { "to" }
}

/// Kinds of reasons against `trials`: each as it was met first, against how many of the trials, and
/// whether it always read the same. Reasons that differ in their numbers only are of one kind, and
/// count once against a trial.
#[must_use]
pub fn reasons<'a>(trials: impl Iterator<Item = &'a [Reason]>) -> Vec<(&'a Reason, usize, bool)> {
    let mut met: Vec<(Kind, &Reason, usize, bool)> = Vec::new();
    for why in trials {
        let mut against = BTreeSet::new();
        for reason in why {
            let kind = reason.kind();
            match met.iter().position(|(known, ..)| *known == kind) {
                Some(place) => {
                    let (_, first, times, alike) = &mut met[place];
                    *times += usize::from(against.insert(place));
                    *alike &= *first == reason;
                }
                None => {
                    against.insert(met.len());
                    met.push((kind, reason, 1, true));
                }
            }
        }
    }
    met.into_iter().map(|(_, first, times, alike)| (first, times, alike)).collect()
}

#[cfg(test)]
mod tests {
    use linerate_model::IncidentKind;

    use super::*;

    fn waited(host: &str, share: f64) -> Reason {
        Reason::Waited { job: "tcp_rr".into(), host: host.into(), worker: 0, share }
    }

    #[test]
    fn reasons_that_differ_in_their_numbers_only_are_one_kind() {
        let dropped = || Reason::BacklogDrops { host: "a".into(), packets: 5 };
        let trials = [
            vec![waited("a", 0.022), dropped()],
            vec![waited("a", 0.14)],
            vec![waited("b", 0.03), dropped()],
        ];
        let met = reasons(trials.iter().map(Vec::as_slice));
        assert_eq!(
            met,
            [(&waited("a", 0.022), 2, false), (&dropped(), 2, true), (&waited("b", 0.03), 1, true)]
        );
        // A host with a number in its name is another host.
        let hosts = [vec![waited("a1", 0.02)], vec![waited("a2", 0.02)]];
        assert_eq!(reasons(hosts.iter().map(Vec::as_slice)).len(), 2);
        let twice = [vec![waited("a", 0.1), waited("a", 0.2)]];
        assert_eq!(reasons(twice.iter().map(Vec::as_slice)), [(&waited("a", 0.1), 1, false)]);
    }

    #[test]
    fn incidents_are_of_one_kind_where_their_texts_differ_in_numbers() {
        let of = |message: &str| {
            Reason::Incident(Incident {
                host: "a".into(),
                kind: IncidentKind::Clock,
                message: message.into(),
            })
            .kind()
        };
        assert_eq!(of("it went back by 1.5 ms"), of("it went back by 22 ms"));
        assert_ne!(of("it went back by 1.5 ms"), of("it stands still"));
    }

    #[test]
    fn a_reason_is_the_same_after_json() {
        let reason =
            Reason::OfTrials { n: 2, of: 6, alike: false, reason: Box::new(waited("a", 0.022)) };
        let text = serde_json::to_string(&reason).expect("plain data");
        assert_eq!(serde_json::from_str::<Reason>(&text).expect("as written"), reason);
        assert!(
            reason.to_string().starts_with(
                "2 of 6 trials, for example: tcp_rr: worker 0 on a waited up to 2.2 %"
            ),
            "{reason}"
        );
    }
}
