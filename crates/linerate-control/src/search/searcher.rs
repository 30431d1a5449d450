//! Search from its first trial to its last: self-test, warm-up, controller, repeats of trials that
//! the tester made invalid, and limits.

use linerate_analysis::search::{MOST_REPEATS, Observation};
use linerate_model::{Nanos, Purpose, Search, Step};

use super::{Controller, controller};

/// Load of the first self-test, in multiples of the highest load.
const MARGIN: f64 = 2.0;
/// Load of the next self-test, as a share of the forwarded load. It is below 1 because a rate that
/// is forwarded under overload is rarely forwarded without loss.
const RETREAT: f64 = 0.95;
/// Most trials of the self-test.
const SELF_TESTS: u32 = 12;

/// Result of a trial.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Outcome {
    /// The observation is due to the device.
    Valid(Observation),
    /// The observation may be due to the device, or to a delay of the tester. The trial is
    /// repeated; after three repeats that are doubtful too, the observation counts.
    Doubtful(Observation),
    /// The tester made the trial invalid, or it could not be carried out.
    Invalid,
}

/// Reason of a search's end.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Ended {
    /// The search has its result.
    Done,
    /// The tester lost frames or could not send them, at this load.
    TesterLimited(f64),
    /// It reached the plan's limit of trials.
    Trials,
    /// It reached the plan's limit of time.
    Duration,
}

#[derive(Debug)]
enum SearchStage {
    /// The `n`-th trial of the self-test. `before` is the load forwarded when the same load was
    /// tried before and frames were lost.
    SelfTest {
        load: f64,
        n: u32,
        before: Option<f64>,
    },
    WarmUp,
    Searching,
    Ended(Ended),
}

/// Search that is executed.
#[derive(Debug)]
pub struct Searcher {
    search: Search,
    controller: Box<dyn Controller>,
    stage: SearchStage,
    asked: Option<Step>,
    spoilt: u32,
    n_trials: u32,
    spent: Nanos,
    /// Highest load of the tester without the device, if that was tested.
    tester: Option<f64>,
}

impl Searcher {
    /// Begins `search`.
    #[must_use]
    pub fn new(search: Search) -> Self {
        let stage = if search.self_test > Nanos(0) {
            // Twice the highest load: a tester at its own limit would look like the device's.
            SearchStage::SelfTest { load: MARGIN * search.max, n: 0, before: None }
        } else {
            Self::after_self_test(&search)
        };
        let controller = controller(&search);
        Self {
            search,
            controller,
            stage,
            asked: None,
            spoilt: 0,
            n_trials: 0,
            spent: Nanos(0),
            tester: None,
        }
    }

    fn after_self_test(search: &Search) -> SearchStage {
        if search.warmup > Nanos(0) { SearchStage::WarmUp } else { SearchStage::Searching }
    }

    /// Returns the search. Its highest load is bounded by the self-test.
    #[must_use]
    pub fn search(&self) -> &Search {
        &self.search
    }

    /// Returns the highest load of the tester without the device, in the search's unit, if that was
    /// tested.
    #[must_use]
    pub fn tester(&self) -> Option<f64> {
        self.tester
    }

    /// Returns the next step; the same one until its outcome is taken. `None` at the end.
    pub fn ask(&mut self) -> Option<Step> {
        // Asked again without an outcome, as after a restart, the step is the same.
        if self.asked.is_none() {
            self.asked = self.choose();
        }
        self.asked
    }

    fn choose(&mut self) -> Option<Step> {
        let step = |purpose, load, duration| Some(Step { purpose, load, duration, then: None });
        let chosen = match &self.stage {
            SearchStage::SelfTest { load, .. } => {
                step(Purpose::SelfTest, *load, self.search.self_test)
            }
            SearchStage::WarmUp => step(Purpose::WarmUp, self.search.max, self.search.warmup),
            SearchStage::Searching => self.controller.next(),
            SearchStage::Ended(_) => return None,
        };
        let Some(step) = chosen else {
            self.stage = SearchStage::Ended(Ended::Done);
            return None;
        };
        // Checked before a trial and not after it, so that the last result still counts.
        if self.n_trials >= self.search.max_trials {
            self.stage = SearchStage::Ended(Ended::Trials);
            return None;
        }
        if self.spent >= self.search.max_duration {
            self.stage = SearchStage::Ended(Ended::Duration);
            return None;
        }
        Some(step)
    }

    /// Receives the outcome of the last step. Returns whether it counts.
    pub fn take(&mut self, outcome: Outcome) -> bool {
        let Some(step) = self.ask() else { return false };
        self.n_trials += 1;
        self.spent =
            // Invalid trials take time as well.
            self.spent + step.duration + step.then.map_or(Nanos(0), |(_, duration)| duration);
        let observation = match outcome {
            Outcome::Valid(observation) => observation,
            // A device that is always doubtful must not repeat for ever.
            Outcome::Doubtful(observation) if self.spoilt >= MOST_REPEATS => observation,
            Outcome::Doubtful(_) | Outcome::Invalid => {
                self.spoilt(step);
                return false;
            }
        };
        self.spoilt = 0;
        self.asked = None;
        match self.stage {
            SearchStage::SelfTest { load, n, before } => {
                self.self_tested(load, n, before, &observation)
            }
            SearchStage::WarmUp => self.stage = SearchStage::Searching,
            SearchStage::Searching => self.controller.take(&observation),
            SearchStage::Ended(_) => {}
        }
        true
    }

    /// Repeats the step, unless it was invalid too often.
    fn spoilt(&mut self, step: Step) {
        self.spoilt += 1;
        let give_up = match self.stage {
            // The path is warm, however the trial ended.
            SearchStage::WarmUp => {
                (self.spoilt, self.asked, self.stage) = (0, None, SearchStage::Searching);
                return;
            }
            _ => self.spoilt > MOST_REPEATS,
        };
        if give_up {
            self.asked = None;
            self.stage = SearchStage::Ended(Ended::TesterLimited(step.load));
        } else if self.n_trials >= self.search.max_trials {
            self.asked = None;
            self.stage = SearchStage::Ended(Ended::Trials);
        }
    }

    /// Handles a self-test. If the tester does not reach twice the highest load, its own limit
    /// bounds the search. A loss counts only the second time: one moment without a CPU must not
    /// bound a whole search.
    fn self_tested(&mut self, load: f64, n: u32, before: Option<f64>, observation: &Observation) {
        if observation.loss_ratio > 0.0 {
            let forwarded = load * (1.0 - observation.loss_ratio);
            let most = before.map_or(forwarded, |before| forwarded.max(before));
            let next = match before {
                None => load,
                // Above the highest load the tester need not be free of loss: it only needs a
                // margin.
                Some(_) if load > self.search.max => most.min(self.search.max),
                Some(_) => most * RETREAT,
            };
            self.stage = if n + 1 < SELF_TESTS && next > self.search.min {
                let before = before.is_none().then_some(forwarded);
                SearchStage::SelfTest { load: next, n: n + 1, before }
            } else {
                SearchStage::Ended(Ended::TesterLimited(most))
            };
            return;
        }
        self.tester = Some(load);
        if load < self.search.max {
            self.search.max = load;
            self.search.max_source = "the limit of the tester without the device".into();
            // The controller has not begun yet, so it starts anew with the lower bound.
            self.controller = controller(&self.search);
        }
        self.stage = Self::after_self_test(&self.search);
    }

    /// Returns the reason of the end, if the search has ended.
    #[must_use]
    pub fn ended(&self) -> Option<Ended> {
        match self.stage {
            SearchStage::Ended(ended) => Some(ended),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::simulated::search;
    use super::*;
    use linerate_model::Method;

    fn one_trial(self_test_s: u64) -> Search {
        let mut search = search(1.0, 1e6, Method::Frmol { trial: Nanos::from_secs(10) });
        search.self_test = Nanos::from_secs(self_test_s);
        search.warmup = Nanos::from_secs(1);
        search
    }

    fn outcome(step: Step, loss_ratio: f64) -> Outcome {
        Outcome::Valid(Observation { load: step.load, duration: step.duration, loss_ratio })
    }

    #[test]
    fn self_test_warm_up_and_search_follow_each_other() {
        let mut searcher = Searcher::new(one_trial(1));
        let mut purposes = Vec::new();
        while let Some(step) = searcher.ask() {
            purposes.push((step.purpose, step.load));
            searcher.take(outcome(step, 0.0));
        }
        assert_eq!(
            purposes,
            [(Purpose::SelfTest, 2e6), (Purpose::WarmUp, 1e6), (Purpose::Load, 1e6)]
        );
        assert_eq!((searcher.ended(), searcher.tester()), (Some(Ended::Done), Some(2e6)));
    }

    #[test]
    fn a_tester_slower_than_the_highest_load_bounds_the_search() {
        let mut searcher = Searcher::new(one_trial(1));
        let mut loads = Vec::new();
        while let Some(step) = searcher.ask() {
            loads.push(step.load);
            searcher.take(outcome(step, (1.0 - 0.8e6 / step.load).max(0.0)));
        }
        // 2e6 loses twice. The load that was forwarded (0.8e6) does not, and becomes the highest.
        assert_eq!(loads, [2e6, 2e6, 0.8e6, 0.8e6, 0.8e6]);
        assert_eq!(searcher.search().max, 0.8e6);
        assert!(searcher.search().max_source.contains("tester"));
    }

    #[test]
    fn one_moment_without_a_cpu_does_not_bound_the_search() {
        let mut searcher = Searcher::new(one_trial(1));
        let mut loads = Vec::new();
        while let Some(step) = searcher.ask() {
            loads.push(step.load);
            searcher.take(outcome(step, if loads.len() == 1 { 0.95 } else { 0.0 }));
        }
        assert_eq!((loads, searcher.tester()), (vec![2e6, 2e6, 1e6, 1e6], Some(2e6)));
    }

    #[test]
    fn a_trial_that_the_tester_makes_invalid_is_repeated_three_times_and_then_limits_the_search() {
        let mut searcher = Searcher::new(one_trial(0));
        let first = searcher.ask().expect("the warm-up");
        searcher.take(outcome(first, 0.5));
        for _ in 0..4 {
            let step = searcher.ask().expect("again");
            assert_eq!(step.load, 1e6);
            searcher.take(Outcome::Invalid);
        }
        assert_eq!((searcher.ask(), searcher.ended()), (None, Some(Ended::TesterLimited(1e6))));
    }

    #[test]
    fn a_doubtful_loss_is_repeated_until_it_is_cleared_or_three_repeats_did_not() {
        let doubtful = |step: Step| {
            let Outcome::Valid(observation) = outcome(step, 1e-4) else {
                unreachable!("it is one")
            };
            Outcome::Doubtful(observation)
        };
        for n_doubtful in [2, 4] {
            let mut searcher = Searcher::new(one_trial(0));
            let warm_up = searcher.ask().expect("the warm-up");
            searcher.take(outcome(warm_up, 0.0));
            let mut counted = Vec::new();
            for _ in 0..n_doubtful {
                let step = searcher.ask().expect("again");
                counted.push(searcher.take(doubtful(step)));
            }
            if n_doubtful == 2 {
                let step = searcher.ask().expect("a third time");
                counted.push(searcher.take(outcome(step, 0.0)));
            }
            assert_eq!(counted.iter().filter(|counts| **counts).count(), 1);
            assert_eq!((counted.last(), searcher.ask()), (Some(&true), None));
        }
    }

    #[test]
    fn limits_of_trials_and_time_end_a_search() {
        for (trials, seconds, ended) in [(1, 1_000, Ended::Trials), (100, 1, Ended::Duration)] {
            let mut search = one_trial(0);
            (search.max_trials, search.max_duration) = (trials, Nanos::from_secs(seconds));
            let mut searcher = Searcher::new(search);
            let first = searcher.ask().expect("the warm-up");
            searcher.take(outcome(first, 0.0));
            assert_eq!((searcher.ask(), searcher.ended()), (None, Some(ended)));
        }
    }
}
