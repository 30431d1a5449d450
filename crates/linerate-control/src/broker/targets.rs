//! Disks and files that the broker has open for the agent's sessions.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

use linerate_disk::{DiskError, Disks, FileLimits, Kept, Target, Writable};

use super::Refused;

/// Most sessions with targets at a time. One conductor measures, and aborted trials of others may
/// still be ending.
const MOST_SESSIONS: usize = 16;
/// Most targets of a session.
const MOST_TARGETS: usize = 256;

/// Targets of all sessions.
#[derive(Debug)]
pub(super) struct Targets {
    writable: Writable,
    files: Option<FileLimits>,
    sessions: BTreeMap<u64, Session>,
    next: u64,
}

#[derive(Debug)]
struct Session {
    disks: Disks,
    targets: BTreeMap<u64, Arc<Target>>,
}

/// Description and descriptors of a target, as sent to the agent.
pub(super) type Handed = (Kept, Vec<OwnedFd>);

impl Targets {
    pub(super) const fn new(writable: Writable, files: Option<FileLimits>) -> Self {
        Self { writable, files, sessions: BTreeMap::new(), next: 1 }
    }

    /// Opens a target by `open` among the disks of `session`.
    pub(super) fn open(
        &mut self,
        session: u64,
        open: impl FnOnce(&Disks) -> Result<Arc<Target>, DiskError>,
    ) -> Result<Handed, Refused> {
        if !self.sessions.contains_key(&session) && self.sessions.len() >= MOST_SESSIONS {
            return Err(Refused::because("too many sessions use disks or files"));
        }
        let session = self.sessions.entry(session).or_insert_with(|| Session {
            disks: Disks::new(self.writable.clone()).within(self.files.clone()),
            targets: BTreeMap::new(),
        });
        if session.targets.len() >= MOST_TARGETS {
            return Err(Refused::because("the session uses too many disks or files"));
        }
        let target = open(&session.disks).map_err(Refused::because)?;
        // A disk that is opened twice keeps its number, so that the agent recognises it.
        let known = session
            .targets
            .iter()
            .find(|(_, known)| Arc::ptr_eq(known, &target))
            .map(|(number, _)| *number);
        let number = known.unwrap_or(self.next);
        let mut descriptors = vec![target.descriptor().try_clone_to_owned()?];
        // The agent already watches a target of an earlier trial.
        if target.is_watched() && known.is_none() {
            descriptors.push(report_revocation(&target)?);
        }
        self.next = self.next.max(number + 1);
        let kept = target.described(number);
        session.targets.insert(number, target);
        Ok((kept, descriptors))
    }

    /// Returns a target of `session`.
    pub(super) fn of(&self, session: u64, number: u64) -> Result<&Target, Refused> {
        let target = self.sessions.get(&session).and_then(|session| session.targets.get(&number));
        target
            .map(AsRef::as_ref)
            .ok_or_else(|| Refused::because("there is no such target in this session"))
    }

    pub(super) fn release(&mut self, session: u64, number: u64) {
        if let Some(session) = self.sessions.get_mut(&session) {
            session.targets.remove(&number);
        }
    }

    pub(super) fn end(&mut self, session: u64) {
        self.sessions.remove(&session);
    }
}

/// Returns a pipe that carries the reason when the permission to write to `target` ends. It closes
/// without one when the target is closed.
fn report_revocation(target: &Arc<Target>) -> io::Result<OwnedFd> {
    /// Short against the interval of the watch.
    const PERIOD: Duration = Duration::from_millis(100);
    let (reader, writer) = io::pipe()?;
    let watched: Weak<Target> = Arc::downgrade(target);
    thread::Builder::new().name("broker watch".into()).spawn(move || {
        // A weak reference: this thread must not keep the target open.
        while let Some(target) = watched.upgrade() {
            if let Some(why) = target.revocation() {
                // Without an agent nothing is written to the disk either.
                let _gone = (&writer).write_all(why.as_bytes());
                return;
            }
            drop(target);
            thread::sleep(PERIOD);
        }
    })?;
    Ok(reader.into())
}
