//! Claims and what they stand on.

use serde::{Deserialize, Serialize};

use crate::Direction;

/// How far a claim is carried by its evidence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// A counterfactual moved the figure as predicted and a placebo did not.
    Proven,
    /// The evidence fits; no counterfactual was run.
    Suspected,
    /// The evidence does not decide.
    Inconclusive,
}

/// One observation behind a claim.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Evidence {
    /// What was observed, with its figure and unit.
    pub observed: String,
    /// Where it was read.
    pub source: String,
}

/// A rule's claim. It cannot be built without evidence.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Finding {
    /// The rule's name.
    pub rule: String,
    /// How far it is carried.
    pub verdict: Verdict,
    /// What it is about: a point, a path, a host.
    pub subject: String,
    /// The job it is about, of those of its point, and the direction in which that carries data;
    /// absent where it is about no job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flow: Option<JobFlow>,
    /// The claim in one sentence.
    pub claim: String,
    /// What it stands on.
    pub evidence: Vec<Evidence>,
    /// The experiment that proves or would prove it.
    pub counterfactual: Option<String>,
    /// The intervention that changed nothing, as it should.
    pub placebo: Option<String>,
    /// What to try, with the exact command where there is one.
    pub advice: Vec<String>,
}

/// The data that a job of a point carries one way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobFlow {
    /// The job's number among those of its point.
    pub job: u32,
    /// As the job's first endpoint sees it.
    pub direction: Direction,
}

/// What a finding is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct About {
    /// In words.
    pub text: String,
    /// The job of its point and the direction, if it is about one.
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
    /// A claim by `rule` about `subject`.
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

    /// The same, saying what came of an experiment, after those before it.
    #[must_use]
    pub fn experimented(mut self, outcome: impl Into<String>) -> Self {
        let told = self.counterfactual.take().into_iter().chain([outcome.into()]);
        self.counterfactual = Some(told.collect::<Vec<_>>().join("; "));
        self
    }

    /// The same, saying what to try.
    #[must_use]
    pub fn advise(mut self, advice: impl Into<String>) -> Self {
        self.advice.push(advice.into());
        self
    }
}
