//! Studying a campaign and writing its report.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use linerate_analysis::{Reason, Study, study};
use linerate_campaign::conduct;
use linerate_control::RunSummary;
use linerate_model::{Campaign, TrialOutcome, Validity};
use linerate_report::{Document, Format, compose, render, study_json};

use crate::args::{Global, Output, ReportFormat, Saved};
use crate::exit::{Exit, Failure, Outcome};

/// Writes the report of `campaign` as `output` asks and returns the files.
pub(crate) fn write(
    campaign: &Campaign,
    study: &Study,
    output: &Output,
) -> Result<Vec<PathBuf>, Failure> {
    save(&compose(campaign, study), output)
}

/// Writes `document` as `output` asks and returns the files.
pub(crate) fn save(document: &Document, output: &Output) -> Result<Vec<PathBuf>, Failure> {
    let failed = |path: &Path, error: std::io::Error| {
        Failure::missing(format!("write report {}: {error}", path.display()))
    };
    let folder = output.out.as_path();
    std::fs::create_dir_all(folder).map_err(|error| failed(folder, error))?;
    let mut written = Vec::new();
    for format in &output.format {
        let format = match format {
            ReportFormat::Html => Format::Html,
            ReportFormat::Csv => Format::Csv,
            ReportFormat::Xlsx => Format::Xlsx,
            ReportFormat::Md => Format::Md,
            ReportFormat::Json => Format::Json,
            ReportFormat::FioJson => Format::FioJson,
            ReportFormat::IometerCsv => Format::IometerCsv,
        };
        for artifact in render(document, format).map_err(Failure::missing)? {
            let path = folder.join(&artifact.file_name);
            if let Some(parent) = path.parent() {
                std::fs::create_dir_all(parent).map_err(|error| failed(parent, error))?;
            }
            linerate_sys::whole_file::replace(&path, &artifact.bytes)
                .map_err(|error| failed(&path, error.cause))?;
            written.push(path);
        }
    }
    Ok(written)
}

/// Prints the answer of a command that wrote no ledger, as text or JSON, and writes it as `saved`
/// asks.
pub(crate) fn answer(document: &Document, saved: &Saved, global: Global) -> Result<(), Failure> {
    let output = Output { format: saved.format.clone(), out: saved.out.clone() };
    let files = if output.format.is_empty() { Vec::new() } else { save(document, &output)? };
    if global.json {
        println!("{}", document.study);
    } else {
        print!("{}", linerate_report::text::whole(document));
        files.iter().for_each(|file| println!("report {}", file.display()));
    }
    Ok(())
}

/// Prints the short `document` of a campaign that was just run, or its study as JSON, and writes
/// the whole report as `saved` asks.
pub(crate) fn measured(
    document: &Document,
    campaign: &Campaign,
    study: &Study,
    saved: &Saved,
    global: Global,
) -> Result<(), Failure> {
    let output = Output { format: saved.format.clone(), out: saved.out.clone() };
    let files =
        if output.format.is_empty() { Vec::new() } else { write(campaign, study, &output)? };
    if global.json {
        println!("{}", study_json(campaign, study));
    } else {
        print!("\n{}", linerate_report::text::whole(document));
        files.iter().for_each(|file| println!("report {}", file.display()));
    }
    Ok(())
}

/// Judges a campaign that was just run, writes its report, prints the answer, and says how the
/// command ends.
pub(crate) fn finish(
    campaign: &Campaign,
    summary: &RunSummary,
    output: &Output,
    ledger: &Path,
    global: Global,
) -> Outcome {
    let study = study(campaign);
    let files = write(campaign, &study, output)?;
    if global.json {
        println!("{}", study_json(campaign, &study));
    } else {
        print!("{}", linerate_report::text::summary(&compose(campaign, &study)));
        println!("ledger {}", ledger.display());
        files.iter().for_each(|file| println!("report {}", file.display()));
    }
    end(campaign, &study, summary, global)
}

/// Says how a command ends that ran `campaign`. With `--quiet` nothing was said on the way: why it
/// ends without success goes to standard error.
pub(crate) fn end(
    campaign: &Campaign,
    study: &Study,
    summary: &RunSummary,
    global: Global,
) -> Outcome {
    let exit = match conduct::exit_of(summary)? {
        Exit::Done => exit_of(study),
        other => other,
    };
    if global.quiet
        && let Some(why) = why(exit, campaign, study, summary)
    {
        eprintln!("linerate: {why}");
    }
    Ok(exit)
}

/// Why a campaign that could be run to its end ended with `exit`; `None` if all is well.
fn why(exit: Exit, campaign: &Campaign, study: &Study, summary: &RunSummary) -> Option<String> {
    let listed = |reasons: BTreeSet<String>| reasons.into_iter().collect::<Vec<_>>().join("; ");
    match exit {
        Exit::Done | Exit::Wrong | Exit::Missing => None,
        Exit::Interrupted => Some("interrupted: what was measured is in the ledger".to_owned()),
        Exit::Missed if summary.failed > 0 => {
            let failed =
                campaign.trials.iter().filter(|trial| trial.outcome == Some(TrialOutcome::Failed));
            let reasons = failed
                .flat_map(|trial| &trial.incidents)
                .map(|incident| incident.message.clone())
                .collect();
            let tried = summary.completed + summary.failed;
            Some(format!("{} of {tried} trials failed: {}", summary.failed, listed(reasons)))
        }
        Exit::Missed => Some("not even the lowest load of a search meets its goal".to_owned()),
        Exit::Invalid => {
            let reasons =
                study.points.iter().flat_map(|point| &point.trials).flat_map(|trial| &trial.why);
            Some(format!(
                "the measurement is invalid: {}",
                listed(reasons.map(Reason::to_string).collect())
            ))
        }
    }
}

/// The exit code a study asks for: no point at all that carries a figure is an invalid measurement,
/// as is a search that the tester limited; a search whose goal not even its lowest load meets has
/// missed it.
pub(crate) fn exit_of(study: &Study) -> Exit {
    let runs = || study.searches.iter().flat_map(|search| &search.runs);
    if runs().any(|run| run.tester_limited.is_some()) {
        return Exit::Invalid;
    }
    let usable = study.points.iter().any(|point| point.validity <= Validity::Suspect);
    if !usable && !study.points.is_empty() {
        return Exit::Invalid;
    }
    let missed = runs().flat_map(|run| &run.found).any(|found| found.strict.lower.is_none());
    if missed { Exit::Missed } else { Exit::Done }
}
