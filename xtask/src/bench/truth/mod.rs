//! `cargo xtask bench truth`: every kind of number that linerate prints, against arithmetic and
//! against another instrument.
//!
//! The ground is not linerate's lab: three namespaces made by `ip`, faults by rules of `nft` at a
//! bridge between them, rates by `tbf`, delay and reordering by a relay of datagrams in this
//! program. Each case injects something known exactly, lets linerate measure it, and compares what
//! linerate prints with the count that arithmetic demands and with what `nft`, `tc`, the kernel's
//! SNMP tables, `ss`, tcpdump, disk statistics, iperf3, curl or fio counted at the same time. A
//! case that cannot run is skipped with its reason. Exit code 1 if any number differs. `--runs N`
//! makes N short runs of requests instead, each with other drops. `--program` judges another build
//! of linerate.
//!
//! Not covered: hardware, and hosts whose clocks drift.

mod capture;
mod cases;
mod claim;
pub(super) mod ground;
mod instruments;
mod judge;
mod plan;
mod relay;
pub(super) mod serving;
mod study;
mod table;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};

use super::scan::Referee;
use super::{own, processor_and_kernel};
use crate::tools;
use cases::Case;
use ground::Ground;
use table::{Outcome, Row, Tally};

const USAGE: &str = "usage: cargo xtask bench truth [--only PART OF A CASE'S NAME]... [--runs N] \
    [--program FILE] [--out FILE]";
/// The name of the row of `--runs`.
const MANY: &str = "requests with drops and silence, many runs";
/// No case is begun after this.
const FULL_TIME: Duration = Duration::from_secs(10 * 60);

#[derive(Debug, Default)]
struct Options {
    only: Vec<String>,
    /// Runs of requests with drops instead of the cases.
    runs: Option<u64>,
    program: Option<PathBuf>,
    out: Option<PathBuf>,
}

/// Runs the cases, prints the table, and fails if a number differs.
pub(super) fn run(root: &Path, arguments: &[String]) -> anyhow::Result<bool> {
    if let [first, rest @ ..] = arguments
        && first == "relay"
    {
        return relay::run(rest);
    }
    let options = options(arguments)?;
    let missing = tools::provide(tools::FOR_TRUTH)?;
    // A case without its instrument would look like a success.
    ensure!(missing.is_empty(), "missing here: {}", missing.join("; "));
    let program = match &options.program {
        Some(program) => {
            program.canonicalize().with_context(|| format!("find {}", program.display()))?
        }
        None => own::build(root, "linerate", &["--bin", "linerate"])?,
    };
    let began = Instant::now();
    let mut referee = Referee::new(root, &program)?;
    let mut ground = Ground::make(&program)?;
    let mut rows = Vec::new();
    if let Some(n_runs) = options.runs {
        rows.push(Row {
            case: MANY,
            outcome: Outcome::Judged(cases::many::run(&mut ground, n_runs)),
        });
        referee.read_all(&ground.folder)?;
    }
    let cases = if options.runs.is_some() { Vec::new() } else { chosen(&options.only)? };
    for case in cases {
        let outcome = if began.elapsed() > FULL_TIME {
            Outcome::Skipped(format!("{} s were over", FULL_TIME.as_secs()))
        } else {
            outcome(&mut ground, case)
        };
        let row = Row { case: case.name(), outcome };
        eprint!("{}", table::lines(&row));
        rows.push(row);
        referee.read_all(&ground.folder)?;
        save(&options, &table::document(&machine(began.elapsed()), &rows))?;
    }
    let text = table::document(&machine(began.elapsed()), &rows);
    save(&options, &text)?;
    println!("{text}");
    print!("{}", referee.summary());
    Ok(Tally::of(&rows).differ == 0 && referee.is_clean())
}

/// Writes the table to where it is wanted.
fn save(options: &Options, text: &str) -> anyhow::Result<()> {
    let Some(file) = &options.out else { return Ok(()) };
    std::fs::write(file, text).with_context(|| format!("write {}", file.display()))
}

/// Runs one case.
fn outcome(ground: &mut Ground, case: Case) -> Outcome {
    let judged = match case {
        Case::Special(case) => (case.run)(ground),
        Case::Network(network) => judge::run(ground, network).and_then(|seen| match seen {
            Err(skipped) => Err(anyhow::Error::new(skipped)),
            Ok(seen) => network.checks.iter().map(|check| check(&seen)).collect(),
        }),
    };
    match judged {
        Ok(claims) => Outcome::Judged(claims),
        Err(error) => match error.downcast_ref::<judge::Skipped>() {
            Some(skipped) => Outcome::Skipped(skipped.to_string()),
            None => Outcome::Failed(format!("{error:#}")),
        },
    }
}

fn chosen(only: &[String]) -> anyhow::Result<Vec<Case>> {
    let is_chosen = |case: &Case| {
        only.is_empty() || only.iter().any(|part| case.name().contains(part.as_str()))
    };
    let chosen: Vec<Case> = cases::all().into_iter().filter(is_chosen).collect();
    let names = || cases::all().iter().map(Case::name).collect::<Vec<_>>().join("\n  ");
    ensure!(!chosen.is_empty(), "--only {}: no such case:\n  {}", only.join(" --only "), names());
    Ok(chosen)
}

fn options(arguments: &[String]) -> anyhow::Result<Options> {
    let mut options = Options::default();
    let mut arguments = arguments.iter();
    while let Some(argument) = arguments.next() {
        let value =
            arguments.next().with_context(|| format!("{argument} needs a value\n{USAGE}"))?;
        match argument.as_str() {
            "--only" => options.only.push(value.clone()),
            "--runs" => options.runs = Some(value.parse().context("--runs: a number of runs")?),
            "--program" => options.program = Some(value.into()),
            "--out" => options.out = Some(value.into()),
            _ => bail!("{argument}: unknown\n{USAGE}"),
        }
    }
    Ok(options)
}

fn machine(took: Duration) -> String {
    format!("{}; {} s in all.", processor_and_kernel(), took.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read_and_mistakes_refused() {
        let parsed = |words: &[&str]| {
            options(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>())
        };
        let options =
            parsed(&["--only", "udp_rr", "--only", "frames", "--program", "x"]).expect("legal");
        assert_eq!((options.only.len(), options.program), (2, Some("x".into())));
        assert_eq!(parsed(&["--runs", "100"]).expect("legal").runs, Some(100));
        assert!(parsed(&["--runs", "x"]).is_err());
        assert!(parsed(&["--only"]).is_err() && parsed(&["--rounds", "3"]).is_err());
        assert!(chosen(&["no such case".to_owned()]).is_err());
        assert!(!chosen(&["udp_rr".to_owned()]).expect("there are").is_empty());
    }
}
