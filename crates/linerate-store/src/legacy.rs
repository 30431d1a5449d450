//! Schemas 1 and 2: a table for each kind of thing, rows without digests. They are read for ever,
//! and written no more.

use std::collections::{BTreeMap, HashMap};

use linerate_model::{
    Campaign, JobRecord, Lines, Nanos, TrialRecord, TrialSpec, printable, printable_json,
};
use rusqlite::{Row, params};
use serde::de::DeserializeOwned;

use crate::blob::KnownSeries;
use crate::chain::Head;
use crate::lease::{self, Holder};
use crate::{Ledger, Result, StoreError, blob, ledger, schema};

/// The first schema with a table of clocks.
const VERSION_WITH_CLOCKS: i64 = 2;
/// Memory that JSON takes, at most, per byte of text.
const TREE_BYTES_A_BYTE: usize = 16;

/// Every campaign by its number, without intervals, flows and readings.
pub(crate) fn outlines(ledger: &Ledger) -> Result<BTreeMap<i64, Campaign>> {
    let keys = ledger
        .rows("SELECT key FROM campaign ORDER BY key", params![], |row| row.get::<_, i64>(0))?;
    keys.into_iter().map(|key| ledger.outline(key).map(|(campaign, _)| (key, campaign))).collect()
}

/// The whole record of campaign `key`.
pub(crate) fn load(ledger: &Ledger, key: i64) -> Result<Campaign> {
    let (mut campaign, index_of) = ledger.outline(key)?;
    ledger.load_intervals(key, &mut campaign, &index_of)?;
    ledger.load_flows(key, &mut campaign, &index_of)?;
    ledger.load_samples(key, &mut campaign, &index_of)?;
    Ok(campaign)
}

/// Brings the file to today's schema, all or nothing.
pub(crate) fn migrate(ledger: &mut Ledger, holder: &Holder) -> Result<()> {
    let path = ledger.path.clone();
    let fail = |error| StoreError::sqlite("bring up to date ledger", &path, error);
    let mut campaigns = Vec::new();
    for key in outlines(ledger)?.into_keys() {
        ledger.refill();
        // All campaigns are read before the first table is dropped.
        campaigns.push((key, load(ledger, key)?));
    }
    ledger.refill();
    // One transaction: a crash leaves the old schema whole.
    let transaction = ledger.connection.transaction().map_err(fail)?;
    rewrite(&transaction, holder, campaigns).and_then(|()| transaction.commit()).map_err(fail)?;
    ledger.version = schema::VERSION;
    Ok(())
}

/// Replaces the tables of an earlier schema by those of today, with the records of `campaigns`.
fn rewrite(
    transaction: &rusqlite::Transaction<'_>,
    holder: &Holder,
    campaigns: Vec<(i64, Campaign)>,
) -> rusqlite::Result<()> {
    schema::drop_legacy(transaction)?;
    schema::make(transaction)?;
    lease::write(transaction, holder)?;
    let mut head = Head::EMPTY;
    for (key, campaign) in campaigns {
        for event in campaign.into_events() {
            ledger::append(&mut head, transaction, key, &event)?;
        }
    }
    head.save(transaction)
}

impl Ledger {
    /// The campaign `key` without intervals, flows and readings, and where each trial's row stands
    /// in it.
    fn outline(&self, key: i64) -> Result<(Campaign, HashMap<i64, usize>)> {
        let sql = "SELECT id, header, ended FROM campaign WHERE key = ?1";
        let read =
            |row: &Row<'_>| Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?, row.get(2)?));
        let found: Vec<(String, String, Option<i64>)> = self.rows(sql, params![key], read)?;
        let missing = || StoreError::damaged(&self.path, "a campaign", "its row is missing");
        let (id, header, ended) = found.into_iter().next().ok_or_else(missing)?;
        let id = printable(&id, Lines::One);
        let of = || format!("header of campaign {id}");
        let mut campaign = Campaign::new(self.parse(&header, of)?);
        campaign.header.keep_lines_of(self.parse_lines(&header, Lines::Several, of)?);
        campaign.ended = ended.map(nanos);
        let sql = "SELECT name, record FROM host WHERE campaign = ?1 ORDER BY position";
        for (name, record) in self.rows(sql, params![key], |row| {
            Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?))
        })? {
            campaign.hosts.push(self.parse(&record, || format!("host {name} of campaign {id}"))?);
        }
        let sql =
            "SELECT incident FROM incident WHERE campaign = ?1 AND trial IS NULL ORDER BY key";
        for incident in self.rows(sql, params![key], |row| row.get::<_, String>(0))? {
            campaign
                .incidents
                .push(self.parse(&incident, || format!("an incident of campaign {id}"))?);
        }
        let index_of = self.load_trials(key, &mut campaign)?;
        Ok((campaign, index_of))
    }

    /// Reads the trials and their incidents; returns where each trial's row stands in the campaign.
    fn load_trials(&self, key: i64, campaign: &mut Campaign) -> Result<HashMap<i64, usize>> {
        let sql = "SELECT key, number, spec, started, skew_ns, uncertainty_ns, outcome
            FROM trial WHERE campaign = ?1 ORDER BY position";
        let rows = self.rows(sql, params![key], |row| {
            let skew: (Option<i64>, Option<i64>) = (row.get(4)?, row.get(5)?);
            let outcome: Option<String> = row.get(6)?;
            Ok((
                row.get::<_, i64>(0)?,
                row.get::<_, i64>(1)?,
                row.get::<_, String>(2)?,
                row.get::<_, Option<i64>>(3)?,
                skew,
                outcome,
            ))
        })?;
        let mut index_of = HashMap::with_capacity(rows.len());
        for (trial, number, spec, started, skew, outcome) in rows {
            let spec: TrialSpec =
                self.parse(&spec, || format!("specification of trial {number}"))?;
            let mut record = TrialRecord::new(spec);
            record.started = started.map(nanos);
            record.skew =
                skew.0.zip(skew.1).map(|(skew, uncertainty)| (skew as u64, uncertainty as u64));
            record.outcome = outcome
                .map(|text| self.parse(&text, || format!("outcome of trial {number}")))
                .transpose()?;
            index_of.insert(trial, campaign.trials.len());
            campaign.trials.push(record);
        }
        let sql = "SELECT trial, incident FROM incident WHERE campaign = ?1 AND trial IS NOT NULL \
            ORDER BY key";
        for (trial, text) in self
            .rows(sql, params![key], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?)))?
        {
            let incident = self.parse(&text, || "an incident of a trial".to_owned())?;
            if let Some(&index) = index_of.get(&trial) {
                campaign.trials[index].incidents.push(incident);
            }
        }
        // The table does not exist in schema 1, and a query that names it would fail.
        if self.version < VERSION_WITH_CLOCKS {
            return Ok(index_of);
        }
        let sql = "SELECT clock.trial, clocks FROM clock JOIN trial ON trial.key = clock.trial \
            WHERE campaign = ?1";
        for (trial, text) in self
            .rows(sql, params![key], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?)))?
        {
            if let Some(&index) = index_of.get(&trial) {
                campaign.trials[index].clocks =
                    self.parse(&text, || "the clocks of a trial".to_owned())?;
            }
        }
        Ok(index_of)
    }

    fn load_intervals(
        &self,
        key: i64,
        campaign: &mut Campaign,
        index_of: &HashMap<i64, usize>,
    ) -> Result<()> {
        let sql = "SELECT chunk.trial, job, side, intervals FROM chunk JOIN trial ON trial.key = \
            chunk.trial
            WHERE campaign = ?1 ORDER BY chunk.key";
        self.each_blob(sql, key, "intervals", index_of, campaign, |record, bytes| {
            record.intervals.extend(blob::decode_intervals(bytes, &self.budget)?);
            Ok(())
        })
    }

    fn load_flows(
        &self,
        key: i64,
        campaign: &mut Campaign,
        index_of: &HashMap<i64, usize>,
    ) -> Result<()> {
        let sql =
            "SELECT flow.trial, job, side, reports FROM flow JOIN trial ON trial.key = flow.trial
            WHERE campaign = ?1 ORDER BY flow.key";
        self.each_blob(sql, key, "flows", index_of, campaign, |record, bytes| {
            record.flows.extend(blob::decode_flows(bytes, &self.budget)?);
            Ok(())
        })
    }

    fn load_samples(
        &self,
        key: i64,
        campaign: &mut Campaign,
        index_of: &HashMap<i64, usize>,
    ) -> Result<()> {
        let sql =
            "SELECT sample.trial, host, block FROM sample JOIN trial ON trial.key = sample.trial
            WHERE campaign = ?1 ORDER BY sample.key";
        let mut known = KnownSeries::default();
        self.visit(sql, params![key], |row| {
            let (trial, host): (i64, String) = (row.get(0)?, row.get(1)?);
            let host = printable(&host, Lines::One).into_owned();
            // A row of a trial that is not in the table belongs to nothing that could be shown.
            let Some(record) = index_of.get(&trial).map(|&index| &mut campaign.trials[index])
            else {
                return Ok(Ok(()));
            };
            let decoded =
                blob::decode_samples(row.get_ref(2)?.as_blob()?, &self.budget, &mut known);
            let what = || format!("samples of host {host} in trial {}", record.spec.id.0);
            let decoded = decoded.map_err(|cause| StoreError::blob(&self.path, what(), &cause));
            Ok(decoded.map(|block| record.samples.push((host, block))))
        })
    }

    /// Gives each blob of `sql` (trial, job, side, blob) to `take` together with the job record it
    /// belongs to.
    fn each_blob(
        &self,
        sql: &str,
        key: i64,
        what: &str,
        index_of: &HashMap<i64, usize>,
        campaign: &mut Campaign,
        take: impl Fn(&mut JobRecord, &[u8]) -> Result<(), blob::BlobError>,
    ) -> Result<()> {
        self.visit(sql, params![key], |row| {
            let (trial, job, side): (i64, u32, String) = (row.get(0)?, row.get(1)?, row.get(2)?);
            let Some(record) = index_of.get(&trial).map(|&index| &mut campaign.trials[index])
            else {
                return Ok(Ok(()));
            };
            let number = record.spec.id.0;
            let name = || format!("{what} of trial {number}, job {job}, {side} side");
            let Some((active, passive)) = record.jobs.get_mut(job as usize) else {
                return Ok(Err(StoreError::damaged(
                    &self.path,
                    name(),
                    "the trial has no such job",
                )));
            };
            let record = match side.as_str() {
                "active" => active,
                "passive" => passive,
                _ => {
                    return Ok(Err(StoreError::damaged(
                        &self.path,
                        name(),
                        "there is no such side",
                    )));
                }
            };
            let taken = take(record, row.get_ref(3)?.as_blob()?);
            Ok(taken.map_err(|cause| StoreError::blob(&self.path, name(), &cause)))
        })
    }

    fn rows<T>(
        &self,
        sql: &str,
        parameters: &[&dyn rusqlite::ToSql],
        read: impl Fn(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Vec<T>> {
        let mut rows = Vec::new();
        self.visit(sql, parameters, |row| {
            rows.push(read(row)?);
            Ok(Ok(()))
        })?;
        Ok(rows)
    }

    /// Gives each row to `visit`, which says both whether the row could be read and whether its
    /// content makes sense.
    fn visit(
        &self,
        sql: &str,
        parameters: &[&dyn rusqlite::ToSql],
        mut visit: impl FnMut(&Row<'_>) -> rusqlite::Result<Result<()>>,
    ) -> Result<()> {
        let fail = |error| StoreError::sqlite("read ledger", &self.path, error);
        let mut statement = self.connection.prepare_cached(sql).map_err(fail)?;
        let mut rows = statement.query(parameters).map_err(fail)?;
        while let Some(row) = rows.next().map_err(fail)? {
            visit(row).map_err(fail)??;
        }
        Ok(())
    }

    fn parse<T: DeserializeOwned>(&self, text: &str, what: impl Fn() -> String) -> Result<T> {
        self.parse_lines(text, Lines::One, what)
    }

    /// Whoever wrote the file: no terminal and no report obeys what is in it.
    fn parse_lines<T: DeserializeOwned>(
        &self,
        text: &str,
        lines: Lines,
        what: impl Fn() -> String,
    ) -> Result<T> {
        let text = &*printable_json(text.as_bytes(), lines);
        let taken = self.budget.take(text.len(), TREE_BYTES_A_BYTE);
        taken.map_err(|cause| StoreError::blob(&self.path, what(), &cause))?;
        let parsed = serde_json::from_slice(text);
        self.budget.give(text.len(), TREE_BYTES_A_BYTE - 1);
        parsed.map_err(|cause| StoreError::damaged(&self.path, what(), cause))
    }
}

fn nanos(bits: i64) -> Nanos {
    Nanos(bits as u64)
}
