//! One trial of a search, as its goal sees it (methodology 4.0).
//!
//! What was expected is the larger of what was intended and what was sent: a frame the generator did not send is lost, beyond
//! the edges of the load, so that an overloaded generator pushes a search down and never up. Loss is expected less distinct
//! frames received: duplicates never make up for it. Losses located in the tester (its queues, its sockets), a ledger that
//! does not balance or a trial that was not carried out make it *invalid*; what disturbed the tester makes it *tainted*, and
//! its result is kept.
//!
//! In a lab the shaper of a link is the device under test wherever it stands: what is dropped there is the device's.

use linerate_model::{
    Campaign, Counter, Direction, Nanos, Purpose, Searched, TestbedKind, TrialId, TrialRecord, Validity,
};
use serde::{Deserialize, Serialize};

use super::loss::LossStudy;
use super::samples::{Hosts, Samples};
use super::span::{Span, total};
use super::traffic::Job;
use super::{judge, point, warmup};
use crate::search::Observation;

/// What may be unsent at the edges of a load without being lost, of its length in seconds: a sender that wakes late at its end leaves
/// out what was due since. A sleeping thread wakes within a tenth of a millisecond, with few exceptions.
const EDGE_SECONDS: f64 = 1e-3;
/// Frames that may be unsent besides: one under way at each edge.
const EDGE_FRAMES: f64 = 2.0;
/// Places of a loss that are the tester's.
const OF_TESTER: [&str; 3] = ["receiver device", "receiver backlog (softnet)", "receiver socket"];
/// Places that are the tester's, unless the lab's shaper stands there.
const OF_SENDER: [&str; 2] = ["sender qdisc", "sender device"];

/// What came of one trial of a search.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SearchTrial {
    /// Its number.
    pub id: TrialId,
    /// Its number in the search.
    pub number: u32,
    /// What for.
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
    /// What is known of the losses' places.
    pub located: Vec<(String, u64)>,
    /// Seconds from the end of an overload to the end of the losses, as the intervals tell.
    pub recovery_s: Option<f64>,
    /// Its standing: suspect is tainted.
    pub validity: Validity,
    /// Why it is not valid.
    pub why: Vec<String>,
}

impl SearchTrial {
    /// What a goal makes of it; `None` if the device does not answer for it.
    #[must_use]
    pub fn observation(&self) -> Option<Observation> {
        (self.validity <= Validity::Suspect).then_some(Observation {
            load: self.load,
            duration: self.duration,
            loss_ratio: self.loss_ratio,
        })
    }
}

/// What came of `trial`, which is one of a search; `None` if it is not.
#[must_use]
pub fn searched(campaign: &Campaign, trial: &TrialRecord) -> Option<SearchTrial> {
    let Searched { step, number, .. } = &**trial.spec.search.as_ref()?;
    let step = (*step)?;
    let hosts = Hosts::of(campaign);
    let jobs = point::jobs_of(trial);
    let mut standing = judge::carried_out(trial);
    let mut losses: Vec<Vec<LossStudy>> = vec![Vec::new(); jobs.len()];
    if standing.carries_figures() {
        losses = jobs.iter().map(|job| point::losses_of(trial, job, jobs.len() == 1)).collect();
        judge::measured(&mut standing, trial, &jobs, &hosts, &warmup::measured(trial), &losses);
    }
    let counts = Counts::of(&jobs, &losses);
    if standing.carries_figures() {
        if counts.sent == 0 {
            standing.lower(Validity::Invalid, "no frame was sent");
        }
        for (place, n) in dropped_by_tester(campaign, &jobs, &losses).filter(|_| step.purpose != Purpose::SelfTest) {
            standing.lower(Validity::Invalid, format!("the tester lost {n} frames ({place})"));
        }
        if let Some(squeezed) = squeezed(trial) {
            standing.lower(Validity::Suspect, squeezed);
        }
    }
    let overload_end = step.then.map(|_| step.duration);
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
        located: located(&losses),
        recovery_s: overload_end.and_then(|end| recovery(&jobs, end)),
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
}

impl Counts {
    fn of(jobs: &[Job<'_>], losses: &[Vec<LossStudy>]) -> Self {
        let mut counts = Self::default();
        for (job, losses) in jobs.iter().zip(losses) {
            counts.intended += job.ends().into_iter().map(|end| total(end, Counter::Intended)).sum::<u64>();
            for loss in losses {
                counts.sent += loss.ledger.sent;
                counts.received += loss.ledger.unique + loss.ledger.late;
                counts.duplicates += loss.ledger.duplicates;
                counts.reordered += loss.ledger.reordered;
            }
        }
        counts
    }

    fn loss_ratio(&self, duration: Nanos) -> f64 {
        let unsent = self.intended.saturating_sub(self.sent);
        let rate = self.intended as f64 / duration.as_secs_f64().max(f64::MIN_POSITIVE);
        let unsent = if unsent as f64 <= EDGE_FRAMES + rate * EDGE_SECONDS { 0 } else { unsent };
        let expected = self.sent + unsent;
        let lost = unsent + self.sent.saturating_sub(self.received);
        if expected == 0 { 1.0 } else { lost as f64 / expected as f64 }
    }
}

/// Places in the tester where frames were lost.
fn dropped_by_tester<'a>(
    campaign: &'a Campaign,
    jobs: &'a [Job<'_>],
    losses: &'a [Vec<LossStudy>],
) -> impl Iterator<Item = (&'a str, u64)> {
    jobs.iter().zip(losses).flat_map(|(job, losses)| losses.iter().map(move |loss| (job, loss))).flat_map(
        move |(job, loss)| {
            let shaped = is_shaped(campaign, job, loss.direction);
            let of_tester = move |place: &str| OF_TESTER.contains(&place) || (!shaped && OF_SENDER.contains(&place));
            loss.located.iter().map(|(place, n)| (place.as_str(), *n)).filter(move |(place, _)| of_tester(place))
        },
    )
}

/// Whether a lab shapes the way `direction` of `job` goes.
fn is_shaped(campaign: &Campaign, job: &Job<'_>, direction: Direction) -> bool {
    let (from, to) = (&job.spec.from.name, &job.spec.to.name);
    let way = if direction == Direction::Rx { (to, from) } else { (from, to) };
    let crosses = |pairs: &[(String, String)]| pairs.iter().any(|(a, b)| (a, b) == way);
    campaign.header.testbed == TestbedKind::Lab
        && campaign.header.capacities.iter().any(|capacity| crosses(&capacity.pairs))
}

fn located(losses: &[Vec<LossStudy>]) -> Vec<(String, u64)> {
    let mut places: Vec<(String, u64)> = Vec::new();
    for (place, n) in losses.iter().flatten().flat_map(|loss| &loss.located) {
        match places.iter_mut().find(|(known, _)| known == place) {
            Some((_, sum)) => *sum += n,
            None => places.push((place.clone(), *n)),
        }
    }
    places
}

/// Softirq rounds that ended with work left, if any: frames waited there.
fn squeezed(trial: &TrialRecord) -> Option<String> {
    let mut hosts: Vec<&str> = trial.samples.iter().map(|(host, _)| host.as_str()).collect();
    hosts.sort_unstable();
    hosts.dedup();
    hosts.into_iter().find_map(|host| {
        let samples = Samples::of(trial, host);
        let span = samples.extent()?;
        let squeezes = samples.change(span, |s| s.sampler == "softnet" && s.name == "time_squeeze")?.round();
        (squeezes > 0.0).then(|| format!("{squeezes} softirq rounds of {host} ended with work left (time_squeeze)"))
    })
}

/// Seconds from `overload_end` until the intervals of sender and receiver agree again for good: RFC 2544 26.5, resolved to an
/// interval. Nothing lost afterwards: zero.
fn recovery(jobs: &[Job<'_>], overload_end: Nanos) -> Option<f64> {
    let mut ends: Vec<Nanos> = jobs
        .iter()
        .flat_map(|job| &job.active.intervals)
        .map(|interval| interval.end)
        .filter(|end| *end > overload_end)
        .collect();
    ends.sort_unstable();
    ends.dedup();
    let mut from = overload_end;
    let mut last = None;
    for to in &ends {
        let span = Span { from, to: *to };
        let counted = |counter| -> f64 {
            let ends = jobs.iter().flat_map(Job::ends);
            ends.map(|end| super::span::counted(end, counter, span)).sum()
        };
        let lost = counted(Counter::DatagramsSent) - counted(Counter::DatagramsReceived);
        // A frame on its way at each edge is not lost.
        if lost > EDGE_FRAMES {
            last = Some(*to);
        }
        from = *to;
    }
    (!ends.is_empty()).then(|| last.map_or(0.0, |last| last.since(overload_end).as_secs_f64()))
}
