//! Interfaces of a trial: reports those that disappeared or went down during it.
//!
//! TCP waits minutes for a path that is gone, so that a trial whose interface was removed would
//! look merely slow. Not seen: a link that went down and came up again during the trial, and
//! interfaces of other hosts.

use std::net::IpAddr;

use linerate_sys::SysError;
use linerate_sys::netlink::{Link, RouteSocket};
use linerate_sys::packet::interface_name;

use crate::wire::PreparedJob;

/// `operstate` of an interface that cannot carry traffic: not present, down, lower layer down (RFC
/// 2863, `ifOperStatus`).
const UNUSABLE: [u8; 3] = [1, 2, 3];

/// Interfaces of a trial's endpoints at this host, as they were when it began.
#[derive(Debug)]
pub(super) struct Links(Vec<Link>);

impl Links {
    /// Reads the interfaces that the endpoints of `jobs` name or whose addresses they have. Empty
    /// if the kernel does not list its interfaces.
    pub(super) fn of(jobs: &[PreparedJob]) -> Self {
        Self(look(jobs).unwrap_or_default())
    }

    /// Returns a sentence for each interface that disappeared or went down since.
    pub(super) fn changes(&self) -> Vec<String> {
        if self.0.is_empty() {
            return Vec::new();
        }
        listed()
            .map(|now| self.0.iter().filter_map(|before| change(before, &now)).collect())
            .unwrap_or_default()
    }
}

/// Names the interface of each endpoint that has an address of a link (RFC 4007 clause 11) and no
/// interface: no socket can be bound to such an address without one.
pub(super) fn name_interfaces(jobs: &mut [PreparedJob]) {
    for local in jobs.iter_mut().map(|job| &mut job.local) {
        if local.device.is_none()
            && let Some(IpAddr::V6(ip)) = local.address
            && ip.is_unicast_link_local()
        {
            // An error is that of the socket which cannot be bound.
            local.device = holder(ip.into()).ok().flatten();
        }
    }
}

/// Returns the name of the interface with `address`; `None` if not exactly one has it.
fn holder(address: IpAddr) -> Result<Option<String>, SysError> {
    let mut indices = Vec::new();
    RouteSocket::open()?.addresses(|of| {
        if of.address == address {
            indices.push(of.index);
        }
    })?;
    let [index] = indices[..] else { return Ok(None) };
    Ok(Some(interface_name(index)?))
}

fn look(jobs: &[PreparedJob]) -> Result<Vec<Link>, SysError> {
    let addresses: Vec<IpAddr> = jobs.iter().filter_map(|job| job.local.address).collect();
    let mut holders = Vec::new();
    RouteSocket::open()?.addresses(|of| {
        if addresses.contains(&of.address) {
            holders.push(of.index);
        }
    })?;
    let named = |link: &Link| {
        jobs.iter().any(|job| job.local.device.as_deref() == Some(link.name.as_str()))
    };
    Ok(listed()?.into_iter().filter(|link| holders.contains(&link.index) || named(link)).collect())
}

fn listed() -> Result<Vec<Link>, SysError> {
    let mut links = Vec::new();
    RouteSocket::open()?.links(|link| links.push(link))?;
    Ok(links)
}

fn change(before: &Link, now: &[Link]) -> Option<String> {
    let Some(link) = now.iter().find(|link| link.index == before.index) else {
        return Some(format!("interface {} disappeared during the trial", before.name));
    };
    // An interface that was down before the trial is not news.
    let fell = UNUSABLE.contains(&link.operstate) && !UNUSABLE.contains(&before.operstate);
    fell.then(|| format!("the link of interface {} went down during the trial", before.name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(index: u32, operstate: u8) -> Link {
        Link { index, name: format!("eth{index}"), operstate, ..Link::default() }
    }

    #[test]
    fn a_lost_interface_and_a_lost_link_are_different_incidents() {
        let (up, down, unknown) = (6, 2, 0);
        let gone = Some("interface eth1 disappeared during the trial".to_owned());
        assert_eq!(change(&link(1, up), &[link(2, up)]), gone);
        let fell = Some("the link of interface eth1 went down during the trial".to_owned());
        assert_eq!(change(&link(1, up), &[link(1, down)]), fell);
        for (before, now) in [(up, up), (unknown, unknown), (down, down), (down, up), (up, unknown)]
        {
            assert_eq!(change(&link(1, before), &[link(1, now)]), None, "{before} {now}");
        }
    }
}
