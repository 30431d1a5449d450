//! Findings as data: a claim about a point, its evidence, the outcomes of experiments, and the
//! recommended next steps.
//!
//! Nothing here is a sentence. `linerate-report` (`sentences`) turns every value into its text, so
//! a new claim, observation or step is one variant here and one arm there.

use linerate_model::{Direction, Metric, Point, Verdict};
use serde::{Deserialize, Serialize};

use super::advice::Advice;
use super::evidence::{Claim, Evidence};
use super::sign::Seen;
use crate::ComparedFigure;
use crate::compare::{Effect, Unproven};

/// A rule's claim about a point. It always has evidence.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// Name of the rule.
    pub rule: String,
    /// Status.
    pub verdict: Verdict,
    /// The point and load that it concerns.
    pub subject: Subject,
    /// The claim.
    pub claim: Claim,
    /// Observations that support it, the strongest first.
    pub evidence: Vec<Evidence>,
    /// Outcomes of the experiments on it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub experiments: Vec<Outcome>,
    /// Outcomes of the control runs: changes that should make no difference.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub controls: Vec<Outcome>,
    /// Recommended next steps, the first one first.
    pub advice: Vec<Advice>,
}

/// Subject of a finding.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Subject {
    /// Sweep of the point.
    pub sweep: String,
    /// Coordinate of the point.
    pub parameters: Point,
    /// The load, if the finding concerns a single one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load: Option<SubjectLoad>,
    /// Job of the point and direction of its data; absent where the claim concerns no single job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flow: Option<JobFlow>,
    /// All points of the sweep with this claim, where there are several. The evidence is that of
    /// the point above.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub merged: Option<Merged>,
}

/// Load that a finding concerns.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "fields that are not explained are what they are called")]
pub enum SubjectLoad {
    /// Data between two endpoints.
    Flow { workload: String, sender: String, receiver: String },
    /// Transfers of a disk or file at a host; the target where the plan names it.
    Disk { target: Option<String>, host: String },
}

/// One direction of one job of a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobFlow {
    /// Index of the job in its point.
    pub job: u32,
    /// Direction as the job's first endpoint sees it.
    pub direction: Direction,
}

/// Points of a sweep with the same claim.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Merged {
    /// Their coordinates.
    pub points: Vec<Point>,
    /// Number of points at which the rule could have made the claim.
    pub judged: usize,
}

/// Outcome of an experiment on a claim, or of its control run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "fields that are not explained are what they are called")]
pub enum Outcome {
    /// Pairs of runs with and without the change `arm`; `ratio` is the predicted range of the
    /// effect, `doubt` the reason against proof, if there is one.
    Pairs {
        arm: String,
        figure: ComparedFigure,
        effect: Effect,
        ratio: [f64; 2],
        doubt: Option<Objection>,
    },
    /// Values of the metric that shows the mechanism of the claim, least and largest, of `runs`
    /// without the change `arm` (unchanged and placebo) and with it.
    Sign {
        arm: String,
        metric: &'static Metric,
        without: [f64; 2],
        with: [f64; 2],
        runs: [usize; 2],
        seen: Seen,
    },
    /// Pairs of runs that should not differ.
    Control { arm: String, figure: ComparedFigure, effect: Effect },
    /// Pairs of which none has two valid figures.
    NoPair { arm: String },
    /// Single runs whose change `arm` had no effect of the predicted size, so that no pairs were
    /// run. `ends` is the metric that the change also had to end; `refutes` is false where a
    /// missing effect says nothing about the claim.
    SingleRuns {
        arm: String,
        metric: &'static Metric,
        before: f64,
        after: Vec<f64>,
        ratio: [f64; 2],
        ends: Option<&'static Metric>,
        refutes: bool,
    },
    /// The change was not made: a host or the reader of plans refused it for this reason.
    NotRun { arm: String, error: String },
    /// Runs of this length did not fit into the time budget: seconds that they need, and seconds
    /// that were left.
    NotBegun { arm: String, seconds: f64, needed: f64, left: f64 },
    /// Outcomes of runs of these lengths, the second look after an inconclusive first one.
    Repeated { seconds: [f64; 2], first: Vec<Self>, second: Vec<Self> },
}

/// Objection to a claim, from pairs of runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Objection {
    /// The effect is outside the prediction.
    OutsidePrediction,
    /// The effect is as predicted, but the metric that shows the mechanism of the claim did not
    /// change.
    NoSign,
    /// The compared runs do not show the evidence of the claim.
    NoEvidence,
    /// The outcome contradicts the claim and refutes it.
    Refuted(Contradiction),
    /// The outcome contradicts the prediction of an experiment that cannot refute.
    Unmoved(Contradiction),
    /// The effect is not established.
    Unproven(Unproven),
}

/// Contradiction of an outcome with its prediction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Contradiction {
    /// The change had no effect.
    NoEffect,
    /// The interval of the effect is outside the prediction.
    IntervalOutside,
}

impl Finding {
    /// Returns a claim by `rule` about `subject`, without advice.
    ///
    /// # Panics
    /// If `evidence` is empty.
    #[must_use]
    pub fn new(
        rule: &str,
        verdict: Verdict,
        subject: Subject,
        claim: Claim,
        evidence: Vec<Evidence>,
    ) -> Self {
        assert!(!evidence.is_empty(), "a finding stands on evidence");
        Self {
            rule: rule.to_owned(),
            verdict,
            subject,
            claim,
            evidence,
            experiments: Vec::new(),
            controls: Vec::new(),
            advice: Vec::new(),
        }
    }

    /// Adds the outcome of an experiment after the earlier ones.
    #[must_use]
    pub fn experimented(mut self, outcome: Outcome) -> Self {
        self.experiments.push(outcome);
        self
    }

    /// Adds a recommended next step.
    #[must_use]
    pub fn advise(mut self, advice: impl Into<Advice>) -> Self {
        self.advice.push(advice.into());
        self
    }
}

impl Subject {
    /// Returns the subject of a finding that concerns a sweep and no single load.
    #[must_use]
    pub fn of_sweep(sweep: &str) -> Self {
        Self { sweep: sweep.to_owned(), ..Self::default() }
    }
}
