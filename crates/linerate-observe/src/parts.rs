//! Parts of a host that two loads at a time must not share: interfaces and cores.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::path::Path;

use linerate_model::cpu_list;
use linerate_sys::netlink::{Link, RouteSocket};

use crate::devices;

/// Returns `named` and the interfaces that have `addresses`, with all that carry their packets: of
/// a VLAN its interface, of a bond or bridge every member. `None` if one is unknown.
#[must_use]
pub fn carriers(
    named: &BTreeSet<String>,
    addresses: &BTreeSet<IpAddr>,
) -> Option<BTreeSet<String>> {
    let links = devices::all().ok()?;
    let mut holders = Vec::new();
    RouteSocket::open().ok()?.addresses(|of| holders.push((of.address, of.index))).ok()?;
    carriers_of(named, addresses, &links, &holders)
}

fn carriers_of(
    named: &BTreeSet<String>,
    addresses: &BTreeSet<IpAddr>,
    links: &[Link],
    holders: &[(IpAddr, u32)],
) -> Option<BTreeSet<String>> {
    let mut all = named.clone();
    for address in addresses {
        let name = match address {
            // Every address of this network is the loopback's, although few are listed.
            IpAddr::V4(address) if address.is_loopback() => devices::LOOPBACK,
            _ => {
                let (_, index) = holders.iter().find(|(other, _)| other == address)?;
                &links.iter().find(|link| link.index == *index)?.name
            }
        };
        all.insert(name.to_owned());
    }
    let is_known = |name: &String| links.iter().any(|link| link.name == *name);
    all.iter().all(is_known).then(|| devices::with_lower(all, links, |_| true))
}

/// Returns `cpus` with all CPUs of their cores: threads of a core share its units.
#[must_use]
pub fn cores(cpus: &BTreeSet<usize>) -> BTreeSet<usize> {
    cores_below(Path::new("/"), cpus)
}

fn cores_below(root: &Path, cpus: &BTreeSet<usize>) -> BTreeSet<usize> {
    let siblings = cpus.iter().flat_map(|cpu| siblings(root, *cpu));
    siblings.chain(cpus.iter().copied()).collect()
}

/// Returns all CPUs of the core of `cpu`; none in a virtual machine that does not know them.
fn siblings(root: &Path, cpu: usize) -> Vec<usize> {
    let list = format!("sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list");
    let text = std::fs::read_to_string(root.join(list)).ok();
    text.and_then(|text| cpu_list(&text)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::devices::tests::link;

    fn names(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn two_vlans_of_an_interface_and_a_port_of_a_bridge_share_what_carries_them() {
        let links = [
            link(1, "lo", None, None, None),
            link(2, "eth0", None, None, Some(5)),
            link(3, "eth0.1", Some("vlan"), Some(2), None),
            link(4, "eth0.2", Some("vlan"), Some(2), None),
            link(5, "br0", Some("bridge"), None, None),
        ];
        let at = |text: &str| text.parse::<IpAddr>().unwrap();
        let holders = [(at("192.0.2.1"), 3), (at("::1"), 1)];
        let of = |devices: &[&str], addresses: &[&str]| {
            let addresses = addresses.iter().map(|address| at(address)).collect();
            carriers_of(&names(devices), &addresses, &links, &holders)
        };
        assert_eq!(of(&["eth0.2"], &[]), Some(names(&["eth0", "eth0.2"])));
        assert_eq!(of(&[], &["192.0.2.1"]), Some(names(&["eth0", "eth0.1"])));
        assert_eq!(of(&["br0"], &[]), Some(names(&["br0", "eth0"])));
        assert_eq!(of(&[], &["127.9.9.9", "::1"]), Some(names(&["lo"])));
        assert_eq!(of(&[], &["192.0.2.9"]), None, "no interface has it");
        assert_eq!(of(&["eth9"], &[]), None);
    }

    #[test]
    fn threads_of_a_core_belong_together() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("sys/devices/system/cpu/cpu1/topology");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("thread_siblings_list"), "1,5\n").unwrap();
        let cores = |cpus: &[usize]| cores_below(root.path(), &cpus.iter().copied().collect());
        assert_eq!(cores(&[1]), BTreeSet::from([1, 5]));
        assert_eq!(cores(&[2]), BTreeSet::from([2]));
    }
}
