//! RFC 2544 26.5: system recovery. After the throughput search, an overload of 110 % of the
//! throughput (or the highest load) is followed by 50 %. The result is the time for which losses go
//! on.
//!
//! It is computed from the sending time of the last lost frame: see `linerate_analysis::search`. If
//! the throughput reaches the highest load, there is no overload.

use linerate_analysis::search::Observation;
use linerate_model::{Goal, Nanos, Purpose, Search, Step};

use super::Controller;
use super::halving::Halving;

/// Overload as a share of the throughput (RFC 2544 26.5).
const OVERLOAD: f64 = 1.1;
/// Load after the overload as a share of the throughput.
const AFTER: f64 = 0.5;

/// Controller of this method.
#[derive(Debug)]
pub(super) struct Recovery {
    throughput: Halving,
    max: f64,
    overload: Nanos,
    after: Nanos,
    left: u32,
    overloading: bool,
}

impl Recovery {
    pub(super) fn new(
        search: &Search,
        goal: &Goal,
        overload: Nanos,
        after: Nanos,
        repeats: u32,
    ) -> Self {
        let throughput = Halving::new(search, goal, 0);
        Self { throughput, max: search.max, overload, after, left: repeats, overloading: false }
    }
}

impl Controller for Recovery {
    fn next(&mut self) -> Option<Step> {
        // The overload is a multiple of the throughput, so that is found first.
        if let Some(step) = self.throughput.next() {
            return Some(step);
        }
        let throughput =
            self.throughput.throughput().filter(|load| *load < self.max && self.left > 0)?;
        self.overloading = true;
        Some(Step {
            purpose: Purpose::Overload,
            // Beyond the highest load the tester itself would be the limit.
            load: (OVERLOAD * throughput).min(self.max),
            duration: self.overload,
            then: Some((AFTER * throughput, self.after)),
        })
    }

    fn take(&mut self, observation: &Observation) {
        if self.overloading {
            self.left -= 1;
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
    fn an_overload_of_a_tenth_is_followed_by_half_the_throughput() {
        let (overload, after) = (Nanos::from_secs(60), Nanos::from_secs(20));
        let method = Method::Recovery { goal: goal(0.005, 10), overload, after, repeats: 2 };
        let of =
            |capacity| run_steps(&search(1_000.0, 1e7, method.clone()), &mut Device::of(capacity));
        let steps = of(1e6);
        let overloads: Vec<Step> =
            steps.iter().map(|(s, _)| *s).filter(|s| s.purpose == Purpose::Overload).collect();
        assert_eq!(overloads.len(), 2);
        let (low, length) = overloads[0].then.expect("a low load follows");
        assert!((overloads[0].load / low - 2.2).abs() < 1e-9 && length == after, "{overloads:?}");
        assert!((overloads[0].load / 1.1e6 - 1.0).abs() < 0.006, "{overloads:?}");
        assert!(
            of(1e8).iter().all(|(step, _)| step.purpose == Purpose::Load),
            "no overload without loss at the highest load"
        );
    }
}
