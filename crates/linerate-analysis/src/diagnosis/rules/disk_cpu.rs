//! The workers of a load on a disk or file have no CPU time left
//! (docs/methodology/diagnosis.md#rules, D28). Closed loads past the page cache.
//!
//! Evidence: a worker ran or was ready to run for 90 % of the time, so it hardly waited for the
//! disk.
//! Not observed: kernel threads that work for the load or the disk (`io_uring` uses them where a
//! transfer would block), and interrupts.

use linerate_model::metric;

use super::{BUSY, Rule, disk};
use crate::PointStudy;
use crate::diagnosis::experiment::{Experiment, set};
use crate::diagnosis::{Claim, Finding, Step};

/// Factor of the workers in the experiment.
const MORE: f64 = 2.0;
/// Predicted ratio of the rate: twice the workers do twice the work on CPUs of their own. Locks and
/// shared caches leave less.
const FOLLOWS: [f64; 2] = [1.2, 2.5];

/// Rule: the workers use all of their CPU time.
pub(super) const RULE: Rule = Rule {
    number: 28,
    name: "disk_cpu",
    summary: "the workers of a load on a disk ran, or were ready to run, for 90 % of their time",
    judge,
    score,
    turn: Some(|_| disk::turn::CPU),
    experiments,
    ..Rule::PLAIN
};

fn judge(point: &PointStudy) -> Option<Finding> {
    let load = disk::judged(point)?;
    if !load.is_out_of_cpu() || load.cached().is_some() {
        return None;
    }
    let mut evidence: Vec<_> = load.cpu().into_iter().collect();
    evidence.extend(load.seen(metric::RUN_QUEUE_WAIT).into_iter().chain(load.device()));
    let finding = load.suspected(RULE.name, Claim::DiskWorkers, evidence);
    let step = twice(workers(&load));
    Some(finding.advise(step))
}

fn score(point: &PointStudy) -> Option<f64> {
    let load = disk::judged(point)?;
    Some(super::score::reached(load.wanted_cpu()?, BUSY, 1.0))
}

fn experiments(point: &PointStudy) -> Vec<Experiment> {
    let Some(load) = disk::closed(point) else { return Vec::new() };
    let workers = workers(&load);
    let change = vec![set("workers", workers)];
    // Other programs may use the CPUs that more workers need.
    vec![Experiment::lift(format!("{workers} workers"), change, FOLLOWS).refuting_nothing()]
}

fn twice(workers: u64) -> Step {
    Step::Double { parameter: "workers".to_owned(), value: Some(workers), requests: None }
}

fn workers(load: &disk::Load<'_>) -> u64 {
    (load.workers * MORE) as u64
}

#[cfg(test)]
mod tests {
    use linerate_model::Verdict;

    use super::*;
    use crate::diagnosis::rules::disk::cases::load;

    /// 100,000 transfers a second by a worker that ran and waited for these shares of the time.
    fn busy(ran: f64, waited: f64) -> PointStudy {
        load(
            4,
            &[
                ("iops", 1e5),
                ("achieved_depth", 3.9),
                ("service_time_mean", 39e-6),
                ("iops_per_core", 1e5 / ran),
                ("run_queue_wait", waited),
            ],
        )
    }

    #[test]
    fn it_fires_where_workers_have_no_time_and_asks_for_more_of_them() {
        for point in [busy(0.97, 0.01), busy(0.3, 0.65)] {
            let finding = RULE.judge(&point).expect("it fires");
            assert_eq!(finding.verdict, Verdict::Suspected);
            assert_eq!(finding.advice[0].step, twice(2));
            assert_eq!(RULE.experiments(&point)[0].candidates, [vec![set("workers", 2)]]);
        }
    }

    #[test]
    fn it_is_silent_where_workers_sleep() {
        assert_eq!(RULE.judge(&busy(0.3, 0.2)), None, "half of the time the disk had the work");
        assert_eq!(RULE.judge(&busy(0.7, 0.05)), None);
    }
}
