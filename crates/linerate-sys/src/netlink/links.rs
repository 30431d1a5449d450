//! Links, their counters and addresses (linux/rtnetlink.h, if_link.h, if_addr.h).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::RouteSocket;
use super::attribute::{attributes, half, long, text, word};
use super::stacked::{self, Tunnel};
use crate::Result;

const GET_LINK: u16 = 18;
const GET_ADDRESS: u16 = 22;
const GET_NEIGHBOUR: u16 = 30;
const GET_STATS: u16 = 94;
/// `struct ndmsg`.
const NDMSG: usize = 12;

/// Network interface as the kernel lists it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Link {
    /// Interface index.
    pub index: u32,
    /// Interface name.
    pub name: String,
    /// `IFF_*` flags of net/if.h.
    pub flags: u32,
    /// IP MTU, bytes.
    pub mtu: u32,
    /// Operational state of RFC 2863: 6 is up, 2 is down, 0 unknown (the loopback).
    pub operstate: u8,
    /// Number of transmit queues at creation.
    pub tx_queues: u32,
    /// Number of receive queues at creation.
    pub rx_queues: u32,
    /// Largest GSO packet that the stack hands to it, bytes.
    pub gso_max_size: Option<u32>,
    /// Hardware address; `None` if it has none, or one that is not of Ethernet's length.
    pub address: Option<[u8; 6]>,
    /// Index of the bond, team or bridge it is a member of.
    pub master: Option<u32>,
    /// Index of the lower link (for a VLAN its interface) or, for a veth pair, of the other end.
    /// `None` if that link is in another network namespace.
    pub lower: Option<u32>,
    /// Link kind (`veth`, `vlan`, `bond` ...); `None` for a hardware device and the loopback.
    pub kind: Option<String>,
    /// Encapsulation, if it is a tunnel.
    pub tunnel: Option<Tunnel>,
    /// Delivery mode, if it is a macvlan: `bridge`, `vepa`, `private`, `passthru`, `source`.
    pub macvlan_mode: Option<&'static str>,
}

/// Counters of a link: the first fields of `struct rtnl_link_stats64`, in its order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "the kernel's own names")]
pub struct LinkStats {
    pub rx_packets: u64,
    pub tx_packets: u64,
    pub rx_bytes: u64,
    pub tx_bytes: u64,
    pub rx_errors: u64,
    pub tx_errors: u64,
    pub rx_dropped: u64,
    pub tx_dropped: u64,
    pub multicast: u64,
    pub collisions: u64,
    pub rx_length_errors: u64,
    pub rx_over_errors: u64,
    pub rx_crc_errors: u64,
    pub rx_frame_errors: u64,
    pub rx_fifo_errors: u64,
    pub rx_missed_errors: u64,
    pub tx_aborted_errors: u64,
    pub tx_carrier_errors: u64,
    pub tx_fifo_errors: u64,
}

/// Address of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InterfaceAddress {
    /// Interface index.
    pub index: u32,
    /// The local address.
    pub address: IpAddr,
    /// Prefix length, bits.
    pub prefix: u8,
}

/// Address that a bridge port has learnt or was given (linux/neighbour.h, `AF_BRIDGE`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Learnt {
    /// Index of the port.
    pub port: u32,
    /// Index of the bridge.
    pub bridge: u32,
    /// The hardware address behind the port.
    pub hardware: [u8; 6],
}

/// Neighbour with a known hardware address (linux/neighbour.h).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Neighbour {
    /// Index of the interface that leads to it.
    pub index: u32,
    /// Its address.
    pub address: IpAddr,
    /// Its hardware address.
    pub hardware: [u8; 6],
}

impl RouteSocket {
    /// Visits every link.
    ///
    /// # Errors
    /// If the kernel refuses or does not answer.
    pub fn links(&mut self, mut visit: impl FnMut(Link)) -> Result<()> {
        // An ifinfomsg of zeros selects every family and every link.
        self.dump(GET_LINK, &[0; 16], "links", |payload| {
            if let Some(link) = parse_link(payload) {
                visit(link);
            }
        })
    }

    /// Visits the counters of every link with the link's index. Does not allocate.
    ///
    /// # Errors
    /// If the kernel (older than 4.7) refuses or does not answer.
    pub fn link_stats(&mut self, mut visit: impl FnMut(u32, &LinkStats)) -> Result<()> {
        /// IFLA_STATS_LINK_64 alone.
        const FILTER: u32 = 1;
        // if_stats_msg: any family, any link, the filter.
        let mut body = [0; 12];
        body[8..].copy_from_slice(&FILTER.to_ne_bytes());
        self.dump(GET_STATS, &body, "link statistics", |payload| {
            if let Some((index, stats)) = parse_link_stats(payload) {
                visit(index, &stats);
            }
        })
    }

    /// Visits every neighbour with a known hardware address.
    ///
    /// # Errors
    /// If the kernel refuses or does not answer.
    pub fn neighbours(&mut self, mut visit: impl FnMut(Neighbour)) -> Result<()> {
        // An ndmsg of zeros selects both families and every link.
        self.dump(GET_NEIGHBOUR, &[0; NDMSG], "neighbours", |payload| {
            if let Some(neighbour) = parse_neighbour(payload) {
                visit(neighbour);
            }
        })
    }

    /// Visits every entry of the forwarding databases of bridges.
    ///
    /// # Errors
    /// If the kernel refuses or does not answer.
    pub fn forwarding(&mut self, mut visit: impl FnMut(Learnt)) -> Result<()> {
        /// `AF_BRIDGE`.
        const BRIDGE: u8 = 7;
        let mut body = [0; NDMSG];
        body[0] = BRIDGE;
        self.dump(GET_NEIGHBOUR, &body, "forwarding databases", |payload| {
            if let Some(learnt) = parse_learnt(payload) {
                visit(learnt);
            }
        })
    }

    /// Visits every address.
    ///
    /// # Errors
    /// If the kernel refuses or does not answer.
    pub fn addresses(&mut self, mut visit: impl FnMut(InterfaceAddress)) -> Result<()> {
        self.dump(GET_ADDRESS, &[0; 8], "addresses", |payload| {
            if let Some(address) = parse_address(payload) {
                visit(address);
            }
        })
    }
}

/// Parses `payload` as each of these types, and returns the number of successes.
#[cfg(test)]
pub(super) fn read_any(payload: &[u8]) -> usize {
    [
        parse_link(payload).is_some(),
        parse_link_stats(payload).is_some(),
        parse_address(payload).is_some(),
        parse_neighbour(payload).is_some(),
    ]
    .iter()
    .filter(|is_one| **is_one)
    .count()
}

fn parse_link(payload: &[u8]) -> Option<Link> {
    const IFINFOMSG: usize = 16;
    let mut link = Link { index: word(payload, 4)?, flags: word(payload, 8)?, ..Link::default() };
    let mut is_elsewhere = false;
    for (kind, value) in attributes(payload.get(IFINFOMSG..)?) {
        match kind {
            1 => link.address = value.try_into().ok(),
            3 => link.name = text(value).to_owned(),
            4 => link.mtu = word(value, 0)?,
            // A device without a lower link has its own index here (IFLA_LINK), or 0.
            5 => link.lower = word(value, 0).filter(|lower| ![0, link.index].contains(lower)),
            10 => link.master = word(value, 0),
            16 => link.operstate = *value.first()?,
            18 => {
                let find = |wanted: u16| {
                    attributes(value).find(|(kind, _)| *kind == wanted).map(|(_, value)| value)
                };
                let (kind, data) = (find(1).map(text), find(2).unwrap_or_default());
                link.tunnel = kind.and_then(|kind| stacked::tunnel(kind, data));
                link.macvlan_mode = kind.and_then(|kind| stacked::macvlan_mode(kind, data));
                link.kind = kind.map(str::to_owned);
            }
            31 => link.tx_queues = word(value, 0)?,
            32 => link.rx_queues = word(value, 0)?,
            // IFLA_LINK_NETNSID: the index belongs to another namespace.
            37 => is_elsewhere = true,
            41 => link.gso_max_size = word(value, 0),
            _ => {}
        }
    }
    if is_elsewhere {
        link.lower = None;
    }
    Some(link)
}

fn parse_link_stats(payload: &[u8]) -> Option<(u32, LinkStats)> {
    const IF_STATS_MSG: usize = 12;
    const LINK_64: u16 = 1;
    let index = word(payload, 4)?;
    let (_, stats) = attributes(payload.get(IF_STATS_MSG..)?).find(|(kind, _)| *kind == LINK_64)?;
    let at = |field: usize| long(stats, field * 8);
    let stats = LinkStats {
        rx_packets: at(0)?,
        tx_packets: at(1)?,
        rx_bytes: at(2)?,
        tx_bytes: at(3)?,
        rx_errors: at(4)?,
        tx_errors: at(5)?,
        rx_dropped: at(6)?,
        tx_dropped: at(7)?,
        multicast: at(8)?,
        collisions: at(9)?,
        rx_length_errors: at(10)?,
        rx_over_errors: at(11)?,
        rx_crc_errors: at(12)?,
        rx_frame_errors: at(13)?,
        rx_fifo_errors: at(14)?,
        rx_missed_errors: at(15)?,
        tx_aborted_errors: at(16)?,
        tx_carrier_errors: at(17)?,
        tx_fifo_errors: at(18)?,
    };
    Some((index, stats))
}

fn parse_address(payload: &[u8]) -> Option<InterfaceAddress> {
    const IFADDRMSG: usize = 8;
    /// IFA_LOCAL is the local address. IFA_ADDRESS is the peer's on a point-to-point link and the
    /// local address elsewhere.
    const LOCAL: u16 = 2;
    const ADDRESS: u16 = 1;
    let body = payload.get(IFADDRMSG..)?;
    let find = |wanted| attributes(body).find(|(kind, _)| *kind == wanted);
    let (prefix, index) = (*payload.get(1)?, word(payload, 4)?);
    let (_, octets) = find(LOCAL).or_else(|| find(ADDRESS))?;
    Some(InterfaceAddress { index, address: ip_address(octets)?, prefix })
}

fn parse_neighbour(payload: &[u8]) -> Option<Neighbour> {
    const DESTINATION: u16 = 1;
    const HARDWARE_ADDRESS: u16 = 2;
    /// States without any answer from the neighbour: incomplete and failed.
    const UNKNOWN: u16 = 0x01 | 0x20;
    let index = word(payload, 4)?;
    let body = payload.get(NDMSG..)?;
    let find = |wanted| attributes(body).find(|(kind, _)| *kind == wanted).map(|(_, value)| value);
    let address = ip_address(find(DESTINATION)?)?;
    let hardware = find(HARDWARE_ADDRESS)?.try_into().ok()?;
    (half(payload, 8)? & UNKNOWN == 0).then_some(Neighbour { index, address, hardware })
}

fn parse_learnt(payload: &[u8]) -> Option<Learnt> {
    const HARDWARE_ADDRESS: u16 = 2;
    const MASTER: u16 = 9;
    let body = payload.get(NDMSG..)?;
    let find = |wanted| attributes(body).find(|(kind, _)| *kind == wanted).map(|(_, value)| value);
    let hardware = find(HARDWARE_ADDRESS)?.try_into().ok()?;
    Some(Learnt { port: word(payload, 4)?, bridge: word(find(MASTER)?, 0)?, hardware })
}

pub(super) fn ip_address(octets: &[u8]) -> Option<IpAddr> {
    match octets.len() {
        4 => Some(IpAddr::V4(Ipv4Addr::from(<[u8; 4]>::try_from(octets).ok()?))),
        16 => Some(IpAddr::V6(Ipv6Addr::from(<[u8; 16]>::try_from(octets).ok()?))),
        _ => None,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::netlink::attribute::push;

    #[test]
    fn truncated_links_are_passed_over_without_panic() {
        let mut whole = vec![0; 16];
        push(&mut whole, 3, b"veth0\0");
        push(&mut whole, 18, &[8, 0, 1, 0, b'x', 0, 0, 0]);
        for end in 0..whole.len() {
            let _ = (
                parse_link(&whole[..end]),
                parse_link_stats(&whole[..end]),
                parse_address(&whole[..end]),
            );
        }
        assert_eq!(parse_link(&whole).unwrap().name, "veth0");
    }

    #[test]
    fn a_neighbour_is_read_unless_nothing_was_heard_from_it() {
        let message = |state: u8| {
            let mut whole = vec![2, 0, 0, 0, 5, 0, 0, 0, state, 0, 0, 0];
            push(&mut whole, 1, &[198, 18, 0, 2]);
            push(&mut whole, 2, &[2, 0, 0, 0, 0, 9]);
            whole
        };
        let expected = Neighbour {
            index: 5,
            address: Ipv4Addr::new(198, 18, 0, 2).into(),
            hardware: [2, 0, 0, 0, 0, 9],
        };
        assert_eq!(parse_neighbour(&message(2)), Some(expected));
        assert_eq!((parse_neighbour(&message(1)), parse_neighbour(&message(0x20))), (None, None));
        // Two padding bytes follow the hardware address.
        for end in 0..message(2).len() - 2 {
            assert_eq!(parse_neighbour(&message(2)[..end]), None);
        }
    }

    #[test]
    fn an_address_behind_a_port_is_read_and_one_of_no_bridge_is_not() {
        let message = |master: Option<u32>| {
            let mut whole = vec![7, 0, 0, 0, 5, 0, 0, 0, 2, 0, 0, 0];
            push(&mut whole, 2, &[2, 0, 0, 0, 0, 9]);
            if let Some(master) = master {
                push(&mut whole, 9, &master.to_ne_bytes());
            }
            whole
        };
        let expected = Learnt { port: 5, bridge: 4, hardware: [2, 0, 0, 0, 0, 9] };
        assert_eq!(
            (parse_learnt(&message(Some(4))), parse_learnt(&message(None))),
            (Some(expected), None)
        );
        (0..message(Some(4)).len())
            .for_each(|end| assert_eq!(parse_learnt(&message(Some(4))[..end]), None));
    }

    #[test]
    fn the_loopback_is_listed_with_address_and_counters() {
        let mut socket = RouteSocket::open().unwrap();
        let mut loopback = None;
        socket
            .links(|link| {
                if link.name == "lo" {
                    loopback = Some(link)
                }
            })
            .unwrap();
        let loopback = loopback.expect("every namespace has lo");
        assert_eq!((loopback.index, loopback.kind.as_deref()), (1, None));
        let mut seen = 0;
        socket.link_stats(|index, _| seen += u32::from(index == 1)).unwrap();
        assert_eq!(seen, 1);
        let mut addresses = Vec::new();
        socket.addresses(|address| addresses.push(address)).unwrap();
        if addresses.is_empty() {
            return println!("skipped: lo is down in this namespace");
        }
        assert!(addresses.iter().any(|a| a.index == 1 && a.address.is_loopback()), "{addresses:?}");
        socket.qdiscs(|qdisc| assert!(!qdisc.kind.is_empty())).unwrap();
    }
}
