//! The rules, alphabetically: each a claim about what limits a path, with its evidence.

use linerate_model::Finding;

use crate::PointStudy;

/// A diagnosis rule.
pub trait Rule: Sync {
    /// Its name.
    fn name(&self) -> &'static str;

    /// One sentence: when it fires.
    fn summary(&self) -> &'static str;

    /// What it says of a point, if anything.
    fn judge(&self, point: &PointStudy) -> Option<Finding>;
}

/// Every rule.
pub static RULES: &[&dyn Rule] = &[];
