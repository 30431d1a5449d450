//! Names decide nothing: the same plan has the same verdict under any names of hosts and
//! capacities.

use linerate_analysis::{headline, study};
use linerate_model::{BitRate, BoundClass, Campaign, Capacity, Counter, TestbedKind};
use serde_json::json;

use crate::fixture::{campaign, endpoint, gigabit, steady, trial};

/// Bytes a second that are 97 % of what 1 Gbit/s leaves for payload without timestamps.
const NEARLY_FULL: u64 = 115_000_000;

/// Names that rules or displays once interpreted, and unusual ones.
const ODD: [&str; 12] = [
    "robust",
    "I/O assembly",
    "PCI slot",
    "bus",
    "host bridge",
    "device b",
    "expected: c",
    "d, e",
    "eth0 of f (receiving)",
    "pcie 0000:00:01.0",
    "link",
    "all jobs",
];

/// The names of two hosts, of two endpoints and of an edge; `n` different sets.
fn sets(n: usize) -> Vec<[String; 5]> {
    // A linear congruential generator (Knuth's MMIX): the same names in every run.
    let mut state = 14_u64;
    let mut drawn = move |of: u64| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % of
    };
    let mut name = move || match drawn(2) {
        0 => ODD[drawn(ODD.len() as u64) as usize].to_owned(),
        _ => (0..=drawn(12)).map(|_| char::from(b' ' + drawn(95) as u8)).collect(),
    };
    let mut set = |number: usize| {
        // Two things of one kind are never called the same.
        [0, 1, 2, 3, 4]
            .map(|place| if place < 4 { format!("{}{place}{number}", name()) } else { name() })
    };
    (0..n).map(&mut set).collect()
}

/// A stream over one edge of `class` that is nearly full.
fn full([left, right, from, to, edge]: &[String; 5], class: BoundClass) -> Campaign {
    let mut run = trial(0, vec![crate::fixture::job("tcp_stream", from, to)]);
    run.spec.jobs[0].from = endpoint(from, left);
    run.spec.jobs[0].to = endpoint(to, right);
    run.jobs[0] = (
        steady(&[(Counter::PayloadSent, NEARLY_FULL)]),
        steady(&[(Counter::PayloadReceived, NEARLY_FULL)]),
    );
    let mut campaign = campaign(TestbedKind::Lab, [json!({}), json!({})], vec![run]);
    campaign.hosts[0].host.clone_from(left);
    campaign.hosts[1].host.clone_from(right);
    let wide =
        Capacity { name: format!("{edge} behind"), rate: BitRate(1e10), ..gigabit(&[(from, to)]) };
    campaign.header.capacities =
        vec![Capacity { name: edge.clone(), class, ..gigabit(&[(from, to)]) }, wide];
    campaign
}

/// The result: each rule with its verdict, and the marked stage of the picture.
fn said(campaign: &Campaign) -> (Vec<String>, Vec<usize>) {
    let study = study(campaign);
    let rules = study
        .findings
        .iter()
        .map(|finding| format!("{} {:?}", finding.rule, finding.verdict))
        .collect();
    let told = headline(campaign, &study).expect("something was measured");
    let marked = told
        .stages
        .iter()
        .enumerate()
        .filter(|(_, stage)| stage.limits)
        .map(|(place, _)| place)
        .collect();
    (rules, marked)
}

#[test]
fn a_verdict_depends_on_no_name() {
    let plain = ["left", "right", "a", "b", "edge"].map(str::to_owned);
    for (class, rule) in [(BoundClass::Link, "link_ceiling"), (BoundClass::Bus, "bus_ceiling")] {
        let expected = said(&full(&plain, class));
        assert!(expected.0.iter().any(|said| said.starts_with(rule)), "{class:?}: {expected:?}");
        assert_eq!(expected.1.len(), 1, "{class:?}: {expected:?}");
        let robust = ["robust", "right", "a", "b", "link robust-b"].map(str::to_owned);
        let assembly = ["left", "right", "a", "b", "I/O assembly"].map(str::to_owned);
        for names in sets(50).into_iter().chain([robust, assembly]) {
            assert_eq!(said(&full(&names, class)), expected, "{class:?}: {names:?}");
        }
    }
}
