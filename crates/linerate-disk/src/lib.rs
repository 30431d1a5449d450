//! The lock: which disks this host has, what is on them, who uses them, and who may write to them.
//!
//! Nothing else opens a disk or a file for writing under a load. Reading is free; writing to a
//! block device passes every gate, in this order: the agent's own allow-list, an exclusive open
//! that is held, the topology (nothing that has the same bytes is mounted, swapped to, held,
//! divided or shown by a loop device), and the content: the only bytes in its first and last MiB
//! are the claim that a person wrote there by naming its serial, and no superblock stands in its
//! first 64 MiB. While it is held the topology is looked at again every second. Files are written
//! only if this process has just made them.
//!
//! What it does not see: other hosts on a shared LUN, and drivers in user space.

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
mod topology;
mod watch;

pub use balance::{Balance, Member};
pub use claim::{CLAIM_BYTES, Claim, RESERVED_BYTES};
pub use content::Content;
pub use disks::{Disks, Filled, Opener, Permission, Synchrony, Target, Writable};
pub use error::DiskError;
pub use gate::{Inspection, Refusal, claim, inspect, list, release};
pub use keeper::{Keeper, Kept, KeptFiles};
pub use limits::FileLimits;
pub use served::{Served, ServedEntry};
pub use topology::{Topology, Use};
