//! Probe for the member of a group by which a flow leaves this host: sends a few datagrams and
//! reads each member's counter.
//!
//! For hashes that cannot be computed: equal-cost routes of Linux, whose key is random at each
//! start, and cards and switches with a secret key. The probe sees interfaces of this host only
//! (members of a bond, legs of a route), not those of a switch further on. A port has a result only
//! if one member counted every datagram and all others together far fewer. On a busy host it
//! therefore has no result rather than a wrong one.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use linerate_sys::SysError;
use linerate_sys::netlink::RouteSocket;

/// Number of datagrams for each port: more than the other traffic of a quiet host.
const DATAGRAMS: u64 = 64;
/// Most packets of the other members together.
const NOISE: u64 = DATAGRAMS / 4;
/// Longest wait for the counters. Some drivers refresh them once a second.
const PATIENCE: Duration = Duration::from_millis(1500);
/// Interval between two readings of the counters.
const PAUSE: Duration = Duration::from_millis(2);
/// Smallest payload that fills a frame of 64 bytes with its headers.
const PAYLOAD: [u8; 18] = [0; 18];

/// Probe of flows to one destination.
#[derive(Debug)]
pub struct FlowProbe {
    socket: RouteSocket,
    members: Vec<u32>,
    from: IpAddr,
    to: SocketAddr,
}

/// Error of a probe.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    /// This host has no interface of that name.
    #[error("find member {name}: this host has no such interface (interfaces: {known})")]
    Member {
        /// The name.
        name: String,
        /// Names of this host's interfaces.
        known: String,
    },
    /// The kernel did not answer.
    #[error(transparent)]
    Kernel(#[from] SysError),
    /// A datagram could not be sent.
    #[error("send to {to}: {cause} (is there a route to it?)")]
    Send {
        /// Its destination.
        to: SocketAddr,
        /// The kernel's answer.
        cause: std::io::Error,
    },
}

impl FlowProbe {
    /// Prepares to probe flows to `to` over `members`, in the network namespace of the calling
    /// thread. Nothing needs to listen at `to`. If `from` is unspecified, the route determines it.
    ///
    /// # Errors
    /// If a member is not an interface of this host, or the kernel does not answer.
    pub fn new(from: IpAddr, to: SocketAddr, members: &[String]) -> Result<Self, ProbeError> {
        let mut socket = RouteSocket::open()?;
        let mut links = Vec::new();
        socket.links(|link| links.push((link.name, link.index)))?;
        let members =
            members.iter().map(|name| index_of(&links, name)).collect::<Result<_, _>>()?;
        Ok(Self { socket, members, from, to })
    }

    /// Returns the member, counted from 0, by which flows from `port` leave. `None` if the port is
    /// in use, or if the counters of no member or of several increased.
    ///
    /// # Errors
    /// If a datagram cannot be sent, or the counters cannot be read.
    pub fn member_of(&mut self, port: u16) -> Result<Option<u32>, ProbeError> {
        // A port in use says nothing about the path; the caller tries another.
        let Ok(sender) = UdpSocket::bind((self.from, port)) else { return Ok(None) };
        // Counters also count other traffic, so only differences are used.
        let before = self.counters()?;
        for _ in 0..DATAGRAMS {
            // The socket is not connected: an ICMP answer (port unreachable) would be reported as
            // an error of the next datagram.
            sender
                .send_to(&PAYLOAD, self.to)
                .map_err(|cause| ProbeError::Send { to: self.to, cause })?;
        }
        let begun = Instant::now();
        loop {
            let after = self.counters()?;
            let sent: Vec<u64> = after
                .iter()
                .zip(&before)
                .map(|(after, before)| after.saturating_sub(*before))
                .collect();
            if sent.iter().sum::<u64>() >= DATAGRAMS || begun.elapsed() > PATIENCE {
                return Ok(the_one(&sent));
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// Reads the number of packets that each member has sent.
    fn counters(&mut self) -> Result<Vec<u64>, ProbeError> {
        let mut sent = vec![0; self.members.len()];
        let members = &self.members;
        self.socket.link_stats(|index, stats| {
            if let Some(member) = members.iter().position(|member| *member == index) {
                sent[member] = stats.tx_packets;
            }
        })?;
        Ok(sent)
    }
}

/// Returns the index of the link `name`.
fn index_of(links: &[(String, u32)], name: &str) -> Result<u32, ProbeError> {
    let found = links.iter().find(|(known, _)| known == name).map(|(_, index)| *index);
    found.ok_or_else(|| {
        let known = links.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(", ");
        ProbeError::Member { name: name.to_owned(), known }
    })
}

/// Returns the member that counted all datagrams, if the others counted at most [`NOISE`].
fn the_one(sent: &[u64]) -> Option<u32> {
    let (member, most) = sent.iter().enumerate().max_by_key(|(_, sent)| **sent)?;
    let others: u64 = sent.iter().sum::<u64>() - most;
    (*most >= DATAGRAMS && others <= NOISE).then_some(member as u32)
}

#[cfg(test)]
#[path = "../../linerate-sys/tests/shared/host.rs"]
mod host;

#[cfg(test)]
mod tests {
    use super::host::Namespace;
    use super::*;

    #[test]
    fn a_member_is_returned_only_if_it_stands_out() {
        assert_eq!(the_one(&[0, 64, 0]), Some(1));
        assert_eq!(the_one(&[70, 3]), Some(0));
        assert_eq!((the_one(&[32, 32]), the_one(&[64, 40]), the_one(&[])), (None, None, None));
    }

    /// Makes two hosts with two equal-cost legs between them. `None` without the right to make
    /// namespaces.
    fn two_legs(policy: &str) -> Option<[Namespace; 2]> {
        let made = |end| {
            let name = format!("lr-probe{policy}{end}-{}", std::process::id());
            Namespace::new(name)
        };
        let namespaces = [made("a")?, made("b")?];
        let [a, b] = &namespaces;
        for leg in 0..2 {
            a.ran(&format!("ip link add leg{leg} type veth peer name leg{leg} netns {}", b.name));
            for (host, end) in [(1, a), (2, b)] {
                end.ran(&format!("ip addr add 10.9.{leg}.{host}/24 dev leg{leg}"));
                end.ran(&format!("ip link set leg{leg} up"));
            }
        }
        // Not an address of a leg: Linux 6.15 prefers the leg that has the source address.
        a.ran("ip link set lo up");
        a.ran("ip addr add 10.9.8.1/32 dev lo");
        b.ran("ip addr add 10.9.9.9/32 dev leg0");
        a.ran("ip route add 10.9.9.9 nexthop via 10.9.0.2 nexthop via 10.9.1.2");
        linerate_sys::netns::within(&a.name, || {
            std::fs::write("/proc/sys/net/ipv4/fib_multipath_hash_policy", policy)
                .expect("its own namespace");
        })
        .expect("entered");
        Some(namespaces)
    }

    fn probed(namespaces: &[Namespace; 2]) -> Vec<Option<u32>> {
        linerate_sys::netns::within(&namespaces[0].name, || {
            let members = ["leg0".to_owned(), "leg1".to_owned()];
            let from = "10.9.8.1".parse().expect("an address");
            let mut probe = FlowProbe::new(from, ([10, 9, 9, 9], 5201).into(), &members)
                .expect("members are there");
            // A program that another test starts has a copy of the last socket until it runs, and
            // its port is in use until then.
            let begun = Instant::now();
            let mut member_of = |port| loop {
                let member = probe.member_of(port).expect("sent");
                if member.is_some() || begun.elapsed().as_secs() > 10 {
                    return member;
                }
            };
            (40_000..40_032).map(&mut member_of).collect::<Vec<_>>()
        })
        .expect("entered")
    }

    #[test]
    fn ports_hashed_at_layer_four_are_found_on_both_legs_and_again_on_the_same() {
        let Some(namespaces) = two_legs("1") else { return };
        let first = probed(&namespaces);
        assert!(first.iter().all(Option::is_some), "{first:?}");
        assert!(first.contains(&Some(0)) && first.contains(&Some(1)), "{first:?}");
        assert_eq!(probed(&namespaces), first, "a flow stays on its leg");
    }

    #[test]
    fn addresses_alone_put_every_port_on_one_leg() {
        let Some(namespaces) = two_legs("0") else { return };
        let members = probed(&namespaces);
        assert!(
            members.iter().all(|member| member.is_some() && *member == members[0]),
            "{members:?}"
        );
    }

    #[test]
    fn a_member_that_is_not_an_interface_is_named() {
        let from = "127.0.0.1".parse().expect("an address");
        let why = FlowProbe::new(from, ([127, 0, 0, 1], 9).into(), &["lr-none".to_owned()])
            .expect_err("no such");
        assert!(why.to_string().contains("lr-none") && why.to_string().contains("lo"), "{why}");
    }
}
