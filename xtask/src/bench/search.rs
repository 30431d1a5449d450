//! `cargo xtask bench search [--runs N]`: what searches find on devices of known capacity.
//!
//! Rows: MLRsearch's NDR and RFC 2544's strict halving on the lab `device` (20 kpps, 64 frames of buffer), and the NDR on `device-stalls`,
//! which stands still for 5 ms of every second. Trials are short (see [`TRIAL_MS`]); a trial of that length cannot see an excess that the
//! buffer holds, so that the known answer is an interval: from the capacity, less the width, to the capacity and the buffer over the
//! trial's length, and the width. What this does not see: devices faster than a user-space emulation.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, ensure};
use serde_json::Value;

use super::own;

/// Frames per second and frames of buffer of both labs.
const CAPACITY: f64 = 20_000.0;
const BUFFER: f64 = 64.0;
/// Length of a full trial of MLRsearch: shorter than the time between stalls, so that most trials see none.
const TRIAL_MS: f64 = 250.0;
/// Length of the final trial of the strict search.
const FINAL_MS: f64 = 2_000.0;
/// Width of the bounds.
const WIDTH: f64 = 0.01;
/// Spread that stalls may cause (highest over lowest, less one).
const MOST_SPREAD: f64 = 0.03;

/// One row: what is searched where.
struct Row {
    lab: &'static str,
    goal: &'static str,
    trial_ms: f64,
    search_ms: f64,
}

const ROWS: [Row; 3] = [
    Row { lab: "device", goal: "mlr-ndr", trial_ms: TRIAL_MS, search_ms: TRIAL_MS },
    Row { lab: "device", goal: "rfc2544", trial_ms: FINAL_MS, search_ms: 500.0 },
    Row { lab: "device-stalls", goal: "mlr-ndr", trial_ms: TRIAL_MS, search_ms: TRIAL_MS },
];

/// Runs every row `runs` times and prints the table.
pub(super) fn run(root: &Path, runs: u32) -> anyhow::Result<bool> {
    let program = own::build(root, "linerate", &["--bin", "linerate"])?;
    let folder = std::env::temp_dir().join(format!("linerate-search-{}", std::process::id()));
    std::fs::create_dir(&folder).with_context(|| format!("make {}", folder.display()))?;
    println!("| lab | goal | trial | known answer, kpps | found | lowest | highest | spread | within |");
    println!("|---|---|---|---|---|---|---|---|---|");
    let mut all = true;
    for row in &ROWS {
        let found = measure(&program, &folder, row, runs)?;
        all &= tell(row, &found, runs);
    }
    // Nothing in it is of use to anybody.
    let _ = std::fs::remove_dir_all(&folder);
    Ok(all)
}

/// Prints a row; whether it is as it should be.
fn tell(row: &Row, found: &[f64], runs: u32) -> bool {
    let (least, most) = found.iter().fold((f64::INFINITY, 0.0_f64), |(a, b), load| (a.min(*load), b.max(*load)));
    let excess = BUFFER / (row.trial_ms / 1e3);
    let (from, to) = (CAPACITY * (1.0 - WIDTH), (CAPACITY + excess) * (1.0 + WIDTH));
    let within = found.iter().filter(|load| (from..=to).contains(*load)).count();
    let spread = most / least - 1.0;
    println!(
        "| {} | {} | {} ms | {:.2} to {:.2} | {} of {runs} | {:.3} | {:.3} | {:.2} % | {within} |",
        row.lab,
        row.goal,
        row.trial_ms,
        from / 1e3,
        to / 1e3,
        found.len(),
        least / 1e3,
        most / 1e3,
        spread * 100.0
    );
    found.len() == runs as usize && within == found.len() && spread <= MOST_SPREAD
}

fn plan(row: &Row, runs: u32) -> String {
    format!(
        "[campaign]\nname = \"search\"\norder = \"sequential\"\n[[sweep]]\nname = \"search\"\ndrain = \"100 ms\"\nrest = \"50 ms\"\n\
         [[sweep.job]]\nworkload = \"udp_stream\"\nfrom = \"adev\"\nto = \"bdev\"\nparams = {{ datagram_size = \"64 B\" }}\n\
         [sweep.search]\nmetric = \"rate\"\ngoal = \"{}\"\nmax = \"40 kpps\"\nwidth = \"{} %\"\ntrial = \"{} ms\"\nsearch_trial = \"{} ms\"\n\
         warmup = \"250 ms\"\nself_test = \"250 ms\"\nwire = \"awire bwire\"\nrepeats = {runs}\n",
        row.goal,
        WIDTH * 100.0,
        row.trial_ms,
        row.search_ms
    )
}

/// The lower bound each run found.
fn measure(program: &Path, folder: &Path, row: &Row, runs: u32) -> anyhow::Result<Vec<f64>> {
    std::fs::write(folder.join("plan.toml"), plan(row, runs)).context("write the plan")?;
    let ledger = format!("{}-{}.ledger", row.lab, row.goal);
    let arguments = ["run", "plan.toml", "--lab", row.lab, "--ledger", &ledger, "--out", "report", "--json", "-q"];
    let output = Command::new(program).args(arguments).current_dir(folder).output().context("start linerate")?;
    ensure!(output.status.success(), "linerate: {}", String::from_utf8_lossy(&output.stderr));
    let study: Value = serde_json::from_slice(&output.stdout).context("read the study")?;
    let of_runs = study["searches"][0]["runs"].as_array().context("the study has no search")?;
    Ok(of_runs.iter().filter_map(|run| run["found"][0]["strict"]["lower"].as_f64()).collect())
}
