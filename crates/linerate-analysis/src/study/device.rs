//! Figures of the disk under a load: its use, its queue, other programs, the page cache, and the
//! limits of the load's control group (docs/methodology/storage.md#the-disk-under-a-load).
//!
//! Sources: samplers `disk` and `disk_limits` of the load's host, the disk that the load names, and
//! the load's own counters. Not seen: a disk below this one, and other programs' use of the page
//! cache.

use linerate_model::series::{disk, disk_limits, pressure};
use linerate_model::{Counter, Direction, Metric, Series, TrialRecord, metric};

use super::figures::Figures;
use super::samples::{NANOS, Samples};
use super::span::{Span, counted};
use super::traffic::Job;
use super::transfers::mode;

/// Cache mode of a load that bypasses the page cache.
const DIRECT: &str = "direct";

/// Limits of a control group: the figure and its direction, the column, and the counter that it
/// limits.
const LIMITS: [(&Metric, Direction, Series, Counter); 4] = [
    (metric::GROUP_BYTES_USED, Direction::Rx, disk_limits::READ_BYTES, Counter::BytesRead),
    (metric::GROUP_BYTES_USED, Direction::Tx, disk_limits::WRITE_BYTES, Counter::BytesWritten),
    (metric::GROUP_TRANSFERS_USED, Direction::Rx, disk_limits::READS, Counter::Reads),
    (metric::GROUP_TRANSFERS_USED, Direction::Tx, disk_limits::WRITES, Counter::Writes),
];

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
    for (metric, direction, column, counter) in LIMITS {
        let limit = gauge(column).filter(|limit| *limit > 0.0);
        figures.put_some(metric, direction, limit.map(|limit| own(counter) / limit));
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
