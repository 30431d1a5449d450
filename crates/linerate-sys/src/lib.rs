//! The hands of linerate: safe nouns over Linux.
//!
//! This is the only crate with `unsafe`. FFI lives in private `raw` modules; what is public owns
//! its descriptors and mappings and cannot be misused from safe code. Nothing here knows of trials,
//! plans or figures.

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

pub use error::SysError;
