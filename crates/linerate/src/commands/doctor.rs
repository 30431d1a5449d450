//! `linerate doctor`: what this host can and cannot measure, and the tool's own ceiling.

use linerate_answers::host_checks;
use linerate_campaign::doctor;

use crate::args::{Global, Saved};
use crate::exit::{Exit, Outcome};
use crate::reports;

/// Runs every check and prints it. A missing ability is no failure: reports show the gap.
pub(crate) fn run(saved: &Saved, global: Global) -> Outcome {
    reports::answer(&host_checks::document(&doctor::checks()), saved, global)?;
    Ok(Exit::Done)
}
