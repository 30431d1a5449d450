//! RFC 2544 26.1: the highest load without loss, by halving, verified by a trial of the final
//! length (RFC 2544 24).
//!
//! The highest load comes first. If it has no loss, and a final trial confirms that, it is the
//! result. If a final trial has loss, the search goes on below it with final trials only, in steps
//! that grow each time. With `repeats`, a load with loss is tried again, and one trial without loss
//! is enough (ETSI GS NFV-TST 009 12.3.3). Such a search has final trials only, because short ones
//! pass and fail by chance.

use linerate_analysis::search::Observation;
use linerate_model::{Goal, Nanos, Search, Step};

use super::{Controller, at};

/// Distance in widths from a load that failed its final trial to the next one; doubled each time.
const FIRST_RETREAT: f64 = 2.0;

/// Controller of this method.
#[derive(Debug, Default)]
pub(super) struct Halving {
    min: f64,
    max: f64,
    width: f64,
    loss_ratio: f64,
    search_trial: Nanos,
    final_trial: Nanos,
    repeats: u32,
    /// Highest load that passed, if any, and whether it passed a final trial.
    lower: Option<(f64, bool)>,
    /// Lowest load that failed.
    upper: Option<f64>,
    /// Loads that passed a final trial.
    verified: Vec<f64>,
    /// True if only final trials are made from now on.
    strict: bool,
    retreat: f64,
    asked: f64,
    asked_final: bool,
    /// Number of trials with loss at the present load.
    failures: u32,
    done: bool,
}

impl Halving {
    pub(super) fn new(search: &Search, goal: &Goal, repeats: u32) -> Self {
        let search_trial =
            if repeats > 0 { goal.final_trial } else { goal.initial_trial.min(goal.final_trial) };
        Self {
            min: search.min,
            max: search.max,
            width: goal.width,
            loss_ratio: goal.loss_ratio,
            search_trial,
            final_trial: goal.final_trial,
            repeats,
            strict: search_trial == goal.final_trial,
            retreat: FIRST_RETREAT,
            ..Self::default()
        }
    }

    /// Returns the throughput once the search is over. `None` if even the lowest load had loss.
    pub(super) fn throughput(&self) -> Option<f64> {
        self.lower.filter(|_| self.done).map(|(load, _)| load)
    }

    fn ask(&mut self, load: f64, in_full: bool) -> Option<Step> {
        (self.asked, self.asked_final) = (load, in_full || self.strict);
        Some(at(load, if self.asked_final { self.final_trial } else { self.search_trial }))
    }

    fn passed(&mut self) {
        self.lower = Some((self.asked, self.asked_final));
        if self.asked_final {
            self.verified.push(self.asked);
            self.retreat = FIRST_RETREAT;
        }
    }

    fn failed(&mut self) {
        self.upper = Some(self.asked);
        if self.lower.is_some_and(|(load, _)| load >= self.asked) {
            // This load passed a shorter trial before, so short trials do not count any more.
            self.strict = true;
            let below = self
                .verified
                .iter()
                .copied()
                .filter(|load| *load < self.asked)
                .fold(None, |a: Option<f64>, b| Some(a.map_or(b, |a| a.max(b))));
            self.lower = below.map(|load| (load, true));
        }
    }

    /// Returns the next load below `upper`, if a final trial failed and no load has passed.
    fn retreat(&mut self, upper: f64) -> f64 {
        let load = upper * (1.0 - self.retreat * self.width).max(0.0);
        self.retreat *= 2.0;
        load
    }
}

impl Controller for Halving {
    fn next(&mut self) -> Option<Step> {
        if self.done {
            return None;
        }
        // Loss verification: the same load again.
        if self.failures > 0 {
            return self.ask(self.asked, self.asked_final);
        }
        let Some(upper) = self.upper else {
            return match self.lower {
                Some((_, true)) => {
                    self.done = true;
                    None
                }
                Some(_) => self.ask(self.max, true),
                None => self.ask(self.max, false),
            };
        };
        // Even the lowest load had loss: there is no throughput.
        if upper <= self.min {
            self.done = true;
            return None;
        }
        match self.lower {
            Some((lower, verified)) if (upper - lower) / upper <= self.width => {
                if verified {
                    self.done = true;
                    return None;
                }
                self.ask(lower, true)
            }
            Some((lower, _)) => self.ask(f64::midpoint(lower, upper), false),
            None => {
                let guess = if self.strict && self.search_trial != self.final_trial {
                    self.retreat(upper)
                } else {
                    upper / 2.0
                };
                self.ask(guess.max(self.min), false)
            }
        }
    }

    fn take(&mut self, observation: &Observation) {
        if observation.loss_ratio <= self.loss_ratio {
            self.failures = 0;
            self.passed();
        } else if self.failures < self.repeats {
            self.failures += 1;
        } else {
            self.failures = 0;
            self.failed();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::simulated::{Device, goal, run, search};
    use super::*;
    use linerate_analysis::search::{Requirement, bounds};
    use linerate_model::Method;

    fn halving(repeats: u32, max: f64) -> Search {
        search(1_000.0, max, Method::Halving { goal: goal(0.005, 60), repeats })
    }

    #[test]
    fn the_capacity_is_found_within_the_width_and_verified_for_sixty_seconds() {
        for capacity in [1_500.0, 98_765.4, 812_743.0, 3.2e6] {
            let trials = run(&halving(0, 1e7), &mut Device::of(capacity));
            let found = bounds(&Requirement::from(&goal(0.005, 60)), &trials);
            let (lower, upper) =
                (found.lower.expect("a lower bound"), found.upper.expect("an upper bound"));
            assert!(lower <= capacity + 1.0 && capacity <= upper, "{capacity}: {lower} {upper}");
            assert!(found.regular(&goal(0.005, 60)), "{capacity}: {found:?}");
            assert_eq!(
                trials.iter().filter(|t| t.duration == Nanos::from_secs(60)).count(),
                1,
                "{capacity}"
            );
        }
    }

    #[test]
    fn a_path_without_loss_at_the_highest_load_is_verified_there_and_nowhere_else() {
        let trials = run(&halving(0, 1e6), &mut Device::of(2e6));
        let asked: Vec<(f64, u64)> =
            trials.iter().map(|t| (t.load, t.duration.0 / 1_000_000_000)).collect();
        assert_eq!(asked, [(1e6, 1), (1e6, 60)]);
    }

    #[test]
    fn a_path_that_loses_at_the_lowest_load_has_no_throughput_and_the_search_ends() {
        let trials = run(&halving(0, 1e6), &mut Device::of(10.0));
        let found = bounds(&Requirement::from(&goal(0.005, 60)), &trials);
        assert_eq!((found.lower, found.upper), (None, Some(1_000.0)));
        assert!(trials.len() < 15, "{}", trials.len());
    }

    /// Only long trials see a stall: the search goes on below, with long trials.
    #[test]
    fn a_final_trial_that_fails_sends_the_search_further_down_with_final_trials() {
        let mut device = Device::of(1e6);
        // Every stall is 5 ms long, one every 20 s: short trials rarely meet it.
        device.stall_every(Nanos::from_secs(20), Nanos::from_millis(5), 1_000.0);
        let trials = run(&halving(0, 1e7), &mut device);
        let found = bounds(&Requirement::from(&goal(0.005, 60)), &trials);
        let lower = found.lower.expect("below, a stall fits the buffer");
        assert!(lower < 0.5e6, "{lower}");
        assert!(trials.iter().filter(|trial| trial.duration == Nanos::from_secs(60)).count() > 2);
    }

    /// The same device with loss verification: in TST009 one of two trials without loss is enough.
    #[test]
    fn loss_verification_accepts_a_load_with_one_loss() {
        let mut device = Device::of(1e6);
        device.spoil_every(3);
        let strict = run(&halving(0, 1e7), &mut device);
        let strict = bounds(&Requirement::from(&goal(0.005, 60)), &strict).lower;
        let mut device = Device::of(1e6);
        device.spoil_every(3);
        let tst009 = Goal {
            exceed_ratio: 0.5,
            duration_sum: Nanos::from_secs(120),
            initial_trial: Nanos::from_secs(60),
            ..goal(0.005, 60)
        };
        let search = search(1_000.0, 1e7, Method::Halving { goal: tst009.clone(), repeats: 1 });
        let trials = run(&search, &mut device);
        let found = bounds(&Requirement::from(&tst009), &trials);
        assert!(found.regular(&tst009), "{found:?}");
        let lower = found.lower.expect("a lower bound");
        assert!((0.995e6..=1e6).contains(&lower), "{lower}");
        assert!(strict.is_none_or(|strict| strict < 0.9e6), "{strict:?}");
    }
}
