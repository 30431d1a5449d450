//! eBPF without a compiler: programs assembled at run time, maps, and what they are attached by.
//!
//! Every program here is a few dozen instructions that depend on the run (offsets, flows, a map's
//! number), so that an assembler says it all and neither clang nor libbpf is needed. What the
//! kernel's verifier has against one is in the error. Maps, programs and attachments are
//! descriptors: all of it is gone when they are dropped or the process dies.
//!
//! Needs CAP_BPF, CAP_NET_ADMIN and, for [`program::Tracepoint`], CAP_PERFMON (or CAP_SYS_ADMIN for
//! all of it).

pub(crate) mod assembler;
pub(crate) mod map;
pub(crate) mod program;

#[allow(unsafe_code)]
pub(crate) mod raw;
