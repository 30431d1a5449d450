//! MLRsearch (RFC 9971; docs/methodology/searches.md#mlrsearch): several goals at once, short
//! trials before long ones.
//!
//! Behaves as the reference implementation (MLRsearch 1.2.1 of FD.io CSIT) does, load by load: at
//! the highest load first, then at what was forwarded there, then near that; from then on every
//! goal nominates a trial, and the one at the lowest load is made. It differs in one point: a goal
//! that not even the lowest load reaches ends by itself, and the others go on.

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

/// The bounds of one target.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct TargetBounds {
    lower: Option<Units>,
    upper: Option<Units>,
}

/// Every trial so far, by load.
#[derive(Debug, Default)]
struct Trials(BTreeMap<Units, Vec<Observation>>);

impl Trials {
    /// The smallest load that is an upper bound, and the largest lower one below it.
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

/// What the first trials all goals share are made with.
#[derive(Clone, Copy, Debug)]
struct Start {
    loss_ratio: f64,
    duration: Nanos,
    width: Units,
}

#[derive(Debug)]
enum SelectionStage {
    /// At the highest load.
    First,
    /// At what was forwarded there.
    Second(Units),
    /// Near it, from the second.
    Third(Units, Units),
    Main {
        selectors: Vec<Selector>,
        shared: Units,
        winner: Option<(usize, Nomination)>,
    },
}

/// The controller.
#[derive(Debug)]
pub(super) struct Mlr {
    grid: Grid,
    limits: Limits,
    chains: Vec<Vec<Target>>,
    start: Start,
    trials: Trials,
    stage: SelectionStage,
    /// The load asked for last.
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
        Self {
            grid,
            limits,
            chains,
            start,
            trials: Trials::default(),
            stage: SelectionStage::First,
            asked: 0,
        }
    }

    /// The load that would be forwarded whole, if `observation` lost all that was above it.
    fn forwarded(&self, observation: &Observation) -> Units {
        let forwarded = observation.load * (1.0 - observation.loss_ratio);
        self.grid.units(forwarded * (1.0 / (1.0 - self.start.loss_ratio)))
    }

    /// Every goal gets its selector, from two loads.
    fn begin(&self, one: Units, other: Units) -> SelectionStage {
        let loads = (one.min(other), one.max(other));
        let selector = |chain: &Vec<Target>| Selector::new(chain.clone(), loads, self.limits);
        SelectionStage::Main {
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
            Some(load) => SelectionStage::Second(load),
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
        next.map_or_else(|| self.begin(load, load), |next| SelectionStage::Third(load, next))
    }
}

impl Controller for Mlr {
    fn next(&mut self) -> Option<Step> {
        let (load, duration) = match &mut self.stage {
            SelectionStage::First => (self.grid.last(), self.start.duration),
            SelectionStage::Second(load) | SelectionStage::Third(_, load) => {
                (*load, self.start.duration)
            }
            SelectionStage::Main { selectors, shared, winner } => {
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
            SelectionStage::First => Some(self.after_first(observation)),
            SelectionStage::Second(load) => Some(self.after_second(*load, observation)),
            SelectionStage::Third(one, other) => Some(self.begin(*one, *other)),
            SelectionStage::Main { .. } => None,
        };
        if let Some(stage) = begun {
            self.stage = stage;
        } else if let SelectionStage::Main { selectors, shared, winner } = &mut self.stage
            && let Some((number, nomination)) = winner.take()
        {
            *shared = nomination.width;
            selectors[number].won(nomination.load, &self.trials, shared);
        }
    }
}

#[cfg(test)]
mod tests;
