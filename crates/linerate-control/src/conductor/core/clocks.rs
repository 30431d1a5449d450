//! Clocks of hosts compared with the conductor's clock: before a trial, during it by heartbeats,
//! and once more after it.

use linerate_model::{
    ClockExchange, Event, HostClock, IncidentKind, Nanos, PeerClock, TrialClocks, TrialId,
};
use serde_json::Value;

use super::super::host::{EXCHANGES, Estimating, Presence};
use super::{Active, COMPARE_PATIENCE, ConductStage, Conductor, HEARTBEAT, Now, Output, Phase};
use crate::clock::{ClockEstimate, best, offset_of, thin};
use crate::wire::Message;

/// Most estimates of a session that the drift of a clock is fitted to: an hour of trials of a
/// minute each.
const MOST_OF_A_COURSE: usize = 64;
/// Uncertainty of an offset above which the order of two starts is unknown, ns.
const UNCERTAIN_NS: u64 = 5_000_000;

/// Returns the identity of an agent's clock, from its `facts`.
pub(super) fn identity_in(facts: &Value) -> Option<String> {
    facts["clock"]["identity"].as_str().map(str::to_owned)
}

impl Conductor {
    /// Begins to estimate the clock of `host`. Nothing is sent if it is the conductor's own clock.
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

    /// Handles the answer to a ping.
    pub(super) fn pong(&mut self, host: usize, n: u64, made: ClockExchange, now: Now) {
        let known = &mut self.hosts[host];
        let Some(sync) = known.sync.as_mut().filter(|sync| sync.n == n) else {
            // Heartbeats during a trial are sent anyway, and show how the clock drifts in it.
            if n == HEARTBEAT
                && matches!(self.stage, ConductStage::Trial(_))
                && !known.has_our_clock
            {
                // Few per trial, so they are recorded with it and not summarised.
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
        // An agent with impossible time stamps is lost, like one that does not report its clock.
        match estimate {
            Some(estimate) => self.clock_estimated(host, estimate),
            None => {
                self.outputs.push(Output::Disconnect { host });
                self.lost(
                    host,
                    "its clock goes backwards, or its answers precede the questions",
                    now,
                );
            }
        }
    }

    fn clock_estimated(&mut self, host: usize, estimate: ClockEstimate) {
        let known = &mut self.hosts[host];
        let earlier = known.clock.replace(estimate);
        // A host that was away may have rebooted; its new clock is no jump.
        let rejoined = known.presence == Presence::Greeted;
        known.presence = Presence::Present;
        if let Some(jump) =
            earlier.and_then(|earlier| estimate.jump_since(&earlier)).filter(|_| !rejoined)
        {
            let message = format!(
                "its monotonic clock moved {:+.3} ms against the conductor's since the last trial \
                    (was one of the hosts suspended?)",
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
            self.incident(Some(host), IncidentKind::ClockUncertain, message);
        }
        if let ConductStage::Trial(active) = &mut self.stage
            && matches!(active.phase, Phase::Syncing | Phase::Comparing)
        {
            active.waiting.remove(&host);
        }
    }

    /// Records a step of the conductor's wall clock by `by` ns.
    pub(super) fn clock_stepped(&mut self, by: i64) {
        if !matches!(self.stage, ConductStage::Joining) {
            let message = format!(
                "the conductor's wall clock was stepped by {:+.3} s; trials do not depend on it",
                by as f64 / 1e9
            );
            self.incident(None, IncidentKind::Clock, message);
        }
    }

    /// Reads the clocks once more, so that the whole trial lies between two readings.
    pub(super) fn compare_clocks(&mut self, now: Now) {
        self.await_all(Phase::Comparing, now.mono + COMPARE_PATIENCE);
        let ConductStage::Trial(active) = &self.stage else { return };
        for host in active.hosts.clone() {
            self.estimate_clock(host, now);
        }
    }

    /// Ends the comparison of clocks without the missing answers.
    pub(super) fn stop_comparing(&mut self) {
        let ConductStage::Trial(active) = &mut self.stage else { return };
        for host in std::mem::take(&mut active.waiting) {
            self.hosts[host].sync = None;
        }
    }

    /// Returns the clock of `other` in terms of that of `own`, for one-way times of a trial that
    /// ends at `until`. `None` if both hosts have the same clock.
    pub(super) fn peer_clock(
        &self,
        own: usize,
        other: usize,
        now: Now,
        until: Nanos,
    ) -> Option<PeerClock> {
        let clock = |host: usize| self.hosts[host].clock;
        let identity = |host: usize| identity_in(&self.hosts[host].facts);
        // Two hosts of one kernel share a clock, whatever their network namespaces.
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

    /// Records all clock exchanges of a trial.
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

    /// Returns the largest possible error of the difference between two hosts' start times, ns. It
    /// is 0 on one host, where both ends share a clock.
    pub(super) fn uncertainty(&self, trial: usize) -> u64 {
        let hosts = self.hosts_of(trial);
        let mut bounds: Vec<u64> = hosts
            .iter()
            .filter_map(|&host| self.hosts[host].clock)
            .map(|clock| clock.uncertainty_ns)
            .collect();
        bounds.sort_unstable_by(|a, b| b.cmp(a));
        // Both ends on one host: their starts are on the same clock.
        if bounds.len() < 2 { 0 } else { bounds[0] + bounds[1] }
    }
}
