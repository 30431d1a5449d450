//! Figures that a foreign end reports itself, such as an iperf3 server: once, after its load, and
//! over all of it. Warm-up is included, so they are metrics of their own.
//!
//! - `foreign_goodput`: payload that a foreign receiver counted, over its time, per direction
//! - `foreign_retransmits`: segments that a foreign sender sent again, per direction
//! - `foreign_cpu`: CPU of its program, direction `sum`
//!
//! A figure that the foreign end does not report is absent.

use std::collections::BTreeMap;

use linerate_model::{Counter, Direction, FlowReport, ForeignEnd, JobRecord, metric};

use super::figures::Figures;
use super::flow::Flow;
use super::traffic::Job;

/// Bits in a byte.
const BITS: f64 = 8.0;

/// Returns the flows of the foreign end that `record`, of the other end, has reports of, by number.
pub(super) fn by_number(record: &JobRecord) -> BTreeMap<u32, FlowReport> {
    let reported = record.flows.iter().filter_map(|flow| Some((flow.flow, flow.foreign.as_ref()?)));
    reported.map(|(flow, foreign)| (flow, as_flow(flow, foreign))).collect()
}

fn as_flow(flow: u32, foreign: &ForeignEnd) -> FlowReport {
    let (counters, next_sequence) = (foreign.counters, foreign.next_sequence);
    FlowReport { flow, counters, next_sequence, ..FlowReport::default() }
}

/// Adds the figures of the foreign end of `job`, if it has one that reports.
pub(super) fn report(figures: &mut Figures, job: &Job<'_>) {
    for flow in job.flows() {
        figures.put_some(metric::FOREIGN_GOODPUT, flow.direction, goodput(flow));
        figures.put_some(metric::FOREIGN_RETRANSMITS, flow.direction, retransmits(flow));
    }
    let reports = job.ends().into_iter().flat_map(|end| &end.flows);
    let cpu = reports.filter_map(|flow| flow.foreign.as_ref()?.cpu).reduce(f64::max);
    figures.put_some(metric::FOREIGN_CPU, Direction::Sum, cpu);
}

/// Returns the payload bits per second that the foreign receiver of `flow` counted.
fn goodput(flow: Flow<'_>) -> Option<f64> {
    let ours = flow.own_sender().filter(|_| flow.is_foreign())?;
    let sent = ours.flows.iter().filter(|flow| flow.counters[Counter::PayloadSent] > 0);
    let reports: Option<Vec<&ForeignEnd>> = sent.map(|flow| flow.foreign.as_deref()).collect();
    let reports = reports?;
    let bytes: u64 = reports.iter().map(|one| one.counters[Counter::PayloadReceived]).sum();
    let seconds = reports.iter().map(|one| one.time.as_secs_f64()).reduce(f64::max)?;
    (seconds > 0.0).then(|| bytes as f64 * BITS / seconds)
}

/// Returns the segments that the foreign sender of `flow` sent again.
fn retransmits(flow: Flow<'_>) -> Option<f64> {
    let ours = flow.own_receiver().filter(|_| flow.own_sender().is_none())?;
    let reports = ours.flows.iter().filter_map(|flow| flow.foreign.as_ref()?.retransmits);
    reports.reduce(|sum, more| sum + more).map(|n| n as f64)
}

#[cfg(test)]
mod tests {
    use linerate_model::{Counters, Endpoint, Interval, JobSpec, Nanos, Params};

    use super::*;
    use crate::study::flow::Path;
    use crate::study::loss::tests::of_flows;
    use crate::study::span::Span;
    use crate::study::traffic;

    use Counter::{
        DatagramsReceived, DatagramsSent, PayloadReceived, PayloadSent, SequenceAdvance,
    };

    fn counters(counted: &[(Counter, u64)]) -> Counters {
        let mut counters = Counters::default();
        counted.iter().for_each(|(counter, n)| counters[*counter] = *n);
        counters
    }

    /// Counts of a flow at our end, and the report of the server.
    type Reported<'a> = (&'a [(Counter, u64)], Option<ForeignEnd>);

    /// Record of our end: one interval of a second, and its flows with the reports of the server.
    fn ours(flows: &[Reported<'_>]) -> JobRecord {
        let mut all = Counters::default();
        let flows = (0..).zip(flows).map(|(number, (counted, foreign))| {
            let counters = counters(counted);
            all.add(&counters);
            let next_sequence = counters[DatagramsSent].max(counters[SequenceAdvance]);
            let foreign = foreign.clone().map(Box::new);
            FlowReport { flow: number, counters, next_sequence, foreign, ..FlowReport::default() }
        });
        let flows = flows.collect();
        let end = Nanos::from_secs(1);
        let interval = Interval { end, counters: all.into(), ..Interval::default() };
        JobRecord { intervals: vec![interval], flows }
    }

    fn foreign(counted: &[(Counter, u64)], next_sequence: u64) -> ForeignEnd {
        ForeignEnd {
            counters: counters(counted),
            next_sequence,
            time: Nanos::from_secs(2),
            cpu: Some(0.25),
            ..ForeignEnd::default()
        }
    }

    /// Figures of a job whose passive end is foreign, over the first second.
    fn figures(active: &JobRecord) -> Figures {
        let (from, to) = (Endpoint::named("a", "h"), Endpoint::named("iperf3://s", "iperf3://s"));
        let params = Params::default();
        let spec = JobSpec { workload: "iperf3".into(), from, to, params, background: None };
        let passive = JobRecord::default();
        let clocks = [None, None];
        let job = Job { spec: &spec, active, passive: &passive, clocks, stalls: Vec::new() };
        let span = Span { from: Nanos(0), to: Nanos::from_secs(1) };
        traffic::figures(&job, span, Path::default(), &of_flows(&job))
    }

    #[test]
    fn datagrams_to_a_foreign_receiver_have_its_loss_and_goodput() {
        let sent: &[(Counter, u64)] = &[(PayloadSent, 100_000), (DatagramsSent, 100)];
        let server = foreign(&[(PayloadReceived, 75_000), (DatagramsReceived, 75)], 90);
        let found = figures(&ours(&[(sent, Some(server))]));
        let of = |metric| found.get(metric, Direction::Tx);
        assert_eq!(of(metric::GOODPUT), Some(600_000.0), "three quarters of what was sent");
        assert_eq!((of(metric::LOST), of(metric::LOSS_RATIO)), (Some(25.0), Some(0.25)));
        assert_eq!(of(metric::PACKET_RATE), Some(75.0));
        assert_eq!(of(metric::FOREIGN_GOODPUT), Some(300_000.0), "over its own two seconds");
        assert_eq!(found.get(metric::FOREIGN_CPU, Direction::Sum), Some(0.25));
        assert_eq!(of(metric::RECEIVER_CPU), None, "it is not ours");
    }

    #[test]
    fn a_foreign_receiver_that_reports_nothing_is_a_gap() {
        let sent: &[(Counter, u64)] = &[(PayloadSent, 100_000), (DatagramsSent, 100)];
        let found = figures(&ours(&[(sent, None)]));
        for gap in [metric::GOODPUT, metric::LOST, metric::LOSS_RATIO, metric::PACKET_RATE] {
            assert_eq!(found.get(gap, Direction::Tx), None, "{}", gap.name);
        }
    }

    #[test]
    fn a_black_hole_delivers_nothing() {
        let sent: &[(Counter, u64)] = &[(PayloadSent, 100_000), (DatagramsSent, 100)];
        let found = figures(&ours(&[(sent, Some(foreign(&[], 0)))]));
        let of = |metric| found.get(metric, Direction::Tx);
        assert_eq!((of(metric::GOODPUT), of(metric::LOSS_RATIO)), (Some(0.0), Some(1.0)));
    }

    #[test]
    fn both_directions_of_datagrams_are_told_apart() {
        let sent: &[(Counter, u64)] = &[(PayloadSent, 100_000), (DatagramsSent, 100)];
        let came: &[(Counter, u64)] =
            &[(PayloadReceived, 40_000), (DatagramsReceived, 40), (SequenceAdvance, 45)];
        let there = foreign(&[(PayloadReceived, 100_000), (DatagramsReceived, 100)], 100);
        let back = foreign(&[(PayloadSent, 50_000), (DatagramsSent, 50)], 50);
        let found = figures(&ours(&[(sent, Some(there)), (came, Some(back))]));
        let lost = [Direction::Tx, Direction::Rx].map(|way| found.get(metric::LOST, way));
        assert_eq!(lost, [Some(0.0), Some(10.0)]);
        assert_eq!(found.get(metric::GOODPUT, Direction::Rx), Some(320_000.0));
    }

    #[test]
    fn retransmissions_of_a_foreign_sender_are_its_own() {
        let came: &[(Counter, u64)] = &[(PayloadReceived, 40_000)];
        let back = |retransmits| ForeignEnd { retransmits, ..foreign(&[(PayloadSent, 41_000)], 0) };
        let found = figures(&ours(&[(came, Some(back(Some(3)))), (came, Some(back(Some(4))))]));
        assert_eq!(found.get(metric::FOREIGN_RETRANSMITS, Direction::Rx), Some(7.0));
        assert_eq!(found.get(metric::RETRANSMITS, Direction::Rx), None);
        let silent = figures(&ours(&[(came, Some(back(None)))]));
        assert_eq!(silent.get(metric::FOREIGN_RETRANSMITS, Direction::Rx), None);
    }
}
