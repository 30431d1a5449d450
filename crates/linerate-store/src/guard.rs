//! Checks of a file before any of its content is trusted: a regular file, with the tables that we
//! make and no others, intact in its structure, and read within limits of work and memory.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

use rusqlite::Connection;
use rusqlite::config::DbConfig;
use rusqlite::limits::Limit;

use crate::{Result, StoreError, schema};

/// The first bytes of every SQLite database.
const MAGIC: &[u8; 16] = b"SQLite format 3\0";
/// Longest value that is read from a file of any size.
const LONGEST_VALUE: u64 = 512 << 20;

/// Opens `path` as a plain file: no folder, device or pipe, for it and for what SQLite has beside
/// it.
pub(crate) fn open_plain(operation: &'static str, path: &Path, write: bool) -> Result<File> {
    let io = |source| StoreError::Io { operation, path: path.to_owned(), source };
    let found = std::fs::metadata(path).map_err(io)?;
    let refuse = |cause: &str| Err(no_ledger(path, cause));
    // The type is checked before opening: opening a pipe would block, and a device may act on it.
    if !found.is_file() {
        return refuse("it is not a regular file");
    }
    // SQLite opens these by itself. `symlink_metadata` refuses links that lead it to another file.
    for suffix in ["-wal", "-shm", "-journal"] {
        if std::fs::symlink_metadata(beside(path, suffix)).is_ok_and(|found| !found.is_file()) {
            return refuse(&format!("{suffix} beside it is not a regular file"));
        }
    }
    if found.len() == 0 {
        return Err(StoreError::Empty { path: path.to_owned() });
    }
    let mut file = match linerate_sys::whole_file::open_regular(path, write) {
        // The file was replaced after the first check.
        Err(error) if error.kind() == ErrorKind::InvalidInput => {
            return refuse("it is not a regular file");
        }
        other => other.map_err(io)?,
    };
    let mut magic = [0; MAGIC.len()];
    match file.read_exact(&mut magic) {
        Ok(()) if magic == *MAGIC => Ok(file),
        Ok(()) => refuse("it is not an SQLite database"),
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => {
            refuse("it is not an SQLite database")
        }
        Err(error) => Err(io(error)),
    }
}

fn no_ledger(path: &Path, cause: &str) -> StoreError {
    StoreError::NotALedger { path: path.to_owned(), cause: cause.to_owned() }
}

/// `path` with `suffix` behind its name.
pub(crate) fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

/// Takes from SQLite what a ledger does not need: nothing in the file can run, and values and
/// statements are limited.
pub(crate) fn harden(connection: &Connection, file_bytes: u64) -> rusqlite::Result<()> {
    let longest =
        // SQLite takes an `int`. Values in a file cannot be longer than the file and some room for
        // compression.
        i32::try_from(LONGEST_VALUE.min(file_bytes.saturating_add(1 << 20))).unwrap_or(i32::MAX);
    for (limit, most) in [
        // New records are written through the same connection, so the limit has a floor.
        (Limit::SQLITE_LIMIT_LENGTH, longest.max(64 << 20)),
        // All statements are our own and short. Limits make a made-up schema fail instead of cost.
        (Limit::SQLITE_LIMIT_SQL_LENGTH, 10_000),
        (Limit::SQLITE_LIMIT_COLUMN, 32),
        (Limit::SQLITE_LIMIT_EXPR_DEPTH, 50),
        (Limit::SQLITE_LIMIT_COMPOUND_SELECT, 4),
        (Limit::SQLITE_LIMIT_VDBE_OP, 25_000),
        (Limit::SQLITE_LIMIT_FUNCTION_ARG, 8),
        (Limit::SQLITE_LIMIT_ATTACHED, 0),
        (Limit::SQLITE_LIMIT_LIKE_PATTERN_LENGTH, 100),
        (Limit::SQLITE_LIMIT_VARIABLE_NUMBER, 32),
        (Limit::SQLITE_LIMIT_TRIGGER_DEPTH, 1),
        (Limit::SQLITE_LIMIT_WORKER_THREADS, 0),
    ] {
        connection.set_limit(limit, most)?;
    }
    for (switch, on) in [
        // Views, triggers and shadow tables of a file run code of its author with our rights.
        (DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true),
        (DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false),
        (DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false),
        (DbConfig::SQLITE_DBCONFIG_ENABLE_VIEW, false),
        (DbConfig::SQLITE_DBCONFIG_DQS_DDL, false),
        (DbConfig::SQLITE_DBCONFIG_DQS_DML, false),
    ] {
        connection.set_db_config(switch, on)?;
    }
    // Finds broken cells when a page is read, instead of reading outside of them.
    connection.pragma_update(None, "cell_size_check", true)?;
    // A mapped file that shrinks while it is read kills the process with SIGBUS.
    connection.pragma_update(None, "mmap_size", 0)
}

/// Refuses a file whose tables are not exactly those of its schema version.
pub(crate) fn check_schema(connection: &Connection, path: &Path, version: i64) -> Result<()> {
    let fail = |error| StoreError::sqlite("open ledger", path, error);
    let expected =
        schema::objects(&schema::in_memory(version).map_err(fail)?, usize::MAX).map_err(fail)?;
    // One more than expected is enough to see that there are too many.
    let found = schema::objects(connection, expected.len() + 1).map_err(fail)?;
    if found == expected {
        return Ok(());
    }
    let stranger = found.iter().find(|object| !expected.contains(object));
    let cause = match stranger {
        Some((kind, name, _)) => {
            format!("the {} `{}` in it is not one that linerate makes", kind, name.escape_debug())
        }
        None => "a table is missing in it".to_owned(),
    };
    Err(StoreError::NotALedger { path: path.to_owned(), cause })
}

/// Looks through the structure of the file.
pub(crate) fn check_structure(connection: &Connection, path: &Path) -> Result<()> {
    let fail = |error| StoreError::sqlite("check ledger", path, error);
    let first: String =
        connection.query_row("PRAGMA quick_check(1)", [], |row| row.get(0)).map_err(fail)?;
    if first == "ok" {
        Ok(())
    } else {
        Err(StoreError::Structure { path: path.to_owned(), cause: first })
    }
}
