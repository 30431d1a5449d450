//! On which member of a group a flow goes: hashes that can be computed, ports chosen by them, and
//! whether a spread is even.
//!
//! A group is anything that keeps a flow on one of several equal ways by a hash of its addresses
//! and ports: links of a port channel, equal-cost routes, receive queues. Members are counted from
//! 0.
//!
//! Computed are the transmit hash of Linux bonding ([`bond`]) and receive side scaling
//! ([`toeplitz`]). The hash of Linux equal-cost routes has a key that is drawn when the host starts
//! and told to nobody, and switches keep theirs to themselves: there members are found by sending
//! and looking ([`planner::plan`] takes what was found as it takes what was computed).

pub mod bond;
pub mod planner;
pub mod polarisation;
pub mod toeplitz;

use core::net::{IpAddr, SocketAddr};

/// A directed flow of TCP or UDP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flow {
    /// Who sends.
    pub from: SocketAddr,
    /// Who receives.
    pub to: SocketAddr,
}

/// Octets of an address as they stand in a packet.
fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}
