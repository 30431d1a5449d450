//! Malicious peers with valid keys, for `cargo xtask torture peers`: they follow the
//! protocol, and try to make other hosts load a third one.
//!
//! - `peers conductor KEYS AGENT OWN VICTIM ATTACK WORKLOADS`: a paired conductor at OWN, which
//!   prints the end of each trial.
//! - `peers agent KEYS LISTEN VICTIM ATTACK`: an agent at LISTEN, until standard input ends.
//! - `peers victim ADDRESS`: a third host that accepts connections and proves nothing, until
//!   standard input ends; then it prints its counts.
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

/// Result of a command. An error is printed and ends the program.
type Outcome = Result<(), Box<dyn std::error::Error>>;

/// Waits for the end of standard input, also by the end of the process that started this one.
fn wait_for_the_end() -> Outcome {
    std::io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}
