//! `pair`: exchange keys with another host.

use std::io::{IsTerminal, Write};
use std::path::PathBuf;

use clap::{Args, Subcommand};
use linerate_control::KnownPeer;
use linerate_model::failure::{Exit, Failure, Outcome};
use serde_json::json;

use super::Console;
use crate::addresses::numbered;
use crate::keys;
use crate::pairing::{self, line};

/// Command line of pairing.
#[derive(Debug, Args)]
pub struct PairArgs {
    /// What is to be done
    #[command(subcommand)]
    pub action: PairAction,
    /// Folder of the keys
    #[arg(long, env = "LINERATE_KEYS", global = true)]
    pub keys: Option<PathBuf>,
}

/// Steps of pairing.
#[derive(Debug, Subcommand)]
pub enum PairAction {
    /// On the host to be measured: print a one-time token and wait for the other host
    Offer {
        /// Address to listen on
        #[arg(long)]
        listen: Option<String>,
        /// Offer at the port of an agent that starts afterwards
        #[arg(long, hide = true)]
        for_agent: bool,
    },
    /// On the host that measures: use the token
    Accept {
        /// Host that offers
        host: String,
        /// Token that it printed; without one, or with `-`, it is read from standard input, so that
        /// no list of processes shows it
        token: Option<String>,
    },
    /// Print this host's fingerprint, and the name, rights and addresses of each peer
    List,
    /// Forget a paired host: it may no longer measure here nor be measured from here; its sessions
    /// end within a second
    Forget {
        /// Its name, or its key
        host: String,
    },
    /// Add an address at which a paired host is reached
    Bind {
        /// Its name, or its key where several have the name
        host: String,
        /// The name or address
        address: String,
    },
}

/// Offers, accepts or lists; as JSON with `is_json`.
///
/// # Errors
/// If the keys, the other host or the token cannot be used.
pub fn run(args: PairArgs, is_json: bool, console: Console) -> Outcome {
    let Console { out, err } = console;
    let store = keys::open(args.keys)?;
    match args.action {
        PairAction::List => {
            let peers = store.peers()?;
            let own = store.fingerprint();
            if is_json {
                out(&json!({ "own_key": own.to_string(), "peers": peers }).to_string());
            } else {
                out(&format!("own key {own}"));
                peers.iter().for_each(|peer| out(&line(peer)));
            }
        }
        PairAction::Offer { listen, for_agent } => {
            let offering = pairing::offer(store, listen.as_deref(), for_agent)?;
            out(&offering.token().to_string());
            let lines = pairing::instructions(offering.address(), for_agent);
            lines.iter().for_each(|line| err(line));
            out(&paired(&offering.wait()?));
        }
        PairAction::Accept { host, token } => {
            let token = token.filter(|token| token != "-").map_or_else(token_from_input, Ok)?;
            out(&paired(&pairing::accept(&store, &host, &token)?));
        }
        PairAction::Forget { host } => match store.forget(&host)? {
            0 => {
                return Err(Failure::wrong(format!(
                    "forget {host}: no paired host has this name, address or key (see `linerate \
                        pair list`)"
                )));
            }
            n => {
                let hosts = if n == 1 { "host" } else { "hosts" };
                out(&format!("forgot {n} {hosts}: its sessions end within a second"));
            }
        },
        PairAction::Bind { host, address } => {
            out(&line(&store.bind(&host, &numbered(&address))?));
        }
    }
    Ok(Exit::Done)
}

fn paired(peer: &KnownPeer) -> String {
    format!("paired with {}: {}", peer.name, line(peer))
}

/// Reads the token from the first line of standard input.
fn token_from_input() -> Result<String, Failure> {
    if std::io::stdin().is_terminal() {
        // A person who closed it types without being asked.
        let _asked = std::io::stderr().write_all(b"token: ");
    }
    let mut token = String::new();
    let read = std::io::stdin().read_line(&mut token);
    read.map_err(|cause| Failure::wrong(format!("read the token from standard input: {cause}")))?;
    Ok(token.trim().to_owned())
}

/// Pairs with the agent at `address`, which was started with `--pair`, with the token from standard
/// input. Returns when that agent serves.
pub fn with_agent(address: &str, console: Console) -> Result<(), Failure> {
    pairing::with_agent(address, &token_from_input()?, |peer| (console.err)(&paired(peer)))
}
