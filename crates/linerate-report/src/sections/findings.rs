//! What the diagnosis rules say, strongest verdict first, each with its evidence.
//!
//! It adds nothing to them: a finding's strength is the rule's verdict, never the report's.

use super::{Section, Subject};
use crate::document::{Block, Claim};

/// See the file.
pub(super) struct Findings;

impl Section for Findings {
    fn name(&self) -> &'static str {
        "findings"
    }

    fn title(&self) -> &'static str {
        "Findings"
    }

    fn summary(&self) -> &'static str {
        "what is in the way, with verdict, evidence and advice"
    }

    fn order(&self) -> u32 {
        100
    }

    fn blocks(&self, subject: &Subject<'_>) -> Vec<Block> {
        let mut findings: Vec<_> = subject.study.findings.iter().collect();
        findings.sort_by_key(|finding| finding.verdict);
        let told = |finding: &linerate_model::Finding| {
            let evidence = finding.evidence.iter().map(|e| format!("{} ({})", e.observed, e.source)).collect();
            let mut parts = vec![("Evidence", evidence)];
            parts.extend(finding.counterfactual.clone().map(|text| ("Counterfactual", vec![text])));
            parts.extend(finding.placebo.clone().map(|text| ("Placebo", vec![text])));
            if !finding.advice.is_empty() {
                parts.push(("What to try", finding.advice.clone()));
            }
            Block::Claim(Claim {
                verdict: finding.verdict,
                subject: finding.subject.clone(),
                claim: finding.claim.clone(),
                parts,
                rule: finding.rule.clone(),
            })
        };
        findings.into_iter().map(told).collect()
    }
}
