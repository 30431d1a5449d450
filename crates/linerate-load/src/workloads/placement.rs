//! Flows of a job, the threads that carry them, and how these wait.

use std::ops::RangeInclusive;

use linerate_model::ParamError;

use crate::parameter::{Reader, Words, word, wrong};

/// Flows of one job: with more, a host runs out of ports.
pub(crate) const STREAMS: RangeInclusive<u64> = 1..=16_384;
/// Threads: more than any machine has CPUs is a mistake.
pub(crate) const WORKERS: RangeInclusive<u64> = 1..=4096;

/// How a worker waits for the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waiting {
    /// Asleep in the kernel: the wake-up is part of every latency.
    Block,
    /// Polling: it occupies a CPU and saves the wake-up.
    Spin,
}

impl Waiting {
    /// Words of plans and reports.
    const WORDS: Words<Self> = &[("block", Self::Block), ("spin", Self::Spin)];

    /// Declares `wait`, whose meaning differs between workloads.
    pub(crate) fn declare(reader: &mut Reader<'_>, meaning: &'static str) -> Self {
        reader.choice("wait", Self::WORDS, Self::Block, meaning)
    }

    /// Returns the mode's name in reports.
    pub(crate) fn name(self) -> &'static str {
        word(Self::WORDS, &self)
    }
}

/// Flows and the threads that carry them, the same at both ends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Placement {
    /// Number of flows.
    pub(crate) streams: u32,
    /// Number of threads; `None` where the workload chooses.
    pub(crate) workers: Option<u32>,
    pub(crate) wait: Waiting,
}

impl Placement {
    /// Declares flows, threads and waiting.
    pub(crate) fn declare(reader: &mut Reader<'_>) -> Self {
        Self {
            streams: reader.count(
                "streams",
                STREAMS,
                1,
                "flows, each on its own connection or pair of sockets",
            ),
            workers: Some(reader.count(
                "workers",
                WORKERS,
                1,
                "threads at each end; flow f is carried by worker f mod workers",
            )),
            wait: Waiting::declare(
                reader,
                "block: sleep in the kernel, the wake-up is measured; spin: poll, which occupies a \
                    CPU per worker",
            ),
        }
    }

    /// Returns the number of flows.
    pub(crate) fn streams(&self) -> u32 {
        self.streams
    }

    /// Returns the number of threads, one unless chosen.
    pub(crate) fn workers(&self) -> u32 {
        self.workers.unwrap_or(1)
    }

    /// Refuses workers without one of the `flows`.
    pub(crate) fn check(&self, flows: u32) -> Result<(), ParamError> {
        let workers = self.workers();
        // A worker without flows would wait for the whole trial and skew figures per worker.
        if workers > flows {
            return Err(wrong(
                "workers",
                format!("{workers} workers cannot share {flows} streams: some would have none"),
            ));
        }
        Ok(())
    }

    /// Returns true if a worker with `own` flows waits in its own calls.
    pub(crate) fn is_alone(&self, own: usize, is_open: bool) -> bool {
        // A lone flow waits in its own call, which saves a system call for each wake-up.
        own == 1 && self.wait == Waiting::Block && !is_open
    }
}

/// Numbers `flows` and deals them to `workers` in turn.
pub(crate) fn deal<T>(flows: Vec<T>, workers: u32) -> Vec<Vec<(u32, T)>> {
    let mut shares: Vec<Vec<(u32, T)>> = (0..workers).map(|_| Vec::new()).collect();
    for (number, flow) in (0_u32..).zip(flows) {
        shares[(number % workers) as usize].push((number, flow));
    }
    shares
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_without_a_stream_is_refused() {
        let placement = |streams, workers| Placement { streams, workers, wait: Waiting::Block };
        let refused = |streams, workers: Option<u32>| {
            let placement = placement(streams, workers);
            placement.check(placement.streams()).err().map(|error| error.key)
        };
        assert_eq!(refused(2, Some(4)).as_deref(), Some("workers"));
        assert_eq!((refused(4, Some(2)), refused(1, None)), (None, None));
        assert_eq!(placement(2, Some(4)).check(4), Ok(()));
    }

    #[test]
    fn flows_are_dealt_in_turn() {
        assert_eq!(deal(vec!['a', 'b', 'c'], 2), [vec![(0, 'a'), (2, 'c')], vec![(1, 'b')]]);
    }
}
