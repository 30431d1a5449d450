//! Stages of one diagnosis: their cost, the time that is left for them, and the other programs that
//! disturbed them.

use linerate_analysis::{PointStudy, Study, TrialStudy};
use linerate_model::plan::{Draft, DraftSweep};
use linerate_model::{Campaign, Nanos};

use crate::Ended;
use crate::stages::Bench;

/// Largest share of the CPU time that other programs may take from a measurement. Above it the
/// measurement is no evidence of anything else.
const MOST_TAKEN: f64 = 0.05;
/// Most measurements of a stage that other programs disturb.
const MOST_LOOKS: usize = 3;
/// Time to open a run: sockets, connections and the start barrier, on a path of 20 ms.
pub(super) const OPENING: Nanos = Nanos::from_millis(300);
/// Longest time that a run waits for data in flight.
pub(super) const LONGEST_DRAIN: Nanos = Nanos::from_millis(200);

/// Returns the expected time of the stage `draft`.
pub(super) fn cost(draft: &Draft) -> Nanos {
    let repeats = u64::from(draft.campaign.repeats.unwrap_or(1));
    Nanos(draft.sweeps.iter().map(|sweep| cost_of(sweep, repeats)).sum())
}

/// Returns the expected time of `sweep` in ns.
fn cost_of(sweep: &DraftSweep, repeats: u64) -> u64 {
    // Transfers of a disk mostly end long before the longest time that they are given.
    let drain = sweep.drain.map(|drain| drain.min(LONGEST_DRAIN));
    let pauses = [drain, sweep.rest].into_iter().flatten().map(|pause| pause.0);
    let run = sweep.warmup.0 + sweep.duration.0 + pauses.sum::<u64>() + OPENING.0;
    let n_runs = sweep.compare.as_ref().map_or(repeats, |compare| {
        u64::from(compare.pairs) * if compare.placebo.is_some() { 3 } else { 2 }
    });
    n_runs * run
}

/// Time that a stage needs, and the time of the budget that is left, which is less.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Shortage {
    pub(super) needed: Nanos,
    pub(super) left: Nanos,
}

/// The stages of one diagnosis.
pub(super) struct Stages<'a> {
    bench: &'a dyn Bench,
    /// End of the time budget, on the clock of the bench.
    ends: Nanos,
    /// Expected time of the runs so far, and the time that they took.
    expected: Nanos,
    spent: Nanos,
    /// Longest time from the begin of a stage to that of its first run: agents are started and
    /// reached, which takes seconds through a slow ssh, and does not grow with the number of runs.
    opening: Nanos,
    /// True if other programs disturbed every measurement of a stage.
    is_always_busy: bool,
    /// Disturbances of the stages of this limit.
    pub(super) notes: Vec<String>,
}

impl<'a> Stages<'a> {
    /// Returns no stages yet, on `bench`, with a time of `budget` for all of them.
    pub(super) fn new(bench: &'a dyn Bench, budget: Nanos) -> Self {
        Self {
            bench,
            ends: bench.now() + budget,
            expected: Nanos(0),
            spent: Nanos(0),
            opening: Nanos(0),
            is_always_busy: false,
            notes: Vec::new(),
        }
    }

    /// Returns the shortage if `stages` stages, whose runs have an expected time of `cost`, do not
    /// fit into the time that is left; `None` if they fit.
    pub(super) fn shortage(&self, stages: usize, cost: Nanos) -> Option<Shortage> {
        // A busy host or a slow path takes longer than expected, and will do so again.
        let slower = (self.spent.as_secs_f64() / self.expected.as_secs_f64().max(1e-9)).max(1.0);
        let runs = Nanos::from_secs_f64(cost.as_secs_f64() * slower);
        let needed = runs + Nanos(self.opening.0 * stages as u64);
        let left = self.ends.since(self.bench.now());
        (needed > left).then_some(Shortage { needed, left })
    }

    /// Returns the plan of the next of `most` looks at a stage, of which `n_seen` were disturbed:
    /// the usual one, or the one with more runs if it is the last. `None` if there is no further
    /// look, or no time for it.
    fn again<'d>(
        &self,
        n_seen: usize,
        most: usize,
        [usual, thorough]: [&'d Draft; 2],
    ) -> Option<&'d Draft> {
        let next = if n_seen + 1 == most { thorough } else { usual };
        (n_seen < most && self.shortage(1, cost(next)).is_none()).then_some(next)
    }

    fn observe(&mut self, name: &str, draft: &Draft) -> Result<(Campaign, Study), Ended> {
        let begun = self.bench.now();
        let observed = self.bench.observe(name, draft)?;
        let took = self.bench.now().since(begun);
        let opening = opening(&observed.0).min(took);
        self.opening = self.opening.max(opening);
        self.spent = self.spent + Nanos(took.0 - opening.0);
        self.expected = self.expected + cost(draft);
        Ok(observed)
    }

    /// Runs the pairs `draft` as stage `name` and studies them.
    pub(super) fn pairs(&mut self, name: &str, draft: &Draft) -> Result<Study, Ended> {
        let (_, study) = self.observe(name, draft)?;
        self.notes.extend(disturbed(name, &study));
        Ok(study)
    }

    /// Runs the plan `draft` as stage `name` and studies it. Repeats a stage that other programs
    /// disturb, at most [`MOST_LOOKS`] times in all, the last time with more runs. The last
    /// measurement counts whatever its result: the choice must not depend on the result.
    pub(super) fn look(&mut self, name: &str, draft: &Draft) -> Result<(Campaign, Study), Ended> {
        // On a machine that is always busy, more repetitions would not help.
        let most = if self.is_always_busy { 1 } else { MOST_LOOKS };
        let mut seen = Vec::new();
        let thorough = with_more_runs(draft);
        let mut next = draft;
        loop {
            let (campaign, study) = self.observe(name, next)?;
            let taken = study.points.iter().filter_map(PointStudy::taken).fold(0.0, f64::max);
            seen.push(format!("{:.0} %", taken * 100.0));
            let is_disturbed = taken > MOST_TAKEN;
            let again = self.again(seen.len(), most, [draft, &thorough]);
            if let Some(again) = again.filter(|_| is_disturbed) {
                next = again;
                continue;
            }
            self.is_always_busy |= is_disturbed && seen.len() == MOST_LOOKS;
            if is_disturbed || seen.len() > 1 {
                self.notes.push(note(name, &seen));
            }
            return Ok((campaign, study));
        }
    }
}

/// Returns the time from the begin of a campaign to that of its first run.
fn opening(campaign: &Campaign) -> Nanos {
    let first = campaign.trials.iter().filter_map(|trial| trial.started).min();
    first.map_or(Nanos(0), |first| Nanos(first.0.saturating_sub(campaign.header.started.0)))
}

/// Returns `draft` with three times as many runs: on a busy host two runs may both miss the limit
/// that most runs have.
fn with_more_runs(draft: &Draft) -> Draft {
    const TIMES: u32 = 3;
    let mut draft = draft.clone();
    draft.campaign.repeats = Some(TIMES * draft.campaign.repeats.unwrap_or(1));
    draft
}

/// Returns the note about a stage of which other programs took the shares `seen` of the CPU time.
fn note(name: &str, seen: &[String]) -> String {
    let again = match seen.len() {
        1 => String::new(),
        n => format!(" It was measured {n} times, and the last time counts."),
    };
    format!(
        "Stage `{name}`: other programs took {} of its CPU time (limit {:.0} %).{again}",
        seen.join(", then "),
        MOST_TAKEN * 100.0,
    )
}

/// Returns how many trials of `study` other programs disturbed; `None` if none. Disturbance hides
/// the effect of a change, so it can only weaken a verdict.
fn disturbed(name: &str, study: &Study) -> Option<String> {
    let trials = || study.points.iter().flat_map(|point| &point.trials);
    let (taken, n_trials) = (trials().filter_map(TrialStudy::most_taken), trials().count());
    let disturbed: Vec<f64> = taken.filter(|taken| *taken > MOST_TAKEN).collect();
    let most = disturbed.iter().copied().max_by(f64::total_cmp)?;
    Some(format!(
        "Stage `{name}`: other programs took more than {:.0} % of the CPU time from {} of \
         {n_trials} runs (at most {:.0} %). Such noise can hide the effect of a change.",
        MOST_TAKEN * 100.0,
        disturbed.len(),
        most * 100.0
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulated::{SimulatedBench, SimulatedPath};

    #[test]
    fn a_look_is_repeated_while_the_next_one_fits_into_the_budget() {
        let once = Draft::new("baseline".to_owned(), 2, vec![DraftSweep::default()]);
        let thorough = with_more_runs(&once);
        let bench = SimulatedBench::new(SimulatedPath::default());
        let next = |budget: Nanos, n_seen, most| {
            let stages = Stages::new(&bench, budget);
            stages.again(n_seen, most, [&once, &thorough]).map(|draft| draft.campaign.repeats)
        };
        let [ample, little] = [cost(&thorough), Nanos(cost(&thorough).0 - 1)];
        assert_eq!([1, 2, 3].map(|n| next(ample, n, 3)), [Some(Some(2)), Some(Some(6)), None]);
        assert_eq!([1, 2].map(|n| next(little, n, 3)), [Some(Some(2)), None]);
        assert_eq!(next(ample, 1, 1), None, "a machine that is always busy");
    }

    #[test]
    fn the_last_measurement_of_a_busy_host_has_three_times_as_many_runs() {
        let once = Draft::new("baseline".to_owned(), 2, vec![DraftSweep::default()]);
        let thorough = with_more_runs(&once);
        assert_eq!(thorough.campaign.repeats, Some(6));
        assert_eq!(cost(&thorough).0, 3 * cost(&once).0);
        assert_eq!((thorough.sweeps, thorough.campaign.name), (once.sweeps, once.campaign.name));
    }
}
