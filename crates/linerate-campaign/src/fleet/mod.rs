//! Fleets: hosts of a list, of an Ansible inventory or of an allocation of Slurm, and which of them
//! answer.

use std::net::{IpAddr, ToSocketAddrs};
use std::path::Path;
use std::process::Command;
use std::thread;

use linerate_control::{ControlError, HostFacts};
use linerate_model::{AGENT_PORT, HostAddress, Testbed, TestbedKind};
use serde::Serialize;
use serde_json::Value;

use crate::launcher::Launcher;
use crate::testbeds::{Ground, complete};
use crate::towards::endpoint_at;
use crate::{Failure, Result};
use linerate_agent::addresses::with_port;
use linerate_agent::keys::keys_for;

/// Command that runs another one on a node of the present allocation of Slurm, beside its job.
pub const SRUN: &str = "srun --unbuffered --overlap -N1 -n1 -w {host}";
/// Hosts that are asked at once.
const AT_ONCE: usize = 64;

/// Host of a fleet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FleetHost {
    /// Name.
    pub name: String,
    /// Address that data goes to, or a name of it; without one, that of the name.
    pub address: Option<String>,
    /// Group, such as a rack or the switch that the host is connected to.
    pub group: Option<String>,
}

/// Host that does not answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Absent {
    /// Its name.
    pub host: String,
    /// Why.
    pub why: String,
}

/// Reads a list of hosts, one a line, with `#` before comments. It may be an inventory of Ansible
/// (INI): `[GROUP]` begins a group, `ansible_host=ADDRESS` is an address, `n[01:16]` are 16 hosts.
///
/// # Errors
/// If there is no host, or one has two groups.
pub fn read(text: &str) -> Result<Vec<FleetHost>> {
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
            let host = FleetHost { name, address: address.clone(), group: group.clone() };
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
pub fn of_file(file: &Path) -> Result<Vec<FleetHost>> {
    let text = match file.to_str() {
        Some("-") => std::io::read_to_string(std::io::stdin()),
        _ => std::fs::read_to_string(file),
    };
    let text = text.map_err(|error| {
        Failure::wrong(format!("mesh: read list of hosts {}: {error}", file.display()))
    })?;
    read(&text)
}

/// Returns the hosts of the present allocation of Slurm.
///
/// # Errors
/// If there is none.
pub fn of_slurm() -> Result<Vec<FleetHost>> {
    let nodes = std::env::var("SLURM_JOB_NODELIST").map_err(|_| {
        Failure::missing(
            "mesh --slurm: no allocation (SLURM_JOB_NODELIST is not set); run it in one: \
                `salloc -N8 linerate mesh --slurm`",
        )
    })?;
    let shown = Command::new("scontrol").args(["show", "hostnames", &nodes]).output();
    let output =
        shown.map_err(|error| Failure::missing(format!("mesh --slurm: run scontrol: {error}")))?;
    if !output.status.success() {
        let why = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        return Err(Failure::missing(format!("mesh --slurm: scontrol show hostnames: {why}")));
    }
    read(&String::from_utf8_lossy(&output.stdout))
}

/// Returns the testbed of `hosts`, whose agents listen, or are started by the command line `reach`.
///
/// # Errors
/// If a name has no address, or `reach` is wrong.
pub fn ground(hosts: &[FleetHost], reach: Option<&str>) -> Result<Ground> {
    let mut testbed = Testbed { hosts: Vec::new(), endpoints: Vec::new(), emulated: false };
    for host in hosts {
        let text = host.address.as_deref().unwrap_or(&host.name);
        let address = match reach {
            Some(line) => Launcher::of_line(line, &host.name)?.agent("linerate"),
            None => HostAddress::Tcp(with_port(text, AGENT_PORT)),
        };
        testbed.hosts.push((host.name.clone(), address));
        testbed.endpoints.push(endpoint_at(&host.name, &host.name, resolved(text)?));
    }
    Ok(Ground::of(testbed, TestbedKind::Hosts))
}

/// Returns a testbed file of `hosts`, as [`ground`] understands them.
///
/// # Errors
/// As [`ground`].
pub fn testbed_text(hosts: &[FleetHost], reach: Option<&str>) -> Result<String> {
    #[derive(Serialize)]
    struct File {
        host: Vec<HostText>,
        endpoint: Vec<EndpointText>,
    }
    #[derive(Serialize)]
    struct HostText {
        name: String,
        reach: Value,
    }
    #[derive(Serialize)]
    struct EndpointText {
        name: String,
        host: String,
        address: IpAddr,
    }
    let mut file = File { host: Vec::new(), endpoint: Vec::new() };
    for host in hosts {
        let (name, text) = (host.name.clone(), host.address.as_ref().unwrap_or(&host.name));
        let reach = match reach {
            Some(line) => shlex::split(line).unwrap_or_default().into(),
            None => with_port(text, AGENT_PORT).into(),
        };
        file.endpoint.push(EndpointText {
            name: name.clone(),
            host: name.clone(),
            address: resolved(text)?,
        });
        file.host.push(HostText { name, reach });
    }
    Ok(toml::to_string(&file).expect("TOML has strings and lists of them"))
}

/// Returns the option that leads another command to the hosts of a testbed file, for a shell.
#[must_use]
pub fn at_testbed(file: &Path) -> String {
    let file = file.display().to_string();
    let quoted = shlex::try_quote(&file).map_or_else(|_| file.clone(), Into::into);
    format!("--testbed {quoted}")
}

/// Returns the first address of a host, IPv4 before IPv6.
fn resolved(text: &str) -> Result<IpAddr> {
    let found = with_port(text, AGENT_PORT).to_socket_addrs();
    let addresses: Vec<IpAddr> = found
        .map_err(|error| Failure::missing(format!("find the address of {text}: {error}")))?
        .map(|address| address.ip())
        .collect();
    let first = addresses.iter().min_by_key(|address| address.is_ipv6());
    first.copied().ok_or_else(|| Failure::missing(format!("find the address of {text}: none")))
}

/// Asks the hosts of `ground` for their facts, takes those that do not answer out of it, and
/// returns these.
///
/// # Errors
/// If the facts of a host contradict the testbed.
pub fn present(ground: &mut Ground) -> Result<Vec<Absent>> {
    let mut silent = Vec::new();
    let others = addresses(ground);
    for (host, answer) in ask_all(ground)? {
        let facts = match answer {
            Ok(facts) => facts,
            Err(error) => {
                silent.push((host, error));
                continue;
            }
        };
        for endpoint in ground.testbed.endpoints.iter_mut().filter(|one| one.host == host) {
            let own = endpoint.address;
            let others: Vec<IpAddr> =
                others.iter().copied().filter(|other| Some(*other) != own).collect();
            complete(endpoint, &others, &facts)?;
        }
    }
    let absent = by_endpoint(ground, &silent);
    let is_silent = |host: &str| silent.iter().any(|(silent, _)| silent == host);
    ground.testbed.endpoints.retain(|endpoint| !is_silent(&endpoint.host));
    ground.testbed.hosts.retain(|(host, _)| !is_silent(host));
    Ok(absent)
}

/// Returns the hosts of `ground` that do not answer.
pub(crate) fn absent(ground: &Ground) -> Vec<Absent> {
    // Without keys nobody answered before, either.
    let answers = ask_all(ground).unwrap_or_default();
    let silent = answers.into_iter().filter_map(|(host, answer)| Some((host, answer.err()?)));
    by_endpoint(ground, &silent.collect::<Vec<_>>())
}

/// Returns silent hosts by the names of their endpoints, which plans use.
fn by_endpoint(ground: &Ground, silent: &[(String, ControlError)]) -> Vec<Absent> {
    let endpoints = ground.testbed.endpoints.iter();
    let found = endpoints.filter_map(|endpoint| {
        let (_, error) = silent.iter().find(|(host, _)| *host == endpoint.host)?;
        Some(Absent { host: endpoint.name.clone(), why: error.to_string() })
    });
    found.collect()
}

fn addresses(ground: &Ground) -> Vec<IpAddr> {
    ground.testbed.endpoints.iter().filter_map(|endpoint| endpoint.address).collect()
}

/// Answer of a host, with its name.
type Answer = (String, Result<HostFacts, ControlError>);

/// Asks every host of `ground`, many at once.
fn ask_all(ground: &Ground) -> Result<Vec<Answer>> {
    let hosts = &ground.testbed.hosts;
    let keys = keys_for(hosts)?;
    let (keys, timeouts, others) = (keys.as_ref(), &ground.timeouts, &addresses(ground));
    let ask = &|(host, address): &(String, HostAddress)| {
        (host.clone(), linerate_control::ask(host, address, keys, "linerate", others, timeouts))
    };
    let answers = hosts.chunks(AT_ONCE).flat_map(|part| -> Vec<Answer> {
        thread::scope(|scope| {
            let asked: Vec<_> = part.iter().map(|host| scope.spawn(move || ask(host))).collect();
            asked.into_iter().map(|one| one.join().expect("it does not panic")).collect()
        })
    });
    Ok(answers.collect())
}

/// Gives the `bad` nodes of Slurm among `n_hosts`, each with a reason, no further jobs, unless too
/// few are left to be the usual ones. Each goes to `on_drained`.
///
/// # Errors
/// If too many are bad, or Slurm refuses.
pub fn drain(bad: &[(String, String)], n_hosts: usize, on_drained: impl Fn(&str)) -> Result<()> {
    /// Nodes may be drained up to one in this many.
    const SHARE: usize = 4;
    if bad.len() * SHARE > n_hosts {
        let message = format!(
            "mesh --drain: {} of {n_hosts} nodes are confirmed to be bad, more than one in \
                {SHARE}: none was drained. Look for what they share.",
            bad.len()
        );
        return Err(Failure::missing(message));
    }
    bad.iter().try_for_each(|(node, reason)| {
        drain_one(node, reason)?;
        on_drained(node);
        Ok(())
    })
}

/// Gives a node of Slurm no further jobs.
fn drain_one(node: &str, reason: &str) -> Result<()> {
    let failed = |why: String| Failure::missing(format!("mesh --drain {node}: scontrol: {why}"));
    let update =
        ["update", &format!("nodename={node}"), "state=drain", &format!("reason={reason}")];
    let output = Command::new("scontrol").args(update).output();
    let output = output.map_err(|error| failed(error.to_string()))?;
    if !output.status.success() {
        return Err(failed(String::from_utf8_lossy(&output.stderr).trim().to_owned()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn most_of_a_cluster_is_never_drained() {
        let bad: Vec<_> = ["n1", "n2", "n3"].map(|node| (node.to_owned(), String::new())).to_vec();
        let refused = drain(&bad, 8, |_| {}).expect_err("three of eight");
        assert!(
            refused.message().ends_with("none was drained. Look for what they share."),
            "{}",
            refused.message()
        );
        assert!(drain(&[], 8, |_| {}).is_ok());
    }
    use crate::testbeds::Place;

    fn host(name: &str, group: Option<&str>) -> FleetHost {
        FleetHost { name: name.into(), address: None, group: group.map(Into::into) }
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

    #[test]
    fn hosts_are_reached_by_their_agents_or_by_a_launcher() {
        let hosts = read("127.0.0.1\nn2 ansible_host=127.0.0.2\n").expect("two hosts");
        let by_agent = ground(&hosts, None).expect("addresses");
        let at = |text: &str| HostAddress::Tcp(text.to_owned());
        assert_eq!(by_agent.testbed.hosts[1], ("n2".to_owned(), at("127.0.0.2:4777")));
        assert_eq!(by_agent.testbed.endpoints[1].name, "n2");
        let by_command = ground(&hosts, Some("ssh {host}")).expect("a launcher");
        let words = ["ssh", "n2", "linerate", "agent", "--stdio"].map(str::to_owned).to_vec();
        assert_eq!(by_command.testbed.hosts[1].1, HostAddress::Command(words));
        assert_eq!(at_testbed(Path::new("my mesh/t.toml")), "--testbed 'my mesh/t.toml'");
        // The file that is written leads to the same hosts.
        let folder = tempfile::tempdir().expect("a folder");
        for reach in [None, Some("ssh {host}")] {
            let path = folder.path().join("testbed.toml");
            std::fs::write(&path, testbed_text(&hosts, reach).expect("addresses")).expect("room");
            let place = Place { testbed: Some(path), ..Place::default() };
            let read = crate::testbeds::named_hosts(&place).expect("it is one").testbed;
            assert_eq!(read, ground(&hosts, reach).expect("addresses").testbed);
        }
    }
}
