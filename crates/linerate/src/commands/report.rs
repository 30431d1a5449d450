//! `linerate report`: a ledger, judged by today's rules.

use clap::Args;
use linerate_analysis::study;

use crate::args::{Global, Output};
use crate::exit::Outcome;
use crate::{ledgers, reports};

#[derive(Debug, Args)]
pub(crate) struct ReportArgs {
    /// A ledger; `LEDGER#ID` names one campaign of it, else the newest
    pub(crate) ledger: String,
    #[command(flatten)]
    pub(crate) output: Output,
}

/// Writes the report of a recorded campaign.
pub(crate) fn run(args: &ReportArgs, global: Global) -> Outcome {
    let campaign = ledgers::load(&args.ledger)?;
    let study = study(&campaign);
    let files = reports::write(&campaign, &study, &args.output)?;
    if global.json {
        println!("{}", linerate_report::study_json(&campaign, &study));
    } else {
        files.iter().for_each(|file| println!("report {}", file.display()));
    }
    Ok(reports::exit_of(&study))
}
