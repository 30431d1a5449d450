//! Tests that count allocations: they need a process with an allocator that counts.

mod allocation;
mod allocation_requests;
mod counting;
mod footprint;
mod iperf3_server;
mod shared;
