//! Checks of `linerate doctor` that another instrument confirms.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::common::{Ended, linerate, privileged, run};

/// The check of `subject` in a document of `doctor --json`.
fn check(document: &Value, subject: &str) -> Value {
    let checks = document["checks"].as_array().expect("a list").iter();
    let mut own = checks.filter(|check| check["subject"] == subject);
    own.next().unwrap_or_else(|| panic!("no check of {subject}: {document}")).clone()
}

#[test]
fn doctor_checks_the_buffer_that_udp_stream_requests() {
    let Some(()) = privileged() else { return };
    let wanted = linerate_load::workloads::UDP_RECEIVE_BUFFER.0;
    let folder = tempfile::tempdir().expect("a folder");
    let with = run(folder.path(), &["doctor", "--json"]).expect(0).json();
    assert_eq!(
        check(&with, "socket buffer limits")["good"],
        true,
        "limits do not apply to root: {with}"
    );
    let direct = linerate(folder.path(), &["doctor", "--json"]);
    let output = Command::new("setpriv")
        .args(["--bounding-set", "-net_admin", "--inh-caps", "-net_admin"])
        .arg(direct.get_program())
        .args(direct.get_args())
        .output()
        .expect("util-linux has setpriv");
    let without = check(&Ended::from(output).expect(0).json(), "socket buffer limits");
    let limit = std::fs::read_to_string("/proc/sys/net/core/rmem_max").expect("Linux has it");
    let limit: u64 = limit.trim().parse().expect("a number");
    assert_eq!(without["good"], limit >= wanted, "{without}");
    if limit < wanted {
        let remedy = format!("sysctl -w net.core.rmem_max={wanted}, or run with CAP_NET_ADMIN");
        assert_eq!(without["remedy"], remedy.as_str());
        assert!(
            without["seen"].as_str().is_some_and(|seen| seen.contains("of the 32 MiB")),
            "{without}"
        );
    }
}

#[test]
fn doctor_describes_the_protection_of_an_agent() {
    let folder = tempfile::tempdir().expect("a folder");
    let here =
        check(&run(folder.path(), &["doctor", "--json"]).expect(0).json(), "agent's separation");
    // The policy of this host may say otherwise; then so does the check.
    let seen = here["seen"].as_str().expect("text");
    assert!(seen.starts_with("serving as ") || here["remedy"].is_string(), "{here}");
    if privileged().is_none() || std::path::Path::new("/etc/linerate").exists() {
        return;
    }
    // As an agent says it when it begins to listen.
    let mut agent = linerate(folder.path(), &["agent", "--listen", "127.0.0.1:0"]);
    let mut agent = agent.stderr(Stdio::piped()).spawn().expect("starts");
    let lines = BufReader::new(agent.stderr.take().expect("piped")).lines();
    let told = lines.map(|line| line.expect("text")).find(|line| line.starts_with("serving as "));
    agent.kill().and_then(|()| agent.wait()).expect("our child");
    assert_eq!(Some(seen), told.as_deref());
}
