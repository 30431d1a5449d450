//! What the owner of a host lets loads read and fill, where a conductor on another host asks for it.

use std::fs;
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
        /// As long as a transfer of 64 GiB, which is what loads write in a campaign unless told otherwise.
        const DISK_SPACE: u64 = 64 << 30;
        let folders = ["/tmp", "/var/tmp"].map(PathBuf::from).to_vec();
        Self { file: file.to_owned(), read: Vec::new(), folders, disk_space: DISK_SPACE }
    }

    /// Whether loads may read `path`. A path outside is not even looked for: otherwise the answer would tell whether it exists.
    pub(crate) fn may_read(&self, path: &Path) -> Result<(), DiskError> {
        self.within(&self.read, path, "read", "read")
    }

    /// Whether a scratch file of `size` bytes may be made in `folder`.
    pub(crate) fn may_fill(&self, folder: &Path, size: u64) -> Result<(), DiskError> {
        self.within(&self.folders, folder, "make a file in", "folders")?;
        if size <= self.disk_space {
            return Ok(());
        }
        let line = format!("disk_space = \"{size} B\"");
        Err(self.refused(format!("make a file of {size} B (at most {} B)", self.disk_space), &line))
    }

    fn within(&self, places: &[PathBuf], path: &Path, operation: &str, key: &str) -> Result<(), DiskError> {
        let is_plain = path.is_absolute() && !path.components().any(|part| part == Component::ParentDir);
        let is_named = is_plain && places.iter().any(|place| path.starts_with(place));
        // A link inside may lead outside.
        let leads_inside = || {
            let real = fs::canonicalize(path);
            real.is_ok_and(|real| {
                places.iter().filter_map(|place| fs::canonicalize(place).ok()).any(|place| real.starts_with(place))
            })
        };
        if is_named && leads_inside() {
            return Ok(());
        }
        let path = path.display();
        Err(self.refused(format!("{operation} {path}"), &format!("{key} = [\"{path}\"]")))
    }

    fn refused(&self, what: String, line: &str) -> DiskError {
        DiskError::unsuitable(
            what,
            format!("this host's policy does not permit it; its owner can, with `{line}` in {}", self.file),
        )
    }
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
        std::os::unix::fs::symlink(ground.path().join("shadow"), inside.join("link")).expect("a link");
        let limits = FileLimits { read: vec![inside.clone()], ..FileLimits::new("/etc/linerate/agent.toml") };
        limits.may_read(&inside.join("data")).expect("it is named");
        let refused = |path: &Path| limits.may_read(path).expect_err("it is outside").to_string();
        let there = refused(&ground.path().join("shadow"));
        let not_there = refused(&ground.path().join("shadoX"));
        assert_eq!(there.replace("shadow", "shadoX"), not_there);
        assert!(there.contains("`read = [") && there.contains("/etc/linerate/agent.toml"), "{there}");
        refused(&inside.join("link"));
        refused(&inside.join("../shadow"));
        refused(Path::new("inside/data"));
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
    }
}
