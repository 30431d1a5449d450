//! Clocks of hosts against the conductor's: estimated before a trial, followed by heartbeats,
//! compared once more after it.

use linerate_model::{
    ClockExchange, Event, HostClock, IncidentKind, Nanos, PeerClock, TrialClocks, TrialId,
};
use serde_json::Value;

use super::super::host::{EXCHANGES, Estimating, Presence};
use super::{Active, COMPARE_PATIENCE, ConductStage, Conductor, HEARTBEAT, Now, Output, Phase};
use crate::clock::{ClockEstimate, best, offset_of, thin};
use crate::wire::Message;

/// Estimates of a session through which the line of a clock's course is drawn: an hour of trials of
/// a minute.
const MOST_OF_A_COURSE: usize = 64;
/// An offset known worse than this says little about who started first, ns.
const UNCERTAIN_NS: u64 = 5_000_000;

/// The clock that an agent's `facts` say it has.
pub(super) fn identity_in(facts: &Value) -> Option<String> {
    facts["clock"]["identity"].as_str().map(str::to_owned)
}

impl Conductor {
    pub(super) fn estimate_clock(&mut self, host: usize, now: Now) {
        if self.hosts[host].has_our_clock {
            return self.clock_estimated(host, ClockEstimate::same(now.mono));
        }
        let n = self.next_ping;
        self.next_ping += 1;
        self.hosts[host].sync =
            Some(Estimating { since: now.mono, left: EXCHANGES, n, made: Vec::new() });
        self.send(host, Message::Ping { n, sent_ns: 0 });
    }

    pub(super) fn pong(&mut self, host: usize, n: u64, made: ClockExchange, now: Now) {
        let known = &mut self.hosts[host];
        let Some(sync) = known.sync.as_mut().filter(|sync| sync.n == n) else {
            // A heartbeat's, during a trial: it costs nothing more, and tells how the clock went
            // on.
            if n == HEARTBEAT
                && matches!(self.stage, ConductStage::Trial(_))
                && !known.has_our_clock
            {
                known.exchanges.push(made);
                thin(&mut known.exchanges);
            }
            return;
        };
        sync.made.push(made);
        sync.left -= 1;
        if sync.left > 0 {
            sync.n = self.next_ping;
            let n = self.next_ping;
            self.next_ping += 1;
            self.send(host, Message::Ping { n, sent_ns: 0 });
            return;
        }
        let made = std::mem::take(&mut sync.made);
        known.sync = None;
        let estimate = best(&made).and_then(|best| {
            known.exchanges.push(best);
            known.course.extend(offset_of(best));
            if known.course.len() > MOST_OF_A_COURSE {
                known.course.remove(0);
            }
            ClockEstimate::from_exchange(best, &known.course)
        });
        // An agent whose four stamps cannot be has no clock: as one that does not tell what time it
        // is.
        match estimate {
            Some(estimate) => self.clock_estimated(host, estimate),
            None => {
                self.outputs.push(Output::Disconnect { host });
                self.lost(
                    host,
                    "its clock goes backwards, or answers come before they are asked for",
                    now,
                );
            }
        }
    }

    fn clock_estimated(&mut self, host: usize, estimate: ClockEstimate) {
        let known = &mut self.hosts[host];
        let earlier = known.clock.replace(estimate);
        let rejoined = known.presence == Presence::Greeted;
        known.presence = Presence::Present;
        if let Some(jump) =
            earlier.and_then(|earlier| estimate.jump_since(&earlier)).filter(|_| !rejoined)
        {
            let message = format!(
                "its monotonic clock moved {:+.3} ms against the conductor's since the last trial \
                    (was one of the hosts \
                 suspended?)",
                jump as f64 / 1e6
            );
            self.incident(Some(host), IncidentKind::Clock, message);
        }
        if estimate.uncertainty_ns > UNCERTAIN_NS && !matches!(self.stage, ConductStage::Joining) {
            let message = format!(
                "the offset of its clock is only known to {:.1} ms (the control path is slow or \
                    busy)",
                estimate.uncertainty_ns as f64 / 1e6
            );
            self.incident(Some(host), IncidentKind::Clock, message);
        }
        if let ConductStage::Trial(active) = &mut self.stage
            && matches!(active.phase, Phase::Syncing | Phase::Comparing)
        {
            active.waiting.remove(&host);
        }
    }

    pub(super) fn clock_stepped(&mut self, by: i64) {
        if !matches!(self.stage, ConductStage::Joining) {
            let message = format!(
                "the conductor's wall clock was stepped by {:+.3} s; trials do not depend on it",
                by as f64 / 1e9
            );
            self.incident(None, IncidentKind::Clock, message);
        }
    }

    /// Clocks are read once more, so that what a trial lasted lies between two readings.
    pub(super) fn compare_clocks(&mut self, now: Now) {
        self.await_all(Phase::Comparing, now.mono + COMPARE_PATIENCE);
        let ConductStage::Trial(active) = &self.stage else { return };
        for host in active.hosts.clone() {
            self.estimate_clock(host, now);
        }
    }

    /// Goes on without what was not answered.
    pub(super) fn stop_comparing(&mut self) {
        let ConductStage::Trial(active) = &mut self.stage else { return };
        for host in std::mem::take(&mut active.waiting) {
            self.hosts[host].sync = None;
        }
    }

    /// How the clock of `other` stands to that of `own`, for one-way times of a trial that ends
    /// `until`; `None` if it is the same.
    pub(super) fn peer_clock(
        &self,
        own: usize,
        other: usize,
        now: Now,
        until: Nanos,
    ) -> Option<PeerClock> {
        let clock = |host: usize| self.hosts[host].clock;
        let identity = |host: usize| identity_in(&self.hosts[host].facts);
        if own == other || (identity(own).is_some() && identity(own) == identity(other)) {
            return None;
        }
        let (ours, theirs) = (clock(own)?, clock(other)?);
        /// Parts in a whole.
        const BILLION: f64 = 1e9;
        Some(PeerClock {
            ahead_ns: theirs.ahead(now.mono) - ours.ahead(now.mono),
            at_ns: ours.theirs(now.mono),
            gains_ppb: ((theirs.gains.0 - ours.gains.0) * BILLION).round() as i64,
            added_ns: ours.doubt(until) + theirs.doubt(until),
        })
    }

    pub(super) fn record_clocks(&mut self, id: TrialId, active: &Active) {
        let mut hosts = Vec::new();
        for host in self.hosts_of(active.trial) {
            let known = &mut self.hosts[host];
            if !known.has_our_clock && !known.exchanges.is_empty() {
                let exchanges = std::mem::take(&mut known.exchanges);
                hosts.push(HostClock { host: known.name.clone(), exchanges });
            }
        }
        if !hosts.is_empty() {
            let clocks =
                TrialClocks { barrier_ns: active.barrier.0, hosts, told: active.told.clone() };
            self.record(Event::ClocksCompared { trial: id, clocks });
        }
    }

    /// How far the start times of two hosts of the trial may be off against each other, at worst;
    /// ends on one host share its clock.
    pub(super) fn uncertainty(&self, trial: usize) -> u64 {
        let hosts = self.hosts_of(trial);
        let mut bounds: Vec<u64> = hosts
            .iter()
            .filter_map(|&host| self.hosts[host].clock)
            .map(|clock| clock.uncertainty_ns)
            .collect();
        bounds.sort_unstable_by(|a, b| b.cmp(a));
        if bounds.len() < 2 { 0 } else { bounds[0] + bounds[1] }
    }
}
