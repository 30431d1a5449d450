//! `linerate demo`: a short characterization in under two minutes, on this machine alone.

use std::path::PathBuf;

use clap::Args;
use linerate_campaign::checks;
use linerate_campaign::sandbox;
use linerate_campaign::testbeds::Place;

use crate::args::{DEFAULT_FORMAT, Global, Output, ReportFormats};
use crate::commands::ends::make_folder;
use crate::commands::measure;
use crate::exit::Outcome;
use crate::reports;

#[derive(Debug, Args)]
pub(crate) struct DemoArgs {
    /// Folder for the ledger and the report
    #[arg(long, default_value = "linerate-demo")]
    pub(crate) out: PathBuf,
}

/// The lab it builds.
const LAB: &str = "pair";
/// The plan it runs.
const PLAN: &str = "demo";

/// Builds a lab, or falls back to loopback with a warning; runs the plan and writes the report.
pub(crate) fn run(args: &DemoArgs, global: Global) -> Outcome {
    // Namespaces alone are not enough: the lab is built with programs.
    let lab_possible = sandbox::possible().is_ok() && sandbox::missing_tools().is_empty();
    let lab = lab_possible.then(|| LAB.to_owned());
    // Both ends in one process compete for its CPUs, so a person should know.
    if !lab_possible && !global.quiet {
        eprintln!(
            "warning: no lab can be built here (`linerate doctor` says why); measuring loopback, \
                with both ends in one process"
        );
    }
    let (found, plan) = checks::read(PLAN, &[])?;
    make_folder(&args.out)?;
    let ledger = args.out.join("demo.ledger");
    let place = Place { lab, ..Place::default() };
    // Each demo begins a new campaign.
    let (campaign, summary) = measure::at(&place, (&found, &plan), (&ledger, false), global)?;
    let output =
        Output { formats: ReportFormats { format: vec![DEFAULT_FORMAT] }, out: args.out.clone() };
    reports::finish(&campaign, &summary, &output, &ledger, global)
}
