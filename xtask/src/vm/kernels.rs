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
pub(crate) struct Kernel {
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
pub(crate) fn fetched(kernel: &Kernel, folder: &Path) -> anyhow::Result<PathBuf> {
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
    // Newer suites have image and modules in packages of their own.
    let parts = printed(&mut suite.apt("apt-cache", &["depends", package]))?;
    let packages: Vec<&str> = std::iter::once(package).chain(parts_of(&parts)).collect();
    suite.unpacked(&packages, &unpacked, |partial| {
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
        suite.unpacked(&[name], &unpacked, |_| Ok(()))?;
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

/// Returns the packages of image, modules and their lists among those dependencies.
fn parts_of(depends: &str) -> impl Iterator<Item = &str> {
    let packages = depends.lines().filter_map(|line| line.trim().strip_prefix("Depends: "));
    let prefixes = ["linux-base-", "linux-binary-", "linux-modules-"];
    packages.filter(move |package| prefixes.iter().any(|prefix| package.starts_with(prefix)))
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

/// Returns the image of the unpacked kernel.
pub(super) fn boot_image(unpacked: &Path) -> anyhow::Result<PathBuf> {
    let release = release(unpacked)?;
    let places = [format!("boot/vmlinuz-{release}"), format!("lib/modules/{release}/vmlinuz")];
    let mut files = places.iter().map(|place| unpacked.join(place));
    files.find(|file| file.is_file()).with_context(|| format!("no image of {release}"))
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
        // Its newest kernel is for PCs; nothing reaches an emulated board. The unstable suite has
        // no such archive.
        if architecture == Architecture::Amd64 && name != "sid" {
            sources += &source("debian-security", &format!("{name}-security"));
        }
        fs::write(state.join("sources.list"), sources)?;
        let suite = Self { state, architecture };
        printed(&mut suite.apt("apt-get", &["update"]))?;
        Ok(suite)
    }

    /// Downloads `packages` and unpacks them to `unpacked`, where `finish` completes them.
    fn unpacked(
        &self,
        packages: &[&str],
        unpacked: &Path,
        finish: impl FnOnce(&Path) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        // Only a whole folder gets its final name: an interrupted download starts again.
        let mut partial = unpacked.as_os_str().to_owned();
        partial.push(".partial");
        let partial = Path::new(&partial);
        if partial.exists() {
            fs::remove_dir_all(partial)?;
        }
        fs::create_dir_all(partial)?;
        let download = [&["download"], packages].concat();
        printed(self.apt("apt-get", &download).current_dir(partial))?;
        for entry in fs::read_dir(partial)? {
            let file = entry?.path();
            if file.extension().is_some_and(|end| end == "deb") {
                printed(Command::new("dpkg-deb").arg("-x").arg(&file).arg(partial))?;
                fs::remove_file(&file)?;
            }
        }
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

    #[test]
    fn image_and_modules_of_newer_suites_are_packages_of_their_own() {
        let depends = "linux-image-7.2-amd64\n |Depends: dracut\n  Depends: linux-base\n  \
            Depends: linux-binary-7.2-amd64\n  Depends: linux-modules-7.2-amd64\n";
        let parts: Vec<&str> = parts_of(depends).collect();
        assert_eq!(parts, ["linux-binary-7.2-amd64", "linux-modules-7.2-amd64"]);
        assert_eq!(parts_of("  Depends: kmod\n").count(), 0);
    }
}
