//! Figures of a job that reads and writes a disk or file, from what its workers and the kernel
//! counted.
//!
//! - `iops`, `transfer_rate`, `transfer_rate_binary`: `reads` and `bytes_read` (rx), `writes` and
//!   `bytes_written` (tx), over the span; `sum` where there are both
//! - `achieved_depth`: `outstanding_ns` over the span
//! - `depth_error`: `outstanding_ns` of the trial against the service times of its operations,
//!   added up (Little 1961)
//! - `device_share`: sampler `disk` of the device the worker named, over the load's bytes; loads
//!   past the page cache only
//! - `iops_per_core`: transfers over the workers' CPU time
//! - `service_time_*`: reads (rx), writes (tx), and both where there are both: median, far
//!   percentiles, mean, maximum
//! - `flush_rate`, `flush_time_*`, `trim_rate`, `trim_bytes`, `trim_time_*`: `flushes`, `trims`,
//!   `bytes_trimmed` over the span, and their own times; neither are transfers
//! - `transfer_errors`: `read_errors` (rx), `write_errors` (tx), whole trial
//! - `exchange_rate`: `exchanges` over the span: transfers with their replies
//! - `steady_range`, `steady_trend`: transfers in fifths of the span, see `steady`
//! - `host_cpu*`, `cpu_effectiveness`, `host_packets`, `host_packet_errors`, `host_retransmits`:
//!   samplers `cpu`, `interface` without `lo`, and `tcp_extension` of the active host: the rest of
//!   Iometer's table

use linerate_model::series::{cpu, disk, interface};
use linerate_model::{
    Counter, Direction, Distribution, Interval, JobRecord, Nanos, OperationKind, Series,
    SeriesSpec, Source, Times, TrialRecord, metric, series,
};

use super::figures::Figures;
use super::reason::Reason;
use super::samples::{NANOS, Samples};
use super::span::{Span, counted, total};
use super::steady::{self, Steadiness, Steady};
use super::times::put_statistic;
use super::traffic::Job;

/// Little's law is held to within this; edges of the span and rounding of the histogram make some
/// of it.
const MOST_DEPTH_ERROR: f64 = 0.05;
/// Least number of transfers for a mean.
const LEAST_TRANSFERS: f64 = 1_000.0;
/// Relative difference allowed between the kernel's count of bytes and the requested ones (storage
/// reference, clause 4.2).
const MOST_DEVICE_ERROR: f64 = 0.02;

/// Adds the figures of `job` over `span`.
pub(super) fn figures(figures: &mut Figures, trial: &TrialRecord, job: &Job<'_>, span: Span) {
    if span.seconds() > 0.0 {
        file_shares(figures, trial, job, span);
    }
    if !job.is_of_disk() || span.seconds() <= 0.0 {
        return;
    }
    let of = |counter| {
        Some(counted(job.active, counter, span) / span.seconds()).filter(|rate| *rate > 0.0)
    };
    for (metric, source) in metric::sourced() {
        match source {
            Source::DiskSum(counter) => figures.put_some(metric, Direction::Sum, of(counter)),
            Source::DiskWays { tx, rx } => figures.put_both(metric, of(tx), of(rx)),
            _ => {}
        }
    }
    let transfers =
        counted(job.active, Counter::Reads, span) + counted(job.active, Counter::Writes, span);
    let cpu =
        counted(job.active, Counter::CpuUser, span) + counted(job.active, Counter::CpuSystem, span);
    figures.put_some(
        metric::IOPS_PER_CORE,
        Direction::Sum,
        (cpu > 0.0).then(|| transfers * NANOS / cpu),
    );
    let depth = counted(job.active, Counter::OutstandingTime, span) / NANOS / span.seconds();
    figures.put(metric::ACHIEVED_DEPTH, Direction::Sum, depth);
    let distributions = job.distributions(span);
    let service = &distributions.service;
    figures.put_some(metric::DEPTH_ERROR, Direction::Sum, depth_error(job.active));
    times(figures, Direction::Sum, service);
    times(figures, Direction::Rx, &distributions.reads);
    times(figures, Direction::Tx, &distributions.writes);
    for metric in Times::Flush.metrics() {
        put_statistic(figures, (metric, Direction::Sum), &distributions.flushes);
    }
    for metric in Times::Trim.metrics() {
        put_statistic(figures, (metric, Direction::Sum), &distributions.trims);
    }
    for (direction, counter) in
        [(Direction::Rx, Counter::ReadErrors), (Direction::Tx, Counter::WriteErrors)]
    {
        figures.put(metric::TRANSFER_ERRORS, direction, total(job.active, counter) as f64);
    }
    if let Some(steadiness) = steadiness(job, span) {
        figures.put(metric::STEADY_RANGE, Direction::Sum, steadiness.range);
        figures.put(metric::STEADY_TREND, Direction::Sum, steadiness.excursion);
    }
    of_host(figures, &Samples::of(trial, &job.spec.from.host), span, transfers / span.seconds());
    super::device::figures(figures, trial, job, span);
    let (tx, rx) = device_shares(trial, job, span);
    figures.put_some(metric::DEVICE_SHARE, Direction::Tx, tx);
    figures.put_some(metric::DEVICE_SHARE, Direction::Rx, rx);
}

/// Returns the relative distance between the sum of the times of all operations of a trial and the
/// time for which they were in flight (Little 1961). For operations that never ended it is the time
/// for which they were waited for.
fn depth_error(end: &JobRecord) -> Option<f64> {
    let under_way = total(end, Counter::OutstandingTime) as f64;
    let sum = |times: &Distribution| {
        times.buckets.iter().map(|(ns, n)| *ns as f64 * *n as f64).sum::<f64>()
    };
    let of = |interval: &Interval, kind| {
        sum(interval.times_of(kind)) + sum(&interval.carried_of(kind).waited_service)
    };
    let times: f64 =
        end.intervals.iter().flat_map(|one| OperationKind::ALL.map(|kind| of(one, kind))).sum();
    (under_way > 0.0 && times > 0.0).then(|| (times / under_way - 1.0).abs())
}

/// Times of transfers in one direction, or all.
fn times(figures: &mut Figures, direction: Direction, times: &Distribution) {
    for metric in Times::Service.metrics() {
        put_statistic(figures, (metric, direction), times);
    }
}

/// Returns the steadiness of the rate of transfers.
fn steadiness(job: &Job<'_>, span: Span) -> Option<Steadiness> {
    let length = span.to.since(span.from).0;
    let edge = |place: usize| Nanos(span.from.0 + length * place as u64 / steady::ROUNDS as u64);
    let rounds = (0..steady::ROUNDS).map(|place| Span { from: edge(place), to: edge(place + 1) });
    let transfers = |round| {
        counted(job.active, Counter::Reads, round) + counted(job.active, Counter::Writes, round)
    };
    Steadiness::of(&rounds.map(transfers).collect::<Vec<f64>>())
}

/// Returns the steadiness of `job` over `trials`, one per round.
pub(super) fn steady_rounds<'a>(
    trials: impl Iterator<Item = (&'a Job<'a>, Span)>,
) -> Option<Steady> {
    fn rate((job, span): (&Job<'_>, Span)) -> f64 {
        (counted(job.active, Counter::Reads, span) + counted(job.active, Counter::Writes, span))
            / span.seconds()
    }
    let rounds = trials.filter(|(job, span)| job.is_of_disk() && span.seconds() > 0.0).map(rate);
    steady::of_rounds(&rounds.collect::<Vec<f64>>())
}

/// Returns the steadiness of `job` in `trials`.
pub(super) fn steady_state<'a>(
    trials: impl Iterator<Item = (&'a Job<'a>, Span)>,
) -> Option<Steady> {
    let known: Vec<Steadiness> = trials
        .filter(|(job, _)| job.is_of_disk())
        .filter_map(|(job, span)| steadiness(job, span))
        .collect();
    steady::of_trials(&known)
}

/// Adds Iometer's figures of the host beside the disk. Iometer excludes steal and disk waits from
/// `% CPU Utilization`, and so do we.
fn of_host(figures: &mut Figures, samples: &Samples<'_>, span: Span, iops: f64) {
    const PRIVILEGED: [Series; 3] = [cpu::SYSTEM, cpu::IRQ, cpu::SOFTIRQ];
    const PER_CENT: f64 = 100.0;
    let all = samples.rate(span, |read| read.is_of(cpu::SAMPLER)).filter(|all| *all > 0.0);
    let used = |uses: &[Series]| samples.rate(span, |read| series::any(uses, read));
    let share = |uses: &[Series]| Some(used(uses)? / all?);
    let (user, privileged) = (share(&[cpu::USER, cpu::NICE]), share(&PRIVILEGED));
    let busy = user.zip(privileged).map(|(user, privileged)| user + privileged);
    for (metric, value) in [
        (metric::HOST_CPU, busy),
        (metric::HOST_CPU_USER, user),
        (metric::HOST_CPU_PRIVILEGED, privileged),
        (metric::HOST_CPU_SOFTIRQ, share(&[cpu::SOFTIRQ])),
        (metric::HOST_CPU_IRQ, share(&[cpu::IRQ])),
        (
            metric::CPU_EFFECTIVENESS,
            busy.filter(|busy| *busy > 0.0).map(|busy| iops / (busy * PER_CENT)),
        ),
    ] {
        figures.put_some(metric, Direction::Sum, value);
    }
    fn interfaces(columns: [Series; 2], span: &Span, samples: &Samples<'_>) -> Option<f64> {
        samples.rate(*span, |read| {
            read.instance != super::samples::LOOPBACK && series::any(&columns, read)
        })
    }
    figures.put_some(
        metric::HOST_PACKETS,
        Direction::Sum,
        interfaces([interface::RX_PACKETS, interface::TX_PACKETS], &span, samples),
    );
    figures.put_some(
        metric::HOST_PACKET_ERRORS,
        Direction::Sum,
        interfaces([interface::RX_ERRORS, interface::TX_ERRORS], &span, samples),
    );
    let again = |read: &SeriesSpec| series::tcp_extension::RETRANS_SEGS.is(read);
    figures.put_some(metric::HOST_RETRANSMITS, Direction::Sum, samples.rate(span, again));
}

/// Adds the bytes that the disks under the files of a transfer read or wrote, over those of the
/// transfer: 1 is a cold file, 0 a cached one.
fn file_shares(figures: &mut Figures, trial: &TrialRecord, job: &Job<'_>, span: Span) {
    let ends = [(job.active, &job.spec.from.host), (job.passive, &job.spec.to.host)];
    for (end, host) in ends {
        for (device, column, counter, direction) in [
            ("source_device", disk::BYTES_READ, Counter::BytesRead, Direction::Rx),
            ("sink_device", disk::BYTES_WRITTEN, Counter::BytesWritten, Direction::Tx),
        ] {
            let own = counted(end, counter, span) / span.seconds();
            let Some(device) = mode(end, device).filter(|_| own > 0.0) else { continue };
            let seen = Samples::of(trial, host).of_instance(span, column, device);
            figures.put_some(metric::DEVICE_SHARE, direction, seen.map(|seen| seen / own));
        }
    }
}

/// Returns the bytes the kernel counted at the job's device over the job's own, written and read.
fn device_shares(trial: &TrialRecord, job: &Job<'_>, span: Span) -> (Option<f64>, Option<f64>) {
    let Some(device) =
        mode(job.active, "device").filter(|_| mode(job.active, "cache") == Some("direct"))
    else {
        return (None, None);
    };
    let samples = Samples::of(trial, &job.spec.from.host);
    // Without bytes of its own the job has no share.
    let own = |counter| Some(counted(job.active, counter, span)).filter(|own| *own > 0.0);
    let seen = |column| samples.of_instance(span, column, device);
    let share = |column, counter| Some(seen(column)? / (own(counter)? / span.seconds()));
    (share(disk::BYTES_WRITTEN, Counter::BytesWritten), share(disk::BYTES_READ, Counter::BytesRead))
}

/// Returns the mode of this name at `end`.
pub(super) fn mode<'a>(end: &'a JobRecord, name: &str) -> Option<&'a str> {
    end.flows.iter().find_map(|flow| flow.modes.get(name)).map(String::as_str)
}

/// Returns the seconds of the longest transfer that was in flight when the span ended and took
/// longer than an interval: its time belongs to a later interval. `None` if there was none.
fn longest_over_the_end(trial: &TrialRecord, job: &Job<'_>, span: Span) -> Option<f64> {
    let beyond =
        job.active.intervals.iter().filter(|one| one.end > span.to && !span.holds_middle(one));
    let under_way = beyond.filter_map(|one| {
        let longest = [&one.service, &one.writes]
            .into_iter()
            .filter_map(|times| times.max().flatten())
            .max()?;
        (one.end.0.saturating_sub(longest) < span.to.0).then_some(longest)
    });
    let longest = under_way.max().filter(|longest| *longest > trial.spec.phases.interval.0)?;
    Some(longest as f64 / NANOS)
}

/// Returns the reasons against the figures of `job`.
pub(super) fn doubts(trial: &TrialRecord, job: &Job<'_>, span: Span) -> Vec<Reason> {
    if !job.is_of_disk() {
        return Vec::new();
    }
    let mut figures_of = Figures::default();
    figures(&mut figures_of, trial, job, span);
    let get = |metric, direction| figures_of.get(metric, direction);
    let name = || job.spec.workload.clone();
    let mut doubts = Vec::new();
    let enough = counted(job.active, Counter::Reads, span)
        + counted(job.active, Counter::Writes, span)
        >= LEAST_TRANSFERS;
    if let Some(error) =
        get(metric::DEPTH_ERROR, Direction::Sum).filter(|error| enough && *error > MOST_DEPTH_ERROR)
    {
        let depth = get(metric::ACHIEVED_DEPTH, Direction::Sum).unwrap_or(0.0);
        doubts.push(Reason::DepthError { job: name(), depth, error });
    }
    let counted_longest = get(metric::SERVICE_TIME_MAX, Direction::Sum).unwrap_or(0.0);
    if let Some(longest) =
        longest_over_the_end(trial, job, span).filter(|longest| *longest > counted_longest)
    {
        doubts.push(Reason::LongTransfer { job: name(), seconds: longest });
    }
    for direction in [Direction::Rx, Direction::Tx] {
        let Some(share) = get(metric::DEVICE_SHARE, direction) else { continue };
        if share < 1.0 - MOST_DEVICE_ERROR {
            doubts.push(Reason::DiskLess { job: name(), direction, share });
        } else if share > 1.0 + MOST_DEVICE_ERROR {
            doubts.push(Reason::DiskMore { job: name(), direction, share: share - 1.0 });
        }
    }
    doubts
}
