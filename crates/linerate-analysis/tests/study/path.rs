//! Facts of a path that an earlier probe measured.

use linerate_analysis::path::PathFacts;
use linerate_analysis::{JobStudy, study};
use linerate_model::Bytes;
use linerate_model::Direction::{Rx, Tx};

use crate::fixture::{only, stream, two_hosts};

fn facts(from: &str, to: &str, routed: u64) -> PathFacts {
    PathFacts {
        from: from.into(),
        to: to.into(),
        routed_mtu: Some(Bytes(routed)),
        ..PathFacts::default()
    }
}

#[test]
fn facts_of_an_earlier_probe_reach_every_point_for_data_and_acknowledgements() {
    let mut campaign = two_hosts(vec![stream(0, 1_000_000)]);
    campaign.header.path = vec![facts("a", "b", 1500), facts("b", "a", 9000)];
    let study = study(&campaign);
    let point = only(&study);
    let job = &point.jobs[0];
    let mtu = |facts: Option<&PathFacts>| facts.and_then(|facts| facts.routed_mtu);
    assert_eq!(mtu(point.data_path(job, Tx)), Some(Bytes(1500)));
    assert_eq!(mtu(point.reverse_path(job, Tx)), Some(Bytes(9000)));
    assert_eq!(mtu(point.data_path(job, Rx)), Some(Bytes(9000)));
    assert_eq!(mtu(point.reverse_path(job, Rx)), Some(Bytes(1500)));
    let other = JobStudy { to: "c".into(), ..job.clone() };
    assert_eq!(point.data_path(&other, Tx), None, "nobody probed the path from a to c");
}
