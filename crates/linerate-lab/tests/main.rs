//! Integration tests of this crate as one program, because each program costs a link of
//! everything that the crate depends on.

use std::process::Command;

mod controller;
mod element;
mod namespaces;
mod port_channel;

/// Returns true for root. Prints that `test` is skipped for others, who cannot build namespaces.
fn privileged(test: &str) -> bool {
    let id = Command::new("id").arg("-u").output();
    let is_root = id.is_ok_and(|output| output.stdout.starts_with(b"0\n"));
    if !is_root {
        println!("skipped: {test}: needs root to build namespaces");
    }
    is_root
}
