//! The workloads, alphabetically.

mod amount;
mod arrivals;
mod byte_flow;
mod companion;
mod datagram;
mod exchange;
mod first_bytes;
mod footprint;
mod frames;
mod ftp;
mod http;
mod iperf3;
mod job_listener;
mod kernel_pacing;
mod null;
mod pairing;
mod parameters;
mod path_probe;
mod placement;
mod ports;
mod proof;
mod rendezvous;
mod rest;
mod shared_port;
mod socket_options;
mod sockets;
mod storage;
mod tcp_crr;
mod tcp_options;
mod tcp_rr;
mod tcp_state;
mod tcp_stream;
mod transfer;
mod udp_rr;
mod udp_stream;

use crate::{Permits, Result, Workload};

pub use arrivals::Rate;
pub use path_probe::{
    FLOOD_LOSS, FLOOD_LOSS_TIME, MAX_BYTES as PROBE_BYTES, MAX_RATE as PROBE_RATE,
};
pub use shared_port::{FirstBytes, SharedPort};
pub use tcp_options::HOST_DEFAULT;
pub use udp_stream::RECEIVE_BUFFER as UDP_RECEIVE_BUFFER;

/// Checks that raw frames may leave from the interface called `interface`: the policy permits them,
/// or this thread is in a lab.
///
/// # Errors
/// If neither is the case.
pub fn may_send_raw_frames(permits: &Permits, interface: &str) -> Result<()> {
    frames::raw_frames(permits, interface)
}

/// Every workload.
pub static WORKLOADS: &[&dyn Workload] = &[
    &frames::Frames,
    &ftp::FTP,
    &http::HTTP,
    &iperf3::Iperf3,
    &null::Null,
    &path_probe::PathProbe,
    &storage::Storage,
    &tcp_crr::TcpCrr,
    &tcp_rr::TcpRr,
    &tcp_stream::TcpStream,
    &udp_rr::UdpRr,
    &udp_stream::UdpStream,
];

/// Returns the workload called `name`.
#[must_use]
pub fn workload(name: &str) -> Option<&'static dyn Workload> {
    WORKLOADS.iter().copied().find(|workload| workload.name() == name)
}
