//! Port channels: what flows find room for, and which links they were seen on.

use linerate_analysis::study;
use linerate_model::{
    Campaign, Capacity, Counter, Direction, FlowReport, TestbedKind, Validity, metric,
};
use serde_json::json;

use crate::fixture::{campaign, gigabit, near, only, samples, stream, value};

/// `n_flows` flows that deliver `bytes` a second over a channel of two gigabit links, on which
/// `passed` bytes a second were counted.
fn channel(n_flows: u32, bytes: u64, passed: [f64; 2]) -> Campaign {
    let mut trial = stream(0, bytes);
    trial.jobs[0].0.flows =
        (0..n_flows).map(|flow| FlowReport { flow, ..FlowReport::default() }).collect();
    for flow in &mut trial.jobs[0].0.flows {
        flow.counters[Counter::PayloadSent] = 1;
    }
    let series = [
        ("qdisc", "bytes", "eth0 pfifo b:", passed[0]),
        ("interface", "tx_bytes", "eth1", passed[1]),
    ];
    trial.samples = vec![("left".to_owned(), samples(&series))];
    let mut campaign = campaign(TestbedKind::Lab, [json!({}), json!({})], vec![trial]);
    let members = vec!["eth0 pfifo b:".to_owned(), "eth1".to_owned()];
    campaign.header.capacities = vec![Capacity { members, ..gigabit(&[("a", "b")]) }];
    campaign
}

#[test]
fn a_flow_has_room_on_one_link_and_two_have_on_both() {
    // 120 MB/s of payload are what TCP gets out of 1 Gbit/s, and a little more than half of what it
    // gets out of two.
    let of = |n_flows, bytes| only(&study(&channel(n_flows, bytes, [1e8, 1e8]))).trials[0].validity;
    assert_eq!(of(1, 118_000_000), Validity::Valid);
    assert_eq!(of(1, 125_000_000), Validity::Impossible);
    assert_eq!(of(2, 125_000_000), Validity::Valid);
    assert_eq!(of(3, 250_000_000), Validity::Impossible);
}

#[test]
fn links_are_used_if_a_flow_was_seen_on_them() {
    let links = |passed| {
        let study = study(&channel(4, 100_000_000, passed));
        let point = only(&study);
        (
            value(point, 0, metric::LINKS_USED, Direction::Tx),
            value(point, 0, metric::LINK_BALANCE, Direction::Tx),
        )
    };
    let (used, balance) = links([90e6, 30e6]);
    near(used, 2.0);
    near(balance, 60.0 / 90.0);
    let (used, balance) = links([120e6, 900.0]);
    near(used, 1.0);
    near(balance, 120.0009 / 240.0);
}

#[test]
fn a_link_that_was_not_read_leaves_no_figure() {
    let mut campaign = channel(4, 100_000_000, [90e6, 30e6]);
    campaign.header.capacities[0].members[1] = "eth2".into();
    assert_eq!(value(only(&study(&campaign)), 0, metric::LINKS_USED, Direction::Tx), None);
}
