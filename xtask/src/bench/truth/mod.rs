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

use super::options::{chosen, keep, parsed, program, provide};
use super::processor_and_kernel;
use super::scan::Referee;
use crate::tools;
use cases::Case;
use ground::Ground;
use table::{Outcome, Row, Tally};

/// The name of the row of `--runs`.
const MANY: &str = "requests with drops and silence, many runs";
/// No case is begun after this.
const FULL_TIME: Duration = Duration::from_secs(10 * 60);

/// Options of `bench truth`.
#[derive(Debug, clap::Parser)]
struct Options {
    /// Part of a case's name; all cases if there is none
    #[arg(long)]
    only: Vec<String>,
    /// Runs of requests with drops instead of the cases
    #[arg(long)]
    runs: Option<u64>,
    /// An already built linerate
    #[arg(long)]
    program: Option<PathBuf>,
    /// File of the table
    #[arg(long)]
    out: Option<PathBuf>,
}

/// Runs the cases, prints the table, and fails if a number differs.
pub(super) fn run(root: &Path, arguments: &[String]) -> anyhow::Result<bool> {
    if let [first, rest @ ..] = arguments
        && first == "relay"
    {
        return relay::run(rest);
    }
    let options: Options = parsed("truth", arguments)?;
    // A case without its instrument would look like a success.
    provide(tools::FOR_TRUTH)?;
    let program = program(root, options.program.as_deref())?;
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
    let cases = if options.runs.is_some() { Vec::new() } else { cases_of(&options.only)? };
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
        keep(options.out.as_deref(), table::document(&machine(began.elapsed()), &rows))?;
    }
    let text = table::document(&machine(began.elapsed()), &rows);
    keep(options.out.as_deref(), &text)?;
    println!("{text}");
    print!("{}", referee.summary());
    Ok(Tally::of(&rows).differ == 0 && referee.is_clean())
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

fn cases_of(only: &[String]) -> anyhow::Result<Vec<Case>> {
    chosen(cases::all(), only, |case| case.name().to_owned())
}

fn machine(took: Duration) -> String {
    format!("{}; {} s in all.", processor_and_kernel(), took.as_secs())
}

#[cfg(test)]
mod tests {
    use super::super::options::words;
    use super::*;

    #[test]
    fn options_are_read_and_mistakes_refused() {
        let options: Options = words("--only udp_rr --only frames --program x").expect("legal");
        assert_eq!((options.only.len(), options.program), (2, Some("x".into())));
        assert_eq!(words::<Options>("--runs 100").expect("legal").runs, Some(100));
        let refused = |text: &str| words::<Options>(text).is_err();
        assert!(refused("--runs x") && refused("--only") && refused("--rounds 3"));
        assert!(cases_of(&["no such case".to_owned()]).is_err());
        assert!(!cases_of(&["udp_rr".to_owned()]).expect("there are").is_empty());
    }
}
