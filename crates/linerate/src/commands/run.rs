//! `linerate run`: a plan on a place, into a ledger, and its report.

use std::path::PathBuf;

use crate::campaign::{self, Request};
use crate::cli::{Global, RunArgs};
use crate::commands::plan;
use crate::exit::Outcome;
use crate::progress::Display;
use crate::{reports, testbeds};

/// Runs the plan and prints the answer.
pub(crate) fn run(args: &RunArgs, global: Global) -> Outcome {
    let (found, plan) = plan::read(&plan::name(&args.plan, args.quick)?, &args.set)?;
    let mut ground = testbeds::prepare(&args.place)?;
    let ledger = args.ledger.clone().unwrap_or_else(|| PathBuf::from(format!("{}.ledger", plan.name)));
    let request = Request { found: &found, plan: &plan, ground: &ground, ledger: &ledger, resume: args.resume };
    let mut display = Display::new(global);
    let (campaign, summary) = campaign::conduct(&request, &mut |event| display.show(&event))?;
    drop(display);
    ground.dismantle();
    reports::finish(&campaign, &summary, &args.output, &ledger, global)
}
