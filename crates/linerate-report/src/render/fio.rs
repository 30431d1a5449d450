//! The shape of fio's `--output-format=json+`, for scripts that plot it: one entry of `jobs` for
//! each storage job at each point.
//!
//! Samples of `bw_*` and `iops_*` are the runs of the point. What linerate does not count (`ctx`,
//! faults, submission apart) is 0, as it is in fio where it was not asked for.

use linerate_model::metric;
use serde_json::{Map, Value, json};

use super::storage::{self, StorageJob, between, count, moments, quantile};

/// fio's `percentile_list` by default, per cent.
const PERCENTILES: [f64; 17] = [
    1.0, 5.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0, 95.0, 99.0, 99.5, 99.9, 99.95,
    99.99,
];
/// Upper ends of `latency_ns`, `latency_us` and `latency_ms`, in their unit.
const LATENCIES: [u64; 10] = [2, 4, 10, 20, 50, 100, 250, 500, 750, 1000];
/// Upper ends of `iodepth_level`, whose last is open.
const DEPTHS: [&str; 7] = ["1", "2", "4", "8", "16", "32", ">=64"];
const MILLIS: f64 = 1e3;
/// The third direction, which moves nothing.
const TRIM: &str = "trim";

/// The document's study as fio would have written it.
pub(super) fn render(study: &Value) -> Value {
    let started = study["campaign"]["started"].as_str().unwrap_or_default();
    let jobs: Vec<Value> =
        storage::jobs(study).iter().enumerate().map(|(group, one)| job(group, one)).collect();
    json!({
        "fio version": format!("linerate-{}", study["linerate"].as_str().unwrap_or_default()),
        // No wall clock is read here: the same study gives the same text.
        "timestamp": 0,
        "timestamp_ms": 0,
        "time": started,
        "global options": {},
        "jobs": jobs,
        "disk_util": [],
    })
}

fn job(group: usize, one: &StorageJob<'_>) -> Value {
    let depth: u64 = one.parameter_or("depth", storage::DEPTH).parse().unwrap_or(1);
    // Levels are powers of two, and the last one is open.
    let level = if depth >= 64 { DEPTHS.len() - 1 } else { depth.max(1).ilog2() as usize };
    let cpu = |metric| one.figure(metric, "sum") * 100.0;
    json!({
        "jobname": one.name(),
        "groupid": group,
        "error": 0,
        "eta": 0,
        "elapsed": one.seconds().round() as u64,
        "job options": options(one),
        "read": direction(one, "rx"),
        "write": direction(one, "tx"),
        "trim": direction(one, TRIM),
        "sync": { "total_ios": one.counted(None).flushes, "lat_ns": times(&one.flushes) },
        "job_runtime": (one.seconds() * MILLIS).round() as u64,
        "usr_cpu": cpu(metric::CPU_APP),
        "sys_cpu": cpu(metric::CPU_KERNEL),
        // Context switches and page faults are not counted, and readers of fio expect the keys.
        "ctx": 0,
        "majf": 0,
        "minf": 0,
        "iodepth_level": levels(level),
        "iodepth_submit": submitted(),
        "iodepth_complete": submitted(),
        "latency_ns": latencies(one, 1, false),
        "latency_us": latencies(one, 1_000, false),
        "latency_ms": latencies(one, 1_000_000, true),
        "latency_depth": depth,
        "latency_target": 0,
        "latency_percentile": 100.0,
        "latency_window": 0,
    })
}

/// Returns fio's shares of the time at each queue depth: all of it at the level `at`.
fn levels(at: usize) -> Map<String, Value> {
    let share = |place| json!(if place == at { 100.0 } else { 0.0 });
    let levels = DEPTHS.iter().enumerate();
    levels.map(|(place, name)| ((*name).to_owned(), share(place))).collect()
}

/// How many were submitted at once is not counted.
fn submitted() -> Value {
    json!({ "0": 0.0, "4": 0.0, "8": 0.0, "16": 0.0, "32": 0.0, "64": 0.0, ">=64": 0.0 })
}

/// Options by which fio would do the same.
fn options(one: &StorageJob<'_>) -> Value {
    let share = |name: &str| {
        one.parameter(name).trim_end_matches('%').trim().parse::<f64>().unwrap_or(100.0)
    };
    let (read, random) = (share("read"), share("random"));
    // The share of reads decides the mode that fio would need.
    let mode = match (read > 0.0, read < 100.0) {
        (true, true) => "rw",
        (false, _) => "write",
        _ => "read",
    };
    let mode = if random > 0.0 { format!("rand{mode}") } else { mode.to_owned() };
    let or = |name: &str, default: &str| one.parameter_or(name, default);
    json!({
        "name": one.name(),
        "filename": or("target", storage::TARGET),
        "rw": mode,
        "rwmixread": read.to_string(),
        "bs": or("block_size", "4 KiB"),
        "iodepth": or("depth", storage::DEPTH),
        "numjobs": or("workers", "1"),
        "ioengine": one.obtained("engine"),
        // Every other mode bypasses the page cache.
        "direct": if one.obtained("cache") == "buffered" { "0" } else { "1" },
    })
}

fn direction(one: &StorageJob<'_>, direction: &str) -> Value {
    let counted = one.counted(None);
    // Counts are exact: what was moved is a whole number of blocks. An older study has rates only,
    // and no counts.
    let (total_ios, io_bytes) = match direction {
        "rx" => (counted.reads, counted.bytes_read),
        "tx" => (counted.writes, counted.bytes_written),
        _ => (counted.trims, counted.bytes_trimmed),
    };
    let (iops, bytes) = match direction {
        TRIM => (one.figure(metric::TRIM_RATE, "sum"), one.figure(metric::TRIM_BYTES, "sum")),
        _ => (one.figure(metric::IOPS, direction), one.figure(metric::TRANSFER_RATE, direction)),
    };
    // Older studies have no seconds of their own for each job.
    let seconds = if counted.seconds > 0.0 { counted.seconds } else { one.seconds() };
    let nothing = linerate_model::Distribution::default();
    let service = &if direction == TRIM { one.trims.clone() } else { one.times(direction) };
    let (rates, counts) =
        (one.runs(metric::TRANSFER_RATE, direction), one.runs(metric::IOPS, direction));
    let kibibytes: Vec<f64> = rates.iter().map(|rate| rate / 1024.0).collect();
    let (rate, count) = (spread(&kibibytes), spread(&counts));
    let mut clat = times(service);
    // Percentiles of nothing would be zeros that fio never prints.
    if storage::count(service) > 0 {
        let percentiles = PERCENTILES
            .map(|percent| (format!("{percent:.6}"), json!(quantile(service, percent / 100.0))));
        clat["percentile"] = Value::Object(percentiles.into_iter().collect());
        clat["bins"] = bins(service);
    }
    let mut lat = times(service);
    if storage::count(service) > 0 {
        lat["bins"] = bins(service);
    }
    json!({
        "io_bytes": io_bytes,
        "io_kbytes": io_bytes / 1024,
        "bw_bytes": bytes.round() as u64,
        "bw": (bytes / 1024.0).round() as u64,
        "iops": iops,
        "runtime": (seconds * MILLIS).round() as u64,
        "total_ios": total_ios,
        "short_ios": 0,
        "drop_ios": 0,
        "slat_ns": times(&nothing),
        "clat_ns": clat,
        "lat_ns": lat,
        "bw_min": rate.0.round() as u64,
        "bw_max": rate.1.round() as u64,
        // The share of the group's bandwidth; each group here has one job.
        "bw_agg": 100.0,
        "bw_mean": rate.2,
        "bw_dev": rate.3,
        "bw_samples": rates.len(),
        "iops_min": count.0.round() as u64,
        "iops_max": count.1.round() as u64,
        "iops_mean": count.2,
        "iops_stddev": count.3,
        "iops_samples": counts.len(),
    })
}

/// Smallest, largest, mean and standard deviation.
fn spread(values: &[f64]) -> (f64, f64, f64, f64) {
    if values.is_empty() {
        return (0.0, 0.0, 0.0, 0.0);
    }
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let variance =
        // One run has no deviation, and the divisor would be zero.
        values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (n - 1.0).max(1.0);
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    (least, values.iter().copied().fold(0.0, f64::max), mean, variance.sqrt())
}

fn times(service: &linerate_model::Distribution) -> Value {
    let (mean, deviation) = moments(service);
    let ends = (service.buckets.first(), service.buckets.last());
    json!({
        "min": ends.0.map_or(0, |(ns, _)| *ns),
        "max": ends.1.map_or(0, |(ns, _)| *ns),
        "mean": mean,
        "stddev": deviation,
        "N": count(service),
    })
}

/// Transfers by time in nanoseconds, as `json+` has them.
fn bins(service: &linerate_model::Distribution) -> Value {
    Value::Object(
        service.buckets.iter().map(|(ns, count)| (ns.to_string(), json!(count))).collect(),
    )
}

/// Per cent of transfers below each end, and not below the one before it; times of a smaller unit
/// are in that.
fn latencies(one: &StorageJob<'_>, unit: u64, is_last: bool) -> Value {
    let all = count(&one.service).max(1) as f64;
    let mut told = Map::new();
    // Each unit begins where the smaller one ends.
    let mut low = if unit == 1 { 0 } else { unit };
    let percent = |low, high| json!(between(&one.service, low, high) as f64 * 100.0 / all);
    for end in LATENCIES {
        told.insert(end.to_string(), percent(low, end * unit));
        low = end * unit;
    }
    if is_last {
        told.insert("2000".into(), percent(low, 2_000 * unit));
        told.insert(">=2000".into(), percent(2_000 * unit, u64::MAX));
    }
    Value::Object(told)
}
