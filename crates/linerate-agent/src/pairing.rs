//! Pairing of two hosts with a one-time token, and agents that start with it.

use std::net::{Ipv6Addr, SocketAddr};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use linerate_control::pairing::{self, Offering, Token};
use linerate_control::wire::printable;
use linerate_control::{KeyStore, KnownPeer, Timeouts};
use linerate_model::failure::{Failure, Result};
use linerate_model::{AGENT_PORT, HostAddress};
use rustix::process::{Signal, set_parent_process_death_signal};

use crate::addresses::{reachable, resolve_listen, with_port};
use crate::keys;

/// Port of an offer. It differs from the agent's, so that an agent may go on running.
pub const PORT: u16 = AGENT_PORT + 1;

/// Returns a peer in one line.
#[must_use]
pub fn line(peer: &KnownPeer) -> String {
    let may: Vec<&str> = peer.may.iter().map(|right| right.name()).collect();
    let at = match &peer.addresses {
        Some(addresses) if !addresses.is_empty() => format!(" at {}", addresses.join(", ")),
        Some(_) => String::new(),
        None => " (no address yet: recorded at the next connection)".into(),
    };
    printable(&format!("{}  {}  {}{at}", peer.key, peer.name, may.join(", ")))
}

/// Offers to be paired at `listen`, by default at every address. The offer `for_agent` is at the
/// port of an agent that starts afterwards, and ends with the process that waits for it.
///
/// # Errors
/// If the address cannot be listened on.
pub fn offer(store: KeyStore, listen: Option<&str>, for_agent: bool) -> Result<Offering> {
    let port = if for_agent { AGENT_PORT } else { PORT };
    let address = match listen {
        Some(text) => resolve_listen(text, port)?,
        None => SocketAddr::from((Ipv6Addr::UNSPECIFIED, port)),
    };
    if for_agent {
        // An agent that is killed while it waits must not leave an open offer at its port.
        let ended = set_parent_process_death_signal(Some(Signal::TERM));
        ended.map_err(|error| Failure::missing(format!("end with the agent: {error}")))?;
    }
    Ok(pairing::offer(store, &keys::own_name(), address, pairing::VALIDITY)?)
}

/// Returns what a person does with an offer at `address`, a line each.
#[must_use]
pub fn instructions(address: SocketAddr, for_agent: bool) -> Vec<String> {
    let minutes = pairing::VALIDITY.as_secs() / 60;
    let waiting = format!("waiting {minutes} minutes on {address}; run on the host that measures:");
    if !for_agent {
        let name = keys::own_name();
        return vec![format!("{waiting} linerate pair accept {name} (then type the token)")];
    }
    let reached = reachable(address).into_iter();
    let commands = reached.map(|reached| format!("  linerate to {reached} --token -"));
    let last = "then type the token".to_owned();
    std::iter::once(waiting).chain(commands).chain([last]).collect()
}

/// Pairs with `host`, which offers, by the token that it printed.
///
/// # Errors
/// If the token is not its own, or the host cannot be reached.
pub fn accept(store: &KeyStore, host: &str, token: &str) -> Result<KnownPeer> {
    let token: Token = token.parse()?;
    let address = with_port(host, PORT);
    Ok(pairing::accept(store, &keys::own_name(), &address, &token)?)
}

/// Pairs with the agent at `address`, which was started with `--pair`, and waits until it serves.
/// The peer goes to `on_paired`.
///
/// # Errors
/// If the token is not its own, or the agent does not serve.
pub fn with_agent(address: &str, token: &str, on_paired: impl FnOnce(&KnownPeer)) -> Result<()> {
    /// Time in which the agent begins to serve after it was paired.
    const STARTED_WITHIN: Duration = Duration::from_secs(10);
    const LOOK_EVERY: Duration = Duration::from_millis(50);
    let token: Token = token.parse()?;
    let store = keys::open(None)?;
    on_paired(&pairing::accept(&store, &keys::own_name(), address, &token)?);
    let until = Instant::now() + STARTED_WITHIN;
    let agent = HostAddress::Tcp(address.to_owned());
    let timeouts = Timeouts::default();
    loop {
        // The offer may still listen there for a moment. It has no facts.
        match linerate_control::ask(address, &agent, Some(&store), "linerate", &[], &timeouts) {
            Ok(answer) if !answer.facts.is_null() => return Ok(()),
            Err(error) if Instant::now() >= until => return Err(error.into()),
            // The measurement shows why it does not serve.
            Ok(_) if Instant::now() >= until => return Ok(()),
            _ => std::thread::sleep(LOOK_EVERY),
        }
    }
}

/// Waits in a process of its own until a host has been paired at the port of an agent that starts
/// afterwards. The agent itself never accepts a key that it does not know.
///
/// # Errors
/// If no host was paired.
pub fn before_agent(listen: Option<&str>, keys: Option<&Path>) -> Result<()> {
    let failed = |cause: &dyn std::fmt::Display| {
        Failure::missing(format!("wait for a host to be paired: {cause}"))
    };
    let program = std::env::current_exe().map_err(|error| failed(&error))?;
    let everywhere = SocketAddr::from((Ipv6Addr::UNSPECIFIED, AGENT_PORT)).to_string();
    let mut command = Command::new(program);
    command.args(["pair", "offer", "--for-agent", "--listen"]);
    command.arg(listen.unwrap_or(&everywhere));
    if let Some(keys) = keys {
        command.arg("--keys").arg(keys);
    }
    let ended = command.status().map_err(|error| failed(&error))?;
    // The other process has printed the reason.
    if ended.success() { Ok(()) } else { Err(failed(&"no host was paired")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_offer_says_which_command_uses_its_token() {
        let address = SocketAddr::from(([127, 0, 0, 1], PORT));
        let [line] = &instructions(address, false)[..] else { panic!("one line") };
        let command = format!("linerate pair accept {}", keys::own_name());
        assert!(line.starts_with("waiting ") && line.contains(&command), "{line}");
        let lines = instructions(SocketAddr::from(([127, 0, 0, 1], AGENT_PORT)), true);
        assert!(lines[1].starts_with("  linerate to 127.0.0.1"), "{lines:?}");
        assert_eq!(lines.last().map(String::as_str), Some("then type the token"));
    }
}
