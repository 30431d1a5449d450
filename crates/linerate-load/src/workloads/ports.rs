//! Ports chosen beforehand: one for each flow at the active end, one destination for all. Flows
//! then land on chosen members of a port channel, or on chosen receive queues. `linerate flows
//! plan` and `flows probe` print such ports.
//!
//! An address translator replaces them, so they have no effect behind one.

use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::str::FromStr;

use linerate_model::ParamError;
use socket2::{Socket, Type};

use super::sockets::bound;
use crate::Result;
use crate::parameter::{Reader, wrong};

/// A port that a plan may choose.
pub(crate) const PORT: RangeInclusive<u64> = 1..=u16::MAX as u64;
/// Example of a [`PortList`].
pub(crate) const PORTS: &str = "32768,32771";

/// Ports as a plan lists them: `32768,32771`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PortList(pub(crate) Vec<u16>);

impl FromStr for PortList {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let words = text.split([',', ' ']).filter(|word| !word.is_empty());
        Ok(Self(words.map(port).collect::<Result<_, _>>()?))
    }
}

fn port(word: &str) -> Result<u16, String> {
    // Port 0 would mean "any", which no plan can have chosen.
    let port = word.parse::<u16>().ok().filter(|port| *port > 0);
    port.ok_or_else(|| format!("`{word}` is not a port"))
}

impl PortList {
    /// Checks that each of `n_flows` has a port, and that they have a destination.
    pub(crate) fn check(&self, n_flows: u32, destination: Option<u16>) -> Result<(), ParamError> {
        let n_ports = self.0.len();
        if n_ports < n_flows as usize {
            let why =
                format!("{n_ports} ports for {n_flows} flows (`flows plan --each` lists more)");
            return Err(wrong("source_ports", why));
        }
        if destination.is_none() {
            return Err(wrong(
                "source_ports",
                "ports are planned for one destination: set destination_port as well",
            ));
        }
        Ok(())
    }
}

/// Ports of a workload whose flows have sockets of their own.
#[derive(Clone, Debug)]
pub(crate) struct PlannedPorts {
    source_ports: Option<PortList>,
    destination_port: Option<u16>,
}

impl PlannedPorts {
    /// No planned ports: the kernel chooses them.
    pub(crate) const NONE: Self = Self { source_ports: None, destination_port: None };

    /// Returns the port of the passive end, if it was chosen.
    pub(crate) fn chosen(&self) -> Option<u16> {
        self.destination_port
    }

    /// Declares the ports of both ends.
    pub(crate) fn declare(reader: &mut Reader<'_>) -> Self {
        Self {
            source_ports: reader.structured(
                "source_ports",
                PORTS,
                "none",
                "ports of the flows at the active end, in turn, at least one per flow, as \
                    `linerate flows plan` and `flows probe` print them: flows then land on chosen \
                    members or queues",
            ),
            destination_port: reader.optional_count(
                "destination_port",
                PORT,
                "free ones",
                "with source_ports: the port of all flows at the passive end, for which they were \
                    planned",
            ),
        }
    }

    /// Checks that the ports suffice for `n_flows` and go together.
    pub(crate) fn check(&self, n_flows: u32) -> Result<(), ParamError> {
        let Some(list) = &self.source_ports else {
            let alone =
                wrong("destination_port", "it belongs to planned ports: set source_ports as well");
            return self.destination_port.map_or(Ok(()), |_| Err(alone));
        };
        list.check(n_flows, self.destination_port)?;
        // More ports than flows are allowed: `flows plan --each` lists them all.
        let flows = &list.0[..n_flows as usize];
        let twice = (1..flows.len()).find(|at| flows[..*at].contains(&flows[*at]));
        twice.map_or(Ok(()), |at| {
            Err(wrong(
                "source_ports",
                format!("{} is listed twice: each flow needs its own", flows[at]),
            ))
        })
    }

    /// Returns the source address of flow `flow` at the active end, whose address is `ip`. The port
    /// is 0, any free one, where none was planned.
    pub(crate) fn source(&self, ip: IpAddr, flow: u32) -> SocketAddr {
        SocketAddr::new(
            ip,
            // The kernel chooses where no port is planned.
            self.source_ports.as_ref().map_or(0, |PortList(ports)| ports[flow as usize]),
        )
    }

    /// Returns the destination of all flows at the passive end, whose address is `own`.
    pub(crate) fn destination(&self, mut own: SocketAddr) -> SocketAddr {
        own.set_port(self.destination_port.unwrap_or(0));
        own
    }

    /// Returns the source of flow `flow` as the passive end expects it, if one was planned.
    pub(crate) fn expected(&self, peer: IpAddr, flow: u32) -> Option<SocketAddr> {
        self.source_ports.as_ref().map(|_| self.source(peer, flow))
    }

    /// Opens the datagram socket of a flow at the passive end. With planned ports all sockets share
    /// one port.
    pub(crate) fn receiving(&self, own: SocketAddr, device: Option<&str>) -> Result<Socket> {
        bound(Type::DGRAM, self.destination(own), device, |socket| {
            // Flows with planned source ports share one destination port, and the kernel
            // distinguishes them by source.
            socket.set_reuse_port(self.destination_port.is_some())
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn planned(table: serde_json::Value) -> PlannedPorts {
        let params = serde_json::from_value(table).expect("a table");
        PlannedPorts::declare(&mut Reader::new(&params))
    }

    #[test]
    fn each_flow_has_its_port_and_all_have_one_destination() {
        let ip: IpAddr = "198.18.0.1".parse().expect("an address");
        let ports = planned(json!({ "source_ports": "40, 30,20", "destination_port": 7 }));
        assert!(ports.check(3).is_ok() && ports.check(2).is_ok());
        assert_eq!([0, 1, 2].map(|flow| ports.source(ip, flow).port()), [40, 30, 20]);
        assert_eq!(
            (ports.destination(SocketAddr::new(ip, 0)).port(), ports.expected(ip, 1)),
            (7, Some(SocketAddr::new(ip, 30)))
        );
        let free = PlannedPorts::NONE;
        assert!(free.check(9).is_ok());
        assert_eq!((free.source(ip, 8).port(), free.expected(ip, 8)), (0, None));
    }

    #[test]
    fn too_few_ports_or_one_twice_or_half_a_plan_are_refused() {
        for (table, n_flows, key) in [
            (json!({ "source_ports": "40,30", "destination_port": 7 }), 3, "source_ports"),
            (json!({ "source_ports": "40,40", "destination_port": 7 }), 2, "source_ports"),
            (json!({ "source_ports": "40" }), 1, "source_ports"),
            (json!({ "destination_port": 7 }), 1, "destination_port"),
        ] {
            assert_eq!(
                planned(table.clone()).check(n_flows).expect_err("refused").key,
                key,
                "{table}"
            );
        }
        assert_eq!("80,eighty".parse::<PortList>(), Err("`eighty` is not a port".to_owned()));
    }

    #[test]
    fn a_port_in_use_is_named_with_a_remedy() {
        let taken = std::net::UdpSocket::bind("127.0.0.1:0").expect("loopback");
        let address = taken.local_addr().expect("bound");
        let ports = planned(json!({ "source_ports": "9", "destination_port": address.port() }));
        let error = ports.receiving(address, None).expect_err("taken").to_string();
        assert!(error.contains(&format!("bind {address}")), "{error}");
        assert!(error.contains("flows plan"), "{error}");
    }
}
