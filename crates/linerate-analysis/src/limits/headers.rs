//! Header sizes of IP, TCP and UDP, in bytes of the IP packet (layer 3).
//!
//! Standards: RFC 791 3.1 (IPv4), RFC 8200 3 (IPv6), RFC 9293 3.1 (TCP), RFC 7323 3.2 (timestamps),
//! RFC 768 (UDP). Not seen here: IPv4 options, IPv6 extension headers, and TCP options other than
//! timestamps (SACK blocks ride on acknowledgements, not on data).

use linerate_model::Bytes;
use serde::{Deserialize, Serialize};

/// Version of the Internet Protocol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum IpVersion {
    /// IPv4.
    #[default]
    V4,
    /// IPv6.
    V6,
}

/// TCP timestamps option in segments; Linux negotiates it by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Timestamps {
    /// Not carried.
    #[default]
    Off,
    /// Carried on every segment.
    On,
}

/// IPv4 header without options, RFC 791 3.1.
pub const IPV4: Bytes = Bytes(20);
/// IPv6 header without extensions, RFC 8200 3.
pub const IPV6: Bytes = Bytes(40);
/// TCP header without options, RFC 9293 3.1.
pub const TCP: Bytes = Bytes(20);
/// Timestamps option: 10 bytes, padded to 12 by two no-operations, RFC 7323 3.2 and appendix A.
pub(crate) const TCP_TIMESTAMPS: Bytes = Bytes(12);
/// UDP header, RFC 768.
pub const UDP: Bytes = Bytes(8);

impl IpVersion {
    /// Returns the size of its header.
    pub const fn header(self) -> Bytes {
        match self {
            Self::V4 => IPV4,
            Self::V6 => IPV6,
        }
    }

    /// Returns the name of the IP version.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::V4 => "IPv4",
            Self::V6 => "IPv6",
        }
    }

    /// Returns the smallest MTU a link may have: RFC 791 3.2 (68 bytes) and RFC 8200 5 (1280
    /// bytes).
    pub(crate) const fn smallest_mtu(self) -> Bytes {
        match self {
            Self::V4 => Bytes(68),
            Self::V6 => Bytes(1280),
        }
    }

    /// [`IpVersion::V6`] if `ipv6` was asked for on a command line or in a plan.
    #[must_use]
    pub(crate) const fn from_flag(ipv6: bool) -> Self {
        if ipv6 { Self::V6 } else { Self::V4 }
    }
}

impl Timestamps {
    /// Returns the size of the option on each segment.
    pub const fn size(self) -> Bytes {
        match self {
            Self::Off => Bytes(0),
            Self::On => TCP_TIMESTAMPS,
        }
    }
}

/// IP and TCP headers of a data segment.
///
/// # Examples
/// ```
/// use linerate_analysis::limits::headers::{IpVersion, Timestamps, tcp};
/// use linerate_model::Bytes;
///
/// // IPv4 20, TCP 20, timestamps option 12 (RFC 791, RFC 9293, RFC 7323).
/// assert_eq!(tcp(IpVersion::V4, Timestamps::On), Bytes(52));
/// ```
pub fn tcp(ip: IpVersion, timestamps: Timestamps) -> Bytes {
    ip.header() + TCP + timestamps.size()
}

/// IP and UDP headers of a datagram that is not fragmented.
pub fn udp(ip: IpVersion) -> Bytes {
    ip.header() + UDP
}
