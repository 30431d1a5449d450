//! Ledgers in a folder: found by going through it, never by a path of a request.
//!
//! A request names a ledger as the list does, and the name is searched in the list. A name with
//! `..` in it is therefore not found, and links are not followed in either case.

use std::collections::{BTreeMap, VecDeque};
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
    file: [i64; 6],
    log: [i64; 6],
}

impl Stamp {
    /// Returns true if there is a log beside the ledger: a process has it open, or was killed.
    pub(crate) fn has_log(&self) -> bool {
        self.log != [0; 6]
    }

    fn of(path: &Path, file: &Metadata) -> Self {
        let mut log = path.as_os_str().to_owned();
        log.push("-wal");
        let log = fs::symlink_metadata(PathBuf::from(log)).ok();
        Self { file: state(file), log: log.as_ref().map(state).unwrap_or_default() }
    }
}

/// Returns inode, length, and the times of writing and of any change. The right to read a file
/// shows in the last one alone.
fn state(data: &Metadata) -> [i64; 6] {
    let [written, changed] = [[data.mtime(), data.mtime_nsec()], [data.ctime(), data.ctime_nsec()]];
    let [inode, length] = [data.ino() as i64, data.len() as i64];
    [inode, length, written[0], written[1], changed[0], changed[1]]
}

/// Result of a search.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Search {
    /// Ledgers by their names within the folder.
    pub(crate) ledgers: BTreeMap<String, Found>,
    /// Parts of the folder that were left out.
    pub(crate) limits: Vec<Limit>,
}

/// Limit that left something out.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(crate) enum Limit {
    /// The folder has more than this number of entries.
    Entries { most: usize },
    /// Folders below this depth.
    Depth { deepest: usize, n_folders: usize },
    /// Campaigns of a ledger except the newest.
    Campaigns { ledger: String, most: usize, n_left_out: usize },
}

/// Searches `folder` for ledgers, the upper folders first. Links and hidden folders are left out.
///
/// # Errors
/// If the folder itself cannot be read.
pub(crate) fn ledgers(folder: &Path) -> std::io::Result<Search> {
    let mut search = Search::default();
    let mut waiting = VecDeque::from([(folder.to_owned(), 0)]);
    let (mut n_entries, mut n_deep) = (0, 0);
    'folders: while let Some((within, depth)) = waiting.pop_front() {
        let entries = match fs::read_dir(&within) {
            Err(error) if depth == 0 => return Err(error),
            // A folder of somebody else inside has none of ours.
            Err(_) => continue,
            Ok(entries) => entries,
        };
        for entry in entries.flatten() {
            n_entries += 1;
            if n_entries > MOST_ENTRIES {
                search.limits.push(Limit::Entries { most: MOST_ENTRIES });
                break 'folders;
            }
            let (path, name) = (entry.path(), entry.file_name());
            // The kind comes with the name, without a system call. A link is neither.
            let Ok(kind) = entry.file_type() else { continue };
            if kind.is_dir() && !name.as_encoded_bytes().starts_with(b".") {
                match depth + 1 < DEEPEST {
                    true => waiting.push_back((path, depth + 1)),
                    false => n_deep += 1,
                }
            } else if kind.is_file()
                && path.extension().is_some_and(|ending| ending == ENDING)
                && let Ok(data) = fs::symlink_metadata(&path)
                && let Some(name) = path.strip_prefix(folder).ok().and_then(Path::to_str)
            {
                let stamp = Stamp::of(&path, &data);
                search.ledgers.insert(name.to_owned(), Found { path, stamp });
            }
        }
    }
    if n_deep > 0 {
        search.limits.push(Limit::Depth { deepest: DEEPEST, n_folders: n_deep });
    }
    Ok(search)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

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
        let search = ledgers(folder.path()).expect("readable");
        assert_eq!(Vec::from_iter(search.ledgers.keys()), ["a/b/y.ledger", "x.ledger"]);
        assert_eq!(search.limits, []);
        assert!(ledgers(&at("nothing")).is_err());
    }

    #[test]
    fn every_change_of_a_ledger_or_its_log_shows() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = folder.path().join("x.ledger");
        fs::write(&at, "x").expect("written");
        let stamp = || ledgers(folder.path()).expect("readable").ledgers["x.ledger"].stamp;
        let first = stamp();
        assert_eq!(stamp(), first);
        fs::write(folder.path().join("x.ledger-wal"), "log").expect("written");
        let second = stamp();
        assert_ne!(second, first);
        fs::write(&at, "xy").expect("written");
        let third = stamp();
        assert_ne!(third, second);
        fs::set_permissions(&at, fs::Permissions::from_mode(0o400)).expect("changed");
        assert_ne!(stamp(), third, "it may be readable now");
    }

    #[test]
    fn upper_folders_come_first_and_what_is_left_out_is_known() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        // The names sort before and after that of the ledger beside it.
        for full in ["a/full", "z/full"] {
            fs::create_dir_all(at(full)).expect("made");
            for number in 0..MOST_ENTRIES / 2 {
                fs::write(at(full).join(number.to_string()), "").expect("written");
            }
        }
        for name in ["a/x.ledger", "z/x.ledger", "m.ledger"] {
            fs::write(at(name), "x").expect("written");
        }
        let search = ledgers(folder.path()).expect("readable");
        assert_eq!(Vec::from_iter(search.ledgers.keys()), ["a/x.ledger", "m.ledger", "z/x.ledger"]);
        assert_eq!(search.limits, [Limit::Entries { most: MOST_ENTRIES }]);
        for full in ["a/full", "z/full"] {
            fs::remove_dir_all(at(full)).expect("removed");
        }
        fs::create_dir_all(at("1/2/3/4/5")).expect("made");
        fs::write(at("1/2/3/deep.ledger"), "x").expect("written");
        fs::write(at("1/2/3/4/deeper.ledger"), "x").expect("written");
        let search = ledgers(folder.path()).expect("readable");
        assert!(search.ledgers.contains_key("1/2/3/deep.ledger"));
        assert!(!search.ledgers.contains_key("1/2/3/4/deeper.ledger"));
        assert_eq!(search.limits, [Limit::Depth { deepest: DEEPEST, n_folders: 1 }]);
    }
}
