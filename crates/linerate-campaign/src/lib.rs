//! Campaigns from a plan to a ledger, and the ladders of campaigns behind `diagnose` and `tune`.
//!
//! | Module | Content |
//! |---|---|
//! | [`catalog`] | plans and labs that are part of the program |
//! | [`checks`] | reads, checks and expands a plan on a testbed; resolves rates and searches |
//! | [`testbeds`] | hosts and endpoints of a lab, a host or a testbed file |
//! | [`conduct`] | runs a campaign into a ledger |
//! | [`judged`] | judges a recorded campaign point by point |
//! | [`conclusion`] | the exit that a study asks for |
//! | [`stages`] | the trait that ladders use: "run this plan and return what was recorded" |
//! | [`diagnose`], [`tune`] | the ladders |
//! | [`live`] | state of a running campaign, for viewers |
//! | [`mesh`], [`fleet`] | all pairs of many hosts, and those hosts |
//! | [`doctor`] | checks of this host |
//! | [`probe`] | facts of a path: capacity, queue, token bucket, loss, MTU |
//! | [`drafts`] | plans of `to`, `serve` and `disk` from their options |
//! | [`flows`] | ports that put flows on chosen members of a link group |
//! | [`iperf3`] | options of iperf3, and their fate here |
//! | [`foreign`], [`stamp`] | other ends that are no agents: iperf3 servers, reflectors of STAMP |
//! | [`other_clients`] | servers for other ends: iperf3 clients, senders of STAMP |
//! | [`letters`] | sizes and rates as iperf3 and fio users type them |
//! | [`options`] | values of options that are parameters |
//! | [`path`] | what the options of `to` ask for together |
//! | [`job_files`] | job files of other programs, read as plans |
//! | [`slots`] | devices whose PCI Express bounds are calculated |
//! | [`sideband`] | questions to a network controller behind a sideband |
//! | [`labs`], [`standing`] | labs of `linerate lab`, and the processes that carry them |
//!
//! The ladders only decide. They open no socket and no file, so tests run them with simulated hosts
//! in virtual time.
//!
//! # Examples
//! ```
//! use linerate_campaign::catalog::LABS;
//! use linerate_lab::Description;
//!
//! let pair = LABS.iter().find(|lab| lab.name == "pair").expect("a lab of the program");
//! let (description, problems) = Description::parse(pair.text);
//! assert!(problems.is_empty());
//! assert_eq!(description.expect("a lab").nodes.len(), 2);
//! ```
//!
//! This crate does *not* read a command line or print.

#![forbid(unsafe_code)]

mod arms;
pub mod catalog;
pub mod checks;
pub mod conclusion;
pub mod conduct;
mod devices;
pub mod diagnose;
pub mod doctor;
pub mod drafts;
pub mod ends;
mod failure;
pub mod fleet;
pub mod flows;
pub mod foreign;
pub mod iperf3;
pub mod iperf3_users;
pub mod job_files;
pub mod judged;
pub mod labs;
mod launcher;
pub mod letters;
pub mod live;
pub mod mesh;
mod observers;
pub mod options;
pub mod other_clients;
pub mod outline;
pub mod path;
mod places;
pub mod probe;
pub mod push;
mod rates;
pub mod sandbox;
mod searches;
pub mod sideband;
#[cfg(test)]
mod simulated;
pub mod slots;
pub mod stages;
pub mod stamp;
pub mod standing;
pub mod testbeds;
mod towards;
pub mod tune;

pub use failure::Ended;
pub use linerate_model::failure::{Cause, Exit, Failure, Outcome, Result};
