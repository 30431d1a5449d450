//! The ladder of `diagnose` within its time budget.

use super::*;

/// Runs the ladder on `path` within a time of `budget` seconds, at most one limit. Stages take
/// `slower` times as long as expected.
fn within(budget: u64, path: SimulatedPath, slower: f64) -> (Rung, SimulatedBench) {
    let bench = SimulatedBench::new(path).slowed(slower);
    let load = Load::new(&question(), "a".into(), "b".into()).expect("a load");
    let mut rungs = climb(&bench, load, 1, Nanos::from_secs(budget)).expect("every stage ends");
    (rungs.remove(0), bench)
}

#[test]
fn longer_pairs_that_do_not_fit_into_the_budget_are_not_begun_and_are_named() {
    let (rung, bench) = within(300, noisy(), 1.0);
    assert_eq!((leading(&rung), bench.n_completed(LONGER)), (PROVEN, Some(21)));
    // The pairs end after about 40 s, and the longer ones would take 115 s.
    let (rung, bench) = within(110, noisy(), 1.0);
    assert_eq!((leading(&rung), bench.n_completed(LONGER)), (SUSPECTED, None));
    let [Outcome::Pairs { .. }, Outcome::NotBegun { arm, seconds, needed, left }] =
        &rung.findings[0].experiments[..]
    else {
        panic!("{:?}", rung.findings)
    };
    assert!(arm == "twice the send buffer" && (4.0..5.0).contains(seconds), "{arm} {seconds}");
    assert!(needed > left && (60.0..80.0).contains(left), "{needed} {left}");
}

#[test]
fn an_experiment_that_does_not_fit_is_not_begun_and_its_claim_stays_suspected() {
    let (rung, bench) = within(30, SimulatedPath::default(), 1.0);
    assert_eq!((leading(&rung), bench.names()), (SUSPECTED, vec!["baseline".to_owned()]));
    let [Outcome::NotBegun { arm, .. }] = &rung.findings[0].experiments[..] else {
        panic!("{:?}", rung.findings)
    };
    assert_eq!(arm, "twice the send buffer");
    assert_eq!(leading(&within(60, SimulatedPath::default(), 1.0).0), PROVEN);
}

#[test]
fn stages_that_took_longer_than_expected_are_expected_to_do_so_again() {
    let (rung, bench) = within(90, SimulatedPath::default(), 3.0);
    assert_eq!((leading(&rung), bench.names()), (SUSPECTED, vec!["baseline".to_owned()]));
    assert!(bench.now() < Nanos::from_secs(90));
}

#[test]
fn the_time_to_reach_the_agents_counts_once_for_each_stage_and_not_for_each_run() {
    let bench = SimulatedBench::new(SimulatedPath::default()).opened_in(Nanos::from_secs(10));
    let load = Load::new(&question(), "a".into(), "b".into()).expect("a load");
    // Three stages: the baseline, single runs and pairs.
    let rungs = climb(&bench, load, 1, Nanos::from_secs(85)).expect("every stage ends");
    assert_eq!((leading(&rungs[0]), bench.names().len()), (PROVEN, 3));
    assert!(bench.now() < Nanos::from_secs(85), "{:?}", bench.now());
}
