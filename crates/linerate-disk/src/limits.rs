//! Files and folders that the owner of a host lets loads read and fill on behalf of a conductor on
//! another host.

use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::path::{Component, Path, PathBuf};

use crate::{DiskError, Result};

/// Files and folders that loads may use, and their space.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileLimits {
    /// Path of the policy file, which refusals name.
    pub file: String,
    /// Existing files and devices, and folders with such files, that loads may read.
    pub read: Vec<PathBuf>,
    /// Folders in which scratch files may be created.
    pub folders: Vec<PathBuf>,
    /// Largest size of a scratch file, bytes.
    pub disk_space: u64,
}

impl FileLimits {
    /// Returns the permissions of an empty policy in `file`.
    #[must_use]
    pub fn new(file: &str) -> Self {
        /// The size of the default transfer of a campaign, 64 GiB.
        const DISK_SPACE: u64 = 64 << 30;
        let folders = ["/tmp", "/var/tmp"].map(PathBuf::from).to_vec();
        Self { file: file.to_owned(), read: Vec::new(), folders, disk_space: DISK_SPACE }
    }

    /// Checks that loads may read `path`. A path outside is not even looked up: otherwise the
    /// answer would reveal if it exists.
    pub(crate) fn may_read(&self, path: &Path) -> Result<()> {
        self.within(&self.read, path, "read", "read")
    }

    /// Checks that a scratch file of `size` bytes may be created in `folder`.
    ///
    /// # Errors
    /// If the policy does not name the folder, or allows less space.
    pub fn may_fill(&self, folder: &Path, size: u64) -> Result<()> {
        self.within(&self.folders, folder, "make a file in", "folders")?;
        if size <= self.disk_space {
            return Ok(());
        }
        // The exact line to write, so that the owner need not compute it.
        let line = format!("disk_space = \"{size} B\"");
        Err(self.refused(format!("make a file of {size} B (at most {} B)", self.disk_space), &line))
    }

    /// Checks that loads may read `file`, which was opened as `path`. Since the first check the
    /// path may have been redirected.
    pub(crate) fn may_keep_open(&self, file: &File, path: &Path) -> Result<()> {
        if is_beneath(file, &self.read) { Ok(()) } else { self.may_not("read", path, "read") }
    }

    /// Checks that `file`, a new scratch file in `folder`, is at an allowed place.
    pub(crate) fn may_keep_made(&self, file: &File, folder: &Path) -> Result<()> {
        if is_beneath(file, &self.folders) {
            Ok(())
        } else {
            self.may_not("make a file in", folder, "folders")
        }
    }

    fn within(&self, places: &[PathBuf], path: &Path, operation: &str, key: &str) -> Result<()> {
        // Refused by its text alone, before the file system is asked: a path with `..` would make
        // the answer depend on what exists outside.
        let is_plain =
            path.is_absolute() && !path.components().any(|part| part == Component::ParentDir);
        let is_named = is_plain && places.iter().any(|place| path.starts_with(place));
        // A link inside an allowed folder may lead outside.
        let leads_inside = || fs::canonicalize(path).is_ok_and(|real| is_in(&real, places));
        if is_named && leads_inside() { Ok(()) } else { self.may_not(operation, path, key) }
    }

    fn may_not(&self, operation: &str, path: &Path, key: &str) -> Result<()> {
        let path = path.display();
        Err(self.refused(format!("{operation} {path}"), &format!("{key} = [\"{path}\"]")))
    }

    fn refused(&self, what: String, line: &str) -> DiskError {
        DiskError::unsuitable(
            what,
            format!(
                "this host's policy does not permit it; its owner can, with `{line}` in {}",
                self.file
            ),
        )
    }
}

/// Returns true if `real`, a path without links, is one of `places` or below one of them.
fn is_in(real: &Path, places: &[PathBuf]) -> bool {
    // The owner may have named a folder by a link.
    places
        .iter()
        .filter_map(|place| fs::canonicalize(place).ok())
        .any(|place| real.starts_with(place))
}

/// Returns true if the open `file` is one of `places` or below one of them, whatever path opened
/// it.
fn is_beneath(file: &File, places: &[PathBuf]) -> bool {
    fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd()))
        .is_ok_and(|real| is_in(&real, places))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_outside_gets_the_same_refusal_whether_it_exists_or_not() {
        let ground = tempfile::tempdir().expect("a folder");
        let inside = ground.path().join("inside");
        fs::create_dir(&inside).expect("a folder");
        fs::write(inside.join("data"), "x").expect("a file");
        fs::write(ground.path().join("shadow"), "x").expect("a file");
        std::os::unix::fs::symlink(ground.path().join("shadow"), inside.join("link"))
            .expect("a link");
        let limits = FileLimits {
            read: vec![inside.clone()],
            ..FileLimits::new("/etc/linerate/agent.toml")
        };
        limits.may_read(&inside.join("data")).expect("it is named");
        let refused = |path: &Path| limits.may_read(path).expect_err("it is outside").to_string();
        let there = refused(&ground.path().join("shadow"));
        let not_there = refused(&ground.path().join("shadoX"));
        assert_eq!(there.replace("shadow", "shadoX"), not_there);
        assert!(
            there.contains("`read = [") && there.contains("/etc/linerate/agent.toml"),
            "{there}"
        );
        refused(&inside.join("link"));
        refused(&inside.join("../shadow"));
        refused(Path::new("inside/data"));
        // Simulates a path that led inside at the first check and outside at the open.
        let opened = |path: &Path| File::open(path).expect("it is there");
        limits
            .may_keep_open(&opened(&inside.join("data")), &inside.join("data"))
            .expect("it is named");
        let why = limits
            .may_keep_open(&opened(&inside.join("link")), &inside.join("link"))
            .expect_err("outside");
        assert!(why.to_string().contains("`read = ["), "{why}");
    }

    #[test]
    fn files_are_made_where_and_as_long_as_the_owner_says() {
        let ground = tempfile::tempdir().expect("a folder");
        let folders = vec![ground.path().to_owned()];
        let limits = FileLimits { folders, disk_space: 1 << 20, ..FileLimits::new("policy") };
        limits.may_fill(ground.path(), 1 << 20).expect("it fits");
        let why = limits.may_fill(ground.path(), (1 << 20) + 1).expect_err("too long").to_string();
        assert!(why.contains("disk_space = \"1048577 B\""), "{why}");
        let why = limits.may_fill(Path::new("/"), 1).expect_err("elsewhere").to_string();
        assert!(why.contains("folders = [\"/\"]"), "{why}");
        let made = |folder: &Path| tempfile::tempfile_in(folder).expect("a file without a name");
        limits.may_keep_made(&made(ground.path()), ground.path()).expect("it is named");
        limits
            .may_keep_made(&made(Path::new("/dev/shm")), ground.path())
            .expect_err("made elsewhere");
    }
}
