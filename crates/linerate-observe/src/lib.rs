//! The senses: samplers that read the kernel during a trial, and facts read once a campaign.
//!
//! Reading is by `pread` on descriptors kept open, without allocation; what it costs is itself a
//! metric.

#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod devices;
mod facts;
mod kernel_text;
mod labelled;
pub mod ncsi;
mod observer;
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
pub use sampler::{Probe, Sampler, Scope, Unavailable};
pub use samplers::{SAMPLERS, sampler};
pub use sampling::Sampling;
pub use ways::{PacketRoute, towards};
