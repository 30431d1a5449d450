//! The chain of records: each is proven by a digest over itself and the digest before it, so that
//! what is changed, missing or out of order is found, and its label (place, campaign, trial, kind)
//! by a check of its own, so that damage to the rest can be ascribed.

use linerate_model::TrialId;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension, Row, Transaction, params};
use sha2::{Digest as _, Sha256};

/// SHA-256, its first 128 bits.
pub(crate) type Digest = [u8; 16];
/// SHA-256, its first 64 bits.
type LabelCheck = [u8; 8];

/// Digest before the first record.
const START: Digest = *b"linerate ledger\0";

/// Place and kind of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Label {
    /// Its place in the file, from 1.
    pub(crate) sequence: i64,
    /// Number of its campaign in the file.
    pub(crate) campaign: i64,
    /// The trial it belongs to, if any.
    pub(crate) trial: Option<TrialId>,
    /// Kind of the record.
    pub(crate) kind: String,
}

impl Label {
    fn check(&self) -> LabelCheck {
        let mut hash = Sha256::new();
        // A prefix for each kind of digest keeps one from being taken for the other.
        hash.update(b"label");
        hash.update(self.sequence.to_le_bytes());
        hash.update(self.campaign.to_le_bytes());
        // 0 is no trial.
        hash.update((self.trial.map_or(0, |trial| u64::from(trial.0) + 1)).to_le_bytes());
        hash.update(self.kind.as_bytes());
        first(&hash.finalize())
    }
}

fn digest(before: &Digest, label: &LabelCheck, body: &[u8]) -> Digest {
    let mut hash = Sha256::new();
    hash.update(before);
    hash.update(label);
    hash.update(body);
    first(&hash.finalize())
}

fn first<const N: usize>(bytes: &[u8]) -> [u8; N] {
    *bytes.first_chunk().expect("SHA-256 has 32 bytes")
}

/// End of the chain, where the next record goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    /// Place of the last record, 0 before the first.
    pub(crate) sequence: i64,
    digest: Digest,
}

impl Head {
    /// The end of an empty chain.
    pub(crate) const EMPTY: Self = Self { sequence: 0, digest: START };

    /// Reads where the chain ends; none if the file does not say.
    pub(crate) fn read(connection: &Connection) -> rusqlite::Result<Option<Self>> {
        let sql = "SELECT sequence, digest FROM head WHERE key = 1";
        let read = |row: &Row<'_>| {
            Ok((row.get(0)?, row.get_ref(1)?.as_blob().ok().and_then(|b| b.try_into().ok())))
        };
        let found: Option<(i64, Option<Digest>)> =
            connection.query_row(sql, [], read).optional()?;
        Ok(found.and_then(|(sequence, digest)| Some(Self { sequence, digest: digest? })))
    }

    /// Appends a record.
    pub(crate) fn append(
        &mut self,
        transaction: &Transaction<'_>,
        campaign: i64,
        trial: Option<TrialId>,
        kind: &str,
        body: &[u8],
    ) -> rusqlite::Result<()> {
        // Places start at 1, so that 0 can mean an empty chain.
        let label = Label { sequence: self.sequence + 1, campaign, trial, kind: kind.to_owned() };
        let check = label.check();
        let digest = digest(&self.digest, &check, body);
        let sql = "INSERT INTO record (sequence, campaign, trial, kind, body, label, digest) \
            VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
        let row = params![
            label.sequence,
            campaign,
            trial.map(|trial| trial.0),
            kind,
            body,
            check,
            digest
        ];
        transaction.prepare_cached(sql)?.execute(row)?;
        *self = Self { sequence: label.sequence, digest };
        Ok(())
    }

    /// Writes down where the chain ends: part of every transaction that appends.
    pub(crate) fn save(&self, transaction: &Transaction<'_>) -> rusqlite::Result<()> {
        // Key 1 makes it a table of one row.
        let sql = "INSERT OR REPLACE INTO head (key, sequence, digest) VALUES (1, ?1, ?2)";
        transaction.prepare_cached(sql)?.execute(params![self.sequence, self.digest]).map(|_| ())
    }
}

/// Result of checking one place in the chain.
#[derive(Debug)]
pub(crate) enum Link<'a> {
    /// A record as it was written.
    Whole(Label, &'a [u8]),
    /// A record that was changed; its label if that is as it was written.
    Damaged(i64, Option<Label>),
    /// Records from the first to the last place given are not there.
    Missing(i64, i64),
    /// The chain does not end where the file says.
    WrongEnd,
}

/// How to go from record to record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pace {
    /// In one go; an error of the file's structure ends it.
    Straight,
    /// One by one; a record that cannot be reached is missing.
    Stumbling,
}

const COLUMNS: &str = "SELECT sequence, campaign, trial, kind, body, label, digest FROM record";

/// Visits the chain from its beginning to its end; the visitor's error ends it.
pub(crate) fn walk<E>(
    connection: &Connection,
    pace: Pace,
    mut visit: impl FnMut(Link<'_>) -> Result<(), E>,
) -> rusqlite::Result<Result<(), E>> {
    let mut walker = Walker { expected: 1, before: vec![START], ended: None };
    let head = match Head::read(connection) {
        // A file that is being repaired may lack its head. The records are then all there is.
        Err(error) if pace == Pace::Straight => return Err(error),
        head => head.ok().flatten(),
    };
    match pace {
        Pace::Straight => {
            let mut statement =
                connection.prepare_cached(&format!("{COLUMNS} ORDER BY sequence"))?;
            let mut rows = statement.query([])?;
            while let Some(row) = rows.next()? {
                if let Err(error) = walker.step(row, &mut visit) {
                    return Ok(Err(error));
                }
            }
        }
        Pace::Stumbling => {
            let mut statement =
                connection.prepare_cached(&format!("{COLUMNS} WHERE sequence = ?1"))?;
            for sequence in 1..=last_place(connection, head)? {
                let visited = statement.query([sequence]).and_then(|mut rows| {
                    Ok(rows.next()?.map_or(Ok(()), |row| walker.step(row, &mut visit)))
                });
                // A record that cannot be reached is found missing by the next one.
                if let Ok(Err(error)) = visited {
                    return Ok(Err(error));
                }
            }
        }
    }
    Ok(walker.end(head, &mut visit))
}

/// The last place that a record may have; no more are tried than the file has room for.
fn last_place(connection: &Connection, head: Option<Head>) -> rusqlite::Result<i64> {
    /// A record's labels and digests alone take more.
    const SMALLEST_RECORD: i64 = 24;
    let pages = |name: &str| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
    let room = pages("page_count")?.saturating_mul(pages("page_size")?) / SMALLEST_RECORD;
    let found = connection
        .query_row("SELECT max(sequence) FROM record", [], |row| row.get::<_, Option<i64>>(0));
    // Either of the two can be damaged alone, so the later end counts.
    let found = found.ok().flatten().unwrap_or(0).max(head.map_or(0, |head| head.sequence));
    // Without any hint every place that the file has room for is tried.
    Ok(if found == 0 { room } else { found.min(room) })
}

struct Walker {
    /// The place that comes next.
    expected: i64,
    /// Digests that the next record may name as its predecessor: the digest of the record before as
    /// written and, if that differs, as computed.
    before: Vec<Digest>,
    /// The end as found.
    ended: Option<Head>,
}

impl Walker {
    fn step<E>(
        &mut self,
        row: &Row<'_>,
        visit: &mut impl FnMut(Link<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let Ok(sequence) = row.get::<_, i64>(0) else {
            return visit(Link::Damaged(self.expected, None));
        };
        if sequence > self.expected {
            visit(Link::Missing(self.expected, sequence - 1))?;
            // The digest before the gap is lost, so the next record cannot be proven by its
            // predecessor.
            self.before.clear();
        }
        self.expected = sequence.saturating_add(1);
        let Some((label, body, check, written)) = parts(sequence, row) else {
            // Without label and digest nothing can be said of the next record either.
            self.before.clear();
            self.ended = None;
            return visit(Link::Damaged(sequence, None));
        };
        let computed: Vec<Digest> =
            self.before.iter().map(|before| digest(before, &label.check(), body)).collect();
        let (sound, proven) = (label.check() == check, computed.contains(&written));
        self.ended = Some(Head { sequence, digest: written });
        self.before = vec![written];
        if sound && proven {
            return visit(Link::Whole(label, body));
        }
        // If this record's digest was changed, the next one still names the original. If its
        // content was, the next one names what was written. Both are tried.
        self.before.extend(computed);
        // Either check proves the label: its own, or the digest that covers it.
        visit(Link::Damaged(sequence, (sound || proven).then_some(label)))
    }

    fn end<E>(
        self,
        head: Option<Head>,
        visit: &mut impl FnMut(Link<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        match head {
            Some(head) if head.sequence >= self.expected => {
                visit(Link::Missing(self.expected, head.sequence))
            }
            // The head is compared with the last record as written, so records cut off at the end
            // are noticed.
            Some(head) if head == self.ended.unwrap_or(Head::EMPTY) => Ok(()),
            _ => visit(Link::WrongEnd),
        }
    }
}

/// Label, body and digests of a row; none if one of them is of another type than was written.
fn parts<'a>(sequence: i64, row: &'a Row<'_>) -> Option<(Label, &'a [u8], LabelCheck, Digest)> {
    let trial = match row.get_ref(2).ok()? {
        ValueRef::Null => None,
        ValueRef::Integer(number) => Some(TrialId(u32::try_from(number).ok()?)),
        _ => return None,
    };
    let kind = row.get_ref(3).ok()?.as_str().ok()?.to_owned();
    let label = Label { sequence, campaign: row.get(1).ok()?, trial, kind };
    let blob = |column| row.get_ref(column).ok()?.as_blob().ok();
    Some((label, blob(4)?, blob(5)?.try_into().ok()?, blob(6)?.try_into().ok()?))
}
