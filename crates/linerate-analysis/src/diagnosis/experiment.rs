//! The experiment that a rule's claim asks for: what is changed, and what the claim says becomes of
//! goodput (docs/methodology/diagnosis.md#experiment).
//!
//! Everything that can be changed is a parameter of the load, so that it needs nobody's consent and
//! nothing is left behind. What it does not reach: settings of devices on the path, which only
//! their owner can change. What it asks of a host, with that host's consent and put back
//! afterwards, is where packets are polled, and more of a CPU where a quota is used up.

use linerate_model::{BitRate, Failing, Finding, HostSetting, Verdict};
use serde_json::Value;

use super::proof::amount;

/// Parameters and the values they are given.
pub type Change = Vec<(String, Value)>;

/// A change that tells whether a claim holds.
#[derive(Clone, Debug, PartialEq)]
pub struct Experiment {
    /// What is changed, as a person says it: the name of the arm.
    pub name: String,
    /// What to change. Of several candidates the one that yields most in a single trial each, of
    /// those that end what they should, is put to the test, with fresh trials.
    pub candidates: Vec<Change>,
    /// What goodput is multiplied by if the claim holds: the least and the most.
    pub ratio: [f64; 2],
    /// Whether the change lifts the limit, so that what limits next can be looked for.
    pub lifts: bool,
    /// What the change must end if the claim holds, beside what it does to goodput: a metric,
    /// `retransmit_ratio` for instance.
    pub ends: Option<&'static str>,
    /// What is set at hosts while the change is measured; their agents must have consented.
    pub settings: Vec<HostSetting>,
    /// What it says of the claim if the change makes no such difference.
    pub failing: Failing,
}

impl Experiment {
    /// A change that lifts the limit.
    #[must_use]
    pub fn lift(name: impl Into<String>, change: Change, ratio: [f64; 2]) -> Self {
        Self::lift_by_one(name, [change], ratio)
    }

    /// Changes of which one lifts the limit: single runs tell which.
    #[must_use]
    pub fn lift_by_one(
        name: impl Into<String>,
        of: impl IntoIterator<Item = Change>,
        ratio: [f64; 2],
    ) -> Self {
        Self {
            name: name.into(),
            candidates: of.into_iter().collect(),
            ratio,
            lifts: true,
            ends: None,
            settings: Vec::new(),
            failing: Failing::Refutes,
        }
    }

    /// A change by which the limit shows, and stays.
    #[must_use]
    pub fn show(name: impl Into<String>, change: Change, ratio: [f64; 2]) -> Self {
        Self { lifts: false, ..Self::lift(name, change, ratio) }
    }

    /// Something set at a host while it is measured; as it is put back, nothing can be looked for
    /// beyond it.
    #[must_use]
    pub fn at_host(name: impl Into<String>, setting: HostSetting, ratio: [f64; 2]) -> Self {
        Self { settings: vec![setting], ..Self::show(name, Change::new(), ratio) }
    }

    /// The same, that must end `metric` too if the claim holds.
    #[must_use]
    pub fn ending(self, metric: &'static str) -> Self {
        Self { ends: Some(metric), ..self }
    }

    /// The same, where the change spares some of what is scarce: if it makes no difference, that
    /// may go elsewhere, and the claim stays.
    #[must_use]
    pub fn refuting_nothing(self) -> Self {
        Self { failing: Failing::SaysNothing, ..self }
    }

    /// Whether single runs with the change, over one without, leave the claim no hope: all of them
    /// are nearer to no difference than to the least that it predicts, or go the other way. Looking
    /// early can only drop a claim, never prove one.
    #[must_use]
    pub fn is_hopeless(&self, ratios: &[f64]) -> bool {
        let [least, most] = self.ratio;
        let near = if least >= 1.0 { least } else { most };
        let hopeless = |ratio: &f64| *ratio > 0.0 && ratio.ln() / near.ln() < HALF_WAY;
        near > 0.0 && near != 1.0 && !ratios.is_empty() && ratios.iter().all(hopeless)
    }

    /// Whether what the change must end goes on: what is left of it in a run with the change is
    /// more than a third of what was there before.
    #[must_use]
    pub fn goes_on(before: f64, after: f64) -> bool {
        after > before * LEFT
    }

    /// Which of two single runs, as ratios to one without the change, went further the way that the
    /// claim predicts.
    #[must_use]
    pub fn rank(&self, a: f64, b: f64) -> std::cmp::Ordering {
        if self.ratio[0] >= 1.0 { a.total_cmp(&b) } else { b.total_cmp(&a) }
    }

    /// What the claim says of `metric`, the figure that experiments on the load move, in words.
    #[must_use]
    pub fn promise(&self, metric: &str) -> String {
        let [least, most] = self.ratio;
        if most >= OPEN {
            format!("{metric} should be at least {least:.2} times as much")
        } else {
            format!("{metric} should be {least:.2} to {most:.2} times as much")
        }
    }
}

/// What became of a claim where early looks left `experiment` no hope: no pairs were run, and that
/// is told. The claim is dropped, unless its failing says nothing.
#[must_use]
pub fn set_aside(
    mut finding: Finding,
    experiment: &Experiment,
    metric: &str,
    before: f64,
    after: &[f64],
) -> Finding {
    let [least, most] = experiment.ratio;
    let told: Vec<String> = after.iter().map(|rate| amount(metric, *rate)).collect();
    let mut why = "set aside: it made no such difference, no pairs were run".to_owned();
    match experiment.failing {
        Failing::Refutes => {
            finding.verdict = Verdict::Inconclusive;
            // It would be to do what did not help.
            finding.advice.clear();
        }
        Failing::SaysNothing => why = format!("{why}, which {NOTHING_SAID}"),
    }
    finding.experimented(format!(
        "{}: {metric} {} -> {} in single runs; the claim predicts x{least:.2} to x{most:.2}{} \
            ({why})",
        experiment.name,
        amount(metric, before),
        told.join(", "),
        experiment.ends.map_or_else(String::new, |metric| format!(", and an end of {metric}"))
    ))
}

/// What the failing of an experiment means that refutes nothing.
pub(super) const NOTHING_SAID: &str =
    "does not refute it: what is scarce may go to something else than this spares";
/// More than this share of something is not its end.
const LEFT: f64 = 1.0 / 3.0;
/// Share of the way from no difference to the least predicted, as a logarithm.
const HALF_WAY: f64 = 0.5;
/// A prediction from which on there is no upper end worth telling.
const OPEN: f64 = 10.0;

/// `key = value` of a change.
pub(super) fn set(key: &str, value: impl Into<Value>) -> (String, Value) {
    (key.to_owned(), value.into())
}

/// A size as plans write it.
pub(super) fn bytes(bytes: f64) -> Value {
    Value::from(format!("{} B", bytes.max(1.0).round() as u64))
}

/// The least rate an experiment paces at: below it a run of seconds carries no more than a few
/// segments.
const LEAST_RATE: BitRate = BitRate(10e3);

/// A rate as plans write it; `None` of one that nothing can be paced at.
pub(super) fn rate(rate: f64) -> Option<Value> {
    let rate =
        Some(BitRate(rate.round())).filter(|rate| rate.0.is_finite() && rate.0 >= LEAST_RATE.0)?;
    Some(Value::from(rate.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn experiment(ratio: [f64; 2]) -> Experiment {
        Experiment::lift("change", vec![set("streams", 2)], ratio)
    }

    #[test]
    fn nothing_is_paced_at_nothing() {
        assert_eq!([0.0, -0.0, -3.0, f64::NAN, f64::INFINITY, 9e3].map(rate), [const { None }; 6]);
        assert_eq!(rate(2.5e6), Some(Value::from("2.5 Mbit/s")));
    }

    #[test]
    fn early_looks_drop_what_makes_no_difference_and_nothing_else() {
        let doubled = experiment([1.5, 2.5]);
        assert!(doubled.is_hopeless(&[1.02, 0.97]) && doubled.is_hopeless(&[0.5]));
        assert!(
            !doubled.is_hopeless(&[1.02, 1.4])
                && !doubled.is_hopeless(&[4.0])
                && !doubled.is_hopeless(&[])
        );
        let wasteful = experiment([0.74, 0.82]);
        assert!(wasteful.is_hopeless(&[0.99, 1.3]));
        assert!(
            !wasteful.is_hopeless(&[0.85]) && !wasteful.is_hopeless(&[0.5]),
            "pairs judge what is too much"
        );
    }

    #[test]
    fn what_was_set_aside_says_what_was_seen() {
        let evidence = vec![linerate_model::Evidence { observed: "x".into(), source: "y".into() }];
        let suspected = || {
            Finding::new("receive_window", Verdict::Suspected, "a to b", "claim", evidence.clone())
                .advise("double it")
        };
        let told =
            set_aside(suspected(), &experiment([1.5, 2.5]), "goodput", 20e6, &[20.1e6, 19.9e6]);
        assert_eq!(
            (told.verdict, told.advice.len()),
            (Verdict::Inconclusive, 0),
            "nobody should do what did not help"
        );
        let text = told.counterfactual.expect("told");
        assert!(
            text.starts_with(
                "change: goodput 20 Mbit/s -> 20.1 Mbit/s, 19.9 Mbit/s in single runs"
            ),
            "{text}"
        );
        let sparing = set_aside(
            suspected(),
            &experiment([1.5, 2.5]).refuting_nothing(),
            "goodput",
            20e6,
            &[20.1e6],
        );
        assert_eq!((sparing.verdict, sparing.advice.len()), (Verdict::Suspected, 1));
        assert!(sparing.counterfactual.is_some_and(|text| text.contains("does not refute it")));
    }
}
