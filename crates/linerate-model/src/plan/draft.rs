//! Plans that the program makes itself, as data and as text: whatever a command measures is
//! recorded as a plan that can be run again.
//!
//! Every text of a plan that linerate writes comes from [`Draft::text`], so that any name or value
//! a person types is quoted as TOML wants it. What it does *not* have: searches, mixes and
//! background jobs, which no command makes.

use serde::{Serialize, Serializer};
use serde_json::Value;

use crate::{HostSetting, Hypothesis, Nanos, Params};

/// A plan to be written.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Draft {
    /// `[campaign]`.
    pub campaign: DraftCampaign,
    /// `[[sweep]]`, in order.
    #[serde(rename = "sweep")]
    pub sweeps: Vec<DraftSweep>,
}

/// `[campaign]` of a draft; what is absent has the plan's default.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct DraftCampaign {
    /// Its name.
    pub name: String,
    /// Runs per point.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repeats: Option<u32>,
    /// Seed of everything random.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
}

/// `[[sweep]]` of a draft; what is absent has the plan's default.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct DraftSweep {
    /// Its name, unique in the plan.
    pub name: String,
    /// Length of the measure phase.
    pub duration: Nanos,
    /// Length of the warm-up.
    pub warmup: Nanos,
    /// How long receivers still count.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drain: Option<Nanos>,
    /// Pause after a trial.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rest: Option<Nanos>,
    /// Length of an interval.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interval: Option<Nanos>,
    /// `[[sweep.job]]`.
    #[serde(rename = "job")]
    pub jobs: Vec<DraftJob>,
    /// `[sweep.axis]`: paths and their values, in order.
    #[serde(rename = "axis", skip_serializing_if = "Vec::is_empty", serialize_with = "as_table")]
    pub axes: Vec<(String, Vec<Value>)>,
    /// `[sweep.compare]`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compare: Option<DraftCompare>,
}

/// `[[sweep.job]]` of a draft.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct DraftJob {
    /// Workload name.
    pub workload: String,
    /// Endpoint name of the active end.
    pub from: String,
    /// Endpoint name of the passive end.
    pub to: String,
    /// Parameters.
    #[serde(skip_serializing_if = "is_empty")]
    pub params: Params,
}

/// `[sweep.compare]` of a draft.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct DraftCompare {
    /// Pairs of trials.
    pub pairs: u32,
    /// The claim that is put to the test.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tests: Option<Hypothesis>,
    /// A change that should make no difference.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub placebo: Option<DraftArm>,
    /// Without the change.
    pub a: DraftArm,
    /// With it.
    pub b: DraftArm,
}

/// An arm of a draft.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct DraftArm {
    /// Its name.
    pub name: String,
    /// Parameters that it replaces or adds.
    #[serde(skip_serializing_if = "is_empty")]
    pub params: Params,
    /// Settings made at hosts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub settings: Vec<HostSetting>,
}

impl Draft {
    /// A plan called `name` of `repeats` runs per point.
    #[must_use]
    pub fn new(name: impl Into<String>, repeats: u32, sweeps: Vec<DraftSweep>) -> Self {
        Self {
            campaign: DraftCampaign { name: name.into(), repeats: Some(repeats), seed: None },
            sweeps,
        }
    }

    /// The plan as TOML. [`super::parse`] returns what the draft says, whatever characters its
    /// names and values have; it refuses those that a terminal would obey.
    ///
    /// # Panics
    /// If a parameter is null or a number that is not finite, which no text of a plan can give it.
    #[must_use]
    pub fn text(&self) -> String {
        toml::to_string(self).expect(
            "TOML has strings, finite numbers, lists and tables, and a draft has nothing else",
        )
    }
}

impl DraftSweep {
    /// One point: `job`, measured for `duration` after `warmup`.
    #[must_use]
    pub fn one(name: impl Into<String>, duration: Nanos, warmup: Nanos, job: DraftJob) -> Self {
        Self { name: name.into(), duration, warmup, jobs: vec![job], ..Self::default() }
    }
}

impl DraftJob {
    /// `workload` from endpoint `from` to endpoint `to`, every parameter at its default.
    #[must_use]
    pub fn new(
        workload: impl Into<String>,
        from: impl Into<String>,
        to: impl Into<String>,
    ) -> Self {
        Self {
            workload: workload.into(),
            from: from.into(),
            to: to.into(),
            params: Params::default(),
        }
    }

    /// The same with `params` besides.
    #[must_use]
    pub fn with<'k>(mut self, params: impl IntoIterator<Item = (&'k str, Value)>) -> Self {
        params.into_iter().for_each(|(name, value)| self.params.set(name, value));
        self
    }
}

impl DraftArm {
    /// An arm that changes nothing.
    #[must_use]
    pub fn named(name: impl Into<String>) -> Self {
        Self { name: name.into(), ..Self::default() }
    }
}

fn is_empty(params: &Params) -> bool {
    params.0.is_empty()
}

fn as_table<S: Serializer>(
    axes: &[(String, Vec<Value>)],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_map(axes.iter().map(|(path, values)| (path, values)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::{Plan, parse};
    use super::*;
    use crate::{Failing, Problem, Ratio, Warmup, is_obeyed};

    /// A draft with `text` in every place that takes one from a person.
    fn draft(text: &str) -> Draft {
        let value = Value::String(text.to_owned());
        let job = DraftJob::new(text, format!("{text}a"), format!("{text}b")).with([
            ("target", value.clone()),
            (text, 4.into()),
            ("list", vec![value.clone(), "x".into()].into()),
        ]);
        let params = Params([("size".to_owned(), value.clone())].into_iter().collect());
        let setting =
            HostSetting { at: text.to_owned(), name: "gro".into(), value: text.to_owned() };
        let tests = Hypothesis {
            rule: "receive_window".into(),
            ratio: [Ratio(1.5), Ratio(2.2)],
            metric: Some(crate::metric::TRANSFER_RATE),
            failing: Failing::SaysNothing,
            error: Some(Ratio(0.019)),
        };
        let compare = DraftCompare {
            pairs: 7,
            tests: Some(tests),
            placebo: Some(DraftArm {
                params: params.clone(),
                ..DraftArm::named(format!("{text} placebo"))
            }),
            a: DraftArm::named(format!("{text} before")),
            b: DraftArm { name: format!("{text} after"), params, settings: vec![setting] },
        };
        let sweep = DraftSweep {
            drain: Some(Nanos::from_millis(200)),
            axes: vec![
                ("params.depth".into(), vec![4.into(), 1.into()]),
                ("params.block_size".into(), vec![value]),
            ],
            compare: Some(compare),
            ..DraftSweep::one(text, Nanos::from_millis(1_500), Nanos::from_secs(2), job)
        };
        let mut draft = Draft::new(text, 3, vec![sweep]);
        draft.campaign.seed = Some(u64::MAX);
        draft
    }

    /// The plan that `draft` means, and what is wrong with its text.
    fn read(draft: &Draft) -> (Plan, Vec<Problem>) {
        let text = draft.text();
        let (plan, problems) = parse(&text);
        (plan.unwrap_or_else(|| panic!("no TOML: {problems:?}\n{text}")), problems)
    }

    fn comes_back(text: &str) -> Vec<Problem> {
        let written = draft(text);
        let (plan, problems) = read(&written);
        let (sweep, meant) = (&plan.sweeps[0], &written.sweeps[0]);
        let (job, drafted) = (&sweep.jobs[0], &meant.jobs[0]);
        assert_eq!((plan.name.as_str(), plan.repeats, plan.seed), (text, 3, u64::MAX));
        assert_eq!(
            (sweep.name.as_str(), sweep.duration, sweep.drain),
            (text, meant.duration, Nanos::from_millis(200))
        );
        assert_eq!(sweep.warmup, Warmup::Fixed(meant.warmup));
        assert_eq!(
            [&job.workload, &job.from, &job.to],
            [&drafted.workload, &drafted.from, &drafted.to]
        );
        assert_eq!(job.params, drafted.params);
        let axes: Vec<_> =
            sweep.axes.iter().map(|axis| (axis.path.clone(), axis.values.clone())).collect();
        assert_eq!(axes, meant.axes);
        let (compare, drafted) =
            (sweep.compare.as_ref().expect("pairs"), meant.compare.as_ref().expect("pairs"));
        assert_eq!((compare.pairs, &compare.tests), (drafted.pairs, &drafted.tests));
        let placebo = drafted.placebo.as_ref().expect("one");
        for (arm, drafted) in
            compare.arms.iter().chain(&compare.placebo).zip([&drafted.a, &drafted.b, placebo])
        {
            assert_eq!(
                (&arm.name, &arm.params, &arm.settings),
                (&drafted.name, &drafted.params, &drafted.settings)
            );
        }
        problems
    }

    /// Characters that are awkward somewhere between a keyboard and a TOML file.
    const AWKWARD: &str = "[\"'\\\\\u{1}-\u{1f}\u{7f}-\u{9f}\u{300}-\u{36f}\u{202e}\u{feff}é😀 \
        #={}\\[\\].,\n\r\ta-z]{0,20}";

    proptest! {
        #[test]
        fn every_string_a_person_can_type_survives_the_text_of_a_plan(text in "\\PC{0,20}",
            odd in AWKWARD, any: String) {
            for text in [text, odd, any] {
                let problems = comes_back(&text);
                // It is refused for what a terminal obeys, and otherwise as in a plan that a person
                // wrote: never for its syntax.
                let is_refused = problems.iter().any(|problem| problem.message.starts_with("the \
                    text has a control"));
                prop_assert_eq!(is_refused, text.chars().any(|c| is_obeyed(c) && c != '\t'),
                    "{:?}: {:?}", text, problems);
            }
        }
    }

    #[test]
    fn names_that_once_broke_a_plan_come_back() {
        for name in [
            "cafe\u{301}.bin",
            "cu\"bic",
            "a\\b",
            "it's",
            "'''",
            "\"\"\"",
            "😀",
            "\u{7f}",
            "two\nlines",
            "\r\n",
            "\u{0}",
        ] {
            comes_back(name);
        }
        assert!(
            comes_back("/data/cafe\u{301}.bin")
                .iter()
                .all(|problem| !problem.message.contains("control"))
        );
    }

    #[test]
    fn what_a_draft_leaves_out_has_the_default_of_plans() {
        let job = DraftJob::new("null", "a", "b");
        let sweep = DraftSweep::one("s", Nanos::from_secs(1), Nanos(0), job);
        let draft = Draft {
            campaign: DraftCampaign { name: "n".into(), ..DraftCampaign::default() },
            sweeps: vec![sweep],
        };
        let (plan, problems) = read(&draft);
        assert_eq!(problems, []);
        assert_eq!(
            (plan.seed, plan.sweeps[0].drain),
            (super::super::parse::DEFAULT_SEED, super::super::parse::DEFAULT_DRAIN)
        );
        assert!(plan.sweeps[0].compare.is_none() && plan.sweeps[0].jobs[0].params.0.is_empty());
    }
}
