//! The memory: the SQLite ledger. It holds observations, never conclusions.
//!
//! One file holds any number of campaigns. [`Ledger`] is a [`linerate_model::Recorder`]: events are queued by `record`
//! and written in one transaction by `flush`, so that a process killed at any moment loses at most what came after
//! the last flush. What [`Ledger::load`] gives is what [`linerate_model::Campaign::apply`] would have made of the same
//! events. Files of every earlier schema open for ever; files of a later one are refused by name.

#![forbid(unsafe_code)]

mod blob;
mod error;
mod ledger;
mod load;
mod record;
mod schema;

pub use blob::BlobError;
pub use error::StoreError;
pub use ledger::{Ledger, Which};
pub use load::CampaignSummary;
