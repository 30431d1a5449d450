//! Fleets: where their hosts come from (a list, Slurm, Ansible, MPI or Kubernetes), how agents are
//! started there, and which of them answer.

mod ansible;
mod gathered;
mod kubernetes;
mod list;
mod mpi;
mod slurm;

use std::net::{IpAddr, ToSocketAddrs};
use std::path::Path;
use std::process::{Command, Stdio};
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

pub use gathered::{Engine, Gathered};
pub use slurm::drain;

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
    /// Command that runs another one there; without one, an agent listens there.
    pub reach: Option<Vec<String>>,
}

impl FleetHost {
    /// Returns the address that data goes to, or a name of it.
    fn data(&self) -> &str {
        self.address.as_deref().unwrap_or(&self.name)
    }

    /// Returns what starts the agent: the command line `reach` of all hosts before its own.
    fn launcher(&self, reach: Option<&str>) -> Result<Option<Launcher>> {
        match (reach, &self.reach) {
            (Some(line), _) => Launcher::of_line(line, &self.name).map(Some),
            (None, Some(words)) => Launcher::of_words(words, &self.name).map(Some),
            (None, None) => Ok(None),
        }
    }
}

/// Host that does not answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Absent {
    /// Its name.
    pub host: String,
    /// Why.
    pub why: String,
}

/// Returns what `command` of an engine prints.
///
/// # Errors
/// If it cannot be started, or fails: with what it printed as errors.
fn printed(option: &str, command: &mut Command) -> Result<String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).output();
    let output = output
        .map_err(|error| Failure::missing(format!("mesh {option}: start {program}: {error}")))?;
    if !output.status.success() {
        let why = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        return Err(Failure::missing(format!("mesh {option}: {program} failed: {why}")));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Returns the testbed of `hosts`, whose agents listen, or are started by the command line `reach`
/// or each host's own.
///
/// # Errors
/// If a name has no address, or `reach` is wrong.
fn ground(hosts: &[FleetHost], reach: Option<&str>) -> Result<Ground> {
    let mut testbed = Testbed { hosts: Vec::new(), endpoints: Vec::new(), emulated: false };
    for host in hosts {
        let address = match host.launcher(reach)? {
            Some(launcher) => launcher.agent("linerate"),
            None => HostAddress::Tcp(with_port(host.data(), AGENT_PORT)),
        };
        testbed.hosts.push((host.name.clone(), address));
        testbed.endpoints.push(endpoint_at(&host.name, &host.name, resolved(host.data())?));
    }
    Ok(Ground::of(testbed, TestbedKind::Hosts))
}

/// Returns a testbed file of `hosts`, as [`ground`] understands them.
///
/// # Errors
/// As [`ground`].
fn testbed_text(hosts: &[FleetHost], reach: Option<&str>) -> Result<String> {
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
        let name = host.name.clone();
        let reach = match host.launcher(reach)? {
            Some(launcher) => launcher.words().into(),
            None => with_port(host.data(), AGENT_PORT).into(),
        };
        file.endpoint.push(EndpointText {
            name: name.clone(),
            host: name.clone(),
            address: resolved(host.data())?,
        });
        file.host.push(HostText { name, reach });
    }
    Ok(toml::to_string(&file).expect("TOML has strings and lists of them"))
}

/// Returns the option that leads another command to the hosts of a testbed file, for a shell.
fn at_testbed(file: &Path) -> String {
    format!("--testbed {}", in_shell(&file.display().to_string()))
}

/// Returns a word as a shell reads it.
fn in_shell(word: &str) -> String {
    shlex::try_quote(word).map_or_else(|_| word.to_owned(), Into::into)
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

#[cfg(test)]
mod tests {
    use super::*;

    use crate::testbeds::Place;

    #[test]
    fn hosts_are_reached_by_their_agents_or_by_a_launcher() {
        let mut hosts = list::read("127.0.0.1\nn2 ansible_host=127.0.0.2\n").expect("two hosts");
        let by_agent = ground(&hosts, None).expect("addresses");
        let at = |text: &str| HostAddress::Tcp(text.to_owned());
        assert_eq!(by_agent.testbed.hosts[1], ("n2".to_owned(), at("127.0.0.2:4777")));
        assert_eq!(by_agent.testbed.endpoints[1].name, "n2");
        let by_command = ground(&hosts, Some("ssh {host}")).expect("a launcher");
        let words = ["ssh", "n2", "linerate", "agent", "--stdio"].map(str::to_owned).to_vec();
        assert_eq!(by_command.testbed.hosts[1].1, HostAddress::Command(words));
        assert_eq!(at_testbed(Path::new("my mesh/t.toml")), "--testbed 'my mesh/t.toml'");
        hosts[1].reach = Some(["podman", "exec", "-i", "x"].map(str::to_owned).to_vec());
        let by_own = ground(&hosts, None).expect("a launcher");
        assert_eq!(by_own.testbed.hosts[0].1, at("127.0.0.1:4777"));
        assert!(matches!(&by_own.testbed.hosts[1].1, HostAddress::Command(own) if own[3] == "x"));
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
