//! Second look at a claim that noise left undecided: the same pairs with longer runs
//! (docs/methodology/diagnosis.md#verdict and docs/methodology/repeats.md#number-of-runs).
//!
//! A proof needs an effect of three times the difference within single control pairs, and that
//! difference shrinks with the square root of the run length. The second runs are twice as long as
//! their scatter requires, and long enough for the control to show no effect. Two looks are two
//! chances of a wrong answer. The accepted error is therefore divided before the first measurement,
//! and the second look needs more pairs for its smaller part. It uses runs of its own, and its
//! answer counts whatever it is.
//!
//! Not observed: noise that does not average out, such as a path that changes from minute to
//! minute. The claim then stays *suspected*.

use linerate_model::{Failing, Ratio, Verdict};

use super::proof::{beside, goodput_of, is_contradicted, of_rule};
use super::{Finding, Outcome, Seen};
use crate::Comparison;
use crate::compare::{Proof, prove};
use crate::statistics::{ALPHA, part_of_error};

/// Least factor by which runs of the second look are longer.
const LEAST: f64 = 4.0;
/// Largest factor by which runs of the second look are longer.
pub const MOST: f64 = 8.0;
/// Safety factor on the run length: few pairs estimate the scatter poorly.
const SAFETY: f64 = 2.0;

/// One look at a claim.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Attempt {
    /// Number of pairs.
    pub pairs: u32,
    /// Accepted probability that its interval misses the true value.
    pub error: Ratio,
}

/// Returns the looks at a claim whose first look has `pairs` pairs: two, or one if so few pairs
/// cannot prove anything.
#[must_use]
pub fn attempts(pairs: u32) -> Vec<Attempt> {
    let error = |look: usize| ALPHA * part_of_error(&[pairs, pairs], look);
    // Smallest error that this number of pairs permits: all of them change the same way.
    let enough = |pairs: &u32| 2.0 * 0.5_f64.powf(f64::from(*pairs)) <= error(1);
    // The second look spends only a part of the error, which so few pairs may not be able to reach.
    let again = (error(1) > 0.0).then(|| (pairs..).find(enough)).flatten();
    let attempt = |(number, pairs)| Attempt { pairs, error: Ratio(error(number)) };
    [Some(pairs), again].into_iter().flatten().enumerate().map(attempt).collect()
}

/// Returns the factor by which runs must be longer to decide `rule`'s claim, at most [`MOST`];
/// `None` where the pairs decided it, partly contradict it, or scatter too much even for that.
#[must_use]
pub fn times(findings: &[Finding], comparisons: &[Comparison], rule: &str) -> Option<f64> {
    let finding = findings.iter().find(|finding| finding.rule == rule)?;
    let tests: Vec<&Comparison> = comparisons.iter().filter(|test| of_rule(test, rule)).collect();
    let (contradicting, open): (Vec<&Comparison>, Vec<&Comparison>) =
        // An experiment whose result contradicts the claim is decided. Longer runs cannot make it
        // prove.
        tests.iter().copied().partition(|test| is_contradicted(test));
    let refutes = |test: &&Comparison| {
        test.base.tests.as_ref().is_some_and(|claim| claim.failing == Failing::Refutes)
    };
    if finding.verdict != Verdict::Suspected || contradicting.iter().any(refutes) {
        return None;
    }
    // Where an experiment can refute the claim, the others decide nothing, however they scatter.
    let decides = open.iter().any(refutes);
    let deciding: Vec<_> = open.into_iter().filter(|test| !decides || refutes(test)).collect();
    let mut proofs = Vec::with_capacity(deciding.len());
    for test in &deciding {
        // Only experiments with a control are repeated: without one, no run length makes the effect
        // a proof.
        let (_, placebo) = beside(&tests, test)?;
        proofs.push(prove(goodput_of(test)?.effect.clone(), Some(placebo.clone())));
    }
    let most = |asked: &dyn Fn(&Proof) -> f64| proofs.iter().map(asked).reduce(f64::max);
    let (effect, placebo) =
        // Scatter shrinks with the root of the run length, so the length grows with the square of
        // the shortfall.
        (most(&|proof| proof.short().powi(2))?, most(&|proof| proof.scattered().powi(2))?);
    // An effect that needs even longer runs is left undecided, because one question would take most
    // of a campaign.
    // Where another metric shows the mechanism, goodput must only follow, which takes less.
    if finding.experiments.iter().any(|outcome| is_signed(outcome, &deciding)) {
        return Some(LEAST);
    }
    (effect <= MOST).then(|| (SAFETY * effect).max(placebo).clamp(LEAST, MOST))
}

/// Returns true if `outcome` is a sign, shown or nearly shown, of an experiment of `tests`.
fn is_signed(outcome: &Outcome, tests: &[&Comparison]) -> bool {
    matches!(outcome, Outcome::Sign { arm, seen: Seen::Shown | Seen::Unclear, .. }
        if tests.iter().any(|test| test.changed.name == *arm))
}

/// Merges the outcomes of both looks at a claim; the status is that of the second one.
#[must_use]
pub fn told(first: &Finding, mut second: Finding, seconds: [f64; 2]) -> Finding {
    second.experiments = repeated(&first.experiments, second.experiments, seconds);
    second.controls = repeated(&first.controls, second.controls, seconds);
    second
}

/// Returns the outcomes of an experiment and of its longer repetition as one.
fn repeated(first: &[Outcome], second: Vec<Outcome>, seconds: [f64; 2]) -> Vec<Outcome> {
    if first.is_empty() {
        return Vec::new();
    }
    vec![Outcome::Repeated { seconds, first: first.to_vec(), second }]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnosis::{Claim, Evidence, Subject};

    #[test]
    fn looking_twice_spends_the_error_of_one_look_and_the_second_takes_more_pairs() {
        for pairs in [6, 7, 10, 40] {
            let looks = attempts(pairs);
            assert_eq!((looks.len(), looks[0].pairs), (2, pairs));
            let error: f64 = looks.iter().map(|look| look.error.0).sum();
            assert!((error - ALPHA).abs() < 1e-12, "{looks:?}");
            assert!(
                looks.iter().all(|look| 2.0 * 0.5_f64.powf(f64::from(look.pairs)) <= look.error.0),
                "{looks:?}"
            );
        }
        assert_eq!(attempts(6).iter().map(|look| look.pairs).collect::<Vec<_>>(), [6, 7]);
        assert_eq!(attempts(5).len(), 1, "five pairs prove nothing, however often");
    }

    #[test]
    fn both_looks_are_told_and_the_second_counts() {
        let finding = |verdict, arm: &str| {
            let subject = Subject::of_sweep("sweep");
            Finding::new("path_loss", verdict, subject, Claim::Loss, vec![Evidence::NoFlow])
                .experimented(Outcome::NoPair { arm: arm.to_owned() })
        };
        let [first, second] =
            [finding(Verdict::Suspected, "x"), finding(Verdict::Inconclusive, "y")];
        let both = told(&first, second.clone(), [0.35, 1.4]);
        assert_eq!((both.verdict, &both.controls[..]), (Verdict::Inconclusive, &[][..]));
        let (first, second) = (first.experiments, second.experiments);
        assert_eq!(both.experiments, [Outcome::Repeated { seconds: [0.35, 1.4], first, second }]);
    }
}
