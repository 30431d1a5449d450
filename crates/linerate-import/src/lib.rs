//! Importers: a job file of fio or Iometer becomes a plan.
//!
//! Every key of the file gets a class. A key that would change the load and that linerate does not
//! support is refused, and then there is no plan. An imported plan never permits writing.
//!
//! # Examples
//! ```
//! use std::path::Path;
//!
//! use linerate_import::{Class, Kind, PathKind, Surroundings, Targets, read};
//!
//! /// A host without files or environment variables.
//! struct Nothing;
//!
//! impl Surroundings for Nothing {
//!     fn at(&self, _: &Path) -> Option<PathKind> {
//!         None
//!     }
//!     fn text(&self, path: &Path, _: u64) -> Result<String, String> {
//!         Err(format!("{} does not exist", path.display()))
//!     }
//!     fn variable(&self, _: &str) -> Option<String> {
//!         None
//!     }
//! }
//!
//! let job = "[reads]\nrw=randread\nbs=4k\niodepth=8\nfilename=/dev/example\nsize=1g\n";
//! let targets = Targets { map: Vec::new(), folder: Path::new("."), here: &Nothing };
//! let imported = read(Kind::Fio, job, &targets).expect("a fio job file");
//! let block_size = imported.keys.iter().find(|key| key.key == "bs").expect("a key of the file");
//! assert_eq!(block_size.class, Class::Exact);
//! ```
//!
//! This crate does *not* read files or the environment itself: it asks its [`Surroundings`].

#![forbid(unsafe_code)]

mod fio;
#[cfg(test)]
mod fuzz;
mod icf;
mod plan;
#[cfg(test)]
mod simulated;

use std::path::Path;

use serde::Serialize;

/// A kind of foreign file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An Iometer configuration.
    Icf,
    /// A fio job file.
    Fio,
}

/// What becomes of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Class {
    /// The plan does the same.
    Exact,
    /// The plan does nearly the same; the note says how it differs.
    Approximate,
    /// It changes nothing that is measured.
    Ignored,
    /// It cannot be had: there is no plan.
    Refused,
}

impl Class {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Exact, Self::Approximate, Self::Ignored, Self::Refused];

    /// Its name.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::Approximate => "approximate",
            Self::Ignored => "ignored",
            Self::Refused => "refused",
        }
    }
}

/// A key of a foreign file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Key {
    /// Its line, from 1.
    pub line: usize,
    /// As written.
    pub key: String,
    /// What becomes of it.
    pub class: Class,
    /// What it becomes, or why it does not.
    pub note: String,
}

/// A file that is not what it should be, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Malformed {
    /// The line, from 1.
    pub line: usize,
    /// What is wrong with it.
    pub what: String,
}

/// A foreign file, read.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Imported {
    /// Every key, in the order of its line.
    pub keys: Vec<Key>,
    sweeps: Vec<plan::Sweep>,
}

impl Imported {
    fn class(
        &mut self,
        line: usize,
        key: impl Into<String>,
        class: Class,
        note: impl Into<String>,
    ) {
        self.keys.push(Key { line, key: key.into(), class, note: note.into() });
    }

    /// How many keys are refused.
    #[must_use]
    pub fn n_refused(&self) -> usize {
        self.keys.iter().filter(|key| key.class == Class::Refused).count()
    }

    /// The plan it amounts to, called `name`, of the file `origin`; `None` if a key is refused.
    #[must_use]
    pub fn plan(&self, name: &str, origin: &str) -> Option<String> {
        (self.n_refused() == 0).then(|| plan::text(name, origin, self))
    }
}

/// What is at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathKind {
    /// A folder.
    Folder,
    /// Anything else.
    Other,
}

/// What an importer asks of the host it runs on.
pub trait Surroundings {
    /// What is at `path`; `None` if nothing is.
    fn at(&self, path: &Path) -> Option<PathKind>;

    /// The text of the file at `path`, of at most `most_bytes`.
    ///
    /// # Errors
    /// Why it cannot be had.
    fn text(&self, path: &Path, most_bytes: u64) -> Result<String, String>;

    /// The environment variable `name`.
    fn variable(&self, name: &str) -> Option<String>;
}

/// What targets of the file are here.
pub struct Targets<'a> {
    /// Names in the file, and what stands for them here.
    pub map: Vec<(&'a str, &'a str)>,
    /// Where the file lies: what it includes is looked for there.
    pub folder: &'a Path,
    /// The host.
    pub here: &'a dyn Surroundings,
}

impl Targets<'_> {
    /// What stands for `name`, if a person said so.
    fn mapped(&self, name: &str) -> Option<&str> {
        self.map.iter().find(|(from, _)| *from == name).map(|(_, to)| *to)
    }

    fn is_folder(&self, path: &Path) -> bool {
        self.here.at(path) == Some(PathKind::Folder)
    }
}

/// Reads the text of a file of `kind`.
///
/// # Errors
/// If it is no such file, or not all of one.
pub fn read(kind: Kind, text: &str, targets: &Targets<'_>) -> Result<Imported, Malformed> {
    match kind {
        Kind::Icf => icf::read(text, targets),
        Kind::Fio => fio::read(text, targets),
    }
}
