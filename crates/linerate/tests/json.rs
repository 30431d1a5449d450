//! `--json`: one document on standard output and nothing else there.

use linerate_analysis::study;
use linerate_model::Counter::PayloadReceived;
use serde_json::Value;

use crate::common::{Measured, file, load as load_ledger, plan, punctual, run, skip};

#[test]
fn a_plan_prints_the_ports_that_a_firewall_must_let_through() {
    let folder = tempfile::tempdir().expect("a folder");
    for (workload, params, ports) in [
        ("tcp_stream", "", Some("4777 (its agent's)")),
        ("tcp_stream", "window_clamp = \"64 KiB\"", Some("some that its kernel chooses")),
        (
            "udp_stream",
            "source_ports = \"7\", destination_port = 8",
            Some("4777 (its agent's), and 8"),
        ),
        ("tcp_stream", "source_ports = \"7\", destination_port = 8", Some("8")),
        ("tcp_rr", "", Some("4777 (its agent's)")),
        ("tcp_crr", "", Some("some that its kernel chooses")),
        ("http", "port = 8080", Some("4777 (its agent's), and 8080")),
        ("http", "clients = \"foreign\", port = 8080", Some("8080")),
        (
            "ftp",
            "port = 2121",
            Some("4777 (its agent's), and 2121, and some that its kernel chooses"),
        ),
        ("ftp", "server = \"ftp://192.0.2.9/file\"", None),
        ("null", "", None),
    ] {
        file(folder.path(), "plan.toml", &plan(workload, 1.0, params));
        let text = run(folder.path(), &["plan", "plan.toml"]).expect(0).stdout;
        // A line that is too long goes on until the empty line.
        let found = text.split_once("- ports of").map(|(_, rest)| rest.split("\n\n").next());
        let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        let expected = ports.map(|ports| format!("{workload} at b: {ports}"));
        assert_eq!(found.flatten().map(words), expected);
    }
}

#[test]
fn every_command_prints_one_document_and_nothing_else() {
    let folder = tempfile::tempdir().expect("a folder");
    file(folder.path(), "plan.toml", &plan("null", 0.2, ""));
    for (arguments, key) in [
        (&["plan", "netframe"][..], "trials"),
        (&["plan", "netframe-nics", "--lab", "sun-buses"], "trials"),
        (&["limit", "tcp", "--rate", "1 Gbit/s", "--mtu", "1500"], "ceilings"),
        (&["replay", "all"], "replays"),
        (&["facts"], "kernel"),
        (&["doctor"], "checks"),
        (&["pair", "list"], "own_key"),
        (&["run", "plan.toml", "--ledger", "null.ledger", "--out", "report"], "points"),
        (
            &["report", "null.ledger", "--out", "report", "--format", "html,csv,md,xlsx,json"],
            "points",
        ),
    ] {
        let ended = run(folder.path(), &[arguments, &["--json"]].concat()).expect(0);
        let document = ended.json();
        assert!(document.get(key).is_some(), "{arguments:?}: no `{key}`");
        if key == "points" {
            assert_eq!(document["schema"], 1, "{arguments:?}");
        }
    }
    for registry in
        ["workloads", "samplers", "limits", "rules", "sections", "plans", "labs", "metrics"]
    {
        let document = run(folder.path(), &["list", registry, "--json"]).expect(0).json();
        let entries = document.as_array().expect("a list");
        assert!(
            !entries.is_empty() && entries.iter().all(|entry| entry["name"].is_string()),
            "{registry}"
        );
    }
}

#[test]
fn a_failure_and_a_wrong_command_line_have_a_document() {
    let folder = tempfile::tempdir().expect("a folder");
    for (arguments, code) in [
        (&["plan", "absent", "--json"][..], 2),
        (&["report", "absent.ledger", "--json"], 4),
        // The parser of arguments refuses these before any command begins.
        (&["limit", "tcp", "--json"], 2),
        (&["to", "loopback", "-J", "--bogus"], 2),
        (&["-uJ", "-s"], 2),
    ] {
        let ended = run(folder.path(), arguments).expect(code);
        let document = ended.json();
        assert_eq!(document["exit"], code);
        assert_ne!(document["error"], "");
        assert_ne!(ended.stderr, "");
    }
    let ended = run(folder.path(), &["limit", "tcp"]).expect(2);
    assert_eq!(ended.stdout, "");
    let help = run(folder.path(), &["limit", "--help", "--json"]).expect(0);
    assert!(help.stdout.contains("Usage"), "{help:?}");
}

/// Lines and result of one run count the same bytes: all lines together those of the ledger, and
/// those of the measurement its mean, to the length of an interval.
#[test]
fn the_lines_of_a_run_add_up_to_its_result() {
    const SECONDS: f64 = 2.0;
    let folder = tempfile::tempdir().expect("a folder");
    let arguments =
        ["to", "loopback", "-t", "2", "-i", "0.5", "-b", "200M", "--json", "--ledger", "to.ledger"];
    let document = match punctual(folder.path(), &arguments) {
        Ok(ended) => ended.ran().json(),
        Err(why) => return skip(format_args!("{why}")),
    };
    let lines = document["lines"].as_array().expect("lines");
    let number = |line: &Value, key: &str| line[key].as_f64().expect("a number");
    for pair in lines.windows(2) {
        assert_eq!(number(&pair[0], "until_s"), number(&pair[1], "from_s"), "{document}");
    }
    let (drain, load): (Vec<_>, Vec<_>) =
        lines.iter().partition(|line| line["is_drain"].as_bool().expect("a flag"));
    let ends = (number(load[0], "from_s"), number(load[load.len() - 1], "until_s"));
    assert_eq!((ends, load.len()), ((0.0, SECONDS), 4), "{document}");

    let bytes = |lines: &[&Value]| -> f64 {
        lines.iter().map(|line| number(line, "payload_bytes_tx")).sum()
    };
    let campaign = load_ledger(&folder.path().join("to.ledger"));
    let intervals = &campaign.trials[0].jobs[0].1.intervals;
    let received = intervals.iter().map(|one| one.counters[PayloadReceived] as f64);
    let received: Vec<f64> = received.collect();
    let total: f64 = received.iter().sum();
    let all = bytes(&load) + bytes(&drain);
    assert!((all - total).abs() < 1.0 && total > 0.0, "{all} B in lines, {total} B received");

    let longest = received.iter().copied().fold(0.0, f64::max) * 8.0 / SECONDS;
    // A worker that started late is measured from its start.
    let late = intervals[0].start.as_secs_f64();
    let measured = Measured { study: study(&campaign), json: document.clone(), campaign };
    let Some(goodput) = measured.figure("goodput") else { return };
    let mean = bytes(&load) * 8.0 / SECONDS;
    // Intervals that pass an end of the measurement are divided by time in both.
    let margin = longest + goodput * late / SECONDS;
    println!("to --json: mean of lines {mean:.0}, result {goodput:.0}, margin {margin:.0} bit/s");
    assert!((mean - goodput).abs() <= margin, "{mean} and {goodput} bit/s, margin {margin}");
}
