//! Programs in the kernel, and their attachment to tracepoints.

use std::ffi::CStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use super::assembler::Code;
use super::raw;
use crate::error::Refusal;
use crate::{Result, SysError};

/// Type of a program (`BPF_PROG_TYPE_*` of linux/bpf.h).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Runs on frames before the kernel has allocated socket buffers for them.
    Xdp,
    /// The same, for frames that may span several buffers (jumbo frames).
    XdpMultiBuffer,
    /// Runs when the kernel passes a tracepoint, with its raw arguments.
    RawTracepoint,
}

/// Verdict of an XDP program on a frame (`enum xdp_action`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Error: the frame is dropped and a tracepoint reports it.
    Aborted = 0,
    /// The frame continues to the kernel's stack.
    Pass = 2,
}

const KIND_XDP: u32 = 6;
const KIND_RAW_TRACEPOINT: u32 = 17;
/// `BPF_F_XDP_HAS_FRAGS`.
const HAS_FRAGMENTS: u32 = 1 << 5;
/// Some helpers are only for programs under the GPL, so these instructions are dual-licensed.
const LICENSE: &CStr = c"Dual MIT/GPL";
/// Size of the buffer for the verifier's log.
const LOG_BYTES: usize = 256 << 10;
/// Bytes of the log that an error shows. The end contains the reason; the rest is a trace of every
/// path.
const LOG_SHOWN: usize = 600;

/// Program that the verifier has accepted.
#[derive(Debug)]
pub(crate) struct Program {
    fd: OwnedFd,
}

impl Program {
    /// Loads `code`. Tools show `name`.
    ///
    /// # Errors
    /// Without CAP_BPF (and CAP_NET_ADMIN for XDP, CAP_PERFMON for tracepoints), or if the verifier
    /// rejects the program; the error then contains the end of its log.
    pub(crate) fn load(kind: Kind, name: &str, code: &Code) -> Result<Self> {
        let (number, flags) = match kind {
            Kind::Xdp => (KIND_XDP, 0),
            Kind::XdpMultiBuffer => (KIND_XDP, HAS_FRAGMENTS),
            Kind::RawTracepoint => (KIND_RAW_TRACEPOINT, 0),
        };
        let load = |log: Option<&mut [u8]>| raw::load(number, name, &code.0, LICENSE, flags, log);
        // The log costs time and can itself be the cause of a failure, so it is requested only
        // after a failure.
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

    /// Runs an XDP program once on a copy of `frame`, which is not sent, and returns the verdict.
    ///
    /// # Errors
    /// If the kernel refuses: a frame has at least 14 bytes.
    pub(crate) fn judge(&self, frame: &[u8]) -> Result<u32> {
        raw::run_once(self.fd.as_fd(), frame).map_err(|cause| {
            SysError::new("run a BPF program on", format!("{} bytes", frame.len()), cause)
        })
    }
}

impl From<OwnedFd> for Program {
    /// Wraps a program that another process has loaded.
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

/// Attachment of a program to a tracepoint, which ends when this value is dropped.
#[derive(Debug)]
pub(crate) struct Tracepoint {
    link: OwnedFd,
}

impl From<Tracepoint> for OwnedFd {
    /// The program stays attached while the descriptor is open.
    fn from(tracepoint: Tracepoint) -> Self {
        tracepoint.link
    }
}

impl Tracepoint {
    /// Attaches `program` to the tracepoint `name`.
    ///
    /// # Errors
    /// If this kernel has no such tracepoint or does not run programs there (CONFIG_BPF_EVENTS), or
    /// without CAP_PERFMON.
    pub(crate) fn attach(program: &Program, name: &CStr) -> Result<Self> {
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
    fn the_error_contains_the_verifiers_reason() {
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
