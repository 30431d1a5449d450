//! The sandbox: testbeds of hosts, links, switches, routers and shared buses, built from network
//! namespaces.
//!
//! A lab is described in TOML ([`Description`]), laid out by a pure function into commands,
//! endpoints and known capacities ([`Layout`]), and built and torn down by [`Lab`]. Everything on
//! one kernel: one clock, so one-way delays are exact, and one set of CPUs, so figures from a lab
//! are marked `emulated` and say nothing of any device.
//!
//! What it emulates: where packets are received and what they cost, rate, buffer, delay, exact loss
//! and duplication of datagrams, MTU, offloads, forwarding, buses shared by several interfaces,
//! port channels, network controllers with a sideband, and devices under test of known capacity,
//! buffer, stalls, loss, order and reflection, cut-through or store-and-forward. What it does not:
//! bit errors, interrupt behaviour and DMA of real hardware.

#![forbid(unsafe_code)]

mod build;
pub mod controller;
mod description;
mod draw;
pub mod element;
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
    Bus, BusEdge, Checksum, Controller, ControllerFaults, Description, Element, Family, Faults,
    Forwarding, Hash, HostSettings, Link, LinkEnd, Node, NodeKind, Port, Stall,
};
pub use layout::{Device, DeviceKind, Layout, Namespace, Shaper, SwitchPort, layout, link_of};
pub use reap::{abandoned, forget, is_device, reap};
pub use tool::LabError;
