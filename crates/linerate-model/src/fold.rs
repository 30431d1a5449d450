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

    /// Takes in one event; O(trials).
    ///
    /// A campaign that is started again is resumed: it keeps its header and what was recorded. A
    /// host that joins again replaces its record. A trial that is started again replaces its
    /// partial record; one that is planned again with the same specification keeps it. What belongs
    /// to a trial or job that was never planned is ignored.
    pub fn apply(&mut self, event: &Event) {
        let place = event.trial().and_then(|id| self.place_of(id));
        self.take(event.clone(), place);
    }

    /// The same; `place` is where the record of the event's trial stands.
    fn take(&mut self, event: Event, place: Option<usize>) {
        let record = place.and_then(|place| self.trials.get_mut(place));
        match (event, record) {
            // The header of the first start holds: resuming changes no setting.
            (Event::CampaignStarted(_), _) => self.ended = None,
            (Event::HostJoined(host), _) => {
                match self.hosts.iter_mut().find(|known| known.host == host.host) {
                    Some(known) => *known = *host,
                    None => self.hosts.push(*host),
                }
            }
            (Event::Planned { trials }, _) => {
                // Trials that are no longer planned are left out.
                let recorded = std::mem::take(&mut self.trials).into_iter();
                let mut recorded: HashMap<TrialId, TrialRecord> =
                    recorded.map(|r| (r.spec.id, r)).collect();
                self.trials =
                    trials.into_iter().map(|spec| record_of(spec, &mut recorded)).collect();
            }
            // A resumed search chooses its trials again, and these may be recorded already.
            (Event::TrialChosen { trial }, None) => self.trials.push(TrialRecord::new(*trial)),
            (Event::Incident { trial: None, incident }, _) => self.incidents.push(incident),
            (Event::CampaignEnded { at }, _) => self.ended = Some(at),
            (event, Some(record)) => record.take(event),
            (_, None) => {}
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

    fn place_of(&self, id: TrialId) -> Option<usize> {
        self.trials.iter().position(|record| record.spec.id == id)
    }
}

/// A campaign under construction from many events: it finds the trial of each at once.
#[derive(Clone, Debug)]
pub struct CampaignFold {
    campaign: Campaign,
    /// Where the record of each trial stands.
    places: HashMap<TrialId, usize>,
}

impl CampaignFold {
    /// Goes on with `campaign`.
    #[must_use]
    pub fn of(campaign: Campaign) -> Self {
        let mut fold = Self { campaign, places: HashMap::new() };
        fold.note_places();
        fold
    }

    /// Returns the record of trial `id`.
    #[must_use]
    pub fn trial(&self, id: TrialId) -> Option<&TrialRecord> {
        self.campaign.trials.get(*self.places.get(&id)?)
    }

    /// Takes in one event, as [`Campaign::apply`] does.
    pub fn take(&mut self, event: Event) {
        let place = event.trial().and_then(|id| self.places.get(&id).copied());
        let is_planned = matches!(event, Event::Planned { .. });
        self.campaign.take(event, place);
        if is_planned {
            self.places.clear();
        }
        self.note_places();
    }

    /// Notes where new records stand: a plan brings all trials, the choice of a search one.
    fn note_places(&mut self) {
        let n_known = self.places.len();
        for (at, record) in self.campaign.trials.iter().enumerate().skip(n_known) {
            self.places.entry(record.spec.id).or_insert(at);
        }
    }

    /// Returns what the events added up to.
    #[must_use]
    pub fn finish(self) -> Campaign {
        self.campaign
    }
}

impl TrialRecord {
    /// Takes in an event of this trial.
    pub fn take(&mut self, event: Event) {
        match event {
            // What is left of an aborted attempt must not be added to the new one.
            Event::TrialStarted { at, .. } => {
                *self = Self { started: Some(at), ..Self::new(self.spec.clone()) };
            }
            Event::BarrierPassed { skew_ns, uncertainty_ns, .. } => {
                self.skew = Some((skew_ns, uncertainty_ns));
            }
            Event::ClocksCompared { clocks, .. } => self.clocks = clocks,
            Event::Intervals { job, side, intervals, .. } => {
                if let Some(record) = self.job_mut(job, side) {
                    record.intervals.extend(intervals);
                }
            }
            Event::FlowsEnded { job, side, flows, .. } => {
                if let Some(record) = self.job_mut(job, side) {
                    record.flows.extend(flows);
                }
            }
            // The order of a host's blocks is their order in time.
            Event::Samples { host, block, .. } => self.samples.push((host, block)),
            Event::Incident { incident, .. } => self.incidents.push(incident),
            Event::TrialEnded { outcome, .. } => self.outcome = Some(outcome),
            Event::CampaignStarted(_)
            | Event::HostJoined(_)
            | Event::Planned { .. }
            | Event::TrialChosen { .. }
            | Event::CampaignEnded { .. } => {}
        }
    }

    fn job_mut(&mut self, job: u32, side: Side) -> Option<&mut JobRecord> {
        let (active, passive) = self.jobs.get_mut(usize::try_from(job).ok()?)?;
        Some(match side {
            Side::Active => active,
            Side::Passive => passive,
        })
    }

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
fn record_of(spec: TrialSpec, recorded: &mut HashMap<TrialId, TrialRecord>) -> TrialRecord {
    // A trial of another specification would mix two measurements.
    let known = recorded.remove(&spec.id).filter(|record| record.spec == spec);
    known.unwrap_or_else(|| TrialRecord::new(spec))
}
