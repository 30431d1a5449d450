//! Disks and files of a session, at the agent's end.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use linerate_disk::{DiskError, Keeper, Kept, KeptFiles, Permission, Synchrony};

use super::{Broker, Request};

/// Disks and files of a session, which the broker opens.
#[derive(Debug)]
pub(crate) struct BrokerKeeper {
    broker: Arc<Broker>,
    session: u64,
}

impl BrokerKeeper {
    /// Begins a new session.
    pub(crate) fn begin(broker: Arc<Broker>) -> Self {
        static SESSIONS: AtomicU64 = AtomicU64::new(0);
        Self { broker, session: SESSIONS.fetch_add(1, Ordering::Relaxed) }
    }

    fn kept(&self, request: &Request) -> Result<(Kept, KeptFiles), DiskError> {
        let answer = self.broker.ask::<Kept>(request, &[]);
        let (kept, descriptors) = answer.map_err(|refused| DiskError::Told(refused.why))?;
        let mut descriptors = descriptors.into_iter();
        let file: OwnedFd = descriptors
            .next()
            .ok_or_else(|| DiskError::Told("the broker of this agent sent no file".into()))?;
        Ok((kept, KeptFiles { file, revocation: descriptors.next() }))
    }
}

impl Keeper for BrokerKeeper {
    fn open(
        &self,
        path: &Path,
        permission: Permission<'_>,
    ) -> Result<(Kept, KeptFiles), DiskError> {
        let (write, consent) = match permission {
            Permission::Read => (false, None),
            Permission::Write { consent } => (true, consent.map(str::to_owned)),
        };
        self.kept(&Request::Open { session: self.session, path: path.to_owned(), write, consent })
    }

    fn scratch(&self, folder: &Path, size: u64) -> Result<(Kept, KeptFiles), DiskError> {
        self.kept(&Request::Scratch { session: self.session, folder: folder.to_owned(), size })
    }

    fn is_folder(&self, path: &Path) -> bool {
        self.broker
            .ask::<bool>(&Request::IsFolder { path: path.to_owned() }, &[])
            .is_ok_and(|(is_one, _)| is_one)
    }

    fn reopen(
        &self,
        number: u64,
        write: bool,
        direct: bool,
        synchrony: Synchrony,
    ) -> io::Result<File> {
        let request = Request::Reopen { session: self.session, number, write, direct, synchrony };
        self.broker.descriptor(&request, &[]).map(File::from)
    }

    fn release(&self, number: u64) {
        let _ended =
            self.broker.ask::<()>(&Request::Release { session: self.session, number }, &[]);
    }
}

impl Drop for BrokerKeeper {
    fn drop(&mut self) {
        let _ended = self.broker.ask::<()>(&Request::EndSession { session: self.session }, &[]);
    }
}
