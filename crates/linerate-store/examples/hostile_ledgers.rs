//! Writes ledgers that no linerate would write, each of at most 1 MB and made to cost its reader
//! time or memory, into a folder.
//!
//! `hostile_ledgers LEDGER FOLDER`: each is LEDGER with something done to it. Digests are made anew
//! where records are changed, so that only the content is hostile.

use std::path::{Path, PathBuf};

use forge::{Outcome, append, deflated, in_one_go, inflated};
use rusqlite::Connection;

mod forge;

fn main() -> Outcome<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [base, folder] = arguments.as_slice() else {
        return Err("usage: hostile_ledgers LEDGER FOLDER".into());
    };
    let (base, folder) = (Path::new(base), Path::new(folder));
    with_sql(base, folder)?;
    with_records(base, folder)?;
    with_json(base, folder)?;
    cut_short(base, folder)
}

fn copy(base: &Path, folder: &Path, name: &str) -> Outcome<(PathBuf, Connection)> {
    let path = folder.join(format!("{name}.ledger"));
    std::fs::copy(base, &path)?;
    let connection = Connection::open(&path)?;
    Ok((path, connection))
}

/// Objects in the schema that would run or hide something.
fn with_sql(base: &Path, folder: &Path) -> Outcome<()> {
    const ENDLESS: &str = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n)";
    let as_view = |table: &str| {
        format!(
            "ALTER TABLE {table} RENAME TO other; CREATE VIEW {table} AS {ENDLESS} SELECT other.* \
                FROM other, n"
        )
    };
    for (name, sql) in [
        ("endless-view-record", as_view("record")),
        ("endless-view-head", as_view("head")),
        ("view", "CREATE VIEW v AS SELECT 1".to_owned()),
        (
            "trigger",
            "CREATE TRIGGER t AFTER INSERT ON record BEGIN DELETE FROM record; END".to_owned(),
        ),
        (
            "generated-column",
            "ALTER TABLE record ADD COLUMN g BLOB AS (zeroblob(1000000000))".to_owned(),
        ),
        ("index-expression", "CREATE INDEX i ON record (hex(body))".to_owned()),
        ("full-text", "CREATE VIRTUAL TABLE f USING fts5(x)".to_owned()),
        ("many-tables", (0..150).map(|n| format!("CREATE TABLE t{n} (x);")).collect()),
        ("future", "PRAGMA user_version = 99".to_owned()),
        ("negative-version", "PRAGMA user_version = -1".to_owned()),
        ("head-beyond", "UPDATE head SET sequence = 9223372036854775807".to_owned()),
        (
            "last-place",
            "UPDATE record SET sequence = 9223372036854775807 WHERE sequence = 2".to_owned(),
        ),
        ("negative-place", "UPDATE record SET sequence = -5 WHERE sequence = 2".to_owned()),
        ("no-records", "DELETE FROM record".to_owned()),
        ("no-head", "DELETE FROM head".to_owned()),
        ("zero-blobs", "UPDATE record SET body = zeroblob(20000)".to_owned()),
        ("odd-lease", "INSERT INTO lease VALUES (7, zeroblob(10) || 'x', -1)".to_owned()),
    ] {
        copy(base, folder, name)?.1.execute_batch(&sql)?;
    }
    Ok(())
}

/// Records whose bodies inflate to much, or claim to.
fn with_records(base: &Path, folder: &Path) -> Outcome<()> {
    let end = |blob: Vec<u8>| [&[0, 0, 0, 0, 0][..], &blob].concat();
    let host = |blob: Vec<u8>| [&[1, 0, 0, 0, b'h'][..], &blob].concat();
    let intervals = |n: u64| {
        let zeros = vec![0; usize::try_from(n).expect("small")];
        let worker_start_end = [varint(n), zeros.repeat(3)].concat();
        deflated(&[worker_start_end, varint(0), vec![0; 3], zeros].concat())
    };
    let flow_states = |n: u64| {
        let zeros = vec![0; usize::try_from(n).expect("small")];
        let count = varint(2 * n);
        deflated(&[&[1, 0, 0, 0, 0, 0, 0, 0][..], &count, &zeros, &varint(0)].concat())
    };
    let bomb = deflated(&vec![0; 512 << 20]);
    for (name, kind, body, n_times) in [
        ("bomb-samples", "samples", host(bomb.clone()), 1),
        ("bomb-intervals", "intervals", end(bomb.clone()), 1),
        ("bomb-flows", "flows_ended", end(bomb.clone()), 1),
        ("bomb-json", "incident", [&[1][..], &bomb].concat(), 1),
        ("many-intervals", "intervals", end(intervals(65_536)), 1_000),
        ("too-many-intervals", "intervals", end(intervals(1 << 20)), 1),
        ("some-intervals", "intervals", end(intervals(5_000)), 4),
        ("flow-states", "intervals", end(flow_states(8 << 20)), 1),
        ("present-bits", "samples", host(deflated(&present_bits(1 << 27))), 1),
        (
            "many-flows",
            "flows_ended",
            end(deflated(&[b"[", "{},".repeat(1 << 20).as_bytes(), b"{}]"].concat())),
            1,
        ),
        ("lying-host", "samples", vec![0xff; 300], 1),
        ("nothing", "samples", Vec::new(), 50),
    ] {
        let (_, connection) = copy(base, folder, name)?;
        let (campaign, trial) = some_trial(&connection)?;
        let connection = in_one_go(connection)?;
        for _ in 0..n_times {
            append(&connection, campaign, Some(trial), kind, &body)?;
        }
        connection.execute_batch("COMMIT")?;
    }
    // As much as a file of 1 MB may ask for: what has no meaning makes it large.
    let (_, connection) = copy(base, folder, "budget-full")?;
    let (campaign, trial) = some_trial(&connection)?;
    let connection = in_one_go(connection)?;
    for (trial, kind, body) in
        [(None, "incident", vec![9; 900_000]), (Some(trial), "intervals", end(intervals(60_000)))]
    {
        append(&connection, campaign, trial, kind, &body)?;
    }
    connection.execute_batch("COMMIT")?;
    Ok(())
}

/// Events whose JSON is odd. The trial and the campaign are real ones.
fn with_json(base: &Path, folder: &Path) -> Outcome<()> {
    let deep = |n: usize| format!("{}{}", "[".repeat(n), "]".repeat(n));
    let (_, connection) = copy(base, folder, "unchanged")?;
    let header = body_of(&connection, "campaign_started")?;
    let plan = body_of(&connection, "planned")?;
    drop(connection);
    let with = |text: &str, from: &str, to: &str| {
        assert!(text.contains(from), "the base ledger has no {from}");
        text.replace(from, to)
    };
    let large = "9".repeat(300);
    for (name, kind, json) in [
        (
            "deep-json",
            "host_joined",
            format!(
                r#"{{"event":"host_joined","host":"h","facts":{},"clock_offset_ns":0,
                "clock_uncertainty_ns":0}}"#,
                deep(100_000)
            ),
        ),
        (
            "wide-json",
            "host_joined",
            format!(
                r#"{{"event":"host_joined","host":"h","facts":[{}0],"clock_offset_ns":0,
                "clock_uncertainty_ns":0}}"#,
                "[],".repeat(4 << 20)
            ),
        ),
        (
            "long-name",
            "campaign_started",
            with(&header, "\"name\":\"", &format!("\"name\":\"{}", "x".repeat(900_000))),
        ),
        ("number", "planned", with(&plan, "\"repeat\":0", &format!("\"repeat\":{large}"))),
        ("negative-count", "planned", with(&plan, "\"repeat\":0", "\"repeat\":-1")),
        (
            "eternal-trial",
            "planned",
            with(&plan, "\"measure\":", "\"measure\":18446744073709551615,\"was\":"),
        ),
        ("no-interval", "planned", with(&plan, "\"interval\":", "\"interval\":0,\"was\":")),
        (
            "control-characters",
            "campaign_started",
            with(&header, "\"name\":\"", "\"name\":\"\\u0000\\u001b[31m../../"),
        ),
        ("no-jobs", "planned", r#"{"event":"planned","trials":[]}"#.to_owned()),
        ("not-json", "planned", "{".to_owned()),
    ] {
        let (_, connection) = copy(base, folder, name)?;
        let connection = in_one_go(connection)?;
        append(&connection, 1, None, kind, &[&[1][..], &deflated(json.as_bytes())].concat())?;
        connection.execute_batch("COMMIT")?;
    }
    let (_, connection) = copy(base, folder, "many-campaigns")?;
    let connection = in_one_go(connection)?;
    for number in 2..1_500 {
        let other = with(&header, "\"id\":\"", &format!("\"id\":\"{number}"));
        append(
            &connection,
            number,
            None,
            "campaign_started",
            &[&[1][..], &deflated(other.as_bytes())].concat(),
        )?;
    }
    connection.execute_batch("COMMIT")?;
    // Times that make a series of unbounded length.
    let end = |blob: Vec<u8>| [&[0, 0, 0, 0, 0][..], &blob].concat();
    for (name, from, to) in
        [("eternal-interval", 0, u64::MAX / 2), ("backward-interval", u64::MAX / 2, 1)]
    {
        let (_, connection) = copy(base, folder, name)?;
        let (campaign, trial) = some_trial(&connection)?;
        let connection = in_one_go(connection)?;
        let column = |value: u64| varint(value << 1);
        let body =
            [varint(1), vec![0], column(from), column(to), varint(0), vec![0; 3], vec![0]].concat();
        append(&connection, campaign, Some(trial), "intervals", &end(deflated(&body)))?;
        connection.execute_batch("COMMIT")?;
    }
    Ok(())
}

/// The file cut off at each page.
fn cut_short(base: &Path, folder: &Path) -> Outcome<()> {
    let whole = std::fs::read(base)?;
    for page in 0..whole.len().div_ceil(4096) {
        std::fs::write(folder.join(format!("cut-{page}.ledger")), &whole[..page * 4096])?;
    }
    Ok(())
}

/// The JSON of the first record of a kind.
fn body_of(connection: &Connection, kind: &str) -> Outcome<String> {
    let sql = "SELECT body FROM record WHERE kind = ?1 LIMIT 1";
    let body: Vec<u8> = connection.query_row(sql, [kind], |row| row.get(0))?;
    Ok(String::from_utf8(inflated(&body)?)?)
}

fn some_trial(connection: &Connection) -> Outcome<(i64, i64)> {
    let sql = "SELECT campaign, trial FROM record WHERE kind = 'trial_started' LIMIT 1";
    Ok(connection.query_row(sql, [], |row| Ok((row.get(0)?, row.get(1)?)))?)
}

/// A column of readings that are all missing: a bit each.
fn present_bits(n: u64) -> Vec<u8> {
    let bits = vec![0; usize::try_from(n / 8).expect("small")];
    [&[0, 0, 1][..], &varint(n), &[2], &bits, &[0, 0]].concat()
}

fn varint(mut value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value >= 0x80 {
        bytes.push(u8::try_from(value & 0x7f).expect("seven bits") | 0x80);
        value >>= 7;
    }
    bytes.push(u8::try_from(value).expect("seven bits"));
    bytes
}
