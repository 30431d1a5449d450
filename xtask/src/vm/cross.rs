//! linerate for the processor of a management controller: ARMv7, static.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};

use crate::tools::printed;

const TARGET: &str = "armv7-unknown-linux-gnueabihf";
const COMPILER: &str = "arm-linux-gnueabihf-gcc";
const ARCHIVER: &str = "arm-linux-gnueabihf-ar";

/// Builds it below `folder`, optimised and without debug information, and returns where it is.
pub(super) fn built(root: &Path, folder: &Path) -> anyhow::Result<PathBuf> {
    println!("building linerate for {TARGET}");
    // Where rustup is, the standard library of another target is one command away.
    if Command::new("rustup").arg("--version").output().is_ok() {
        printed(Command::new("rustup").args(["target", "add", TARGET]).current_dir(root))?;
    }
    let linkers = linkers(folder)?;
    let target = folder.join("cross");
    let upper = TARGET.replace('-', "_").to_uppercase();
    let lower = TARGET.replace('-', "_");
    let flags = format!(
        // io-uring knows the layouts of this target and refuses it all the same.
        "-C target-feature=+crt-static --cfg io_uring_skip_arch_check -C link-arg=-B{}",
        linkers.display()
    );
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    let status = cargo
        .args(["build", "--quiet", "--release", "--package", "linerate", "--target", TARGET])
        .env(format!("CARGO_TARGET_{upper}_LINKER"), COMPILER)
        .env(format!("CARGO_TARGET_{upper}_RUSTFLAGS"), flags)
        .env(format!("CC_{lower}"), COMPILER)
        .env(format!("AR_{lower}"), ARCHIVER)
        .env("CARGO_TARGET_DIR", &target)
        .env("CARGO_PROFILE_RELEASE_DEBUG", "false")
        .env("CARGO_PROFILE_RELEASE_STRIP", "true")
        .env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "1")
        .current_dir(root)
        .status()
        .context("start cargo build")?;
    ensure!(status.success(), "cargo build for {TARGET} failed");
    Ok(target.join(TARGET).join("release/linerate"))
}

/// Makes the folder where the compiler finds LLVM's linker under its own names. GNU ld 2.40 gives
/// the resolver of `memcpy` an address without its Thumb bit if the program has more than 16 MiB
/// of text: it crashes before `main`.
fn linkers(folder: &Path) -> anyhow::Result<PathBuf> {
    let lld = printed(Command::new("sh").args(["-c", "command -v ld.lld"]))?;
    let linkers = folder.join("lld");
    fs::create_dir_all(&linkers)?;
    for name in ["ld", "ld.lld"] {
        let link = linkers.join(name);
        if link.symlink_metadata().is_err() {
            symlink(lld.trim(), link)?;
        }
    }
    Ok(linkers)
}
