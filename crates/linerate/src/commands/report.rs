//! `linerate report`: the report of a recorded campaign, by the rules of this version.

use clap::Args;
use linerate_campaign::conclusion;
use linerate_report::compose_for;

use crate::args::{Global, Output};
use crate::exit::Outcome;
use crate::{ledgers, reports};

#[derive(Debug, Args)]
pub(crate) struct ReportArgs {
    /// Ledger (`LEDGER#ID` selects a campaign, otherwise the newest counts)
    pub(crate) ledger: String,
    #[command(flatten)]
    pub(crate) output: Output,
}

/// Writes the report of a recorded campaign.
pub(crate) fn run(args: &ReportArgs, global: Global) -> Outcome {
    let (campaign, study) = ledgers::judge(&args.ledger)?;
    let report =
        compose_for(&reports::wanted(&args.output.formats.format, global), &campaign, &study);
    let files = reports::save(&report, &args.output.formats.format, &args.output.out)?;
    if global.json {
        println!("{}", report.study);
    } else {
        files.iter().for_each(|file| println!("report {}", file.display()));
    }
    let exit = conclusion::exit_of(&study);
    // The process ends here. To give back a long campaign piece by piece would take it longer than
    // the kernel.
    std::mem::forget((campaign, study, report));
    Ok(exit)
}
