//! Disks and files for storage loads: what a host has, who uses it, and who may write to it.
//!
//! No other crate opens a disk or a file for writing under a load. Every reader may read. A write
//! to a block device needs all of these checks to pass, in this order:
//!
//! 1. The agent's own allow-list names the device.
//! 2. The kernel grants an exclusive open, which this process keeps.
//! 3. Nothing else uses the same bytes: no mount, swap area, volume, partition or loop device.
//! 4. The first and last MiB hold nothing but the claim, which a person wrote by naming the serial
//!    number, and the first 64 MiB hold no superblock.
//!
//! A watch repeats the third check every second while the device is open. Loads write to files only
//! if this process has just created them.
//!
//! # Examples
//! ```
//! use linerate_disk::signature::{Edges, findings};
//!
//! // 64 KiB that begin as an XFS volume does: "XFSB" at byte 0 (libblkid, fs/xfs).
//! let mut disk = vec![0; 65_536];
//! disk[..4].copy_from_slice(b"XFSB");
//! let found = findings(&Edges { head: &disk, tail: &disk, size: 65_536 });
//! assert_eq!((found[0].name, found[0].offset), ("xfs", 0));
//! ```
//!
//! This crate does *not* see other hosts on a shared LUN, nor drivers in user space.

#![forbid(unsafe_code)]

mod balance;
mod claim;
mod content;
mod disks;
mod error;
mod gate;
mod keeper;
mod limits;
mod scratch;
mod served;
pub mod signature;
mod target;
mod topology;
mod watch;

pub use balance::{Balance, Member};
pub use claim::{CLAIM_BYTES, Claim, RESERVED_BYTES};
pub use content::Content;
pub use disks::{Disks, Permission, Writable};
pub use error::{DiskError, Result};
pub use gate::{Inspection, Refusal, claim, disks_of, inspect, list, release};
pub use keeper::{Keeper, Kept, KeptFiles};
pub use limits::FileLimits;
pub use served::{Served, ServedEntry};
pub use target::{Filled, Opener, Synchrony, Target};
pub use topology::{Topology, Use};
