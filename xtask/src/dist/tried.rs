//! The package of Debian in a clean system: installed, used, removed.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};

use super::content::Tree;
use crate::tools::printed;

/// Uses of the package, each by one command.
const USES: [&[&str]; 5] = [
    &["linerate", "--version"],
    &["linerate-agent", "--version"],
    &["linerate", "to", "loopback", "-t", "1"],
    &["linerate", "plan", "tcp_stream"],
    &["/usr/libexec/linerate/iperf3", "--version"],
];

/// Installs `package` in a new Debian system in `out`, uses it, removes it, and requires that no
/// file of it stays.
pub(super) fn in_clean_system(out: &Path, package: &Path) -> anyhow::Result<()> {
    let root = Tree::new(out.join("clean-system"))?;
    let system = root.path();
    let mut strap = Command::new("debootstrap");
    printed(strap.args(["--variant=minbase", "stable"]).arg(system))?;
    let before = files(system)?;
    let name = package.file_name().context("a package has a name")?;
    std::fs::copy(package, system.join("tmp").join(name))?;
    let inside = Path::new("/tmp").join(name).display().to_string();
    within(system, &["dpkg", "--install", &inside])?;
    let installed: Vec<PathBuf> = files(system)?.difference(&before).cloned().collect();
    ensure!(installed.iter().any(|file| file.ends_with("usr/bin/linerate")), "{installed:?}");
    for words in USES {
        let said = within(system, words)?;
        println!("{}: {}", words.join(" "), said.lines().next_back().unwrap_or_default());
    }
    within(system, &["dpkg", "--purge", "linerate"])?;
    std::fs::remove_file(system.join("tmp").join(name))?;
    let left: Vec<PathBuf> = files(system)?.difference(&before).cloned().collect();
    ensure!(left.is_empty(), "files that stay after the package was removed: {left:?}");
    println!("{} installed, used and removed: no file of it stays", package.display());
    Ok(())
}

/// Runs a command inside `system`, which sees no network but its own loopback interface.
fn within(system: &Path, words: &[&str]) -> anyhow::Result<String> {
    let mut command = Command::new("unshare");
    command.args(["--net", "--mount", "--pid", "--fork", "--", "sh", "-c"]);
    command.arg(
        "mount -t proc proc \"$0/proc\" && mount -t sysfs sysfs \"$0/sys\" && ip link set lo up \
            && exec chroot \"$0\" \"$@\"",
    );
    command.arg(system).args(words).env("LC_ALL", "C").env_remove("TMPDIR");
    printed(&mut command)
}

/// Returns all files and folders of `system`, without what dpkg notes of every package.
fn files(system: &Path) -> anyhow::Result<BTreeSet<PathBuf>> {
    /// Folders of notes, and those that only a running system has.
    const LEFT_OUT: [&str; 5] = ["proc", "sys", "var/lib/dpkg", "var/log", "var/cache"];
    let mut found = BTreeSet::new();
    let mut next = vec![system.to_owned()];
    while let Some(folder) = next.pop() {
        for entry in std::fs::read_dir(&folder)? {
            let entry = entry?;
            let path = entry.path();
            let inside = path.strip_prefix(system)?.to_owned();
            if LEFT_OUT.iter().any(|left_out| inside == Path::new(left_out)) {
                continue;
            }
            // A link is not followed: it may lead out of the system.
            if entry.file_type()?.is_dir() {
                next.push(path);
            }
            found.insert(inside);
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_a_system_are_listed_without_what_dpkg_notes() {
        let root = tempfile::tempdir().expect("a folder");
        for file in ["usr/bin/linerate", "var/lib/dpkg/status", "proc/1/stat", "var/lib/other"] {
            let path = root.path().join(file);
            std::fs::create_dir_all(path.parent().expect("it has one")).expect("a folder");
            std::fs::write(path, "").expect("a file");
        }
        let found = files(root.path()).expect("it is readable");
        let expected = ["usr", "usr/bin", "usr/bin/linerate", "var", "var/lib", "var/lib/other"];
        assert_eq!(found, expected.map(PathBuf::from).into());
    }
}
