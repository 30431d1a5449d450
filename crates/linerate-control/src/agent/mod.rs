//! Agent: carries out the trials of a conductor, and survives whatever a peer sends.
//!
//! It serves conductors at the same time if they share no CPU, interface and disk. Any other is
//! answered that the agent is busy and how many wait before it. Strangers have the time of a
//! handshake to prove their identity, in a bounded number of threads. When too many try, the oldest
//! attempt is cut off, so that slow ones keep nobody out. Everything else that a stranger sends is
//! counted and dropped.

mod asked;
mod links;
mod local;
mod parts;
mod place;
mod ports;
mod presence;
mod session;
mod trial;
mod tuning;
mod turns;

use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use linerate_disk::{Disks, FileLimits, Keeper, Writable};
use linerate_load::{Permits, SharedPort, Workload};
use linerate_sys::socket::renew_buffers;
use serde_json::Value;

use crate::broker::{Broker, BrokerKeeper};
use crate::frames::write;
use crate::link::{Channel, Timeouts};
use crate::strangers::{Opening, Receptionist, Refusals, Ticket, accept_all, wake};
use crate::timed::Deadline;
use crate::tls::{self, TLS_HANDSHAKE, Trust};
use crate::transport;
use crate::wire::{
    GREETING_LIMIT, Message, PROTOCOL_VERSION, RELEASE, SettingState, TuneRequest, announced,
    decode_within,
};
use crate::{ControlError, KeyStore, Result, Right};

use place::Place;

pub(crate) use ports::DataPort;
pub(crate) use tuning::Changes;
pub use tuning::{Consent, HostWide, Keeping, Restored, restore};

/// Peers that a listening agent accepts.
#[derive(Debug)]
pub enum Access {
    /// Root, the agent's own user and the users that its owner names, on this host, over plain TCP.
    /// The agent listens on loopback only.
    Loopback,
    /// Hosts with a paired key, over TLS.
    Paired(KeyStore),
}

/// Configuration of an agent.
#[derive(Clone)]
pub struct AgentOptions {
    /// Its name in greetings.
    pub name: String,
    /// Time limits of sessions.
    pub timeouts: Timeouts,
    /// Finds a workload by name.
    pub workloads: fn(&str) -> Option<&'static dyn Workload>,
    /// Reads the facts of its host.
    pub facts: fn() -> Value,
    /// Settings of its host that conductors may change.
    pub consent: Consent,
    /// Claimed disks that loads may write to, whatever a conductor requests.
    pub writable: Writable,
    /// Memory that a trial may need, bytes. `None`: half of the memory that is available when the
    /// trial is prepared.
    pub memory: Option<u64>,
    /// Folders whose files may be sent to foreign clients, whatever a conductor requests.
    pub served: Vec<PathBuf>,
    /// Limits of the host's owner on loads, whatever a conductor requests.
    pub permits: Permits,
    /// Users of this host who may use an agent without keys, beside root and the agent's own user.
    pub local_users: Vec<u32>,
    /// Limits on the files that loads read and fill. `None`: those of this process.
    pub files: Option<FileLimits>,
    /// The user who started it. Without keys, only this user and root are served.
    pub owner: u32,
    /// Process that does what this one has no rights for. `None`: this one has the rights of its
    /// account.
    pub broker: Option<Arc<Broker>>,
    /// Receives a sentence about each session that begins or ends, and about refused strangers.
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

/// Agent of one host. Clones are the same agent.
#[derive(Clone, Debug)]
pub struct Agent {
    shared: Arc<Shared>,
}

/// Data that an agent's threads share.
#[derive(Debug)]
struct Shared {
    options: AgentOptions,
    /// Place of the conductors that measure.
    measuring: Place,
    /// Place of the conductor that changes settings, which may be another one or the same.
    tuning: Place,
    /// Settings that were changed and not put back yet.
    changes: Mutex<Changes>,
    /// Number of strangers refused since the agent started.
    rejected: AtomicU64,
    /// Refusals that are not in the log yet.
    refusals: Mutex<Refusals>,
    /// Aborted trials that have not ended yet.
    leftovers: Mutex<Vec<JoinHandle<()>>>,
    /// Port that data connections share with control connections, once the agent listens.
    port: OnceLock<SharedPort>,
    /// Addresses of this host over which this process controls other hosts.
    controls: Mutex<Vec<IpAddr>>,
    /// Listeners of that port, while they are open.
    listeners: OnceLock<Weak<[TcpListener]>>,
    /// End of the service after one campaign; unset to serve on.
    once: OnceLock<Stopper>,
}

/// Choice between refusing and accepting further changes after all settings were put back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ForGood {
    Yes,
    No,
}

impl Shared {
    fn changes(&self) -> MutexGuard<'_, Changes> {
        // A panic in the middle of a change leaves it in the list: it is still put back.
        self.changes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Carries out a conductor's request for settings, itself or through its broker.
    fn tune(&self, request: TuneRequest) -> Result<Vec<SettingState>, String> {
        let states = match &self.options.broker {
            Some(broker) => broker.tune(request),
            None => self.changes().handle(request, &self.options.consent),
        };
        self.renew_buffers();
        states
    }

    /// Makes connections that are accepted from now on begin with the buffers that new sockets
    /// have, as `tcp_rmem` and `tcp_wmem` may have changed.
    fn renew_buffers(&self) {
        let Some(listeners) = self.listeners.get().and_then(Weak::upgrade) else { return };
        let mut outdated = false;
        for listener in listeners.iter() {
            outdated |= !renew_buffers(listener).unwrap_or(false);
        }
        if let Some(port) = self.port.get() {
            port.set_outdated(outdated);
        }
    }

    /// Puts every changed setting back.
    fn put_back(&self, for_good: ForGood) -> Vec<String> {
        let left = match (&self.options.broker, for_good) {
            (Some(broker), _) => broker.put_back(for_good == ForGood::Yes),
            (None, ForGood::Yes) => self.changes().close(),
            (None, ForGood::No) => self.changes().put_back(),
        };
        self.renew_buffers();
        left
    }

    /// Reads the facts of this host.
    fn facts(&self) -> Value {
        self.options.broker.as_ref().map_or_else(self.options.facts, |broker| broker.facts())
    }

    /// Creates the disks and files of a new session.
    fn disks(&self) -> Disks {
        let AgentOptions { writable, served, files, broker, .. } = self.options.clone();
        // With a broker, only the broker can open disks; this process has no right to.
        let keeper = broker.map(|broker| Arc::new(BrokerKeeper::begin(broker)) as Arc<dyn Keeper>);
        Disks::new(writable).serving(served).within(files).kept_by(keeper)
    }

    fn controls(&self) -> MutexGuard<'_, Vec<IpAddr>> {
        self.controls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the addresses of this host that control connections use.
    fn control(&self) -> Vec<IpAddr> {
        let own = self.controls().clone();
        own.into_iter().chain(self.measuring.state().control()).collect()
    }

    fn leftovers(&self) -> MutexGuard<'_, Vec<JoinHandle<()>>> {
        self.leftovers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn refusals(&self) -> MutexGuard<'_, Refusals> {
        self.refusals.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn reject(&self, peer: &str, why: &dyn std::fmt::Display) {
        self.rejected.fetch_add(1, Ordering::Relaxed);
        // A flood must not fill a log: most refusals only count.
        let line = self.refusals().note(format!("{peer}: {why}"), Instant::now());
        if let Some(line) = line {
            (self.options.notify)(&line);
        }
    }
}

impl Agent {
    /// Creates an agent that serves nobody yet.
    #[must_use]
    pub fn new(options: AgentOptions) -> Self {
        let shared = Shared {
            options,
            measuring: Place::default(),
            tuning: Place::default(),
            changes: Mutex::default(),
            rejected: AtomicU64::new(0),
            refusals: Mutex::default(),
            leftovers: Mutex::default(),
            port: OnceLock::new(),
            controls: Mutex::default(),
            listeners: OnceLock::new(),
            once: OnceLock::new(),
        };
        Self { shared: Arc::new(shared) }
    }

    /// Puts back every setting that a conductor has changed, and refuses further changes: for a
    /// process that is about to end. Returns a sentence for each that could not be put back.
    #[must_use]
    pub fn put_back(&self) -> Vec<String> {
        self.shared.put_back(ForGood::Yes)
    }

    /// Returns the number of strangers refused so far: rubbish, unknown keys, wrong versions,
    /// handshakes that took too long.
    #[must_use]
    pub fn rejected(&self) -> u64 {
        self.shared.rejected.load(Ordering::Relaxed)
    }

    /// Binds `address`. Call [`Serving::run`] to serve.
    ///
    /// # Errors
    /// If the address cannot be bound, or if it is not on loopback and there are no keys.
    pub fn listen(&self, address: SocketAddr, access: Access) -> Result<Serving> {
        // Without keys the user at the other end is known only for connections of this host.
        if matches!(access, Access::Loopback) && !transport::is_loopback(address.ip()) {
            let cause = "no host has been paired with this one, and without keys an agent listens \
                on loopback only (run `linerate agent --pair`)";
            return Err(ControlError::listen("listen beyond loopback on", address, cause));
        }
        let error = |cause: io::Error| ControlError::listen("listen on", address, cause);
        let (listeners, address) = ports::listen(address).map_err(error)?;
        // If it listens twice, its data uses the first port.
        if self.shared.port.set(SharedPort::new(address)).is_ok() {
            let _first = self.shared.listeners.set(Arc::downgrade(&listeners));
        }
        Ok(Serving { agent: self.clone(), listeners, access, address, stopping: Arc::default() })
    }

    /// Serves the conductor at the other end of standard input and output, until its session ends.
    /// The conductor is trusted, because it started this process.
    pub fn serve_stdio(&self) {
        session::serve(&self.shared, transport::stdio(), None);
    }

    /// Creates another agent with the same configuration and its own places.
    pub(crate) fn sibling(&self) -> Self {
        Self::new(self.shared.options.clone())
    }

    /// Notes that this process controls another host over its own address `own`.
    pub(crate) fn controls_over(&self, own: IpAddr) {
        self.shared.controls().push(own);
    }

    #[cfg(test)]
    pub(crate) fn is_controlled_over(&self, own: IpAddr) -> bool {
        self.shared.control().contains(&own)
    }

    /// Accepts the data of this agent's trials at `address`, and nothing else, until the port is
    /// dropped.
    pub(crate) fn accept_data(&self, address: SocketAddr) -> io::Result<DataPort> {
        DataPort::open(&self.shared, address)
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

/// Agent that listens.
#[derive(Debug)]
pub struct Serving {
    agent: Agent,
    listeners: Arc<[TcpListener]>,
    access: Access,
    address: SocketAddr,
    stopping: Arc<AtomicBool>,
}

/// Handle that ends a [`Serving`] from another thread.
#[derive(Clone, Debug)]
pub struct Stopper {
    address: SocketAddr,
    stopping: Arc<AtomicBool>,
}

impl Stopper {
    /// Makes [`Serving::run`] return. Sessions that run are cut off.
    pub fn stop(&self) {
        self.stopping.store(true, Ordering::Relaxed);
        wake(self.address);
    }
}

impl Serving {
    /// Returns the address on which it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns a handle that ends it.
    #[must_use]
    pub fn stopper(&self) -> Stopper {
        Stopper { address: self.address, stopping: Arc::clone(&self.stopping) }
    }

    /// Serves until one campaign has ended and no other runs, whoever conducts them.
    pub fn run_once(self) {
        // It is set once: a service begins once.
        let _ = self.agent.shared.once.set(self.stopper());
        self.run();
    }

    /// Serves conductors until stopped.
    pub fn run(self) {
        let Self { agent, listeners, access, stopping, .. } = self;
        let shared = Arc::clone(&agent.shared);
        // Here, because the process has its final user now.
        if let Some(Err(error)) = shared.port.get().map(SharedPort::open_for_datagrams) {
            (shared.options.notify)(&format!(
                "datagrams of trials get ports of their own, which a firewall must let through: \
                    {error}"
            ));
        }
        let entrance = Arc::new(Entrance { shared: Arc::clone(&shared), access });
        // A forgotten key must end a live session too, which only looks at its key once.
        let watching = watch(&entrance, &stopping);
        if let Err(error) = &watching {
            (shared.options.notify)(&format!("cannot end sessions of forgotten hosts: {error}"));
        }
        if let Err(error) = accept_all(&listeners, &stopping, &entrance) {
            (shared.options.notify)(&format!("cannot accept connections any more: {error}"));
        }
        for place in [&agent.shared.measuring, &agent.shared.tuning] {
            for holder in place.state().holders() {
                // Its thread frees the place itself, after it has put everything back.
                (holder.closer)();
            }
        }
        if let Ok(watching) = watching {
            // The thread ends within a period: it checks `stopping` each time.
            let _ = watching.join();
        }
    }
}

/// Reception of strangers at the control port.
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
        let port = self.shared.port.get();
        if let Some(data) = port.and_then(|port| ports::opening(port, bytes)) {
            return data;
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

    fn pass_on(&self, bytes: &[u8], socket: TcpStream) {
        if let Some(port) = self.shared.port.get() {
            port.pass_on(bytes, socket);
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

/// Starts a thread that ends the sessions of conductors whose keys were forgotten, until
/// `stopping`.
fn watch(entrance: &Arc<Entrance>, stopping: &Arc<AtomicBool>) -> io::Result<JoinHandle<()>> {
    /// A forgotten conductor's session ends within a second, and reading the list is cheap.
    const PERIOD: Duration = Duration::from_millis(250);
    let (entrance, stopping) = (Arc::clone(entrance), Arc::clone(stopping));
    thread::Builder::new().name("linerate-watch".into()).spawn(move || {
        let Entrance { shared, access: Access::Paired(keys) } = &*entrance else { return };
        while !stopping.load(Ordering::Relaxed) {
            thread::sleep(PERIOD);
            for place in [&shared.measuring, &shared.tuning] {
                let state = place.state();
                for holder in state.holders() {
                    let Some(key) = holder.key else { continue };
                    // An unreadable list ends no session; new ones are refused meanwhile.
                    if keys.may(key, Right::Conduct).is_ok_and(|may| !may) {
                        (shared.options.notify)(&format!(
                            "{} is no longer paired: its session ends",
                            holder.by
                        ));
                        (holder.closer)();
                    }
                }
            }
        }
    })
}

/// Accepts a stranger's connection: opens TLS, or checks the user at the other end.
fn meet(shared: &Shared, access: &Access, socket: TcpStream) -> io::Result<Channel> {
    let timeouts = &shared.options.timeouts;
    let at = Instant::now() + timeouts.handshake;
    // Answers to pings measure clocks: they must not wait for more data.
    socket.set_nodelay(true)?;
    // A stranger must not occupy its thread longer than a handshake.
    socket.set_read_timeout(Some(timeouts.handshake))?;
    let mut first = [0];
    // Peeked, not read: TLS or the frame reader needs the first byte too.
    if socket.peek(&mut first)? == 0 {
        return Err(io::Error::other("it closed the connection without sending anything"));
    }
    match (access, first[0]) {
        (Access::Loopback, TLS_HANDSHAKE) => {
            Err(io::Error::other("it opened TLS, but no host has been paired with this one"))
        }
        (Access::Loopback, _) => {
            admit(&socket, &shared.options, timeouts)?;
            transport::plain(socket, Deadline::at(at), timeouts)
        }
        (Access::Paired(keys), TLS_HANDSHAKE) => {
            // Read at each handshake, so that a new or forgotten pairing counts at once.
            let known = keys.peers().map_err(io::Error::other)?;
            let conductors = known.iter().filter(|peer| peer.may(Right::Conduct));
            let trust = Trust::Known(conductors.map(|peer| peer.key).collect());
            let connection = tls::accept(socket.try_clone()?, keys, trust, at)?;
            transport::secured(connection, &socket, Deadline::at(at), timeouts)
        }
        (Access::Paired(_), _) => {
            let why =
                "this agent serves paired hosts over TLS only (run `linerate pair`)".to_owned();
            refuse(&socket, why, timeouts)?;
            Err(io::Error::other("it does not use TLS"))
        }
    }
}

/// Admits the agent's own user, root, and the users that the host's owner names. Sends a refusal to
/// all others.
fn admit(socket: &TcpStream, options: &AgentOptions, timeouts: &Timeouts) -> io::Result<()> {
    // Loopback is open to every user of this host, so the user decides.
    let user = local::user_of(socket);
    let (own, named) = (options.owner, &options.local_users);
    let why = match user {
        Ok(user) if user == 0 || user == own || named.contains(&user) => return Ok(()),
        Ok(user) => format!(
            "this agent was started by user {own} and serves that user and root; the owner of this \
                host can admit user {user} with `local_users = [{user}]` in its policy"
        ),
        Err(error) => error.to_string(),
    };
    refuse(socket, why.clone(), timeouts)?;
    Err(io::Error::other(why))
}

/// Sends a stranger the reason of its refusal.
fn refuse(socket: &TcpStream, why: String, timeouts: &Timeouts) -> io::Result<()> {
    socket.set_write_timeout(Some(timeouts.handshake))?;
    let refusal = Message::Refused { version: PROTOCOL_VERSION, release: RELEASE.into(), why };
    write(&mut &*socket, &refusal).map_err(io::Error::other)
}
