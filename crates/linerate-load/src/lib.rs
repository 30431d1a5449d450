//! Load generation: an engine that runs workers on threads, and the workloads that they run.
//!
//! A [`Workload`] starts a passive end and an active end, and each end is a list of [`Worker`]s.
//! The engine owns threads, pacing, phases and intervals, so that no workload implements them.
//! [`Worker::step`] takes no lock, allocates nothing, writes no log and makes no dynamic call per
//! packet. It counts errors instead of printing them.
//!
//! # Examples
//! ```
//! use linerate_load::{WORKLOADS, workload};
//!
//! let tcp = workload("tcp_stream").expect("a known workload");
//! let streams = tcp.parameters().into_iter().find(|parameter| parameter.name == "streams");
//! assert!(streams.is_some());
//! assert!(WORKLOADS.iter().all(|workload| !workload.summary().is_empty()));
//! ```
//!
//! This crate does *not* read kernel counters (`linerate-observe`), judge figures
//! (`linerate-analysis`) or decide which trial runs next (`linerate-control`).

#![forbid(unsafe_code)]

pub mod engine;
mod error;
#[cfg(test)]
#[path = "../../../fuzz/driver.rs"]
mod fuzz_driver;
mod histogram;
mod operations;
mod pacer;
mod parameter;
mod permits;
pub mod pinned;
mod tally;
mod ticks;
mod workload;
pub mod workloads;

pub use error::{LoadError, Result};
use histogram::CoarseHistogram;
pub use histogram::Histogram;
pub use operations::Start;
pub use pacer::{BURST, Due, Pacer};
pub use parameter::{Parameter, Takes};
pub use permits::{Limits, Network, Permits};
pub use tally::{Histograms, Tally, Times};
pub use workload::{
    JobPorts, Listener, Offer, Patience, Progress, Secret, Setup, Worker, Workers, Workload,
};
pub use workloads::{FirstBytes, SharedPort, WORKLOADS, workload};
