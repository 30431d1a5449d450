//! Asking a host what it is before anything is planned for it: its facts, and the devices by which
//! it reaches others.
//!
//! The agent answers beside whoever it serves, and nothing is held afterwards. An agent of an
//! earlier release takes the question for a campaign that leaves at once: it tells its facts and no
//! routes.

use std::net::IpAddr;

use linerate_model::HostAddress;
use serde_json::Value;

use super::runner::greet;
use crate::wire::{Branches, Greeting, HelloRole, Message, RouteDevice};
use crate::{Agent, AgentOptions, ControlError, KeyStore, Timeouts, frames};

/// What a host said of itself.
#[derive(Clone, Debug, Default)]
pub struct HostFacts {
    /// As a tree, like those recorded with a campaign.
    pub facts: Value,
    /// Of the addresses asked for, those it has a route to.
    pub routes: Vec<RouteDevice>,
    /// What packets to them leave by, where no device says it alone.
    pub branches: Vec<Branches>,
}

impl HostFacts {
    /// The device by which the host reaches `destination`, if it told.
    #[must_use]
    pub fn device_towards(&self, destination: IpAddr) -> Option<&str> {
        self.routes.iter().find(|way| way.destination == destination).map(|way| way.device.as_str())
    }

    /// What packets to `destination` leave by where the device does not say, if it told: the port
    /// of a bridge, or several next hops.
    #[must_use]
    pub fn branches_towards(&self, destination: IpAddr) -> &[String] {
        self.branches.iter().find(|of| of.destination == destination).map_or(&[], |of| &of.devices)
    }

    /// CPUs that programs of the agent may run on; empty if it did not tell.
    #[must_use]
    pub fn cpus(&self) -> Vec<usize> {
        let allowed =
            self.facts.get("cpu").and_then(|cpu| cpu.get("allowed")).and_then(Value::as_array);
        let cpu = |cpu: &Value| cpu.as_u64().and_then(|cpu| usize::try_from(cpu).ok());
        allowed.into_iter().flatten().filter_map(cpu).collect()
    }
}

/// Asks the agent of `host` at `address` what its host is, and how it reaches `destinations`;
/// `name` is what it is told of us.
///
/// # Errors
/// If it cannot be reached or does not let us in.
pub fn ask(
    host: &str,
    address: &HostAddress,
    keys: Option<&KeyStore>,
    name: &str,
    destinations: &[IpAddr],
) -> Result<HostFacts, ControlError> {
    let mut ours = Greeting::new(HelloRole::Conductor, name);
    ours.asks = Some(destinations.to_vec());
    let in_process = Agent::new(AgentOptions::default());
    let mut greeted = greet(host, address, keys, &in_process, &Timeouts::default(), ours)?;
    // It has answered; an agent that knows the question is gone already.
    let _ = frames::write(&mut *greeted.channel.writer, &Message::Goodbye);
    (greeted.channel.closer)();
    let Greeting { facts, routes, branches, .. } = *greeted.theirs;
    Ok(HostFacts { facts, routes, branches })
}
