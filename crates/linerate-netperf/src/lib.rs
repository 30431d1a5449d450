//! netperf's protocol and command line: a client that drives an unmodified netserver, and a server
//! for unmodified netperf clients.
//!
//! | module | contents | I/O |
//! |---|---|---|
//! | [`wire`] | messages of the control connection | none |
//! | [`options`] | command line of netperf | none |
//! | [`outcome`] | what a test yields, in the units of netperf | none |
//! | [`selectors`], [`text`] | output selectors, tables and interim results | none |
//! | [`client`], [`serve`] | the two ends: sockets, threads and the clock | all |
//! | [`command`] | the program netperf: a line in, its output out | that of a client |
//!
//! The source of the formats is netperf's own code (2.7.1), of which nothing was copied.

#![forbid(unsafe_code)]

pub mod client;
pub mod command;
pub mod options;
pub mod outcome;
pub mod selectors;
pub mod serve;
pub mod text;
pub mod wire;

mod cpu;
mod data;
