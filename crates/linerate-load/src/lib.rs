//! The stimulus: an engine that runs workers on pinned threads, and the workloads they carry.
//!
//! A workload is two ways to start and one way to step. Threads, pacing, phases and intervals
//! belong to the engine, once. In [`Worker::step`] there is no lock, allocation, log, format or
//! per-packet dynamic call: errors are counted.

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

pub use error::LoadError;
use histogram::CoarseHistogram;
pub use histogram::Histogram;
pub use operations::Start;
pub use pacer::{BURST, Due, Pacer};
pub use parameter::{ParamDoc, Takes};
pub use permits::{Limits, Network, Permits};
pub use tally::{Tally, Times};
pub use workload::{Listener, Offer, Progress, Secret, Setup, Worker, Workload};
pub use workloads::{WORKLOADS, workload};
