//! Files of a package, the same for every package format.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;

use crate::tools::printed;

/// Shells, and where completions of a command line belong: `%s` stands for the folder of zsh,
/// which distributions disagree on.
const COMPLETIONS: [(&str, &str); 3] = [
    ("bash", "usr/share/bash-completion/completions/linerate"),
    ("zsh", "usr/share/zsh/%s/_linerate"),
    ("fish", "usr/share/fish/vendor_completions.d/linerate.fish"),
];

/// Names under which `linerate` takes the command lines of other programs, and the folder of links
/// with these names. It is in no user's PATH: the distribution has programs of the same names.
const NAMES: [&str; 3] = ["iperf3", "netperf", "netserver"];
const NAMES_IN: &str = "usr/libexec/linerate";

/// Programs of one target, and a program that runs on this host: it writes the manual page and the
/// completions, which depend on no processor.
pub(super) struct Programs {
    pub(super) linerate: PathBuf,
    pub(super) agent: PathBuf,
    pub(super) of_host: PathBuf,
}

impl Programs {
    /// Returns the bytes that both programs take.
    pub(super) fn size(&self) -> anyhow::Result<u64> {
        Ok(self.linerate.metadata()?.len() + self.agent.metadata()?.len())
    }
}

/// Folder with the files of a package; it is removed with this value.
pub(super) struct Tree(PathBuf);

impl Tree {
    /// Makes an empty folder `path`: files of an earlier package must not get into this one.
    pub(super) fn new(path: PathBuf) -> anyhow::Result<Self> {
        if path.exists() {
            fs::remove_dir_all(&path).with_context(|| format!("remove {}", path.display()))?;
        }
        fs::create_dir_all(&path).with_context(|| format!("create {}", path.display()))?;
        Ok(Self(path))
    }

    /// Returns where it is.
    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    /// Writes the file `path` of the package.
    pub(super) fn put(&self, path: &str, content: &[u8], mode: u32) -> anyhow::Result<()> {
        let file = self.0.join(path);
        self.folder(file.parent().context("a file has a folder")?, 0o755)?;
        fs::write(&file, content).with_context(|| format!("write {}", file.display()))?;
        Ok(fs::set_permissions(&file, fs::Permissions::from_mode(mode))?)
    }

    /// Makes the folder `path` of the package, and those above it, whatever this process's umask.
    pub(super) fn folder(&self, path: &Path, mode: u32) -> anyhow::Result<()> {
        let mut folder = self.0.clone();
        let path = self.0.join(path);
        for part in path.strip_prefix(&self.0)? {
            folder.push(part);
            fs::create_dir_all(&folder)?;
            let mode = if folder == path { mode } else { 0o755 };
            fs::set_permissions(&folder, fs::Permissions::from_mode(mode))?;
        }
        Ok(())
    }

    /// Makes the link `path` of the package, which leads to `target`.
    fn link(&self, path: &str, target: &str) -> anyhow::Result<()> {
        let link = self.0.join(path);
        self.folder(link.parent().context("a link has a folder")?, 0o755)?;
        symlink(target, &link).with_context(|| format!("link {}", link.display()))
    }

    /// Writes both programs.
    pub(super) fn put_programs(&self, programs: &Programs) -> anyhow::Result<()> {
        self.put("usr/bin/linerate", &fs::read(&programs.linerate)?, 0o755)?;
        self.put("usr/bin/linerate-agent", &fs::read(&programs.agent)?, 0o755)
    }

    /// Writes all that a host gets: programs, the unit of the agent below `units`, manual page,
    /// completions (those of zsh below `zsh`), links and licenses.
    pub(super) fn put_all(
        &self,
        root: &Path,
        programs: &Programs,
        units: &str,
        zsh: &str,
    ) -> anyhow::Result<()> {
        self.put_programs(programs)?;
        for name in NAMES {
            self.link(&format!("{NAMES_IN}/{name}"), "../../bin/linerate")?;
        }
        let unit = fs::read(root.join("packaging/systemd/linerate-agent.service"))?;
        self.put(&format!("{units}/linerate-agent.service"), &unit, 0o644)?;
        let said = |arguments: &[&str]| printed(Command::new(&programs.of_host).args(arguments));
        self.put("usr/share/man/man1/linerate.1", said(&["man"])?.as_bytes(), 0o644)?;
        for (shell, path) in COMPLETIONS {
            let text = said(&["completions", shell])?;
            self.put(&path.replace("%s", zsh), text.as_bytes(), 0o644)?;
        }
        for license in ["LICENSE-MIT", "LICENSE-APACHE"] {
            let text = fs::read(root.join(license)).with_context(|| format!("read {license}"))?;
            self.put(&format!("usr/share/doc/linerate/{license}"), &text, 0o644)?;
        }
        Ok(())
    }

    /// Returns the paths of its files and links, as a host has them, in order.
    pub(super) fn files(&self) -> anyhow::Result<Vec<String>> {
        let mut find = Command::new("find");
        let list = printed(find.arg(&self.0).args(["-type", "f,l", "-printf", "/%P\n"]))?;
        let mut files: Vec<String> = list.lines().map(str::to_owned).collect();
        files.sort();
        Ok(files)
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        // It is made anew for the next package, which then says what is wrong with it.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Returns the time of the commit that is packed, in seconds since 1970: packages of one commit
/// have the same bytes whenever they are made (reproducible-builds.org, SOURCE_DATE_EPOCH).
pub(super) fn epoch(root: &Path) -> anyhow::Result<u64> {
    let time = printed(Command::new("git").args(["log", "-1", "--format=%ct"]).current_dir(root))?;
    time.trim().parse().with_context(|| format!("git printed {time:?} as a time"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_has_its_files_with_their_rights_and_leaves_no_folder() {
        let path = std::env::temp_dir().join(format!("linerate-tree-{}", std::process::id()));
        let tree = Tree::new(path.clone()).expect("a folder");
        tree.put("usr/bin/b", b"2", 0o755).expect("a file");
        tree.put("usr/a", b"1", 0o640).expect("a file");
        tree.link("usr/c/d", "../bin/b").expect("a link");
        tree.folder(Path::new("tmp"), 0o1777).expect("a folder");
        assert_eq!(tree.files().expect("a list"), ["/usr/a", "/usr/bin/b", "/usr/c/d"]);
        assert_eq!(fs::read(path.join("usr/c/d")).expect("it leads to the file"), b"2");
        let mode = |name: &str| path.join(name).metadata().expect("is there").permissions().mode();
        assert_eq!(mode("usr/bin/b") & 0o7777, 0o755);
        assert_eq!(mode("usr/a") & 0o7777, 0o640);
        assert_eq!(mode("usr") & 0o7777, 0o755);
        assert_eq!(mode("tmp") & 0o7777, 0o1777);
        let again = Tree::new(path.clone()).expect("a folder");
        assert!(again.files().expect("a list").is_empty(), "of the package before");
        drop(again);
        assert!(!path.exists());
    }
}
