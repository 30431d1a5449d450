//! How packets to an address leave this host: by which device, by which port of a bridge, or by one
//! of several next hops.
//!
//! As the tables of the calling thread's namespace say at this moment: routes, neighbours,
//! forwarding databases of bridges. Not seen: rules that look at ports or marks, and a port that is
//! learnt later.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};

use linerate_sys::SysError;
use linerate_sys::netlink::{Link, NextHop, RouteSocket, Tunnel};

use crate::devices;

/// How packets to an address leave.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PacketRoute {
    /// The device; `None` where each flow takes one of several next hops.
    pub device: Option<String>,
    /// Devices by which packets leave if `device` does not name them: the port of the bridge, or
    /// the devices of the next hops.
    pub branches: Vec<String>,
}

/// How packets to `destination` leave, as the tables of the calling thread's namespace say: by the
/// loopback where that is an address of this host.
///
/// # Errors
/// If there is no route, or the kernel does not answer.
pub fn towards(destination: IpAddr) -> Result<PacketRoute, SysError> {
    let mut socket = RouteSocket::open()?;
    let route = socket.route_to(destination)?;
    // The kernel routes its own addresses over the loopback, whichever device has them.
    if route.is_local() {
        return Ok(PacketRoute {
            device: Some(devices::LOOPBACK.to_owned()),
            branches: Vec::new(),
        });
    }
    let mut links = Vec::new();
    socket.links(|link| links.push(link))?;
    let hops = chosen(&mut socket, destination, route.next_hops());
    let named = |hop: &NextHop| links.iter().find(|link| link.index == hop.device);
    Ok(match hops[..] {
        [hop] => {
            let link = named(&hop);
            let port = link.and_then(|link| {
                port(&mut socket, link, &links, hop.gateway.unwrap_or(destination))
            });
            PacketRoute {
                device: link.map(|link| link.name.clone()),
                branches: port.into_iter().collect(),
            }
        }
        _ => PacketRoute {
            device: None,
            branches: hops.iter().filter_map(named).map(|link| link.name.clone()).collect(),
        },
    })
}

/// Those of `hops` that packets to `destination` may take: one where addresses alone decide.
fn chosen(socket: &mut RouteSocket, destination: IpAddr, hops: Vec<NextHop>) -> Vec<NextHop> {
    /// Both addresses, and nothing else, pick the next hop (networking/ip-sysctl). IPv6 looks at
    /// the flow label too.
    const BY_ADDRESSES: &str = "0";
    const POLICY: &str = "/proc/sys/net/ipv4/fib_multipath_hash_policy";
    let by_addresses =
        || std::fs::read_to_string(POLICY).is_ok_and(|policy| policy.trim() == BY_ADDRESSES);
    // With ports in the hash each flow may take another hop, so all of them stay possible.
    if hops.len() < 2 || destination.is_ipv6() || !by_addresses() {
        return hops;
    }
    let resolved = local_towards(destination)
        .and_then(|local| socket.route_between(local, destination).ok()?.device());
    let one = resolved.and_then(|device| hops.iter().find(|hop| hop.device == device).copied());
    one.map_or(hops, |hop| vec![hop])
}

/// The address that this host uses towards `destination`; nothing is sent.
fn local_towards(destination: IpAddr) -> Option<IpAddr> {
    /// Any port: connecting a UDP socket sends nothing.
    const DISCARD: u16 = 9;
    let any: IpAddr = if destination.is_ipv6() {
        Ipv6Addr::UNSPECIFIED.into()
    } else {
        Ipv4Addr::UNSPECIFIED.into()
    };
    let socket = UdpSocket::bind((any, 0)).ok()?;
    socket.connect((destination, DISCARD)).ok()?;
    socket.local_addr().ok().map(|address| address.ip())
}

/// The port by which packets of `link` to the neighbour `next` leave the bridge that `link` is or
/// stands on.
fn port(socket: &mut RouteSocket, link: &Link, links: &[Link], next: IpAddr) -> Option<String> {
    let is_vlan = |link: &Link| link.kind.as_deref() == Some("vlan");
    let stands_on =
        |link: &Link| links.iter().find(|other| is_vlan(link) && link.lower == Some(other.index));
    let bridge = std::iter::successors(Some(link), |link| stands_on(link))
        .take(devices::DEEPEST)
        .find(|link| devices::is_bridge(link))?;
    // The neighbour table gives the hardware address, and the bridge's table the port behind it.
    let mut hardware = None;
    socket
        .neighbours(|known| {
            if known.index == link.index && known.address == next {
                hardware = Some(known.hardware);
            }
        })
        .ok()?;
    let hardware = hardware?;
    let mut ports = Vec::new();
    socket
        .forwarding(|learnt: linerate_sys::netlink::Learnt| {
            // Each VLAN of a bridge has an entry of its own.
            if learnt.bridge == bridge.index
                && learnt.hardware == hardware
                && !ports.contains(&learnt.port)
            {
                ports.push(learnt.port);
            }
        })
        .ok()?;
    match ports[..] {
        // Several ports would mean that the bridge floods or is confused; none is named then.
        [port] => links.iter().find(|link| link.index == port).map(|link| link.name.clone()),
        _ => None,
    }
}

/// Indexes of the devices that packets of `tunnel` may leave by; none if that is not known.
pub(crate) fn outer(tunnel: Tunnel) -> Vec<u32> {
    tunnel.device.map(|device| vec![device]).or_else(|| outer_by_route(tunnel)).unwrap_or_default()
}

/// Returns the devices of the route to the tunnel's other end.
fn outer_by_route(tunnel: Tunnel) -> Option<Vec<u32>> {
    let mut socket = RouteSocket::open().ok()?;
    let route = socket.route_to(tunnel.remote?).ok()?;
    // The outer addresses are the same for all packets, their ports are not.
    let hops = chosen(&mut socket, tunnel.remote?, route.next_hops());
    Some(hops.iter().map(|hop| hop.device).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_way_to_this_host_is_the_loopback() {
        let way = towards(Ipv4Addr::LOCALHOST.into());
        let Ok(way) = way else {
            return println!("skipped: lo is down in this namespace: {way:?}");
        };
        assert_eq!(
            way,
            PacketRoute { device: Some(devices::LOOPBACK.to_owned()), branches: Vec::new() }
        );
    }
}
