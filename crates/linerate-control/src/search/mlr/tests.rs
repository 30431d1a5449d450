//! MLRsearch against the recorded runs of the reference implementation, and on devices that stall.

use linerate_analysis::search::{Bounds, bounds};
use linerate_model::Method;
use serde::Deserialize;

use super::super::controller;
use super::super::simulated::{Device, run, search};
use super::*;

#[derive(Deserialize)]
struct Run {
    capacity: f64,
    min_load: f64,
    max_load: f64,
    trials: Vec<Trial>,
    goals: Vec<Expected>,
}

#[derive(Deserialize)]
struct Trial {
    duration_s: f64,
    load: f64,
    offered: u64,
    lost: u64,
}

#[derive(Deserialize)]
struct Expected {
    loss_ratio: f64,
    exceed_ratio: f64,
    initial_trial_s: f64,
    final_trial_s: f64,
    duration_sum_s: f64,
    relative_width: f64,
    preceding_targets: i32,
    relevant_lower_bound: Option<f64>,
    relevant_upper_bound: Option<f64>,
    conditional_throughput: Option<f64>,
}

fn recorded() -> BTreeMap<String, Run> {
    serde_json::from_str(include_str!("../../../fixtures/mlrsearch-runs.json"))
        .expect("the fixture is JSON")
}

fn goal(expected: &Expected) -> Goal {
    assert_eq!(expected.preceding_targets, 2, "as ours");
    Goal {
        name: "golden".into(),
        loss_ratio: expected.loss_ratio,
        exceed_ratio: expected.exceed_ratio,
        width: expected.relative_width,
        initial_trial: Nanos::from_secs_f64(expected.initial_trial_s),
        final_trial: Nanos::from_secs_f64(expected.final_trial_s),
        duration_sum: Nanos::from_secs_f64(expected.duration_sum_s),
    }
}

/// Returns whether both are equal except for the last bits: the reference caches rounded values, so
/// that its results depend on the order of calls.
fn close(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 * a.abs().max(b.abs())
}

#[test]
fn every_recorded_run_is_reproduced_load_by_load() {
    for (name, run) in recorded() {
        let goals: Vec<Goal> = run.goals.iter().map(goal).collect();
        let mut mlr =
            controller(&search(run.min_load, run.max_load, Method::Mlr { goals: goals.clone() }));
        let mut observations = Vec::new();
        // The recorded runs begin with a warm-up, which the controller does not choose.
        for (number, trial) in run.trials.iter().enumerate().skip(1) {
            let step = mlr.next().unwrap_or_else(|| panic!("{name}: no trial {number}"));
            assert!(
                close(step.load, trial.load),
                "{name}, trial {number}: {} for {}",
                step.load,
                trial.load
            );
            let duration = step.duration.as_secs_f64();
            assert!(
                close(duration, trial.duration_s),
                "{name}, trial {number}: {duration} s for {}",
                trial.duration_s
            );
            // The recorded device.
            let offered = (trial.load * trial.duration_s) as u64;
            assert_eq!(trial.offered, offered, "{name}, trial {number}");
            assert_eq!(
                trial.lost,
                offered - offered.min((run.capacity * trial.duration_s) as u64),
                "{name}"
            );
            let loss_ratio = trial.lost as f64 / trial.offered as f64;
            let observation = Observation { load: step.load, duration: step.duration, loss_ratio };
            mlr.take(&observation);
            observations.push(observation);
        }
        assert_eq!(mlr.next(), None, "{name}: more trials than recorded");
        for (goal, expected) in goals.iter().zip(&run.goals) {
            let found = bounds(&Requirement::from(goal), &observations);
            for (ours, theirs) in [
                (found.lower, expected.relevant_lower_bound),
                (found.upper, expected.relevant_upper_bound),
                (found.conditional_throughput, expected.conditional_throughput),
            ] {
                match (ours, theirs) {
                    (Some(ours), Some(theirs)) => {
                        assert!(close(ours, theirs), "{name}: {ours} for {theirs}")
                    }
                    (ours, theirs) => assert_eq!(ours, theirs, "{name}"),
                }
            }
        }
    }
}

#[test]
fn the_recorded_runs_are_those_of_the_reference() {
    let runs = recorded();
    let trials: Vec<(&str, usize)> =
        runs.iter().map(|(name, run)| (name.as_str(), run.trials.len())).collect();
    let expected = [
        ("csit_capacity_above_max", 12),
        ("csit_ndr_pdr_cap3.2M", 36),
        ("rfc2544_60s_cap3.2M", 8),
        ("tst009_cap3.2M", 9),
    ];
    assert_eq!(trials, expected);
    let seconds: f64 =
        runs["rfc2544_60s_cap3.2M"].trials.iter().map(|trial| trial.duration_s).sum();
    assert!((seconds - 139.5).abs() < 0.05, "{seconds}");
}

fn csit(loss_ratio: f64) -> Goal {
    Goal {
        loss_ratio,
        exceed_ratio: 0.5,
        duration_sum: Nanos::from_secs(21),
        ..Goal::strict("NDR", 0.005, Nanos::from_secs(1))
    }
}

fn find(goal: &Goal, device: &mut Device) -> (Bounds, f64) {
    let trials =
        run(&search(9_001.0, 14_880_952.38, Method::Mlr { goals: vec![goal.clone()] }), device);
    let seconds = trials.iter().map(|trial| trial.duration.as_secs_f64()).sum();
    (bounds(&Requirement::from(goal), &trials), seconds)
}

#[test]
fn a_capacity_anywhere_is_found_within_the_width() {
    for capacity in [9_500.0, 20_000.0, 123_456.7, 1e6, 9.87e6, 14.8e6] {
        let (found, _) = find(&csit(0.0), &mut Device::of(capacity));
        let (lower, upper) =
            (found.lower.expect("a lower bound"), found.upper.expect("an upper bound"));
        assert!(lower <= capacity + 1.0 && capacity <= upper, "{capacity}: {found:?}");
        assert!(found.regular(&csit(0.0)), "{capacity}: {found:?}");
    }
}

#[test]
fn a_device_that_loses_at_the_lowest_load_ends_that_goal() {
    let (found, seconds) = find(&csit(0.0), &mut Device::of(100.0));
    assert_eq!((found.lower, found.upper), (None, Some(9_001.0)));
    assert!(seconds < 120.0, "{seconds}");
}

/// docs/methodology/searches.md#mlrsearch: a device of 3.2 Mpps that stalls for 5 ms every hundred
/// seconds. The NDR of short trials does not depend on the stalls.
#[test]
fn stalls_do_not_move_the_rate_found_by_many_short_trials() {
    let found: Vec<f64> = (0..30)
        .map(|seed| {
            let mut device = Device::of(3.2e6);
            device.stall_at_random(0.01, Nanos::from_millis(5), seed);
            find(&csit(0.0), &mut device).0.lower.expect("a lower bound")
        })
        .collect();
    let (least, most) =
        found.iter().fold((f64::INFINITY, 0.0_f64), |(a, b), v| (a.min(*v), b.max(*v)));
    assert!((most - least) / most < 0.03, "{least} to {most}");
    assert!((least / 3.2e6 - 1.0).abs() < 0.01, "{least}");
}

/// The same device, and the strict goal: one stall in a final trial sends the search far down
/// (docs/methodology/searches.md#mlrsearch: CV 0.75).
#[test]
fn the_strict_search_of_the_same_device_scatters() {
    let found: Vec<f64> = (0..30)
        .map(|seed| {
            let mut device = Device::of(3.2e6);
            device.stall_at_random(0.01, Nanos::from_millis(5), seed);
            let strict = Goal {
                exceed_ratio: 0.0,
                initial_trial: Nanos::from_secs(60),
                final_trial: Nanos::from_secs(60),
                duration_sum: Nanos::from_secs(60),
                ..csit(0.0)
            };
            let search = search(
                9_001.0,
                14_880_952.38,
                Method::Halving { goal: strict.clone(), repeats: 0 },
            );
            bounds(&Requirement::from(&strict), &run(&search, &mut device)).lower.unwrap_or(0.0)
        })
        .collect();
    let variation =
        linerate_analysis::statistics::coefficient_of_variation(&found).expect("thirty values");
    assert!(variation > 0.3, "{variation}: {found:?}");
}

/// Resuming is replaying: a controller with the same observations chooses the same next step,
/// wherever the search was interrupted.
#[test]
fn a_controller_with_the_same_history_continues_where_the_first_one_was() {
    let of = |seed| {
        let mut device = Device::of(3.2e6);
        device.stall_at_random(0.05, Nanos::from_millis(5), seed);
        device
    };
    let search =
        search(9_001.0, 14_880_952.38, Method::Mlr { goals: vec![csit(0.0), csit(0.005)] });
    let whole = run(&search, &mut of(7));
    for cut in [1, 3, 4, whole.len() / 2, whole.len() - 1] {
        let mut again = controller(&search);
        for observation in &whole[..cut] {
            let step = again.next().expect("it was asked before");
            assert_eq!((step.load, step.duration), (observation.load, observation.duration));
            again.take(observation);
        }
        let step = again.next().expect("it was asked before");
        assert_eq!(
            (step.load, step.duration),
            (whole[cut].load, whole[cut].duration),
            "cut at {cut}"
        );
    }
}
