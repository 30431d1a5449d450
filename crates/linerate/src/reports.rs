//! Reports of campaigns, and the exit that a study asks for.

use std::path::{Path, PathBuf};

use linerate_analysis::Study;
use linerate_campaign::conclusion;
use linerate_campaign::conduct::Measured;
use linerate_control::RunSummary;
use linerate_model::Campaign;
use linerate_report::{Document, Format, compose_for, render, study_json};
use serde_json::{Value, json};

use crate::args::{Global, Output, Saved};
use crate::exit::{Failure, Outcome};
use crate::output;

/// Writes `what`, such as `plan`, to the file `path`, whole or not at all.
pub(crate) fn write_file(what: &str, path: &Path, text: &str) -> Result<(), Failure> {
    linerate_sys::whole_file::replace(path, text.as_bytes()).map_err(|error| {
        let file = format!("{what} {}", path.display());
        Failure::missing(format!("write {}: {}", file.trim_start(), error.cause))
    })
}

/// Prints `lines`, or one list of them as JSON.
pub(crate) fn lines(lines: &[String], as_json: bool) {
    match as_json {
        true => println!("{}", json!(lines)),
        false => lines.iter().for_each(|line| println!("{line}")),
    }
}

/// Returns what a document is composed for: `formats`, and JSON if it is printed.
pub(crate) fn wanted(formats: &[Format], global: Global) -> Vec<Format> {
    formats.iter().copied().chain(global.json.then_some(Format::Json)).collect()
}

/// Writes `document` in each of `formats` into `folder` and returns the files.
pub(crate) fn save(
    document: &Document,
    formats: &[Format],
    folder: &Path,
) -> Result<Vec<PathBuf>, Failure> {
    if formats.is_empty() {
        return Ok(Vec::new());
    }
    let failed = |path: &Path, error: std::io::Error| {
        Failure::missing(format!("write report {}: {error}", path.display()))
    };
    std::fs::create_dir_all(folder).map_err(|error| failed(folder, error))?;
    let mut written = Vec::new();
    for format in formats {
        for artifact in render(document, *format).map_err(Failure::missing)? {
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

/// Prints the answer of a command as text or JSON, and writes it in the formats of `saved`.
pub(crate) fn answer(document: &Document, saved: &Saved, global: Global) -> Result<(), Failure> {
    let text = linerate_report::text::whole(document);
    summary(document, &text, (&saved.formats.format, &saved.out), global)
}

/// Prints the answer `document` as `text` or JSON, and writes it in `formats` into `folder`.
pub(crate) fn summary(
    document: &Document,
    text: &str,
    (formats, folder): (&[Format], &Path),
    global: Global,
) -> Result<(), Failure> {
    let files = save(document, formats, folder)?;
    if global.json {
        println!("{}", document.study);
    } else {
        print!("{text}");
        files.iter().for_each(|file| println!("report {}", file.display()));
    }
    Ok(())
}

/// Prints the short answer on a campaign that was just run, as `text`, or its study as JSON, and
/// writes the whole report in the formats of `saved`.
pub(crate) fn measured(
    (document, text): (&Document, &str),
    campaign: &Campaign,
    study: &Study,
    saved: &Saved,
    global: Global,
) -> Result<(), Failure> {
    let files = match &saved.formats.format[..] {
        [] => Vec::new(),
        formats => save(&compose_for(formats, campaign, study), formats, &saved.out)?,
    };
    if global.json {
        let mut json = study_json(campaign, study);
        if let (Value::Object(study), Value::Object(own)) = (&mut json, &document.study) {
            study.extend(own.clone());
        }
        output::document("end", json);
    } else {
        print!("\n{text}");
        files.iter().for_each(|file| println!("report {}", file.display()));
    }
    Ok(())
}

/// Writes the report of a campaign that was just run, prints the answer, and returns the exit.
pub(crate) fn finish(
    measured: &Measured,
    output: &Output,
    ledger: &Path,
    global: Global,
) -> Outcome {
    let Measured { campaign, study, summary } = measured;
    let report = compose_for(&wanted(&output.formats.format, global), campaign, study);
    let files = save(&report, &output.formats.format, &output.out)?;
    if global.json {
        println!("{}", report.study);
    } else {
        print!("{}", linerate_report::text::summary(&report));
        println!("ledger {}", ledger.display());
        files.iter().for_each(|file| println!("report {}", file.display()));
    }
    end(campaign, study, summary, global)
}

/// Returns the exit of a command that ran `campaign`. With `--quiet` no progress was printed, so
/// the reason of an unsuccessful end goes to standard error. Progress does
/// not report that nothing was transferred.
pub(crate) fn end(
    campaign: &Campaign,
    study: &Study,
    summary: &RunSummary,
    global: Global,
) -> Outcome {
    let exit = conclusion::outcome(campaign, study, summary)?;
    if (global.quiet || conclusion::moved_nothing(study))
        && let Some(why) = conclusion::reason(exit, campaign, study, summary)
    {
        eprintln!("linerate: {why}");
    }
    Ok(exit)
}
