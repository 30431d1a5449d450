//! Expected duration of a search: computed by running it on a simulated ideal device.

use linerate_analysis::search::Observation;
use linerate_model::{Nanos, Search};

use super::{Outcome, Searcher};

/// Capacity of the ideal device as a share of the highest load. Halving towards it takes neither
/// the fewest nor the most steps.
const CAPACITY: f64 = 0.63;

/// Expected effort of a search.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Expected {
    /// Number of trials.
    pub n_trials: u32,
    /// Total time under load.
    pub loaded: Nanos,
}

/// Returns the effort of `search` on a device that loses exactly the load above 63 % of the highest
/// load, with a tester that loses nothing.
#[must_use]
pub fn expected(search: &Search) -> Expected {
    let mut searcher = Searcher::new(search.clone());
    let mut expected = Expected::default();
    while let Some(step) = searcher.ask() {
        let bound = if step.purpose == linerate_model::Purpose::SelfTest {
            f64::INFINITY
        } else {
            CAPACITY * search.max
        };
        expected.n_trials += 1;
        expected.loaded =
            expected.loaded + step.duration + step.then.map_or(Nanos(0), |(_, duration)| duration);
        let loss_ratio = (1.0 - bound / step.load).max(0.0);
        searcher.take(Outcome::Valid(Observation {
            load: step.load,
            duration: step.duration,
            loss_ratio,
        }));
    }
    expected
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search::simulated::search;
    use linerate_model::{Goal, Method};

    #[test]
    fn the_published_ndr_takes_half_a_minute_and_a_strict_search_more_than_one() {
        let goal = |final_s, sum_s, exceed_ratio| Goal {
            exceed_ratio,
            duration_sum: Nanos::from_secs(sum_s),
            ..Goal::strict("g", 0.005, Nanos::from_secs(final_s))
        };
        let ndr =
            expected(&search(9_001.0, 14.88e6, Method::Mlr { goals: vec![goal(1, 21, 0.5)] }));
        assert!((25..40).contains(&ndr.n_trials), "{ndr:?}");
        assert_eq!(ndr.loaded, Nanos::from_secs(u64::from(ndr.n_trials)));
        let strict = expected(&search(
            9_001.0,
            14.88e6,
            Method::Halving { goal: goal(60, 60, 0.0), repeats: 0 },
        ));
        assert!(strict.loaded > Nanos::from_secs(60) && strict.n_trials < 20, "{strict:?}");
    }
}
