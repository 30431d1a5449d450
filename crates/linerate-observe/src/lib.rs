//! Samplers that read kernel counters during a trial, and facts about a host that are read once per
//! campaign.
//!
//! A sampler reads with `pread` on descriptors that stay open, and allocates nothing. The CPU time
//! that sampling costs is a metric of its own.
//!
//! # Examples
//! ```
//! use linerate_observe::{available_memory, sampler};
//!
//! let cpu = sampler("cpu").expect("a known sampler");
//! assert!(!cpu.summary.is_empty());
//! // /proc/meminfo is readable without privilege.
//! assert!(available_memory().is_some_and(|bytes| bytes > 0));
//! ```
//!
//! This crate does *not* judge what it reads, and it never replaces an unreadable value by zero:
//! the value is missing, with the reason.

#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod devices;
mod facts;
mod kernel_text;
mod labelled;
pub mod ncsi;
mod observer;
mod parts;
mod sampler;
pub mod samplers;
mod sampling;
mod snmp;
mod ways;
mod wrapping;

#[doc(hidden)]
pub use facts::read_any as read_any_fact;
pub use facts::{available_memory, facts};
pub use observer::{
    Digest, Ending, Observed, Observer, ObserverSource, ObserverSpec, SnmpAccess, SnmpAgent,
};
pub use parts::{carriers, cores};
pub use sampler::{Probe, Sampler, Scope, Unavailable};
pub use samplers::{SAMPLERS, sampler};
pub use sampling::Sampling;
pub use ways::{PacketRoute, towards};
