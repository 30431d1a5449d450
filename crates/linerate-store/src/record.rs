//! Taking events: queued by `record`, written in one transaction by `flush`.
//!
//! If a flush fails (a full disk, a lock) nothing of it is written and everything stays queued:
//! once there is room, the next flush writes it all.

use std::collections::{BTreeMap, HashMap};

use linerate_model::{Event, Interval, Recorder, RecorderError, Side, TrialId, TrialSpec};
use rusqlite::Transaction;

use crate::chain::Head;
use crate::ledger::{append, write_as};
use crate::{Ledger, Result, StoreError, blob, codec};

/// Queued events that make `record` flush by itself, should nobody call `flush`: bounds memory.
const MAX_PENDING: usize = 4096;

impl Recorder for Ledger {
    fn record(&mut self, event: &Event) -> Result<(), RecorderError> {
        self.take(event).map_err(|error| RecorderError(error.to_string()))
    }

    fn flush(&mut self) -> Result<(), RecorderError> {
        self.write_pending().map_err(|error| RecorderError(error.to_string()))
    }
}

impl Ledger {
    /// Queues an event.
    pub(crate) fn take(&mut self, event: &Event) -> Result<()> {
        // Checked before queuing: an error at the flush would name no event.
        self.admit(event)?;
        self.pending.push(event.clone());
        if self.pending.len() >= MAX_PENDING { self.write_pending() } else { Ok(()) }
    }

    /// Refuses an event that belongs to no campaign, trial or job: it would be lost silently.
    fn admit(&mut self, event: &Event) -> Result<()> {
        let misplaced =
            |what: String, cause| StoreError::Misplaced { path: self.path.clone(), what, cause };
        let (trial, job) = match event {
            Event::CampaignStarted(header) => {
                // What was recorded so far belongs to the campaign before.
                self.write_pending()?;
                return self.begin(header);
            }
            Event::HostJoined(_)
            | Event::Incident { trial: None, .. }
            | Event::CampaignEnded { .. } => (None, None),
            Event::Planned { .. } | Event::TrialChosen { .. } => (None, None),
            Event::TrialStarted { trial, .. }
            | Event::BarrierPassed { trial, .. }
            | Event::ClocksCompared { trial, .. }
            | Event::Samples { trial, .. }
            | Event::Incident { trial: Some(trial), .. }
            | Event::TrialEnded { trial, .. } => (Some(*trial), None),
            Event::Intervals { trial, job, .. } | Event::FlowsEnded { trial, job, .. } => {
                (Some(*trial), Some(*job))
            }
        };
        if self.campaign.is_none() {
            return Err(misplaced("an event".to_owned(), "no campaign was started"));
        }
        if let Event::Planned { trials } = event {
            let planned = jobs_of(trials);
            // A map drops the second of two equal numbers, so its length shows them.
            if planned.len() != trials.len() {
                return Err(misplaced("the planned trials".to_owned(), "two have the same number"));
            }
            self.planned = planned;
        }
        if let Event::TrialChosen { trial } = event {
            let n_jobs = u32::try_from(trial.jobs.len()).unwrap_or(u32::MAX);
            if self.planned.contains_key(&trial.id) {
                return Err(misplaced(
                    format!("the chosen trial {}", trial.id.0),
                    "another has its number",
                ));
            }
            self.planned.insert(trial.id, n_jobs);
        }
        if let Some(trial) = trial {
            let Some(n_jobs) = self.planned.get(&trial) else {
                return Err(misplaced(
                    format!("an event of trial {}", trial.0),
                    "no such trial was planned",
                ));
            };
            if job.is_some_and(|job| job >= *n_jobs) {
                return Err(misplaced(
                    format!("an event of trial {}", trial.0),
                    "it has no such job",
                ));
            }
        }
        Ok(())
    }

    /// Finds the campaign if it is resumed, or gives it a number.
    fn begin(&mut self, header: &linerate_model::CampaignHeader) -> Result<()> {
        // The file decides: it may hold campaigns of earlier processes.
        let known = self.outlines()?;
        let found = known.iter().find(|(_, campaign)| campaign.header.id == header.id);
        let next = known.keys().max().map_or(1, |last| last + 1);
        self.planned = found.map_or_else(HashMap::new, |(_, campaign)| {
            jobs_of(campaign.trials.iter().map(|trial| &trial.spec))
        });
        self.campaign = Some(found.map_or(next, |(number, _)| *number));
        Ok(())
    }

    pub(crate) fn write_pending(&mut self) -> Result<()> {
        let (Some(campaign), false) = (self.campaign, self.pending.is_empty()) else {
            return Ok(());
        };
        let Some(holder) = &self.holder else {
            let cause = "the ledger was opened to be read only";
            return Err(StoreError::Misplaced {
                path: self.path.clone(),
                what: "an event".to_owned(),
                cause,
            });
        };
        // The head is copied: if the transaction fails, the old one still fits the file.
        let (mut head, pending) = (self.head, &self.pending);
        write_as(&mut self.connection, &self.path, holder, |transaction| {
            write(&mut head, transaction, campaign, pending)?;
            head.save(transaction)
        })?;
        self.head = head;
        self.pending.clear();
        Ok(())
    }
}

/// Trials and their numbers of jobs.
fn jobs_of<'a>(trials: impl IntoIterator<Item = &'a TrialSpec>) -> HashMap<TrialId, u32> {
    trials
        .into_iter()
        .map(|spec| (spec.id, u32::try_from(spec.jobs.len()).unwrap_or(u32::MAX)))
        .collect()
}

/// Intervals of one tick, by trial, job and side, in the order received.
type Chunks<'a> = BTreeMap<(TrialId, u32, Side), Vec<&'a Interval>>;

fn write(
    head: &mut Head,
    transaction: &Transaction<'_>,
    campaign: i64,
    events: &[Event],
) -> rusqlite::Result<()> {
    // Workers report one interval each tick. One chunk of many intervals compresses far better than
    // many of one.
    let mut chunks = Chunks::new();
    for event in events {
        match event {
            Event::Intervals { trial, job, side, intervals } => {
                chunks.entry((*trial, *job, *side)).or_default().extend(intervals);
            }
            // What came before belongs to the trial that ends, or to what these replace.
            Event::TrialStarted { .. } | Event::TrialEnded { .. } | Event::Planned { .. } => {
                write_chunks(head, transaction, campaign, std::mem::take(&mut chunks))?;
                append(head, transaction, campaign, event)?;
            }
            _ => append(head, transaction, campaign, event)?,
        }
    }
    write_chunks(head, transaction, campaign, chunks)
}

fn write_chunks(
    head: &mut Head,
    transaction: &Transaction<'_>,
    campaign: i64,
    chunks: Chunks<'_>,
) -> rusqlite::Result<()> {
    for ((trial, job, side), intervals) in chunks {
        for intervals in intervals.chunks(blob::MAX_INTERVALS) {
            let body = codec::encode_intervals(job, side, intervals);
            head.append(transaction, campaign, Some(trial), codec::INTERVALS, &body)?;
        }
    }
    Ok(())
}

#[cfg(test)]
#[path = "../examples/shared/mod.rs"]
mod shared;

#[cfg(test)]
mod tests {
    use linerate_model::{
        Counter, FlowReport, Incident, IncidentKind, Nanos, SampleBlock, TrialOutcome,
    };

    use super::*;
    use crate::Which;

    fn planned() -> Event {
        let spec = serde_json::json!({
            "id": 0, "sweep": "s", "point": {}, "repeat": 0, "seed": 1,
            "phases": { "warmup": "auto", "measure": "1 \
                s", "drain": "0 ns", "rest": "0 ns", "interval": "100 ms" },
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
            let mixed = (seed * 1_000 + n).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            interval.counters[Counter::Steps] =
                (mixed ^ mixed >> 31).wrapping_mul(0x94d0_49bb_1331_11eb);
            interval
        };
        Event::Intervals {
            trial: TrialId(0),
            job: 0,
            side: Side::Active,
            intervals: (0..500).map(interval).collect(),
        }
    }

    fn started(directory: &tempfile::TempDir) -> Ledger {
        let mut ledger = Ledger::create(&directory.path().join("full.ledger")).expect("it is new");
        for event in [Event::CampaignStarted(Box::new(shared::header("one", "name"))), planned()] {
            ledger.record(&event).expect("it fits");
        }
        ledger.flush().expect("there is room");
        ledger
    }

    #[test]
    fn no_text_of_a_ledger_has_a_control_character() {
        const HOSTILE: &str = "x\u{1b}]0;owned\u{7}\u{9b}31m\u{202e}\ny";
        const SHOWN: &str = "x\\u001b]0;owned\\u0007\\u009b31m\\u202e\\ny";
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("hostile.ledger");
        let mut ledger = Ledger::create(&path).expect("it is new");
        let mut header = shared::header("one", "name");
        (header.name, header.plan) = (HOSTILE.into(), format!("a = 1\r\n# {HOSTILE}"));
        let incident =
            Incident { host: HOSTILE.into(), kind: IncidentKind::Failed, message: HOSTILE.into() };
        let flow = FlowReport { local: HOSTILE.into(), ..FlowReport::default() };
        let trial = TrialId(0);
        for event in [
            Event::CampaignStarted(Box::new(header)),
            planned(),
            Event::Incident { trial: Some(trial), incident },
            Event::FlowsEnded { trial, job: 0, side: Side::Active, flows: vec![flow] },
            Event::Samples { trial, host: HOSTILE.into(), block: SampleBlock::default() },
        ] {
            ledger.record(&event).expect("it fits");
        }
        ledger.flush().expect("there is room");
        let campaign = ledger.load(Which::Latest).expect("it reads");
        assert_eq!(campaign.header.name, SHOWN);
        assert_eq!(
            campaign.header.plan, "a = 1\n# x\\u001b]0;owned\\u0007\\u009b31m\\u202e\ny",
            "a plan keeps its lines"
        );
        let record = &campaign.trials[0];
        assert_eq!(
            (record.incidents[0].host.as_str(), record.incidents[0].message.as_str()),
            (SHOWN, SHOWN)
        );
        assert_eq!(
            (record.jobs[0].0.flows[0].local.as_str(), record.samples[0].0.as_str()),
            (SHOWN, SHOWN)
        );
    }

    #[test]
    fn a_full_disk_is_an_error_with_its_remedy_and_loses_nothing_once_there_is_room() {
        let directory = tempfile::tempdir().expect("a directory");
        let mut ledger = started(&directory);
        let pages: i64 = ledger
            .connection
            .pragma_query_value(None, "page_count", |row| row.get(0))
            .expect("a count");
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
            error.contains("record to ledger")
                && error.contains("full.ledger")
                && error.contains("free space"),
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
    fn nothing_is_appended_where_the_records_do_not_end_or_no_number_is_left() {
        let directory = tempfile::tempdir().expect("a directory");
        let ledger = started(&directory);
        let last = ledger.find_head().expect("it is whole").sequence;
        let set = |table: &str, sequence: i64| {
            let sql = format!(
                "UPDATE {table} SET sequence = ?1 WHERE sequence = (SELECT max(sequence) FROM \
                    {table})"
            );
            ledger.connection.execute(&sql, [sequence]).expect("it is there");
        };
        set("head", last + 1);
        ledger.find_head().expect_err("a record is missing");
        set("record", i64::MAX);
        set("head", i64::MAX);
        ledger.find_head().expect_err("there is no next number");
        set("record", last);
        set("head", last);
        ledger.find_head().expect("it is as it was");
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
        assert_eq!(
            ledger.load(Which::Latest).expect("it is readable").trials[0].jobs[0].0.intervals.len(),
            500
        );
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
            ledger
                .record(&Event::Incident { trial: None, incident: incident.clone() })
                .expect("there is room");
        }
        assert_eq!(ledger.pending.len(), 10);
    }

    #[test]
    fn a_sound_record_that_does_not_decode_costs_its_trial_and_is_named() {
        let directory = tempfile::tempdir().expect("a folder");
        let mut ledger = started(&directory);
        let trial = TrialId(0);
        for event in [
            Event::TrialStarted { trial, at: Nanos(1) },
            intervals(1),
            Event::TrialEnded { trial, outcome: TrialOutcome::Completed },
        ] {
            ledger.record(&event).expect("it fits");
        }
        ledger.flush().expect("there is room");
        let mut head = ledger.head;
        let transaction = ledger.connection.transaction().expect("nobody else writes");
        let appended = head.append(&transaction, 1, Some(trial), codec::SAMPLES, b"\x09");
        appended.and_then(|()| head.save(&transaction)).expect("there is room");
        transaction.commit().expect("there is room");
        ledger.head = head;
        let path = ledger.path.clone();
        drop(ledger);
        let named = "(samples) cannot be read: it is cut off: trial 0 is left out";
        let loaded = Ledger::open_read_only(&path)
            .and_then(|ledger| ledger.load_with_damage(Which::Latest))
            .expect("the rest is sound");
        assert!(loaded.damage.len() == 1 && loaded.damage[0].ends_with(named), "{loaded:?}");
        let record = &loaded.campaign.trials[0];
        assert_eq!(record.outcome, Some(TrialOutcome::Failed));
        assert!(record.incidents[0].message.contains(named), "{record:?}");
        assert!(record.jobs[0].0.intervals.is_empty(), "its data are left out");
        let health = crate::examine(&path).expect("its structure is sound");
        assert_eq!((health.damage, health.campaigns[0].n_completed), (loaded.damage, 0));
    }
}
