//! Writes ledgers whose contents are hostile and whose digests are right, and some with raw damage,
//! each of at most 1 MB, into a folder.
//!
//! `mutated_ledgers LEDGER FOLDER FROM TO`: files `FROM.ledger` up to TO. Each is LEDGER with
//! records changed, repeated, left out or in another order; the changes are those of the fuzzing
//! driver, behind the compression. A file follows from its number alone.

use std::path::Path;

use forge::{Outcome, append, deflated, in_one_go, inflated, inflated_blob};
use rusqlite::Connection;

#[path = "../../../fuzz/driver.rs"]
#[allow(dead_code, reason = "inputs are made here, and read by another program")]
mod driver;
mod forge;

use driver::Search;

/// The largest file.
const MOST_BYTES: u64 = 1_000_000;
/// Words of the JSON of events.
const WORDS: [&str; 16] = [
    "null",
    "{",
    "}",
    "[",
    "]",
    "[[[[[[[[[[[[[[[[",
    "\"",
    ",",
    ":",
    "-1",
    "1e308",
    "18446744073709551615",
    "\"1000000000 s\"",
    "\"\\u0000\"",
    "\"0 ns\"",
    "\"tcp_stream\"",
];

fn main() -> Outcome<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [base, folder, from, to] = arguments.as_slice() else {
        return Err("usage: mutated_ledgers LEDGER FOLDER FROM TO".into());
    };
    let (base, folder) = (Path::new(base), Path::new(folder));
    let whole = std::fs::read(base)?;
    let records = records(base)?;
    let bodies: Vec<Vec<u8>> =
        records.iter().map(|record| record.open()).collect::<Outcome<_>>()?;
    for number in from.parse::<u64>()?..to.parse()? {
        let mut search =
            Search::new(number.wrapping_mul(0x9e37_79b9_7f4a_7c15), bodies.clone(), &WORDS);
        let path = folder.join(format!("{number}.ledger"));
        if number % 4 == 0 {
            std::fs::write(&path, damaged(&whole, &mut search))?;
            continue;
        }
        // One that grows too large is made again, from what the search goes on with.
        for _ in 0..8 {
            std::fs::copy(base, &path)?;
            forged(&path, &records, &mut search)?;
            if path.metadata()?.len() <= MOST_BYTES {
                break;
            }
            std::fs::copy(base, &path)?;
        }
    }
    Ok(())
}

/// A record of the ledger.
#[derive(Clone)]
struct Record {
    campaign: i64,
    trial: Option<i64>,
    kind: String,
    body: Vec<u8>,
}

impl Record {
    /// Bytes before the blob in the body; `None` if it is text.
    fn front(&self) -> Option<usize> {
        match self.kind.as_str() {
            "intervals" | "flows_ended" => Some(5),
            "samples" => Some(4 + usize::from(*self.body.first()?)),
            _ => None,
        }
    }

    /// Returns its content without compression.
    fn open(&self) -> Outcome<Vec<u8>> {
        self.front()
            .map_or_else(|| inflated(&self.body), |front| inflated_blob(&self.body[front..]))
    }

    /// Has `content` in it instead.
    fn close(&mut self, content: &[u8]) {
        let front = self.front().map_or(vec![1], |front| self.body[..front].to_vec());
        self.body = [&front[..], &deflated(content)].concat();
    }
}

fn records(base: &Path) -> Outcome<Vec<Record>> {
    let connection = Connection::open(base)?;
    let mut statement =
        connection.prepare("SELECT campaign, trial, kind, body FROM record ORDER BY sequence")?;
    let rows = statement.query_map([], |row| {
        Ok(Record {
            campaign: row.get(0)?,
            trial: row.get(1)?,
            kind: row.get(2)?,
            body: row.get(3)?,
        })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// The file with some bytes changed and some blocks at another place.
fn damaged(whole: &[u8], search: &mut Search<'_>) -> Vec<u8> {
    const BLOCK: usize = 512;
    let mut bytes = whole.to_vec();
    for _ in 0..=search.below(20) {
        if search.below(5) == 0 {
            let [from, to] = [search.below(bytes.len() - BLOCK), search.below(bytes.len() - BLOCK)];
            bytes.copy_within(from..from + BLOCK, to);
        } else {
            let at = search.below(bytes.len());
            bytes[at] = search.number() as u8;
        }
    }
    bytes
}

/// Writes the records anew into the file at `path`, some of them changed.
fn forged(path: &Path, records: &[Record], search: &mut Search<'_>) -> Outcome<()> {
    let mut records = records.to_vec();
    for _ in 0..=search.below(4) {
        // The first two say what the campaign is; without them there is nothing to read.
        let at = search.below(records.len());
        match search.below(10) {
            0 => drop(records.remove(at)),
            1 => {
                let n_times = [1, 10, 100, 2_000][search.below(4)];
                let again = records[at].clone();
                records.splice(at..at, std::iter::repeat_n(again, n_times));
            }
            2 => {
                let other = search.below(records.len());
                records.swap(at, other);
            }
            3 => {
                let other = search.below(records.len());
                (records[at].trial, records[at].campaign) =
                    (records[other].trial, 1 + search.below(3) as i64);
            }
            _ => {
                let mut content = records[at].open().unwrap_or_default();
                for _ in 0..=search.below(5) {
                    search.change(&mut content);
                }
                records[at].close(&content);
            }
        }
        if records.is_empty() {
            break;
        }
    }
    let connection = in_one_go(Connection::open(path)?)?;
    connection.execute("DELETE FROM record", [])?;
    connection.execute(
        "UPDATE head SET sequence = 0, digest = CAST('linerate ledger' || char(0) AS BLOB)",
        [],
    )?;
    for record in &records {
        append(&connection, record.campaign, record.trial, &record.kind, &record.body)?;
    }
    connection.execute_batch("COMMIT; VACUUM")?;
    Ok(())
}
