//! `linerate disk run` and `disk sweep`: the `storage` workload without writing a plan.

use std::path::PathBuf;

use clap::Args;
use linerate_analysis::{JobStudy, Kind, Obtained, PointStudy, Reason, Study, study};
use linerate_campaign::catalog::PlanText;
use linerate_campaign::conduct::{self, Request};
use linerate_campaign::testbeds;
use linerate_control::Progress;
use linerate_model::plan::{Draft, DraftJob, DraftSweep};
use linerate_model::{Bytes, Campaign, Direction, Nanos, Validity, metric};
use linerate_report::document::{Block, Origin, Section, Table};
use linerate_report::{Document, obtained_text};
use serde_json::Value;

use crate::args::{Global, Saved};
use crate::exit::{Exit, Failure, Outcome};
use crate::show;

/// What to do to which disk or file.
#[derive(Debug, Args)]
pub(crate) struct LoadArgs {
    /// A block device, a file to be read, or a folder in which a scratch file without a name is
    /// made
    target: PathBuf,
    /// Bytes of a transfer, with k, M or G for 1024, 1024^2, 1024^3
    #[arg(long, default_value = "4k", value_delimiter = ',')]
    bs: Vec<String>,
    /// Per cent of reads; the others are writes
    #[arg(long, visible_alias = "mix", default_value = "100", value_delimiter = ',')]
    read: Vec<f64>,
    /// Per cent of transfers to random places
    #[arg(long, default_value = "100", value_delimiter = ',')]
    random: Vec<f64>,
    /// Transfers under way per worker [with sweep: also FIRST..LASTxFACTOR or FIRST..LAST+STEP]
    #[arg(long, default_value = "32", value_delimiter = ',')]
    qd: Vec<String>,
    /// Threads, each with a queue of its own
    #[arg(long, default_value_t = 1)]
    workers: u32,
    /// Seconds of each measurement
    #[arg(long, short = 't', default_value_t = 10.0)]
    seconds: f64,
    /// Seconds of load before each measurement
    #[arg(long, default_value_t = 1.0)]
    ramp: f64,
    /// How often each point is measured
    #[arg(long)]
    repeats: Option<u32>,
    /// Size of the scratch file, if the target is a folder
    #[arg(long)]
    size: Option<String>,
    /// Lines of an access specification, in place of --bs, --read and --random (see linerate list
    /// workloads)
    #[arg(long, conflicts_with_all = ["bs", "read", "random"])]
    access: Option<String>,
    /// Start so many transfers per second, all workers together, whatever the disk does [with
    /// sweep: a list makes a load curve]
    #[arg(long, value_name = "IOPS", value_delimiter = ',')]
    rate: Vec<f64>,
    /// Bytes of a transfer in the other direction that follows each one, as Iometer's reply
    #[arg(long, conflicts_with = "access")]
    reply: Option<String>,
    /// Write the target over so often first, in sequence by 128 KiB: twice is customary for
    /// solid-state disks
    #[arg(long, default_value_t = 0)]
    condition: u32,
    /// The engine: auto, io_uring, io_uring_polling, io_uring_thread, aio, threads or pread
    #[arg(long, default_value = "auto")]
    engine: String,
    /// Through the page cache
    #[arg(long)]
    buffered: bool,
    /// When a write ends: none (the device has it), dsync (its data is durable, O_DSYNC) or sync
    /// (all metadata too, O_SYNC)
    #[arg(long, value_parser = ["none", "dsync", "sync"])]
    sync: Option<String>,
    /// Flush after writes, timed apart: none, fsync or fdatasync
    #[arg(long, value_parser = ["none", "fsync", "fdatasync"])]
    flush: Option<String>,
    /// Writes of a worker from one flush to the next
    #[arg(long, value_name = "WRITES", default_value_t = 1, requires = "flush")]
    flush_every: u32,
    /// Per cent of operations that discard (BLKDISCARD, or a hole punched in a file), timed apart
    #[arg(long, value_name = "PER CENT", default_value_t = 0.0)]
    trim: f64,
    /// Check what is read against what was written
    #[arg(long)]
    verify: bool,
    /// Serial number with which the device was claimed: without it nothing is written to a device
    #[arg(long, value_name = "SERIAL")]
    consent: Option<String>,
    /// Budget of bytes written
    #[arg(long)]
    max_written: Option<String>,
    /// Keep what was measured in this ledger
    #[arg(long)]
    ledger: Option<PathBuf>,
    /// Print the plan that this amounts to, and run nothing
    #[arg(long)]
    plan: bool,
    #[command(flatten)]
    saved: Saved,
}

/// How long transfers under way at the end of a measurement may take.
const DRAIN: Nanos = Nanos::from_secs(2);
/// Repeats of a sweep's points, unless told otherwise: an interval needs three.
const SWEEP_REPEATS: u32 = 3;

/// Measures one point.
pub(super) fn run(args: &LoadArgs, global: Global) -> Outcome {
    let lists = [
        ("--bs", args.bs.len()),
        ("--read", args.read.len()),
        ("--random", args.random.len()),
        ("--rate", args.rate.len()),
    ];
    for (option, given) in lists {
        if given > 1 {
            return Err(Failure::wrong(format!(
                "disk run: {option} takes one value (lists are for disk sweep)"
            )));
        }
    }
    let depths = depths(&args.qd)?;
    if depths.len() > 1 {
        return Err(Failure::wrong("disk run: --qd takes one value (lists are for disk sweep)"));
    }
    measure(args, &depths, args.repeats.unwrap_or(1), global)
}

/// Measures every combination.
pub(super) fn sweep(args: &LoadArgs, global: Global) -> Outcome {
    measure(args, &depths(&args.qd)?, args.repeats.unwrap_or(SWEEP_REPEATS), global)
}

fn measure(args: &LoadArgs, depths: &[u32], repeats: u32, global: Global) -> Outcome {
    let draft = draft(args, depths, repeats)?;
    if args.plan {
        print!("{}", draft.text());
        return Ok(Exit::Done);
    }
    let (found, plan) = PlanText::drafted("disk", &draft)?;
    let scratch = tempfile::tempdir()
        .map_err(|error| Failure::missing(format!("make a folder for the ledger: {error}")))?;
    let ledger = args.ledger.clone().unwrap_or_else(|| scratch.path().join("disk.ledger"));
    let ground = testbeds::loopback(false);
    let request =
        Request { found: &found, plan: &plan, ground: &ground, ledger: &ledger, resume: false };
    let (campaign, summary) = conduct::conduct(&request, &mut |event| {
        if let Progress::Incident { incident, .. } = event
            && !global.quiet
        {
            eprintln!("{}", incident.message);
        }
    })?;
    let study = study(&campaign);
    crate::reports::measured(
        &document(&campaign, &study, repeats),
        &campaign,
        &study,
        &args.saved,
        global,
    )?;
    crate::reports::end(&campaign, &study, &summary, global)
}

/// The plan these options amount to: it is recorded, so that the measurement can be repeated.
fn draft(args: &LoadArgs, depths: &[u32], repeats: u32) -> Result<Draft, Failure> {
    let target = std::fs::canonicalize(&args.target).map_err(|error| {
        Failure::missing(format!("disk: find {}: {error}", args.target.display()))
    })?;
    let target = target.to_str().ok_or_else(|| {
        Failure::wrong(format!(
            "disk: {} has a name that is not UTF-8: no plan can name it",
            target.display()
        ))
    })?;
    let cache = if args.buffered { "buffered" } else { "direct" };
    let mut params: Vec<(&str, Value)> = vec![
        ("target", target.into()),
        ("workers", args.workers.into()),
        ("engine", args.engine.as_str().into()),
        ("cache", cache.into()),
        ("verify", args.verify.into()),
    ];
    for (name, given) in [("size", &args.size), ("max_written", &args.max_written)] {
        if let Some(text) = given {
            params.push((name, size(&format!("--{}", name.replace('_', "-")), text)?.into()));
        }
    }
    let words = [("consent", &args.consent), ("sync", &args.sync), ("flush", &args.flush)];
    params.extend(
        words.into_iter().filter_map(|(name, given)| Some((name, given.as_deref()?.into()))),
    );
    if let Some(text) = &args.reply {
        params.push(("reply", size("--reply", text)?.into()));
    }
    if args.flush_every != 1 {
        params.push(("flush_every", args.flush_every.into()));
    }
    if args.trim != 0.0 {
        params.push(("trim", format!("{} %", args.trim).into()));
    }
    if args.condition > 0 {
        params.push(("condition", args.condition.into()));
    }
    let sizes = args
        .bs
        .iter()
        .map(|text| Ok(size("--bs", text)?.into()))
        .collect::<Result<Vec<Value>, Failure>>()?;
    let shares = |values: &[f64]| {
        values.iter().map(|value| format!("{value} %").into()).collect::<Vec<Value>>()
    };
    let mut axes: Vec<(&str, Vec<Value>)> = vec![
        ("depth", depths.iter().map(|depth| Value::from(*depth)).collect()),
        ("rate", args.rate.iter().map(|rate| format!("{rate} pps").into()).collect()),
    ];
    match &args.access {
        Some(lines) => params.push(("access", lines.as_str().into())),
        None => axes.extend([
            ("block_size", sizes),
            ("read", shares(&args.read)),
            ("random", shares(&args.random)),
        ]),
    }
    let (swept, fixed): (Vec<_>, Vec<_>) =
        axes.into_iter().partition(|(_, values)| values.len() > 1);
    params.extend(
        fixed.into_iter().filter_map(|(name, values)| Some((name, values.into_iter().next()?))),
    );
    let (duration, ramp) = (Nanos::from_secs_f64(args.seconds), Nanos::from_secs_f64(args.ramp));
    let sweep = DraftSweep {
        drain: Some(DRAIN),
        rest: Some(Nanos(0)),
        axes: swept.into_iter().map(|(name, values)| (format!("params.{name}"), values)).collect(),
        ..DraftSweep::one("disk", duration, ramp, DraftJob::new("storage", "a", "b").with(params))
    };
    Ok(Draft::new("disk", repeats, vec![sweep]))
}

/// A size with fio's letters, or one of linerate's own.
fn size(option: &str, text: &str) -> Result<String, Failure> {
    if let Ok(bytes) = text.parse::<Bytes>() {
        return Ok(bytes.to_string());
    }
    let (number, power) = match text.as_bytes().last().map(u8::to_ascii_lowercase) {
        Some(b'k') => (&text[..text.len() - 1], 1),
        Some(b'm') => (&text[..text.len() - 1], 2),
        Some(b'g') => (&text[..text.len() - 1], 3),
        Some(b't') => (&text[..text.len() - 1], 4),
        _ => (text, 0),
    };
    let bytes =
        number.parse::<u64>().ok().and_then(|number| number.checked_mul(1024_u64.pow(power)));
    bytes.map(|bytes| Bytes(bytes).to_string()).ok_or_else(|| {
        Failure::wrong(format!(
            "disk {option} {text}: not a size (bytes, with k, M, G or T for powers of 1024, or \
                such as 4KiB)"
        ))
    })
}

/// `4`, `1..256x2` (times two), `1..8+1` (plus one).
fn depths(texts: &[String]) -> Result<Vec<u32>, Failure> {
    let mut depths = Vec::new();
    for text in texts {
        let wrong = || {
            Failure::wrong(format!(
                "disk --qd {text}: not a depth (a number, FIRST..LASTxFACTOR or FIRST..LAST+STEP)"
            ))
        };
        let number = |text: &str| text.parse::<u32>().ok().filter(|number| *number > 0);
        let Some((first, rest)) = text.split_once("..") else {
            depths.push(number(text).ok_or_else(wrong)?);
            continue;
        };
        let (last, step, is_factor) = match (rest.split_once('x'), rest.split_once('+')) {
            (Some((last, factor)), _) => (last, number(factor).filter(|factor| *factor > 1), true),
            (None, Some((last, step))) => (last, number(step), false),
            (None, None) => (rest, Some(1), false),
        };
        let (Some(first), Some(last), Some(step)) = (number(first), number(last), step) else {
            return Err(wrong());
        };
        let next =
            |depth: &u32| if is_factor { depth.checked_mul(step) } else { depth.checked_add(step) };
        depths.extend(std::iter::successors(Some(first), next).take_while(|depth| *depth <= last));
    }
    Ok(depths)
}

/// Columns: heading, metric, direction.
const COLUMNS: [(&str, &str, Direction); 24] = [
    ("read IOPS", metric::IOPS, Direction::Rx),
    ("write IOPS", metric::IOPS, Direction::Tx),
    ("read", metric::TRANSFER_RATE, Direction::Rx),
    ("read (binary)", metric::TRANSFER_RATE_BINARY, Direction::Rx),
    ("write", metric::TRANSFER_RATE, Direction::Tx),
    ("write (binary)", metric::TRANSFER_RATE_BINARY, Direction::Tx),
    ("mean", metric::SERVICE_TIME_MEAN, Direction::Sum),
    ("p50", metric::SERVICE_TIME_P50, Direction::Sum),
    ("p99", metric::SERVICE_TIME_P99, Direction::Sum),
    ("p99.9", metric::SERVICE_TIME_P999, Direction::Sum),
    ("max", metric::SERVICE_TIME_MAX, Direction::Sum),
    ("read p99", metric::SERVICE_TIME_P99, Direction::Rx),
    ("write p99", metric::SERVICE_TIME_P99, Direction::Tx),
    ("flushes", metric::FLUSH_RATE, Direction::Sum),
    ("flush p50", metric::FLUSH_TIME_P50, Direction::Sum),
    ("flush p99", metric::FLUSH_TIME_P99, Direction::Sum),
    ("trims", metric::TRIM_RATE, Direction::Sum),
    ("trim p50", metric::TRIM_TIME_P50, Direction::Sum),
    ("trim p99", metric::TRIM_TIME_P99, Direction::Sum),
    ("with replies", metric::EXCHANGE_RATE, Direction::Sum),
    ("CPU effectiveness", metric::CPU_EFFECTIVENESS, Direction::Sum),
    ("response p99", metric::RESPONSE_TIME_P99, Direction::Sum),
    ("depth", metric::ACHIEVED_DEPTH, Direction::Sum),
    ("IOPS per core", metric::IOPS_PER_CORE, Direction::Sum),
];

/// The answer: a row for each point, then what all of them say of themselves.
fn document(campaign: &Campaign, study: &Study, repeats: u32) -> Document {
    let has = |(_, metric, direction): &(&str, &str, Direction)| {
        study.points.iter().filter_map(job).any(|job| value(job, metric, *direction).is_some())
    };
    let columns: Vec<_> = COLUMNS.iter().filter(|column| has(column)).collect();
    let axes: Vec<&String> =
        study.points.first().map(|point| point.parameters.keys().collect()).unwrap_or_default();
    let head: Vec<String> = axes
        .iter()
        .map(|axis| axis.trim_start_matches("params.").replace('_', " "))
        .chain(columns.iter().map(|(heading, ..)| (*heading).to_owned()))
        .chain(["validity".to_owned()])
        .collect();
    let row = |point: &PointStudy| {
        let place =
            axes.iter().map(|axis| point.parameters.get(*axis).map_or_else(String::new, plain));
        let cell = |(_, metric, direction): &&(&str, &str, Direction)| {
            job(point).and_then(|job| value(job, metric, *direction)).unwrap_or_else(|| "-".into())
        };
        place
            .chain(columns.iter().map(cell))
            .chain([point.validity.word().to_owned()])
            .collect::<Vec<_>>()
    };
    let rows: Vec<Vec<String>> = study.points.iter().map(row).collect();
    let mut blocks = Vec::new();
    if !columns.is_empty() {
        let of = if repeats > 1 { "over runs" } else { "by the ranks of the run's transfers" };
        let caption = format!(
            "n = {repeats} a point; medians; times from start to completion; [interval] of a \
                percentile {of}"
        );
        blocks.push(Block::Table(Table::of_words("transfers", caption, &head, &rows)));
    }
    const TOLD: [&str; 9] = [
        "engine",
        "engine_why",
        "cache",
        "durability",
        "contents",
        "conditioning",
        "steady_state",
        "steady_rounds",
        "device",
    ];
    let told = TOLD.iter().flat_map(|name| {
        said(study, name).into_iter().map(|told| format!("{}: {told}", name.replace('_', " ")))
    });
    let lines: Vec<String> = told.chain(reasons(study)).collect();
    if !lines.is_empty() {
        blocks.push(Block::List(lines));
    }
    let section = Section { id: "answer", title: "Transfers", blocks };
    let origin = Origin::Measured(campaign.header.testbed);
    Document::answer(
        "Storage load",
        "what one disk or file did",
        origin,
        vec![section],
        serde_json::Value::Null,
    )
}

/// What the points say of `name`, each saying once and with how many points say so, unless all do.
fn said(study: &Study, name: &str) -> Vec<String> {
    let mut said: Vec<(&Obtained, usize)> = Vec::new();
    for told in study.points.iter().filter_map(|point| job(point)?.obtained.get(name)) {
        match said.iter_mut().find(|(known, _)| *known == told) {
            Some((_, points)) => *points += 1,
            None => said.push((told, 1)),
        }
    }
    let tell = |(told, points): (&Obtained, usize)| match study.points.len() {
        all if points == all => obtained_text(told),
        all => format!("{} ({points} of {all} points)", obtained_text(told)),
    };
    said.into_iter().map(tell).collect()
}

/// Why points are not valid: reasons that differ in their numbers only are one, told as it was met
/// first, with how often it was met.
fn reasons(study: &Study) -> Vec<String> {
    let mut reasons: Vec<(Validity, Kind, &Reason, usize)> = Vec::new();
    for (validity, why) in
        study.points.iter().flat_map(|point| point.why.iter().map(move |why| (point.validity, why)))
    {
        let kind = why.kind();
        match reasons.iter_mut().find(|(known, of, ..)| *known == validity && *of == kind) {
            Some((.., times)) => *times += 1,
            None => reasons.push((validity, kind, why, 1)),
        }
    }
    let tell = |(validity, _, why, times): (Validity, Kind, &Reason, usize)| match times {
        1 => format!("{}: {why}", validity.word()),
        times => format!("{}: {why} (so or with other figures {times} times)", validity.word()),
    };
    reasons.into_iter().map(tell).collect()
}

fn job(point: &PointStudy) -> Option<&JobStudy> {
    point.jobs.iter().find(|job| job.workload == "storage")
}

fn value(job: &JobStudy, metric: &str, direction: Direction) -> Option<String> {
    let found = job.metrics.iter().find(|one| one.name == metric && one.direction == direction)?;
    let interval = show::interval_of_percentile(job, found);
    Some(show::quantity(metric, found.estimate?.value, found.unit) + &interval)
}

fn plain(value: &serde_json::Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(texts: &[&str]) -> Option<Vec<u32>> {
        depths(&texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>()).ok()
    }

    #[test]
    fn depths_are_numbers_and_ranges() {
        assert_eq!(of(&["1", "16"]), Some(vec![1, 16]));
        assert_eq!(of(&["1..256x4"]), Some(vec![1, 4, 16, 64, 256]));
        assert_eq!(of(&["2..9+3"]), Some(vec![2, 5, 8]));
        assert_eq!(of(&["1..3"]), Some(vec![1, 2, 3]));
        for wrong in ["0", "x", "1..8x1", "1..8+0", "8..", ""] {
            assert_eq!(of(&[wrong]), None, "{wrong}");
        }
    }

    #[test]
    fn sizes_have_fios_letters_or_units() {
        assert_eq!(size("--bs", "4k").ok().as_deref(), Some("4 KiB"));
        assert_eq!(size("--bs", "1M").ok().as_deref(), Some("1 MiB"));
        assert_eq!(size("--bs", "64KiB").ok().as_deref(), Some("64 KiB"));
        assert_eq!(size("--bs", "512").ok().as_deref(), Some("512 B"));
        assert!(size("--bs", "4q").is_err());
    }
}
