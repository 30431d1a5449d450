//! Readings that figures are computed from by a formula that several metrics share.

use super::{METRICS, Metric};
use crate::{Counter, Series, TcpState};

/// Reading behind a metric, with the formula. A metric with a formula of its own has none.
#[derive(Clone, Copy, Debug)]
pub enum Source {
    /// Change of a series over the measurement, all hosts added.
    HostCount(Series),
    /// Change of a series per second, all hosts added.
    HostRate(Series),
    /// Change of a series per IP packet, all hosts added.
    PerPacket(Series),
    /// Change of a series of the hosts' network controllers over the measurement.
    ControllerCount(Series),
    /// Count per second at the end of a job that has this counter.
    OperationRate(Counter),
    /// Count per second of a load on a disk or file.
    DiskSum(Counter),
    /// Counts per second of a load on a disk or file, one in each direction.
    // Seen from the host, as with a network: what it writes is sent.
    DiskWays {
        /// Writes.
        tx: Counter,
        /// Reads.
        rx: Counter,
    },
    /// Share of the time in which a connection sends: the kernel's count of it, us.
    // The kernel's times are fields of one struct, which share no type that could name them.
    SendingTime(fn(&TcpState) -> u64),
}

/// Returns the metrics with a source, in the order of [`METRICS`].
pub fn sourced() -> impl Iterator<Item = (&'static Metric, Source)> {
    METRICS.iter().filter_map(|metric| Some((*metric, metric.source?)))
}
