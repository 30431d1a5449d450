//! The schemas of the ledger.
//!
//! `application_id` says that a file is a ledger, `user_version` which schema it has. Version 3,
//! written today, is a chain of records that are only ever appended (see `chain`). Versions 1 and 2
//! had a table for each kind of thing (see `legacy`); they are read for ever, and brought to
//! version 3 when they are written to. A schema is never changed once released.

use rusqlite::{Connection, Transaction};

/// "LNRT" in ASCII.
pub(crate) const APPLICATION_ID: i64 = 0x4c4e_5254;

/// The schema written today.
pub(crate) const VERSION: i64 = 3;

const RECORDS: &str = "
CREATE TABLE record (
    sequence INTEGER PRIMARY KEY,
    campaign INTEGER NOT NULL,
    trial INTEGER,
    kind TEXT NOT NULL,
    body BLOB NOT NULL,
    label BLOB NOT NULL,
    digest BLOB NOT NULL
) STRICT;
CREATE TABLE head (
    key INTEGER PRIMARY KEY,
    sequence INTEGER NOT NULL,
    digest BLOB NOT NULL
) STRICT;
CREATE TABLE lease (
    key INTEGER PRIMARY KEY,
    holder TEXT NOT NULL,
    renewed INTEGER NOT NULL
) STRICT;
";

/// SQL of the schemas before, in order: the second adds to the first.
const LEGACY: [&str; 2] = [
    "
CREATE TABLE campaign (
    key INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    started INTEGER NOT NULL,
    ended INTEGER,
    header TEXT NOT NULL
) STRICT;
CREATE TABLE host (
    campaign INTEGER NOT NULL REFERENCES campaign (key) ON DELETE CASCADE,
    position INTEGER NOT NULL,
    name TEXT NOT NULL,
    record TEXT NOT NULL,
    PRIMARY KEY (campaign, name)
) STRICT;
CREATE TABLE trial (
    key INTEGER PRIMARY KEY,
    campaign INTEGER NOT NULL REFERENCES campaign (key) ON DELETE CASCADE,
    number INTEGER NOT NULL,
    position INTEGER NOT NULL,
    spec TEXT NOT NULL,
    started INTEGER,
    skew_ns INTEGER,
    uncertainty_ns INTEGER,
    outcome TEXT,
    UNIQUE (campaign, number)
) STRICT;
CREATE TABLE chunk (
    key INTEGER PRIMARY KEY,
    trial INTEGER NOT NULL REFERENCES trial (key) ON DELETE CASCADE,
    job INTEGER NOT NULL,
    side TEXT NOT NULL,
    intervals BLOB NOT NULL
) STRICT;
CREATE INDEX chunk_of_trial ON chunk (trial);
CREATE TABLE flow (
    key INTEGER PRIMARY KEY,
    trial INTEGER NOT NULL REFERENCES trial (key) ON DELETE CASCADE,
    job INTEGER NOT NULL,
    side TEXT NOT NULL,
    reports BLOB NOT NULL
) STRICT;
CREATE INDEX flow_of_trial ON flow (trial);
CREATE TABLE sample (
    key INTEGER PRIMARY KEY,
    trial INTEGER NOT NULL REFERENCES trial (key) ON DELETE CASCADE,
    host TEXT NOT NULL,
    block BLOB NOT NULL
) STRICT;
CREATE INDEX sample_of_trial ON sample (trial);
CREATE TABLE incident (
    key INTEGER PRIMARY KEY,
    campaign INTEGER NOT NULL REFERENCES campaign (key) ON DELETE CASCADE,
    trial INTEGER REFERENCES trial (key) ON DELETE CASCADE,
    incident TEXT NOT NULL
) STRICT;
CREATE INDEX incident_of_campaign ON incident (campaign);
CREATE INDEX incident_of_trial ON incident (trial);
",
    "
CREATE TABLE clock (
    trial INTEGER PRIMARY KEY REFERENCES trial (key) ON DELETE CASCADE,
    clocks TEXT NOT NULL
) STRICT;
",
];

/// Tables of the schemas before.
const LEGACY_TABLES: [&str; 8] =
    ["clock", "incident", "sample", "flow", "chunk", "trial", "host", "campaign"];

/// Makes today's tables.
pub(crate) fn make(transaction: &Transaction<'_>) -> rusqlite::Result<()> {
    transaction.execute_batch(RECORDS)?;
    mark(transaction, VERSION)
}

/// Removes the tables of an earlier schema.
pub(crate) fn drop_legacy(transaction: &Transaction<'_>) -> rusqlite::Result<()> {
    LEGACY_TABLES
        .iter()
        .try_for_each(|table| transaction.execute_batch(&format!("DROP TABLE IF EXISTS {table}")))
}

fn mark(connection: &Connection, version: i64) -> rusqlite::Result<()> {
    connection.pragma_update(None, "application_id", APPLICATION_ID)?;
    connection.pragma_update(None, "user_version", version)
}

/// A database in memory with the schema of `version`, and nothing in it.
pub(crate) fn in_memory(version: i64) -> rusqlite::Result<Connection> {
    let connection = Connection::open_in_memory()?;
    if version == VERSION {
        connection.execute_batch(RECORDS)?;
    } else {
        let seen = usize::try_from(version).unwrap_or(0);
        LEGACY.iter().take(seen).try_for_each(|sql| connection.execute_batch(sql))?;
    }
    mark(&connection, version)?;
    Ok(connection)
}

/// `application_id` and `user_version` of the file.
pub(crate) fn identity(connection: &Connection) -> rusqlite::Result<(i64, i64)> {
    let pragma = |name: &str| connection.pragma_query_value(None, name, |row| row.get(0));
    Ok((pragma("application_id")?, pragma("user_version")?))
}

/// Kind, name and SQL of what is in the file, at most `most` of it, in order of their names.
pub(crate) fn objects(
    connection: &Connection,
    most: usize,
) -> rusqlite::Result<Vec<(String, String, Option<String>)>> {
    // Automatic indexes have no SQL, so the column may be empty.
    let sql = "SELECT type, name, sql FROM sqlite_schema ORDER BY name LIMIT ?1";
    let most = i64::try_from(most).unwrap_or(i64::MAX);
    connection
        .prepare(sql)?
        .query_map([most], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?
        .collect()
}
