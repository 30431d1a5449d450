//! A list of hosts, one a line, which may be an inventory of Ansible in its INI format.

use std::path::Path;

use super::FleetHost;
use crate::{Failure, Result};

/// Reads a list of hosts, one a line, with `#` before comments. It may be an inventory of Ansible
/// (INI): `[GROUP]` begins a group, `ansible_host=ADDRESS` is an address, `n[01:16]` are 16 hosts.
///
/// # Errors
/// If there is no host, or one has two groups.
pub(super) fn read(text: &str) -> Result<Vec<FleetHost>> {
    let mut hosts: Vec<FleetHost> = Vec::new();
    let mut group: Option<String> = None;
    let mut has_hosts = true;
    for line in text.lines() {
        let line = line.split(['#', ';']).next().unwrap_or_default().trim();
        if let Some(section) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            // Sections of variables and of groups of groups name no hosts.
            has_hosts = !section.contains(':');
            let is_group = has_hosts && !["all", "ungrouped"].contains(&section);
            group = is_group.then(|| section.to_owned());
            continue;
        }
        let mut words = line.split_whitespace();
        let Some(pattern) = words.next().filter(|_| has_hosts) else { continue };
        let address = words.find_map(|word| word.strip_prefix("ansible_host=")).map(str::to_owned);
        for name in expanded(pattern)? {
            let host =
                FleetHost { name, address: address.clone(), group: group.clone(), reach: None };
            match hosts.iter_mut().find(|known| known.name == host.name) {
                Some(known) => merge(known, host)?,
                None => hosts.push(host),
            }
        }
    }
    if hosts.is_empty() {
        return Err(Failure::wrong("read list of hosts: it names none (one host a line)"));
    }
    Ok(hosts)
}

/// Adds the group and the address of a further line on a host.
fn merge(known: &mut FleetHost, more: FleetHost) -> Result<()> {
    if let (Some(one), Some(other)) = (&known.group, &more.group)
        && one != other
    {
        return Err(Failure::wrong(format!(
            "read list of hosts: {} is in the groups {one} and {other}; a mesh compares hosts by \
                one group, such as their rack",
            known.name
        )));
    }
    known.group = known.group.take().or(more.group);
    known.address = known.address.take().or(more.address);
    Ok(())
}

/// Returns the hosts that a pattern with one range, such as `n[01:16]`, stands for.
fn expanded(pattern: &str) -> Result<Vec<String>> {
    /// Most hosts of a pattern.
    const MOST: usize = 100_000;
    let Some((before, rest)) = pattern.split_once('[') else { return Ok(vec![pattern.to_owned()]) };
    let parts = rest.split_once(']').and_then(|(range, after)| {
        let (first, last) = range.split_once(':')?;
        let (from, to) = (first.parse::<usize>().ok()?, last.parse::<usize>().ok()?);
        let is_short = from <= to && to - from < MOST;
        is_short.then_some((first.len(), from..=to, after))
    });
    let Some((width, numbers, after)) = parts else {
        let why = "expected one range of numbers, such as n[01:16]";
        return Err(Failure::wrong(format!("read list of hosts: `{pattern}`: {why}")));
    };
    Ok(numbers.map(|number| format!("{before}{number:0width$}{after}")).collect())
}

/// Reads the list of hosts in `file`; `-` is standard input.
///
/// # Errors
/// If it cannot be read, or is no list of hosts.
pub(super) fn of_file(file: &Path) -> Result<Vec<FleetHost>> {
    let text = match file.to_str() {
        Some("-") => std::io::read_to_string(std::io::stdin()),
        _ => std::fs::read_to_string(file),
    };
    let text = text.map_err(|error| {
        Failure::wrong(format!("mesh: read list of hosts {}: {error}", file.display()))
    })?;
    read(&text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(name: &str, group: Option<&str>) -> FleetHost {
        FleetHost { name: name.into(), group: group.map(Into::into), ..FleetHost::default() }
    }

    #[test]
    fn a_list_of_hosts_may_be_an_inventory_of_ansible() {
        let listed = read("n1\n# a comment\nn2   # another\n\n").expect("two hosts");
        assert_eq!(listed, [host("n1", None), host("n2", None)]);
        let inventory = "n0\n[rack1]\nn[08:10] ansible_user=root\n[rack2]\n\
            web ansible_host=192.0.2.7 ansible_port=22\n[all:vars]\nx=1\n[racks:children]\nrack1\n\
            [all]\nn08\n";
        let read = read(inventory).expect("five hosts");
        let web = FleetHost { address: Some("192.0.2.7".into()), ..host("web", Some("rack2")) };
        let [n08, n09, n10] = ["n08", "n09", "n10"].map(|name| host(name, Some("rack1")));
        assert_eq!(read, [host("n0", None), n08, n09, n10, web]);
    }

    #[test]
    fn a_list_that_cannot_be_meant_is_refused() {
        for (text, part) in [
            ("# nobody\n", "it names none"),
            ("[a]\nn1\n[b]\nn1\n", "in the groups a and b"),
            ("n[1:2:3]", "one range of numbers"),
            ("n[a:c]", "one range of numbers"),
            ("n[5:1]", "one range of numbers"),
            ("n[0:999999999]", "one range of numbers"),
        ] {
            let message = read(text).expect_err(text).message().to_owned();
            assert!(message.contains(part), "{text}: {message}");
        }
    }
}
