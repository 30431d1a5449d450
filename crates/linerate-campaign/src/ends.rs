//! The two ends between which an experiment's load runs.

use linerate_model::Endpoint;

use crate::Failure;

/// Name of the endpoint on the host of `--to`.
pub const REACHED: &str = "b";

/// The path that a person named.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Route {
    /// Receiver: a host, or an endpoint.
    pub to: Option<String>,
    /// Sender: an endpoint.
    pub from: Option<String>,
    /// True if the place is a lab or testbed, whose endpoints have names. Otherwise `to` names a
    /// host.
    pub is_named: bool,
}

impl Route {
    /// Returns sender and receiver among `endpoints`. Without `--to` the second one receives;
    /// without `--from` the first one on another host sends. `command` begins the message of an
    /// error.
    ///
    /// # Errors
    /// If there is no such endpoint. The message lists those that there are.
    pub fn among<'e>(
        &self,
        command: &str,
        endpoints: &'e [Endpoint],
    ) -> Result<(&'e Endpoint, &'e Endpoint), Failure> {
        let wrong = |name: &str| no_endpoint(command, name, endpoints);
        // A person may name an endpoint or its host; in a testbed both are unique.
        let find = |name: &str| endpoints.iter().find(|e| e.name == name || e.host == name);
        let to = match &self.to {
            Some(name) if self.is_named => find(name).ok_or_else(|| wrong(name))?,
            // `--to HOST` makes a testbed of two endpoints, whose names are fixed.
            Some(_) => find(REACHED).ok_or_else(|| wrong(REACHED))?,
            None => endpoints.get(1).ok_or_else(|| wrong("to send to"))?,
        };
        let from = match &self.from {
            Some(name) => {
                // A path needs two different endpoints.
                find(name).filter(|from| from.name != to.name).ok_or_else(|| wrong(name))?
            }
            // On loopback, and for a load on a disk, both ends belong to this host.
            None => endpoints
                .iter()
                // Another host first, because a path within one host says nothing about the
                // network.
                .find(|from| from.host != to.host)
                .or_else(|| endpoints.iter().find(|from| from.name != to.name))
                .ok_or_else(|| wrong("to send from"))?,
        };
        Ok((from, to))
    }
}

fn no_endpoint(command: &str, name: &str, endpoints: &[Endpoint]) -> Failure {
    let names: Vec<&str> = endpoints.iter().map(|endpoint| endpoint.name.as_str()).collect();
    let names = names.join(", ");
    Failure::wrong(format!("{command}: there is no endpoint {name} here (there are {names})"))
}
