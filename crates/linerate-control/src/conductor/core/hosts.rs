//! Hosts that come and go, and everything that only the passing of time brings about.

use std::net::IpAddr;

use linerate_model::{Event, Incident, IncidentKind, Nanos, TrialOutcome};
use serde_json::Value;

use super::clocks::identity_in;
use super::{ConductStage, Conductor, HEARTBEAT, Now, Output, Phase, SYNC_PATIENCE};
use crate::ControlError;
use crate::conductor::host::Presence;
use crate::wire::Message;

impl Conductor {
    /// A host was reached and greeted.
    pub(super) fn joined(&mut self, host: usize, facts: Value, address: Option<IpAddr>, now: Now) {
        let known = &mut self.hosts[host];
        known.presence = Presence::Greeted;
        known.facts = facts;
        known.address = address;
        known.last_heard = now.mono;
        known.attempts = 0;
        // After a reboot the host's clock is another one altogether.
        known.clock = None;
        known.course.clear();
        known.has_our_clock = self.identity.is_some() && identity_in(&known.facts) == self.identity;
        self.estimate_clock(host, now);
    }

    /// A host could not be reached. Before the first trial this ends the campaign; later it is
    /// tried again for a while.
    pub(super) fn unreached(&mut self, host: usize, error: ControlError, now: Now) {
        if matches!(self.stage, ConductStage::Joining) {
            // Before the first trial nothing is recorded, so the campaign can simply fail.
            self.fatal.get_or_insert(error);
            return;
        }
        // Counted from the loss, not from the last attempt.
        let away = now.mono.since(self.hosts[host].lost_at);
        let known = &mut self.hosts[host];
        known.why = error.to_string();
        if error.passes_by_itself() && away < Nanos(self.options.away.as_nanos() as u64) {
            known.attempts += 1;
            known.retry_later(now.mono);
        } else {
            known.presence = Presence::Gone;
            let message = format!(
                "reach lost agent again: no success within {:.0} s: {}",
                away.as_secs_f64(),
                error
            );
            self.incident(Some(host), IncidentKind::AgentLost, message);
        }
    }

    /// The connection to a host ended: its trial fails, and the host is reached again later.
    pub(super) fn lost(&mut self, host: usize, why: &str, now: Now) {
        if !self.hosts[host].is_connected() {
            return;
        }
        let name = self.hosts[host].name.clone();
        if matches!(self.stage, ConductStage::Joining) {
            self.fatal.get_or_insert(ControlError::AgentLost { host: name, why: why.to_owned() });
            return;
        }
        // A host without a part in the trial does not fail it.
        let in_trial =
            matches!(&self.stage, ConductStage::Trial(active) if active.hosts.contains(&host));
        let incident = Incident {
            host: name,
            kind: IncidentKind::AgentLost,
            message: format!("lost the agent: {why}"),
        };
        let trial = self.current_trial().filter(|_| in_trial);
        self.record(Event::Incident { trial, incident });
        let known = &mut self.hosts[host];
        known.why = why.to_owned();
        known.lost_at = now.mono;
        known.sync = None;
        known.attempts = 0;
        known.retry_later(now.mono);
        if let ConductStage::Trial(active) = &mut self.stage
            && in_trial
        {
            active.waiting.remove(&host);
            active.hosts.remove(&host);
            self.abort(TrialOutcome::Failed, now);
        }
    }

    /// Does what is due at `now`: heartbeats, ends of silent hosts, reconnections and deadlines.
    pub(super) fn watch(&mut self, now: Now) {
        // Also during a trial: a silent agent must be noticed before the trial's end.
        if now.mono >= self.heartbeat_at {
            self.heartbeat_at = now.mono + Nanos(self.options.timeouts.heartbeat.as_nanos() as u64);
            for host in 0..self.hosts.len() {
                if self.hosts[host].is_connected() {
                    self.send(host, Message::Ping { n: HEARTBEAT, sent_ns: 0 });
                }
            }
        }
        let silence = Nanos(self.options.timeouts.silence.as_nanos() as u64);
        for host in 0..self.hosts.len() {
            if self.hosts[host].is_connected()
                && now.mono.since(self.hosts[host].last_heard) >= silence
            {
                self.outputs.push(Output::Disconnect { host });
                self.lost(host, &format!("nothing came from it for {silence}"), now);
            }
            if self.hosts[host]
                .sync
                .as_ref()
                .is_some_and(|sync| now.mono.since(sync.since) >= SYNC_PATIENCE)
            {
                self.outputs.push(Output::Disconnect { host });
                self.lost(host, "it does not report its clock", now);
            }
            if let Presence::Away { retry_at } = self.hosts[host].presence
                && now.mono >= retry_at
            {
                self.hosts[host].presence = Presence::Connecting;
                let attempt = self.hosts[host].attempts + 1;
                self.outputs.push(Output::Connect { host, attempt });
            }
        }
        if let ConductStage::Trial(active) = &self.stage
            && now.mono >= active.deadline
        {
            self.overdue(now);
        }
    }

    /// Ends a phase of the trial that took too long.
    fn overdue(&mut self, now: Now) {
        let ConductStage::Trial(active) = &mut self.stage else { return };
        let late = std::mem::take(&mut active.waiting);
        if active.phase == Phase::Comparing {
            // The measurement is complete; only the clocks are known less well.
            self.stop_comparing();
            return;
        }
        if let Phase::Ending(_) = active.phase {
            // An agent that does not even end a trial answers nothing more in this session.
            for host in late {
                self.outputs.push(Output::Disconnect { host });
                self.lost(host, "it did not end the trial when asked to", now);
            }
            return;
        }
        let doing = match active.phase {
            Phase::Syncing => "compare clocks",
            Phase::Offering => "prepare to listen",
            Phase::Connecting => "open its flows",
            Phase::Running | Phase::Comparing | Phase::Ending(_) => "end the trial",
        };
        for host in late {
            self.incident(Some(host), IncidentKind::Failed, format!("{doing}: no answer in time"));
        }
        self.abort(TrialOutcome::Failed, now);
    }
}
