//! `linerate compare`: the changes from one recorded campaign to another.

use std::path::PathBuf;

use clap::Args;
use linerate_answers::compare::{Compared, Recorded};

use crate::args::{Global, ReportFormats};
use crate::exit::Outcome;
use crate::{ledgers, reports};

#[derive(Debug, Args)]
pub(crate) struct CompareArgs {
    /// Ledger of the baseline (`LEDGER#ID` selects a campaign, otherwise the newest counts)
    pub(crate) before: String,
    /// Ledger to compare with it
    pub(crate) after: String,
    /// Ledger that repeats the baseline: their difference is the noise floor
    #[arg(long, value_name = "LEDGER")]
    pub(crate) again: Option<String>,
    /// Smallest change that counts
    #[arg(long, value_name = "RATIO", default_value_t = linerate_model::plan::DEFAULT_MARGIN)]
    pub(crate) margin: linerate_model::Ratio,
    #[command(flatten)]
    pub(crate) formats: ReportFormats,
    /// Folder for the report
    #[arg(long, default_value = "linerate-compare")]
    pub(crate) out: PathBuf,
}

/// Compares `args.after` with `args.before`, writes the report and prints the answer. A figure that
/// got worse is a missed goal; campaigns without a common point are a mistake.
pub(crate) fn run(args: &CompareArgs, global: Global) -> Outcome {
    let (before, after) = (ledgers::judge(&args.before)?, ledgers::judge(&args.after)?);
    let again = args.again.as_deref().map(ledgers::judge).transpose()?;
    let compared = Compared::of(
        [Recorded::of(&args.before, &before), Recorded::of(&args.after, &after)],
        args.again.as_deref().zip(again.as_ref()).map(|(name, again)| Recorded::of(name, again)),
        args.margin,
    )?;
    let document = &compared.document;
    let text = linerate_report::text::summary(document);
    reports::summary(document, &text, (&args.formats.format, &args.out), global)?;
    compared.exit()
}
