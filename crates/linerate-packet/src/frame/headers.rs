//! The headers of a test frame, as values and as bytes.

use std::net::{Ipv4Addr, Ipv6Addr};

use super::checksum;
use super::{ETHERNET_BYTES, VLAN_BYTES};

/// An Ethernet address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct MacAddress(pub [u8; 6]);

impl std::fmt::Display for MacAddress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

/// A VLAN tag: the identifier, in 12 bits, and the priority, in 3.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VlanTag {
    /// VLAN identifier, 1 to 4094.
    pub id: u16,
    /// Priority code point, 0 to 7.
    pub priority: u8,
}

/// Both ends' addresses, of one family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Addresses {
    /// RFC 791.
    V4 {
        /// Of the sender.
        source: Ipv4Addr,
        /// Of the receiver.
        destination: Ipv4Addr,
    },
    /// RFC 8200.
    V6 {
        /// Of the sender.
        source: Ipv6Addr,
        /// Of the receiver.
        destination: Ipv6Addr,
    },
}

/// Ports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ports {
    /// Of the sender.
    pub source: u16,
    /// Of the receiver.
    pub destination: u16,
}

/// Which transport header stands before the payload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Transport {
    /// RFC 768, with its checksum.
    #[default]
    Udp,
    /// A TCP header without options. Its reset flag is set: no host answers such a segment (RFC
    /// 9293 clause 3.10.7), and none is merged with another on its way in.
    Tcp,
}

/// Everything before the signature.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Headers {
    /// Next hop.
    pub destination: MacAddress,
    /// This end's device.
    pub source: MacAddress,
    /// Outer tag first; at most two.
    pub tags: Vec<VlanTag>,
    /// IP addresses.
    pub addresses: Addresses,
    /// Transport header.
    pub transport: Transport,
    /// Its ports.
    pub ports: Ports,
    /// Differentiated services code point, 0 to 63 (RFC 2474).
    pub dscp: u8,
    /// Time to live or hop limit.
    pub hops: u8,
}

const ETHERTYPE_VLAN: u16 = 0x8100;
/// Outer tag of two (802.1ad).
const ETHERTYPE_SERVICE_VLAN: u16 = 0x88a8;
const ETHERTYPE_IPV4: u16 = 0x0800;
const ETHERTYPE_IPV6: u16 = 0x86dd;
pub(super) const IPV4_BYTES: usize = 20;
pub(super) const IPV6_BYTES: usize = 40;
pub(super) const UDP_BYTES: usize = 8;
pub(super) const TCP_BYTES: usize = 20;
const PROTOCOL_TCP: u8 = 6;
const PROTOCOL_UDP: u8 = 17;
/// Version 4, five words of header.
const IPV4_VERSION_LENGTH: u8 = 0x45;
/// Version 6.
const IPV6_VERSION: u8 = 0x60;
/// Fragments are not wanted.
const DO_NOT_FRAGMENT: u16 = 0x4000;
/// Where a header's checksum stands in it.
const IPV4_CHECKSUM_AT: usize = 10;
const UDP_CHECKSUM_AT: usize = 6;
const TCP_CHECKSUM_AT: usize = 16;
/// Five words of TCP header; acknowledgement and reset.
const TCP_LENGTH_FLAGS: u16 = 0x5014;

impl Transport {
    /// Bytes of its header.
    #[must_use]
    pub const fn header_bytes(self) -> usize {
        match self {
            Self::Udp => UDP_BYTES,
            Self::Tcp => TCP_BYTES,
        }
    }

    const fn protocol(self) -> u8 {
        match self {
            Self::Udp => PROTOCOL_UDP,
            Self::Tcp => PROTOCOL_TCP,
        }
    }

    const fn checksum_at(self) -> usize {
        match self {
            Self::Udp => UDP_CHECKSUM_AT,
            Self::Tcp => TCP_CHECKSUM_AT,
        }
    }
}

impl Addresses {
    /// Bytes of the IP header.
    #[must_use]
    pub const fn header_bytes(&self) -> usize {
        match self {
            Self::V4 { .. } => IPV4_BYTES,
            Self::V6 { .. } => IPV6_BYTES,
        }
    }

    fn sum(&self) -> u32 {
        match self {
            Self::V4 { source, destination } => {
                checksum::add_bytes(checksum::add_bytes(0, &source.octets()), &destination.octets())
            }
            Self::V6 { source, destination } => {
                checksum::add_bytes(checksum::add_bytes(0, &source.octets()), &destination.octets())
            }
        }
    }
}

impl Headers {
    /// Where the IP header begins.
    pub(super) fn ip_at(&self) -> usize {
        // The IP header starts at an offset that is 2 modulo 4. All fields are therefore written as
        // bytes, never as aligned words.
        ETHERNET_BYTES + self.tags.len() * VLAN_BYTES
    }

    /// Where the transport header begins.
    pub(super) fn transport_at(&self) -> usize {
        self.ip_at() + self.addresses.header_bytes()
    }

    /// Where the signature begins, from the destination address.
    #[must_use]
    pub fn signature_at(&self) -> usize {
        self.transport_at() + self.transport.header_bytes()
    }

    /// Where the transport checksum stands.
    pub(super) fn checksum_at(&self) -> usize {
        self.transport_at() + self.transport.checksum_at()
    }

    /// The frame before its payload, for `payload_bytes` of it, transport checksum zero. Its
    /// padding to the smallest frame, if any is needed, is no payload.
    pub(super) fn emit(&self, payload_bytes: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.signature_at());
        bytes.extend(self.destination.0);
        bytes.extend(self.source.0);
        for (place, tag) in self.tags.iter().enumerate() {
            let outer_of_two = self.tags.len() > 1 && place == 0;
            let kind = if outer_of_two { ETHERTYPE_SERVICE_VLAN } else { ETHERTYPE_VLAN };
            bytes.extend(kind.to_be_bytes());
            bytes.extend((u16::from(tag.priority) << 13 | tag.id & 0x0fff).to_be_bytes());
        }
        // UDP length, IPv6 payload length and the pseudo header all count the transport header and
        // the payload, without the padding.
        let transport_bytes = (self.transport.header_bytes() + payload_bytes) as u16;
        match self.addresses {
            Addresses::V4 { source, destination } => {
                bytes.extend(ETHERTYPE_IPV4.to_be_bytes());
                let start = bytes.len();
                bytes.extend([IPV4_VERSION_LENGTH, self.dscp << 2]);
                bytes.extend((IPV4_BYTES as u16 + transport_bytes).to_be_bytes());
                // Identification is zero: a datagram that may not be fragmented needs none (RFC
                // 6864 section 4.1).
                bytes.extend([0, 0]);
                bytes.extend(DO_NOT_FRAGMENT.to_be_bytes());
                // The checksum field must be zero while the sum is formed (RFC 791 section 3.1).
                bytes.extend([self.hops, self.transport.protocol(), 0, 0]);
                bytes.extend(source.octets());
                bytes.extend(destination.octets());
                let sum = checksum::internet_checksum(&bytes[start..]);
                bytes[start + IPV4_CHECKSUM_AT..][..2].copy_from_slice(&sum.to_be_bytes());
            }
            Addresses::V6 { source, destination } => {
                bytes.extend(ETHERTYPE_IPV6.to_be_bytes());
                // Traffic class in bits 4 to 11, of which the upper six are the code point.
                bytes.extend([IPV6_VERSION | self.dscp >> 2, self.dscp << 6, 0, 0]);
                bytes.extend(transport_bytes.to_be_bytes());
                bytes.extend([self.transport.protocol(), self.hops]);
                bytes.extend(source.octets());
                bytes.extend(destination.octets());
            }
        }
        bytes.extend(self.ports.source.to_be_bytes());
        bytes.extend(self.ports.destination.to_be_bytes());
        match self.transport {
            Transport::Udp => {
                // The checksum depends on the stamp, so the template adds it with the first stamp.
                bytes.extend(transport_bytes.to_be_bytes());
                bytes.extend([0, 0]);
            }
            Transport::Tcp => {
                // Sequence and acknowledgement number.
                bytes.extend([0; 8]);
                bytes.extend(TCP_LENGTH_FLAGS.to_be_bytes());
                // Window, checksum, urgent pointer.
                bytes.extend([0; 6]);
            }
        }
        bytes
    }

    /// The sum of the pseudo header (RFC 768, RFC 9293 clause 3.1, RFC 8200 clause 8.1).
    pub(super) fn pseudo_sum(&self, transport_bytes: usize) -> u32 {
        let sum = checksum::add(self.addresses.sum(), u16::from(self.transport.protocol()));
        checksum::add(sum, transport_bytes as u16)
    }
}
