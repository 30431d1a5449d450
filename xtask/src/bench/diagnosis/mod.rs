//! `cargo xtask bench diagnosis`: the confusion matrix of `linerate diagnose`
//! (docs/methodology/diagnosis.md#rules).
//!
//! Each scenario injects one cause (or two, one behind the other) into a lab; `diagnose` is run in
//! it with one seed after another; the matrix says what it took each cause for. The diagonal should
//! be 0.9 at the least, no *proven* verdict wrong, and "unknown" said of the control. Of several
//! limits, what was found behind the first counts too, as a line of its own. What this does not
//! see: causes that a machine cannot be given (a second NUMA node, slow memory, an interrupt of a
//! real device), which have rules and no row.

mod answers;
mod draw;
mod fleet;
mod scenarios;
mod storage;
mod undeclared;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use anyhow::{Context, ensure};
use serde_json::Value;

use super::markdown;
use super::options::{count, keep, kept, parsed, program};
use super::scan::Referee;
use super::scratch::Scratch;
use scenarios::{FaultPlace, SCENARIOS, Scenario};

/// The reference of all rules, made from their registry.
const RULES: &str = "docs/reference/rules.md";
/// Goal for the diagonal.
const DIAGONAL: f64 = 0.9;

/// Options of `bench diagnosis`, also with `--undeclared`, `--storage` and `--fleet`.
#[derive(Debug, clap::Parser)]
struct Options {
    /// Diagnose paths whose capacity nobody declared
    #[arg(long)]
    undeclared: bool,
    /// Diagnose loads on disks
    #[arg(long, conflicts_with = "undeclared")]
    storage: bool,
    /// Find the fault of a fleet of hosts
    #[arg(long, conflicts_with_all = ["undeclared", "storage"])]
    fleet: bool,
    /// Number of seeds
    #[arg(long, value_parser = count::<u32>, default_value = "10")]
    seeds: u32,
    /// The first seed
    #[arg(long, value_parser = count::<u32>, default_value = "1")]
    first: u32,
    /// Part of a scenario's name
    #[arg(long)]
    only: Option<String>,
    /// An already built linerate
    #[arg(long)]
    program: Option<PathBuf>,
    /// File of outcomes of earlier runs, of seeds from 1 on, continued with the new ones
    #[arg(long)]
    keep: Option<PathBuf>,
    /// File of the matrix
    #[arg(long)]
    out: Option<PathBuf>,
    /// Scenarios at a time, except those that need the CPUs for themselves
    #[arg(long, value_parser = count::<u32>, default_value = "2")]
    jobs: u32,
}

/// How long each run is, and what of it does not count. A scenario takes 20 s where its first look
/// is enough, and 1 to 3 minutes with a second.
const SECONDS: &str = "0.35";
const OMITTED: &str = "0.25";

/// Mark of a run in which `diagnose` failed.
const FAILED: &str = "failed";

/// Result of one run: rule and verdict of the leading finding of each limit, beginning with the
/// visible one.
type Said = Vec<(String, String)>;

/// Runs every scenario with every seed, prints the matrix, and says whether it is as it should be.
pub(super) fn run(root: &Path, arguments: &[String]) -> anyhow::Result<bool> {
    if let [first, rest @ ..] = arguments
        && first == undeclared::RELAY
    {
        return undeclared::relay(rest);
    }
    let options: Options = parsed("diagnosis", arguments)?;
    options.check()?;
    let program = program(root, options.program.as_deref())?;
    if options.undeclared {
        return undeclared::run(&program, &options);
    }
    if options.storage {
        return storage::run(&program, &options);
    }
    if options.fleet {
        return fleet::run(&program, &options);
    }
    let mut outcomes: BTreeMap<String, Vec<Said>> = kept(options.keep.as_deref())?;
    let referee = Mutex::new(Referee::new(root, &program)?);
    for seed in options.first..options.first + options.seeds {
        // Kept outcomes are those of seeds 1, 2, ...: what was run before a bench was cut off is
        // not run again.
        let n_kept = |name: &str| outcomes.get(name).map(Vec::len);
        let is_kept = |scenario: &Scenario| {
            options.keep.is_some() && n_kept(scenario.name).is_some_and(|n| n >= seed as usize)
        };
        let is_wanted = |scenario: &Scenario| {
            options.only.as_deref().is_none_or(|only| scenario.name.contains(only))
        };
        // What is in the file was measured by an earlier run of this bench.
        let wanted = SCENARIOS.iter().filter(|scenario| is_wanted(scenario) && !is_kept(scenario));
        let (alone, together): (Vec<&Scenario>, Vec<&Scenario>) =
            wanted.partition(|scenario| scenario.wants_cpus());
        let known = Mutex::new(&mut outcomes);
        // Those that want the CPUs run first and alone: beside others their cause would be another.
        for (scenarios, n_at_once) in [(alone, 1), (together, options.jobs)] {
            side_by_side(&scenarios, n_at_once, &|scenario| {
                let said = told_of(&program, &referee, scenario, seed);
                let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
                // The lock is held only to note the result, never while a scenario runs.
                known.entry(scenario.name.to_owned()).or_default().push(said);
                keep(options.keep.as_deref(), serde_json::to_string(&**known)?)
            })?;
        }
    }
    let rules =
        std::fs::read_to_string(root.join(RULES)).with_context(|| format!("read {RULES}"))?;
    let referee = referee.into_inner().unwrap_or_else(PoisonError::into_inner);
    let text =
        format!("{}\n{}\n\n{}", document(&outcomes), without_scenario(&rules), referee.summary());
    print!("{text}");
    keep(options.out.as_deref(), &text)?;
    let judged = judge(&outcomes);
    Ok(judged.wrong_proven == 0 && judged.diagonal() >= DIAGONAL && referee.is_clean())
}

/// Does `run` with each of `scenarios`, `n_at_once` of them at a time: most of a scenario is
/// waiting for its own low rate.
fn side_by_side<T: Sync>(
    scenarios: &[&T],
    n_at_once: u32,
    run: &(dyn Fn(&T) -> anyhow::Result<()> + Sync),
) -> anyhow::Result<()> {
    let waiting = Mutex::new(scenarios.iter());
    let next = || waiting.lock().unwrap_or_else(PoisonError::into_inner).next().copied();
    let work = || std::iter::from_fn(next).try_for_each(run);
    std::thread::scope(|scope| {
        // Scoped, so that workers can borrow what this function has.
        let workers: Vec<_> = (0..n_at_once).map(|_| scope.spawn(work)).collect();
        workers.into_iter().try_for_each(|worker| worker.join().expect("a worker does not panic"))
    })
}

/// Runs `diagnose` on `scenario` and prints its progress, with the whole answer if it differs from
/// the injected cause.
fn told_of(program: &Path, referee: &Mutex<Referee>, scenario: &Scenario, seed: u32) -> Said {
    let begun = Instant::now();
    // What cannot be measured is a miss like any other: the matrix goes on.
    let (said, answer) = one(program, referee, scenario, seed).unwrap_or_else(|error| {
        eprintln!("{}, seed {seed}: {error:#}", scenario.name);
        (vec![(FAILED.to_owned(), "inconclusive".to_owned())], Value::Null)
    });
    eprintln!(
        "seed {seed}, {}: {} ({:.0} s)",
        scenario.name,
        told(&said),
        begun.elapsed().as_secs_f64()
    );
    // The whole answer is needed to see why a verdict is wrong.
    if !limits(&said).iter().map(|(rule, _)| rule.as_str()).eq(scenario.expected.iter().copied()) {
        eprintln!("{answer:#}");
    }
    said
}

/// Which rules no scenario is for, by name. `rules` is their reference, a table with a rule a row.
fn without_scenario(rules: &str) -> String {
    let names = rules.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
    // Only scenarios inject causes, so a rule without one was never seen to be right.
    let injected = |name: &&str| SCENARIOS.iter().any(|scenario| scenario.expected.contains(name));
    let missing: Vec<String> =
        names.filter(|name| !injected(name)).map(|name| format!("`{name}`")).collect();
    if missing.is_empty() {
        return "Every rule has a scenario.".to_owned();
    }
    format!(
        "Rules that no scenario injects, so that nothing is known of them but their unit tests: \
            {}.",
        missing.join(", ")
    )
}

/// Runs `diagnose` on `scenario`; returns its result and its whole answer.
fn one(
    program: &Path,
    referee: &Mutex<Referee>,
    scenario: &Scenario,
    seed: u32,
) -> anyhow::Result<(Said, Value)> {
    let scratch = Scratch::new(&format!("diagnosis-{}", scenario.name.replace(' ', "-")))?;
    let folder = scratch.path();
    let file = folder.join("place.toml");
    let mut command = Command::new(program);
    command.args([
        "--json",
        "--quiet",
        "diagnose",
        "--seconds",
        SECONDS,
        "--omit",
        OMITTED,
        "--seed",
        &seed.to_string(),
        // A matrix of verdicts shall not depend on the time that a busy machine takes.
        "--budget",
        "600",
    ]);
    // What lies behind the causes that were injected is nobody's question here.
    command.args(["--limits", &scenario.expected.len().to_string()]);
    command.arg("--out").arg(folder.join("ledgers"));
    let text = match &scenario.place {
        FaultPlace::Lab(between, [from, to]) => {
            command.arg("--lab").arg(&file).args(["--from", from, "--to", to]);
            let [a, b] = scenario.hosts;
            let between = between.replace("SEED", &seed.to_string());
            format!(
                "[lab]\nname = \"scenario\"\n[[host]]\nname = \"a\"\n{a}[[host]]\nname \
                    = \"b\"\n{b}{between}"
            )
        }
        FaultPlace::Testbed(text) => {
            command.arg("--testbed").arg(&file).args(["--from", "a", "--to", "b"]);
            (*text).to_owned()
        }
    };
    std::fs::write(&file, text).with_context(|| format!("write {}", file.display()))?;
    for param in scenario.params {
        command.args(["--param", param]);
    }
    let output = command.stderr(Stdio::inherit()).output().context("start linerate diagnose")?;
    referee.lock().unwrap_or_else(PoisonError::into_inner).read_all(&folder.join("ledgers"))?;
    let answer: Value = serde_json::from_slice(&output.stdout).with_context(|| {
        format!("linerate diagnose ended with {} and printed no JSON", output.status)
    })?;
    let rungs = answer["ladder"].as_array().context("the answer has no ladder")?;
    let said = rungs
        .iter()
        .map(|rung| {
            let finding = rung["findings"].get(0)?;
            Some((finding["rule"].as_str()?.to_owned(), finding["verdict"].as_str()?.to_owned()))
        })
        .collect::<Option<Said>>()
        .context("a limit without a finding")?;
    Ok((said, answer))
}

/// `receive_window (proven), link_ceiling (proven)`: a limit that was lifted by half and limits
/// again is one.
fn told(said: &Said) -> String {
    limits(said)
        .iter()
        .map(|(rule, verdict)| format!("{rule} ({verdict})"))
        .collect::<Vec<_>>()
        .join(", ")
}

fn limits(said: &Said) -> Said {
    let mut limits = said.clone();
    limits.dedup_by(|later, earlier| later.0 == earlier.0);
    limits
}

/// Summary of the runs.
#[derive(Debug, Default, PartialEq)]
struct Judged {
    runs: usize,
    right: usize,
    proven: usize,
    wrong_proven: usize,
}

impl Judged {
    fn diagonal(&self) -> f64 {
        if self.runs == 0 { 0.0 } else { self.right as f64 / self.runs as f64 }
    }
}

/// Judges single causes by the first limit, several by all that were injected, in their order. A
/// proven verdict is wrong if what it names was not injected; that goes for every limit down to the
/// last injected one.
fn judge(outcomes: &BTreeMap<String, Vec<Said>>) -> Judged {
    let mut judged = Judged::default();
    for scenario in SCENARIOS {
        for said in outcomes.get(scenario.name).into_iter().flatten() {
            let found = limits(said);
            let rules: Vec<&str> = found.iter().map(|(rule, _)| rule.as_str()).collect();
            judged.runs += 1;
            judged.right += usize::from(rules.starts_with(scenario.expected));
            for (place, (rule, verdict)) in found.iter().take(scenario.expected.len()).enumerate() {
                if verdict == "proven" {
                    judged.proven += 1;
                    judged.wrong_proven += usize::from(scenario.expected[place] != *rule);
                }
            }
        }
    }
    judged
}

/// The matrix: injected by row, found by column; proven verdicts in brackets.
fn document(outcomes: &BTreeMap<String, Vec<Said>>) -> String {
    let mut columns: Vec<&str> = SCENARIOS.iter().map(|scenario| scenario.expected[0]).collect();
    for (rule, _) in outcomes.values().flatten().filter_map(|said| said.first()) {
        if !columns.contains(&rule.as_str()) {
            columns.push(rule);
        }
    }
    let mut seen = Vec::new();
    columns.retain(|column| {
        !seen.contains(column) && {
            seen.push(*column);
            true
        }
    });
    let mut rows = Vec::new();
    for scenario in SCENARIOS {
        let Some(runs) = outcomes.get(scenario.name) else { continue };
        let mut cells = vec![scenario.name.to_owned(), runs.len().to_string()];
        for column in &columns {
            let found =
                runs.iter().filter_map(|said| said.first()).filter(|(rule, _)| rule == column);
            let (n, proven) = found.fold((0, 0), |(n, proven), (_, verdict)| {
                (n + 1, proven + usize::from(verdict == "proven"))
            });
            let is_expected = scenario.expected[0] == *column;
            cells.push(match n {
                0 => String::new(),
                n if is_expected => format!("**{n} ({proven})**"),
                n => format!("{n} ({proven})"),
            });
        }
        let all = if scenario.expected.len() > 1 {
            format!(
                "{} of {}",
                runs.iter().filter(|said| names_all(said, scenario.expected)).count(),
                runs.len()
            )
        } else {
            String::new()
        };
        cells.push(all);
        rows.push(cells);
    }
    let heads: Vec<&str> =
        ["injected", "n"].into_iter().chain(columns).chain(["all its limits"]).collect();
    let mut text = markdown::table(&heads, &rows);
    let judged = judge(outcomes);
    let _infallible = writeln!(
        text,
        "\n{} of {} runs found what was injected: {:.3} (wanted: {DIAGONAL}). {} verdicts were \
            *proven*, {} of them wrong (wanted: 0).",
        judged.right,
        judged.runs,
        judged.diagonal(),
        judged.proven,
        judged.wrong_proven
    );
    text
}

/// Returns whether the limits that were said are the `expected` ones, in their order.
fn names_all(said: &Said, expected: &[&str]) -> bool {
    limits(said).iter().map(|(rule, _)| rule.as_str()).collect::<Vec<_>>().starts_with(expected)
}

impl Options {
    fn check(&self) -> anyhow::Result<()> {
        let Some(only) = self.only.as_deref() else { return Ok(()) };
        let is_known = if self.undeclared {
            undeclared::is_cause(only)
        } else if self.storage {
            storage::is_cause(only)
        } else if self.fleet {
            fleet::is_cause(only)
        } else {
            SCENARIOS.iter().any(|scenario| scenario.name.contains(only))
        };
        ensure!(is_known, "--only {only}: no such scenario");
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::options::words;
    use super::*;

    fn said(limits: &[(&str, &str)]) -> Said {
        limits.iter().map(|(rule, verdict)| ((*rule).to_owned(), (*verdict).to_owned())).collect()
    }

    #[test]
    fn a_wrong_proof_is_counted_and_what_is_behind_the_injected_limits_is_not() {
        let outcomes = BTreeMap::from([
            (
                "link rate".to_owned(),
                vec![said(&[("link_ceiling", "proven")]), said(&[("sender_cpu", "proven")])],
            ),
            (
                "receive window, then link".to_owned(),
                vec![
                    said(&[
                        ("receive_window", "proven"),
                        ("receive_window", "proven"),
                        ("link_ceiling", "proven"),
                    ]),
                    said(&[("receive_window", "proven"), ("unknown", "inconclusive")]),
                ],
            ),
            (
                "slow source".to_owned(),
                vec![said(&[("slow_source", "proven"), ("link_ceiling", "suspected")])],
            ),
        ]);
        let judged = judge(&outcomes);
        assert_eq!(judged, Judged { runs: 5, right: 3, proven: 6, wrong_proven: 1 });
        let text = document(&outcomes);
        assert!(text.contains("3 of 5 runs found what was injected: 0.600"), "{text}");
        assert!(text.contains("1 of 2 |"), "{text}");
    }

    #[test]
    fn rules_without_a_scenario_are_named() {
        let rules =
            "| Name | What it is |\n|---|---|\n| `link_ceiling` | x |\n| `numa_placement` | y |\n";
        let told = without_scenario(rules);
        assert!(told.ends_with("unit tests: `numa_placement`."), "{told}");
    }

    #[test]
    fn options_are_read_and_mistakes_refused() {
        let read = words::<Options>;
        let legal = read("--seeds 3 --only link").expect("legal");
        assert!(legal.seeds == 3 && legal.check().is_ok());
        assert!(read("--only tokens").expect("legal").check().is_err());
        assert!(read("--seeds").is_err() && read("-x 1").is_err());
    }

    #[test]
    fn scenarios_have_names_of_their_own_and_a_control() {
        let mut names: Vec<&str> = SCENARIOS.iter().map(|scenario| scenario.name).collect();
        assert_eq!(SCENARIOS[0].expected, ["unknown"]);
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), SCENARIOS.len());
    }
}
