//! The letters: packets as views and values, without I/O.
//!
//! Here: test frames ([`frame`], RFC 2544 appendix C.2, RFC 4814), NC-SI control packets over
//! Ethernet ([`ncsi`], DMTF DSP0222), messages of SNMP ([`snmp`]) and capture files ([`pcap`]).
//! Every reader takes any bytes whatever without a panic, and what a value emits reads back as that
//! value.

#![forbid(unsafe_code)]

pub mod frame;
pub mod ncsi;
pub mod pcap;
pub mod snmp;

mod bytes;
