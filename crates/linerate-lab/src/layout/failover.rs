//! Interfaces with two cables: at each end a bridge, whose second port is the backup of its first.

use super::{Planner, Port};
use crate::description::Failover;
use crate::failing::{CableEnd, Cables};

impl Planner<'_> {
    pub(super) fn place_failovers(&mut self) {
        let others = self.description.links.len()
            + self.description.buses.len()
            + self.description.controllers.len()
            + self.description.elements.len();
        for (index, failover) in self.description.failovers.iter().enumerate() {
            self.place_failover(failover, others + index);
        }
    }

    fn place_failover(&mut self, failover: &Failover, number: usize) {
        let nodes = [0, 1].map(|end| self.node(&failover.ends[end].node));
        let ends = [0, 1].map(|end| CableEnd {
            namespace: self.namespaces[nodes[end]].name.clone(),
            bridge: format!("{}{number}", self.namespaces[nodes[1 - end]].node),
            peer: address(number, 1 - end),
        });
        for (end, at) in ends.iter().enumerate() {
            let lines = &mut self.namespaces[nodes[end]].ip;
            lines.push(format!(
                "link add {} address {} mtu {} type bridge stp_state 0 forward_delay 0 \
                    mcast_snooping 0",
                at.bridge,
                address(number, end),
                failover.mtu.0
            ));
            lines.push(format!("link set {} up", at.bridge));
        }
        for cable in [0, 1] {
            let [a, b] = ends.each_ref().map(|end| {
                let mtu = failover.mtu.0;
                format!("name {} netns {} mtu {mtu}", end.port(cable), end.namespace)
            });
            self.links.push(format!("link add {a} type veth peer {b}"));
            for (end, at) in ends.iter().enumerate() {
                let namespace = &mut self.namespaces[nodes[end]];
                namespace.ip.push(format!("link set {} master {} up", at.port(cable), at.bridge));
                namespace.offloads_off.push(at.port(cable));
            }
        }
        for (end, at) in ends.iter().enumerate() {
            self.namespaces[nodes[end]].bridge.extend(at.use_cable(0, failover.backup));
            self.ports.push(Port {
                node: nodes[end],
                device: at.bridge.clone(),
                segment: self.n_segments,
                endpoints: vec![failover.ends[end].endpoint.clone()],
            });
        }
        self.n_segments += 1;
        let Failover { every, length, unnoticed, backup, .. } = *failover;
        self.cables.push(Cables { ends, backup, every, length, unnoticed });
    }
}

/// Returns the hardware address of the bridge at an end: locally administered, with `LRF` in it.
fn address(number: usize, end: usize) -> String {
    [0x02, b'L', b'R', b'F', number as u8, end as u8].map(|byte| format!("{byte:02x}")).join(":")
}

#[cfg(test)]
mod tests {
    use super::super::tests::{HEAD, lay};

    #[test]
    fn two_cables_join_two_bridges_and_the_second_may_be_no_backup() {
        let text = format!("{HEAD}[[failover]]\nends=['a','b']\nevery='2 s'\nlength='1 s'\n");
        let layout = lay(&text);
        let [a, b] = [0, 1].map(|at| &layout.namespaces[at]);
        assert_eq!(a.bridge[0], "fdb replace 02:4c:52:46:00:01 dev b0f0 master static");
        assert_eq!(b.bridge[0], "fdb replace 02:4c:52:46:00:00 dev a0f0 master static");
        assert_eq!(a.bridge[5], "link set dev b0f0 backup_port b0f1");
        assert_eq!((layout.cables.len(), layout.links.len()), (1, 2));
        assert!(!layout.stands_alone());
        let devices = layout.testbed.endpoints.iter().map(|end| end.device.as_deref());
        assert!(devices.eq([Some("b0"), Some("a0")]));
        let alone = lay(&format!("{text}backup=false\n"));
        assert_eq!((alone.links.len(), alone.namespaces[0].bridge.len()), (2, 5));
    }
}
