//! How many flows a job has, which threads carry them, and how these wait.

use linerate_model::ParamError;
use serde::Deserialize;

use super::parameters::wrong;
use crate::parameter::{Takes, parameters};

/// Flows of one job: more than this, and a host runs out of ports.
pub(crate) const STREAMS: Takes = Takes::Count { least: 1, most: 16_384 };
/// Threads: more than any machine has CPUs is a mistake.
pub(crate) const WORKERS: Takes = Takes::Count { least: 1, most: 4096 };
/// [`Waiting`].
pub(crate) const WAIT: Takes = Takes::Word(&["block", "spin"]);

/// How a worker waits for the network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Waiting {
    /// Asleep in the kernel: the wake-up is part of every latency.
    #[default]
    Block,
    /// Asking again and again: it takes a CPU and saves the wake-up.
    Spin,
}

impl Waiting {
    /// As a mode is named in reports.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Block => "block",
            Self::Spin => "spin",
        }
    }
}

parameters! {
    /// Flows and the threads that carry them, the same at both ends.
    #[derive(Copy)]
    pub(crate) struct Placement {
        pub(crate) streams: Option<u32> = None, STREAMS, "1", "flows, each on its own connection \
            or pair of sockets";
        pub(crate) workers: Option<u32> = None, WORKERS, "1",
            "threads at each end; flow f is carried by worker f mod workers";
        pub(crate) wait: Waiting = Waiting::default(), WAIT, "\"block\"",
            "block: sleep in the kernel, the wake-up is measured; spin: ask again and again, a CPU \
                per worker";
    }
}

impl Placement {
    /// How many flows there are.
    pub(crate) fn streams(&self) -> u32 {
        self.streams.unwrap_or(1)
    }

    /// How many threads carry them.
    pub(crate) fn workers(&self) -> u32 {
        self.workers.unwrap_or(1)
    }

    /// Refuses workers without one of the `flows`.
    pub(crate) fn check(&self, flows: u32) -> Result<(), ParamError> {
        let workers = self.workers();
        if workers > flows {
            return Err(wrong(
                "workers",
                format!("{workers} workers cannot share {flows} streams: some would have none"),
            ));
        }
        Ok(())
    }

    /// Whether a worker with `own` flows waits in its own calls.
    pub(crate) fn is_alone(&self, own: usize, is_open: bool) -> bool {
        own == 1 && self.wait == Waiting::Block && !is_open
    }
}

/// Flows, numbered and dealt to `workers` in turn.
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
        let refused = |streams, workers| {
            let placement = placement(streams, workers);
            placement.check(placement.streams()).err().map(|error| error.key)
        };
        assert_eq!(refused(Some(2), Some(4)).as_deref(), Some("workers"));
        assert_eq!(refused(None, Some(2)).as_deref(), Some("workers"));
        assert_eq!(refused(Some(4), Some(2)), None);
        assert_eq!(placement(Some(2), Some(4)).check(4), Ok(()));
    }

    #[test]
    fn flows_are_dealt_in_turn() {
        assert_eq!(deal(vec!['a', 'b', 'c'], 2), [vec![(0, 'a'), (2, 'c')], vec![(1, 'b')]]);
    }
}
