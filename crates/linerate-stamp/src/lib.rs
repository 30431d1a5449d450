//! STAMP, the Simple Two-Way Active Measurement Protocol (RFC 8762, extensions of RFC 8972), for
//! both roles, with and without authentication.
//!
//! | module | contents | I/O |
//! |---|---|---|
//! | [`wire`] | packets, times, clock errors and extensions | none |
//! | [`auth`] | the same packets with authentication | none |
//! | [`session`] | record of a sender: each packet with its reply, and its losses | none |
//! | [`reflector`] | answer to a packet, and the counts of each session | none |
//! | [`send`], [`reflect`] | sockets and the clock | all |
//!
//! A reflector of TWAMP Light (RFC 5357 appendix I) has the same packets and is understood, and so
//! is its sender. Not covered: the control connection of TWAMP, and stamps of network cards. The
//! kernel stamps arrivals, and the program departures.

#![forbid(unsafe_code)]

pub mod auth;
pub mod reflect;
pub mod reflector;
pub mod send;
pub mod session;
pub mod wire;
