//! The letters: packets as views and values, without I/O.
//!
//! Here: NC-SI control packets over Ethernet ([`ncsi`], DMTF DSP0222) and capture files ([`pcap`]). Every reader takes any bytes
//! whatever without a panic, and what a value emits reads back as that value.

#![forbid(unsafe_code)]

pub mod ncsi;
pub mod pcap;

mod bytes;
