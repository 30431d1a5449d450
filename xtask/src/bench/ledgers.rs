//! `cargo xtask bench ledgers`: what reading, judging and reporting a long campaign costs.
//!
//! A short campaign is recorded on loopback. The example `many_trials` of `linerate-store` makes
//! ledgers of many trials from it, each trial with intervals, flows and readings of one that was
//! measured. Every round takes every size and command once. Memory is the largest resident set.
//! What this does not see: campaigns with many flows or hosts, whose trials are larger.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};

use super::markdown;
use super::options::{RunOptions, count, keep, parsed, program, ran};
use super::own;
use super::scratch::Scratch;
use super::statistics::Median;

/// Plan of the short campaign.
const PLAN: &str = r#"[campaign]
name = "base"
repeats = 6

[[sweep]]
name = "sizes"
duration = "1 s"
warmup = "0 s"
rest = "0 s"
[[sweep.job]]
workload = "tcp_stream"
from = "a"
to = "b"
params = { direction = "tx" }
[sweep.axis]
"params.message_size" = ["1 KiB", "8 KiB", "64 KiB"]
"params.streams" = [1, 4]
"#;

/// Commands that read a ledger.
const COMMANDS: [(&str, &[&str]); 2] =
    [("check", &["ledger", "check"]), ("report", &["report", "--format", "html"])];

/// Options of `bench ledgers`.
#[derive(clap::Parser)]
struct Options {
    #[command(flatten)]
    run: RunOptions,
    /// Numbers of trials
    #[arg(long, value_parser = count::<u32>, value_delimiter = ',',
        default_values_t = [1_000, 3_000, 10_000])]
    trials: Vec<u32>,
    /// An already built linerate
    #[arg(long)]
    program: Option<PathBuf>,
}

/// What the runs of one command on one ledger took.
struct Row {
    command: &'static str,
    arguments: &'static [&'static str],
    n_trials: u32,
    ledger: PathBuf,
    seconds: Vec<f64>,
    mebibytes: Vec<f64>,
}

/// Runs every row in rounds and prints the table.
pub(super) fn run(root: &Path, arguments: &[String]) -> anyhow::Result<bool> {
    let options: Options = parsed("ledgers", arguments)?;
    let program = program(root, options.program.as_deref())?;
    let multiply = own::build(root, "linerate-store", &["--example", "many_trials"])?;
    let scratch = Scratch::new("ledgers")?;
    let at = |name: &str| scratch.path().join(name);
    std::fs::write(at("base.toml"), PLAN)?;
    ran(Command::new(&program).current_dir(scratch.path()).args([
        "run",
        "base.toml",
        "--ledger",
        "base.ledger",
    ]))?;
    let mut rows = Vec::new();
    for &n_trials in &options.trials {
        let ledger = at(&format!("{n_trials}.ledger"));
        ran(Command::new(&multiply).arg(at("base.ledger")).arg(&ledger).arg(n_trials.to_string()))?;
        for (command, arguments) in COMMANDS {
            let (seconds, mebibytes, ledger) = (Vec::new(), Vec::new(), ledger.clone());
            rows.push(Row { command, arguments, n_trials, ledger, seconds, mebibytes });
        }
    }
    for _ in 0..options.run.rounds {
        for row in &mut rows {
            let (took, mebibytes) = used(
                Command::new(&program)
                    .current_dir(scratch.path())
                    .args(row.arguments)
                    .arg(&row.ledger),
            )?;
            row.seconds.push(took.as_secs_f64());
            row.mebibytes.push(mebibytes);
        }
    }
    let cells = rows.iter().map(cells).collect::<anyhow::Result<Vec<_>>>()?;
    let table =
        markdown::table(&["command", "trials", "ledger, MiB", "time, s", "memory, MiB"], &cells);
    print!("{table}");
    keep(options.run.out.as_deref(), &table)?;
    Ok(true)
}

fn cells(row: &Row) -> anyhow::Result<Vec<String>> {
    let shown = |values: &[f64], digits: usize| {
        Median::of(values).map(|median| median.cell(|value| format!("{value:.digits$}")))
    };
    Ok(vec![
        row.command.to_owned(),
        row.n_trials.to_string(),
        format!("{:.0}", std::fs::metadata(&row.ledger)?.len() as f64 / f64::from(1 << 20)),
        shown(&row.seconds, 2).unwrap_or_default(),
        shown(&row.mebibytes, 0).unwrap_or_default(),
    ])
}

/// Runs `command` and returns how long it took, and the largest resident set, MiB.
fn used(command: &mut Command) -> anyhow::Result<(Duration, f64)> {
    /// Time between two readings of the memory: the kernel keeps the largest.
    const LOOK: Duration = Duration::from_millis(5);
    let begun = Instant::now();
    let mut child = command
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .with_context(|| format!("start {command:?}"))?;
    let status = format!("/proc/{}/status", child.id());
    let mut kibibytes = 0.0;
    let ended = loop {
        // A process that has ended has no memory any more: the reading before counts.
        let text = std::fs::read_to_string(&status).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let read = line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok());
        kibibytes = read.unwrap_or(kibibytes);
        if let Some(ended) = child.try_wait()? {
            break ended;
        }
        std::thread::sleep(LOOK);
    };
    ensure!(ended.success(), "{command:?} failed: {ended}");
    Ok((begun.elapsed(), kibibytes / 1024.0))
}
