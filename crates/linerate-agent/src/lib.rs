//! The agent of a host: its rights, its keys, and its pairing with other hosts.
//!
//! | Module | Content |
//! |---|---|
//! | [`serving`] | serves conductors with the rights of a policy, and puts back what they changed |
//! | [`policy`], [`separation`] | rights that an agent grants, and those that it keeps itself |
//! | [`keys`], [`pairing`] | keys of this host, and how another one learns them |
//! | [`addresses`] | addresses as people write them |
//! | [`commands`] | command lines of the agent and of pairing |
//!
//! The program `linerate-agent` has only these commands: for hosts with little memory, such as a
//! BMC. It needs no ledger, report or lab, and is not linked with them.
//!
//! # Examples
//! ```
//! assert_eq!(linerate_agent::addresses::with_port("192.0.2.7", 4777), "192.0.2.7:4777");
//! assert_eq!(linerate_agent::addresses::with_port("fe80::1", 4777), "[fe80::1]:4777");
//! ```
//!
//! This crate does *not* begin measurements.

#![forbid(unsafe_code)]

pub mod addresses;
pub mod commands;
pub mod keys;
pub mod pairing;
pub mod policy;
pub mod separation;
pub mod serving;
