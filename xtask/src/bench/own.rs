//! Cost of linerate itself, without a peer: a null step, the histogram, the samplers, an idle
//! agent.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, ensure};
use serde_json::Value;

/// A figure beside its limit.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Figure {
    pub(super) name: &'static str,
    pub(super) value: f64,
    pub(super) unit: &'static str,
    /// It should be below this.
    pub(super) below: f64,
}

/// How long an agent is left alone before its memory is read.
const REST: Duration = Duration::from_secs(2);
/// How long the samplers run, s.
const SAMPLED: &str = "3";
const KIB_PER_MIB: f64 = 1024.0;

/// Builds `target` of `package` optimised, and returns where it is.
///
/// # Errors
/// If it does not compile.
pub(crate) fn build(root: &Path, package: &str, target: &[&str]) -> anyhow::Result<PathBuf> {
    build_with(root, package, target, &["--release"])
}

/// Builds `target` of `package` as it is developed, for what is not measured, and returns where it
/// is.
///
/// # Errors
/// If it does not compile.
pub(super) fn build_quickly(
    root: &Path,
    package: &str,
    target: &[&str],
) -> anyhow::Result<PathBuf> {
    build_with(root, package, target, &[])
}

fn build_with(
    root: &Path,
    package: &str,
    target: &[&str],
    profile: &[&str],
) -> anyhow::Result<PathBuf> {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command
        // cargo's messages name the executable, wherever the target folder is.
        .args(["build", "--quiet", "--message-format=json", "--package", package])
        .args(profile)
        .args(target);
    let output =
        command.current_dir(root).stderr(Stdio::inherit()).output().context("start cargo build")?;
    ensure!(output.status.success(), "cargo build --package {package} {} failed", target.join(" "));
    executable(&String::from_utf8_lossy(&output.stdout)).with_context(|| {
        format!("cargo build --package {package} {}: no executable", target.join(" "))
    })
}

/// The executable cargo's messages name last.
fn executable(messages: &str) -> Option<PathBuf> {
    // Several executables may be built; the requested one comes last.
    let named = |line: &str| {
        Some(serde_json::from_str::<Value>(line).ok()?["executable"].as_str()?.to_owned())
    };
    messages.lines().filter_map(named).next_back().map(PathBuf::from)
}

/// Programs that [`figures`] runs, in order.
const PROGRAMS: [(&str, &[&str]); 3] = [
    ("linerate-load", &["--bench", "step"]),
    ("linerate-observe", &["--example", "cost"]),
    ("linerate", &["--bin", "linerate"]),
];

/// Builds them beforehand: nothing is compiled once measuring has begun.
pub(super) fn prepare(root: &Path) -> anyhow::Result<()> {
    PROGRAMS.iter().try_for_each(|(package, target)| build(root, package, target).map(drop))
}

/// Measures all of them. `transaction_us` is the time of the fastest transaction measured, if any
/// was.
///
/// # Errors
/// If something does not build or does not print what it should.
pub(super) fn figures(root: &Path, transaction_us: Option<f64>) -> anyhow::Result<Vec<Figure>> {
    let [step, cost, linerate] = PROGRAMS.map(|(package, target)| build(root, package, target));
    let mut figures = hot_path(&print(Command::new(step?))?, transaction_us)?;
    let mut samplers = Command::new(cost?);
    samplers.arg(SAMPLED);
    figures.push(sampling(&print(samplers)?)?);
    figures.push(agent(&linerate?)?);
    Ok(figures)
}

fn print(mut command: Command) -> anyhow::Result<String> {
    let output =
        command.stderr(Stdio::inherit()).output().with_context(|| format!("start {command:?}"))?;
    ensure!(output.status.success(), "{command:?} failed");
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The lines of the bench `step`.
fn hot_path(text: &str, transaction_us: Option<f64>) -> anyhow::Result<Vec<Figure>> {
    let line = |name: &str| number_in(text, name);
    let mut figures =
        vec![Figure { name: "null step", value: line("null step")?, unit: "ns", below: 30.0 }];
    // Without a transaction there is nothing to relate the cost to.
    if let Some(transaction) = transaction_us {
        let share = line("histogram, ours")? / (transaction * 1e3) * 100.0;
        let name = "a histogram record, of the fastest transaction measured";
        figures.push(Figure { name, value: share, unit: "%", below: 2.0 });
    }
    Ok(figures)
}

/// Returns the number in the line of `bench step` that begins with `name`.
fn number_in(text: &str, name: &str) -> anyhow::Result<f64> {
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
    let value = value.and_then(|value| value.split(' ').next()?.parse::<f64>().ok());
    value.with_context(|| format!("bench step: no `{name}` in {text:?}"))
}

/// The line of linerate-observe's example `cost` that sums up.
fn sampling(text: &str) -> anyhow::Result<Figure> {
    let line = text
        .lines()
        .find(|line| line.starts_with("cost: "))
        .context("example cost: no line `cost: `")?;
    let share = line.split(", ").nth(1).and_then(|share| share.split(' ').next()?.parse().ok());
    let value = share.with_context(|| format!("example cost: no share in `{line}`"))?;
    Ok(Figure { name: "all samplers at 100 ms, of one core", value, unit: "%", below: 1.0 })
}

/// Resident memory of an agent without a connection.
fn agent(program: &Path) -> anyhow::Result<Figure> {
    let mut child = Command::new(program)
        // Port 0: any free one, so that nothing else is disturbed.
        .args(["agent", "--listen", "127.0.0.1:0"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .with_context(|| format!("start {}", program.display()))?;
    // Memory settles after the first allocations.
    std::thread::sleep(REST);
    let status =
        std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
    let killed = child.kill().and_then(|()| child.wait());
    let value = resident(&status).with_context(|| format!("the agent did not stay: {killed:?}"))?
        / KIB_PER_MIB;
    Ok(Figure { name: "agent at rest, resident", value, unit: "MiB", below: 10.0 })
}

fn resident(status: &str) -> Option<f64> {
    status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))?
        .split_whitespace()
        .next()?
        .parse()
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_figures_are_read_from_what_is_printed() {
        let step = "the loop itself: 0.30 ns\nhistogram, ours: 1.75 ns\nnull step: 3.22 ns of CPU\n\
                    null step that records a time: 5.01 ns of CPU\n";
        let figures = hot_path(step, Some(5.0)).expect("as printed");
        assert_eq!((figures[0].value, (figures[1].value * 1e3).round()), (3.22, 35.0));
        assert!(hot_path("histogram, ours: 1 ns", None).is_err());
        let cost = "all: 60 series, 30 readings, opened in 1.0 ms\ncost: 12.300 ms CPU, 0.410 % of \
            one core\n";
        assert_eq!(sampling(cost).expect("as printed").value, 0.41);
        assert_eq!(resident("Name:\tlinerate\nVmRSS:\t    7168 kB\n"), Some(7168.0));
        let messages = "{\"reason\":\"compiler-artifact\",\"executable\":null}\n\
                        {\"reason\":\"compiler-artifact\",\"executable\":\"/t/end\"}\n\
                        {\"reason\":\"build-finished\"}\n";
        assert_eq!(executable(messages), Some(PathBuf::from("/t/end")));
    }
}
