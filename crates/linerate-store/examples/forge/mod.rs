//! Records that linerate did not write, with digests as if it had (`chain.rs`).

use std::io::{Read, Write};

use flate2::Compression;
use flate2::read::DeflateDecoder;
use flate2::write::DeflateEncoder;
use rusqlite::{Connection, params};
use sha2::{Digest, Sha256};

pub(crate) type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

pub(crate) fn in_one_go(connection: Connection) -> Outcome<Connection> {
    connection.execute_batch("PRAGMA synchronous = OFF; BEGIN")?;
    Ok(connection)
}

/// Appends a record to the chain, as documented in `chain.rs`.
pub(crate) fn append(
    connection: &Connection,
    campaign: i64,
    trial: Option<i64>,
    kind: &str,
    body: &[u8],
) -> Outcome<()> {
    let sql = "SELECT sequence, digest FROM head";
    let (last, before): (i64, Vec<u8>) =
        connection.query_row(sql, [], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let sequence = last + 1;
    let mut hash = Sha256::new();
    hash.update(b"label");
    hash.update(sequence.to_le_bytes());
    hash.update(campaign.to_le_bytes());
    hash.update((trial.map_or(0, |trial| trial + 1)).to_le_bytes());
    hash.update(kind.as_bytes());
    let label = &hash.finalize()[..8];
    let mut hash = Sha256::new();
    hash.update(&before);
    hash.update(label);
    hash.update(body);
    let digest = &hash.finalize()[..16];
    let sql = "INSERT INTO record (sequence, campaign, trial, kind, body, label, digest) VALUES \
        (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
    connection.execute(sql, params![sequence, campaign, trial, kind, body, label, digest])?;
    connection.execute("UPDATE head SET sequence = ?1, digest = ?2", params![sequence, digest])?;
    Ok(())
}

/// The text in a body of JSON, plain or compressed.
pub(crate) fn inflated(body: &[u8]) -> Outcome<Vec<u8>> {
    match body.split_first() {
        Some((0, plain)) => Ok(plain.to_vec()),
        // Behind the version of the compressed format.
        Some((1, packed)) => inflated_blob(packed),
        _ => Err("an unknown body".into()),
    }
}

/// Returns the content of a blob behind its version.
pub(crate) fn inflated_blob(blob: &[u8]) -> Outcome<Vec<u8>> {
    let mut bytes = Vec::new();
    DeflateDecoder::new(blob.get(1..).unwrap_or_default()).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// A blob that holds `body`.
pub(crate) fn deflated(body: &[u8]) -> Vec<u8> {
    let mut encoder = DeflateEncoder::new(vec![1], Compression::best());
    encoder.write_all(body).and_then(|()| encoder.finish()).expect("memory does not fail")
}
