//! Places at which datagrams are lost, as far as counters distinguish them.

use core::fmt;

use serde::{Deserialize, Serialize};

/// A place at which datagrams were lost, in the order of the path.
///
/// In JSON it is its name, which only this file writes and parses.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", from = "String")]
pub enum LossPlace {
    /// Between IP and the device of the sending host: a neighbour that does not answer, or a
    /// netfilter hook at egress.
    SenderOutput,
    /// A queueing discipline of the sending host, or a filter of tc at its egress.
    SenderQueue,
    /// The device of the sending host.
    SenderDevice,
    /// A device under test or link of a lab.
    Device {
        /// Name of the device.
        name: String,
        /// Cause of the drops.
        cause: DropCause,
    },
    /// The device of the receiving host.
    ReceiverDevice,
    /// The per-CPU backlog of the receiving host (softnet).
    ReceiverBacklog,
    /// Between the device and IP of the receiving host: XDP, tc, or a netfilter hook at ingress.
    ReceiverIngress,
    /// The network controller of a sideband.
    Controller,
    /// The reassembly of fragments in the receiving host: no memory for them, or they did not fit
    /// together.
    ReceiverReassembly,
    /// A packet filter of the receiving host (nftables, iptables), or a filter attached to the
    /// socket (BPF).
    ReceiverFilter,
    /// The checksum test of the receiving host: the datagram was corrupt.
    ReceiverChecksum,
    /// The receive buffer of the socket: the program did not read fast enough.
    ReceiverSocket,
}

/// Causes for which a device under test or link of a lab drops a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DropCause {
    /// Its buffer is full.
    BufferFull,
    /// It drops every n-th.
    ByOrder,
    /// It drops at random.
    AtRandom,
    /// The device names no cause.
    Unknown,
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
/// Every cause a device names, in words.
const CAUSES: [(DropCause, &str); 3] = [
    (DropCause::BufferFull, "buffer full"),
    (DropCause::ByOrder, "every n-th"),
    (DropCause::AtRandom, "at random"),
];

impl fmt::Display for LossPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Device { name, cause } => match CAUSES.iter().find(|(known, _)| known == cause) {
                Some((_, cause)) => write!(f, "{name} ({cause})"),
                // A name without a known cause is the whole text, so that old ledgers keep it
                // unchanged.
                None => f.write_str(name),
            },
            place => f.write_str(
                NAMES.iter().find(|(known, _)| known == place).map_or("", |(_, name)| name),
            ),
        }
    }
}

impl From<LossPlace> for String {
    fn from(place: LossPlace) -> Self {
        place.to_string()
    }
}

/// Parses the form in JSON.
impl From<String> for LossPlace {
    fn from(text: String) -> Self {
        // Names come before devices: a lab could call a device by the name of a place.
        if let Some((place, _)) = NAMES.iter().find(|(_, known)| *known == text) {
            return place.clone();
        }
        let device = CAUSES.iter().find_map(|(cause, word)| {
            let name = text.strip_suffix(&format!(" ({word})"))?;
            Some(Self::Device { name: name.to_owned(), cause: *cause })
        });
        device.unwrap_or(Self::Device { name: text, cause: DropCause::Unknown })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_place_is_found_again_in_json() {
        let device = |cause| LossPlace::Device { name: "link a-b (old)".into(), cause };
        let devices =
            [DropCause::BufferFull, DropCause::ByOrder, DropCause::AtRandom, DropCause::Unknown]
                .map(device);
        for place in NAMES.iter().map(|(place, _)| place).chain(&devices) {
            let written = serde_json::to_string(place).expect("a string");
            assert_eq!(written, format!("{:?}", place.to_string()));
            assert_eq!(&serde_json::from_str::<LossPlace>(&written).expect("a place"), place);
        }
    }
}
