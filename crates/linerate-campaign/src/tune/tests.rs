//! The ladder of `tune host`, in virtual time: changes that help, do nothing or harm, and agents
//! that refuse or go away.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use linerate_analysis::compare::Change;
use linerate_analysis::tune::experiments::{Hindrance, HindranceKind};
use linerate_control::conductor::simulated::Leaving;
use linerate_control::{ControlError, Setting, SettingState};
use linerate_model::Verdict;

use super::host::{HostTuning, tune};
use super::outcome::{Findings, NotProven, SideEffect, SideFigure, Tried};
use super::{Sessions, Settings};
use crate::simulated::{SimulatedBench, SimulatedPath, Trouble, testbed};
use crate::{Ended, Exit, Failure, Result};

const SEND: &str = "net.ipv4.tcp_wmem";
const RECEIVE: &str = "net.ipv4.tcp_rmem";

/// Hosts whose settings are a table.
#[derive(Clone)]
struct SimulatedHosts {
    values: BTreeMap<&'static str, &'static str>,
    /// True if a host consents to a change.
    consents: bool,
    /// True if what is consented can be set.
    settable: bool,
    /// True if anybody is there.
    there: bool,
    /// Calls, in order.
    done: Rc<RefCell<Vec<String>>>,
}

impl Default for SimulatedHosts {
    fn default() -> Self {
        let values = [(SEND, "4096 16384 4194304"), (RECEIVE, "4096 131072 6291456")].into();
        Self { values, consents: true, settable: true, there: true, done: Rc::default() }
    }
}

impl Sessions for SimulatedHosts {
    fn open(&self, host: &str) -> Result<Box<dyn Settings>> {
        self.done.borrow_mut().push(format!("open {host}"));
        if self.there {
            Ok(Box::new(self.clone()))
        } else {
            Err(Failure::missing(format!("{host} is not there")))
        }
    }
}

fn refused(why: &str) -> ControlError {
    ControlError::Setting { host: "far".into(), why: why.into() }
}

impl Settings for SimulatedHosts {
    fn read(&mut self, settings: Vec<Setting>) -> Result<Vec<SettingState>, ControlError> {
        let read = |setting: Setting| {
            let Setting::Sysctl { name, .. } = setting else {
                return Err(refused("setting: there is none"));
            };
            let value =
                self.values.get(name.as_str()).ok_or_else(|| refused("setting: there is none"))?;
            let refused = (!self.consents).then(|| "setting: the agent has no consent".to_owned());
            let setting = Setting::Sysctl { name: name.clone(), value: (*value).to_owned() };
            Ok(SettingState { setting, spelled: name, refused })
        };
        settings.into_iter().map(read).collect()
    }

    fn apply(&mut self, settings: Vec<Setting>) -> Result<Vec<SettingState>, ControlError> {
        self.done.borrow_mut().push("apply".into());
        if self.settable {
            self.read(settings)
        } else {
            Err(refused("setting: the kernel does not take it"))
        }
    }

    fn revert(&mut self) -> Result<(), ControlError> {
        self.done.borrow_mut().push("revert".into());
        Ok(())
    }

    fn keep(&mut self) -> Result<(), ControlError> {
        self.done.borrow_mut().push("keep".into());
        Ok(())
    }
}

fn tuning() -> HostTuning {
    HostTuning { tried: vec!["socket_buffers".into()], pairs: 6, seconds: 1.0, omit: 0.5 }
}

fn tuned(bench: &SimulatedBench, hosts: &SimulatedHosts) -> Result<Findings, Ended> {
    let testbed = testbed();
    tune(bench, hosts, (&testbed.endpoints[0], &testbed.endpoints[1]), &tuning())
}

/// A path on which the larger buffer multiplies goodput by `factor`.
fn path(factor: f64) -> SimulatedPath {
    SimulatedPath { settings: factor, ..SimulatedPath::default() }
}

fn findings(path: SimulatedPath, hosts: &SimulatedHosts) -> (Findings, SimulatedBench) {
    let bench = SimulatedBench::new(path);
    let found = tuned(&bench, hosts).expect("every stage ends");
    (found, bench)
}

/// Why a setting was not tried.
fn hindrance(found: &Findings, setting: &str) -> Option<HindranceKind> {
    found
        .untried
        .iter()
        .find(|untried| untried.setting == setting)
        .map(|untried| untried.hindrance.kind())
}

#[test]
fn a_change_that_helps_as_predicted_is_proven_and_kept() {
    let hosts = SimulatedHosts::default();
    let (found, bench) = findings(path(10.0), &hosts);
    assert_eq!(found.tried.len(), 1, "{:?}", found.untried);
    let tried = &found.tried[0];
    assert_eq!((tried.candidate.setting, tried.verdict, tried.why), (SEND, Verdict::Proven, None));
    assert!(tried.is_kept() && found.kept().count() == 1);
    assert_eq!(found.exit(), Exit::Done);
    assert_eq!(
        (tried.host.as_str(), tried.device.as_str()),
        ("here", ""),
        "a sysctl is of the whole host"
    );
    assert_eq!(bench.names(), ["baseline", "socket_buffers"]);
}

#[test]
fn only_a_proven_gain_without_harm_is_kept() {
    let (found, _) = findings(path(10.0), &SimulatedHosts::default());
    let proven = &found.tried[0];
    let with = |change: &dyn Fn(&mut Tried)| {
        let mut tried = proven.clone();
        change(&mut tried);
        tried.is_kept()
    };
    let side = |figure, percent| SideEffect { figure, percent, change: Change::Worse };
    let beside = |effect: SideEffect| with(&|tried| tried.side_effects = vec![effect]);
    assert!(with(&|_| ()));
    assert!(!with(&|tried| tried.verdict = Verdict::Suspected));
    assert!(!with(&|tried| tried.goodput.as_mut().expect("pairs").effect.change = Change::Worse));
    assert!(!with(&|tried| tried.goodput = None));
    assert!(!beside(side(SideFigure::ResponseTime, 40.0)));
    assert!(beside(side(SideFigure::ResponseTime, 4.0)), "less than the limit of harm");
    assert!(beside(side(SideFigure::LoadedRoundTrip, 40.0)), "a full link has a longer queue");
}

#[test]
fn the_placebo_writes_the_present_value_once_more() {
    let (_, bench) = findings(path(10.0), &SimulatedHosts::default());
    let drafts = bench.drafts.borrow();
    let pairs =
        drafts.iter().flat_map(|draft| &draft.sweeps).filter_map(|one| one.compare.as_ref());
    let mut n_placebos = 0;
    for placebo in pairs.filter_map(|compare| compare.placebo.as_ref()) {
        assert!(!placebo.settings.is_empty());
        for setting in &placebo.settings {
            assert!(format!("{setting:?}").contains("4096 16384 4194304"), "{setting:?}");
        }
        n_placebos += 1;
    }
    assert!(n_placebos > 0);
}

#[test]
fn what_is_tried_was_set_once_and_put_back_before() {
    let hosts = SimulatedHosts::default();
    findings(path(10.0), &hosts);
    assert_eq!(*hosts.done.borrow(), ["open here", "open far", "apply", "revert"]);
}

#[test]
fn a_change_that_does_nothing_is_not_kept() {
    let (found, _) = findings(path(1.0), &SimulatedHosts::default());
    assert_ne!(found.tried[0].verdict, Verdict::Proven);
    assert_eq!((found.kept().count(), found.exit()), (0, Exit::Missed));
}

#[test]
fn a_change_that_harms_is_not_kept_however_sure_that_is() {
    let (found, _) = findings(path(0.5), &SimulatedHosts::default());
    assert!(!found.tried[0].is_kept(), "{:?}", found.tried[0]);
}

#[test]
fn a_change_that_moves_goodput_otherwise_than_predicted_is_suspected() {
    for factor in [2.0, 40.0] {
        let (found, _) = findings(path(factor), &SimulatedHosts::default());
        assert_eq!(found.tried[0].verdict, Verdict::Suspected, "{factor}");
        assert!(matches!(found.tried[0].why, Some(NotProven::NotAsPredicted(_))));
    }
}

#[test]
fn where_the_placebo_works_nothing_is_proven() {
    let (found, _) =
        findings(SimulatedPath { placebo: 10.0, ..path(10.0) }, &SimulatedHosts::default());
    assert_eq!(
        found.tried[0].verdict,
        Verdict::Inconclusive,
        "single pairs of the placebo differ as much"
    );
    assert_eq!(found.kept().count(), 0);
}

#[test]
fn what_nothing_speaks_for_is_not_tried() {
    let (found, bench) =
        findings(SimulatedPath { waits: 0.1, ..path(10.0) }, &SimulatedHosts::default());
    assert_eq!(found.tried.len(), 0);
    assert_eq!(hindrance(&found, SEND), Some(HindranceKind::NothingSpeaksForIt));
    assert_eq!(bench.names(), ["baseline"]);
}

#[test]
fn the_other_ends_buffer_is_left_alone() {
    let (found, _) = findings(path(10.0), &SimulatedHosts::default());
    assert_eq!(hindrance(&found, RECEIVE), Some(HindranceKind::NothingSpeaksForIt));
}

#[test]
fn what_a_host_does_not_consent_to_is_not_tried() {
    let hosts = SimulatedHosts { consents: false, ..SimulatedHosts::default() };
    let (found, bench) = findings(path(10.0), &hosts);
    assert_eq!(hindrance(&found, SEND), Some(HindranceKind::NotConsented));
    assert_eq!((found.tried.len(), bench.names().len()), (0, 1));
    assert!(!hosts.done.borrow().iter().any(|done| done == "apply"), "nothing is changed");
}

#[test]
fn what_cannot_be_set_is_not_tried() {
    let hosts = SimulatedHosts { settable: false, ..SimulatedHosts::default() };
    let (found, _) = findings(path(10.0), &hosts);
    assert_eq!(hindrance(&found, SEND), Some(HindranceKind::Refused));
    let untried = found.untried.iter().find(|untried| untried.setting == SEND).expect("told");
    let (kind, message) = (HindranceKind::Refused, "the kernel does not take it".to_owned());
    assert_eq!(
        untried.hindrance,
        Hindrance::Agent { kind, message },
        "without the name of the setting, which is shown beside it"
    );
}

#[test]
fn what_a_host_does_not_have_is_not_tried() {
    let hosts = SimulatedHosts { values: BTreeMap::new(), ..SimulatedHosts::default() };
    let (found, _) = findings(path(10.0), &hosts);
    assert_eq!(hindrance(&found, SEND), Some(HindranceKind::NotOffered));
}

#[test]
fn a_buffer_that_is_no_three_numbers_is_left_alone() {
    let hosts = SimulatedHosts {
        values: [(SEND, "many"), (RECEIVE, "many")].into(),
        ..SimulatedHosts::default()
    };
    let (found, _) = findings(path(10.0), &hosts);
    assert_eq!(hindrance(&found, SEND), Some(HindranceKind::AlreadySo));
}

#[test]
fn a_host_that_is_not_there_to_be_asked_ends_it_before_anything_is_changed() {
    let hosts = SimulatedHosts { there: false, ..SimulatedHosts::default() };
    let Err(Ended::Failed(failure)) = tuned(&SimulatedBench::new(path(10.0)), &hosts) else {
        panic!("it cannot")
    };
    assert_eq!((failure.exit(), failure.message().as_str()), (Exit::Missing, "here is not there"));
}

#[test]
fn an_interrupted_stage_ends_it_as_interrupted() {
    for (stage, number) in [("baseline", 0), ("socket_buffers", 0), ("socket_buffers", 3)] {
        let bench = SimulatedBench::new(path(10.0)).with(stage, Trouble::Interrupted(number));
        let ended = tuned(&bench, &SimulatedHosts::default()).err();
        assert_eq!(ended, Some(Ended::With(Exit::Interrupted)), "{stage} {number}");
    }
}

#[test]
fn an_agent_that_is_busy_ends_it() {
    for stage in ["baseline", "socket_buffers"] {
        let bench = SimulatedBench::new(path(10.0)).with(stage, Trouble::Busy(usize::MAX));
        let Err(Ended::Failed(failure)) = tuned(&bench, &SimulatedHosts::default()) else {
            panic!("{stage}")
        };
        assert_eq!(failure.exit(), Exit::Missing);
    }
}

#[test]
fn an_agent_that_refuses_the_setting_of_a_trial_ends_it_with_its_words() {
    let bench = SimulatedBench::new(path(10.0)).with("socket_buffers", Trouble::Refused);
    let Err(Ended::Failed(failure)) = tuned(&bench, &SimulatedHosts::default()) else {
        panic!("refused")
    };
    assert!(failure.message().contains("not consented"), "{failure:?}");
}

#[test]
fn a_host_that_comes_back_costs_a_pair_and_one_that_stays_away_the_rest() {
    let leaving = |away_for| Trouble::Leaves(Leaving { host: 1, trial: 4, away_for });
    let back = SimulatedBench::new(path(10.0)).with("socket_buffers", leaving(2));
    let found = tuned(&back, &SimulatedHosts::default()).expect("it goes on");
    assert_eq!(found.tried.len(), 1);
    let gone = SimulatedBench::new(path(10.0)).with("socket_buffers", leaving(u32::MAX));
    let Err(Ended::Failed(failure)) = tuned(&gone, &SimulatedHosts::default()) else {
        panic!("gone")
    };
    assert_eq!(failure.exit(), Exit::Missing);
}

#[test]
fn a_path_that_cannot_be_measured_is_not_tuned() {
    let gone = Trouble::Leaves(Leaving { host: 1, trial: 0, away_for: 2 });
    let bench = SimulatedBench::new(path(10.0)).with("baseline", gone);
    let ended = tuned(&bench, &SimulatedHosts::default());
    assert!(ended.map_or(true, |found| found.tried.is_empty()), "its only run failed");
}

#[test]
fn only_kinds_that_there_are_can_be_chosen() {
    let wrong = super::host::chosen(&["socket_bufers".to_owned()]).expect_err("there is none");
    assert_eq!(wrong.exit(), Exit::Wrong);
    assert!(
        wrong.message().contains("socket_buffers"),
        "those that there are: {}",
        wrong.message()
    );
    assert!(super::host::chosen(&[]).expect("all").len() > 5);
}

#[test]
fn everything_can_be_tried_at_once() {
    let testbed = testbed();
    let all = HostTuning { tried: Vec::new(), ..tuning() };
    let ends = (&testbed.endpoints[0], &testbed.endpoints[1]);
    let found = tune(&SimulatedBench::new(path(10.0)), &SimulatedHosts::default(), ends, &all)
        .expect("every stage ends");
    assert_eq!(found.kept().map(|tried| tried.candidate.setting).collect::<Vec<_>>(), [SEND]);
    assert!(found.untried.len() > 5, "{:?}", found.untried);
}

#[test]
fn noise_hides_a_change_and_never_makes_one() {
    for seed in 0..6 {
        let (found, _) =
            findings(SimulatedPath { noise: 0.3, seed, ..path(1.0) }, &SimulatedHosts::default());
        assert_eq!(found.kept().count(), 0, "seed {seed}: {:?}", found.tried);
    }
}

#[test]
fn a_profile_is_written_for_each_host_at_which_something_helps_and_for_no_other() {
    let folder = tempfile::tempdir().expect("a folder");
    let (helps, _) = findings(path(10.0), &SimulatedHosts::default());
    let written = super::profile::write(folder.path(), &helps).expect("written");
    assert_eq!(written.len(), 1);
    assert!(written[0].ends_with("here.profile.toml"), "{written:?}");
    let (nothing, _) = findings(path(1.0), &SimulatedHosts::default());
    assert_eq!(super::profile::write(folder.path(), &nothing).expect("nothing to write"), [""; 0]);
}
