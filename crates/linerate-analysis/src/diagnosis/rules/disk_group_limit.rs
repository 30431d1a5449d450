//! A limit of the control group holds a load on a disk back (docs/methodology/diagnosis.md#rules,
//! D30). Closed loads past the page cache.
//!
//! Evidence: the load uses 40 % or more of a limit of its control group on that disk (`io.max`, or
//! `blkio.throttle` of version 1), and most of its transfers in flight wait above the disk. Where
//! the disk's queue is not known, it must reach 85 %. A full queue of the disk, workers without CPU
//! and the page cache explain waiting transfers, too, so the rule is silent there. Not observed:
//! other programs of the group, whose transfers count towards the same limit.

use linerate_model::metric;

use super::{Rule, disk};
use crate::PointStudy;
use crate::diagnosis::experiment::Experiment;
use crate::diagnosis::{Claim, Finding, Step};

/// Predicted range around the exact effect of a limit.
const AROUND: [f64; 2] = [0.8, 1.25];

/// Rule: the control group's limit is reached.
pub(super) const RULE: Rule = Rule {
    number: 30,
    name: "disk_group_limit",
    summary: "a load on a disk uses 40 % or more of its control group's limit (io.max), and most \
        of its transfers wait above the disk",
    judge,
    score,
    turn: Some(|_| disk::turn::GROUP),
    experiments,
    ..Rule::PLAIN
};

fn judge(point: &PointStudy) -> Option<Finding> {
    let load = disk::judged(point)?;
    let limit = load.group_limit()?;
    let used = if limit.in_bytes { metric::GROUP_BYTES_USED } else { metric::GROUP_TRANSFERS_USED };
    let evidence =
        load.seen(used).into_iter().chain(load.device()).chain([load.under_way()]).collect();
    let disk::GroupLimit { in_bytes, direction, rate, .. } = limit;
    let claim = Claim::DiskGroupLimit { in_bytes, direction, rate };
    let finding = load.suspected(RULE.name, claim, evidence);
    Some(finding.advise(Step::RaiseGroupLimit { in_bytes, direction, rate }))
}

fn score(point: &PointStudy) -> Option<f64> {
    let load = disk::judged(point)?;
    let bytes = load.of_disk(metric::GROUP_BYTES_USED);
    let transfers = load.of_disk(metric::GROUP_TRANSFERS_USED);
    let used = bytes.into_iter().chain(transfers).reduce(f64::max);
    Some(used?.min(1.0))
}

fn experiments(point: &PointStudy) -> Vec<Experiment> {
    let limited = disk::closed(point).and_then(|load| Some((load.group_limit()?, load)));
    let Some((limit, load)) = limited else { return Vec::new() };
    let Some((change, factor)) = load.other_block() else { return Vec::new() };
    let name = disk::block_name(factor);
    // A limit of bytes leaves their rate, and one of transfers leaves theirs.
    vec![if limit.in_bytes {
        Experiment::show(name, change, AROUND.map(|around| around / factor))
    } else {
        let ratio = AROUND.map(|around| around * factor);
        Experiment::show(name, change, ratio).of(metric::TRANSFER_RATE)
    }]
}

#[cfg(test)]
mod tests {
    use linerate_model::{Direction, Estimate};

    use super::*;
    use crate::diagnosis::rules::disk::cases::{load, with};
    use crate::diagnosis::rules::disk_depth;
    use crate::diagnosis::rules::disk_full;
    use crate::diagnosis::rules::disk_queue;

    /// 500 transfers a second of 4 KiB, with this share of each limit.
    fn limited(bytes: f64, transfers: f64, at_disk: f64) -> PointStudy {
        load(
            8,
            &[
                ("iops", 500.0),
                ("transfer_rate", 500.0 * 4096.0),
                ("achieved_depth", 8.0),
                ("service_time_mean", 16e-3),
                ("device_busy", 0.9),
                ("device_depth", at_disk),
                ("group_bytes_used", bytes),
                ("group_transfers_used", transfers),
            ],
        )
    }

    #[test]
    fn it_fires_at_a_limit_and_predicts_what_another_block_size_does() {
        let point = limited(0.2, 0.98, 0.1);
        let finding = RULE.judge(&point).expect("it fires");
        let Claim::DiskGroupLimit { in_bytes: false, rate, .. } = finding.claim else {
            panic!("{finding:?}")
        };
        assert!((rate - 510.2).abs() < 0.1, "{rate}");
        let transfers = &RULE.experiments(&point)[0];
        assert_eq!(transfers.metric, Some(metric::TRANSFER_RATE));
        assert!((transfers.ratio[0] - 1.6).abs() < 1e-9, "{:?}", transfers.ratio);
        let bytes = &RULE.experiments(&limited(1.0, 0.3, 0.1))[0];
        assert_eq!(bytes.metric, None);
        assert!((bytes.ratio[1] - 0.625).abs() < 1e-9, "{:?}", bytes.ratio);
        assert!(
            disk_depth::RULE.judge(&point).is_none() && disk_full::RULE.judge(&point).is_none()
        );
    }

    #[test]
    fn it_is_silent_below_the_limit_and_where_the_disk_has_the_transfers() {
        assert_eq!(RULE.judge(&limited(0.3, 0.35, 0.1)), None);
        assert_eq!(RULE.judge(&limited(0.2, 0.98, 7.9)), None, "a full disk, by chance");
        assert_eq!(RULE.experiments(&limited(0.3, 0.35, 0.1)), []);
        let mut unknown = limited(0.5, 0.6, 0.1);
        unknown.jobs[0].metrics.retain(|figure| figure.metric != metric::DEVICE_DEPTH);
        assert_eq!(RULE.judge(&unknown), None, "nothing shows where transfers wait");
        for (why, figures) in [
            ("buffered transfers are merged", vec![("cache_served", 0.2)]),
            ("a short queue is full", vec![("device_queue", 2.0), ("device_depth", 1.9)]),
            ("the worker has no time", vec![("iops_per_core", 500.0)]),
        ] {
            assert_eq!(RULE.judge(&with(limited(0.2, 0.7, 0.1), &figures)), None, "{why}");
        }
        // The kernel merges buffered transfers, so only the limit of bytes applies to them.
        let buffered = |served| with(limited(0.7, 0.2, 0.1), &[("cache_served", served)]);
        assert_eq!(RULE.judge(&buffered(0.9)), None, "the page cache served most");
        assert!(RULE.judge(&buffered(0.2)).is_some(), "it served a fifth");
        let queue = with(limited(0.2, 0.7, 1.9), &[("device_queue", 2.0)]);
        assert!(disk_queue::RULE.judge(&queue).is_some(), "its rule is asked instead");
    }

    #[test]
    fn reads_and_writes_have_limits_of_their_own() {
        let mut point = limited(0.2, 0.7, 0.1);
        // 350 of 500 transfers are reads, with a limit of 360; the limit of writes is far.
        let given = [(Direction::Sum, 500.0), (Direction::Rx, 350.0), (Direction::Tx, 150.0)];
        let used = [(Direction::Rx, 350.0 / 360.0), (Direction::Tx, 0.05)];
        let all = [(metric::IOPS, &given[..]), (metric::GROUP_TRANSFERS_USED, &used[..])];
        for (metric, values) in all {
            let figures = &mut point.jobs[0].metrics;
            let at = figures.iter().position(|figure| figure.metric == metric).expect("there");
            let one = figures.remove(at);
            figures.extend(values.iter().map(|(direction, value)| {
                let mut figure = one.clone();
                figure.direction = *direction;
                figure.estimate =
                    one.estimate.map(|estimate| Estimate { value: *value, ..estimate });
                figure
            }));
        }
        let finding = RULE.judge(&point).expect("97 % of the reads");
        let Claim::DiskGroupLimit { in_bytes: false, direction: Direction::Rx, rate } =
            finding.claim
        else {
            panic!("{finding:?}")
        };
        assert!((rate - 360.0).abs() < 1e-9, "{rate}");
    }
}
