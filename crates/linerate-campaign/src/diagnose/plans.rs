//! Plans of `diagnose`. They are recorded with the results, so that a stage can be repeated by
//! hand.

use linerate_analysis::diagnosis::experiment::{Change, Experiment};
use linerate_analysis::diagnosis::longer::Attempt;
use linerate_analysis::diagnosis::rules::command::OWN_ENDS;
use linerate_model::plan::{Draft, DraftArm, DraftCompare, DraftJob, DraftSweep, parameter};
use linerate_model::{Hypothesis, Nanos, Params, Ratio};
use serde_json::Value;

use super::Question;
use super::stages::{LONGEST_DRAIN, cost};
use crate::{Failure, Result};

/// Name of the arm without a change.
pub(super) const BASE: &str = "unchanged";
/// Runs of a baseline: enough to separate an accident from a limit, few enough to be quick.
const BASELINE_RUNS: u32 = 2;
/// Longest pause between two runs.
const LONGEST_REST: Nanos = Nanos::from_millis(100);
/// Time that a run waits for transfers of a disk. A hard disk takes 0.2 s for each of 32. The run
/// ends when the last one has ended.
const LONGEST_TRANSFER: Nanos = Nanos::from_millis(1_500);
/// Length of an interval of a run.
const INTERVAL: Nanos = Nanos::from_millis(100);
/// The workload of disks and files.
pub const STORAGE: &str = "storage";

/// Returns the placebo: a code point without a standard meaning, which is forwarded as if unmarked
/// (RFC 2474 clause 3). For a load on a disk or file it is the window of a depth search, which only
/// a searching load uses.
fn placebo(workload: &str) -> DraftArm {
    let (name, parameter, value) = match workload {
        STORAGE => {
            ("another search window, which this load ignores", "latency_window", "2 s".into())
        }
        _ => ("packets marked with an unassigned DSCP", "dscp", 4.into()),
    };
    arm(name, &[(parameter.to_owned(), value)])
}

/// Returns the arm called `name` that makes `change`.
fn arm(name: &str, change: &[(String, Value)]) -> DraftArm {
    let mut arm = DraftArm::named(name);
    change.iter().for_each(|(key, value)| arm.params.set(key, value.clone()));
    arm
}

/// The load whose limit is wanted, and the length of its runs.
#[derive(Clone, Debug)]
pub struct Load {
    workload: String,
    from: String,
    to: String,
    params: Params,
    pairs: u32,
    measured: Nanos,
    omitted: Nanos,
    seed: u64,
}

impl Load {
    /// Returns the load of `question` from endpoint `from` to endpoint `to`.
    ///
    /// # Errors
    /// If a parameter is not `KEY=VALUE`.
    pub fn new(question: &Question, from: String, to: String) -> Result<Self> {
        let mut load = Self {
            workload: question.workload.clone(),
            from,
            to,
            params: Params::default(),
            pairs: question.pairs,
            // A duration of zero is no plan.
            measured: Nanos::from_secs_f64(question.seconds).max(Nanos::from_millis(1)),
            omitted: Nanos::from_secs_f64(question.omit),
            seed: question.seed,
        };
        for assignment in &question.params {
            load.set(assignment)?;
        }
        Ok(load)
    }

    /// Sets a parameter given as `KEY=VALUE`. A word without quotes is a text.
    fn set(&mut self, assignment: &str) -> Result<()> {
        let (key, value) = parameter(assignment).map_err(|problem| {
            let expected = problem.expected.unwrap_or_default();
            Failure::wrong(format!(
                "diagnose --param {assignment}: {}, expected {expected}",
                problem.message
            ))
        })?;
        if OWN_ENDS.contains(&key.as_str()) {
            return Err(Failure::wrong(format!(
                "diagnose --param {assignment}: the runs of an experiment have one length \
                    (--seconds): leave it out"
            )));
        }
        self.params.set(&key, value);
        Ok(())
    }

    /// Returns the load with `change` made.
    pub(super) fn changed(&self, change: &Change) -> Self {
        let mut load = self.clone();
        for (key, value) in change {
            load.params.set(key, value.clone());
        }
        load
    }

    /// Returns the load with runs that are `times` as long.
    pub(super) fn longer(&self, times: f64) -> Self {
        Self { measured: Nanos::from_secs_f64(self.seconds() * times), ..self.clone() }
    }

    /// Pairs of an experiment.
    #[must_use]
    pub const fn n_pairs(&self) -> u32 {
        self.pairs
    }

    /// Returns the expected time of a baseline alone, and of the proof of one limit by one
    /// experiment: baseline, a single run, and pairs with their control.
    pub fn expected(&self) -> [Nanos; 2] {
        /// Arms of a comparison: unchanged, changed, control.
        const ARMS: u32 = 3;
        let baseline = cost(&self.baseline());
        let runs = u64::from(1 + ARMS * self.pairs);
        [baseline, baseline + Nanos(baseline.0 / u64::from(BASELINE_RUNS) * runs)]
    }

    /// Returns the length of each run, s.
    pub(super) fn seconds(&self) -> f64 {
        self.measured.as_secs_f64()
    }

    /// Returns the plan of stage `name`.
    fn draft(&self, name: &str, repeats: u32, sweeps: Vec<DraftSweep>) -> Draft {
        let mut draft = Draft::new(format!("diagnose-{name}"), repeats, sweeps);
        draft.campaign.seed = Some(self.seed);
        draft
    }

    /// Returns the time for data in flight to arrive, a quarter of the run and at most
    /// [`LONGEST_DRAIN`], or for transfers to end. A run with a transfer that did not end has no
    /// service time, and no rule can judge it.
    fn drain(&self) -> Nanos {
        match self.workload.as_str() {
            STORAGE => LONGEST_TRANSFER,
            // Short runs have little in flight. A drain as long as the run would only cost time.
            _ => Nanos(self.measured.0 / 4).clamp(Nanos::from_millis(1), LONGEST_DRAIN),
        }
    }

    /// Returns a sweep of one point.
    fn sweep(&self, name: &str) -> DraftSweep {
        let drain = self.drain();
        let mut job = DraftJob::new(&self.workload, &self.from, &self.to);
        job.params = self.params.clone();
        DraftSweep {
            drain: Some(drain),
            // A shorter rest is enough between runs of a few hundred milliseconds.
            rest: Some(Nanos(drain.0 / 2).min(LONGEST_REST)),
            interval: Some(INTERVAL.min(self.measured)),
            ..DraftSweep::one(name, self.measured, self.omitted, job)
        }
    }

    /// Returns the plan of the unchanged load.
    pub(super) fn baseline(&self) -> Draft {
        self.draft("baseline", BASELINE_RUNS, vec![self.sweep(BASE)])
    }

    /// Returns one run of each candidate, and one of the unchanged load if `beside` asks for it.
    pub(super) fn scouts(&self, name: &str, candidates: &[Change], beside: Beside) -> Draft {
        let base = (beside == Beside::Base).then(|| self.sweep(BASE));
        let numbered = candidates.iter().enumerate();
        let sweeps = numbered.map(|(number, change)| self.changed(change).sweep(&scout(number)));
        self.draft(name, 1, base.into_iter().chain(sweeps).collect())
    }

    /// Returns pairs with and without each change. A placebo is run beside the pairs of the first
    /// change: one serves for all that run at the same time.
    pub(super) fn pairs(
        &self,
        name: &str,
        rule: &str,
        tested: &[(Experiment, Change)],
        attempt: Attempt,
    ) -> Draft {
        let sweeps = tested.iter().enumerate().map(|(number, (experiment, change))| {
            let tests = Hypothesis {
                rule: rule.to_owned(),
                ratio: experiment.ratio.map(Ratio),
                metric: experiment.metric,
                failing: experiment.failing,
                error: Some(attempt.error),
            };
            let compare = DraftCompare {
                pairs: attempt.pairs,
                tests: Some(tests),
                // One placebo per campaign keeps the pairs few; they alternate, so all share its
                // noise.
                placebo: (number == 0).then(|| placebo(&self.workload)),
                a: DraftArm::named(BASE),
                b: DraftArm {
                    settings: experiment.settings.clone(),
                    ..arm(&experiment.name, change)
                },
            };
            DraftSweep { compare: Some(compare), ..self.sweep(&experiment.name) }
        });
        self.draft(name, 1, sweeps.collect())
    }
}

/// The arm that candidates are compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Beside {
    /// No run: the baseline is known.
    Nothing,
    /// The unchanged load once more, as the path may have drifted.
    Base,
}

/// Returns the name of the run of candidate `number`.
pub(super) fn scout(number: usize) -> String {
    format!("candidate {}", number + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_analysis::diagnosis::longer::attempts;
    use linerate_analysis::diagnosis::rules::RULES;
    use linerate_model::HostSetting;
    use linerate_model::plan::read;

    fn load() -> Load {
        Load {
            workload: "tcp_stream".into(),
            from: "a".into(),
            to: "b".into(),
            params: Params::default(),
            pairs: 6,
            measured: Nanos::from_millis(500),
            omitted: Nanos::from_millis(300),
            seed: 7,
        }
    }

    #[test]
    fn parameters_are_taken_as_a_plan_takes_them_and_words_without_quotes() {
        let mut load = load();
        for assignment in ["streams=4", "message_size=\"64 B\"", "congestion=bbr", "streams=2"] {
            load.set(assignment).unwrap_or_else(|_| panic!("{assignment} is one"));
        }
        assert_eq!(load.params.0["streams"], 2);
        assert_eq!(
            (&load.params.0["message_size"], &load.params.0["congestion"]),
            (&"64 B".into(), &"bbr".into())
        );
        assert!(load.set("streams").is_err());
        assert!(read(&load.baseline().text()).is_ok());
    }

    #[test]
    fn a_proof_takes_as_long_as_its_runs() {
        // 0.3 s, 0.5 s, 0.125 s and 0.0625 s of a run, and its opening.
        let [baseline, proof] = load().expected();
        assert_eq!((baseline.0 / 2, proof.0 / 21), (1_287_500_000, 1_287_500_000));
    }

    #[test]
    fn runs_on_a_disk_wait_for_slow_transfers_and_expect_none() {
        let disk = Load { workload: STORAGE.into(), ..load() };
        let baseline = disk.baseline();
        assert_eq!(baseline.sweeps[0].drain, Some(LONGEST_TRANSFER));
        assert!(baseline.sweeps[0].rest.is_some_and(|rest| rest <= LONGEST_REST));
        // 0.3 s, 0.5 s, and the longest drain and rest of a network, and the opening.
        assert_eq!(cost(&baseline), Nanos(2 * 1_400_000_000));
    }

    #[test]
    fn the_placebo_of_a_disk_changes_no_place_of_the_load() {
        let mut load = Load { workload: STORAGE.into(), params: Params::default(), ..load() };
        for assignment in ["target=/dev/shm", "pattern=zipf", "skew=110 %"] {
            load.set(assignment).expect(assignment);
        }
        let tested = [(
            Experiment::lift("twice the depth", vec![], [1.2, 2.5]),
            vec![("depth".to_owned(), 64.into())],
        )];
        let mut plan = read(&load.pairs("pairs", "disk_depth", &tested, attempts(6)[1]).text())
            .expect("no problem");
        let comparison = plan.sweeps.remove(0).compare.expect("pairs");
        let changed = comparison.placebo.expect("one").params;
        assert_eq!(changed.0.keys().collect::<Vec<_>>(), ["latency_window"]);
        assert!(load.params.0.keys().all(|key| !changed.0.contains_key(key)));
    }

    #[test]
    fn every_plan_is_one_that_can_be_read_back() {
        let change = |key: &str, value: &str| vec![(key.to_owned(), value.into())];
        let candidates = vec![change("window_clamp", "4344 B"), change("window_clamp", "7240 B")];
        let experiment = Experiment::lift_by_one(
            "a window that a shallow buffer survives",
            candidates.clone(),
            [1.1, 100.0],
        );
        let rule = RULES[0].name;
        let polled = HostSetting { at: "b".into(), name: "threaded".into(), value: "1".into() };
        let elsewhere =
            Experiment::at_host("polled elsewhere", polled, [1.1, 2.5]).refuting_nothing();
        let tested = [(experiment, candidates[1].clone()), (elsewhere, Change::new())];
        let scouts = |beside| load().scouts("scout", &candidates, beside);
        let pairs = load().pairs("pairs", rule, &tested, attempts(6)[1]);
        assert_eq!(
            pairs
                .sweeps
                .iter()
                .filter_map(|sweep| sweep.compare.as_ref()?.placebo.as_ref())
                .count(),
            1
        );
        for draft in [load().baseline(), scouts(Beside::Nothing), scouts(Beside::Base), pairs] {
            let text = draft.text();
            let plan = read(&text).unwrap_or_else(|problems| panic!("{problems:?}\n{text}"));
            for job in plan.sweeps.iter().flat_map(|sweep| &sweep.jobs) {
                assert_eq!(
                    linerate_load::workload(&job.workload).expect("known").check(&job.params),
                    [],
                    "{text}"
                );
            }
        }
    }
}
