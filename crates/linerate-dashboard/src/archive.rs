//! The campaigns of the folder, judged, and kept up to date by one thread.
//!
//! It is the only reader: a process that closes one of two open handles of a file gives up the
//! locks of both (POSIX), and a writer could then change the file under the other.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};

use linerate_analysis::{PlacedFigure, Study, figures};
use linerate_campaign::judged::judged;
use linerate_model::{Campaign, CampaignHeader};
use linerate_report::document::Lead;
use linerate_store::{Ledger, StoreError, Which};
use tokio::sync::watch;

use crate::folder::{self, Found, Limit, Stamp};

/// Shortest and longest time between two searches of the folder.
const SEARCH_EVERY: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(60)];
/// The same as a multiple of the CPU time that a search takes: half a per cent of a CPU, within those
/// limits.
const SEARCH_SHARE: u32 = 200;
/// Shortest time between two readings of a ledger that is being recorded.
const READ_EVERY: Duration = Duration::from_secs(5);
/// The same as a multiple of the time that a reading takes: a reader that is there when the writer
/// leaves keeps it from closing the ledger as one file.
const READ_SHARE: u32 = 200;
/// Time after which a ledger that could not be read is tried again without a change.
const RETRY_EVERY: Duration = Duration::from_secs(30);
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
    /// Its figures by their places in the plan; none while it is recorded.
    pub(crate) figures: Vec<PlacedFigure>,
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
    /// Campaigns and the number of those left out, or why they cannot be read.
    campaigns: Reading,
}

/// Result of reading a ledger.
type Reading = Result<(Vec<Arc<Listed>>, usize), String>;

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
    /// Parts of the folder that were left out.
    pub(crate) limits: Vec<Limit>,
}

impl Entry {
    /// Returns true if the ledger has to be read again.
    fn is_due(&self, found: &Found, now: Instant) -> bool {
        let (at, took) = self.read;
        let age = now.saturating_duration_since(at);
        match &self.campaigns {
            Err(_) => self.stamp != found.stamp || age > RETRY_EVERY.max(took * READ_SHARE),
            // Also without a change: a process that was killed changes nothing more.
            Ok((campaigns, _)) if campaigns.iter().any(|one| one.state == State::Running) => {
                age > READ_EVERY.max(took * READ_SHARE) || !found.stamp.has_log()
            }
            Ok(_) => self.stamp != found.stamp,
        }
    }
}

impl Listing {
    /// Returns the campaign `id` of `ledger`.
    pub(crate) fn find(&self, ledger: &str, id: &str) -> Option<&Arc<Listed>> {
        self.campaigns.iter().find(|one| one.ledger == ledger && one.header.id == id)
    }

    /// Returns true if the campaign `id` of `ledger` is recorded at this moment.
    pub(crate) fn is_running(&self, ledger: &str, id: &str) -> bool {
        self.find(ledger, id).is_some_and(|one| one.state == State::Running)
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
        let _one = self.reading.lock().unwrap_or_else(PoisonError::into_inner);
        let ledger = Ledger::open_read_only(&self.folder.join(&listed.ledger))?;
        let (loaded, study) = judged(ledger.recording(Which::Id(&listed.header.id))?)?;
        Ok((loaded.campaign, study))
    }

    /// Brings `entries` up to date, and publishes each step that takes time. Returns the time until
    /// the next search.
    fn search(&self, entries: &mut BTreeMap<String, Entry>) -> Duration {
        let (began, before) = (Instant::now(), cpu_time());
        let folder::Search { ledgers: found, limits } = match folder::ledgers(&self.folder) {
            Ok(search) => search,
            Err(error) => {
                let failed = Some(error.to_string());
                self.publish(Listing { failed, is_searched: true, ..Listing::default() });
                return SEARCH_EVERY[0];
            }
        };
        let pause = pause_after(cpu_time().saturating_sub(before));
        let n_before = entries.len();
        entries.retain(|name, _| found.contains_key(name));
        let is_new = |(name, one): &(&String, &Found)| {
            entries.get(*name).is_none_or(|entry| entry.is_due(one, began))
        };
        let waiting: Vec<(&String, &Found)> = found.iter().filter(is_new).collect();
        let mut shown = Instant::now();
        for (at, (name, one)) in waiting.iter().enumerate() {
            let began = Instant::now();
            let campaigns = guarded(|| self.read(name, &one.path));
            let read = (Instant::now(), began.elapsed());
            entries.insert((*name).clone(), Entry { stamp: one.stamp, read, campaigns });
            // A page that shows each step of a hundred would flicker.
            if shown.elapsed() > SEARCH_EVERY[0] {
                self.publish(listing(entries, waiting.len() - at - 1, &limits));
                shown = Instant::now();
            }
        }
        let is_changed = !waiting.is_empty() || entries.len() != n_before;
        let fresh = listing(entries, 0, &limits);
        let is_other = {
            let before = self.listing.borrow();
            !before.is_searched || before.failed.is_some() || before.limits != fresh.limits
        };
        if is_changed || is_other {
            self.publish(fresh);
        }
        pause
    }

    fn publish(&self, listing: Listing) {
        self.listing.send_replace(Arc::new(listing));
    }

    /// Reads and judges the campaigns of a ledger.
    fn read(&self, name: &str, path: &Path) -> Result<(Vec<Arc<Listed>>, usize), StoreError> {
        let _one = self.reading.lock().unwrap_or_else(PoisonError::into_inner);
        let ledger = Ledger::open_read_only(path)?;
        let is_recorded = ledger.is_recorded();
        let outlines = ledger.campaigns()?;
        let mut listed = Vec::new();
        for outline in outlines.iter().rev().take(MOST_IN_LEDGER) {
            let (loaded, study) = judged(ledger.recording(Which::Id(&outline.id))?)?;
            let state = match outline.ended {
                Some(_) => State::Ended,
                // Only the newest one can be recorded.
                None if is_recorded && listed.is_empty() => State::Running,
                None => State::Interrupted,
            };
            let campaign = loaded.campaign;
            // Before the first trial has ended, there is nothing to show.
            let is_judged = state != State::Running || outline.n_completed > 0;
            let study = is_judged.then_some(study);
            let lead = study.as_ref().map(|study| linerate_report::verdict(&campaign, study));
            let figures = match state {
                State::Running => None,
                State::Ended | State::Interrupted => study.as_ref().map(figures),
            };
            listed.push(Arc::new(Listed {
                ledger: name.to_owned(),
                hosts: campaign.hosts.iter().map(|host| host.host.clone()).collect(),
                header: campaign.header,
                state,
                trials: [outline.n_trials, outline.n_completed],
                lead: lead.flatten(),
                figures: figures.unwrap_or_default(),
                damage: loaded.damage,
            }));
        }
        let n_left_out = outlines.len().saturating_sub(MOST_IN_LEDGER);
        Ok((listed, n_left_out))
    }
}

/// Returns the CPU time of this program, whose threads judge together. Their priority is the
/// lowest, so that beside other programs much more time passes, and a list that rests for a
/// multiple of that would be out of date.
fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::try_from(time).unwrap_or_default()
}

/// Returns the time between a search of the folder that took this CPU time and the next.
fn pause_after(took: Duration) -> Duration {
    let [least, most] = SEARCH_EVERY;
    (took * SEARCH_SHARE).clamp(least, most)
}

/// Reads a ledger. One that the program cannot judge must not end the list of the others.
fn guarded<T>(read: impl FnOnce() -> Result<T, StoreError>) -> Result<T, String> {
    match catch_unwind(AssertUnwindSafe(read)) {
        Ok(read) => read.map_err(|error| error.to_string()),
        Err(_) => Err("a defect of this program prevents that it is judged".to_owned()),
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
        let pause = archive.search(&mut entries);
        drop(archive);
        thread::sleep(pause);
    }
}

/// Returns everything in `entries`.
fn listing(entries: &BTreeMap<String, Entry>, n_waiting: usize, limits: &[Limit]) -> Listing {
    let limits = limits.to_vec();
    let mut listing = Listing { n_waiting, is_searched: true, limits, ..Listing::default() };
    for (name, entry) in entries {
        match &entry.campaigns {
            Ok((campaigns, n_left_out)) => {
                listing.campaigns.extend(campaigns.iter().cloned());
                if *n_left_out > 0 {
                    let (ledger, n_left_out) = (name.clone(), *n_left_out);
                    listing.limits.push(Limit::Campaigns {
                        ledger,
                        most: MOST_IN_LEDGER,
                        n_left_out,
                    });
                }
            }
            Err(cause) => listing.unreadable.push((name.clone(), cause.clone())),
        }
    }
    let newest_first = |one: &Arc<Listed>| std::cmp::Reverse(one.header.started);
    listing.campaigns.sort_by_key(newest_first);
    listing
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(campaigns: Reading, took: Duration) -> Entry {
        Entry { stamp: Stamp::default(), read: (Instant::now(), took), campaigns }
    }

    fn listed(state: State) -> Reading {
        let header = CampaignHeader::default();
        let (ledger, hosts, figures, damage) = Default::default();
        let (trials, lead) = ([1, 0], None);
        let listed = Listed { ledger, header, hosts, state, trials, lead, figures, damage };
        Ok((vec![Arc::new(listed)], 0))
    }

    #[test]
    fn a_running_ledger_is_read_again_by_time_a_failed_one_later_and_an_ended_one_after_a_change() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("x.ledger");
        std::fs::write(&path, "x").expect("written");
        std::fs::write(folder.path().join("x.ledger-wal"), "x").expect("written");
        let found = folder::ledgers(folder.path()).expect("readable").ledgers["x.ledger"].clone();
        let due = |entry: &mut Entry, seconds: u64, is_changed: bool| {
            entry.stamp = if is_changed { Stamp::default() } else { found.stamp };
            entry.is_due(&found, entry.read.0 + Duration::from_secs(seconds))
        };
        let short = Duration::from_millis(1);
        let mut running = entry(listed(State::Running), short);
        assert_eq!([4, 6].map(|seconds| due(&mut running, seconds, true)), [false, true]);
        assert!(due(&mut running, 6, false), "it may have been killed");
        let mut slow = entry(listed(State::Running), Duration::from_millis(100));
        assert_eq!([6, 19, 21].map(|at| due(&mut slow, at, true)), [false, false, true]);
        let mut ended = entry(listed(State::Ended), short);
        assert_eq!([false, true].map(|changed| due(&mut ended, 1000, changed)), [false, true]);
        let mut failed = entry(Err("busy".to_owned()), short);
        assert_eq!([29, 31].map(|seconds| due(&mut failed, seconds, false)), [false, true]);
        assert!(due(&mut failed, 1, true));
        let mut slow = entry(Err("busy".to_owned()), Duration::from_millis(500));
        assert_eq!([31, 99, 101].map(|at| due(&mut slow, at, false)), [false, false, true]);
    }

    #[test]
    fn a_campaign_is_found_by_its_ledger_and_its_identity_together() {
        let campaign = |ledger: &str, id: &str| {
            let header = CampaignHeader { id: id.to_owned(), ..CampaignHeader::default() };
            let (hosts, figures, damage) = Default::default();
            let (ledger, state, trials, lead) = (ledger.to_owned(), State::Ended, [1, 0], None);
            Arc::new(Listed { ledger, header, hosts, state, trials, lead, figures, damage })
        };
        let campaigns = vec![campaign("a", "1"), campaign("b", "2")];
        let listing = Listing { campaigns, ..Listing::default() };
        let found = |ledger, id| listing.find(ledger, id).map(|one| one.ledger.as_str());
        assert_eq!((found("a", "1"), found("b", "2")), (Some("a"), Some("b")));
        assert_eq!((found("a", "2"), found("b", "1"), found("c", "1")), (None, None, None));
    }

    #[test]
    fn a_ledger_that_cannot_be_judged_is_listed_as_unreadable_beside_the_others() {
        let broken = guarded(|| -> Result<(), StoreError> { panic!("for the test: a defect") });
        assert!(broken.is_err_and(|cause| cause.contains("defect")));
        assert_eq!(guarded(|| Ok(1)), Ok(1));
    }

    #[test]
    fn searching_takes_half_a_per_cent_of_a_cpu_at_most() {
        let ms = Duration::from_millis;
        assert_eq!(pause_after(ms(1)), ms(1000));
        assert_eq!(pause_after(ms(40)), ms(8000));
        assert_eq!(pause_after(ms(4000)), ms(60_000));
        // The work of other threads counts, because they judge ledgers.
        let before = cpu_time();
        let work = move || while cpu_time().saturating_sub(before) < Duration::from_millis(20) {};
        thread::spawn(work).join().expect("it ends");
        assert!(cpu_time().saturating_sub(before) >= ms(20));
    }
}
