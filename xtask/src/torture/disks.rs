//! The disk gate against generated topologies: the test of the same kind, run at length.

use std::process::Command;

use anyhow::Context;

use super::Bench;

/// How many.
const TOPOLOGIES: u32 = 200;

/// Runs them; every fault is in the test's own output. The quick form is the test itself.
pub(super) fn run(bench: &Bench) -> anyhow::Result<bool> {
    if bench.quick {
        return Ok(true);
    }
    let test = ["test", "-p", "linerate-disk", "--test", "all", "topologies", "--", "--nocapture"];
    let status = Command::new("cargo")
        .args(test)
        .current_dir(&bench.root)
        .env("LINERATE_TOPOLOGIES", TOPOLOGIES.to_string())
        .status()
        .context("run cargo")?;
    Ok(status.success())
}
