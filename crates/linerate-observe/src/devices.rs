//! Which interfaces a scope means, and whether sysfs shows the same ones.
//!
//! Interfaces are listed over netlink, in the namespace of the calling thread. A sysfs mount shows
//! the namespace it was mounted in, which may be another one, so what it says is used only where
//! the interface index agrees.

use std::collections::BTreeSet;

use linerate_sys::netlink::{Link, RouteSocket};

use crate::{Scope, Unavailable, ways};

/// `IFF_UP` of net/if.h.
const UP: u32 = 1;

/// The loopback's name, in every namespace.
pub(crate) const LOOPBACK: &str = "lo";

/// Links below a link below a link: more are rare.
pub(crate) const DEEPEST: usize = 4;

/// The links in scope, the loopback always among them, and those that carry their packets, of a
/// bridge no ports.
pub(crate) fn in_scope(scope: &Scope) -> Result<Vec<Link>, Unavailable> {
    Ok(chosen(all()?, &scope.devices))
}

/// Those of `links` that `devices` mean; none named are all that are up.
fn chosen(links: Vec<Link>, devices: &[String]) -> Vec<Link> {
    let named = with_lower(devices.iter().cloned().collect(), &links, |link| !is_bridge(link));
    links
        .into_iter()
        .filter(|link| match devices {
            // Control traffic and local load cross the loopback, so it is always read.
            _ if link.name == LOOPBACK => true,
            [] => link.flags & UP != 0,
            _ => named.contains(&link.name),
        })
        .collect()
}

/// Adds to `named` the links that carry packets of those for which `is_followed`.
pub(crate) fn with_lower(
    mut named: BTreeSet<String>,
    links: &[Link],
    is_followed: impl Fn(&Link) -> bool,
) -> BTreeSet<String> {
    // A device may stand on another in several layers (a VLAN on a bond). The bound ends loops,
    // which some kinds allow.
    for _ in 0..DEEPEST {
        let above = links.iter().filter(|link| named.contains(&link.name) && is_followed(link));
        let below: Vec<&str> = above.flat_map(|link| lower(link, links)).collect();
        named.extend(below.into_iter().map(str::to_owned));
    }
    named
}

/// Returns true if packets of `link` leave by one of its ports, which another table decides.
pub(crate) fn is_bridge(link: &Link) -> bool {
    link.kind.as_deref() == Some("bridge")
}

/// Every link of the calling thread's namespace, by index.
pub(crate) fn all() -> Result<Vec<Link>, Unavailable> {
    let unavailable = |error: linerate_sys::SysError| Unavailable(error.to_string());
    let mut links = Vec::new();
    RouteSocket::open()
        .map_err(unavailable)?
        .links(|link| links.push(link))
        .map_err(unavailable)?;
    // The kernel lists links in its own order. Facts of two campaigns are compared, so the order
    // must be stable.
    links.sort_by_key(|link| link.index);
    Ok(links)
}

/// The names of the links that packets of `link` leave by next: of a VLAN or macvlan its interface,
/// of a bond, team or bridge its members, of a tunnel the devices that lead to its other end. A
/// veth stands on nothing, although the kernel names its other end.
pub(crate) fn lower<'a>(link: &Link, links: &'a [Link]) -> Vec<&'a str> {
    // Only these kinds send through the link that `IFLA_LINK` names. A veth names its peer there.
    const ON_ANOTHER: [&str; 5] = ["ipvlan", "ipvtap", "macvlan", "macvtap", "vlan"];
    let stands = link.kind.as_deref().is_some_and(|kind| ON_ANOTHER.contains(&kind));
    let outer = link.tunnel.map(ways::outer).unwrap_or_default();
    let is_under = |other: &Link| stands && link.lower == Some(other.index);
    let is_below = |other: &&Link| {
        is_under(other) || other.master == Some(link.index) || outer.contains(&other.index)
    };
    links.iter().filter(is_below).map(|other| other.name.as_str()).collect()
}

/// Returns true if `/sys/class/net` below `root` shows this very link.
pub(crate) fn sysfs_shows(root: &std::path::Path, link: &Link) -> bool {
    let index =
        // The name alone proves nothing: another namespace may have an interface of the same name.
        std::fs::read_to_string(root.join("sys/class/net").join(&link.name).join("ifindex"));
    index.is_ok_and(|index| index.trim().parse() == Ok(link.index))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn link(
        index: u32,
        name: &str,
        kind: Option<&str>,
        lower: Option<u32>,
        master: Option<u32>,
    ) -> Link {
        let (name, kind) = (name.to_owned(), kind.map(str::to_owned));
        Link { index, name, kind, lower, master, ..Link::default() }
    }

    #[test]
    fn members_of_a_bond_are_read_with_it_and_ports_of_a_bridge_are_not() {
        let links = vec![
            link(1, LOOPBACK, None, None, None),
            link(2, "eth0", None, None, Some(4)),
            link(3, "eth1", None, None, Some(4)),
            link(4, "bond0", Some("bond"), None, None),
            link(5, "br0", Some("bridge"), None, None),
            link(6, "eth2", None, None, Some(5)),
            link(7, "bond0.7", Some("vlan"), Some(4), None),
        ];
        let names = |devices: &[&str]| {
            let devices: Vec<String> = devices.iter().map(|device| (*device).to_owned()).collect();
            chosen(links.clone(), &devices).into_iter().map(|link| link.name).collect::<Vec<_>>()
        };
        assert_eq!(names(&["bond0"]), [LOOPBACK, "eth0", "eth1", "bond0"]);
        assert_eq!(names(&["br0"]), [LOOPBACK, "br0"]);
        assert_eq!(
            names(&["bond0.7"]),
            [LOOPBACK, "eth0", "eth1", "bond0", "bond0.7"],
            "what carries its packets"
        );
        assert_eq!(names(&["eth1"]), [LOOPBACK, "eth1"]);
    }

    #[test]
    fn a_vlan_stands_on_its_interface_and_a_bond_on_its_members() {
        let links = [
            link(2, "eth0", None, None, Some(4)),
            link(3, "eth1", None, None, Some(4)),
            link(4, "bond0", Some("bond"), None, None),
            link(5, "bond0.7", Some("vlan"), Some(4), None),
            link(6, "veth0", Some("veth"), Some(2), None),
        ];
        let below = |at: usize| lower(&links[at], &links);
        assert_eq!(below(0), [""; 0]);
        assert_eq!(below(2), ["eth0", "eth1"]);
        assert_eq!(below(3), ["bond0"]);
        assert_eq!(below(4), [""; 0], "the other end of a pair is not below it");
    }
}
