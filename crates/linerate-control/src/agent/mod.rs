//! The agent: carries out what a conductor asks for, and outlives whatever a peer does.
//!
//! It serves one conductor at a time and tells a second one so. Strangers have a handshake's time
//! to prove who they are, in a bounded number of threads; when too many try, the oldest attempt is
//! cut off, so that slow ones keep nobody out. What a stranger sends is counted and dropped.

mod asked;
mod links;
mod local;
mod presence;
mod session;
mod trial;
mod tuning;

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use linerate_disk::{Disks, FileLimits, Keeper, Writable};
use linerate_load::{Permits, Workload};
use serde_json::Value;

use crate::broker::{Broker, BrokerKeeper};
use crate::frames::write;
use crate::link::{Channel, Closer, Outbox, Pulse, Timeouts};
use crate::strangers::{Opening, Receptionist, Refusals, Ticket, accept_all, wake};
use crate::timed::Deadline;
use crate::tls::{self, TLS_HANDSHAKE, Trust};
use crate::transport;
use crate::wire::{
    GREETING_LIMIT, Greeting, Message, PROTOCOL_VERSION, RELEASE, SettingState, TuneRequest,
    announced, decode_within,
};
use crate::{ControlError, Fingerprint, KeyStore, Right};

pub(crate) use tuning::Changes;
pub use tuning::{Consent, HostWide, Keeping, Restored, restore};

/// Who may talk to a listening agent.
#[derive(Debug)]
pub enum Access {
    /// Root and the agent's own user on this host, and whom its owner names, over plain TCP; it
    /// listens on loopback only.
    Loopback,
    /// Whoever holds a key this host has been paired with, over TLS.
    Paired(KeyStore),
}

/// What an agent is made of.
#[derive(Clone)]
pub struct AgentOptions {
    /// Its name for itself, in greetings.
    pub name: String,
    /// How long is waited for what.
    pub timeouts: Timeouts,
    /// The workloads it can carry out.
    pub workloads: fn(&str) -> Option<&'static dyn Workload>,
    /// How it learns what its host is.
    pub facts: fn() -> Value,
    /// What it may change on its host, if a conductor asks.
    pub consent: Consent,
    /// Which claimed disks loads may write to, whatever a conductor says.
    pub writable: Writable,
    /// Memory that a trial may need here, bytes; `None`: half of what is available when it is
    /// prepared.
    pub memory: Option<u64>,
    /// Folders whose files may be sent to foreign clients, whatever a conductor says.
    pub served: Vec<PathBuf>,
    /// What the host's owner lets loads do, whatever a conductor says.
    pub permits: Permits,
    /// Users of this host who may use an agent without keys, beside root and the agent's own user.
    pub local_users: Vec<u32>,
    /// What it lets them read and fill; absent: whatever this process may.
    pub files: Option<FileLimits>,
    /// The user who started it, beside root the one whom it serves without keys.
    pub owner: u32,
    /// Who does for it what it has no rights for; absent: it has those of its account.
    pub broker: Option<Arc<Broker>>,
    /// Told, in a sentence, of sessions that begin and end and of strangers turned away.
    pub notify: Arc<dyn Fn(&str) + Send + Sync>,
}

impl Default for AgentOptions {
    fn default() -> Self {
        Self {
            name: "agent".into(),
            timeouts: Timeouts::default(),
            workloads: linerate_load::workload,
            facts: linerate_observe::facts,
            consent: Consent::default(),
            writable: Writable::default(),
            memory: None,
            served: Vec::new(),
            permits: Permits::EVERYTHING,
            local_users: Vec::new(),
            files: None,
            owner: rustix::process::geteuid().as_raw(),
            broker: None,
            notify: Arc::new(|_| {}),
        }
    }
}

impl std::fmt::Debug for AgentOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AgentOptions")
            .field("name", &self.name)
            .field("timeouts", &self.timeouts)
            .finish_non_exhaustive()
    }
}

/// Whoever measures; clones are the same agent.
#[derive(Clone, Debug)]
pub struct Agent {
    shared: Arc<Shared>,
}

/// What an agent's threads share.
#[derive(Debug)]
struct Shared {
    options: AgentOptions,
    /// The conductor being served.
    current: Mutex<Option<Current>>,
    /// Signalled when it is no longer.
    released: Condvar,
    /// The conductor that tunes, who may be another one or the same.
    tuner: Mutex<Option<Current>>,
    /// Signalled when it is no longer.
    tuner_released: Condvar,
    /// What it has changed.
    changes: Mutex<Changes>,
    /// Strangers turned away since the agent started.
    rejected: AtomicU64,
    /// What is still to be said of them.
    refusals: Mutex<Refusals>,
    /// Trials that were given up and end by themselves.
    leftovers: Mutex<Vec<JoinHandle<()>>>,
}

/// The conductor being served.
struct Current {
    by: String,
    campaign: String,
    key: Option<Fingerprint>,
    since: Instant,
    closer: Closer,
    pulse: Option<Pulse>,
    /// The way to it, once it is served.
    outbox: Option<Outbox>,
}

impl Current {
    fn new(channel: &Channel, greeting: &Greeting, by: &str) -> Self {
        Self {
            by: by.to_owned(),
            campaign: greeting.campaign.clone(),
            key: channel.key,
            since: Instant::now(),
            closer: Arc::clone(&channel.closer),
            pulse: channel.pulse.clone(),
            outbox: None,
        }
    }
}

impl std::fmt::Debug for Current {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Current({})", self.by)
    }
}

/// Whether settings may be changed again after they were put back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ForGood {
    Yes,
    No,
}

impl Shared {
    fn current(&self) -> MutexGuard<'_, Option<Current>> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tuner(&self) -> MutexGuard<'_, Option<Current>> {
        self.tuner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn changes(&self) -> MutexGuard<'_, Changes> {
        // A panic in the middle of a change leaves it noted: it is still put back.
        self.changes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does what a conductor asks of settings, itself or by its broker.
    fn tune(&self, request: TuneRequest) -> Result<Vec<SettingState>, String> {
        match &self.options.broker {
            Some(broker) => broker.tune(request),
            None => self.changes().handle(request, &self.options.consent),
        }
    }

    /// Puts every changed setting back.
    fn put_back(&self, for_good: ForGood) -> Vec<String> {
        match (&self.options.broker, for_good) {
            (Some(broker), _) => broker.put_back(for_good == ForGood::Yes),
            (None, ForGood::Yes) => self.changes().close(),
            (None, ForGood::No) => self.changes().put_back(),
        }
    }

    /// What this host is.
    fn facts(&self) -> Value {
        self.options.broker.as_ref().map_or_else(self.options.facts, |broker| broker.facts())
    }

    /// The disks and files of a new session.
    fn disks(&self) -> Disks {
        let AgentOptions { writable, served, files, broker, .. } = self.options.clone();
        let keeper = broker.map(|broker| Arc::new(BrokerKeeper::begin(broker)) as Arc<dyn Keeper>);
        Disks::new(writable).serving(served).within(files).kept_by(keeper)
    }

    fn leftovers(&self) -> MutexGuard<'_, Vec<JoinHandle<()>>> {
        self.leftovers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn refusals(&self) -> MutexGuard<'_, Refusals> {
        self.refusals.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn reject(&self, peer: &str, why: &dyn std::fmt::Display) {
        self.rejected.fetch_add(1, Ordering::Relaxed);
        let line = self.refusals().note(format!("{peer}: {why}"), Instant::now());
        if let Some(line) = line {
            (self.options.notify)(&line);
        }
    }
}

impl Agent {
    /// An agent that nobody has reached yet.
    #[must_use]
    pub fn new(options: AgentOptions) -> Self {
        let (current, released, rejected) = (Mutex::default(), Condvar::new(), AtomicU64::new(0));
        let (tuner, tuner_released, changes) = Default::default();
        let (refusals, leftovers) = Default::default();
        let shared = Shared {
            options,
            current,
            released,
            tuner,
            tuner_released,
            changes,
            rejected,
            refusals,
            leftovers,
        };
        Self { shared: Arc::new(shared) }
    }

    /// Puts back every setting that a conductor has changed, for good: for a process that is about
    /// to end. What could not be put back, a sentence each.
    #[must_use]
    pub fn put_back(&self) -> Vec<String> {
        self.shared.put_back(ForGood::Yes)
    }

    /// Strangers turned away so far: rubbish, unknown keys, wrong versions, handshakes that took
    /// too long.
    #[must_use]
    pub fn rejected(&self) -> u64 {
        self.shared.rejected.load(Ordering::Relaxed)
    }

    /// Binds `address`; call [`Serving::run`] to serve.
    ///
    /// # Errors
    /// If it cannot be bound, or is not on loopback and there are no keys.
    pub fn listen(&self, address: SocketAddr, access: Access) -> Result<Serving, ControlError> {
        let error = |operation, cause: String| ControlError::Listen {
            operation,
            address: address.to_string(),
            cause,
        };
        if matches!(access, Access::Loopback) && !transport::is_loopback(address.ip()) {
            let cause = "no host has been paired with this one, and without keys an agent listens \
                on loopback only \
                         (run `linerate pair offer`)";
            return Err(error("listen beyond loopback on", cause.into()));
        }
        let listener =
            TcpListener::bind(address).map_err(|cause| error("listen on", cause.to_string()))?;
        let address =
            listener.local_addr().map_err(|cause| error("listen on", cause.to_string()))?;
        // Refused, it costs something only where large packets are lost.
        let _ = linerate_sys::tcp::set_largest_segment(&listener, transport::LARGEST_SEGMENT);
        Ok(Serving { agent: self.clone(), listener, access, address, stopping: Arc::default() })
    }

    /// Serves the one conductor at the other end of standard input and output, until it is done.
    /// Whoever started this process vouches for it.
    pub fn serve_stdio(&self) {
        session::serve(&self.shared, transport::stdio(), None);
    }

    /// Another agent like this one: each serves one conductor's session at a time.
    pub(crate) fn sibling(&self) -> Self {
        Self::new(self.shared.options.clone())
    }

    /// Opens a session inside this process, through the same codec as every other.
    pub(crate) fn open(&self) -> io::Result<Channel> {
        let (ours, theirs) = UnixStream::pair()?;
        let timeouts = self.shared.options.timeouts;
        let deadline = || Deadline::at(Instant::now() + timeouts.handshake);
        let channel = transport::unix(theirs, "this process", deadline(), &timeouts)?;
        let shared = Arc::clone(&self.shared);
        thread::Builder::new()
            .name("linerate-agent".into())
            .spawn(move || session::serve(&shared, channel, None))?;
        transport::unix(ours, "the agent in this process", deadline(), &timeouts)
    }
}

/// An agent that listens.
#[derive(Debug)]
pub struct Serving {
    agent: Agent,
    listener: TcpListener,
    access: Access,
    address: SocketAddr,
    stopping: Arc<AtomicBool>,
}

/// Ends a [`Serving`] from another thread.
#[derive(Clone, Debug)]
pub struct Stopper {
    address: SocketAddr,
    stopping: Arc<AtomicBool>,
}

impl Stopper {
    /// Makes [`Serving::run`] return; a session that runs is cut off.
    pub fn stop(&self) {
        self.stopping.store(true, Ordering::Relaxed);
        wake(self.address);
    }
}

impl Serving {
    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// A way to end it.
    #[must_use]
    pub fn stopper(&self) -> Stopper {
        Stopper { address: self.address, stopping: Arc::clone(&self.stopping) }
    }

    /// Serves conductors in turn, until stopped.
    pub fn run(self) {
        let Self { agent, listener, access, stopping, .. } = self;
        let shared = Arc::clone(&agent.shared);
        let entrance = Arc::new(Entrance { shared: Arc::clone(&shared), access });
        let watching = watch(&entrance, &stopping);
        if let Err(error) = &watching {
            (shared.options.notify)(&format!("cannot watch for forgotten hosts: {error}"));
        }
        if let Err(error) = accept_all(&listener, &stopping, &entrance) {
            (shared.options.notify)(&format!("cannot accept connections any more: {error}"));
        }
        for serving in [agent.shared.current(), agent.shared.tuner()] {
            if let Some(current) = serving.as_ref() {
                (current.closer)();
            }
        }
        if let Ok(watching) = watching {
            // It looks every few hundred milliseconds whether it is to stop.
            let _ = watching.join();
        }
    }
}

/// The control port, as strangers find it.
struct Entrance {
    shared: Arc<Shared>,
    access: Access,
}

impl Receptionist for Entrance {
    fn patience(&self) -> Duration {
        self.shared.options.timeouts.handshake
    }

    fn opening(&self, bytes: &[u8]) -> Opening {
        if bytes.first() == Some(&TLS_HANDSHAKE) {
            return tls::opening(bytes);
        }
        match decode_within(bytes, GREETING_LIMIT) {
            Ok(Some(_)) => Opening::Whole,
            Ok(None) => Opening::Needs(announced(bytes)),
            Err(error) => Opening::Foreign(error.to_string()),
        }
    }

    fn meet(&self, socket: TcpStream, peer: SocketAddr, ticket: Ticket) {
        match meet(&self.shared, &self.access, socket) {
            Ok(channel) => session::serve(&self.shared, channel, Some(ticket)),
            Err(error) => self.shared.reject(&peer.to_string(), &error),
        }
    }

    fn turned_away(&self, peer: SocketAddr, why: &str) {
        self.shared.reject(&peer.to_string(), &why);
    }

    fn tick(&self) {
        let line = self.shared.refusals().due(Instant::now());
        if let Some(line) = line {
            (self.shared.options.notify)(&line);
        }
    }
}

/// Ends the sessions of conductors that are no longer known, soon after they were forgotten, until
/// `stopping`.
fn watch(entrance: &Arc<Entrance>, stopping: &Arc<AtomicBool>) -> io::Result<JoinHandle<()>> {
    /// A forgotten conductor is gone within a second, and a look costs next to nothing.
    const PERIOD: Duration = Duration::from_millis(250);
    let (entrance, stopping) = (Arc::clone(entrance), Arc::clone(stopping));
    thread::Builder::new().name("linerate-watch".into()).spawn(move || {
        let Entrance { shared, access: Access::Paired(keys) } = &*entrance else { return };
        while !stopping.load(Ordering::Relaxed) {
            thread::sleep(PERIOD);
            for serving in [shared.current(), shared.tuner()] {
                let Some((current, key)) =
                    serving.as_ref().and_then(|current| Some((current, current.key?)))
                else {
                    continue;
                };
                // A list that cannot be read ends nobody's session, and lets nobody in.
                if keys.may(key, Right::Conduct).is_ok_and(|may| !may) {
                    (shared.options.notify)(&format!(
                        "{} is no longer paired: its session ends",
                        current.by
                    ));
                    (current.closer)();
                }
            }
        }
    })
}

/// Finds out what a stranger speaks, and opens TLS if it must be.
fn meet(shared: &Shared, access: &Access, socket: TcpStream) -> io::Result<Channel> {
    let timeouts = &shared.options.timeouts;
    let at = Instant::now() + timeouts.handshake;
    socket.set_nodelay(true)?;
    socket.set_read_timeout(Some(timeouts.handshake))?;
    let mut first = [0];
    if socket.peek(&mut first)? == 0 {
        return Err(io::Error::other("it closed the connection without a word"));
    }
    match (access, first[0]) {
        (Access::Loopback, TLS_HANDSHAKE) => {
            Err(io::Error::other("it speaks TLS, but no host has been paired with this one"))
        }
        (Access::Loopback, _) => {
            admit(&socket, &shared.options, timeouts)?;
            transport::plain(socket, Deadline::at(at), timeouts)
        }
        (Access::Paired(keys), TLS_HANDSHAKE) => {
            let known = keys.peers().map_err(io::Error::other)?;
            let conductors = known.iter().filter(|peer| peer.may(Right::Conduct));
            let trust = Trust::Known(conductors.map(|peer| peer.key).collect());
            let connection = tls::accept(socket.try_clone()?, keys, trust, at)?;
            transport::secured(connection, &socket, Deadline::at(at), timeouts)
        }
        (Access::Paired(_), _) => {
            let why =
                "this agent speaks TLS with paired hosts only (run `linerate pair`)".to_owned();
            refuse(&socket, why, timeouts)?;
            Err(io::Error::other("it does not speak TLS"))
        }
    }
}

/// Lets a user of this host in who is the agent's own, root, or named by the host's owner.
fn admit(socket: &TcpStream, options: &AgentOptions, timeouts: &Timeouts) -> io::Result<()> {
    let user = local::user_of(socket);
    let (own, named) = (options.owner, &options.local_users);
    let why = match user {
        Ok(user) if user == 0 || user == own || named.contains(&user) => return Ok(()),
        Ok(user) => format!(
            "this agent was started by user {own} and serves that user and root; the owner of this \
                host can let user {user} in, with \
             `local_users = [{user}]` in its policy"
        ),
        Err(error) => error.to_string(),
    };
    refuse(socket, why.clone(), timeouts)?;
    Err(io::Error::other(why))
}

/// Tells a stranger why it is turned away.
fn refuse(socket: &TcpStream, why: String, timeouts: &Timeouts) -> io::Result<()> {
    socket.set_write_timeout(Some(timeouts.handshake))?;
    let refusal = Message::Refused { version: PROTOCOL_VERSION, release: RELEASE.into(), why };
    write(&mut &*socket, &refusal).map_err(io::Error::other)
}
