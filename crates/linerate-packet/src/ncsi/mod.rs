//! NC-SI control packets: how a management controller (BMC) talks to the network controller it
//! shares a port with.
//!
//! DMTF DSP0222, RMII-based transport: Ethernet frames of EtherType 0x88F8. [`Letter`] is the
//! envelope; commands, responses and notifications each have a file of their own with `parse` and
//! `emit`. All numbers are big-endian. Readers accept what real controllers send: no checksum, any
//! padding, a frame check sequence left behind, replies without a payload, statistics of older
//! layouts. What is not here: PLDM and MCTP transports, InfiniBand, and the draft commands of
//! version 1.2.

mod capabilities;
mod command;
mod letter;
mod link;
mod notification;
mod parameters;
mod response;
mod statistics;
mod version;

pub use capabilities::{BufferReport, Capabilities};
pub use command::{Command, LinkSettings, kind};
pub use letter::{Checksum, Letter, Malformed, PACKAGE_ITSELF};
pub use link::{LinkStatus, Speed};
pub use notification::Notification;
pub use parameters::Parameters;
pub use response::{Answer, Outcome, Reason};
pub use statistics::{ControlStatistics, PassThroughStatistics, PortStatistics};
pub use version::Version;
