//! `cargo xtask bench storage`: the `storage` workload against fio, on a file past the page cache and on a file in memory.
//!
//! Every round runs every contestant of every row once, in an order that rotates; ratios are taken within a round. Both read the same
//! file of random bytes, pinned to the same core, without fio's coverage map, with one thread. linerate is driven through its engine and
//! workload by the example `end` of `linerate-load`. CPU is user and system time of the process with all its kernel workers, from start to end.
//! What this does not see: writes, and a disk faster than this machine's.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail, ensure};
use serde_json::Value;

use super::own;
use super::processor::Usage;
use super::statistics::Median;
use crate::tools;

const USAGE: &str = "usage: cargo xtask bench storage [--rounds N] [--seconds N] [--only disk|memory] [--out FILE]";
/// Bytes of each file: more than a disk's own cache, less than anybody's memory.
const FILE_BYTES: u64 = 512 << 20;
/// The core both run on.
const CORE: &str = "1";
/// Rounds without `--rounds`: an interval of 95 % needs six.
const ROUNDS: usize = 6;

/// Where the file lies.
#[derive(Clone, Copy, PartialEq)]
enum Place {
    Disk,
    Memory,
}

/// What is read.
#[derive(Clone, Copy)]
struct Row {
    place: Place,
    block_kib: u32,
    is_random: bool,
    depth: u32,
    contestants: &'static [Contestant],
}

/// Who reads, and how.
#[derive(Clone, Copy, PartialEq)]
enum Contestant {
    /// linerate's own choice, or the engine named.
    Linerate(&'static str),
    /// fio's engine, and options beside it.
    Fio(&'static str, &'static [&'static str]),
}

const FIXED: &[&str] = &["--fixedbufs=1", "--registerfiles=1"];
const FIXED_IN_BATCHES: &[&str] =
    &["--fixedbufs=1", "--registerfiles=1", "--iodepth_batch_submit=16", "--iodepth_batch_complete_max=16"];
const AT_ONCE: &[Contestant] =
    &[Contestant::Linerate("auto"), Contestant::Fio("psync", &[]), Contestant::Fio("io_uring", FIXED)];
const QUEUED: &[Contestant] = &[
    Contestant::Linerate("auto"),
    Contestant::Fio("io_uring", &[]),
    Contestant::Fio("io_uring", FIXED),
    Contestant::Fio("io_uring", FIXED_IN_BATCHES),
    Contestant::Fio("libaio", &[]),
];

/// Every row.
fn rows() -> Vec<Row> {
    let row = |place, block_kib, is_random, depth| {
        let contestants = if depth == 1 { AT_ONCE } else { QUEUED };
        Row { place, block_kib, is_random, depth, contestants }
    };
    let mut rows = Vec::new();
    for place in [Place::Disk, Place::Memory] {
        rows.extend([1, 16, 64].map(|depth| row(place, 4, true, depth)));
        rows.extend([(64, 16), (1024, 16)].map(|(kib, depth)| row(place, kib, false, depth)));
    }
    rows
}

/// What one run came to.
#[derive(Clone, Copy, Debug)]
struct Reading {
    iops: f64,
    p99_us: f64,
    iops_per_core: f64,
}

/// One row's runs, by contestant and round.
struct Result {
    row: Row,
    readings: Vec<Vec<Option<Reading>>>,
}

/// Measures and prints the table.
pub(super) fn run(root: &Path, arguments: &[String]) -> anyhow::Result<()> {
    let options = options(arguments)?;
    let missing = tools::provide(tools::FOR_BENCH)?;
    ensure!(missing.is_empty(), "missing here: {}", missing.join("; "));
    let end = own::build(root, "linerate-load", &["--example", "end"])?;
    let wanted = |row: &Row| options.only.is_none_or(|only| only == row.place);
    let rows: Vec<Row> = rows().into_iter().filter(wanted).collect();
    let files = Files::make(&rows)?;
    let mut results: Vec<Result> =
        rows.into_iter().map(|row| Result { row, readings: vec![Vec::new(); row.contestants.len()] }).collect();
    let mut notes = Vec::new();
    for round in 0..options.rounds {
        for result in &mut results {
            eprintln!("round {} of {}: {}", round + 1, options.rounds, result.row.name());
            let n = result.row.contestants.len();
            for index in (0..n).map(|k| (k + round) % n) {
                let contestant = result.row.contestants[index];
                let reading = measure(&end, &files, result.row, contestant, options.seconds);
                if let Err(error) = &reading {
                    notes.push(format!("{}, {}: {error:#}", result.row.name(), contestant.name()));
                }
                result.readings[index].push(reading.ok());
            }
        }
        if let Some(file) = &options.out {
            std::fs::write(file, document(&results, &options, &notes))
                .with_context(|| format!("write {}", file.display()))?;
        }
    }
    println!("{}", document(&results, &options, &notes));
    Ok(())
}

struct Options {
    rounds: usize,
    seconds: u32,
    only: Option<Place>,
    out: Option<PathBuf>,
}

fn options(arguments: &[String]) -> anyhow::Result<Options> {
    let mut options = Options { rounds: ROUNDS, seconds: 2, only: None, out: None };
    let mut arguments = arguments.iter().map(String::as_str);
    while let Some(argument) = arguments.next() {
        let value = arguments.next().with_context(|| format!("{argument} needs a value\n{USAGE}"))?;
        let count = || {
            let count = value.parse::<u32>().ok().filter(|count| *count > 0);
            count.with_context(|| format!("{argument} {value}: not a count\n{USAGE}"))
        };
        match (argument, value) {
            ("--rounds", _) => options.rounds = count()? as usize,
            ("--seconds", _) => options.seconds = count()?,
            ("--only", "disk") => options.only = Some(Place::Disk),
            ("--only", "memory") => options.only = Some(Place::Memory),
            ("--out", file) => options.out = Some(file.into()),
            _ => bail!("{argument} {value}: unknown\n{USAGE}"),
        }
    }
    Ok(options)
}

/// The files that are read; removed when dropped.
struct Files(PathBuf, PathBuf);

impl Files {
    fn make(rows: &[Row]) -> anyhow::Result<Self> {
        let name = format!("linerate-bench-storage-{}", std::process::id());
        let files = Self(Path::new("/var/tmp").join(&name), Path::new("/dev/shm").join(&name));
        let mut state = 0x9E37_79B9_7F4A_7C15_u64;
        for place in [Place::Disk, Place::Memory] {
            if !rows.iter().any(|row| row.place == place) {
                continue;
            }
            let path = files.of(place);
            let mut file = std::fs::File::create_new(path).with_context(|| format!("make {}", path.display()))?;
            let mut chunk = vec![0_u8; 1 << 20];
            for _ in 0..FILE_BYTES >> 20 {
                for word in chunk.chunks_exact_mut(8) {
                    // Any bytes that no disk can compress will do (xorshift64).
                    state ^= state << 13;
                    state ^= state >> 7;
                    state ^= state << 17;
                    word.copy_from_slice(&state.to_le_bytes());
                }
                file.write_all(&chunk).with_context(|| format!("fill {}", path.display()))?;
            }
            file.sync_all().with_context(|| format!("sync {}", path.display()))?;
        }
        Ok(files)
    }

    fn of(&self, place: Place) -> &Path {
        if place == Place::Disk { &self.0 } else { &self.1 }
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        for file in [&self.0, &self.1] {
            // It may never have been made.
            let _ = std::fs::remove_file(file);
        }
    }
}

impl Row {
    fn name(&self) -> String {
        let place = if self.place == Place::Disk { "disk" } else { "memory" };
        let order = if self.is_random { "random" } else { "sequential" };
        format!("{place}, {} KiB {order} read, depth {}", self.block_kib, self.depth)
    }
}

impl Contestant {
    fn name(self) -> String {
        match self {
            Self::Linerate(engine) => format!("linerate ({engine})"),
            Self::Fio(engine, FIXED) => format!("fio {engine}, fixed"),
            Self::Fio(engine, FIXED_IN_BATCHES) => format!("fio {engine}, fixed, batches"),
            Self::Fio(engine, _) => format!("fio {engine}"),
        }
    }
}

fn measure(end: &Path, files: &Files, row: Row, contestant: Contestant, seconds: u32) -> anyhow::Result<Reading> {
    let file = files.of(row.place).display().to_string();
    let mut command = match contestant {
        Contestant::Linerate(engine) => {
            let mut command = Command::new(end);
            command.args(["storage", &format!("target={file}"), &format!("block_size={} KiB", row.block_kib)]);
            command.args([format!("random={} %", if row.is_random { 100 } else { 0 }), format!("depth={}", row.depth)]);
            command.args([format!("engine={engine}"), format!("seconds={seconds}"), format!("cpus={CORE},{CORE}")]);
            command
        }
        Contestant::Fio(engine, more) => {
            let mut command = Command::new("fio");
            let order = if row.is_random { "randread" } else { "read" };
            command.args(["--name=bench", "--direct=1", "--time_based", "--thread", "--norandommap", "--randrepeat=0"]);
            command.args(["--invalidate=0", "--output-format=json", "--lat_percentiles=1", "--clat_percentiles=0"]);
            command.args([format!("--filename={file}"), format!("--rw={order}"), format!("--bs={}k", row.block_kib)]);
            command.args([format!("--iodepth={}", row.depth), format!("--ioengine={engine}")]);
            command.args([format!("--runtime={seconds}"), format!("--cpus_allowed={CORE}")]).args(more);
            command
        }
    };
    let before = Usage::now()?;
    let output = command.output().with_context(|| format!("start {command:?}"))?;
    let cpu = Usage::now()?.since(before).children;
    ensure!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr).trim());
    let text = String::from_utf8_lossy(&output.stdout);
    let (transfers, lasted, p99_ns) = match contestant {
        Contestant::Linerate(_) => ours(&text)?,
        Contestant::Fio(..) => fios(&text)?,
    };
    Ok(Reading { iops: transfers / lasted, p99_us: p99_ns / 1e3, iops_per_core: transfers / cpu })
}

/// Transfers, seconds, p99 in nanoseconds.
fn ours(text: &str) -> anyhow::Result<(f64, f64, f64)> {
    let line: Value =
        serde_json::from_str(text.lines().next().unwrap_or_default()).context("read the example's line")?;
    ensure!(line["incidents"].as_array().is_some_and(Vec::is_empty), "incidents: {}", line["incidents"]);
    let number = |name: &str| line[name].as_f64().with_context(|| format!("no {name} in {line}"));
    Ok((number("reads")?, number("span_ns")? / 1e9, number("p99_ns")?))
}

/// Likewise.
fn fios(text: &str) -> anyhow::Result<(f64, f64, f64)> {
    // fio may print notes before the document.
    let start = text.find('{').context("fio printed no JSON")?;
    let document: Value = serde_json::from_str(&text[start..]).context("read fio's JSON")?;
    let read = &document["jobs"][0]["read"];
    let number = |value: &Value| value.as_f64().with_context(|| format!("no figure in {read}"));
    Ok((
        number(&read["total_ios"])?,
        number(&read["runtime"])? / 1e3,
        number(&read["lat_ns"]["percentile"]["99.000000"])?,
    ))
}

fn document(results: &[Result], options: &Options, notes: &[String]) -> String {
    let mut text = String::from(
        "| | contestant | IOPS | p99 | IOPS per busy core-second | IOPS, linerate over it | p99, linerate over it | per core, linerate over it |\n\
         |---|---|---|---|---|---|---|---|\n",
    );
    for Result { row, readings } in results {
        for (contestant, own) in row.contestants.iter().zip(readings) {
            let median = |of: &dyn Fn(&Reading) -> f64| {
                let values: Vec<f64> = own.iter().flatten().map(of).collect();
                Median::of(&values).map_or("-".to_owned(), |median| plain(median.value))
            };
            let ratio = |of: &dyn Fn(&Reading) -> f64| {
                if matches!(contestant, Contestant::Linerate(_)) {
                    return "-".to_owned();
                }
                let pairs = readings[0].iter().zip(own).filter_map(|(ours, theirs)| ours.as_ref().zip(theirs.as_ref()));
                let ratios: Vec<f64> = pairs.map(|(ours, theirs)| of(ours) / of(theirs)).collect();
                Median::of(&ratios).map_or("-".to_owned(), |ratio| {
                    format!("{:.3} [{:.3}, {:.3}] ({})", ratio.value, ratio.low, ratio.high, ratio.n)
                })
            };
            let (iops, p99, per_core) = (|r: &Reading| r.iops, |r: &Reading| r.p99_us, |r: &Reading| r.iops_per_core);
            // Writing to a String cannot fail.
            let _ = writeln!(
                text,
                "| {} | {} | {} | {} us | {} | {} | {} | {} |",
                row.name(),
                contestant.name(),
                median(&iops),
                median(&p99),
                median(&per_core),
                ratio(&iops),
                ratio(&p99),
                ratio(&per_core)
            );
        }
    }
    let _ = writeln!(
        text,
        "\nMedians of {} rounds of {} s; ratios within a round with order-statistic intervals. Files of {} MiB.",
        options.rounds,
        options.seconds,
        FILE_BYTES >> 20
    );
    for note in notes {
        let _ = writeln!(text, "- {note}");
    }
    text
}

/// Whole, with thin groups of digits; small ones with one place.
fn plain(value: f64) -> String {
    if value < 100.0 {
        return format!("{value:.1}");
    }
    let digits = format!("{value:.0}");
    let mut grouped = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push(' ');
        }
        grouped.push(digit);
    }
    grouped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_outputs_are_read() {
        let fio = "note: something\n{\"jobs\": [{\"read\": {\"total_ios\": 1000, \"runtime\": 2000, \"lat_ns\": {\"percentile\": \
                   {\"99.000000\": 5000}}}}]}";
        assert_eq!(fios(fio).expect("legal"), (1000.0, 2.0, 5000.0));
        let own = "{\"reads\": 10, \"span_ns\": 5e8, \"p99_ns\": 70, \"incidents\": []}\n{}";
        assert_eq!(ours(own).expect("legal"), (10.0, 0.5, 70.0));
        let bad = "{\"reads\": 10, \"span_ns\": 5e8, \"p99_ns\": 70, \"incidents\": [\"x\"]}";
        assert!(ours(bad).is_err() && fios("no").is_err());
    }

    #[test]
    fn figures_are_grouped() {
        assert_eq!([plain(1_234_567.4), plain(999.6), plain(71.25)], ["1 234 567", "1 000", "71.2"]);
    }
}
