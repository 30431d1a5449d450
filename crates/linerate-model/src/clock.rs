//! Observations of the hosts' clocks during a trial: exchanges of four timestamps, and the values
//! that receivers got before the trial.
//!
//! Nothing here is an offset: the study computes the distance of two clocks and its uncertainty.
//! All times are nanoseconds of monotonic clocks.

use serde::{Deserialize, Serialize};

use crate::Side;

/// One exchange between the conductor and a host (RFC 5905 clause 8), ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockExchange {
    /// T1: the request left the conductor, by its clock.
    pub sent: u64,
    /// T2: it arrived, by the host's clock.
    pub arrived: u64,
    /// T3: its answer left, by the host's clock.
    pub answered: u64,
    /// T4: it was heard, by the conductor's clock.
    pub heard: u64,
}

/// A host whose clock is not the conductor's.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostClock {
    /// Which.
    pub host: String,
    /// In the order made: before, during and after the trial.
    pub exchanges: Vec<ClockExchange>,
}

/// How far the clock of a job's other end was taken to be ahead of this end's, before the trial
/// began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PeerClock {
    /// Theirs less ours at `at_ns`.
    pub ahead_ns: i64,
    /// On our clock.
    pub at_ns: u64,
    /// Rate error of the other clock against ours, parts per billion.
    #[serde(default)]
    pub gains_ppb: i64,
    /// Constant added to every one-way time, so that none is negative whatever the error of the
    /// other values.
    pub added_ns: u64,
}

impl PeerClock {
    /// How far theirs is ahead when ours shows `ours_ns`.
    #[inline]
    #[must_use]
    pub fn ahead(&self, ours_ns: u64) -> i64 {
        /// Parts in a whole.
        const BILLION: f64 = 1e9;
        // A moment before the reading gives a negative difference, which the cast restores.
        let passed = ours_ns.wrapping_sub(self.at_ns) as i64;
        // Only the drift is computed in floating point. It is small, so no nanosecond of the offset
        // is lost.
        self.ahead_ns + (passed as f64 * self.gains_ppb as f64 / BILLION) as i64
    }
}

/// Clock values that one end of a job received.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToldClock {
    /// Which job.
    pub job: u32,
    /// Which end.
    pub side: Side,
    /// The start barrier by this end's clock.
    pub barrier_ns: u64,
    /// The values.
    pub peer: PeerClock,
}

/// The clocks of one trial; empty where all its hosts have the conductor's.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrialClocks {
    /// The start barrier by the conductor's clock.
    #[serde(default)]
    pub barrier_ns: u64,
    /// Hosts that have clocks of their own.
    pub hosts: Vec<HostClock>,
    /// Values that ends received whose other end has another clock.
    #[serde(default)]
    pub told: Vec<ToldClock>,
}

impl TrialClocks {
    /// Returns true if there is nothing to compare.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.hosts.is_empty()
    }
}

/// How the clocks of a frame's sender and receiver stand to each other, as flows record it (mode
/// `clock`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameClocks {
    /// Both are one.
    One,
    /// They are two, compared before and after.
    Compared,
    /// They are two, and nothing is known of how they stand: there are no one-way times.
    Unrelated,
}

impl FrameClocks {
    const ALL: [Self; 3] = [Self::One, Self::Compared, Self::Unrelated];

    /// Returns its form in the report of a flow, which is part of the ledger's format.
    #[must_use]
    pub const fn recorded(self) -> &'static str {
        match self {
            Self::One => "one clock",
            Self::Compared => "two clocks, compared before and after",
            Self::Unrelated => "two clocks: no one-way times",
        }
    }

    /// Parses the form of [`Self::recorded`] in the report of a flow.
    #[must_use]
    pub fn recorded_as(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|clocks| clocks.recorded() == text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_gains_is_further_ahead_later_and_less_before() {
        let peer =
            PeerClock { ahead_ns: -500, at_ns: 1_000_000_000, gains_ppb: 20_000, added_ns: 0 };
        assert_eq!(peer.ahead(1_000_000_000), -500);
        assert_eq!(peer.ahead(3_000_000_000), -500 + 40_000);
        assert_eq!(peer.ahead(0), -500 - 20_000);
    }
}
