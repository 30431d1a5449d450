//! Selector: chooses the trials of one goal, for its targets in turn, the coarsest first.

use linerate_model::Nanos;

use super::expander::Expander;
use super::grid::Units;
use super::limits::Limits;
use super::strategy::{Growth, Strategy, View};
use super::target::Target;
use super::{TargetBounds, Trials};

/// Trial that a selector proposes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Nomination {
    pub(super) load: Units,
    pub(super) duration: Nanos,
    /// Width that all selectors share if it is measured.
    pub(super) width: Units,
}

impl Nomination {
    /// Returns whether it is measured before `other`: the lower load first, then the longer trial,
    /// then the larger width.
    pub(super) fn precedes(&self, other: &Self) -> bool {
        // A lower load first: it shows more often that a lower bound exists.
        if self.load != other.load {
            return self.load < other.load;
        }
        if self.duration != other.duration {
            return self.duration > other.duration;
        }
        self.width >= other.width
    }
}

/// Selector of one goal.
#[derive(Debug)]
pub(super) struct Selector {
    targets: Vec<Target>,
    current: usize,
    initial: (Option<Units>, Option<Units>),
    expander: Expander,
    growth: Growth,
    limits: Limits,
}

impl Selector {
    pub(super) fn new(targets: Vec<Target>, initial: (Units, Units), limits: Limits) -> Self {
        let initial = (Some(initial.0), Some(initial.1));
        let expander = Expander::new(targets[0].width, initial);
        Self { targets, current: 0, initial, expander, growth: Growth::Never, limits }
    }

    /// Returns the next trial for its present target. Goes on to the next target when one is
    /// reached. `None` when the goal is reached.
    pub(super) fn nominate(&mut self, trials: &Trials, shared: Units) -> Option<Nomination> {
        self.growth = Growth::Never;
        loop {
            let target = self.targets[self.current];
            let found = trials.found(&target.requirement);
            let view = View {
                // A nomination that is not measured must not make the width grow.
                goal: target.width,
                initial: self.initial,
                found,
                limits: self.limits,
                shared,
            };
            for strategy in Strategy::ALL {
                if let Some(((load, width), growth)) = strategy.propose(&view, &mut self.expander) {
                    self.growth = growth;
                    return Some(Nomination { load, duration: target.requirement.trial, width });
                }
            }
            if self.current + 1 == self.targets.len() {
                return None;
            }
            self.current += 1;
            // The bounds of the coarser target are the best guess for the finer one.
            self.initial = (found.lower, found.upper);
            self.expander = Expander::new(self.targets[self.current].width, self.initial);
        }
    }

    /// Notes that its nomination was measured.
    pub(super) fn won(&mut self, load: Units, trials: &Trials, shared: &mut Units) {
        let TargetBounds { lower, upper } = trials.found(&self.targets[self.current].requirement);
        let grows = match self.growth {
            Growth::Never => false,
            Growth::OnLower => lower == Some(load),
            Growth::OnUpper => upper == Some(load),
        };
        if grows {
            self.expander.expand(shared);
        }
    }
}
