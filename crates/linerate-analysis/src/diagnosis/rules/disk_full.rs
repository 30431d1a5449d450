//! A disk does all that it can (docs/methodology/diagnosis.md#rules, D29). Closed loads past the
//! page cache.
//!
//! Evidence: the disk was busy, its queue held most of the transfers in flight or all that it
//! admits, and neither the workers, nor the control group, nor another program explains the rate.
//! A disk that a deeper queue would speed up shows the same; the experiment separates them. Not
//! observed: a limit of a volume or device below this disk, which is the same to this host.

use linerate_model::metric;

use super::disk_depth::FEWER;
use super::{Rule, disk, disk_depth};
use crate::PointStudy;
use crate::diagnosis::experiment::{Experiment, set};
use crate::diagnosis::{Claim, Evidence, Finding, Step};

/// Share of the time for which the disk has requests, from which on it may be full.
const BUSY: f64 = 0.7;
/// Share of the transfers in flight that the disk's queue holds.
const AT_DISK: f64 = 0.5;
/// Predicted ratio of the mean service time at twice the depth: a full disk makes each transfer
/// wait twice as long (Little's law). A disk with room serves them in the same time.
const TWICE_AS_LONG: [f64; 2] = [1.6, 2.5];
/// Mean service time in seconds from which on the experiment halves the depth.
const LONG: f64 = 0.03;
/// Predicted range of a figure around the exact one.
const AROUND: [f64; 2] = [0.8, 1.25];

/// Rule: the disk is full.
pub(super) const RULE: Rule = Rule {
    number: 29,
    name: "disk_full",
    summary: "the disk was busy 70 % of the time and held half of the transfers in flight, and \
        nothing above it explains the rate",
    judge,
    score,
    experiments,
    ..Rule::PLAIN
};

fn judge(point: &PointStudy) -> Option<Finding> {
    let load = disk::judged(point)?;
    let depth = load.of_disk(metric::DEVICE_DEPTH)?;
    let busy = load.of_disk(metric::DEVICE_BUSY)?;
    // Behind a full queue most transfers wait above the disk, whatever the disk can do.
    let is_at_disk = depth >= AT_DISK * load.achieved || load.full_queue().is_some();
    if busy < BUSY
        || !is_at_disk
        || load.is_out_of_cpu()
        || load.is_held_above()
        || load.flushing() > disk::MOSTLY_FLUSHING
        // The flush within a durable write takes time at the disk, too.
        || load.synchrony().is_some()
    {
        return None;
    }
    let evidence: Vec<Evidence> = std::iter::once(load.under_way()).chain(load.device()).collect();
    let bytes = load.bytes_per_second();
    let finding = load.suspected(RULE.name, Claim::DiskFull { rate: load.rate, bytes }, evidence);
    Some(finding.advise(Step::FasterDisk { rate: load.rate, bytes }))
}

fn score(point: &PointStudy) -> Option<f64> {
    let load = disk::judged(point)?;
    let busy = load.of_disk(metric::DEVICE_BUSY)?;
    Some(super::score::reached(busy, BUSY, 1.0)).filter(|_| !load.is_held_above())
}

fn experiments(point: &PointStudy) -> Vec<Experiment> {
    let Some(load) = disk::closed(point) else { return Vec::new() };
    // Above a full queue more transfers always wait longer. With fewer than it admits, the
    // service time of a full disk falls with them, and that of a disk with room falls less.
    let full = load.full_queue();
    // Twice as long would be longer than an interval of a run, which is then not valid.
    // Neither may twice the depth exceed what the queue admits: the rest waits above it.
    let is_lowered = full.is_some()
        || load.service_seconds > LONG
        || load.queue_for(2.0 * load.slots()).is_some();
    let (name, change, ratio) = if is_lowered {
        // With one transfer in flight there are no fewer, and another block alone proves
        // nothing.
        let Some(fewer) = disk_depth::at_most(&load, full.unwrap_or(load.slots()) / 2.0) else {
            return Vec::new();
        };
        let name = full.map_or_else(|| format!("half the {}", fewer.key), |_| FEWER.to_owned());
        (name, fewer.change, AROUND.map(|around| around * fewer.in_flight / load.achieved))
    } else {
        let (key, value) = disk_depth::deeper(&load);
        (format!("twice the {key}"), vec![set(key, value)], TWICE_AS_LONG)
    };
    let other = Experiment::show(name, change, ratio).of(metric::SERVICE_TIME_MEAN);
    // Shows whether bytes or transfers fill the disk; either way it is full.
    let block = load.other_block().map(|(change, factor)| {
        let ratio = AROUND.map(|around| around / factor);
        Experiment::show(disk::block_name(factor), change, ratio).refuting_nothing()
    });
    std::iter::once(other).chain(block).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnosis::rules::disk::cases::load;

    const FULL: [(&str, f64); 5] = [
        ("iops", 800.0),
        ("achieved_depth", 16.0),
        ("service_time_mean", 20e-3),
        ("device_busy", 0.99),
        ("device_depth", 15.8),
    ];

    fn with(figures: &[(&str, f64)]) -> PointStudy {
        let kept =
            FULL.into_iter().filter(|(name, _)| figures.iter().all(|(other, _)| other != name));
        load(16, &kept.chain(figures.iter().copied()).collect::<Vec<_>>())
    }

    #[test]
    fn it_fires_on_a_busy_disk_and_predicts_that_more_transfers_wait_longer() {
        let point = with(&[("transfer_rate", 800.0 * 4096.0)]);
        let finding = RULE.judge(&point).expect("it fires");
        let bytes = Some(800.0 * 4096.0);
        assert_eq!(finding.claim, Claim::DiskFull { rate: 800.0, bytes });
        assert_eq!(finding.advice[0].step, Step::FasterDisk { rate: 800.0, bytes });
        let [deeper, block] = &RULE.experiments(&point)[..] else { panic!("two") };
        assert_eq!(deeper.candidates, [vec![set("depth", 32)]]);
        assert_eq!(deeper.metric, Some(metric::SERVICE_TIME_MEAN));
        assert!(deeper.is_hopeless(&[1.0]), "a disk with room serves more in the same time");
        assert_eq!(block.candidates, [vec![set("block_size", "8192 B")]]);
        assert!((block.ratio[0] - 0.4).abs() < 1e-9 && (block.ratio[1] - 0.625).abs() < 1e-9);
    }

    #[test]
    fn large_blocks_are_halved_and_lists_of_sizes_are_left_alone() {
        let mut point = with(&[]);
        point.jobs[0].params.set("block_size", "256 KiB");
        let block = &RULE.experiments(&point)[1];
        assert_eq!(block.candidates, [vec![set("block_size", "131072 B")]]);
        assert!((block.ratio[0] - 1.6).abs() < 1e-9, "{:?}", block.ratio);
        point.jobs[0].params.set("access", "4 KiB, weight 60 %; 64 KiB, weight 40 %");
        assert_eq!(RULE.experiments(&point).len(), 1);
    }

    #[test]
    fn it_is_silent_where_something_above_the_disk_or_beside_it_is_the_limit() {
        for other in [
            ("device_busy", 0.2),
            ("device_depth", 3.0),
            ("device_others", 0.4),
            ("cache_served", 0.9),
            ("iops_per_core", 800.0),
        ] {
            let point = with(&[other]);
            assert_eq!(RULE.judge(&point), None, "{other:?}");
        }
        let mut durable = with(&[]);
        durable.jobs[0].params.set("sync", "dsync");
        assert_eq!(RULE.judge(&durable), None, "flushes take the time");
    }

    #[test]
    fn one_transfer_in_flight_is_not_halved() {
        let one = [("achieved_depth", 1.0), ("device_depth", 1.0), ("service_time_mean", 0.08)];
        let mut point = with(&one);
        point.jobs[0].params.set("depth", 1);
        assert_eq!(RULE.experiments(&point), [], "the same load would prove nothing");
        point.jobs[0].params.set("workers", 8);
        let [fewer, ..] = &RULE.experiments(&point)[..] else { panic!("one") };
        assert_eq!(
            (&*fewer.name, &fewer.candidates[..]),
            ("half the workers", &[vec![set("workers", 4)]][..])
        );
    }

    #[test]
    fn behind_a_full_queue_fewer_transfers_must_take_as_much_less_time() {
        let mut point = with(&[("device_queue", 8.0), ("device_depth", 7.9)]);
        let [fewer, ..] = &RULE.experiments(&point)[..] else { panic!("one") };
        assert_eq!(fewer.candidates, [vec![set("depth", 4)]]);
        // A disk with room would do half as much, so that each transfer takes half as long.
        assert!(fewer.ratio[0] > 0.19 && fewer.ratio[1] < 0.32, "{:?}", fewer.ratio);
        point.jobs[0].params.set("workers", 2);
        assert_eq!(RULE.experiments(&point)[0].candidates, [vec![set("depth", 2)]]);
    }

    #[test]
    fn transfers_that_take_long_are_halved_in_number() {
        let point = with(&[("service_time_mean", 0.08)]);
        let [fewer, ..] = &RULE.experiments(&point)[..] else { panic!("one") };
        assert_eq!(fewer.candidates, [vec![set("depth", 8)]]);
        assert!((fewer.ratio[0] - 0.4).abs() < 1e-9 && fewer.ratio[1] < 0.63, "{:?}", fewer.ratio);
    }
}
