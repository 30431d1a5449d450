//! The loss ledger of a datagram job: what was sent and what became of it, to the last datagram.
//!
//! `sent = unique + late + lost`, and `lost = gap + tail + all`: *gap* is missing below the highest sequence number seen,
//! *tail* was sent after it, *all* belongs to flows of which the receiver saw nothing (the case a sequence-number count
//! alone reports as no loss). Totals are over the whole trial, warm-up and drain included, because a datagram sent in one
//! phase may arrive in the next. Duplicates never make up for losses (methodology 4.0).
//!
//! Losses are located as far as counters allow, in the order of the path; the rest is *unexplained*. Counters of queues and
//! devices also count other traffic: what they show is claimed only up to what was lost. What it does not see: drops inside
//! the network, and which of two flows a shared counter belongs to (so shared counters are used only where one job ran).

use std::collections::BTreeMap;

use linerate_model::{Counter, Direction, Endpoint, FlowReport, JobRecord, SeriesSpec};
use serde::{Deserialize, Serialize};

use super::samples::Samples;

/// What became of the datagrams of one direction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LossLedger {
    /// Which way they went.
    pub direction: Direction,
    /// Datagrams handed to the sending socket.
    pub sent: u64,
    /// Distinct datagrams received in time.
    pub unique: u64,
    /// Distinct datagrams received after their deadline.
    pub late: u64,
    /// Never received, with a higher sequence number received.
    pub lost_gap: u64,
    /// Never received, sent after the last one received.
    pub lost_tail: u64,
    /// Never received, on flows of which nothing was received.
    pub lost_all: u64,
    /// Received more than once.
    pub duplicates: u64,
    /// Received after one with a higher sequence number.
    pub reordered: u64,
    /// Losses found: where, and how many of the lost ones.
    pub located: Vec<(String, u64)>,
    /// Places whose counters were not read in every trial.
    pub unobserved: Vec<String>,
    /// Lost and not found anywhere.
    pub unexplained: u64,
    /// Why the ledger does not balance; empty if it does.
    pub imbalance: Vec<String>,
}

impl LossLedger {
    /// Sent and never received.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.lost_gap + self.lost_tail + self.lost_all
    }

    /// Whether every datagram is accounted for.
    #[must_use]
    pub fn balances(&self) -> bool {
        self.imbalance.is_empty() && self.sent == self.unique + self.late + self.lost()
    }

    fn new(direction: Direction) -> Self {
        Self {
            direction,
            sent: 0,
            unique: 0,
            late: 0,
            lost_gap: 0,
            lost_tail: 0,
            lost_all: 0,
            duplicates: 0,
            reordered: 0,
            located: Vec::new(),
            unobserved: Vec::new(),
            unexplained: 0,
            imbalance: Vec::new(),
        }
    }

    /// Adds another trial's ledger of the same direction.
    pub(super) fn add(&mut self, more: &Self) {
        self.sent += more.sent;
        self.unique += more.unique;
        self.late += more.late;
        self.lost_gap += more.lost_gap;
        self.lost_tail += more.lost_tail;
        self.lost_all += more.lost_all;
        self.duplicates += more.duplicates;
        self.reordered += more.reordered;
        self.unexplained += more.unexplained;
        for (place, n) in &more.located {
            match self.located.iter_mut().find(|(known, _)| known == place) {
                Some((_, sum)) => *sum += n,
                None => self.located.push((place.clone(), *n)),
            }
        }
        let unknown = more.unobserved.iter().filter(|place| !self.unobserved.contains(place));
        let unknown: Vec<String> = unknown.cloned().collect();
        self.unobserved.extend(unknown);
        self.imbalance.extend(more.imbalance.iter().cloned());
    }

    /// One flow's datagrams.
    fn count_flow(&mut self, flow: u32, sender: &FlowReport, receiver: Option<&FlowReport>) {
        let sent = sender.counters[Counter::DatagramsSent];
        self.sent += sent;
        let Some(receiver) = receiver else {
            self.lost_all += sent;
            return;
        };
        let unique = receiver.counters[Counter::DatagramsReceived];
        let late = receiver.counters[Counter::Late];
        let seen = receiver.next_sequence;
        self.unique += unique;
        self.late += late;
        self.duplicates += receiver.counters[Counter::Duplicates];
        self.reordered += receiver.counters[Counter::Reordered];
        if unique + late > sent {
            self.imbalance.push(format!("flow {flow}: {} distinct datagrams received of {sent} sent", unique + late));
        } else if unique + late == 0 {
            self.lost_all += sent;
        } else if seen > sent {
            self.imbalance.push(format!("flow {flow}: sequence number {} received, {sent} datagrams sent", seen - 1));
        } else if seen < unique + late {
            self.imbalance
                .push(format!("flow {flow}: {} distinct datagrams below sequence number {seen}", unique + late));
        } else {
            self.lost_gap += seen - unique - late;
            self.lost_tail += sent - seen;
        }
    }
}

/// The ledger of what `sender` sent; `None` if it sent no datagrams or its totals are not known.
pub(super) fn ledger(direction: Direction, sender: &JobRecord, receiver: &JobRecord) -> Option<LossLedger> {
    let mut ledger = LossLedger::new(direction);
    let (sent, received) = (by_number(sender), by_number(receiver));
    for (number, flow) in sent.iter().filter(|(_, flow)| flow.counters[Counter::DatagramsSent] > 0) {
        ledger.count_flow(*number, flow, received.get(number));
    }
    for (number, flow) in &received {
        if !sent.contains_key(number) && flow.counters[Counter::DatagramsReceived] > 0 {
            ledger.imbalance.push(format!("flow {number}: datagrams received of a flow the sender does not know"));
        }
    }
    ledger.unexplained = ledger.lost();
    (ledger.sent > 0).then_some(ledger)
}

/// The flows of one end by number; what several workers carried of one is added.
fn by_number(end: &JobRecord) -> BTreeMap<u32, FlowReport> {
    let mut flows: BTreeMap<u32, FlowReport> = BTreeMap::new();
    for report in &end.flows {
        let flow = flows.entry(report.flow).or_default();
        flow.counters.add(&report.counters);
        flow.next_sequence = flow.next_sequence.max(report.next_sequence);
    }
    flows
}

/// Where losses may be looked for.
pub(super) struct Places<'a> {
    /// The sending host's readings and end.
    pub(super) sender: (&'a Samples<'a>, &'a Endpoint),
    /// The receiving host's readings and end.
    pub(super) receiver: (&'a Samples<'a>, &'a Endpoint),
    /// What the receiving end counted.
    pub(super) received: &'a JobRecord,
    /// Whether this job alone used the hosts, so that their counters speak of it.
    pub(super) alone: bool,
}

/// Looks for the losses of `ledger` along the path.
pub(super) fn locate(ledger: &mut LossLedger, places: &Places<'_>) {
    let Places { sender: (sending, from), receiver: (receiving, to), received, alone } = places;
    let summed = |samples: &Samples<'_>, sampler: &str, name: &str, device: Option<&str>| {
        let wanted = |s: &SeriesSpec| {
            s.sampler == sampler && s.name == name && device.is_none_or(|device| is_of(&s.instance, device))
        };
        samples.extent().and_then(|span| samples.change(span, wanted))
    };
    // A queueing discipline counts what its children drop too, so that the largest of a device's is all of them.
    let queued = |samples: &Samples<'_>, device: Option<&str>| {
        let wanted = |s: &SeriesSpec| {
            s.sampler == "qdisc" && s.name == "drops" && device.is_none_or(|device| is_of(&s.instance, device))
        };
        samples.extent().and_then(|span| samples.largest_change(span, wanted))
    };
    let (from, to) = (from.device.as_deref(), to.device.as_deref());
    let dropped_at_socket = super::span::total(received, Counter::SocketDrops);
    let socket = if dropped_at_socket > 0 || !*alone {
        Some(dropped_at_socket as f64)
    } else {
        summed(receiving, "udp", "rcvbuf_errors", None).or(Some(0.0))
    };
    let shared = [
        ("sender qdisc", queued(sending, from)),
        ("sender device", summed(sending, "interface", "tx_dropped", from)),
        (
            "receiver device",
            sum(summed(receiving, "interface", "rx_dropped", to), summed(receiving, "interface", "rx_missed", to)),
        ),
        ("receiver backlog (softnet)", summed(receiving, "softnet", "dropped", None)),
    ];
    let shared = shared.into_iter().map(|(place, drops)| (place, drops.filter(|_| *alone)));
    for (place, drops) in shared.chain([("receiver socket", socket)]) {
        match drops {
            None => ledger.unobserved.push(place.to_owned()),
            Some(drops) => {
                let found = (drops.round() as u64).min(ledger.unexplained);
                ledger.unexplained -= found;
                if found > 0 {
                    ledger.located.push((place.to_owned(), found));
                }
            }
        }
    }
}

/// Whether a series' instance is of `device`: its name, or its name and something after it (`eth0 fq 8001:`).
fn is_of(instance: &str, device: &str) -> bool {
    instance.split_whitespace().next() == Some(device)
}

fn sum(a: Option<f64>, b: Option<f64>) -> Option<f64> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a + b),
        (a, b) => a.or(b),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Counted<'a> = (u32, &'a [(Counter, u64)], u64);

    fn end(flows: &[Counted<'_>]) -> JobRecord {
        let flows = flows.iter().map(|(flow, counted, next_sequence)| {
            let mut report = FlowReport { flow: *flow, next_sequence: *next_sequence, ..FlowReport::default() };
            for (counter, n) in *counted {
                report.counters[*counter] = *n;
            }
            report
        });
        JobRecord { intervals: Vec::new(), flows: flows.collect() }
    }

    use Counter::{DatagramsReceived as Received, DatagramsSent as Sent, Duplicates, Late};

    #[test]
    fn gaps_tails_and_black_holes_add_up() {
        let sender = end(&[(0, &[(Sent, 100)], 100), (1, &[(Sent, 50)], 50)]);
        let receiver = end(&[(0, &[(Received, 80), (Late, 5), (Duplicates, 7)], 95), (1, &[], 0)]);
        let found = ledger(Direction::Tx, &sender, &receiver).expect("datagrams were sent");
        assert_eq!((found.lost_gap, found.lost_tail, found.lost_all), (10, 5, 50));
        assert_eq!((found.lost(), found.duplicates, found.late), (65, 7, 5));
        assert!(found.balances(), "{found:?}");
    }

    #[test]
    fn a_receiver_that_saw_nothing_lost_all() {
        let sender = end(&[(0, &[(Sent, 1000)], 1000)]);
        let found = ledger(Direction::Tx, &sender, &end(&[])).expect("datagrams were sent");
        assert_eq!((found.lost_all, found.lost()), (1000, 1000));
        assert!(found.balances());
    }

    #[test]
    fn more_received_than_sent_does_not_balance() {
        let sender = end(&[(0, &[(Sent, 10)], 10)]);
        for (counted, next) in [(11, 10), (10, 12), (10, 9)] {
            let receiver = end(&[(0, &[(Received, counted)], next)]);
            assert!(!ledger(Direction::Tx, &sender, &receiver).expect("sent").balances(), "{counted} {next}");
        }
        assert_eq!(ledger(Direction::Tx, &end(&[]), &end(&[])), None);
    }
}
