//! The measurement itself is not valid (docs/methodology/diagnosis.md#rules, D0): the instrument is
//! suspected before the path.
//!
//! Evidence: the study's reasons against the point, such as a figure above its ceiling, failed
//! trials, drops inside the tester, or counts that do not balance. Not observed: an instrument that
//! is wrong without a contradiction in its own figures.

use linerate_model::{Command, Validity, Verdict};

use super::{Rule, subject_of};
use crate::PointStudy;
use crate::diagnosis::{Claim, Evidence, Finding, Step};

/// Rule: the study rejects the figures of the point.
pub(super) const RULE: Rule = Rule {
    number: 0,
    name: "not_valid",
    summary: "no figure of the point is valid: one exceeds its ceiling, the tester was the limit, \
        or the trials failed",
    judge,
    score,
    ..Rule::PLAIN
};

fn judge(point: &PointStudy) -> Option<Finding> {
    if point.validity <= Validity::Suspect {
        return None;
    }
    let mut evidence: Vec<Evidence> = point.why.iter().cloned().map(Evidence::Against).collect();
    // Old ledgers hold a status without reasons.
    if evidence.is_empty() {
        evidence.push(Evidence::Validity(point.validity));
    }
    let (claim, subject) = (Claim::NotValid, subject_of(point));
    // The claim is about the instrument, so its status stays suspected: no experiment on
    // the path can prove it.
    let finding = Finding::new(RULE.name, Verdict::Suspected, subject, claim, evidence);
    Some(finding.advise(Step::CheckHost.by(Command::local("doctor", &[]))))
}

fn score(point: &PointStudy) -> Option<f64> {
    Some(if point.validity <= Validity::Suspect { 0.0 } else { 1.0 })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Reason;
    use crate::diagnosis::rules::cases::point;

    #[test]
    fn it_fires_on_what_is_impossible_and_silences_other_rules() {
        let mut impossible = point(&[("goodput", 0.99e9)]);
        (impossible.validity, impossible.why) = (Validity::Impossible, vec![Reason::NoFigure]);
        let finding = RULE.judge(&impossible).expect("impossible");
        assert_eq!(finding.evidence, [Evidence::Against(Reason::NoFigure)]);
        let others = crate::diagnosis::suspects(&impossible);
        assert_eq!(others.iter().map(|(rule, _)| rule.name).collect::<Vec<_>>(), ["not_valid"]);
    }

    #[test]
    fn it_is_silent_on_what_is_only_suspect() {
        let mut suspect = point(&[("goodput", 0.5e9)]);
        suspect.validity = Validity::Suspect;
        assert_eq!(RULE.judge(&suspect), None);
    }
}
