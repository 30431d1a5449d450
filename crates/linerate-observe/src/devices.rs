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

/// The links in scope, the loopback always among them.
pub(crate) fn in_scope(scope: &Scope) -> Result<Vec<Link>, Unavailable> {
    let wanted = |link: &Link| match scope.devices.as_slice() {
        _ if link.name == LOOPBACK => true,
        [] => link.flags & UP != 0,
        devices => devices.contains(&link.name),
    };
    let mut links = all()?;
    links.retain(wanted);
    Ok(links)
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
