//! Debian kernels: fetched by name with apt and unpacked, never installed.
//!
//! apt gets lists, cache and package state of its own below `target/vm`, so that suites other than
//! the host's are reachable and the host's own state stays as it is. Signatures are checked with
//! Debian's keys. A kernel that is already unpacked is used as it is: remove its folder to fetch
//! the newest one of its suite.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};

use crate::tools::printed;

/// Package that depends on the newest kernel of a suite.
const META_PACKAGE: &str = "linux-image-amd64";
const MIRROR: &str = "http://deb.debian.org";
const KEYS: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// Kernel of a Debian suite.
#[derive(Debug, PartialEq)]
pub(super) struct Kernel {
    /// First two parts of its version.
    pub(super) version: &'static str,
    pub(super) suite: &'static str,
}

/// Returns the folder with `boot` and `lib/modules` of `kernel`, fetched below `folder` if it is
/// not there yet.
pub(super) fn fetched(kernel: &Kernel, folder: &Path) -> anyhow::Result<PathBuf> {
    let unpacked = folder.join("kernels").join(kernel.version);
    if unpacked.is_dir() {
        return Ok(unpacked);
    }
    println!("fetching the kernel {} of Debian {}", kernel.version, kernel.suite);
    let suite = Suite::made(kernel.suite, folder)?;
    printed(&mut suite.apt("apt-get", &["update"]))?;
    let depends = printed(&mut suite.apt("apt-cache", &["depends", META_PACKAGE]))?;
    let package = image(&depends, kernel.version)
        .with_context(|| format!("{META_PACKAGE} of {} is no {}", kernel.suite, kernel.version))?;
    // Only a whole kernel gets its final name: an interrupted one is fetched again.
    let partial = folder.join("kernels").join(format!("{}.partial", kernel.version));
    if partial.exists() {
        fs::remove_dir_all(&partial)?;
    }
    fs::create_dir_all(&partial)?;
    printed(suite.apt("apt-get", &["download", package]).current_dir(&partial))?;
    unpack(&partial)?;
    fs::rename(&partial, &unpacked).context("keep the kernel")?;
    Ok(unpacked)
}

/// Returns the image of this version among the dependencies that `apt-cache depends` prints.
fn image<'a>(depends: &'a str, version: &str) -> Option<&'a str> {
    let prefix = format!("linux-image-{version}.");
    depends
        .lines()
        .filter_map(|line| line.trim().strip_prefix("Depends: "))
        .find(|package| package.starts_with(&prefix))
}

/// Unpacks the one package in `folder` there, and lists its modules for modprobe.
fn unpack(folder: &Path) -> anyhow::Result<()> {
    let mut packages = fs::read_dir(folder)?.filter_map(|entry| Some(entry.ok()?.path()));
    let package = packages.find(|path| path.extension().is_some_and(|end| end == "deb"));
    let package = package.context("apt-get downloaded no package")?;
    printed(Command::new("dpkg-deb").arg("-x").arg(&package).arg(folder))?;
    fs::remove_file(&package)?;
    // Newer suites have modules below usr.
    let lib = folder.join("lib");
    if !lib.exists() {
        std::os::unix::fs::symlink("usr/lib", &lib)?;
    }
    printed(Command::new("depmod").arg("-b").arg(folder).arg(release(folder)?))?;
    Ok(())
}

/// Returns the release of the unpacked kernel, as `uname -r` prints it.
pub(super) fn release(unpacked: &Path) -> anyhow::Result<String> {
    let modules = unpacked.join("lib/modules");
    let mut entries = fs::read_dir(&modules)
        .with_context(|| format!("list {}", modules.display()))?
        .filter_map(Result::ok);
    let entry = entries.next().with_context(|| format!("{} is empty", modules.display()))?;
    Ok(entry.file_name().to_string_lossy().into_owned())
}

/// State of apt for a suite.
struct Suite {
    state: PathBuf,
}

impl Suite {
    fn made(name: &str, folder: &Path) -> anyhow::Result<Self> {
        ensure!(Path::new(KEYS).is_file(), "{KEYS} is missing: install debian-archive-keyring");
        let state = folder.join("apt").join(name);
        for part in ["lists/partial", "cache/archives/partial"] {
            fs::create_dir_all(state.join(part))?;
        }
        fs::write(state.join("status"), "")?;
        let source = |archive: &str, suite: &str| {
            format!("deb [signed-by={KEYS}] {MIRROR}/{archive} {suite} main\n")
        };
        let security = source("debian-security", &format!("{name}-security"));
        fs::write(state.join("sources.list"), source("debian", name) + &security)?;
        Ok(Self { state })
    }

    /// Returns `program` of apt, confined to this state.
    fn apt(&self, program: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new(program);
        let settings = [
            ("Dir::State", ""),
            ("Dir::State::lists", "lists"),
            ("Dir::State::status", "status"),
            ("Dir::Cache", "cache"),
            ("Dir::Etc::sourcelist", "sources.list"),
        ];
        for (setting, file) in settings {
            command.arg("-o").arg(format!("{setting}={}", self.state.join(file).display()));
        }
        // Its own user could not write below this folder.
        for setting in [
            "Dir::Etc::sourceparts=/dev/null",
            "APT::Architecture=amd64",
            "APT::Architectures::=amd64",
            "APT::Sandbox::User=root",
        ] {
            command.args(["-o", setting]);
        }
        command.args(arguments);
        command
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_image_of_a_version_is_found_and_another_version_is_not_taken_for_it() {
        let depends = "linux-image-amd64\n  Depends: linux-image-6.1.0-56-amd64\n";
        assert_eq!(image(depends, "6.1"), Some("linux-image-6.1.0-56-amd64"));
        assert_eq!(image(depends, "6.12"), None);
        assert_eq!(image(&depends.replace("6.1.0", "6.12.1"), "6.1"), None);
    }
}
