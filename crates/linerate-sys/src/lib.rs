//! Safe interfaces to the system calls and kernel interfaces that linerate uses on Linux: sockets,
//! TCP state, packet rings, AF_XDP, eBPF, perf counters, netlink, storage, sandboxing, clocks.
//!
//! This is the only crate with `unsafe`. Calls into C live in private `raw` modules. Public types
//! own their descriptors and mappings, so that safe code cannot misuse them.
//!
//! # Examples
//! ```
//! use linerate_sys::{clock, sysctl};
//!
//! let start = clock::monotonic();
//! // Needs no privilege; the file is /proc/sys/kernel/ostype.
//! assert_eq!(sysctl::read("kernel.ostype")?, "Linux");
//! assert!(clock::monotonic() >= start);
//! # Ok::<(), linerate_sys::SysError>(())
//! ```
//!
//! This crate does *not* know trials, plans or metrics, and it does not run anywhere but on Linux.

pub mod cgroup;
pub mod clock;
pub mod cpu;
pub(crate) mod ebpf;
pub mod ethtool;
pub mod file;
pub mod live;
pub mod loop_device;
pub mod memory;
pub mod netlink;
pub mod netns;
pub mod packet;
pub mod perf;
pub mod pipe;
pub mod privilege;
pub mod process;
pub mod readiness;
pub mod sandbox;
pub mod signal;
pub mod socket;
pub mod steering;
pub mod storage;
pub mod sysctl;
pub mod tcp;
pub mod udp;
pub mod whole_file;
pub mod xdp;
pub mod zerocopy;

mod error;

pub use error::{Result, SysError};
