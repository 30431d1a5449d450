//! Scanner of the ledgers that benchmarks make: every report of each is read for numbers that
//! cannot be.
//!
//! `linerate report` writes each ledger in four formats, and the example `scan_report` of
//! `linerate-report` reads them. It knows the rules (`linerate_report::scan`); this file only
//! counts.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;
use serde_json::Value;

use crate::bench::options::ran;
use crate::bench::own;

/// Formats that are read.
const FORMATS: &str = "json,html,csv,md";

/// Scanner, and what it found so far.
pub(in crate::bench) struct Referee {
    program: PathBuf,
    scanner: PathBuf,
    n_trials: usize,
    violations: Vec<String>,
}

impl Referee {
    /// A scanner of what `program` prints. Builds the example that scans.
    pub(in crate::bench) fn new(root: &Path, program: &Path) -> anyhow::Result<Self> {
        // A debug build is enough: the scan is not measured.
        let scanner = own::build_quickly(root, "linerate-report", &["--example", "scan_report"])?;
        let program =
            std::path::absolute(program).with_context(|| format!("find {}", program.display()))?;
        Ok(Self { program, scanner, n_trials: 0, violations: Vec::new() })
    }

    /// Scans the newest campaign of `ledger` and returns its study. A ledger with a violation is
    /// kept in the folder of temporary files.
    pub(in crate::bench) fn read(&mut self, ledger: &Path) -> anyhow::Result<Value> {
        let folder = ledger.with_extension("scanned");
        let mut command = Command::new(&self.program);
        command
            .arg("report")
            .arg(ledger)
            .args(["--quiet", "--format", FORMATS, "--out"])
            .arg(&folder);
        ran(&mut command)?;
        let files =
            std::fs::read_dir(&folder).with_context(|| format!("read {}", folder.display()))?;
        let files: Vec<PathBuf> = files.flatten().map(|entry| entry.path()).collect();
        let n_before = self.violations.len();
        let output =
            Command::new(&self.scanner).args(&files).output().context("start scan_report")?;
        self.add(&String::from_utf8_lossy(&output.stdout)).with_context(|| {
            format!("scan_report: {}", String::from_utf8_lossy(&output.stderr).trim())
        })?;
        let text =
            std::fs::read_to_string(folder.join("report.json")).context("read report.json")?;
        // Nothing else in it is of use to anybody.
        let _ = std::fs::remove_dir_all(&folder);
        // The ledger is the only way to see afterwards how the number came about.
        if self.violations.len() > n_before {
            let kept = std::env::temp_dir()
                .join(format!("linerate-violation-{}-{n_before}.ledger", std::process::id()));
            std::fs::copy(ledger, &kept).with_context(|| format!("keep {}", ledger.display()))?;
            eprintln!("kept: {}", kept.display());
        }
        serde_json::from_str(&text).context("parse report.json")
    }

    /// Scans every ledger in `folder` and removes it.
    pub(in crate::bench) fn read_all(&mut self, folder: &Path) -> anyhow::Result<()> {
        let files =
            std::fs::read_dir(folder).with_context(|| format!("read {}", folder.display()))?;
        for file in files.flatten().map(|entry| entry.path()) {
            if file.extension().is_some_and(|kind| kind == "ledger") {
                self.read(&file)?;
                // Ledgers are large, and a clean one is of no further use.
                std::fs::remove_file(&file)
                    .with_context(|| format!("remove {}", file.display()))?;
            }
        }
        Ok(())
    }

    /// Counts what the scanner printed: violations, and on the last line `12 trials, 0 violations`.
    fn add(&mut self, printed: &str) -> anyhow::Result<()> {
        let mut lines: Vec<&str> = printed.lines().collect();
        // The summary is the last line, so a scanner that broke off is noticed.
        let last = lines.pop().context("it printed nothing")?;
        let count =
            last.split_once(" trials, ").and_then(|(n_trials, _)| n_trials.parse::<usize>().ok());
        self.n_trials += count.with_context(|| format!("it ends with {last:?}"))?;
        lines.iter().for_each(|line| eprintln!("violation: {line}"));
        self.violations.extend(lines.into_iter().map(str::to_owned));
        Ok(())
    }

    /// Trials whose numbers were scanned.
    pub(in crate::bench) fn n_trials(&self) -> usize {
        self.n_trials
    }

    /// Returns true if no impossible number was found.
    pub(in crate::bench) fn is_clean(&self) -> bool {
        self.violations.is_empty()
    }

    /// Returns a sentence about the scan, and a line for each violation.
    pub(in crate::bench) fn summary(&self) -> String {
        let mut text = format!(
            "Numbers scanned: {} trials, {} violations.\n",
            self.n_trials,
            self.violations.len()
        );
        for violation in &self.violations {
            text += &format!("- {violation}\n");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trials_are_added_up_and_a_violation_fails_the_bench() {
        let mut referee = Referee {
            program: PathBuf::new(),
            scanner: PathBuf::new(),
            n_trials: 0,
            violations: Vec::new(),
        };
        referee.add("12 trials, 0 violations\n").expect("as printed");
        assert!(referee.is_clean());
        referee
            .add(
                "report.json: point 0: goodput: 5 is above its ceiling of 4\n3 trials, 1 \
                violations\n",
            )
            .expect("as printed");
        assert!(!referee.is_clean());
        let told = referee.summary();
        assert!(
            told.starts_with("Numbers scanned: 15 trials, 1 violations.\n- report.json: point 0"),
            "{told}"
        );
        assert!(referee.add("").is_err() && referee.add("thread 'main' panicked").is_err());
    }
}
