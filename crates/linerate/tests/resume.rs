//! Campaigns that are killed, interrupted or run out of disk: what was measured is kept, and the
//! rest is done later.

use std::collections::BTreeMap;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use linerate_model::{Campaign, TrialId, TrialOutcome};
use linerate_store::Ledger;
use serde_json::Value;

use crate::common::{
    self, Ended, eventually, file, heard, load, namespaces, private_namespaces, privileged_folder,
    run, signal, wait, within_mounts,
};

/// Five trials, of which most are still to come when the second has ended.
const PLAN: &str = "[campaign]\nname = \"five\"\nrepeats = 5\n[[sweep]]\nname = \"five\"\nduration \
    = \"400 ms\"\n\
     warmup = \"100 ms\"\ndrain = \"100 ms\"\nrest = \"0 s\"\n[[sweep.job]]\nworkload \
     = \"tcp_stream\"\nfrom = \"a\"\n\
     to = \"b\"\nparams = { congestion = \"cubic\", pacing_rate = \"100 Mbit/s\" }\n";

const RUN: [&str; 8] =
    ["run", "plan.toml", "--lab", "pair", "--ledger", "five.ledger", "--out", "report"];

/// Starts the campaign in a process group of its own, as a shell does, and waits until its second
/// trial has ended.
fn second_trial_done(folder: &Path) -> Child {
    file(folder, "plan.toml", PLAN);
    // A test run in the background or behind `nohup` ignores these signals, and its children
    // inherit that.
    let mut command = Command::new("env");
    command.args(["--default-signal=HUP,INT,QUIT", env!("CARGO_BIN_EXE_linerate")]).args(RUN);
    command
        .current_dir(folder)
        .env("LINERATE_KEYS", folder.join("keys"))
        .env("NO_COLOR", "1")
        .stdin(Stdio::null());
    command.process_group(0).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("linerate starts");
    heard(&mut child, "2/5 done");
    child
}

/// The names in `folder` that begin with `start`.
fn files(folder: &Path, start: &str) -> Vec<String> {
    let entries = std::fs::read_dir(folder).expect("it is a folder");
    let names =
        entries.map(|entry| entry.expect("readable").file_name().into_string().expect("UTF-8"));
    names.filter(|name| name.starts_with(start)).collect()
}

#[test]
fn a_finished_campaign_is_one_file_also_after_it_is_read() {
    let folder = tempfile::tempdir().expect("a folder");
    file(folder.path(), "plan.toml", &common::plan("null", 0.2, ""));
    // A busy machine may make its trial invalid.
    run(folder.path(), &["run", "plan.toml", "--ledger", "null.ledger", "--out", "report"]).ran();
    assert_eq!(files(folder.path(), "null.ledger"), ["null.ledger"]);
    run(folder.path(), &["report", "null.ledger", "--out", "report"]).ran();
    run(folder.path(), &["report", "null.ledger", "--json", "--out", "report"]).ran();
    assert_eq!(files(folder.path(), "null.ledger"), ["null.ledger"]);
}

/// When each completed trial of the campaign began.
fn completed(campaign: &Campaign) -> BTreeMap<TrialId, u64> {
    let completed =
        campaign.trials.iter().filter(|trial| trial.outcome == Some(TrialOutcome::Completed));
    completed.map(|trial| (trial.spec.id, trial.started.expect("it ran").0)).collect()
}

/// Resumes the campaign: the missing trials are run, and only they; the report covers all.
fn resume(folder: &Path) {
    let ledger = folder.join("five.ledger");
    let before = completed(&load(&ledger));
    let mut left = files(folder, "five.ledger");
    // A killed campaign leaves its live socket, where nobody answers.
    left.retain(|name| !name.ends_with(".live"));
    assert_eq!(left, ["five.ledger"], "reading has taken the log of a killed campaign in");
    let live = UnixStream::connect(folder.join("five.ledger.live"));
    assert!(live.is_err(), "a campaign that is over serves no snapshots");
    assert!((2..5).contains(&before.len()), "{before:?}");
    let mut arguments = RUN.to_vec();
    arguments.extend(["--resume", "--json"]);
    let ended = run(folder, &arguments).expect(0);
    assert_eq!(files(folder, "five.ledger"), ["five.ledger"], "the old socket is gone, too");
    let missing = 5 - before.len();
    let done =
        ended.stderr.lines().filter(|line| line.contains("/") && line.contains(" done ")).count();
    assert_eq!(done, missing, "{}", ended.stderr);
    let campaign = load(&ledger);
    let after = completed(&campaign);
    assert_eq!(after.len(), 5);
    assert!(before.iter().all(|(trial, started)| after[trial] == *started), "{before:?} {after:?}");
    assert!(campaign.ended.is_some());
    let campaigns = Ledger::open_read_only(&ledger).and_then(|ledger| ledger.campaigns());
    assert_eq!(campaigns.expect("it opens").len(), 1);
    let report = ["report", "five.ledger", "--json", "--out", "report"];
    let json = run(folder, &report).expect(0).json();
    let point = &json["points"][0];
    let list = |value: &Value| value.as_array().expect("a list").clone();
    let values = list(&point["jobs"][0]["metrics"]["goodput"]["values"]);
    assert_eq!(values.len(), 5);
    // A figure that cannot be is withheld, as when a busy machine counts two seconds as one.
    for (value, trial) in values.iter().zip(list(&point["trials"])) {
        assert!(value.is_number() || trial["validity"] != "valid", "{values:?} {trial}");
    }
}

#[test]
fn a_killed_campaign_leaves_nothing_and_is_resumed() {
    let Some(folder) = privileged_folder() else { return };
    let mut child = second_trial_done(folder.path());
    let names = private_namespaces(child.id());
    let processes_in = |name: &String| {
        String::from_utf8(within_mounts(child.id(), &["netns", "pids", name]).stdout)
    };
    let pids = names.iter().map(|name| processes_in(name).expect("numbers")).collect::<String>();
    let agents: Vec<u32> = pids.lines().map(|pid| pid.trim().parse().expect("a number")).collect();
    assert_eq!((names.len(), agents.len()), (2, 2), "one agent in each namespace");
    // Their names are seen by nobody else.
    assert_eq!(namespaces(&format!("lr-{}.", child.id())), [""; 0]);
    child.kill().expect("SIGKILL");
    child.wait().expect("our child");
    eventually("the agents to notice that nobody conducts them", || {
        agents.iter().all(|pid| !Path::new(&format!("/proc/{pid}")).exists()).then_some(())
    });
    resume(folder.path());
}

#[test]
fn an_interrupted_campaign_keeps_what_it_measured_and_is_resumed() {
    let Some(folder) = privileged_folder() else { return };
    let child = second_trial_done(folder.path());
    // A terminal's Ctrl-C goes to every process of the group.
    let group = format!("-{}", child.id());
    let sent = Command::new("kill").args(["-INT", "--", &group]).status();
    assert!(sent.expect("kill runs").success());
    let ended = wait(child);
    assert_eq!(ended.code, Some(130), "{ended:?}");
    assert!(ended.stdout.contains("ledger five.ledger"), "{ended:?}");
    resume(folder.path());
}

#[test]
fn a_second_interrupt_ends_at_once_and_the_ledger_opens() {
    let Some(folder) = privileged_folder() else { return };
    let child = second_trial_done(folder.path());
    let id = child.id();
    signal(id, "INT");
    signal(id, "INT");
    // It ends by the signal or, if it was quicker, by itself.
    assert!(matches!(wait(child).code, None | Some(130)));
    assert!(completed(&load(&folder.path().join("five.ledger"))).len() >= 2);
}

#[test]
fn a_closed_terminal_ends_a_campaign_as_an_interrupt_does() {
    let Some(folder) = privileged_folder() else { return };
    let child = second_trial_done(folder.path());
    signal(child.id(), "HUP");
    let ended = wait(child);
    assert_eq!(ended.code, Some(130), "{ended:?}");
    assert!(ended.stdout.contains("ledger five.ledger"), "{ended:?}");
}

#[test]
fn a_full_disk_stops_the_campaign_with_a_remedy_and_the_ledger_opens() {
    let Some(folder) = privileged_folder() else { return };
    let plan = "[campaign]\nname = \"full\"\nrepeats = 200\n[[sweep]]\nname = \"full\"\nduration \
        = \"100 ms\"\n\
                warmup = \"0 s\"\ndrain = \"0 s\"\nrest = \"0 s\"\n[[sweep.job]]\nworkload \
                = \"null\"\nfrom = \"a\"\nto = \"b\"\n";
    file(folder.path(), "plan.toml", plan);
    std::fs::create_dir(folder.path().join("small")).expect("made");
    // The mount lives in a namespace of this command: it goes with it.
    let script = "mount -t tmpfs -o size=500k tmpfs small && \"$0\" run plan.toml --ledger \
        small/full.ledger --out report; \
                  code=$?; cp small/* . ; exit $code";
    let output = Command::new("unshare")
        .args(["--mount", "sh", "-c", script, env!("CARGO_BIN_EXE_linerate")])
        .current_dir(folder.path())
        .output()
        .expect("unshare runs");
    let ended = Ended::from(output).expect(4);
    let last = ended.stderr.lines().last().unwrap_or_default();
    println!("{last}");
    assert!(last.contains("small/full.ledger") && last.contains("full"), "{}", ended.stderr);
    assert!(last.contains("--resume"), "what to do then: {last}");
    let campaign = load(&folder.path().join("full.ledger"));
    assert_eq!(campaign.trials.len(), 200);
    assert!(!completed(&campaign).is_empty() && campaign.ended.is_none());
}
