//! Malicious peers with valid keys, for `cargo xtask torture peers`: they speak the protocol, and
//! want others to load a third host.
//!
//! | Command | Is |
//! |---|---|
//! | `peers conductor KEYS AGENT OWN VICTIM ATTACK WORKLOADS` | a paired conductor at OWN; prints how each trial ended |
//! | `peers agent KEYS LISTEN VICTIM ATTACK` | an agent that paired conductors reach at LISTEN, until standard input ends |
//! | `peers victim ADDRESS` | a third host that takes connections and proves nothing, until standard input ends; prints what came |
//!
//! WORKLOADS is `all`, or `few` for one of each kind.

mod agent;
mod attack;
mod conductor;
mod victim;

use std::io::Read;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match words[..] {
        ["conductor", keys, agent, own, victim, attack, workloads] => {
            conductor::run(keys, agent, own, victim, attack, workloads == "few")
        }
        ["agent", keys, listen, victim, attack] => agent::run(keys, listen, victim, attack),
        ["victim", address] => victim::run(address),
        _ => Err("usage: peers conductor KEYS AGENT OWN VICTIM ATTACK WORKLOADS | agent KEYS \
            LISTEN VICTIM ATTACK | victim ADDRESS"
            .into()),
    };
    if let Err(error) = outcome {
        eprintln!("peers: {error}");
        std::process::exit(2);
    }
}

/// What goes wrong here is printed and ends the program.
type Outcome = Result<(), Box<dyn std::error::Error>>;

/// Waits until whoever started this process ends its standard input, or itself.
fn wait_for_the_end() -> Outcome {
    std::io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}
