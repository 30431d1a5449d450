//! `cargo xtask test`: what a stranger runs first, and what CI runs.
//!
//! Every step runs even if one before it failed, so that one run shows all there is to repair.
//! Nothing is repeated to make it pass. A test that cannot run here prints `skipped: NAME: why`;
//! those lines are counted and listed at the end, because a skip is no pass. So are the tests that
//! failed, each with its panic and the end of its output: nobody has to search thousands of lines
//! for them, of which a forge may show only a part. For the same reason the whole output goes to a
//! file, and only results of programs and failures are shown as they come.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{BufRead, BufReader, LineWriter, Write};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context;

use crate::{tidy, tools, torture};

/// Prefix of the line that a skipped test prints.
const SKIP_MARK: &str = "skipped: ";

/// Lines of a failed test's output that are shown again at the end, and how much of each: one may
/// print a whole report.
const LAST_LINES: usize = 15;
const LINE_CHARS: usize = 1_000;

/// File with the whole output of the tests.
const LOG: &str = "target/tests.log";

/// Prefix of the line that counts scanned trials.
const SCAN_MARK: &str = "scanned: ";

/// Number of slowest tests that are named at the end.
const SLOWEST: usize = 10;

/// Tests of a program that run at once. Most tests of campaigns wait for a lab or a timer, so that
/// more of them than CPUs fit.
const AT_ONCE: &str = "4";

/// Runs every check; the exit code is that of the worst.
pub(crate) fn run(root: &Path, arguments: &[String]) -> anyhow::Result<ExitCode> {
    anyhow::ensure!(
        arguments.is_empty(),
        "`cargo xtask test` takes no arguments, got {arguments:?}"
    );
    let missing = tools::provide(tools::FOR_TESTS)?;
    let mut steps = Steps { begun: Instant::now(), failed: Vec::new(), times: Vec::new() };
    steps.ended("format", step(root, "format", &["fmt", "--all", "--check"])?);
    steps.ended("clippy", step(root, "clippy", &CLIPPY)?);
    println!("== tidy");
    steps.ended("tidy", tidy::report(root)?);
    if has_cargo_deny(root) {
        steps.ended("deny", step(root, "deny", &DENY)?);
    } else {
        println!("== deny: cargo-deny is not installed; tidy has checked licences and bans");
    }
    // Examples are built too: tests of the ledger run them.
    let is_built = step(root, "build", &["test", "--workspace", "--no-run"])?;
    steps.ended("build", is_built);
    let mut seen = Seen::default();
    let mut log = LineWriter::new(created(&root.join(LOG))?);
    steps.ended("tests", tests(root, &TESTS, &mut seen, &mut log)?);
    steps.ended("doctests", tests(root, &DOCTESTS, &mut seen, &mut log)?);
    println!("== torture");
    steps.ended("torture", torture::quick(root));
    println!("== slowest tests");
    for (seconds, name) in seen.slowest() {
        println!("   {seconds:.1} s {name}");
    }
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
    println!("== whole output of the tests: {LOG}");
    for tool in missing {
        println!("   missing here: {tool}");
    }
    println!("== times: {}", steps.times());
    if steps.failed.is_empty() {
        println!("== passed: {} ({} skipped)", steps.names(), seen.skips.len());
        Ok(ExitCode::SUCCESS)
    } else {
        println!("== failed: {}", steps.failed.join(", "));
        Ok(ExitCode::FAILURE)
    }
}

/// Results and durations of the steps so far.
struct Steps {
    begun: Instant,
    failed: Vec<&'static str>,
    times: Vec<(&'static str, Duration)>,
}

impl Steps {
    /// Notes that `name` has ended; its time began when the step before it ended.
    fn ended(&mut self, name: &'static str, passed: bool) {
        if !passed {
            self.failed.push(name);
        }
        self.times.push((name, self.begun.elapsed()));
        self.begun = Instant::now();
    }

    fn names(&self) -> String {
        self.times.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
    }

    fn times(&self) -> String {
        let total = self.times.iter().map(|(_, time)| time.as_secs()).sum::<u64>();
        let times = self.times.iter().map(|(name, time)| format!("{name} {} s", time.as_secs()));
        format!("{}, {total} s in all", times.collect::<Vec<_>>().join(", "))
    }
}

const CLIPPY: [&str; 7] =
    ["clippy", "--workspace", "--all-targets", "--quiet", "--", "-D", "warnings"];

/// Checks of deny.toml that need no network. Advisories do: the workflow in .github checks them.
const DENY: [&str; 6] = ["deny", "--offline", "check", "bans", "licenses", "sources"];

fn has_cargo_deny(root: &Path) -> bool {
    // Without the subcommand cargo starts all the same, and only its status shows it.
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
    /// Seconds of each test that the harness has timed, with its name.
    times: Vec<(f64, String)>,
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
        // A test may print one endless line.
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
                // The last lines before the end usually have the reason.
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
        let line = self.read_time(line.trim());
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

    /// Reads the time at the end of a test's result, as in `test a ... ok <1.234s>`, and returns
    /// the line without it.
    fn read_time<'a>(&mut self, line: &'a str) -> &'a str {
        let timed = line
            .strip_prefix("test ")
            .and_then(|rest| rest.strip_suffix("s>")?.rsplit_once(" <"))
            .and_then(|(result, seconds)| Some((result, seconds.parse().ok()?)));
        // Tests in documentation have no times.
        let Some((result, seconds)) = timed else { return line };
        let name = result.split_once(" ... ").map_or(result, |(name, _)| name);
        self.times.push((seconds, name.to_owned()));
        &line[.."test ".len() + result.len()]
    }

    /// Returns the slowest tests, the slowest first.
    fn slowest(&self) -> Vec<&(f64, String)> {
        let mut times: Vec<_> = self.times.iter().collect();
        times.sort_by(|a, b| b.0.total_cmp(&a.0));
        times.truncate(SLOWEST);
        times
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

/// Arguments of cargo for all tests but those in documentation.
///
/// `--show-output` lets the skip lines of passing tests through. The harness of a stable compiler
/// prints times only where RUSTC_BOOTSTRAP is set, which must not reach the compiler: everything
/// would be built again.
const TESTS: [&str; 12] = [
    "test",
    "--workspace",
    "--lib",
    "--bins",
    "--tests",
    "--no-fail-fast",
    "--config",
    "target.'cfg(all())'.runner = ['env', 'RUSTC_BOOTSTRAP=1']",
    "--",
    "--show-output",
    "-Zunstable-options",
    "--report-time",
];
const DOCTESTS: [&str; 4] = ["test", "--workspace", "--doc", "--no-fail-fast"];

/// Creates the file at `path`, with its folder: cargo may build elsewhere.
fn created(path: &Path) -> anyhow::Result<File> {
    path.parent()
        .map_or(Ok(()), std::fs::create_dir_all)
        .and_then(|()| File::create(path))
        .with_context(|| format!("create {}", path.display()))
}

/// Runs tests once; returns whether they passed. `seen` reads their output, which goes to `log`.
fn tests(
    root: &Path,
    arguments: &[&str],
    seen: &mut Seen,
    log: &mut impl Write,
) -> anyhow::Result<bool> {
    println!("== tests: cargo {}", arguments.join(" "));
    let mut child = cargo(root, arguments)
        .env("RUST_TEST_THREADS", AT_ONCE)
        .stdout(Stdio::piped())
        .spawn()
        .context("start cargo test")?;
    let output = child.stdout.take().expect("stdout is piped above");
    // By bytes: a test may print text that is not UTF-8.
    for line in BufReader::new(output).split(b'\n') {
        let line =
            String::from_utf8_lossy(&line.context("read the output of cargo test")?).into_owned();
        seen.read(&line);
        writeln!(log, "{line}").context("write the output of the tests")?;
        if is_shown(&line) {
            println!("{line}");
        }
    }
    Ok(child.wait().context("wait for cargo test")?.success())
}

/// Returns true for the result of a program and for a test that failed.
fn is_shown(line: &str) -> bool {
    line.starts_with("test result: ") || (line.starts_with("test ") && line.contains(" ... FAILED"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passes_failures_and_announced_skips_are_counted_and_nothing_else() {
        let mut seen = Seen::default();
        for line in [
            "running 3 tests",
            "test softnet ... ok <1.250s>",
            "test a::shaped_link ... FAILED <0.031s>",
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
            times: vec![(1.25, "softnet".into()), (0.031, "a::shaped_link".into())],
            ..Seen::default()
        };
        assert_eq!(seen, expected);
        assert_eq!(seen.slowest()[0].1, "softnet");
    }

    #[test]
    fn only_results_of_programs_and_failed_tests_are_shown_as_they_come() {
        for (line, shown) in [
            ("test result: ok. 50 passed; 0 failed; finished in 7.12s", true),
            ("test a::shaped_link ... FAILED <0.031s>", true),
            ("test softnet ... ok <1.250s>", false),
            ("skipped: softnet: no such file", false),
            ("running 3 tests", false),
        ] {
            assert_eq!(is_shown(line), shown, "{line}");
        }
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
