//! Ledgers in a folder: found by going through it, never by a path of a request.
//!
//! A request names a ledger as the list does, and the name is searched in the list. A name with
//! `..` in it is therefore not found, and links are not followed in either case.

use std::collections::BTreeMap;
use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// Ending of a ledger's name.
const ENDING: &str = "ledger";
/// Folders within each other that are searched.
const DEEPEST: usize = 4;
/// Most entries read in all folders: a home folder must not keep a disk busy.
const MOST_ENTRIES: usize = 20_000;

/// Ledger in the folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    /// File.
    pub(crate) path: PathBuf,
    /// State of the file. It differs after every change.
    pub(crate) stamp: Stamp,
}

/// State of a ledger and of the log beside it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Stamp {
    file: [i64; 4],
    log: [i64; 4],
}

impl Stamp {
    /// Returns true if there is a log beside the ledger: a process has it open, or was killed.
    pub(crate) fn has_log(&self) -> bool {
        self.log != [0; 4]
    }

    fn of(path: &Path, file: &Metadata) -> Self {
        let state = |data: &Metadata| {
            [data.ino() as i64, data.len() as i64, data.mtime(), data.mtime_nsec()]
        };
        let mut log = path.as_os_str().to_owned();
        log.push("-wal");
        let log = fs::symlink_metadata(PathBuf::from(log)).ok();
        Self { file: state(file), log: log.as_ref().map(state).unwrap_or_default() }
    }
}

/// Returns the ledgers in `folder` by their names within it. Links and hidden folders are left
/// out.
///
/// # Errors
/// If the folder itself cannot be read.
pub(crate) fn ledgers(folder: &Path) -> std::io::Result<BTreeMap<String, Found>> {
    let mut found = BTreeMap::new();
    let mut waiting = vec![(folder.to_owned(), 0)];
    let mut n_entries = 0;
    while let Some((within, depth)) = waiting.pop() {
        let entries = match fs::read_dir(&within) {
            Err(error) if depth == 0 => return Err(error),
            // A folder of somebody else inside has none of ours.
            Err(_) => continue,
            Ok(entries) => entries,
        };
        for entry in entries.flatten() {
            n_entries += 1;
            if n_entries > MOST_ENTRIES {
                return Ok(found);
            }
            let path = entry.path();
            // Of a link these are the data of the link, which is neither.
            let Ok(data) = fs::symlink_metadata(&path) else { continue };
            let is_hidden = entry.file_name().as_encoded_bytes().starts_with(b".");
            if data.is_dir() && !is_hidden && depth + 1 < DEEPEST {
                waiting.push((path, depth + 1));
            } else if data.is_file()
                && path.extension().is_some_and(|ending| ending == ENDING)
                && let Some(name) = path.strip_prefix(folder).ok().and_then(Path::to_str)
            {
                let stamp = Stamp::of(&path, &data);
                found.insert(name.to_owned(), Found { path, stamp });
            }
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ledgers_are_found_in_folders_and_links_are_not_followed() {
        let outside = tempfile::tempdir().expect("a folder");
        fs::write(outside.path().join("secret.ledger"), "x").expect("written");
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        fs::create_dir_all(at("a/b")).expect("made");
        fs::create_dir_all(at(".hidden")).expect("made");
        for name in ["x.ledger", "a/b/y.ledger", ".hidden/z.ledger", "x.toml", "ledger"] {
            fs::write(at(name), "x").expect("written");
        }
        fs::create_dir(at("folder.ledger")).expect("made");
        let secret = outside.path().join("secret.ledger");
        for (target, name) in
            [(&*secret, "link.ledger"), (outside.path(), "linked"), (Path::new(".."), "up")]
        {
            std::os::unix::fs::symlink(target, at(name)).expect("linked");
        }
        let found = ledgers(folder.path()).expect("readable");
        assert_eq!(Vec::from_iter(found.keys()), ["a/b/y.ledger", "x.ledger"]);
        assert!(ledgers(&at("nothing")).is_err());
    }

    #[test]
    fn every_change_of_a_ledger_or_its_log_shows() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = folder.path().join("x.ledger");
        fs::write(&at, "x").expect("written");
        let stamp = || ledgers(folder.path()).expect("readable")["x.ledger"].stamp;
        let first = stamp();
        assert_eq!(stamp(), first);
        fs::write(folder.path().join("x.ledger-wal"), "log").expect("written");
        let second = stamp();
        assert_ne!(second, first);
        fs::write(&at, "xy").expect("written");
        assert_ne!(stamp(), second);
    }
}
