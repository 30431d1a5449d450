//! XDP and AF_XDP: frames between a driver and this process, past the kernel's stack.
//!
//! [`Filter`] is the program at an interface: it hands the frames that match to [`XdpSocket`]s, one
//! a receive queue, and passes everything else on to the stack. It is attached by a BPF link and
//! gone with this process. Each is asked for what it can do and says what it got: *native* (in the
//! driver) or *generic* (after a socket buffer was made), *zero-copy* or *copy*.
//!
//! Not seen: VLAN tags that hardware has taken off, receive timestamps, and frames dropped by the
//! driver before its queue. While a native program is attached to a veth, its peer sends no
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
