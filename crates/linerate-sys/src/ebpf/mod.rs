//! eBPF without a compiler: programs assembled at run time, their maps, and their attachments.
//!
//! Every program here has a few dozen instructions that depend on the run (offsets, flows, the
//! number of a map). An assembler is enough, and neither clang nor libbpf is needed. An error of
//! the verifier contains its message. Maps, programs and attachments are descriptors, so all of
//! them disappear when they are dropped or the process ends.
//!
//! Needs CAP_BPF, CAP_NET_ADMIN and, for [`program::Tracepoint`], CAP_PERFMON (or CAP_SYS_ADMIN
//! instead of all three).

pub(crate) mod assembler;
pub(crate) mod map;
pub(crate) mod program;

#[allow(unsafe_code)]
pub(crate) mod raw;
