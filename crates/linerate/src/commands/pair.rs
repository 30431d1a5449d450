//! `linerate pair`: exchange keys with another host, once.

use serde_json::json;

use crate::campaign::control_failure;
use crate::cli::{Global, PairAction, PairArgs};
use crate::exit::{Exit, Failure, Outcome};
use crate::{keys, testbeds};

/// Offers, accepts or lists.
pub(crate) fn run(args: PairArgs, global: Global) -> Outcome {
    let store = keys::open(args.keys)?;
    let own_name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    match args.action {
        PairAction::List => {
            let peers = store.peers().map_err(control_failure)?;
            if global.json {
                let list: Vec<_> = peers.iter().map(|peer| json!({ "name": peer.name, "key": peer.key.to_string() })).collect();
                println!("{}", json!({ "own_key": store.fingerprint().to_string(), "peers": list }));
            } else {
                println!("own key {}", store.fingerprint());
                peers.iter().for_each(|peer| println!("{}  {}", peer.key, peer.name));
            }
            Ok(Exit::Done)
        }
        PairAction::Offer { listen, name } => todo_offer(&store, listen, name, &own_name),
        PairAction::Accept { host, token, name } => todo_accept(&store, &host, &token, name, &own_name),
    }
}
