//! One trial of a search, evaluated against its goal (docs/methodology/searches.md#trial).
//!
//! The expected number of frames is the larger of those intended and those sent. A frame the
//! generator did not send counts as lost, apart from the edges of the load, so an overloaded
//! generator pushes a search down and never up. Loss is expected less distinct frames received:
//! duplicates never make up for it. Losses located in the tester (its queues, its sockets), a
//! ledger that does not balance or a trial that was not carried out make it *invalid*. A
//! disturbance of the tester makes it *tainted*, and its result is kept.
//!
//! In a lab the shaper of a link is the device under test wherever it is placed: its drops are the
//! device's.

use linerate_model::{
    Campaign, Counter, Direction, Distribution, Nanos, Purpose, Search, Searched, TestbedKind,
    TrialId, TrialRecord, Validity,
};
use serde::{Deserialize, Serialize};

use super::loss::{self, LossStudy};
use super::loss_place::LossPlace;
use super::reason::Reason;
use super::samples::{Hosts, Samples};
use super::search_latency::SearchLatency;
use super::span::total;
use super::traffic::{Job, Run};
use super::{judge, point, recovery, warmup};
use crate::search::{MOST_REPEATS, Observation};

/// Length of the edges of a load, in seconds, within which unsent frames do not count as lost: a
/// sender that wakes late at its end leaves out the frames due since. A sleeping thread wakes
/// within a tenth of a millisecond, with few exceptions.
const EDGE_SECONDS: f64 = 1e-3;
/// Frames that may be unsent besides: one under way at each edge.
const EDGE_FRAMES: f64 = 2.0;
/// Share of the frames that may leave more than 1 ms late (docs/methodology/searches.md#trial).
pub const MOST_VERY_LATE: f64 = 0.01;
/// Less than this share of the intended frames sent is the generator's limit
/// (docs/methodology/searches.md#trial).
const LEAST_OFFERED: f64 = 0.99;
/// Places of a loss that are the tester's.
const OF_TESTER: [LossPlace; 3] =
    [LossPlace::ReceiverDevice, LossPlace::ReceiverBacklog, LossPlace::ReceiverSocket];
/// Places that belong to the tester, unless they hold the lab's shaper.
const OF_SENDER: [LossPlace; 2] = [LossPlace::SenderQueue, LossPlace::SenderDevice];

/// Result of one trial of a search.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SearchTrial {
    /// Its number.
    pub id: TrialId,
    /// Its number in the search.
    pub number: u32,
    /// Its purpose.
    pub purpose: Purpose,
    /// Intended load, in the search's unit.
    pub load: f64,
    /// Intended length.
    pub duration: Nanos,
    /// Frames that were to be sent, all directions.
    pub intended: u64,
    /// Frames that were.
    pub sent: u64,
    /// Distinct frames received.
    pub received: u64,
    /// Received again.
    pub duplicates: u64,
    /// Received behind a later one.
    pub reordered: u64,
    /// Lost or unsent, of what was expected.
    pub loss_ratio: f64,
    /// True if less than 99 % of the intended frames were sent: a loss is then no evidence about
    /// the device.
    #[serde(default)]
    pub generator_limited: bool,
    /// True if as many frames left more than 1 ms late as were lost: the delay may have lost them,
    /// and the trial is repeated. A loss that remains in three repeats is accepted.
    #[serde(default)]
    pub doubtful: bool,
    /// Frames per second of one direction from the first departure to the last, where departures
    /// were recorded singly.
    pub departed: Option<f64>,
    /// Located losses.
    pub located: Vec<(LossPlace, u64)>,
    /// Seconds from the end of an overload to the end of the losses, as they were sent: to a frame
    /// where its receiver kept gaps, else to an interval. `None` if nothing was lost, or losses
    /// went on to the end.
    pub recovery_s: Option<f64>,
    /// Seconds from the end of an overload until the receiver had the last gap behind it: what was
    /// queued as the last frame was lost came first.
    pub cleared_s: Option<f64>,
    /// Latency of its frames, where that was what for and the ends have one clock.
    pub latency: Option<SearchLatency>,
    /// Its validity; suspect means tainted.
    pub validity: Validity,
    /// Why it is not valid.
    pub why: Vec<Reason>,
}

impl SearchTrial {
    /// Returns the observation for a goal; `None` if the device is not responsible for the result.
    #[must_use]
    pub fn observation(&self) -> Option<Observation> {
        (self.validity <= Validity::Suspect).then_some(Observation {
            load: self.load,
            duration: self.duration,
            loss_ratio: self.loss_ratio,
        })
    }
}

/// Returns the result of `trial`; `None` if it does not belong to a search.
#[must_use]
pub fn searched(campaign: &Campaign, trial: &TrialRecord) -> Option<SearchTrial> {
    let Searched { search, step, number } = &**trial.spec.search.as_ref()?;
    let step = (*step)?;
    let hosts = Hosts::of(campaign);
    let jobs = point::jobs_of(trial);
    let mut standing = judge::carried_out(trial);
    let mut losses: Vec<Vec<LossStudy>> = vec![Vec::new(); jobs.len()];
    if standing.carries_figures() {
        losses = jobs.iter().map(|job| loss::of_job(trial, job, &hosts, jobs.len() == 1)).collect();
        let run = Run { trial, jobs: &jobs, hosts: &hosts, span: warmup::measured(trial) };
        judge::measured(&mut standing, run, &losses);
    }
    let counts = Counts::of(&jobs, &losses);
    if standing.carries_figures() {
        if counts.sent == 0 {
            standing.lower(Validity::Invalid, Reason::NoFrames);
        }
        for doubt in misled(step.purpose, &counts) {
            standing.lower(Validity::Invalid, doubt);
        }
        if let Some(share) = very_late(step.purpose, &counts) {
            if is_high_loss_anyway(search, &counts) {
                let unexplained = Some(counts.lost() - counts.very_late);
                standing.lower(Validity::Suspect, Reason::SentVeryLate { share, unexplained });
            } else {
                standing
                    .lower(Validity::Invalid, Reason::SentVeryLate { share, unexplained: None });
            }
        }
        if doubtful(step.purpose, &counts) {
            standing.lower(Validity::Suspect, Reason::LeftLate { frames: counts.very_late });
        }
        let dropped = dropped_by_tester(campaign, &jobs, &losses)
            .filter(|_| step.purpose != Purpose::SelfTest);
        for (place, frames) in dropped {
            standing.lower(Validity::Invalid, Reason::TesterLost { frames, place: place.clone() });
        }
        if let Some(squeezed) = squeezed(trial) {
            standing.lower(Validity::Suspect, squeezed);
        }
    }
    let recovered = step.then.and_then(|_| recovery::after(&jobs, step.duration));
    Some(SearchTrial {
        id: trial.spec.id,
        number: *number,
        purpose: step.purpose,
        load: step.load,
        duration: step.duration,
        intended: counts.intended,
        sent: counts.sent,
        received: counts.received,
        duplicates: counts.duplicates,
        reordered: counts.reordered,
        loss_ratio: counts.loss_ratio(step.duration),
        generator_limited: counts.generator_limited(step.duration),
        doubtful: doubtful(step.purpose, &counts),
        departed: departed(&jobs),
        located: located(&losses),
        recovery_s: recovered.map(|recovered| recovered.ended_s),
        cleared_s: recovered.and_then(|recovered| recovered.cleared_s),
        latency: (step.purpose == Purpose::Latency)
            .then(|| super::search_latency::of_trial(&jobs, step.duration))
            .flatten(),
        validity: standing.validity,
        why: standing.why,
    })
}

/// Frames of all jobs and directions.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    intended: u64,
    sent: u64,
    received: u64,
    duplicates: u64,
    reordered: u64,
    /// Sent more than 1 ms after they were due.
    very_late: u64,
}

impl Counts {
    fn of(jobs: &[Job<'_>], losses: &[Vec<LossStudy>]) -> Self {
        let mut counts = Self::default();
        for (job, losses) in jobs.iter().zip(losses) {
            let both = |counter| job.ends().into_iter().map(|end| total(end, counter)).sum::<u64>();
            counts.intended += both(Counter::Intended);
            counts.very_late += both(Counter::VeryLateStarts);
            for loss in losses {
                counts.sent += loss.ledger.sent;
                counts.received += loss.ledger.unique + loss.ledger.late;
                counts.duplicates += loss.ledger.duplicates;
                counts.reordered += loss.ledger.reordered;
            }
        }
        counts
    }

    /// Returns the frames that were not sent, beyond the edges of a load.
    fn unsent(&self, duration: Nanos) -> u64 {
        let unsent = self.intended.saturating_sub(self.sent);
        let rate = self.intended as f64 / duration.as_secs_f64().max(f64::MIN_POSITIVE);
        if unsent as f64 <= EDGE_FRAMES + rate * EDGE_SECONDS { 0 } else { unsent }
    }

    fn generator_limited(&self, duration: Nanos) -> bool {
        self.unsent(duration) > 0 && (self.sent as f64) < LEAST_OFFERED * self.intended as f64
    }

    /// Returns the frames that were sent and did not come.
    fn lost(&self) -> u64 {
        self.sent.saturating_sub(self.received)
    }

    fn loss_ratio(&self, duration: Nanos) -> f64 {
        let unsent = self.unsent(duration);
        let expected = self.sent + unsent;
        let lost = unsent + self.lost();
        if expected == 0 { 1.0 } else { lost as f64 / expected as f64 }
    }
}

/// Returns the reasons why the load was not that of the trial, by the tester's fault. The limits of
/// the tester are found by the self-test. A warm-up is not judged, and an overload may spread its
/// frames in any way.
fn misled(purpose: Purpose, counts: &Counts) -> Vec<Reason> {
    let mut doubts = Vec::new();
    let unsent = counts.intended.saturating_sub(counts.sent);
    if purpose == Purpose::Burst && unsent as f64 > EDGE_FRAMES {
        doubts.push(Reason::BurstCut { unsent, of: counts.intended });
    }
    doubts
}

/// Returns the share of the frames that left more than 1 ms late, if it is too large.
fn very_late(purpose: Purpose, counts: &Counts) -> Option<f64> {
    let late = counts.very_late as f64;
    let too_many = late > EDGE_FRAMES + MOST_VERY_LATE * counts.sent as f64;
    (matches!(purpose, Purpose::Load | Purpose::Burst) && too_many)
        .then(|| late / counts.sent as f64)
}

/// Returns whether the device lost more than every goal of the search allows, however late some
/// frames were. A late frame displaces at most one other, so the tester causes at most as many
/// losses as there are late frames. Such a load is an upper bound and need not be offered again. A
/// search without goals measures the loss itself, which late frames change.
fn is_high_loss_anyway(search: &Search, counts: &Counts) -> bool {
    let most = search.goals().into_iter().map(|goal| goal.loss_ratio).reduce(f64::max);
    let surely_lost = counts.lost().saturating_sub(counts.very_late) as f64;
    most.is_some_and(|most| surely_lost > most * counts.sent as f64)
}

/// Returns whether the losses may be the tester's, which sent overdue frames all at once.
fn doubtful(purpose: Purpose, counts: &Counts) -> bool {
    let lost = counts.lost();
    matches!(purpose, Purpose::Load | Purpose::Burst) && lost > 0 && counts.very_late >= lost
}

/// Takes out of the trials of a search, in their order, those that were doubtful and so repeated:
/// as the search did that made them.
pub(super) fn settle(trials: &mut [SearchTrial]) {
    let mut spoilt = 0;
    for trial in trials.iter_mut().filter(|trial| trial.purpose != Purpose::WarmUp) {
        if trial.validity > Validity::Suspect {
            spoilt += 1;
        } else if trial.doubtful && spoilt < MOST_REPEATS {
            spoilt += 1;
            trial.validity = Validity::Invalid;
        } else {
            spoilt = 0;
        }
    }
}

/// Returns the frames per second from the first departure to the last, of the only sender. `None`
/// for several senders, or if departures were not recorded singly.
fn departed(jobs: &[Job<'_>]) -> Option<f64> {
    let senders =
        || jobs.iter().flat_map(Job::ends).filter(|end| total(end, Counter::DatagramsSent) > 0);
    let sender = senders().next().filter(|_| senders().count() == 1)?;
    let mut gaps = Distribution::default();
    sender
        .intervals
        .iter()
        .filter(|interval| interval.worker == 0)
        .for_each(|interval| gaps.merge(&interval.gap));
    let alone = sender.intervals.iter().all(|interval| interval.worker == 0);
    let ns = gaps.mean().filter(|_| alone)? * gaps.count() as f64;
    let frames = total(sender, Counter::DatagramsSent).saturating_sub(1);
    (ns > 0.0 && frames > 0).then(|| frames as f64 / (ns / 1e9))
}

/// Places in the tester where frames were lost.
fn dropped_by_tester<'a>(
    campaign: &'a Campaign,
    jobs: &'a [Job<'_>],
    losses: &'a [Vec<LossStudy>],
) -> impl Iterator<Item = (&'a LossPlace, u64)> {
    jobs.iter()
        .zip(losses)
        .flat_map(|(job, losses)| losses.iter().map(move |loss| (job, loss)))
        .flat_map(move |(job, loss)| {
            let shaped = is_shaped(campaign, job, loss.direction);
            let of_tester = move |place: &LossPlace| {
                OF_TESTER.contains(place) || (!shaped && OF_SENDER.contains(place))
            };
            loss.located
                .iter()
                .map(|(place, n)| (place, *n))
                .filter(move |(place, _)| of_tester(place))
        })
}

/// Returns whether a lab shapes the path of `direction` of `job`.
fn is_shaped(campaign: &Campaign, job: &Job<'_>, direction: Direction) -> bool {
    let (from, to) = (&job.spec.from.name, &job.spec.to.name);
    let way = if direction == Direction::Rx { (to, from) } else { (from, to) };
    let crosses = |pairs: &[(String, String)]| pairs.iter().any(|(a, b)| (a, b) == way);
    campaign.header.testbed == TestbedKind::Lab
        && campaign.header.capacities.iter().any(|capacity| crosses(&capacity.pairs))
}

fn located(losses: &[Vec<LossStudy>]) -> Vec<(LossPlace, u64)> {
    let mut places: Vec<(LossPlace, u64)> = Vec::new();
    for (place, n) in losses.iter().flatten().flat_map(|loss| &loss.located) {
        match places.iter_mut().find(|(known, _)| known == place) {
            Some((_, sum)) => *sum += n,
            None => places.push((place.clone(), *n)),
        }
    }
    places
}

/// Softirq rounds that ended with work left, if any: frames waited there.
fn squeezed(trial: &TrialRecord) -> Option<Reason> {
    let mut hosts: Vec<&str> = trial.samples.iter().map(|(host, _)| host.as_str()).collect();
    hosts.sort_unstable();
    hosts.dedup();
    hosts.into_iter().find_map(|host| {
        let samples = Samples::of(trial, host);
        let span = samples.extent()?;
        let rounds = samples
            .change(span, |read| linerate_model::series::softnet::SQUEEZED.is(read))?
            .round();
        (rounds > 0.0).then(|| Reason::Squeezed { host: host.to_owned(), rounds })
    })
}
