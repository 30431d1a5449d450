//! Opening, creating and copying ledgers.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use linerate_model::{Event, TrialId};
use rusqlite::{Connection, ErrorCode, OpenFlags};

use crate::{StoreError, schema};

/// How long a transaction waits for another process's one.
const PATIENCE: Duration = Duration::from_secs(5);

/// A campaign in a ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which<'a> {
    /// The one started last.
    Latest,
    /// The one with this id.
    Id(&'a str),
}

/// An open ledger.
///
/// There may be many readers and, at any moment, one writer. Reading sees what was flushed. Dropping it flushes; an
/// error then is lost, so flush before. While it is written to there is a log beside the file; the last one to leave it
/// takes the log in, so that a ledger at rest is one file.
#[derive(Debug)]
pub struct Ledger {
    pub(crate) connection: Connection,
    pub(crate) path: PathBuf,
    /// Key of the campaign that is recorded.
    pub(crate) campaign: Option<i64>,
    /// Planned trials of it and their numbers of jobs.
    pub(crate) planned: HashMap<TrialId, u32>,
    /// Taken, not yet written.
    pub(crate) pending: Vec<Event>,
    /// Whether it was opened to be written to.
    writes: bool,
}

impl Ledger {
    /// Makes a new, empty ledger.
    ///
    /// # Errors
    /// If the file exists or cannot be made.
    pub fn create(path: &Path) -> Result<Self, StoreError> {
        match std::fs::OpenOptions::new().write(true).create_new(true).open(path) {
            Ok(_) => {}
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
                return Err(StoreError::Exists { path: path.to_owned() });
            }
            Err(source) => return Err(StoreError::Io { operation: "create ledger", path: path.to_owned(), source }),
        }
        let mut ledger = Self::connect("create ledger", path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        ledger.set_up("create ledger", true)?;
        Ok(ledger)
    }

    /// Opens a ledger to read and append; one of an earlier schema is brought up to date.
    ///
    /// # Errors
    /// If the file is not there, is no ledger, is of a later schema, or cannot be written.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let mut ledger = Self::connect("open ledger", path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        ledger.set_up("open ledger", false)?;
        Ok(ledger)
    }

    /// Opens a ledger to append, or makes it.
    ///
    /// # Errors
    /// As [`Ledger::create`] and [`Ledger::open`].
    pub fn open_or_create(path: &Path) -> Result<Self, StoreError> {
        match Self::create(path) {
            Err(StoreError::Exists { .. }) => Self::open(path),
            other => other,
        }
    }

    /// Opens a ledger to read only; works while another process records into it, and on a read-only medium. What is in
    /// it stays as it is, but a log that a killed process left is taken into the file, if it may be written.
    ///
    /// # Errors
    /// If the file is not there, is no ledger, is of another schema than this version's, or its write-ahead log cannot
    /// be replayed.
    pub fn open_read_only(path: &Path) -> Result<Self, StoreError> {
        const OPERATION: &str = "open ledger";
        let fail = |error| StoreError::sqlite(OPERATION, path, error);
        // One that can only read cannot take the log away when it leaves; where the file is write-protected, SQLite
        // opens it to read by itself.
        let ledger = Self::connect(OPERATION, path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        ledger.connection.pragma_update(None, "query_only", true).map_err(fail)?;
        let protected = ledger.connection.is_readonly("main").map_err(fail)?;
        let has_log = log_of(path).metadata().is_ok_and(|log| log.len() > 0);
        let ledger = match schema::identity(&ledger.connection) {
            _ if protected && !has_log => Self::connect_immutable(path)?,
            // The log is replayed through a shared-memory file beside it, which a read-only medium refuses.
            Err(error) if matches!(error.sqlite_error_code(), Some(ErrorCode::CannotOpen | ErrorCode::ReadOnly)) => {
                return Err(StoreError::UnreplayedLog { path: path.to_owned() });
            }
            _ => ledger,
        };
        let version = ledger.version(OPERATION)?;
        match version {
            // What an older version lacks was not recorded.
            1.. => Ok(ledger),
            _ => Err(StoreError::NotALedger { path: path.to_owned(), cause: "it is empty".to_owned() }),
        }
    }

    /// The file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes a compact copy to `target`, which must not exist: one file without a log beside it, to send or archive.
    ///
    /// # Errors
    /// If `target` exists or cannot be written.
    pub fn copy_to(&self, target: &Path) -> Result<(), StoreError> {
        if target.exists() {
            return Err(StoreError::Exists { path: target.to_owned() });
        }
        let name = target.to_string_lossy();
        let copied = self.connection.execute("VACUUM INTO ?1", [&*name]);
        copied.map(|_| ()).map_err(|error| StoreError::sqlite("copy ledger to", target, error))
    }

    fn connect(operation: &'static str, path: &Path, access: OpenFlags) -> Result<Self, StoreError> {
        // SQLite says "unable to open" for everything; the system's own word is better.
        if let Err(source) = std::fs::File::open(path) {
            return Err(StoreError::Io { operation, path: path.to_owned(), source });
        }
        let connection = Connection::open_with_flags(path, access | OpenFlags::SQLITE_OPEN_NO_MUTEX)
            .map_err(|error| StoreError::sqlite(operation, path, error))?;
        Self::around(connection, path).map_err(|error| StoreError::sqlite(operation, path, error))
    }

    /// Opens a file that nobody can change, without lock or shared memory.
    fn connect_immutable(path: &Path) -> Result<Self, StoreError> {
        let fail = |error| StoreError::sqlite("open ledger", path, error);
        let absolute = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let escaped: String = absolute
            .to_string_lossy()
            .chars()
            .map(|c| match c {
                '%' => "%25".to_owned(),
                '?' => "%3f".to_owned(),
                '#' => "%23".to_owned(),
                other => other.to_string(),
            })
            .collect();
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(format!("file:{escaped}?immutable=1"), flags).map_err(fail)?;
        Self::around(connection, path).map_err(fail)
    }

    fn around(connection: Connection, path: &Path) -> rusqlite::Result<Self> {
        connection.busy_timeout(PATIENCE)?;
        connection.pragma_update(None, "foreign_keys", true)?;
        connection.set_prepared_statement_cache_capacity(64);
        Ok(Self {
            connection,
            path: path.to_owned(),
            campaign: None,
            planned: HashMap::new(),
            pending: Vec::new(),
            writes: false,
        })
    }

    /// The schema version, 0 for an empty file; refuses what is no ledger or too new.
    fn version(&self, operation: &'static str) -> Result<i64, StoreError> {
        let fail = |error| StoreError::sqlite(operation, &self.path, error);
        let (application, found) = schema::identity(&self.connection).map_err(fail)?;
        let count = "SELECT count(*) FROM sqlite_schema";
        let n_objects: i64 = self.connection.query_row(count, [], |row| row.get(0)).map_err(fail)?;
        match (application, n_objects) {
            (schema::APPLICATION_ID, _) if found > schema::VERSION => {
                Err(StoreError::TooNew { path: self.path.clone(), found, known: schema::VERSION })
            }
            (schema::APPLICATION_ID, _) => Ok(found),
            (0, 0) => Ok(0),
            _ => {
                let cause = "it is an SQLite database of another application".to_owned();
                Err(StoreError::NotALedger { path: self.path.clone(), cause })
            }
        }
    }

    /// Makes the file ready for writing.
    fn set_up(&mut self, operation: &'static str, create: bool) -> Result<(), StoreError> {
        let version = self.version(operation)?;
        if version == 0 && !create {
            return Err(StoreError::NotALedger { path: self.path.clone(), cause: "it is empty".to_owned() });
        }
        let path = self.path.clone();
        let fail = |error| StoreError::sqlite(operation, &path, error);
        // Readers never wait for the writer; a commit is one sequential write. FULL: a commit survives a power cut.
        self.connection.pragma_update(None, "journal_mode", "wal").map_err(fail)?;
        self.connection.pragma_update(None, "synchronous", "full").map_err(fail)?;
        if version < schema::VERSION {
            schema::migrate(&mut self.connection, version).map_err(fail)?;
        }
        self.writes = true;
        Ok(())
    }

    /// Takes the log into the file and does without it from now on, unless somebody else has the file open: then the last
    /// to leave takes the log in.
    fn come_to_rest(&self) -> rusqlite::Result<()> {
        self.connection.busy_timeout(Duration::ZERO)?;
        self.connection.pragma_update(None, "journal_mode", "delete")
    }
}

impl Drop for Ledger {
    fn drop(&mut self) {
        let _ = linerate_model::Recorder::flush(self);
        if self.writes {
            let _busy = self.come_to_rest();
        }
    }
}

/// The write-ahead log beside `path`.
fn log_of(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push("-wal");
    PathBuf::from(name)
}
