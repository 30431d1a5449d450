//! Readers that go away, and a standard output that cannot be written: nothing panics, and what was
//! begun is finished.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};

use crate::common::{
    Ended, eventually, file, linerate, load, namespaces, plan, privileged_folder, run, signal,
    start, wait,
};

/// SIGPIPE, which may end a command that only prints when its reader has gone.
const BROKEN_PIPE: i32 = 13;

/// Closes the standard output of `child` and waits for it.
fn unread(mut child: Child) -> (Option<i32>, String) {
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("it is our child");
    let code = output
        .status
        .code()
        .or_else(|| output.status.signal().filter(|s| *s == BROKEN_PIPE).map(|_| 0));
    (code, String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn every_command_survives_a_closed_pipe() {
    let folder = tempfile::tempdir().expect("a folder");
    file(folder.path(), "plan.toml", &plan("null", 0.2, ""));
    run(folder.path(), &["run", "plan.toml", "--ledger", "one.ledger", "--out", "report"])
        .expect(0);
    let commands: &[&[&str]] = &[
        &["--help"],
        &["completions", "bash"],
        &["doctor"],
        &["facts"],
        &["limit", "tcp", "--rate", "1 Gbit/s", "--mtu", "1500"],
        &["list", "metrics"],
        &["list", "workloads", "--json"],
        &["man"],
        &["pair", "list"],
        &["plan", "demo"],
        &["replay", "all"],
        &["report", "one.ledger", "--out", "report"],
        &["report", "one.ledger", "--out", "report", "--json"],
        &["run", "plan.toml", "--ledger", "two.ledger", "--out", "report"],
        &["run", "plan.toml", "--ledger", "two.ledger", "--out", "report", "--json"],
    ];
    for command in commands {
        let (code, stderr) = unread(start(folder.path(), command));
        // `replay` says by 1 that a paper disagrees with itself.
        assert!(
            code == Some(0) || (command[0] == "replay" && code == Some(1)),
            "{command:?}: {code:?} {stderr}"
        );
        assert!(!stderr.contains("panicked"), "{command:?}: {stderr}");
    }
    assert!(load(&folder.path().join("two.ledger")).ended.is_some());
}

#[test]
fn a_campaign_continues_with_both_outputs_closed() {
    let folder = tempfile::tempdir().expect("a folder");
    file(folder.path(), "plan.toml", &plan("null", 0.2, "").replace("repeats = 1", "repeats = 3"));
    let mut child =
        start(folder.path(), &["run", "plan.toml", "--ledger", "one.ledger", "--out", "report"]);
    drop((child.stdout.take(), child.stderr.take()));
    assert_eq!(child.wait().expect("it is our child").code(), Some(0));
    let campaign = load(&folder.path().join("one.ledger"));
    assert_eq!(campaign.trials.iter().filter(|trial| trial.outcome.is_some()).count(), 3);
    assert!(campaign.ended.is_some() && folder.path().join("report").exists());
}

#[test]
fn a_failed_write_to_standard_output_is_an_error() {
    let folder = tempfile::tempdir().expect("a folder");
    for command in [
        &["list", "metrics"][..],
        &["doctor", "--json"],
        &["limit", "lag", "--links", "4", "--flows", "8"],
    ] {
        let full = File::create("/dev/full").expect("Linux has one");
        let output = linerate(folder.path(), command).stdout(full).output().expect("starts");
        let ended = Ended::from(output).expect(4);
        let message = "linerate: write to standard output: No space left on device (os error 28) \
            (what was printed is \
                       incomplete)\n";
        assert_eq!(ended.stderr, message, "{command:?}");
    }
}

#[test]
fn a_lab_with_a_closed_output_stays_up_and_is_listed() {
    let Some(folder) = privileged_folder() else { return };
    let name = format!("o{}", std::process::id());
    let text = include_str!("../../../labs/ncsi.toml")
        .replace("name = \"ncsi\"", &format!("name = \"{name}\""));
    file(folder.path(), "lab.toml", &text);
    let mut command = linerate(folder.path(), &["lab", "up", "lab.toml"]);
    let mut child =
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("linerate starts");
    // The first line is printed when the lab is complete. The reader then closes the pipe.
    let mut first = String::new();
    BufReader::new(child.stdout.take().expect("piped")).read_line(&mut first).expect("it speaks");
    let listed = run(folder.path(), &["lab", "list"]).expect(0).stdout;
    let own: Vec<&str> =
        listed.lines().filter_map(|line| line.strip_prefix(&format!("{name} "))).collect();
    let as_json = run(folder.path(), &["lab", "list", "--json"]).expect(0).json();
    let alive = child.try_wait().expect("it is our child").is_none();
    signal(child.id(), "INT");
    let ended = wait(child);
    assert!(alive, "{ended:?}");
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
    let hosts: Vec<&str> =
        text.lines().filter_map(|line| line.strip_prefix("name = \"")?.strip_suffix('"')).collect();
    assert!(own.len() >= 3 && own.iter().all(|node| hosts.contains(node)), "{own:?} of {hosts:?}");
    let in_json = as_json
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|full| full.as_str()?.strip_prefix(&format!("{name}-")));
    let mut in_json: Vec<&str> = in_json.collect();
    let mut own = own;
    own.sort_unstable();
    in_json.sort_unstable();
    assert_eq!(in_json, own);
    assert!(!run(folder.path(), &["lab", "list"]).expect(0).stdout.contains(&name), "it is gone");
}

/// The supervisor of the lab ends with the PID namespace too, so that only the kernel can remove
/// the rest.
#[test]
fn a_lab_is_found_by_name_and_ends_with_its_pid_namespace() {
    let Some(folder) = privileged_folder() else { return };
    let name = format!("p{}", std::process::id());
    let text = "[[host]]\nname = \"a\"\n[[host]]\nname = \"b\"\n[[link]]\nends = \
        [\"a\", \"b\"]\ndelay = \"1 ms\"\n";
    file(folder.path(), "lab.toml", &format!("[lab]\nname = \"{name}\"\n{text}"));
    let up = || {
        let mut command = Command::new("unshare");
        command.args([
            "--pid",
            "--fork",
            "--kill-child",
            env!("CARGO_BIN_EXE_linerate"),
            "lab",
            "up",
            "lab.toml",
        ]);
        let mut child = command
            .current_dir(folder.path())
            .stdout(Stdio::piped())
            .spawn()
            .expect("unshare starts");
        let mut output = BufReader::new(child.stdout.take().expect("piped"));
        let mut first = String::new();
        output.read_line(&mut first).expect("its first line comes when the lab is complete");
        assert!(!first.is_empty(), "it does not stand");
        (child, output)
    };
    let listed = || run(folder.path(), &["lab", "list"]).expect(0).stdout;
    let (mut child, _output) = up();
    assert_eq!(
        listed().lines().filter(|line| line.starts_with(&name)).count(),
        2,
        "two hosts, and no device"
    );
    let here = "pwd; ip netns identify; ls /sys/class/net";
    let said = run(folder.path(), &["lab", "exec", &name, "a", "sh", "-c", here]).expect(0).stdout;
    let own = folder.path().canonicalize().expect("it is there").display().to_string();
    assert_eq!(said.lines().take(2).collect::<Vec<_>>(), [own, format!("lr-up.{name}-a")]);
    assert!(said.lines().skip(2).any(|device| device != "lo"), "an interface of the lab: {said}");
    let second = run(folder.path(), &["lab", "up", "lab.toml"]).expect(4);
    assert!(second.stderr.contains("another process"), "{}", second.stderr);
    child.kill().expect("SIGKILL");
    child.wait().expect("our child");
    eventually("the kernel to end the PID namespace", || (!listed().contains(&name)).then_some(()));
    assert_eq!(namespaces(&format!("lr-up.{name}")), [""; 0]);
    // The name is free again, and `lab down` ends the process that carries the next one.
    let (mut child, _output) = up();
    run(folder.path(), &["lab", "down", &name]).expect(0);
    assert!(child.wait().expect("our child").success());
    assert!(!listed().contains(&name));
}
