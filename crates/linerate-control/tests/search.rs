//! Searches through the conductor and the in-process agent: chosen one by one, recorded, and
//! continued from the record.

use linerate_analysis::{SearchTrial, study};
use linerate_control::{CampaignRun, Exit, run};
use linerate_model::{
    Campaign, Event, Goal, Method, Nanos, Purpose, Search, Searched, TrialId, TrialOutcome,
    TrialSpec, Validity,
};
use serde_json::json;

use crate::common::{self, campaign, endpoint, job, trial};

/// Plans a search for the zero-loss rate of loopback, up to 2000 datagrams a second, which it
/// carries.
fn planned(id: u32) -> TrialSpec {
    let udp = job(
        "udp_stream",
        endpoint("a", None),
        endpoint("b", None),
        json!({ "datagram_size": "64 B" }),
    );
    let goal = Goal {
        initial_trial: Nanos::from_millis(100),
        ..Goal::strict("RFC 2544", 0.05, Nanos::from_millis(200))
    };
    let search = Search {
        warmup: Nanos::from_millis(100),
        self_test: Nanos::from_millis(100),
        max_trials: 20,
        max_duration: Nanos::from_secs(60),
        ..Search::of_rates([100.0, 2_000.0], "the plan", Method::Halving { goal, repeats: 0 })
    };
    TrialSpec {
        search: Some(Box::new(Searched { search, step: None, number: 0 })),
        ..trial(id, vec![udp])
    }
}

fn conducted(run_of: CampaignRun) -> (Campaign, Vec<Event>) {
    let header = run_of.header.clone();
    let mut recorder = common::Recorded::default();
    let summary = run(run_of, &mut recorder, &mut |_| {}).expect("the host is here");
    assert!(matches!(summary.exit, Exit::Completed), "{summary:?}");
    let mut campaign = Campaign::new(header);
    recorder.events.iter().for_each(|event| campaign.apply(event));
    (campaign, recorder.events)
}

/// Returns the purpose and load of each trial.
fn steps(campaign: &Campaign) -> Vec<(Purpose, f64)> {
    let step = |trial: &linerate_model::TrialRecord| {
        trial.spec.search.as_ref().and_then(|searched| searched.step)
    };
    campaign.trials.iter().filter_map(step).map(|step| (step.purpose, step.load)).collect()
}

/// Does the same, and merges repeats of a trial that the machine made invalid.
fn purposes(campaign: &Campaign) -> Vec<(Purpose, f64)> {
    let mut asked = steps(campaign);
    asked.dedup();
    asked
}

#[test]
fn a_search_chooses_its_trials_one_by_one_and_its_record_is_judged() {
    let (campaign, _) = conducted(campaign(vec![planned(0)]));
    let asked = purposes(&campaign);
    let tests = asked.iter().take_while(|(purpose, _)| *purpose == Purpose::SelfTest).count();
    assert_eq!(asked[0], (Purpose::SelfTest, 4_000.0), "{asked:?}");
    assert!(campaign.trials.iter().all(|trial| trial.outcome == Some(TrialOutcome::Completed)));
    let study = study(&campaign);
    assert!(study.points.is_empty(), "searched trials are not repeats of each other");
    let run = &study.searches[0].runs[0];
    // The result of the self-test is the highest load from then on.
    let Some(tester) = run.tester else {
        assert!(run.trials.iter().all(|trial| trial.purpose == Purpose::SelfTest), "{run:?}");
        println!(
            "skipped: a_search_chooses_its_trials_one_by_one_and_its_record_is_judged: no load \
                passed the self-test"
        );
        return;
    };
    let most = tester.min(2_000.0);
    assert_eq!(asked[tests], (Purpose::WarmUp, most), "{asked:?}");
    assert!(asked[tests + 1..].iter().all(|(purpose, _)| *purpose == Purpose::Load), "{asked:?}");
    assert!(tests > 1 || tester == 4_000.0, "{asked:?}");
    let first = run
        .trials
        .iter()
        .find(|trial| trial.purpose == Purpose::Load)
        .expect("it went on to search");
    let full = most * 0.1;
    let least = if first.validity == Validity::Invalid { 1.0 } else { 0.975 * full };
    assert!((least..=1.03 * full).contains(&(first.sent as f64)), "{first:?}");
    // The machine may be busy. Then losses determine the result, or the search ends without one
    // after invalid trials, each of which has a reason.
    let found = &run.found[0].strict;
    let spoilt = |trial: &SearchTrial| trial.validity == Validity::Invalid && !trial.why.is_empty();
    assert!(
        found.lower.is_some()
            || found.upper.is_some()
            || run.trials.iter().rev().take(4).all(spoilt),
        "{run:?}"
    );
}

#[test]
fn a_search_continues_from_its_record() {
    let (whole, _) = conducted(campaign(vec![planned(0)]));
    let mut again = campaign(vec![planned(0)]);
    again.recorded = whole.trials[..2].to_vec();
    again.done = [TrialId(0), whole.trials[1].spec.id].into();
    let (rest, events) = conducted(again);
    let started: Vec<TrialId> = events
        .iter()
        .filter_map(|event| match event {
            Event::TrialStarted { trial, .. } => Some(*trial),
            _ => None,
        })
        .collect();
    assert!(
        !started.contains(&TrialId(0)) && !started.contains(&whole.trials[1].spec.id),
        "{started:?}"
    );
    // The third trial follows from the two recorded ones, whatever their results.
    assert_eq!(steps(&rest)[..3], steps(&whole)[..3], "{:?}", steps(&rest));
    let Some(Event::Planned { trials }) =
        events.iter().find(|event| matches!(event, Event::Planned { .. }))
    else {
        panic!("{events:?}")
    };
    assert_eq!(trials.len(), 2, "recorded trials are kept");
}
