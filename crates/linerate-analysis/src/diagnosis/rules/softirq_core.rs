//! One CPU handles all network interrupts and is saturated, while others are idle
//! (docs/methodology/diagnosis.md#rules, D12): shares of single CPUs.
//!
//! Evidence: a CPU spends more than [`FULL`] of its time in softirq, no worker uses a whole core,
//! and another CPU is idle. Not observed: the device of these interrupts, and work that the kernel
//! does in threads of its own.

use linerate_model::{Direction, HostSetting, Use, metric};

use super::{FlowEnd, LEAST_EFFECT, Rule, flows, may_be_judged, n_flows, score, suspected, value};
use crate::diagnosis::experiment::Experiment;
use crate::diagnosis::{Claim, Evidence, Finding, Step};
use crate::{JobStudy, PointStudy};

/// Share of time in softirq above which a CPU is saturated (docs/methodology/diagnosis.md#rules).
const FULL: f64 = 0.8;
/// Share of a core below which a worker has CPU time left (docs/methodology/diagnosis.md#rules).
const TO_SPARE: f64 = 0.8;
/// Idle share that another CPU must have, so that moving work there helps.
const IDLE: f64 = 0.5;

/// Upper end of the prediction: the work of one saturated CPU on two, with a margin.
const MOST_SPREAD: f64 = 2.5;

/// Rule: one CPU does all the softirq work.
pub(super) const RULE: Rule = Rule {
    number: 12,
    name: super::SOFTIRQ_CORE,
    summary: "one CPU spends more than 80 % of its time in softirq, workers have CPU time left, \
        and another CPU is idle",
    judge,
    score,
    experiments,
    ..Rule::PLAIN
};

fn judge(point: &PointStudy) -> Option<Finding> {
    let (job, direction) = flows(point).next().filter(|_| may_be_judged(point))?;
    let read = |metric| value(job, metric, Direction::Sum);
    let (softirq, idle) = (read(metric::SOFTIRQ_CORE)?, read(metric::IDLE_CORE)?);
    // A worker without CPU time is a limit of its own, wherever interrupts run.
    let worker = busiest_worker(job, direction);
    // Without an idle CPU, spreading the work would move the limit and not remove it.
    if softirq <= FULL || worker >= TO_SPARE || idle < IDLE {
        return None;
    }
    let mut evidence = vec![Evidence::Cpus { softirq, idle, worker }];
    for metric in [metric::SOFTNET_SQUEEZED, metric::SOFTNET_DROPPED] {
        // The counter is a mean over runs: below one, most runs had none.
        let counted = read(metric).filter(|count| *count >= 1.0);
        evidence.extend(counted.map(|count| Evidence::figure(metric, count)));
    }
    let claim = Claim::OneInterruptCpu;
    let finding = suspected(RULE.name, (point, job, direction), claim, evidence);
    Some(finding.advise(Step::SpreadReception))
}

fn experiments(point: &PointStudy) -> Vec<Experiment> {
    let Some((job, direction)) = flows(point).next() else { return Vec::new() };
    // Receiving costs softirq time. Most of the sender's work runs in the call of the sending
    // thread.
    let at = FlowEnd::Receiving.endpoint(job, direction).to_owned();
    let ratio = [LEAST_EFFECT, MOST_SPREAD];
    // One flow has one hash, so its packets can be moved but not spread. The scheduler moves a
    // thread to an idle CPU; softirqs stay on the CPU of the interrupt.
    vec![if n_flows(job) > 1.0 {
        let spread = HostSetting { at, name: "rps_cpus".into(), value: "all".into() };
        Experiment::at_host("received packets spread over all CPUs", spread, ratio)
    } else {
        let threaded = HostSetting { at, name: "threaded".into(), value: "1".into() };
        Experiment::at_host("packets polled in a thread of its own", threaded, ratio)
    }]
}

fn score(point: &PointStudy) -> Option<f64> {
    score::best(point, |job, direction| {
        let read = |metric| value(job, metric, Direction::Sum);
        let full = score::reached(read(metric::SOFTIRQ_CORE)?, FULL, 1.0);
        Some(score::all([
            full,
            score::below(busiest_worker(job, direction), TO_SPARE),
            score::reached(read(metric::IDLE_CORE)?, IDLE, 1.0),
        ]))
    })
}

/// Returns the CPU of the busiest worker of either end.
fn busiest_worker(job: &JobStudy, direction: Direction) -> f64 {
    Use::WorkerCpu.metrics().filter_map(|cpu| value(job, cpu, direction)).fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnosis::rules::cases::point;

    fn cpus(softirq: f64, idle: f64, worker: f64) -> PointStudy {
        point(&[
            ("goodput", 5e8),
            ("softirq_core", softirq),
            ("idle_core", idle),
            ("receiver_cpu", worker),
        ])
    }

    #[test]
    fn it_asks_the_receiving_host_to_poll_in_threads() {
        let experiments = RULE.experiments(&cpus(0.93, 0.8, 0.2));
        let told: Vec<(&str, &str)> = experiments[0]
            .settings
            .iter()
            .map(|setting| (setting.at.as_str(), setting.name.as_str()))
            .collect();
        assert_eq!(told, [("b", "threaded")]);
        assert!(experiments[0].candidates == [Vec::new()] && !experiments[0].lifts);
    }

    #[test]
    fn several_flows_are_spread_over_the_receivers_cpus() {
        let mut point = cpus(0.93, 0.8, 0.2);
        point.jobs[0].params.set("streams", 16);
        let experiments = RULE.experiments(&point);
        let HostSetting { at, name, value } = &experiments[0].settings[0];
        assert_eq!((at.as_str(), name.as_str(), value.as_str()), ("b", "rps_cpus", "all"));
    }

    #[test]
    fn it_fires_on_one_full_cpu_beside_an_idle_one() {
        let finding = RULE.judge(&cpus(0.93, 0.8, 0.2)).expect("one is full");
        assert_eq!(finding.evidence.len(), 1);
    }

    #[test]
    fn it_is_silent_where_nothing_idles_workers_are_busy_or_softirq_is_little() {
        assert_eq!(RULE.judge(&cpus(0.93, 0.1, 0.2)), None);
        assert_eq!(RULE.judge(&cpus(0.93, 0.8, 0.9)), None);
        assert_eq!(RULE.judge(&cpus(0.5, 0.8, 0.2)), None);
    }
}
