//! A host as the conductor sees it: present or away, and how late it is there.

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

/// Whether a host can be asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Presence {
    /// It is being reached.
    Connecting,
    /// It has answered; its clock is being estimated for the first time since.
    Greeted,
    /// It can be asked.
    Present,
    /// It was lost and is tried again at `retry_at`.
    Away {
        /// When.
        retry_at: Nanos,
    },
    /// It stays away.
    Gone,
}

/// An estimate under way.
#[derive(Clone, Debug)]
pub(super) struct Estimating {
    pub(super) since: Nanos,
    pub(super) left: u32,
    pub(super) n: u64,
    pub(super) made: Vec<ClockExchange>,
}

/// One host of the testbed.
#[derive(Clone, Debug)]
pub(super) struct Host {
    pub(super) name: String,
    pub(super) presence: Presence,
    pub(super) facts: Value,
    /// The address its control connection goes to: data goes there too if an endpoint names none.
    pub(super) address: Option<IpAddr>,
    /// Whether it has the conductor's own clock: the same kernel and time namespace.
    pub(super) has_our_clock: bool,
    pub(super) clock: Option<ClockEstimate>,
    /// The best exchange of each estimate of this session, as an offset.
    pub(super) course: Vec<Offset>,
    /// Exchanges worth recording with the trial under way.
    pub(super) exchanges: Vec<ClockExchange>,
    pub(super) sync: Option<Estimating>,
    pub(super) last_heard: Nanos,
    pub(super) lost_at: Nanos,
    /// Of the trial under way.
    pub(super) reported: Reported,
    pub(super) attempts: u32,
    /// Why it was last lost or not reached.
    pub(super) why: String,
}

impl Host {
    pub(super) fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            presence: Presence::Connecting,
            facts: Value::Null,
            address: None,
            has_our_clock: false,
            clock: None,
            course: Vec::new(),
            exchanges: Vec::new(),
            sync: None,
            last_heard: Nanos(0),
            lost_at: Nanos(0),
            reported: Reported::default(),
            attempts: 0,
            why: String::new(),
        }
    }

    /// Whether messages can be sent to it.
    pub(super) fn is_connected(&self) -> bool {
        matches!(self.presence, Presence::Greeted | Presence::Present)
    }

    pub(super) fn is_present(&self) -> bool {
        self.presence == Presence::Present
    }

    /// Plans the next attempt to reach it, later each time.
    pub(super) fn retry_later(&mut self, now: Nanos) {
        let pause = Nanos((FIRST_PAUSE.0 << self.attempts.min(8)).min(LONGEST_PAUSE.0));
        self.presence = Presence::Away { retry_at: now + pause };
    }
}
