//! `cargo xtask torture SUBJECT`: a promise put to the test many times, with kills, damage and
//! hostile input, bounded in count and time.
//!
//! Each subject is one module with one function; it prints what it counted and says whether the
//! promise held. `--quick` does a little of everything, for the test suite; without it the figures
//! of docs/security.md are measured.

mod disks;
mod fuzz;
mod labs;
mod ledger;
mod memory;
mod peers;
mod strangers;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::ensure;

/// Inputs of a subject.
pub(crate) struct Bench {
    /// The folder of the workspace.
    root: PathBuf,
    /// The linerate that is tortured.
    linerate: PathBuf,
    /// A little of everything instead of the whole.
    quick: bool,
    /// Only the parts with these names; all of them if empty.
    parts: Vec<String>,
}

impl Bench {
    /// Returns true if this part of a subject was requested.
    fn wants(&self, part: &str) -> bool {
        self.parts.is_empty() || self.parts.iter().any(|wanted| wanted == part)
    }

    /// Returns an example of a crate, which stands for another program.
    fn example(&self, name: &str) -> PathBuf {
        target(&self.root).join("examples").join(name)
    }

    /// `few` in the quick form, else `many`.
    fn count(&self, few: u32, many: u32) -> u32 {
        if self.quick { few } else { many }
    }
}

/// Something that is tortured.
pub(crate) struct Subject {
    pub(crate) name: &'static str,
    /// Prints what it counts; true if every promise held.
    run: fn(&Bench) -> anyhow::Result<bool>,
}

/// Every subject, alphabetically.
pub(crate) static SUBJECTS: &[Subject] = &[
    Subject { name: "disks", run: disks::run },
    Subject { name: "fuzz", run: fuzz::run },
    Subject { name: "labs", run: labs::run },
    Subject { name: "ledger", run: ledger::run },
    Subject { name: "memory", run: memory::run },
    Subject { name: "peers", run: peers::run },
    Subject { name: "strangers", run: strangers::run },
];

/// Options of `torture`.
#[derive(clap::Parser)]
struct Options {
    /// Subject
    #[arg(value_parser = subject)]
    subject: &'static Subject,
    /// Parts of the subject [default: all]
    parts: Vec<String>,
    /// A little of everything
    #[arg(long)]
    quick: bool,
    /// An already built linerate
    #[arg(long)]
    linerate: Option<PathBuf>,
}

/// Parses the name of a subject.
fn subject(name: &str) -> Result<&'static Subject, String> {
    let names: Vec<&str> = SUBJECTS.iter().map(|subject| subject.name).collect();
    let found = SUBJECTS.iter().find(|subject| subject.name == name);
    found.ok_or_else(|| format!("the subjects are {}", names.join(", ")))
}

/// Runs a subject.
pub(crate) fn run(root: &Path, arguments: &[String]) -> anyhow::Result<ExitCode> {
    let Options { subject, parts, quick, linerate } = crate::parsed("torture", arguments)?;
    build(root)?;
    let linerate = linerate.unwrap_or_else(|| target(root).join("linerate"));
    let bench = Bench { root: root.to_owned(), linerate, quick, parts };
    let held = (subject.run)(&bench)?;
    println!(
        "{}: {}",
        subject.name,
        if held { "every promise held" } else { "A PROMISE WAS BROKEN" }
    );
    Ok(if held { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// A little of every subject, as part of the tests; true if every promise held. A subject that
/// cannot be run counts as one that failed.
pub(crate) fn quick(root: &Path) -> bool {
    // The tests have built it.
    let linerate = target(root).join("linerate");
    let bench = Bench { root: root.to_owned(), linerate, quick: true, parts: Vec::new() };
    // All subjects run also after one has failed.
    let held: Vec<bool> = SUBJECTS.iter().map(|subject| holds(subject, &bench)).collect();
    !held.contains(&false)
}

fn holds(subject: &Subject, bench: &Bench) -> bool {
    (subject.run)(bench).unwrap_or_else(|error| {
        println!("{}: could not be run: {error:#}", subject.name);
        false
    })
}

/// Builds what the subjects run, with the features that the tests build it with.
fn build(root: &Path) -> anyhow::Result<()> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo)
        .current_dir(root)
        .args(["build", "--quiet", "--workspace", "--bin", "linerate", "--examples"])
        .status()?;
    ensure!(status.success(), "build linerate and the examples: {status}");
    Ok(())
}

/// Returns the folder of built programs.
fn target(root: &Path) -> PathBuf {
    let target =
        // cargo's own variable decides where it builds.
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    target.join("debug")
}
