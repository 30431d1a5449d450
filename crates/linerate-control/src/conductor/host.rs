//! State of a host at the conductor: its connection and its clock.

use std::net::IpAddr;

use linerate_model::Nanos;
use serde_json::Value;

use linerate_analysis::statistics::Offset;
use linerate_model::ClockExchange;

use super::reported::Reported;
use crate::clock::ClockEstimate;

/// Exchanges per estimate of a clock offset; the quickest of them counts.
pub(super) const EXCHANGES: u32 = 8;
/// Pause before the first attempt to reach a lost agent again; doubled each time.
const FIRST_PAUSE: Nanos = Nanos::from_millis(500);
/// Longest pause between two attempts.
const LONGEST_PAUSE: Nanos = Nanos::from_secs(8);

/// State of the connection to a host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Presence {
    /// A connection is being opened.
    #[default]
    Connecting,
    /// The host has answered; the first estimate of its clock runs.
    Greeted,
    /// The host is ready for trials.
    Present,
    /// The connection was lost.
    Away {
        /// Time of the next attempt.
        retry_at: Nanos,
    },
    /// No further attempt is made.
    Gone,
}

/// Estimate of a clock that is not complete yet.
#[derive(Clone, Debug)]
pub(super) struct Estimating {
    pub(super) since: Nanos,
    pub(super) left: u32,
    pub(super) n: u64,
    pub(super) made: Vec<ClockExchange>,
}

/// Host of the testbed.
#[derive(Clone, Debug, Default)]
pub(super) struct Host {
    pub(super) name: String,
    pub(super) presence: Presence,
    pub(super) facts: Value,
    /// Address of its control connection. Data goes there too if an endpoint has no address.
    pub(super) address: Option<IpAddr>,
    /// True if its clock is the conductor's: the same kernel and time namespace.
    pub(super) has_our_clock: bool,
    pub(super) clock: Option<ClockEstimate>,
    /// Best exchange of each estimate of this session, as an offset.
    pub(super) course: Vec<Offset>,
    /// Exchanges to record with the present trial.
    pub(super) exchanges: Vec<ClockExchange>,
    pub(super) sync: Option<Estimating>,
    pub(super) last_heard: Nanos,
    pub(super) lost_at: Nanos,
    /// Reports about the present trial.
    pub(super) reported: Reported,
    pub(super) attempts: u32,
    /// Reason why it was last lost or not reached.
    pub(super) why: String,
}

impl Host {
    pub(super) fn new(name: &str) -> Self {
        Self { name: name.to_owned(), ..Self::default() }
    }

    /// Returns whether messages can be sent to it.
    pub(super) fn is_connected(&self) -> bool {
        matches!(self.presence, Presence::Greeted | Presence::Present)
    }

    /// Returns whether it is ready for trials.
    pub(super) fn is_present(&self) -> bool {
        self.presence == Presence::Present
    }

    /// Plans the next attempt to reach it, after a pause that doubles each time.
    pub(super) fn retry_later(&mut self, now: Nanos) {
        let pause = Nanos((FIRST_PAUSE.0 << self.attempts.min(8)).min(LONGEST_PAUSE.0));
        self.presence = Presence::Away { retry_at: now + pause };
    }
}
