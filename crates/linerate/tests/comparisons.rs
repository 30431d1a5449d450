//! `[sweep.compare]`, end to end: two arms of known difference, measured in turn, across a kill and a resumption; and an arm that sets
//! something at a host, which is put back.

mod common;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Stdio};

use common::{
    AGENT, Ended, Guard, Pair, alone, disturbed, exchange_keys, file, linerate, load, privileged, run, signal,
};
use linerate_analysis::compare::Change;
use linerate_analysis::{Compared, Comparison, Study, study};
use linerate_model::{Campaign, Direction, Role, TrialOutcome};
use linerate_sys::netns::within;

/// Of six pairs an interval can be given.
const PAIRS: u32 = 6;

fn compared<'a>(comparison: &'a Comparison, metric: &str) -> &'a Compared {
    let found = comparison.figures.iter().find(|f| f.metric == metric && f.direction == Direction::Tx);
    found.unwrap_or_else(|| panic!("{metric} is compared: {:?}", comparison.figures))
}

fn only(study: &Study) -> &Comparison {
    assert_eq!(study.comparisons.len(), 1);
    &study.comparisons[0]
}

/// A plain wire, and a device that forwards 2000 frames a second; 3000 are offered.
const LAB: &str = "[lab]\nname='two'\n[[host]]\nname='a'\n[[host]]\nname='b'\n[[link]]\nends=['a.awire','b.bwire']\noffloads=false\n\
     [[element]]\nname='dut'\nends=['a.adev','b.bdev']\npacket_rate='2 kpps'\nbuffer_frames=64\nbuffer='1 MiB'\n";

fn frames_plan() -> String {
    format!(
        "[campaign]\nname = \"two paths\"\n[[sweep]]\nname = \"paths\"\nduration = \"200 ms\"\nwarmup = \"100 ms\"\n\
         drain = \"150 ms\"\nrest = \"0 s\"\n[[sweep.job]]\nworkload = \"frames\"\nfrom = \"awire\"\nto = \"bwire\"\n\
         params = {{ mode = \"packet\", rate = \"3 kpps\" }}\n[sweep.compare]\npairs = {PAIRS}\nplacebo = true\n\
         a = {{ name = \"wire\" }}\nb = {{ name = \"device\", from = \"adev\", to = \"bdev\" }}\n"
    )
}

const RUN: [&str; 8] = ["run", "plan.toml", "--lab", "two.toml", "--ledger", "two.ledger", "--out", "report"];

/// How often each repeat of each arm was completed.
fn completed(campaign: &Campaign) -> BTreeMap<(Role, u32), usize> {
    let mut times = BTreeMap::new();
    for trial in campaign.trials.iter().filter(|trial| trial.outcome == Some(TrialOutcome::Completed)) {
        let arm = trial.spec.arm.as_ref().expect("every trial belongs to an arm");
        *times.entry((arm.role, trial.spec.repeat)).or_default() += 1;
    }
    times
}

fn fifth_trial_done(folder: &Path) -> Child {
    let mut command = linerate(folder, &RUN);
    let mut child =
        command.process_group(0).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("linerate starts");
    let mut lines = BufReader::new(child.stderr.take().expect("piped")).lines();
    assert!(lines.any(|line| line.is_ok_and(|line| line.starts_with("5/18 done"))));
    std::thread::spawn(move || lines.for_each(drop));
    child
}

#[test]
fn a_device_that_forwards_less_than_is_offered_is_told_from_a_wire_also_after_a_kill_between_the_arms() {
    if !privileged("a_device_that_forwards_less_than_is_offered_is_told_from_a_wire") {
        return;
    }
    let _turn = alone();
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    file(folder, "two.toml", LAB);
    file(folder, "plan.toml", &frames_plan());
    let mut child = fifth_trial_done(folder);
    signal(child.id(), "KILL");
    child.wait().expect("our child");
    let before = completed(&load(&folder.join("two.ledger")));
    assert!((5..18).contains(&before.len()), "{before:?}");
    let mut again = RUN.to_vec();
    again.push("--resume");
    run(folder, &again).expect(0);

    let campaign = load(&folder.join("two.ledger"));
    let after = completed(&campaign);
    assert_eq!(after.len(), 3 * PAIRS as usize, "every arm of every pair was measured");
    assert!(after.values().all(|times| *times == 1), "once: {after:?}");
    let study = study(&campaign);
    if disturbed([(&campaign, &study)], "a_device_that_forwards_less_than_is_offered_is_told_from_a_wire") {
        return;
    }
    let comparison = only(&study);
    let rate = compared(comparison, "packet_rate");
    println!("3000 frames/s offered: {:?}", rate.effect);
    assert_eq!((rate.pairs, rate.effect.change), (PAIRS as usize, Change::Worse));
    // Two thirds, and what 64 frames of buffer let through beyond that in 0.3 s at the most.
    assert!((0.6..0.75).contains(&rate.effect.shift), "{:?}", rate.effect);
    let placebo = rate.placebo.as_ref().expect("it was measured");
    assert_ne!(placebo.change, Change::Worse, "{placebo:?}");
}

/// Segments travel one by one, so that a small window holds few of them.
fn without_offloads(pair: &Pair) {
    for name in &pair.names {
        let output = std::process::Command::new("ip")
            .args(["netns", "exec", name, "ethtool", "-K", "v0", "gro", "off", "gso", "off", "tso", "off"])
            .output()
            .expect("ip runs");
        assert!(output.status.success(), "{output:?}");
    }
}

fn agent(pair: &Pair, folder: &Path) -> Guard {
    let arguments = ["agent", "--listen", AGENT, "--allow-tune", "host"];
    let mut child = pair.linerate(1, folder, "b", &arguments).spawn().expect("starts");
    let mut lines = BufReader::new(child.stderr.take().expect("piped")).lines();
    assert!(lines.any(|line| line.is_ok_and(|line| line.starts_with("listening on "))));
    std::thread::spawn(move || lines.for_each(drop));
    Guard(child)
}

#[test]
fn an_arm_that_sets_something_at_a_host_finds_what_it_costs_and_leaves_nothing_changed() {
    if !privileged("an_arm_that_sets_something_at_a_host_finds_what_it_costs_and_leaves_nothing_changed") {
        return;
    }
    const SETTING: &str = "net.ipv4.tcp_rmem";
    let _turn = alone();
    let folder = tempfile::tempdir().expect("a folder");
    let (folder, pair) = (folder.path(), Pair::build("arms"));
    without_offloads(&pair);
    let now = || within(&pair.names[1], || linerate_sys::sysctl::read(SETTING)).expect("there").expect("readable");
    let before = now();
    exchange_keys(&pair, folder);
    let _agent = agent(&pair, folder);
    let plan = format!(
        "[campaign]\nname = \"window\"\n[[sweep]]\nname = \"window\"\nduration = \"200 ms\"\nwarmup = \"100 ms\"\n\
         drain = \"100 ms\"\nrest = \"0 s\"\n[[sweep.job]]\nworkload = \"tcp_stream\"\nfrom = \"a\"\nto = \"b\"\n\
         params = {{ direction = \"tx\", streams = 1, congestion = \"cubic\" }}\n[sweep.compare]\npairs = 6\n\
         a = {{ name = \"default\" }}\nb = {{ name = \"small\", settings = [{{ at = \"b\", name = \"{SETTING}\", \
         value = \"4096 4096 4096\" }}] }}\n"
    );
    file(folder, "plan.toml", &plan);
    let arguments = ["run", "plan.toml", "--to", AGENT, "--ledger", "arms.ledger", "--out", "report"];
    Ended::from(pair.linerate(0, folder, "a", &arguments).output().expect("starts")).expect(0);
    assert_eq!(now(), before, "put back");
    let campaign = load(&folder.join("arms.ledger"));
    let study = study(&campaign);
    if disturbed([(&campaign, &study)], "an_arm_that_sets_something_at_a_host_finds_what_it_costs") {
        return;
    }
    let goodput = compared(only(&study), "goodput");
    println!("receive window of 4 KiB: {:?}", goodput.effect);
    assert_eq!(goodput.effect.change, Change::Worse, "{:?}", goodput.effect);
    assert!(goodput.effect.shift < 0.7, "{:?}", goodput.effect);
}
