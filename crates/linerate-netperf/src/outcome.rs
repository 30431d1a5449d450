//! What a test yields.

use std::time::Duration;

use hdrhistogram::Histogram;

use crate::options::{Flow, Options};
use crate::wire::{Answer, CpuUse, Results};

/// What this end did and measured.
#[derive(Clone, Debug, Default)]
pub struct Here {
    /// Bytes sent and received.
    pub bytes: [u64; 2],
    /// Sending and receiving calls.
    pub calls: [u64; 2],
    /// Sending calls that failed.
    pub failed: u64,
    /// Transactions.
    pub transactions: u64,
    /// Buffers of the socket at the start and at the end: sending and receiving, bytes.
    pub buffers: [[i32; 2]; 2],
    /// Bytes of a sending and of a receiving call; 0 if there is none.
    pub sizes: [u32; 2],
    /// Largest segment, bytes; -1 if unknown.
    pub largest_segment: i64,
    /// Segments sent again; -1 if unknown.
    pub retransmits: i64,
    /// Congestion control.
    pub congestion: String,
    /// CPUs, if they were measured.
    pub cpu: Option<CpuUse>,
    /// Number of CPUs.
    pub n_cpus: u32,
}

/// Outcome of a test.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// What was asked for.
    pub options: Options,
    /// Length of the test.
    pub elapsed: Duration,
    /// This end.
    pub here: Here,
    /// The server before the test.
    pub answer: Answer,
    /// The server after the test.
    pub results: Results,
    /// Times of single transactions, ns, if they were kept.
    pub latencies: Option<Histogram<u64>>,
}

/// Letters of netperf that stand for a missing figure.
pub const UNKNOWN: f64 = -1.0;
const KIB: f64 = 1024.0;
const MICROSECONDS: f64 = 1e6;

impl Outcome {
    /// Returns the length in seconds.
    #[must_use]
    pub fn seconds(&self) -> f64 {
        self.elapsed.as_secs_f64().max(1e-9)
    }

    /// Returns `bytes` as a rate in the unit of the result, of bytes where that is transactions.
    #[must_use]
    pub fn rate_of(&self, bytes: u64) -> f64 {
        let unit = self.options.unit;
        let unit = if unit.letter == 'x' { crate::options::UNITS[0] } else { unit };
        bytes as f64 / unit.bytes / self.seconds()
    }

    /// Returns the main figure: what was received at either end, or transactions.
    #[must_use]
    pub fn throughput(&self) -> f64 {
        match self.options.test.flow {
            Flow::Exchange | Flow::Connections if self.options.unit.letter == 'x' => {
                self.transaction_rate()
            }
            Flow::Exchange | Flow::Connections => self.rate_of(self.moved()),
            Flow::Receive => self.rate_of(self.here.bytes[1]),
            Flow::Send => self.rate_of(self.results.bytes[1]),
        }
    }

    /// Returns the bytes that this end sent and received.
    #[must_use]
    pub fn moved(&self) -> u64 {
        self.here.bytes.iter().sum()
    }

    /// Returns transactions per second.
    #[must_use]
    pub fn transaction_rate(&self) -> f64 {
        self.here.transactions as f64 / self.seconds()
    }

    /// Returns the mean time of a transaction, µs; [`UNKNOWN`] without transactions.
    #[must_use]
    pub fn mean_round_trip(&self) -> f64 {
        let rate = self.transaction_rate();
        let under_way = 1 + match self.options.test.flow {
            Flow::Exchange => self.options.burst,
            _ => 0,
        };
        if rate > 0.0 { MICROSECONDS / rate * f64::from(under_way) } else { UNKNOWN }
    }

    /// Returns the CPUs of an end, if they were measured.
    #[must_use]
    pub fn cpu(&self, is_here: bool) -> Option<CpuUse> {
        match is_here {
            true => self.here.cpu,
            false => Some(self.results.cpu).filter(|_| self.options.cpu[1]),
        }
    }

    /// Returns the CPU time of an end per KiB or transaction, µs; [`UNKNOWN`] if it was not
    /// measured.
    #[must_use]
    pub fn service_demand(&self, is_here: bool) -> f64 {
        let Some(cpu) = self.cpu(is_here) else { return UNKNOWN };
        let units = match self.options.unit.letter {
            'x' => self.here.transactions as f64,
            _ => self.moved() as f64 / KIB,
        };
        let busy = f64::from(cpu.total) / 100.0 * f64::from(cpu.n_cpus) * self.seconds();
        if units > 0.0 { busy * MICROSECONDS / units } else { UNKNOWN }
    }
}
