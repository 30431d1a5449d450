//! `cargo xtask test`: what a stranger runs first, and what CI runs.
//!
//! Every step runs even if one before it failed, so that one run shows all there is to repair. Nothing is repeated to
//! make it pass. A test that cannot run here prints `skipped: NAME: why`; those lines are counted and listed at the end,
//! because a skip is no pass. So are the names of the tests that failed: nobody has to search thousands of lines for them.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use anyhow::Context;

use crate::{tidy, tools};

/// How a test says that it could not run.
const SKIP_MARK: &str = "skipped: ";

/// How a test says whose numbers it scanned.
const SCAN_MARK: &str = "scanned: ";

/// Runs every check; the exit code is that of the worst.
pub(crate) fn run(root: &Path, arguments: &[String]) -> anyhow::Result<ExitCode> {
    anyhow::ensure!(arguments.is_empty(), "`cargo xtask test` takes no arguments, got {arguments:?}");
    let missing = tools::provide(tools::FOR_TESTS)?;
    let mut failed: Vec<&str> = Vec::new();
    let mut note = |step: &'static str, passed: bool| {
        if !passed {
            failed.push(step);
        }
    };
    note("format", step(root, "format", &["fmt", "--all", "--check"])?);
    note(
        "clippy",
        step(root, "clippy", &["clippy", "--workspace", "--all-targets", "--quiet", "--", "-D", "warnings"])?,
    );
    println!("== tidy");
    note("tidy", tidy::report(root)?);
    let (passed, seen) = tests(root)?;
    note("tests", passed);
    println!("== skipped: {}", seen.skips.len());
    for skip in &seen.skips {
        println!("   {skip}");
    }
    println!("== tests that failed: {} of {}", seen.failures.len(), seen.passed + seen.failures.len());
    for name in &seen.failures {
        println!("   {name}");
    }
    println!(
        "== numbers scanned: of {} trials in the ledgers of the tests; a number that cannot be fails its test",
        seen.scanned
    );
    for tool in missing {
        println!("   missing here: {tool}");
    }
    if failed.is_empty() {
        println!("== passed: format, clippy, tidy, tests ({} skipped)", seen.skips.len());
        Ok(ExitCode::SUCCESS)
    } else {
        println!("== failed: {}", failed.join(", "));
        Ok(ExitCode::FAILURE)
    }
}

/// Runs cargo with `arguments`; whether it succeeded.
fn step(root: &Path, name: &str, arguments: &[&str]) -> anyhow::Result<bool> {
    println!("== {name}: cargo {}", arguments.join(" "));
    let status = cargo(root, arguments).status().with_context(|| format!("start cargo {}", arguments[0]))?;
    Ok(status.success())
}

fn cargo(root: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(arguments).current_dir(root);
    command
}

/// What the output of all tests says.
#[derive(Debug, Default, PartialEq)]
struct Seen {
    /// Tests that passed.
    passed: usize,
    /// Names of the tests that failed.
    failures: Vec<String>,
    /// What was skipped, and why.
    skips: Vec<String>,
    /// Trials whose printed numbers were scanned.
    scanned: usize,
}

impl Seen {
    /// Reads one line of the output.
    fn read(&mut self, line: &str) {
        let line = line.trim();
        // A test writes to the same standard output, so that its result may follow other text on the line.
        if let Some(name) = line.strip_prefix("test ").and_then(|rest| rest.strip_suffix(" ... FAILED")) {
            self.failures.push(name.to_owned());
        } else if line.starts_with("test ") && line.ends_with(" ... ok") {
            self.passed += 1;
        } else if let Some(skip) = line.strip_prefix(SKIP_MARK) {
            self.skips.push(skip.to_owned());
        } else if let Some(scanned) = line.strip_prefix(SCAN_MARK).and_then(|rest| rest.strip_suffix(" trials")) {
            self.scanned += scanned.parse::<usize>().unwrap_or_default();
        }
    }
}

/// Runs all tests once and shows their output as it comes; returns whether they passed, and what the output says.
fn tests(root: &Path) -> anyhow::Result<(bool, Seen)> {
    // `--show-output` lets the skip lines of passing tests through.
    let arguments = ["test", "--workspace", "--no-fail-fast", "--", "--show-output"];
    println!("== tests: cargo {}", arguments.join(" "));
    let mut child = cargo(root, &arguments).stdout(Stdio::piped()).spawn().context("start cargo test")?;
    let output = child.stdout.take().expect("stdout is piped two lines above");
    let mut shown = std::io::stdout().lock();
    let mut seen = Seen::default();
    for line in BufReader::new(output).split(b'\n') {
        let line = String::from_utf8_lossy(&line.context("read the output of cargo test")?).into_owned();
        seen.read(&line);
        writeln!(shown, "{line}").context("write to stdout")?;
    }
    drop(shown);
    let status = child.wait().context("wait for cargo test")?;
    Ok((status.success(), seen))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passes_failures_and_announced_skips_are_counted_and_nothing_else() {
        let mut seen = Seen::default();
        for line in [
            "running 3 tests",
            "test softnet ... ok",
            "test a::shaped_link ... FAILED",
            "skipped: shaped_link: needs root",
            "  skipped: softnet: no such file",
            "scanned: 4 trials",
            "scanned: 38 trials",
            "3 intervals were skipped: late",
            "test result: FAILED. 1 passed; 1 failed; 0 ignored",
            "    a::shaped_link",
        ] {
            seen.read(line);
        }
        let expected = Seen {
            passed: 1,
            failures: vec!["a::shaped_link".into()],
            skips: vec!["shaped_link: needs root".into(), "softnet: no such file".into()],
            scanned: 42,
        };
        assert_eq!(seen, expected);
    }
}
