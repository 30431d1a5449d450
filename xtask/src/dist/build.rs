//! Static programs for a processor, with Debian's compilers and LLVM's linker.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};

use super::target::Target;
use crate::tools::printed;

/// A program, and how it is optimized.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Build {
    /// The full program.
    Program,
    /// The full program, compiled fast, for a test.
    Tested,
    /// The agent alone, as small as the compiler makes it.
    Agent,
}

impl Build {
    /// Returns the name of the package, which is that of its program.
    pub(crate) const fn package(self) -> &'static str {
        match self {
            Self::Program | Self::Tested => "linerate",
            Self::Agent => "linerate-agent",
        }
    }

    /// Returns the profile, and settings of it that differ from `Cargo.toml`.
    fn profile(self) -> (&'static str, &'static [(&'static str, &'static str)]) {
        match self {
            Self::Program => ("dist", &[]),
            Self::Tested => {
                ("dist", &[("OPT_LEVEL", "1"), ("LTO", "false"), ("CODEGEN_UNITS", "16")])
            }
            Self::Agent => ("small", &[]),
        }
    }
}

/// Builds a static program below `folder` and returns where it is.
pub(crate) fn built(
    root: &Path,
    folder: &Path,
    target: &Target,
    build: Build,
) -> anyhow::Result<PathBuf> {
    let Target { triple, tools, features, .. } = target;
    let package = build.package();
    println!("building {package} for {triple}");
    // Where rustup is, the standard library of another target is one command away.
    if Command::new("rustup").arg("--version").output().is_ok() {
        printed(Command::new("rustup").args(["target", "add", triple]).current_dir(root))?;
    }
    let linkers = linkers(folder)?;
    let folder = folder.join("cross");
    let lower = triple.replace('-', "_");
    let upper = lower.to_uppercase();
    let flags = format!(
        // io-uring knows the layouts of these targets and refuses some all the same.
        "-C target-feature={features} --cfg io_uring_skip_arch_check -C link-arg=-B{}",
        linkers.display()
    );
    let (compiler, archiver) = (format!("{tools}-gcc"), format!("{tools}-ar"));
    let (profile, settings) = build.profile();
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    let status = cargo
        .args(["build", "--quiet", "--profile", profile, "--package", package])
        .args(["--target", triple])
        .env(format!("CARGO_TARGET_{upper}_LINKER"), &compiler)
        .env(format!("CARGO_TARGET_{upper}_RUSTFLAGS"), flags)
        .env(format!("CC_{lower}"), &compiler)
        .env(format!("AR_{lower}"), archiver)
        .env("CARGO_TARGET_DIR", &folder)
        .envs(settings.iter().map(|(key, value)| (format!("CARGO_PROFILE_DIST_{key}"), *value)))
        .current_dir(root)
        .status()
        .context("start cargo build")?;
    ensure!(status.success(), "cargo build of {package} for {triple} failed");
    Ok(folder.join(triple).join(profile).join(package))
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
