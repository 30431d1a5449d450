//! Larger socket buffers: `net.ipv4.tcp_rmem` of the receiver, `net.ipv4.tcp_wmem` of the sender,
//! default and largest.
//!
//! Evidence: the sender waited for the peer's window, or for room in its own buffer. A buffer is
//! doubled until the path's room is covered: goodput grows with it until then (RFC 7323,
//! docs/methodology/ceilings.md#windows-and-loss). Cost: memory for every connection that fills it,
//! and queues as long as the buffer where no other limit applies.

use linerate_model::{Metric, metric};

use super::{Hindrance, Known, LEAST_EFFECT, Looked, Proposal, TuningExperiment};
use crate::PathEnd;

const RECEIVE: &str = "net.ipv4.tcp_rmem";
const SEND: &str = "net.ipv4.tcp_wmem";
/// Share of the time from which something held the sender back
/// (docs/methodology/diagnosis.md#rules).
const HELD_BACK: f64 = 0.3;
/// A buffer is made no larger than this many times at once.
const MOST: u64 = 16;
/// Fraction of the room that counts as all of it.
const NEARLY: f64 = 0.9;
/// Estimates scatter, and the kernel grants windows in coarse grains.
const SCATTER: f64 = 1.25;

/// Experiment with socket buffers.
pub(super) const EXPERIMENT: TuningExperiment = TuningExperiment {
    name: "socket_buffers",
    summary: "larger receive buffers at the receiver or send buffers at the sender, where the \
        sender waits for them",
    asks: &[RECEIVE, SEND],
    floods: false,
    look,
};

fn look(path: &Known<'_>) -> Vec<Looked> {
    let waits = [
        (PathEnd::Receiver, RECEIVE, metric::RWND_LIMITED),
        (PathEnd::Sender, SEND, metric::SNDBUF_LIMITED),
    ];
    waits.into_iter().map(|wait| candidate(path, wait)).collect()
}

/// Returns the candidate of a larger buffer `setting` at `end`, where the sender waited for it by
/// the figure `metric`.
fn candidate(
    path: &Known<'_>,
    (end, setting, metric): (PathEnd, &'static str, &'static Metric),
) -> Looked {
    path.at(end, setting, |before| {
        let waited = path.share(metric, HELD_BACK)?;
        let malformed = || Hindrance::Malformed(before.to_owned());
        let (after, factor) = larger(before, path.room()).ok_or_else(malformed)?;
        Ok(Proposal {
            after,
            evidence: vec![waited],
            ratio: [
                predicted(factor as f64, path.room()).max(LEAST_EFFECT),
                factor as f64 * SCATTER,
            ],
        })
    })
}

/// Half of the growth at the least, or as good as all the room
/// (docs/methodology/diagnosis.md#rules, D5).
fn predicted(factor: f64, room: f64) -> f64 {
    (1.0 + (factor - 1.0) / 2.0).min(NEARLY * room)
}

/// Least, default and largest, the latter two multiplied by the power of two that covers `room`.
fn larger(before: &str, room: f64) -> Option<(String, u64)> {
    let fields: Vec<u64> = before.split(' ').map(str::parse).collect::<Result<_, _>>().ok()?;
    let [least, middle, most] = <[u64; 3]>::try_from(fields).ok()?;
    // A path that carried next to nothing has room without bounds.
    let factor = (room.ceil() as u64).clamp(2, MOST).next_power_of_two();
    let [middle, most] = [middle, most].map(|field| field.saturating_mul(factor));
    Some((format!("{least} {middle} {most}"), factor))
}

#[cfg(test)]
mod tests {
    use super::super::Candidate;
    use super::super::cases::{host, known, parted, point};
    use super::*;

    fn tried(figures: &[(&str, f64)]) -> Vec<Candidate> {
        let point = point(0.3, figures);
        let sender = host(&[(SEND, "4096 16384 65536")]);
        let receiver = host(&[(RECEIVE, "4096 32768 32768")]);
        parted(super::look(&known(&point, sender, receiver))).0
    }

    #[test]
    fn the_buffer_that_is_waited_for_is_made_large_enough_for_the_path() {
        let found = tried(&[("rwnd_limited", 0.98)]);
        assert_eq!(found.len(), 1);
        assert_eq!(
            (found[0].end, found[0].after.as_str()),
            (PathEnd::Receiver, "4096 131072 131072")
        );
        assert!((found[0].ratio[0] - 2.5).abs() < 1e-9 && (found[0].ratio[1] - 5.0).abs() < 1e-9);
        let found = tried(&[("sndbuf_limited", 0.8)]);
        assert_eq!((found[0].end, found[0].setting), (PathEnd::Sender, SEND));
        assert!(tried(&[("rwnd_limited", 0.1)]).is_empty());
    }

    #[test]
    fn buffers_that_are_not_three_numbers_are_left_alone() {
        assert_eq!(larger("4096 x 6291456", 3.0), None);
        assert_eq!(larger("4096 8192 16384", 100.0), Some(("4096 131072 262144".into(), 16)));
        let unbounded = larger("4096 8192 16384", f64::INFINITY);
        assert_eq!(unbounded, Some(("4096 131072 262144".into(), 16)));
    }
}
