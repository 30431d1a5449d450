//! Derivations of every calculator as text.

use linerate_analysis::limits::{LIMITS, limit};
use linerate_model::derivation::Line;
use linerate_model::{Ceiling, Params};
use linerate_report::sentences::{derivation, derivation_line};

use crate::assert_snapshot;

/// Calculators and options that reach each kind of line.
const CASES: &[&str] = &[
    "ethernet rate=1_Gbit/s frame_size=64_B vlan=1",
    "fibre-channel speed=8",
    "lag links=4 flows=8 member=10_Gbit/s",
    "ncsi buffer=8_KiB feed=1_Gbit/s rtt=1_ms flows=3",
    "ncsi buffer=2_KiB feed=1_Gbit/s rtt=50_us",
    "pci width=64 clock=33_MHz",
    "pcie gen=3 lanes=8 mps=256_B dllp=realistic tags=32 latency=1_us",
    "pcie gen=2 lanes=8 mps=128_B payload=64_B nic=kernel port=40_Gbit/s",
    "tcp rate=10_Gbit/s mtu=9000 timestamps=true",
    "udp rate=1_Gbit/s mtu=1500 payload=8_KiB ipv6=true",
    "udp rate=1_Gbit/s mtu=1500 payload=1_B",
    "window window=64_KiB rtt=5_ms rate=1_Gbit/s loss=0.01",
    "window window=1_MiB rtt=5_ms rate=1_Gbit/s",
];

fn ceilings(case: &str) -> Vec<Ceiling> {
    let mut words = case.split(' ');
    let name = words.next().expect("a calculator");
    let mut params = Params::default();
    for option in words {
        let (key, value) = option.split_once('=').expect("key and value");
        // A bare number is a count and a word is itself, as on the command line.
        match serde_json::from_str::<serde_json::Value>(value) {
            Ok(value) => params.set(key, value),
            Err(_) => params.set(key, value.replace('_', " ")),
        }
    }
    (limit(name).expect("a known calculator").ceilings)(&params).expect("good options")
}

#[test]
fn every_calculator_shows_how_its_bounds_follow() {
    let mut text = String::new();
    for case in CASES {
        text += &format!("## {case}\n");
        for ceiling in ceilings(case) {
            let lines = derivation(&ceiling).join("\n  ");
            text += &format!("{}: {}\n  {lines}\n", ceiling.metric, ceiling.name());
        }
    }
    assert_snapshot("derivations.txt", &text);
    let names: Vec<&str> = CASES.iter().filter_map(|case| case.split(' ').next()).collect();
    assert!(LIMITS.iter().all(|limit| names.contains(&limit.name)), "a calculator has no case");
}

#[test]
fn derivations_are_data_and_those_of_older_ledgers_stay_text() {
    for ceiling in CASES.iter().flat_map(|case| ceilings(case)) {
        assert!(ceiling.derivation.iter().all(|line| !matches!(line, Line::Text(_))));
        let stored = serde_json::to_string(&ceiling).expect("data");
        let read: Ceiling = serde_json::from_str(&stored).expect("the same data");
        assert_eq!(derivation(&read), derivation(&ceiling));
        let mut old = serde_json::to_value(&ceiling).expect("data");
        let fields = old.as_object_mut().expect("fields");
        fields.remove("derived");
        fields.insert("derivation".to_owned(), serde_json::json!(["a line", "another"]));
        let old: Ceiling = serde_json::from_value(old).expect("an older ceiling");
        assert_eq!(derivation(&old), ["a line", "another"]);
    }
}

#[test]
fn brackets_are_written_where_the_operators_need_them() {
    use linerate_model::derivation::Expression;
    let number = |value: f64| Expression::from(value);
    for (expression, text) in [
        ((number(1.0) + 2.0) * 3.0, "(1 + 2) x 3"),
        (number(1.0) + number(2.0) * 3.0, "1 + 2 x 3"),
        (number(1.0) - (number(2.0) - 3.0), "1 - (2 - 3)"),
        (number(1.0) / (number(2.0) * 3.0), "1 / (2 x 3)"),
        (number(1.0) * 2.0 / 3.0, "1 x 2 / 3"),
        ((number(1.0) - 2.0).power(2.0), "(1 - 2)^2"),
    ] {
        let line = derivation_line(&Line::equation(expression, 0.5));
        assert_eq!(line, format!("{text} = 0.5"));
    }
}
