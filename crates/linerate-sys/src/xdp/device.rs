//! Whether an interface is fit to send, looked at before any frame is.

use std::io;

use crate::SysError;
use crate::netlink::RouteSocket;

/// `IFF_UP` and `IFF_LOWER_UP` of linux/if.h.
const UP: u32 = 1 << 0;
const CARRIER: u32 = 1 << 16;
/// What a frame has beside what the MTU counts: an Ethernet header, and a VLAN tag, which the
/// kernel allows for everywhere.
const HEADER_BYTES: u32 = 14;
const TAG_BYTES: u32 = 4;

/// Refuses `device`, of the calling thread's network namespace, if it is down or does not carry
/// frames of `frame_bytes`.
pub(crate) fn ready(device: &str, frame_bytes: u32) -> Result<(), SysError> {
    let mut found = None;
    RouteSocket::open()?.links(|link| {
        if link.name == device {
            found = Some(link);
        }
    })?;
    let refuse = |why: String, code: i32| {
        Err(SysError::new(
            "send frames on",
            format!("{device} ({why})"),
            io::Error::from_raw_os_error(code),
        ))
    };
    let Some(link) = found else {
        return refuse("there is no such interface here".into(), libc::ENODEV);
    };
    if link.flags & UP == 0 {
        return refuse(format!("it is down: `ip link set {device} up`"), libc::ENETDOWN);
    }
    if link.flags & CARRIER == 0 {
        return refuse(
            "it has no carrier: is the other end plugged in and up?".into(),
            libc::ENETDOWN,
        );
    }
    if frame_bytes > link.mtu + HEADER_BYTES + TAG_BYTES {
        let needed = frame_bytes - HEADER_BYTES;
        let why = format!(
            "a frame of {frame_bytes} B without check sequence does not fit its MTU of {}: `ip \
                link set {device} mtu {needed}`",
            link.mtu
        );
        return refuse(why, libc::EMSGSIZE);
    }
    Ok(())
}
