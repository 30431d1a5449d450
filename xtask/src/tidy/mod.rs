//! `cargo xtask tidy`: rules of ARCHITECTURE.md that no compiler checks.
//!
//! Each check is one function from the repository as read to findings; reading happens once,
//! before. A finding has a place, an observation and advice. tidy reads text, not types, so it does
//! not see meaning.

mod circles;
mod closures;
mod code;
mod commands;
mod dependencies;
mod display;
mod documentation;
mod names;
mod paths;
mod promises;
mod registries;
mod repository;
mod rooms;
mod sentences;
mod sources;

use std::path::Path;
use std::process::ExitCode;

use repository::Repository;

/// A broken rule.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Finding {
    /// File and line, or crate.
    place: String,
    /// Observation.
    what: String,
    /// Advice.
    remedy: &'static str,
}

impl Finding {
    fn new(place: impl Into<String>, what: impl Into<String>, remedy: &'static str) -> Self {
        Self { place: place.into(), what: what.into(), remedy }
    }
}

/// A check: its name and its function.
type Check = (&'static str, fn(&Repository) -> Vec<Finding>);

/// Every check, in the order in which they are printed.
static CHECKS: &[Check] = &[
    ("crate edges", rooms::edges),
    ("libraries of one room", rooms::exclusive_libraries),
    ("sources can be read", sources::broken),
    ("unsafe only in linerate-sys", sources::unsafe_outside_sys),
    ("unsafe is forbidden by attribute", sources::forbid_attribute),
    ("pure rooms", sources::pure_rooms),
    ("no async", sources::no_async),
    ("file size", sources::file_size),
    ("leftovers", sources::leftovers),
    ("test files are built", sources::test_files),
    ("imports go one way", circles::no_circles),
    ("named closures are short", closures::long_closures),
    ("display text is not compared", display::compared),
    ("the analysis builds no sentences", sentences::sentences),
    ("registries", registries::registries),
    ("limits have cited values", registries::limits),
    ("rules fire and are silent", registries::rules),
    ("workloads have plans and known answers", registries::workloads),
    ("samplers have fixtures", registries::samplers),
    ("names are spelt once", names::spelt_once),
    ("lists of metrics", names::lists),
    ("paths of one machine", paths::machine_paths),
    ("promises have tests", promises::tested),
    ("dependencies are explained", dependencies::explained),
    ("licences", dependencies::licences),
    ("crates describe themselves", dependencies::described),
    ("citations and links resolve", documentation::citations),
    ("pages are reachable", documentation::reachable),
    ("pages say what they are for", documentation::openings),
    ("commands of xtask exist", commands::exist),
    ("lines fit", sources::width),
];

/// The task.
pub(crate) fn run(root: &Path, arguments: &[String]) -> anyhow::Result<ExitCode> {
    anyhow::ensure!(
        // A check that can be left out would be left out.
        arguments.is_empty(),
        "`cargo xtask tidy` takes no arguments, got {arguments:?}"
    );
    Ok(if report(root)? { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Prints every finding; whether there is none.
pub(crate) fn report(root: &Path) -> anyhow::Result<bool> {
    let repository = Repository::read(root)?;
    let mut n_findings = 0;
    for (name, check) in CHECKS {
        let findings = check(&repository);
        n_findings += findings.len();
        for finding in findings {
            println!("{name}: {}: {} ({})", finding.place, finding.what, finding.remedy);
        }
    }
    println!("tidy: {} checks, {n_findings} findings", CHECKS.len());
    Ok(n_findings == 0)
}
