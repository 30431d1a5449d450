//! From events to a [`Campaign`]: the one place that says what a stream of events adds up to.
//!
//! The live view folds events as they come; the ledger stores them so that what it loads is what
//! this fold gives.

use std::collections::HashMap;

use crate::{Campaign, CampaignHeader, Event, JobRecord, Side, TrialId, TrialRecord, TrialSpec};

impl Campaign {
    /// A campaign nothing has happened in yet.
    #[must_use]
    pub fn new(header: CampaignHeader) -> Self {
        Self { header, hosts: Vec::new(), trials: Vec::new(), incidents: Vec::new(), ended: None }
    }

    /// Takes in one event.
    ///
    /// A campaign that is started again is resumed: it keeps its header and what was recorded. A
    /// host that joins again replaces its record. A trial that is started again replaces its
    /// partial record; one that is planned again with the same specification keeps it. What belongs
    /// to a trial or job that was never planned is ignored.
    pub fn apply(&mut self, event: &Event) {
        match event {
            // The header of the first start holds: resuming changes no setting.
            Event::CampaignStarted(_) => self.ended = None,
            Event::HostJoined(host) => {
                match self.hosts.iter_mut().find(|known| known.host == host.host) {
                    Some(known) => known.clone_from(host),
                    None => self.hosts.push((**host).clone()),
                }
            }
            Event::Planned { trials } => {
                // Trials that are no longer planned are left out.
                let recorded = std::mem::take(&mut self.trials).into_iter();
                let mut recorded: HashMap<TrialId, TrialRecord> =
                    recorded.map(|r| (r.spec.id, r)).collect();
                self.trials = trials.iter().map(|spec| record_of(spec, &mut recorded)).collect();
            }
            Event::TrialChosen { trial } => {
                // A resumed search chooses its trials again, and these may be recorded already.
                if self.trial(trial.id).is_none() {
                    self.trials.push(TrialRecord::new((**trial).clone()));
                }
            }
            Event::TrialStarted { trial, at } => {
                if let Some(record) = self.trial_mut(*trial) {
                    // What is left of an aborted attempt must not be added to the new one.
                    *record =
                        TrialRecord { started: Some(*at), ..TrialRecord::new(record.spec.clone()) };
                }
            }
            Event::BarrierPassed { trial, skew_ns, uncertainty_ns } => {
                if let Some(record) = self.trial_mut(*trial) {
                    record.skew = Some((*skew_ns, *uncertainty_ns));
                }
            }
            Event::ClocksCompared { trial, clocks } => {
                if let Some(record) = self.trial_mut(*trial) {
                    record.clocks.clone_from(clocks);
                }
            }
            Event::Intervals { trial, job, side, intervals } => {
                if let Some(record) = self.job_mut(*trial, *job, *side) {
                    record.intervals.extend_from_slice(intervals);
                }
            }
            Event::FlowsEnded { trial, job, side, flows } => {
                if let Some(record) = self.job_mut(*trial, *job, *side) {
                    record.flows.extend_from_slice(flows);
                }
            }
            Event::Samples { trial, host, block } => {
                if let Some(record) = self.trial_mut(*trial) {
                    // The order of a host's blocks is their order in time.
                    record.samples.push((host.clone(), block.clone()));
                }
            }
            Event::Incident { trial: None, incident } => self.incidents.push(incident.clone()),
            Event::Incident { trial: Some(trial), incident } => {
                if let Some(record) = self.trial_mut(*trial) {
                    record.incidents.push(incident.clone());
                }
            }
            Event::TrialEnded { trial, outcome } => {
                if let Some(record) = self.trial_mut(*trial) {
                    record.outcome = Some(*outcome);
                }
            }
            Event::CampaignEnded { at } => self.ended = Some(*at),
        }
    }

    /// The reverse: events that add up to this campaign.
    #[must_use]
    pub fn into_events(self) -> Vec<Event> {
        let Self { header, hosts, trials, incidents, ended } = self;
        let mut events = vec![Event::CampaignStarted(Box::new(header))];
        events.extend(hosts.into_iter().map(|host| Event::HostJoined(Box::new(host))));
        events.extend(
            // Before the trials: these incidents belong to none.
            incidents.into_iter().map(|incident| Event::Incident { trial: None, incident }),
        );
        events.push(Event::Planned {
            trials: trials.iter().map(|record| record.spec.clone()).collect(),
        });
        // Each trial whole: a ledger is read trial by trial.
        trials.into_iter().for_each(|record| record.add_events(&mut events));
        events.extend(ended.map(|at| Event::CampaignEnded { at }));
        events
    }

    /// The record of trial `id`; O(trials).
    #[must_use]
    pub fn trial(&self, id: TrialId) -> Option<&TrialRecord> {
        self.trials.iter().find(|record| record.spec.id == id)
    }

    fn trial_mut(&mut self, id: TrialId) -> Option<&mut TrialRecord> {
        self.trials.iter_mut().find(|record| record.spec.id == id)
    }

    fn job_mut(&mut self, id: TrialId, job: u32, side: Side) -> Option<&mut JobRecord> {
        let (active, passive) = self.trial_mut(id)?.jobs.get_mut(usize::try_from(job).ok()?)?;
        Some(match side {
            Side::Active => active,
            Side::Passive => passive,
        })
    }
}

impl TrialRecord {
    /// Adds the events that make this record of a planned trial.
    fn add_events(self, events: &mut Vec<Event>) {
        let trial = self.spec.id;
        events.extend(self.started.map(|at| Event::TrialStarted { trial, at }));
        let skew = self.skew.map(|(skew_ns, uncertainty_ns)| Event::BarrierPassed {
            trial,
            skew_ns,
            uncertainty_ns,
        });
        events.extend(skew);
        if !self.clocks.is_empty() {
            events.push(Event::ClocksCompared { trial, clocks: self.clocks });
        }
        for (job, (active, passive)) in (0..).zip(self.jobs) {
            for (side, record) in [(Side::Active, active), (Side::Passive, passive)] {
                // An event without content would fold to the same record.
                if !record.intervals.is_empty() {
                    events.push(Event::Intervals { trial, job, side, intervals: record.intervals });
                }
                if !record.flows.is_empty() {
                    events.push(Event::FlowsEnded { trial, job, side, flows: record.flows });
                }
            }
        }
        events.extend(self.samples.into_iter().map(|(host, block)| Event::Samples {
            trial,
            host,
            block,
        }));
        events.extend(
            self.incidents
                .into_iter()
                .map(|incident| Event::Incident { trial: Some(trial), incident }),
        );
        events.extend(self.outcome.map(|outcome| Event::TrialEnded { trial, outcome }));
    }
}

/// Returns the record of the trial `spec`: its own of those `recorded`, or a new one.
fn record_of(spec: &TrialSpec, recorded: &mut HashMap<TrialId, TrialRecord>) -> TrialRecord {
    // A trial of another specification would mix two measurements.
    let known = recorded.remove(&spec.id).filter(|record| record.spec == *spec);
    known.unwrap_or_else(|| TrialRecord::new(spec.clone()))
}
