//! Parser of arriving frames: the headers that a test frame may have, and the signature behind
//! them.

use super::headers::{IPV4_BYTES, IPV6_BYTES, Ports, TCP_BYTES, Transport, UDP_BYTES};
use super::signature::Signature;
use super::{ETHERNET_BYTES, VLAN_BYTES};
use crate::bytes::u16_at;

/// Tags that are looked past: more than anyone stacks.
const MOST_TAGS: usize = 4;
/// Of a VLAN: 802.1Q, 802.1ad, and the one older devices use for the outer tag.
const VLAN_TYPES: [u16; 3] = [0x8100, 0x88a8, 0x9100];
const ETHERTYPE_IPV4: u16 = 0x0800;
const ETHERTYPE_IPV6: u16 = 0x86dd;
/// Offset and more-fragments bits of IPv4: a fragment has no transport header to read.
const FRAGMENT_BITS: u16 = 0x3fff;

/// A frame that has the headers of a test frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameView<'a> {
    bytes: &'a [u8],
    /// VLAN tags in it.
    pub n_tags: usize,
    /// True for IPv6.
    pub is_ipv6: bool,
    /// Its transport.
    pub transport: Transport,
    /// Its ports.
    pub ports: Ports,
    /// Where its payload begins.
    pub payload_at: usize,
}

impl<'a> FrameView<'a> {
    /// Reads any bytes; `None` if they are no frame with UDP or TCP over IP, or too short for the
    /// headers they claim.
    #[must_use]
    pub fn read(bytes: &'a [u8]) -> Option<Self> {
        // The type field is read where it is without tags; each tag moves it by four bytes.
        let mut at = ETHERNET_BYTES - 2;
        let mut n_tags = 0;
        let mut kind = u16_at(bytes, at)?;
        // The limit keeps a frame that consists of tags from costing a long loop at line rate.
        while VLAN_TYPES.contains(&kind) && n_tags < MOST_TAGS {
            n_tags += 1;
            at += VLAN_BYTES;
            kind = u16_at(bytes, at)?;
        }
        let ip = at + 2;
        let (protocol, transport_at) = match kind {
            ETHERTYPE_IPV4 => {
                // The header length is in words of four bytes; a device may have added options, so
                // it is not assumed to be 20.
                let first = *bytes.get(ip)?;
                let header = usize::from(first & 0x0f) * 4;
                if first >> 4 != 4
                    || header < IPV4_BYTES
                    || u16_at(bytes, ip + 6)? & FRAGMENT_BITS != 0
                {
                    return None;
                }
                (*bytes.get(ip + 9)?, ip + header)
            }
            // Extension headers are not followed: our senders write none.
            ETHERTYPE_IPV6 if bytes.get(ip)? >> 4 == 6 => (*bytes.get(ip + 6)?, ip + IPV6_BYTES),
            _ => return None,
        };
        let ports = Ports {
            source: u16_at(bytes, transport_at)?,
            destination: u16_at(bytes, transport_at + 2)?,
        };
        let (transport, payload_at) = match protocol {
            // Protocol numbers of IANA: 17 is UDP, 6 is TCP.
            17 => (Transport::Udp, transport_at + UDP_BYTES),
            6 => {
                // A data offset below five words is invalid. The ports are still ours, so the
                // payload is taken to start after 20 bytes.
                let header = usize::from(*bytes.get(transport_at + 12)? >> 4) * 4;
                (Transport::Tcp, transport_at + header.max(TCP_BYTES))
            }
            _ => return None,
        };
        let is_ipv6 = kind == ETHERTYPE_IPV6;
        // A truncated capture can end inside the header. Its payload would start behind the slice.
        (payload_at <= bytes.len()).then_some(Self {
            bytes,
            n_tags,
            is_ipv6,
            transport,
            ports,
            payload_at,
        })
    }

    /// Payload, and padding if there is any.
    #[must_use]
    pub fn payload(&self) -> &'a [u8] {
        self.bytes.get(self.payload_at..).unwrap_or(&[])
    }

    /// Returns the bytes at the place of the signature. Its tag decides whether it is one.
    #[must_use]
    pub fn signature(&self) -> Option<Signature> {
        Signature::read(self.payload())
    }
}

/// Where the signature of a frame begins that has `n_tags` VLAN tags in it.
#[must_use]
pub const fn signature_offset(n_tags: usize, is_ipv6: bool, transport: Transport) -> usize {
    let ip = if is_ipv6 { IPV6_BYTES } else { IPV4_BYTES };
    ETHERNET_BYTES + n_tags * VLAN_BYTES + ip + transport.header_bytes()
}
