//! What `linerate doctor` says is so.

mod common;

use std::process::Command;

use common::{Ended, linerate, privileged, run};
use serde_json::Value;

/// The check of `subject` in a document of `doctor --json`.
fn check(document: &Value, subject: &str) -> Value {
    let checks = document["checks"].as_array().expect("a list").iter();
    let mut own = checks.filter(|check| check["subject"] == subject);
    own.next().unwrap_or_else(|| panic!("no check of {subject}: {document}")).clone()
}

#[test]
fn the_buffer_it_looks_for_is_the_one_udp_stream_asks_for() {
    if !privileged("the_buffer_it_looks_for_is_the_one_udp_stream_asks_for") {
        return;
    }
    let wanted = linerate_load::workloads::UDP_RECEIVE_BUFFER.0;
    let folder = tempfile::tempdir().expect("a folder");
    let with = run(folder.path(), &["doctor", "--json"]).expect(0).json();
    assert_eq!(check(&with, "socket buffer limits")["good"], true, "limits do not apply to root: {with}");
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
        assert!(without["seen"].as_str().is_some_and(|seen| seen.contains("of the 32 MiB")), "{without}");
    }
}
