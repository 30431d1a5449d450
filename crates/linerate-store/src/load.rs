//! Reading campaigns back: records are folded as the events they are, and what damage costs is said
//! by name.

use std::collections::BTreeMap;
use std::num::NonZero;

use linerate_model::{
    Campaign, CampaignFold, Event, Incident, IncidentKind, Nanos, TestbedKind, TrialId,
    TrialOutcome, TrialRecord,
};

use crate::blob::{BlobError, KnownSeries};
use crate::budget::Budget;
use crate::chain::{self, Label, Link};
use crate::seal::Seal;
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

/// How much of the records is decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Depth {
    /// The beginning of every campaign.
    Beginnings,
    /// All but intervals, flows and readings, of every campaign.
    Outline,
    /// Everything of one campaign.
    Whole(i64),
}

impl Ledger {
    /// Every campaign, the oldest first.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn campaigns(&self) -> Result<Vec<CampaignSummary>> {
        let mut summaries: Vec<_> = self.outlines()?.into_iter().map(summary).collect();
        summaries.sort_by_key(|(started, number, _)| (*started, *number));
        Ok(summaries.into_iter().map(|(_, _, summary)| summary).collect())
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
        // One transaction, so that a campaign being recorded is seen at one instant.
        let snapshot = self
            .connection
            .unchecked_transaction()
            .map_err(|e| StoreError::sqlite("read ledger", &self.path, e))?;
        let (outlines, outline_damage) = self.read_outlines(Depth::Beginnings)?;
        let found = match which {
            Which::Latest => {
                // Two campaigns may start in the same nanosecond of a coarse clock, so the number
                // decides.
                outlines.iter().max_by_key(|(number, campaign)| (campaign.header.started, **number))
            }
            Which::Id(id) => outlines.iter().find(|(_, campaign)| campaign.header.id == id),
        };
        let Some((&number, _)) = found else {
            return Err(self.no_such(which, &outlines, &outline_damage));
        };
        drop(outlines);
        self.refill();
        if self.version < schema::VERSION {
            return Ok(Loaded { campaign: legacy::load(self, number)?, damage: Vec::new() });
        }
        let mut fold = self.fold(Depth::Whole(number))?;
        drop(snapshot);
        let mut loaded = fold.charged(number).expect("the first reading found it");
        // Damage that was found already explains a broken seal. Only an otherwise whole file needs
        // the hint.
        if self.seal == Seal::Broken && loaded.damage.is_empty() {
            let message =
                "the file was changed after it was closed; every record of this campaign is intact"
                    .to_owned();
            loaded.campaign.incidents.push(damaged(&message));
            loaded.damage.push(message);
        }
        Ok(loaded)
    }

    /// Every campaign by its number, without intervals, flows and readings.
    pub(crate) fn outlines(&self) -> Result<BTreeMap<i64, Campaign>> {
        self.read_outlines(Depth::Outline).map(|(outlines, _)| outlines)
    }

    fn read_outlines(&self, depth: Depth) -> Result<(BTreeMap<i64, Campaign>, Vec<String>)> {
        self.refill();
        if self.version < schema::VERSION {
            return legacy::outlines(self).map(|outlines| (outlines, Vec::new()));
        }
        let fold = self.fold(depth)?;
        let campaigns =
            fold.campaigns.into_iter().map(|(number, campaign)| (number, campaign.finish()));
        Ok((campaigns.collect(), fold.damage.into_iter().map(|(_, message)| message).collect()))
    }

    pub(crate) fn fold(&self, depth: Depth) -> Result<Fold<'_>> {
        let mut fold = Fold::new(self, depth);
        let walked = chain::walk(&self.connection, self.pace, |link| fold.visit(link));
        walked.map_err(|error| StoreError::sqlite("read ledger", &self.path, error))??;
        fold.settle()?;
        Ok(fold)
    }

    fn no_such(
        &self,
        which: Which<'_>,
        known: &BTreeMap<i64, Campaign>,
        damage: &[String],
    ) -> StoreError {
        // "No such campaign" would be wrong if its beginning is lost.
        if let (true, Some(first)) = (known.is_empty(), damage.first()) {
            return StoreError::damaged(&self.path, "the first campaign", first);
        }
        let id = match which {
            Which::Latest => "`latest`".to_owned(),
            Which::Id(id) => id.to_owned(),
        };
        let ids: Vec<&str> = known.values().map(|campaign| campaign.header.id.as_str()).collect();
        let known = if ids.is_empty() { "none".to_owned() } else { ids.join(", ") };
        StoreError::NoSuchCampaign { path: self.path.clone(), id, known }
    }
}

/// Returns the summary of the campaign with this number, in front of it what lists are sorted by.
fn summary((number, campaign): (i64, Campaign)) -> (Nanos, i64, CampaignSummary) {
    let is_complete = |trial: &&TrialRecord| trial.outcome == Some(TrialOutcome::Completed);
    let summary = CampaignSummary {
        id: campaign.header.id,
        name: campaign.header.name,
        started: campaign.header.started,
        ended: campaign.ended,
        testbed: campaign.header.testbed,
        n_trials: campaign.trials.len() as u64,
        n_completed: campaign.trials.iter().filter(is_complete).count() as u64,
    };
    (summary.started, number, summary)
}

/// Records as they add up.
pub(crate) struct Fold<'a> {
    ledger: &'a Ledger,
    depth: Depth,
    campaigns: BTreeMap<i64, CampaignFold>,
    /// Trials that have lost a record, with what was lost.
    pub(crate) condemned: BTreeMap<(i64, TrialId), Vec<String>>,
    /// Each damage found, with the campaign it is in, if that is known.
    pub(crate) damage: Vec<(Option<i64>, String)>,
    pub(crate) n_records: u64,
    /// Records that wait to be decoded.
    waiting: Vec<(Label, Vec<u8>)>,
    /// Bytes of their bodies.
    waiting_bytes: usize,
    /// What each decoding thread knows from before.
    known: Vec<KnownSeries>,
    /// Campaign and trial of the record before.
    last: Option<(i64, Option<TrialId>)>,
    /// Something of unknown place was lost just before: the next record's trial may have lost it.
    unsettled: bool,
}

impl<'a> Fold<'a> {
    fn new(ledger: &'a Ledger, depth: Depth) -> Self {
        Self {
            ledger,
            depth,
            campaigns: BTreeMap::new(),
            condemned: BTreeMap::new(),
            damage: Vec::new(),
            n_records: 0,
            waiting: Vec::new(),
            waiting_bytes: 0,
            known: std::iter::repeat_with(KnownSeries::default).take(n_threads()).collect(),
            last: None,
            unsettled: false,
        }
    }

    fn visit(&mut self, link: Link<'_>) -> Result<()> {
        if let Link::Whole(label, body) = link {
            return self.take(label, body);
        }
        // What damage means depends on the records before it.
        self.settle()?;
        match link {
            Link::Whole(..) => {}
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
        let mut message =
            format!("record {} ({}) {why}", label.sequence, label.kind.replace('_', " "));
        if let Some(trial) = label.trial {
            message = format!("{message}: trial {} is left out", trial.0);
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

    fn take(&mut self, label: Label, body: &[u8]) -> Result<()> {
        self.n_records += 1;
        if std::mem::take(&mut self.unsettled)
            && let Some(trial) = label.trial
        {
            let message =
                format!("what came before record {} is damaged or missing", label.sequence);
            self.condemned.entry((label.campaign, trial)).or_default().push(message);
        }
        self.last = Some((label.campaign, label.trial));
        let is_bulk =
            matches!(label.kind.as_str(), codec::INTERVALS | codec::FLOWS | codec::SAMPLES);
        let is_wanted = match self.depth {
            Depth::Beginnings => label.kind == codec::CAMPAIGN,
            Depth::Outline => !is_bulk,
            Depth::Whole(wanted) => label.campaign == wanted,
        };
        if !is_wanted {
            return Ok(());
        }
        self.waiting.push((label, body.to_vec()));
        self.waiting_bytes += body.len();
        let is_full = self.waiting.len() >= BATCH || self.waiting_bytes >= BATCH_BYTES;
        if is_full { self.settle() } else { Ok(()) }
    }

    /// Takes in the records that wait: they are decoded on all CPUs and applied in their order.
    fn settle(&mut self) -> Result<()> {
        let waiting = std::mem::take(&mut self.waiting);
        self.waiting_bytes = 0;
        let decoded = decode(&waiting, &self.ledger.budget, &mut self.known);
        for ((label, _), decoded) in waiting.iter().zip(decoded) {
            match decoded {
                Ok(event) => self.apply(label.campaign, event),
                // More memory than allowed is no damage to one record: going on would try the next
                // one as well.
                Err(cause @ BlobError::TooMuch { .. }) => {
                    return Err(StoreError::blob(&self.ledger.path, "a record", &cause));
                }
                Err(cause) => self.lose(label, &format!("cannot be read: {cause}")),
            }
        }
        Ok(())
    }

    fn apply(&mut self, number: i64, event: Event) {
        if let Event::TrialStarted { trial, .. } = &event {
            // It is run anew: what was lost of it before does not count.
            self.condemned.remove(&(number, *trial));
        }
        match (self.campaigns.get_mut(&number), event) {
            (Some(campaign), event) => campaign.take(event),
            (None, Event::CampaignStarted(header)) => {
                self.campaigns.insert(number, CampaignFold::new(*header));
            }
            // Its beginning is damaged, and was named.
            (None, _) => {}
        }
    }

    /// The campaign `number`, taken out, without the trials that damage costs it, and with the
    /// damage as incidents.
    pub(crate) fn charged(&mut self, number: i64) -> Option<Loaded> {
        let mut campaign = self.campaigns.remove(&number)?.finish();
        for trial in &mut campaign.trials {
            let Some(causes) = self.condemned.get(&(number, trial.spec.id)) else { continue };
            *trial = TrialRecord {
                started: trial.started,
                outcome: Some(TrialOutcome::Failed),
                incidents: vec![damaged(&format!(
                    "{} (run it again with --resume)",
                    causes.join("; ")
                ))],
                ..TrialRecord::new(trial.spec.clone())
            };
        }
        let is_ours = |(of, _): &&(Option<i64>, String)| of.is_none_or(|of| of == number);
        let damage: Vec<String> =
            self.damage.iter().filter(is_ours).map(|(_, message)| message.clone()).collect();
        if !damage.is_empty() {
            campaign.incidents.push(damaged(&damage.join("; ")));
        }
        Some(Loaded { campaign, damage })
    }
}

/// Records that are decoded together, and bytes of their bodies.
const BATCH: usize = 512;
const BATCH_BYTES: usize = 16 << 20;
/// Fewer records are not worth a thread.
const LEAST_SHARE: usize = 32;
/// More threads would wait for the one that reads the file and checks its digests.
const MOST_THREADS: usize = 8;

fn n_threads() -> usize {
    std::thread::available_parallelism().map_or(1, NonZero::get).min(MOST_THREADS)
}

/// Decodes `records`, one share on each thread that `known` has an entry for.
fn decode(
    records: &[(Label, Vec<u8>)],
    budget: &Budget,
    known: &mut [KnownSeries],
) -> Vec<Result<Event, BlobError>> {
    let share = records.len().div_ceil(known.len()).max(LEAST_SHARE);
    let mut shares = records.chunks(share).zip(known);
    let own = shares.next();
    std::thread::scope(|scope| {
        let others: Vec<_> = shares
            .map(|(records, known)| scope.spawn(|| decode_all(records, budget, known)))
            .collect();
        let mut decoded =
            own.map_or_else(Vec::new, |(records, known)| decode_all(records, budget, known));
        for other in others {
            decoded.extend(other.join().expect("decoding does not panic"));
        }
        decoded
    })
}

fn decode_all(
    records: &[(Label, Vec<u8>)],
    budget: &Budget,
    known: &mut KnownSeries,
) -> Vec<Result<Event, BlobError>> {
    let decoded = records
        .iter()
        .map(|(label, body)| codec::decode(&label.kind, label.trial, body, budget, known));
    decoded.collect()
}

fn damaged(what: &str) -> Incident {
    let message = format!("the ledger is damaged: {what}");
    Incident { host: String::new(), kind: IncidentKind::Failed, message }
}
