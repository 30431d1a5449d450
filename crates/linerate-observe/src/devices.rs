//! Which interfaces a scope means, and whether sysfs shows the same ones.
//!
//! Interfaces are listed over netlink, in the namespace of the calling thread. A sysfs mount shows the namespace it was
//! mounted in, which may be another one, so what it says is used only where the interface index agrees.

use linerate_sys::netlink::{Link, RouteSocket};

use crate::{Scope, Unavailable};

/// `IFF_UP` of net/if.h.
const UP: u32 = 1;

/// The loopback's name, in every namespace.
pub(crate) const LOOPBACK: &str = "lo";

/// Kinds of links that share their flows among members, each of which counts its own.
const GROUPS: [&str; 2] = ["bond", "team"];

/// The links in scope, the loopback always among them, and of a bond or team its members.
pub(crate) fn in_scope(scope: &Scope) -> Result<Vec<Link>, Unavailable> {
    Ok(chosen(all()?, &scope.devices))
}

/// Those of `links` that `devices` mean; none named are all that are up.
fn chosen(links: Vec<Link>, devices: &[String]) -> Vec<Link> {
    let is_group = |link: &Link| link.kind.as_deref().is_some_and(|kind| GROUPS.contains(&kind));
    let groups: Vec<u32> =
        links.iter().filter(|link| devices.contains(&link.name) && is_group(link)).map(|link| link.index).collect();
    let wanted = |link: &Link| match devices {
        _ if link.name == LOOPBACK => true,
        [] => link.flags & UP != 0,
        devices => devices.contains(&link.name) || link.master.is_some_and(|master| groups.contains(&master)),
    };
    links.into_iter().filter(wanted).collect()
}

/// Every link of the calling thread's namespace, by index.
pub(crate) fn all() -> Result<Vec<Link>, Unavailable> {
    let unavailable = |error: linerate_sys::SysError| Unavailable(error.to_string());
    let mut links = Vec::new();
    RouteSocket::open().map_err(unavailable)?.links(|link| links.push(link)).map_err(unavailable)?;
    links.sort_by_key(|link| link.index);
    Ok(links)
}

/// Whether `/sys/class/net` below `root` shows this very link.
pub(crate) fn sysfs_shows(root: &std::path::Path, link: &Link) -> bool {
    let index = std::fs::read_to_string(root.join("sys/class/net").join(&link.name).join("ifindex"));
    index.is_ok_and(|index| index.trim().parse() == Ok(link.index))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_of_a_bond_are_read_with_it_and_ports_of_a_bridge_are_not() {
        let link = |index, name: &str, kind: Option<&str>, master| Link {
            index,
            name: name.to_owned(),
            kind: kind.map(str::to_owned),
            master,
            ..Link::default()
        };
        let links = vec![
            link(1, LOOPBACK, None, None),
            link(2, "eth0", None, Some(4)),
            link(3, "eth1", None, Some(4)),
            link(4, "bond0", Some("bond"), None),
            link(5, "br0", Some("bridge"), None),
            link(6, "eth2", None, Some(5)),
        ];
        let names = |devices: &[&str]| {
            let devices: Vec<String> = devices.iter().map(|device| (*device).to_owned()).collect();
            chosen(links.clone(), &devices).into_iter().map(|link| link.name).collect::<Vec<_>>()
        };
        assert_eq!(names(&["bond0"]), [LOOPBACK, "eth0", "eth1", "bond0"]);
        assert_eq!(names(&["br0"]), [LOOPBACK, "br0"]);
        assert_eq!(names(&["eth1"]), [LOOPBACK, "eth1"]);
    }
}
