//! Where a plan's endpoints are: hosts, addresses, CPUs.

use core::net::IpAddr;

use serde::{Deserialize, Serialize};

/// Port of an agent unless `--listen` names another; not assigned by IANA as of 2026.
pub const AGENT_PORT: u16 = 4777;

/// Prefix of an endpoint that is an iperf3 server, as plans name it: `iperf3://HOST[:PORT]`.
pub const IPERF3_SCHEME: &str = "iperf3://";
/// The workload that measures with iperf3 servers.
pub const IPERF3_WORKLOAD: &str = "iperf3";
/// Its parameter that names the server.
pub const SERVER_PARAMETER: &str = "server";

/// Returns true if the endpoint that plans call `name` is a server which needs no agent.
#[must_use]
pub fn is_server(name: &str) -> bool {
    name.starts_with(IPERF3_SCHEME)
}

/// How to reach an agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HostAddress {
    /// An agent inside this process, reached through the same codec.
    InProcess,
    /// An agent listening on a TCP port, `host:port`.
    Tcp(String),
    /// A command whose standard input and output carry the protocol (ssh, `ip netns exec`).
    Command(Vec<String>),
}

/// One end of a path: an agent and what of it to use.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Endpoint {
    /// The name plans use.
    pub name: String,
    /// The host it is on: that of an agent, or the server itself, see [`Self::has_agent`].
    pub host: String,
    /// The address data goes to and comes from; the agent's default if absent.
    pub address: Option<IpAddr>,
    /// The interface `address` is on, if known: its counters are the device counters of this
    /// endpoint.
    pub device: Option<String>,
    /// Devices by which packets leave the host if `device` does not name them: the port of a
    /// bridge, or the devices of several next hops, of which each flow takes one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub branches: Vec<String>,
    /// CPUs its workers may be pinned to, in turn: a `cpus` axis uses the first few of them.
    #[serde(default)]
    pub cpus: Vec<usize>,
    /// True if workers are pinned to all of `cpus` where no `cpus` axis sets their number.
    #[serde(default)]
    pub pin: bool,
    /// The interface behind which a network controller may be asked over NC-SI; nobody is asked if
    /// absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ncsi: Option<String>,
}

impl Endpoint {
    /// Returns the endpoint `name` on `host`, of which nothing else is known.
    #[must_use]
    pub fn named(name: impl Into<String>, host: impl Into<String>) -> Self {
        Self { name: name.into(), host: host.into(), ..Self::default() }
    }

    /// Returns true if an agent runs on its host. A server without one is a host of its own, of
    /// which nothing is read.
    #[must_use]
    pub fn has_agent(&self) -> bool {
        !is_server(&self.host)
    }
}

/// The hosts and endpoints a plan's names resolve to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Testbed {
    /// Host name to how it is reached.
    pub hosts: Vec<(String, HostAddress)>,
    /// Endpoints by name.
    pub endpoints: Vec<Endpoint>,
    /// True if the path is emulated: every figure from it is marked so.
    pub emulated: bool,
}

impl Testbed {
    /// The endpoint called `name`.
    #[must_use]
    pub fn endpoint(&self, name: &str) -> Option<&Endpoint> {
        // A testbed has few endpoints, so no index is needed.
        self.endpoints.iter().find(|endpoint| endpoint.name == name)
    }
}
