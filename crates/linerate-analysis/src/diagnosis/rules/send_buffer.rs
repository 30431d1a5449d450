//! The send buffer is smaller than the path needs (docs/methodology/diagnosis.md#rules, D7). TCP
//! only.
//!
//! Evidence: the kernel waited for room in the send buffer more than [`WAITED`] of the time. Behind
//! a small buffer that a sysctl limits (`tcp_wmem`) the kernel counts hardly any such time: a new
//! segment is queued as soon as an acknowledgement makes room. The evidence is then that data in
//! flight fills the whole buffer, although the sender always has data and nothing else limits it.
//! Not observed: whether another application would have filled a larger buffer.

use linerate_model::{Direction, metric};

use super::{
    FlowEnd, Rule, TCP_STREAM, flows, grown, may_be_judged, only_the_path, option_of_sender,
    out_of_cpu, room, score, seen, standing_queue, suspected, value,
};
use crate::diagnosis::experiment::{Experiment, bytes, set};
use crate::diagnosis::{Claim, Evidence, Finding, Step};
use crate::{JobStudy, PointStudy};

/// Share of the time waiting for the buffer above which it counts as the limit.
const WAITED: f64 = 0.3;
/// Data in flight over the granted buffer from which it fills the buffer. The kernel counts its own
/// bookkeeping in the buffer, so that data fills 0.5 to 0.7 of it, and lets the packet that it
/// began grow to 64 KiB beyond it. A buffer that grows with the window is at least twice the data.
const FILLS: f64 = 0.6;
/// Largest share of the time without data to send, and of retransmitted bytes, and largest standing
/// queue, of a sender that only its buffer limits.
const STARVED: f64 = 0.1;
const LOSSLESS: f64 = 1e-3;
const NO_QUEUE: f64 = 0.3;

/// Returns the bytes that a flow of `job` has in flight.
fn in_flight(job: &JobStudy, direction: Direction) -> Option<f64> {
    let read = |metric| value(job, metric, direction);
    Some(read(metric::GOODPUT)? * read(metric::RTT)? / BITS_PER_BYTE / super::n_flows(job))
}

/// Returns the share of the granted buffer that data in flight fills, where nothing else than the
/// buffer limits a sender that always has data.
fn filled(job: &JobStudy, direction: Direction) -> Option<f64> {
    let read = |metric| value(job, metric, direction);
    let granted = option_of_sender(job, "send_buffer", direction)
        .filter(|granted| *granted > 0.0 && job.workload == TCP_STREAM)?;
    let has_data = read(metric::SOURCE_WAIT).is_none_or(|share| share < STARVED);
    let is_clean = read(metric::RETRANSMIT_RATIO).is_some_and(|ratio| ratio < LOSSLESS)
        && standing_queue(job, direction).is_some_and(|queue| queue < NO_QUEUE);
    let is_free = has_data && is_clean && only_the_path(job, direction);
    Some(in_flight(job, direction).filter(|_| is_free)? / granted)
}

/// Returns the share of the time in which a sender with CPU time waited for room, above [`WAITED`].
fn waited(job: &JobStudy, direction: Direction) -> Option<f64> {
    // A sender without CPU time drains its buffer late, and the kernel counts that as waiting for
    // room.
    value(job, metric::SNDBUF_LIMITED, direction)
        .filter(|share| *share > WAITED && out_of_cpu(job, FlowEnd::Sending, direction).is_none())
}

fn is_limit(job: &JobStudy, direction: Direction) -> bool {
    waited(job, direction).is_some() || filled(job, direction).is_some_and(|share| share >= FILLS)
}

/// Rule: the sender waits for its own buffer.
pub(super) const RULE: Rule = Rule {
    number: 7,
    name: "send_buffer",
    summary: "the sender waited for room in its own send buffer more than 30 % of the time",
    judge,
    score,
    experiments,
    ..Rule::PLAIN
};

fn judge(point: &PointStudy) -> Option<Finding> {
    let limits = |(job, direction): &(&JobStudy, Direction)| is_limit(job, *direction);
    let (job, direction) = flows(point).find(limits).filter(|_| may_be_judged(point))?;
    let evidence = match waited(job, direction) {
        Some(_) => seen(job, metric::SNDBUF_LIMITED, direction)?,
        None => Evidence::FillsBuffer {
            bytes: in_flight(job, direction)?,
            ratio: filled(job, direction)?,
        },
    };
    let about = (point, job, direction);
    let finding = suspected(RULE.name, about, Claim::SendBuffer, vec![evidence]);
    Some(finding.advise(Step::DoubleBuffer(FlowEnd::Sending)))
}

fn score(point: &PointStudy) -> Option<f64> {
    score::best(point, |job, direction| {
        let waited = score::reached(value(job, metric::SNDBUF_LIMITED, direction)?, WAITED, 1.0);
        let waited = filled(job, direction)
            .map_or(waited, |share| waited.max(score::reached(share, FILLS, 1.0)));
        let cpu = out_of_cpu(job, FlowEnd::Sending, direction).map_or(1.0, |_| 0.0);
        Some(score::all([waited, cpu]))
    })
}

fn experiments(point: &PointStudy) -> Vec<Experiment> {
    flows(point).find_map(|(job, direction)| larger_buffer(job, direction)).into_iter().collect()
}

fn larger_buffer(job: &JobStudy, direction: Direction) -> Option<Experiment> {
    let granted =
        option_of_sender(job, "send_buffer", direction).filter(|_| job.workload == TCP_STREAM)?;
    // The kernel completes a packet that it began although the buffer is full. More bytes than the
    // buffer may then be in flight, and the experiment must double those.
    let under_way = in_flight(job, direction).map_or(granted, |bytes| bytes.max(granted));
    // The kernel grants twice the requested size, so requesting the present size doubles it.
    let change = vec![set("send_buffer", bytes(under_way))];
    // A larger buffer helps only up to the ceiling of the path.
    let [least, _] = grown(LARGER, room(job, direction));
    // The data in flight at least double. They grow with the buffer if runs without the change have
    // less in flight than the one that was seen.
    let [_, most] = grown(LARGER * under_way / granted, f64::INFINITY);
    Some(Experiment::lift("twice the send buffer", change, [least, most]))
}

const BITS_PER_BYTE: f64 = 8.0;
/// Factor by which the experiment enlarges the buffer.
const LARGER: f64 = 2.0;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnosis::rules::cases::point;

    #[test]
    fn it_fires_on_long_waits_and_is_silent_on_short_ones() {
        assert!(RULE.judge(&point(&[("goodput", 1e8), ("sndbuf_limited", 0.5)])).is_some());
        assert_eq!(RULE.judge(&point(&[("goodput", 1e8), ("sndbuf_limited", 0.2)])), None);
    }

    /// A sender of 26 Mbit/s over 23.6 ms, so that 77 kB are in flight, with a buffer of `granted`
    /// bytes.
    fn limited_by_sysctl(granted: u64, more: &[(&str, f64)]) -> PointStudy {
        let usual = [
            ("goodput", 26.17e6),
            ("rtt", 0.0236),
            ("rtt_min", 0.0226),
            ("sender_busy", 0.998),
            ("rwnd_limited", 0.0),
            ("sndbuf_limited", 0.048),
            ("retransmit_ratio", 0.0),
        ];
        // Of two figures of one name the first counts.
        let mut point = point(&more.iter().chain(&usual).copied().collect::<Vec<_>>());
        let option = linerate_model::SocketValue {
            granted: Some(granted.into()),
            at_end: Some(granted.into()),
            ..linerate_model::SocketValue::default()
        };
        let buffers = crate::Obtained { from: vec![crate::Given::Option(option)], to: Vec::new() };
        point.jobs[0].obtained.insert("send_buffer".into(), buffers);
        point
    }

    #[test]
    fn a_buffer_that_data_in_flight_fills_limits_without_a_counted_wait() {
        let small = limited_by_sysctl(32_768, &[]);
        let finding = RULE.judge(&small).expect("77 kB are in flight");
        let [Evidence::FillsBuffer { ratio, .. }] = finding.evidence[..] else {
            panic!("{finding:?}")
        };
        assert!((2.3..2.5).contains(&ratio), "{ratio}");
        assert!(RULE.score(&small).is_some_and(|score| score > 0.5));
        let silent =
            |granted, more: &[(&str, f64)]| RULE.judge(&limited_by_sysctl(granted, more)).is_none();
        assert!(silent(2_626_560, &[]), "a buffer that grows");
        assert!(silent(32_768, &[("source_wait", 0.8)]), "nothing to send");
        assert!(silent(32_768, &[("retransmit_ratio", 0.01)]), "loss");
        assert!(silent(32_768, &[("rwnd_limited", 0.6)]), "the peer's window");
    }

    #[test]
    fn goodput_may_grow_with_the_buffer_where_more_than_the_buffer_is_in_flight() {
        let ratio = |granted: u64| {
            RULE.experiments(&limited_by_sysctl(granted, &[]))[0].ratio.map(|it| it.round())
        };
        // 77 kB are in flight: the buffer becomes 154 kB, 4.7 times 32 KiB.
        assert_eq!(ratio(32_768), [2.0, 6.0]);
        assert_eq!(ratio(100_000), [2.0, 3.0], "1.5 to 2.5 times");
    }
}
