//! Comparisons of arms: which pairs are formed, of which figures, and what many figures at once
//! make of a probability.

use linerate_analysis::compare::Change;
use linerate_analysis::{Comparison, Headline, Study, headline, study};
use linerate_model::{
    ARM_AXIS, Arm, Direction, Ratio, Role, TrialId, TrialOutcome, TrialRecord, metric,
};

use crate::fixture::{stream, two_hosts};

const MEGA: u64 = 1_000_000;

/// A trial of an arm: `repeat` identifies its pair, `megabytes` a second arrived.
fn armed(number: u32, repeat: u32, (name, role): (&str, Role), megabytes: u64) -> TrialRecord {
    let mut trial = stream(number, megabytes * MEGA);
    trial.spec.repeat = repeat;
    trial.spec.point.insert(ARM_AXIS.to_owned(), serde_json::Value::from(name));
    trial.spec.arm = Some(Arm::new(name, role, Ratio(0.02)));
    trial
}

const WIRE: (&str, Role) = ("wire", Role::Base);
const DEVICE: (&str, Role) = ("device", Role::Changed);
const AGAIN: (&str, Role) = ("wire again", Role::Placebo);

/// The trials of arms with these rates of their pairs, in turn.
fn arms(arms: &[((&'static str, Role), &[u64])]) -> Vec<TrialRecord> {
    let mut trials = Vec::new();
    for repeat in 0..arms[0].1.len() {
        for (arm, values) in arms {
            trials.push(armed(trials.len() as u32, repeat as u32, *arm, values[repeat]));
        }
    }
    trials
}

fn only(study: &Study) -> &Comparison {
    assert_eq!(study.comparisons.len(), 1);
    &study.comparisons[0]
}

fn goodput(comparison: &Comparison) -> &linerate_analysis::Compared {
    let found = comparison
        .figures
        .iter()
        .find(|f| f.metric == metric::GOODPUT && f.direction == Direction::Tx);
    found.expect("goodput is compared")
}

#[test]
fn an_arm_that_carries_half_is_worse_by_half_and_the_placebo_is_none() {
    let (wire, again) = ([100, 104, 96, 101, 99, 103], [101, 103, 97, 100, 100, 102]);
    let device = wire.map(|value| value / 2);
    let study = study(&two_hosts(arms(&[(WIRE, &wire), (DEVICE, &device), (AGAIN, &again)])));
    let comparison = only(&study);
    assert_eq!(
        (comparison.base.name.as_str(), comparison.changed.name.as_str()),
        ("wire", "device")
    );
    assert!(
        !comparison.parameters.contains_key(ARM_AXIS),
        "the arm is no coordinate of the comparison"
    );
    let compared = goodput(comparison);
    assert_eq!((compared.pairs, compared.effect.n, compared.effect.change), (6, 6, Change::Worse));
    assert!((compared.effect.shift - 0.5).abs() < 0.01, "{}", compared.effect.shift);
    let placebo = compared.placebo.as_ref().expect("it was measured");
    assert_eq!(placebo.change, Change::None, "{placebo:?}");
    // Two of 2^6 orders of signs; Holm's adjustment never lowers it.
    let p = compared.effect.p.expect("pairs differ");
    assert!((p - 2.0 / 64.0).abs() < 1e-9 && compared.p_adjusted.expect("one of several") >= p);
}

#[test]
fn pairs_are_of_one_repeat_and_not_of_one_order() {
    // The path drifts far more than the arms differ: within pairs the difference is 10 %
    // throughout.
    let wire = [100, 200, 300, 400, 500, 600];
    let device = wire.map(|value| value * 9 / 10);
    let mut trials = arms(&[(WIRE, &wire), (DEVICE, &device)]);
    trials.sort_by_key(|trial| {
        (trial.spec.arm.as_ref().map(|arm| arm.role), u32::MAX - trial.spec.repeat)
    });
    let study = study(&two_hosts(trials));
    let compared = goodput(only(&study));
    assert!((compared.effect.shift - 0.9).abs() < 1e-6, "{:?}", compared.effect);
    assert_eq!((compared.effect.change, compared.effect.n), (Change::Worse, 6));
}

#[test]
fn a_trial_that_failed_takes_its_pair_with_it_and_no_other() {
    let wire = [100, 104, 96, 101, 99, 103, 102];
    let mut trials = arms(&[(WIRE, &wire), (DEVICE, &wire.map(|value| value * 2))]);
    trials[5].outcome = Some(TrialOutcome::Failed);
    let study = study(&two_hosts(trials));
    let compared = goodput(only(&study));
    assert_eq!(compared.effect.n, 6);
    assert!((compared.effect.shift - 2.0).abs() < 1e-9, "{:?}", compared.effect);
    assert_eq!(compared.effect.change, Change::Better);
}

#[test]
fn points_without_arms_are_compared_with_nothing() {
    let study = study(&two_hosts((0..6).map(|number| stream(number, 10 * MEGA)).collect()));
    assert!(study.comparisons.is_empty());
}

#[test]
fn of_two_arms_the_base_is_told_and_the_other_stands_beside_it() {
    let wire = [100, 104, 96, 101, 99, 103];
    for factor in [1, 2] {
        let device = wire.map(|value| value * factor);
        let campaign = two_hosts(arms(&[(WIRE, &wire), (DEVICE, &device), (AGAIN, &wire)]));
        let told = headline(&campaign, &study(&campaign)).expect("something was measured");
        let against = told.against.as_ref().expect("the other arm");
        let arm = |told: &Headline| told.parameters[ARM_AXIS].clone();
        assert_eq!(
            [arm(&told), arm(against)],
            ["wire", "device"],
            "also where the other is the better one"
        );
        let rate = |told: &Headline| told.moved.as_ref().map(|moved| moved.estimate.value);
        assert_eq!(rate(against), rate(&told).map(|rate| rate * factor as f64));
        assert!(
            !against.stages.is_empty()
                && against.stages.len() == told.stages.len()
                && against.against.is_none()
        );
    }
}

#[test]
fn of_several_comparisons_the_one_that_changed_most_is_told_unless_none_did() {
    let wire = [100, 104, 96, 101, 99, 103];
    let of_sweep = |(sweep, percent): (&str, u64)| {
        let mut trials = arms(&[(WIRE, &wire), (DEVICE, &wire.map(|value| value * percent / 100))]);
        trials.iter_mut().for_each(|trial| trial.spec.sweep = sweep.into());
        trials
    };
    let told = |sweeps: [(&str, u64); 3]| {
        let mut trials = sweeps.map(of_sweep).concat();
        (0..).zip(&mut trials).for_each(|(number, trial)| trial.spec.id = TrialId(number));
        let campaign = two_hosts(trials);
        headline(&campaign, &study(&campaign)).expect("something was measured")
    };
    assert_eq!(told([("one", 120), ("two", 50), ("three", 110)]).sweep, "two");
    assert_eq!(
        told([("one", 100), ("two", 100), ("three", 101)]).sweep,
        "three",
        "the one that carries most"
    );
}
