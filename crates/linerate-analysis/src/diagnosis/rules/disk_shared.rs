//! Other programs use the disk of a load (docs/methodology/diagnosis.md#rules, D32). Closed loads
//! past the page cache.
//!
//! Evidence: others moved a fifth of the disk's bytes or more while the disk was busy. linerate
//! stops no other program, so there is no experiment. Not observed: which program it is, and
//! transfers of a disk that shares a device with this one.

use linerate_model::metric;

use super::{Rule, disk};
use crate::PointStudy;
use crate::diagnosis::{Claim, Finding, Step};

/// Share of the time for which the disk has requests, from which on others take its time.
const BUSY: f64 = 0.5;

/// Rule: other programs use the disk.
pub(super) const RULE: Rule = Rule {
    number: 32,
    name: "disk_shared",
    summary: "other programs moved a fifth or more of the bytes of a disk that was busy half of \
        the time",
    judge,
    score,
    turn: Some(|_| disk::turn::OTHERS),
    ..Rule::PLAIN
};

fn judge(point: &PointStudy) -> Option<Finding> {
    let load = disk::judged(point)?;
    let share = load.others()?;
    load.of_disk(metric::DEVICE_BUSY).filter(|busy| *busy >= BUSY)?;
    let others = load.seen(metric::DEVICE_OTHERS).into_iter();
    let evidence = others.chain(load.device()).chain([load.under_way()]).collect();
    let finding = load.suspected(RULE.name, Claim::DiskShared { share }, evidence);
    let own = load.bytes_per_second();
    let others = own.map(|own| own * share / (1.0 - share).max(f64::EPSILON));
    Some(finding.advise(Step::StopOthersAtDisk { bytes: others }))
}

fn score(point: &PointStudy) -> Option<f64> {
    let load = disk::judged(point)?;
    load.of_disk(metric::DEVICE_OTHERS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnosis::rules::disk::cases::load;
    use crate::diagnosis::rules::disk_depth;

    fn shared(others: f64, busy: f64) -> PointStudy {
        load(
            4,
            &[
                ("iops", 1_000.0),
                ("transfer_rate", 4_096_000.0),
                ("achieved_depth", 4.0),
                ("service_time_mean", 4e-3),
                ("device_busy", busy),
                ("device_depth", 12.0),
                ("device_others", others),
            ],
        )
    }

    #[test]
    fn it_fires_where_others_move_much_and_says_how_much() {
        let point = shared(0.75, 0.99);
        let finding = RULE.judge(&point).expect("it fires");
        assert_eq!(finding.claim, Claim::DiskShared { share: 0.75 });
        let bytes = Some(3.0 * 4_096_000.0);
        assert_eq!(finding.advice[0].step, Step::StopOthersAtDisk { bytes });
        assert_eq!(
            disk_depth::RULE.judge(&point),
            None,
            "more depth would only take from the others"
        );
    }

    #[test]
    fn it_is_silent_where_others_move_little_or_the_disk_is_idle() {
        assert_eq!(RULE.judge(&shared(0.05, 0.99)), None);
        assert_eq!(RULE.judge(&shared(0.75, 0.1)), None);
        let mut durable = shared(0.75, 0.99);
        durable.jobs[0].params.set("sync", "dsync");
        assert_eq!(RULE.judge(&durable), None, "its own journal");
    }
}
