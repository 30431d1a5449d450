//! `cargo xtask bench storage`: the `storage` workload against fio, on a file past the page cache,
//! in it, and on a file in memory; and what closing intervals costs.
//!
//! Every round runs every contestant of every row once, in an order that rotates; ratios are taken
//! within a round. Both read the same file of random bytes, pinned to the same core, without fio's
//! coverage map, with one thread. linerate is driven through its engine and workload by the example
//! `end` of `linerate-load`. CPU is user and system time of the process with all its kernel
//! workers, less that of the same program making next to no transfer. With `--log` every reading is
//! kept, and a later call goes on from there until each row has its rounds; with `--within` a call
//! ends before that time is over, so that a long benchmark can be run in pieces; with `--end` the
//! example is taken as it was built before. What this does not see: writes, and a disk faster than
//! this machine's.

mod document;
mod readings;
mod rows;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Context;
use serde_json::Value;

use super::options::{chosen, count, keep, parsed, provide};
use super::processor::Usage;
use super::{outputs, own, scratch};
use crate::tools;
use document::document;
use readings::{Log, Reading, Runs};
use rows::{Contestant, FilePlace, Row, rows};

/// Bytes of each file: more than a disk's own cache, less than anybody's memory.
const FILE_BYTES: u64 = 512 << 20;
/// Time of a run beside its load: starting, reading the file's size, printing.
const BESIDE: Duration = Duration::from_millis(800);

/// Measures and prints the tables.
pub(super) fn run(root: &Path, arguments: &[String]) -> anyhow::Result<bool> {
    let began = Instant::now();
    let options: Options = parsed("storage", arguments)?;
    provide(tools::FOR_BENCH)?;
    let end = match &options.end {
        Some(program) => program.clone(),
        None => own::build(root, "linerate-load", &["--example", "end"])?,
    };
    let mut runs: Vec<Runs> =
        chosen(rows(), &options.only, Row::name)?.into_iter().map(Runs::none).collect();
    let mut log = Log::open(options.log.as_deref(), &mut runs)?;
    let wanted: Vec<Row> =
        runs.iter().filter(|runs| runs.rounds() < options.rounds).map(|runs| runs.row).collect();
    let mut notes = Vec::new();
    if !wanted.is_empty() {
        let bench = Bench {
            end,
            files: Files::make(&wanted)?,
            seconds: options.seconds,
            at_rest: AtRest::default(),
        };
        let bench = Bench { at_rest: AtRest::measure(&bench, wanted[0])?, ..bench };
        while let Some(next) = next(&mut runs, options.rounds) {
            let takes = (Duration::from_secs(options.seconds.into()) + BESIDE)
                * next.row.contestants.len() as u32;
            if options.within.is_some_and(|within| (began.elapsed() + takes).as_secs() >= within) {
                eprintln!("time is up: {} is next", next.row.name());
                break;
            }
            bench.round(next, &mut log, &mut notes)?;
            keep(options.out.as_deref(), document(&runs, options.seconds, &notes))?;
        }
    }
    let document = document(&runs, options.seconds, &notes);
    keep(options.out.as_deref(), &document)?;
    println!("{document}");
    Ok(true)
}

/// The row that has had the fewest rounds, the first of them, unless all have had `rounds`.
fn next(runs: &mut [Runs], rounds: usize) -> Option<&mut Runs> {
    runs.iter_mut().filter(|runs| runs.rounds() < rounds).min_by_key(|runs| runs.rounds())
}

/// Options of `bench storage`.
#[derive(Debug, clap::Parser)]
struct Options {
    /// Rounds
    // An interval of 95 % needs six.
    #[arg(long, value_parser = count::<usize>, default_value = "6")]
    rounds: usize,
    /// Length of a run, s
    #[arg(long, value_parser = count::<u32>, default_value = "2")]
    seconds: u32,
    /// Part of a row's name; all rows if there is none
    #[arg(long)]
    only: Vec<String>,
    /// Begin no round that would end later, s
    #[arg(long, value_parser = count::<u64>)]
    within: Option<u64>,
    /// File of readings, read and continued
    #[arg(long)]
    log: Option<PathBuf>,
    /// File of the tables
    #[arg(long)]
    out: Option<PathBuf>,
    /// Example `end`, already built
    #[arg(long)]
    end: Option<PathBuf>,
}

/// Settings and paths of all runs.
struct Bench {
    end: PathBuf,
    files: Files,
    seconds: u32,
    at_rest: AtRest,
}

impl Bench {
    /// Runs every contestant once, in turn.
    fn round(&self, runs: &mut Runs, log: &mut Log, notes: &mut Vec<String>) -> anyhow::Result<()> {
        let round = runs.rounds();
        eprintln!("round {}: {}", round + 1, runs.row.name());
        let n = runs.row.contestants.len();
        let mut readings = vec![None; n];
        for index in (0..n).map(|k| (k + round) % n) {
            let contestant = runs.row.contestants[index];
            match self.measure(runs.row, contestant) {
                Ok(reading) => readings[index] = Some(reading),
                Err(error) => {
                    notes.push(format!("{}, {}: {error:#}", runs.row.name(), contestant.name()))
                }
            }
        }
        log.append(runs.row, &readings)?;
        for (own, reading) in runs.readings.iter_mut().zip(readings) {
            own.truncate(round);
            own.push(reading);
        }
        Ok(())
    }

    fn measure(&self, row: Row, contestant: Contestant) -> anyhow::Result<Reading> {
        let mut command =
            contestant.command(&self.end, self.files.of(row.place), row, f64::from(self.seconds));
        let before = Usage::now()?;
        let text = tools::printed(&mut command)?;
        let cpu = Usage::now()?.since(before).children - self.at_rest.of(contestant);
        let told = if contestant.is_linerate() { ours(&text)? } else { fios(&text)? };
        Ok(Reading {
            iops: told.transfers / told.lasted,
            p99_us: told.p99_ns / 1e3,
            iops_per_core: told.transfers / cpu,
            engine: told.engine,
        })
    }
}

/// CPU seconds of each program that makes next to no transfer: starting, reading the file's size,
/// printing.
#[derive(Default)]
struct AtRest(BTreeMap<bool, f64>);

impl AtRest {
    fn measure(bench: &Bench, row: Row) -> anyhow::Result<Self> {
        /// The least of several: noise only adds.
        const TRIES: usize = 3;
        /// Seconds of a run that makes next to no transfer.
        const SHORTEST: f64 = 0.001;
        let mut least = BTreeMap::new();
        for contestant in [row.contestants[0], Contestant::Fio("psync", &["--rate_iops=1"])] {
            for _ in 0..TRIES {
                let mut command =
                    contestant.command(&bench.end, bench.files.of(row.place), row, SHORTEST);
                let before = Usage::now()?;
                tools::printed(&mut command)?;
                let cpu = Usage::now()?.since(before).children;
                let known: &mut f64 = least.entry(contestant.is_linerate()).or_insert(cpu);
                *known = known.min(cpu);
            }
        }
        Ok(Self(least))
    }

    fn of(&self, contestant: Contestant) -> f64 {
        self.0.get(&contestant.is_linerate()).copied().unwrap_or(0.0)
    }
}

/// The files that are read; removed when dropped.
struct Files {
    on_disk: PathBuf,
    in_memory: PathBuf,
}

impl Files {
    fn make(rows: &[Row]) -> anyhow::Result<Self> {
        let name = format!("linerate-bench-storage-{}", std::process::id());
        let files = Self {
            on_disk: Path::new("/var/tmp").join(&name),
            in_memory: Path::new("/dev/shm").join(&name),
        };
        for path in [&files.on_disk, &files.in_memory] {
            if rows.iter().any(|row| files.of(row.place) == path) {
                scratch::fill(path, FILE_BYTES)?;
            }
        }
        Ok(files)
    }

    fn of(&self, place: FilePlace) -> &Path {
        match place {
            FilePlace::Disk | FilePlace::Cached => &self.on_disk,
            FilePlace::Memory => &self.in_memory,
        }
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        for file in [&self.on_disk, &self.in_memory] {
            // It may never have been made.
            let _ = std::fs::remove_file(file);
        }
    }
}

/// Figures that a program printed.
#[derive(Debug, PartialEq)]
struct RunReport {
    transfers: f64,
    /// Seconds.
    lasted: f64,
    p99_ns: f64,
    engine: Option<String>,
}

fn ours(text: &str) -> anyhow::Result<RunReport> {
    let line = outputs::example(text)?;
    Ok(RunReport {
        transfers: outputs::number(&line, "reads")?,
        lasted: outputs::number(&line, "span_ns")? / 1e9,
        p99_ns: outputs::number(&line, "p99_ns")?,
        engine: line["modes"]["engine"].as_str().map(str::to_owned),
    })
}

fn fios(text: &str) -> anyhow::Result<RunReport> {
    // fio may print notes before the document.
    let start = text.find('{').context("fio printed no JSON")?;
    let document: Value = serde_json::from_str(&text[start..]).context("read fio's JSON")?;
    let read = &document["jobs"][0]["read"];
    let number = |value: &Value| value.as_f64().with_context(|| format!("no figure in {read}"));
    Ok(RunReport {
        transfers: number(&read["total_ios"])?,
        lasted: number(&read["runtime"])? / 1e3,
        p99_ns: number(&read["lat_ns"]["percentile"]["99.000000"])?,
        engine: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_outputs_are_read() {
        let fio = "note: something\n{\"jobs\": [{\"read\": {\"total_ios\": 1000, \"runtime\": \
            2000, \"lat_ns\": {\"percentile\": {\"99.000000\": 5000}}}}]}";
        let told = RunReport { transfers: 1000.0, lasted: 2.0, p99_ns: 5000.0, engine: None };
        assert_eq!(fios(fio).expect("legal"), told);
        let own = "{\"reads\": 10, \"span_ns\": 5e8, \"p99_ns\": 70, \"modes\": {\"engine\": \
            \"aio\"}, \"incidents\": []}\n{}";
        let told =
            RunReport { transfers: 10.0, lasted: 0.5, p99_ns: 70.0, engine: Some("aio".into()) };
        assert_eq!(ours(own).expect("legal"), told);
        let bad = "{\"reads\": 10, \"span_ns\": 5e8, \"p99_ns\": 70, \"incidents\": [\"x\"]}";
        assert!(ours(bad).is_err() && fios("no").is_err());
    }

    #[test]
    fn rows_are_chosen_by_part_of_their_name_and_take_turns() {
        let chosen = |only: &[&str]| {
            chosen(
                rows(),
                &only.iter().map(|part| (*part).to_owned()).collect::<Vec<_>>(),
                Row::name,
            )
        };
        assert_eq!(chosen(&[]).expect("all").len(), rows().len());
        assert_eq!(chosen(&["disk, 4 KiB", "intervals"]).expect("four").len(), 4);
        let error = chosen(&["tape"]).expect_err("no such row").to_string();
        assert!(error.contains("disk, 4 KiB random read, depth 1"), "{error}");
        let mut runs: Vec<Runs> =
            chosen(&["disk, 4 KiB"]).expect("three").into_iter().map(Runs::none).collect();
        let mut turns = Vec::new();
        while let Some(next) = next(&mut runs, 2) {
            turns.push(next.row.depth);
            next.readings.iter_mut().for_each(|own| own.push(None));
        }
        assert_eq!(turns, [1, 16, 64, 1, 16, 64]);
    }
}
