//! Answers of the receiver, and the waits that they show on each of the two ways.

use linerate_model::Nanos;

/// Longest time that the record may take over the way back, as far as trains show its rate.
const RECORD_TIME: Nanos = Nanos::from_millis(4_000);
/// Datagrams whose record takes as long as one answer.
const RECORDED: f64 = 6.0;

/// Answer of the receiver to one datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) struct Answer {
    /// Number of the datagram.
    pub(in super::super) number: u64,
    /// Datagrams that the receiver had received by then, and the highest number among them.
    pub(in super::super) received: u64,
    pub(in super::super) highest: u64,
    /// Time of arrival of the answer by the sender's clock, without the time that the receiver
    /// took.
    pub(in super::super) at: Nanos,
    /// Time of arrival of the datagram by the receiver's clock, which has a zero of its own.
    pub(in super::super) arrived: Nanos,
    /// Round-trip time.
    pub(in super::super) rtt: Nanos,
}

impl Answer {
    /// Returns the times of the two ways, ns: of the datagram, and of the answer. The clocks have
    /// no common zero, so only changes of these times have a meaning.
    fn ways(&self) -> [i64; 2] {
        let back = self.at.0.wrapping_sub(self.arrived.0) as i64;
        [(self.rtt.0 as i64).wrapping_sub(back), back]
    }

    /// Returns by how much this answer took longer over the way back than `earlier`, ns.
    pub(super) fn back_later_than(&self, earlier: &Self) -> i64 {
        let ([_, later], [_, earlier]) = (self.ways(), earlier.ways());
        later.saturating_sub(earlier)
    }

    /// Returns the share of the datagrams after that of `earlier` that did not arrive.
    pub(super) fn loss_since(&self, earlier: &Self) -> f64 {
        let sent = self.highest.saturating_sub(earlier.highest);
        let received = self.received.saturating_sub(earlier.received);
        if sent == 0 { 0.0 } else { (1.0 - received as f64 / sent as f64).max(0.0) }
    }
}

/// Shortest times of the two ways so far, ns.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ways([i64; 2]);

impl Default for Ways {
    fn default() -> Self {
        Self([i64::MAX; 2])
    }
}

impl Ways {
    /// Takes the times of `answer` into account.
    pub(super) fn observe(&mut self, answer: &Answer) {
        for (shortest, way) in self.0.iter_mut().zip(answer.ways()) {
            *shortest = way.min(*shortest);
        }
    }

    /// Returns how long the datagram of `answer` waited on the path, and how long the answer did on
    /// the way back.
    pub(super) fn waits(&self, answer: &Answer) -> [Nanos; 2] {
        let ([there, back], [least_there, least_back]) = (answer.ways(), self.0);
        let waits = [there.saturating_sub(least_there), back.saturating_sub(least_back)];
        waits.map(|wait| Nanos(wait.max(0) as u64))
    }
}

/// Returns the number of datagrams of which the way back carries the record in time, from the
/// `gaps` between answers to trains, ns.
pub(super) fn recorded_in_time(mut gaps: Vec<i64>) -> u64 {
    // Answers to a train leave together and arrive at the rate of the way back. A busy host delays
    // most of them, so the quarter with the shortest gaps decides.
    gaps.sort_unstable();
    let gap = gaps.get(gaps.len() / 4).copied().unwrap_or_default().max(1) as f64;
    (RECORD_TIME.0 as f64 / gap * RECORDED) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_of_the_two_ways_are_separate_and_any_time_of_a_stranger_is_harmless() {
        let answer = |sent, arrived, at| Answer {
            number: 0,
            received: 0,
            highest: 0,
            at: Nanos(at),
            arrived: Nanos(arrived),
            rtt: Nanos(at - sent),
        };
        let mut ways = Ways::default();
        // The receiver's clock is 1,000 behind.
        let by_receiver = |time: u64| time.wrapping_sub(1_000);
        for (sent, there, back) in [(0, 5, 9), (20_000, 7, 6)] {
            ways.observe(&answer(sent, by_receiver(sent + there), sent + there + back));
        }
        let late = answer(30_000, by_receiver(30_105), 30_311);
        assert_eq!(ways.waits(&late), [Nanos(100), Nanos(200)]);
        for time in [0, (1 << 63) + 1, (1 << 63) - 1] {
            let strange = answer(0, time, 1);
            ways.observe(&strange);
            assert!(ways.waits(&strange).iter().all(|wait| wait.0 <= i64::MAX as u64));
        }
    }
}
