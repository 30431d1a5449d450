//! The loss ledger of a datagram job: the outcome of every datagram sent.
//!
//! `sent = unique + late + lost`, and `lost = gap + tail + all`: *gap* is missing below the highest
//! sequence number seen, *tail* was sent after it, *all* belongs to flows of which the receiver saw
//! nothing (the case a sequence-number count alone reports as no loss): see [`LossLedger`]. Totals
//! are over the whole trial, warm-up and drain included, because a datagram sent in one phase may
//! arrive in the next. Duplicates never make up for losses (docs/methodology/searches.md#trial).
//!
//! Losses are located as far as counters allow, each at a [`LossPlace`] (see [`locate`]); the rest
//! is *unexplained*.

mod locate;

use std::collections::BTreeMap;

use linerate_model::{Counter, Direction, FlowReport, JobRecord, LossLedger, TrialRecord, series};
use serde::{Deserialize, Serialize};

use self::locate::{Places, locate};
use super::flow::Flow;
use super::foreign;
use super::leaving;
use super::loss_place::LossPlace;
use super::samples::{Hosts, Samples};
use super::span::total;
use super::traffic::Job;

/// Outcomes of the datagrams of one direction, all flows added.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LossStudy {
    /// Direction of the datagrams.
    pub direction: Direction,
    /// Both ends' counts, reconciled.
    pub ledger: LossLedger,
    /// Located losses: the place and the number of datagrams.
    pub located: Vec<(LossPlace, u64)>,
    /// Places whose counters were not read in every trial.
    pub unobserved: Vec<LossPlace>,
    /// Lost datagrams without a place.
    pub unexplained: u64,
    /// Why the ledger does not balance; empty if it does.
    pub imbalance: Vec<Imbalance>,
}

/// Contradiction in the counts of one flow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "fields that are not explained are what they are called")]
pub enum Imbalance {
    /// The counts of both ends do not fit together; `received` counts distinct datagrams, and all
    /// sequence numbers seen are below `next_sequence`.
    Counts { flow: u32, sent: u64, received: u64, next_sequence: u64 },
    /// The sender does not know the flow of received datagrams.
    UnknownFlow { flow: u32 },
}

impl LossStudy {
    /// Returns whether every datagram is accounted for.
    #[must_use]
    pub fn balances(&self) -> bool {
        let LossLedger { sent, unique, late, .. } = self.ledger;
        self.imbalance.is_empty() && sent == unique + late + self.ledger.lost()
    }

    /// Adds another trial's, or the other direction's.
    pub(super) fn add(&mut self, more: &Self) {
        add(&mut self.ledger, &more.ledger);
        self.unexplained += more.unexplained;
        for (place, n) in &more.located {
            match self.located.iter_mut().find(|(known, _)| known == place) {
                Some((_, sum)) => *sum += n,
                None => self.located.push((place.clone(), *n)),
            }
        }
        let unknown = more.unobserved.iter().filter(|place| !self.unobserved.contains(place));
        let unknown: Vec<LossPlace> = unknown.cloned().collect();
        self.unobserved.extend(unknown);
        self.imbalance.extend(more.imbalance.iter().cloned());
    }

    /// One flow's datagrams.
    fn count_flow(&mut self, flow: u32, sender: &FlowReport, receiver: &FlowReport) {
        // Counts that do not fit together are kept as an imbalance instead of being forced to
        // agree.
        if let Some(of_flow) = LossLedger::reconcile(sender, receiver) {
            add(&mut self.ledger, &of_flow);
            return;
        }
        let sent = sender.counters[Counter::DatagramsSent];
        let received =
            receiver.counters[Counter::DatagramsReceived] + receiver.counters[Counter::Late];
        self.ledger.sent += sent;
        let next_sequence = receiver.next_sequence;
        self.imbalance.push(Imbalance::Counts { flow, sent, received, next_sequence });
    }
}

fn add(sum: &mut LossLedger, more: &LossLedger) {
    sum.sent += more.sent;
    sum.unique += more.unique;
    sum.late += more.late;
    sum.lost_gap += more.lost_gap;
    sum.lost_tail += more.lost_tail;
    sum.lost_all += more.lost_all;
    sum.duplicates += more.duplicates;
    sum.reordered += more.reordered;
}

/// Flows of one end by number.
type ByNumber = BTreeMap<u32, FlowReport>;

/// Returns the ledger of `flow`; `None` if no datagrams were sent, or the totals of an end are not
/// known: those of a foreign end are what it reported.
fn ledger_of(flow: &Flow<'_>) -> Option<LossStudy> {
    let sent = flow.own_sender().map_or_else(|| foreign::by_number(flow.receiver), by_number);
    let received = flow.own_receiver().map_or_else(|| foreign::by_number(flow.sender), by_number);
    let is_reported = !flow.is_foreign() || !received.is_empty();
    is_reported.then(|| ledger(flow.direction, &sent, &received))?
}

/// Returns the ledger of what was `sent`; `None` if no datagrams were.
fn ledger(direction: Direction, sent: &ByNumber, received: &ByNumber) -> Option<LossStudy> {
    let mut loss = LossStudy {
        direction,
        ledger: LossLedger::default(),
        located: Vec::new(),
        unobserved: Vec::new(),
        unexplained: 0,
        imbalance: Vec::new(),
    };
    let nothing = FlowReport::default();
    for (number, flow) in sent.iter().filter(|(_, flow)| flow.counters[Counter::DatagramsSent] > 0)
    {
        loss.count_flow(*number, flow, received.get(number).unwrap_or(&nothing));
    }
    for (number, flow) in received {
        // Datagrams of a flow that the sender does not know cannot be balanced.
        if !sent.contains_key(number) && flow.counters[Counter::DatagramsReceived] > 0 {
            loss.imbalance.push(Imbalance::UnknownFlow { flow: *number });
        }
    }
    // Everything is unexplained until a place claims a part of it.
    loss.unexplained = loss.ledger.lost();
    (loss.ledger.sent > 0).then_some(loss)
}

/// Returns the flows of one end by number; parts of one flow that several workers carried are
/// added.
fn by_number(end: &JobRecord) -> ByNumber {
    let mut flows = ByNumber::new();
    for report in &end.flows {
        let flow = flows.entry(report.flow).or_default();
        flow.counters.add(&report.counters);
        // Workers share a flow, and the highest number seen by any of them ends the flow.
        flow.next_sequence = flow.next_sequence.max(report.next_sequence);
    }
    flows
}

/// Host name under which readings of a lab's devices are recorded.
pub(super) const OF_DEVICES: &str = "";

/// Returns whether a process of this machine carries frames between the hosts of `trial`: a lab's
/// device, or its link with delay or faults.
pub(super) fn is_carried_by_a_process(trial: &TrialRecord) -> bool {
    !Samples::of(trial, OF_DEVICES).instances(series::device::SAMPLER).is_empty()
}

/// Returns the name of the lab device that recorded `instance`, if it is on the way from endpoint
/// `from` to `to`.
pub(super) fn device_on_the_way<'a>(instance: &'a str, from: &str, to: &str) -> Option<&'a str> {
    // The lab writes `NAME FROM>TO`; the name of a link has a space of its own.
    let (name, way) = instance.rsplit_once(' ')?;
    let (near, far) = way.split_once('>')?;
    (near == from || far == to).then_some(name)
}

/// The workload whose datagrams UDP sockets receive one by one.
const UDP_STREAM: &str = "udp_stream";

/// Returns the ledger of a datagram job, per direction, losses located.
pub(super) fn of_job(
    trial: &TrialRecord,
    job: &Job<'_>,
    hosts: &Hosts<'_>,
    alone: bool,
) -> Vec<LossStudy> {
    let requests = [Counter::Transactions, Counter::TransactionsLost];
    // Answers belong to requests, which have an account of their own.
    if job.ends().iter().any(|end| requests.iter().any(|counter| total(end, *counter) > 0)) {
        return Vec::new();
    }
    let (from, to) =
        (Samples::of(trial, &job.spec.from.host), Samples::of(trial, &job.spec.to.host));
    let devices = Samples::of(trial, OF_DEVICES);
    let over_udp = job.spec.workload == UDP_STREAM;
    let share_kernel = hosts.kernel(&job.spec.from.host) == hosts.kernel(&job.spec.to.host);
    let flows = job.flows();
    let losses = flows.iter().filter_map(|flow| {
        let mut loss = ledger_of(flow)?;
        if flow.own_sender().is_none() || flow.own_receiver().is_none() {
            // The host of a foreign end has no counters here.
            return Some(loss);
        }
        let (near, far) = ((&from, &job.spec.from), (&to, &job.spec.to));
        let (sender, receiver) =
            if flow.direction == Direction::Rx { (far, near) } else { (near, far) };
        let (sent, received) = (flow.sender, flow.receiver);
        let out = &leaving::device_chains(hosts, sender.1, receiver.1);
        let into = &leaving::device_chains(hosts, receiver.1, sender.1).concat();
        let devices = &devices;
        let places = Places {
            sender,
            out,
            receiver,
            into,
            devices,
            sent,
            received,
            alone,
            over_udp,
            share_kernel,
        };
        locate(&mut loss, &places);
        Some(loss)
    });
    losses.collect()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Returns the ledgers of `job`, without places.
    pub(in crate::study) fn of_flows(job: &Job<'_>) -> Vec<LossStudy> {
        job.flows().iter().filter_map(ledger_of).collect()
    }

    type Counted<'a> = (u32, &'a [(Counter, u64)], u64);

    fn end(flows: &[Counted<'_>]) -> JobRecord {
        let flows = flows.iter().map(|(flow, counted, next_sequence)| {
            let mut report =
                FlowReport { flow: *flow, next_sequence: *next_sequence, ..FlowReport::default() };
            for (counter, n) in *counted {
                report.counters[*counter] = *n;
            }
            report
        });
        JobRecord { intervals: Vec::new(), flows: flows.collect() }
    }

    fn of_records(sender: &JobRecord, receiver: &JobRecord) -> Option<LossStudy> {
        ledger(Direction::Tx, &by_number(sender), &by_number(receiver))
    }

    use Counter::{DatagramsReceived as Received, DatagramsSent as Sent, Duplicates, Late};

    #[test]
    fn gaps_tails_and_black_holes_add_up() {
        let sender = end(&[(0, &[(Sent, 100)], 100), (1, &[(Sent, 50)], 50)]);
        let receiver = end(&[(0, &[(Received, 80), (Late, 5), (Duplicates, 7)], 95), (1, &[], 0)]);
        let found = of_records(&sender, &receiver).expect("datagrams were sent");
        assert_eq!(
            (found.ledger.lost_gap, found.ledger.lost_tail, found.ledger.lost_all),
            (10, 5, 50)
        );
        assert_eq!((found.ledger.lost(), found.ledger.duplicates, found.ledger.late), (65, 7, 5));
        assert!(found.balances(), "{found:?}");
    }

    #[test]
    fn a_receiver_that_saw_nothing_lost_all() {
        let sender = end(&[(0, &[(Sent, 1000)], 1000)]);
        let found = of_records(&sender, &end(&[])).expect("datagrams were sent");
        assert_eq!((found.ledger.lost_all, found.ledger.lost()), (1000, 1000));
        assert!(found.balances());
    }

    #[test]
    fn more_received_than_sent_does_not_balance() {
        let sender = end(&[(0, &[(Sent, 10)], 10)]);
        for counted in [&[(Received, 11)][..], &[(Received, 8), (Late, 3)]] {
            let receiver = end(&[(0, counted, 10)]);
            assert!(!of_records(&sender, &receiver).expect("sent").balances(), "{counted:?}");
        }
        assert_eq!(of_records(&end(&[]), &end(&[])), None);
    }
}
