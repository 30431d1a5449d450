//! Taking events: queued by `record`, written in one transaction by `flush`.
//!
//! If a flush fails (a full disk, a lock) nothing of it is written and everything stays queued: once there is room,
//! the next flush writes it all.

use std::collections::BTreeMap;

use linerate_model::{Event, Interval, Recorder, RecorderError, Side, TrialId, TrialSpec};
use rusqlite::{OptionalExtension, Transaction, TransactionBehavior, params};

use crate::{Ledger, StoreError, blob};

/// Queued events that make `record` flush by itself, should nobody call `flush`: bounds memory.
const MAX_PENDING: usize = 4096;

impl Recorder for Ledger {
    fn record(&mut self, event: &Event) -> Result<(), RecorderError> {
        self.admit(event).map_err(|error| RecorderError(error.to_string()))?;
        self.pending.push(event.clone());
        if self.pending.len() >= MAX_PENDING { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<(), RecorderError> {
        self.write_pending().map_err(|error| RecorderError(error.to_string()))
    }
}

impl Ledger {
    /// Refuses an event that belongs to no campaign, trial or job: it would be lost silently.
    fn admit(&mut self, event: &Event) -> Result<(), StoreError> {
        let misplaced = |what: String, cause| StoreError::Misplaced { path: self.path.clone(), what, cause };
        let (trial, job) = match event {
            Event::CampaignStarted(header) => {
                // What was recorded so far belongs to the campaign before.
                self.write_pending()?;
                return self.begin(header);
            }
            Event::HostJoined(_) | Event::Incident { trial: None, .. } | Event::CampaignEnded { .. } => (None, None),
            Event::Planned { .. } | Event::TrialChosen { .. } => (None, None),
            Event::TrialStarted { trial, .. }
            | Event::BarrierPassed { trial, .. }
            | Event::ClocksCompared { trial, .. }
            | Event::Samples { trial, .. }
            | Event::Incident { trial: Some(trial), .. }
            | Event::TrialEnded { trial, .. } => (Some(*trial), None),
            Event::Intervals { trial, job, .. } | Event::FlowsEnded { trial, job, .. } => (Some(*trial), Some(*job)),
        };
        if self.campaign.is_none() {
            return Err(misplaced("an event".to_owned(), "no campaign was started"));
        }
        if let Event::Planned { trials } = event {
            let planned = trials.iter().map(|spec| (spec.id, u32::try_from(spec.jobs.len()).unwrap_or(u32::MAX)));
            let planned: std::collections::HashMap<_, _> = planned.collect();
            if planned.len() != trials.len() {
                return Err(misplaced("the planned trials".to_owned(), "two have the same number"));
            }
            self.planned = planned;
        }
        if let Event::TrialChosen { trial } = event {
            let n_jobs = u32::try_from(trial.jobs.len()).unwrap_or(u32::MAX);
            if self.planned.contains_key(&trial.id) {
                return Err(misplaced(format!("the chosen trial {}", trial.id.0), "another has its number"));
            }
            self.planned.insert(trial.id, n_jobs);
        }
        if let Some(trial) = trial {
            let Some(n_jobs) = self.planned.get(&trial) else {
                return Err(misplaced(format!("an event of trial {}", trial.0), "no such trial was planned"));
            };
            if job.is_some_and(|job| job >= *n_jobs) {
                return Err(misplaced(format!("an event of trial {}", trial.0), "it has no such job"));
            }
        }
        Ok(())
    }

    /// Makes the campaign's row, or finds it if it is resumed.
    fn begin(&mut self, header: &linerate_model::CampaignHeader) -> Result<(), StoreError> {
        let fail = |error| StoreError::sqlite("record to ledger", &self.path, error);
        let known: Option<i64> = self
            .connection
            .query_row("SELECT key FROM campaign WHERE id = ?1", [&header.id], |row| row.get(0))
            .optional()
            .map_err(fail)?;
        let key = match known {
            Some(key) => key,
            None => {
                let insert = "INSERT INTO campaign (id, started, header) VALUES (?1, ?2, ?3)";
                let row = params![header.id, header.started.0 as i64, json(header)];
                self.connection.execute(insert, row).map_err(fail)?;
                self.connection.last_insert_rowid()
            }
        };
        self.planned = self.planned_of(key)?;
        self.campaign = Some(key);
        Ok(())
    }

    fn write_pending(&mut self) -> Result<(), StoreError> {
        let (Some(campaign), false) = (self.campaign, self.pending.is_empty()) else { return Ok(()) };
        let written =
            self.connection.transaction_with_behavior(TransactionBehavior::Immediate).and_then(|transaction| {
                write(&transaction, campaign, &self.pending)?;
                transaction.commit()
            });
        written.map_err(|error| StoreError::sqlite("record to ledger", &self.path, error))?;
        self.pending.clear();
        Ok(())
    }
}

/// Intervals of one tick, by trial, job and side, in the order received.
type Chunks<'a> = BTreeMap<(TrialId, u32, Side), Vec<&'a Interval>>;

fn write(transaction: &Transaction<'_>, campaign: i64, events: &[Event]) -> rusqlite::Result<()> {
    let mut chunks = Chunks::new();
    for event in events {
        match event {
            Event::Intervals { trial, job, side, intervals } => {
                chunks.entry((*trial, *job, *side)).or_default().extend(intervals);
            }
            Event::TrialStarted { trial, .. } => {
                chunks.retain(|(other, _, _), _| other != trial);
                write_event(transaction, campaign, event)?;
            }
            Event::Planned { .. } => {
                // Planning may replace trials; their intervals must be there to be replaced with them.
                write_chunks(transaction, campaign, std::mem::take(&mut chunks))?;
                write_event(transaction, campaign, event)?;
            }
            _ => write_event(transaction, campaign, event)?,
        }
    }
    write_chunks(transaction, campaign, chunks)
}

fn write_chunks(transaction: &Transaction<'_>, campaign: i64, chunks: Chunks<'_>) -> rusqlite::Result<()> {
    let sql = "INSERT INTO chunk (trial, job, side, intervals) VALUES (?1, ?2, ?3, ?4)";
    for ((trial, job, side), intervals) in chunks {
        let key = key_of(transaction, campaign, trial)?;
        for intervals in intervals.chunks(blob::MAX_INTERVALS) {
            let row = params![key, job, word(side), blob::encode_intervals(intervals)];
            transaction.prepare_cached(sql)?.execute(row)?;
        }
    }
    Ok(())
}

fn write_event(transaction: &Transaction<'_>, campaign: i64, event: &Event) -> rusqlite::Result<()> {
    let execute = |sql: &str, row: &[&dyn rusqlite::ToSql]| transaction.prepare_cached(sql)?.execute(row).map(|_| ());
    let key = |trial: TrialId| key_of(transaction, campaign, trial);
    match event {
        Event::CampaignStarted(_) => execute("UPDATE campaign SET ended = NULL WHERE key = ?1", params![campaign]),
        Event::HostJoined(host) => execute(
            "INSERT INTO host (campaign, name, record, position)
             SELECT ?1, ?2, ?3, count(*) FROM host WHERE campaign = ?1
             ON CONFLICT (campaign, name) DO UPDATE SET record = excluded.record",
            params![campaign, host.host, json(host)],
        ),
        Event::Planned { trials } => write_plan(transaction, campaign, trials),
        Event::TrialChosen { trial } => execute(
            "INSERT INTO trial (campaign, number, position, spec)
             SELECT ?1, ?2, ifnull(max(position) + 1, 0), ?3 FROM trial WHERE campaign = ?1",
            params![campaign, trial.id.0, json(trial)],
        ),
        Event::TrialStarted { trial, at } => {
            let key = key(*trial)?;
            for table in ["chunk", "clock", "flow", "sample", "incident"] {
                execute(&format!("DELETE FROM {table} WHERE trial = ?1"), params![key])?;
            }
            let sql =
                "UPDATE trial SET started = ?2, skew_ns = NULL, uncertainty_ns = NULL, outcome = NULL WHERE key = ?1";
            execute(sql, params![key, at.0 as i64])
        }
        Event::BarrierPassed { trial, skew_ns, uncertainty_ns } => execute(
            "UPDATE trial SET skew_ns = ?2, uncertainty_ns = ?3 WHERE key = ?1",
            params![key(*trial)?, *skew_ns as i64, *uncertainty_ns as i64],
        ),
        Event::ClocksCompared { trial, clocks } => {
            execute("INSERT OR REPLACE INTO clock (trial, clocks) VALUES (?1, ?2)", params![key(*trial)?, json(clocks)])
        }
        Event::Intervals { .. } => Ok(()),
        Event::FlowsEnded { trial, job, side, flows } => execute(
            "INSERT INTO flow (trial, job, side, reports) VALUES (?1, ?2, ?3, ?4)",
            params![key(*trial)?, job, word(*side), blob::encode_flows(flows)],
        ),
        Event::Samples { trial, host, block } => execute(
            "INSERT INTO sample (trial, host, block) VALUES (?1, ?2, ?3)",
            params![key(*trial)?, host, blob::encode_samples(block)],
        ),
        Event::Incident { trial, incident } => execute(
            "INSERT INTO incident (campaign, trial, incident) VALUES (?1, ?2, ?3)",
            params![campaign, trial.map(key).transpose()?, json(incident)],
        ),
        Event::TrialEnded { trial, outcome } => {
            execute("UPDATE trial SET outcome = ?2 WHERE key = ?1", params![key(*trial)?, json(outcome)])
        }
        Event::CampaignEnded { at } => {
            execute("UPDATE campaign SET ended = ?2 WHERE key = ?1", params![campaign, at.0 as i64])
        }
    }
}

/// Writes the plan: a trial planned before with the same specification keeps its record.
fn write_plan(transaction: &Transaction<'_>, campaign: i64, trials: &[TrialSpec]) -> rusqlite::Result<()> {
    let mut known: BTreeMap<i64, (i64, String)> = transaction
        .prepare_cached("SELECT number, key, spec FROM trial WHERE campaign = ?1")?
        .query_map([campaign], |row| Ok((row.get(0)?, (row.get(1)?, row.get(2)?))))?
        .collect::<rusqlite::Result<_>>()?;
    let mut keep = transaction.prepare_cached("UPDATE trial SET position = ?2 WHERE key = ?1")?;
    let mut forget = transaction.prepare_cached("DELETE FROM trial WHERE key = ?1")?;
    let mut insert =
        transaction.prepare_cached("INSERT INTO trial (campaign, number, position, spec) VALUES (?1, ?2, ?3, ?4)")?;
    for (position, spec) in (0_i64..).zip(trials) {
        let known = known.remove(&i64::from(spec.id.0));
        let same = |text: &str| serde_json::from_str::<TrialSpec>(text).is_ok_and(|known| known == *spec);
        match known {
            Some((key, text)) if same(&text) => keep.execute(params![key, position])?,
            other => {
                if let Some((key, _)) = other {
                    forget.execute([key])?;
                }
                insert.execute(params![campaign, spec.id.0, position, json(spec)])?
            }
        };
    }
    for (key, _) in known.into_values() {
        forget.execute([key])?;
    }
    Ok(())
}

fn key_of(transaction: &Transaction<'_>, campaign: i64, trial: TrialId) -> rusqlite::Result<i64> {
    let sql = "SELECT key FROM trial WHERE campaign = ?1 AND number = ?2";
    transaction.prepare_cached(sql)?.query_row(params![campaign, trial.0], |row| row.get(0))
}

/// A side as its column says it.
fn word(side: Side) -> &'static str {
    match side {
        Side::Active => "active",
        Side::Passive => "passive",
    }
}

/// `value` as JSON text.
fn json(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).expect("the model's types have string keys and finite numbers")
}

#[cfg(test)]
mod tests {
    use linerate_model::{CampaignHeader, Counter, Nanos, TestbedKind};

    use super::*;
    use crate::Which;

    fn header() -> CampaignHeader {
        CampaignHeader {
            id: "one".into(),
            name: "name".into(),
            started: Nanos(1),
            plan: String::new(),
            plan_sha256: String::new(),
            lab: None,
            seed: 1,
            testbed: TestbedKind::Loopback,
            capacities: Vec::new(),
            observed: Vec::new(),
            version: String::new(),
            argv: Vec::new(),
        }
    }

    fn planned() -> Event {
        let spec = serde_json::json!({
            "id": 0, "sweep": "s", "point": {}, "repeat": 0, "seed": 1,
            "phases": { "warmup": "auto", "measure": "1 s", "drain": "0 ns", "rest": "0 ns", "interval": "100 ms" },
            "jobs": [{
                "workload": "null", "params": {}, "background": null,
                "from": { "name": "a", "host": "h", "address": null, "device": null },
                "to": { "name": "b", "host": "h", "address": null, "device": null },
            }],
        });
        Event::Planned { trials: vec![serde_json::from_value(spec).expect("it is a trial")] }
    }

    /// Intervals that do not compress to nothing.
    fn intervals(seed: u64) -> Event {
        let interval = |n: u64| {
            let mut interval = Interval { start: Nanos(n), ..Interval::default() };
            interval.counters[Counter::Steps] = (seed * 1_000 + n).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            interval
        };
        Event::Intervals { trial: TrialId(0), job: 0, side: Side::Active, intervals: (0..500).map(interval).collect() }
    }

    fn started(directory: &tempfile::TempDir) -> Ledger {
        let mut ledger = Ledger::create(&directory.path().join("full.ledger")).expect("it is new");
        for event in [Event::CampaignStarted(Box::new(header())), planned()] {
            ledger.record(&event).expect("it fits");
        }
        ledger.flush().expect("there is room");
        ledger
    }

    #[test]
    fn a_full_disk_is_an_error_with_its_remedy_and_loses_nothing_once_there_is_room() {
        let directory = tempfile::tempdir().expect("a directory");
        let mut ledger = started(&directory);
        let pages: i64 = ledger.connection.pragma_query_value(None, "page_count", |row| row.get(0)).expect("a count");
        ledger.connection.pragma_update(None, "max_page_count", pages + 10).expect("it can be set");
        let mut taken = 0;
        let error = loop {
            ledger.record(&intervals(taken)).expect("it is only queued");
            taken += 1;
            if let Err(error) = ledger.flush() {
                break error.to_string();
            }
            assert!(taken < 1_000, "the disk never became full");
        };
        assert!(
            error.contains("record to ledger") && error.contains("full.ledger") && error.contains("free space"),
            "{error}"
        );
        let on_disk = ledger.load(Which::Latest).expect("what was flushed is readable");
        assert_eq!(on_disk.trials[0].jobs[0].0.intervals.len() as u64, (taken - 1) * 500);
        ledger.connection.pragma_update(None, "max_page_count", 1_000_000).expect("it can be set");
        ledger.flush().expect("there is room again");
        let whole = ledger.load(Which::Latest).expect("it is readable");
        assert_eq!(whole.trials[0].jobs[0].0.intervals.len() as u64, taken * 500);
    }

    #[test]
    fn a_ledger_another_process_writes_to_is_an_error_with_its_remedy() {
        let directory = tempfile::tempdir().expect("a directory");
        let mut ledger = started(&directory);
        ledger.connection.busy_timeout(std::time::Duration::ZERO).expect("it can be set");
        let other = rusqlite::Connection::open(ledger.path()).expect("it is there");
        other.execute_batch("BEGIN IMMEDIATE").expect("nobody else writes");
        ledger.record(&intervals(0)).expect("it is only queued");
        let error = ledger.flush().expect_err("the other one writes").to_string();
        assert!(error.contains("another process writes to it"), "{error}");
        other.execute_batch("ROLLBACK").expect("it ends");
        ledger.flush().expect("now it is free");
        assert_eq!(ledger.load(Which::Latest).expect("it is readable").trials[0].jobs[0].0.intervals.len(), 500);
    }

    #[test]
    fn queued_events_do_not_grow_without_bound() {
        let directory = tempfile::tempdir().expect("a directory");
        let mut ledger = started(&directory);
        let incident = linerate_model::Incident {
            host: String::new(),
            kind: linerate_model::IncidentKind::Rejected,
            message: "hostile bytes".into(),
        };
        for _ in 0..MAX_PENDING + 10 {
            ledger.record(&Event::Incident { trial: None, incident: incident.clone() }).expect("there is room");
        }
        assert_eq!(ledger.pending.len(), 10);
    }
}
