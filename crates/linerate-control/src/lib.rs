//! The reach: how conductor and agents find, trust and understand each other, and what each of them
//! does.
//!
//! An [`Agent`] measures; [`conductor::run`] decides what is measured next. Between them travel
//! length-prefixed frames of JSON ([`wire`]), over TLS with pinned keys, over the standard streams
//! of a command (ssh), or inside this process: the same codec everywhere. Keys are exchanged once,
//! with a one-time token ([`pairing`]).
//!
//! An agent can be two processes: one without rights that speaks with conductors, and a [`broker`]
//! that does what needs some.
//!
//! [`flow_probe`] alone sends of itself, a few datagrams a port, to learn by which interface a flow
//! leaves.
//!
//! What this crate does *not* do: count or pace anything (`linerate-load`), read the kernel
//! (`linerate-observe`), or keep anything (whoever implements [`linerate_model::Recorder`]). It
//! knows no SQL, no HTTP and no async runtime.

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
pub use error::{ControlError, ErrorClass};
pub use keys::{Fingerprint, KeyStore, KnownPeer, ReachedAt, Right};
pub use link::Timeouts;
pub use transport::DEFAULT_PORT;
pub use wire::{Branches, RouteDevice, Setting, SettingState, TuneRequest};
