//! Common state of workers that read different queues of one interface: the program that selects
//! their frames, and the arrivals that each saw of the others' flows.
//!
//! Worker `w` of `n` reads the queues whose number leaves `w` when divided by `n`. The card chooses
//! the queue of a frame, so a worker may receive frames of a flow that another worker sends and
//! reports. It counts them and regularly publishes the totals; the flow's own worker adds them to
//! its own. Copies of a frame have its headers and so arrive at its queue, but frames with random
//! ports (RFC 4814) spread a flow over queues: then order is reported per queue.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use linerate_model::{Counter, Counters};
use linerate_sys::SysError;
use linerate_sys::xdp::Filter;

use super::ledger::Ledger;

/// Published counters of a flow, beside the next number.
const COUNTED: [Counter; 5] = [
    Counter::DatagramsReceived,
    Counter::PayloadReceived,
    Counter::Late,
    Counter::Duplicates,
    Counter::Reordered,
];

/// Queues of an interface at one end of a job.
#[derive(Debug)]
pub(super) struct Queues {
    filter: RefCell<Option<Arc<Filter>>>,
    board: Arc<Board>,
}

impl Queues {
    /// Creates the queues of `n_workers` workers with `n_flows` flows in all.
    pub(super) fn new(n_workers: u32, n_flows: u32) -> Self {
        let seen = || (0..n_flows).map(|_| Seen::default()).collect();
        let board =
            Board { seen: (0..n_workers).map(|_| seen()).collect(), complete: AtomicU32::new(0) };
        Self { filter: RefCell::default(), board: Arc::new(board) }
    }

    /// Returns the program; the first worker that calls attaches it by `attach`.
    pub(super) fn filter(
        &self,
        attach: impl FnOnce() -> Result<Filter, SysError>,
    ) -> Result<Arc<Filter>, SysError> {
        let mut filter = self.filter.borrow_mut();
        // One program serves all workers: an interface has a single place for it.
        if filter.is_none() {
            *filter = Some(Arc::new(attach()?));
        }
        Ok(Arc::clone(filter.as_ref().expect("just attached")))
    }

    /// Returns the board on which workers publish their counts.
    pub(super) fn board(&self) -> Arc<Board> {
        Arc::clone(&self.board)
    }
}

/// Counts of each worker for each flow, published without locks.
#[derive(Debug)]
pub(super) struct Board {
    /// By worker and flow.
    seen: Vec<Vec<Seen>>,
    /// Number of workers whose own flows are all complete.
    complete: AtomicU32,
}

#[derive(Debug, Default)]
struct Seen {
    counts: [AtomicU64; COUNTED.len()],
    next_sequence: AtomicU64,
}

/// Counts of other workers for a flow.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ByOthers {
    pub(super) counters: Counters,
    pub(super) next_sequence: u64,
}

impl ByOthers {
    /// Distinct frames accounted, late ones included.
    pub(super) fn known(&self) -> u64 {
        self.counters[Counter::DatagramsReceived] + self.counters[Counter::Late]
    }
}

impl Board {
    /// Publishes the counts of `worker` for flows that are not its own.
    pub(super) fn tell(&self, worker: u32, ledger: &Ledger) {
        let n_workers = self.seen.len() as u32;
        for (number, seen) in (0_u32..).zip(&self.seen[worker as usize]) {
            let Some(flow) = ledger
                // A flow that this worker has never seen has nothing to publish.
                .flow(number)
                .filter(|flow| number % n_workers != worker && flow.next_sequence() > 0)
            else {
                continue;
            };
            for (counter, cell) in COUNTED.into_iter().zip(&seen.counts) {
                // Relaxed: each cell is a total, and a reader that sees an older one only waits
                // longer.
                cell.store(flow.counters[counter], Ordering::Relaxed);
            }
            seen.next_sequence.store(flow.next_sequence(), Ordering::Relaxed);
        }
    }

    /// Returns the published counts of all workers but its own for flow `number`.
    pub(super) fn by_others(&self, number: u32) -> ByOthers {
        let mut sum = ByOthers::default();
        let own = number % self.seen.len() as u32;
        for (_, flows) in (0_u32..).zip(&self.seen).filter(|(worker, _)| *worker != own) {
            let seen = &flows[number as usize];
            for (counter, cell) in COUNTED.into_iter().zip(&seen.counts) {
                sum.counters[counter] += cell.load(Ordering::Relaxed);
            }
            // The highest number over all queues: each of them sees only a part.
            sum.next_sequence = sum.next_sequence.max(seen.next_sequence.load(Ordering::Relaxed));
        }
        sum
    }

    /// Counts one more worker whose own flows are complete; called once by each.
    pub(super) fn complete(&self) {
        self.complete.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns true once all flows of the job are complete: until then each worker continues to
    /// read its queues.
    pub(super) fn all_complete(&self) -> bool {
        self.complete.load(Ordering::Relaxed) as usize >= self.seen.len()
    }
}

#[cfg(test)]
mod tests {
    use linerate_model::Nanos;
    use linerate_packet::frame::{SIGNATURE_BYTES, Stamp, signature};

    use super::super::ledger::{Clocks, Tags};
    use super::*;
    use crate::{Tally, Times};

    #[test]
    fn arrivals_at_another_queue_are_added_by_the_flows_own_worker() {
        let board = Queues::new(2, 4).board();
        let mut ledger = Ledger::of_all(4, Tags { outward: 1, inward: 2 }, 2, Clocks::Unknown);
        let mut tally = Tally::new(Times::NONE);
        for (flow, sequence) in [(1, 0), (1, 2), (1, 2), (2, 0), (3, 5)] {
            let mut payload = [0; SIGNATURE_BYTES];
            signature::write(
                &mut payload,
                2,
                flow,
                &Stamp { sequence, scheduled_ns: 0, lateness_ns: 0 },
            );
            ledger.arrived(&payload, 50, Nanos(0), &mut tally);
        }
        // Worker 0 has flows 0 and 2; worker 1 reports its counts of flows 1 and 3.
        board.tell(0, &ledger);
        let seen = |number| {
            let others = board.by_others(number);
            (others.known(), others.counters[Counter::Duplicates], others.next_sequence)
        };
        assert_eq!([0, 1, 2, 3].map(seen), [(0, 0, 0), (2, 1, 3), (0, 0, 0), (1, 0, 6)]);
        board.tell(0, &ledger);
        assert_eq!(seen(1), (2, 1, 3), "totals are published, not changes");
        assert_eq!(
            (tally.counters[Counter::DatagramsReceived], tally.counters[Counter::Foreign]),
            (4, 0)
        );
    }

    #[test]
    fn no_worker_stops_before_every_flow_is_complete() {
        let board = Queues::new(2, 2).board();
        board.complete();
        assert!(!board.all_complete());
        board.complete();
        assert!(board.all_complete());
    }
}
