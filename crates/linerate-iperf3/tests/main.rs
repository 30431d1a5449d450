//! Integration tests of this crate as one program: both roles against the iperf3 that is installed.

mod clients;
mod common;
mod losses;
mod servers;
mod strangers;
mod users;
