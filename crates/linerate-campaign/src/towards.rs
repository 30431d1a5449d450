//! Another host: how its agent is reached, and the addresses of both ends.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs, UdpSocket};
use std::process::Command;
use std::time::Duration;

use linerate_control::Timeouts;
use linerate_model::{AGENT_PORT, Endpoint, HostAddress, Nanos, Testbed};

use crate::launcher::Launcher;
use crate::push::{Push, Pushed, push};
use crate::{Failure, Result};
use linerate_agent::addresses::{has_port, interface, numbered, with_port};

/// Name of the place with both endpoints in this process.
pub const LOOPBACK: &str = "loopback";
/// Prefix of a host whose agent ssh starts.
pub(crate) const SSH: &str = "ssh:";

/// Version of IP that a person asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Family {
    /// IPv4 where the host has such an address, else IPv6.
    #[default]
    Any,
    /// IPv4 only.
    V4,
    /// IPv6 only.
    V6,
}

/// A host to measure, and the choices of the person who asked.
#[derive(Clone, Copy, Debug, Default)]
pub struct Towards<'a> {
    /// The host: `HOST`, `HOST:PORT`, `ssh:HOST` or `loopback`; with `reach` a name or address.
    pub host: &'a str,
    /// Port of its agent, where `host` has none.
    pub port: Option<u16>,
    /// Version of IP.
    pub family: Family,
    /// Address of this end.
    pub local: Option<IpAddr>,
    /// Interface of this end.
    pub device: Option<&'a str>,
    /// CPU of this end's workers, and of the other end's.
    pub cpus: [Option<usize>; 2],
    /// Longest time to connect to its agent and to greet it.
    pub patience: Option<Nanos>,
    /// Program for a host that has none.
    pub push: Option<Push<'a>>,
    /// Command line that runs another command on the host, such as `podman exec -i {host}`.
    pub reach: Option<&'a str>,
}

impl<'a> Towards<'a> {
    /// Returns the time limits of connections to the agent.
    pub(crate) fn timeouts(&self) -> Timeouts {
        let usual = Timeouts::default();
        self.patience.map(Duration::from).map_or(usual, |patience| Timeouts {
            handshake: patience,
            command: patience,
            ..usual
        })
    }

    /// Returns `host` without any other choice.
    #[must_use]
    pub fn host(host: &'a str) -> Self {
        Self { host, ..Self::default() }
    }

    /// Returns the choices with the version of IP that they agree on: that of the local address,
    /// where none was asked for.
    ///
    /// # Errors
    /// If one choice would silently win over another.
    pub(crate) fn agreed(self) -> Result<Self> {
        let of_local = match self.local {
            Some(IpAddr::V4(_)) => Family::V4,
            Some(IpAddr::V6(_)) => Family::V6,
            None => Family::Any,
        };
        let family = if self.family == Family::Any { of_local } else { self.family };
        if let Some(local) = self.local.filter(|_| of_local != family) {
            let message = format!("to -B {local}: not an address of the version of IP asked for");
            return Err(Failure::wrong(message));
        }
        if let (Some(port), Some(why)) = (self.port, self.without_port()) {
            return Err(Failure::wrong(format!("to -p {port}: {why}")));
        }
        if let (Some(_), Some(kind)) = (self.reach, self.is_reached_otherwise()) {
            let message = format!("to --reach: {} is {kind}; name its address", self.host);
            return Err(Failure::wrong(message));
        }
        if self.push.is_some() && !self.has_launcher() {
            let why = match self.host {
                LOOPBACK => "both ends of loopback are this program".to_owned(),
                host => format!(
                    "it copies through ssh or another command: name the host `{SSH}{host}`, or add \
                        --reach COMMAND"
                ),
            };
            return Err(Failure::wrong(format!("to --push: {why}")));
        }
        Ok(Self { family, ..self })
    }

    /// Returns whether a command starts the agent.
    pub(crate) fn has_launcher(&self) -> bool {
        self.reach.is_some() || self.host.starts_with(SSH)
    }

    /// Returns what `host` is, if no launcher can be added to it.
    fn is_reached_otherwise(&self) -> Option<&'static str> {
        match self.host {
            LOOPBACK => Some("in this process"),
            host if host.starts_with(SSH) => Some("reached through ssh"),
            host if has_port(host) => Some("the port of an agent that runs there"),
            _ => None,
        }
    }

    /// Returns the command that starts the agent and the name or address of the host, if a command
    /// does so.
    fn launcher(&self) -> Result<Option<(Launcher, String)>> {
        if let Some(line) = self.reach {
            let name = self.host.trim_matches(['[', ']']);
            return Ok(Some((Launcher::of_line(line, name)?, numbered(name))));
        }
        let Some(target) = self.host.strip_prefix(SSH) else { return Ok(None) };
        Ok(Some((Launcher::ssh(target)?, machine_behind(target))))
    }

    /// Returns the address and port of an agent that somebody else has started.
    ///
    /// # Errors
    /// If one choice would silently win over another, or this command itself starts the agent.
    pub fn agent_address(&self) -> Result<String> {
        let asked = self.agreed()?;
        if asked.host == LOOPBACK || asked.has_launcher() {
            return Err(Failure::wrong(format!(
                "pair with {}: `linerate to` starts this agent itself, so no token is needed",
                asked.host
            )));
        }
        Ok(with_port(asked.host, asked.port.unwrap_or(AGENT_PORT)))
    }

    /// Returns why a port of the agent cannot be chosen, if it cannot.
    fn without_port(&self) -> Option<String> {
        if self.host == LOOPBACK {
            return Some("both ends of loopback are in this process, without a port".to_owned());
        }
        if self.reach.is_some() {
            return Some("an agent that a command starts needs no port".to_owned());
        }
        if self.host.starts_with(SSH) {
            return Some(
                "an agent that ssh starts needs no port (ssh's own: ~/.ssh/config)".into(),
            );
        }
        has_port(self.host).then(|| format!("{} has a port already", self.host))
    }
}

/// Returns the two hosts and their addresses, and the program that was copied there.
pub(crate) fn reached(asked: &Towards<'_>) -> Result<(Testbed, Option<Pushed>)> {
    let mut pushed = None;
    let (address, name) = match asked.launcher()? {
        Some((launcher, name)) => {
            let address = match asked.push {
                Some(program) => {
                    let patience = asked.timeouts().command;
                    let (address, copy) = push(asked.host, &launcher, program, patience)?;
                    pushed = copy;
                    address
                }
                None => launcher.agent("linerate"),
            };
            (address, name)
        }
        None => {
            let with_port = with_port(asked.host, asked.port.unwrap_or(AGENT_PORT));
            let machine = with_port.rsplit_once(':').map_or(asked.host, |(machine, _)| machine);
            (HostAddress::Tcp(with_port.clone()), machine.trim_matches(['[', ']']).to_owned())
        }
    };
    let there = resolve(&name, asked.family)?;
    let here = match asked.local {
        Some(local) => local,
        None => local_towards(there)?,
    };
    let there = there.ip();
    let mut here = endpoint_at("a", "here", here);
    // An address of a link means nothing without its interface.
    here.device = interface(asked.host);
    let testbed = Testbed {
        hosts: vec![("here".into(), HostAddress::InProcess), (name.clone(), address)],
        endpoints: vec![here, endpoint_at("b", &name, there)],
        emulated: false,
    };
    Ok((testbed, pushed))
}

pub(crate) fn endpoint_at(name: &str, host: &str, address: IpAddr) -> Endpoint {
    Endpoint { address: Some(address), ..Endpoint::named(name, host) }
}

/// Returns the machine that ssh connects to for `target`, with aliases of its configuration
/// (`Host`) resolved.
fn machine_behind(target: &str) -> String {
    let told = Command::new("ssh").args(["-G", "--", target]).output();
    let told =
        told.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    let named = told.lines().find_map(|line| line.strip_prefix("hostname "));
    // If ssh cannot resolve it, its message appears when it starts the agent.
    let written = || target.rsplit_once('@').map_or(target, |(_, machine)| machine);
    named.unwrap_or_else(written).to_owned()
}

pub(crate) fn resolve(host: &str, family: Family) -> Result<SocketAddr> {
    let addresses: Vec<SocketAddr> = (host, 0)
        .to_socket_addrs()
        .map_err(|error| lookup_failed(host, &error.to_string()))?
        .collect();
    let of = |wants_ipv6| addresses.iter().find(move |one| one.is_ipv6() == wants_ipv6);
    let (found, cause) = match family {
        Family::Any => (of(false).or(addresses.first()), "it has no address"),
        Family::V4 => (of(false), "it has no IPv4 address"),
        Family::V6 => (of(true), "it has no IPv6 address"),
    };
    found.copied().ok_or_else(|| lookup_failed(host, cause))
}

fn lookup_failed(host: &str, cause: &str) -> Failure {
    Failure::missing(format!("look up host {host}: {cause} (check the name, or give the address)"))
}

/// Returns this host's source address towards `there`, by the routing table. Nothing is sent.
fn local_towards(mut there: SocketAddr) -> Result<IpAddr> {
    /// Any port: connecting a UDP socket sends nothing.
    const DISCARD: u16 = 9;
    there.set_port(DISCARD);
    let ip = there.ip();
    let failed = |error: std::io::Error| Failure::missing(format!("find a route to {ip}: {error}"));
    let any: IpAddr =
        if there.is_ipv6() { Ipv6Addr::UNSPECIFIED.into() } else { Ipv4Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind((any, 0)).map_err(failed)?;
    socket.connect(there).map_err(failed)?;
    socket.local_addr().map(|address| address.ip()).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_agent_that_somebody_started_is_paired_with() {
        let address = |host, port| Towards { port, ..Towards::host(host) }.agent_address();
        let ok = |host, port| address(host, port).expect("an address");
        assert_eq!(ok("192.0.2.7", None), "192.0.2.7:4777");
        assert_eq!(ok("192.0.2.7", Some(5201)), "192.0.2.7:5201");
        for host in [LOOPBACK, "ssh:host"] {
            let refused = address(host, None).expect_err(host);
            assert!(refused.message().contains("no token is needed"), "{}", refused.message());
        }
        let reach = Some("podman exec -i web");
        let refused = Towards { reach, ..Towards::host("192.0.2.7") }.agent_address();
        assert!(refused.expect_err("it is started").message().contains("no token is needed"));
        let local = Some(IpAddr::from([0_u16; 8]));
        let mixed = Towards { local, family: Family::V4, ..Towards::host("192.0.2.7") };
        let push = Some(Push { file: None });
        let pushed = Towards { push, ..Towards::host("192.0.2.7") };
        for wrong in [mixed, pushed] {
            let used = wrong.agent_address();
            assert!(used.is_err(), "a token is not used up by a command that fails");
        }
        for (host, part) in
            [("loopback", Some("this program")), ("h", Some("`ssh:h`")), ("ssh:h", None)]
        {
            let refused = Towards { push, ..Towards::host(host) }.agreed().err();
            let message = refused.map(|failure| failure.message());
            assert_eq!(message.is_some(), part.is_some(), "{host}");
            assert!(message.iter().all(|text| text.contains(part.unwrap_or("?"))), "{message:?}");
        }
    }

    #[test]
    fn a_launcher_needs_a_name_or_address_for_the_data_and_nothing_else() {
        let reach = Some("podman exec -i {host}");
        for (host, part) in [
            ("192.0.2.7", None),
            ("fd00::7", None),
            ("[fd00::7]", None),
            ("ssh:h", Some("through ssh")),
            ("loopback", Some("in this process")),
            ("192.0.2.7:4777", Some("the port of an agent")),
        ] {
            let towards = Towards { reach, push: Some(Push { file: None }), ..Towards::host(host) };
            let message = towards.agreed().err().map(|failure| failure.message());
            assert_eq!(message.is_some(), part.is_some(), "{host}: {message:?}");
            assert!(message.iter().all(|text| text.contains(part.unwrap_or("?"))), "{message:?}");
        }
        let with_port = Towards { reach, port: Some(1), ..Towards::host("192.0.2.7") };
        assert!(with_port.agreed().is_err());
        let towards = Towards { reach, ..Towards::host("127.0.0.1") };
        let (testbed, _) = reached(&towards).expect("nothing is started yet");
        let words = ["podman", "exec", "-i", "127.0.0.1", "linerate", "agent", "--stdio"];
        let command = HostAddress::Command(words.map(str::to_owned).to_vec());
        assert_eq!(testbed.hosts[1], ("127.0.0.1".to_owned(), command));
        assert_eq!(testbed.endpoints[1].address, Some(Ipv4Addr::LOCALHOST.into()));
    }

    #[test]
    fn no_choice_silently_wins_over_another() {
        let (v4, v6) = ("192.0.2.1".parse().ok(), "fd00::1".parse().ok());
        let asked = |family, local| Towards { family, local, ..Towards::host("192.0.2.7") };
        for (family, local, agreed) in [
            (Family::Any, None, Some(Family::Any)),
            (Family::Any, v6, Some(Family::V6)),
            (Family::Any, v4, Some(Family::V4)),
            (Family::V6, v6, Some(Family::V6)),
            (Family::V4, v6, None),
            (Family::V6, v4, None),
        ] {
            let found = asked(family, local).agreed().ok().map(|asked| asked.family);
            assert_eq!(found, agreed, "{family:?} {local:?}");
        }
        for (host, port, part) in [
            ("192.0.2.7", Some(5201), None),
            ("fd00::7", Some(5201), None),
            ("[fd00::7]", Some(5201), None),
            ("ssh:host", None, None),
            ("host:4777", None, None),
            ("loopback", Some(5201), Some("both ends")),
            ("ssh:host", Some(5201), Some("needs no port")),
            ("host:4777", Some(5201), Some("has a port already")),
            ("[fd00::7]:4777", Some(5201), Some("has a port already")),
        ] {
            let refused = Towards { port, ..Towards::host(host) }.agreed().err();
            let message = refused.map(|failure| failure.message());
            let is_expected = match (&message, part) {
                (Some(message), Some(part)) => message.contains(part),
                (message, part) => message.is_none() && part.is_none(),
            };
            assert!(is_expected, "{host}: {message:?}");
        }
    }
}
