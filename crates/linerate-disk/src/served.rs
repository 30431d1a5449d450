//! Folder whose files a load may send to foreign clients: only a folder that a person named on this
//! host, only regular files, and only files that existed when the load was prepared.
//!
//! A request is looked up in that list and never passed to the kernel as a path, so that no request
//! leads out of the folder. A file is opened component by component from the folder's own
//! descriptor, and symbolic links are never followed.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, fstat, openat, statat};
use rustix::io::Errno;

use crate::{DiskError, Result};

/// Limit for listed files and folders: each needs a few hundred bytes of memory.
const MOST_ENTRIES: usize = 1_000_000;
/// Limit for the depth of folders.
const MOST_LEVELS: usize = 64;

/// Files of a folder, sorted by path.
#[derive(Debug)]
pub struct Served {
    root: OwnedFd,
    path: PathBuf,
    entries: Vec<ServedEntry>,
}

/// File or folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServedEntry {
    /// Path relative to the folder, with slashes; empty for the folder itself.
    pub path: Vec<u8>,
    /// Size in bytes; `None` for a folder.
    pub size: Option<u64>,
    /// Time of the last change, seconds since 1970.
    pub modified: i64,
}

impl Served {
    /// Lists the folder `path`.
    ///
    /// # Errors
    /// If it cannot be read, or has too many files.
    pub(crate) fn list(path: &Path) -> Result<Self> {
        let error = |cause: Errno| DiskError::io("list", path.display(), cause);
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::open(path, flags, Mode::empty()).map_err(error)?;
        let modified = fstat(&root).map_err(error)?.st_mtime;
        let mut entries = vec![ServedEntry { path: Vec::new(), size: None, modified }];
        let mut next = 0;
        // The list is its own queue of folders: no recursion, so depth cannot exhaust the stack.
        while let Some(entry) = entries.get(next) {
            next += 1;
            if entry.size.is_some() {
                continue;
            }
            let at = entry.path.clone();
            let folder = match open_beneath(&root, &at, OFlags::DIRECTORY) {
                Ok(folder) => folder,
                // Removed meanwhile, or not readable: nothing is served from it.
                Err(_) if !at.is_empty() => continue,
                Err(cause) => return Err(error(cause)),
            };
            list_one(&folder, &at, &mut entries).map_err(error)?;
            if entries.len() > MOST_ENTRIES
                || at.iter().filter(|byte| **byte == b'/').count() > MOST_LEVELS
            {
                return Err(DiskError::unsuitable(
                    format!("serve {}", path.display()),
                    format!(
                        "it has more than {MOST_ENTRIES} files or {MOST_LEVELS} levels (use a \
                            folder in it)"
                    ),
                ));
            }
        }
        entries.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(Self { root, path: path.to_owned(), entries })
    }

    /// Returns the entries, sorted by path; the folder itself is the first.
    #[must_use]
    pub fn entries(&self) -> &[ServedEntry] {
        &self.entries
    }

    /// Returns the path of the folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Opens the file listed at `place` and returns its present size. Allocates nothing.
    ///
    /// # Errors
    /// If it is gone, is not readable, or is no longer a regular file.
    pub fn open(&self, place: usize) -> std::io::Result<(File, u64)> {
        // If a FIFO has replaced the file, the open must not wait for a writer.
        let file = open_beneath(&self.root, &self.entries[place].path, OFlags::NONBLOCK)?;
        let stat = fstat(&file)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err(std::io::ErrorKind::NotFound.into());
        }
        Ok((file.into(), u64::try_from(stat.st_size).unwrap_or(0)))
    }
}

/// Appends the files and folders in `folder`, whose path is `at`. Skips names with control
/// characters, which would add lines to a listing.
fn list_one(folder: &OwnedFd, at: &[u8], entries: &mut Vec<ServedEntry>) -> Result<(), Errno> {
    for entry in Dir::read_from(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        let is_special = [&b"."[..], b".."].contains(&name.to_bytes());
        if is_special || name.to_bytes().iter().any(u8::is_ascii_control) {
            continue;
        }
        // Without following links: a link inside the folder may lead out of it.
        let Ok(stat) = statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
        let size = match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => Some(u64::try_from(stat.st_size).unwrap_or(0)),
            FileType::Directory => None,
            _ => continue,
        };
        let path = if at.is_empty() {
            name.to_bytes().to_vec()
        } else {
            [at, b"/", name.to_bytes()].concat()
        };
        entries.push(ServedEntry { path, size, modified: stat.st_mtime });
    }
    Ok(())
}

/// Opens the file at `path` below `root` for reading, without following any link on the way.
fn open_beneath(root: &OwnedFd, path: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
    const STEP: OFlags = OFlags::RDONLY.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
    let mut at: Option<OwnedFd> = None;
    let mut parts = path.split(|byte| *byte == b'/').peekable();
    while let Some(part) = parts.next() {
        let from = at.as_ref().unwrap_or(root);
        let flags = STEP | if parts.peek().is_some() { OFlags::DIRECTORY } else { flags };
        let part: &[u8] = if part.is_empty() { b"." } else { part };
        at = Some(openat(from, part, flags, Mode::empty())?);
    }
    at.ok_or(Errno::NOENT)
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn only_regular_files_beneath_are_listed_and_opened() {
        let ground = tempfile::tempdir().expect("a folder");
        let (inside, outside) = (ground.path().join("in"), ground.path().join("secret"));
        std::fs::create_dir_all(inside.join("a/b")).expect("a folder");
        std::fs::write(&outside, "secret").expect("writable");
        std::fs::write(inside.join("a/b/file"), "hello").expect("writable");
        std::fs::write(inside.join("two\nlines"), "x").expect("writable");
        symlink(&outside, inside.join("link")).expect("a link");
        symlink(ground.path(), inside.join("up")).expect("a link");
        let served = Served::list(&inside).expect("it is there");
        let listed: Vec<_> = served
            .entries()
            .iter()
            .map(|e| (String::from_utf8_lossy(&e.path).into_owned(), e.size))
            .collect();
        let folder = |path: &str| (path.to_owned(), None);
        assert_eq!(listed, [folder(""), folder("a"), folder("a/b"), ("a/b/file".into(), Some(5))]);
        let (mut file, size) = served.open(3).expect("it is there");
        let mut text = String::new();
        file.read_to_string(&mut text).expect("text");
        assert_eq!((text.as_str(), size), ("hello", 5));
        // A component of the path that has become a link is not followed.
        std::fs::remove_dir_all(inside.join("a")).expect("ours");
        std::fs::create_dir_all(ground.path().join("b")).expect("a folder");
        std::fs::write(ground.path().join("b/file"), "secret").expect("writable");
        symlink(ground.path(), inside.join("a")).expect("a link");
        assert!(served.open(3).is_err());
        std::fs::remove_file(inside.join("a")).expect("ours");
        std::fs::create_dir_all(inside.join("a/b")).expect("a folder");
        symlink(&outside, inside.join("a/b/file")).expect("a link");
        assert!(served.open(3).is_err());
    }
}
