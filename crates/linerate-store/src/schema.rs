//! The schema of the ledger and its migrations.
//!
//! `application_id` says that a file is a ledger, `user_version` how many migrations it has seen. A migration is never
//! changed once released: a new one is appended. Numbers are SQLite integers; unsigned 64-bit ones are stored by their
//! bits. Structures are JSON, as on the wire; what is recorded per interval is in blobs (see `blob`).

use rusqlite::Connection;

/// "LNRT" in ASCII.
pub(crate) const APPLICATION_ID: i64 = 0x4c4e_5254;

/// SQL of each schema version, in order.
const MIGRATIONS: &[&str] = &[
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

/// The newest schema version.
pub(crate) const VERSION: i64 = MIGRATIONS.len() as i64;

/// `application_id` and `user_version` of the file.
pub(crate) fn identity(connection: &Connection) -> rusqlite::Result<(i64, i64)> {
    let pragma = |name: &str| connection.pragma_query_value(None, name, |row| row.get(0));
    Ok((pragma("application_id")?, pragma("user_version")?))
}

/// Brings the file from schema `version` to [`VERSION`], all or nothing.
pub(crate) fn migrate(connection: &mut Connection, version: i64) -> rusqlite::Result<()> {
    let transaction = connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
    let seen = usize::try_from(version).unwrap_or(0);
    for migration in MIGRATIONS.iter().skip(seen) {
        transaction.execute_batch(migration)?;
    }
    transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
    transaction.pragma_update(None, "user_version", VERSION)?;
    transaction.commit()
}
