//! Outcome of experiments: whether a rule's claim is true when the claimed limit changes
//! (docs/methodology/diagnosis.md#verdict).
//!
//! *Proven* requires all of these: the rule's evidence is present in the compared runs; goodput
//! changes by at least 10 % and by three times the difference within single control pairs; the
//! change is within the prediction; the control has no effect; and all experiments on the claim
//! agree. Where a rule names a sign (`sign`) and the runs show it, goodput must only follow. A
//! change without an effect refutes the claim, unless the experiment is marked as one that cannot
//! refute; such an experiment decides only where there is no other. Otherwise the claim stays
//! *suspected*.

use linerate_model::{ARM_AXIS, Failing, Hypothesis, Metric, Validity, Verdict, metric};

use super::experiment::counting;
use super::rules::{RULES, Rule, subject_of};
use super::sign::{Reading, Seen, follows};
use super::{Claim, Contradiction, Evidence, Finding, Objection, Outcome, Subject};
use crate::compare::{Change, Effect, prove};
use crate::statistics::ALPHA;
use crate::{Compared, Comparison, PointStudy};

/// Tolerance of the prediction: it ignores headers and the granularity of windows.
const SLACK: f64 = 1.05;

/// Returns one finding for each rule that `tests` examine.
pub(super) fn outcomes(
    points: &[PointStudy],
    tests: &[&Comparison],
) -> Vec<(&'static Rule, Finding)> {
    let mut found: Vec<(&'static Rule, Finding)> = Vec::new();
    // Experiments that can refute the claim come first and decide.
    let mut ordered: Vec<(&Hypothesis, &Comparison)> =
        tests.iter().filter_map(|test| Some((test.base.tests.as_ref()?, *test))).collect();
    // The sort is stable: experiments of one kind keep the order of the plan.
    ordered.sort_by_key(|(hypothesis, _)| hypothesis.failing == Failing::SaysNothing);
    let refuted = ordered.iter().filter(|(hypothesis, _)| hypothesis.failing == Failing::Refutes);
    let refutable: Vec<&str> = refuted.map(|(hypothesis, _)| hypothesis.rule.as_str()).collect();
    for (hypothesis, test) in &ordered {
        let Some(rule) = RULES.iter().copied().find(|rule| rule.name == hypothesis.rule) else {
            continue;
        };
        let outcome = outcome(points, tests, test, (rule, hypothesis));
        let decides = hypothesis.failing == Failing::Refutes || !refutable.contains(&rule.name);
        match found.iter_mut().find(|(known, _)| known.name == rule.name) {
            Some((_, before)) => agree(before, outcome, decides),
            None => found.push((rule, outcome)),
        }
    }
    found.iter_mut().for_each(|(_, finding)| leave_out_setbacks(finding));
    found
}

/// Removes experiments that only make the load slower from the advice of a proven claim: it has
/// been tested.
fn leave_out_setbacks(finding: &mut Finding) {
    if finding.verdict == Verdict::Proven {
        finding.advice.retain(|advice| !advice.step.is_setback());
    }
}

/// Merges `more` into `finding`, which has the same claim. The weaker status counts, among
/// experiments that decide: those that can refute the claim, or all if none can.
fn agree(finding: &mut Finding, more: Finding, decides: bool) {
    if decides {
        // Verdicts are ordered from the strongest, so the larger of two is the weaker.
        finding.verdict = finding.verdict.max(more.verdict);
    }
    finding.experiments.extend(more.experiments);
    // Experiments of one campaign share a control, which is reported once.
    let another = more.controls.into_iter().filter(|control| !finding.controls.contains(control));
    finding.controls.extend(another.collect::<Vec<_>>());
}

/// Returns the control of `test`, or that of another experiment on the same claim. Pairs of one
/// campaign alternate, so both had the same noise.
pub(super) fn beside<'a>(
    tests: &[&'a Comparison],
    test: &'a Comparison,
) -> Option<(&'a str, &'a Effect)> {
    let of = |test: &'a Comparison| {
        Some((test.placebo.as_deref()?, goodput_of(test)?.placebo.as_ref()?))
    };
    let same = |other: &&&Comparison| {
        test.base.tests.as_ref().is_some_and(|claim| of_rule(other, &claim.rule))
    };
    of(test).or_else(|| tests.iter().filter(same).find_map(|other| of(other)))
}

/// Returns true if `test` examines a claim of `rule`.
pub(super) fn of_rule(test: &Comparison, rule: &str) -> bool {
    test.base.tests.as_ref().is_some_and(|claim| claim.rule == rule)
}

/// Returns the accepted range of the goodput ratio if `claim` is true.
fn predicted(claim: &Hypothesis) -> [f64; 2] {
    let [least, most] = claim.ratio;
    [least.0 / SLACK, most.0 * SLACK]
}

/// Returns true if the outcome of `test` contradicts its claim.
pub(super) fn is_contradicted(test: &Comparison) -> bool {
    let claim = test.base.tests.as_ref().zip(goodput_of(test));
    claim.is_some_and(|(claim, goodput)| against(&goodput.effect, predicted(claim)).is_some())
}

fn outcome(
    points: &[PointStudy],
    tests: &[&Comparison],
    test: &Comparison,
    (rule, hypothesis): (&'static Rule, &Hypothesis),
) -> Finding {
    let arm = |name: &str| arm_of(points, &test.sweep, name);
    let base = arm(&test.base.name);
    let seen = base.and_then(|point| super::judged(rule, point));
    let evident = seen.as_ref().is_some_and(|finding| finding.verdict == Verdict::Suspected);
    // The claim came from earlier runs. That its evidence is gone now is a result, so it is
    // reported.
    let mut finding = seen.unwrap_or_else(|| {
        let subject = base.map_or_else(|| Subject::of_sweep(&test.sweep), subject_of);
        let evidence = vec![Evidence::NotSeenAgain { arm: test.base.name.clone() }];
        let claim = Claim::NotConfirmed { rule: rule.name.to_owned() };
        Finding::new(rule.name, Verdict::Inconclusive, subject, claim, evidence)
    });
    let valid = [base, arm(&test.changed.name)]
        .iter()
        .flatten()
        .all(|point| point.validity <= Validity::Suspect);
    let Some(goodput) = goodput_of(test).filter(|_| valid) else {
        finding.verdict = Verdict::Inconclusive;
        return finding.experimented(Outcome::NoPair { arm: test.changed.name.clone() });
    };
    let placebo = beside(tests, test);
    // The status of the proof counts only together with the evidence and the prediction below.
    let proof = prove(goodput.effect.clone(), placebo.map(|(_, effect)| effect.clone()));
    let [lowest, highest] = predicted(hypothesis);
    // The typical shift must be within the prediction. The whole interval need not, because few
    // pairs make it wide.
    let predicted = (lowest..=highest).contains(&proof.effect.shift);
    let rests_on_size = base.is_some_and(|point| rule.rests_on_prediction(point));
    let against = against(&proof.effect, [lowest, highest]);
    let exceeds = exceeds(&proof.effect, [lowest, highest]);
    let (verdict, doubt) = match (proof.verdict, against) {
        (Verdict::Proven, _) if evident && predicted => (Verdict::Proven, None),
        (Verdict::Proven, Some(against)) if rests_on_size => {
            finding.advice.clear();
            (Verdict::Inconclusive, Some(Objection::Refuted(against)))
        }
        // A larger effect than predicted does not rule a limit out, however noisy the runs.
        (_, Some(_)) if exceeds && evident && !rests_on_size => {
            (Verdict::Suspected, Some(Objection::OutsidePrediction))
        }
        (Verdict::Proven, _) if evident => (Verdict::Suspected, Some(Objection::OutsidePrediction)),
        // Something changed goodput, but not what the rule claims to see.
        (Verdict::Proven, _) => (Verdict::Inconclusive, Some(Objection::NoEvidence)),
        (_, Some(against)) if hypothesis.failing == Failing::Refutes => {
            // The recommended change just had no effect.
            finding.advice.clear();
            (Verdict::Inconclusive, Some(Objection::Refuted(against)))
        }
        (_, Some(against)) if evident => (Verdict::Suspected, Some(Objection::Unmoved(against))),
        // Noise that hides the effect does not weaken the evidence.
        _ if evident => (Verdict::Suspected, proof.why.map(Objection::Unproven)),
        _ => (Verdict::Inconclusive, proof.why.map(Objection::Unproven)),
    };
    let sign = signs(points, tests, test, (rule, hypothesis), goodput);
    let (reading, follows) = sign.unzip();
    let is_placebo_still = placebo.is_some_and(|(_, effect)| !effect.is_relevant());
    let (verdict, doubt) = match reading.as_ref().map(|reading| reading.seen) {
        // Goodput also changes by chance or for another reason.
        Some(Seen::Missing) if verdict == Verdict::Proven => {
            (Verdict::Suspected, Some(Objection::NoSign))
        }
        Some(Seen::Shown)
            if evident && against.is_none() && is_placebo_still && follows == Some(true) =>
        {
            (Verdict::Proven, None)
        }
        _ => (verdict, doubt),
    };
    finding.verdict = verdict;
    finding.experiments.extend(reading.map(|reading| Outcome::Sign {
        arm: test.changed.name.clone(),
        metric: reading.metric,
        without: reading.without.0,
        with: reading.with.0,
        runs: [reading.without.1, reading.with.1],
        seen: reading.seen,
    }));
    finding.controls.extend(placebo.map(|(name, effect)| Outcome::Control {
        arm: name.to_owned(),
        figure: goodput.metric.clone(),
        effect: effect.clone(),
    }));
    finding.experimented(Outcome::Pairs {
        arm: test.changed.name.clone(),
        figure: goodput.metric.clone(),
        effect: proof.effect,
        ratio: hypothesis.ratio.map(|ratio| ratio.0),
        doubt,
    })
}

/// Returns the reading of the rule's sign in the runs of `test` and of its placebo, and whether
/// goodput follows.
fn signs(
    points: &[PointStudy],
    tests: &[&Comparison],
    test: &Comparison,
    (rule, hypothesis): (&Rule, &Hypothesis),
    goodput: &Compared,
) -> Option<(Reading, bool)> {
    let base = arm_of(points, &test.sweep, &test.base.name)?;
    let changed = arm_of(points, &test.sweep, &test.changed.name)?;
    // Experiments of one campaign share a placebo, which belongs to the sweep of one of them.
    let mut same = tests.iter().filter(|other| of_rule(other, rule.name));
    let placebo = same.find_map(|other| arm_of(points, &other.sweep, other.placebo.as_deref()?))?;
    let before = test.job_in(&test.base.name, goodput.job);
    let (without, with) = ([(base, before), (placebo, before)], (changed, goodput.job));
    let direction = goodput.direction;
    let sign = rule.sign(base, &test.changed)?;
    let reading = sign.read(&without, with, direction, predicted(hypothesis))?;
    let error = hypothesis.error.map_or(ALPHA, |error| error.0);
    Some((reading, follows(goodput.metric.metric()?, &without, with, direction, error)))
}

fn arm_of<'a>(points: &'a [PointStudy], sweep: &str, name: &str) -> Option<&'a PointStudy> {
    let mut of_sweep = points.iter().filter(|point| point.sweep == sweep);
    of_sweep.find(|point| point.parameters.get(ARM_AXIS).is_some_and(|arm| *arm == name))
}

/// Returns the objection to a claim that predicts the range `predicted`, if there is one.
fn against(effect: &Effect, predicted: [f64; 2]) -> Option<Contradiction> {
    // An interval that overlaps the prediction at all leaves the claim possible.
    let outside =
        effect.interval.is_some_and(|(low, high)| high < predicted[0] || low > predicted[1]);
    match effect.change {
        Change::None => Some(Contradiction::NoEffect),
        _ if outside => Some(Contradiction::IntervalOutside),
        _ => None,
    }
}

/// Returns true if the whole effect goes beyond the range `predicted`, away from no change.
fn exceeds(effect: &Effect, predicted: [f64; 2]) -> bool {
    let [least, most] = predicted;
    effect.interval.is_some_and(|(low, high)| match least >= 1.0 {
        true => low > most,
        false => most <= 1.0 && high < least,
    })
}

/// Metric that experiments on a network change.
pub(crate) const GOODPUT: &Metric = metric::GOODPUT;
/// Metric that experiments on a disk or file change.
pub const IOPS: &Metric = metric::IOPS;

/// Returns the figure that decides the test: that of its metric; else goodput of the direction that
/// carries most, or the transfer rate of a disk or file.
#[must_use]
pub fn goodput_of(test: &Comparison) -> Option<&Compared> {
    if let Some(metric) = test.base.tests.as_ref().and_then(|claim| claim.metric) {
        return most(test, metric);
    }
    most(test, GOODPUT).or_else(|| most(test, IOPS))
}

/// Returns the figure of `metric` with the largest value before, of the directions that count.
fn most<'a>(test: &'a Comparison, metric: &'static Metric) -> Option<&'a Compared> {
    let figures = test.figures.iter().filter(|figure| figure.metric == metric);
    let counting = counting(metric, figures, |figure| figure.direction);
    counting.into_iter().max_by(|a, b| a.effect.before.total_cmp(&b.effect.before))
}

#[cfg(test)]
mod tests {
    use linerate_model::path::Limiter;
    use linerate_model::{Arm, Direction, Point, Ratio, Role};

    use super::*;
    use crate::compare::{Better, effect};
    use crate::diagnosis::rules::cases::{on_path, point};
    use crate::diagnosis::{Step, findings};

    const BEFORE: [f64; 6] = [50.0e6, 49.5e6, 50.2e6, 50.1e6, 49.8e6, 50.3e6];

    fn some(values: &[f64], factor: f64) -> Vec<Option<f64>> {
        values.iter().map(|value| Some(value * factor)).collect()
    }

    /// A test of `receive_window` whose changed arm has `factor` times the goodput, and whose
    /// placebo `placebo` times.
    fn test(factor: f64, placebo: f64) -> Comparison {
        let ratio = [Ratio(1.5), Ratio(2.3)];
        let hypothesis = Hypothesis {
            rule: "receive_window".into(),
            ratio,
            metric: None,
            failing: Failing::Refutes,
            error: None,
        };
        let arm = |name: &str, role| Arm {
            tests: Some(hypothesis.clone()),
            ..Arm::new(name, role, Ratio(0.02))
        };
        let against = |factor: f64| {
            let mut after = some(&BEFORE, factor);
            after.rotate_left(1);
            effect("goodput tx", &some(&BEFORE, 1.0), &after, Better::More)
        };
        let effect = against(factor).expect("six pairs");
        let goodput = Compared {
            placebo: against(placebo),
            pairs: 6,
            ..Compared::of(metric::GOODPUT, Direction::Tx, effect)
        };
        Comparison {
            sweep: "sweep".into(),
            parameters: Point::default(),
            base: arm("as it is", Role::Base),
            changed: arm("twice the receive buffer", Role::Changed),
            placebo: Some("marked".into()),
            figures: vec![goodput],
        }
    }

    /// The arms' points; the first limited by its window or not.
    fn arms(limited: bool) -> [PointStudy; 2] {
        let named = |name: &str, point: PointStudy| PointStudy {
            parameters: [(ARM_AXIS.to_owned(), name.into())].into(),
            ..point
        };
        let waited = if limited { 0.9 } else { 0.0 };
        let mut base =
            point(&[("goodput", 50e6), ("rwnd_limited", waited), ("rtt", 0.01), ("rtt_min", 0.01)]);
        let window = linerate_model::Ceiling::new(
            "peer window",
            metric::GOODPUT,
            51e6,
            Direction::Tx,
            vec!["by hand".into()],
            "TCP_INFO",
        );
        base.ceilings.push(window.of(linerate_model::BoundClass::Window).expected());
        [named("as it is", base), named("twice the receive buffer", point(&[("goodput", 98e6)]))]
    }

    fn verdict(limited: bool, factor: f64, placebo: f64) -> (Verdict, Outcome) {
        let found = findings(&arms(limited), &[test(factor, placebo)]);
        let of_rule: Vec<&Finding> =
            found.iter().filter(|finding| finding.rule == "receive_window").collect();
        assert_eq!(of_rule.len(), 1, "{found:?}");
        (of_rule[0].verdict, of_rule[0].experiments.first().cloned().expect("it was tested"))
    }

    #[test]
    fn a_claim_is_proven_only_by_the_change_it_predicts() {
        let (proven, told) = verdict(true, 1.95, 1.0);
        assert_eq!(proven, Verdict::Proven, "{told:?}");
        let Outcome::Pairs { arm, effect, doubt: None, .. } = told else { panic!("{told:?}") };
        assert_eq!((arm.as_str(), effect.n), ("twice the receive buffer", 6));
        assert!((effect.shift - 1.95).abs() < 0.02, "{effect:?}");
        assert_eq!(verdict(true, 1.25, 1.0).0, Verdict::Suspected, "less than predicted");
        assert_eq!(verdict(true, 4.0, 1.0).0, Verdict::Suspected, "more than predicted");
        assert_eq!(verdict(true, 0.5, 1.0).0, Verdict::Suspected, "the other way");
        assert_eq!(verdict(true, 1.95, 1.5).0, Verdict::Suspected, "a placebo that works");
        let (refuted, told) = verdict(true, 1.0, 1.0);
        assert_eq!(refuted, Verdict::Inconclusive);
        let doubt = Some(Objection::Refuted(Contradiction::NoEffect));
        assert!(matches!(told, Outcome::Pairs { doubt: known, .. } if known == doubt));
    }

    /// [`test`] whose changed arm has these times the goodput, pair by pair.
    fn test_of_pairs(factors: [f64; 6], placebo: f64) -> Comparison {
        let mut test = test(1.0, placebo);
        let after: Vec<Option<f64>> =
            BEFORE.iter().zip(factors).map(|(rate, factor)| Some(rate * factor)).collect();
        test.figures[0].effect =
            effect("goodput tx", &some(&BEFORE, 1.0), &after, Better::More).expect("six pairs");
        test
    }

    #[test]
    fn a_claim_that_rests_on_its_prediction_is_refuted_by_another_effect() {
        let queue = [
            ("goodput", 50e6),
            ("rtt", 0.02),
            ("rtt_min", 0.01),
            ("sender_busy", 1.0),
            ("rwnd_limited", 0.0),
            ("sndbuf_limited", 0.0),
        ];
        let of_path_rate = |factor: f64, rate: Option<f64>| {
            let mut arms = arms(false);
            let named = arms[0].parameters.clone();
            let measured = rate.map(|rate| on_path(&queue, Some(Limiter::Link), rate));
            let base = measured.unwrap_or_else(|| point(&queue));
            arms[0] = PointStudy { parameters: named, ..base };
            let mut test = test(factor, 1.0);
            for arm in [&mut test.base, &mut test.changed] {
                arm.tests = arm.tests.take().map(|tests| Hypothesis {
                    rule: "path_rate".into(),
                    ratio: [Ratio(0.74), Ratio(0.82)],
                    ..tests
                });
            }
            let found = findings(&arms, &[test]);
            found.into_iter().find(|finding| finding.rule == "path_rate").expect("tested").verdict
        };
        assert_eq!(of_path_rate(0.78, None), Verdict::Proven);
        assert_eq!(of_path_rate(0.16, None), Verdict::Inconclusive, "a limit in packets");
        assert_eq!(of_path_rate(0.16, Some(52e6)), Verdict::Suspected, "at the measured rate");
    }

    #[test]
    fn a_proven_claim_is_not_tested_again_by_a_slower_load() {
        let experiment = |most: f64, metric| {
            let name = "a change".to_owned();
            Step::Experiment { name, metric, ratio: [0.5, most], consent: None }
        };
        let (rate, time) = (metric::GOODPUT, metric::RTT);
        for (verdict, n_left) in [(Verdict::Proven, 3), (Verdict::Suspected, 4)] {
            let subject = Subject::of_sweep("sweep");
            let claim = Claim::NotConfirmed { rule: "rule".to_owned() };
            let evidence = vec![Evidence::NotSeenAgain { arm: "arm".to_owned() }];
            let steps = [
                experiment(0.8, rate),
                experiment(2.0, rate),
                // A shorter time is better.
                experiment(0.8, time),
                Step::FasterLink,
            ];
            let finding = Finding::new("rule", verdict, subject, claim, evidence);
            let mut finding = steps.into_iter().fold(finding, Finding::advise);
            leave_out_setbacks(&mut finding);
            assert_eq!(finding.advice.len(), n_left, "{verdict:?}");
        }
    }

    #[test]
    fn noise_leaves_a_suspicion_and_an_interval_outside_the_prediction_refutes_it() {
        let with = |factors: [f64; 6]| {
            let found = findings(&arms(true), &[test_of_pairs(factors, 1.0)]);
            found
                .into_iter()
                .find(|finding| finding.rule == "receive_window")
                .expect("tested")
                .verdict
        };
        for (factors, verdict, why) in [
            ([0.6, 2.4, 1.1, 1.8, 0.7, 2.2], Verdict::Suspected, "anything may have happened"),
            ([0.95, 1.06, 1.1, 0.92, 1.08, 0.94], Verdict::Inconclusive, "1.5 times did not"),
            ([3.0, 7.7, 4.5, 3.1, 6.0, 4.9], Verdict::Suspected, "it helps even more"),
        ] {
            assert_eq!(with(factors), verdict, "{why}");
        }
    }

    #[test]
    fn what_noise_leaves_open_is_looked_at_again_for_as_long_as_its_scatter_asks() {
        let times = |test: Comparison| {
            let tests = [test];
            super::super::longer::times(&findings(&arms(true), &tests), &tests, "receive_window")
        };
        let scattered = |placebo: f64| {
            let mut test = test(1.95, 1.0);
            // One of the pairs with the change is within the noise.
            test.figures[0].effect.interval = Some((1.05, 3.6));
            test.figures[0].placebo.as_mut().expect("measured").widest = placebo;
            test
        };
        assert_eq!(times(scattered(1.1)), None, "proven");
        // Proof takes 1.3^3 = 2.2, it moved by 1.95: (ln 2.2 / ln 1.95)^2 is 1.39, twice that less
        // than the least.
        assert_eq!(times(scattered(1.3)), Some(4.0));
        let more = times(scattered(1.5)).expect("open");
        assert!((6.5..6.7).contains(&more), "2 (3 ln 1.5 / ln 1.95)^2: {more}");
        let seen = |factor: f64| {
            let mut test = scattered(1.8);
            test.figures[0].effect.shift = factor;
            times(test).expect("open")
        };
        // (ln 1.8 / (2.6 ln 1.1))^2, or the placebo seems to work.
        assert!((5.6..5.7).contains(&seen(3.0)), "{}", seen(3.0));
        let wide = test_of_pairs([0.6, 2.4, 1.1, 1.8, 0.7, 2.2], 1.0);
        assert_eq!(times(wide), Some(4.0), "wide, beside a quiet placebo");
        // (3 ln 2 / ln 1.95)^2 is 9.7: eight times as long would not decide.
        assert_eq!(times(scattered(2.0)), None);
        // It moved, and not as predicted: noise hides nothing.
        assert_eq!(times(test(1.25, 1.0)), None);
        assert_eq!(times(test(1.0, 1.0)), None, "refuted");
        let mut without = scattered(1.5);
        without.figures[0].placebo = None;
        assert_eq!(times(without), None, "no placebo, no length");
    }

    #[test]
    fn an_experiment_that_cannot_refute_sets_no_length_beside_one_that_can() {
        let mut scattered = test(1.95, 1.0);
        scattered.figures[0].effect.interval = Some((1.05, 3.6));
        scattered.figures[0].placebo.as_mut().expect("measured").widest = 1.3;
        let mut sparing = scattered.clone();
        sparing.base.tests.as_mut().expect("a claim").failing = Failing::SaysNothing;
        // (3 ln 1.3 / ln 1.1)^2 is 68: no length would decide it.
        sparing.figures[0].effect.shift = 1.1;
        let times = |tests: &[Comparison]| {
            super::super::longer::times(&findings(&arms(true), tests), tests, "receive_window")
        };
        assert_eq!(times(&[scattered.clone(), sparing.clone()]), Some(4.0));
        assert_eq!(times(&[sparing]), None, "alone it decides");
    }

    #[test]
    fn a_sign_of_an_experiment_that_does_not_decide_asks_for_no_second_look() {
        let mut deciding = test(1.95, 1.0);
        // No length would decide it.
        deciding.figures[0].effect.shift = 1.1;
        deciding.figures[0].effect.interval = Some((0.9, 3.6));
        deciding.figures[0].placebo.as_mut().expect("measured").widest = 1.5;
        let mut sparing = deciding.clone();
        sparing.changed.name = "another change".into();
        sparing.base.tests.as_mut().expect("a claim").failing = Failing::SaysNothing;
        let tests = [deciding, sparing];
        let times = |arm: &str| {
            let mut found = findings(&arms(true), &tests);
            let of_rule = found.iter_mut().find(|finding| finding.rule == "receive_window");
            of_rule.expect("tested").experiments.push(Outcome::Sign {
                arm: arm.to_owned(),
                metric: metric::SENDER_CPU,
                without: [0.1; 2],
                with: [0.2; 2],
                runs: [12, 6],
                seen: Seen::Shown,
            });
            super::super::longer::times(&found, &tests, "receive_window")
        };
        assert_eq!(times("another change"), None);
        assert_eq!(times("twice the receive buffer"), Some(4.0));
    }

    #[test]
    fn a_mixed_load_on_a_disk_is_judged_by_both_directions_together() {
        let mut mixed = test(1.0, 1.0);
        let of = |direction, before: f64| {
            let mut figure = mixed.figures[0].clone();
            (figure.metric, figure.direction) = (metric::SERVICE_TIME_MEAN.into(), direction);
            figure.effect.before = before;
            figure
        };
        let figures = vec![of(Direction::Tx, 5e-3), of(Direction::Sum, 1e-3)];
        mixed.figures = figures;
        mixed.base.tests.as_mut().expect("a claim").metric = Some(metric::SERVICE_TIME_MEAN);
        assert_eq!(goodput_of(&mixed).map(|figure| figure.direction), Some(Direction::Sum));
    }

    #[test]
    fn nothing_is_proven_where_the_evidence_did_not_come_again() {
        assert_eq!(verdict(false, 1.95, 1.0).0, Verdict::Inconclusive);
    }

    #[test]
    fn an_experiment_without_a_placebo_has_that_of_another_on_the_same_claim() {
        let without = |mut test: Comparison| {
            test.placebo = None;
            test.figures[0].placebo = None;
            test
        };
        let judged = |tests: &[Comparison]| {
            let found = findings(&arms(true), tests);
            found
                .into_iter()
                .find(|finding| finding.rule == "receive_window")
                .expect("tested")
                .verdict
        };
        assert_eq!(judged(&[test(1.95, 1.0), without(test(1.9, 1.0))]), Verdict::Proven);
        let works = judged(&[test(1.95, 1.5), without(test(1.9, 1.0))]);
        assert_eq!(works, Verdict::Suspected, "a placebo that works");
        assert_eq!(judged(&[without(test(1.95, 1.0))]), Verdict::Suspected, "no placebo at all");
    }

    #[test]
    fn of_two_experiments_both_must_agree() {
        let tests = [test(1.95, 1.0), test(1.0, 1.0)];
        let found = findings(&arms(true), &tests);
        let finding =
            found.iter().find(|finding| finding.rule == "receive_window").expect("tested");
        assert_eq!(finding.verdict, Verdict::Inconclusive);
        assert_eq!((finding.experiments.len(), finding.controls.len()), (2, 1));
    }

    #[test]
    fn a_change_whose_failing_says_nothing_proves_alone_and_refutes_never() {
        let sparing = |factor: f64| {
            let mut test = test(factor, 1.0);
            let claim = test.base.tests.as_mut().expect("a claim");
            claim.failing = Failing::SaysNothing;
            test
        };
        let judged = |tests: &[Comparison]| {
            let found = findings(&arms(true), tests);
            found.into_iter().find(|finding| finding.rule == "receive_window").expect("tested")
        };
        assert_eq!(judged(&[sparing(1.95)]).verdict, Verdict::Proven);
        let stays = judged(&[sparing(1.0)]);
        assert_eq!(stays.verdict, Verdict::Suspected);
        assert!(stays.experiments.iter().any(|told| {
            let doubt = Some(Objection::Unmoved(Contradiction::NoEffect));
            matches!(told, Outcome::Pairs { doubt: known, .. } if *known == doubt)
        }));
        // Of two that refute nothing, both must agree.
        for second in [1.0, 1.95] {
            let both = judged(&[sparing(1.95), sparing(second)]).verdict;
            assert_eq!(both == Verdict::Proven, second > 1.5, "{both:?}");
        }
        // Beside one that can refute, in whatever order, that one decides.
        for (deciding, verdict) in [(1.95, Verdict::Proven), (1.0, Verdict::Inconclusive)] {
            assert_eq!(judged(&[sparing(1.0), test(deciding, 1.0)]).verdict, verdict);
            assert_eq!(judged(&[test(deciding, 1.0), sparing(1.95)]).verdict, verdict);
        }
    }

    /// Outcome of twice the CPU quota: goodput of the changed arm in multiples, pair by pair, and
    /// the cores that the sending worker used then. Six runs without the change used 0.09.
    fn quota(factors: [f64; 6], cores: f64, wait: &str) -> Verdict {
        let mut test = test_of_pairs(factors, 1.0);
        let claim = Hypothesis {
            rule: "sender_cpu".into(),
            metric: None,
            ratio: [Ratio(1.5), Ratio(2.5)],
            failing: Failing::Refutes,
            error: None,
        };
        test.base.tests = Some(claim.clone());
        test.changed.tests = Some(claim);
        let (at, value) = ("a".into(), "x2".into());
        test.changed.settings =
            vec![linerate_model::HostSetting { at, name: "cpu_quota".into(), value }];
        // Goodput of the placebo differs too much for any proof by goodput.
        test.figures[0].placebo.as_mut().expect("measured").widest = 1.8;
        let arm = |name: &str, cores: f64, factors: [f64; 6]| {
            let seen = [("goodput", 50e6), ("sender_throttled", 0.95), ("payload_per_send", 1e5)];
            let mut point = point(&[&seen[..], &[("sender_cpu", cores)]].concat());
            let job = &mut point.jobs[0];
            job.metrics[3].values = vec![Some(cores); 6];
            job.metrics[0].values =
                BEFORE.iter().zip(factors).map(|(rate, factor)| Some(rate * factor)).collect();
            job.obtained.insert("wait".into(), crate::Obtained::mode(wait));
            point.parameters = [(ARM_AXIS.to_owned(), name.into())].into();
            point
        };
        let arms = [
            arm("as it is", 0.09, [1.0; 6]),
            arm("marked", 0.09, [1.0; 6]),
            arm("twice the receive buffer", cores, factors),
        ];
        let found = findings(&arms, &[test]);
        found.into_iter().find(|finding| finding.rule == "sender_cpu").expect("tested").verdict
    }

    #[test]
    fn where_cpu_time_follows_its_quota_noisy_goodput_must_only_follow() {
        let follows = [2.2, 1.5, 1.7, 0.99, 2.4, 1.9];
        assert_eq!(quota(follows, 0.18, "block"), Verdict::Proven);
        assert_eq!(quota(follows, 0.12, "block"), Verdict::Suspected, "more, but not as predicted");
        assert_eq!(quota(follows, 0.09, "block"), Verdict::Suspected, "no more CPU time");
        assert_eq!(quota(follows, 0.18, "spin"), Verdict::Suspected, "it uses any CPU time");
        let stays = [1.6, 0.7, 1.2, 0.9, 1.5, 0.8];
        assert_eq!(quota(stays, 0.18, "block"), Verdict::Suspected, "goodput does not follow");
    }

    #[test]
    fn goodput_without_the_sign_proves_nothing() {
        let mut test = test(1.95, 1.0);
        let claim = test.base.tests.as_mut().expect("a claim");
        claim.rule = "fire_hose".into();
        claim.ratio = [Ratio(1.1), Ratio(100.0)];
        let arm = |name: &str, lost: f64| {
            let seen = [("goodput", 50e6), ("rtt", 0.011), ("rtt_min", 0.01)];
            let mut point = point(&[&seen[..], &[("retransmit_ratio", lost)]].concat());
            point.jobs[0].metrics[3].values = vec![Some(lost); 6];
            point.parameters = [(ARM_AXIS.to_owned(), name.into())].into();
            point
        };
        let verdict = |left: f64| {
            let arms =
                [arm("as it is", 0.1), arm("marked", 0.1), arm("twice the receive buffer", left)];
            let found = findings(&arms, std::slice::from_ref(&test));
            let found = found.into_iter().find(|finding| finding.rule == "fire_hose");
            let found = found.expect("tested");
            let doubt = found.experiments.iter().find_map(|outcome| match outcome {
                Outcome::Pairs { doubt, .. } => doubt.clone(),
                _ => None,
            });
            (found.verdict, doubt)
        };
        assert_eq!(verdict(0.0), (Verdict::Proven, None));
        let goes_on = (Verdict::Suspected, Some(Objection::NoSign));
        assert_eq!(verdict(0.06), goes_on, "the loss goes on");
    }
}
