//! XDP features of a driver in its present configuration (`netdev` generic netlink family, since
//! Linux 6.3).

use std::time::Duration;

use crate::Result;
use crate::netlink::{GenericSocket, attributes, push};
use crate::packet::interface_index;

/// `NETDEV_CMD_DEV_GET` and `NETDEV_A_DEV_*` of linux/netdev.h.
const GET_DEVICE: u8 = 1;
const IFINDEX: u16 = 1;
const XDP_FEATURES: u16 = 3;
/// `NETDEV_XDP_ACT_*`.
const BASIC: u64 = 1 << 0;
const TAKES_FRAMES: u64 = 1 << 2;
const ZERO_COPY: u64 = 1 << 3;
const RECEIVES_BUFFERS: u64 = 1 << 5;

const PATIENCE: Duration = Duration::from_secs(1);

/// Features of a driver in its present configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Features {
    bits: u64,
}

impl Features {
    /// Returns true if it runs programs natively.
    #[must_use]
    pub const fn native(self) -> bool {
        self.bits & BASIC != 0
    }

    /// Returns true if it transmits redirected frames. A veth does so only if its peer has an XDP
    /// program or GRO.
    #[must_use]
    pub(crate) const fn takes_frames(self) -> bool {
        self.bits & TAKES_FRAMES != 0
    }

    /// Returns true if it supports AF_XDP without copying.
    #[must_use]
    pub const fn zero_copy(self) -> bool {
        self.bits & ZERO_COPY != 0
    }

    /// Returns true if it receives frames in several buffers.
    #[must_use]
    pub const fn multi_buffer(self) -> bool {
        self.bits & RECEIVES_BUFFERS != 0
    }
}

/// Returns the features of the driver of `device`, in the calling thread's network namespace;
/// `None` if this kernel does not report them.
///
/// # Errors
/// If there is no such device, or the kernel does not answer.
pub fn features(device: &str) -> Result<Option<Features>> {
    let ifindex = interface_index(device)?;
    let mut socket = GenericSocket::open()?;
    let Some(family) = socket.family("netdev")? else { return Ok(None) };
    let mut wanted = Vec::new();
    push(&mut wanted, IFINDEX, &ifindex.to_ne_bytes());
    let answer =
        socket.ask(&family, GET_DEVICE, &wanted, PATIENCE, &format!("XDP features of {device}"))?;
    let told = answer.as_deref().and_then(|answer| {
        let (_, value) = attributes(answer).find(|(kind, _)| *kind == XDP_FEATURES)?;
        value.try_into().ok().map(u64::from_ne_bytes)
    });
    Ok(told.map(|bits| Features { bits }))
}
