//! Links that hand their packets to another link: a tunnel's overhead and remote end, and the
//! delivery mode of a macvlan (linux/if_link.h, if_tunnel.h).
//!
//! The overhead is a minimum: options of a packet (destination options of IPv6, options of Geneve)
//! are additional. Not covered: WireGuard, whose peers netlink does not list here, and VXLAN
//! devices whose remote ends are in a forwarding database.

use std::net::IpAddr;

use super::attribute::{attributes, half, word};
use super::links::ip_address;

const IPV4: u32 = 20;
const IPV6: u32 = 40;
const UDP: u32 = 8;
/// The header of VXLAN (RFC 7348) and of Geneve without options (RFC 8926).
const VXLAN: u32 = 8;
const GRE: u32 = 4;
/// Ethernet addresses and type, if the tunnel carries frames.
const ETHERNET: u32 = 14;

/// Encapsulation of a tunnel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tunnel {
    /// Remote end, or the multicast group; `None` if each packet or a forwarding database defines
    /// it.
    pub remote: Option<IpAddr>,
    /// Index of the link that its packets must use; `None` if the route decides.
    pub device: Option<u32>,
    /// Smallest number of bytes that it adds to an IP packet: the inner frame header if the tunnel
    /// carries frames, its own header, and the outer IP header.
    pub header_bytes: u32,
}

/// Returns the tunnel of `kind` with the attributes `data` (`IFLA_INFO_DATA`); `None` for other
/// links.
pub(super) fn tunnel(kind: &str, data: &[u8]) -> Option<Tunnel> {
    let find =
        |wanted: u16| attributes(data).find(|(kind, _)| *kind == wanted).map(|(_, value)| value);
    let address =
        |wanted: &[u16]| wanted.iter().find_map(|kind| ip_address(find(*kind)?)).filter(is_given);
    let device =
        |wanted: u16| find(wanted).and_then(|value| word(value, 0)).filter(|index| *index != 0);
    let outer = |remote: &Option<IpAddr>| {
        if remote.is_some_and(|remote| remote.is_ipv6()) { IPV6 } else { IPV4 }
    };
    match kind {
        "vxlan" => {
            const LINK: u16 = 3;
            const GENERIC_PROTOCOL: u16 = 27;
            let remote = address(&[2, 16]);
            let local = address(&[4, 17]);
            // With the generic protocol extension the tunnel may carry IP packets without a frame
            // header.
            let inner = if find(GENERIC_PROTOCOL).is_some() { 0 } else { ETHERNET };
            let header_bytes = outer(&remote.or(local)) + UDP + VXLAN + inner;
            Some(Tunnel { remote, device: device(LINK), header_bytes })
        }
        "geneve" => {
            let remote = address(&[2, 7]);
            Some(Tunnel {
                remote,
                device: None,
                header_bytes: outer(&remote) + UDP + VXLAN + ETHERNET,
            })
        }
        "gre" | "gretap" | "ip6gre" | "ip6gretap" => {
            const LINK: u16 = 1;
            const FLAGS: u16 = 3;
            const REMOTE: u16 = 7;
            /// Checksum, key and sequence number, RFC 2890: four bytes each.
            const OPTIONS: u16 = 0x8000 | 0x2000 | 0x1000;
            // The kernel sends them in network byte order.
            let flags = find(FLAGS).and_then(|value| half(value, 0)).map_or(0, u16::from_be);
            let inner = if kind.ends_with("tap") { ETHERNET } else { 0 };
            let ip = if kind.starts_with("ip6") { IPV6 } else { IPV4 };
            let header_bytes = ip + GRE * (1 + (flags & OPTIONS).count_ones()) + inner;
            Some(Tunnel { remote: address(&[REMOTE]), device: device(LINK), header_bytes })
        }
        "ipip" | "sit" | "ip6tnl" => {
            const LINK: u16 = 1;
            const REMOTE: u16 = 3;
            let header_bytes = if kind == "ip6tnl" { IPV6 } else { IPV4 };
            Some(Tunnel { remote: address(&[REMOTE]), device: device(LINK), header_bytes })
        }
        _ => None,
    }
}

fn is_given(address: &IpAddr) -> bool {
    !address.is_unspecified()
}

/// Returns the delivery mode of a macvlan or macvtap, with its name in ip-link(8).
pub(super) fn macvlan_mode(kind: &str, data: &[u8]) -> Option<&'static str> {
    const MODE: u16 = 1;
    if !["macvlan", "macvtap"].contains(&kind) {
        return None;
    }
    match attributes(data).find(|(kind, _)| *kind == MODE).and_then(|(_, value)| word(value, 0))? {
        1 => Some("private"),
        2 => Some("vepa"),
        4 => Some("bridge"),
        8 => Some("passthru"),
        16 => Some("source"),
        _ => None,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::netlink::attribute::push;

    fn data(attributes: &[(u16, &[u8])]) -> Vec<u8> {
        let mut bytes = Vec::new();
        attributes.iter().for_each(|(kind, value)| push(&mut bytes, *kind, value));
        bytes
    }

    #[test]
    fn a_tunnel_is_read_with_what_it_adds() {
        let v4 = [198, 18, 0, 2];
        let v6: [u8; 16] = "2001:db8::2".parse::<std::net::Ipv6Addr>().unwrap().octets();
        let vxlan =
            tunnel("vxlan", &data(&[(1, &[7, 0, 0, 0]), (2, &v4), (3, &5_u32.to_ne_bytes())]))
                .unwrap();
        assert_eq!((vxlan.header_bytes, vxlan.device), (50, Some(5)));
        assert_eq!(vxlan.remote.unwrap().to_string(), "198.18.0.2");
        assert_eq!(tunnel("vxlan", &data(&[(16, &v6)])).unwrap().header_bytes, 70);
        assert_eq!(
            tunnel("vxlan", &data(&[(17, &v6)])).unwrap().header_bytes,
            70,
            "the local end is of IPv6"
        );
        let nobody = tunnel("vxlan", &data(&[(1, &[7, 0, 0, 0])])).unwrap();
        assert_eq!((nobody.remote, nobody.device, nobody.header_bytes), (None, None, 50));
        assert_eq!(tunnel("geneve", &data(&[(7, &v6)])).unwrap().header_bytes, 70);
        let key = 0x2000_u16.to_be_bytes();
        let gre = |kind: &str, flags: &[u8]| {
            tunnel(kind, &data(&[(3, flags), (7, &v4)])).unwrap().header_bytes
        };
        assert_eq!((gre("gre", &[0, 0]), gre("gre", &key), gre("gretap", &key)), (24, 28, 42));
        assert_eq!(tunnel("ip6gre", &data(&[(7, &v6)])).unwrap().header_bytes, 44);
        assert_eq!(
            tunnel("ipip", &data(&[(3, &[0; 4])])).unwrap(),
            Tunnel { header_bytes: 20, ..Tunnel::default() }
        );
        assert_eq!(tunnel("veth", &[]), None);
    }

    #[test]
    fn a_macvlan_is_read_with_its_mode() {
        assert_eq!(macvlan_mode("macvlan", &data(&[(1, &4_u32.to_ne_bytes())])), Some("bridge"));
        assert_eq!(macvlan_mode("macvlan", &data(&[(1, &2_u32.to_ne_bytes())])), Some("vepa"));
        assert_eq!(
            (macvlan_mode("macvlan", &[]), macvlan_mode("vlan", &data(&[(1, &[4, 0, 0, 0])]))),
            (None, None)
        );
    }
}
