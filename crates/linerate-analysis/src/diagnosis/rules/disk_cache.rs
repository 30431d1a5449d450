//! The page cache serves a load on a disk or file (docs/methodology/diagnosis.md#rules, D27).
//! Closed loads through the page cache.
//!
//! Evidence: at least half of the bytes that the load moved did not reach its disk. The rate is
//! then that of memory. Not observed: caches within the disk.

use linerate_model::metric;

use super::{Rule, disk};
use crate::PointStudy;
use crate::diagnosis::experiment::{Experiment, set};
use crate::diagnosis::{Claim, Finding};

/// Predicted ratio of the rate past the page cache: a disk is slower than memory, by any factor.
const SLOWER: [f64; 2] = [1e-5, 0.8];

/// Rule: the page cache is measured instead of the disk.
pub(super) const RULE: Rule = Rule {
    number: 27,
    name: "disk_cache",
    summary: "at least half of the bytes of a buffered load did not reach its disk: the page cache \
        served them",
    judge,
    score,
    turn: Some(|_| disk::turn::CACHE),
    experiments,
    ..Rule::PLAIN
};

fn judge(point: &PointStudy) -> Option<Finding> {
    let load = disk::judged(point)?;
    load.cached()?;
    let evidence = load.seen(metric::CACHE_SERVED).into_iter().chain(load.device()).collect();
    Some(load.suspected(RULE.name, Claim::Cached, evidence))
}

fn score(point: &PointStudy) -> Option<f64> {
    let load = disk::judged(point)?;
    load.of_disk(metric::CACHE_SERVED)
}

fn experiments(point: &PointStudy) -> Vec<Experiment> {
    if disk::closed(point).and_then(|load| load.cached()).is_none() {
        return Vec::new();
    }
    vec![Experiment::show("past the page cache", vec![set("cache", "direct")], SLOWER)]
}

#[cfg(test)]
mod tests {
    use linerate_model::Verdict;

    use super::*;
    use crate::diagnosis::rules::disk::cases::load;
    use crate::diagnosis::rules::disk_cpu;

    fn cached(share: f64) -> PointStudy {
        load(
            1,
            &[
                ("iops", 4e5),
                ("achieved_depth", 1.0),
                ("service_time_mean", 2e-6),
                ("iops_per_core", 4e5),
                ("cache_served", share),
            ],
        )
    }

    #[test]
    fn it_fires_where_the_cache_serves_most_and_asks_for_direct_transfers() {
        let point = cached(0.99);
        let finding = RULE.judge(&point).expect("it fires");
        assert_eq!((finding.verdict, finding.claim), (Verdict::Suspected, Claim::Cached));
        let [experiment] = &RULE.experiments(&point)[..] else { panic!("one") };
        assert_eq!(experiment.candidates, [vec![set("cache", "direct")]]);
        assert!(experiment.is_hopeless(&[1.0]) && !experiment.is_hopeless(&[0.01]));
        assert_eq!(
            disk_cpu::RULE.judge(&point),
            None,
            "the cache is faster than the disk on any CPU"
        );
    }

    #[test]
    fn it_is_silent_where_the_disk_serves_most() {
        assert_eq!(RULE.judge(&cached(0.3)), None);
    }
}
