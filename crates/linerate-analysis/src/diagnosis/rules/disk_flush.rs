//! A load waits for its own flushes (docs/methodology/diagnosis.md#rules, D21). Loads on disks and
//! files that flush after writes.
//!
//! Evidence: flushes occupied the slots for more than [`disk::MOSTLY_FLUSHING`] of their time, or
//! each write ends only when it is durable (`O_DSYNC`, `O_SYNC`). The flush within a durable write
//! has no time of its own, so only the experiment shows its cost.

use super::{LEAST_EFFECT, Rule, disk};
use crate::PointStudy;
use crate::diagnosis::experiment::{Experiment, set};
use crate::diagnosis::{Claim, Evidence, Finding, Step};

/// Score of a load whose writes are durable: the cost of that is not known before the experiment.
const DURABLE: f64 = 0.6;

/// Rule: flushes occupy the load's slots.
pub(super) const RULE: Rule = Rule {
    number: 21,
    name: "disk_flush",
    summary: "flushes occupied the slots of the load for more than 30 % of their time, or its \
        writes end when they are durable",
    judge,
    score,
    turn: Some(|_| disk::turn::FLUSH),
    experiments,
    ..Rule::PLAIN
};

fn judge(point: &PointStudy) -> Option<Finding> {
    let load = disk::judged(point)?;
    let evidence = match load.synchrony() {
        _ if load.flushing() > disk::MOSTLY_FLUSHING => vec![load.flushed()],
        Some(mode) => {
            let (mode, seconds) = (mode.to_owned(), load.service_seconds);
            vec![Evidence::DurableWrites { mode, seconds }]
        }
        None => return None,
    };
    let finding = load.suspected(RULE.name, Claim::Flushes, evidence);
    Some(finding.advise(Step::FlushLess))
}

fn score(point: &PointStudy) -> Option<f64> {
    let load = disk::judged(point)?;
    let flushing = super::score::reached(load.flushing(), disk::MOSTLY_FLUSHING, 1.0);
    Some(if load.synchrony().is_some() { flushing.max(DURABLE) } else { flushing })
}

fn experiments(point: &PointStudy) -> Vec<Experiment> {
    let Some(load) = disk::closed(point).filter(disk::Load::is_durable) else {
        return Vec::new();
    };
    /// Without flushes, caches accept writes far faster than the disk.
    const MOST: f64 = 1e3;
    // At least half of the time that flushes took becomes available to writes.
    let least = LEAST_EFFECT.max(1.0 / (1.0 - load.flushing() / 2.0));
    // With no flush, the parser accepts only the default interval.
    let unflushed = (load.flushes.0 > 0.0)
        .then(|| [set("flush", "none"), set("flush_every", 1)])
        .into_iter()
        .flatten();
    let change = unflushed.chain(load.synchrony().map(|_| set("sync", "none"))).collect();
    vec![Experiment::lift("no flushes", change, [least, MOST])]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnosis::rules::disk::cases::load;
    use crate::diagnosis::rules::disk_depth;

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
        let finding = RULE.judge(&point).expect("80 %");
        let Evidence::Flushing { share, .. } = finding.evidence[0] else { panic!("{finding:?}") };
        assert!((share - 0.8).abs() < 1e-9, "{finding:?}");
        let experiment = &RULE.experiments(&point)[0];
        assert_eq!(experiment.candidates, [vec![set("flush", "none"), set("flush_every", 1)]]);
        assert!((experiment.ratio[0] - 1.0 / 0.6).abs() < 1e-9, "{:?}", experiment.ratio);
        assert_eq!(disk_depth::RULE.judge(&point), None, "the depth is not what it waits for");
    }

    #[test]
    fn it_is_silent_where_flushes_are_quick_or_none() {
        assert_eq!(RULE.judge(&flushing(0.5e-3)), None);
        let none =
            load(2, &[("iops", 1_000.0), ("achieved_depth", 2.0), ("service_time_mean", 2e-3)]);
        assert_eq!(RULE.judge(&none), None);
    }

    #[test]
    fn durable_writes_are_compared_with_writes_that_are_not() {
        let mut point =
            load(2, &[("iops", 300.0), ("achieved_depth", 2.0), ("service_time_mean", 6e-3)]);
        assert_eq!(RULE.judge(&point), None);
        point.jobs[0].params.set("sync", "dsync");
        let finding = RULE.judge(&point).expect("writes");
        let expected = Evidence::DurableWrites { mode: "dsync".into(), seconds: 6e-3 };
        assert_eq!(finding.evidence, [expected]);
        assert_eq!(RULE.experiments(&point)[0].candidates, [vec![set("sync", "none")]]);
        point.jobs[0].metrics[0].direction = linerate_model::Direction::Rx;
        assert_eq!(RULE.judge(&point), None, "reads are never durable");
    }
}
