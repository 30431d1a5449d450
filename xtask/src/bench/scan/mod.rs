//! `cargo xtask bench scan`: varied short campaigns, of whose reports every number is checked.
//!
//! Plans are drawn by a seed (`plans.rs`): every workload, direction and number of streams, on
//! loopback, in labs and between two hosts of the referee's ground. `--shaped` instead measures
//! transfers through token buckets at the senders, for each congestion control, from linerate's own
//! sender, nginx and vsftpd: none of them may be called impossible (`shaped.rs`). What this does
//! not see: a number that is wrong within all rules.

mod plans;
mod referee;
mod shaped;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use serde_json::Value;

use super::markdown;
use super::options::{count, keep, parsed, program};
use super::truth::ground::{AGENT_PORT, End, Ground, OTHER_CLOCK_PORT};
use plans::{Draw, LabPlace};
pub(super) use referee::Referee;

/// No campaign is begun after this.
const FULL_TIME: Duration = Duration::from_secs(60 * 60);

/// Options of `bench scan`.
#[derive(Debug, clap::Parser)]
struct Options {
    /// Measure transfers through token buckets at the senders
    #[arg(long)]
    shaped: bool,
    /// Trials to scan
    #[arg(long, value_parser = count::<u32>, default_value = "1000")]
    trials: u32,
    /// Seed of the first plan
    #[arg(long, value_parser = count::<u32>, default_value = "1")]
    seed: u32,
    /// An already built linerate
    #[arg(long)]
    program: Option<PathBuf>,
    /// File of the table
    #[arg(long)]
    out: Option<PathBuf>,
}

/// Trials of a kind, and how many of them have each validity.
type Tally = BTreeMap<(String, String), BTreeMap<String, usize>>;

/// Runs campaigns until enough trials were scanned, prints the table, and says whether all is as it
/// should be.
pub(super) fn run(root: &Path, arguments: &[String]) -> anyhow::Result<bool> {
    let options: Options = parsed("scan", arguments)?;
    let program = program(root, options.program.as_deref())?;
    let mut bench = Bench {
        ground: Ground::make(&program)?,
        referee: Referee::new(root, &program)?,
        tally: Tally::new(),
    };
    let (began, mut draw) = (Instant::now(), Draw(u64::from(options.seed)));
    let mut refused = 0;
    // Both bounds: a machine that refuses every plan must not run for ever.
    while bench.referee.n_trials() < options.trials as usize && began.elapsed() < FULL_TIME {
        if options.shaped {
            shaped::round(&mut bench, &mut draw, options.trials as usize)?;
            continue;
        }
        let (place, plan) = (draw.place(), draw.plan());
        // A plan that is refused is counted: it may be the plan's fault or the program's.
        if let Err(error) = bench.campaign(&place, &plan) {
            refused += 1;
            eprintln!("{place:?}: {error:#}\n{plan}");
        }
        eprintln!("{} trials, {} s", bench.referee.n_trials(), began.elapsed().as_secs());
    }
    let impossible = if options.shaped { shaped::told(&bench.tally) } else { String::new() };
    let summary = bench.referee.summary();
    let text = format!(
        "{}\nCampaigns that did not run: {refused}.\n{impossible}{summary}",
        table(&bench.tally)
    );
    print!("{text}");
    keep(options.out.as_deref(), &text)?;
    let is_honest = !options.shaped || shaped::holds(&bench.tally);
    Ok(bench.referee.is_clean() && refused == 0 && is_honest)
}

/// Ground, scanner, and what was counted.
struct Bench {
    ground: Ground,
    referee: Referee,
    tally: Tally,
}

impl Bench {
    /// Runs `plan` at `place` and scans it.
    fn campaign(&mut self, place: &LabPlace, plan: &str) -> anyhow::Result<()> {
        let mut to = Vec::new();
        match place {
            LabPlace::Loopback => {}
            LabPlace::Lab(name) => to.extend(["--lab".to_owned(), (*name).to_owned()]),
            LabPlace::Link(rate) => {
                let lab = format!(
                    "[lab]\nname = \"link\"\n[[host]]\nname = \"a\"\n[[host]]\nname \
                        = \"b\"\n[[link]]\nends = [\"a\", \"b\"]\n\
                     rate = \"{rate} Mbit/s\"\nbuffer = \"64 KiB\"\n"
                );
                let file = self.ground.folder.join("lab.toml");
                std::fs::write(&file, lab).context("write the lab")?;
                to.extend(["--lab".to_owned(), file.display().to_string()]);
            }
            LabPlace::Hosts(between, other_clock) => {
                // Laid anew for each campaign, so that no setting of the one before is left.
                self.ground.lay(between, false)?;
                if *other_clock {
                    self.ground.other_clock()?;
                }
                let port = if *other_clock { OTHER_CLOCK_PORT } else { AGENT_PORT };
                let address = Ground::address(between.family, End::B);
                let host =
                    // An IPv6 address needs brackets before a port.
                    if address.contains(':') { format!("[{address}]") } else { address.to_owned() };
                to.extend(["--to".to_owned(), format!("{host}:{port}")]);
            }
        }
        self.measure(place.name(), plan, &to)
    }

    /// Runs `plan` with `arguments` in the namespace of the first end (labs are made from any),
    /// scans it, and counts its trials as of `kind`.
    fn measure(&mut self, kind: &str, plan: &str, arguments: &[String]) -> anyhow::Result<()> {
        let folder = self.ground.folder.clone();
        std::fs::write(folder.join("plan.toml"), plan).context("write the plan")?;
        let ledger = self.ground.new_ledger();
        let mut command: Command = self.ground.linerate(End::A);
        command
            .current_dir(&folder)
            .args(["run", "plan.toml", "--quiet", "--out", "report", "--ledger"])
            .arg(&ledger);
        let output = command.args(arguments).output().context("start linerate run")?;
        // A trial that failed ends linerate with an error, and the others are in the ledger all the
        // same.
        let said = String::from_utf8_lossy(&output.stderr);
        let failed = || format!("linerate run: {}: {}", output.status, said.trim());
        // Without a ledger nothing can be scanned, and the program's message says why.
        ensure!(ledger.exists(), failed());
        let study = self.referee.read(&ledger).with_context(failed)?;
        add(&mut self.tally, kind, &study);
        Ok(())
    }
}

/// Counts the trials of `study` by workload and validity.
fn add(tally: &mut Tally, kind: &str, study: &Value) {
    for point in study["points"].as_array().into_iter().flatten() {
        let workload = point["jobs"][0]["workload"].as_str().unwrap_or("none");
        for trial in point["trials"].as_array().into_iter().flatten() {
            let validity = trial["validity"].as_str().unwrap_or("none").to_owned();
            if validity == "impossible" {
                eprintln!("{kind}, {workload}, called impossible: {}", trial["why"]);
            }
            let of_kind = tally.entry((kind.to_owned(), workload.to_owned())).or_default();
            *of_kind.entry(validity).or_default() += 1;
        }
    }
}

fn table(tally: &Tally) -> String {
    let mut rows = Vec::new();
    for ((kind, workload), by_validity) in tally {
        let parts: Vec<String> =
            by_validity.iter().map(|(validity, n)| format!("{n} {validity}")).collect();
        let n_trials: usize = by_validity.values().sum();
        let workload = format!("`{workload}`");
        rows.push(vec![kind.clone(), workload, n_trials.to_string(), parts.join(", ")]);
    }
    markdown::table(&["place", "workload", "trials", "of which"], &rows)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::options::words;
    use super::*;

    #[test]
    fn trials_are_counted_by_place_workload_and_validity() {
        let mut tally = Tally::new();
        let trial = |validity: &str| json!({ "validity": validity });
        let study = json!({ "points": [{ "jobs": [{ "workload": "tcp_rr" }],
            "trials": [trial("valid"), trial("suspect"), trial("valid")] }] });
        add(&mut tally, "lab", &study);
        assert!(
            table(&tally).ends_with("| lab | `tcp_rr` | 3 | 1 suspect, 2 valid |\n"),
            "{}",
            table(&tally)
        );
    }

    #[test]
    fn options_are_read_or_refused() {
        let asked: Options = words("--trials 60 --shaped --seed 7").expect("known");
        assert_eq!((asked.trials, asked.shaped, asked.seed), (60, true, 7));
        let refused = |text: &str| words::<Options>(text).is_err();
        assert!(refused("--trials") && refused("--trials 0") && refused("--loud yes"));
    }
}
