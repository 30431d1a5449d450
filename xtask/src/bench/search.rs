//! `cargo xtask bench search [--runs N] [--only PART] [--program FILE]`: what searches find on
//! devices of known capacity.
//!
//! Rows: MLRsearch's NDR and RFC 2544's strict halving on a device of 4 kpps that holds 16 frames,
//! and the NDR where it pauses for 5 ms of every second. The device is emulated on the
//! tester's own CPUs: at a rate they hardly notice, what is found is the device and not the tester.
//! Trials are short (see [`TRIAL_MS`]); a trial of that length cannot see an excess that the buffer
//! holds, so that the known answer is an interval: from the capacity, less the width, to the
//! capacity and the buffer over the trial's length, and the width. The stalls fill the buffer in 4
//! ms and so cost frames at any load from 3.2 kpps on. What this does not see: devices faster than
//! a user-space emulation.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;
use serde_json::Value;

use super::markdown;
use super::options::{count, parsed, program, ran};
use super::scan::Referee;
use super::scratch::Scratch;

/// Frames per second and frames of buffer of the device.
const CAPACITY: f64 = 4_000.0;
const BUFFER: f64 = 16.0;
/// The highest load tried.
const MOST: f64 = 2.0 * CAPACITY;
/// Length of a full trial of MLRsearch: shorter than the time between stalls, so that most trials
/// see none.
const TRIAL_MS: f64 = 250.0;
/// Length of the final trial of the strict search.
const FINAL_MS: f64 = 2_000.0;
/// Width of the bounds.
const WIDTH: f64 = 0.01;
/// Spread that stalls may cause (highest over lowest, less one).
const MOST_SPREAD: f64 = 0.03;
/// One row: what is searched where.
struct Row {
    name: &'static str,
    stalls: bool,
    goal: &'static str,
    trial_ms: f64,
    search_ms: f64,
}

const ROWS: [Row; 3] = [
    Row { name: "mlr", stalls: false, goal: "mlr-ndr", trial_ms: TRIAL_MS, search_ms: TRIAL_MS },
    Row { name: "strict", stalls: false, goal: "rfc2544", trial_ms: FINAL_MS, search_ms: 500.0 },
    Row { name: "stalls", stalls: true, goal: "mlr-ndr", trial_ms: TRIAL_MS, search_ms: TRIAL_MS },
];

/// Options of `bench search`.
#[derive(clap::Parser)]
struct Options {
    /// Searches of each row
    #[arg(long, value_parser = count::<u32>, default_value = "10")]
    runs: u32,
    /// Part of a row's name
    #[arg(long)]
    only: Option<String>,
    /// An already built linerate
    #[arg(long)]
    program: Option<PathBuf>,
}

/// Result of one search.
struct SearchResult {
    /// Lower bound, frames per second.
    lower: f64,
    /// True if its bounds are as close as its width.
    regular: bool,
}

/// Runs every row as often as asked for and prints the table; whether all is as it should be.
pub(super) fn run(root: &Path, arguments: &[String]) -> anyhow::Result<bool> {
    let options: Options = parsed("search", arguments)?;
    let program = program(root, options.program.as_deref())?;
    let scratch = Scratch::new("search")?;
    let mut cells = Vec::new();
    let mut referee = Referee::new(root, &program)?;
    let mut all = true;
    let wanted = |row: &&Row| options.only.as_deref().is_none_or(|only| row.name.contains(only));
    for row in ROWS.iter().filter(wanted) {
        let found = measure(&program, scratch.path(), row, options.runs)?;
        referee.read_all(scratch.path())?;
        let (shown, is_right) = judged(row, &found, options.runs);
        eprintln!("{}", shown.join(", "));
        cells.push(shown);
        all &= is_right;
    }
    print!("{}\n{}", markdown::table(&HEADS, &cells), referee.summary());
    Ok(all && referee.is_clean())
}

/// Column heads of the results.
const HEADS: [&str; 10] = [
    "device",
    "goal",
    "trial",
    "known answer, kpps",
    "searches with an answer",
    "regular",
    "lowest, kpps",
    "highest, kpps",
    "spread",
    "within",
];

/// Returns the cells of a row, and whether its results are as expected.
fn judged(row: &Row, found: &[SearchResult], runs: u32) -> (Vec<String>, bool) {
    let lower = || found.iter().map(|found| found.lower);
    let (least, most) =
        lower().fold((f64::INFINITY, 0.0_f64), |(a, b), load| (a.min(load), b.max(load)));
    let excess = BUFFER / (row.trial_ms / 1e3);
    let (from, to) = (CAPACITY * (1.0 - WIDTH), (CAPACITY + excess) * (1.0 + WIDTH));
    let within = lower().filter(|load| (from..=to).contains(load)).count();
    let regular = found.iter().filter(|found| found.regular).count();
    let spread = most / least - 1.0;
    let shown = vec![
        if row.stalls { "stops for 5 ms of every second" } else { "steady" }.to_owned(),
        row.goal.to_string(),
        format!("{} ms", row.trial_ms),
        format!("{:.2} to {:.2}", from / 1e3, to / 1e3),
        format!("{} of {runs}", found.len()),
        regular.to_string(),
        format!("{:.3}", least / 1e3),
        format!("{:.3}", most / 1e3),
        format!("{:.2} %", spread * 100.0),
        format!("{within} of {runs}"),
    ];
    (shown, within == runs as usize && (!row.stalls || spread <= MOST_SPREAD))
}

fn lab(row: &Row) -> String {
    let stalls = if row.stalls { "stall = { length = \"5 ms\", every = \"1 s\" }\n" } else { "" };
    format!(
        "[lab]\nname = \"known\"\n[[host]]\nname = \"a\"\n[[host]]\nname = \"b\"\n[[link]]\nends = \
            [\"a.awire\", \"b.bwire\"]\noffloads = false\n\
         [[element]]\nname = \"dut\"\nends = [\"a.adev\", \"b.bdev\"]\npacket_rate = \"{CAPACITY} \
         packet/s\"\nbuffer = \"1 MiB\"\n\
         buffer_frames = {BUFFER}\n{stalls}"
    )
}

fn plan(row: &Row, runs: u32) -> String {
    format!(
        "[campaign]\nname = \"search\"\norder = \"sequential\"\n[[sweep]]\nname \
            = \"search\"\ndrain = \"50 ms\"\nrest = \"10 ms\"\n\
         [[sweep.job]]\nworkload = \"frames\"\nfrom = \"adev\"\nto = \"bdev\"\nparams = {{ \
         frame_size = \"64 B\", mode = \"packet\" }}\n\
         [sweep.search]\nmetric = \"rate\"\ngoal = \"{}\"\nmax = \"{MOST} packet/s\"\nwidth = \"{} \
         %\"\ntrial = \"{} ms\"\n\
         search_trial = \"{} ms\"\nwarmup = \"250 ms\"\nself_test = \"250 ms\"\nwire = \"awire \
         bwire\"\nrepeats = {runs}\n",
        row.goal,
        WIDTH * 100.0,
        row.trial_ms,
        row.search_ms
    )
}

/// Returns the result of each run; fewer than `runs` if some have no lower bound.
fn measure(
    program: &Path,
    folder: &Path,
    row: &Row,
    runs: u32,
) -> anyhow::Result<Vec<SearchResult>> {
    std::fs::write(folder.join("known.toml"), lab(row)).context("write the lab")?;
    std::fs::write(folder.join("plan.toml"), plan(row, runs)).context("write the plan")?;
    let ledger = format!("{}.ledger", row.name);
    let arguments = [
        "run",
        "plan.toml",
        "--lab",
        "./known.toml",
        "--ledger",
        &ledger,
        "--out",
        "report",
        "--json",
        "-q",
    ];
    let study = ran(Command::new(program).args(arguments).current_dir(folder))?;
    let study: Value = serde_json::from_slice(&study).context("read the study")?;
    let of_runs = study["searches"][0]["runs"].as_array().context("the study has no search")?;
    Ok(of_runs
        .iter()
        .filter_map(|run| {
            let found = &run["found"][0];
            Some(SearchResult {
                lower: found["strict"]["lower"].as_f64()?,
                regular: found["regular"].as_bool()?,
            })
        })
        .collect())
}

#[cfg(test)]
mod tests {
    use super::super::options::words;
    use super::*;

    #[test]
    fn options_are_read_or_refused() {
        let asked: Options = words("--runs 3 --only stalls").expect("both are known");
        assert_eq!(
            (asked.runs, asked.only.as_deref(), asked.program.is_none()),
            (3, Some("stalls"), true)
        );
        let refused = |text: &str| words::<Options>(text).is_err();
        assert!(refused("--runs") && refused("--runs 0") && refused("--loud yes"));
    }
}
