//! Creating, opening and leaving ledgers.

use std::collections::HashMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

use linerate_model::{Event, Recorder, TrialId};
use rusqlite::{Connection, ErrorCode, OpenFlags, TransactionBehavior};

use crate::budget::Budget;
use crate::chain::{Head, Pace};
use crate::lease::{self, Holder, OsLock};
use crate::seal::{self, Seal};
use crate::{Result, StoreError, codec, guard, legacy, schema};

/// How long a transaction waits for another process's one.
const PATIENCE: Duration = Duration::from_secs(5);
/// Wait before a seal that looks broken is read again: its writer may be removing it at that
/// moment.
const SECOND_LOOK: Duration = Duration::from_millis(20);
const OPEN: &str = "open ledger";
const CREATE: &str = "create ledger";

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
/// It has any number of readers and one writer. The writer holds a lease, and the error for a
/// second writer names the first. Readers see the records that were flushed. Dropping the ledger
/// flushes it; an error then is lost, so flush before. During writing there is a log beside the
/// file; the last process to close the ledger merges the log, so that a closed ledger is one sealed
/// file.
#[derive(Debug)]
pub struct Ledger {
    pub(crate) connection: Connection,
    pub(crate) path: PathBuf,
    /// The schema of the file.
    pub(crate) version: i64,
    /// Number of the campaign that is recorded.
    pub(crate) campaign: Option<i64>,
    /// Planned trials of it and their numbers of jobs.
    pub(crate) planned: HashMap<TrialId, u32>,
    /// Taken, not yet written.
    pub(crate) pending: Vec<Event>,
    /// Where the next record goes.
    pub(crate) head: Head,
    pub(crate) budget: Budget,
    pub(crate) pace: Pace,
    /// State of the seal when the file was opened.
    pub(crate) seal: Seal,
    /// Our lease, if the ledger was opened to be written to.
    pub(crate) holder: Option<Holder>,
    /// The file itself, with the lock. It is closed after the connection: closing it would end the
    /// connection's own locks.
    file: Option<File>,
}

impl Ledger {
    /// Makes a new ledger without a campaign.
    ///
    /// # Errors
    /// If the file exists or cannot be made.
    pub fn create(path: &Path) -> Result<Self> {
        Self::create_with(path, &[])
    }

    /// Makes a new ledger in which `events` are recorded. At no moment is there a file at `path`
    /// that is not whole and has not all of them.
    ///
    /// # Errors
    /// If the file exists or cannot be made, or an event does not fit.
    pub fn create_with(path: &Path, events: &[Event]) -> Result<Self> {
        let fail = |error| StoreError::sqlite(CREATE, path, error);
        let io = |source| StoreError::Io { operation: CREATE, path: path.to_owned(), source };
        if path.symlink_metadata().is_ok() {
            // Found again below, but after the work.
            return Err(StoreError::Exists { path: path.to_owned() });
        }
        let holder = Holder::own().map_err(io)?;
        // Built in memory and written as one file under a temporary name: a crash leaves no half a
        // ledger.
        let mut connection = schema::in_memory(schema::VERSION).map_err(fail)?;
        let transaction = connection.transaction().map_err(fail)?;
        lease::write(&transaction, &holder)
            .and_then(|()| Head::EMPTY.save(&transaction))
            .map_err(fail)?;
        transaction.commit().map_err(fail)?;
        let mut ledger = Self::around(connection, path, schema::VERSION);
        ledger.holder = Some(holder);
        for event in events {
            ledger.take(event)?;
        }
        ledger.write_pending()?;
        let contents = ledger.connection.serialize("main").map_err(fail)?;
        // The lock is taken before the file gets its name, so nobody else can be first.
        let file = linerate_sys::whole_file::create(path, &contents, lock_new).map_err(
            |error| match error.cause.kind() {
                std::io::ErrorKind::AlreadyExists => StoreError::Exists { path: path.to_owned() },
                _ => io(error.cause),
            },
        )?;
        drop(contents);
        ledger.connection = connect(path).map_err(fail)?;
        ledger.file = Some(file);
        ledger.prepare_to_write(CREATE)?;
        // In this order the connection is closed before the file with its lock.
        Ok(ledger)
    }

    /// Opens a ledger to read and append; one of an earlier schema is brought up to date.
    ///
    /// # Errors
    /// If the file is not there, is no ledger, is of a later schema, is damaged in its structure,
    /// cannot be written, or another process records into it.
    pub fn open(path: &Path) -> Result<Self> {
        let fail = |error| StoreError::sqlite(OPEN, path, error);
        let io = |source| StoreError::Io { operation: OPEN, path: path.to_owned(), source };
        let file = guard::open_plain(OPEN, path, true)?;
        // The lock comes first: the seal may only be trusted while no writer can remove it.
        let lock = lease::lock(&file);
        let seal = seal::check(&file).map_err(io)?;
        let mut ledger = Self::checked(connect(path).map_err(fail)?, path, true)?;
        let holder = Holder::own().map_err(io)?;
        if lock == OsLock::Busy {
            let known = if ledger.version == schema::VERSION {
                lease::read(&ledger.connection).ok().flatten()
            } else {
                None
            };
            let holder = known
                .map_or_else(|| "another process".to_owned(), |(holder, _)| holder.described());
            return Err(StoreError::Held { path: path.to_owned(), holder });
        }
        ledger.seal = seal;
        if ledger.version == schema::VERSION {
            lease::take(&mut ledger.connection, path, &holder, lock)?;
        }
        // From here on the file changes, and the seal would be wrong.
        seal::remove(&file).map_err(io)?;
        ledger.file = Some(file);
        ledger.prepare_to_write(OPEN)?;
        if ledger.version < schema::VERSION {
            legacy::migrate(&mut ledger, &holder)?;
            // Migration writes its own head; before it there is none to find.
        }
        ledger.head = ledger.find_head()?;
        ledger.holder = Some(holder);
        Ok(ledger)
    }

    /// Opens a ledger to read only; works while another process records into it, and on a read-only
    /// medium. What is in it stays as it is, but a log that a killed process left is taken into the
    /// file, if it may be written.
    ///
    /// # Errors
    /// If the file is not there, is no ledger, is of a later schema, is damaged in its structure,
    /// or its write-ahead log cannot be replayed.
    pub fn open_read_only(path: &Path) -> Result<Self> {
        Self::open_to_read(path, true)
    }

    /// The same; the structure of the file need not be whole if `intact` is false.
    pub(crate) fn open_to_read(path: &Path, intact: bool) -> Result<Self> {
        let fail = |error| StoreError::sqlite(OPEN, path, error);
        let io = |source| StoreError::Io { operation: OPEN, path: path.to_owned(), source };
        let file = guard::open_plain(OPEN, path, false)?;
        let mut seal = seal::check(&file).map_err(io)?;
        if seal == Seal::Broken {
            // A writer that opens the file removes the seal in two steps. A second check
            // distinguishes this from damage.
            std::thread::sleep(SECOND_LOOK);
            seal = seal::check(&file).map_err(io)?;
        }
        // One that can only read cannot take the log away when it leaves; where the file is
        // write-protected, SQLite opens it to read by itself.
        let connection = connect(path).map_err(fail)?;
        // The connection must be able to write for recovery of a log, but no statement may.
        connection.pragma_update(None, "query_only", true).map_err(fail)?;
        let protected = connection.is_readonly("main").map_err(fail)?;
        let has_log = guard::beside(path, "-wal").metadata().is_ok_and(|log| log.len() > 0);
        let connection = match schema::identity(&connection) {
            _ if protected && !has_log => connect_immutable(path).map_err(fail)?,
            // The log is replayed through a shared-memory file beside it, which a read-only medium
            // refuses.
            Err(error)
                if matches!(
                    error.sqlite_error_code(),
                    Some(ErrorCode::CannotOpen | ErrorCode::ReadOnly)
                ) =>
            {
                return Err(StoreError::UnreplayedLog { path: path.to_owned() });
            }
            _ => connection,
        };
        let mut ledger = Self::checked(connection, path, intact)?;
        (ledger.seal, ledger.file) = (seal, Some(file));
        Ok(ledger)
    }

    /// The file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns true if a process records into it. One that was killed does not.
    #[must_use]
    pub fn is_recorded(&self) -> bool {
        let holder = match self.version {
            schema::VERSION => lease::read(&self.connection).ok().flatten(),
            // A writer brings the file up to date first.
            _ => None,
        };
        holder.is_some_and(|(holder, _)| holder.may_live())
    }

    fn around(connection: Connection, path: &Path, version: i64) -> Self {
        // More statements than any path of this crate prepares, so that none is compiled twice.
        connection.set_prepared_statement_cache_capacity(64);
        Self {
            connection,
            path: path.to_owned(),
            version,
            campaign: None,
            planned: HashMap::new(),
            pending: Vec::new(),
            head: Head::EMPTY,
            budget: Budget::of_file(0),
            pace: Pace::Straight,
            seal: Seal::Absent,
            holder: None,
            file: None,
        }
    }

    /// A ledger over `connection`, if what is in the file is one, with nothing in it that could
    /// run.
    fn checked(connection: Connection, path: &Path, intact: bool) -> Result<Self> {
        let fail = |error| StoreError::sqlite(OPEN, path, error);
        let mut ledger = Self::around(connection, path, schema::VERSION);
        guard::harden(&ledger.connection, bytes_of(path)).map_err(fail)?;
        ledger.budget.refill(bytes_of(path));
        ledger.budget.bound_work(&mut ledger.connection).map_err(fail)?;
        let (application, version) = schema::identity(&ledger.connection).map_err(fail)?;
        match (application, version) {
            (schema::APPLICATION_ID, found) if found > schema::VERSION => {
                return Err(StoreError::TooNew {
                    path: path.to_owned(),
                    found,
                    known: schema::VERSION,
                });
            }
            (schema::APPLICATION_ID, 1..) => {}
            // A file with a valid header and nothing else: its creator was killed, or it is of
            // another tool that wrote nothing.
            (0, 0) if schema::objects(&ledger.connection, 1).map_err(fail)?.is_empty() => {
                return Err(StoreError::Empty { path: path.to_owned() });
            }
            _ => {
                let cause = "it is an SQLite database of another application".to_owned();
                return Err(StoreError::NotALedger { path: path.to_owned(), cause });
            }
        }
        ledger.version = version;
        // The schema is checked before any query that names a table: a view of that name would run.
        guard::check_schema(&ledger.connection, path, version)?;
        if intact {
            guard::check_structure(&ledger.connection, path)?;
        }
        Ok(ledger)
    }

    /// Makes the connection ready for writing.
    fn prepare_to_write(&mut self, operation: &'static str) -> Result<()> {
        let fail = |error| StoreError::sqlite(operation, &self.path, error);
        let remote = self.file.as_ref().is_some_and(linerate_sys::whole_file::is_remote);
        self.connection.pragma_update(None, "journal_mode", log_on(remote)).map_err(fail)?;
        // FULL: a commit survives a power cut.
        self.connection.pragma_update(None, "synchronous", "full").map_err(fail)
    }

    /// Where the chain ends, if records can be appended there.
    pub(crate) fn find_head(&self) -> Result<Head> {
        let fail = |error| StoreError::sqlite(OPEN, &self.path, error);
        let sql = "SELECT ifnull(max(sequence), 0) FROM record";
        // Rows behind the head were not part of a whole transaction.
        let last: i64 = self.connection.query_row(sql, [], |row| row.get(0)).map_err(fail)?;
        // No record could follow the last number there is.
        let head = Head::read(&self.connection)
            .map_err(fail)?
            .filter(|head| head.sequence == last && last < i64::MAX);
        head.ok_or_else(|| StoreError::Structure {
            path: self.path.clone(),
            cause: "the end of its records is not where it should be".to_owned(),
        })
    }

    /// Gives back what reading took, for the file as it is now.
    pub(crate) fn refill(&self) {
        self.budget.refill(bytes_of(&self.path));
    }

    /// Takes the log into the file and does without it from now on, unless somebody else has the
    /// file open: then the last to leave takes the log in. Returns whether it was taken in.
    fn come_to_rest(&mut self) -> rusqlite::Result<bool> {
        if let Some(holder) = &self.holder {
            lease::give_back(&self.connection, holder)?;
        }
        // Nobody is waited for: if a reader is there, it takes the log in when it leaves.
        self.connection.busy_timeout(Duration::ZERO)?;
        self.connection.pragma_update(None, "journal_mode", "delete")?;
        // The connection is closed first: only then is the log gone.
        self.connection = Connection::open_in_memory()?;
        Ok(!guard::beside(&self.path, "-wal").exists())
    }
}

/// Returns SQLite's journal mode for a ledger that is written. With a write-ahead log, readers
/// never wait for the writer and a commit is one sequential write. But the log's index is memory
/// that the processes of one host share: network file systems refuse it (9P) or cannot keep it the
/// same on two hosts (NFS). There, a commit writes twice and readers wait for it.
const fn log_on(remote: bool) -> &'static str {
    if remote { "delete" } else { "wal" }
}

/// Takes the lock of a new file. Nobody else can have it, unless the name was taken meanwhile.
fn lock_new(file: &File) -> std::io::Result<()> {
    match lease::lock(file) {
        OsLock::Held | OsLock::None => Ok(()),
        OsLock::Busy => Err(std::io::ErrorKind::WouldBlock.into()),
    }
}

impl Drop for Ledger {
    fn drop(&mut self) {
        let _ = Recorder::flush(self);
        if self.holder.is_some()
            // Only a file without a log is at rest: a seal would not cover what is in the log.
            && self.file.is_some()
            && self.come_to_rest().unwrap_or(false)
            && let Some(file) = &self.file
        {
            // Without a seal each record is still proven.
            let _unsealed = seal::put(file);
        }
    }
}

/// A transaction of a writer: it renews the lease, and is undone if somebody else has it.
pub(crate) fn write_as<T>(
    connection: &mut Connection,
    path: &Path,
    holder: &Holder,
    write: impl FnOnce(&rusqlite::Transaction<'_>) -> rusqlite::Result<T>,
) -> Result<T> {
    let fail = |error| StoreError::sqlite("record to ledger", path, error);
    let transaction =
        // Immediate: a deferred transaction that becomes a writer late fails at once, without
        // waiting.
        connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(fail)?;
    if !lease::renew(&transaction, holder).map_err(fail)? {
        return Err(StoreError::TakenOver { path: path.to_owned() });
    }
    let written = write(&transaction).map_err(fail)?;
    transaction.commit().map_err(fail)?;
    Ok(written)
}

/// Bytes of the file and of the log beside it.
fn bytes_of(path: &Path) -> u64 {
    let bytes = |path: &Path| path.metadata().map_or(0, |found| found.len());
    bytes(path) + bytes(&guard::beside(path, "-wal"))
}

fn connect(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(PATIENCE)?;
    Ok(connection)
}

/// Opens a file that nobody can change, without lock or shared memory.
fn connect_immutable(path: &Path) -> rusqlite::Result<Connection> {
    // The path becomes part of a URI, in which these characters have a meaning.
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
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
        | OpenFlags::SQLITE_OPEN_URI
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    Connection::open_with_flags(format!("file:{escaped}?immutable=1"), flags)
}

/// The records that an event becomes: it is `codec` that knows their bodies.
pub(crate) fn append(
    head: &mut Head,
    transaction: &rusqlite::Transaction<'_>,
    campaign: i64,
    event: &Event,
) -> rusqlite::Result<()> {
    head.append(transaction, campaign, event.trial(), codec::kind_of(event), &codec::encode(event))
}
