//! Reasons why a trial or point is not valid, with their numbers. `linerate-report` writes the
//! sentences.
//!
//! Thresholds are not part of a reason: they are defined beside the test that finds it
//! ([`super::thresholds`]).

use std::collections::BTreeSet;

use linerate_model::{Direction, Incident, Metric, Unit};
use serde::{Deserialize, Serialize};

use super::loss::Imbalance;
use super::loss_place::LossPlace;
use super::settling::TrialSettling;
use super::stalls::{Stall, Stopped};

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
    /// Trials of a search prove nothing: they lost nothing above the line rate of the path.
    AboveLine {
        n: usize,
        line: f64,
        unit: Unit,
        /// Name of the ceiling that sets the line rate.
        ceiling: String,
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
    }
}
