//! Command lines of the agent and of pairing, which the full program has too.

pub mod agent;
pub mod pair;
