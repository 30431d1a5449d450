//! Whether the host of a conductor that is served is still there, asked when another conductor
//! wants its place.
//!
//! A conductor whose process ends is known to be gone at once: its kernel closes the connection. A
//! host that loses its network says nothing. Silence alone ends a session only after
//! [`Timeouts::silence`](crate::Timeouts), because heartbeats share the path with the load. But
//! when somebody waits for the place, the agent asks: it says something to the conductor it serves,
//! several times, and looks whether anything comes back. The kernel there acknowledges what
//! arrives, however busy its programs are, so that of the losses all would have to hit.

use std::time::{Duration, Instant};

use crate::link::Beat;

/// How long an acknowledgement may take beyond a round trip: about [`PAUSE`] is between two
/// questions, and all of them would have to be lost.
const PATIENCE: Duration = Duration::from_millis(400);
/// A path whose queues hold more is taken for a dead one.
const MOST_ROUND_TRIP: Duration = Duration::from_secs(3);
/// Between two questions.
pub(super) const PAUSE: Duration = Duration::from_millis(40);

/// What has become of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Presence {
    /// Something has come from it, or its host is this one.
    Here,
    /// Nothing came in time.
    Gone,
    /// It is to be asked again.
    Asked,
}

/// A question to a conductor's host.
#[derive(Clone, Copy, Debug)]
pub(super) struct Question {
    since: Instant,
    before: Option<Beat>,
}

impl Question {
    /// Before anything is said.
    pub(super) fn new(before: Option<Beat>, now: Instant) -> Self {
        Self { since: now, before }
    }

    /// What `beat` at `now` means.
    pub(super) fn answer(&self, beat: Option<Beat>, now: Instant) -> Presence {
        let (Some(before), Some(beat)) = (self.before, beat) else { return Presence::Here };
        if beat.segments != before.segments {
            return Presence::Here;
        }
        let patience = PATIENCE + before.round_trip.min(MOST_ROUND_TRIP);
        if now.saturating_duration_since(self.since) < patience {
            Presence::Asked
        } else {
            Presence::Gone
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn beat(segments: u32, round_trip_ms: u64) -> Option<Beat> {
        Some(Beat { segments, round_trip: Duration::from_millis(round_trip_ms) })
    }

    #[test]
    fn a_host_is_gone_if_nothing_comes_within_a_round_trip_and_the_patience() {
        let began = Instant::now();
        let at = |ms: u64| began + Duration::from_millis(ms);
        let question = Question::new(beat(7, 100), began);
        assert_eq!(question.answer(beat(7, 100), at(499)), Presence::Asked);
        // What the kernel thinks of the path meanwhile does not count: it backs off.
        assert_eq!(question.answer(beat(7, 60_000), at(500)), Presence::Gone);
        assert_eq!(question.answer(beat(8, 100), at(499)), Presence::Here);
        assert_eq!(
            question.answer(beat(8, 100), at(5_000)),
            Presence::Here,
            "late, but it has come"
        );
        let bloated = Question::new(beat(7, 60_000), began);
        assert_eq!(bloated.answer(beat(7, 60_000), at(3_399)), Presence::Asked);
        assert_eq!(bloated.answer(beat(7, 60_000), at(3_400)), Presence::Gone);
    }

    #[test]
    fn a_host_of_which_the_kernel_tells_nothing_is_here() {
        let began = Instant::now();
        let late = began + Duration::from_secs(60);
        for (before, now) in [(None, beat(7, 1)), (beat(7, 1), None), (None, None)] {
            assert_eq!(Question::new(before, began).answer(now, late), Presence::Here);
        }
    }
}
