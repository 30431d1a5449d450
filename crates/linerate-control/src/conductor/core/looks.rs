//! Points that are repeated until the intervals of their figures are narrow enough. After each
//! evaluation ("look") that finds them too wide, further runs are chosen.
//!
//! The list of trials contains every possible run of a point, each with its own seed and position.
//! Runs after the first look are chosen only when a look needs them, and are then executed at their
//! position in the list. If the scatter is too large for further runs to help, none are chosen.
//! A run is judged from its recorded events only, so that a resumed campaign decides as the
//! interrupted one would have.

use std::collections::{BTreeMap, BTreeSet};

use linerate_analysis::{Look, LookedAt, look, looked_at};
use linerate_model::{
    Campaign, Event, HostRecord, TrialId, TrialOutcome, TrialRecord, TrialSpec, Until,
};

use super::{Conductor, Output};

/// Point with its runs.
#[derive(Debug)]
struct Repeating {
    until: Until,
    /// All possible runs, by their index among the trials.
    places: Vec<usize>,
    /// Looks taken.
    n_looks: usize,
    /// Number of runs planned or chosen so far: those before the next look.
    n_chosen: usize,
    /// Figures of the runs that have ended.
    ended: BTreeMap<usize, LookedAt>,
}

/// All repeated points of a campaign.
#[derive(Debug, Default)]
pub(super) struct Looking {
    points: Vec<Repeating>,
    /// Hosts as recorded; their facts are needed to judge a run.
    hosts: Vec<HostRecord>,
    /// Index and events of the run that is executed or has just ended.
    under_way: Option<(usize, Box<Campaign>)>,
}

impl Looking {
    /// Collects the points among `trials` that are repeated until their figures are precise.
    pub(super) fn planned(trials: &[TrialSpec]) -> Self {
        let mut points: BTreeMap<(&str, String), Repeating> = BTreeMap::new();
        for (place, trial) in trials.iter().enumerate() {
            let Some(until) = trial.until.as_deref() else { continue };
            // Points have no order or hash of their own; their text has.
            let coordinate = serde_json::to_string(&trial.point).unwrap_or_default();
            points
                .entry((&trial.sweep, coordinate))
                .or_insert_with(|| Repeating {
                    until: until.clone(),
                    places: Vec::new(),
                    n_looks: 0,
                    n_chosen: until.first() as usize,
                    ended: BTreeMap::new(),
                })
                .places
                .push(place);
        }
        let mut points: Vec<Repeating> = points.into_values().collect();
        points.iter_mut().for_each(|point| point.places.sort_by_key(|&place| trials[place].repeat));
        Self { points, ..Self::default() }
    }

    /// Returns the runs that no look has chosen yet.
    pub(super) fn not_chosen(&self) -> BTreeSet<usize> {
        self.points
            .iter()
            .flat_map(|point| point.places.iter().skip(point.n_chosen).copied())
            .collect()
    }

    fn point_of(&mut self, place: usize) -> Option<&mut Repeating> {
        self.points.iter_mut().find(|point| point.places.contains(&place))
    }
}

impl Repeating {
    /// Takes the next look if all runs before it have ended. Returns the look and the runs that it
    /// chooses.
    fn take_look(&mut self) -> Option<(Look, Vec<usize>)> {
        let due = *self.until.looks.get(self.n_looks)? as usize;
        let before: Vec<LookedAt> = self
            .places
            .iter()
            .take(due)
            .map(|place| self.ended.get(place).cloned())
            .collect::<Option<_>>()?;
        let seen = look(&self.until, self.n_looks, &before);
        self.n_looks += 1;
        let next = self.until.looks.get(self.n_looks).filter(|_| seen.goes_on());
        let upto = next.map_or(due, |next| *next as usize).min(self.places.len());
        let chosen = self.places[due.min(upto)..upto].to_vec();
        self.n_chosen = upto;
        Some((seen, chosen))
    }
}

impl Conductor {
    /// Continues repeated points from the runs that an earlier execution recorded.
    pub(crate) fn continue_looks(&mut self, recorded: &[TrialRecord], hosts: Vec<HostRecord>) {
        let mut earlier = Campaign::new(self.header.clone());
        earlier.hosts = hosts;
        for trial in recorded.iter().filter(|trial| trial.outcome == Some(TrialOutcome::Completed))
        {
            let Some(place) = self.trials.iter().position(|spec| *spec == trial.spec) else {
                continue;
            };
            let figures = looked_at(&earlier, trial);
            if let Some(point) = self.looking.point_of(place) {
                point.ended.insert(place, figures);
            }
        }
        self.continue_mixes(recorded, &earlier);
        for number in 0..self.looking.points.len() {
            while let Some((_, chosen)) = self.looking.points[number].take_look() {
                let ended = &self.looking.points[number].ended;
                let left: Vec<usize> =
                    chosen.into_iter().filter(|place| !ended.contains_key(place)).collect();
                self.take_turn(&left);
            }
        }
    }

    /// Inserts runs into the pending ones, in the order of the list.
    pub(super) fn take_turn(&mut self, chosen: &[usize]) {
        for &place in chosen {
            let turn =
                // In the order of the list, so that points stay interleaved.
                self.pending.iter().position(|&other| other > place).unwrap_or(self.pending.len());
            self.pending.insert(turn, place);
        }
        self.n_trials += chosen.len();
    }

    /// Keeps the events of a run that a look or a mix evaluates.
    pub(super) fn watch_looks(&mut self, event: &Event) {
        if self.looking.points.is_empty() && self.mixes.is_empty() {
            return;
        }
        if let Event::HostJoined(host) = event {
            self.looking.hosts.retain(|known| known.host != host.host);
            self.looking.hosts.push((**host).clone());
        }
        if let Event::TrialStarted { trial, .. } = event
            && let Some(place) = self.place_of(*trial)
        {
            let mut campaign = Campaign::new(self.header.clone());
            campaign.hosts.clone_from(&self.looking.hosts);
            campaign.apply(&Event::TrialChosen { trial: Box::new(self.trials[place].clone()) });
            self.looking.under_way = Some((place, Box::new(campaign)));
        }
        // The campaign contains one trial, so events of other trials change nothing.
        if let Some((_, campaign)) = &mut self.looking.under_way
            && !matches!(
                event,
                Event::CampaignStarted(_)
                    | Event::Planned { .. }
                    | Event::TrialChosen { .. }
                    | Event::HostJoined(_)
            )
        {
            campaign.apply(event);
        }
    }

    fn place_of(&self, trial: TrialId) -> Option<usize> {
        let place = self.trials.iter().position(|spec| spec.id == trial)?;
        (self.trials[place].until.is_some() || self.mixes.follow_from(place)).then_some(place)
    }

    /// Evaluates the run that has just ended, and takes a look at its point if one is due.
    pub(super) fn take_look(&mut self) {
        let ended = |(_, campaign): &mut (usize, Box<Campaign>)| {
            campaign.trials[0].outcome.is_some_and(|outcome| outcome != TrialOutcome::Interrupted)
        };
        let Some((place, campaign)) = self.looking.under_way.take_if(ended) else { return };
        self.learn_alone(place, &campaign);
        let Some(point) = self.looking.point_of(place) else { return };
        let figures = looked_at(&campaign, &campaign.trials[0]);
        point.ended.insert(place, figures);
        let until = point.until.clone();
        let Some((seen, chosen)) = point.take_look() else { return };
        for &place in &chosen {
            let spec = Box::new(self.trials[place].clone());
            self.outputs.push(Output::Record(Event::TrialChosen { trial: spec }));
        }
        self.take_turn(&chosen);
        self.outputs.push(Output::Looked { trial: place, look: seen, until, more: chosen.len() });
    }
}
