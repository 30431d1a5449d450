//! `linerate compare`: the changes from one recorded campaign to another.

use std::path::PathBuf;

use clap::Args;
use linerate_analysis::compare::{Campaigns, Change, Side, campaigns};
use linerate_analysis::study;
use linerate_report::{Named, compare_campaigns};

use crate::args::{Global, ReportFormats};
use crate::exit::{Exit, Failure, Outcome};
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
    let (before, after) = (ledgers::load(&args.before)?, ledgers::load(&args.after)?);
    let again = args.again.as_deref().map(ledgers::load).transpose()?;
    // A margin of one or more would call every loss noise.
    if !(0.0..1.0).contains(&args.margin.0) {
        return Err(Failure::wrong(format!(
            "compare: a margin of {} is no part of a figure (such as \"2 %\")",
            args.margin
        )));
    }
    if before.header.id == after.header.id {
        return Err(Failure::wrong(format!(
            // A campaign compared with itself would prove equality without a measurement.
            "compare: {} and {} are the same campaign, {} (name another one with LEDGER#ID)",
            args.before, args.after, before.header.id
        )));
    }
    let studies = (study(&before), study(&after), again.as_ref().map(study));
    let of_again =
        again.as_ref().zip(studies.2.as_ref()).map(|(campaign, study)| Side { campaign, study });
    let result = campaigns(
        Side { campaign: &before, study: &studies.0 },
        Side { campaign: &after, study: &studies.1 },
        of_again,
        args.margin.0,
    );
    let named_again = args.again.as_deref().zip(again.as_ref());
    let document = compare_campaigns(
        &result,
        Named { name: &args.before, header: &before.header },
        Named { name: &args.after, header: &after.header },
        named_again.map(|(name, campaign)| Named { name, header: &campaign.header }),
        env!("CARGO_PKG_VERSION"),
    );
    let files = reports::save(&document, &args.formats.format, &args.out)?;
    if global.json {
        println!("{}", document.study);
    } else {
        print!("{}", linerate_report::text::summary(&document));
        files.iter().for_each(|file| println!("report {}", file.display()));
    }
    // Without a common point, "no change" would be false.
    if result.points.is_empty() {
        return Err(Failure::wrong(nothing(args, &result)));
    }
    Ok(if result.count(Change::Worse) > 0 { Exit::Missed } else { Exit::Done })
}

/// Returns why there is nothing to compare, and what to do about it.
fn nothing(args: &CompareArgs, result: &Campaigns) -> String {
    let ledgers = [&args.before, &args.after];
    // A ledger without a bound has nothing to compare, and its own report says why.
    let blind: Vec<&str> = (0..2)
        .filter(|side| result.without_bound.iter().any(|one| one.side == *side))
        .map(|side| ledgers[side].as_str())
        .collect();
    let remedy = if blind.is_empty() {
        "measure the same plan twice, or name other campaigns with LEDGER#ID".to_owned()
    } else {
        format!(
            "`linerate report {}` says what its trials lost and whether the tester was the limit; \
                search again with a lower `min`, or on a quieter tester",
            blind[0]
        )
    };
    format!(
        "compare {} with {}: {} ({remedy})",
        args.before,
        args.after,
        linerate_report::nothing_compared(result)
    )
}
