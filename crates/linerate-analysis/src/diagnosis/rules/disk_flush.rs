//! A load waits for its own flushes (docs/methodology/diagnosis.md#rules, D21). Loads on disks and
//! files that flush after writes.
//!
//! Evidence: flushes occupied the slots for more than [`disk::MOSTLY_FLUSHING`] of their time. Not
//! observed: the cost of durable writes (`O_DSYNC`), which contain their flush.

use linerate_model::Verdict;

use super::{LEAST_EFFECT, Rule, disk, may_be_judged};
use crate::PointStudy;
use crate::diagnosis::experiment::{Experiment, set};
use crate::diagnosis::{Claim, Finding, Step};

/// Rule: flushes occupy the load's slots.
#[derive(Debug)]
pub(super) struct DiskFlush;

impl Rule for DiskFlush {
    fn name(&self) -> &'static str {
        "disk_flush"
    }

    fn summary(&self) -> &'static str {
        "flushes occupied the slots of the load for more than 30 % of their time"
    }

    fn number(&self) -> u8 {
        21
    }

    fn judge(&self, point: &PointStudy) -> Option<Finding> {
        let load = disk::closed(point).filter(|_| may_be_judged(point))?;
        if load.flushing() <= disk::MOSTLY_FLUSHING {
            return None;
        }
        let (subject, evidence) = (load.subject(point), vec![load.flushed()]);
        let finding =
            Finding::new(self.name(), Verdict::Suspected, subject, Claim::Flushes, evidence);
        Some(finding.advise(Step::FlushLess))
    }

    fn score(&self, point: &PointStudy) -> Option<f64> {
        let load = disk::closed(point).filter(|_| may_be_judged(point))?;
        Some(super::score::reached(load.flushing(), disk::MOSTLY_FLUSHING, 1.0))
    }

    fn experiments(&self, point: &PointStudy) -> Vec<Experiment> {
        let Some(load) = disk::closed(point).filter(|load| load.flushing() > 0.0) else {
            return Vec::new();
        };
        /// Without flushes, caches accept writes far faster than the disk.
        const MOST: f64 = 1e3;
        // At least half of the time that flushes took becomes available to writes.
        let least = LEAST_EFFECT.max(1.0 / (1.0 - load.flushing() / 2.0));
        // With no flush, the parser accepts only the default interval.
        let change = vec![set("flush", "none"), set("flush_every", 1)];
        vec![Experiment::lift("no flushes", change, [least, MOST])]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnosis::Evidence;
    use crate::diagnosis::rules::disk::cases::load;
    use crate::diagnosis::rules::disk_depth::DiskDepth;

    fn flushing(each_seconds: f64) -> PointStudy {
        load(
            2,
            &[
                ("iops", 1_000.0),
                ("achieved_depth", 2.0),
                ("service_time_mean", 200e-6),
                ("flush_rate", 1_000.0),
                ("flush_time_mean", each_seconds),
            ],
        )
    }

    #[test]
    fn it_fires_where_flushes_take_the_time_and_leaves_them_out_in_its_experiment() {
        let point = flushing(1.6e-3);
        let finding = DiskFlush.judge(&point).expect("80 %");
        let Evidence::Flushing { share, .. } = finding.evidence[0] else { panic!("{finding:?}") };
        assert!((share - 0.8).abs() < 1e-9, "{finding:?}");
        let experiment = &DiskFlush.experiments(&point)[0];
        assert_eq!(experiment.candidates, [vec![set("flush", "none"), set("flush_every", 1)]]);
        assert!((experiment.ratio[0] - 1.0 / 0.6).abs() < 1e-9, "{:?}", experiment.ratio);
        assert_eq!(DiskDepth.judge(&point), None, "the depth is not what it waits for");
    }

    #[test]
    fn it_is_silent_where_flushes_are_quick_or_none() {
        assert_eq!(DiskFlush.judge(&flushing(0.5e-3)), None);
        let none =
            load(2, &[("iops", 1_000.0), ("achieved_depth", 2.0), ("service_time_mean", 2e-3)]);
        assert_eq!(DiskFlush.judge(&none), None);
    }
}
