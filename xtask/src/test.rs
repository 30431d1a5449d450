//! `cargo xtask test`: what a stranger runs first, and what CI runs.
//!
//! Every step runs even if one before it failed, so that one run shows all there is to repair.
//! Nothing is repeated to make it pass. A test that cannot run here prints `skipped: NAME: why`;
//! those lines are counted and listed at the end, because a skip is no pass. So are the tests that
//! failed, each with its panic and the end of its output: nobody has to search thousands of lines
//! for them, of which a forge may show only a part.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use anyhow::Context;

use crate::{tidy, tools, torture};

/// Prefix of the line that a skipped test prints.
const SKIP_MARK: &str = "skipped: ";

/// Lines of a failed test's output that are shown again at the end, and how much of each: one may
/// print a whole report.
const LAST_LINES: usize = 15;
const LINE_CHARS: usize = 1_000;

/// Prefix of the line that counts scanned trials.
const SCAN_MARK: &str = "scanned: ";

/// Runs every check; the exit code is that of the worst.
pub(crate) fn run(root: &Path, arguments: &[String]) -> anyhow::Result<ExitCode> {
    anyhow::ensure!(
        arguments.is_empty(),
        "`cargo xtask test` takes no arguments, got {arguments:?}"
    );
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
        step(
            root,
            "clippy",
            &["clippy", "--workspace", "--all-targets", "--quiet", "--", "-D", "warnings"],
        )?,
    );
    println!("== tidy");
    note("tidy", tidy::report(root)?);
    if has_cargo_deny(root) {
        note("deny", step(root, "deny", &DENY)?);
    } else {
        println!("== deny: cargo-deny is not installed; tidy has checked licences and bans");
    }
    let (passed, seen) = tests(root)?;
    note("tests", passed);
    println!("== torture");
    note("torture", torture::quick(root)?);
    println!("== skipped: {}", seen.skips.len());
    for skip in &seen.skips {
        println!("   {skip}");
    }
    println!(
        "== tests that failed: {} of {}",
        seen.failures.len(),
        seen.passed + seen.failures.len()
    );
    for name in &seen.failures {
        println!("   {name}");
    }
    for output in &seen.outputs {
        println!("== failed: {}", output.test);
        output.end().for_each(|line| println!("   {line}"));
    }
    println!(
        "== numbers scanned: of {} trials in the ledgers of the tests; a number that cannot be \
            fails its test",
        seen.scanned
    );
    for tool in missing {
        println!("   missing here: {tool}");
    }
    if failed.is_empty() {
        println!("== passed: format, clippy, tidy, tests, torture ({} skipped)", seen.skips.len());
        Ok(ExitCode::SUCCESS)
    } else {
        println!("== failed: {}", failed.join(", "));
        Ok(ExitCode::FAILURE)
    }
}

/// Checks of deny.toml that need no network. Advisories do: the workflow in .github checks them.
const DENY: [&str; 6] = ["deny", "--offline", "check", "bans", "licenses", "sources"];

fn has_cargo_deny(root: &Path) -> bool {
    let version = cargo(root, &["deny", "--version"]).output();
    version.is_ok_and(|output| output.status.success())
}

/// Runs cargo with `arguments`; whether it succeeded.
fn step(root: &Path, name: &str, arguments: &[&str]) -> anyhow::Result<bool> {
    println!("== {name}: cargo {}", arguments.join(" "));
    let status =
        cargo(root, arguments).status().with_context(|| format!("start cargo {}", arguments[0]))?;
    Ok(status.success())
}

fn cargo(root: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(arguments).current_dir(root);
    command
}

/// Results read from the output of all tests.
#[derive(Debug, Default, PartialEq)]
struct Seen {
    /// Tests that passed.
    passed: usize,
    /// Names of the tests that failed.
    failures: Vec<String>,
    /// Their output, in the order in which it came.
    outputs: Vec<FailedOutput>,
    /// True while the outputs of failed tests follow.
    of_failures: bool,
    /// Skipped tests with their reasons.
    skips: Vec<String>,
    /// Trials whose printed numbers were scanned.
    scanned: usize,
}

/// Output of a failed test: its panic, and the last lines of everything else.
#[derive(Debug, Default, PartialEq)]
struct FailedOutput {
    test: String,
    panic: Vec<String>,
    last: VecDeque<String>,
    reading: Reading,
}

/// Part of a failed test's output that the next line belongs to.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum Reading {
    #[default]
    Output,
    Panic,
    Backtrace,
}

impl FailedOutput {
    /// Reads one line of it. Backtraces are left out.
    fn read(&mut self, line: &str) {
        let line: String = line.chars().take(LINE_CHARS).collect();
        if line.starts_with("thread '") && line.contains(" panicked at ") {
            self.reading = Reading::Panic;
        } else if line.starts_with("stack backtrace:") || line.starts_with("note: ") {
            self.reading = Reading::Backtrace;
        } else if self.reading == Reading::Backtrace && !line.starts_with(' ') {
            self.reading = Reading::Output;
        }
        match self.reading {
            // A test may start threads that panic too: the last of them is the test's own.
            Reading::Panic if self.panic.len() < LAST_LINES || line.starts_with("thread '") => {
                if line.starts_with("thread '") {
                    self.panic.clear();
                }
                self.panic.push(line);
            }
            Reading::Output if !line.is_empty() => {
                self.last.push_back(line);
                if self.last.len() > LAST_LINES {
                    self.last.pop_front();
                }
            }
            Reading::Output | Reading::Panic | Reading::Backtrace => {}
        }
    }

    /// Its last lines, then the panic.
    fn end(&self) -> impl Iterator<Item = &String> {
        self.last.iter().chain(&self.panic)
    }
}

impl Seen {
    /// Reads one line of the output.
    fn read(&mut self, line: &str) {
        self.read_failed(line);
        let line = line.trim();
        // A test writes to the same standard output, so that its result may follow other text on
        // the line.
        if let Some(name) =
            line.strip_prefix("test ").and_then(|rest| rest.strip_suffix(" ... FAILED"))
        {
            self.failures.push(name.to_owned());
        } else if line.starts_with("test ") && line.ends_with(" ... ok") {
            self.passed += 1;
        } else if let Some(skip) = line.strip_prefix(SKIP_MARK) {
            self.skips.push(skip.to_owned());
        } else if let Some(scanned) =
            line.strip_prefix(SCAN_MARK).and_then(|rest| rest.strip_suffix(" trials"))
        {
            self.scanned += scanned.parse::<usize>().unwrap_or_default();
        }
    }

    /// Reads one line of what the harness repeats of failed tests: under `failures:` and their
    /// names, to the list of all names.
    fn read_failed(&mut self, line: &str) {
        let named = line.strip_prefix("---- ").and_then(|rest| rest.strip_suffix(" stdout ----"));
        if line == "failures:" {
            // It stands above the outputs and above the list of names.
            self.of_failures = !self.of_failures;
        } else if line.starts_with("test result: ") {
            self.of_failures = false;
        } else if let Some(test) = named.filter(|_| self.of_failures) {
            self.outputs.push(FailedOutput { test: test.to_owned(), ..FailedOutput::default() });
        } else if let Some(output) = self.outputs.last_mut().filter(|_| self.of_failures) {
            output.read(line);
        }
    }
}

/// Runs all tests once and shows their output as it comes; returns whether they passed, and what
/// the output says.
fn tests(root: &Path) -> anyhow::Result<(bool, Seen)> {
    // `--show-output` lets the skip lines of passing tests through.
    let arguments = ["test", "--workspace", "--no-fail-fast", "--", "--show-output"];
    println!("== tests: cargo {}", arguments.join(" "));
    let mut child =
        cargo(root, &arguments).stdout(Stdio::piped()).spawn().context("start cargo test")?;
    let output = child.stdout.take().expect("stdout is piped two lines above");
    let mut shown = std::io::stdout().lock();
    let mut seen = Seen::default();
    for line in BufReader::new(output).split(b'\n') {
        let line =
            String::from_utf8_lossy(&line.context("read the output of cargo test")?).into_owned();
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
            ..Seen::default()
        };
        assert_eq!(seen, expected);
    }

    #[test]
    fn of_a_failed_test_the_panic_and_the_last_lines_are_shown_again() {
        let mut seen = Seen::default();
        let before = (0..20).map(|n| format!("line {n}"));
        let lines = [
            "successes:",
            "",
            "---- good stdout ----",
            "fine",
            "",
            "successes:",
            "    good",
            "",
            "failures:",
            "",
        ]
        .map(str::to_owned)
        .into_iter()
        .chain(["---- a::bad stdout ----".to_owned()])
        .chain(before)
        .chain(
            [
                "",
                "thread 'a::bad' (7) panicked at tests/a.rs:3:5:",
                "assertion `left == right` failed",
                "  left: 1",
                " right: 2",
                "stack backtrace:",
                "   0: core::panicking::panic_fmt",
                "             at src/panicking.rs:75",
                "note: Some details are omitted",
                "",
                "---- worse stdout ----",
                "the only line",
                "",
                "failures:",
                "    a::bad",
                "    worse",
                "",
                "test result: FAILED. 1 passed; 2 failed",
                "running 1 test",
            ]
            .map(str::to_owned),
        );
        lines.for_each(|line| seen.read(&line));
        let ends: Vec<(&str, Vec<&str>)> = seen
            .outputs
            .iter()
            .map(|output| (output.test.as_str(), output.end().map(String::as_str).collect()))
            .collect();
        let mut bad: Vec<String> = (5..20).map(|n| format!("line {n}")).collect();
        bad.extend(
            [
                "thread 'a::bad' (7) panicked at tests/a.rs:3:5:",
                "assertion `left == right` failed",
                "  left: 1",
                " right: 2",
            ]
            .map(str::to_owned),
        );
        assert_eq!(
            ends,
            [
                ("a::bad", bad.iter().map(String::as_str).collect()),
                ("worse", vec!["the only line"])
            ]
        );
    }
}
