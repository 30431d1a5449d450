//! XDP and AF_XDP: frames between a driver and this process, without the kernel's stack.
//!
//! [`Filter`] is the program at an interface. It hands matching frames to [`XdpSocket`]s, one per
//! receive queue, and passes everything else on to the stack. A BPF link attaches it, so that it
//! disappears with this process. Both report their mode: *native* (in the driver) or *generic*
//! (after a socket buffer was allocated), *zero-copy* or *copy*.
//!
//! VLAN tags that hardware has removed, receive timestamps, and frames that the driver drops before
//! its queue are not visible. While a native program is attached to a veth, its peer sends no
//! segments larger than the MTU.

mod attachment;
mod device;
mod features;
mod filter;
pub mod ring;
mod socket;
mod umem;

#[allow(unsafe_code)]
mod raw;

pub(crate) use device::ready;

pub use attachment::{Attachment, Placement};
pub use features::{Features, features};
pub use filter::{Filter, Match};
pub use socket::{Copying, Options, Received, Sent, Statistics, XdpSocket, unbound_socket};
