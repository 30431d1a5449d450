//! RFC 2544 26.2 and RFC 8219 7.2: latency at the throughput, and at shares of it down to nearly
//! zero.
//!
//! The throughput is searched first. Then all loads are measured once, then all again: a drift
//! during the campaign affects all loads alike. The study evaluates the trials, not this module.

use linerate_analysis::search::Observation;
use linerate_model::{Goal, Nanos, Purpose, Search, Step};

use super::Controller;
use super::halving::Halving;

/// Controller of this method.
#[derive(Debug)]
pub(super) struct Latency {
    throughput: Halving,
    trial: Nanos,
    /// Shares of the throughput, in the order of measurement.
    shares: Vec<f64>,
    repeats: u32,
    measured: usize,
    measuring: bool,
}

impl Latency {
    pub(super) fn new(
        search: &Search,
        goal: &Goal,
        trial: Nanos,
        shares: &[f64],
        repeats: u32,
    ) -> Self {
        let throughput = Halving::new(search, goal, 0);
        Self { throughput, trial, shares: shares.to_vec(), repeats, measured: 0, measuring: false }
    }
}

impl Controller for Latency {
    fn next(&mut self) -> Option<Step> {
        if let Some(step) = self.throughput.next() {
            return Some(step);
        }
        let throughput = self.throughput.throughput()?;
        self.measuring = true;
        let place = self.measured.checked_rem(self.shares.len())?;
        let due = self.measured / self.shares.len() < self.repeats as usize;
        let load = self.shares[place] * throughput;
        due.then_some(Step { purpose: Purpose::Latency, load, duration: self.trial, then: None })
    }

    fn take(&mut self, observation: &Observation) {
        if self.measuring {
            self.measured += 1;
        } else {
            self.throughput.take(observation);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::simulated::{Device, goal, run_steps, search};
    use super::*;
    use linerate_model::Method;

    #[test]
    fn latency_is_measured_at_all_shares_of_the_throughput_before_any_is_repeated() {
        let shares = vec![0.001, 0.1, 0.5, 0.9, 1.0];
        let trial = Nanos::from_secs(60);
        let method =
            Method::Latency { goal: goal(0.005, 10), trial, shares: shares.clone(), repeats: 20 };
        let steps = run_steps(&search(1_000.0, 1e7, method), &mut Device::of(1e6));
        let measured: Vec<Step> = steps
            .iter()
            .map(|(step, _)| *step)
            .filter(|step| step.purpose == Purpose::Latency)
            .collect();
        assert_eq!(measured.len(), 100);
        let throughput = measured[4].load;
        assert!((throughput / 1e6 - 1.0).abs() < 0.006, "{throughput}");
        for (step, share) in measured.iter().zip(shares.iter().cycle()) {
            assert!(
                (step.load / throughput - share).abs() < 1e-12 && step.duration == trial,
                "{step:?}"
            );
        }
        let nothing = Method::Latency { goal: goal(0.005, 10), trial, shares, repeats: 20 };
        let steps = run_steps(&search(1_000.0, 1e7, nothing), &mut Device::of(10.0));
        assert!(
            steps.iter().all(|(step, _)| step.purpose == Purpose::Load),
            "without a throughput there is no latency trial"
        );
    }
}
