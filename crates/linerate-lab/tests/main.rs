//! Integration tests of this crate as one program, because each program costs a link of
//! everything that the crate depends on.

mod controller;
mod element;
#[path = "../../linerate-sys/tests/shared/host.rs"]
mod host;
mod namespaces;
mod port_channel;

/// Returns `Some` for root. Prints that the test is skipped for others.
fn privileged() -> Option<()> {
    host::root("needs root to build namespaces")
}
