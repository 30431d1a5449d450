//! Figures of a job that reads and writes a disk or file, from what its workers and the kernel counted.
//!
//! | metric | from |
//! |---|---|
//! | `iops`, `transfer_rate`, `transfer_rate_binary` | `reads` and `bytes_read` (rx), `writes` and `bytes_written` (tx), over the span; `sum` where there are both |
//! | `achieved_depth` | `outstanding_ns` over the span |
//! | `depth_error` | the same against rate times mean service time (Little 1961) |
//! | `device_share` | sampler `disk` of the device the worker named, over the load's bytes; loads past the page cache only |
//! | `iops_per_core` | transfers over the workers' CPU time |
//! | `service_time_*` | as for requests, with mean, maximum and the far percentiles |

use linerate_model::{Counter, Direction, JobRecord, TrialRecord};

use super::figures::Figures;
use super::samples::{NANOS, Samples};
use super::span::{Span, counted, total};
use super::traffic::Job;

/// Little's law is held to within this; edges of the span and rounding of the histogram make some of it.
const MOST_DEPTH_ERROR: f64 = 0.05;
/// Fewer transfers say nothing about a mean.
const LEAST_TRANSFERS: f64 = 1_000.0;
/// What the kernel counted may differ from what was asked for by this (storage reference, clause 4.2).
const MOST_DEVICE_ERROR: f64 = 0.02;

/// Whether `job` moved anything from or to a disk or file.
pub(super) fn are_in(job: &Job<'_>) -> bool {
    total(job.active, Counter::Reads) + total(job.active, Counter::Writes) > 0
}

/// Adds the figures of `job` over `span`.
pub(super) fn figures(figures: &mut Figures, trial: &TrialRecord, job: &Job<'_>, span: Span) {
    if !are_in(job) || span.seconds() <= 0.0 {
        return;
    }
    let of = |counter| Some(counted(job.active, counter, span) / span.seconds()).filter(|rate| *rate > 0.0);
    figures.put_both("iops", of(Counter::Writes), of(Counter::Reads));
    for metric in ["transfer_rate", "transfer_rate_binary"] {
        figures.put_both(metric, of(Counter::BytesWritten), of(Counter::BytesRead));
    }
    let transfers = counted(job.active, Counter::Reads, span) + counted(job.active, Counter::Writes, span);
    let cpu = counted(job.active, Counter::CpuUser, span) + counted(job.active, Counter::CpuSystem, span);
    figures.put_some("iops_per_core", Direction::Sum, (cpu > 0.0).then(|| transfers * NANOS / cpu));
    let depth = counted(job.active, Counter::OutstandingTime, span) / NANOS / span.seconds();
    figures.put("achieved_depth", Direction::Sum, depth);
    let service = job.distributions(span).service;
    let by_law = service.mean().map(|ns| transfers / span.seconds() * ns / NANOS);
    figures.put_some("depth_error", Direction::Sum, by_law.map(|by_law| (by_law / depth - 1.0).abs()));
    let seconds = |ns: Option<u64>| ns.map_or(f64::INFINITY, |ns| ns as f64 / NANOS);
    for (metric, quantile) in [("service_time_p90", 0.9), ("service_time_p999", 0.999), ("service_time_p9999", 0.9999)]
    {
        figures.put_some(metric, Direction::Sum, service.percentile(quantile).map(seconds));
    }
    figures.put_some("service_time_max", Direction::Sum, service.max().map(seconds));
    figures.put_some("service_time_mean", Direction::Sum, service.mean().map(|ns| ns / NANOS));
    let (tx, rx) = device_shares(trial, job, span);
    figures.put_some("device_share", Direction::Tx, tx);
    figures.put_some("device_share", Direction::Rx, rx);
}

/// Bytes the kernel counted at the job's device over the job's own, written and read.
fn device_shares(trial: &TrialRecord, job: &Job<'_>, span: Span) -> (Option<f64>, Option<f64>) {
    let Some(device) = mode(job.active, "device").filter(|_| mode(job.active, "cache") == Some("direct")) else {
        return (None, None);
    };
    let samples = Samples::of(trial, &job.spec.from.host);
    let share = |name, counter| {
        let own = counted(job.active, counter, span) / span.seconds();
        let seen = samples.of_instance(span, "disk", name, device)?;
        (own > 0.0).then(|| seen / own)
    };
    (share("bytes_written", Counter::BytesWritten), share("bytes_read", Counter::BytesRead))
}

fn mode<'a>(end: &'a JobRecord, name: &str) -> Option<&'a str> {
    end.flows.iter().find_map(|flow| flow.modes.get(name)).map(String::as_str)
}

/// What speaks against the figures of `job`.
pub(super) fn doubts(trial: &TrialRecord, job: &Job<'_>, span: Span) -> Vec<String> {
    if !are_in(job) {
        return Vec::new();
    }
    let mut figures_of = Figures::default();
    figures(&mut figures_of, trial, job, span);
    let get = |metric, direction| figures_of.get(metric, direction);
    let mut doubts = Vec::new();
    let enough =
        counted(job.active, Counter::Reads, span) + counted(job.active, Counter::Writes, span) >= LEAST_TRANSFERS;
    if let Some(error) = get("depth_error", Direction::Sum).filter(|error| enough && *error > MOST_DEPTH_ERROR) {
        let depth = get("achieved_depth", Direction::Sum).unwrap_or(0.0);
        doubts.push(format!(
            "{depth:.2} transfers were under way, {:.1} % from rate times service time (Little's law): one of them is wrong",
            error * 100.0
        ));
    }
    for (direction, verb) in [(Direction::Rx, "read"), (Direction::Tx, "wrote")] {
        let Some(share) = get("device_share", direction) else { continue };
        if share < 1.0 - MOST_DEVICE_ERROR {
            let seen = share * 100.0;
            doubts.push(format!(
                "the disk {verb} {seen:.1} % of the load's bytes: a cache, or blocks never written, served the rest"
            ));
        } else if share > 1.0 + MOST_DEVICE_ERROR {
            let more = (share - 1.0) * 100.0;
            doubts.push(format!("the disk {verb} {more:.1} % more than the load: other programs used it"));
        }
    }
    doubts
}
