//! Campaigns from a plan to a ledger, and the ladders of campaigns that `diagnose` and `tune`
//! climb.
//!
//! | Module | |
//! |---|---|
//! | [`catalog`] | plans and labs that come with the program |
//! | [`checks`] | a plan read, checked and expanded on a testbed; rates and searches resolved |
//! | [`testbeds`] | a lab, a host or a testbed file as hosts and endpoints |
//! | [`conduct`] | a campaign run into a ledger |
//! | [`stages`] | the small trait that ladders are written against: "run this plan, give me what was recorded" |
//! | [`diagnose`], [`tune`] | the ladders |
//!
//! The ladders decide, and decide nothing else: they open no socket and no file, so that they are
//! tested with simulated hosts in virtual time. What this crate does *not* do: read a command line,
//! or print.

#![forbid(unsafe_code)]

mod addresses;
mod arms;
pub mod catalog;
pub mod checks;
pub mod conduct;
mod devices;
pub mod diagnose;
pub mod ends;
mod failure;
pub mod keys;
mod observers;
mod places;
mod rates;
pub mod sandbox;
mod searches;
#[cfg(test)]
mod simulated;
pub mod stages;
pub mod testbeds;
pub mod tune;

pub use failure::{Cause, Ended, Exit, Failure, Outcome};
