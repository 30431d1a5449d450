//! A second look at a claim that noise left undecided: its pairs once more, of longer runs
//! (docs/methodology/diagnosis.md#verdict and docs/methodology/repeats.md#number-of-runs).
//!
//! Proof takes three times what single pairs of a placebo differ by, and that shrinks with the root
//! of how long runs are. They are twice as long as their scatter asks for, and long enough for the
//! placebo to be seen to do nothing, so that the second look is likely to tell. Whoever looks twice
//! has two chances to be wrong: the usual error is shared out before anything is measured, and the
//! second look has what the first leaves, for which it takes more pairs. It has runs of its own,
//! and the last look counts, whatever it says.
//!
//! What it does not see: noise that does not average out, such as a path that changes from minute
//! to minute. Then the claim stays *suspected*.

use linerate_model::{Failing, Finding, Ratio, Verdict};

use super::proof::{beside, goodput_of, is_contradicted, of_rule};
use crate::Comparison;
use crate::compare::{Proof, prove};
use crate::statistics::{ALPHA, part_of_error};

/// Runs of the second look are at least so many times as long.
const LEAST: f64 = 4.0;
/// And at the most.
pub const MOST: f64 = 8.0;
/// Runs are so many times as long as the scatter asks for: it is known from few pairs.
const SAFETY: f64 = 2.0;

/// One of several looks at a claim.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Attempt {
    /// Pairs that are run.
    pub pairs: u32,
    /// What its interval may be wrong by.
    pub error: Ratio,
}

/// The looks at a claim of which the first has so many pairs: two, unless these are so few that
/// they prove nothing.
#[must_use]
pub fn attempts(pairs: u32) -> Vec<Attempt> {
    let error = |look: usize| ALPHA * part_of_error(&[pairs, pairs], look);
    // The least that so many pairs can be wrong by: all of them one way.
    let enough = |pairs: &u32| 2.0 * 0.5_f64.powf(f64::from(*pairs)) <= error(1);
    let again = (error(1) > 0.0).then(|| (pairs..).find(enough)).flatten();
    let attempt = |(number, pairs)| Attempt { pairs, error: Ratio(error(number)) };
    [Some(pairs), again].into_iter().flatten().enumerate().map(attempt).collect()
}

/// How many times as long runs must be to tell whether `rule`'s claim holds, at the most [`MOST`];
/// `None` where the pairs told, contradict it in part, or scatter so much that even these would not
/// tell.
#[must_use]
pub fn times(findings: &[Finding], comparisons: &[Comparison], rule: &str) -> Option<f64> {
    let finding = findings.iter().find(|finding| finding.rule == rule)?;
    let tests: Vec<&Comparison> = comparisons.iter().filter(|test| of_rule(test, rule)).collect();
    let (contradicting, open): (Vec<&Comparison>, Vec<&Comparison>) =
        tests.iter().copied().partition(|test| is_contradicted(test));
    let refutes = |test: &&Comparison| {
        test.base.tests.as_ref().is_some_and(|claim| claim.failing == Failing::Refutes)
    };
    if finding.verdict != Verdict::Suspected || contradicting.iter().any(refutes) {
        return None;
    }
    let proof = |test: &&Comparison| {
        let (_, placebo) = beside(&tests, test)?;
        Some(prove(goodput_of(test)?.effect.clone(), Some(placebo.clone())))
    };
    let proofs = open.iter().map(proof).collect::<Option<Vec<_>>>()?;
    let most = |asked: &dyn Fn(&Proof) -> f64| proofs.iter().map(asked).reduce(f64::max);
    let (effect, placebo) =
        (most(&|proof| proof.short().powi(2))?, most(&|proof| proof.scattered().powi(2))?);
    (effect <= MOST).then(|| (SAFETY * effect).max(placebo).clamp(LEAST, MOST))
}

/// What both looks at a claim say: the second one counts.
#[must_use]
pub fn told(first: &Finding, mut second: Finding, seconds: [f64; 2]) -> Finding {
    let both = |first: &Option<String>, second: Option<String>| {
        let [short, long] = seconds;
        let second = second.unwrap_or_default();
        first.as_ref().map(|first| {
            format!(
                "first with runs of {short} s, undecided: {first}; then with runs of {long} s: \
                {second}"
            )
        })
    };
    second.counterfactual = both(&first.counterfactual, second.counterfactual.take());
    second.placebo = both(&first.placebo, second.placebo.take());
    second
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let evidence = vec![linerate_model::Evidence { observed: "x".into(), source: "y".into() }];
        let finding = |verdict, told: &str| {
            let mut finding =
                Finding::new("path_loss", verdict, "a to b", "claim", evidence.clone());
            finding.counterfactual = Some(told.to_owned());
            finding
        };
        let both = told(
            &finding(Verdict::Suspected, "x1.4"),
            finding(Verdict::Inconclusive, "x1.0"),
            [0.35, 1.4],
        );
        assert_eq!((both.verdict, both.placebo), (Verdict::Inconclusive, None));
        let text = "first with runs of 0.35 s, undecided: x1.4; then with runs of 1.4 s: x1.0";
        assert_eq!(both.counterfactual.as_deref(), Some(text));
    }
}
