//! The campaigns of the folder, judged, and kept up to date by one thread.
//!
//! It is the only reader: a process that closes one of two open handles of a file gives up the
//! locks of both (POSIX), and a writer could then change the file under the other.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};

use linerate_analysis::{Study, study};
use linerate_model::{Campaign, CampaignHeader};
use linerate_report::document::Lead;
use linerate_store::{Ledger, StoreError, Which};
use tokio::sync::watch;

use crate::folder::{self, Found, Stamp};
use crate::live;

/// Time between two searches of the folder.
const SEARCH_EVERY: Duration = Duration::from_secs(1);
/// Shortest time between two readings of a ledger that is being recorded.
const READ_EVERY: Duration = Duration::from_secs(5);
/// The same as a multiple of the time that a reading takes: a reader that is there when the writer
/// leaves keeps it from closing the ledger as one file.
const READ_SHARE: u32 = 100;
/// Lowest priority of the scheduler.
const LOWEST: i32 = 19;
/// Most campaigns of one ledger that are judged; the newest count.
const MOST_IN_LEDGER: usize = 200;

/// A campaign of the list.
#[derive(Clone, Debug)]
pub(crate) struct Listed {
    /// Name of its ledger within the folder.
    pub(crate) ledger: String,
    /// Identity.
    pub(crate) header: CampaignHeader,
    /// Hosts that took part.
    pub(crate) hosts: Vec<String>,
    /// State.
    pub(crate) state: State,
    /// Trials planned, and trials completed.
    pub(crate) trials: [u64; 2],
    /// Headline figure and verdict; `None` if nothing was measured yet.
    pub(crate) lead: Option<Lead>,
    /// Damage of its ledger.
    pub(crate) damage: Vec<String>,
}

/// State of a campaign.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// It is recorded at this moment.
    Running,
    /// It ended.
    Ended,
    /// It did not end, and nobody records it.
    Interrupted,
}

/// A ledger of the list.
#[derive(Debug)]
struct Entry {
    stamp: Stamp,
    /// When it was read, and how long that took.
    read: (Instant, Duration),
    /// Campaigns, or why they cannot be read.
    campaigns: Result<Vec<Arc<Listed>>, String>,
}

/// Everything that is known of the folder.
#[derive(Clone, Debug, Default)]
pub(crate) struct Listing {
    /// Campaigns, the newest first.
    pub(crate) campaigns: Vec<Arc<Listed>>,
    /// Ledgers that cannot be read, with the cause.
    pub(crate) unreadable: Vec<(String, String)>,
    /// Ledgers that were not read yet.
    pub(crate) n_waiting: usize,
    /// False before the folder was searched once.
    pub(crate) is_searched: bool,
    /// Cause for which the folder could not be searched.
    pub(crate) failed: Option<String>,
}

impl Entry {
    /// Returns true if the ledger has to be read again.
    fn is_due(&self, found: &Found) -> bool {
        let of_running =
            |campaigns: &Vec<Arc<Listed>>| campaigns.iter().any(|one| one.state == State::Running);
        if !self.campaigns.as_ref().is_ok_and(of_running) {
            return self.stamp != found.stamp;
        }
        // Pages follow it through its socket. When that is gone, its end is near or was violent.
        let (at, took) = self.read;
        !live::is_sent(&found.path) && at.elapsed() > READ_EVERY.max(took * READ_SHARE)
            || !found.stamp.has_log()
    }
}

impl Listing {
    /// Returns the campaign `id` of `ledger`.
    pub(crate) fn find(&self, ledger: &str, id: &str) -> Option<&Arc<Listed>> {
        self.campaigns.iter().find(|one| one.ledger == ledger && one.header.id == id)
    }
}

/// Reader of the folder.
#[derive(Debug)]
pub(crate) struct Archive {
    folder: PathBuf,
    /// Held while a ledger is read.
    reading: Mutex<()>,
    listing: watch::Sender<Arc<Listing>>,
}

impl Archive {
    /// Reads `folder` in a thread of its own, until nobody else has the archive.
    pub(crate) fn start(folder: PathBuf) -> std::io::Result<Arc<Self>> {
        let listing = watch::Sender::new(Arc::default());
        let archive = Arc::new(Self { folder, reading: Mutex::new(()), listing });
        let watched = Arc::downgrade(&archive);
        let named = thread::Builder::new().name("ledgers".to_owned());
        named.spawn(move || keep_up(&watched))?;
        Ok(archive)
    }

    /// Returns the folder.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns what is known at the moment, and changes of it.
    pub(crate) fn listing(&self) -> watch::Receiver<Arc<Listing>> {
        self.listing.subscribe()
    }

    /// Loads and judges a campaign of the list. Blocks.
    pub(crate) fn load(&self, listed: &Listed) -> Result<(Campaign, Study), StoreError> {
        let campaign = {
            let _one = self.reading.lock().unwrap_or_else(PoisonError::into_inner);
            let path = self.folder.join(&listed.ledger);
            Ledger::open_read_only(&path)?.load(Which::Id(&listed.header.id))?
        };
        let study = study(&campaign);
        Ok((campaign, study))
    }

    /// Brings `entries` up to date, and publishes each step that takes time.
    fn search(&self, entries: &mut BTreeMap<String, Entry>) {
        let found = match folder::ledgers(&self.folder) {
            Ok(found) => found,
            Err(error) => {
                let failed = Some(error.to_string());
                self.publish(Listing { failed, is_searched: true, ..Listing::default() });
                return;
            }
        };
        let n_before = entries.len();
        entries.retain(|name, _| found.contains_key(name));
        let is_new = |(name, one): &(&String, &Found)| {
            entries.get(*name).is_none_or(|entry| entry.is_due(one))
        };
        let waiting: Vec<(&String, &Found)> = found.iter().filter(is_new).collect();
        let mut shown = Instant::now();
        for (at, (name, one)) in waiting.iter().enumerate() {
            let began = Instant::now();
            let campaigns = self.read(name, &one.path).map_err(|error| error.to_string());
            let read = (Instant::now(), began.elapsed());
            entries.insert((*name).clone(), Entry { stamp: one.stamp, read, campaigns });
            // A page that shows each step of a hundred would flicker.
            if shown.elapsed() > SEARCH_EVERY {
                self.publish(listing(entries, waiting.len() - at - 1));
                shown = Instant::now();
            }
        }
        let is_first = !self.listing.borrow().is_searched;
        if !waiting.is_empty() || entries.len() != n_before || is_first {
            self.publish(listing(entries, 0));
        }
    }

    fn publish(&self, listing: Listing) {
        self.listing.send_replace(Arc::new(listing));
    }

    /// Reads and judges the campaigns of a ledger.
    fn read(&self, name: &str, path: &Path) -> Result<Vec<Arc<Listed>>, StoreError> {
        let _one = self.reading.lock().unwrap_or_else(PoisonError::into_inner);
        let ledger = Ledger::open_read_only(path)?;
        let is_recorded = ledger.is_recorded();
        let outlines = ledger.campaigns()?;
        let mut listed = Vec::new();
        for outline in outlines.iter().rev().take(MOST_IN_LEDGER) {
            let loaded = ledger.load_with_damage(Which::Id(&outline.id))?;
            let state = match outline.ended {
                Some(_) => State::Ended,
                // Only the newest one can be recorded.
                None if is_recorded && listed.is_empty() => State::Running,
                None => State::Interrupted,
            };
            let campaign = loaded.campaign;
            // A trial that still runs is not judged.
            let is_judged = state != State::Running || outline.n_completed > 0;
            let lead = is_judged.then(|| linerate_report::verdict(&campaign, &study(&campaign)));
            listed.push(Arc::new(Listed {
                ledger: name.to_owned(),
                hosts: campaign.hosts.iter().map(|host| host.host.clone()).collect(),
                header: campaign.header,
                state,
                trials: [outline.n_trials, outline.n_completed],
                lead: lead.flatten(),
                damage: loaded.damage,
            }));
        }
        Ok(listed)
    }
}

/// Gives this thread the lowest priority, because a measurement on this host comes first. Threads
/// that pass snapshots on keep theirs: they use little, and are to be in time.
pub(crate) fn yield_to_measurements() {
    // Without the right to change it, the usual priority has to do.
    let _usual = rustix::process::nice(LOWEST);
}

/// Searches the folder again and again, until nobody has the archive.
fn keep_up(watched: &Weak<Archive>) {
    yield_to_measurements();
    let mut entries = BTreeMap::new();
    while let Some(archive) = watched.upgrade() {
        archive.search(&mut entries);
        drop(archive);
        thread::sleep(SEARCH_EVERY);
    }
}

/// Returns everything in `entries`.
fn listing(entries: &BTreeMap<String, Entry>, n_waiting: usize) -> Listing {
    let mut listing = Listing { n_waiting, is_searched: true, ..Listing::default() };
    for (name, entry) in entries {
        match &entry.campaigns {
            Ok(campaigns) => listing.campaigns.extend(campaigns.iter().cloned()),
            Err(cause) => listing.unreadable.push((name.clone(), cause.clone())),
        }
    }
    let newest_first = |one: &Arc<Listed>| std::cmp::Reverse(one.header.started);
    listing.campaigns.sort_by_key(newest_first);
    listing
}
