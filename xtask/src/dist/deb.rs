//! A Debian package: both programs, the unit of the agent, manual page and completions.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;

use super::FOLDER;
use super::build::{Build, built};
use super::target::{TARGETS, Target};
use crate::tools::printed;

/// Shells, and where Debian expects what completes command lines in them.
const COMPLETIONS: [(&str, &str); 3] = [
    ("bash", "usr/share/bash-completion/completions/linerate"),
    ("zsh", "usr/share/zsh/vendor-completions/_linerate"),
    ("fish", "usr/share/fish/vendor_completions.d/linerate.fish"),
];

/// Folder with the files of a package.
struct Tree(PathBuf);

impl Tree {
    fn put(&self, path: &str, content: &[u8], mode: u32) -> anyhow::Result<()> {
        let file = self.0.join(path);
        fs::create_dir_all(file.parent().expect("it is below the tree"))?;
        fs::write(&file, content).with_context(|| format!("write {}", file.display()))?;
        Ok(fs::set_permissions(&file, fs::Permissions::from_mode(mode))?)
    }

    fn remove(&self) -> anyhow::Result<()> {
        match fs::remove_dir_all(&self.0) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(error).with_context(|| format!("remove {}", self.0.display()))
            }
            _ => Ok(()),
        }
    }
}

/// Packs `linerate` and `agent` of `target`; returns the package, in `out`.
pub(super) fn package(
    root: &Path,
    out: &Path,
    target: &Target,
    linerate: &Path,
    agent: &Path,
) -> anyhow::Result<PathBuf> {
    let version = env!("CARGO_PKG_VERSION");
    let name = format!("linerate_{version}_{}", target.debian);
    let tree = Tree(out.join(&name));
    // Files of an earlier package must not get into this one.
    tree.remove()?;
    tree.put("usr/bin/linerate", &fs::read(linerate)?, 0o755)?;
    tree.put("usr/bin/linerate-agent", &fs::read(agent)?, 0o755)?;
    let unit = fs::read(root.join("packaging/systemd/linerate-agent.service"))?;
    tree.put("lib/systemd/system/linerate-agent.service", &unit, 0o644)?;
    // They depend on no processor, so the program of this host writes them.
    let host = built_for_host(root)?;
    tree.put("usr/share/man/man1/linerate.1", &said(&host, &["man"])?, 0o644)?;
    for (shell, path) in COMPLETIONS {
        tree.put(path, &said(&host, &["completions", shell])?, 0o644)?;
    }
    for license in ["LICENSE-MIT", "LICENSE-APACHE"] {
        let text = fs::read(root.join(license)).with_context(|| format!("read {license}"))?;
        tree.put(&format!("usr/share/doc/linerate/{license}"), &text, 0o644)?;
    }
    let size = linerate.metadata()?.len() + agent.metadata()?.len();
    tree.put("DEBIAN/control", control(version, target, size).as_bytes(), 0o644)?;
    let package = out.join(format!("{name}.deb"));
    let mut pack = Command::new("dpkg-deb");
    pack.args(["--root-owner-group", "--build"]).arg(&tree.0).arg(&package);
    printed(&mut pack)?;
    tree.remove()?;
    Ok(package)
}

/// Returns the control file of the package, whose programs have `size` bytes (deb-control(5)).
fn control(version: &str, target: &Target, size: u64) -> String {
    format!(
        "Package: linerate\n\
         Version: {version}\n\
         Architecture: {}\n\
         Maintainer: The linerate authors <linerate@localhost>\n\
         Installed-Size: {}\n\
         Section: net\n\
         Priority: optional\n\
         Recommends: iproute2, ethtool\n\
         Description: measures networks and disks, and names the bottleneck with proof\n \
         linerate measures how fast hosts move data over networks and disks, what each\n \
         byte and packet costs, what theory would allow, and what the bottleneck is.\n \
         The agent is not started: see linerate-agent.service for its rights.\n",
        target.debian,
        size.div_ceil(1024)
    )
}

/// Returns a program that runs on this host.
fn built_for_host(root: &Path) -> anyhow::Result<PathBuf> {
    let own = TARGETS.iter().find(|one| one.triple.starts_with(std::env::consts::ARCH));
    let own = own.context("there is no target for this host")?;
    built(root, &root.join(FOLDER), own, Build::Program)
}

/// Returns what the program prints with `arguments`.
fn said(program: &Path, arguments: &[&str]) -> anyhow::Result<Vec<u8>> {
    Ok(printed(Command::new(program).args(arguments))?.into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dist::target::BMC;

    #[test]
    fn the_control_file_has_the_fields_that_dpkg_needs() {
        let text = control("0.2.0", BMC, 4_000_001);
        for line in ["Package: linerate", "Architecture: armhf", "Installed-Size: 3907"] {
            assert!(text.lines().any(|one| one == line), "{line}: {text}");
        }
        let folded = text.lines().skip_while(|line| !line.starts_with("Description"));
        assert!(folded.skip(1).all(|line| line.starts_with(' ')), "{text}");
    }
}
