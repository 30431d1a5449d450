//! Query of a host's facts and routes, before anything is planned for it.
//!
//! The agent answers even while it serves another conductor, and keeps no state. An agent of an
//! earlier release takes the query for a campaign that leaves at once: it sends its facts and no
//! routes.

use std::net::IpAddr;

use linerate_model::HostAddress;
use serde_json::Value;

use super::runner::greet;
use crate::wire::{Branches, Greeting, HelloRole, Message, RouteDevice};
use crate::{Agent, AgentOptions, KeyStore, Result, Timeouts, frames};

/// Answer of a host about itself.
#[derive(Clone, Debug, Default)]
pub struct HostFacts {
    /// Facts as a tree, like those recorded with a campaign.
    pub facts: Value,
    /// Routes to the requested addresses, as far as the host has any.
    pub routes: Vec<RouteDevice>,
    /// Ports and next hops of destinations that no single device describes.
    pub branches: Vec<Branches>,
}

impl HostFacts {
    /// Returns the device by which the host reaches `destination`, if known.
    #[must_use]
    pub fn device_towards(&self, destination: IpAddr) -> Option<&str> {
        self.routes.iter().find(|way| way.destination == destination).map(|way| way.device.as_str())
    }

    /// Returns the bridge port or the several next hops by which packets to `destination` leave.
    /// Empty if the device alone describes the route.
    #[must_use]
    pub fn branches_towards(&self, destination: IpAddr) -> &[String] {
        self.branches.iter().find(|of| of.destination == destination).map_or(&[], |of| &of.devices)
    }

    /// Returns the CPUs that programs of the agent may run on. Empty if unknown.
    #[must_use]
    pub fn cpus(&self) -> Vec<usize> {
        let allowed =
            self.facts.get("cpu").and_then(|cpu| cpu.get("allowed")).and_then(Value::as_array);
        let cpu = |cpu: &Value| cpu.as_u64().and_then(|cpu| usize::try_from(cpu).ok());
        allowed.into_iter().flatten().filter_map(cpu).collect()
    }
}

/// Queries the agent of `host` at `address` for its facts and its routes to `destinations`. `name`
/// is this conductor's name in the agent's log.
///
/// # Errors
/// If the agent cannot be reached or refuses this host.
pub fn ask(
    host: &str,
    address: &HostAddress,
    keys: Option<&KeyStore>,
    name: &str,
    destinations: &[IpAddr],
    timeouts: &Timeouts,
) -> Result<HostFacts> {
    let mut ours = Greeting::new(HelloRole::Conductor, name);
    ours.asks = Some(destinations.to_vec());
    let in_process = Agent::new(AgentOptions::default());
    let mut greeted = greet(host, address, keys, &in_process, timeouts, ours)?;
    // For agents of earlier releases, which expect the end of a session.
    let _ = frames::write(&mut *greeted.channel.writer, &Message::Goodbye);
    (greeted.channel.closer)();
    let Greeting { facts, routes, branches, .. } = *greeted.theirs;
    Ok(HostFacts { facts, routes, branches })
}
