//! Options of the path that an experiment measures: its place and its two ends.

use std::path::PathBuf;

use clap::Args;
use linerate_campaign::ends::Route;
use linerate_campaign::testbeds::Place;

use crate::args::REACH;
use crate::commands::measure::WaitArgs;

/// The path under test.
#[derive(Debug, Args)]
pub(crate) struct PathArgs {
    /// Receiver: a host with an agent, or with --lab or --testbed an endpoint [default: the second
    /// endpoint]
    #[arg(long, value_name = "HOST")]
    pub(crate) to: Option<String>,
    /// Sender: an endpoint [default: the first endpoint on another host]
    #[arg(long, value_name = "ENDPOINT")]
    pub(crate) from: Option<String>,
    /// Lab file or preset: hosts emulated on this machine
    #[arg(long, conflicts_with = "testbed")]
    pub(crate) lab: Option<String>,
    /// Testbed file: names of hosts, endpoints and CPUs
    #[arg(long)]
    pub(crate) testbed: Option<PathBuf>,
    #[arg(long, value_name = "COMMAND", requires = "to", conflicts_with_all = ["lab", "testbed"],
        help = REACH)]
    pub(crate) reach: Option<String>,
    #[command(flatten)]
    pub(crate) wait: WaitArgs,
}

impl PathArgs {
    /// Returns where the endpoints are.
    pub(crate) fn place(&self) -> Place {
        // In a lab, `--to` names an endpoint and no host.
        let to = if self.is_named() { None } else { self.to.clone() };
        let reach = self.reach.clone();
        Place { lab: self.lab.clone(), testbed: self.testbed.clone(), to, reach, servers: false }
    }

    /// Returns whether the place is a lab or testbed, whose endpoints have names. Otherwise `--to`
    /// names the host.
    fn is_named(&self) -> bool {
        self.lab.is_some() || self.testbed.is_some()
    }

    /// Returns the two ends.
    pub(crate) fn route(&self) -> Route {
        Route { to: self.to.clone(), from: self.from.clone(), is_named: self.is_named() }
    }
}
