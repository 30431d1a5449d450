//! `linerate diagnose`, end to end: an injected limit is found and proven, its ledger gives the
//! same verdict again, and a path without a fault gives no claim. Other programs on the machine
//! weaken a verdict, so only facts that hold at any speed are asserted. Virtual time tests the
//! decisions of the ladder. Not tested here: the other causes, which `cargo xtask bench diagnosis`
//! injects one by one.

use serde_json::Value;

use crate::common::{file, privileged_folder, run, skip, turn};

/// Two hosts, and between them what `path` says.
fn lab(path: &str) -> String {
    format!("[lab]\nname = \"path\"\n[[host]]\nname = \"a\"\n[[host]]\nname = \"b\"\n{path}")
}

/// A link that flows fill: its rate is the limit.
const FULL: &str = "[[link]]\nends = [\"a\", \"b\"]\nrate = \"20 Mbit/s\"\ndelay = \"1 \
    ms\"\nbuffer = \"128 KiB\"\n";
/// A device without a declared rate, with room for every frame: nothing is wrong but its rate.
const NO_FAULT: &str = "[[element]]\nname = \"dut\"\nends = [\"a\", \"b\"]\npacket_rate = \"3 \
    kpps\"\nbuffer = \"16 MiB\"\ndelay = \"2 ms\"\n";
const SHORT: [&str; 9] =
    ["diagnose", "--lab", "./lab.toml", "--seconds", "0.2", "--omit", "0.3", "--limits", "1"];
/// Flows whose first windows are a queue of 20 ms at once: the link has something to send while
/// their CPU is away.
const SEVERAL: [&str; 2] = ["--param", "streams=4"];

fn leading(answer: &Value) -> (&str, &str) {
    let found = &answer["ladder"][0]["findings"][0];
    (found["rule"].as_str().expect("a rule"), found["verdict"].as_str().expect("a verdict"))
}

/// The verdict of `rule` among `findings`.
fn verdict_of<'a>(findings: &'a Value, rule: &str) -> Option<&'a str> {
    findings.as_array()?.iter().find(|found| found["rule"] == rule)?["verdict"].as_str()
}

/// Asserts what holds on any machine: nothing is proven but what was injected.
fn only_proves(answer: &Value, injected: Option<&str>) {
    let limits = answer["ladder"].as_array().expect("limits").iter();
    for found in limits.flat_map(|limit| limit["findings"].as_array().expect("findings")) {
        assert!(found["verdict"] != "proven" || found["rule"].as_str() == injected, "{found}");
    }
}

#[test]
fn an_injected_limit_is_proven_and_its_ledger_gives_the_same_verdict() {
    let Some(folder) = privileged_folder() else { return };
    let _turn = turn();
    let folder = folder.path();
    file(folder, "lab.toml", &lab(FULL));
    let ended = run(folder, &[&SHORT[..], &SEVERAL, &["--json"]].concat());
    let answer = ended.json();
    let limit = &answer["ladder"][0];
    // What the pairs recorded is judged as it was when they ran; the baseline alone proves nothing.
    let looks =
        ["diagnose/limit-1-link_ceiling-longer.ledger", "diagnose/limit-1-link_ceiling.ledger"];
    let then = verdict_of(&limit["findings"], "link_ceiling");
    if let Some(last) = looks.iter().find(|look| folder.join(look).exists()) {
        let again = run(folder, &["diagnose", last, "--json"]).json();
        assert_eq!(verdict_of(&again["findings"], "link_ceiling"), then, "{again}");
        // On a busy machine another rule may lead.
        let findings = again["findings"].as_array().expect("a list");
        match findings.iter().find(|found| found["rule"] == "link_ceiling") {
            Some(own) => {
                assert!(own["placebo"].is_string() && own["counterfactual"].is_string(), "{own}");
            }
            None => println!("skipped: pairs of the injected limit: its rule does not apply here"),
        }
    }
    let before = run(folder, &["diagnose", "diagnose/baseline.ledger", "--json"]).ran().json();
    assert_ne!(before["findings"][0]["verdict"], "proven", "{before}");
    only_proves(&answer, Some("link_ceiling"));
    // Virtual time tests whether a lead is proven. Here each finding must have advice.
    println!("{:?}: {}", then, limit["goodput"]);
    let advice = limit["findings"][0]["advice"].to_string();
    assert!(advice.contains("linerate "), "{advice}");
    if then != Some("proven") {
        return skip(format_args!(
            "other programs left too little for a proof: {}",
            limit["findings"][0]["claim"]
        ));
    }
    assert_eq!((ended.code, leading(&answer)), (Some(0), ("link_ceiling", "proven")), "{answer}");
    // The same load after the cure; small segments have done their work.
    let command = "linerate diagnose --lab ./lab.toml --from a --to b --param streams=4`";
    assert!(advice.contains(command) && !advice.contains("mss"), "{advice}");
}

#[test]
fn a_device_of_unknown_rate_is_at_most_suspected() {
    let Some(folder) = privileged_folder() else { return };
    let _turn = turn();
    let folder = folder.path();
    file(folder, "lab.toml", &lab(NO_FAULT));
    let ended = run(folder, &[&SHORT[..], &["--json"]].concat());
    let answer = ended.json();
    only_proves(&answer, None);
    assert!(matches!(ended.code, Some(1 | 3)), "{:?}: {answer}", ended.code);
    match leading(&answer) {
        // Its queue stands. It counts packets, so small segments cannot prove a link that counts
        // bytes.
        ("path_rate", "suspected") => return,
        ("unknown", "inconclusive") => {}
        other => {
            // Other programs are a lead of their own.
            return skip(format_args!("{other:?} is suspected"));
        }
    }
    let advice = answer["ladder"][0]["findings"][0]["advice"].as_array().expect("advice");
    assert!(
        advice.iter().any(|line| line.as_str().is_some_and(|line| line.contains("linerate "))),
        "{advice:?}"
    );
}
