//! The survey of simulated fleets.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use linerate_analysis::mesh::{Culprit, rounds};
use linerate_analysis::study;
use linerate_control::ControlError;
use linerate_model::plan::{Draft, expand, read};
use linerate_model::{
    Campaign, Endpoint, HostAddress, Ratio, Side, Testbed, TrialOutcome, TrialRecord, TrialSpec,
};
use serde_json::json;

use super::*;
use crate::simulated::{SimulatedLoad, SimulatedPath};
use crate::stages::BeforeTrial;

const LOAD: MeshLoad = MeshLoad {
    measured: Nanos::from_secs(1),
    omitted: Nanos::from_millis(200),
    again: 6,
    seed: 1,
    budget: Ratio(1.0),
    most_of_stage: MOST_OF_STAGE,
    at_once: Vec::new(),
};

/// Fleet of eight hosts whose pairs have these rates.
struct FleetBench {
    rate: fn(&str, &str) -> f64,
    /// Host that goes away in this trial of that stage.
    leaves: Option<(&'static str, usize)>,
    leaves_in: &'static str,
    /// Host whose pairs with this other host fail.
    blocked: Option<[&'static str; 2]>,
    /// A person interrupts the first stage in this trial.
    interrupted: Option<usize>,
    /// The second look cannot be run.
    second_fails: bool,
    /// Number of times that an agent refuses because it has not left another campaign.
    busy: Cell<u32>,
    n_trials: Cell<u64>,
    stages: RefCell<Vec<String>>,
}

impl FleetBench {
    fn of(rate: fn(&str, &str) -> f64) -> Self {
        Self {
            rate,
            leaves: None,
            leaves_in: "rounds-1",
            blocked: None,
            interrupted: None,
            second_fails: false,
            busy: Cell::default(),
            n_trials: Cell::default(),
            stages: RefCell::default(),
        }
    }

    fn recorded(&self, name: &str, draft: &Draft) -> (Option<Campaign>, Option<Ended>) {
        let busy = self.busy.get();
        if busy > 0 {
            self.busy.set(busy - 1);
            let (host, by) = ("n2".to_owned(), "another".to_owned());
            let error = ControlError::Busy { host, by, since_s: 3, left_s: 0, ahead: 0 };
            return (None, Some(Failure::from(error).into()));
        }
        if self.second_fails && name == "again" {
            return (None, Some(Failure::missing("the disk is full").into()));
        }
        let plan = read(&draft.text()).expect("a legal plan");
        let is_first = self.stages.borrow().is_empty();
        self.stages.borrow_mut().push(name.to_owned());
        let mut campaign = Campaign::default();
        for (number, spec) in expand(&plan, &testbed()).expect("the hosts").into_iter().enumerate()
        {
            if name == self.leaves_in && self.leaves.is_some_and(|(_, trial)| trial == number) {
                let lost = Failure::missing("lost the agent");
                return (Some(campaign), Some(lost.into()));
            }
            if is_first && self.interrupted == Some(number) {
                return (Some(campaign), Some(Ended::With(Exit::Interrupted)));
            }
            campaign.trials.push(self.carry(spec));
        }
        (Some(campaign), None)
    }

    fn carry(&self, spec: TrialSpec) -> TrialRecord {
        self.n_trials.set(self.n_trials.get() + 1);
        let is_blocked = spec.jobs.iter().any(|job| {
            self.blocked.is_some_and(|ends| {
                ends.contains(&&*job.from.name) && ends.contains(&&*job.to.name)
            })
        });
        let mut record = TrialRecord::new(spec.clone());
        record.outcome = Some(TrialOutcome::Failed);
        if is_blocked {
            return record;
        }
        record.outcome = Some(TrialOutcome::Completed);
        for (job, ends) in spec.jobs.iter().zip(&mut record.jobs) {
            let path = SimulatedPath {
                link: (self.rate)(&job.from.name, &job.to.name),
                send_buffer: 1e9,
                rtt: 1e-3,
                // Pairs of one trial differ.
                seed: job.from.name.bytes().map(u64::from).sum(),
                ..SimulatedPath::default()
            };
            *ends = (path.carry(&spec, job, Side::Active), path.carry(&spec, job, Side::Passive));
        }
        record
    }
}

fn testbed() -> Testbed {
    let endpoint = |name: &String| -> Endpoint {
        let text = json!({ "name": name, "host": name, "address": null, "device": "eth0" });
        serde_json::from_value(text).expect("what is left out has a default")
    };
    let hosts = fleet().hosts;
    Testbed {
        endpoints: hosts.iter().map(endpoint).collect(),
        hosts: hosts.into_iter().map(|host| (host, HostAddress::InProcess)).collect(),
        emulated: false,
    }
}

fn fleet() -> Fleet {
    let hosts: Vec<String> = (0..8).map(|host| format!("n{host}")).collect();
    Fleet { groups: vec![None; hosts.len()], hosts, group_names: Vec::new() }
}

impl Bench for FleetBench {
    fn run(&self, name: &str, draft: &Draft, _: BeforeTrial<'_>) -> Result<Campaign, Ended> {
        match self.recorded(name, draft) {
            (Some(campaign), None) => Ok(campaign),
            (_, ended) => Err(ended.expect("a stage without a record ended")),
        }
    }

    fn attempt(&self, name: &str, draft: &Draft) -> (Option<Study>, Option<Ended>) {
        let (campaign, ended) = self.recorded(name, draft);
        (campaign.as_ref().map(study), ended)
    }

    fn absent(&self) -> Vec<Absent> {
        let has_begun = self.stages.borrow().iter().any(|stage| stage == self.leaves_in);
        let gone = self.leaves.filter(|_| has_begun);
        let absent = gone.map(|(host, _)| Absent { host: host.into(), why: "it is off".into() });
        absent.into_iter().collect()
    }

    fn pause(&self, _: Duration) {}

    fn now(&self) -> Nanos {
        Nanos::from_secs(self.n_trials.get())
    }
}

#[test]
fn groups_come_from_the_list_and_from_the_command_line() {
    let hosts = || ["n1", "n2", "n3", "n4"].map(str::to_owned).to_vec();
    let listed = FleetHost { name: "n2".into(), group: Some("a".into()), ..FleetHost::default() };
    let fleet = Fleet::of(hosts(), &[listed], &["b=n3,n4".into(), "a=n1".into()]).expect("groups");
    assert_eq!(fleet.group_names, ["a", "b"]);
    assert_eq!(fleet.groups, [Some(0), Some(0), Some(1), Some(1)]);
    for (asked, part) in [("b", "expected NAME=HOST,HOST"), ("b=n9", "there is no host `n9`")] {
        let refused = Fleet::of(hosts(), &[], &[asked.to_owned()]).expect_err(asked);
        assert!(refused.message().contains(part), "{}", refused.message());
    }
}

fn surveyed(bench: &FleetBench) -> Survey {
    survey(bench, &fleet(), &LOAD, Vec::new(), Earlier::none(&fleet()))
        .unwrap_or_else(|_| panic!("it is surveyed"))
}

fn n_known(survey: &Survey) -> usize {
    survey.mesh.figures[0].1.known().count()
}

#[test]
fn a_slow_host_is_named_and_confirmed() {
    let bench = FleetBench::of(|from, to| if [from, to].contains(&"n3") { 90e6 } else { 100e6 });
    let survey = surveyed(&bench);
    assert_eq!([n_known(&survey), survey.n_rounds], [56, 7]);
    let [one] = &survey.judged[..] else { panic!("{:?}", survey.judged) };
    assert_eq!((one.suspect.culprit, one.status()), (Culprit::Host(3), Status::Confirmed));
    assert_eq!(*bench.stages.borrow(), ["rounds-1", "again"]);
}

#[test]
fn loads_at_once_are_set_beside_their_pairs_alone() {
    let load = MeshLoad { at_once: vec![Pattern::Bisection, Pattern::Incast], ..LOAD };
    let surveyed = |bench: &FleetBench| {
        survey(bench, &fleet(), &load, Vec::new(), Earlier::none(&fleet()))
            .unwrap_or_else(|_| panic!("it is surveyed"))
    };
    let bench = FleetBench::of(|_, _| 100e6);
    let found = surveyed(&bench);
    assert_eq!(*bench.stages.borrow(), ["rounds-1", "at-once-1"]);
    assert_eq!((found.at_once.len(), found.at_once_failed), (1 + 8, None));
    // Simulated pairs share nothing, so each has all of its rate.
    let shares: Vec<_> = found.at_once.iter().map(share).collect();
    assert_eq!(shares[0], (Pattern::Bisection, 8, 10));
    assert!(shares[1..].iter().all(|share| *share == (Pattern::Incast, 7, 70)), "{shares:?}");
    // A half is compared with its own pairs alone, which have half the rate of all others.
    let found = surveyed(&FleetBench::of(|from, to| {
        let number = |host: &str| host[1..].parse::<u32>().expect("a number");
        if number(from).abs_diff(number(to)) == 4 { 50e6 } else { 100e6 }
    }));
    assert_eq!(share(&found.at_once[0]), (Pattern::Bisection, 8, 10));
    // A pair without a figure leaves the load without a total.
    let bench = FleetBench { blocked: Some(["n1", "n2"]), ..FleetBench::of(|_, _| 100e6) };
    let lacking = surveyed(&bench);
    assert!(lacking.at_once.iter().any(|one| one.total().is_none()));
}

/// Returns a load with its pairs, and what they carry together in tenths of alone.
fn share(one: &Together) -> (Pattern, usize, i64) {
    let (total, alone) = (one.total().expect("a figure"), one.alone.expect("a figure"));
    (one.load.pattern, one.load.pairs.len(), (10.0 * total / alone).round() as i64)
}

#[test]
fn a_host_that_goes_away_costs_its_own_pairs_of_loads_at_once() {
    let load = MeshLoad { at_once: vec![Pattern::Incast], most_of_stage: 28, ..LOAD };
    let bench = FleetBench {
        leaves: Some(("n6", 3)),
        leaves_in: "at-once-1",
        ..FleetBench::of(|_, _| 100e6)
    };
    let found = survey(&bench, &fleet(), &load, Vec::new(), Earlier::none(&fleet()))
        .unwrap_or_else(|_| panic!("it is surveyed"));
    // Four of eight fit into a stage. Three were measured with all hosts.
    let receivers = found.at_once.iter().map(|one| (one.load.pairs[0].1, one.load.pairs.len()));
    let mut receivers: Vec<_> = receivers.collect();
    receivers.sort_unstable();
    assert_eq!(receivers.len(), 7, "nobody sends to the host that is gone: {receivers:?}");
    assert_eq!(receivers.iter().filter(|(_, n)| *n == 7).count(), 3, "{receivers:?}");
    assert!(found.at_once.iter().all(|one| one.total().is_some()));
    assert_eq!(found.at_once_failed, None);
}

#[test]
fn a_large_fleet_is_measured_in_several_stages() {
    let load = MeshLoad { most_of_stage: 14, ..LOAD };
    let surveyed = |bench: &FleetBench| {
        survey(bench, &fleet(), &load, Vec::new(), Earlier::none(&fleet()))
            .unwrap_or_else(|_| panic!("it is surveyed"))
    };
    let bench = FleetBench::of(|from, to| if [from, to].contains(&"n3") { 90e6 } else { 100e6 });
    let whole = surveyed(&bench);
    assert_eq!([n_known(&whole), whole.n_rounds], [56, 7]);
    let stages = ["rounds-1", "rounds-2", "rounds-3", "again"];
    assert_eq!(*bench.stages.borrow(), stages, "three rounds of four pairs in a stage");
    // A pair that cannot be measured is tried alone after the last round.
    let bench = FleetBench { blocked: Some(["n1", "n2"]), ..FleetBench::of(|_, _| 100e6) };
    let lacking = surveyed(&bench);
    assert_eq!((n_known(&lacking), lacking.failed.len()), (54, 1));
    let stages = ["rounds-1", "rounds-2", "rounds-3", "rounds-4"];
    assert_eq!(*bench.stages.borrow(), stages);
    // A host that goes away in the first stage costs its own pairs.
    let bench = FleetBench { leaves: Some(("n6", 3)), ..FleetBench::of(|_, _| 100e6) };
    let without = surveyed(&bench);
    assert!(without.failed.is_empty(), "{:?}", without.failed);
    assert!(n_known(&without) >= 42, "{}", n_known(&without));
}

#[test]
fn a_fleet_of_equal_hosts_has_no_suspect_and_no_second_look() {
    let bench = FleetBench::of(|_, _| 100e6);
    let survey = surveyed(&bench);
    assert!(survey.judged.is_empty(), "{:?}", survey.judged);
    assert_eq!(*bench.stages.borrow(), ["rounds-1"]);
}

#[test]
fn what_was_seen_once_is_not_confirmed() {
    let bench = FleetBench::of(|_, _| 100e6);
    let slow = FleetBench::of(|from, _| if from == "n5" { 80e6 } else { 100e6 });
    let mut mesh = Mesh { groups: fleet().groups, figures: figures::empty(8) };
    let first = LOAD.rounds(&fleet(), &rounds(8));
    let (study, _) = slow.attempt("rounds-1", &first);
    figures::add(&study.expect("a record"), &fleet(), &mut mesh);
    let found = suspects(&mesh);
    assert_eq!(found[0].culprit, Culprit::Sending(5));
    let mut judged = vec![Judged::of(found[0].clone())];
    let fleet = fleet();
    let mut walk =
        Walk { bench: &bench, fleet: &fleet, load: &LOAD, absent: Vec::new(), interrupted: None };
    assert_eq!(walk.second(&mesh, &mut judged), None);
    assert_eq!(judged[0].status(), Status::Cleared, "{judged:?}");
}

/// Returns the culprits after a second and a third look at a fleet, where the first look saw only
/// that the direction from n5 to n6 is slow.
fn after_one_pair(rate: fn(&str, &str) -> f64) -> Vec<(Culprit, Status)> {
    let first = FleetBench::of(|from, to| if (from, to) == ("n5", "n6") { 80e6 } else { 100e6 });
    let again = FleetBench::of(rate);
    let fleet = fleet();
    let mut mesh = Mesh { groups: fleet.groups.clone(), figures: figures::empty(8) };
    let (study, _) = first.attempt("rounds-1", &LOAD.rounds(&fleet, &rounds(8)));
    figures::add(&study.expect("a record"), &fleet, &mut mesh);
    let mut judged: Vec<Judged> = suspects(&mesh).into_iter().map(Judged::of).collect();
    let mut walk =
        Walk { bench: &again, fleet: &fleet, load: &LOAD, absent: Vec::new(), interrupted: None };
    assert_eq!(walk.second(&mesh, &mut judged), None);
    assert_eq!(walk.third(&mesh, &mut judged), None);
    let left = judged.iter().filter(|one| one.explained_by.is_empty());
    left.map(|one| (one.suspect.culprit, one.status())).collect()
}

#[test]
fn a_slow_pair_of_a_slow_host_is_the_hosts() {
    let confirmed = |culprit| vec![(culprit, Status::Confirmed)];
    let pair = |from: &str, to: &str| if (from, to) == ("n5", "n6") { 80e6 } else { 100e6 };
    assert_eq!(after_one_pair(pair), confirmed(Culprit::OneWay(5, 6)));
    let sends = |from: &str, _: &str| if from == "n5" { 80e6 } else { 100e6 };
    assert_eq!(after_one_pair(sends), confirmed(Culprit::Sending(5)));
    let host = |from: &str, to: &str| if [from, to].contains(&"n6") { 80e6 } else { 100e6 };
    assert_eq!(after_one_pair(host), confirmed(Culprit::Host(6)));
}

#[test]
fn a_host_that_goes_away_costs_only_its_pairs() {
    let bench = FleetBench { leaves: Some(("n6", 5)), ..FleetBench::of(|_, _| 100e6) };
    let survey = surveyed(&bench);
    assert_eq!(survey.absent.len(), 1);
    let all_of_others = 7 * 6;
    assert!(n_known(&survey) >= all_of_others, "{}", n_known(&survey));
    assert!(survey.failed.is_empty(), "{:?}", survey.failed);
    assert_eq!(*bench.stages.borrow(), ["rounds-1", "rounds-2"]);
    // The second stage repeats no pair that had both of its figures.
    assert!(bench.n_trials.get() < 2 * 14, "{}", bench.n_trials.get());
}

#[test]
fn a_pair_that_fails_costs_no_other_pair() {
    let bench = FleetBench { blocked: Some(["n1", "n4"]), ..FleetBench::of(|_, _| 100e6) };
    let survey = surveyed(&bench);
    assert_eq!((n_known(&survey), survey.exit()), (56 - 2, Exit::Done));
    assert_eq!(survey.failed.len(), 1, "{:?}", survey.failed);
    assert!(survey.absent.is_empty());
}

#[test]
fn a_busy_agent_is_waited_for() {
    let bench = FleetBench { busy: Cell::new(3), ..FleetBench::of(|_, _| 100e6) };
    let survey = surveyed(&bench);
    assert_eq!(n_known(&survey), 56);
    assert!(survey.absent.is_empty(), "{:?}", survey.absent);
}

#[test]
fn an_interrupt_keeps_what_was_measured() {
    let bench = FleetBench { interrupted: Some(6), ..FleetBench::of(|_, _| 100e6) };
    let survey = surveyed(&bench);
    assert_eq!(survey.exit(), Exit::Interrupted);
    assert_eq!(n_known(&survey), 6 * 4);
    assert_eq!(*bench.stages.borrow(), ["rounds-1"]);
}

#[test]
fn a_mesh_goes_on_where_it_was_interrupted() {
    let bench = FleetBench { interrupted: Some(5), ..FleetBench::of(|_, _| 100e6) };
    // Trials are in random order: both directions of one round were measured, and one of three.
    let (study, _) = bench.attempt("rounds-1", &LOAD.rounds(&fleet(), &rounds(8)));
    let mut earlier = Earlier::none(&fleet());
    earlier.add(&study.expect("a record"), &fleet());
    assert_eq!((earlier.n_pairs(), earlier.n_stages), (4, 1));
    let again = FleetBench::of(|_, _| 100e6);
    let survey = survey(&again, &fleet(), &LOAD, Vec::new(), earlier);
    let survey = survey.unwrap_or_else(|_| panic!("it is surveyed"));
    assert_eq!([n_known(&survey), survey.n_rounds], [56, 7]);
    assert_eq!(again.n_trials.get(), 6 * 2, "half a round is repeated");
    assert_eq!(*again.stages.borrow(), ["rounds-2"]);
}

#[test]
fn pairs_that_an_interrupt_left_out_did_not_fail() {
    let bench = FleetBench { interrupted: Some(5), ..FleetBench::of(|_, _| 100e6) };
    let survey = surveyed(&bench);
    assert_eq!((survey.exit(), survey.failed.len()), (Exit::Interrupted, 0));
    assert!((1..56).contains(&n_known(&survey)), "{}", n_known(&survey));
}

#[test]
fn a_pair_whose_directions_were_measured_by_two_stages_is_measured() {
    let bench = FleetBench { interrupted: Some(1), ..FleetBench::of(|_, _| 100e6) };
    let (study, _) = bench.attempt("rounds-1", &LOAD.rounds(&fleet(), &rounds(8)));
    let study = study.expect("a record");
    let mesh = || Mesh { groups: fleet().groups, figures: figures::empty(8) };
    let mut first = mesh();
    assert!(figures::add(&study, &fleet(), &mut first).is_empty(), "one direction of four pairs");
    let mut earlier = mesh();
    for (from, to, _) in first.figures[0].1.known() {
        earlier.figures[0].1.set(to, from, 100e6);
    }
    assert_eq!(figures::add(&study, &fleet(), &mut earlier).len(), 8, "four pairs in either order");
}

#[test]
fn a_budget_is_kept_by_pauses() {
    let rest = |load: &MeshLoad| {
        let draft = load.rounds(&fleet(), &rounds(8));
        draft.sweeps[0].rest.expect("it is set").as_secs_f64()
    };
    assert!(rest(&LOAD).abs() < 1e-9);
    let one_percent = MeshLoad { budget: Ratio(0.01), ..LOAD };
    assert!((rest(&one_percent) - 118.8).abs() < 1e-6, "1.2 s of 120 s");
    let [all, part] = [LOAD, one_percent].map(|load| load.expected(&fleet(), 7).as_secs_f64());
    assert!((part - all - 14.0 * 118.8).abs() < 1e-3, "{all} s, {part} s");
}

#[test]
fn a_second_look_that_fails_leaves_the_first() {
    let slow = |from: &str, to: &str| if [from, to].contains(&"n3") { 90e6 } else { 100e6 };
    let bench = FleetBench { second_fails: true, ..FleetBench::of(slow) };
    let survey = surveyed(&bench);
    assert_eq!(survey.second_failed.as_deref(), Some("the disk is full"));
    let [one] = &survey.judged[..] else { panic!("{:?}", survey.judged) };
    assert_eq!((one.suspect.culprit, one.status()), (Culprit::Host(3), Status::Open));
}

#[test]
fn a_stage_that_fails_while_all_hosts_answer_is_a_failure() {
    let bench = FleetBench { leaves: Some(("n6", 0)), ..FleetBench::of(|_, _| 100e6) };
    let absent = vec![Absent { host: "n6".into(), why: "it is off".into() }];
    // Nobody else went away.
    let ended = survey(&bench, &fleet(), &LOAD, absent, Earlier::none(&fleet()));
    assert!(matches!(ended, Err(Ended::Failed(_))));
}
