//! What limits a path, as a user asks it: an injected limit is found and proven, what was recorded says the same again, and of a path without
//! a fault nothing is claimed. What these do not see: the other causes, which `cargo xtask bench diagnosis` injects one by one.

mod common;

use common::{alone, file, privileged, run};
use serde_json::Value;

/// Two hosts, and between them what `path` says.
fn lab(path: &str) -> String {
    format!("[lab]\nname = \"path\"\n[[host]]\nname = \"a\"\n[[host]]\nname = \"b\"\n{path}")
}

/// A link that a flow fills: its rate is the limit.
const FULL: &str = "[[link]]\nends = [\"a\", \"b\"]\nrate = \"20 Mbit/s\"\ndelay = \"1 ms\"\nbuffer = \"128 KiB\"\n";
/// A device whose rate nobody declared, with room for every frame: nothing of what is looked at is wrong.
const NO_FAULT: &str = "[[element]]\nname = \"dut\"\nends = [\"a\", \"b\"]\npacket_rate = \"3 kpps\"\nbuffer = \"16 MiB\"\ndelay = \"2 ms\"\n";
const SHORT: [&str; 9] = ["diagnose", "--lab", "./lab.toml", "--seconds", "0.3", "--omit", "0.3", "--limits", "1"];

fn leading(answer: &Value) -> (&str, &str) {
    let found = &answer["ladder"][0]["findings"][0];
    (found["rule"].as_str().expect("a rule"), found["verdict"].as_str().expect("a verdict"))
}

#[test]
fn an_injected_limit_is_proven_and_the_ledger_says_so_again() {
    if !privileged("a lab needs namespaces") {
        return;
    }
    let _turn = alone();
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    file(folder, "lab.toml", &lab(FULL));
    let answer = run(folder, &[&SHORT[..], &["--json"]].concat()).expect(0).json();
    assert_eq!(leading(&answer), ("link_ceiling", "proven"), "{answer}");
    let limit = &answer["ladder"][0];
    let goodput = limit["goodput"].as_f64().expect("a rate");
    assert!((18e6..20e6).contains(&goodput), "20 Mbit/s less headers: {goodput}");
    assert!(limit["scores"]["link_ceiling"].as_f64().is_some_and(|score| score >= 0.5), "{limit}");
    assert!(limit["scores"]["receive_window"].as_f64().is_some_and(|score| score < 0.5), "{limit}");
    let advice = limit["findings"][0]["advice"].to_string();
    assert!(advice.contains("linerate diagnose --to HOST --param 'mss=250 B' (goodput should be"), "{advice}");
    // What the pairs recorded is judged as it was when they ran; the baseline alone proves nothing.
    let again = run(folder, &["diagnose", "diagnose/limit-1-link_ceiling.ledger", "--json"]).expect(0).json();
    let found = &again["findings"][0];
    assert_eq!((&found["rule"], &found["verdict"]), (&"link_ceiling".into(), &"proven".into()), "{again}");
    assert!(found["placebo"].is_string() && found["counterfactual"].is_string(), "{found}");
    let before = run(folder, &["diagnose", "diagnose/baseline.ledger", "--json"]).expect(0).json();
    assert_eq!(before["findings"][0]["verdict"], "suspected", "{before}");
    assert!(before["points"][0]["scores"]["link_ceiling"].as_f64().is_some_and(|score| score >= 0.5), "{before}");
}

#[test]
fn of_a_path_without_a_fault_nothing_is_claimed() {
    if !privileged("a lab needs namespaces") {
        return;
    }
    let _turn = alone();
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    file(folder, "lab.toml", &lab(NO_FAULT));
    let answer = run(folder, &[&SHORT[..], &["--json"]].concat()).expect(1).json();
    assert_eq!(leading(&answer), ("unknown", "inconclusive"), "{answer}");
    let advice = answer["ladder"][0]["findings"][0]["advice"].as_array().expect("advice");
    assert!(advice.iter().any(|line| line.as_str().is_some_and(|line| line.contains("linerate "))), "{advice:?}");
}
