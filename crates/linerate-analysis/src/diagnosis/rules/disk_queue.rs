//! The kernel's queue of a disk admits too few requests (docs/methodology/diagnosis.md#rules, D31).
//! Closed loads past the page cache.
//!
//! Evidence: the disk held as many requests as its queue admits (`nr_requests` of each hardware
//! queue that the workers use), and more transfers of the load waited above it. A full disk with
//! such a queue shows the same; the experiment separates them. Not observed: the limits of a
//! scheduler within the queue.

use linerate_model::metric;

use super::{Rule, disk, disk_depth};
use crate::PointStudy;
use crate::diagnosis::experiment::Experiment;
use crate::diagnosis::{Claim, Finding, Step};

/// Rule: the queue of the disk is full.
pub(super) const RULE: Rule = Rule {
    number: 31,
    name: "disk_queue",
    summary: "the disk holds all requests that its queue admits (nr_requests), and more transfers \
        wait above it",
    judge,
    score,
    turn: Some(|_| disk::turn::QUEUE),
    experiments,
    ..Rule::PLAIN
};

fn judge(point: &PointStudy) -> Option<Finding> {
    let load = disk::judged(point)?;
    if load.is_out_of_cpu() || load.others().is_some() {
        return None;
    }
    let admitted = load.full_queue()?;
    let (each, queues) = load.queues()?;
    let queue = load.seen(metric::DEVICE_QUEUE).into_iter();
    let queue = queue.chain(load.seen(metric::DEVICE_QUEUES).filter(|_| queues > 1.0));
    let evidence = queue.chain(load.device()).chain([load.under_way()]).collect();
    let finding = load.suspected(RULE.name, Claim::DiskQueue { admitted }, evidence);
    let wanted = (load.slots() / queues).ceil();
    let change = disk_depth::at_most(&load, admitted)?.change;
    Some(finding.advise(Step::RaiseDiskQueue { admitted: each, wanted, change }))
}

fn score(point: &PointStudy) -> Option<f64> {
    let load = disk::judged(point)?;
    let ((each, queues), depth) = (load.queues()?, load.of_disk(metric::DEVICE_DEPTH)?);
    Some((depth / (each * queues)).min(1.0))
}

fn experiments(point: &PointStudy) -> Vec<Experiment> {
    let fewer = disk::closed(point).and_then(|load| {
        let admitted = load.full_queue()?;
        Some((disk_depth::at_most(&load, admitted / 2.0)?, admitted))
    });
    let shown = fewer.map(|(fewer, admitted)| {
        let ratio = disk_depth::falls(fewer.in_flight / admitted);
        Experiment::show(disk_depth::FEWER, fewer.change, ratio)
    });
    shown.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnosis::experiment::set;
    use crate::diagnosis::rules::disk::cases::{load, with};
    use crate::diagnosis::rules::disk_depth;

    fn queued(depth: u32, at_disk: f64) -> PointStudy {
        load(
            depth,
            &[
                ("iops", 2_000.0),
                ("achieved_depth", f64::from(depth)),
                ("service_time_mean", f64::from(depth) / 2_000.0),
                ("device_busy", 1.0),
                ("device_depth", at_disk),
                ("device_queue", 8.0),
            ],
        )
    }

    #[test]
    fn it_fires_on_a_full_queue_below_the_depth_and_halves_what_is_admitted() {
        let point = queued(32, 7.9);
        let finding = RULE.judge(&point).expect("it fires");
        assert_eq!(finding.claim, Claim::DiskQueue { admitted: 8.0 });
        let step = |admitted, wanted, depth: u64| {
            let change = vec![set("depth", depth)];
            Step::RaiseDiskQueue { admitted, wanted, change }
        };
        assert_eq!(finding.advice[0].step, step(8.0, 32.0, 8));
        let [0.4, most] = RULE.experiments(&point)[0].ratio else { panic!("half") };
        assert!((most - 0.8).abs() < 1e-9, "{most}");
        assert_eq!(RULE.experiments(&point)[0].candidates, [vec![set("depth", 4)]]);
        assert_eq!(disk_depth::RULE.judge(&point), None);
        let mut two = point;
        two.jobs[0].params.set("depth", 16);
        two.jobs[0].params.set("workers", 2);
        assert_eq!(RULE.experiments(&two)[0].candidates, [vec![set("depth", 2)]]);
        let told = RULE.judge(&two).expect("it fires");
        assert_eq!(told.advice[0].step, step(8.0, 32.0, 4), "`depth` counts for each worker");
    }

    #[test]
    fn the_prediction_follows_the_requests_that_are_left() {
        let of_three = [("device_queue", 3.0), ("device_depth", 2.9)];
        let point = with(queued(32, 7.9), &of_three);
        let [experiment] = &RULE.experiments(&point)[..] else { panic!("one") };
        assert_eq!(experiment.candidates, [vec![set("depth", 1)]]);
        let [least, most] = experiment.ratio;
        assert!((least - 0.8 / 3.0).abs() < 1e-9 && (most - 0.6 - 0.4 / 3.0).abs() < 1e-9);
        let mut many = queued(32, 7.9);
        many.jobs[0].params.set("depth", 4);
        many.jobs[0].params.set("workers", 8);
        let fewer = |workers: u64| vec![set("depth", 1), set("workers", workers)];
        assert_eq!(RULE.experiments(&many)[0].candidates, [fewer(4)]);
        let of_four = with(many, &[("device_queue", 4.0), ("device_depth", 3.9)]);
        let told = RULE.judge(&of_four).expect("it fires");
        let (admitted, wanted) = (4.0, 32.0);
        let step = Step::RaiseDiskQueue { admitted, wanted, change: fewer(4) };
        assert_eq!(told.advice[0].step, step, "each worker keeps `depth` in flight");
        let of_one = with(queued(32, 7.9), &[("device_queue", 1.0), ("device_depth", 0.9)]);
        assert!(RULE.judge(&of_one).is_some());
        assert_eq!(RULE.experiments(&of_one), [], "nothing is less than one");
    }

    #[test]
    fn each_hardware_queue_that_the_workers_use_admits_requests_of_its_own() {
        let mut point = with(queued(16, 31.0), &[("device_queues", 8.0), ("achieved_depth", 64.0)]);
        assert_eq!(RULE.judge(&point), None, "31 requests are not in a queue of 8");
        point.jobs[0].params.set("workers", 4);
        let finding = RULE.judge(&point).expect("4 workers use 4 queues");
        assert_eq!(finding.claim, Claim::DiskQueue { admitted: 32.0 });
        let change = vec![set("depth", 8)];
        let step = Step::RaiseDiskQueue { admitted: 8.0, wanted: 16.0, change };
        assert_eq!(finding.advice[0].step, step);
        assert_eq!(RULE.experiments(&point)[0].candidates, [vec![set("depth", 4)]]);
        let none = with(queued(32, 7.9), &[("device_queue", 0.0)]);
        assert_eq!(RULE.judge(&none), None, "a driver without a queue");
    }

    #[test]
    fn requests_of_the_page_cache_are_not_the_transfers_of_a_load() {
        let buffered = with(queued(32, 7.9), &[("cache_served", 0.2)]);
        assert_eq!(RULE.judge(&buffered), None);
    }

    #[test]
    fn it_is_silent_where_the_queue_has_room_or_nothing_waits_above_it() {
        assert_eq!(RULE.judge(&queued(32, 4.0)), None);
        assert_eq!(RULE.judge(&queued(8, 7.9)), None);
    }
}
