//! The senses: samplers that read the kernel during a trial, and facts read once a campaign.
//!
//! Reading is by `pread` on descriptors kept open, without allocation; what it costs is itself a metric.

#![forbid(unsafe_code)]

mod facts;
mod sampler;
pub mod samplers;

pub use facts::facts;
pub use sampler::{Probe, Sampler, Sampling, Scope, Unavailable};
pub use samplers::{SAMPLERS, sampler};
