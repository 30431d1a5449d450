//! Permissions of loads on this host, whatever their parameters request. The host's owner defines
//! them, not a conductor.
//!
//! [`Permits::EVERYTHING`] is for the process of the person who measures. An agent that serves
//! paired conductors has [`Limits`]. Each refusal contains the line of the policy that would permit
//! the request. `linerate_disk` limits files and disks.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

use linerate_model::{AGENT_PORT, BitRate};
use serde::{Deserialize, Deserializer, de};

use crate::{LoadError, Result};

/// Ports below this one belong to services of the host's owner (RFC 6335 clause 6: system ports).
pub(crate) const FIRST_UNRESERVED_PORT: u16 = 1024;

/// Permissions of loads on this host.
#[derive(Clone, Debug, PartialEq)]
pub struct Permits(Option<Limits>);

/// Requests that the owner of a host permits; all others are refused.
#[derive(Clone, Debug, PartialEq)]
pub struct Limits {
    /// Path of the owner's policy, which refusals name.
    pub file: String,
    /// Addresses that loads may send to, after the other end has proved there that it knows the
    /// trial's secret.
    pub destinations: Vec<Network>,
    /// Lowest port that loads listen on or connect to.
    pub lowest_port: u16,
    /// Addresses of foreign servers, which prove nothing.
    pub foreign_servers: Vec<Network>,
    /// True if loads may serve foreign clients, without a password.
    pub foreign_clients: bool,
    /// True if loads may send and receive raw Ethernet frames outside of a lab.
    pub raw_frames: bool,
    /// True if workers may run before every other program.
    pub realtime: bool,
    /// Largest rate of one trial; absent for no limit.
    pub rate: Option<BitRate>,
    /// Interfaces whose network controllers may be queried over NC-SI.
    pub ncsi: Vec<String>,
}

impl Limits {
    /// Returns the permissions of an empty policy in `file`.
    #[must_use]
    pub fn new(file: &str) -> Self {
        // Zero bits match every address of the family.
        let any = |address| Network { address, bits: 0 };
        Self {
            file: file.to_owned(),
            destinations: vec![
                any(Ipv4Addr::UNSPECIFIED.into()),
                any(Ipv6Addr::UNSPECIFIED.into()),
            ],
            lowest_port: FIRST_UNRESERVED_PORT,
            foreign_servers: Vec::new(),
            foreign_clients: false,
            raw_frames: false,
            realtime: false,
            rate: None,
            ncsi: Vec::new(),
        }
    }
}

impl Permits {
    /// No limits: for the process of the person who measures.
    pub const EVERYTHING: Self = Self(None);

    /// Permits only what `limits` contain.
    #[must_use]
    pub const fn only(limits: Limits) -> Self {
        Self(Some(limits))
    }

    /// Checks that loads may send to `ip`, which proves the secret.
    ///
    /// # Errors
    /// If the policy does not name it.
    pub fn destination(&self, ip: IpAddr) -> Result<()> {
        self.demand(
            |limits| limits.destinations.iter().any(|network| network.contains(ip)),
            || {
                (
                    format!("exchange load with {ip}"),
                    format!("destinations = [\"{}\"]", ip.to_canonical()),
                )
            },
        )
    }

    /// Checks that loads may listen on `port` or send from it; 0 is any free port.
    ///
    /// # Errors
    /// If the policy reserves it.
    pub fn port(&self, port: u16) -> Result<()> {
        self.demand(
            // Port 0 asks the kernel for a free port, which is never a reserved one.
            |limits| port == 0 || port >= limits.lowest_port,
            || (format!("use port {port} for load"), format!("lowest_port = {port}")),
        )
    }

    /// Checks that a connection to `address`, which proves the secret, may be opened.
    ///
    /// # Errors
    /// If the policy does not name its address, or reserves its port. The port of agents is never
    /// reserved: data shares it with control connections, which this host permits.
    pub fn connection(&self, address: SocketAddr) -> Result<()> {
        self.destination(address.ip())?;
        if address.port() == AGENT_PORT { Ok(()) } else { self.port(address.port()) }
    }

    /// Checks that loads may use the server at `address`, which is not linerate.
    ///
    /// # Errors
    /// If the policy does not name it.
    pub fn foreign_server(&self, address: SocketAddr) -> Result<()> {
        let ip = address.ip();
        self.demand(
            |limits| limits.foreign_servers.iter().any(|network| network.contains(ip)),
            || {
                let line = format!("foreign_servers = [\"{}\"]", ip.to_canonical());
                (format!("load the server at {address}, which is not linerate"), line)
            },
        )
    }

    /// Checks that loads may serve foreign clients.
    ///
    /// # Errors
    /// If the policy does not permit it.
    pub fn foreign_clients(&self) -> Result<()> {
        self.demand(
            |limits| limits.foreign_clients,
            || {
                (
                    "serve files to clients that are not linerate".into(),
                    "foreign_clients = true".into(),
                )
            },
        )
    }

    /// Checks that raw frames may leave from interfaces outside of a lab.
    ///
    /// # Errors
    /// If the policy does not permit it.
    pub fn raw_frames(&self, interface: &str) -> Result<()> {
        self.demand(
            |limits| limits.raw_frames,
            || (format!("raw frames at interface {interface}"), "raw_frames = true".into()),
        )
    }

    /// Checks that workers may run before every other program.
    ///
    /// # Errors
    /// If the policy does not permit it.
    pub fn realtime(&self) -> Result<()> {
        self.demand(
            |limits| limits.realtime,
            || ("run workers at real-time priority".into(), "realtime = true".into()),
        )
    }

    /// Returns the largest rate of one trial, summed over its jobs; `None` for no limit.
    #[must_use]
    pub fn rate(&self) -> Option<BitRate> {
        self.0.as_ref()?.rate
    }

    /// Checks that a trial may send at `rate`.
    ///
    /// # Errors
    /// If the policy permits less.
    pub fn offered_rate(&self, rate: BitRate) -> Result<()> {
        self.demand(
            |limits| limits.rate.is_none_or(|most| rate.0 <= most.0),
            || (format!("send at {rate} in one trial"), format!("rate = \"{rate}\"")),
        )
    }

    /// Checks that the network controller behind `interface` may be queried over NC-SI.
    ///
    /// # Errors
    /// If the policy does not name it.
    pub fn ncsi(&self, interface: &str) -> Result<()> {
        self.demand(
            |limits| limits.ncsi.iter().any(|named| named == interface),
            || {
                (
                    format!("ask the network controller at {interface} over NC-SI"),
                    format!("ncsi = [\"{interface}\"]"),
                )
            },
        )
    }

    fn demand(
        &self,
        is_permitted: impl FnOnce(&Limits) -> bool,
        refusal: impl FnOnce() -> (String, String),
    ) -> Result<()> {
        let Some(limits) = self.0.as_ref().filter(|limits| !is_permitted(limits)) else {
            return Ok(());
        };
        let (what, line) = refusal();
        Err(LoadError::NotPermitted { what, line, file: limits.file.clone() })
    }
}

/// Address range such as `192.0.2.0/24`; without a length a single address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    bits: u32,
}

impl Network {
    /// Returns true if the range contains `ip`. An IPv4 address mapped into IPv6 counts as the IPv4
    /// address.
    #[must_use]
    pub fn contains(&self, ip: IpAddr) -> bool {
        // A dual-stack socket shows IPv4 peers as mapped addresses; the policy names them in their
        // own form.
        match (self.address, ip.to_canonical()) {
            // Shifted up, so that the length of an IPv4 network counts from the top as well.
            (IpAddr::V4(own), IpAddr::V4(other)) => begins(
                u128::from(u32::from(own)) << (u128::BITS - u32::BITS),
                u128::from(u32::from(other)) << (u128::BITS - u32::BITS),
                self.bits,
            ),
            (IpAddr::V6(own), IpAddr::V6(other)) => begins(own.into(), other.into(), self.bits),
            _ => false,
        }
    }
}

/// Returns true if the first `bits` of both are equal.
fn begins(own: u128, other: u128, bits: u32) -> bool {
    // A shift by all 128 bits is undefined, and means that every address matches.
    (own ^ other).checked_shr(u128::BITS - bits).unwrap_or(0) == 0
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.bits)
    }
}

const AN_ADDRESS: &str = "an address such as 192.0.2.7";
const A_NETWORK: &str = "a network such as 192.0.2.0/24";

impl FromStr for Network {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is neither {AN_ADDRESS} nor {A_NETWORK}");
        let (address, bits) =
            text.split_once('/').map_or((text, None), |(address, bits)| (address, Some(bits)));
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        // Without a length the text names a single address.
        let most = if address.is_ipv4() { u32::BITS } else { u128::BITS };
        let bits = bits.map_or(Ok(most), str::parse).map_err(|_| wrong())?;
        if bits > most {
            return Err(wrong());
        }
        Ok(Self { address, bits })
    }
}

impl<'de> Deserialize<'de> for Network {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limited() -> Permits {
        let destinations = vec!["198.18.0.0/15".parse().expect("a network")];
        Permits::only(Limits {
            destinations,
            rate: Some(BitRate(1e9)),
            ..Limits::new("/etc/linerate/agent.toml")
        })
    }

    fn refusal(result: Result<()>) -> String {
        result.expect_err("the policy does not permit it").to_string()
    }

    #[test]
    fn a_refusal_contains_the_line_that_would_permit_the_request() {
        let (permits, at) = (limited(), |text: &str| text.parse().expect("an address"));
        permits.connection(at("198.19.255.255:1024")).expect("permitted");
        permits.connection(at("[::ffff:198.18.0.1]:5000")).expect("the same address, mapped");
        for (result, line) in [
            (permits.connection(at("192.0.2.1:5000")), "destinations = [\"192.0.2.1\"]"),
            (permits.connection(at("198.18.0.1:22")), "lowest_port = 22"),
            (permits.port(80), "lowest_port = 80"),
            (permits.foreign_server(at("127.0.0.1:8080")), "foreign_servers = [\"127.0.0.1\"]"),
            (permits.foreign_clients(), "foreign_clients = true"),
            (permits.raw_frames("eth0"), "raw_frames = true"),
            (permits.realtime(), "realtime = true"),
            (permits.offered_rate(BitRate(2e9)), "rate = \"2 Gbit/s\""),
            (permits.ncsi("eth1"), "ncsi = [\"eth1\"]"),
        ] {
            let said = refusal(result);
            assert!(said.contains(line) && said.contains("/etc/linerate/agent.toml"), "{said}");
        }
        permits.port(0).expect("any free port");
    }

    #[test]
    fn connections_to_agents_need_no_low_port() {
        let permits = Permits::only(Limits { lowest_port: 5000, ..Limits::new("policy") });
        let to = |port| permits.connection((Ipv4Addr::LOCALHOST, port).into());
        to(4777).expect("the port of agents");
        for (result, line) in [
            (to(4776), "lowest_port = 4776"),
            (to(4778), "lowest_port = 4778"),
            (permits.port(4777), "lowest_port = 4777"),
        ] {
            assert!(refusal(result).contains(line), "{line}");
        }
    }

    /// Returns the refusal of the workload `name` at the active end, with an offer of `addresses`,
    /// or at the passive end without one.
    fn refused(
        name: &str,
        params: serde_json::Value,
        addresses: &[&str],
        permits: &Permits,
    ) -> String {
        let params = serde_json::from_value(params).expect("a table");
        let local =
            serde_json::json!({ "name": "a", "host": "h", "address": "127.0.0.1", "device": null });
        let local = serde_json::from_value(local).expect("an endpoint");
        let secret = crate::Secret([7; 16]);
        let setup = crate::Setup { permits, ..crate::Setup::alone(&params, &local, secret) };
        let workload = crate::workload(name).expect("it is one");
        let addresses: Vec<_> =
            addresses.iter().map(|address| address.parse().expect("an address")).collect();
        let result = if addresses.is_empty() {
            workload.listen(&setup).map(|_| ())
        } else {
            workload.connect(&setup, &crate::Offer { addresses }).map(|_| ())
        };
        result.expect_err(name).to_string()
    }

    #[test]
    fn no_workload_uses_an_address_or_a_port_that_the_policy_does_not_permit() {
        use serde_json::json;
        let foreign_servers = vec!["127.0.0.7".parse().expect("an address")];
        let destinations = vec!["127.0.0.0/8".parse().expect("a network")];
        let permits =
            Permits::only(Limits { destinations, foreign_servers, ..Limits::new("policy") });
        for name in ["tcp_stream", "tcp_rr", "tcp_crr", "udp_stream", "udp_rr", "http", "ftp"] {
            let why = refused(name, json!({}), &["127.0.0.1:22"], &permits);
            assert!(why.contains("lowest_port = 22"), "{name}: {why}");
            let why = refused(name, json!({}), &["192.0.2.1:5000"], &permits);
            assert!(why.contains("destinations = [\"192.0.2.1\"]"), "{name}: {why}");
        }
        for name in ["udp_stream", "udp_rr", "http", "ftp"] {
            let why = refused(name, json!({}), &["127.0.0.1:5000", "127.0.0.1:22"], &permits);
            assert!(why.contains("lowest_port = 22"), "{name}: {why}");
        }
        let planned =
            |ports: &str, to: u16| json!({ "source_ports": ports, "destination_port": to });
        for name in ["tcp_stream", "udp_stream"] {
            let offered: &[&str] = if name == "tcp_stream" {
                &["127.0.0.1:5000"]
            } else {
                &["127.0.0.1:5000", "127.0.0.1:5000"]
            };
            let why = refused(name, planned("53", 5000), offered, &permits);
            assert!(why.contains("lowest_port = 53"), "{name} leaves from there: {why}");
            let why = refused(name, planned("5000", 80), &[], &permits);
            assert!(why.contains("lowest_port = 80"), "{name} listens there: {why}");
        }
        for name in ["http", "ftp"] {
            let why = refused(name, json!({ "port": 80 }), &[], &permits);
            assert!(why.contains("lowest_port = 80"), "{name}: {why}");
            let why = refused(name, json!({ "clients": "foreign", "port": 8080 }), &[], &permits);
            assert!(why.contains("foreign_clients = true"), "{name}: {why}");
            let server = |ip: &str| json!({ "server": format!("{name}://{ip}:1/file") });
            let why = refused(name, server("127.0.0.1"), &["127.0.0.1:5000"], &permits);
            assert!(why.contains("foreign_servers = [\"127.0.0.1\"]"), "{name}: {why}");
        }
        let server = json!({ "server": "iperf3://127.0.0.1:1" });
        let why = refused("iperf3", server, &["127.0.0.1:5000"], &permits);
        assert!(why.contains("foreign_servers = [\"127.0.0.1\"]"), "iperf3: {why}");
        permits
            .foreign_server("127.0.0.7:1".parse().expect("an address"))
            .expect("the policy names it");
    }

    #[test]
    fn the_person_who_measures_may_do_everything() {
        let permits = Permits::EVERYTHING;
        permits.connection("192.0.2.1:22".parse().expect("an address")).expect("permitted");
        permits.foreign_server("127.0.0.1:80".parse().expect("an address")).expect("permitted");
        permits.raw_frames("eth0").and_then(|()| permits.realtime()).expect("permitted");
    }

    #[test]
    fn networks_are_parsed_and_contain_their_addresses() {
        let network = |text: &str| text.parse::<Network>();
        let contains = |text: &str, ip: &str| {
            network(text).expect("a network").contains(ip.parse().expect("an address"))
        };
        assert!(contains("0.0.0.0/0", "203.0.113.9") && contains("::/0", "2001:db8::1"));
        assert!(!contains("0.0.0.0/0", "2001:db8::1"), "families are apart");
        assert!(contains("192.0.2.7", "192.0.2.7") && !contains("192.0.2.7", "192.0.2.6"));
        assert!(
            contains("2001:db8::/32", "2001:db8:1::1") && !contains("2001:db8::/32", "2001:db9::1")
        );
        for wrong in ["", "192.0.2.0/33", "::/129", "192.0.2", "host", "192.0.2.0/x"] {
            assert!(network(wrong).is_err(), "{wrong}");
        }
    }
}
