//! Integration tests of this crate as one program, because each program costs a link of
//! everything that the crate depends on.

mod clocks;
mod common;
#[path = "../../linerate-sys/tests/shared/host.rs"]
mod host;
mod hostile;
mod in_process;
mod neighbours;
mod pairing;
mod search;
mod storage_consent;
mod tuning;
mod wire;
