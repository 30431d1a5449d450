//! `linerate doctor`: what this host can and cannot measure, and the tool's own ceiling.

use linerate_answers::host_checks;
use linerate_campaign::doctor::{self, Check};

use crate::args::{Global, Saved};
use crate::exit::{Exit, Outcome};
use crate::policy::{Policy, Separation, USUAL};
use crate::{reports, separation};

/// Runs every check and prints it. A missing ability is no failure: reports show the gap.
pub(crate) fn run(saved: &Saved, global: Global) -> Outcome {
    // Before there are threads: a process is split off.
    let agent = agent();
    let checks: Vec<Check> = std::iter::once(agent).chain(doctor::checks()).collect();
    reports::answer(&host_checks::document(&checks), saved, global)?;
    Ok(Exit::Done)
}

/// Tests whether an agent started here would separate its privileges.
fn agent() -> Check {
    let subject = "agent's separation";
    // The policy of the next agent decides, not options given here.
    let policy = match Policy::usual() {
        Ok(policy) => policy,
        Err(why) => return Check::lacking(subject, "an agent would not start", why.message()),
    };
    let Separation::Separated(user) = policy.separation else {
        return Check::lacking(
            subject,
            "an agent would keep all rights of its account",
            format!("remove `separate = false` from {USUAL}"),
        );
    };
    match separation::tried(user.as_deref()) {
        Ok(tried) if tried.remedies.is_empty() => Check::good(subject, tried.seen),
        Ok(tried) => Check::lacking(subject, tried.seen, tried.remedies.join("; ")),
        Err(why) => Check::lacking(subject, "an agent would not start", why.message()),
    }
}
