//! Programs in the kernel, and attaching them to tracepoints.

use std::ffi::CStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use super::assembler::Code;
use super::raw;
use crate::SysError;
use crate::error::Refusal;

/// What a program is run for (`BPF_PROG_TYPE_*` of linux/bpf.h).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// On frames, before the kernel has made socket buffers of them.
    Xdp,
    /// The same, on frames that may be in several buffers (jumbo frames).
    XdpMultiBuffer,
    /// When the kernel passes a tracepoint, with its raw arguments.
    RawTracepoint,
}

/// What an XDP program says of a frame (`enum xdp_action`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Something is wrong with it: dropped, and told to a tracepoint.
    Aborted = 0,
    /// On to the kernel's stack.
    Pass = 2,
}

const KIND_XDP: u32 = 6;
const KIND_RAW_TRACEPOINT: u32 = 17;
/// `BPF_F_XDP_HAS_FRAGS`.
const HAS_FRAGMENTS: u32 = 1 << 5;
/// Some helpers are for programs under the GPL only; these instructions are offered under it as
/// well.
const LICENSE: &CStr = c"Dual MIT/GPL";
/// Room for what the verifier says.
const LOG_BYTES: usize = 256 << 10;
/// Of that, the end is what tells why; the rest is a trace of every path.
const LOG_SHOWN: usize = 600;

/// A program the verifier has accepted.
#[derive(Debug)]
pub(crate) struct Program {
    fd: OwnedFd,
}

impl Program {
    /// Loads `code`; `name` is what tools show.
    ///
    /// # Errors
    /// Without CAP_BPF (and CAP_NET_ADMIN for XDP, CAP_PERFMON for tracepoints), or with the
    /// verifier's last words if it rejects the program.
    pub(crate) fn load(kind: Kind, name: &str, code: &Code) -> Result<Self, SysError> {
        let (number, flags) = match kind {
            Kind::Xdp => (KIND_XDP, 0),
            Kind::XdpMultiBuffer => (KIND_XDP, HAS_FRAGMENTS),
            Kind::RawTracepoint => (KIND_RAW_TRACEPOINT, 0),
        };
        let load = |log: Option<&mut [u8]>| raw::load(number, name, &code.0, LICENSE, flags, log);
        // The log costs time and may itself be what fails, so it is asked for only when there is
        // something to say.
        let cause = match load(None) {
            Ok(fd) => return Ok(Self { fd }),
            Err(cause) => cause,
        };
        let mut log = vec![0; LOG_BYTES];
        match load(Some(&mut log)) {
            Ok(fd) => Ok(Self { fd }),
            Err(_) => Err(refused(name, cause, &log)),
        }
    }

    /// What an XDP program does with a frame: it is run once on a copy that goes nowhere.
    ///
    /// # Errors
    /// If the kernel refuses: frames are at least 14 bytes long.
    pub(crate) fn judge(&self, frame: &[u8]) -> Result<u32, SysError> {
        raw::run_once(self.fd.as_fd(), frame).map_err(|cause| {
            SysError::new("run a BPF program on", format!("{} bytes", frame.len()), cause)
        })
    }
}

impl From<OwnedFd> for Program {
    /// A program that another process has loaded.
    fn from(fd: OwnedFd) -> Self {
        Self { fd }
    }
}

impl From<Program> for OwnedFd {
    fn from(program: Program) -> Self {
        program.fd
    }
}

fn refused(name: &str, cause: std::io::Error, log: &[u8]) -> SysError {
    let said = log.split(|byte| *byte == 0).next().unwrap_or_default();
    let said =
        String::from_utf8_lossy(&said[said.len().saturating_sub(LOG_SHOWN)..]).trim().to_owned();
    let operation = "load BPF program (needs CAP_BPF and CAP_NET_ADMIN, or root)";
    match cause.raw_os_error() {
        Some(code) if !said.is_empty() => SysError::new(
            operation,
            name,
            Refusal { code, words: Some(format!("the verifier says: {said}")) },
        ),
        _ => SysError::new(operation, name, cause),
    }
}

impl AsFd for Program {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// A program attached to a tracepoint, as long as this lives.
#[derive(Debug)]
pub(crate) struct Tracepoint {
    link: OwnedFd,
}

impl From<Tracepoint> for OwnedFd {
    /// It stays attached while the descriptor is open.
    fn from(tracepoint: Tracepoint) -> Self {
        tracepoint.link
    }
}

impl Tracepoint {
    /// Attaches `program` to the tracepoint called `name`.
    ///
    /// # Errors
    /// If this kernel has no such tracepoint or does not run programs there (CONFIG_BPF_EVENTS), or
    /// without CAP_PERFMON.
    pub(crate) fn attach(program: &Program, name: &CStr) -> Result<Self, SysError> {
        raw::open_tracepoint(program.as_fd(), name).map(|link| Self { link }).map_err(|cause| {
            SysError::new(
                "attach to tracepoint (needs CAP_PERFMON and a kernel with CONFIG_BPF_EVENTS)",
                name.to_string_lossy(),
                cause,
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::assembler::{Assembler, Operand, Register, Width};
    use super::*;

    #[test]
    fn what_the_verifier_has_against_a_program_is_told() {
        let mut assembler = Assembler::new();
        // R5 was never written.
        assembler.load(Width::Bits64, Register::R0, Register::R5, 0).exit();
        let error =
            Program::load(Kind::Xdp, "bad", &assembler.finish()).expect_err("R5 is not readable");
        let text = error.to_string();
        assert!(
            text.contains("bad")
                && (text.contains("R5 !read_ok") || error.errno() == Some(libc::EPERM)),
            "{text}"
        );
    }

    #[test]
    fn a_program_judges_a_frame() {
        let mut assembler = Assembler::new();
        assembler.set(Register::R0, Operand::Number(Action::Pass as i32)).exit();
        match Program::load(Kind::Xdp, "drops", &assembler.finish()) {
            Ok(program) => {
                assert_eq!(program.judge(&[0; 60]).expect("long enough"), Action::Pass as u32)
            }
            Err(why) => println!("skipped: a_program_judges_a_frame: {why}"),
        }
    }
}
