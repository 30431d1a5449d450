//! The ladder of `diagnose`, in virtual time: claims that are right, wrong, noisy, refused,
//! interrupted, and hosts that go away.

use linerate_analysis::diagnosis::experiment::Experiment;
use linerate_analysis::diagnosis::{Claim, Evidence, Finding, Outcome, suspects};
use linerate_control::conductor::simulated::Leaving;
use linerate_model::{HostSetting, Nanos, Verdict};

use super::pairs::{Next, put_to_test};
use super::stages::Stages;
use super::*;
use crate::simulated::{SimulatedBench, SimulatedPath, Trouble};
use crate::stages::Bench;
use crate::{Ended, Exit, Result};
use Ended::{Failed, With};

const PROVEN: (&str, Verdict) = ("send_buffer", Verdict::Proven);
const SUSPECTED: (&str, Verdict) = ("send_buffer", Verdict::Suspected);
const UNKNOWN: (&str, Verdict) = ("unknown", Verdict::Inconclusive);

mod budget;

/// Time budget that no ladder of these tests exceeds.
const PLENTY: Nanos = Nanos::from_secs(3600);

/// Stages of the first limit.
const SCOUT: &str = "limit-1-send_buffer-scout-1";
const AGAIN: &str = "limit-1-send_buffer-scout-1-again";
const PAIRS: &str = "limit-1-send_buffer";
const LONGER: &str = "limit-1-send_buffer-longer";

fn question() -> Question {
    Question {
        workload: "tcp_stream".into(),
        params: Vec::new(),
        pairs: 6,
        seconds: 1.0,
        omit: 0.5,
        seed: 1,
    }
}

/// A path on which the sender waits for its buffer, and a larger one makes no difference.
fn wrong() -> SimulatedPath {
    SimulatedPath { follows: false, held: 5e7, ..SimulatedPath::default() }
}

/// A path on which one of the first pairs is within the noise of the placebo, and none of the
/// longer ones.
fn noisy() -> SimulatedPath {
    SimulatedPath { noise: 0.2, seed: 3, ..SimulatedPath::default() }
}

/// A path on which the buffer may be doubled four times.
fn gigabit() -> SimulatedPath {
    SimulatedPath { link: 1e9, ..SimulatedPath::default() }
}

fn climbed(bench: &SimulatedBench, question: &Question, limits: usize) -> Result<Vec<Rung>, Ended> {
    climb(bench, Load::new(question, "a".into(), "b".into())?, limits, PLENTY)
}

fn rungs(path: SimulatedPath) -> (Vec<Rung>, SimulatedBench) {
    let bench = SimulatedBench::new(path);
    let rungs = climbed(&bench, &question(), 4).expect("every stage ends");
    (rungs, bench)
}

fn leading(rung: &Rung) -> (&str, Verdict) {
    let first = rung.findings.first().expect("never empty");
    (&first.rule, first.verdict)
}

/// How it ends if `stage` is interrupted as its trial `number` begins.
fn interrupted(path: SimulatedPath, stage: &str, number: u32) -> Option<Ended> {
    climbed(&SimulatedBench::new(path).with(stage, Trouble::Interrupted(number)), &question(), 4)
        .err()
}

/// Runs the ladder while the other host leaves `stage` in its trial `trial`, and stays away for
/// `away_for` attempts to reach it.
fn left(stage: &str, trial: u32, away_for: u32) -> Result<(Vec<Rung>, SimulatedBench)> {
    let leaves = Trouble::Leaves(Leaving { host: 1, trial, away_for });
    let bench = SimulatedBench::new(SimulatedPath::default()).with(stage, leaves);
    match climbed(&bench, &question(), 4) {
        Ok(rungs) => Ok((rungs, bench)),
        Err(Failed(failure)) => Err(failure),
        Err(With(exit)) => panic!("ended as {exit:?}"),
    }
}

/// An experiment that asks something of a host.
fn polled() -> Experiment {
    let setting = HostSetting { at: "b".into(), name: "threaded".into(), value: "1".into() };
    Experiment::at_host("polled elsewhere", setting, [1.1, 2.5])
}

/// One that changes the load.
fn doubled() -> Experiment {
    let change = vec![("send_buffer".to_owned(), "65536 B".into())];
    Experiment::lift("twice the send buffer", change, [1.5, 2.5])
}

/// `experiments` on the claim about the send buffer, with `trouble` in their pairs.
fn tested(
    path: SimulatedPath,
    trouble: Option<Trouble>,
    experiments: Vec<Experiment>,
) -> Result<(Finding, Option<Next>), Ended> {
    let mut bench = SimulatedBench::new(path);
    if let Some(trouble) = trouble {
        bench = bench.with(PAIRS, trouble);
    }
    tested_by(&bench, experiments)
}

/// Tests the claim of a small send buffer with `experiments` on `bench`.
fn tested_by(
    bench: &SimulatedBench,
    experiments: Vec<Experiment>,
) -> Result<(Finding, Option<Next>), Ended> {
    let load = Load::new(&question(), "a".into(), "b".into())?;
    let dynamic: &dyn Bench = bench;
    let (_, study) = dynamic.observe("baseline", &load.baseline())?;
    let point = &study.points[0];
    let mut claims = suspects(point).into_iter();
    let claim = claims.find(|(rule, _)| rule.name == "send_buffer").expect("it is suspected");
    put_to_test(&mut Stages::new(dynamic, PLENTY), 1, (&load, point), claim, experiments)
}

#[test]
fn a_claim_that_is_right_is_proven_and_what_is_behind_it_is_looked_for() {
    let (rungs, _) = rungs(SimulatedPath::default());
    assert_eq!(rungs.iter().map(leading).collect::<Vec<_>>(), [PROVEN, UNKNOWN]);
    assert_eq!(exit_of(&rungs), Exit::Done);
}

#[test]
fn a_proof_is_a_baseline_a_single_run_and_the_pairs() {
    let bench = SimulatedBench::new(SimulatedPath::default());
    climbed(&bench, &question(), 1).expect("every stage ends");
    let stages = [("baseline", 2), (SCOUT, 1), (PAIRS, 18)];
    assert_eq!(*bench.stages.borrow(), stages.map(|(name, n)| (name.to_owned(), n)));
}

#[test]
fn what_lifts_a_limit_is_told_with_what_there_was_then() {
    let (rungs, _) = rungs(SimulatedPath::default());
    let (by, after) = rungs[0].lifted.clone().expect("lifted");
    assert_eq!(by, "twice the send buffer");
    assert!((after / 1e8 - 1.0).abs() < 0.01 && (rungs[1].goodput - after).abs() < 1.0, "{after}");
}

#[test]
fn a_buffer_is_doubled_until_the_link_is_full() {
    let (rungs, _) = rungs(gigabit());
    let proven = rungs.iter().take_while(|rung| leading(rung) == PROVEN).count();
    assert_eq!((rungs.len(), proven), (5, 4));
    assert!(rungs.windows(2).all(|pair| pair[1].goodput > 1.8 * pair[0].goodput));
}

#[test]
fn the_last_doubling_meets_the_link_and_is_no_proof() {
    let (rungs, bench) = rungs(gigabit());
    assert_eq!(leading(&rungs[4]), UNKNOWN);
    assert!(rungs[4].lifted.is_none() && bench.n_completed("limit-5-send_buffer").is_none());
}

#[test]
fn as_many_limits_are_looked_for_as_are_asked_for() {
    let bench = SimulatedBench::new(gigabit());
    let rungs = climbed(&bench, &question(), 1).expect("every stage ends");
    assert_eq!((rungs.len(), leading(&rungs[0])), (1, PROVEN));
}

#[test]
fn a_proof_stands_beside_its_placebo() {
    let (rungs, _) = rungs(SimulatedPath::default());
    let [Outcome::Control { arm, effect, .. }] = &rungs[0].findings[0].controls[..] else {
        panic!("{:?}", rungs[0])
    };
    assert_eq!(arm, "packets marked with an unassigned DSCP");
    assert!((effect.shift - 1.0).abs() < 1e-3, "{effect:?}");
}

#[test]
fn a_proof_says_what_it_changed_and_what_was_predicted() {
    let (rungs, _) = rungs(SimulatedPath::default());
    let [Outcome::Pairs { effect, ratio, .. }] = &rungs[0].findings[0].experiments[..] else {
        panic!("{:?}", rungs[0])
    };
    assert_eq!((effect.n, ratio.map(|it| (it * 10.0).round())), (6, [15.0, 25.0]));
}

#[test]
fn the_evidence_of_the_leading_claim_scores_best() {
    let (rungs, _) = rungs(SimulatedPath::default());
    let (rule, score) = rungs[0].scores[0];
    assert!(rule == "send_buffer" && score >= 0.5, "{score}");
}

#[test]
fn as_many_pairs_are_run_as_are_asked_for() {
    let bench = SimulatedBench::new(SimulatedPath::default());
    climbed(&bench, &Question { pairs: 8, ..question() }, 4).expect("every stage ends");
    assert_eq!(bench.n_completed(PAIRS), Some(24), "eight of each arm and of the placebo");
}

#[test]
fn three_pairs_prove_nothing() {
    let bench = SimulatedBench::new(SimulatedPath::default());
    let rungs = climbed(&bench, &Question { pairs: 3, ..question() }, 4).expect("every stage ends");
    assert_eq!(leading(&rungs[0]), SUSPECTED);
    assert_eq!(exit_of(&rungs), Exit::Missed);
}

#[test]
fn every_stage_is_a_plan_of_the_load_that_is_asked_about() {
    let bench = SimulatedBench::new(SimulatedPath::default());
    let asked = Question { params: vec!["dscp=8".into()], seed: 77, ..question() };
    climbed(&bench, &asked, 4).expect("every stage ends");
    for draft in bench.drafts.borrow().iter() {
        assert_eq!(draft.campaign.seed, Some(77));
        for job in draft.sweeps.iter().flat_map(|sweep| &sweep.jobs) {
            assert_eq!([&*job.workload, &*job.from, &*job.to], ["tcp_stream", "a", "b"]);
            assert_eq!(job.params.get("dscp"), Some(&8.into()));
        }
    }
}

#[test]
fn a_parameter_that_is_no_assignment_is_refused() {
    let asked = Question { params: vec!["streams".into()], ..question() };
    let bench = SimulatedBench::new(SimulatedPath::default());
    let Err(Failed(failure)) = climbed(&bench, &asked, 4) else { panic!("wrong") };
    assert_eq!(failure.exit(), Exit::Wrong);
    assert!(failure.message().contains("KEY=VALUE"), "{failure:?}");
}

#[test]
fn a_claim_that_is_wrong_is_set_aside_without_pairs() {
    let (rungs, bench) = rungs(wrong());
    assert_eq!(bench.names(), ["baseline", SCOUT, AGAIN]);
    assert_eq!((rungs.len(), leading(&rungs[0])), (1, UNKNOWN));
    assert_eq!(exit_of(&rungs), Exit::Missed);
}

#[test]
fn a_claim_is_not_dropped_for_a_single_run() {
    let (_, bench) = rungs(wrong());
    // The change once more, beside the unchanged load.
    assert_eq!(bench.n_completed(AGAIN), Some(2));
}

#[test]
fn the_answer_that_nothing_is_known_lists_the_claims_that_were_ruled_out() {
    let (rungs, _) = rungs(wrong());
    let unknown = &rungs[0].findings[0];
    assert_eq!(unknown.evidence[0], Evidence::RuledOut { claims: vec![Claim::SendBuffer] });
}

#[test]
fn a_claim_that_was_set_aside_says_what_was_seen_and_advises_nothing() {
    let (rungs, _) = rungs(wrong());
    let aside = rungs[0].findings.iter().find(|found| found.rule == "send_buffer").expect("told");
    assert_eq!((aside.verdict, aside.advice.len()), (Verdict::Inconclusive, 0));
    let [Outcome::SingleRuns { refutes: true, .. }] = aside.experiments[..] else {
        panic!("{aside:?}")
    };
}

#[test]
fn a_claim_that_is_wrong_leads_nowhere() {
    let (rungs, _) = rungs(wrong());
    assert!(rungs[0].lifted.is_none());
}

#[test]
fn a_change_that_helps_too_little_for_the_claim_is_set_aside() {
    let (rungs, bench) = rungs(SimulatedPath { link: 6.2e7, ..SimulatedPath::default() });
    assert_eq!(leading(&rungs[0]), UNKNOWN, "x1.18, and the claim says x1.5 at the least");
    assert_eq!(bench.n_completed(PAIRS), None);
}

#[test]
fn where_nothing_is_waited_for_nothing_is_tried() {
    let (rungs, bench) = rungs(SimulatedPath { held: 2e7, waits: 0.1, ..SimulatedPath::default() });
    assert_eq!((bench.names(), leading(&rungs[0])), (vec!["baseline".to_owned()], UNKNOWN));
}

#[test]
fn a_full_link_of_unknown_rate_is_not_known_and_not_guessed() {
    let (rungs, _) = rungs(SimulatedPath { send_buffer: 1e9, ..SimulatedPath::default() });
    assert_eq!((rungs.len(), leading(&rungs[0])), (1, UNKNOWN));
}

#[test]
fn where_the_placebo_works_as_well_nothing_is_proven() {
    for placebo in [2.0, 0.5] {
        let (rungs, _) = rungs(SimulatedPath { placebo, ..SimulatedPath::default() });
        assert_eq!(leading(&rungs[0]), SUSPECTED, "{placebo}");
        assert!(rungs[0].lifted.is_none() && rungs.len() == 1);
    }
}

#[test]
fn a_placebo_that_moves_little_leaves_the_proof() {
    let (rungs, _) = rungs(SimulatedPath { placebo: 1.05, ..SimulatedPath::default() });
    assert_eq!(leading(&rungs[0]), PROVEN);
}

#[test]
fn some_noise_leaves_the_proof() {
    for noise in [0.02, 0.05, 0.1] {
        let (rungs, bench) = rungs(SimulatedPath { noise, ..SimulatedPath::default() });
        assert_eq!((leading(&rungs[0]), bench.n_completed(LONGER)), (PROVEN, None), "{noise}");
    }
}

#[test]
fn what_noise_leaves_undecided_is_looked_at_once_more_for_longer() {
    let (rungs, bench) = rungs(noisy());
    assert_eq!(leading(&rungs[0]), PROVEN);
    assert_eq!(
        bench.n_completed(LONGER),
        Some(21),
        "seven pairs, for what the first look has used up of the error"
    );
    let told = &rungs[0].findings[0].experiments;
    let [Outcome::Repeated { seconds: [1.0, longer], .. }] = told[..] else { panic!("{told:?}") };
    assert!((4.0..5.0).contains(&longer), "{longer}");
}

#[test]
fn the_longer_runs_are_longer() {
    let (_, bench) = rungs(noisy());
    let drafts = bench.drafts.borrow();
    let duration = |name: &str| {
        drafts
            .iter()
            .find(|draft| draft.campaign.name == format!("diagnose-{name}"))
            .expect(name)
            .sweeps[0]
            .duration
    };
    let times = duration(LONGER).as_secs_f64() / duration(PAIRS).as_secs_f64();
    assert!((4.0..5.0).contains(&times), "{times}");
}

#[test]
fn what_stays_undecided_is_suspected_and_leads_nowhere() {
    let (rungs, bench) = rungs(SimulatedPath { noise: 0.25, seed: 2, ..SimulatedPath::default() });
    assert_eq!((rungs.len(), leading(&rungs[0])), (1, SUSPECTED));
    assert!(bench.n_completed(LONGER).is_some() && rungs[0].lifted.is_none());
}

#[test]
fn longer_runs_that_would_not_tell_are_not_run() {
    let (rungs, bench) = rungs(SimulatedPath { noise: 0.5, ..SimulatedPath::default() });
    assert_eq!((leading(&rungs[0]), bench.n_completed(LONGER)), (SUSPECTED, None));
}

#[test]
fn a_wrong_claim_is_set_aside_beside_noise_too() {
    let (rungs, bench) = rungs(SimulatedPath { noise: 0.2, ..wrong() });
    assert_eq!((leading(&rungs[0]), bench.n_completed(PAIRS)), (UNKNOWN, None));
}

#[test]
fn no_noise_proves_a_claim_that_is_wrong() {
    for (seed, noise) in (0..8).flat_map(|seed| [(seed, 0.1), (seed, 0.3)]) {
        let (rungs, _) = rungs(SimulatedPath { noise, seed, ..wrong() });
        assert!(
            !rungs.iter().any(Rung::is_proven),
            "seed {seed}, noise {noise}: {:#?}",
            rungs[0].findings
        );
    }
}

#[test]
fn a_right_claim_is_proven_whatever_the_order_of_a_little_noise() {
    for seed in 0..8 {
        let (rungs, _) = rungs(SimulatedPath { noise: 0.05, seed, ..SimulatedPath::default() });
        assert_eq!(leading(&rungs[0]), PROVEN, "seed {seed}");
    }
}

#[test]
fn an_interrupted_baseline_ends_it() {
    assert_eq!(interrupted(SimulatedPath::default(), "baseline", 0), Some(With(Exit::Interrupted)));
}

#[test]
fn a_baseline_interrupted_in_its_second_run_ends_it() {
    assert_eq!(interrupted(SimulatedPath::default(), "baseline", 1), Some(With(Exit::Interrupted)));
}

#[test]
fn an_interrupted_single_run_ends_it() {
    assert_eq!(interrupted(SimulatedPath::default(), SCOUT, 0), Some(With(Exit::Interrupted)));
}

#[test]
fn a_second_look_that_is_interrupted_ends_it() {
    assert_eq!(interrupted(wrong(), AGAIN, 1), Some(With(Exit::Interrupted)));
}

#[test]
fn pairs_interrupted_at_once_end_it() {
    assert_eq!(interrupted(SimulatedPath::default(), PAIRS, 0), Some(With(Exit::Interrupted)));
}

#[test]
fn pairs_interrupted_in_the_middle_end_it() {
    assert_eq!(interrupted(SimulatedPath::default(), PAIRS, 9), Some(With(Exit::Interrupted)));
}

#[test]
fn pairs_interrupted_in_the_last_run_end_it() {
    assert_eq!(interrupted(SimulatedPath::default(), PAIRS, 17), Some(With(Exit::Interrupted)));
}

#[test]
fn longer_pairs_that_are_interrupted_end_it() {
    assert_eq!(interrupted(noisy(), LONGER, 3), Some(With(Exit::Interrupted)));
}

#[test]
fn an_interrupt_behind_the_first_limit_ends_it() {
    assert_eq!(interrupted(gigabit(), "limit-2-send_buffer", 4), Some(With(Exit::Interrupted)));
}

#[test]
fn an_interrupted_stage_is_the_last_one() {
    let bench = SimulatedBench::new(SimulatedPath::default()).with(SCOUT, Trouble::Interrupted(0));
    assert!(climbed(&bench, &question(), 4).is_err());
    assert_eq!(bench.names(), ["baseline", SCOUT]);
}

#[test]
fn a_busy_agent_ends_the_baseline() {
    let bench =
        SimulatedBench::new(SimulatedPath::default()).with("baseline", Trouble::Busy(usize::MAX));
    let Err(Failed(failure)) = climbed(&bench, &question(), 4) else { panic!("it is busy") };
    assert_eq!(failure.exit(), Exit::Missing);
    assert!(failure.message().contains("busy with another"), "{failure:?}");
}

#[test]
fn an_agent_that_is_busy_at_a_single_run_ends_it() {
    let bench =
        SimulatedBench::new(SimulatedPath::default()).with(SCOUT, Trouble::Busy(usize::MAX));
    let Err(Failed(failure)) = climbed(&bench, &question(), 4) else { panic!("it is busy") };
    assert_eq!(failure.exit(), Exit::Missing);
    assert!(failure.message().contains("busy with another"), "{failure:?}");
}

#[test]
fn an_agent_that_is_busy_at_the_pairs_ends_it() {
    let bench =
        SimulatedBench::new(SimulatedPath::default()).with(PAIRS, Trouble::Busy(usize::MAX));
    let Err(Failed(failure)) = climbed(&bench, &question(), 4) else { panic!("it is busy") };
    assert_eq!(failure.exit(), Exit::Missing);
    assert!(failure.message().contains("busy with another"), "{failure:?}");
}

#[test]
fn an_agent_that_is_busy_for_a_while_is_waited_for() {
    for stage in ["baseline", SCOUT, PAIRS] {
        let bench = SimulatedBench::new(SimulatedPath::default()).with(stage, Trouble::Busy(3));
        let rungs = climbed(&bench, &question(), 1).expect("it becomes free");
        assert_eq!((leading(&rungs[0]), bench.n_pauses.get()), (PROVEN, 3), "{stage}");
    }
}

/// Returns a bench on which the reader of plans refuses the plan of `stage`.
fn refusing(stage: &str) -> SimulatedBench {
    SimulatedBench::new(SimulatedPath::default()).with(stage, Trouble::RefusedPlan)
}

#[test]
fn a_refused_plan_of_the_only_experiment_leaves_the_claim_suspected() {
    for stage in [SCOUT, PAIRS] {
        let (finding, reached) = tested_by(&refusing(stage), vec![doubled()]).expect("it goes on");
        assert_eq!((finding.verdict, reached.is_none()), (Verdict::Suspected, true), "{stage}");
        let [Outcome::NotRun { arm, .. }] = &finding.experiments[..] else { panic!("{finding:?}") };
        assert_eq!(*arm, doubled().name);
    }
}

#[test]
fn an_experiment_whose_plan_is_refused_leaves_the_other_one() {
    let refused = Experiment { name: "another buffer".into(), ..doubled() };
    let (finding, reached) =
        tested_by(&refusing(SCOUT), vec![refused, doubled()]).expect("it goes on");
    assert_eq!(finding.verdict, Verdict::Proven);
    assert!(reached.is_some_and(|next| next.name == doubled().name));
    assert!(matches!(finding.experiments[..], [Outcome::NotRun { .. }, Outcome::Pairs { .. }]));
}

#[test]
fn a_host_that_comes_back_costs_the_baseline_one_run() {
    let (rungs, bench) = left("baseline", 0, 2).expect("it goes on");
    assert_eq!((leading(&rungs[0]), bench.n_completed("baseline")), (PROVEN, Some(1)));
}

#[test]
fn a_host_that_leaves_the_baseline_for_good_ends_it() {
    let failure = left("baseline", 0, u32::MAX).err().expect("it is gone");
    assert_eq!(failure.exit(), Exit::Missing);
    assert!(failure.message().contains("far"), "{failure:?}");
}

#[test]
fn a_single_run_that_is_lost_leaves_it_to_the_pairs() {
    let (rungs, bench) = left(SCOUT, 0, 2).expect("it goes on");
    assert_eq!(
        (leading(&rungs[0]), bench.n_completed(SCOUT), bench.n_completed(PAIRS)),
        (PROVEN, Some(0), Some(18))
    );
}

#[test]
fn a_host_that_leaves_in_the_middle_of_the_pairs_and_comes_back_costs_one_run() {
    let (rungs, bench) = left(PAIRS, 7, 2).expect("it goes on");
    assert_eq!(bench.n_completed(PAIRS), Some(17));
    assert_eq!(leading(&rungs[0]).0, "send_buffer", "the remaining pairs still decide");
}

#[test]
fn a_host_that_leaves_in_the_middle_of_the_pairs_for_good_ends_it() {
    let failure = left(PAIRS, 7, u32::MAX).err().expect("it is gone");
    assert_eq!(failure.exit(), Exit::Missing);
}

#[test]
fn a_setting_that_is_refused_is_told_and_the_claim_stays_suspected() {
    let (finding, reached) =
        tested(SimulatedPath::default(), Some(Trouble::Refused), vec![polled()])
            .expect("it goes on");
    assert_eq!(finding.verdict, Verdict::Suspected);
    assert!(reached.is_none());
    let [Outcome::NotRun { error, .. }] = &finding.experiments[..] else { panic!("{finding:?}") };
    assert!(error.contains("not consented"), "{error}");
}

#[test]
fn a_setting_that_is_refused_leaves_the_other_experiment() {
    let (finding, reached) =
        tested(SimulatedPath::default(), Some(Trouble::Refused), vec![polled(), doubled()])
            .expect("it goes on");
    assert_eq!(finding.verdict, Verdict::Proven);
    assert!(reached.is_some_and(|next| next.name == "twice the send buffer"));
    assert!(matches!(finding.experiments[..], [Outcome::NotRun { .. }, Outcome::Pairs { .. }]));
}

#[test]
fn a_setting_that_is_let_and_does_what_is_predicted_proves_the_claim_and_leads_nowhere() {
    let path = SimulatedPath { settings: 1.5, ..SimulatedPath::default() };
    let (finding, reached) = tested(path, None, vec![polled()]).expect("it goes on");
    assert_eq!(finding.verdict, Verdict::Proven, "{finding:?}");
    assert!(reached.is_none(), "it was put back");
}

#[test]
fn a_setting_that_is_let_and_does_nothing_proves_nothing() {
    let (finding, _) = tested(SimulatedPath::default(), None, vec![polled()]).expect("it goes on");
    assert_ne!(finding.verdict, Verdict::Proven);
}

#[test]
fn pairs_that_are_interrupted_are_no_refusal() {
    let ended =
        tested(SimulatedPath::default(), Some(Trouble::Interrupted(3)), vec![polled()]).err();
    assert_eq!(ended, Some(With(Exit::Interrupted)));
}
