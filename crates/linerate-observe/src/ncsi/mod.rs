//! Talking NC-SI to a network controller, as the management controller behind its sideband does (DSP0222).
//!
//! [`Exchange`] decides without I/O: one command, its retries, and what to make of whatever comes back. [`Controller`] is the
//! packet socket under it. What is not here: the kernel's own NC-SI stack (generic netlink); where that owns an interface, raw
//! packets beside it would confuse its numbering, so do not use this there.

mod controller;
mod exchange;

pub use controller::{Controller, Found, survey};
pub use exchange::{Address, Exchange, Failure, Reply, Step, Strays};
