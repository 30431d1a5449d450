//! `linerate pair`: exchange keys with another host, once.

use std::net::{Ipv6Addr, SocketAddr};

use linerate_control::KeyStore;
use linerate_control::pairing::{self, Token};
use serde_json::json;

use crate::cli::{Global, PairAction, PairArgs};
use crate::exit::{Exit, Outcome};
use crate::{keys, testbeds};

/// The port of an offer: beside the agent's, so that an agent may go on running.
const PAIRING_PORT: u16 = testbeds::AGENT_PORT + 1;

/// Offers, accepts or lists.
pub(crate) fn run(args: PairArgs, global: Global) -> Outcome {
    let store = keys::open(args.keys)?;
    let own_name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    match args.action {
        PairAction::List => {
            let peers = store.peers()?;
            if global.json {
                let list: Vec<_> =
                    peers.iter().map(|peer| json!({ "name": peer.name, "key": peer.key.to_string() })).collect();
                println!("{}", json!({ "own_key": store.fingerprint().to_string(), "peers": list }));
            } else {
                println!("own key {}", store.fingerprint());
                peers.iter().for_each(|peer| println!("{}  {}", peer.key, peer.name));
            }
            Ok(Exit::Done)
        }
        PairAction::Offer { listen } => offer(store, listen.as_deref(), &own_name),
        PairAction::Accept { host, token } => accept(&store, &host, &token, &own_name),
    }
}

fn offer(store: KeyStore, listen: Option<&str>, own_name: &str) -> Outcome {
    let address = match listen {
        Some(text) => testbeds::resolve_listen(text, PAIRING_PORT)?,
        None => SocketAddr::from((Ipv6Addr::UNSPECIFIED, PAIRING_PORT)),
    };
    let offering = pairing::offer(store, own_name, address, pairing::VALIDITY)?;
    println!("{}", offering.token());
    let minutes = pairing::VALIDITY.as_secs() / 60;
    eprintln!(
        "waiting {minutes} minutes on {}; on the host that measures: linerate pair accept {own_name} {}",
        offering.address(),
        offering.token()
    );
    let peer = offering.wait()?;
    println!("paired with {} {}", peer.name, peer.key);
    Ok(Exit::Done)
}

fn accept(store: &KeyStore, host: &str, token: &str, own_name: &str) -> Outcome {
    let token: Token = token.parse()?;
    let address = testbeds::with_port(host, PAIRING_PORT);
    let peer = pairing::accept(store, own_name, &address, &token)?;
    println!("paired with {} {}", peer.name, peer.key);
    Ok(Exit::Done)
}
