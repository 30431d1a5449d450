//! Reads a plan.

use super::Plan;
use crate::Problem;

/// Reads the TOML `text`. The plan is returned if it could be understood at all; it may only be run if there is no problem.
#[must_use]
pub fn parse(text: &str) -> (Option<Plan>, Vec<Problem>) {
    let _ = text;
    (None, Vec::new())
}
