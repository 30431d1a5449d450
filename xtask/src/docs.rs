//! `cargo xtask docs`: the reference, written by the program it describes. A test of `linerate`
//! fails while it is stale.

use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::Context;

/// Where the reference is, seen from the root of the repository.
const REFERENCE: &str = "docs/reference";

/// Removes the pages there are and writes those there should be.
pub(crate) fn run(root: &Path, arguments: &[String]) -> anyhow::Result<ExitCode> {
    anyhow::ensure!(
        arguments.is_empty(),
        "`cargo xtask docs` takes no arguments, got {arguments:?}"
    );
    let folder = root.join(REFERENCE);
    if folder.exists() {
        std::fs::remove_dir_all(&folder).with_context(|| format!("remove {}", folder.display()))?;
    }
    let status = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .current_dir(root)
        .args(["run", "--quiet", "--package", "linerate", "--", "reference", REFERENCE])
        .status()
        .context("start cargo run")?;
    anyhow::ensure!(status.success(), "linerate could not write its reference");
    println!("{REFERENCE} written");
    Ok(ExitCode::SUCCESS)
}
