//! `cargo xtask vm`: linerate on other kernels and topologies, in virtual machines.
//!
//! Each stage boots a Debian kernel in QEMU and runs one script of `guest/` there. The guest sees
//! the root of this host read-only below a file system in memory, so that every program of this
//! host is there and nothing that runs there changes the host. QEMU emulates the processor: facts
//! and counts are checked, times are not. Nothing but tools is installed: kernels are unpacked
//! below `target/vm`. Not seen: real network cards, real disks and their speed.

mod bmc;
mod checks;
pub(crate) mod guest;
pub(crate) mod kernels;
pub(crate) mod stages;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, ensure};

use crate::bench::options::program;
use crate::tools;
use checks::Checks;
use stages::{STAGES, Stage};

/// Options of `vm`.
#[derive(clap::Parser)]
struct Options {
    /// Only this stage, or the stages whose names begin so; may be repeated
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// Print the stages and run nothing
    #[arg(long)]
    list: bool,
    /// An already built linerate
    #[arg(long)]
    linerate: Option<PathBuf>,
    /// An already built static linerate for the processor of the BMC (armv7)
    #[arg(long, value_name = "FILE")]
    linerate_armv7: Option<PathBuf>,
}

/// Runs the requested stages; every one of them runs, also after one has failed.
pub(crate) fn run(root: &Path, arguments: &[String]) -> anyhow::Result<ExitCode> {
    let options: Options = crate::parsed("vm", arguments)?;
    let stages = chosen(&options.only)?;
    if options.list {
        stages.iter().for_each(|stage| println!("{:14} {}", stage.name, stage.summary));
        return Ok(ExitCode::SUCCESS);
    }
    let missing = tools::provide(tools::FOR_VM)?;
    ensure!(missing.is_empty(), "missing here: {}", missing.join("; "));
    // Guests need absolute paths.
    let root = root.canonicalize()?;
    let linerate = program(&root, options.linerate.as_deref())?;
    let linerate_armv7 = options.linerate_armv7.map(|file| file.canonicalize()).transpose()?;
    let place = guest::Place { folder: root.join("target/vm"), root, linerate, linerate_armv7 };
    let mut results = Vec::new();
    for stage in stages {
        println!("== {}: {}", stage.name, stage.summary);
        let begun = Instant::now();
        let checks = ran(stage, &place);
        results.push((stage, checks, begun.elapsed().as_secs()));
    }
    Ok(summed_up(&results))
}

/// Returns the stages that `names` select; all of them if it is empty. A name selects its stage, or
/// every stage whose name begins so if none has exactly that name.
fn chosen(names: &[String]) -> anyhow::Result<Vec<&'static Stage>> {
    if names.is_empty() {
        return Ok(STAGES.iter().collect());
    }
    let mut wanted = Vec::new();
    for name in names {
        let selected = selected(name);
        ensure!(!selected.is_empty(), "no stage `{name}`: `cargo xtask vm --list` prints them");
        wanted.extend(selected);
    }
    Ok(STAGES.iter().filter(|stage| wanted.contains(&stage.name)).collect())
}

/// Returns the names of the stages that `name` selects.
fn selected(name: &str) -> Vec<&'static str> {
    let names = || STAGES.iter().map(|stage| stage.name);
    if let Some(exact) = names().find(|exact| *exact == name) {
        return vec![exact];
    }
    names().filter(|longer| longer.starts_with(name)).collect()
}

/// Runs `stage`, and prints each check as it ends.
fn ran(stage: &'static Stage, place: &guest::Place) -> Checks {
    let outcome = kernels::fetched(stage.kernel, &place.folder)
        .context("fetch the kernel")
        .and_then(|kernel| guest::run(stage, &kernel, place, &[]));
    match outcome {
        Ok(checks) => checks,
        Err(error) => Checks { infrastructure: Some(format!("{error:#}")), ..Checks::default() },
    }
}

/// Prints what became of every stage.
fn summed_up(results: &[(&Stage, Checks, u64)]) -> ExitCode {
    let (mut is_good, mut n_skipped) = (true, 0);
    println!("== stages");
    for (stage, checks, seconds) in results {
        let verdict = checks.verdict(stage.checks);
        is_good &= verdict.is_ok();
        n_skipped += checks.skipped.len();
        let (n_passed, n_failed) = (checks.passed.len(), checks.failed.len());
        println!(
            "   {:14} {n_passed} passed, {n_failed} failed, {} skipped of {}, {seconds} s{}",
            stage.name,
            checks.skipped.len(),
            stage.checks,
            verdict.err().map_or_else(String::new, |why| format!(": {why}"))
        );
        checks.skipped.iter().for_each(|skip| println!("      skipped: {skip}"));
        checks.failed.iter().for_each(|failure| println!("      failed: {failure}"));
    }
    let seconds: u64 = results.iter().map(|(_, _, seconds)| seconds).sum();
    let word = if is_good { "passed" } else { "failed" };
    println!("== {word}: {} stages, {n_skipped} checks skipped, {seconds} s", results.len());
    if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_selects_its_stages_and_an_unknown_one_is_an_error() {
        let all = chosen(&[]).expect("all stages");
        assert_eq!(all.len(), STAGES.len());
        let names = |wanted: &str| -> Vec<&str> {
            let stages = chosen(&[wanted.to_owned()]).expect("stages");
            stages.iter().map(|stage| stage.name).collect()
        };
        assert_eq!(names("kernel-6"), ["kernel-6.1", "kernel-6.12"]);
        assert_eq!(names("kernel-6.1"), ["kernel-6.1"], "an exact name selects only its stage");
        let error = chosen(&["kernel-6".into(), "kernel-2".into()]).expect_err("no such stage");
        assert!(error.to_string().contains("kernel-2"), "{error}");
    }
}
