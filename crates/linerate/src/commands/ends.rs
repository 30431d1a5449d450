//! Between which ends of which place an experiment's load runs.

use std::path::PathBuf;

use clap::Args;
use linerate_campaign::ends::Route;
use linerate_campaign::testbeds::Place;

/// The path that a command puts to the test: where it is, and its two ends.
#[derive(Debug, Args)]
pub(crate) struct PathArgs {
    /// The host that receives: an agent's host, or with --lab or --testbed an endpoint [default:
    /// the second one]
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

    /// Whether the place is a lab or testbed, whose endpoints have names; else the host of `--to`
    /// is reached.
    fn is_named(&self) -> bool {
        self.lab.is_some() || self.testbed.is_some()
    }

    /// Its two ends.
    pub(crate) fn route(&self) -> Route {
        Route { to: self.to.clone(), from: self.from.clone(), is_named: self.is_named() }
    }
}
