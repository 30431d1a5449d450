//! What outcomes of experiments say about their claim, beside the verdict.

use linerate_analysis::compare::Change;
use linerate_analysis::diagnosis::{Finding, Objection, Outcome};

/// Returns true if an outcome contradicts its claim. Noise and invalid runs leave a claim open.
pub(super) fn refutes(outcome: &Outcome) -> bool {
    match outcome {
        Outcome::SingleRuns { refutes, .. } => *refutes,
        Outcome::Pairs { doubt, .. } => matches!(doubt, Some(Objection::Refuted(_))),
        Outcome::Repeated { second, .. } => second.iter().any(refutes),
        _ => false,
    }
}

/// Returns true if pairs changed goodput as the claim predicts, although that may be no proof.
pub(super) fn supports(outcome: &Outcome) -> bool {
    match outcome {
        Outcome::Pairs { effect, ratio: [least, most], .. } => {
            matches!(effect.change, Change::Better | Change::Worse)
                && (*least..=*most).contains(&effect.shift)
        }
        Outcome::Repeated { second, .. } => second.iter().any(supports),
        _ => false,
    }
}

/// Returns true if a change had the predicted effect in runs without the evidence of the claim, and
/// nothing contradicts it: loss that comes in bursts is not in every run.
pub(super) fn works_without_evidence(finding: &Finding) -> bool {
    finding.experiments.iter().any(|outcome| is_unseen(outcome) && supports(outcome))
        && !finding.experiments.iter().any(refutes)
}

/// Returns true if the runs of an outcome do not show the evidence of its claim.
fn is_unseen(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Pairs { doubt: Some(Objection::NoEvidence), .. })
}

#[cfg(test)]
pub(super) mod tests {
    use linerate_analysis::PointStudy;
    use linerate_analysis::compare::{Better, effect};
    use linerate_analysis::diagnosis::{Contradiction, unknown};

    use super::*;

    pub(in crate::diagnose) const BEFORE: [f64; 6] = [50.0, 49.5, 50.2, 50.1, 49.8, 50.3];

    /// Returns the outcome of pairs whose changed runs had the figures `after`.
    pub(in crate::diagnose) fn pairs(after: [f64; 6], ratio: [f64; 2]) -> Outcome {
        let [before, after] = [BEFORE, after].map(|values| values.map(Some));
        Outcome::Pairs {
            arm: "a".into(),
            figure: linerate_model::metric::GOODPUT.into(),
            effect: effect("goodput", &before, &after, Better::More).expect("pairs"),
            ratio,
            doubt: None,
        }
    }

    #[test]
    fn only_a_contradiction_rules_a_claim_out() {
        let single = |refutes| Outcome::SingleRuns {
            arm: "a".into(),
            metric: linerate_model::metric::GOODPUT,
            before: 1e7,
            after: vec![1e7],
            ratio: [1.5, 2.5],
            ends: None,
            refutes,
        };
        let open = Outcome::NoPair { arm: "a".into() };
        let again = |second| Outcome::Repeated {
            seconds: [0.5, 2.0],
            first: vec![single(true)],
            second: vec![second],
        };
        assert_eq!(
            [single(true), single(false), open.clone()].map(|it| refutes(&it)),
            [true, false, false]
        );
        assert_eq!([again(single(true)), again(open)].map(|it| refutes(&it)), [true, false]);
    }

    #[test]
    fn a_change_that_works_in_runs_without_the_evidence_leaves_a_claim_suspected() {
        let of = |after, doubt, more: Option<Outcome>| {
            let mut works = pairs(after, [1.1, 100.0]);
            let Outcome::Pairs { doubt: of_it, .. } = &mut works else { panic!("pairs") };
            *of_it = doubt;
            let experiments = [works].into_iter().chain(more).collect();
            works_without_evidence(&Finding { experiments, ..unknown(&PointStudy::default()) })
        };
        let (twice, equal) = (BEFORE.map(|rate| 2.0 * rate), BEFORE);
        assert!(of(twice, Some(Objection::NoEvidence), None));
        assert!(!of(equal, Some(Objection::NoEvidence), None), "no effect");
        assert!(!of(twice, Some(Objection::OutsidePrediction), None));
        let refuted = Objection::Refuted(Contradiction::NoEffect);
        let mut other = pairs(equal, [1.1, 100.0]);
        let Outcome::Pairs { doubt, .. } = &mut other else { panic!("pairs") };
        *doubt = Some(refuted);
        assert!(!of(twice, Some(Objection::NoEvidence), Some(other)), "another change refutes it");
    }

    #[test]
    fn a_claim_is_supported_by_pairs_that_changed_goodput_as_predicted() {
        let doubled = BEFORE.map(|rate| rate * 2.0);
        assert!(supports(&pairs(doubled, [1.1, 100.0])));
        assert!(!supports(&pairs(doubled, [0.1, 0.2])), "not as predicted");
        assert!(!supports(&pairs(BEFORE, [0.9, 1.1])), "nothing changed");
        let noise = [100.0, 20.0, 90.0, 30.0, 110.0, 40.0];
        assert!(!supports(&pairs(noise, [1.1, 100.0])), "noise");
    }
}
