//! Test frames: templates that are filled once and patched per frame, and views that read what
//! arrived.
//!
//! A frame is Ethernet (IEEE 802.3), up to two VLAN tags (802.1Q, 802.1ad), IPv4 (RFC 791) or IPv6
//! (RFC 8200) without options, UDP (RFC 768) or a TCP header (RFC 9293), a [`signature`] of 18
//! bytes, and filling. *Frame sizes* are those of RFC 2544: from the destination address to the
//! frame check sequence, the 4 bytes of the latter and VLAN tags included, preamble and gap not.
//! *Frame bytes* are what a program hands over and receives: the size without the check sequence,
//! which the device adds and takes off. The smallest size that carries a signature is 64 B over
//! IPv4 and UDP, 4 B more for each tag, 20 B more over IPv6, 12 B more with a TCP header.
//!
//! Not seen: the check sequence itself, IP options and extension headers, and tags that a receiving
//! kernel has removed and reports beside the frame.

pub mod signature;

mod checksum;
mod headers;
mod imix;
mod read;
mod template;

pub use checksum::internet_checksum;
pub use headers::{Addresses, Headers, MacAddress, Ports, Transport, VlanTag};
pub use imix::{IMIX_GENOMES, Imix, imix};
pub use read::{FrameView, signature_offset};
pub use signature::{SIGNATURE_BYTES, Signature, Stamp};
pub use template::{Template, TemplateError};

/// Frame check sequence (IEEE 802.3 clause 3.2.9).
pub const FCS_BYTES: usize = 4;
/// Preamble and start delimiter (8) and the least inter-packet gap (12), IEEE 802.3 clause 4.4.2.
pub const WIRE_OVERHEAD_BYTES: usize = 20;
/// The smallest frame, check sequence included (IEEE 802.3 clause 4.4.2).
pub const SMALLEST_FRAME: usize = 64;
/// The largest this crate makes: a jumbo frame of 16 KiB, more than any device takes.
pub const LARGEST_FRAME: usize = 16 << 10;
/// Destination, source and type.
const ETHERNET_BYTES: usize = 14;
/// One VLAN tag.
pub const VLAN_BYTES: usize = 4;

/// The IP MTU that a frame of `frame_size` with `n_tags` VLAN tags needs.
#[must_use]
pub const fn mtu_for(frame_size: usize, n_tags: usize) -> usize {
    frame_size.saturating_sub(ETHERNET_BYTES + FCS_BYTES + n_tags * VLAN_BYTES)
}
