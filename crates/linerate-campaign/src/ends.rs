//! The two ends between which an experiment's load runs, its place, and the folder of its results.

use std::path::Path;

use linerate_model::Endpoint;

use crate::testbeds::{self, Ground, Place};
use crate::{Ended, Exit, Failure, Outcome, Result};

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
    ) -> Result<(&'e Endpoint, &'e Endpoint)> {
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

/// Prepares `place`, makes the folder `out`, runs `work`, and takes the place down.
///
/// # Errors
/// If the place or the folder cannot be made, or `work` fails.
pub fn on_ground(
    place: &Place,
    out: &Path,
    work: impl FnOnce(&mut Ground) -> Result<Exit, Ended>,
) -> Outcome {
    let mut ground = testbeds::prepare(place)?;
    make_folder(out)?;
    let ended = work(&mut ground);
    // A lab goes before the exit is decided: a failure must not leave it to the end of the process.
    ground.dismantle();
    Ended::outcome(ended)
}

/// Makes the folder `out` and those above it.
///
/// # Errors
/// If it cannot be made.
pub fn make_folder(out: &Path) -> Result<()> {
    std::fs::create_dir_all(out)
        .map_err(|error| Failure::missing(format!("create folder {}: {error}", out.display())))
}

/// Checks the lengths of a run, s.
///
/// # Errors
/// If there is nothing to measure, or a warm-up ends before it begins.
pub fn check_lengths(command: &str, seconds: Option<f64>, omit: f64) -> Result<()> {
    // A missing length means the default of the command.
    if seconds.is_none_or(|seconds| seconds > 0.0) && omit >= 0.0 {
        return Ok(());
    }
    Err(Failure::wrong(format!("{command}: --seconds must be above zero, and --omit zero or more")))
}

fn no_endpoint(command: &str, name: &str, endpoints: &[Endpoint]) -> Failure {
    let names: Vec<&str> = endpoints.iter().map(|endpoint| endpoint.name.as_str()).collect();
    let names = names.join(", ");
    Failure::wrong(format!("{command}: there is no endpoint {name} here (there are {names})"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_has_a_length_and_a_warm_up_never_ends_before_it_begins() {
        let fits = |seconds, omit| check_lengths("tune", seconds, omit).is_ok();
        assert!(fits(None, 0.0) && fits(Some(0.1), 2.0));
        assert!(!fits(Some(0.0), 0.0) && !fits(Some(1.0), -0.1) && !fits(None, -0.1));
    }
}
