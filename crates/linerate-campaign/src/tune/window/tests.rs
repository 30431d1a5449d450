//! The ladder of `tune window`, in virtual time: windows that help, do nothing or harm, settings
//! that are refused or do not hold, and hosts that go away.

use std::cell::RefCell;
use std::rc::Rc;

use linerate_control::conductor::simulated::Leaving;
use linerate_control::{ControlError, Setting, SettingState};
use linerate_model::{BitRate, Endpoint};

use super::*;
use crate::simulated::{HoseSettings, SimulatedBench, SimulatedHose, Trouble, testbed};

/// The device that the route back leads out of.
const DEVICE: &str = "eth0";
/// The safe window of the simulated sideband: five segments.
const SAFE: u64 = 7300;
/// The window that the simulated receiver advertises by itself.
const OWN_WINDOW: u64 = 65_535;

/// The receiver's host, whose settings bound the window.
#[derive(Clone, Default)]
struct SimulatedHost {
    in_force: Rc<RefCell<HoseSettings>>,
    /// Settings that the host refuses, by their kind.
    refuses_route: bool,
    refuses_host: bool,
    /// True if nobody answers.
    is_away: bool,
    /// True if a placebo on the route bounds the window to `SAFE`.
    placebo_helps: bool,
    /// Calls, in order.
    done: Rc<RefCell<Vec<&'static str>>>,
}

impl Sessions for SimulatedHost {
    fn open(&self, host: &str) -> Result<Box<dyn Settings>> {
        if self.is_away {
            return Err(Failure::missing(format!("{host} is not there")));
        }
        Ok(Box::new(self.clone()))
    }
}

impl Settings for SimulatedHost {
    fn read(&mut self, settings: Vec<Setting>) -> Result<Vec<SettingState>, ControlError> {
        let read = |setting: Setting| {
            let setting = match setting {
                Setting::RouteWindow { destination, .. } => Setting::RouteWindow {
                    destination,
                    device: DEVICE.into(),
                    window: 0,
                    initial: 0,
                },
                Setting::Sysctl { name, .. } => {
                    Setting::Sysctl { name, value: "4096 16384 4194304".into() }
                }
                other => other,
            };
            SettingState { setting, spelled: format!("198.18.0.0/24 dev {DEVICE}"), refused: None }
        };
        Ok(settings.into_iter().map(read).collect())
    }

    fn apply(&mut self, settings: Vec<Setting>) -> Result<Vec<SettingState>, ControlError> {
        self.done.borrow_mut().push("apply");
        for setting in &settings {
            let is_route = matches!(setting, Setting::RouteWindow { .. });
            if if is_route { self.refuses_route } else { self.refuses_host } {
                let why = "setting: the agent does not permit it".to_owned();
                return Err(ControlError::Setting { host: "far".into(), why });
            }
            let mut in_force = self.in_force.borrow_mut();
            match setting {
                // Only a window that bounds nothing is replaced. A tuned window must hold exactly,
                // or the ladder goes on to the receive buffer, which has another placebo.
                Setting::RouteWindow { window, .. }
                    if self.placebo_helps && u64::from(*window) > OWN_WINDOW =>
                {
                    in_force.route = Some(SAFE);
                }
                Setting::RouteWindow { window, .. } => in_force.route = Some((*window).into()),
                Setting::Sysctl { name, value } if name.ends_with("rmem") => {
                    in_force.receive = value.split(' ').next_back().and_then(|n| n.parse().ok());
                }
                _ => {}
            }
        }
        Ok(Vec::new())
    }

    fn revert(&mut self) -> Result<(), ControlError> {
        self.done.borrow_mut().push("revert");
        *self.in_force.borrow_mut() = HoseSettings::default();
        Ok(())
    }

    fn keep(&mut self) -> Result<(), ControlError> {
        self.done.borrow_mut().push("keep");
        Ok(())
    }
}

fn tuning() -> WindowTuning {
    WindowTuning {
        interface: None,
        congestion: "cubic".into(),
        dry_run: false,
        keep: false,
        quick: false,
        pairs: 6,
        seconds: None,
        omit: 0.3,
    }
}

fn endpoints() -> Vec<Endpoint> {
    let addresses = ["198.18.0.1", "198.18.0.2"].map(|text| text.parse().ok());
    let endpoints = testbed().endpoints.into_iter().zip(addresses);
    endpoints.map(|(endpoint, address)| Endpoint { address, ..endpoint }).collect()
}

/// Tunes on `path` with `host`, whose settings the path obeys, and with `trouble` in a stage.
fn tuned(
    path: SimulatedHose,
    host: &SimulatedHost,
    wanted: &WindowTuning,
    trouble: Option<(&str, Trouble)>,
) -> Result<(WindowFindings, Exit, SimulatedBench), Ended> {
    let settings = Rc::clone(&host.in_force);
    let mut bench = SimulatedBench::new(SimulatedHose { settings, ..path });
    if let Some((stage, trouble)) = trouble {
        bench = bench.with(stage, trouble);
    }
    let endpoints = endpoints();
    let asked = ask(host, &endpoints, (&endpoints[0], &endpoints[1]), wanted)?;
    let (findings, exit) = tune(&bench, asked, &[], true, wanted)?;
    Ok((findings, exit, bench))
}

fn found(path: SimulatedHose, host: &SimulatedHost) -> (WindowFindings, Exit) {
    let (findings, exit, _) = tuned(path, host, &tuning(), None).expect("every stage ends");
    (findings, exit)
}

/// Asserts that no setting is in force any more.
fn is_back(host: &SimulatedHost) {
    assert_eq!(*host.in_force.borrow(), HoseSettings::default(), "{:?}", host.done.borrow());
}

#[test]
fn a_window_that_the_buffer_survives_is_found_proven_and_put_back() {
    let host = SimulatedHost::default();
    let (findings, exit) = found(SimulatedHose::default(), &host);
    assert_eq!((findings.verdict, exit), (Some(Verdict::Proven), Exit::Done), "{findings:?}");
    let choice = findings.choice.expect("a window");
    assert!(choice.clean && choice.gain_in_sweep > 2.0, "{choice:?}");
    let [command] = &findings.commands[..] else { panic!("{:?}", findings.commands) };
    assert!(command.contains(&format!("window {}", choice.window_bytes)), "{command}");
    assert!(!findings.kept);
    is_back(&host);
}

#[test]
fn trains_bound_the_buffer_to_one_frame() {
    let (findings, _) = found(SimulatedHose::default(), &SimulatedHost::default());
    let buffer = findings.buffer.expect("it overflows");
    assert_eq!((buffer.longest_train, buffer.stray_losses), (5, 0));
    assert!(buffer.at_least_bytes <= 8192 && 8192 < buffer.less_than_bytes, "{buffer:?}");
    let law = findings.law.expect("a sweep");
    assert_eq!((law.safe_window_bytes, law.onset_within_bracket), (SAFE, Some(true)));
}

#[test]
fn a_path_without_a_shallow_buffer_is_left_alone() {
    let mut path = SimulatedHose::default();
    path.hose.feed = BitRate(1e8);
    let host = SimulatedHost::default();
    let (findings, exit, bench) = tuned(path, &host, &tuning(), None).expect("every stage ends");
    assert!(findings.buffer.is_none() && findings.choice.is_none(), "{findings:?}");
    assert_eq!((exit, host.done.borrow().len()), (Exit::Done, 0));
    assert!(!bench.names().iter().any(|name| name == "windows"), "{:?}", bench.names());
}

#[test]
fn a_window_that_changes_nothing_is_not_proven() {
    // The host's own window already fits the buffer.
    let path = SimulatedHose { own_window: SAFE, ..SimulatedHose::default() };
    let host = SimulatedHost::default();
    let wanted = WindowTuning { keep: true, ..tuning() };
    let (findings, exit, _) = tuned(path, &host, &wanted, None).expect("every stage ends");
    assert_eq!(exit, Exit::Missed, "{findings:?}");
    assert!(findings.verdict != Some(Verdict::Proven) && !findings.kept, "{findings:?}");
    is_back(&host);
}

#[test]
fn a_window_that_harms_is_never_kept_however_sure_that_is() {
    // A stream that overruns the buffer keeps its rate: any bound on the window costs goodput.
    let mut path = SimulatedHose { collapsed: 1.0, ..SimulatedHose::default() };
    path.hose.rtt = linerate_model::Nanos(5_000_000);
    let host = SimulatedHost::default();
    let wanted = WindowTuning { keep: true, ..tuning() };
    let (findings, exit, _) = tuned(path, &host, &wanted, None).expect("every stage ends");
    assert_eq!((exit, findings.kept), (Exit::Missed, false), "{findings:?}");
    is_back(&host);
}

#[test]
fn a_proven_setting_is_kept_on_request_and_only_then() {
    let host = SimulatedHost::default();
    let wanted = WindowTuning { keep: true, ..tuning() };
    let (findings, exit, _) =
        tuned(SimulatedHose::default(), &host, &wanted, None).expect("every stage ends");
    assert_eq!((exit, findings.kept), (Exit::Done, true));
    assert!(host.in_force.borrow().route.is_some());
    assert_eq!(host.done.borrow().last(), Some(&"keep"));
}

#[test]
fn noise_hides_an_effect_and_never_makes_one() {
    let noisy = |own_window| SimulatedHose { noise: 0.4, own_window, ..SimulatedHose::default() };
    for own_window in [SAFE, SAFE + 1] {
        let host = SimulatedHost::default();
        let Ok((findings, ..)) = tuned(noisy(own_window), &host, &tuning(), None) else { continue };
        assert_ne!(findings.verdict, Some(Verdict::Proven), "{findings:?}");
        is_back(&host);
    }
}

#[test]
fn a_dry_run_measures_and_changes_nothing() {
    let host = SimulatedHost::default();
    let wanted = WindowTuning { dry_run: true, ..tuning() };
    let (findings, exit, bench) =
        tuned(SimulatedHose::default(), &host, &wanted, None).expect("every stage ends");
    assert_eq!((exit, findings.commands.len()), (Exit::Done, 2), "both ways to set it");
    assert!(host.done.borrow().is_empty() && findings.tried.is_empty());
    assert!(!bench.names().iter().any(|name| name == "proof"));
}

#[test]
fn few_pairs_indicate_and_prove_nothing() {
    let wanted = WindowTuning { quick: true, pairs: 3, ..tuning() };
    let host = SimulatedHost::default();
    let (findings, exit, _) =
        tuned(SimulatedHose::default(), &host, &wanted, None).expect("every stage ends");
    assert_eq!((findings.verdict, exit), (Some(Verdict::Suspected), Exit::Missed), "{findings:?}");
    assert!(findings.indicates());
}

#[test]
fn a_window_whose_placebo_helps_as_much_is_not_proven_and_not_kept() {
    let wanted = WindowTuning { keep: true, ..tuning() };
    let host = SimulatedHost { placebo_helps: true, ..SimulatedHost::default() };
    let (findings, exit, _) =
        tuned(SimulatedHose::default(), &host, &wanted, None).expect("every stage ends");
    let proof = findings.proof.expect("it was measured");
    assert_eq!(proof.effect.change, Change::Better, "the pairs alone would prove it");
    assert_eq!(findings.verdict, Some(Verdict::Suspected), "{proof:?}");
    assert_eq!((exit, findings.kept), (Exit::Missed, false));
    is_back(&host);
}

#[test]
fn where_the_kernel_ignores_the_route_the_receive_buffer_gives_the_window() {
    let path = SimulatedHose { obeys_route: false, ..SimulatedHose::default() };
    let host = SimulatedHost::default();
    let (findings, exit) = found(path, &host);
    assert_eq!(exit, Exit::Done, "{findings:?}");
    assert_eq!(findings.tried.iter().map(|tried| tried.holds).collect::<Vec<_>>(), [false, true]);
    assert!(findings.commands[0].contains("tcp_rmem"), "{:?}", findings.commands);
    is_back(&host);
}

#[test]
fn a_refused_route_leads_to_the_receive_buffer_and_two_refusals_to_none() {
    let host = SimulatedHost { refuses_route: true, ..SimulatedHost::default() };
    let (findings, exit) = found(SimulatedHose::default(), &host);
    assert_eq!((exit, findings.refused), (Exit::Done, false), "{findings:?}");
    let host =
        SimulatedHost { refuses_route: true, refuses_host: true, ..SimulatedHost::default() };
    let (findings, exit) = found(SimulatedHose::default(), &host);
    assert_eq!(exit, Exit::Missing, "{findings:?}");
    assert_eq!(findings.verdict, Some(Verdict::Inconclusive));
    assert!(findings.tried.iter().all(|tried| tried.why.contains("does not permit")));
}

#[test]
fn a_host_that_is_away_ends_it_before_anything_is_measured() {
    let host = SimulatedHost { is_away: true, ..SimulatedHost::default() };
    let Err(Ended::Failed(failure)) = tuned(SimulatedHose::default(), &host, &tuning(), None)
    else {
        panic!("nobody answers")
    };
    assert_eq!((failure.exit(), failure.message().as_str()), (Exit::Missing, "far is not there"));
}

#[test]
fn another_interface_than_the_routes_is_refused() {
    let wanted = WindowTuning { interface: Some("eth9".into()), ..tuning() };
    let ended = tuned(SimulatedHose::default(), &SimulatedHost::default(), &wanted, None);
    let Err(Ended::Failed(failure)) = ended else { panic!("eth9 is not touched") };
    assert_eq!(failure.exit(), Exit::Wrong);
    assert!(failure.message().contains("--interface eth0"), "{}", failure.message());
}

#[test]
fn an_interrupted_stage_ends_it_as_interrupted() {
    for (stage, trial) in [("look", 0), ("trains-64", 2), ("windows", 3), ("hold-route", 0)] {
        let host = SimulatedHost::default();
        let trouble = Some((stage, Trouble::Interrupted(trial)));
        let ended = tuned(SimulatedHose::default(), &host, &tuning(), trouble).err();
        assert_eq!(ended, Some(Ended::With(Exit::Interrupted)), "{stage}");
        is_back(&host);
    }
}

#[test]
fn a_host_that_stays_away_in_the_proof_ends_it_and_one_that_comes_back_costs_a_run() {
    let leaves = |away_for| Trouble::Leaves(Leaving { host: 1, trial: 7, away_for });
    let host = SimulatedHost::default();
    let gone = Some(("proof", leaves(u32::MAX)));
    let Err(Ended::Failed(failure)) = tuned(SimulatedHose::default(), &host, &tuning(), gone)
    else {
        panic!("it stays away")
    };
    assert_eq!(failure.exit(), Exit::Missing);
    let back = Some(("proof", leaves(2)));
    let wanted = WindowTuning { pairs: 8, ..tuning() };
    let (findings, ..) = tuned(SimulatedHose::default(), &host, &wanted, back).expect("it goes on");
    assert_eq!(findings.verdict, Some(Verdict::Proven), "{:?}", findings.proof);
}

#[test]
fn requests_that_get_slower_are_a_side_effect_that_is_worse() {
    let path = SimulatedHose { slower_requests: 3.0, ..SimulatedHose::default() };
    let (findings, _) = found(path, &SimulatedHost::default());
    let requests = findings
        .side_effects
        .iter()
        .find(|side| side.metric == linerate_model::metric::RESPONSE_TIME_P50)
        .expect("measured");
    assert_eq!(requests.effect.change, Change::Worse, "{requests:?}");
    let others = findings.side_effects.iter().filter(|side| side.metric != requests.metric);
    assert!(others.clone().count() >= 3, "both ways and back: {:?}", findings.side_effects);
}
