//! Checks before the first frame that an interface can send.

use std::io;

use crate::netlink::RouteSocket;
use crate::{Result, SysError};

/// `IFF_UP` and `IFF_LOWER_UP` of linux/if.h.
const UP: u32 = 1 << 0;
const CARRIER: u32 = 1 << 16;
/// Bytes of a frame that the MTU does not count: an Ethernet header, and a VLAN tag, for which the
/// kernel always leaves room.
const HEADER_BYTES: u32 = 14;
const TAG_BYTES: u32 = 4;

/// Refuses `device`, of the calling thread's network namespace, if it is down or cannot carry
/// frames of `frame_bytes`.
pub(crate) fn ready(device: &str, frame_bytes: u32) -> Result<()> {
    let mut found = None;
    RouteSocket::open()?.links(|link| {
        if link.name == device {
            found = Some(link);
        }
    })?;
    let (why, code) = match found {
        None => ("the interface does not exist".to_owned(), libc::ENODEV),
        Some(link) if link.flags & UP == 0 => {
            (format!("the interface is down: `ip link set {device} up`"), libc::ENETDOWN)
        }
        Some(link) if link.flags & CARRIER == 0 => {
            let why = "the interface has no carrier: is the other end plugged in and up?";
            (why.to_owned(), libc::ENETDOWN)
        }
        Some(link) if frame_bytes > link.mtu + HEADER_BYTES + TAG_BYTES => {
            let needed = frame_bytes - HEADER_BYTES;
            let why = format!(
                "a frame of {frame_bytes} B without check sequence does not fit its MTU of {}: \
                 `ip link set {device} mtu {needed}`",
                link.mtu
            );
            (why, libc::EMSGSIZE)
        }
        Some(_) => return Ok(()),
    };
    let cause = io::Error::from_raw_os_error(code);
    Err(SysError::new("send frames on", format!("{device} ({why})"), cause))
}
