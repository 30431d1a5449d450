//! Readings, ceilings and losses that the study adds to each stage, and the stage that limits.

use linerate_model::{BoundPart, Direction, Metric, Unit, metric};

use super::super::loss_place::LossPlace;
use super::super::search_trial::SearchTrial;
use super::super::{JobStudy, PointStudy};
use super::between::is_of;
use super::{
    Limit, PathEnd, Reading, ReadingKind, Stage, StageCeiling, StageKind, Surety, measured,
};
use crate::diagnosis::{Claim, Evidence, Finding, Step, rules};

use PathEnd::{Receiver, Sender};
use ReadingKind::{
    AdvertisedWindow, BacklogDrops, BufferFill, BufferWait, BusiestThreadCpu, BytesPerCall,
    CongestionWindow, InFlight, QuotaExhausted, Retransmitted, RoundTrip, SoftirqCpu, WindowWait,
};
use StageKind::{Application, Queue, Socket};

/// Share of the losses at one place from which on it is the place of the losses.
const NEARLY_ALL: f64 = 0.9;

/// Metrics of a job that are readings of a stage: stage, metric, and the direction to read (`None`:
/// the sum).
const JUDGED: [(PathEnd, StageKind, &Metric, ReadingKind, bool); 15] = [
    (Sender, Application, metric::SENDER_CPU, BusiestThreadCpu, true),
    (Sender, Application, metric::SENDER_THROTTLED, QuotaExhausted, true),
    (Sender, Application, metric::PAYLOAD_PER_SEND, BytesPerCall, true),
    (Sender, Socket, metric::RWND_LIMITED, WindowWait, true),
    (Sender, Socket, metric::SNDBUF_LIMITED, BufferWait, true),
    (Sender, Socket, metric::RETRANSMIT_RATIO, Retransmitted, true),
    (Sender, Socket, metric::RTT, RoundTrip, true),
    (Sender, Socket, metric::CONGESTION_WINDOW, CongestionWindow, true),
    (Receiver, Socket, metric::PEER_WINDOW, AdvertisedWindow, true),
    (Receiver, Socket, metric::RECEIVE_QUEUE, BufferFill, true),
    (Receiver, Socket, metric::SOFTNET_DROPPED, BacklogDrops, false),
    (Receiver, Socket, metric::SOFTIRQ_CORE, SoftirqCpu, false),
    (Receiver, Application, metric::RECEIVER_CPU, BusiestThreadCpu, true),
    (Receiver, Application, metric::RECEIVER_THROTTLED, QuotaExhausted, true),
    (Sender, Queue, metric::ACHIEVED_DEPTH, InFlight, false),
];

/// Stage at which each rule locates the limit. Rules that name a capacity find the stage by its
/// name.
const PLACES: [(&str, &[(PathEnd, StageKind)]); 33] = [
    ("bus_ceiling", &[]),
    ("congestion_control", &[(Sender, Socket)]),
    ("cpu_taken", &[]),
    ("cross_traffic", &[]),
    ("disk_cache", &[]),
    ("disk_cpu", &[]),
    ("disk_depth", &[]),
    ("disk_flush", &[]),
    ("disk_full", &[]),
    ("disk_group_limit", &[]),
    ("disk_queue", &[]),
    ("disk_shared", &[]),
    ("fire_hose", &[]),
    ("hash_polarised", &[]),
    ("link_ceiling", &[]),
    ("memory_bandwidth", &[(Sender, Socket), (Receiver, Socket)]),
    ("not_valid", &[]),
    ("numa_placement", &[(Sender, Application), (Receiver, Application)]),
    ("path_loss", &[]),
    ("path_mtu", &[]),
    ("path_rate", &[]),
    ("policer", &[]),
    ("receive_window", &[(Receiver, Socket)]),
    (rules::RECEIVER_CPU, &[(Receiver, Application)]),
    ("reverse_path", &[]),
    ("send_buffer", &[(Sender, Socket)]),
    (rules::SENDER_CPU, &[(Sender, Application)]),
    ("single_flow", &[]),
    ("slow_receiver", &[(Receiver, Application)]),
    ("slow_source", &[(Sender, Application)]),
    ("small_message", &[(Sender, Application)]),
    (rules::SOFTIRQ_CORE, &[(Receiver, Socket)]),
    ("unknown", &[]),
];
/// The rule whose limit is where losses are.
const PATH_LOSS: &str = "path_loss";
/// Rules that see the limit between the ends or in a bus.
const OF_CAPACITIES: [&str; 6] =
    ["bus_ceiling", "fire_hose", "hash_polarised", "link_ceiling", "path_loss", "single_flow"];

/// Returns the study's figures of `stage`, beside the readings there.
pub(super) fn judged(stage: &Stage, job: &JobStudy, direction: Direction) -> Vec<Reading> {
    let of_stage =
        JUDGED.iter().filter(|(end, place, ..)| (*end, *place) == (stage.end, stage.place));
    let told = of_stage.filter_map(|(_, _, metric, kind, directed)| {
        let metric = job.metric(metric, if *directed { direction } else { Direction::Sum })?;
        let value = metric.estimate?.value;
        // Shares of time that are zero carry no information.
        let silent = value == 0.0 && matches!(metric.unit, Unit::Ratio | Unit::Count);
        (value.is_finite() && !silent)
            .then(|| Reading::new(*kind, value, metric.unit, metric.layer))
    });
    told.collect()
}

/// Returns the lowest bound known at `stage`.
pub(super) fn ceiling(
    stage: &Stage,
    point: &PointStudy,
    direction: Direction,
) -> Option<StageCeiling> {
    let here = stage.part.as_ref()?;
    let bounds = point.ceilings.iter().filter(|ceiling| {
        ceiling.metric == metric::GOODPUT
            && ceiling.direction == direction
            && matches!(ceiling.subject.parts(), [part] if part.is_at(here))
    });
    let lowest = bounds.min_by(|a, b| a.value.total_cmp(&b.value))?;
    Some(StageCeiling {
        name: lowest.subject.short_name(),
        value: lowest.value,
        unit: lowest.unit,
        layer: lowest.layer,
        hard: lowest.is_hard(),
    })
}

/// Returns the losses of `job` that counters locate at `stage`; `None` where its counters were not
/// read or nothing keeps a ledger.
pub(super) fn lost(stage: &Stage, job: &JobStudy, direction: Direction) -> Option<u64> {
    let loss = job.loss.iter().find(|loss| loss.direction == direction)?;
    let found: u64 =
        loss.located.iter().filter(|(place, _)| is_at(stage, place)).map(|(_, n)| n).sum();
    let unobserved = loss.unobserved.iter().any(|place| is_at(stage, place));
    // A counter that was read and found nothing shows zero; at the ends every place has a counter.
    let counted =
        !unobserved && stage.end != PathEnd::Between && stage.place != StageKind::Application;
    (found > 0 || counted && stage.is_observed()).then_some(found)
}

/// Returns whether a place of the loss ledger is `stage`.
fn is_at(stage: &Stage, place: &LossPlace) -> bool {
    let at = match place {
        LossPlace::SenderQueue => (PathEnd::Sender, StageKind::Queue),
        LossPlace::SenderDevice => (PathEnd::Sender, StageKind::Interface),
        LossPlace::SenderOutput => (PathEnd::Sender, StageKind::Socket),
        LossPlace::ReceiverDevice | LossPlace::ReceiverIngress => {
            (PathEnd::Receiver, StageKind::Interface)
        }
        LossPlace::ReceiverBacklog
        | LossPlace::ReceiverReassembly
        | LossPlace::ReceiverFilter
        | LossPlace::ReceiverChecksum
        | LossPlace::ReceiverSocket => (PathEnd::Receiver, StageKind::Socket),
        LossPlace::Device { name, .. } => {
            return stage.end == PathEnd::Between && is_of(stage, name);
        }
        // A controller is in no picture of a path.
        LossPlace::Controller => return false,
    };
    (stage.end, stage.place) == at
}

/// Place of the limit on the path, from the finding that names it. Both the sentence and the
/// picture follow from this.
pub(super) struct Bottleneck {
    /// The job it is about; `None` where it is about the whole point.
    job: Option<usize>,
    at: At,
}

/// The part of a path that limits.
enum At {
    /// These stages, whatever their names.
    Places(&'static [(PathEnd, StageKind)]),
    /// The parts that set the ceiling of the job's goodput.
    Parts(Vec<BoundPart>),
    /// The place with most losses by counters between the ends; the parts that set the ceiling if
    /// there are no losses.
    MostLost(Vec<BoundPart>),
}

/// Returns the place on the path of a job of `point` that `finding` names as the limit.
pub(super) fn bottleneck(finding: &Finding, point: &PointStudy) -> Option<Bottleneck> {
    let number = finding.subject.flow.and_then(|flow| usize::try_from(flow.job).ok());
    // The job that adds up all others has no path of its own.
    let job = number.filter(|number| measured(point).any(|(known, _)| known == *number));
    let rule = finding.rule.as_str();
    // These rules name a capacity, which can be anywhere between the ends. All others have a fixed
    // place.
    if !OF_CAPACITIES.contains(&rule) {
        let (_, places) = PLACES
            .iter()
            .find(|(name, _)| *name == rule)
            // Rules without a place are about the whole path.
            .filter(|(_, places)| !places.is_empty())?;
        return Some(Bottleneck { job, at: At::Places(places) });
    }
    let flow = finding.subject.flow?;
    let goodput = point.jobs.get(number?)?.metric(metric::GOODPUT, flow.direction);
    let bound = goodput.and_then(|metric| point.ceilings.get(metric.ceiling?));
    let parts = bound.map_or_else(Vec::new, |bound| bound.subject.parts().to_vec());
    Some(Bottleneck {
        job,
        at: if rule == PATH_LOSS { At::MostLost(parts) } else { At::Parts(parts) },
    })
}

/// Returns the job whose path shows what `finding` is about; `None` where that is no single one.
pub(super) fn job(finding: &Finding, point: &PointStudy) -> Option<usize> {
    bottleneck(finding, point)?.job
}

impl Bottleneck {
    /// Marks it among the stages of the path of job `number`. A limit of another job alone is not
    /// on this path.
    pub(super) fn mark(&self, stages: &mut [Stage], number: usize) {
        let is_own = self.job.is_none_or(|job| job == number);
        let sets = |stage: &Stage, parts: &[BoundPart]| {
            stage.part.as_ref().is_some_and(|part| parts.iter().any(|one| one.is_at(part)))
        };
        let most_lost = stages
            .iter()
            .filter(|stage| stage.end == PathEnd::Between)
            .filter_map(|stage| stage.lost)
            .max();
        let most_lost = most_lost.filter(|lost| *lost > 0);
        for stage in stages {
            stage.limits = match &self.at {
                // A limit of one job must not be drawn on the path of another.
                At::Places(places) => is_own && places.contains(&(stage.end, stage.place)),
                // Losses are counted, the ceiling is calculated, so counted losses take precedence.
                At::MostLost(_) if most_lost.is_some() => is_own && stage.lost == most_lost,
                // Parts that all jobs share are on the path of each.
                At::Parts(parts) | At::MostLost(parts) => sets(stage, parts),
            };
        }
    }
}

/// Returns the place of the losses at the loads `above` the result of a search, as far as counters
/// locate them.
pub(super) fn located(stages: &mut [Stage], above: &[&SearchTrial], at_least: bool) -> Limit {
    let mut limit = Limit::not_diagnosed();
    // A search that the tester ended has found no place of losses.
    if at_least {
        limit.claim = Some(Claim::Tester);
        limit.next = vec![Step::MoreTesters.into()];
        return limit;
    }
    let mut places: Vec<(&LossPlace, u64)> = Vec::new();
    for (place, n) in above.iter().flat_map(|trial| &trial.located) {
        match places.iter_mut().find(|(known, _)| *known == place) {
            Some((_, sum)) => *sum += n,
            None => places.push((place, *n)),
        }
    }
    let lost: u64 = above.iter().map(|trial| trial.sent.saturating_sub(trial.received)).sum();
    for stage in stages.iter_mut() {
        let found: u64 =
            places.iter().filter(|(place, _)| is_at(stage, place)).map(|(_, n)| n).sum();
        stage.lost = (found > 0).then_some(found);
    }
    let Some((place, n)) = places
        .iter()
        .max_by_key(|(_, n)| *n)
        // A few stray losses elsewhere must not hide the place of nearly all of them.
        .filter(|(_, n)| *n as f64 >= NEARLY_ALL * lost as f64)
    else {
        if lost > 0 {
            limit.evidence = vec![Evidence::NotLocated { lost }];
        }
        limit.next = vec![Step::ReadCounters.into()];
        return limit;
    };
    if let Some(stage) = stages.iter_mut().find(|stage| is_at(stage, place)) {
        stage.limits = true;
    }
    let share = *n as f64 / lost.max(1) as f64;
    limit.evidence = vec![Evidence::LostThere { share, lost }];
    let claim = Some(Claim::LostAt((*place).clone()));
    Limit { surety: Surety::Located, claim, ..limit }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rule_has_its_place_on_the_path() {
        let rules: Vec<&str> =
            crate::diagnosis::rules::RULES.iter().map(|rule| rule.name).collect();
        let placed: Vec<&str> = PLACES.iter().map(|(rule, _)| *rule).collect();
        assert_eq!(rules, placed);
        assert!(
            OF_CAPACITIES
                .iter()
                .all(|rule| PLACES.iter().any(|(name, at)| name == rule && at.is_empty()))
        );
    }
}
