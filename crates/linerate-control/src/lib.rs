//! Conductor and agents: how they find, authenticate and understand each other, and what each of
//! them does.
//!
//! An [`Agent`] measures; [`conductor::run`] decides what is measured next. They exchange
//! length-prefixed frames of JSON ([`wire`]) over TLS with pinned keys, over the standard streams
//! of a command (ssh), or inside one process. The codec is the same everywhere. Keys are exchanged
//! once, with a one-time token ([`pairing`]).
//!
//! An agent can be two processes: one without privileges that talks to conductors, and a [`broker`]
//! that performs the few privileged operations.
//!
//! [`flow_probe`] is the only part that sends test traffic by itself: a few datagrams per port, to
//! learn through which interface a flow leaves.
//!
//! # Examples
//! ```
//! use linerate_control::wire::{decode, encode, Greeting, HelloRole, Message};
//!
//! let hello = Message::Hello(Box::new(Greeting::new(HelloRole::Conductor, "laptop")));
//! let frame = encode(&hello)?;
//! // The first four bytes are the length of the rest, big-endian.
//! let length = u32::from_be_bytes([frame[0], frame[1], frame[2], frame[3]]) as usize;
//! assert_eq!(frame.len(), 4 + length);
//! // A frame that is not complete is no error: more bytes are needed.
//! assert!(decode(&frame[..length])?.is_none());
//! assert!(decode(&frame)?.is_some());
//! # Ok::<(), linerate_control::wire::WireError>(())
//! ```
//!
//! This crate does *not* count or pace anything (`linerate-load`), read the kernel
//! (`linerate-observe`), or store anything (any [`linerate_model::Recorder`]). It contains no SQL,
//! no HTTP and no async runtime.

#![forbid(unsafe_code)]

pub mod agent;
pub mod broker;
mod clock;
pub mod conductor;
mod error;
pub mod flow_probe;
mod frames;
mod inbox;
pub mod keys;
mod link;
pub mod offered;
pub mod pairing;
pub mod search;
mod strangers;
mod timed;
mod tls;
mod transport;
pub mod wire;

pub use agent::{
    Access, Agent, AgentOptions, Consent, HostWide, Keeping, Restored, Serving, Stopper, restore,
};
pub use broker::{Broker, Duties};
pub use conductor::{
    CampaignRun, Exit, HostFacts, Progress, RunOptions, RunSummary, Tuner, ask, run,
};
pub use error::{ControlError, Result};
pub use keys::{Fingerprint, KeyStore, KnownPeer, ReachedAt, Right};
pub use link::Timeouts;
pub use tls::web_server_config;
pub use wire::{Branches, RouteDevice, Setting, SettingState, TuneRequest};
