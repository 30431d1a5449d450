//! Arguments of the agent, and its run.

use std::path::PathBuf;

use clap::Args;
use linerate_model::failure::{Exit, Outcome};

use super::Console;
use crate::pairing;
use crate::serving::{self, AgentQuestion};

/// Command line of the agent.
#[derive(Debug, Args)]
pub struct AgentArgs {
    /// Address to listen on; other than loopback only with a paired key [default: every address
    /// when paired, else loopback]
    #[arg(long)]
    pub listen: Option<String>,
    /// First print a one-time token and the addresses of this host, and wait until another host has
    /// paired with `linerate to HOST --token -`; then serve it
    #[arg(long, conflicts_with = "stdio")]
    pub pair: bool,
    /// Serve one campaign, such as one `linerate to`, then end
    #[arg(short = '1', long, conflicts_with = "stdio")]
    pub one_off: bool,
    /// Serve on standard input and output, for ssh
    #[arg(long, conflicts_with = "listen")]
    pub stdio: bool,
    /// Folder of the keys
    #[arg(long, env = "LINERATE_KEYS")]
    pub keys: Option<PathBuf>,
    /// Policy: the rights of paired conductors [default: /etc/linerate/agent.toml if it exists;
    /// with --stdio, all rights of this user]
    #[arg(long, value_name = "FILE")]
    pub policy: Option<PathBuf>,
    /// Let a conductor change settings of this device: the windows of its routes, RPS, XPS,
    /// threaded NAPI, GRO, GSO, TSO, coalescing, rings and interrupts; with `host`: tcp_rmem,
    /// tcp_wmem, the congestion control and the CPU quota of the agent's control group. They are
    /// put back when it leaves
    #[arg(long, value_name = "DEVICE")]
    pub allow_tune: Vec<String>,
    /// Let a conductor's jobs write to the disk with this serial number, once it is claimed
    /// (linerate disk claim)
    #[arg(long, value_name = "SERIAL")]
    pub allow_write: Vec<String>,
    /// Let a conductor's jobs serve the files in this folder to any client (`root` of the `ftp` and
    /// `http` workloads)
    #[arg(long, value_name = "FOLDER")]
    pub allow_serve: Vec<PathBuf>,
}

/// Serves conductors until it is interrupted, or one of them on the standard streams until it
/// leaves. With `is_quiet` only errors are reported.
///
/// # Errors
/// If the policy, the keys or the address cannot be used.
pub fn run(args: AgentArgs, is_quiet: bool, console: Console) -> Outcome {
    if args.pair {
        pairing::before_agent(args.listen.as_deref(), args.keys.as_deref())?;
    }
    let question = AgentQuestion {
        listen: args.listen,
        on_stdio: args.stdio,
        is_one_off: args.one_off,
        keys: args.keys,
        policy: args.policy,
        tune: args.allow_tune,
        write: args.allow_write,
        serve: args.allow_serve,
        is_quiet,
    };
    serving::serve(&question, console.err)?;
    Ok(Exit::Done)
}
