//! The reach: wire protocol, agent and conductor.

#![forbid(unsafe_code)]
