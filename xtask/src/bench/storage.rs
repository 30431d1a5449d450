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
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use serde_json::Value;

use super::processor::Usage;
use super::{count, own};
use crate::tools;
use document::document;
use readings::{Log, Reading, Runs};
use rows::{Contestant, FilePlace, Row, rows};

const USAGE: &str = "usage: cargo xtask bench storage [--rounds N] [--seconds N] [--only PART OF A \
    ROW'S NAME]... [--within SECONDS] [--log FILE] [--out FILE] [--end PROGRAM]";
/// Bytes of each file: more than a disk's own cache, less than anybody's memory.
const FILE_BYTES: u64 = 512 << 20;
/// Rounds without `--rounds`: an interval of 95 % needs six.
const ROUNDS: usize = 6;
/// Time of a run beside its load: starting, reading the file's size, printing.
const BESIDE: Duration = Duration::from_millis(800);

/// Measures and prints the tables.
pub(super) fn run(root: &Path, arguments: &[String]) -> anyhow::Result<bool> {
    let began = Instant::now();
    let options = options(arguments)?;
    let missing = tools::provide(tools::FOR_BENCH)?;
    ensure!(missing.is_empty(), "missing here: {}", missing.join("; "));
    let end = match &options.end {
        Some(program) => program.clone(),
        None => own::build(root, "linerate-load", &["--example", "end"])?,
    };
    let mut runs: Vec<Runs> = options.rows()?.into_iter().map(Runs::none).collect();
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
            if options.within.is_some_and(|within| began.elapsed() + takes > within) {
                eprintln!("time is up: {} is next", next.row.name());
                break;
            }
            bench.round(next, &mut log, &mut notes)?;
            if let Some(file) = &options.out {
                std::fs::write(file, document(&runs, options.seconds, &notes))
                    .with_context(|| format!("write {}", file.display()))?;
            }
        }
    }
    let document = document(&runs, options.seconds, &notes);
    if let Some(file) = &options.out {
        std::fs::write(file, &document).with_context(|| format!("write {}", file.display()))?;
    }
    println!("{document}");
    Ok(true)
}

/// The row that has had the fewest rounds, the first of them, unless all have had `rounds`.
fn next(runs: &mut [Runs], rounds: usize) -> Option<&mut Runs> {
    runs.iter_mut().filter(|runs| runs.rounds() < rounds).min_by_key(|runs| runs.rounds())
}

#[derive(Debug)]
struct Options {
    rounds: usize,
    seconds: u32,
    /// Parts of rows' names; all rows if there are none.
    only: Vec<String>,
    within: Option<Duration>,
    log: Option<PathBuf>,
    out: Option<PathBuf>,
    end: Option<PathBuf>,
}

impl Options {
    fn rows(&self) -> anyhow::Result<Vec<Row>> {
        let wanted = |row: &Row| {
            self.only.is_empty() || self.only.iter().any(|part| row.name().contains(part.as_str()))
        };
        let chosen: Vec<Row> = rows().into_iter().filter(wanted).collect();
        let names = || rows().iter().map(Row::name).collect::<Vec<_>>().join("\n  ");
        ensure!(
            !chosen.is_empty(),
            "--only {}: no row has that in its name:\n  {}",
            self.only.join(" --only "),
            names()
        );
        Ok(chosen)
    }
}

fn options(arguments: &[String]) -> anyhow::Result<Options> {
    let mut options = Options {
        rounds: ROUNDS,
        seconds: 2,
        only: Vec::new(),
        within: None,
        log: None,
        out: None,
        end: None,
    };
    let mut arguments = arguments.iter().map(String::as_str);
    while let Some(argument) = arguments.next() {
        let value =
            arguments.next().with_context(|| format!("{argument} needs a value\n{USAGE}"))?;
        let count = || count(argument, value, USAGE);
        match argument {
            "--rounds" => options.rounds = count()? as usize,
            "--seconds" => options.seconds = count()?,
            "--within" => options.within = Some(Duration::from_secs(count()?.into())),
            "--only" => options.only.push(value.to_owned()),
            "--log" => options.log = Some(value.into()),
            "--out" => options.out = Some(value.into()),
            "--end" => options.end = Some(value.into()),
            _ => bail!("{argument} {value}: unknown\n{USAGE}"),
        }
    }
    Ok(options)
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
                fill(path)?;
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

/// Makes a file of bytes that no disk can compress (xorshift64). What is written is in the page
/// cache then, too.
fn fill(path: &Path) -> anyhow::Result<()> {
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let mut file =
        std::fs::File::create_new(path).with_context(|| format!("make {}", path.display()))?;
    let mut chunk = vec![0_u8; 1 << 20];
    for _ in 0..FILE_BYTES >> 20 {
        for word in chunk.chunks_exact_mut(8) {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            word.copy_from_slice(&state.to_le_bytes());
        }
        file.write_all(&chunk).with_context(|| format!("fill {}", path.display()))?;
    }
    file.sync_all().with_context(|| format!("sync {}", path.display()))
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
    let line: Value = serde_json::from_str(text.lines().next().unwrap_or_default())
        .context("read the example's line")?;
    ensure!(
        line["incidents"].as_array().is_some_and(Vec::is_empty),
        "incidents: {}",
        line["incidents"]
    );
    let number = |name: &str| line[name].as_f64().with_context(|| format!("no {name} in {line}"));
    Ok(RunReport {
        transfers: number("reads")?,
        lasted: number("span_ns")? / 1e9,
        p99_ns: number("p99_ns")?,
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
            let arguments: Vec<String> =
                only.iter().flat_map(|part| ["--only".to_owned(), (*part).to_owned()]).collect();
            options(&arguments).expect("legal").rows()
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
