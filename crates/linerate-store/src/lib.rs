//! The memory: the SQLite ledger. It holds observations, never conclusions.
//!
//! One file holds any number of campaigns, as a chain of records that are only ever appended: each
//! is an event, proven by a digest over itself and the record before it. [`Ledger`] is a
//! [`linerate_model::Recorder`]: events are queued by `record` and written in one transaction by
//! `flush`, so that a process killed at any moment loses at most what came after the last flush.
//! What [`Ledger::load`] gives is what [`linerate_model::Campaign::apply`] makes of the events; a
//! record that is damaged costs the trial it belongs to, by name. There is one writer at a time.
//! Files of every earlier schema open for ever; files of a later one are refused by name.

#![forbid(unsafe_code)]

mod blob;
mod budget;
mod chain;
mod codec;
mod error;
#[cfg(test)]
mod fuzz;
#[cfg(test)]
#[path = "../../../fuzz/driver.rs"]
mod fuzz_driver;
mod guard;
mod health;
mod lease;
mod ledger;
mod legacy;
mod load;
mod record;
mod schema;
mod seal;

pub use blob::BlobError;
pub use error::StoreError;
pub use health::{Health, Salvaged, examine, salvage};
pub use ledger::{Ledger, Which};
pub use load::{CampaignSummary, Loaded};
