//! `cargo xtask test`: what a stranger runs first, and what CI runs.
//!
//! Every step runs even if one before it failed, so that one run shows all there is to repair. Nothing is repeated to
//! make it pass. A test that cannot run here prints `skipped: NAME: why`; those lines are counted and listed at the end,
//! because a skip is no pass.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use anyhow::Context;

use crate::{tidy, tools};

/// How a test says that it could not run.
const SKIP_MARK: &str = "skipped: ";

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
    let (passed, skips) = tests(root)?;
    note("tests", passed);
    println!("== skipped: {}", skips.len());
    for skip in &skips {
        println!("   {skip}");
    }
    for tool in missing {
        println!("   missing here: {tool}");
    }
    if failed.is_empty() {
        println!("== passed: format, clippy, tidy, tests ({} skipped)", skips.len());
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

/// One run of all tests, shown as it goes; whether it passed, and what was skipped.
fn tests(root: &Path) -> anyhow::Result<(bool, Vec<String>)> {
    // `--show-output` lets the skip lines of passing tests through.
    let arguments = ["test", "--workspace", "--no-fail-fast", "--", "--show-output"];
    println!("== tests: cargo {}", arguments.join(" "));
    let mut child = cargo(root, &arguments).stdout(Stdio::piped()).spawn().context("start cargo test")?;
    let output = child.stdout.take().expect("stdout is piped two lines above");
    let mut shown = std::io::stdout().lock();
    let mut skips = Vec::new();
    for line in BufReader::new(output).split(b'\n') {
        let line = String::from_utf8_lossy(&line.context("read the output of cargo test")?).into_owned();
        skips.extend(skip(&line).map(str::to_owned));
        writeln!(shown, "{line}").context("write to stdout")?;
    }
    drop(shown);
    let status = child.wait().context("wait for cargo test")?;
    Ok((status.success(), skips))
}

/// What `line` says was skipped, if it says so.
fn skip(line: &str) -> Option<&str> {
    line.trim().strip_prefix(SKIP_MARK)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_lines_that_announce_a_skip_are_counted() {
        assert_eq!(skip("skipped: shaped_link: needs root"), Some("shaped_link: needs root"));
        assert_eq!(skip("  skipped: softnet: no such file"), Some("softnet: no such file"));
        assert_eq!(skip("test softnet ... ok"), None);
        assert_eq!(skip("3 intervals were skipped: late"), None);
    }
}
