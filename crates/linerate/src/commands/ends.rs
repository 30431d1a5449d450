//! Between which ends of which place an experiment's load runs.

use std::path::PathBuf;

use clap::Args;
use linerate_model::Endpoint;

use crate::cli::Place;
use crate::exit::Failure;

/// The endpoint at a host that is reached with `--to`.
pub(crate) const REACHED: &str = "b";

/// The path that a command puts to the test: where it is, and its two ends.
#[derive(Debug, Args)]
pub(crate) struct PathArgs {
    /// The host that receives: an agent's host, or with --lab or --testbed an endpoint [default: the second one]
    #[arg(long, value_name = "HOST")]
    pub(crate) to: Option<String>,
    /// The endpoint that sends [default: the first one elsewhere]
    #[arg(long, value_name = "ENDPOINT")]
    pub(crate) from: Option<String>,
    /// A lab file or preset: hosts emulated on this machine
    #[arg(long, conflicts_with = "testbed")]
    pub(crate) lab: Option<String>,
    /// A testbed file: hosts, endpoints and CPUs by name
    #[arg(long)]
    pub(crate) testbed: Option<PathBuf>,
}

impl PathArgs {
    /// Where the endpoints are.
    pub(crate) fn place(&self) -> Place {
        let to = if self.is_named() { None } else { self.to.clone() };
        Place { lab: self.lab.clone(), testbed: self.testbed.clone(), to }
    }

    /// Whether the place is a lab or testbed, whose endpoints have names; else the host of `--to` is reached.
    fn is_named(&self) -> bool {
        self.lab.is_some() || self.testbed.is_some()
    }

    /// Sender and receiver among `endpoints`: without `--to` the second one receives, without `--from` the first one of another
    /// host sends. `command` is who complains.
    ///
    /// # Errors
    /// If there is no such endpoint; told with those that there are.
    pub(crate) fn among<'e>(
        &self,
        command: &str,
        endpoints: &'e [Endpoint],
    ) -> Result<(&'e Endpoint, &'e Endpoint), Failure> {
        let names = || endpoints.iter().map(|endpoint| endpoint.name.as_str()).collect::<Vec<_>>().join(", ");
        let wrong =
            |name: &str| Failure::wrong(format!("{command}: there is no endpoint {name} here (there are {})", names()));
        let find = |name: &str| endpoints.iter().find(|e| e.name == name || e.host == name);
        let to = match &self.to {
            Some(name) if self.is_named() => find(name).ok_or_else(|| wrong(name))?,
            Some(_) => find(REACHED).ok_or_else(|| wrong(REACHED))?,
            None => endpoints.get(1).ok_or_else(|| wrong("to send to"))?,
        };
        let from = match &self.from {
            Some(name) => find(name).filter(|from| from.name != to.name).ok_or_else(|| wrong(name))?,
            // Nothing was named: both ends are this host's, as of a load on one of its disks.
            None if self.to.is_none() && !self.is_named() => {
                endpoints.iter().find(|from| from.name != to.name).ok_or_else(|| wrong("to send from"))?
            }
            None => endpoints.iter().find(|from| from.host != to.host).ok_or_else(|| wrong("elsewhere"))?,
        };
        Ok((from, to))
    }
}
