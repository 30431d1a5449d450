//! One small campaign of each paper: plan, lab, study, judge and report connect. Whether a shape
//! holds depends on the machine and is not asserted.

use serde_json::Value;

use crate::common::{privileged, run, skip};

/// Reproduces one campaign of `paper` with `set`, and returns the shapes of the answer.
fn shapes(paper: &str, step: &str, set: &[&str]) -> Vec<Value> {
    let folder = tempfile::tempdir().expect("a folder");
    let mut arguments = vec!["reproduce", paper, "--quick", "--step", step, "--json", "--out", "o"];
    arguments.extend(set.iter().flat_map(|change| ["--set", *change]));
    let ended = run(folder.path(), &arguments);
    // 1: a shape is missed, as may happen on a busy machine.
    assert!(matches!(ended.code, Some(0 | 1)), "{:?}: {}", ended.code, ended.stderr);
    let out = folder.path().join("o");
    for file in ["report.html", &format!("{step}.ledger"), &format!("{step}/report.html")] {
        assert!(out.join(file).exists(), "{file} is missing");
    }
    let Some(Value::Array(shapes)) = ended.json().get("shapes").cloned() else {
        panic!("{}", ended.stdout);
    };
    shapes
}

/// Asserts that the shapes `judged` come from trials of a quick run, and that a shape of a campaign
/// that was not run is not judged.
fn connected(shapes: &[Value], judged: &[&str], not_run: &str) {
    let of = |id: &str| shapes.iter().find(|shape| shape["id"] == id).expect(id);
    for id in judged {
        let shape = of(id);
        assert!(shape["trials"]["all"].as_u64() > Some(0), "{shape}");
        assert_eq!(shape["trials"]["quick"], true, "{shape}");
        // A trial that the machine disturbed too much carries no figure.
        let refused = shape["trials"]["refused"].as_u64() > Some(0);
        assert!(shape["holds"].is_boolean() || refused, "{shape}");
    }
    let shape = of(not_run);
    assert_eq!((&shape["holds"], &shape["trials"]["all"]), (&Value::Null, &Value::from(0)));
}

const ONCE: &str = "campaign.repeats=1";
const SHORT: &str = "duration=\"400 ms\"";

#[test]
fn a_campaign_of_the_intel_paper_runs_from_its_lab_to_its_shapes() {
    let Some(()) = privileged() else { return };
    let shapes = shapes("intel-ncsi", "port-1g", &[ONCE, SHORT]);
    connected(&shapes, &["V1.5b"], "V1.6a");
}

#[test]
fn a_campaign_of_the_sun_paper_runs_from_its_lab_to_its_shapes() {
    let Some(()) = privileged() else { return };
    let counts = "connections.axis.params.streams=[1, 2, 4]";
    let shapes = shapes("sun-netframe", "sun-link", &[ONCE, SHORT, counts]);
    connected(&shapes, &["V2.1a", "V2.2a"], "V2.3");
}

#[test]
fn a_campaign_of_the_cisco_paper_runs_from_its_lab_to_its_shapes() {
    let Some(()) = privileged() else { return };
    let sizes = "packets.axis.params.frame_size=[\"1004 B\", \"9004 B\"]";
    let shapes = shapes("cisco-vic", "ports-vic", &[ONCE, SHORT, sizes]);
    connected(&shapes, &["V3.2a", "V3.2e", "V3.4b"], "V3.4e");
}

#[test]
fn outages_of_two_cables_run_from_their_lab_to_their_shapes() {
    let Some(()) = privileged() else { return };
    // One of two cables fails every three seconds, for a second: each trial sees a whole failure.
    let shapes = shapes("cisco-vic", "failover", &[ONCE, "duration=\"4 s\""]);
    // One frame that another one overtook withholds the outage of its pair.
    let is_withheld = |shape: &&Value| {
        let measured = shape["measured"].as_str();
        measured.is_some_and(|text| text.contains("a pair has no outage"))
    };
    let withheld: Vec<&Value> = shapes.iter().filter(is_withheld).collect();
    if !withheld.is_empty() {
        skip(format_args!("no outage: {withheld:?}"));
    }
    let mut judged = vec!["V3.7a", "V3.7b", "V3.7c"];
    judged.retain(|id| !withheld.iter().any(|shape| shape["id"] == *id));
    connected(&shapes, &judged, "V3.4e");
}

#[test]
fn a_campaign_of_the_hp_paper_runs_from_its_lab_to_its_shapes() {
    let Some(()) = privileged() else { return };
    let set = [
        ONCE,
        SHORT,
        "data path.axis.params.send=[\"copy\", \"sendfile\"]",
        "source.axis.params.source=[\"warm\"]",
        "sink.axis.params.sink=[\"discard\"]",
    ];
    connected(&shapes("hp-ftp", "server", &set), &["V4.3"], "V4.4");
}

#[test]
fn the_switch_of_the_hp_paper_is_asked_over_snmp_where_snmpd_is_installed() {
    let Some(()) = privileged() else { return };
    let set = [
        ONCE,
        "duration=\"1 s\"",
        "clients.axis.pairs=[[\"c1 s\"]]",
        "sinks, 1 client.axis.params.sink_rate=[\"6.3 Mbit/s\"]",
        "sinks, 2 clients.axis.params.sink_rate=[\"6.3 Mbit/s\"]",
    ];
    let shapes = shapes("hp-ftp", "clients", &set);
    let octets = shapes.iter().find(|shape| shape["id"] == "V4.4").expect("it is a shape");
    let measured = octets["measured"].as_str().expect("a text");
    if measured.contains("no port of the switch was observed") {
        return skip(format_args!("{octets}"));
    }
    let starts = |tool| std::process::Command::new(tool).arg("--version").output().is_ok();
    if starts("snmpd") && starts("snmpset") {
        // A trial that the machine disturbed too much carries no figure.
        let refused = octets["trials"]["refused"].as_u64() > Some(0);
        assert!(measured.starts_with("SNMP agent of switch.s") || refused, "{octets}");
    } else {
        assert_eq!(octets["holds"], Value::Null, "{octets}");
        assert!(measured.contains("install snmpd"), "{octets}");
    }
}

#[test]
fn a_campaign_of_the_idt_report_runs_from_its_lab_to_its_shapes() {
    let Some(()) = privileged() else { return };
    let set = [ONCE, SHORT, "bursts.axis.params.burst=[8]"];
    connected(&shapes("idt-pcie", "latency", &set), &["V5.5b"], "V5.7a");
}

#[test]
fn a_step_that_the_paper_does_not_have_is_refused_with_those_it_has() {
    let folder = tempfile::tempdir().expect("a folder");
    let ended = run(folder.path(), &["reproduce", "hp-ftp", "--step", "sun-link"]).expect(2);
    assert!(ended.stderr.contains("hp-ftp has the campaigns clients, server"), "{}", ended.stderr);
}

#[test]
fn a_plan_whose_endpoints_the_hosts_lack_is_left_out_and_its_shapes_are_not_judged() {
    let folder = tempfile::tempdir().expect("a folder");
    let arguments =
        ["reproduce", "sun-netframe", "--step", "sun-buses", "--to", "loopback", "--json"];
    let ended = run(folder.path(), &arguments).expect(0);
    assert!(ended.stderr.contains("sun-buses: left out, the hosts have no endpoints a1"));
    assert_eq!(ended.json()["place"], "hosts");
}
