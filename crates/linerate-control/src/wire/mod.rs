//! Control protocol, version 4: messages between conductor and agent.
//!
//! ```text
//! frame   = length (u32, big endian, at most 16 MiB) , message (JSON, UTF-8)
//! session = Hello both ways , then Ping/Pong at any time , then for each trial
//!           Prepare -> Offers -> Connect -> Ready -> StartAt -> Intervals* -> FlowsEnded* ,
//!           Samples* , Done
//! tuning  = Hello both ways (`tunes`) , then Ping/Pong at any time , then (Tune -> Tuned)*
//! asking  = Hello both ways (`asks`, answered by `facts` and `routes`)
//! ```
//!
//! The first frame of each side is [`Message::Hello`], [`Message::Busy`] or [`Message::Refused`].
//! Their shapes never change, so that two ends of any versions can find out that they do not match.
//! Unknown fields are ignored. Decoding is a pure function over bytes ([`decode`]): any bytes of a
//! stranger are a message, an incomplete message, or a [`WireError`].

mod codec;
mod message;
mod share;
mod tune;

pub(crate) use codec::ORDER_LIMIT;
pub(crate) use codec::announced;
pub use codec::{GREETING_LIMIT, MESSAGE_LIMIT, WireError, decode, decode_within, encode, pieces};
pub use message::{
    Branches, Greeting, HelloRole, JobOffer, Message, PROTOCOL_VERSION, PairProof, Prepare,
    PreparedJob, RouteDevice, name, printable,
};
pub(crate) use message::{PROTOCOL_MAGIC, RELEASE};
pub use share::Share;
pub use tune::{Setting, SettingState, TuneRequest};
