//! Simulated host for tests: folders `/tmp` and `/dev`, a few files with their texts, and one
//! variable.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::{PathKind, Surroundings, Targets};

/// Files by their paths.
#[derive(Debug, Default)]
pub(crate) struct SimulatedHost {
    files: BTreeMap<PathBuf, String>,
}

impl SimulatedHost {
    /// Creates a host with these files.
    pub(crate) fn with<'t>(files: impl IntoIterator<Item = (&'t str, &'t str)>) -> Self {
        Self {
            files: files.into_iter().map(|(path, text)| (path.into(), text.to_owned())).collect(),
        }
    }

    /// Returns the targets of a file in the folder `/jobs`.
    pub(crate) fn targets<'a>(&'a self, map: &[(&'a str, &'a str)]) -> Targets<'a> {
        Targets { map: map.to_vec(), folder: Path::new("/jobs"), here: self }
    }
}

impl Surroundings for SimulatedHost {
    fn at(&self, path: &Path) -> Option<PathKind> {
        if [Path::new("/tmp"), Path::new("/dev"), Path::new("/jobs")].contains(&path) {
            return Some(PathKind::Folder);
        }
        self.files.contains_key(path).then_some(PathKind::Other)
    }

    fn text(&self, path: &Path, most_bytes: u64) -> Result<String, String> {
        let text = self.files.get(path).ok_or("there is no such file")?;
        if text.len() as u64 > most_bytes { Err("too long".into()) } else { Ok(text.clone()) }
    }

    fn variable(&self, name: &str) -> Option<String> {
        (name == "SET").then(|| "/tmp".to_owned())
    }
}
