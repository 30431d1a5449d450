//! `linerate pair`: exchange keys with another host.

use std::io::IsTerminal;
use std::net::{Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::{Args, Subcommand};
use linerate_campaign::keys;
use linerate_campaign::testbeds;
use linerate_control::pairing::{self, Token};
use linerate_control::wire::printable;
use linerate_control::{KeyStore, KnownPeer, Timeouts};
use linerate_model::HostAddress;
use rustix::process::{Signal, set_parent_process_death_signal};
use serde_json::json;

use crate::args::Global;
use crate::exit::{Exit, Failure, Outcome};

/// Port of an offer. It differs from the agent's, so that an agent may go on running.
const PAIRING_PORT: u16 = testbeds::AGENT_PORT + 1;

#[derive(Debug, Args)]
pub(crate) struct PairArgs {
    #[command(subcommand)]
    pub(crate) action: PairAction,
    /// Folder of the keys
    #[arg(long, env = "LINERATE_KEYS", global = true)]
    pub(crate) keys: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum PairAction {
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

/// Offers, accepts or lists.
pub(crate) fn run(args: PairArgs, global: Global) -> Outcome {
    let store = keys::open(args.keys)?;
    let own_name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    match args.action {
        PairAction::List => {
            let peers = store.peers()?;
            if global.json {
                let list: Vec<_> = peers
                    .iter()
                    .map(|peer| serde_json::to_value(peer).expect("a peer is text and numbers"))
                    .collect();
                println!(
                    "{}",
                    json!({ "own_key": store.fingerprint().to_string(), "peers": list })
                );
            } else {
                println!("own key {}", store.fingerprint());
                peers.iter().for_each(|peer| println!("{}", line(peer)));
            }
            Ok(Exit::Done)
        }
        PairAction::Offer { listen, for_agent } => {
            let port = if for_agent { testbeds::AGENT_PORT } else { PAIRING_PORT };
            let address = match listen.as_deref() {
                Some(text) => testbeds::resolve_listen(text, port)?,
                None => SocketAddr::from((Ipv6Addr::UNSPECIFIED, port)),
            };
            offer(store, address, for_agent, &own_name)
        }
        PairAction::Accept { host, token } => {
            let token = token.filter(|token| token != "-").map_or_else(token_from_input, Ok)?;
            accept(&store, &host, &token, &own_name)
        }
        PairAction::Forget { host } => match store.forget(&host)? {
            0 => Err(Failure::wrong(format!(
                "forget {host}: no paired host has this name, address or key (see `linerate pair \
                    list`)"
            ))),
            n => {
                let hosts = if n == 1 { "host" } else { "hosts" };
                println!("forgot {n} {hosts}: its sessions end within a second");
                Ok(Exit::Done)
            }
        },
        PairAction::Bind { host, address } => {
            println!("{}", line(&store.bind(&host, &testbeds::numbered(&address))?));
            Ok(Exit::Done)
        }
    }
}

/// Returns a peer in one line.
fn line(peer: &KnownPeer) -> String {
    let may: Vec<&str> = peer.may.iter().map(|right| right.name()).collect();
    let at = match &peer.addresses {
        Some(addresses) if !addresses.is_empty() => format!(" at {}", addresses.join(", ")),
        Some(_) => String::new(),
        None => " (no address yet: recorded at the next connection)".into(),
    };
    printable(&format!("{}  {}  {}{at}", peer.key, peer.name, may.join(", ")))
}

/// Reads the token from the first line of standard input.
pub(super) fn token_from_input() -> Result<String, Failure> {
    if std::io::stdin().is_terminal() {
        eprint!("token: ");
    }
    let mut token = String::new();
    let read = std::io::stdin().read_line(&mut token);
    read.map_err(|cause| Failure::wrong(format!("read the token from standard input: {cause}")))?;
    Ok(token.trim().to_owned())
}

fn offer(store: KeyStore, address: SocketAddr, for_agent: bool, own_name: &str) -> Outcome {
    if for_agent {
        // An agent that is killed while it waits must not leave an open offer at its port.
        let ended = set_parent_process_death_signal(Some(Signal::TERM));
        ended.map_err(|error| Failure::missing(format!("end with the agent: {error}")))?;
    }
    let offering = pairing::offer(store, own_name, address, pairing::VALIDITY)?;
    println!("{}", offering.token());
    let minutes = pairing::VALIDITY.as_secs() / 60;
    let address = offering.address();
    if for_agent {
        eprintln!("waiting {minutes} minutes on {address}; run on the host that measures:");
        for reached in testbeds::reachable(address) {
            eprintln!("  linerate to {reached} --token -");
        }
        eprintln!("then type the token");
    } else {
        eprintln!(
            "waiting {minutes} minutes on {address}; run on the host that measures: linerate pair \
                accept {own_name} (then type the token)"
        );
    }
    let peer = offering.wait()?;
    println!("paired with {}: {}", peer.name, line(&peer));
    Ok(Exit::Done)
}

/// Pairs with the agent at `address`, which was started with `--pair`, with the token from standard
/// input. Returns when that agent serves.
pub(super) fn with_agent(address: &str) -> Result<(), Failure> {
    /// Time in which the agent begins to serve after it was paired.
    const STARTED_WITHIN: Duration = Duration::from_secs(10);
    const LOOK_EVERY: Duration = Duration::from_millis(50);
    let token: Token = token_from_input()?.parse()?;
    let own_name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let store = keys::open(None)?;
    let peer = pairing::accept(&store, &own_name, address, &token)?;
    eprintln!("paired with {}: {}", peer.name, line(&peer));
    let until = Instant::now() + STARTED_WITHIN;
    let agent = HostAddress::Tcp(address.to_owned());
    loop {
        // The offer may still listen there for a moment. It has no facts.
        match linerate_control::ask(
            address,
            &agent,
            Some(&store),
            "linerate",
            &[],
            &Timeouts::default(),
        ) {
            Ok(answer) if !answer.facts.is_null() => return Ok(()),
            Err(error) if Instant::now() >= until => return Err(error.into()),
            // The measurement shows why it does not serve.
            Ok(_) if Instant::now() >= until => return Ok(()),
            _ => std::thread::sleep(LOOK_EVERY),
        }
    }
}

fn accept(store: &KeyStore, host: &str, token: &str, own_name: &str) -> Outcome {
    let token: Token = token.parse()?;
    let address = testbeds::with_port(host, PAIRING_PORT);
    let peer = pairing::accept(store, own_name, &address, &token)?;
    println!("paired with {}: {}", peer.name, line(&peer));
    Ok(Exit::Done)
}
