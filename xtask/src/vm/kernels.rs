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

const MIRROR: &str = "http://deb.debian.org";
const KEYS: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// Architecture of Debian.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Architecture {
    Amd64,
    /// ARMv7 with hardware floating point, as management controllers have.
    Armhf,
}

impl Architecture {
    /// Returns its name.
    const fn name(self) -> &'static str {
        match self {
            Self::Amd64 => "amd64",
            Self::Armhf => "armhf",
        }
    }

    /// Returns the package that depends on the newest kernel of a suite.
    const fn meta_package(self) -> &'static str {
        match self {
            Self::Amd64 => "linux-image-amd64",
            Self::Armhf => "linux-image-armmp",
        }
    }
}

/// Kernel of a Debian suite.
#[derive(Debug, PartialEq)]
pub(super) struct Kernel {
    /// First two parts of its version.
    pub(super) version: &'static str,
    pub(super) suite: &'static str,
    pub(super) architecture: Architecture,
}

impl Kernel {
    /// Returns the name of its folder.
    fn folder(&self) -> String {
        match self.architecture {
            Architecture::Amd64 => self.version.to_owned(),
            Architecture::Armhf => format!("{}-armhf", self.version),
        }
    }
}

/// Returns the folder with `boot` and `lib/modules` of `kernel`, fetched below `folder` if it is
/// not there yet.
pub(super) fn fetched(kernel: &Kernel, folder: &Path) -> anyhow::Result<PathBuf> {
    let name = kernel.folder();
    let unpacked = folder.join("kernels").join(&name);
    if unpacked.is_dir() {
        return Ok(unpacked);
    }
    println!("fetching the kernel {} of Debian {}", name, kernel.suite);
    let suite = Suite::made(kernel.suite, kernel.architecture, folder)?;
    let meta = kernel.architecture.meta_package();
    let depends = printed(&mut suite.apt("apt-cache", &["depends", meta]))?;
    let package = image(&depends, kernel.version)
        .with_context(|| format!("{meta} of {} is no {}", kernel.suite, kernel.version))?;
    suite.unpacked(package, &unpacked, |partial| {
        // Newer suites have modules below usr.
        let lib = partial.join("lib");
        if !lib.exists() {
            std::os::unix::fs::symlink("usr/lib", &lib)?;
        }
        printed(Command::new("depmod").arg("-b").arg(partial).arg(release(partial)?))?;
        Ok(())
    })?;
    Ok(unpacked)
}

/// Returns the folder of the unpacked package `name` for the architecture of `kernel`.
pub(super) fn package(name: &str, kernel: &Kernel, folder: &Path) -> anyhow::Result<PathBuf> {
    let of = kernel.architecture.name();
    let unpacked = folder.join("packages").join(format!("{name}-{}-{of}", kernel.suite));
    if !unpacked.is_dir() {
        let suite = Suite::made(kernel.suite, kernel.architecture, folder)?;
        suite.unpacked(name, &unpacked, |_| Ok(()))?;
    }
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

/// Returns the release of the unpacked kernel, as `uname -r` prints it.
pub(super) fn release(unpacked: &Path) -> anyhow::Result<String> {
    let modules = unpacked.join("lib/modules");
    let mut entries = fs::read_dir(&modules)
        .with_context(|| format!("list {}", modules.display()))?
        .filter_map(Result::ok);
    let entry = entries.next().with_context(|| format!("{} is empty", modules.display()))?;
    Ok(entry.file_name().to_string_lossy().into_owned())
}

/// State of apt for a suite and an architecture.
struct Suite {
    state: PathBuf,
    architecture: Architecture,
}

impl Suite {
    /// Makes it, with the newest lists.
    fn made(name: &str, architecture: Architecture, folder: &Path) -> anyhow::Result<Self> {
        ensure!(Path::new(KEYS).is_file(), "{KEYS} is missing: install debian-archive-keyring");
        let state = folder.join("apt").join(format!("{name}-{}", architecture.name()));
        for part in ["lists/partial", "cache/archives/partial"] {
            fs::create_dir_all(state.join(part))?;
        }
        fs::write(state.join("status"), "")?;
        let source = |archive: &str, suite: &str| {
            format!("deb [signed-by={KEYS}] {MIRROR}/{archive} {suite} main\n")
        };
        let mut sources = source("debian", name);
        // Its newest kernel is for PCs; nothing reaches an emulated board.
        if architecture == Architecture::Amd64 {
            sources += &source("debian-security", &format!("{name}-security"));
        }
        fs::write(state.join("sources.list"), sources)?;
        let suite = Self { state, architecture };
        printed(&mut suite.apt("apt-get", &["update"]))?;
        Ok(suite)
    }

    /// Downloads `package` and unpacks it to `unpacked`, where `finish` completes it.
    fn unpacked(
        &self,
        package: &str,
        unpacked: &Path,
        finish: impl FnOnce(&Path) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        // Only a whole package gets its final name: an interrupted one is fetched again.
        let mut partial = unpacked.as_os_str().to_owned();
        partial.push(".partial");
        let partial = Path::new(&partial);
        if partial.exists() {
            fs::remove_dir_all(partial)?;
        }
        fs::create_dir_all(partial)?;
        printed(self.apt("apt-get", &["download", package]).current_dir(partial))?;
        let mut files = fs::read_dir(partial)?.filter_map(|entry| Some(entry.ok()?.path()));
        let file = files.find(|path| path.extension().is_some_and(|end| end == "deb"));
        let file = file.context("apt-get downloaded no package")?;
        printed(Command::new("dpkg-deb").arg("-x").arg(&file).arg(partial))?;
        fs::remove_file(&file)?;
        finish(partial)?;
        fs::rename(partial, unpacked).with_context(|| format!("keep {}", unpacked.display()))
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
        let architecture = self.architecture.name();
        for setting in [
            "Dir::Etc::sourceparts=/dev/null",
            &format!("APT::Architecture={architecture}"),
            &format!("APT::Architectures::={architecture}"),
            // Its own user could not write below this folder.
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
