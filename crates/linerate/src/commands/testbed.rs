//! `linerate testbed`: testbed files.

use clap::{Args, Subcommand};
use linerate_campaign::outline;

use crate::exit::{Exit, Outcome};

#[derive(Debug, Args)]
pub(crate) struct TestbedArgs {
    #[command(subcommand)]
    pub(crate) action: TestbedAction,
}

#[derive(Debug, Subcommand)]
pub(crate) enum TestbedAction {
    /// Print a testbed file with this host and others: addresses, interfaces with their speeds, and
    /// the CPUs of their NUMA nodes
    Init {
        /// Hosts with an agent (`host`, `host:port`), or `ssh:HOST`
        #[arg(required = true)]
        hosts: Vec<String>,
    },
}

/// Carries out `action`.
pub(crate) fn run(action: &TestbedAction) -> Outcome {
    let TestbedAction::Init { hosts } = action;
    print!("{}", outline::testbed_file(hosts)?);
    Ok(Exit::Done)
}
