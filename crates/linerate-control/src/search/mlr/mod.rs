//! MLRsearch (RFC 9971; docs/methodology/searches.md#mlrsearch): several goals at once, short
//! trials before long ones.
//!
//! Chooses the same loads as the reference implementation (MLRsearch 1.2.1 of FD.io CSIT): first
//! the highest load, then the load forwarded there, then one near it. From then on every goal
//! nominates a trial, and the one at the lowest load is made. One point differs: a goal that not
//! even the lowest load reaches ends alone, and the other goals go on.

mod expander;
mod grid;
mod limits;
mod selector;
mod strategy;
mod target;

use std::collections::BTreeMap;

use linerate_analysis::search::{Class, Observation, Requirement, classify, seconds};
use linerate_model::{Goal, Nanos, Search, Step};

use self::grid::{Grid, Units};
use self::limits::Limits;
use self::selector::{Nomination, Selector};
use self::target::Target;
use super::{Controller, at};
use SelectionStage::{First, Main, Second, Third};

/// Bounds of one target.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct TargetBounds {
    lower: Option<Units>,
    upper: Option<Units>,
}

/// All trials so far, by load.
#[derive(Debug, Default)]
struct Trials(BTreeMap<Units, Vec<Observation>>);

impl Trials {
    /// Returns the smallest load that is an upper bound, and the largest lower bound below it.
    fn found(&self, requirement: &Requirement) -> TargetBounds {
        let mut found = TargetBounds::default();
        for (load, trials) in &self.0 {
            match classify(requirement, &seconds(requirement, trials)) {
                Class::Lower => found.lower = Some(*load),
                Class::Upper => {
                    found.upper = Some(*load);
                    break;
                }
                Class::Undecided => {}
            }
        }
        found
    }
}

/// Parameters of the first trials, which all goals share.
#[derive(Clone, Copy, Debug)]
struct Start {
    loss_ratio: f64,
    duration: Nanos,
    width: Units,
}

#[derive(Debug)]
enum SelectionStage {
    /// Trial at the highest load.
    First,
    /// Trial at the load that was forwarded there.
    Second(Units),
    /// Trial near the second one: the second load, and this one.
    Third(Units, Units),
    Main {
        selectors: Vec<Selector>,
        shared: Units,
        winner: Option<(usize, Nomination)>,
    },
}

/// Controller of this method.
#[derive(Debug)]
pub(super) struct Mlr {
    grid: Grid,
    limits: Limits,
    chains: Vec<Vec<Target>>,
    start: Start,
    trials: Trials,
    stage: SelectionStage,
    /// Load of the last step.
    asked: Units,
}

impl Mlr {
    pub(super) fn new(search: &Search, goals: &[Goal]) -> Self {
        let widths: Vec<f64> = goals.iter().map(|goal| goal.width).collect();
        let grid = Grid::new(search.min, search.max, &widths);
        let chains: Vec<Vec<Target>> =
            goals.iter().map(|goal| target::chain(goal, &grid)).collect();
        let coarsest = || chains.iter().map(|chain| chain[0]);
        let start = Start {
            loss_ratio: coarsest().map(|target| target.requirement.loss_ratio).fold(1.0, f64::min),
            duration: coarsest().map(|target| target.requirement.trial).max().unwrap_or_default(),
            width: coarsest().map(|target| target.width).max().unwrap_or(1),
        };
        let limits = Limits { last: grid.last() };
        Self { grid, limits, chains, start, trials: Trials::default(), stage: First, asked: 0 }
    }

    /// Returns the load that would be forwarded without loss, if `observation` lost exactly the
    /// excess.
    fn forwarded(&self, observation: &Observation) -> Units {
        let forwarded = observation.load * (1.0 - observation.loss_ratio);
        self.grid.units(forwarded * (1.0 / (1.0 - self.start.loss_ratio)))
    }

    /// Begins the main stage: every goal gets a selector, which starts from two loads.
    fn begin(&self, one: Units, other: Units) -> SelectionStage {
        let loads = (one.min(other), one.max(other));
        let selector = |chain: &Vec<Target>| Selector::new(chain.clone(), loads, self.limits);
        Main {
            selectors: self.chains.iter().map(selector).collect(),
            shared: loads.1 - loads.0,
            winner: None,
        }
    }

    fn after_first(&self, observation: &Observation) -> SelectionStage {
        let last = self.grid.last();
        let forwarded = self.forwarded(observation);
        if forwarded >= last {
            return self.begin(last, last);
        }
        match self.limits.keep(forwarded, self.start.width, None, Some(last)) {
            Some(load) => Second(load),
            None => self.begin(last, last),
        }
    }

    fn after_second(&self, load: Units, observation: &Observation) -> SelectionStage {
        let width = self.start.width;
        let next = if observation.loss_ratio > self.start.loss_ratio {
            self.limits.keep(self.forwarded(observation), width, None, Some(load))
        } else {
            self.limits.keep(load + width, width, Some(load), Some(self.grid.last()))
        };
        next.map_or_else(|| self.begin(load, load), |next| Third(load, next))
    }
}

impl Controller for Mlr {
    fn next(&mut self) -> Option<Step> {
        let (load, duration) = match &mut self.stage {
            First => (self.grid.last(), self.start.duration),
            Second(load) | Third(_, load) => (*load, self.start.duration),
            Main { selectors, shared, winner } => {
                *winner = None;
                for (number, selector) in selectors.iter_mut().enumerate() {
                    let Some(nomination) = selector.nominate(&self.trials, *shared) else {
                        continue;
                    };
                    if winner.is_none_or(|(_, best)| !best.precedes(&nomination)) {
                        *winner = Some((number, nomination));
                    }
                }
                let (_, nomination) = (*winner)?;
                (nomination.load, nomination.duration)
            }
        };
        self.asked = load;
        Some(at(self.grid.load(load), duration))
    }

    fn take(&mut self, observation: &Observation) {
        self.trials.0.entry(self.asked).or_default().push(*observation);
        let begun = match &self.stage {
            First => Some(self.after_first(observation)),
            Second(load) => Some(self.after_second(*load, observation)),
            Third(one, other) => Some(self.begin(*one, *other)),
            Main { .. } => None,
        };
        if let Some(stage) = begun {
            self.stage = stage;
        } else if let Main { selectors, shared, winner } = &mut self.stage
            && let Some((number, nomination)) = winner.take()
        {
            *shared = nomination.width;
            selectors[number].won(nomination.load, &self.trials, shared);
        }
    }
}

#[cfg(test)]
mod tests;
