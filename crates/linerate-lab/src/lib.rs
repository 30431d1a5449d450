//! Labs: testbeds of hosts, links, switches, routers and shared buses, built from network
//! namespaces.
//!
//! A lab is described in TOML ([`Description`]). The pure function [`layout()`] turns it into
//! commands, endpoints and known capacities ([`Layout`]). [`Lab`] builds it and tears it down. All
//! hosts share one kernel. They have one clock, so one-way delays are exact. They also share the
//! CPUs, so figures from a lab are marked `emulated` and describe no device.
//!
//! A lab emulates where packets are received and what they cost, rate, buffer, delay, exact loss
//! and duplication of datagrams, MTU, offloads, forwarding, buses shared by several interfaces,
//! port channels, cables that fail beside a second one, network controllers with a sideband, and
//! devices under test with a known capacity, buffer, stalls, loss, order and reflection,
//! cut-through or store-and-forward.
//!
//! # Examples
//! ```
//! use linerate_lab::{Description, layout};
//!
//! let text = r#"
//!     [lab]
//!     name = "pair"
//!     summary = "two hosts, one shaped link"
//!
//!     [[host]]
//!     name = "a"
//!     [[host]]
//!     name = "b"
//!
//!     [[link]]
//!     ends = ["a", "b"]
//!     rate = "100 Mbit/s"
//! "#;
//! let (description, problems) = Description::parse(text);
//! assert!(problems.is_empty());
//! let layout = layout(&description.expect("a lab"), "demo");
//! assert_eq!(layout.capacities[0].rate.0, 100e6);
//! assert!(layout.testbed.emulated);
//! ```
//!
//! A lab does *not* emulate bit errors, interrupt behaviour or DMA of real hardware.

#![forbid(unsafe_code)]

pub mod agent;
mod build;
pub mod controller;
mod description;
mod draw;
pub mod element;
mod failing;
mod layout;
mod middle;
mod pass_through;
mod quota;
mod reap;
mod stalls;
mod supervisor;
mod tool;

pub use build::Lab;
pub use description::{
    Bus, BusEdge, Checksum, Controller, ControllerFaults, Description, Element, Failover, Family,
    Faults, Forwarding, Hash, HostSettings, Link, LinkEnd, Node, NodeKind, Observed, Overflow,
    Port, Stall,
};
pub use failing::{CableEnd, Cables};
pub use layout::{Device, DeviceKind, Layout, Namespace, Shaper, SwitchPort, layout, link_of};
pub use reap::{abandoned, forget, is_device, reap};
pub use tool::{LabError, Result};
