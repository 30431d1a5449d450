//! Strategies: rules for the next load of one target, tried in order until one proposes a load.

use super::TargetBounds;
use super::expander::Expander;
use super::grid::{Units, middle};
use super::limits::Limits;

/// Input of a strategy.
#[derive(Clone, Copy, Debug)]
pub(super) struct View {
    /// Width of the target.
    pub(super) goal: Units,
    /// The two initial loads; for later targets, the bounds of the coarser target.
    pub(super) initial: (Option<Units>, Option<Units>),
    /// Present bounds of the target.
    pub(super) found: TargetBounds,
    pub(super) limits: Limits,
    /// Width that all selectors share.
    pub(super) shared: Units,
}

/// Load, and its width.
pub(super) type Proposal = (Units, Units);

/// Strategies, in the order in which they are tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Strategy {
    /// A load between the two initial ones.
    Halve,
    /// The lower initial load, with the trials of this target.
    RefineLower,
    /// The upper initial load, with the trials of this target.
    RefineUpper,
    /// A load below all others, until a lower bound is found.
    ExtendDown,
    /// A load above all others, until an upper bound is found.
    ExtendUp,
    /// A load between the bounds, or outwards from one if that is nearer to an initial load.
    Bisect,
}

/// Condition under which the width grows after a trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Growth {
    Never,
    /// If the load became the lower bound.
    OnLower,
    /// If it became the upper one.
    OnUpper,
}

impl Strategy {
    pub(super) const ALL: [Self; 6] = [
        Self::Halve,
        Self::RefineLower,
        Self::RefineUpper,
        Self::ExtendDown,
        Self::ExtendUp,
        Self::Bisect,
    ];

    /// Returns its proposal, if any, and the condition under which the width grows if the proposal
    /// is measured.
    pub(super) fn propose(
        self,
        view: &View,
        expander: &mut Expander,
    ) -> Option<(Proposal, Growth)> {
        let still = |proposal| Some((proposal, Growth::Never));
        match self {
            Self::Halve => view.halve(expander).and_then(still),
            Self::RefineLower => view.refine(view.initial.0, expander).and_then(still),
            Self::RefineUpper => view.refine(view.initial.1, expander).and_then(still),
            Self::ExtendDown => {
                view.extend_down(expander).map(|proposal| (proposal, Growth::OnUpper))
            }
            Self::ExtendUp => view.extend_up(expander).map(|proposal| (proposal, Growth::OnLower)),
            Self::Bisect => view.bisect(expander),
        }
    }
}

impl View {
    /// Returns whether a trial at `load` can set or improve a bound.
    fn worth(&self, load: Units) -> bool {
        let TargetBounds { lower, upper } = self.found;
        // Strictly between the bounds, and only while they are further apart than the goal.
        lower.is_none_or(|lower| load > lower)
            && upper.is_none_or(|upper| load < upper)
            && lower.zip(upper).is_none_or(|(lower, upper)| (upper - lower).abs() > self.goal)
    }

    fn halve(&self, expander: &mut Expander) -> Option<Proposal> {
        let (one, other) = self.initial.0.zip(self.initial.1)?;
        let (lower, upper) = (one.min(other), one.max(other));
        let apart = upper - lower;
        // Within two widths one trial in the middle finishes the target.
        if apart > 2 * self.goal || apart <= self.goal {
            return None;
        }
        let load = middle(lower, upper, self.goal);
        self.worth(load).then(|| {
            expander.limit(self.goal);
            (load, self.goal)
        })
    }

    fn refine(&self, load: Option<Units>, expander: &mut Expander) -> Option<Proposal> {
        let load = load.filter(|load| self.worth(*load))?;
        expander.limit(self.goal);
        Some((load, self.goal))
    }

    fn extend_down(&self, expander: &Expander) -> Option<Proposal> {
        let upper = self.found.upper.filter(|upper| self.found.lower.is_none() && *upper > 0)?;
        let width = expander.width(self.shared);
        let load = self.limits.keep(upper - width, self.goal, None, Some(upper))?;
        self.worth(load).then_some((load, width))
    }

    fn extend_up(&self, expander: &Expander) -> Option<Proposal> {
        let lower = self
            .found
            .lower
            .filter(|lower| self.found.upper.is_none() && *lower < self.limits.last)?;
        let width = expander.width(self.shared);
        let load = self.limits.keep(lower + width, self.goal, Some(lower), None)?;
        self.worth(load).then_some((load, width))
    }

    fn bisect(&self, expander: &mut Expander) -> Option<(Proposal, Growth)> {
        let lower = self.found.lower.filter(|lower| *lower < self.limits.last)?;
        let upper = self.found.upper.filter(|upper| *upper > 0)?;
        // The bounds are as close as the goal asks.
        if upper - lower <= self.goal {
            return None;
        }
        let half = middle(lower, upper, self.goal);
        let width = expander.width(self.shared);
        let keep = |load| self.limits.keep(load, self.goal, Some(lower), Some(upper));
        // A bound may come from another goal's search, and the initial loads may be a better
        // guess. Then the step outwards from the other bound is used, if it lies between the middle
        // and the initial load.
        if let Some(initial) = self.initial.1.filter(|initial| half < *initial)
            && let Some(load) = keep(upper - width).filter(|load| half < *load && *load < initial)
        {
            return Some(((load, width), Growth::OnUpper));
        }
        if let Some(initial) = self.initial.0.filter(|initial| half > *initial)
            && let Some(load) = keep(lower + width).filter(|load| initial < *load && *load < half)
        {
            return Some(((load, width), Growth::OnLower));
        }
        if !self.worth(half) {
            return None;
        }
        // The smaller half decides how far a later step may go.
        let width = (half - lower).min(upper - half);
        expander.limit(width);
        Some(((half, width), Growth::Never))
    }
}
