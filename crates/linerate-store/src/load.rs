//! Reading campaigns back.

use std::collections::{HashMap, HashSet};

use linerate_model::{Campaign, CampaignHeader, JobRecord, Nanos, TestbedKind, TrialId, TrialRecord, TrialSpec};
use rusqlite::{Row, params};
use serde::de::DeserializeOwned;

use crate::{Ledger, StoreError, Which, blob};

/// A campaign as a list shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CampaignSummary {
    /// Its id.
    pub id: String,
    /// The plan's name.
    pub name: String,
    /// Wall clock at its start, nanoseconds since the Unix epoch.
    pub started: Nanos,
    /// Wall clock at its end; absent if it was killed or still runs.
    pub ended: Option<Nanos>,
    /// What kind of path.
    pub testbed: TestbedKind,
    /// Trials planned.
    pub n_trials: u64,
    /// Trials completed.
    pub n_completed: u64,
}

/// The JSON of [`linerate_model::TrialOutcome::Completed`].
const COMPLETED: &str = "\"completed\"";

impl Ledger {
    /// Every campaign, the oldest first.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn campaigns(&self) -> Result<Vec<CampaignSummary>, StoreError> {
        let sql = "SELECT id, header, ended,
                (SELECT count(*) FROM trial WHERE campaign = campaign.key),
                (SELECT count(*) FROM trial WHERE campaign = campaign.key AND outcome = ?1)
            FROM campaign ORDER BY started, key";
        let rows = self.rows(sql, params![COMPLETED], |row| {
            Ok((
                row.get::<_, String>(0)?,
                row.get::<_, String>(1)?,
                row.get(2)?,
                row.get::<_, i64>(3)?,
                row.get::<_, i64>(4)?,
            ))
        })?;
        let summary = |(id, header, ended, n_trials, n_completed): (String, String, Option<i64>, i64, i64)| {
            let header: CampaignHeader = self.parse(&header, || format!("header of campaign {id}"))?;
            Ok(CampaignSummary {
                id,
                name: header.name,
                started: header.started,
                ended: ended.map(nanos),
                testbed: header.testbed,
                n_trials: n_trials.unsigned_abs(),
                n_completed: n_completed.unsigned_abs(),
            })
        };
        rows.into_iter().map(summary).collect()
    }

    /// The trials of campaign `id` that need not be run again.
    ///
    /// # Errors
    /// If there is no such campaign or the file cannot be read.
    pub fn completed_trials(&self, id: &str) -> Result<HashSet<TrialId>, StoreError> {
        let (key, ..) = self.find(Which::Id(id))?;
        let sql = "SELECT number FROM trial WHERE campaign = ?1 AND outcome = ?2";
        Ok(self.rows(sql, params![key, COMPLETED], |row| row.get(0).map(TrialId))?.into_iter().collect())
    }

    /// The whole record of one campaign.
    ///
    /// # Errors
    /// If there is no such campaign, the file cannot be read, or a record in it is damaged.
    pub fn load(&self, which: Which<'_>) -> Result<Campaign, StoreError> {
        // One transaction, so that a campaign being recorded is seen at one instant.
        let snapshot =
            self.connection.unchecked_transaction().map_err(|e| StoreError::sqlite("read ledger", &self.path, e))?;
        let (key, id, header, ended) = self.find(which)?;
        let mut campaign = Campaign::new(self.parse(&header, || format!("header of campaign {id}"))?);
        campaign.ended = ended.map(nanos);
        let sql = "SELECT name, record FROM host WHERE campaign = ?1 ORDER BY position";
        for (name, record) in
            self.rows(sql, params![key], |row| Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?)))?
        {
            campaign.hosts.push(self.parse(&record, || format!("host {name} of campaign {id}"))?);
        }
        let sql = "SELECT incident FROM incident WHERE campaign = ?1 AND trial IS NULL ORDER BY key";
        for incident in self.rows(sql, params![key], |row| row.get::<_, String>(0))? {
            campaign.incidents.push(self.parse(&incident, || format!("an incident of campaign {id}"))?);
        }
        let index_of = self.load_trials(key, &mut campaign)?;
        self.load_intervals(key, &mut campaign, &index_of)?;
        self.load_flows(key, &mut campaign, &index_of)?;
        self.load_samples(key, &mut campaign, &index_of)?;
        drop(snapshot);
        Ok(campaign)
    }

    /// Reads the trials and their incidents; returns where each trial's row stands in the campaign.
    fn load_trials(&self, key: i64, campaign: &mut Campaign) -> Result<HashMap<i64, usize>, StoreError> {
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
            let spec: TrialSpec = self.parse(&spec, || format!("specification of trial {number}"))?;
            let mut record = TrialRecord::new(spec);
            record.started = started.map(nanos);
            record.skew = skew.0.zip(skew.1).map(|(skew, uncertainty)| (skew as u64, uncertainty as u64));
            record.outcome =
                outcome.map(|text| self.parse(&text, || format!("outcome of trial {number}"))).transpose()?;
            index_of.insert(trial, campaign.trials.len());
            campaign.trials.push(record);
        }
        let sql = "SELECT trial, incident FROM incident WHERE campaign = ?1 AND trial IS NOT NULL ORDER BY key";
        for (trial, text) in
            self.rows(sql, params![key], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?)))?
        {
            let incident = self.parse(&text, || "an incident of a trial".to_owned())?;
            if let Some(&index) = index_of.get(&trial) {
                campaign.trials[index].incidents.push(incident);
            }
        }
        // A ledger of the first version that is only read has no such table.
        let known = "SELECT count(*) FROM sqlite_schema WHERE name = 'clock'";
        if self.rows(known, params![], |row| row.get::<_, i64>(0))?.first() == Some(&0) {
            return Ok(index_of);
        }
        let sql = "SELECT clock.trial, clocks FROM clock JOIN trial ON trial.key = clock.trial WHERE campaign = ?1";
        for (trial, text) in
            self.rows(sql, params![key], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?)))?
        {
            if let Some(&index) = index_of.get(&trial) {
                campaign.trials[index].clocks = self.parse(&text, || "the clocks of a trial".to_owned())?;
            }
        }
        Ok(index_of)
    }

    fn load_intervals(
        &self,
        key: i64,
        campaign: &mut Campaign,
        index_of: &HashMap<i64, usize>,
    ) -> Result<(), StoreError> {
        let sql = "SELECT chunk.trial, job, side, intervals FROM chunk JOIN trial ON trial.key = chunk.trial
            WHERE campaign = ?1 ORDER BY chunk.key";
        self.each_blob(sql, key, "intervals", index_of, campaign, |record, bytes| {
            record.intervals.extend(blob::decode_intervals(bytes)?);
            Ok(())
        })
    }

    fn load_flows(&self, key: i64, campaign: &mut Campaign, index_of: &HashMap<i64, usize>) -> Result<(), StoreError> {
        let sql = "SELECT flow.trial, job, side, reports FROM flow JOIN trial ON trial.key = flow.trial
            WHERE campaign = ?1 ORDER BY flow.key";
        self.each_blob(sql, key, "flows", index_of, campaign, |record, bytes| {
            record.flows.extend(blob::decode_flows(bytes)?);
            Ok(())
        })
    }

    fn load_samples(
        &self,
        key: i64,
        campaign: &mut Campaign,
        index_of: &HashMap<i64, usize>,
    ) -> Result<(), StoreError> {
        let sql = "SELECT sample.trial, host, block FROM sample JOIN trial ON trial.key = sample.trial
            WHERE campaign = ?1 ORDER BY sample.key";
        self.visit(sql, params![key], |row| {
            let (trial, host): (i64, String) = (row.get(0)?, row.get(1)?);
            let Some(record) = index_of.get(&trial).map(|&index| &mut campaign.trials[index]) else {
                return Ok(Ok(()));
            };
            let decoded = blob::decode_samples(row.get_ref(2)?.as_blob()?);
            let what = || format!("samples of host {host} in trial {}", record.spec.id.0);
            let decoded = decoded.map_err(|cause| StoreError::blob(&self.path, what(), &cause));
            Ok(decoded.map(|block| record.samples.push((host, block))))
        })
    }

    /// Gives each blob of `sql` (trial, job, side, blob) to `take` together with the job record it belongs to.
    fn each_blob(
        &self,
        sql: &str,
        key: i64,
        what: &str,
        index_of: &HashMap<i64, usize>,
        campaign: &mut Campaign,
        take: impl Fn(&mut JobRecord, &[u8]) -> Result<(), blob::BlobError>,
    ) -> Result<(), StoreError> {
        self.visit(sql, params![key], |row| {
            let (trial, job, side): (i64, u32, String) = (row.get(0)?, row.get(1)?, row.get(2)?);
            let Some(record) = index_of.get(&trial).map(|&index| &mut campaign.trials[index]) else {
                return Ok(Ok(()));
            };
            let number = record.spec.id.0;
            let name = || format!("{what} of trial {number}, job {job}, {side} side");
            let Some((active, passive)) = record.jobs.get_mut(job as usize) else {
                return Ok(Err(StoreError::damaged(&self.path, name(), "the trial has no such job")));
            };
            let record = match side.as_str() {
                "active" => active,
                "passive" => passive,
                _ => return Ok(Err(StoreError::damaged(&self.path, name(), "there is no such side"))),
            };
            let taken = take(record, row.get_ref(3)?.as_blob()?);
            Ok(taken.map_err(|cause| StoreError::blob(&self.path, name(), &cause)))
        })
    }

    /// Trials planned for campaign `key`, with their numbers of jobs.
    pub(crate) fn planned_of(&self, key: i64) -> Result<HashMap<TrialId, u32>, StoreError> {
        let rows = self.rows("SELECT number, spec FROM trial WHERE campaign = ?1", params![key], |row| {
            Ok((row.get::<_, u32>(0)?, row.get::<_, String>(1)?))
        })?;
        let planned = rows.into_iter().map(|(number, spec)| {
            let spec: TrialSpec = self.parse(&spec, || format!("specification of trial {number}"))?;
            Ok((TrialId(number), u32::try_from(spec.jobs.len()).unwrap_or(u32::MAX)))
        });
        planned.collect()
    }

    /// Key, id, header and end of a campaign.
    fn find(&self, which: Which<'_>) -> Result<(i64, String, String, Option<i64>), StoreError> {
        let read = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?));
        let found = match which {
            Which::Latest => self.rows(
                "SELECT key, id, header, ended FROM campaign ORDER BY started DESC, key DESC LIMIT 1",
                params![],
                read,
            )?,
            Which::Id(id) => {
                self.rows("SELECT key, id, header, ended FROM campaign WHERE id = ?1", params![id], read)?
            }
        };
        found.into_iter().next().map_or_else(|| Err(self.no_such(which)?), Ok)
    }

    fn no_such(&self, which: Which<'_>) -> Result<StoreError, StoreError> {
        let known = self.rows("SELECT id FROM campaign ORDER BY started", params![], |row| row.get::<_, String>(0))?;
        let id = match which {
            Which::Latest => "`latest`".to_owned(),
            Which::Id(id) => id.to_owned(),
        };
        let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        Ok(StoreError::NoSuchCampaign { path: self.path.clone(), id, known })
    }

    fn rows<T>(
        &self,
        sql: &str,
        parameters: &[&dyn rusqlite::ToSql],
        read: impl Fn(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Vec<T>, StoreError> {
        let mut rows = Vec::new();
        self.visit(sql, parameters, |row| {
            rows.push(read(row)?);
            Ok(Ok(()))
        })?;
        Ok(rows)
    }

    /// Gives each row to `visit`, which says both whether the row could be read and whether its content makes sense.
    fn visit(
        &self,
        sql: &str,
        parameters: &[&dyn rusqlite::ToSql],
        mut visit: impl FnMut(&Row<'_>) -> rusqlite::Result<Result<(), StoreError>>,
    ) -> Result<(), StoreError> {
        let fail = |error| StoreError::sqlite("read ledger", &self.path, error);
        let mut statement = self.connection.prepare_cached(sql).map_err(fail)?;
        let mut rows = statement.query(parameters).map_err(fail)?;
        while let Some(row) = rows.next().map_err(fail)? {
            visit(row).map_err(fail)??;
        }
        Ok(())
    }

    fn parse<T: DeserializeOwned>(&self, text: &str, what: impl Fn() -> String) -> Result<T, StoreError> {
        serde_json::from_str(text).map_err(|cause| StoreError::damaged(&self.path, what(), cause))
    }
}

fn nanos(bits: i64) -> Nanos {
    Nanos(bits as u64)
}
