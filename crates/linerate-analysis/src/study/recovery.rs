//! Time for which a device continued to lose frames after an overload (RFC 2544 26.5), at its two
//! ends; seconds.
//!
//! Seen from the sender, losses end with the last lost frame it sent: a full queue has room again
//! as soon as it drains faster than it fills. Seen from the receiver, they end when the frame after
//! the last gap arrives. That frame waited for the queue in front of it: the length of the queue
//! over the device's rate. Receivers that keep the last gap of each flow resolve both times to a
//! frame. Where frames overtook each other a gap may have been filled; where no gaps are kept,
//! intervals are used. Not covered: delays that continue after the losses.

use linerate_model::{Counter, FlowReport, LastGap, Nanos};

use super::span::{Span, counted};
use super::traffic::Job;

/// Frames that shares of intervals may amount to by rounding.
const ROUNDING_FRAMES: f64 = 2.0;

/// Time at which losses ended.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Recovered {
    /// By the time of sending.
    pub(super) ended_s: f64,
    /// By the time of receipt, where it was kept.
    pub(super) cleared_s: Option<f64>,
}

/// Returns the time from `overload_end` until losses ended. `None` if there were none, or they
/// lasted until the end of the trial.
pub(super) fn after(jobs: &[Job<'_>], overload_end: Nanos) -> Option<Recovered> {
    let gaps = gaps(jobs);
    if gaps.is_empty() {
        return Some(Recovered { ended_s: by_intervals(jobs, overload_end)?, cleared_s: None });
    }
    // No frame follows the last losses of the overload's own flows; frames of the low load must
    // follow theirs.
    let low = jobs.iter().filter(|job| job.spec.background.is_none());
    if low.flat_map(Job::flows).any(|flow| lacks_its_end(&flow.sender.flows, &flow.receiver.flows))
    {
        return None;
    }
    let seconds = |at: Nanos| at.since(overload_end).as_secs_f64();
    let latest = |times: Vec<f64>| times.into_iter().fold(0.0, f64::max);
    let sent: Option<Vec<f64>> = gaps.iter().map(|gap| gap.scheduled.map(seconds)).collect();
    let ended_s = match sent {
        Some(sent) => latest(sent),
        None => by_intervals(jobs, overload_end)?,
    };
    Some(Recovered {
        ended_s,
        cleared_s: Some(latest(gaps.iter().map(|gap| seconds(gap.seen)).collect())),
    })
}

/// Returns the last gap of every flow. Empty where it is unknown: frames overtook each other, or
/// receivers keep none.
fn gaps(jobs: &[Job<'_>]) -> Vec<LastGap> {
    let receipts: Vec<&FlowReport> =
        jobs.iter().flat_map(Job::flows).flat_map(|flow| &flow.receiver.flows).collect();
    if receipts.iter().any(|flow| flow.counters[Counter::Reordered] > 0) {
        return Vec::new();
    }
    receipts.into_iter().filter_map(|flow| flow.last_gap).collect()
}

/// Returns whether the last frames of a flow never came.
fn lacks_its_end(sent: &[FlowReport], received: &[FlowReport]) -> bool {
    let came = |flow: u32| {
        received.iter().find(|other| other.flow == flow).map_or(0, |other| other.next_sequence)
    };
    sent.iter().any(|flow| flow.counters[Counter::DatagramsSent] > came(flow.flow))
}

/// Seconds from `overload_end` to the end of the interval in which the last frame was lost: RFC
/// 2544 26.5. Nothing lost afterwards: zero; `None` if nothing was lost at all.
///
/// The number of frames sent and not yet received grows with every loss, and for a while with every
/// frame in flight. It is never below the number lost so far, so the minimum of all later values
/// bounds the losses so far.
fn by_intervals(jobs: &[Job<'_>], overload_end: Nanos) -> Option<f64> {
    let intervals = jobs.iter().flat_map(|job| &job.active.intervals);
    let mut ends: Vec<Nanos> =
        intervals.map(|interval| interval.end).filter(|end| *end > overload_end).collect();
    ends.sort_unstable();
    ends.dedup();
    let missing = |to| missing(jobs, to);
    let lost = missing(*ends.last()?);
    if lost <= ROUNDING_FRAMES {
        return None;
    }
    // From the end backwards: the first instant by which nearly all was lost.
    let (mut least, mut recovered) = (lost, None);
    for at in ends.iter().rev().chain([&overload_end]) {
        least = least.min(missing(*at));
        if lost - least > ROUNDING_FRAMES {
            break;
        }
        recovered = Some(at.since(overload_end).as_secs_f64());
    }
    recovered
}

/// Returns the datagrams sent until `to` that had not arrived by then.
fn missing(jobs: &[Job<'_>], to: Nanos) -> f64 {
    let span = Span { from: Nanos(0), to };
    let all = |counter| -> f64 {
        jobs.iter().flat_map(Job::ends).map(|end| counted(end, counter, span)).sum()
    };
    all(Counter::DatagramsSent) - all(Counter::DatagramsReceived)
}
