//! The ledger: an SQLite file that records observations, never conclusions.
//!
//! One file holds any number of campaigns as a chain of records. Records are only appended; each is
//! an event with a digest over itself and the record before it. [`Ledger`] implements
//! [`linerate_model::Recorder`]: `record` queues events and `flush` writes them in one transaction,
//! so that a process killed at any moment loses at most what came after the last flush.
//! [`Ledger::load`] returns what [`linerate_model::Campaign::apply`] makes of the events. A damaged
//! record costs the trial that it belongs to, and the damage is named. There is one writer at a
//! time. Files of every earlier schema open; files of a later schema are refused.
//!
//! # Examples
//! ```
//! use linerate_model::{CampaignHeader, Event, Nanos, Recorder, TestbedKind};
//! use linerate_store::{Ledger, Which};
//!
//! let header = CampaignHeader {
//!     id: "20261121T000500Z-7f3a".into(),
//!     name: "example".into(),
//!     started: Nanos(1_795_219_500_000_000_000),
//!     plan: String::new(),
//!     plan_sha256: String::new(),
//!     lab: None,
//!     seed: 42,
//!     testbed: TestbedKind::Loopback,
//!     capacities: Vec::new(),
//!     path: Vec::new(),
//!     observed: Vec::new(),
//!     version: "0.1.0".into(),
//!     argv: Vec::new(),
//! };
//! let directory = tempfile::tempdir()?;
//! let path = directory.path().join("example.ledger");
//! let mut ledger = Ledger::create(&path)?;
//! ledger.record(&Event::CampaignStarted(Box::new(header.clone())))?;
//! ledger.flush()?;
//! drop(ledger);
//!
//! let campaign = Ledger::open_read_only(&path)?.load(Which::Latest)?;
//! assert_eq!(campaign.header, header);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! This crate does *not* judge a campaign (`linerate-analysis`), and it does not protect a ledger
//! from somebody who can rewrite the whole file: the digests detect damage, not forgery.

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
mod recording;
mod schema;
mod seal;

pub use blob::BlobError;
pub use error::{Result, StoreError};
pub use health::{Health, Salvaged, examine, salvage};
pub use ledger::{Ledger, Which};
pub use load::{CampaignSummary, Loaded};
pub use recording::Recording;
