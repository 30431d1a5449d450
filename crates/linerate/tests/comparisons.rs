//! `[sweep.compare]`, end to end: two arms of known difference, measured in turn, across a kill and
//! a resumption; and an arm that sets something at a host, which is put back.

use std::collections::BTreeMap;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Stdio};

use linerate_analysis::{Compared, Comparison, Study, study};
use linerate_model::{Campaign, Direction, Metric, Role, TrialOutcome, metric};
use linerate_sys::netns::within;

use crate::common::{
    AGENT, Ended, Pair, exchange_keys, file, heard, linerate, load, privileged_folder, run, signal,
};

/// Pairs of each comparison: enough to be killed between them.
const PAIRS: u32 = 3;

fn compared<'a>(comparison: &'a Comparison, metric: &'static Metric) -> Option<&'a Compared> {
    comparison.figures.iter().find(|f| f.metric == metric && f.direction == Direction::Tx)
}

fn only(study: &Study) -> &Comparison {
    assert_eq!(study.comparisons.len(), 1);
    &study.comparisons[0]
}

/// A plain wire, and a device that forwards 2000 frames a second; 3000 are offered.
const LAB: &str = "[lab]\nname='two'\n[[host]]\nname='a'\n[[host]]\nname='b'\n[[link]]\n\
    ends=['a.awire','b.bwire']\noffloads=false\n\
     [[element]]\nname='dut'\nends=['a.adev','b.bdev']\npacket_rate='2 \
     kpps'\nbuffer_frames=64\nbuffer='1 MiB'\n";

fn frames_plan() -> String {
    format!(
        "[campaign]\nname = \"two paths\"\n[[sweep]]\nname = \"paths\"\nduration = \"200 \
            ms\"\nwarmup = \"100 ms\"\n\
         drain = \"150 ms\"\nrest = \"0 s\"\n[[sweep.job]]\nworkload = \"frames\"\nfrom \
         = \"awire\"\nto = \"bwire\"\n\
         params = {{ mode = \"packet\", rate = \"3 kpps\" }}\n[sweep.compare]\npairs = \
         {PAIRS}\nplacebo = true\n\
         a = {{ name = \"wire\" }}\nb = {{ name = \"device\", from = \"adev\", to = \"bdev\" }}\n"
    )
}

const RUN: [&str; 8] =
    ["run", "plan.toml", "--lab", "two.toml", "--ledger", "two.ledger", "--out", "report"];

/// How often each repeat of each arm was completed.
fn completed(campaign: &Campaign) -> BTreeMap<(Role, u32), usize> {
    let mut times = BTreeMap::new();
    for trial in
        campaign.trials.iter().filter(|trial| trial.outcome == Some(TrialOutcome::Completed))
    {
        let arm = trial.spec.arm.as_ref().expect("every trial belongs to an arm");
        *times.entry((arm.role, trial.spec.repeat)).or_default() += 1;
    }
    times
}

fn fifth_trial_done(folder: &Path) -> Child {
    let mut command = linerate(folder, &RUN);
    let mut child = command
        .process_group(0)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("linerate starts");
    heard(&mut child, "5/9 done");
    child
}

#[test]
fn a_comparison_killed_between_its_arms_is_resumed_and_measures_each_arm_once() {
    let Some(folder) = privileged_folder() else { return };
    let folder = folder.path();
    file(folder, "two.toml", LAB);
    file(folder, "plan.toml", &frames_plan());
    let mut child = fifth_trial_done(folder);
    signal(child.id(), "KILL");
    child.wait().expect("our child");
    let before = completed(&load(&folder.join("two.ledger")));
    assert!((5..9).contains(&before.len()), "{before:?}");
    let mut again = RUN.to_vec();
    again.push("--resume");
    run(folder, &again).ran();

    let campaign = load(&folder.join("two.ledger"));
    let after = completed(&campaign);
    assert_eq!(after.len(), 3 * PAIRS as usize, "every arm of every pair was measured");
    assert!(after.values().all(|times| *times == 1), "once: {after:?}");
    let study = study(&campaign);
    // Tests of `linerate-analysis` decide on recorded pairs that the device is worse.
    let Some(rate) = compared(only(&study), metric::PACKET_RATE) else {
        return println!(
            "skipped: a_comparison_killed_between_its_arms_is_resumed_and_measures_each_arm_once: \
                no \
                pair of figures: {:?}",
            study.points[0].why
        );
    };
    println!("3000 frames/s offered: {:?}, placebo {:?}", rate.effect, rate.placebo);
    assert!(rate.pairs <= PAIRS as usize);
    assert!(
        rate.placebo.is_some() || rate.pairs < PAIRS as usize,
        "a placebo was measured with every pair: {rate:?}"
    );
}

/// Segments travel one by one, so that a small window holds few of them.
fn without_offloads(pair: &Pair) {
    for end in 0..2 {
        pair.ran(end, "ethtool -K v0 gro off gso off tso off");
    }
}

#[test]
fn an_arm_changes_a_setting_of_a_host_and_restores_it() {
    let Some(folder) = privileged_folder() else { return };
    const SETTING: &str = "net.ipv4.tcp_rmem";
    let (folder, pair) = (folder.path(), Pair::build("arms"));
    without_offloads(&pair);
    let now = || {
        within(&pair.names[1], || linerate_sys::sysctl::read(SETTING))
            .expect("there")
            .expect("readable")
    };
    let before = now();
    exchange_keys(&pair, folder);
    let _agent = pair.agent(folder, AGENT, &["--allow-tune", "host"]);
    let plan = format!(
        "[campaign]\nname = \"window\"\n[[sweep]]\nname = \"window\"\nduration = \"200 \
            ms\"\nwarmup = \"100 ms\"\n\
         drain = \"100 ms\"\nrest = \"0 s\"\n[[sweep.job]]\nworkload = \"tcp_stream\"\nfrom \
         = \"a\"\nto = \"b\"\n\
         params = {{ direction = \"tx\", streams = 1, congestion = \"cubic\" \
         }}\n[sweep.compare]\npairs = 2\n\
         a = {{ name = \"default\" }}\nb = {{ name = \"small\", settings = [{{ at = \"b\", name \
         = \"{SETTING}\", \
         value = \"4096 4096 4096\" }}] }}\n"
    );
    file(folder, "plan.toml", &plan);
    let arguments =
        ["run", "plan.toml", "--to", AGENT, "--ledger", "arms.ledger", "--out", "report"];
    Ended::from(pair.linerate(0, folder, "a", &arguments).output().expect("starts")).ran();
    // The agent restores it when the campaign has left.
    let left = std::time::Instant::now();
    while now() != before {
        assert!(left.elapsed().as_secs() < 10, "{} instead of {before}", now());
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    let campaign = load(&folder.join("arms.ledger"));
    let study = study(&campaign);
    println!(
        "receive window of 4 KiB: {:?}",
        compared(only(&study), metric::GOODPUT).map(|goodput| &goodput.effect)
    );
    let settings = |campaign: &Campaign, name: &str| {
        let arms = campaign.trials.iter().filter_map(|trial| trial.spec.arm.as_ref());
        arms.filter(|arm| arm.name == name).count()
    };
    assert_eq!((settings(&campaign, "default"), settings(&campaign, "small")), (2, 2));
}
