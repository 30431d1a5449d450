//! Section `findings`: claims of the diagnosis rules with their evidence, strongest status first.
//! The same claim at several points appears once.
//!
//! The status is always the rule's own.

use linerate_model::Finding;

use super::{Section, Subject};
use crate::commands::CommandPlace;
use crate::document::{Block, Claim};
use crate::words::count;

/// Most points that a finding names.
const MOST_PLACES: usize = 8;

/// Section `findings`.
pub(super) struct Findings;

impl Section for Findings {
    fn name(&self) -> &'static str {
        "findings"
    }

    fn title(&self) -> &'static str {
        "Findings"
    }

    fn summary(&self) -> &'static str {
        "limits of the path, each with its status, evidence and recommended steps"
    }

    fn order(&self) -> u32 {
        100
    }

    fn blocks(&self, subject: &Subject<'_>) -> Vec<Block> {
        let place = CommandPlace::of(subject.campaign);
        let mut findings: Vec<_> = subject.study.findings.iter().collect();
        findings.sort_by_key(|finding| finding.verdict);
        // The same claim at several points is one finding.
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
            .map(|(finding, subjects)| Block::Claim(claim(finding, &subjects, &place)))
            .collect()
    }
}

/// Returns `finding` with its evidence; `subjects` are all points with the same claim, its own
/// first.
pub(crate) fn claim(finding: &Finding, subjects: &[&str], place: &CommandPlace) -> Claim {
    let evidence =
        finding.evidence.iter().map(|e| format!("{} ({})", e.observed, e.source)).collect();
    let mut parts = vec![("Evidence", evidence)];
    parts.extend(finding.counterfactual.clone().map(|text| ("Experiment", vec![text])));
    parts.extend(finding.placebo.clone().map(|text| ("Control", vec![text])));
    if !finding.advice.is_empty() {
        let steps = finding.advice.iter().map(|advice| place.step(advice).text());
        parts.push(("Next", steps.collect()));
    }
    let others = &subjects[1..];
    if !others.is_empty() {
        let mut places: Vec<String> =
            others.iter().take(MOST_PLACES).map(|place| (*place).to_owned()).collect();
        if others.len() > MOST_PLACES {
            places.push(format!("{} more in the JSON of the study", others.len() - MOST_PLACES));
        }
        parts.push(("Also at", places));
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
