//! Attachment of a program to an interface.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

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

/// Program that a BPF link attaches to an interface. The kernel detaches it when this value is
/// dropped or the process ends.
#[derive(Debug)]
pub struct Attachment {
    /// `None` once another owner has it.
    link: Option<OwnedFd>,
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
        let link = raw::create_xdp_link(program.as_fd(), ifindex, placement.flags())
            .map_err(|cause| refused(device, placement, cause))?;
        Ok(Self::from_parts(link, placement))
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
        Self { link: Some(link), placement }
    }

    /// Returns the place where the program runs.
    #[must_use]
    pub const fn placement(&self) -> Placement {
        self.placement
    }
}

impl From<Attachment> for OwnedFd {
    fn from(mut attachment: Attachment) -> Self {
        attachment.link.take().expect("only this takes it, with the whole value")
    }
}

impl Drop for Attachment {
    fn drop(&mut self) {
        // Closing is not enough: a process that another thread has just forked has the link too,
        // until it executes its own program. Kernels before 5.19 refuse this without CAP_BPF;
        // there the program stays for that moment.
        let _refused = self.link.as_ref().map(|link| raw::detach(link.as_fd()));
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ebpf::assembler::{Assembler, Operand, Register};
    use crate::ebpf::program::{Action, Kind};
    use crate::netns;

    /// As a process that another thread has just forked, a copy of the descriptor outlives the
    /// owner.
    #[test]
    fn a_program_goes_with_its_owner_while_another_process_has_the_link() {
        let attached = netns::within_new(|| {
            let mut assembler = Assembler::new();
            assembler.set(Register::R0, Operand::Number(Action::Pass as i32)).exit();
            let program = Program::load(Kind::Xdp, "passes", &assembler.finish())?;
            let attach = || Attachment::at(&program, "lo", Placement::Generic);
            let first = attach()?;
            let _forked = first.link.as_ref().map(OwnedFd::try_clone);
            attach().expect_err("one program an interface");
            drop(first);
            attach().expect("the first has gone");
            Ok(())
        });
        if let Err(why) = attached.flatten() {
            let test = "a_program_goes_with_its_owner_while_another_process_has_the_link";
            println!("skipped: {test}: {why}");
        }
    }
}
