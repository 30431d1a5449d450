//! A campaign that is read trial by trial: its intervals, flows and readings are in memory only
//! while somebody works with them.

use std::collections::HashMap;
use std::fmt;
use std::num::NonZero;
use std::rc::Rc;
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};

use linerate_model::{Campaign, Nanos, TrialId, TrialOutcome, TrialRecord};
use rusqlite::Transaction;

use crate::blob::{BlobError, KnownSeries};
use crate::budget::Budget;
use crate::load::{Fold, Loaded, Outline, damaged, lost};
use crate::seal::Seal;
use crate::{Ledger, Result, StoreError, codec, schema};

/// More threads would wait for the one that reads the file.
const MOST_THREADS: usize = 8;
/// Trials that are read together where nobody asks for groups.
const GROUP: usize = 32;

/// A campaign in a ledger, as it is at one instant. A writer of the ledger may have to wait for its
/// end where there is no write-ahead log.
pub struct Recording<'a> {
    /// The campaign. The records of its trials lack intervals, flows and readings until
    /// [`Recording::each`] reads them.
    pub campaign: Campaign,
    pub(crate) number: i64,
    ledger: &'a Ledger,
    _snapshot: Rc<Transaction<'a>>,
    /// Places of the records of each trial that are not decoded.
    bulk: HashMap<TrialId, Vec<i64>>,
    /// Trials that have lost a record, with what was lost.
    condemned: HashMap<TrialId, Vec<String>>,
    /// Each damage to it.
    pub(crate) damage: Vec<String>,
}

/// A trial on its way from the file.
struct Stored {
    record: TrialRecord,
    /// What was lost of it.
    causes: Vec<String>,
    /// Records that are not decoded: place, kind and body.
    bodies: Vec<(i64, String, Vec<u8>)>,
}

/// Groups of trials by their number, for the threads that decode them.
type Queue = Arc<Mutex<Receiver<(usize, Vec<Stored>)>>>;

/// A record that cannot be decoded: its place, its trial, and what it costs.
type Lost = (i64, TrialId, String);

impl<'a> Recording<'a> {
    pub(crate) fn new(
        ledger: &'a Ledger,
        snapshot: &Rc<Transaction<'a>>,
        number: i64,
        Outline { campaign, bulk }: Outline,
        fold: &Fold<'_>,
    ) -> Self {
        let ours = |of: &Option<i64>| of.is_none_or(|of| of == number);
        let damage = fold.damage.iter().filter(|(of, _)| ours(of));
        let condemned: HashMap<TrialId, Vec<String>> = fold
            .condemned
            .iter()
            .filter(|((of, _), _)| *of == number)
            .map(|((_, trial), causes)| (*trial, causes.clone()))
            .collect();
        let mut campaign = campaign.finish();
        for trial in &mut campaign.trials {
            if let Some(causes) = condemned.get(&trial.spec.id) {
                *trial = failed(trial, causes);
            }
        }
        Self {
            campaign,
            number,
            ledger,
            _snapshot: Rc::clone(snapshot),
            bulk,
            condemned,
            damage: damage.map(|(_, message)| message.clone()).collect(),
        }
    }

    /// What campaigns are sorted by, the oldest first. Two may start in the same nanosecond of a
    /// coarse clock, so the number decides.
    pub(crate) fn age(&self) -> (Nanos, i64) {
        (self.campaign.header.started, self.number)
    }

    /// True if its trials are whole already: ledgers of earlier schemas are not read one by one.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.ledger.version < schema::VERSION
    }

    /// Reads the rest of the trials at `groups` of places, and returns what `work` makes of each
    /// group, in their order. All CPUs work. Only groups that are worked on are whole in memory,
    /// unless `work` leaves them so. A trial with a damaged record is failed, without its data, and
    /// an incident says which record.
    ///
    /// # Errors
    /// If the file cannot be read, or asks for more memory than one of its size may. The trials of
    /// the campaign are lost then.
    pub fn each<T: Send>(
        &mut self,
        groups: &[Vec<usize>],
        work: impl Fn(&mut [TrialRecord]) -> T + Sync,
    ) -> Result<Vec<T>> {
        let ledger = self.ledger;
        ledger.refill();
        let n_threads =
            std::thread::available_parallelism().map_or(1, NonZero::get).min(MOST_THREADS);
        let (give, take) = sync_channel(n_threads);
        let take: Queue = Arc::new(Mutex::new(take));
        let trials = std::mem::take(&mut self.campaign.trials);
        let mut trials: Vec<Option<TrialRecord>> = trials.into_iter().map(Some).collect();
        let (read, worked) = std::thread::scope(|scope| {
            let workers = (0..n_threads).map(|_| {
                let (queue, work, budget) = (Arc::clone(&take), &work, &ledger.budget);
                scope.spawn(move || decode_and_work(&queue, work, budget))
            });
            let workers: Vec<_> = workers.collect();
            // If every worker has gone, nobody waits for one.
            drop(take);
            let read = groups.iter().enumerate().try_for_each(|(group, places)| {
                let records = places.iter().filter_map(|&place| trials[place].take());
                let stored = records.map(|record| self.stored(record));
                // A worker that has gone says why below.
                let _taken = give.send((group, stored.collect::<rusqlite::Result<_>>()?));
                Ok(())
            });
            drop(give);
            let worked = workers.into_iter().map(|worker| {
                worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            });
            (read, worked.collect::<Result<Vec<_>, BlobError>>())
        });
        read.map_err(|error| StoreError::sqlite("read ledger", &ledger.path, error))?;
        let worked = worked.map_err(|cause| StoreError::blob(&ledger.path, "a record", &cause))?;
        let (done, lost): (Vec<_>, Vec<_>) = worked.into_iter().unzip();
        let mut lost: Vec<Lost> = lost.into_iter().flatten().collect();
        lost.sort();
        for (_, trial, message) in lost {
            self.condemned.entry(trial).or_default().push(message.clone());
            self.damage.push(message);
        }
        let mut done: Vec<_> = done.into_iter().flatten().collect();
        done.sort_by_key(|(group, ..)| *group);
        let mut made = Vec::with_capacity(done.len());
        for (group, one, records) in done {
            made.push(one);
            for (&place, record) in groups[group].iter().zip(records) {
                trials[place] = Some(record);
            }
        }
        self.campaign.trials = trials.into_iter().flatten().collect();
        Ok(made)
    }

    /// Reads the rest of those trials that are wanted.
    ///
    /// # Errors
    /// As [`Recording::each`].
    pub fn fill(&mut self, is_wanted: impl Fn(&TrialRecord) -> bool) -> Result<()> {
        let trials = self.campaign.trials.iter().enumerate();
        let places: Vec<usize> =
            trials.filter(|(_, trial)| is_wanted(trial)).map(|(place, _)| place).collect();
        let groups: Vec<Vec<usize>> = places.chunks(GROUP).map(<[usize]>::to_vec).collect();
        self.each(&groups, |_| ()).map(|_| ())
    }

    /// Reads the rest of every trial, so that damage in it is found, and keeps it of those that are
    /// wanted.
    ///
    /// # Errors
    /// As [`Recording::each`].
    pub fn survey(&mut self, is_wanted: impl Fn(&TrialRecord) -> bool + Sync) -> Result<()> {
        let groups: Vec<Vec<usize>> =
            (0..self.campaign.trials.len()).map(|place| vec![place]).collect();
        let known = self.each(&groups, |trials| {
            let others = trials.iter_mut().filter(|trial| !is_wanted(trial));
            others.for_each(TrialRecord::forget);
        });
        known.map(|_| ())
    }

    /// The whole campaign, and what damage costs of it.
    ///
    /// # Errors
    /// As [`Recording::each`].
    pub fn whole(mut self) -> Result<Loaded> {
        self.fill(|_| true)?;
        Ok(self.finish())
    }

    /// Reads the records of the trial of `record` that are not decoded.
    fn stored(&self, mut record: TrialRecord) -> rusqlite::Result<Stored> {
        let causes = self.condemned.get(&record.spec.id).cloned().unwrap_or_default();
        let Some(places) = self.bulk.get(&record.spec.id) else {
            return Ok(Stored { record, causes, bodies: Vec::new() });
        };
        // It may have been read before.
        record.forget();
        record.samples.clear();
        let connection = &self.ledger.connection;
        let mut read =
            connection.prepare_cached("SELECT kind, body FROM record WHERE sequence = ?1")?;
        let bodies = places
            .iter()
            .map(|place| read.query_row([place], |row| Ok((*place, row.get(0)?, row.get(1)?))));
        Ok(Stored { record, causes, bodies: bodies.collect::<rusqlite::Result<_>>()? })
    }

    /// The campaign as it is now, and what damage costs of it, as far as its records were read.
    #[must_use]
    pub fn finish(mut self) -> Loaded {
        if !self.damage.is_empty() {
            self.campaign.incidents.push(damaged(&self.damage.join("; ")));
        } else if self.ledger.seal == Seal::Broken {
            // Damage that was found already explains a broken seal. Only an otherwise whole file
            // needs the hint.
            let message =
                "the file was changed after it was closed; every record of this campaign is intact"
                    .to_owned();
            self.campaign.incidents.push(damaged(&message));
            self.damage.push(message);
        }
        Loaded { campaign: self.campaign, damage: self.damage }
    }
}

impl fmt::Debug for Recording<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recording").field("campaign", &self.campaign.header.id).finish()
    }
}

/// A group of trials by its number, what was made of it, and its records.
type Done<T> = (usize, T, Vec<TrialRecord>);

/// Decodes groups from `queue` and works on them until there are no more.
fn decode_and_work<T>(
    queue: &Queue,
    work: impl Fn(&mut [TrialRecord]) -> T,
    budget: &Budget,
) -> Result<(Vec<Done<T>>, Vec<Lost>), BlobError> {
    let (mut known, mut lost, mut done) = (KnownSeries::default(), Vec::new(), Vec::new());
    while let Some((group, stored)) = next(queue) {
        let records = stored.into_iter().map(|one| one.decoded(&mut known, &mut lost, budget));
        let mut records = records.collect::<Result<Vec<_>, _>>()?;
        done.push((group, work(&mut records), records));
    }
    Ok((done, lost))
}

/// Waits for the next group; `None` if there are no more.
fn next<T>(queue: &Mutex<Receiver<T>>) -> Option<T> {
    queue.lock().unwrap_or_else(PoisonError::into_inner).recv().ok()
}

impl Stored {
    /// Decodes its bodies into its record. One that cannot be decoded costs the trial its data, and
    /// is added to `all_lost`.
    fn decoded(
        self,
        known: &mut KnownSeries,
        all_lost: &mut Vec<Lost>,
        budget: &Budget,
    ) -> Result<TrialRecord, BlobError> {
        let Self { mut record, mut causes, bodies } = self;
        let trial = record.spec.id;
        for (place, kind, body) in bodies {
            match codec::decode(&kind, Some(trial), &body, budget, known) {
                Ok(event) => record.take(event),
                // More memory than allowed is no damage to one record.
                Err(cause @ BlobError::TooMuch { .. }) => return Err(cause),
                Err(cause) => {
                    let why = format!("cannot be read: {cause}");
                    causes.push(lost(place, &kind, Some(trial), &why));
                    all_lost.push((place, trial, causes[causes.len() - 1].clone()));
                }
            }
        }
        Ok(if causes.is_empty() { record } else { failed(&record, &causes) })
    }
}

/// Returns the record of a trial that has lost a part: without its data, and to be run again.
fn failed(record: &TrialRecord, causes: &[String]) -> TrialRecord {
    TrialRecord {
        started: record.started,
        outcome: Some(TrialOutcome::Failed),
        incidents: vec![damaged(&format!("{} (run it again with --resume)", causes.join("; ")))],
        ..TrialRecord::new(record.spec.clone())
    }
}
