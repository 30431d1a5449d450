//! Findings of diagnosis: a claim, its evidence, and the recommended next steps.

use serde::{Deserialize, Serialize};

use crate::{Advice, Direction};

/// Status of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// An experiment moved the figure as predicted, and the control run did not.
    Proven,
    /// The evidence fits; no experiment has proven it.
    Suspected,
    /// The evidence does not decide.
    Inconclusive,
}

impl Verdict {
    /// Returns the status word that reports use (docs/glossary.md defines it).
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Proven => "proven",
            Self::Suspected => "suspected",
            Self::Inconclusive => "inconclusive",
        }
    }
}

/// One observation behind a claim.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Evidence {
    /// Observation with its figure and unit.
    pub observed: String,
    /// Counter, file or study it comes from.
    pub source: String,
}

/// A rule's claim about a point. It always has evidence.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Finding {
    /// Name of the rule.
    pub rule: String,
    /// Status.
    pub verdict: Verdict,
    /// Subject: a point, a path or a host.
    pub subject: String,
    /// Job of the point and direction of its data; absent where the claim concerns no single job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flow: Option<JobFlow>,
    /// The claim as a short clause, without a full stop.
    pub claim: String,
    /// Observations that support it.
    pub evidence: Vec<Evidence>,
    /// Outcome of the experiments on it.
    pub counterfactual: Option<String>,
    /// Outcome of the control run: a change that should make no difference.
    pub placebo: Option<String>,
    /// Recommended next steps, the first one first.
    pub advice: Vec<Advice>,
}

/// One direction of one job of a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobFlow {
    /// Index of the job in its point.
    pub job: u32,
    /// Direction as the job's first endpoint sees it.
    pub direction: Direction,
}

/// Subject of a finding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct About {
    /// Text for people.
    pub text: String,
    /// Job of the point and direction, if the finding concerns one.
    pub flow: Option<JobFlow>,
}

impl From<&About> for About {
    fn from(about: &About) -> Self {
        about.clone()
    }
}

impl From<&str> for About {
    fn from(text: &str) -> Self {
        Self { text: text.to_owned(), flow: None }
    }
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
        subject: impl Into<About>,
        claim: impl Into<String>,
        evidence: Vec<Evidence>,
    ) -> Self {
        assert!(!evidence.is_empty(), "a finding stands on evidence");
        let subject = subject.into();
        Self {
            rule: rule.to_owned(),
            verdict,
            subject: subject.text,
            flow: subject.flow,
            claim: claim.into(),
            evidence,
            counterfactual: None,
            placebo: None,
            advice: Vec::new(),
        }
    }

    /// Adds the outcome of an experiment after the earlier ones.
    #[must_use]
    pub fn experimented(mut self, outcome: impl Into<String>) -> Self {
        let outcomes = self.counterfactual.take().into_iter().chain([outcome.into()]);
        self.counterfactual = Some(outcomes.collect::<Vec<_>>().join("; "));
        self
    }

    /// Adds a recommended next step.
    #[must_use]
    pub fn advise(mut self, advice: impl Into<Advice>) -> Self {
        self.advice.push(advice.into());
        self
    }
}
