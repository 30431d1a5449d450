//! Too few transfers are in flight to saturate a disk (docs/methodology/diagnosis.md#rules, D20).
//! Closed loads on disks and files.
//!
//! Evidence: the slots of a closed load were in use nearly all of the time, and its threads had CPU
//! time left. Both are also true of a saturated disk; only the experiment separates the two cases.
//! Not observed: other loads on the same disk.

use super::{Rule, disk, param};
use crate::PointStudy;
use crate::diagnosis::experiment::{Change, Experiment, set};
use crate::diagnosis::{Claim, Finding, Step};

/// Share of slots in use from which the queue depth may be the limit.
const USED: f64 = 0.7;
/// Total depth above which an unsaturated disk is an exception.
const DEEP: f64 = 1024.0;
/// Factor by which an experiment raises or lowers the depth.
const DEEPER: f64 = 2.0;
/// Parameter of the number of workers.
const WORKERS: &str = "workers";
/// Predicted ratio of the rate. A rate that follows the depth doubles; from 1.2 on the depth was
/// part of the limit. A deeper queue also shortens a disk's seek times, so the ratio may exceed 2.
const FOLLOWS: [f64; 2] = [1.2, 2.5];
/// Least fall of the rate where fewer requests are in flight, over the fall of their number.
const LEAST_FALL: f64 = 0.4;
/// Lower end of the rate there, over the share of the requests that are left.
const BELOW: f64 = 0.8;

/// Rule: the load keeps too few transfers in flight.
pub(super) const RULE: Rule = Rule {
    number: 20,
    name: "disk_depth",
    summary: "a closed load keeps few transfers in flight and has CPU time left: a greater queue \
        depth may raise the rate",
    judge,
    score,
    experiments,
    ..Rule::PLAIN
};

fn judge(point: &PointStudy) -> Option<Finding> {
    let load = disk::judged(point)?;
    if load.used() < USED
        || load.slots() > DEEP
        || load.is_out_of_cpu()
        || load.is_held_above()
        // More transfers would wait above a full queue.
        || load.full_queue().is_some()
        // A deeper queue waits for the same flush, so the rule for flushes applies.
        || load.flushing() > disk::MOSTLY_FLUSHING
    {
        return None;
    }
    let evidence = std::iter::once(load.under_way()).chain(load.cpu()).collect();
    let finding = load.suspected(RULE.name, Claim::QueueDepth, evidence);
    let (key, value) = deeper(&load);
    let (parameter, value) = (key.to_owned(), Some(value));
    let requests = load.queue_for(DEEPER * load.slots());
    Some(finding.advise(Step::Double { parameter, value, requests }))
}

fn score(point: &PointStudy) -> Option<f64> {
    let load = disk::judged(point)?;
    Some(super::score::reached(load.used(), USED, 1.0))
        .filter(|_| !load.is_out_of_cpu() && !load.is_held_above())
}

fn experiments(point: &PointStudy) -> Vec<Experiment> {
    let Some(load) = disk::closed(point) else { return Vec::new() };
    if load.queue_for(DEEPER * load.slots()).is_some() {
        // Transfers beyond what the queue admits would wait above it.
        let fewer = at_most(&load, load.slots() / DEEPER).map(|fewer| {
            let ratio = falls(fewer.in_flight / load.slots());
            Experiment::show(format!("half the {}", fewer.key), fewer.change, ratio)
        });
        return fewer.into_iter().collect();
    }
    let (key, value) = deeper(&load);
    vec![Experiment::lift(format!("twice the {key}"), vec![set(key, value)], FOLLOWS)]
}

/// Returns the parameter that doubles the transfers in flight, and its new value.
pub(super) fn deeper(load: &disk::Load<'_>) -> (&'static str, u64) {
    let (key, value) = slots(load);
    (key, (value * DEEPER) as u64)
}

/// Name of a load with half of the transfers that a queue admits.
pub(super) const FEWER: &str = "half of nr_requests";

/// A load with fewer transfers in flight.
pub(super) struct Fewer {
    /// Parameter that makes most of the difference.
    pub(super) key: &'static str,
    pub(super) change: Change,
    pub(super) in_flight: f64,
}

/// Returns the load with at most `most` transfers in flight; `None` if it has no more than that.
pub(super) fn at_most(load: &disk::Load<'_>, most: f64) -> Option<Fewer> {
    let (key, value) = slots(load);
    let others = (load.slots() / value).max(1.0);
    let fewer = (most / others).floor().clamp(1.0, value.max(1.0));
    // Where each of many workers keeps one transfer in flight, only fewer workers keep fewer.
    let workers = (most / fewer).floor().min(others);
    let in_flight = fewer * workers;
    if in_flight < 1.0 || in_flight >= load.slots() {
        return None;
    }
    let own = (fewer < value).then(|| set(key, fewer as u64));
    let of_workers = (workers < others).then(|| set(WORKERS, workers as u64));
    let key = if of_workers.is_some() { WORKERS } else { key };
    Some(Fewer { key, change: own.into_iter().chain(of_workers).collect(), in_flight })
}

/// Returns the predicted ratio of the rate with this share of the requests `left` in flight: a disk
/// with room follows the depth for two fifths of the way or more. A full disk keeps its rate.
pub(super) fn falls(left: f64) -> [f64; 2] {
    [BELOW * left, 1.0 - LEAST_FALL * (1.0 - left)]
}

/// Returns the parameter of the transfers in flight, and its value.
fn slots(load: &disk::Load<'_>) -> (&'static str, f64) {
    let engine = param(load.job, "engine").and_then(serde_json::Value::as_str).unwrap_or("auto");
    // The pread engine keeps one transfer in flight per worker whatever `depth` is.
    match engine {
        "pread" => (WORKERS, load.workers),
        _ => ("depth", load.depth),
    }
}

#[cfg(test)]
mod tests {
    use linerate_model::Verdict;

    use super::*;
    use crate::diagnosis::rules::disk::cases::load;

    #[test]
    fn it_fires_on_a_full_shallow_queue_and_asks_for_twice_the_depth() {
        let point =
            load(4, &[("iops", 10_000.0), ("achieved_depth", 3.9), ("service_time_mean", 390e-6)]);
        let finding = RULE.judge(&point).expect("it fires");
        assert_eq!(finding.verdict, Verdict::Suspected);
        assert_eq!(RULE.experiments(&point)[0].candidates, [vec![set("depth", 8)]]);
        let mut synchronous =
            load(1, &[("iops", 10_000.0), ("achieved_depth", 1.0), ("service_time_mean", 99e-6)]);
        synchronous.jobs[0].params.set("engine", "pread");
        assert_eq!(RULE.experiments(&synchronous)[0].candidates, [vec![set("workers", 2)]]);
        let told = RULE.judge(&synchronous).expect("it fires");
        let twice =
            Step::Double { parameter: "workers".to_owned(), value: Some(2), requests: None };
        assert_eq!(told.advice[0].step, twice);
    }

    #[test]
    fn a_queue_without_room_for_twice_the_depth_is_raised_and_the_experiment_halves_the_depth() {
        let queued = |queue: f64| {
            let figures = [
                ("iops", 10_000.0),
                ("achieved_depth", 17.9),
                ("service_time_mean", 1.8e-3),
                ("device_depth", 9.0),
                ("device_queue", queue),
            ];
            let point = load(18, &figures);
            let finding = RULE.judge(&point).expect("it fires");
            let experiment = RULE.experiments(&point).pop().expect("one");
            (finding.advice[0].step.clone(), experiment)
        };
        let twice =
            |requests| Step::Double { parameter: "depth".into(), value: Some(36), requests };
        let (step, half) = queued(20.0);
        assert_eq!((step, &half.candidates[..]), (twice(Some(36.0)), &[vec![set("depth", 9)]][..]));
        let [least, most] = half.ratio;
        assert!((least - 0.4).abs() < 1e-9 && (most - 0.8).abs() < 1e-9, "{:?}", half.ratio);
        let (step, more) = queued(36.0);
        assert_eq!((step, &more.candidates[..]), (twice(None), &[vec![set("depth", 36)]][..]));
    }

    #[test]
    fn it_is_silent_on_an_open_load_an_idle_queue_and_threads_without_time() {
        let full = [("iops", 10_000.0), ("achieved_depth", 3.9), ("service_time_mean", 390e-6)];
        let mut open = load(4, &full);
        open.jobs[0].params.set("rate", "10 kpps");
        assert_eq!(RULE.judge(&open), None);
        let idle =
            load(32, &[("iops", 10_000.0), ("achieved_depth", 3.9), ("service_time_mean", 390e-6)]);
        assert_eq!(RULE.judge(&idle), None);
        let busy = load(
            4,
            &[
                ("iops", 1e5),
                ("achieved_depth", 3.9),
                ("service_time_mean", 39e-6),
                ("iops_per_core", 1.02e5),
            ],
        );
        assert_eq!(RULE.judge(&busy), None);
        let hung = load(
            4,
            &[("iops", 10_000.0), ("achieved_depth", 3.9), ("service_time_mean", f64::INFINITY)],
        );
        assert_eq!(RULE.judge(&hung), None);
    }
}
