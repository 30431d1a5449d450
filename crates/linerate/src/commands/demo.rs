//! `linerate demo`: the main job in under two minutes, with nothing but this machine.

use std::path::PathBuf;

use clap::Args;
use linerate_campaign::checks;
use linerate_campaign::conduct::{self, Request};
use linerate_campaign::sandbox;
use linerate_campaign::testbeds::{self, Place};

use crate::args::{Global, Output, ReportFormat};
use crate::exit::{Failure, Outcome};
use crate::progress::Display;
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

/// Builds a lab, or says why it must do with loopback; runs, reports, and says where.
pub(crate) fn run(args: &DemoArgs, global: Global) -> Outcome {
    let lab_possible = sandbox::possible().is_ok() && sandbox::missing_tools().is_empty();
    let lab = lab_possible.then(|| LAB.to_owned());
    if !lab_possible && !global.quiet {
        eprintln!(
            "no lab can be built here (see linerate doctor): measuring loopback, with both ends in \
                one process"
        );
    }
    let mut ground = testbeds::prepare(&Place { lab, ..Place::default() })?;
    let (found, plan) = checks::read(PLAN, &[])?;
    std::fs::create_dir_all(&args.out).map_err(|error| {
        Failure::missing(format!("create folder {}: {error}", args.out.display()))
    })?;
    let ledger = args.out.join("demo.ledger");
    let request =
        Request { found: &found, plan: &plan, ground: &ground, ledger: &ledger, resume: false };
    let mut display = Display::new(global);
    let (campaign, summary) = conduct::conduct(&request, &mut |event| display.show(&event))?;
    drop(display);
    ground.dismantle();
    let output = Output { format: vec![ReportFormat::Html], out: args.out.clone() };
    reports::finish(&campaign, &summary, &output, &ledger, global)
}
