//! Talking NC-SI to the emulated controller, as a user would: every verb, and what goes wrong.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStdout, Command, Output, Stdio};

use crate::common::{self, privileged};

/// A lab that exists as long as this value.
struct Standing {
    child: Child,
    /// Kept open: the lab prints to it when it goes.
    _output: BufReader<ChildStdout>,
    name: String,
}

impl Standing {
    /// Builds a lab with `controller`, under a name that no other test uses, nor this one in
    /// another run of the tests. A name has eight characters at most.
    fn up(letter: &str, controller: &str) -> Self {
        let name = format!("{letter}{:x}", std::process::id());
        let text = include_str!("../../../labs/ncsi.toml")
            .replace("name = \"ncsi\"", &format!("name = \"{name}\""))
            .replace("cpu = \"50 %\"\n", "")
            .replace("channels = 2", &format!("channels = 2\n{controller}"));
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("lab.toml");
        std::fs::write(&path, text).expect("written");
        let mut child = Command::new(env!("CARGO_BIN_EXE_linerate"))
            .args(["lab", "up"])
            .arg(&path)
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .expect("starts");
        let mut output = BufReader::new(child.stdout.take().expect("piped"));
        let told: Vec<String> = output
            .by_ref()
            .lines()
            .map_while(Result::ok)
            .take_while(|line| !line.contains("Ctrl-C"))
            .collect();
        assert!(told.iter().any(|line| line.starts_with("bmc")), "{told:?}");
        Self { child, _output: output, name }
    }

    /// Returns `linerate ncsi` at the BMC. The process that is started is the one that asks.
    fn command(&self, arguments: &[&str]) -> Command {
        let program = env!("CARGO_BIN_EXE_linerate");
        let mut command = Command::new(program);
        command.args(["lab", "exec", &self.name, "bmc", program, "ncsi"]).args(arguments);
        command
    }

    fn ncsi(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().expect("runs")
    }

    /// Lets something happen at a controller.
    fn event(&self, controller: &str, event: &str) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_linerate"));
        command.args(["lab", "event", &self.name, controller, event]).output().expect("runs")
    }

    fn says(&self, arguments: &[&str], parts: &[&str]) {
        let output = self.ncsi(arguments);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(
            output.status.success(),
            "{arguments:?}: {text}{}",
            String::from_utf8_lossy(&output.stderr)
        );
        for part in parts {
            assert!(text.contains(part), "no {part:?} in the answer to {arguments:?}:\n{text}");
        }
    }

    fn refuses(&self, arguments: &[&str], code: i32, part: &str) {
        let output = self.ncsi(arguments);
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {text}");
        assert!(text.contains(part), "no {part:?} in: {text}");
    }
}

impl Drop for Standing {
    fn drop(&mut self) {
        let pid = self.child.id().to_string();
        let _interrupted = Command::new("kill").args(["-INT", &pid]).status();
        let _ended = self.child.wait();
    }
}

/// The BMC's interface in the lab.
const SIDEBAND: &str = "sw2";

#[test]
fn every_verb_is_answered_by_a_controller_that_follows_the_standard() {
    let Some(()) = privileged() else { return };
    let lab = Standing::up("v", "");
    let ask = |verb: &str, parts: &[&str]| lab.says(&[verb, "-i", SIDEBAND], parts);
    ask(
        "discover",
        &[
            "package 0 channel 0",
            "8192 B (8 KiB)",
            "1000 Mbit/s, full duplex",
            "channel 1",
            "initial",
        ],
    );
    ask("version", &["1.0.1", "linerate-nc"]);
    ask("capabilities", &["8192 B", "2 unicast"]);
    ask("parameters", &["traffic to the BMC", "on", "02:4e:43:53:49:00"]);
    ask("link", &["up"]);
    ask("stats", &["rx packets received on the network", "commands received", "bytes received"]);
    lab.says(&["watch", "-i", SIDEBAND, "--count", "1"], &["from the network"]);
    let json = lab.ncsi(&["capabilities", "-i", SIDEBAND, "--json"]);
    let value: serde_json::Value = serde_json::from_slice(&json.stdout).expect("one document");
    assert_eq!(value["answers"]["capabilities"]["buffer_bytes"], 8192);
    assert_eq!(value["transport"], "raw_frames");
    lab.refuses(&["version", "-i", SIDEBAND, "--channel", "1"], 4, "initial state");
    lab.refuses(&["configure", "-i", SIDEBAND, "--channel", "1"], 2, "--allow-set");
    lab.says(
        &["configure", "-i", SIDEBAND, "--channel", "1", "--allow-set"],
        &["done", "EnableChannel"],
    );
    lab.says(&["version", "-i", SIDEBAND, "--channel", "1"], &["1.0.1"]);
    lab.refuses(&["link", "-i", SIDEBAND, "--channel", "9"], 4, "out of range");
    lab.refuses(&["link", "-i", "lr-none"], 4, "No such device");
    lab.refuses(&["link", "-i", "lo"], 4, "looped");
}

#[test]
fn events_of_a_controller_are_shown_as_they_happen_while_watch_has_enabled_them() {
    let Some(()) = privileged() else { return };
    let lab = Standing::up("e", "");
    let enabled = || {
        let told = lab.ncsi(&["parameters", "-i", SIDEBAND, "--json"]).stdout;
        let value: serde_json::Value = serde_json::from_slice(&told).expect("one document");
        value["answers"]["parameters"]["notifications"].clone()
    };
    let before = enabled();
    let mut watch = lab.command(&["watch", "-i", SIDEBAND, "--allow-set", "--json"]);
    let mut watch = common::Guard(watch.stdout(Stdio::piped()).spawn().expect("starts"));
    let mut lines = BufReader::new(watch.0.stdout.take().expect("piped")).lines();
    // A line comes at least every second.
    let mut next = |wanted: &str| {
        let mut values = lines.by_ref().take(60).map(|line| {
            let line = line.expect("text");
            serde_json::from_str::<serde_json::Value>(&line).expect("JSON")[wanted].clone()
        });
        values.find(|value| value.is_object()).expect(wanted)
    };
    // It has enabled them before its first reading.
    next("per_second");
    assert_eq!(enabled(), 7);
    assert!(lab.event("nc", "link-down").status.success());
    let told = next("notification");
    assert_eq!((&told["kind"], &told["of"]["up"]), (&"link_status".into(), &false.into()));
    assert!(lab.event("nc", "driver-stopped").status.success());
    assert_eq!(next("notification")["of"]["runs"], false);
    common::signal(watch.0.id(), "INT");
    assert_eq!(watch.0.wait().expect("our child").code(), Some(130));
    assert_eq!(enabled(), before, "they are as they were");
    let refused = lab.event("nc2", "link-up");
    let why = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(4), "{why}");
    assert!(why.contains("no controller nc2 (it has nc)"), "{why}");
}

/// The kernel offers its NC-SI stack in the first network namespace only, so a lab never has one,
/// whatever the kernel.
#[test]
fn ncsi_uses_raw_frames_without_a_stack_and_gives_the_reason() {
    let Some(()) = privileged() else { return };
    let lab = Standing::up("t", "");
    let why = "asked in raw frames, because this kernel offers no NC-SI stack here (no generic \
        netlink family NCSI)";
    for verb in ["discover", "version", "capabilities", "parameters", "link", "stats"] {
        let text = lab.ncsi(&[verb, "-i", SIDEBAND]);
        let text = common::one_line(&String::from_utf8_lossy(&text.stdout));
        assert!(text.contains(&format!("{SIDEBAND}: {why}")), "{verb}: {text}");
        let told = lab.ncsi(&[verb, "-i", SIDEBAND, "--json"]);
        let value: serde_json::Value =
            serde_json::from_slice(&told.stdout).expect("one document, nothing beside it");
        assert_eq!(value["transport"], "raw_frames", "{verb}");
        assert_eq!(value["transport_reason"], why, "{verb}");
    }
    let watched = lab.ncsi(&["watch", "-i", SIDEBAND, "--count", "1", "--json"]);
    let value: serde_json::Value = serde_json::from_slice(&watched.stdout).expect("one line");
    assert_eq!(
        (&value["transport"], &value["interface"]),
        (&"raw_frames".into(), &SIDEBAND.into())
    );
    // The option gives the same frames for another reason. No other program uses this sideband.
    let forced = lab.ncsi(&["version", "-i", SIDEBAND, "--force-raw"]);
    let text = common::one_line(&String::from_utf8_lossy(&forced.stdout));
    assert!(text.contains("because --force-raw says so"), "{text}");
    assert!(forced.stderr.is_empty(), "{forced:?}");
}

#[test]
fn a_misbehaving_controller_is_reported_without_a_hang() {
    let Some(()) = privileged() else { return };
    let lab = Standing::up("s", "faults = { silent = true }");
    lab.refuses(&["version", "-i", SIDEBAND], 4, "no answer after 3 tries");
    lab.refuses(&["discover", "-i", SIDEBAND], 4, "no controller answered");
    drop(lab);
    let lab = Standing::up("w", "faults = { checksum = \"wrong\" }");
    lab.refuses(&["version", "-i", SIDEBAND], 4, "wrong checksum");
    drop(lab);
    let lab = Standing::up(
        "l",
        "faults = { lose_reply_one_in = 2, legacy_statistics = true }\nreported_buffer = \"7 B\"",
    );
    lab.says(&["capabilities", "-i", SIDEBAND], &["too small for a frame"]);
    lab.says(&["stats", "-i", SIDEBAND], &["rx packets dropped", "answered at try 2"]);
    drop(lab);
    let lab = Standing::up("o", "faults = { all_ones = true }");
    lab.says(&["stats", "-i", SIDEBAND], &["n/a"]);
}
