//! `linerate disk run` and `disk sweep`: the `storage` workload without writing a plan.

use std::path::PathBuf;

use clap::Args;
use linerate_analysis::study;
use linerate_answers::storage;
use linerate_campaign::{letters, testbeds};
use linerate_control::Progress;
use linerate_model::Nanos;
use linerate_model::plan::{Draft, DraftJob, DraftSweep};
use serde_json::Value;

use crate::args::{Global, Saved};
use crate::commands::measure::{self, size};
use crate::exit::{Exit, Failure, Outcome};
use crate::{progress, reports};

/// Load on a disk or file.
#[derive(Debug, Args)]
pub(crate) struct LoadArgs {
    /// Block device, file to read, or folder for an unnamed scratch file
    target: PathBuf,
    /// Block size in bytes; k, M, G are 1024, 1024^2, 1024^3
    #[arg(long, default_value = "4k", value_delimiter = ',')]
    bs: Vec<String>,
    /// Share of reads, in per cent; the rest are writes
    #[arg(long, visible_alias = "mix", default_value = "100", value_delimiter = ',')]
    read: Vec<f64>,
    /// Share of random accesses, in per cent
    #[arg(long, default_value = "100", value_delimiter = ',')]
    random: Vec<f64>,
    /// Queue depth: transfers in flight per worker [with sweep: also FIRST..LASTxFACTOR or
    /// FIRST..LAST+STEP]
    #[arg(long, default_value = "32", value_delimiter = ',')]
    qd: Vec<String>,
    /// Number of threads, each with its own queue
    #[arg(long, default_value_t = 1)]
    workers: u32,
    /// Length of each measurement, in seconds
    #[arg(long, short = 't', default_value_t = 10.0)]
    seconds: f64,
    /// Warm-up before each measurement, in seconds
    #[arg(long, default_value_t = 1.0)]
    ramp: f64,
    /// Number of runs of each point [default: 1; with sweep 3]
    #[arg(long)]
    repeats: Option<u32>,
    /// Size of the scratch file, if the target is a folder
    #[arg(long)]
    size: Option<String>,
    /// Access specification, instead of --bs, --read and --random (see `linerate list workloads`)
    #[arg(long, conflicts_with_all = ["bs", "read", "random"])]
    access: Option<String>,
    /// Offered load: transfers per second of all workers, started whether or not earlier ones have
    /// ended [with sweep: a list gives a load curve]
    #[arg(long, value_name = "IOPS", value_delimiter = ',')]
    rate: Vec<f64>,
    /// Size of a transfer in the other direction after each one, as Iometer's reply
    #[arg(long, conflicts_with = "access")]
    reply: Option<String>,
    /// Overwrite the target this many times first, sequentially by 128 KiB: twice is usual for
    /// solid-state disks
    #[arg(long, default_value_t = 0)]
    condition: u32,
    /// I/O engine: auto, io_uring, io_uring_polling, io_uring_thread, aio, threads or pread
    #[arg(long, default_value = "auto")]
    engine: String,
    /// Use the page cache
    #[arg(long)]
    buffered: bool,
    /// End of a write: none (the device has it), dsync (its data is durable, O_DSYNC) or sync (its
    /// metadata too, O_SYNC)
    #[arg(long, value_parser = ["none", "dsync", "sync"])]
    sync: Option<String>,
    /// Flush after writes, timed separately: none, fsync or fdatasync
    #[arg(long, value_parser = ["none", "fsync", "fdatasync"])]
    flush: Option<String>,
    /// Number of writes of a worker between two flushes
    #[arg(long, value_name = "WRITES", default_value_t = 1, requires = "flush")]
    flush_every: u32,
    /// Share of discards, in per cent (BLKDISCARD, or a hole punched in a file), timed separately
    #[arg(long, value_name = "PER CENT", default_value_t = 0.0)]
    trim: f64,
    /// Verify that data read is the data written
    #[arg(long)]
    verify: bool,
    /// Serial number of the claimed device: consent to write to it
    #[arg(long, value_name = "SERIAL")]
    consent: Option<String>,
    /// Most bytes to write
    #[arg(long)]
    max_written: Option<String>,
    /// Keep the results in this ledger
    #[arg(long)]
    ledger: Option<PathBuf>,
    /// Print the equivalent plan, and run nothing
    #[arg(long)]
    plan: bool,
    #[command(flatten)]
    saved: Saved,
}

/// Time that transfers in flight at the end of a measurement may take.
const DRAIN: Nanos = Nanos::from_secs(2);
/// Default repeats of a sweep's points: an interval needs three.
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
    let ground = testbeds::loopback(false);
    let watch = &mut |event: Progress<'_>| progress::incident(&event, global);
    let (campaign, summary) =
        measure::drafted("disk", &draft, &ground, (args.ledger.as_deref(), &[]), watch)?;
    let study = study(&campaign);
    let answer = storage::document(&campaign, &study, repeats);
    reports::measured(&answer, &campaign, &study, &args.saved, global)?;
    reports::end(&campaign, &study, &summary, global)
}

/// Returns the plan of these options. It is recorded, so that the measurement can be repeated.
fn draft(args: &LoadArgs, depths: &[u32], repeats: u32) -> Result<Draft, Failure> {
    let target = std::fs::canonicalize(&args.target).map_err(|error| {
        Failure::missing(format!("disk: find {}: {error}", args.target.display()))
    })?;
    let target = target.to_str().ok_or_else(|| {
        Failure::wrong(format!(
            "disk: the name {} is not UTF-8, so no plan can contain it",
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
            let option = format!("disk --{}", name.replace('_', "-"));
            params.push((name, size(&option, text)?.to_string().into()));
        }
    }
    let words = [("consent", &args.consent), ("sync", &args.sync), ("flush", &args.flush)];
    params.extend(
        words.into_iter().filter_map(|(name, given)| Some((name, given.as_deref()?.into()))),
    );
    if let Some(text) = &args.reply {
        params.push(("reply", size("disk --reply", text)?.to_string().into()));
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
        .map(|text| Ok(size("disk --bs", text)?.to_string().into()))
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

/// Reads the depths that a person gave as `--qd`.
fn depths(texts: &[String]) -> Result<Vec<u32>, Failure> {
    let read = |text: &String| {
        letters::depths(text).ok_or_else(|| {
            Failure::wrong(format!(
                "disk --qd {text}: not a queue depth (expected a number, FIRST..LASTxFACTOR or \
                    FIRST..LAST+STEP)"
            ))
        })
    };
    Ok(texts.iter().map(read).collect::<Result<Vec<_>, _>>()?.concat())
}
