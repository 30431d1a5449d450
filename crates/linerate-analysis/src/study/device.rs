//! Figures of the disk under a load: its use, its queue, other programs, the page cache, and the
//! limits of the load's control group (docs/methodology/storage.md#the-disk-under-a-load).
//!
//! Sources: samplers `disk` and `disk_limits` of the load's host, the disk that the load names, and
//! the load's own counters. Not seen: a disk below this one, and other programs' use of the page
//! cache.

use linerate_model::series::{disk, disk_limits, pressure};
use linerate_model::{Counter, Direction, Series, TrialRecord, metric};

use super::figures::Figures;
use super::samples::{NANOS, Samples};
use super::span::{Span, counted};
use super::traffic::Job;
use super::transfers::mode;

/// Cache mode of a load that bypasses the page cache.
const DIRECT: &str = "direct";

/// Limits of a control group on writes and on reads: the column, and the counter that it limits.
const BYTES: [(Series, Counter); 2] = [
    (disk_limits::WRITE_BYTES, Counter::BytesWritten),
    (disk_limits::READ_BYTES, Counter::BytesRead),
];
const TRANSFERS: [(Series, Counter); 2] =
    [(disk_limits::WRITES, Counter::Writes), (disk_limits::READS, Counter::Reads)];

/// Adds the figures of the disk under `job` over `span`, which is not empty.
pub(super) fn figures(figures: &mut Figures, trial: &TrialRecord, job: &Job<'_>, span: Span) {
    let Some(device) = mode(job.active, "device") else { return };
    let samples = Samples::of(trial, &job.spec.from.host);
    let rate = |column| samples.of_instance(span, column, device);
    let gauge = |column| samples.mean_of(span, column, |name| name == device);
    let own = |counter| counted(job.active, counter, span) / span.seconds();
    let mut put = |metric, value| figures.put_some(metric, Direction::Sum, value);
    // Busy time is counted in ticks and can exceed the interval by one.
    put(metric::DEVICE_BUSY, rate(disk::BUSY).map(|share| share.min(1.0)));
    put(metric::DEVICE_DEPTH, rate(disk::QUEUED));
    put(metric::DEVICE_QUEUE, gauge(disk_limits::REQUESTS));
    put(metric::DEVICE_QUEUES, gauge(disk_limits::QUEUES));
    let moved = own(Counter::BytesRead) + own(Counter::BytesWritten);
    let seen = rate(disk::BYTES_READ).zip(rate(disk::BYTES_WRITTEN)).map(|(r, w)| r + w);
    // Bytes that the load moved and the disk did not, and the reverse.
    match mode(job.active, "cache") {
        Some(DIRECT) => put(metric::DEVICE_OTHERS, seen.and_then(|seen| rest(seen, moved))),
        _ => put(metric::CACHE_SERVED, seen.and_then(|seen| rest(moved, seen))),
    }
    // The sampler has one series for each resource.
    let waited = samples.rate(span, |s| pressure::SOME.is(s) && s.instance == "io");
    put(metric::STORAGE_STALLED, waited.map(|ns| ns / NANOS));
    let used = |(column, counter)| Some(own(counter) / gauge(column).filter(|l| *l > 0.0)?);
    for (metric, limits) in
        [(metric::GROUP_BYTES_USED, BYTES), (metric::GROUP_TRANSFERS_USED, TRANSFERS)]
    {
        // Shares of two limits have no sum.
        let [tx, rx] = limits.map(used);
        figures.put_some(metric, Direction::Tx, tx);
        figures.put_some(metric, Direction::Rx, rx);
    }
}

/// Returns the share of `all` that is not `part`; `None` where there is nothing.
fn rest(all: f64, part: f64) -> Option<f64> {
    (all > 0.0).then(|| (1.0 - part / all).max(0.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_of_a_rate_is_never_negative() {
        assert_eq!([rest(4.0, 1.0), rest(1.0, 4.0), rest(0.0, 1.0)], [Some(0.75), Some(0.0), None]);
    }
}
