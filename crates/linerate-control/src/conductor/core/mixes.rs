//! Mixes at fixed loads. Every job is first measured alone at full speed; shares of its figure then
//! become the loads of the other trials.
//!
//! The list of trials contains these trials without a load. They are chosen once all measurements
//! that they depend on have ended. A load of an earlier execution is used again, so that all trials
//! of a point offer the same load.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use linerate_analysis::statistics::median;
use linerate_analysis::{Reached, reached};
use linerate_model::{
    ARM_AXIS, Campaign, Event, Incident, IncidentKind, OFFERED_AXIS, Role, TrialId, TrialOutcome,
    TrialRecord, TrialSpec,
};
use serde_json::{Value, json};

use super::{Conductor, Output};
use crate::offered::Offered;

/// Trials of one point: its jobs alone, and those at the loads that follow.
#[derive(Debug, Default)]
struct Mix {
    /// Trials of a job alone at full speed, by index.
    alone: Vec<usize>,
    /// Results of the `alone` trials that ended: each job's number in the mix, and its load.
    ended: BTreeMap<usize, Vec<(u32, Option<f64>)>>,
    /// Trials at fixed loads, by index.
    derived: Vec<usize>,
    /// Loads of an earlier execution, by the offered share and the job's number.
    known: BTreeMap<(String, u32), Value>,
    /// True if all `alone` trials have ended.
    is_over: bool,
    /// True if loads could be computed from them.
    has_loads: bool,
}

/// All mixes of a campaign that are measured at fixed loads.
#[derive(Debug, Default)]
pub(super) struct Mixes {
    mixes: Vec<Mix>,
    done: HashSet<TrialId>,
}

impl Mixes {
    /// Collects the mixes among `trials`. Trials in `done` are not run again.
    pub(super) fn planned(trials: &[TrialSpec], done: &HashSet<TrialId>) -> Self {
        let mut mixes: BTreeMap<(&str, String), Mix> = BTreeMap::new();
        for (place, trial) in trials.iter().enumerate() {
            let Some(arm) = trial.arm.as_ref().filter(|_| trial.point.contains_key(OFFERED_AXIS))
            else {
                continue;
            };
            let mut point = trial.point.clone();
            point.retain(|axis, _| axis != ARM_AXIS && axis != OFFERED_AXIS);
            let mix = mixes
                .entry((&trial.sweep, serde_json::to_string(&point).unwrap_or_default()))
                .or_default();
            if arm.offered.is_some() {
                mix.derived.push(place);
            } else if arm.role == Role::Alone {
                mix.alone.push(place);
            }
        }
        Self {
            mixes: mixes.into_values().filter(|mix| !mix.derived.is_empty()).collect(),
            done: done.clone(),
        }
    }

    /// Returns whether the campaign has no such mix.
    pub(super) fn is_empty(&self) -> bool {
        self.mixes.is_empty()
    }

    /// Returns the trials whose load is not known yet.
    pub(super) fn not_chosen(&self) -> BTreeSet<usize> {
        self.mixes
            .iter()
            .filter(|mix| !mix.has_loads)
            .flat_map(|mix| mix.derived.iter().copied())
            .collect()
    }

    /// Returns whether loads depend on the trial at `place`.
    pub(super) fn follow_from(&self, place: usize) -> bool {
        self.mixes.iter().any(|mix| mix.alone.contains(&place))
    }
}

impl Mix {
    fn learn(&mut self, place: usize, spec: &TrialSpec, figures: &[Reached]) {
        let numbers = spec.arm.iter().flat_map(|arm| &arm.jobs);
        let loads = numbers.zip(&spec.jobs).zip(figures).filter_map(|((number, job), figures)| {
            let load = Offered::of(job).ok().and_then(|offered| offered.load(figures));
            job.background.is_none().then_some((*number, load))
        });
        self.ended.insert(place, loads.collect());
    }

    /// Returns the median load that the job with this number reached alone.
    fn typical(&self, number: u32) -> Option<f64> {
        let own = |(of, load): &(u32, Option<f64>)| load.filter(|_| *of == number);
        let loads: Vec<f64> = self.ended.values().flatten().filter_map(own).collect();
        median(&loads)
    }

    /// Returns `spec` with the loads of its share.
    ///
    /// # Errors
    /// If a job has no figure from a trial alone.
    fn loaded(&self, spec: &TrialSpec) -> Result<TrialSpec, String> {
        let mut loaded = spec.clone();
        let Some((share, numbers)) =
            spec.arm.as_ref().and_then(|arm| Some((arm.offered?, &arm.jobs)))
        else {
            return Ok(loaded);
        };
        for (job, number) in
            loaded.jobs.iter_mut().zip(numbers).filter(|(job, _)| job.background.is_none())
        {
            let offered = Offered::of(job)?;
            // A resumed campaign must not mix two loads in one point.
            let known = self.known.get(&(share.to_string(), *number)).cloned();
            let computed = || Some(json!(offered.written(share.0 * self.typical(*number)?)));
            let load = known.or_else(computed).ok_or_else(|| {
                format!(
                    "no trial of {} alone, from {} to {}, has a figure",
                    job.workload, job.from.name, job.to.name
                )
            })?;
            job.params.set(offered.parameter, load);
        }
        Ok(loaded)
    }
}

impl Conductor {
    /// Continues mixes from the trials that an earlier execution recorded.
    pub(super) fn continue_mixes(&mut self, recorded: &[TrialRecord], earlier: &Campaign) {
        for trial in recorded.iter().filter(|trial| trial.outcome == Some(TrialOutcome::Completed))
        {
            let Some(place) = self.trials.iter().position(|spec| spec.id == trial.spec.id) else {
                continue;
            };
            for mix in &mut self.mixes.mixes {
                if mix.alone.contains(&place) && self.trials[place] == trial.spec {
                    mix.learn(place, &trial.spec, &reached(earlier, trial));
                }
                let arm = trial.spec.arm.as_ref().filter(|_| mix.derived.contains(&place));
                let Some((share, arm)) = arm.and_then(|arm| Some((arm.offered?, arm))) else {
                    continue;
                };
                for (job, number) in trial.spec.jobs.iter().zip(&arm.jobs) {
                    let load = Offered::of(job)
                        .ok()
                        .and_then(|offered| job.params.0.get(offered.parameter).cloned());
                    mix.known.extend(load.map(|load| ((share.to_string(), *number), load)));
                }
            }
        }
        (0..self.mixes.mixes.len()).for_each(|number| {
            self.choose_loads(number);
        });
    }

    /// Evaluates the trial at `place`, which has just ended and is recorded in `campaign`, and
    /// chooses the trials whose loads are known now.
    pub(super) fn learn_alone(&mut self, place: usize, campaign: &Campaign) {
        let Some(number) = self.mixes.mixes.iter().position(|mix| mix.alone.contains(&place))
        else {
            return;
        };
        let figures = reached(campaign, &campaign.trials[0]);
        self.mixes.mixes[number].learn(place, &self.trials[place], &figures);
        for place in self.choose_loads(number) {
            let trial = Box::new(self.trials[place].clone());
            self.outputs.push(Output::Record(Event::TrialChosen { trial }));
        }
    }

    /// Sets the loads of a mix's trials if all trials that they depend on have ended. Returns the
    /// trials to run.
    fn choose_loads(&mut self, number: usize) -> Vec<usize> {
        let mix = &mut self.mixes.mixes[number];
        if mix.is_over || !mix.alone.iter().all(|place| mix.ended.contains_key(place)) {
            return Vec::new();
        }
        // Set even if no load follows: the incident is reported once.
        mix.is_over = true;
        let derived = mix.derived.clone();
        let loaded: Result<Vec<TrialSpec>, String> =
            derived.iter().map(|&place| mix.loaded(&self.trials[place])).collect();
        let left: Vec<usize> = match loaded {
            Ok(loaded) => {
                mix.has_loads = true;
                derived.iter().zip(loaded).for_each(|(&place, trial)| self.trials[place] = trial);
                let is_left = |place: &usize| !self.mixes.done.contains(&self.trials[*place].id);
                derived.into_iter().filter(is_left).collect()
            }
            Err(why) => {
                let message = format!(
                    "offer each job of `{}` a share of the load that it reaches alone: {why}",
                    self.trials[derived[0]].sweep
                );
                let incident =
                    Incident { host: String::new(), kind: IncidentKind::Failed, message };
                self.outputs.push(Output::Record(Event::Incident { trial: None, incident }));
                Vec::new()
            }
        };
        self.take_turn(&left);
        left
    }
}
