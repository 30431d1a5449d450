//! What the diagnosis rules say, strongest verdict first, each with its evidence; the same claim at
//! many points is told once.
//!
//! It adds nothing to them: a finding's strength is the rule's verdict, never the report's.

use linerate_model::Finding;

use super::{Section, Subject};
use crate::document::{Block, Claim};
use crate::words::count;

/// Of the points where the same was found, this many are named.
const MOST_PLACES: usize = 8;

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
        // The same claim at many points is one claim.
        let mut claims: Vec<(&Finding, Vec<&str>)> = Vec::new();
        for finding in findings {
            let same = |(known, _): &&mut (&Finding, Vec<&str>)| {
                (known.verdict, &known.rule, &known.claim)
                    == (finding.verdict, &finding.rule, &finding.claim)
            };
            match claims.iter_mut().find(same) {
                Some((_, subjects)) => subjects.push(&finding.subject),
                None => claims.push((finding, vec![&finding.subject])),
            }
        }
        claims
            .into_iter()
            .map(|(finding, subjects)| Block::Claim(claim(finding, &subjects)))
            .collect()
    }
}

/// `finding` with its evidence, and where else the same was found.
pub(crate) fn claim(finding: &Finding, subjects: &[&str]) -> Claim {
    let evidence =
        finding.evidence.iter().map(|e| format!("{} ({})", e.observed, e.source)).collect();
    let mut parts = vec![("Evidence", evidence)];
    parts.extend(finding.counterfactual.clone().map(|text| ("Counterfactual", vec![text])));
    parts.extend(finding.placebo.clone().map(|text| ("Placebo", vec![text])));
    if !finding.advice.is_empty() {
        parts.push(("What to try", finding.advice.clone()));
    }
    let others = &subjects[1..];
    if !others.is_empty() {
        let mut told: Vec<String> =
            others.iter().take(MOST_PLACES).map(|place| (*place).to_owned()).collect();
        if others.len() > MOST_PLACES {
            told.push(format!("and {} more, in the JSON of the study", others.len() - MOST_PLACES));
        }
        parts.push(("Also at", told));
    }
    let more = if others.is_empty() {
        String::new()
    } else {
        format!(" and {}", count(others.len(), "other place"))
    };
    Claim {
        verdict: finding.verdict,
        subject: format!("{}{more}", finding.subject),
        claim: finding.claim.clone(),
        parts,
        rule: finding.rule.clone(),
    }
}
