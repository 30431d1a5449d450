//! Job files of other programs, read on this host as plans.

use std::path::{Path, PathBuf};

use linerate_import::{Class, Imported, Key, Kind, PathKind, Surroundings, Targets};

use crate::{Failure, Result};

/// This host, for an importer. Only regular files are read: a pipe or a device might never end.
struct ThisHost;

impl Surroundings for ThisHost {
    fn at(&self, path: &Path) -> Option<PathKind> {
        let about = std::fs::metadata(path).ok()?;
        // Files and devices are targets alike.
        Some(if about.is_dir() { PathKind::Folder } else { PathKind::Other })
    }

    fn text(&self, path: &Path, most_bytes: u64) -> Result<String, String> {
        let about = std::fs::metadata(path).map_err(|error| error.to_string())?;
        // A file that an imported text names is foreign input and may be huge.
        if !about.is_file() || about.len() > most_bytes {
            return Err(format!("not a regular file of at most {most_bytes} B"));
        }
        std::fs::read_to_string(path).map_err(|error| error.to_string())
    }

    fn variable(&self, name: &str) -> Option<String> {
        std::env::var(name).ok()
    }
}

/// A job file that was read.
#[derive(Debug)]
pub struct JobFile {
    path: PathBuf,
    imported: Imported,
}

impl JobFile {
    /// Reads `path`, with targets of this host in place of those that `map` names, each
    /// `NAME=TARGET`.
    ///
    /// # Errors
    /// If it cannot be read or parsed, or `map` has another form.
    pub fn read(kind: Kind, path: &Path, map: &[String]) -> Result<Self> {
        let name = path.display();
        let bytes = std::fs::read(path)
            .map_err(|error| Failure::missing(format!("import {name}: {error}")))?;
        // Iometer wrote the code page of its Windows. All keys are ASCII.
        let text = String::from_utf8_lossy(&bytes);
        let pairs = map.iter().map(|text| {
            text.split_once('=')
                .ok_or_else(|| Failure::wrong(format!("--map {text}: not NAME=TARGET")))
        });
        let map = pairs.collect::<Result<_, _>>()?;
        let folder = path.parent().unwrap_or(Path::new("."));
        let imported =
            linerate_import::read(kind, &text, &Targets { map, folder, here: &ThisHost }).map_err(
                |wrong| {
                    Failure::wrong(format!("import {name}, line {}: {}", wrong.line, wrong.what))
                },
            )?;
        Ok(Self { path: path.to_owned(), imported })
    }

    /// Returns the fate of each of its keys.
    #[must_use]
    pub fn keys(&self) -> &[Key] {
        &self.imported.keys
    }

    /// Returns the plan, named after the file; `None` if a key was refused.
    #[must_use]
    pub fn plan(&self) -> Option<String> {
        let stem = self.path.file_stem();
        let name =
            stem.map_or_else(|| "imported".to_owned(), |stem| stem.to_string_lossy().into_owned());
        self.imported.plan(&name, &self.path.display().to_string())
    }

    /// Returns why there is no plan: one that leaves out a key would measure another load.
    #[must_use]
    pub fn refusal(&self) -> Failure {
        let (name, refused) = (self.path.display(), self.imported.n_refused());
        let plural = if refused == 1 { "" } else { "s" };
        Failure::wrong(format!("import {name}: {refused} key{plural} refused; no plan was written"))
    }

    /// Returns a line for each key, and one with their number.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        let keys = self.keys();
        let lines = keys.iter().map(|key| {
            format!("{:>5}  {:<11}  {}: {}", key.line, key.class.word(), key.key, key.note)
        });
        let counts = Class::ALL.map(|class| {
            let n = keys.iter().filter(|key| key.class == class).count();
            format!("{n} {}", class.word())
        });
        let last = format!("{} keys: {}", keys.len(), counts.join(", "));
        lines.chain([last]).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_regular_files_are_included() {
        let refused = ThisHost.text(Path::new("/dev/null"), 1 << 20).expect_err("a device");
        assert!(refused.contains("not a regular file"), "{refused}");
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), "rw=read\n").expect("written");
        assert_eq!(ThisHost.text(file.path(), 8).as_deref(), Ok("rw=read\n"));
        assert!(ThisHost.text(file.path(), 7).is_err(), "longer");
        assert_eq!(ThisHost.at(file.path()), Some(PathKind::Other));
    }

    #[test]
    fn a_refused_key_leaves_no_plan_and_is_counted() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("own.fio");
        std::fs::write(&path, "[job]\nrw=read\nno_such_key=1\n").expect("written");
        let job = JobFile::read(Kind::Fio, &path, &[]).expect("it is parsed");
        assert_eq!(job.plan(), None);
        let refused = job.refusal().message();
        assert!(refused.ends_with("2 keys refused; no plan was written"), "{refused}");
        assert!(job.lines().last().is_some_and(|line| line.contains("2 refused")));
        let wrong = JobFile::read(Kind::Fio, &path, &["x".to_owned()]).expect_err("no target");
        assert_eq!(wrong.message(), "--map x: not NAME=TARGET");
    }
}
