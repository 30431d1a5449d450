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
//! let block_size = imported.keys.iter().find(|key| key.key == "bs=4k").expect("a key");
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

/// Fate of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Class {
    /// The plan does the same.
    Exact,
    /// The plan does nearly the same; the note says how it differs.
    Approximate,
    /// It changes no measured value.
    Ignored,
    /// It is not supported: there is no plan.
    Refused,
}

impl Class {
    /// All classes.
    pub const ALL: [Self; 4] = [Self::Exact, Self::Approximate, Self::Ignored, Self::Refused];

    /// Returns the name of the class.
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
    /// Line, from 1.
    pub line: usize,
    /// As written.
    pub key: String,
    /// Its class.
    pub class: Class,
    /// Its counterpart in the plan, or the reason for its class.
    pub note: String,
}

/// Error in a foreign file, with its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Malformed {
    /// The line, from 1.
    pub line: usize,
    /// The error.
    pub what: String,
}

impl Malformed {
    fn new(line: usize, what: impl Into<String>) -> Self {
        Self { line, what: what.into() }
    }
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

    /// Returns the number of refused keys.
    #[must_use]
    pub fn n_refused(&self) -> usize {
        self.keys.iter().filter(|key| key.class == Class::Refused).count()
    }

    /// Returns the plan, called `name`, of the file `origin`; `None` if a key is refused.
    #[must_use]
    pub fn plan(&self, name: &str, origin: &str) -> Option<String> {
        (self.n_refused() == 0).then(|| plan::text(name, origin, self))
    }
}

/// Kind of the entry at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathKind {
    /// A folder.
    Folder,
    /// Anything else.
    Other,
}

/// Facts of the host that importers need.
pub trait Surroundings {
    /// Returns the kind of the entry at `path`; `None` if there is none.
    fn at(&self, path: &Path) -> Option<PathKind>;

    /// Returns the text of the file at `path`, of at most `most_bytes`.
    ///
    /// # Errors
    /// The reason for which it cannot be read.
    fn text(&self, path: &Path, most_bytes: u64) -> Result<String, String>;

    /// Returns the environment variable `name`.
    fn variable(&self, name: &str) -> Option<String>;
}

/// Counterparts of the file's targets on this host.
pub struct Targets<'a> {
    /// Names in the file and on this host.
    pub map: Vec<(&'a str, &'a str)>,
    /// Folder of the file, where its includes are found.
    pub folder: &'a Path,
    /// The host.
    pub here: &'a dyn Surroundings,
}

impl Targets<'_> {
    /// Returns the counterpart of `name`, if the user named one.
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
/// If it is not such a file, or an incomplete one.
pub fn read(kind: Kind, text: &str, targets: &Targets<'_>) -> Result<Imported, Malformed> {
    match kind {
        Kind::Icf => icf::read(text, targets),
        Kind::Fio => fio::read(text, targets),
    }
}
