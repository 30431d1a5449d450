//! What the owner of a host lets loads read and fill, where a conductor on another host asks for
//! it.

use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::path::{Component, Path, PathBuf};

use crate::DiskError;

/// Files and folders that loads may use, and how much room.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileLimits {
    /// The policy's file: it is named in refusals.
    pub file: String,
    /// Existing files, devices, and folders of them that loads may read.
    pub read: Vec<PathBuf>,
    /// Folders that scratch files may be made in.
    pub folders: Vec<PathBuf>,
    /// Bytes of each scratch file at most.
    pub disk_space: u64,
}

impl FileLimits {
    /// What a policy permits that says nothing, in `file`.
    #[must_use]
    pub fn new(file: &str) -> Self {
        /// As long as a transfer of 64 GiB, which is what loads write in a campaign unless told
        /// otherwise.
        const DISK_SPACE: u64 = 64 << 30;
        let folders = ["/tmp", "/var/tmp"].map(PathBuf::from).to_vec();
        Self { file: file.to_owned(), read: Vec::new(), folders, disk_space: DISK_SPACE }
    }

    /// Whether loads may read `path`. A path outside is not even looked for: otherwise the answer
    /// would tell whether it exists.
    pub(crate) fn may_read(&self, path: &Path) -> Result<(), DiskError> {
        self.within(&self.read, path, "read", "read")
    }

    /// Whether a scratch file of `size` bytes may be made in `folder`.
    ///
    /// # Errors
    /// If the policy does not name the folder, or permits less.
    pub fn may_fill(&self, folder: &Path, size: u64) -> Result<(), DiskError> {
        self.within(&self.folders, folder, "make a file in", "folders")?;
        if size <= self.disk_space {
            return Ok(());
        }
        let line = format!("disk_space = \"{size} B\"");
        Err(self.refused(format!("make a file of {size} B (at most {} B)", self.disk_space), &line))
    }

    /// Whether `file`, opened by the name `path`, is one that loads may read: the name may have led
    /// elsewhere since it was looked at.
    pub(crate) fn may_keep_open(&self, file: &File, path: &Path) -> Result<(), DiskError> {
        if is_beneath(file, &self.read) { Ok(()) } else { self.may_not("read", path, "read") }
    }

    /// Whether `file`, a scratch file just made in `folder`, is where one may be.
    pub(crate) fn may_keep_made(&self, file: &File, folder: &Path) -> Result<(), DiskError> {
        if is_beneath(file, &self.folders) {
            Ok(())
        } else {
            self.may_not("make a file in", folder, "folders")
        }
    }

    fn within(
        &self,
        places: &[PathBuf],
        path: &Path,
        operation: &str,
        key: &str,
    ) -> Result<(), DiskError> {
        let is_plain =
            path.is_absolute() && !path.components().any(|part| part == Component::ParentDir);
        let is_named = is_plain && places.iter().any(|place| path.starts_with(place));
        // A link inside may lead outside.
        let leads_inside = || fs::canonicalize(path).is_ok_and(|real| is_in(&real, places));
        if is_named && leads_inside() { Ok(()) } else { self.may_not(operation, path, key) }
    }

    fn may_not(&self, operation: &str, path: &Path, key: &str) -> Result<(), DiskError> {
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

/// Whether `real`, which has no link in it, is one of `places` or beneath one.
fn is_in(real: &Path, places: &[PathBuf]) -> bool {
    places
        .iter()
        .filter_map(|place| fs::canonicalize(place).ok())
        .any(|place| real.starts_with(place))
}

/// Whether the open `file` is one of `places` or beneath one, wherever the name led by which it was
/// opened.
fn is_beneath(file: &File, places: &[PathBuf]) -> bool {
    fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd()))
        .is_ok_and(|real| is_in(&real, places))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_outside_is_refused_alike_whether_it_exists_or_not() {
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
        // As if the name had led inside when it was looked at, and outside when it was opened.
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
