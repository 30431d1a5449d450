//! Counts of the workers of a storage job in the measured part of each trial, in whole transfers
//! and bytes.
//!
//! Rates are apportioned at the edges of the span; these counts are not: an interval counts as a
//! whole if its middle lies in the span, as for distributions of times. The counts are therefore
//! exact, and there are as many transfers as there are times. Identities (reads and writes are all
//! transfers, bytes are transfers times their size) are tested on them, and formats of other tools
//! are filled from them.

use linerate_model::{Counter, TrialRecord};
use serde::{Deserialize, Serialize};

use super::span::Span;
use super::traffic::Job;

/// Counts of one worker in one trial.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TransferCounts {
    /// The trial's number.
    pub trial: u32,
    /// The worker's number within the job.
    pub worker: u32,
    /// Seconds of the intervals that were counted.
    pub seconds: f64,
    /// Reads that ended well.
    pub reads: u64,
    /// Writes that ended well.
    pub writes: u64,
    /// Bytes read.
    pub bytes_read: u64,
    /// Bytes written.
    pub bytes_written: u64,
    /// Reads that failed or were cut short.
    pub read_errors: u64,
    /// Writes that failed or were cut short.
    pub write_errors: u64,
    /// Transfers with their replies, both ended well.
    pub exchanges: u64,
    /// Flushes that ended well.
    #[serde(default)]
    pub flushes: u64,
    /// Discards that ended well.
    #[serde(default)]
    pub trims: u64,
    /// Bytes discarded.
    #[serde(default)]
    pub bytes_trimmed: u64,
    /// Reads and writes that were timed, counted apart from `reads` and `writes`.
    pub timed: u64,
    /// Time of all reads added, ns.
    pub read_ns: u64,
    /// Time of all writes added, ns.
    pub write_ns: u64,
    /// The longest read, ns.
    pub read_max_ns: u64,
    /// The longest write, ns.
    pub write_max_ns: u64,
}

/// Returns the counts of `job` over `span` of `trial`, worker by worker; none if it did not
/// transfer.
pub(super) fn counts(trial: &TrialRecord, job: &Job<'_>, span: Span) -> Vec<TransferCounts> {
    if !job.is_of_disk() {
        return Vec::new();
    }
    let mut workers: Vec<TransferCounts> = Vec::new();
    for interval in job.active.intervals.iter().filter(|interval| span.holds_middle(interval)) {
        let known =
            workers.iter().position(|one| one.worker == interval.worker).unwrap_or_else(|| {
                let trial = trial.spec.id.0;
                workers.push(TransferCounts {
                    trial,
                    worker: interval.worker,
                    ..TransferCounts::default()
                });
                workers.len() - 1
            });
        let one = &mut workers[known];
        let n = |counter| interval.counters[counter];
        one.seconds += interval.end.since(interval.start).as_secs_f64();
        one.reads += n(Counter::Reads);
        one.writes += n(Counter::Writes);
        one.bytes_read += n(Counter::BytesRead);
        one.bytes_written += n(Counter::BytesWritten);
        one.read_errors += n(Counter::ReadErrors);
        one.write_errors += n(Counter::WriteErrors);
        one.exchanges += n(Counter::Exchanges);
        one.flushes += n(Counter::Flushes);
        one.trims += n(Counter::Trims);
        one.bytes_trimmed += n(Counter::BytesTrimmed);
        let total = |times: &linerate_model::Distribution| {
            linerate_model::added(times.buckets.iter().map(|(ns, n)| ns.saturating_mul(*n)))
        };
        let longest =
            |times: &linerate_model::Distribution| times.buckets.last().map_or(0, |(ns, _)| *ns);
        one.timed += interval.service.count() + interval.writes.count();
        one.read_ns += total(&interval.service);
        one.write_ns += total(&interval.writes);
        one.read_max_ns = one.read_max_ns.max(longest(&interval.service));
        one.write_max_ns = one.write_max_ns.max(longest(&interval.writes));
    }
    workers.sort_by_key(|one| one.worker);
    workers
}
