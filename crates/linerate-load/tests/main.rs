//! Integration tests of this crate as one program, because each program costs a link of
//! everything that the crate depends on.

mod frames;
mod frames_xdp;
mod ground;
mod handshake;
mod histogram;
mod iperf3;
mod iperf3_server;
mod path_probe;
mod peers;
mod request_response;
mod shared;
mod storage;
mod storage_faults;
mod storage_pace;
mod storage_stalls;
mod tcp_stream;
mod transfers;
mod transfers_bad;
mod transfers_peers;
mod transfers_tls;
mod udp_stream;
