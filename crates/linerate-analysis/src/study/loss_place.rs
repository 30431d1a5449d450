//! The places at which datagrams are lost, as far as counters tell them apart.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A place at which datagrams were lost, in the order of the path.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", from = "String")]
pub enum LossPlace {
    /// Between IP and the device of the sending host: a neighbour that does not answer, or a netfilter hook at egress.
    SenderOutput,
    /// A queueing discipline of the sending host, or a filter of tc at its egress.
    SenderQueue,
    /// The device of the sending host.
    SenderDevice,
    /// A device under test or link of a lab, with the cause in brackets.
    Device(String),
    /// The device of the receiving host.
    ReceiverDevice,
    /// The per-CPU backlog of the receiving host (softnet).
    ReceiverBacklog,
    /// Between the device and IP of the receiving host: XDP, tc, or a netfilter hook at ingress.
    ReceiverIngress,
    /// The network controller of a sideband.
    Controller,
    /// The reassembly of fragments in the receiving host: no memory for them, or they did not fit together.
    ReceiverReassembly,
    /// A packet filter of the receiving host (nftables, iptables), or a filter attached to the socket (BPF).
    ReceiverFilter,
    /// The checksum test of the receiving host: the datagram was corrupt.
    ReceiverChecksum,
    /// The receive buffer of the socket: the program did not read fast enough.
    ReceiverSocket,
}

/// Every place but devices of labs, by name.
const NAMES: [(LossPlace, &str); 11] = [
    (LossPlace::SenderOutput, "sender output (neighbour, nftables)"),
    (LossPlace::SenderQueue, "sender qdisc"),
    (LossPlace::SenderDevice, "sender device"),
    (LossPlace::ReceiverDevice, "receiver device"),
    (LossPlace::ReceiverBacklog, "receiver backlog (softnet)"),
    (LossPlace::ReceiverIngress, "receiver ingress (XDP, tc, nftables)"),
    (LossPlace::Controller, "network controller"),
    (LossPlace::ReceiverReassembly, "receiver reassembly"),
    (LossPlace::ReceiverFilter, "receiver packet filter"),
    (LossPlace::ReceiverChecksum, "receiver checksum"),
    (LossPlace::ReceiverSocket, "receiver socket"),
];

impl LossPlace {
    /// Its name as printed.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Device(name) => name,
            place => NAMES.iter().find(|(known, _)| known == place).map_or("", |(_, name)| name),
        }
    }
}

impl fmt::Display for LossPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl From<LossPlace> for String {
    fn from(place: LossPlace) -> Self {
        place.name().to_owned()
    }
}

impl From<String> for LossPlace {
    fn from(name: String) -> Self {
        Self::from(name.as_str())
    }
}

impl From<&str> for LossPlace {
    fn from(name: &str) -> Self {
        let known = NAMES.iter().find(|(_, known)| *known == name);
        known.map_or_else(|| Self::Device(name.to_owned()), |(place, _)| place.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_place_is_found_again_by_its_name() {
        let device = LossPlace::Device("dut (buffer full)".into());
        for place in NAMES.iter().map(|(place, _)| place).chain([&device]) {
            assert_eq!(&LossPlace::from(place.name()), place);
        }
    }
}
