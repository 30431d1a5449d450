//! Integration tests of this crate as one program, because each program costs a link of
//! everything that the crate depends on.

mod controller;
mod element;
#[path = "../../linerate-sys/tests/shared/host.rs"]
mod host;
mod namespaces;
mod port_channel;

/// Returns true for root. Prints that `test` is skipped for others, who cannot build namespaces.
fn privileged(test: &str) -> bool {
    let is_root = host::tried("id -u").is_ok_and(|id| id == "0\n");
    if !is_root {
        println!("skipped: {test}: needs root to build namespaces");
    }
    is_root
}
