//! The measurement itself is not valid (docs/methodology/diagnosis.md#rules, D0): before any path
//! is suspected, the instrument is.
//!
//! Evidence: what the study says against the point: a figure above its ceiling, trials that failed,
//! drops inside the tester, counts that do not balance. What it does not see: an instrument that is
//! wrong without contradicting itself.

use linerate_model::{Evidence, Finding, Validity, Verdict};

use super::{Rule, subject_of};
use crate::{PointStudy, Reason};

/// Fires where the study does not let figures stand.
#[derive(Debug)]
pub(super) struct NotValid;

impl Rule for NotValid {
    fn name(&self) -> &'static str {
        "not_valid"
    }

    fn summary(&self) -> &'static str {
        "no figure of the point may be used: it exceeds a ceiling, the tester was the limit, or \
            the trials failed"
    }

    fn number(&self) -> u8 {
        0
    }

    fn judge(&self, point: &PointStudy) -> Option<Finding> {
        if point.validity <= Validity::Suspect {
            return None;
        }
        let observed =
            |why: String| Evidence { observed: why, source: "the study of the point".into() };
        let mut evidence: Vec<Evidence> =
            point.why.iter().map(Reason::to_string).map(observed).collect();
        if evidence.is_empty() {
            evidence.push(observed(point.validity.word().to_owned()));
        }
        let claim = "the measurement is not valid: nothing can be said of the path before the \
            instrument is right";
        let finding =
            Finding::new(self.name(), Verdict::Suspected, subject_of(point), claim, evidence);
        Some(finding.advise(
            "see what this host cannot measure, and the tool's own ceiling: \
            linerate doctor (each line that it marks, cured, should bring the figure below its \
            ceiling)",
        ))
    }

    fn score(&self, point: &PointStudy) -> Option<f64> {
        Some(if point.validity <= Validity::Suspect { 0.0 } else { 1.0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnosis::rules::cases::point;

    #[test]
    fn it_fires_on_what_is_impossible_and_silences_other_rules() {
        let mut impossible = point(&[("goodput", 0.99e9)]);
        (impossible.validity, impossible.why) = (Validity::Impossible, vec![Reason::NoFigure]);
        let finding = NotValid.judge(&impossible).expect("impossible");
        assert_eq!(finding.evidence[0].observed, "no trial carries a figure");
        let others = crate::diagnosis::suspects(&impossible);
        assert_eq!(others.iter().map(|(rule, _)| rule.name()).collect::<Vec<_>>(), ["not_valid"]);
    }

    #[test]
    fn it_is_silent_on_what_is_only_suspect() {
        let mut suspect = point(&[("goodput", 0.5e9)]);
        suspect.validity = Validity::Suspect;
        assert_eq!(NotValid.judge(&suspect), None);
    }
}
