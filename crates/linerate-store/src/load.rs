//! Reading campaigns back: records are folded as the events they are, and what damage costs is said
//! by name.
//!
//! The records are walked once: every digest is checked, and all but intervals, flows and readings
//! is decoded. Those are most of a ledger. They are read again, trial by trial, when somebody asks
//! for them ([`Recording`]).

use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

use linerate_model::{
    Campaign, CampaignFold, Event, Incident, IncidentKind, Nanos, TestbedKind, TrialId,
    TrialOutcome, TrialRecord, TrialSpec,
};

use crate::blob::{BlobError, KnownSeries};
use crate::chain::{self, Label, Link};
use crate::recording::Recording;
use crate::{Ledger, Result, StoreError, Which, codec, legacy, schema};

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
    /// Kind of path.
    pub testbed: TestbedKind,
    /// Trials planned.
    pub n_trials: u64,
    /// Trials completed.
    pub n_completed: u64,
}

/// A campaign, and what damage to the file costs of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Loaded {
    /// The campaign. A trial with a damaged record is failed, without its data, and an incident
    /// says which record; damage outside of any trial is an incident of the campaign.
    pub campaign: Campaign,
    /// Each damage, and what it costs.
    pub damage: Vec<String>,
}

impl Ledger {
    /// Every campaign, the oldest first.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn campaigns(&self) -> Result<Vec<CampaignSummary>> {
        let mut summaries: Vec<_> = self
            .outlines()?
            .iter()
            .map(|(number, campaign)| (*number, summary(campaign)))
            .collect();
        summaries.sort_by_key(|(number, summary)| (summary.started, *number));
        Ok(summaries.into_iter().map(|(_, summary)| summary).collect())
    }

    /// The whole record of one campaign.
    ///
    /// # Errors
    /// If there is no such campaign, the file cannot be read, or what a campaign cannot do without
    /// is damaged.
    pub fn load(&self, which: Which<'_>) -> Result<Campaign> {
        self.load_with_damage(which).map(|loaded| loaded.campaign)
    }

    /// The same, with what damage to the file costs.
    ///
    /// # Errors
    /// As [`Ledger::load`].
    pub fn load_with_damage(&self, which: Which<'_>) -> Result<Loaded> {
        self.recording(which)?.whole()
    }

    /// The record of one campaign, to be read trial by trial.
    ///
    /// # Errors
    /// As [`Ledger::load`].
    pub fn recording(&self, which: Which<'_>) -> Result<Recording<'_>> {
        let (recordings, fold) = self.recordings()?;
        let ids: Vec<String> =
            recordings.iter().map(|one| one.campaign.header.id.clone()).collect();
        let found = newest(recordings, |one| match which {
            Which::Latest => true,
            Which::Id(id) => one.campaign.header.id == id,
        });
        match found {
            Some(found) => self.filled_if_legacy(found),
            None => Err(self.no_such(which, &ids, &fold)),
        }
    }

    /// The newest campaign that `is_wanted`, to be read trial by trial.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn newest(&self, is_wanted: impl Fn(&Campaign) -> bool) -> Result<Option<Recording<'_>>> {
        let found = newest(self.recordings()?.0, |one| is_wanted(&one.campaign));
        found.map(|found| self.filled_if_legacy(found)).transpose()
    }

    /// The record of every campaign in the order of their numbers, and what else was found.
    pub(crate) fn recordings(&self) -> Result<(Vec<Recording<'_>>, Fold<'_>)> {
        // One transaction, so that a campaign being recorded is seen at one instant.
        let snapshot = self.connection.unchecked_transaction();
        let fail = |error| StoreError::sqlite("read ledger", &self.path, error);
        let snapshot = Rc::new(snapshot.map_err(fail)?);
        let mut fold = self.fold()?;
        let outlines = std::mem::take(&mut fold.campaigns).into_iter();
        let recordings = outlines
            .map(|(number, outline)| Recording::new(self, &snapshot, number, outline, &fold));
        Ok((recordings.collect(), fold))
    }

    /// Earlier schemas have no records that could be read one by one.
    pub(crate) fn filled_if_legacy<'a>(&self, mut found: Recording<'a>) -> Result<Recording<'a>> {
        if self.version < schema::VERSION {
            self.refill();
            found.campaign = legacy::load(self, found.number)?;
        }
        Ok(found)
    }

    /// Every campaign by its number, without intervals, flows and readings.
    pub(crate) fn outlines(&self) -> Result<BTreeMap<i64, Campaign>> {
        let outlines = self.fold()?.campaigns.into_iter();
        Ok(outlines.map(|(number, outline)| (number, outline.campaign.finish())).collect())
    }

    pub(crate) fn fold(&self) -> Result<Fold<'_>> {
        self.refill();
        let mut fold = Fold::new(self);
        if self.version < schema::VERSION {
            let outlines = legacy::outlines(self)?.into_iter();
            fold.campaigns = outlines.map(|(number, one)| (number, Outline::of(one))).collect();
            return Ok(fold);
        }
        let walked = chain::walk(&self.connection, self.pace, |link| fold.visit(link));
        walked.map_err(|error| StoreError::sqlite("read ledger", &self.path, error))??;
        Ok(fold)
    }

    fn no_such(&self, which: Which<'_>, known: &[String], fold: &Fold<'_>) -> StoreError {
        // "No such campaign" would be wrong if its beginning is lost.
        if let (true, Some(first)) = (known.is_empty(), fold.damage.first()) {
            return StoreError::damaged(&self.path, "the first campaign", &first.1);
        }
        let id = match which {
            Which::Latest => "`latest`".to_owned(),
            Which::Id(id) => id.to_owned(),
        };
        let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        StoreError::NoSuchCampaign { path: self.path.clone(), id, known }
    }
}

/// Returns the newest of `recordings` that `is_wanted`.
fn newest<'a>(
    recordings: Vec<Recording<'a>>,
    is_wanted: impl Fn(&Recording<'a>) -> bool,
) -> Option<Recording<'a>> {
    recordings.into_iter().filter(is_wanted).max_by_key(Recording::age)
}

/// Returns the summary of `campaign`.
pub(crate) fn summary(campaign: &Campaign) -> CampaignSummary {
    let is_complete = |trial: &&TrialRecord| trial.outcome == Some(TrialOutcome::Completed);
    CampaignSummary {
        id: campaign.header.id.clone(),
        name: campaign.header.name.clone(),
        started: campaign.header.started,
        ended: campaign.ended,
        testbed: campaign.header.testbed,
        n_trials: campaign.trials.len() as u64,
        n_completed: campaign.trials.iter().filter(is_complete).count() as u64,
    }
}

/// A campaign without intervals, flows and readings, and where those are.
pub(crate) struct Outline {
    pub(crate) campaign: CampaignFold,
    /// Places of the records of each trial that are not decoded, in their order.
    pub(crate) bulk: HashMap<TrialId, Vec<i64>>,
}

impl Outline {
    fn of(campaign: Campaign) -> Self {
        Self { campaign: CampaignFold::of(campaign), bulk: HashMap::new() }
    }

    fn take(&mut self, event: Event) {
        match &event {
            // What is left of an aborted attempt must not be added to the new one.
            Event::TrialStarted { trial, .. } => {
                self.bulk.remove(trial);
            }
            // A trial that is planned again with another specification has no record.
            Event::Planned { trials } => {
                let mut bulk = std::mem::take(&mut self.bulk);
                let known = |spec: &TrialSpec| self.campaign.trial(spec.id).map(|one| &one.spec);
                let kept = trials.iter().filter(|spec| known(spec) == Some(*spec));
                self.bulk = kept.filter_map(|spec| bulk.remove_entry(&spec.id)).collect();
            }
            _ => {}
        }
        self.campaign.take(event);
    }
}

/// Records as they add up.
pub(crate) struct Fold<'a> {
    ledger: &'a Ledger,
    pub(crate) campaigns: BTreeMap<i64, Outline>,
    /// Trials that have lost a record, with what was lost.
    pub(crate) condemned: BTreeMap<(i64, TrialId), Vec<String>>,
    /// Each damage found, with the campaign it is in, if that is known.
    pub(crate) damage: Vec<(Option<i64>, String)>,
    pub(crate) n_records: u64,
    /// Campaign and trial of the record before.
    last: Option<(i64, Option<TrialId>)>,
    /// Something of unknown place was lost just before: the next record's trial may have lost it.
    unsettled: bool,
}

impl<'a> Fold<'a> {
    fn new(ledger: &'a Ledger) -> Self {
        Self {
            ledger,
            campaigns: BTreeMap::new(),
            condemned: BTreeMap::new(),
            damage: Vec::new(),
            n_records: 0,
            last: None,
            unsettled: false,
        }
    }

    fn visit(&mut self, link: Link<'_>) -> Result<()> {
        match link {
            Link::Whole(label, body) => return self.take(&label, body),
            Link::Damaged(_, Some(label)) => {
                self.lose(&label, "is damaged");
                // The next damage without a label can only be ascribed through its neighbours.
                self.last = Some((label.campaign, label.trial));
            }
            Link::Damaged(sequence, None) => {
                self.lose_unlabelled(format!("record {sequence} is damaged"))
            }
            Link::Missing(first, last) if first == last => {
                self.lose_unlabelled(format!("record {first} is missing"))
            }
            Link::Missing(first, last) => {
                self.lose_unlabelled(format!("records {first} to {last} are missing"))
            }
            Link::WrongEnd => {
                self.lose_unlabelled("the mark of the last record is damaged".to_owned())
            }
        }
        Ok(())
    }

    /// A record whose label is known is lost.
    fn lose(&mut self, label: &Label, why: &str) {
        let message = lost(label.sequence, &label.kind, label.trial, why);
        if let Some(trial) = label.trial {
            self.condemned.entry((label.campaign, trial)).or_default().push(message.clone());
        }
        self.damage.push((Some(label.campaign), message));
    }

    /// Something is lost, and what it was is not known: the trials before and after it may be
    /// without it.
    fn lose_unlabelled(&mut self, message: String) {
        // The lost record may have belonged to either neighbour, so neither is trusted.
        if let Some((campaign, Some(trial))) = self.last {
            self.condemned.entry((campaign, trial)).or_default().push(message.clone());
        }
        self.unsettled = true;
        self.damage.push((None, message));
    }

    fn take(&mut self, label: &Label, body: &[u8]) -> Result<()> {
        self.n_records += 1;
        if std::mem::take(&mut self.unsettled)
            && let Some(trial) = label.trial
        {
            let message =
                format!("what came before record {} is damaged or missing", label.sequence);
            self.condemned.entry((label.campaign, trial)).or_default().push(message);
        }
        self.last = Some((label.campaign, label.trial));
        if let (true, Some(trial)) = (codec::is_bulk(&label.kind), label.trial) {
            let outline = self.campaigns.get_mut(&label.campaign);
            // What belongs to a trial that was never planned is ignored.
            if let Some(outline) = outline.filter(|one| one.campaign.trial(trial).is_some()) {
                outline.bulk.entry(trial).or_default().push(label.sequence);
            }
            return Ok(());
        }
        let (budget, mut known) = (&self.ledger.budget, KnownSeries::default());
        match codec::decode(&label.kind, label.trial, body, budget, &mut known) {
            Ok(event) => self.apply(label.campaign, event),
            // More memory than allowed is no damage to one record: going on would try the next
            // one as well.
            Err(cause @ BlobError::TooMuch { .. }) => {
                return Err(StoreError::blob(&self.ledger.path, "a record", &cause));
            }
            Err(cause) => self.lose(label, &format!("cannot be read: {cause}")),
        }
        Ok(())
    }

    fn apply(&mut self, number: i64, event: Event) {
        if let Event::TrialStarted { trial, .. } = &event {
            // It is run anew: what was lost of it before does not count.
            self.condemned.remove(&(number, *trial));
        }
        match (self.campaigns.get_mut(&number), event) {
            (Some(outline), event) => outline.take(event),
            (None, Event::CampaignStarted(header)) => {
                self.campaigns.insert(number, Outline::of(Campaign::new(*header)));
            }
            // Its beginning is damaged, and was named.
            (None, _) => {}
        }
    }
}

/// Returns what the loss of the record at `sequence` costs.
pub(crate) fn lost(sequence: i64, kind: &str, trial: Option<TrialId>, why: &str) -> String {
    let record = format!("record {sequence} ({}) {why}", kind.replace('_', " "));
    match trial {
        Some(trial) => format!("{record}: trial {} is left out", trial.0),
        None => record,
    }
}

/// Returns the incident that the ledger is damaged.
pub(crate) fn damaged(what: &str) -> Incident {
    let message = format!("the ledger is damaged: {what}");
    Incident { host: String::new(), kind: IncidentKind::Failed, message }
}
