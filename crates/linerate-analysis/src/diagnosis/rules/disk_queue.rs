//! The kernel's queue of a disk admits too few requests (docs/methodology/diagnosis.md#rules, D31).
//! Closed loads past the page cache.
//!
//! Evidence: the disk held as many requests as its queue admits (`nr_requests`), and more transfers
//! of the load waited above it. A full disk with such a queue shows the same; the experiment
//! separates them. Not observed: the limits of a scheduler within the queue.

use linerate_model::{Verdict, metric};

use super::{Rule, disk, disk_depth, may_be_judged};
use crate::PointStudy;
use crate::diagnosis::experiment::{Experiment, set};
use crate::diagnosis::{Claim, Finding, Step};

/// Predicted ratio of the rate at half of the queue's requests: a disk with room follows the depth.
/// A disk that is full at the limit keeps its rate.
const FOLLOWS: [f64; 2] = [0.4, 0.8];

/// Rule: the queue of the disk is full.
#[derive(Debug)]
pub(super) struct DiskQueue;

impl Rule for DiskQueue {
    fn name(&self) -> &'static str {
        "disk_queue"
    }

    fn summary(&self) -> &'static str {
        "the disk holds all requests that its queue admits (nr_requests), and more transfers wait \
            above it"
    }

    fn number(&self) -> u8 {
        31
    }

    fn turn(&self, _point: &PointStudy) -> u8 {
        disk::turn::QUEUE
    }

    fn judge(&self, point: &PointStudy) -> Option<Finding> {
        let load = disk::closed(point).filter(|_| may_be_judged(point))?;
        if load.is_out_of_cpu() || load.others().is_some() || load.group_limit().is_some() {
            return None;
        }
        let admitted = load.full_queue()?;
        let queue = load.seen(metric::DEVICE_QUEUE).into_iter();
        let evidence = queue.chain(load.device()).chain([load.under_way()]).collect();
        let (claim, subject) = (Claim::DiskQueue { admitted }, load.subject(point));
        let finding = Finding::new(self.name(), Verdict::Suspected, subject, claim, evidence);
        Some(finding.advise(Step::RaiseDiskQueue { admitted, wanted: load.slots() }))
    }

    fn score(&self, point: &PointStudy) -> Option<f64> {
        let load = disk::closed(point).filter(|_| may_be_judged(point))?;
        let (queue, depth) =
            (load.of_disk(metric::DEVICE_QUEUE)?, load.of_disk(metric::DEVICE_DEPTH)?);
        Some((depth / queue).min(1.0))
    }

    fn experiments(&self, point: &PointStudy) -> Vec<Experiment> {
        let load = disk::closed(point);
        let Some((admitted, load)) = load.and_then(|load| Some((load.full_queue()?, load))) else {
            return Vec::new();
        };
        let (key, (fewer, _)) = disk_depth::below(&load, admitted);
        vec![Experiment::show(disk_depth::FEWER, vec![set(key, fewer)], FOLLOWS)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnosis::rules::disk::cases::load;
    use crate::diagnosis::rules::disk_depth::DiskDepth;

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
        let finding = DiskQueue.judge(&point).expect("it fires");
        assert_eq!(finding.claim, Claim::DiskQueue { admitted: 8.0 });
        let step = Step::RaiseDiskQueue { admitted: 8.0, wanted: 32.0 };
        assert_eq!(finding.advice[0].step, step);
        assert_eq!(DiskQueue.experiments(&point)[0].candidates, [vec![set("depth", 4)]]);
        assert_eq!(DiskDepth.judge(&point), None);
        let mut two = point;
        two.jobs[0].params.set("depth", 16);
        two.jobs[0].params.set("workers", 2);
        assert_eq!(DiskQueue.experiments(&two)[0].candidates, [vec![set("depth", 2)]]);
    }

    #[test]
    fn it_is_silent_where_the_queue_has_room_or_nothing_waits_above_it() {
        assert_eq!(DiskQueue.judge(&queued(32, 4.0)), None);
        assert_eq!(DiskQueue.judge(&queued(8, 7.9)), None);
    }
}
