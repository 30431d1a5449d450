//! Live state of a campaign for viewers: the terminal of its command, or another process.
//!
//! [`LiveFold`] turns the progress of a campaign into a [`Snapshot`]. [`Live`] passes snapshots to
//! viewers in this process through bounded queues; [`LiveSocket`] passes them to other processes of
//! the host through a Unix socket beside the ledger, and [`connect`] receives them there. A
//! measurement never waits for a viewer: one that falls behind misses snapshots, each of which is
//! complete.

mod fold;
mod socket;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use core::net::IpAddr;

use linerate_analysis::live::LiveLine;
use linerate_model::{Incident, Nanos, Point, TrialId};
use serde::{Deserialize, Serialize};

pub use fold::LiveFold;
pub use socket::{LiveSocket, connect, socket_path};

/// Snapshots that wait for one viewer at most.
const QUEUE: usize = 16;

/// State of a campaign at one moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Snapshot {
    /// Identity of the campaign, as in its ledger.
    pub campaign: String,
    /// Name of its plan.
    pub name: String,
    /// Time of this snapshot on the monotonic clock of the conductor's host.
    pub at: Nanos,
    /// Stage of the campaign.
    pub stage: LiveStage,
    /// Present or last trial.
    pub trial: Option<LiveTrial>,
    /// Number of trials that ended.
    pub n_ended: usize,
    /// Number of them that failed.
    pub n_failed: usize,
    /// Number of trials of this execution.
    pub n_trials: usize,
    /// Estimated time from `at` until the campaign's end.
    pub left: Nanos,
    /// Figures of the latest second.
    pub recent: Option<LivePoint>,
    /// Course of the present or last trial: at most [`LiveFold::MOST_POINTS`], without gaps.
    pub points: Vec<LivePoint>,
    /// Newest incidents, oldest first: at most [`LiveFold::MOST_INCIDENTS`].
    pub incidents: Vec<LiveIncident>,
    /// Number of all incidents.
    pub n_incidents: usize,
}

/// Stage of a campaign.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LiveStage {
    /// Hosts are being reached.
    #[default]
    Joining,
    /// A trial runs.
    Trial,
    /// Between two trials.
    Resting,
    /// The campaign has ended.
    Ended,
}

/// Trial that a viewer sees.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LiveTrial {
    /// Its number in the plan.
    pub id: TrialId,
    /// Its number in this execution, from 1.
    pub number: usize,
    /// Sweep that it belongs to.
    pub sweep: String,
    /// Its coordinates.
    pub point: Point,
    /// Number of its repeat, from 0.
    pub repeat: u32,
    /// Workloads of the measured jobs.
    pub workloads: Vec<String>,
    /// Active and passive end of the first measured job.
    pub ends: [LiveEnd; 2],
    /// Length of the warm-up.
    pub warmup: Nanos,
    /// Time from the start barrier until the end of the load.
    pub loaded: Nanos,
    /// Ceiling of the goodput from the active end, and from the passive end, bit/s.
    pub ceilings: [Option<f64>; 2],
}

/// One end of a path.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LiveEnd {
    /// Name of the endpoint.
    pub name: String,
    /// Name of its host.
    pub host: String,
    /// Its address.
    pub address: Option<IpAddr>,
    /// Its device.
    pub device: Option<String>,
    /// Speed that the device reports, bit/s.
    pub speed: Option<f64>,
}

/// Incident that a viewer sees.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LiveIncident {
    /// Trial in which it happened, if any.
    pub trial: Option<TrialId>,
    /// Its description.
    pub incident: Incident,
}

/// Figures of a short span of a trial, all measured jobs together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LivePoint {
    /// Start of the span, since the start barrier.
    pub from: Nanos,
    /// End of the span.
    pub until: Nanos,
    /// Goodput from the active end, and from the passive end, bit/s.
    pub goodput: [f64; 2],
    /// Requests, or connections with one request each, per second.
    pub requests: f64,
    /// Smoothed round-trip time, seconds; `None` if no connection sent.
    pub rtt: Option<f64>,
    /// 99th percentile of response times, seconds; the worst one of joined spans.
    pub response: Option<f64>,
    /// Segments sent again; `None` if no connection was read.
    pub retransmits: Option<u64>,
    /// Datagrams expected, and those of them that were lost.
    pub datagrams: Option<[f64; 2]>,
    /// Share of a CPU that the workers of the active and the passive end used.
    pub cpu: [f64; 2],
}

impl LivePoint {
    fn of(line: &LiveLine) -> Self {
        let seconds = line.seconds().max(f64::MIN_POSITIVE);
        let rate = |bytes: f64| bytes * 8.0 / seconds;
        Self {
            from: line.from,
            until: line.until,
            goodput: [rate(line.forward_bytes), rate(line.backward_bytes)],
            requests: line.requests() / seconds,
            rtt: line.rtt,
            response: line.times[1],
            retransmits: line.retransmits,
            datagrams: line.datagrams.map(|of| [of.expected, of.lost]),
            cpu: line.cpu,
        }
    }

    /// Returns the point of this span and the `next` one. Rates and times are means by time.
    #[must_use]
    pub fn joined(&self, next: &Self) -> Self {
        let [ours, theirs] = [self, next].map(|one| one.until.since(one.from).as_secs_f64());
        let total = (ours + theirs).max(f64::MIN_POSITIVE);
        let mean = |a: f64, b: f64| (a * ours + b * theirs) / total;
        let rate = |at: usize| mean(self.goodput[at], next.goodput[at]);
        Self {
            from: self.from,
            until: next.until,
            goodput: [rate(0), rate(1)],
            requests: mean(self.requests, next.requests),
            rtt: both(self.rtt, next.rtt, mean),
            cpu: [0, 1].map(|at| mean(self.cpu[at], next.cpu[at])),
            ..self.counts(next)
        }
    }

    /// Returns the point of several jobs in the same span; `None` without a job. The round-trip
    /// time is the mean over the jobs that measured one.
    fn together(jobs: &[Self]) -> Option<Self> {
        let rtts: Vec<f64> = jobs.iter().filter_map(|job| job.rtt).collect();
        let sum = jobs.iter().copied().reduce(|sum, job| Self {
            from: sum.from.min(job.from),
            until: sum.until.max(job.until),
            goodput: [0, 1].map(|at| sum.goodput[at] + job.goodput[at]),
            requests: sum.requests + job.requests,
            cpu: [0, 1].map(|at| sum.cpu[at] + job.cpu[at]),
            ..sum.counts(&job)
        })?;
        let rtt = (!rtts.is_empty()).then(|| rtts.iter().sum::<f64>() / rtts.len() as f64);
        Some(Self { rtt, ..sum })
    }

    /// Returns a point with only the figures that are joined in the same way over time and jobs.
    fn counts(&self, other: &Self) -> Self {
        let sum = |a: [f64; 2], b: [f64; 2]| [a[0] + b[0], a[1] + b[1]];
        Self {
            response: both(self.response, other.response, f64::max),
            retransmits: both(self.retransmits, other.retransmits, |a, b| a + b),
            datagrams: both(self.datagrams, other.datagrams, sum),
            ..Self::default()
        }
    }

    /// Returns the point seen from the other end.
    fn reversed(self) -> Self {
        let ([there, back], [a, b]) = (self.goodput, self.cpu);
        Self { goodput: [back, there], cpu: [b, a], ..self }
    }

    /// Returns the share of datagrams that were lost.
    #[must_use]
    pub fn loss(&self) -> Option<f64> {
        let [expected, lost] = self.datagrams?;
        // Datagrams that were late in an earlier span are no negative loss.
        (expected > 0.0).then(|| (lost / expected).clamp(0.0, 1.0))
    }
}

/// Joins two figures of which either may be missing.
fn both<T>(a: Option<T>, b: Option<T>, join: impl Fn(T, T) -> T) -> Option<T> {
    match (a, b) {
        (Some(a), Some(b)) => Some(join(a, b)),
        (a, b) => a.or(b),
    }
}

impl Snapshot {
    /// Returns the largest share of its ceiling that a direction reached in the latest second, and
    /// that ceiling, bit/s.
    #[must_use]
    pub fn share(&self) -> Option<(f64, f64)> {
        let (recent, trial) = (self.recent?, self.trial.as_ref()?);
        let ways = recent.goodput.into_iter().zip(trial.ceilings);
        let shares = ways.filter_map(|(rate, ceiling)| {
            let ceiling = ceiling.filter(|ceiling| *ceiling > 0.0)?;
            Some((rate / ceiling, ceiling))
        });
        shares.max_by(|a, b| a.0.total_cmp(&b.0))
    }
}

/// Link between a campaign and the viewers in its process.
#[derive(Debug, Default)]
pub struct Live {
    viewers: Mutex<Vec<SyncSender<Arc<Snapshot>>>>,
    pause: Arc<AtomicBool>,
    /// Start of the present pause, and length of the earlier ones.
    paused: Mutex<(Option<Instant>, Nanos)>,
}

impl Live {
    /// Returns a new queue of snapshots.
    pub fn watch(&self) -> Receiver<Arc<Snapshot>> {
        let (sender, receiver) = sync_channel(QUEUE);
        if let Ok(mut viewers) = self.viewers.lock() {
            viewers.push(sender);
        }
        receiver
    }

    /// Offers a snapshot to all viewers. Never waits: a viewer whose queue is full misses it.
    pub fn offer(&self, snapshot: &Arc<Snapshot>) {
        // The lock is taken only while a viewer begins; this snapshot is then not passed on.
        if let Ok(mut viewers) = self.viewers.try_lock() {
            viewers.retain(|viewer| {
                !matches!(viewer.try_send(Arc::clone(snapshot)), Err(TrySendError::Disconnected(_)))
            });
        }
    }

    /// Holds the campaign before its next trial, or lets it go on.
    pub fn set_paused(&self, is_paused: bool) {
        self.pause.store(is_paused, Ordering::Relaxed);
        if let Ok(mut paused) = self.paused.lock() {
            match (is_paused, paused.0) {
                (true, None) => paused.0 = Some(Instant::now()),
                (false, Some(since)) => {
                    let length = Nanos::from_secs_f64(since.elapsed().as_secs_f64());
                    *paused = (None, paused.1 + length);
                }
                _ => {}
            }
        }
    }

    /// Returns whether no further trial begins.
    #[must_use]
    pub fn is_paused(&self) -> bool {
        self.pause.load(Ordering::Relaxed)
    }

    /// Returns the length of all pauses, which no budget of time includes.
    pub fn paused_for(&self) -> Nanos {
        self.paused.lock().map_or(Nanos(0), |paused| {
            let present = paused.0.map_or(0.0, |since| since.elapsed().as_secs_f64());
            paused.1 + Nanos::from_secs_f64(present)
        })
    }

    /// Returns the flag that holds a campaign.
    pub(crate) fn pause(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.pause)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn snapshot(n: u64) -> Arc<Snapshot> {
        Arc::new(Snapshot { at: Nanos(n), ..Snapshot::default() })
    }

    #[test]
    fn a_viewer_that_never_reads_holds_up_nobody_and_misses_only_what_did_not_fit() {
        let live = Live::default();
        let (stuck, reads) = (live.watch(), live.watch());
        let mut read = Vec::new();
        for n in 0..100 {
            live.offer(&snapshot(n));
            read.extend(reads.try_iter().map(|snapshot| snapshot.at.0));
        }
        assert_eq!(read, (0..100).collect::<Vec<_>>());
        assert_eq!(stuck.try_iter().count(), QUEUE);
        drop(stuck);
        live.offer(&snapshot(100));
        assert_eq!(live.viewers.lock().expect("no test panicked").len(), 1, "it has gone");
    }

    #[test]
    fn points_are_joined_by_time_and_added_over_jobs() {
        let ms = Nanos::from_millis;
        let point = |from, until, bits, rtt| LivePoint {
            from: ms(from),
            until: ms(until),
            goodput: [bits, 0.0],
            rtt,
            retransmits: Some(2),
            datagrams: Some([100.0, 5.0]),
            cpu: [0.5, 0.25],
            ..LivePoint::default()
        };
        let (first, second) = (point(0, 300, 1e6, Some(0.1)), point(300, 400, 5e6, None));
        let joined = first.joined(&second);
        assert_eq!((joined.from, joined.until), (ms(0), ms(400)));
        assert!((joined.goodput[0] - 2e6).abs() < 1.0, "{joined:?}");
        assert_eq!((joined.rtt, joined.retransmits, joined.cpu), (Some(0.1), Some(4), [0.5, 0.25]));
        assert_eq!(joined.loss(), Some(0.05));
        let other = point(0, 300, 3e6, Some(0.3)).reversed();
        let beside = LivePoint::together(&[first, other]).expect("two jobs");
        assert_eq!(beside.goodput, [1e6, 3e6]);
        assert_eq!((beside.rtt, beside.cpu), (Some(0.2), [0.75, 0.75]));
        let [third, silent] = [Some(0.8), None].map(|rtt| point(0, 300, 0.0, rtt));
        let beside = LivePoint::together(&[first, other, third, silent]).expect("four jobs");
        // (0.1 + 0.3 + 0.8) / 3: each job that measured counts once.
        assert!(beside.rtt.is_some_and(|rtt| (rtt - 0.4).abs() < 1e-9), "{beside:?}");
        assert_eq!(LivePoint::together(&[]), None);
    }

    #[test]
    fn the_share_is_that_of_the_direction_closest_to_its_ceiling() {
        let trial = |ceilings| LiveTrial {
            id: TrialId(0),
            number: 1,
            sweep: String::new(),
            point: Point::new(),
            repeat: 0,
            workloads: Vec::new(),
            ends: Default::default(),
            warmup: Nanos(0),
            loaded: Nanos(0),
            ceilings,
        };
        let goodput = [2e6, 9e6];
        let share = |ceilings| {
            let recent = Some(LivePoint { goodput, ..LivePoint::default() });
            Snapshot { recent, trial: Some(trial(ceilings)), ..Snapshot::default() }.share()
        };
        assert_eq!(share([None, Some(10e6)]), Some((0.9, 10e6)));
        assert_eq!(
            share([Some(2e6), Some(10e6)]),
            Some((1.0, 2e6)),
            "the first direction has reached its ceiling"
        );
        assert_eq!(share([None, None]), None);
    }
}
