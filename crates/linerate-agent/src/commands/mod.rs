//! Command lines of the agent and of pairing, which the full program has too.

pub mod agent;
pub mod pair;

/// Where the lines of a command go.
#[derive(Clone, Copy, Debug)]
pub struct Console {
    /// What was asked for.
    pub out: fn(&str),
    /// What a person should know besides.
    pub err: fn(&str),
}
