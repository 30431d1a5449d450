//! Interfaces that a host reads besides those of its endpoints: the legs among which a trial's
//! flows are shared.
//!
//! The kernel lists the members of a port channel (bond, team). Several routes to one destination
//! (ECMP) have no device of their own: only the declared capacity names the interfaces of its legs.
//! Legs of capacities that no job of the trial crosses are not read.

use std::collections::BTreeSet;

use linerate_model::{Capacity, Endpoint, TrialSpec};

/// Returns the interfaces of `host` among the members of all capacities that `trial` crosses, each
/// once.
pub(super) fn legs(capacities: &[Capacity], trial: &TrialSpec, host: &str) -> Vec<String> {
    let legs: BTreeSet<&str> = capacities
        .iter()
        .filter(|capacity| is_crossed(capacity, trial, host))
        .flat_map(Capacity::member_devices)
        .collect();
    legs.into_iter().map(str::to_owned).collect()
}

/// Returns whether traffic of `trial` leaves or reaches `host` through `capacity`.
fn is_crossed(capacity: &Capacity, trial: &TrialSpec, host: &str) -> bool {
    let sends = |from: &Endpoint, to: &Endpoint| {
        from.host == host && capacity.pairs.iter().any(|(a, b)| *a == from.name && *b == to.name)
    };
    trial.jobs.iter().any(|job| sends(&job.from, &job.to) || sends(&job.to, &job.from))
}

#[cfg(test)]
mod tests {
    use linerate_model::{BitRate, BoundClass, Bytes, JobSpec, Nanos, Phases, TrialId, Warmup};
    use serde_json::{from_value, json};

    use super::*;

    fn capacity(pair: (&str, &str), members: &[&str]) -> Capacity {
        Capacity {
            name: "legs".into(),
            edge: "legs".into(),
            class: BoundClass::Link,
            rate: BitRate(1e9),
            frame_overhead: Bytes(38),
            mtu: Bytes(1500),
            pairs: vec![(pair.0.into(), pair.1.into())],
            source: "declared".into(),
            members: members.iter().map(|member| (*member).to_owned()).collect(),
        }
    }

    #[test]
    fn a_host_reads_the_legs_that_it_sends_over_and_no_others() {
        let endpoint = |name: &str, host: &str| {
            let text = json!({ "name": name, "host": host, "address": null, "device": null });
            from_value(text).expect("what is left out has a default")
        };
        let job = |from, to| JobSpec {
            workload: "null".into(),
            from: endpoint(from, "left"),
            to: endpoint(to, "right"),
            ..JobSpec::default()
        };
        let second = Nanos::from_secs(1);
        let phases = Phases {
            warmup: Warmup::Auto,
            measure: second,
            drain: second,
            rest: second,
            interval: second,
        };
        let mut trial = TrialSpec {
            id: TrialId(0),
            sweep: "s".into(),
            seed: 1,
            phases,
            jobs: vec![job("a", "b")],
            ..TrialSpec::default()
        };
        let capacities = [
            capacity(("a", "b"), &["eth1", "eth0 pfifo 1a:", "eth0 pfifo 1b:"]),
            capacity(("b", "a"), &["wan0", "wan1"]),
            capacity(("c", "d"), &["other"]),
        ];
        assert_eq!(
            legs(&capacities, &trial, "left"),
            ["eth0", "eth1"],
            "an interface, and that of a queue"
        );
        assert_eq!(
            legs(&capacities, &trial, "right"),
            ["wan0", "wan1"],
            "answers cross their own legs"
        );
        trial.jobs = vec![job("c", "d")];
        assert_eq!(legs(&capacities, &trial, "left"), ["other"]);
        assert!(legs(&capacities, &trial, "right").is_empty());
    }
}
