//! Jobs alone and together: what is left of each, and what they share, with known answers.

use linerate_analysis::{Cause, MatrixVerdict, MemoryDirection, Mix, Study, study};
use linerate_model::{
    Arm, Campaign, Counter, JobRecord, JobSpec, Point, Ratio, Role, TestbedKind, TrialId,
    TrialRecord,
};
use serde_json::json;

use crate::fixture::{campaign, endpoint, gigabit, job, steady, trial};

const ROUNDS: u32 = 6;

fn disk() -> JobSpec {
    JobSpec {
        workload: "storage".into(),
        from: endpoint("a", "left"),
        to: endpoint("b", "right"),
        ..JobSpec::default()
    }
}

/// A disk that reads or writes this many bytes a second, with its worker without a CPU for part of
/// the time.
fn storage(counter: Counter, bytes: u64, waited_ns: u64) -> (JobRecord, JobRecord) {
    let ends = if counter == Counter::BytesRead { Counter::Reads } else { Counter::Writes };
    let counts = [
        (counter, bytes),
        (ends, bytes / 4096),
        (Counter::RunQueueWait, waited_ns),
        (Counter::Steps, 1000),
    ];
    (steady(&counts), steady(&[]))
}

/// A stream out of `a` that delivers this many bytes a second.
fn sent(bytes: u64) -> (JobRecord, JobRecord) {
    (steady(&[(Counter::PayloadSent, bytes)]), steady(&[(Counter::PayloadReceived, bytes)]))
}

/// A stream into `a`.
fn received(bytes: u64) -> (JobRecord, JobRecord) {
    let (sender, receiver) = sent(bytes);
    (receiver, sender)
}

type Ends = (JobRecord, JobRecord);

/// One point: two jobs, what they did alone and what together, the same in each round but for a
/// little noise.
fn point(
    first_id: u32,
    at: Point,
    jobs: [JobSpec; 2],
    alone: [&dyn Fn(f64) -> Ends; 2],
    both: &dyn Fn(f64) -> [Ends; 2],
) -> Vec<TrialRecord> {
    let mut trials = Vec::new();
    for round in 0..ROUNDS {
        let noise = 1.0 + 0.001 * f64::from(round % 3);
        let arms: [(&str, Role, Vec<u32>, Vec<Ends>); 3] = [
            ("first alone", Role::Alone, vec![0], vec![alone[0](1.0)]),
            ("second alone", Role::Alone, vec![1], vec![alone[1](1.0)]),
            ("together", Role::Together, vec![0, 1], both(noise).to_vec()),
        ];
        for (arm, (name, role, numbers, ends)) in (0..).zip(arms) {
            let specs = numbers.iter().map(|number| jobs[*number as usize].clone()).collect();
            let mut trial = trial(first_id + arm * ROUNDS + round, specs);
            trial.spec.repeat = round;
            trial.spec.point = at.clone();
            trial.spec.point.insert("arm".into(), json!(name));
            trial.spec.arm = Some(Arm { jobs: numbers, ..Arm::new(name, role, Ratio(0.02)) });
            trial.spec.id = TrialId(first_id + arm * ROUNDS + round);
            trial.jobs = ends;
            trials.push(trial);
        }
    }
    trials
}

fn one(study: &Study) -> &Mix {
    assert_eq!(study.mixes.len(), 1);
    &study.mixes[0]
}

fn times(bytes: f64, noise: f64) -> u64 {
    (bytes * noise) as u64
}

fn measured(trials: Vec<TrialRecord>) -> Campaign {
    campaign(TestbedKind::Lab, [json!({}), json!({})], trials)
}

#[test]
fn what_is_left_of_a_disk_and_a_stream_adds_up_to_the_joint_efficiency() {
    let jobs = [disk(), job("tcp_stream", "a", "b")];
    let alone: [&dyn Fn(f64) -> Ends; 2] =
        [&|_| storage(Counter::BytesRead, 400_000_000, 0), &|_| sent(100_000_000)];
    let trials = point(0, Point::new(), jobs, alone, &|noise| {
        [storage(Counter::BytesRead, times(300e6, noise), 0), sent(times(50e6, noise))]
    });
    let study = study(&measured(trials));
    let mix = one(&study);
    let joint = mix.joint.as_ref().expect("every round has figures");
    assert!((joint.value - 1.25).abs() < 0.005, "{joint:?}");
    assert!(
        joint.interval.is_some_and(|(low, high)| low <= joint.value && joint.value <= high)
            && joint.n == 6
    );
    assert_eq!(
        mix.jobs.iter().map(|job| job.main.metric.to_string()).collect::<Vec<_>>(),
        ["transfer_rate", "goodput"]
    );
    assert_eq!(mix.jobs[0].ways, [("left".to_owned(), MemoryDirection::Up)]);
    assert_eq!(
        mix.jobs[1].ways,
        [("left".to_owned(), MemoryDirection::Down), ("right".to_owned(), MemoryDirection::Up)]
    );
    assert!(mix.jobs.iter().all(|job| job.lost()));
    assert_eq!(mix.attribution.cause, Cause::Unknown, "nothing was counted that explains it");
    assert_eq!(study.comparisons.len(), 2, "each job alone against itself among all");
}

#[test]
fn a_worker_without_a_cpu_for_what_its_job_lost_is_evidence_of_a_shared_cpu() {
    let jobs = [disk(), job("tcp_stream", "a", "b")];
    let of = |waited: u64| {
        let alone: [&dyn Fn(f64) -> Ends; 2] =
            [&|_| storage(Counter::BytesRead, 400_000_000, 0), &|_| sent(100_000_000)];
        let trials = point(0, Point::new(), jobs.clone(), alone, &|noise| {
            [storage(Counter::BytesRead, times(200e6, noise), waited), sent(100_000_000)]
        });
        one(&study(&measured(trials))).attribution.cause.clone()
    };
    assert_eq!(of(480_000_000), Cause::Cpu);
    assert_eq!(
        of(100_000_000),
        Cause::Unknown,
        "a tenth of the time does not explain a loss of half"
    );
}

#[test]
fn jobs_that_fill_a_known_edge_together_share_it_and_those_that_keep_all_share_nothing() {
    let jobs = || [job("tcp_stream", "a", "b"), job("tcp_stream", "c", "d")];
    let alone: [&dyn Fn(f64) -> Ends; 2] = [&|_| sent(116_000_000), &|_| sent(116_000_000)];
    let of = |bytes: f64, pairs: &[&[(&str, &str)]]| {
        let trials = point(0, Point::new(), jobs(), alone, &|noise| {
            [sent(times(bytes, noise)), sent(times(bytes, noise))]
        });
        let mut campaign = measured(trials);
        campaign.header.capacities = pairs.iter().map(|pairs| gigabit(pairs)).collect();
        let study = study(&campaign);
        let mix = one(&study);
        (mix.attribution.cause.clone(), mix.joint.as_ref().expect("figures").value)
    };
    let (cause, joint) = of(58e6, &[&[("a", "b"), ("c", "d")]]);
    assert!(matches!(&cause, Cause::Edge(name) if name.contains("link")), "{cause:?}");
    assert!((joint - 1.0).abs() < 0.005);
    let (cause, joint) = of(115.9e6, &[&[("a", "b")], &[("c", "d")]]);
    assert_eq!(cause, Cause::Nothing);
    assert!((joint - 2.0).abs() < 0.005);
    let (cause, _) = of(58e6, &[&[("a", "b")], &[("c", "d")]]);
    assert_eq!(
        cause,
        Cause::Unknown,
        "half of each is gone, and the edges they cross are not shared"
    );
}

#[test]
fn the_same_way_only_is_told_from_all_ways_alike() {
    type Made = fn(u64) -> Ends;
    let disk_read: Made = |bytes| storage(Counter::BytesRead, bytes, 0);
    let disk_write: Made = |bytes| storage(Counter::BytesWritten, bytes, 0);
    let of = |crossing: f64| {
        let mut trials = Vec::new();
        for (number, (read, send)) in
            [(true, true), (true, false), (false, true), (false, false)].into_iter().enumerate()
        {
            let (disk_of, net_of): (Made, Made) =
                (if read { disk_read } else { disk_write }, if send { sent } else { received });
            let left = if read == send { crossing } else { 0.5 };
            let at = Point::from([
                ("read".to_owned(), json!(read)),
                ("direction".to_owned(), json!(send)),
            ]);
            let jobs = [disk(), job("tcp_stream", "a", "b")];
            let alone: [&dyn Fn(f64) -> Ends; 2] =
                [&|_| disk_of(400_000_000), &|_| net_of(100_000_000)];
            trials.extend(point(number as u32 * 100, at, jobs, alone, &|noise| {
                [disk_of(times(400e6 * left, noise)), net_of(times(100e6 * left, noise))]
            }));
        }
        let study = study(&measured(trials));
        assert_eq!(study.matrices.len(), 1, "{:?}", study.matrices);
        let matrix = &study.matrices[0];
        assert_eq!((matrix.cells.len(), matrix.host.as_str()), (4, "left"));
        matrix.says
    };
    assert_eq!(of(1.0), MatrixVerdict::EachWay, "read and receive lose, read and send do not");
    assert_eq!(of(0.5), MatrixVerdict::Undirected);
}
