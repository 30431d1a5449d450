//! Claims and what they stand on.

use serde::{Deserialize, Serialize};

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

impl Finding {
    /// A claim by `rule` about `subject`.
    ///
    /// # Panics
    /// If `evidence` is empty.
    #[must_use]
    pub fn new(rule: &str, verdict: Verdict, subject: &str, claim: impl Into<String>, evidence: Vec<Evidence>) -> Self {
        assert!(!evidence.is_empty(), "a finding stands on evidence");
        Self {
            rule: rule.to_owned(),
            verdict,
            subject: subject.to_owned(),
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
