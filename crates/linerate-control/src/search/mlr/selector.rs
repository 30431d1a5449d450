//! A selector: one goal's way through its targets, the coarsest first.

use linerate_model::Nanos;

use super::expander::Expander;
use super::grid::Units;
use super::limits::Limits;
use super::strategy::{Growth, Strategy, View};
use super::target::Target;
use super::{TargetBounds, Trials};

/// What a selector would measure next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Nomination {
    pub(super) load: Units,
    pub(super) duration: Nanos,
    /// The width all selectors go on with if it is measured.
    pub(super) width: Units,
}

impl Nomination {
    /// Whether it is to be measured rather than `other`: the lower load, then the longer trial,
    /// then the larger width.
    pub(super) fn precedes(&self, other: &Self) -> bool {
        if self.load != other.load {
            return self.load < other.load;
        }
        if self.duration != other.duration {
            return self.duration > other.duration;
        }
        self.width >= other.width
    }
}

/// The selector of one goal.
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

    /// The next load and length for its present target; goes on to finer targets as they are
    /// reached. `None` when its goal is.
    pub(super) fn nominate(&mut self, trials: &Trials, shared: Units) -> Option<Nomination> {
        self.growth = Growth::Never;
        loop {
            let target = self.targets[self.current];
            let found = trials.found(&target.requirement);
            let view = View {
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
            self.initial = (found.lower, found.upper);
            self.expander = Expander::new(self.targets[self.current].width, self.initial);
        }
    }

    /// Its nomination was measured.
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
