//! Ports chosen beforehand, one for each flow and one destination for all: so flows land on chosen
//! members of a port channel, or on chosen receive queues. `linerate flows plan` and `flows probe`
//! print them.
//!
//! What they do not do: survive an address translator, which gives flows ports of its own.

use std::net::{IpAddr, SocketAddr};

use linerate_model::ParamError;
use serde::{Deserialize, Deserializer, de};
use socket2::{Socket, Type};

use super::parameters::wrong;
use super::sockets::bound;
use crate::LoadError;
use crate::parameter::{Takes, parameters};

/// A port that a plan may choose.
pub(crate) const PORT: Takes = Takes::Count { least: 1, most: u16::MAX as u64 };
/// Ports of flows, [`PortList`].
pub(crate) const PORTS: Takes = Takes::Text { example: "32768,32771" };

/// Ports as a plan lists them: `32768,32771`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PortList(pub(crate) Vec<u16>);

impl<'de> Deserialize<'de> for PortList {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let words = text.split([',', ' ']).filter(|word| !word.is_empty());
        let port = |word: &str| word.parse::<u16>().ok().filter(|port| *port > 0);
        let ports = words.map(|word| {
            port(word).ok_or_else(|| de::Error::custom(format!("`{word}` is no port")))
        });
        Ok(Self(ports.collect::<Result<_, _>>()?))
    }
}

impl PortList {
    /// Whether each of `n_flows` has one, and they have a destination to have been planned for.
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
                "ports are planned for one destination: say destination_port as well",
            ));
        }
        Ok(())
    }
}

parameters! {
    /// Ports of a workload whose flows have sockets of their own.
    pub(crate) struct PlannedPorts {
        source_ports: Option<PortList> = None, PORTS, "none",
            "port of each flow at the active end in turn, one at least per flow, as `linerate \
                flows plan` and `flows probe` print them: so flows land on chosen members or \
                queues";
        destination_port: Option<u16> = None, PORT, "free ones",
            "with source_ports: the port of all flows at the passive end, which they were planned \
                for";
    }
}

impl PlannedPorts {
    /// Ports as they come.
    pub(crate) const NONE: Self = Self { source_ports: None, destination_port: None };

    /// Whether they suffice for `n_flows`, and go together.
    pub(crate) fn check(&self, n_flows: u32) -> Result<(), ParamError> {
        let Some(list) = &self.source_ports else {
            let alone = wrong(
                "destination_port",
                "one port is planned with others: say source_ports as well",
            );
            return self.destination_port.map_or(Ok(()), |_| Err(alone));
        };
        list.check(n_flows, self.destination_port)?;
        let flows = &list.0[..n_flows as usize];
        let twice = (1..flows.len()).find(|at| flows[..*at].contains(&flows[*at]));
        twice.map_or(Ok(()), |at| {
            Err(wrong(
                "source_ports",
                format!("{} is listed twice: each flow needs its own", flows[at]),
            ))
        })
    }

    /// Where flow `flow` leaves from at the active end, whose address is `ip`: any free port where
    /// none was planned.
    pub(crate) fn source(&self, ip: IpAddr, flow: u32) -> SocketAddr {
        SocketAddr::new(
            ip,
            self.source_ports.as_ref().map_or(0, |PortList(ports)| ports[flow as usize]),
        )
    }

    /// Where flows arrive at the passive end, whose address is `ip`.
    pub(crate) fn destination(&self, ip: IpAddr) -> SocketAddr {
        SocketAddr::new(ip, self.destination_port.unwrap_or(0))
    }

    /// Where a datagram of flow `flow` must come from, if that is known beforehand.
    pub(crate) fn expected(&self, peer: IpAddr, flow: u32) -> Option<SocketAddr> {
        self.source_ports.as_ref().map(|_| self.source(peer, flow))
    }

    /// A datagram socket of a flow at the passive end; with ports planned all of them have one
    /// port.
    pub(crate) fn receiving(&self, ip: IpAddr, device: Option<&str>) -> Result<Socket, LoadError> {
        bound(Type::DGRAM, self.destination(ip), device, |socket| {
            socket.set_reuse_port(self.destination_port.is_some())
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn planned(table: serde_json::Value) -> PlannedPorts {
        serde_json::from_value(table).expect("a table")
    }

    #[test]
    fn each_flow_has_its_port_and_all_have_one_destination() {
        let ip: IpAddr = "198.18.0.1".parse().expect("an address");
        let ports = planned(json!({ "source_ports": "40, 30,20", "destination_port": 7 }));
        assert!(ports.check(3).is_ok() && ports.check(2).is_ok());
        assert_eq!([0, 1, 2].map(|flow| ports.source(ip, flow).port()), [40, 30, 20]);
        assert_eq!(
            (ports.destination(ip).port(), ports.expected(ip, 1)),
            (7, Some(SocketAddr::new(ip, 30)))
        );
        let free = PlannedPorts::NONE;
        assert!(free.check(9).is_ok());
        assert_eq!(
            (free.source(ip, 8).port(), free.destination(ip).port(), free.expected(ip, 8)),
            (0, 0, None)
        );
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
        assert!(
            serde_json::from_value::<PlannedPorts>(json!({ "source_ports": "80,eighty" })).is_err()
        );
    }

    #[test]
    fn a_port_that_is_taken_is_told_with_what_to_do() {
        let taken = std::net::UdpSocket::bind("127.0.0.1:0").expect("loopback");
        let address = taken.local_addr().expect("bound");
        let ports = planned(json!({ "source_ports": "9", "destination_port": address.port() }));
        let said = ports.receiving(address.ip(), None).expect_err("taken").to_string();
        assert!(said.contains(&format!("bind {address}")) && said.contains("flows plan"), "{said}");
    }
}
