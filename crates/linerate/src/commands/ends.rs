//! Which endpoints of a place an experiment's load runs between.

use linerate_model::Endpoint;

use crate::exit::Failure;

/// The endpoint at a host that is reached with `--to`.
pub(crate) const REACHED: &str = "b";

/// What a person said of the two ends.
pub(crate) struct Asked<'a> {
    /// The command, for what it complains of.
    pub(crate) command: &'static str,
    /// Whether the place is a lab or testbed, whose endpoints have names; else the host of `to` is reached.
    pub(crate) named: bool,
    /// The end that receives: an endpoint, or a host that has one.
    pub(crate) to: Option<&'a str>,
    /// The end that sends.
    pub(crate) from: Option<&'a str>,
}

impl Asked<'_> {
    /// Sender and receiver among `endpoints`: without `to` the second one receives, without `from` the first one of another host
    /// sends.
    ///
    /// # Errors
    /// If there is no such endpoint; told with those that there are.
    pub(crate) fn among<'e>(&self, endpoints: &'e [Endpoint]) -> Result<(&'e Endpoint, &'e Endpoint), Failure> {
        let names = || endpoints.iter().map(|endpoint| endpoint.name.as_str()).collect::<Vec<_>>().join(", ");
        let wrong = |name: &str| {
            Failure::wrong(format!("{}: there is no endpoint {name} here (there are {})", self.command, names()))
        };
        let find = |name: &str| endpoints.iter().find(|e| e.name == name || e.host == name);
        let to = match self.to {
            Some(name) if self.named => find(name).ok_or_else(|| wrong(name))?,
            Some(_) => find(REACHED).ok_or_else(|| wrong(REACHED))?,
            None => endpoints.get(1).ok_or_else(|| wrong("to send to"))?,
        };
        let from = match self.from {
            Some(name) => find(name).filter(|from| from.name != to.name).ok_or_else(|| wrong(name))?,
            None => endpoints.iter().find(|from| from.host != to.host).ok_or_else(|| wrong("elsewhere"))?,
        };
        Ok((from, to))
    }
}
