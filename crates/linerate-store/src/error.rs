//! Errors of a ledger: operation, object, cause and remedy.

use std::path::{Path, PathBuf};

use linerate_model::failure::Failure;
use rusqlite::ErrorCode;

use crate::BlobError;

/// Result of a call to the ledger.
pub type Result<T, E = StoreError> = std::result::Result<T, E>;

/// A ledger could not be opened, read or written.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The file is there already.
    #[error("create ledger {}: the file exists (open it to append, or choose another \
        name)", path.display())]
    Exists {
        /// The file.
        path: PathBuf,
    },
    /// The file is no ledger.
    #[error("open ledger {}: {cause} (is it the file `linerate run --ledger` \
        wrote?)", path.display())]
    NotALedger {
        /// The file.
        path: PathBuf,
        /// Why not.
        cause: String,
    },
    /// The file has nothing in it.
    #[error("open ledger {}: it is empty: linerate or the disk stopped while it was made, and \
        nothing was recorded (delete it, then run without --resume)", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },
    /// Another process records into it.
    #[error("open ledger {}: it is being recorded by {holder} (wait for its end, or record to \
        another file with --ledger)", path.display())]
    Held {
        /// The file.
        path: PathBuf,
        /// Who, where and since when.
        holder: String,
    },
    /// Another process took it over.
    #[error("record to ledger {}: another process has taken it over, because this one had not \
        written to it for long (go on with --resume)", path.display())]
    TakenOver {
        /// The file.
        path: PathBuf,
    },
    /// The file's structure is broken.
    #[error("open ledger {}: its structure is damaged: {cause} (save what can be read with \
        `linerate ledger salvage {} NEW`)", path.display(), path.display())]
    Structure {
        /// The file.
        path: PathBuf,
        /// The first damage found.
        cause: String,
    },
    /// Reading the file would take more memory or work than one of its size may.
    #[error("read ledger {}: {cause} (linerate did not write this file, or it is \
        damaged)", path.display())]
    TooMuch {
        /// The file.
        path: PathBuf,
        /// Of what.
        cause: String,
    },
    /// A later linerate wrote the file.
    #[error("open ledger {}: its schema is version {found}, this linerate knows up to {known} (use \
        a newer linerate)", path.display())]
    TooNew {
        /// The file.
        path: PathBuf,
        /// Its schema.
        found: i64,
        /// The newest schema known here.
        known: i64,
    },
    /// The file cannot be changed without replaying its write-ahead log, and its medium cannot be
    /// written.
    #[error("open ledger {}: its last changes are in a write-ahead log, which cannot be replayed \
        on a read-only medium (copy the file and its -wal to a writable one)", path.display())]
    UnreplayedLog {
        /// The file.
        path: PathBuf,
    },
    /// There is no such campaign in it.
    #[error("read campaign {id} from {}: the ledger has no such campaign (it has \
        {known})", path.display())]
    NoSuchCampaign {
        /// The file.
        path: PathBuf,
        /// The requested name.
        id: String,
        /// The names that exist.
        known: String,
    },
    /// A record does not read back.
    #[error("read {what} from {}: {cause} (the file is damaged: see `linerate ledger check \
        {}`)", path.display(), path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Which record.
        what: String,
        /// The cause.
        cause: String,
    },
    /// An event does not fit the campaign it was recorded into.
    #[error("record {what} in {}: {cause}", path.display())]
    Misplaced {
        /// The file.
        path: PathBuf,
        /// Which event.
        what: String,
        /// Why it does not fit.
        cause: &'static str,
    },
    /// SQLite, or the system below it, refused.
    #[error("{operation} {}: {source}{}", path.display(), remedy(source))]
    Sqlite {
        /// The attempted operation.
        operation: &'static str,
        /// The file.
        path: PathBuf,
        /// The cause.
        source: rusqlite::Error,
    },
    /// The system refused before SQLite was asked.
    #[error("{operation} {}: {source}", path.display())]
    Io {
        /// The attempted operation.
        operation: &'static str,
        /// The file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
}

impl StoreError {
    /// `operation` on `path` failed in SQLite; a file that is no database is named as such.
    pub(crate) fn sqlite(operation: &'static str, path: &Path, source: rusqlite::Error) -> Self {
        let path = path.to_owned();
        match source.sqlite_error_code() {
            Some(ErrorCode::NotADatabase) => {
                Self::NotALedger { path, cause: "it is not an SQLite database".into() }
            }
            Some(ErrorCode::OperationInterrupted) => {
                let cause = "the file asks for more work than one of its size may".to_owned();
                Self::TooMuch { path, cause }
            }
            Some(ErrorCode::DatabaseCorrupt) => Self::Structure { path, cause: source.to_string() },
            _ => Self::Sqlite { operation, path, source },
        }
    }

    /// The record `what` in `path` is damaged.
    pub(crate) fn damaged(
        path: &Path,
        what: impl Into<String>,
        cause: impl std::fmt::Display,
    ) -> Self {
        Self::Damaged { path: path.to_owned(), what: what.into(), cause: cause.to_string() }
    }

    /// The blob `what` in `path` does not decode.
    pub(crate) fn blob(path: &Path, what: impl Into<String>, cause: &BlobError) -> Self {
        match cause {
            BlobError::TooMuch { .. } => {
                Self::TooMuch { path: path.to_owned(), cause: cause.to_string() }
            }
            _ => Self::damaged(path, what, cause),
        }
    }
}

/// Returns a person's remedy for `error`, in parentheses.
fn remedy(error: &rusqlite::Error) -> &'static str {
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => " (free space on its file system, then go on with --resume)",
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            " (another process writes to it: wait for it, or record to another file)"
        }
        Some(ErrorCode::ReadOnly | ErrorCode::CannotOpen | ErrorCode::PermissionDenied) => {
            " (check that the file and its directory exist and may be written by this user)"
        }
        Some(ErrorCode::SystemIoFailure) => {
            " (check the file system and the medium, `dmesg` may say more)"
        }
        _ => "",
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::missing(error)
    }
}
