//! Campaigns on this process's own agent, end to end through the codec: real engines, real sockets
//! on loopback.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::net::{IpAddr, Ipv4Addr};

use linerate_control::{Exit, run};
use linerate_model::{Background, Counter, Event, HostAddress, Nanos, Side, TrialOutcome};
use serde_json::json;

use crate::common::{Recorded, campaign, endpoint, job, run_until, trial};

#[test]
fn a_null_trial_runs_from_plan_to_record() {
    let null = |load: Nanos| {
        let mut trial =
            trial(0, vec![job("null", endpoint("a", None), endpoint("b", None), json!({}))]);
        trial.phases.measure = load;
        campaign(vec![trial])
    };
    let (summary, recorded) =
        run_until(null, |recorded| recorded.total(0, Side::Active, Counter::Steps) > 0);
    assert!(matches!(summary.exit, Exit::Completed), "{summary:?} {:?}", recorded.incidents());
    assert_eq!(
        (summary.completed, summary.failed, summary.remaining),
        (1, 0, 0),
        "{:?}",
        recorded.incidents()
    );
    // A busy machine starts late, which is an incident.
    let mut names = recorded.names_once();
    names.retain(|name| name != "incident");
    assert_eq!(
        names,
        [
            "campaign_started",
            "host_joined",
            "planned",
            "trial_started",
            "intervals",
            "flows_ended",
            "samples",
            "barrier_passed",
            "trial_ended",
            "campaign_ended"
        ]
    );
    let mut shown = 0;
    run(null(Nanos::from_millis(100)), &mut Recorded::default(), &mut |_| shown += 1)
        .expect("as before");
    assert!(shown >= 4, "{shown} progress events");
}

#[test]
fn a_tcp_stream_delivers_exactly_the_bytes_that_were_sent() {
    let loopback = Some(IpAddr::V4(Ipv4Addr::LOCALHOST));
    let stream = |load: Nanos| {
        let (a, b) = (endpoint("a", loopback), endpoint("b", loopback));
        let mut trial = trial(0, vec![job("tcp_stream", a, b, json!({}))]);
        // The drain ends when all bytes have arrived.
        (trial.phases.measure, trial.phases.drain) = (load, Nanos::from_secs(20));
        campaign(vec![trial])
    };
    let received =
        |recorded: &Recorded| recorded.flow_total(0, Side::Passive, Counter::PayloadReceived);
    let (summary, recorded) = run_until(stream, |recorded| received(recorded) > 0);
    assert_eq!(summary.completed, 1, "{:?}", recorded.incidents());
    let sent = recorded.flow_total(0, Side::Active, Counter::PayloadSent);
    assert_eq!(sent, received(&recorded));
    let ends = recorded.events.iter().filter(|event| {
        matches!(event, Event::TrialEnded { outcome: TrialOutcome::Completed, .. })
    });
    assert_eq!(ends.count(), 1);
}

#[test]
fn two_hosts_and_a_background_job_that_starts_earlier_share_one_time_axis() {
    let loopback = Some(IpAddr::V4(Ipv4Addr::LOCALHOST));
    let both = |load: Nanos| {
        let (a, mut b) = (endpoint("a", loopback), endpoint("b", loopback));
        b.host = "there".into();
        let mut background = job("tcp_stream", a.clone(), b.clone(), json!({}));
        background.background =
            Some(Background { start_ns: -200_000_000, duration: Nanos::from_secs(20) });
        let mut trial = trial(0, vec![job("tcp_stream", a, b, json!({})), background]);
        trial.phases.measure = load;
        let mut campaign = campaign(vec![trial]);
        campaign.testbed.hosts.push(("there".into(), HostAddress::InProcess));
        campaign
    };
    // Counts before the barrier are in the totals, but not on the time axis.
    let on_axis = |recorded: &Recorded| recorded.total(1, Side::Passive, Counter::PayloadReceived);
    let in_all =
        |recorded: &Recorded| recorded.flow_total(1, Side::Passive, Counter::PayloadReceived);
    let are_apart =
        |recorded: &Recorded| on_axis(recorded) > 0 && on_axis(recorded) < in_all(recorded);
    let (summary, recorded) = run_until(both, are_apart);
    assert_eq!(summary.completed, 1, "{:?}", recorded.incidents());
    for event in &recorded.events {
        if let Event::Intervals { job, intervals, .. } = event {
            assert!(intervals.iter().all(|interval| interval.start < interval.end), "job {job}");
        }
    }
    // Both hosts are in this process: one clock, exactly.
    assert!(
        recorded
            .events
            .iter()
            .any(|event| matches!(event, Event::BarrierPassed { uncertainty_ns: 0, .. }))
    );
}

#[test]
fn a_recorder_that_is_full_stops_the_campaign_and_nothing_more_is_recorded() {
    let (a, b) = (endpoint("a", None), endpoint("b", None));
    let trials = vec![
        trial(0, vec![job("null", a.clone(), b.clone(), json!({}))]),
        trial(1, vec![job("null", a, b, json!({}))]),
    ];
    let mut recorded = Recorded { room: Some(5), ..Recorded::default() };
    let summary =
        run(campaign(trials), &mut recorded, &mut |_| {}).expect("the agent is in this process");
    let Exit::RecorderFailed(error) = &summary.exit else { panic!("{summary:?}") };
    assert!(error.to_string().contains("no space left"), "{error}");
    assert_eq!(recorded.events.len(), 5);
}
