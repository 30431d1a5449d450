//! iperf3's protocol, for both roles: an iperf3 client that drives an unmodified iperf3 server, and
//! a server for unmodified iperf3 clients.
//!
//! | module | contents | I/O |
//! |---|---|---|
//! | [`wire`] | cookie, states, parameters and results | none |
//! | [`session`], [`client`] | control connection of the server and of the client, in virtual time | none |
//! | [`auth`] | users and passwords, encrypted by RSA | none |
//! | [`datagrams`] | header of a UDP datagram, loss by sequence numbers, jitter | none |
//! | [`pace`] | bytes that are due at a rate | none |
//! | [`serve`], [`drive`] | sockets, threads and the clock | all |
//!
//! The source of the formats is iperf3's own code (3.12 and 3.21), of which nothing was copied.

#![forbid(unsafe_code)]

pub mod auth;
pub mod client;
pub mod datagrams;
pub mod drive;
pub mod pace;
pub mod serve;
pub mod session;
pub mod wire;

mod endings;
mod sockets;
mod streams;
