//! Mixes at fixed loads: trials wait for the load that each job reaches alone, and offer a share of
//! it.

use linerate_model::{Arm, OFFERED_AXIS, Ratio, Role, SATURATION};

use super::*;

const NEVER: Nanos = Nanos::from_secs(1_000_000);

/// Lists the trials of two streams, alone and together: twice at full speed, and once at half of
/// it. The latter are first in the list.
fn mix() -> Vec<TrialSpec> {
    fn measured(id: u32, jobs: &[u32], offered: Option<Ratio>) -> TrialSpec {
        let mut trial = trial(id, "a", "b");
        trial.jobs[0].workload = "tcp_stream".into();
        trial.jobs = jobs.iter().map(|_| trial.jobs[0].clone()).collect();
        let load = offered.map_or_else(|| SATURATION.to_owned(), |share| share.to_string());
        trial.point.insert(OFFERED_AXIS.into(), Value::from(load));
        let role = if jobs.len() > 1 { Role::Together } else { Role::Alone };
        let arm = Arm::new(format!("{jobs:?}"), role, Ratio(0.02));
        trial.arm = Some(Arm { jobs: jobs.to_vec(), offered, ..arm });
        trial
    }
    let half = Some(Ratio(0.5));
    vec![
        measured(6, &[0], half),
        measured(7, &[1], half),
        measured(8, &[0, 1], half),
        measured(0, &[0], None),
        measured(1, &[1], None),
        measured(2, &[0, 1], None),
        measured(3, &[0], None),
        measured(4, &[1], None),
        measured(5, &[0, 1], None),
    ]
}

/// Payload of each trial: the first stream reaches 10 and 30 MB alone, the second 2 and 2.
fn payload() -> Vec<u64> {
    [10, 2, 12, 30, 2, 32, 9, 1, 10].map(|megabytes| megabytes * 1_000_000).to_vec()
}

/// Returns the number of every chosen trial, and the offered bits per second of each of its jobs.
fn chosen(world: &World) -> Vec<(u32, Vec<f64>)> {
    fn offered(job: &JobSpec) -> f64 {
        let text = job.params.0["source_rate"]
            .as_str()
            .expect("a rate")
            .strip_suffix(" bit/s")
            .expect("in bits");
        text.parse().expect("a number")
    }
    fn of(event: &Event) -> Option<(u32, Vec<f64>)> {
        match event {
            Event::TrialChosen { trial } => {
                Some((trial.id.0, trial.jobs.iter().map(offered).collect()))
            }
            _ => None,
        }
    }
    world.events.iter().filter_map(of).collect()
}

#[test]
fn shares_of_the_loads_alone_are_offered_when_all_of_them_are_known() {
    let mut world = World::new();
    world.payload = payload();
    world.run(mix(), &HashSet::new(), NEVER);
    let ended: Vec<u32> = world.outcomes().into_iter().map(|(id, _)| id).collect();
    // Loads are known after the fifth trial alone. The other trials then take their places in the
    // list.
    assert_eq!(ended, [0, 1, 2, 3, 4, 6, 7, 8, 5]);
    // Half the median of both runs, over the five seconds of measurement.
    let half = |megabytes: f64| megabytes * 8e6 / 5.0 / 2.0;
    let near = |(load, wanted): (&f64, f64)| (load / wanted - 1.0).abs() < 0.25;
    let chosen = chosen(&world);
    let ids: Vec<u32> = chosen.iter().map(|(id, _)| *id).collect();
    assert_eq!(ids, [6, 7, 8]);
    assert!(chosen[2].1.iter().zip([half(20.0), half(2.0)]).all(near), "{chosen:?}");
    assert_eq!(
        [chosen[0].1[0], chosen[1].1[0]],
        [chosen[2].1[0], chosen[2].1[1]],
        "alone and together alike"
    );
    assert!((chosen[2].1[0] / chosen[2].1[1] - 10.0).abs() < 1e-6, "20 MB to 2: {chosen:?}");
    let planned = world.events.iter().find_map(|event| match event {
        Event::Planned { trials } => Some(trials.len()),
        _ => None,
    });
    assert_eq!((planned, world.summary().completed, world.summary().remaining), (Some(6), 9, 0));
}

#[test]
fn a_resumed_campaign_offers_the_same_loads_as_before() {
    let mut first = World::new();
    first.payload = payload();
    // Six of nine trials, of about nine seconds.
    first.run(mix(), &HashSet::new(), Nanos::from_secs(100 + 6 * 9 + 3));
    let mut killed = linerate_model::Campaign::new(header());
    first.events.iter().for_each(|event| killed.apply(event));
    let is_done = |(id, outcome): (u32, TrialOutcome)| {
        (outcome == TrialOutcome::Completed).then_some(TrialId(id))
    };
    let done: HashSet<TrialId> = first.outcomes().into_iter().filter_map(is_done).collect();
    assert!(
        done.contains(&TrialId(6)) && !done.contains(&TrialId(8)),
        "killed among those with loads: {done:?}"
    );
    let mut again = World::new();
    (again.payload, again.recorded) = (payload(), killed.trials);
    again.run(mix(), &done, NEVER);
    fn offered(world: &World) -> Vec<linerate_model::JobSpec> {
        let all = world.events.iter().flat_map(|event| match event {
            Event::Planned { trials } => trials.clone(),
            Event::TrialChosen { trial } => vec![(**trial).clone()],
            _ => Vec::new(),
        });
        all.filter(|trial| trial.id == TrialId(8))
            .map(|trial| trial.jobs)
            .next_back()
            .expect("it has its loads")
    }
    assert_eq!(offered(&again), offered(&first));
    let ran: Vec<u32> = again.outcomes().into_iter().map(|(id, _)| id).collect();
    assert_eq!(ran.len() + done.len(), 9, "{ran:?}");
}

#[test]
fn a_job_without_a_figure_alone_has_no_share_and_an_incident() {
    let mut world = World::new();
    world.run(mix(), &HashSet::new(), NEVER);
    assert_eq!(world.summary().completed, 6);
    let failures = world.incidents(IncidentKind::Failed);
    assert!(
        failures.iter().any(|(_, message)| message.contains("tcp_stream alone")),
        "{failures:?}"
    );
}
