//! Detection of a conductor whose host is gone, when another conductor wants its place.
//!
//! If a conductor's process ends, its kernel closes the connection and the agent notices at once. A
//! host that loses its network sends nothing. Silence alone ends a session only after
//! [`Timeouts::silence`](crate::Timeouts), because heartbeats share the path with the load. So when
//! another conductor waits for the place, the agent asks: it sends several messages to the
//! conductor that it serves, and looks whether any segment comes back. The kernel there
//! acknowledges them however busy its programs are. A host is taken for gone by mistake only if
//! all of these messages or all of their acknowledgements are lost.

use std::time::{Duration, Instant};

use crate::link::Beat;
use Presence::{Asked, Gone, Here};

/// Time that an acknowledgement may take beyond a round trip. With a message every [`PAUSE`], ten
/// messages would have to be lost.
const PATIENCE: Duration = Duration::from_millis(400);
/// Longest round trip that is waited for. A path with longer queues counts as dead.
const MOST_ROUND_TRIP: Duration = Duration::from_secs(3);
/// Interval between two messages.
pub(super) const PAUSE: Duration = Duration::from_millis(40);

/// Answer to the question whether a conductor's host is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Presence {
    /// A segment has come from it, or its host is this one.
    Here,
    /// No segment came in time.
    Gone,
    /// There is still time: ask again.
    Asked,
}

/// Question to a conductor's host.
#[derive(Clone, Copy, Debug)]
pub(super) struct Question {
    since: Instant,
    before: Option<Beat>,
}

impl Question {
    /// Begins at `now`, with the state of the connection `before` any message is sent.
    pub(super) fn new(before: Option<Beat>, now: Instant) -> Self {
        Self { since: now, before }
    }

    /// Returns the answer that follows from the state of the connection at `now`.
    pub(super) fn answer(&self, beat: Option<Beat>, now: Instant) -> Presence {
        let (Some(before), Some(beat)) = (self.before, beat) else { return Here };
        if beat.segments != before.segments {
            return Here;
        }
        // The estimate from before the question: the kernel's present one grows while it backs off.
        let patience = PATIENCE + before.round_trip.min(MOST_ROUND_TRIP);
        if now.saturating_duration_since(self.since) < patience { Asked } else { Gone }
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
        assert_eq!(question.answer(beat(7, 100), at(499)), Asked);
        // The present estimate does not count: the kernel backs off.
        assert_eq!(question.answer(beat(7, 60_000), at(500)), Gone);
        assert_eq!(question.answer(beat(8, 100), at(499)), Here);
        assert_eq!(question.answer(beat(8, 100), at(5_000)), Here, "late, but it has come");
        let bloated = Question::new(beat(7, 60_000), began);
        assert_eq!(bloated.answer(beat(7, 60_000), at(3_399)), Asked);
        assert_eq!(bloated.answer(beat(7, 60_000), at(3_400)), Gone);
    }

    #[test]
    fn a_host_counts_as_present_if_the_kernel_knows_nothing_of_it() {
        let began = Instant::now();
        let late = began + Duration::from_secs(60);
        for (before, now) in [(None, beat(7, 1)), (beat(7, 1), None), (None, None)] {
            assert_eq!(Question::new(before, began).answer(now, late), Here);
        }
    }
}
