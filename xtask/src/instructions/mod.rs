//! `cargo xtask instructions`: instructions of an operation, on a machine whose clock counts them.
//!
//! QEMU emulates one CPU whose clock advances by 1 ns with each instruction, and jumps over the
//! time in which the CPU has nothing to do. What else runs on this host changes nothing. An
//! operation has the instructions of both ends, of the kernel and of linerate: all are counted
//! alike. Not seen: caches, memory, and everything else that gives instructions different times.

mod rows;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, ensure};

use crate::bench::statistics::Median;
use crate::bench::{markdown, own};
use crate::tools;
use crate::vm::guest::{self, Place};
use crate::vm::{kernels, stages};
use rows::{Program, ROWS, Row};

/// Options of `instructions`.
#[derive(Debug, clap::Parser)]
struct Options {
    /// Another checkout, which is built and beside which this one is judged
    #[arg(long, value_name = "FOLDER")]
    against: Option<PathBuf>,
    /// Folder with netperf, netserver and iperf3
    #[arg(long, value_name = "FOLDER")]
    peers: Option<PathBuf>,
    /// Most by which an operation may cost more than with the other build, per cent
    #[arg(long, value_name = "PERCENT", default_value = "1")]
    tolerance: f64,
    /// Runs of each row
    #[arg(long, value_parser = crate::bench::options::count::<usize>, default_value = "3")]
    rounds: usize,
    /// Only rows whose operation contains this; may be repeated
    #[arg(long, value_name = "PART")]
    only: Vec<String>,
    /// File of the table
    #[arg(long)]
    out: Option<PathBuf>,
}

/// Programs of a build: their names, kinds and packages.
const PROGRAMS: [(&str, &str, &str); 2] =
    [("end", "--example", "linerate-load"), ("step", "--bench", "linerate-load")];
const PEERS: [&str; 3] = ["netperf", "netserver", "iperf3"];
/// Names of the two builds in the guest.
const THIS: &str = "this";
const OTHER: &str = "other";

/// One program's runs of a row.
#[derive(Debug)]
struct Cell {
    row: &'static Row,
    program: Program,
    arguments: &'static str,
    /// Name of the build; of a peer its own.
    by: &'static str,
    instructions: Vec<f64>,
}

impl Cell {
    /// Returns the guest's command.
    fn command(&self) -> String {
        self.program.command(self.by, self.arguments)
    }
}

/// Measures every row, prints the table, and fails if an operation costs more than with the other
/// build.
pub(crate) fn run(root: &Path, arguments: &[String]) -> anyhow::Result<ExitCode> {
    let options: Options = crate::parsed("instructions", arguments)?;
    let missing = tools::provide(tools::FOR_INSTRUCTIONS)?;
    ensure!(missing.is_empty(), "missing here: {}", missing.join("; "));
    let root = root.canonicalize()?;
    let mut programs = Vec::new();
    let checkouts = [(THIS, Some(&root)), (OTHER, options.against.as_ref())];
    for (name, checkout) in checkouts {
        let Some(checkout) = checkout else { continue };
        for (program, kind, package) in PROGRAMS {
            let file = own::build(checkout, package, &[kind, program])?;
            programs.push((format!("{name}-{program}"), file));
        }
    }
    let peers = options.peers.iter().flat_map(|folder| PEERS.map(|name| (name, folder.join(name))));
    programs.extend(peers.map(|(name, file)| (name.to_owned(), file)));
    let mut cells = cells(&options);
    ensure!(!cells.is_empty(), "no operation is named so");
    measure(&root, &programs, &mut cells, options.rounds)?;
    let (table, is_good) = judged(&cells, options.tolerance);
    print!("{table}");
    crate::bench::options::keep(options.out.as_deref(), &table)?;
    Ok(if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn cells(options: &Options) -> Vec<Cell> {
    let mut cells = Vec::new();
    let wanted = |row: &&Row| {
        options.only.is_empty() || options.only.iter().any(|part| row.operation.contains(part))
    };
    for row in ROWS.iter().filter(wanted) {
        for &(program, arguments) in row.by {
            let by: &[&'static str] = match program {
                Program::End(_) | Program::Step(_) if options.against.is_some() => &[THIS, OTHER],
                Program::End(_) | Program::Step(_) => &[THIS],
                Program::Netperf if options.peers.is_some() => &["netperf"],
                Program::Iperf3(_) if options.peers.is_some() => &["iperf3"],
                _ => &[],
            };
            cells.extend(by.iter().map(|by| {
                let instructions = Vec::new();
                Cell { row, program, arguments, by, instructions }
            }));
        }
    }
    cells
}

/// Runs all `cells` in `rounds` in one machine: builds take turns.
fn measure(
    root: &Path,
    programs: &[(String, PathBuf)],
    cells: &mut [Cell],
    rounds: usize,
) -> anyhow::Result<()> {
    let stage = &stages::INSTRUCTIONS;
    // Rows that read the same output share a run.
    let mut commands: Vec<String> = Vec::new();
    for command in cells.iter().map(Cell::command) {
        if !commands.contains(&command) {
            commands.push(command);
        }
    }
    let name = |round: usize, command: usize| format!("{round}-{command}");
    let numbered = || commands.iter().enumerate();
    let runs: String = (0..rounds)
        .flat_map(|round| numbered().map(move |(at, command)| (name(round, at), command)))
        .map(|(name, command)| format!("{name}\t{command}\n"))
        .collect();
    // The guest sees the root of this host, but has a /tmp of its own.
    let folder = root.join("target/vm/instructions");
    std::fs::create_dir_all(&folder)?;
    let mut copied = String::new();
    for (name, file) in programs {
        let copy = folder.join(name);
        std::fs::copy(file, &copy).with_context(|| format!("copy {}", file.display()))?;
        copied += &format!("{name}\t{}\n", copy.display());
    }
    let place = Place {
        folder: root.join("target/vm"),
        root: root.to_owned(),
        linerate: PathBuf::new(),
        linerate_armv7: None,
    };
    let begun = Instant::now();
    let kernel = kernels::fetched(stage.kernel, &place.folder).context("fetch the kernel")?;
    let files = [("runs", runs.as_str()), ("programs", &copied)];
    let checks = guest::run(stage, &kernel, &place, &files)?;
    checks.verdict(stage.checks).map_err(|why| anyhow::anyhow!("{why}: {:?}", checks.failed))?;
    println!("== {} runs in {} s", rounds * commands.len(), begun.elapsed().as_secs());
    for cell in cells {
        let own = cell.command();
        let at = commands.iter().position(|command| *command == own).context("it was run")?;
        for round in 0..rounds {
            let file = stage.out(&place).join(format!("{}.txt", name(round, at)));
            let printed = std::fs::read_to_string(&file)
                .with_context(|| format!("read {}", file.display()))?;
            let read = cell.program.instructions(&printed);
            cell.instructions.push(read.with_context(|| cell.row.operation)?);
        }
    }
    Ok(())
}

/// Returns the table, and whether no operation costs too much.
fn judged(cells: &[Cell], tolerance: f64) -> (String, bool) {
    let mut is_good = true;
    let mut lines = Vec::new();
    for row in ROWS {
        let of = |by: &str| cells.iter().find(|cell| std::ptr::eq(cell.row, row) && cell.by == by);
        let Some(this) = of(THIS) else { continue };
        let change = median(this)
            .zip(of(OTHER).and_then(median))
            .map(|(this, other)| (this.value / other.value - 1.0) * 100.0);
        is_good &= change.is_none_or(|change| change <= tolerance);
        let shown = |by: &str| of(by).map_or_else(|| "-".to_owned(), shown);
        lines.push(vec![
            row.operation.to_owned(),
            shown(THIS),
            shown(OTHER),
            change.map_or_else(|| "-".to_owned(), |change| format!("{change:+.2}")),
            shown("netperf"),
            shown("iperf3"),
        ]);
    }
    let heads = ["instructions of", "this build", "other build", "change, %", "netperf", "iperf3"];
    (markdown::table(&heads, &lines), is_good)
}

fn median(cell: &Cell) -> Option<Median> {
    Median::of(&cell.instructions)
}

fn shown(cell: &Cell) -> String {
    let digits = if cell.instructions[0] < 100.0 { 2 } else { 0 };
    let median = median(cell).map(|median| median.cell(|value| format!("{value:.digits$}")));
    median.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs of the first row by both builds.
    fn both(this: [f64; 3], other: [f64; 3]) -> Vec<Cell> {
        let row = &ROWS[0];
        let (program, arguments) = row.by[0];
        let cell = |by, instructions: [f64; 3]| Cell {
            row,
            program,
            arguments,
            by,
            instructions: instructions.to_vec(),
        };
        vec![cell(THIS, this), cell(OTHER, other)]
    }

    #[test]
    fn two_per_cent_more_fails_and_one_stray_run_does_not() {
        let before = [1000.0, 1001.0, 999.0];
        let (table, is_good) = judged(&both([1020.0, 1019.0, 1021.0], before), 1.0);
        assert!(!is_good && table.contains("+2.00"), "{table}");
        assert!(judged(&both([1000.0, 1002.0, 1100.0], before), 1.0).1, "a stray run");
        let (table, is_good) = judged(&both([900.0, 900.0, 900.0], before), 1.0);
        assert!(is_good && table.contains("-10.00"), "{table}");
        assert!(judged(&both([1020.0, 1019.0, 1021.0], before)[..1], 1.0).1, "nothing beside it");
    }

    #[test]
    fn builds_take_turns_and_peers_run_only_if_they_are_there() {
        let options = |against: bool, peers: bool| Options {
            against: against.then(PathBuf::new),
            peers: peers.then(PathBuf::new),
            tolerance: 1.0,
            rounds: 1,
            only: vec!["TCP request".to_owned()],
            out: None,
        };
        let by = |against, peers| -> Vec<&str> {
            cells(&options(against, peers)).iter().map(|cell| cell.by).collect()
        };
        assert_eq!(by(false, false), [THIS]);
        assert_eq!(by(true, true), [THIS, OTHER, "netperf"]);
    }
}
