//! Behaviour of the conductor in every failure.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use super::*;

const NEVER: Nanos = Nanos::from_secs(1_000_000);
use FaultKind::{Die, Elsewhere, Fail, Flood, Ignore, Stall};
use TrialOutcome::{Completed, Failed, Interrupted};

fn three() -> Vec<TrialSpec> {
    vec![trial(0, "a", "b"), trial(1, "a", "b"), trial(2, "a", "b")]
}

fn run_three(mut world: World) -> World {
    world.run(three(), &HashSet::new(), NEVER);
    world
}

#[test]
fn a_campaign_without_trouble_records_everything_in_order() {
    let mut world = World::new();
    world.run(vec![trial(4, "a", "b")], &HashSet::new(), NEVER);
    assert!(matches!(world.summary().exit, Exit::Completed));
    let tags: Vec<String> = world
        .events
        .iter()
        .map(|event| serde_json::to_value(event).unwrap()["event"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(
        tags,
        [
            "campaign_started",
            "host_joined",
            "host_joined",
            "planned",
            "trial_started",
            "intervals",
            "intervals",
            "flows_ended",
            "samples",
            "flows_ended",
            "samples",
            "barrier_passed",
            "clocks_compared",
            "trial_ended",
            "campaign_ended"
        ]
    );
}

#[test]
fn agents_report_counts_often_unless_their_reports_share_the_measured_path() {
    let during = Nanos::from_secs(104);
    for (testbed, often) in
        [(TestbedKind::Loopback, true), (TestbedKind::Lab, true), (TestbedKind::Hosts, false)]
    {
        let mut world = World::new();
        world.header.testbed = testbed;
        world.run(vec![trial(0, "a", "b")], &HashSet::new(), during);
        let asked = world.agents.iter().map(|agent| agent.prepared.as_ref().unwrap().counts_often);
        assert_eq!(asked.collect::<Vec<_>>(), [often; 2], "{testbed:?}");
    }
}

#[test]
fn a_trial_has_the_time_until_its_start_that_the_hosts_needed_in_the_one_before() {
    let leads = |needs: &[u64]| {
        let mut world = World::new();
        world.needs = needs.iter().copied().map(Nanos::from_millis).collect();
        // Fractions of a millisecond are for the way of the order.
        run_three(world).leads.iter().map(|lead| lead.0 / 1_000_000).collect::<Vec<_>>()
    };
    assert_eq!(leads(&[]), [250, 125, 62]);
    // Ready in 40 ms: four times that is kept.
    assert_eq!(leads(&[40, 40]), [250, 160, 160]);
    // A host that was suddenly slow has the most again.
    assert_eq!(leads(&[1, 90]), [250, 125, 250]);
}

#[test]
fn the_offset_of_each_clock_is_found_and_the_skew_between_the_ends_with_it() {
    let world = run_three(World::new());
    let offsets: Vec<(i64, u64)> = world
        .events
        .iter()
        .filter_map(|event| match event {
            Event::HostJoined(record) => {
                Some((record.clock_offset_ns, record.clock_uncertainty_ns))
            }
            _ => None,
        })
        .collect();
    assert_eq!(offsets, [(1_000_000_000_000, 100_000), (-50_000_000_000, 100_000)]);
    let passed =
        Event::BarrierPassed { trial: TrialId(0), skew_ns: 30_000, uncertainty_ns: 200_000 };
    assert_eq!(world.count(|event| *event == passed), 1);
}

#[test]
fn an_agent_that_dies_or_stalls_in_any_step_costs_one_trial() {
    // The second trial's messages; its pings are those after 8 at the start and 8 for the first
    // trial, and heartbeats.
    for (at, nth) in [("ping", 20), ("prepare", 1), ("connect", 1), ("start_at", 1)] {
        for kind in [Die, Stall] {
            for host in [0, 1] {
                let world = run_three(World::with_fault(host, Fault { at, nth, kind }));
                let outcomes = world.outcomes();
                let failed = outcomes.iter().filter(|(_, outcome)| *outcome == Failed).count();
                assert!(failed <= 1 && outcomes.len() == 3, "{at} {kind:?}: {outcomes:?}");
                if at != "ping" {
                    assert_eq!(
                        outcomes,
                        [(0, Completed), (1, Failed), (2, Completed)],
                        "{at} {kind:?}"
                    );
                    assert_eq!(
                        world.incidents(IncidentKind::AgentLost)[0].0,
                        Some(TrialId(1)),
                        "{at} {kind:?}"
                    );
                }
                assert!(matches!(world.summary().exit, Exit::Completed));
                assert_eq!(world.count(|event| matches!(event, Event::CampaignEnded { .. })), 1);
            }
        }
    }
}

#[test]
fn an_agent_that_does_not_answer_one_message_or_fails_costs_one_trial_and_keeps_its_session() {
    for (at, kind) in
        [("prepare", Ignore), ("connect", Ignore), ("start_at", Ignore), ("connect", Fail)]
    {
        let world = run_three(World::with_fault(1, Fault { at, nth: 1, kind }));
        assert_eq!(
            world.outcomes(),
            [(0, Completed), (1, Failed), (2, Completed)],
            "{at} {kind:?}"
        );
        assert_eq!(world.incidents(IncidentKind::Failed).len(), 1, "{at} {kind:?}");
        assert!(world.incidents(IncidentKind::AgentLost).is_empty(), "{at} {kind:?}");
    }
}

#[test]
fn an_offer_of_a_third_hosts_address_is_not_relayed_and_costs_the_trial() {
    let mut world = World::new();
    let fault = Fault { at: "prepare", nth: 1, kind: Elsewhere };
    world.agents[1].faults.push(fault);
    let world = run_three(world);
    assert_eq!(world.outcomes(), [(0, Completed), (1, Failed), (2, Completed)]);
    let said = world.incidents(IncidentKind::Failed);
    assert!(said.iter().any(|(_, message)| message.contains("offers 198.51.100.9")), "{said:?}");
    assert_eq!(
        world.agents[0].heard.get("connect"),
        Some(&2),
        "no host connects in the second trial"
    );
}

#[test]
fn an_agent_that_does_not_even_end_a_trial_loses_its_session() {
    let mut world = World::with_fault(1, Fault { at: "connect", nth: 0, kind: Ignore });
    world.agents[1].faults.push(Fault { at: "abort", nth: 0, kind: Ignore });
    let world = run_three(world);
    assert_eq!(world.outcomes(), [(0, Failed), (1, Completed), (2, Completed)]);
    assert_eq!(world.incidents(IncidentKind::AgentLost).len(), 1);
}

#[test]
fn trials_that_do_not_need_an_agent_that_stays_away_are_still_run() {
    let mut world = World::with_fault(1, Fault { at: "start_at", nth: 0, kind: Die });
    world.agents[1].away_for = u32::MAX;
    let trials = vec![trial(0, "a", "b"), trial(1, "a", "b"), trial(2, "a", "a")];
    let before = world.now;
    world.run(trials, &HashSet::new(), NEVER);
    assert_eq!(world.outcomes(), [(0, Failed), (2, Completed)]);
    let summary = world.summary();
    assert_eq!((summary.completed, summary.failed, summary.remaining), (1, 1, 1));
    assert!(matches!(
        &summary.exit,
        Exit::AgentLost(ControlError::AgentLost { host, .. }) if host == "b"
    ));
    assert_eq!(world.count(|event| matches!(event, Event::CampaignEnded { .. })), 0);
    assert!(world.now.since(before) < Nanos::from_secs(120), "{}", world.now.since(before));
}

#[test]
fn a_busy_agent_at_the_start_ends_it_before_anything_is_recorded() {
    let mut world = World::new();
    let busy = ControlError::Busy {
        host: "a".into(),
        by: "another".into(),
        since_s: 3,
        left_s: 0,
        ahead: 0,
    };
    world.agents[0].at_first = Some(busy);
    let world = run_three(world);
    assert!(matches!(world.result, Some(Err(ControlError::Busy { .. }))));
    assert!(world.events.is_empty());
}

#[test]
fn a_campaign_killed_at_any_second_resumes_with_what_is_left() {
    for second in 0..32 {
        let mut first = World::new();
        let until = first.now + Nanos::from_secs(second);
        first.run(three(), &HashSet::new(), until);
        let done: HashSet<TrialId> = first
            .outcomes()
            .iter()
            .filter(|(_, outcome)| *outcome == Completed)
            .map(|(id, _)| TrialId(*id))
            .collect();
        let mut second_run = World::new();
        second_run.run(three(), &done, NEVER);
        let mut ids: Vec<u32> = done
            .iter()
            .map(|id| id.0)
            .chain(second_run.outcomes().iter().map(|(id, _)| *id))
            .collect();
        ids.sort_unstable();
        assert_eq!(ids, [0, 1, 2], "killed after {second} s");
        assert!(matches!(second_run.summary().exit, Exit::Completed));
    }
}

#[test]
fn a_request_to_stop_interrupts_the_trial_and_keeps_the_rest() {
    let mut world = World::new();
    let in_second_trial = world.now + Nanos::from_secs(12);
    world.later(in_second_trial, Happening::Input(Input::Stop));
    let world = run_three(world);
    assert_eq!(world.outcomes(), [(0, Completed), (1, Interrupted)]);
    assert!(matches!(world.summary().exit, Exit::Interrupted));
    assert_eq!(world.summary().remaining, 1);
    assert!(world.now.since(in_second_trial) < Nanos::from_secs(1));
}

#[test]
fn a_full_disk_stops_the_campaign_cleanly() {
    let mut world = World::new();
    world.room = 6;
    let world = run_three(world);
    let Exit::RecorderFailed(error) = &world.summary().exit else {
        panic!("{:?}", world.summary())
    };
    assert!(error.to_string().contains("no space left"), "{error}");
    assert_eq!(world.summary().completed, 0);
}

#[test]
fn a_suspended_host_shows_as_a_clock_incident_of_the_next_trial() {
    let mut world = World::new();
    world.sleeps_after = Some(TrialId(0));
    let world = run_three(world);
    let incidents = world.incidents(IncidentKind::Clock);
    assert_eq!(incidents.len(), 1, "{incidents:?}");
    assert!(incidents[0].1.contains("-2000.000 ms"), "{incidents:?}");
    assert_eq!(incidents[0].0, Some(TrialId(1)));
}

#[test]
fn a_step_of_the_wall_clock_is_an_incident_and_nothing_else() {
    let mut world = World::new();
    let in_first_trial = world.now + Nanos::from_secs(3);
    world.later(in_first_trial, Happening::Input(Input::ClockStepped(-3_600_000_000_000)));
    let world = run_three(world);
    assert_eq!(world.incidents(IncidentKind::Clock)[0].0, Some(TrialId(0)));
    assert_eq!(world.outcomes(), [(0, Completed), (1, Completed), (2, Completed)]);
}

#[test]
fn a_background_job_that_starts_earlier_moves_the_barrier_back() {
    let mut early = trial(0, "a", "b");
    let background = Some(Background { start_ns: -3_000_000_000, duration: Nanos::from_secs(5) });
    early.jobs.push(JobSpec { background, ..early.jobs[0].clone() });
    let mut world = World::new();
    let before = world.now;
    world.run(vec![early], &HashSet::new(), NEVER);
    assert_eq!(world.outcomes(), [(0, Completed)]);
    // 3 s of lead, 6 s of load, 1 s of drain.
    assert!(world.now.since(before) > Nanos::from_secs(10));
}

#[test]
fn a_host_that_is_not_in_the_testbed_is_named() {
    let hosts = ["a".to_owned()];
    let trials = vec![trial(7, "a", "c")];
    let made = Conductor::new(
        header(),
        &hosts,
        trials,
        &HashSet::new(),
        RunOptions::default(),
        Box::new(|| [0; 16]),
    );
    let error = made.err().expect("host c is unknown").to_string();
    assert_eq!(error, "resolve host c of trial 7: not in the testbed (its hosts are a)");
}

fn any_fault() -> impl Strategy<Value = (usize, Fault)> {
    let at =
        prop::sample::select(vec!["ping", "prepare", "connect", "start_at", "abort", "goodbye"]);
    let kind = prop::sample::select(vec![Die, Stall, Ignore, Fail]);
    (0..2_usize, at, 0..24_u32, kind)
        .prop_map(|(host, at, nth, kind)| (host, Fault { at, nth, kind }))
}

proptest! {
    #[test]
    fn whatever_agents_do_every_trial_begun_ends_once_and_the_campaign_ends(
        faults in prop::collection::vec(any_fault(), 0..6),
        away_for in 0..20_u32,
        stop_after in prop::option::of(0..60_u64),
    ) {
        let mut world = World::new();
        for (host, fault) in faults {
            world.agents[host].faults.push(fault);
        }
        world.agents[1].away_for = away_for;
        if let Some(seconds) = stop_after {
            let at = world.now + Nanos::from_secs(seconds);
            world.later(at, Happening::Input(Input::Stop));
        }
        let limit = world.now + Nanos::from_secs(1000);
        world.run(three(), &HashSet::new(), limit);
        prop_assert!(world.result.is_some(), "it does not end");
        let mut open = None;
        for event in &world.events {
            match event {
                Event::TrialStarted { trial, .. } => {
                    prop_assert_eq!(open, None);
                    open = Some(*trial);
                }
                Event::TrialEnded { trial, .. } => {
                    prop_assert_eq!(open, Some(*trial));
                    open = None;
                }
                Event::Intervals { trial, .. }
                | Event::FlowsEnded { trial, .. }
                | Event::Samples { trial, .. } => {
                    prop_assert_eq!(open, Some(*trial));
                }
                _ => {}
            }
        }
        prop_assert_eq!(open, None);
        let n_ended = world.count(|event| matches!(event, Event::CampaignEnded { .. }));
        prop_assert!(n_ended <= 1);
        if let Some(Ok(summary)) = &world.result {
            let ends = summary.completed + summary.failed + summary.interrupted + summary.remaining;
            prop_assert_eq!(ends, 3);
        }
    }
}

/// Lists all possible runs of two points, in turn; looks are due after 6, 8 and 10 runs.
fn looked_at() -> Vec<TrialSpec> {
    let until = Until { within: Ratio(0.02), of: None, looks: vec![6, 8, 10] };
    let run = |number: u32| {
        let mut trial = trial(number, "a", "b");
        (trial.sweep, trial.repeat) = (format!("point {}", number % 2), number / 2);
        trial.until = Some(Box::new(until.clone()));
        trial
    };
    (0..20).map(run).collect()
}

/// Payload of each run: the first point hardly varies, the second by a tenth.
fn payload() -> Vec<u64> {
    (0..20_u32)
        .map(|number| {
            if number % 2 == 0 {
                1_000_000 + u64::from(number)
            } else {
                1_000_000 + 10_000 * u64::from(number % 11)
            }
        })
        .collect()
}

#[test]
fn a_steady_point_ends_at_the_first_look_and_a_noisy_one_continues_to_the_limit() {
    let mut world = World::new();
    world.payload = payload();
    world.run(looked_at(), &HashSet::new(), NEVER);
    let planned = world.events.iter().find_map(|event| match event {
        Event::Planned { trials } => Some(trials.len()),
        _ => None,
    });
    let chosen: Vec<u32> = world
        .events
        .iter()
        .filter_map(|event| match event {
            Event::TrialChosen { trial } => Some(trial.id.0),
            _ => None,
        })
        .collect();
    assert_eq!((planned, chosen), (Some(12), vec![13, 15, 17, 19]), "only the noisy point goes on");
    let looks: Vec<(u32, bool, usize)> = world
        .looks
        .iter()
        .map(|(runs, width, more)| (*runs, width.expect("an interval") <= 0.02, *more))
        .collect();
    assert_eq!(looks, [(6, true, 0), (6, false, 2), (8, false, 2), (10, false, 0)]);
    assert_eq!((world.summary().completed, world.summary().remaining), (16, 0));
}

#[test]
fn a_point_whose_runs_scatter_too_much_ends_before_the_limit() {
    let mut world = World::new();
    // Alternating by half: 53 % after ten runs.
    world.payload =
        (0..30).map(|number| if number % 2 == 0 { 500_000 } else { 1_500_000 }).collect();
    let until = Until { within: Ratio(0.02), of: None, looks: vec![6, 10, 15] };
    let run = |number: u32| {
        let mut trial = trial(number, "a", "b");
        (trial.sweep, trial.repeat) = ("point".to_owned(), number);
        trial.until = Some(Box::new(until.clone()));
        trial
    };
    world.run((0..15).map(run).collect(), &HashSet::new(), NEVER);
    let looks: Vec<(u32, usize)> =
        world.looks.iter().map(|(runs, _, more)| (*runs, *more)).collect();
    assert_eq!(looks, [(6, 4), (10, 0)], "the last five of the fifteen are not chosen");
    assert_eq!((world.summary().completed, world.summary().remaining), (10, 0));
}

#[test]
fn a_campaign_killed_between_looks_continues_as_it_would_have() {
    let mut whole = World::new();
    whole.payload = payload();
    whole.run(looked_at(), &HashSet::new(), NEVER);
    let ran = |world: &World| world.outcomes().into_iter().map(|(id, _)| id).collect::<Vec<_>>();
    let mut first = World::new();
    first.payload = payload();
    // Fourteen of sixteen trials, of about nine seconds.
    first.run(looked_at(), &HashSet::new(), Nanos::from_secs(100 + 14 * 9));
    let mut killed = linerate_model::Campaign::new(header());
    first.events.iter().for_each(|event| killed.apply(event));
    let done: HashSet<TrialId> = first
        .outcomes()
        .into_iter()
        .filter(|(_, outcome)| *outcome == Completed)
        .map(|(id, _)| TrialId(id))
        .collect();
    assert!(done.len() > 12 && done.len() < 16, "killed between looks: {}", done.len());
    let mut again = World::new();
    (again.payload, again.recorded) = (payload(), killed.trials);
    again.run(looked_at(), &done, NEVER);
    let both: Vec<u32> = done.iter().map(|id| id.0).chain(ran(&again)).collect();
    let sorted = |mut ids: Vec<u32>| {
        ids.sort_unstable();
        ids
    };
    assert_eq!(sorted(both), sorted(ran(&whole)));
    assert_eq!(
        again.looks,
        whole.looks[whole.looks.len() - again.looks.len()..],
        "looks taken before are not taken again"
    );
}

#[test]
fn runs_without_a_figure_do_not_narrow_an_interval() {
    let mut world = World::new();
    world.run(
        looked_at().into_iter().filter(|trial| trial.sweep == "point 0").collect(),
        &HashSet::new(),
        NEVER,
    );
    assert_eq!(world.looks, [(6, None, 2), (8, None, 2), (10, None, 0)]);
}

#[test]
fn a_host_that_reports_without_end_is_cut_off_and_costs_one_trial() {
    let fault = Fault { at: "start_at", nth: 1, kind: Flood };
    let world = run_three(World::with_fault(1, fault));
    assert_eq!(world.outcomes(), [(0, Completed), (1, Failed), (2, Completed)]);
    let lost = world.incidents(IncidentKind::AgentLost);
    let why =
        "lost the agent: it reported 501 incidents of one trial, more than the 500 allowed so far";
    assert_eq!(lost, [(Some(TrialId(1)), why.to_owned())]);
    assert_eq!(world.incidents(IncidentKind::Failed).len(), 500);
}

#[test]
fn a_pause_lets_the_present_trial_end_and_holds_the_next_one_without_a_busy_wait() {
    let (begun, over) = (Nanos::from_secs(102), Nanos::from_secs(1_102));
    let started = |world: &World| -> Vec<u64> {
        let at = world.events.iter().filter_map(|event| match event {
            Event::TrialStarted { at, .. } => Some(at.since(WALL).0 / 1_000_000_000),
            _ => None,
        });
        at.collect()
    };
    let mut world = World::new();
    world.later(begun, Happening::Input(Input::Pause(true)));
    world.later(over, Happening::Input(Input::Pause(false)));
    let world = run_three(world);
    assert_eq!(world.summary().completed, 3);
    let [first, second, third] = started(&world)[..] else { panic!("three trials") };
    assert!(first < 102 && second == 1_102 && third < 1_120, "{first} {second} {third}");
    // Each message and wake-up has a number: heartbeats go on, and little else does.
    assert!(world.n_steps < 5_000, "{} steps", world.n_steps);

    let mut world = World::new();
    world.later(begun, Happening::Input(Input::Pause(true)));
    world.later(over, Happening::Input(Input::Stop));
    let world = run_three(world);
    assert!(matches!(world.summary().exit, Exit::Interrupted), "a pause can be ended");
    assert_eq!((world.summary().completed, started(&world).len()), (1, 1));
}
