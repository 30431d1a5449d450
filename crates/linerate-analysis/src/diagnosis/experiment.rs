//! Experiments on a rule's claim: the change, and the predicted ratio of goodput
//! (docs/methodology/diagnosis.md#experiment).
//!
//! Most experiments change a parameter of the load, which needs no consent and leaves nothing
//! behind. Two change a setting of a host, with its consent, and restore it: the CPU that polls
//! packets, and an exhausted CPU quota. No experiment changes devices on the path, which only their
//! owner can do.

use linerate_model::{BitRate, Direction, Failing, HostSetting, Metric, Verdict};
use serde_json::Value;

use super::{Finding, GOODPUT, Outcome};
use crate::PointStudy;

/// Parameters and their new values.
pub type Change = Vec<(String, Value)>;

/// Change that decides whether a claim is true.
#[derive(Clone, Debug, PartialEq)]
#[must_use]
pub struct Experiment {
    /// Name of the changed arm, for people.
    pub name: String,
    /// Candidate changes. Single trials select the candidate with the largest effect, among those
    /// that end the metric in `ends`; fresh trials then test it.
    pub candidates: Vec<Change>,
    /// Predicted ratio of the metric if the claim is true: least and largest.
    pub ratio: [f64; 2],
    /// The metric; goodput, or the transfer rate of a disk or file, where it is absent.
    pub metric: Option<&'static Metric>,
    /// True if the change removes the limit, so that diagnosis can continue with the next limit.
    pub lifts: bool,
    /// Metric that the change must end if the claim is true, such as `retransmit_ratio`.
    pub ends: Option<&'static Metric>,
    /// True if a counter shows the cause itself. Single runs then drop the claim only if the change
    /// does not end the cause: what it yields on a busy host says little.
    pub is_counted: bool,
    /// Host settings during the measurement; the agents must have consented.
    pub settings: Vec<HostSetting>,
    /// Consequence for the claim if the change has no such effect.
    pub failing: Failing,
}

impl Experiment {
    /// Returns a change that removes the limit.
    pub fn lift(name: impl Into<String>, change: Change, ratio: [f64; 2]) -> Self {
        Self::lift_by_one(name, [change], ratio)
    }

    /// Returns candidate changes of which one removes the limit; single runs select it.
    pub fn lift_by_one(
        name: impl Into<String>,
        of: impl IntoIterator<Item = Change>,
        ratio: [f64; 2],
    ) -> Self {
        Self {
            name: name.into(),
            candidates: of.into_iter().collect(),
            ratio,
            metric: None,
            lifts: true,
            ends: None,
            is_counted: false,
            settings: Vec::new(),
            failing: Failing::Refutes,
        }
    }

    /// Returns a change that shows the limit without removing it.
    pub fn show(name: impl Into<String>, change: Change, ratio: [f64; 2]) -> Self {
        Self { lifts: false, ..Self::lift(name, change, ratio) }
    }

    /// Returns a host setting that lasts as long as the measurement. Diagnosis cannot continue
    /// behind it, because it is restored afterwards.
    pub fn at_host(name: impl Into<String>, setting: HostSetting, ratio: [f64; 2]) -> Self {
        Self { settings: vec![setting], ..Self::show(name, Change::new(), ratio) }
    }

    /// Predicts the ratio of `metric` instead of goodput.
    pub fn of(self, metric: &'static Metric) -> Self {
        Self { metric: Some(metric), ..self }
    }

    /// Requires that the change also ends `metric`.
    pub fn ending(self, metric: &'static Metric) -> Self {
        Self { ends: Some(metric), ..self }
    }

    /// Marks a change that only saves some of a scarce resource: without an effect, the resource
    /// may have gone elsewhere, so the claim is not refuted.
    pub fn refuting_nothing(self) -> Self {
        Self { failing: Failing::SaysNothing, ..self }
    }

    /// Returns the metric of which it predicts the ratio at `point`.
    #[must_use]
    pub fn judged(&self, point: &PointStudy) -> &'static Metric {
        self.metric.unwrap_or_else(|| super::moved(point))
    }

    /// Returns the value of that metric at `point`; zero if there is none.
    #[must_use]
    pub fn figure(&self, point: &PointStudy) -> f64 {
        figure_of(point, self.judged(point))
    }

    /// Returns true if single runs with the change, relative to one without, exclude the claim: all
    /// are nearer to no difference than to the smallest prediction, or go the other way. Runs that
    /// differ from each other by more than twice that prediction show noise and exclude nothing.
    /// This early check can only drop a claim, never prove one.
    #[must_use]
    pub fn is_hopeless(&self, ratios: &[f64]) -> bool {
        let [least, most] = self.ratio;
        // Predictions below one mean a fall, whose smallest change is the upper end.
        let near = if least >= 1.0 { least } else { most };
        // Logarithms make a rise by 2 and a fall to 1/2 equally far from no change.
        let hopeless = |ratio: &f64| *ratio > 0.0 && ratio.ln() / near.ln() < HALF_WAY;
        let logarithms = || ratios.iter().map(|ratio| ratio.ln() / near.ln());
        let spread = logarithms().fold(f64::NEG_INFINITY, f64::max)
            - logarithms().fold(f64::INFINITY, f64::min);
        // A prediction that includes no change cannot be excluded by seeing none.
        near > 0.0
            && near != 1.0
            && !ratios.is_empty()
            && ratios.iter().all(hopeless)
            && spread <= NOISE
    }

    /// Returns true if the metric that the change must end continues: more than a third of its
    /// value `before` is left `after`.
    #[must_use]
    pub fn goes_on(before: f64, after: f64) -> bool {
        after > before * LEFT
    }

    /// Orders two single runs, as ratios to one without the change: the greater one went further in
    /// the predicted direction.
    #[must_use]
    pub fn rank(&self, a: f64, b: f64) -> std::cmp::Ordering {
        if self.ratio[0] >= 1.0 { a.total_cmp(&b) } else { b.total_cmp(&a) }
    }
}

/// Returns the largest value of `metric` among the measured jobs of `point`, of the directions that
/// [`counting`] selects; zero if there is none.
#[must_use]
pub fn figure_of(point: &PointStudy, metric: &Metric) -> f64 {
    let jobs = point.jobs.iter().filter(|job| !job.background);
    let figures = jobs.flat_map(|job| &job.metrics).filter(|known| known.metric == metric);
    let counting = counting(metric, figures, |figure| figure.direction);
    let values = counting.into_iter().filter_map(|figure| figure.estimate);
    values.map(|estimate| estimate.value).fold(0.0, f64::max)
}

/// Returns those of the `figures` of `metric` whose ratio counts. For goodput these are the single
/// directions, because their sum mixes the tested flow with its reverse traffic. For other metrics
/// it is the sum, because a change of a load on a disk moves reads and writes together.
pub(super) fn counting<T>(
    metric: &Metric,
    figures: impl Iterator<Item = T>,
    direction: impl Fn(&T) -> Direction,
) -> Vec<T> {
    let (sums, ways): (Vec<T>, Vec<T>) =
        figures.partition(|figure| direction(figure) == Direction::Sum);
    let prefers_sum = metric != GOODPUT;
    if sums.is_empty() || !(prefers_sum || ways.is_empty()) { ways } else { sums }
}

/// Records that early runs excluded the effect of `experiment`, so that no pairs were run. The
/// claim is dropped, unless the missing effect says nothing about it.
#[must_use]
pub fn set_aside(
    mut finding: Finding,
    experiment: &Experiment,
    metric: &'static Metric,
    before: f64,
    after: &[f64],
) -> Finding {
    let refutes = experiment.failing == Failing::Refutes;
    if refutes {
        finding.verdict = Verdict::Inconclusive;
        // The recommended change just had no effect.
        finding.advice.clear();
    }
    finding.experimented(Outcome::SingleRuns {
        arm: experiment.name.clone(),
        metric,
        before,
        after: after.to_vec(),
        ratio: experiment.ratio,
        ends: experiment.ends,
        refutes,
    })
}

/// Share of a metric above which it has not ended.
const LEFT: f64 = 1.0 / 3.0;
/// Half of the distance from no difference to the smallest prediction, as a logarithm.
const HALF_WAY: f64 = 0.5;
/// Largest difference of single runs that may exclude a claim, in the same unit.
const NOISE: f64 = 2.0;
/// Returns one parameter of a change.
pub(super) fn set(key: &str, value: impl Into<Value>) -> (String, Value) {
    (key.to_owned(), value.into())
}

/// Returns a size in a plan's notation.
pub(super) fn bytes(bytes: f64) -> Value {
    // Zero would mean the default of the parameter, not a small value.
    Value::from(format!("{} B", bytes.max(1.0).round() as u64))
}

/// Lowest pacing rate of an experiment: below it a run of seconds carries only a few segments.
const LEAST_RATE: BitRate = BitRate(10e3);

/// Returns a rate in a plan's notation; `None` for a rate that cannot be paced.
pub(super) fn rate(rate: f64) -> Option<Value> {
    let rate =
        Some(BitRate(rate.round())).filter(|rate| rate.0.is_finite() && rate.0 >= LEAST_RATE.0)?;
    Some(Value::from(rate.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnosis::rules::cases;
    use crate::diagnosis::{Claim, Evidence, FlowEnd, Step, Subject};
    use linerate_model::{Estimate, metric};

    fn experiment(ratio: [f64; 2]) -> Experiment {
        Experiment::lift("change", vec![set("streams", 2)], ratio)
    }

    #[test]
    fn nothing_is_paced_at_nothing() {
        assert_eq!([0.0, -0.0, -3.0, f64::NAN, f64::INFINITY, 9e3].map(rate), [const { None }; 6]);
        assert_eq!(rate(2.5e6), Some(Value::from("2.5 Mbit/s")));
    }

    #[test]
    fn both_directions_of_a_disk_count_together_and_those_of_a_flow_do_not() {
        let of = |metric: &'static Metric, values: [f64; 3]| {
            let mut point = cases::point(&[(metric.name, 0.0); 3]);
            let ways = [Direction::Tx, Direction::Sum, Direction::Rx];
            for ((figure, way), value) in point.jobs[0].metrics.iter_mut().zip(ways).zip(values) {
                figure.direction = way;
                figure.estimate = figure.estimate.map(|one| Estimate { value, ..one });
            }
            point
        };
        let time = experiment([1.6, 2.5]).of(metric::SERVICE_TIME_MEAN);
        let mixed = of(metric::SERVICE_TIME_MEAN, [5e-3, 1e-3, 0.5e-3]);
        assert_eq!((time.judged(&mixed), time.figure(&mixed)), (metric::SERVICE_TIME_MEAN, 1e-3));
        let moved = experiment([1.6, 2.5]);
        let both = of(metric::GOODPUT, [3e6, 8e6, 5e6]);
        assert_eq!((moved.judged(&both), moved.figure(&both)), (metric::GOODPUT, 5e6));
        assert_eq!(moved.figure(&mixed), 0.0);
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
        // Recorded on a busy host, with a receive buffer that was the limit: 27.9 Mbit/s without
        // the change, and 1.9 and 17.5 with it.
        assert!(!doubled.is_hopeless(&[1.9 / 27.9, 17.5 / 27.9]), "noise");
        let wasteful = experiment([0.74, 0.82]);
        assert!(wasteful.is_hopeless(&[0.99, 1.3]));
        assert!(
            !wasteful.is_hopeless(&[0.85]) && !wasteful.is_hopeless(&[0.5]),
            "pairs judge what is too much"
        );
    }

    #[test]
    fn what_was_set_aside_says_what_was_seen() {
        let suspected = || {
            let subject = Subject::of_sweep("sweep");
            let (claim, evidence) = (Claim::ReceiveBuffer, vec![Evidence::NoFlow]);
            Finding::new("receive_window", Verdict::Suspected, subject, claim, evidence)
                .advise(Step::DoubleBuffer(FlowEnd::Receiving))
        };
        let told = set_aside(
            suspected(),
            &experiment([1.5, 2.5]),
            metric::GOODPUT,
            20e6,
            &[20.1e6, 19.9e6],
        );
        assert_eq!(
            (told.verdict, told.advice.len()),
            (Verdict::Inconclusive, 0),
            "the change had no effect, so it is no advice"
        );
        let [Outcome::SingleRuns { after, refutes: true, .. }] = &told.experiments[..] else {
            panic!("{told:?}")
        };
        assert_eq!(after, &[20.1e6, 19.9e6]);
        let sparing = set_aside(
            suspected(),
            &experiment([1.5, 2.5]).refuting_nothing(),
            metric::GOODPUT,
            20e6,
            &[20.1e6],
        );
        assert_eq!((sparing.verdict, sparing.advice.len()), (Verdict::Suspected, 1));
        assert!(matches!(sparing.experiments[..], [Outcome::SingleRuns { refutes: false, .. }]));
    }
}
