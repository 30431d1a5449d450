//! Attachment of a program to an interface.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::ebpf::program::Program;
use crate::ebpf::raw;
use crate::packet::interface_index;
use crate::{Result, SysError};

/// Place on a frame's path at which a program runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Placement {
    /// In the driver, before a socket buffer is allocated.
    Native,
    /// In the kernel's stack, on a socket buffer: works on every interface, but is slower.
    Generic,
}

impl Placement {
    /// Returns its name in result rows.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Generic => "generic",
        }
    }

    /// `XDP_FLAGS_*` of linux/if_link.h.
    const fn flags(self) -> u32 {
        match self {
            Self::Generic => 1 << 1,
            Self::Native => 1 << 2,
        }
    }
}

/// Longest time for which a program stays after its link was closed: a process that another thread
/// has just forked has the link until it executes its own program.
const LINGER: Duration = Duration::from_millis(200);

/// Program that a BPF link attaches to an interface. The kernel detaches it when this value is
/// dropped or the process ends.
#[derive(Debug)]
pub struct Attachment {
    link: OwnedFd,
    placement: Placement,
}

impl Attachment {
    /// Attaches `program` to `device` of the calling thread's network namespace, at `placement`
    /// only.
    ///
    /// # Errors
    /// If the driver has no native XDP, another program is attached, the MTU is too large, or a
    /// privilege is missing.
    pub(crate) fn at(program: &Program, device: &str, placement: Placement) -> Result<Self> {
        let ifindex = interface_index(device)?;
        let deadline = Instant::now() + LINGER;
        loop {
            match raw::create_xdp_link(program.as_fd(), ifindex, placement.flags()) {
                Ok(link) => return Ok(Self { link, placement }),
                Err(cause) if is_busy(&cause) && Instant::now() < deadline => {
                    thread::sleep(LINGER / 20);
                }
                Err(cause) => return Err(refused(device, placement, cause)),
            }
        }
    }

    /// Attaches natively if the driver supports it, otherwise generically.
    ///
    /// # Errors
    /// The kernel's error for the generic placement if neither is possible; for the native one if
    /// the interface is busy.
    pub(crate) fn at_best(program: &Program, device: &str) -> Result<Self> {
        let native = match Self::at(program, device, Placement::Native) {
            Ok(attachment) => return Ok(attachment),
            Err(error) => error,
        };
        // A generic program beside a native one is refused as well, with a less useful reason.
        if matches!(native.errno(), Some(libc::EBUSY | libc::EEXIST | libc::EPERM)) {
            return Err(native);
        }
        Self::at(program, device, Placement::Generic)
    }

    /// Wraps an attachment of another process.
    pub(super) const fn from_parts(link: OwnedFd, placement: Placement) -> Self {
        Self { link, placement }
    }

    /// Returns the place where the program runs.
    #[must_use]
    pub const fn placement(&self) -> Placement {
        self.placement
    }
}

impl From<Attachment> for OwnedFd {
    fn from(attachment: Attachment) -> Self {
        attachment.link
    }
}

fn is_busy(cause: &io::Error) -> bool {
    matches!(cause.raw_os_error(), Some(libc::EBUSY | libc::EEXIST))
}

fn refused(device: &str, placement: Placement, cause: io::Error) -> SysError {
    let remedy = match (cause.raw_os_error(), placement) {
        (Some(libc::EBUSY | libc::EEXIST), _) => {
            "another program is attached: see `ip link show`; remove it with `ip link set \
             dev NAME xdp off` if nobody needs it"
        }
        (Some(libc::EPERM | libc::EACCES), _) => "needs CAP_NET_ADMIN and CAP_BPF, or root",
        (Some(libc::EOPNOTSUPP), Placement::Native) => {
            "its driver has no native XDP: use the generic mode"
        }
        (Some(libc::ERANGE | libc::EINVAL | libc::EMSGSIZE), Placement::Native) => {
            "the MTU, of a veth that of its peer, may be too large for one buffer: lower it or \
                allow several buffers"
        }
        (Some(libc::ENOSPC), Placement::Native) => {
            "a veth needs as many receive queues as its peer has transmit queues"
        }
        _ => "the kernel gave no other reason",
    };
    SysError::new(
        "attach XDP program to",
        format!("{device} ({} mode; {remedy})", placement.name()),
        cause,
    )
}
