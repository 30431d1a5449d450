//! Source ports that place flows on chosen members.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

/// The ports Linux assigns by itself, `net.ipv4.ip_local_port_range`.
pub const USUAL_PORTS: RangeInclusive<u16> = 32_768..=60_999;

/// Ports by member.
pub type Plan = BTreeMap<u32, Vec<u16>>;

/// Returns `each` ports of `candidates` for every member below `members`. `member_of` returns the
/// member a port leads to (`None` if unknown). A member with too few candidates gets fewer ports:
/// see [`missing`].
pub fn plan(
    candidates: impl IntoIterator<Item = u16>,
    members: u32,
    each: usize,
    mut member_of: impl FnMut(u16) -> Option<u32>,
) -> Plan {
    let mut plan: Plan = (0..members).map(|member| (member, Vec::new())).collect();
    for port in candidates {
        // Probing a member may cost a packet, so no port is asked that is no longer needed.
        if plan.values().all(|ports| ports.len() >= each) {
            break;
        }
        // A member beyond the group, such as one that left it, is ignored.
        let ports = member_of(port).and_then(|member| plan.get_mut(&member));
        if let Some(ports) = ports.filter(|ports| ports.len() < each) {
            ports.push(port);
        }
    }
    plan
}

/// Returns the members with fewer than `each` ports.
#[must_use]
pub fn missing(plan: &Plan, each: usize) -> Vec<u32> {
    plan.iter().filter(|(_, ports)| ports.len() < each).map(|(member, _)| *member).collect()
}

/// Returns the ports in turn, one of each member after the other, as flows should have them:
/// however many there are, members differ by one flow at the most. It ends where a member has no
/// more.
#[must_use]
pub fn in_turn(plan: &Plan) -> Vec<u16> {
    // Beyond the shortest list, members would differ by more than one flow.
    let rounds = plan.values().map(Vec::len).min().unwrap_or(0);
    (0..rounds).flat_map(|round| plan.values().map(move |ports| ports[round])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow_hash::{Flow, bond, toeplitz};

    fn flow(port: u16) -> Flow {
        Flow { from: ([10, 0, 0, 1], port).into(), to: ([10, 0, 0, 2], 5201).into() }
    }

    #[test]
    fn every_chosen_port_leads_to_its_member() {
        let by_bond = |port| bond::member(&flow(port), bond::Form::LowestBitDropped, 4);
        let chosen = plan(USUAL_PORTS, 4, 8, |port| Some(by_bond(port)));
        assert!(missing(&chosen, 8).is_empty(), "{chosen:?}");
        assert!(
            chosen.iter().all(|(member, ports)| ports.iter().all(|port| by_bond(*port) == *member))
        );
        let table = toeplitz::default_table(6);
        let by_queue = |port| {
            let hash = toeplitz::hash(
                &flow(port),
                toeplitz::Fields::AddressesAndPorts,
                &toeplitz::DEFAULT_KEY,
            );
            toeplitz::queue(hash, &table)
        };
        let chosen = plan(USUAL_PORTS, 6, 3, |port| Some(by_queue(port)));
        assert!(missing(&chosen, 3).is_empty(), "{chosen:?}");
        assert!(
            chosen.iter().all(|(queue, ports)| ports.iter().all(|port| by_queue(*port) == *queue))
        );
    }

    #[test]
    fn a_hash_of_addresses_alone_leaves_members_without_ports_and_says_so() {
        let table = toeplitz::default_table(4);
        let by_address = |port| {
            toeplitz::queue(
                toeplitz::hash(&flow(port), toeplitz::Fields::Addresses, &toeplitz::DEFAULT_KEY),
                &table,
            )
        };
        let chosen = plan(40_000..=40_100, 4, 1, |port| Some(by_address(port)));
        assert_eq!(missing(&chosen, 1).len(), 3);
        assert_eq!(missing(&plan(1..=100, 2, 1, |_| None), 1), [0, 1]);
    }

    #[test]
    fn ports_are_dealt_out_in_turn_until_a_member_has_no_more() {
        let plan = Plan::from([(0, vec![1, 2, 3]), (1, vec![10, 20])]);
        assert_eq!(in_turn(&plan), [1, 10, 2, 20]);
        assert!(in_turn(&Plan::from([(0, vec![1]), (1, vec![])])).is_empty());
    }
}
