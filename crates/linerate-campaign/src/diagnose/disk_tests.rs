//! The ladder of `diagnose --workload storage`, in virtual time: queue depths that limit a disk or
//! do not, noise, interruptions, and hosts that go away.

use linerate_control::conductor::simulated::Leaving;
use linerate_model::{Nanos, Verdict};

use super::*;
use crate::simulated::{FREE, SeenDisk, SimulatedBench, SimulatedDisk, Trouble};
use crate::{Ended, Exit};

const SCOUT: &str = "limit-1-disk_depth-scout-1";
const PAIRS: &str = "limit-1-disk_depth";

fn question(depth: u32) -> Question {
    Question {
        workload: STORAGE.into(),
        params: vec!["target=\"/dev/shm\"".into(), format!("depth={depth}")],
        pairs: 6,
        seconds: 1.0,
        omit: 0.5,
        seed: 1,
    }
}

fn climbed(bench: &SimulatedBench, depth: u32) -> Result<Vec<Rung>, Ended> {
    climb(bench, Load::new(&question(depth), "a".into(), "b".into())?, 4, Nanos::from_secs(3600))
}

fn rungs(disk: SimulatedDisk, depth: u32) -> Vec<Rung> {
    climbed(&SimulatedBench::new(disk), depth).expect("every stage ends")
}

fn leading(rung: &Rung) -> (&str, Verdict) {
    let first = rung.findings.first().expect("never empty");
    (&first.rule, first.verdict)
}

fn proven(rungs: &[Rung]) -> usize {
    rungs.iter().filter(|rung| leading(rung) == ("disk_depth", Verdict::Proven)).count()
}

/// Returns whether the depth was suspected and put to the test.
fn is_tested(rungs: &[Rung]) -> bool {
    let of_depth = rungs[0].findings.iter().find(|finding| finding.rule == "disk_depth");
    of_depth.is_some_and(|finding| !finding.experiments.is_empty())
}

#[test]
fn a_depth_that_limits_is_proven_and_doubled_until_the_disk_is_full() {
    // 4 in flight of 100 us are 40,000 a second; the disk is full at 150,000.
    let rungs = rungs(SimulatedDisk::default(), 4);
    assert_eq!(proven(&rungs), 2, "40,000 to 80,000 to 150,000: {rungs:?}");
    assert_eq!(rungs[0].metric, linerate_model::metric::IOPS);
    assert!((rungs[0].goodput / 40_000.0 - 1.0).abs() < 0.02, "{}", rungs[0].goodput);
    let last = rungs.last().expect("a limit");
    assert_ne!(last.findings[0].verdict, Verdict::Proven, "nothing lifts a full disk: {last:?}");
    assert_eq!(exit_of(&rungs), Exit::Done);
}

#[test]
fn a_depth_that_makes_no_difference_is_not_proven() {
    let disk = SimulatedDisk { follows: false, ..SimulatedDisk::default() };
    let rungs = rungs(disk, 4);
    assert_eq!((proven(&rungs), exit_of(&rungs)), (0, Exit::Missed), "{rungs:?}");
    assert!(is_tested(&rungs), "{rungs:?}");
}

#[test]
fn a_queue_that_is_not_full_is_not_suspected() {
    let disk = SimulatedDisk { used: 0.3, ..SimulatedDisk::default() };
    let bench = SimulatedBench::new(disk);
    let rungs = climbed(&bench, 4).expect("every stage ends");
    assert!(rungs.iter().all(|rung| leading(rung).0 != "disk_depth"), "{rungs:?}");
    assert!((rungs[0].goodput / 40_000.0 - 1.0).abs() < 0.02, "it was measured: {rungs:?}");
    assert_eq!(bench.names(), ["baseline"]);
}

#[test]
fn noise_hides_a_depth_and_never_makes_one() {
    for seed in 0..6 {
        let disk = SimulatedDisk { follows: false, noise: 0.5, seed, ..SimulatedDisk::default() };
        let rungs = rungs(disk, 4);
        assert!(proven(&rungs) == 0 && is_tested(&rungs), "seed {seed}: {rungs:?}");
    }
}

#[test]
fn where_the_placebo_works_no_depth_is_proven() {
    let disk = SimulatedDisk { placebo: 2.0, ..SimulatedDisk::default() };
    let rungs = rungs(disk, 4);
    assert!(proven(&rungs) == 0 && is_tested(&rungs), "{rungs:?}");
}

#[test]
fn an_interrupted_stage_ends_it_as_interrupted() {
    for (stage, trial) in [("baseline", 1), (SCOUT, 0), (PAIRS, 0), (PAIRS, 9)] {
        let bench =
            SimulatedBench::new(SimulatedDisk::default()).with(stage, Trouble::Interrupted(trial));
        assert_eq!(climbed(&bench, 4).err(), Some(Ended::With(Exit::Interrupted)), "{stage}");
    }
}

#[test]
fn an_agent_that_refuses_to_begin_ends_it() {
    for stage in ["baseline", SCOUT, PAIRS] {
        let bench =
            SimulatedBench::new(SimulatedDisk::default()).with(stage, Trouble::Busy(usize::MAX));
        let Err(Ended::Failed(failure)) = climbed(&bench, 4) else { panic!("{stage}") };
        assert_eq!(failure.exit(), Exit::Missing, "{stage}");
    }
}

#[test]
fn a_host_that_comes_back_costs_a_pair_and_one_that_stays_away_the_rest() {
    let leaves = |away_for| Trouble::Leaves(Leaving { host: 1, trial: 4, away_for });
    let back = SimulatedBench::new(SimulatedDisk::default()).with(PAIRS, leaves(2));
    assert!(!climbed(&back, 4).expect("it goes on").is_empty());
    let gone = SimulatedBench::new(SimulatedDisk::default()).with(PAIRS, leaves(u32::MAX));
    let Err(Ended::Failed(failure)) = climbed(&gone, 4) else { panic!("it stays away") };
    assert_eq!(failure.exit(), Exit::Missing);
}

/// A disk of 1 ms and 20,000 transfers a second, as the samplers see it.
fn seen(seen: SeenDisk) -> SimulatedDisk {
    SimulatedDisk { latency: 1e-3, most: 20_000.0, seen: Some(seen), ..SimulatedDisk::default() }
}

#[test]
fn a_full_disk_is_proven_by_transfers_that_take_twice_as_long() {
    let rungs = rungs(seen(FREE), 64);
    assert_eq!(leading(&rungs[0]), ("disk_full", Verdict::Proven), "{rungs:?}");
    let noisy = SimulatedDisk { placebo: 2.0, ..seen(FREE) };
    let rungs = self::rungs(noisy, 64);
    assert_eq!(leading(&rungs[0]), ("disk_full", Verdict::Suspected), "a placebo that works");
}

#[test]
fn a_disk_with_room_is_not_full() {
    let rungs = rungs(seen(FREE), 4);
    assert_eq!(leading(&rungs[0]), ("disk_depth", Verdict::Proven), "{rungs:?}");
}

#[test]
fn a_short_queue_is_proven_and_a_full_disk_with_one_is_not_taken_for_it() {
    let short = SeenDisk { queue: 8.0, ..FREE };
    let rungs = rungs(seen(short), 32);
    assert_eq!(leading(&rungs[0]), ("disk_queue", Verdict::Proven), "{rungs:?}");
    // Three requests fill this disk, so half of its queue does as much as all of it.
    let full = SimulatedDisk { most: 3_000.0, ..seen(short) };
    let rungs = self::rungs(full, 32);
    assert_eq!(leading(&rungs[0]), ("disk_full", Verdict::Proven), "{rungs:?}");
    assert!(rungs[0].findings.iter().any(|finding| finding.rule == "disk_queue"), "{rungs:?}");
}

#[test]
fn a_queue_as_long_as_the_load_is_deep_is_not_proven_to_be_a_full_disk() {
    let rungs = rungs(seen(SeenDisk { queue: 8.0, ..FREE }), 8);
    assert_ne!(leading(&rungs[0]), ("disk_full", Verdict::Proven), "{rungs:?}");
}

#[test]
fn a_limit_of_the_control_group_is_proven_by_another_block_size() {
    let rungs = rungs(seen(SeenDisk { group: Some(500.0), ..FREE }), 16);
    assert_eq!(leading(&rungs[0]), ("disk_group_limit", Verdict::Proven), "{rungs:?}");
}

#[test]
fn other_programs_at_a_disk_are_suspected_before_its_depth() {
    let bench = SimulatedBench::new(seen(SeenDisk { others: 50e6, ..FREE }));
    let rungs = climbed(&bench, 4).expect("every stage ends");
    assert_eq!(leading(&rungs[0]), ("disk_shared", Verdict::Suspected), "{rungs:?}");
    assert_eq!(bench.names(), ["baseline"], "nothing is proven by stopping others");
}
