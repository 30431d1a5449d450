//! Section `findings`: claims of the diagnosis rules with their evidence, strongest status first.
//! The same claim at several points appears once.
//!
//! The status is always the rule's own.

use linerate_analysis::diagnosis::Finding;

use super::{Section, Subject};
use crate::commands::CommandPlace;
use crate::document::{Block, Claim};
use crate::sentences;
use crate::words::count;

/// Most points that a finding names.
const MOST_PLACES: usize = 8;

/// Section `findings`.
pub(super) const SECTION: Section = Section {
    name: "findings",
    title: "Findings",
    summary: "limits of the path, each with its status, evidence and recommended steps",
    order: 100,
    blocks,
};

fn blocks(subject: &Subject<'_>) -> Vec<Block> {
    let place = CommandPlace::of(subject.campaign);
    let mut findings: Vec<_> = subject.study.findings.iter().collect();
    // The sort is stable, so points keep their order within a verdict.
    findings.sort_by_key(|finding| finding.verdict);
    // The same claim at several points is one finding.
    let mut claims: Vec<(&Finding, Vec<String>)> = Vec::new();
    for finding in findings {
        match claims.iter_mut().find(|(known, _)| is_same_claim(known, finding)) {
            Some((_, others)) => others.push(sentences::subject(&finding.subject)),
            None => claims.push((finding, Vec::new())),
        }
    }
    claims
        .into_iter()
        .map(|(finding, others)| Block::Claim(claim(finding, &others, &place)))
        .collect()
}

fn is_same_claim(a: &Finding, b: &Finding) -> bool {
    (a.verdict, &a.rule, &a.claim) == (b.verdict, &b.rule, &b.claim)
}

/// Returns `finding` with its evidence; `others` are the other subjects with the same claim.
pub(crate) fn claim(finding: &Finding, others: &[String], place: &CommandPlace) -> Claim {
    let evidence = finding
        .evidence
        .iter()
        .map(|one| format!("{} ({})", sentences::observation(one), sentences::source(one)))
        .collect();
    let mut parts = vec![("Evidence", evidence)];
    for (label, outcomes) in [("Experiment", &finding.experiments), ("Control", &finding.controls)]
    {
        parts.extend(sentences::outcomes(outcomes).map(|text| (label, vec![text])));
    }
    if !finding.advice.is_empty() {
        let steps = finding.advice.iter().map(|advice| place.step(advice).text());
        parts.push(("Next", steps.collect()));
    }
    if !others.is_empty() {
        let mut places: Vec<String> = others.iter().take(MOST_PLACES).cloned().collect();
        // A sweep of hundreds of points would fill the page with their names.
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
        subject: format!("{}{more}", sentences::subject(&finding.subject)),
        claim: sentences::claim(&finding.claim),
        parts,
        rule: finding.rule.clone(),
    }
}
