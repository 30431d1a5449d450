//! The program `linerate-agent`, reached as conductors reach it.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use linerate_control::{Timeouts, ask};
use linerate_model::HostAddress;

const PROGRAM: &str = env!("CARGO_BIN_EXE_linerate-agent");

/// Returns the kernel release in the facts of the agent at `address`.
fn release_at(address: &HostAddress) -> Option<String> {
    let answer = ask("it", address, None, "test", &[], &Timeouts::default()).unwrap();
    answer.facts.pointer("/kernel/release").and_then(|text| text.as_str()).map(str::to_owned)
}

/// A child that ends with this value.
struct Ending(Child);

impl Drop for Ending {
    fn drop(&mut self) {
        let _ended = self.0.kill();
        let _waited = self.0.wait();
    }
}

#[test]
fn it_serves_on_its_streams_and_on_loopback_as_the_full_program_does() {
    let own = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let words = [PROGRAM, "agent", "--stdio"].map(str::to_owned);
    let told = release_at(&HostAddress::Command(words.to_vec()));
    assert_eq!(told.as_deref(), Some(own.trim()));
    let keys = tempfile::tempdir().unwrap();
    let mut agent = Command::new(PROGRAM);
    agent.args(["agent", "--listen", "127.77.0.41:0", "--keys"]).arg(keys.path());
    let agent = Ending(agent.stderr(Stdio::piped()).spawn().unwrap());
    let mut agent = agent;
    let mut lines = BufReader::new(agent.0.stderr.take().unwrap()).lines();
    let line = lines.find(|line| line.as_ref().unwrap().starts_with("listening on "));
    let line = line.expect("it says where it listens").unwrap();
    let address = line["listening on ".len()..].split(',').next().unwrap().to_owned();
    assert_eq!(release_at(&HostAddress::Tcp(address)).as_deref(), Some(own.trim()));
}

#[test]
fn the_first_process_of_a_container_ends_when_it_is_asked_to() {
    let keys = tempfile::tempdir().unwrap();
    let mut container = Command::new("unshare");
    container.args(["--pid", "--fork", "--kill-child", PROGRAM, "agent", "--keys"]);
    container.arg(keys.path()).args(["--listen", "127.77.0.42:0"]);
    let Ok(container) = container.stderr(Stdio::piped()).spawn() else {
        return println!("skipped: the first process of a container: there is no unshare");
    };
    let mut container = Ending(container);
    let mut lines = BufReader::new(container.0.stderr.take().unwrap()).lines();
    if !lines.any(|line| line.unwrap().starts_with("listening on ")) {
        return println!("skipped: the first process of a container: needs root");
    }
    let id = container.0.id();
    let children = std::fs::read_to_string(format!("/proc/{id}/task/{id}/children")).unwrap();
    let first = children.split_whitespace().next().expect("the agent");
    let signal = |signal| Command::new("kill").args([signal, first]).status().unwrap();
    assert!(signal("-TERM").success());
    let deadline = Instant::now() + Duration::from_secs(30);
    let mut ended = None;
    while ended.is_none() && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(10));
        ended = container.0.try_wait().unwrap();
    }
    // One that goes on must not outlive the test: its parent's end does not reach it.
    signal("-KILL");
    assert_eq!(ended.and_then(|status| status.code()), Some(130), "as after Ctrl-C");
}

#[test]
fn it_has_keys_and_refuses_what_the_full_program_refuses() {
    let keys = tempfile::tempdir().unwrap();
    let said = |arguments: &[&str]| {
        let mut command = Command::new(PROGRAM);
        command.args(arguments).env("LINERATE_KEYS", keys.path());
        let output = command.output().unwrap();
        let text = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8(text).unwrap())
    };
    let (code, text) = said(&["pair", "list"]);
    assert_eq!((code, text.starts_with("own key ")), (Some(0), true), "{text}");
    let (code, text) = said(&["agent", "--listen", "192.0.2.7:1"]);
    assert_eq!(code, Some(4), "{text}");
    assert!(text.contains("no paired key"), "{text}");
    let policy = keys.path().join("agent.toml");
    std::fs::write(&policy, "\n[network]\nrate = 5\n").unwrap();
    let (code, text) = said(&["agent", "--policy", policy.to_str().unwrap()]);
    assert_eq!(code, Some(2), "{text}");
    assert!(text.starts_with(&format!("error: {}:", policy.display())), "{text}");
    let (code, text) = said(&["report"]);
    assert_eq!(code, Some(2), "it begins nothing: {text}");
}
