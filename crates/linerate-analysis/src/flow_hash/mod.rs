//! Member of a group that a flow uses: computable hashes, ports chosen by them, and a test of even
//! spread.
//!
//! A group is anything that keeps a flow on one of several equal paths by a hash of its addresses
//! and ports: links of a port channel, equal-cost routes, receive queues. Members are counted from
//! 0.
//!
//! Two hashes are computed: the transmit hash of Linux bonding ([`bond`]) and receive side scaling
//! ([`toeplitz`]). The hash of Linux equal-cost routes has a secret key drawn when the host starts,
//! and switches do not publish theirs. There, members are found by sending and observing
//! ([`planner::plan`] accepts observed members as it accepts computed ones).

pub mod bond;
pub mod planner;
pub mod polarisation;
pub mod toeplitz;

use core::net::{IpAddr, SocketAddr};

/// A directed flow of TCP or UDP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flow {
    /// Sending address and port.
    pub from: SocketAddr,
    /// Receiving address and port.
    pub to: SocketAddr,
}

/// Returns the octets of an address in the order of a packet.
fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}
