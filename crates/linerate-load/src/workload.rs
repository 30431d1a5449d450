//! The contract between the engine and a workload.

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use linerate_disk::Disks;
use linerate_model::{
    Bytes, Endpoint, FlowReport, FlowTcp, Load, Nanos, ParamError, Params, PeerClock, Side,
};
use serde::{Deserialize, Serialize};

use crate::tally::Times;
use crate::{Due, LoadError, Parameter, Permits, Result, SharedPort, Tally};

/// Proof of belonging to the session: data connections open with it, datagrams carry it, and
/// whatever lacks it is counted as foreign and dropped.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Secret(pub [u8; 16]);

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// Inputs of a workload that starts one end of a job.
#[derive(Clone, Debug)]
pub struct Setup<'a> {
    /// The job's parameters, already checked.
    pub params: &'a Params,
    /// This end: address and device to bind to, CPUs to run on.
    pub local: &'a Endpoint,
    /// Seed of everything random at this end.
    pub seed: u64,
    /// The session's secret.
    pub secret: Secret,
    /// How long opening connections may take.
    pub patience: Duration,
    /// The disks and files of this session: what loads read and write, and may write.
    pub disks: &'a Disks,
    /// Spans of the trial, for buffers that must be sized beforehand: from start barrier to the end
    /// of the load.
    pub loaded: Duration,
    /// How the clock of the other end stands to this end's; `None` if it is the same, or not known.
    pub peer_clock: Option<PeerClock>,
    /// Permissions that the owner of this host gives to loads.
    pub permits: &'a Permits,
    /// Port of the agent, for data too; `None` if the agent does not listen.
    pub shared_port: Option<&'a SharedPort>,
    /// Addresses of this host that its control connections use.
    pub control: &'a [IpAddr],
}

impl<'a> Setup<'a> {
    /// Returns the setup of an end without disks, limits and control connection, for a load of one
    /// second.
    #[must_use]
    pub fn alone(params: &'a Params, local: &'a Endpoint, secret: Secret) -> Self {
        static NO_DISKS: Disks = Disks::none();
        const SECOND: Duration = Duration::from_secs(1);
        Self {
            params,
            local,
            seed: 1,
            secret,
            patience: SECOND,
            disks: &NO_DISKS,
            loaded: SECOND,
            peer_clock: None,
            permits: &Permits::EVERYTHING,
            shared_port: None,
            control: &[],
        }
    }
}

/// How long a passive end waits for its flows.
#[derive(Clone, Copy, Debug)]
pub struct Patience<'a> {
    /// The longest wait.
    pub longest: Duration,
    is_over: &'a AtomicBool,
}

impl<'a> Patience<'a> {
    /// Returns a wait of at most `longest`, which ends once `is_over` is set: nobody connects to a
    /// trial that has failed at its other end.
    #[must_use]
    pub fn until(longest: Duration, is_over: &'a AtomicBool) -> Self {
        Self { longest, is_over }
    }

    /// Returns an error if the trial has ended meanwhile.
    pub(crate) fn check(&self) -> Result<()> {
        if self.is_over.load(Ordering::Relaxed) { Err(LoadError::Ended) } else { Ok(()) }
    }
}

impl From<Duration> for Patience<'static> {
    fn from(longest: Duration) -> Self {
        static NEVER: AtomicBool = AtomicBool::new(false);
        Self { longest, is_over: &NEVER }
    }
}

/// Offer of the passive end to the active one: the address to connect to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Offer {
    /// Addresses it listens on; a workload says in which order it uses them.
    pub addresses: Vec<SocketAddr>,
}

/// Ports that the passive end of a job listens on, all of its own host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct JobPorts {
    /// True for the port of its agent, if that listens.
    pub agent: bool,
    /// Port that the plan chooses.
    pub chosen: Option<u16>,
    /// True for ports that the kernel chooses.
    pub free: bool,
}

impl JobPorts {
    /// The agent's.
    pub const AGENT: Self = Self { agent: true, chosen: None, free: false };
    /// Some that the kernel chooses.
    pub const FREE: Self = Self { agent: false, chosen: None, free: true };
    /// None: the job has one end, or its server is another program.
    pub const NONE: Self = Self { agent: false, chosen: None, free: false };

    /// Returns the `chosen` port, else that of the agent, or with `own` one that the kernel
    /// chooses.
    #[must_use]
    pub fn of(chosen: Option<u16>, own: bool) -> Self {
        match chosen {
            Some(_) => Self { chosen, ..Self::NONE },
            None if own => Self::FREE,
            None => Self::AGENT,
        }
    }
}

/// A kind of stimulus.
pub trait Workload: Sync {
    /// The name plans use.
    fn name(&self) -> &'static str;

    /// One sentence: what it does and what its figures mean.
    fn summary(&self) -> &'static str;

    /// Its parameters: its own, then those it shares with other workloads.
    fn parameters(&self) -> Vec<Parameter>;

    /// Everything wrong with `params`.
    fn check(&self, params: &Params) -> Vec<ParamError>;

    /// Everything wrong with `params`, which are right by themselves, for traffic to `address`.
    fn check_to(&self, params: &Params, address: IpAddr) -> Vec<ParamError> {
        let _ = (params, address);
        Vec::new()
    }

    /// The IP packet each of its datagrams or frames fills on a path of this MTU, so that a share
    /// of the path's ceiling is a rate; `None` where they differ, or it sends none.
    fn packet(&self, params: &Params, mtu: Bytes) -> Option<Bytes> {
        let _ = (params, mtu);
        None
    }

    /// Memory that the end on this side needs at the most with these parameters, bytes: what
    /// linerate allocates, and not what the kernel queues for its sockets. `None` if the parameters
    /// are wrong, or it is not known.
    fn memory(&self, params: &Params, side: Side) -> Option<u64> {
        let _ = (params, side);
        None
    }

    /// Ports that its passive end listens on, which a firewall must let through; `None` if the
    /// parameters are wrong.
    fn ports(&self, params: &Params) -> Option<JobPorts> {
        let _ = params;
        Some(JobPorts::AGENT)
    }

    /// Returns true if it runs over an interface's loopback, where the tester's own limits are
    /// measured.
    fn runs_on_loopback(&self) -> bool {
        true
    }

    /// Starts the passive end: binds and listens.
    ///
    /// # Errors
    /// If an address cannot be bound or an option is refused.
    fn listen(&self, setup: &Setup<'_>) -> Result<Box<dyn Listener>>;

    /// Starts the active end: connects every flow to what the passive end offered, and deals the
    /// flows to workers.
    ///
    /// # Errors
    /// If a connection cannot be opened within `setup.patience`.
    fn connect(&self, setup: &Setup<'_>, offer: &Offer) -> Result<Workers>;
}

/// The passive end before its flows have arrived.
pub trait Listener: Send {
    /// Where to connect to.
    fn offer(&self) -> Offer;

    /// Waits for every flow and deals them to workers. Called on its own thread, while the active
    /// end connects.
    ///
    /// # Errors
    /// If not all flows arrived within `patience`, or the trial ended before; connections and
    /// datagrams without the secret do not count.
    fn accept(self: Box<Self>, patience: Patience<'_>) -> Result<Workers>;
}

/// Outcome of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Something moved.
    Moved,
    /// Nothing could be done within the worker's patience (at most a few milliseconds were spent
    /// waiting).
    Idle,
    /// This worker has nothing more to do: every flow has ended.
    Ended,
}

/// Workers of one end of a job.
pub type Workers = Vec<Box<dyn Worker>>;

/// One thread's share of a workload: some flows, and how to move them.
///
/// The engine calls `step` from the start barrier to the end of the load, then `stop_sending` once,
/// then `step` with an empty [`Due`] until the drain is over or the worker says
/// [`Progress::Ended`], then `finish` once.
pub trait Worker: Send {
    /// How its operations are paced; this worker's share of the job's load. `Closed` is never
    /// paced.
    fn load(&self) -> Load {
        Load::Closed { depth: 1 }
    }

    /// How long after the start of the load its own begins; until then nothing is due, and `step`
    /// is called with an empty [`Due`].
    fn starts_after(&self) -> Nanos {
        Nanos(0)
    }

    /// Returns the histograms that it records into; the others get no memory.
    fn times(&self) -> Times {
        Times::ALL
    }

    /// Returns true if its thread should have priority over other programs, as far as the kernel
    /// permits.
    fn runs_first(&self) -> bool {
        false
    }

    /// Returns true if a step may wait for a disk for any length of time. A long step is then a
    /// stall of the tester only if the whole process was stopped.
    fn may_wait_for_disk(&self) -> bool {
        false
    }

    /// Returns true if its load has an end of its own: ending before the trial is then no incident.
    fn may_end_early(&self) -> bool {
        false
    }

    /// Returns true once a load with an end of its own has been sent, while the other direction may
    /// go on. Nothing is due from then on.
    fn has_sent_all(&self) -> bool {
        false
    }

    /// Returns the time of the last arrival, if the peer has sent everything and this worker waits
    /// for the rest, which may be lost. The wait is no part of the load.
    fn quiet_since(&self) -> Option<Nanos> {
        None
    }

    /// Does one batch: at most `due.operations` operations if it starts any; those it cannot start
    /// it puts off by [`Tally::defer`]. If it waits, then until `due.until` at most (ten
    /// milliseconds, or the next operation's time, or the end of the interval), even if the peer is
    /// silent. It never allocates, logs or panics.
    fn step(&mut self, due: Due, tally: &mut Tally) -> Progress;

    /// Appends the TCP state of its flows; `flows` has room for all of them. Called at the end of
    /// each interval.
    fn observe(&mut self, flows: &mut Vec<FlowTcp>) {
        let _ = flows;
    }

    /// Memory the kernel holds for what has arrived for its flows and was not read; `None` if
    /// unknown. Called like `observe`.
    fn held_bytes(&self) -> Option<u64> {
        None
    }

    /// How many flows `observe` reports.
    fn n_flows(&self) -> usize {
        0
    }

    /// The load is over: send nothing new, let the peer know, go on receiving.
    fn stop_sending(&mut self);

    /// The trial is over: counts what was started and is still open at `now`. Called once, before
    /// the last interval ends.
    fn leave_open(&mut self, now: Nanos, tally: &mut Tally) {
        let _ = (now, tally);
    }

    /// Why it could not go on, if it could not: asked for once, before `finish`.
    fn complaint(&self) -> Option<String> {
        None
    }

    /// The trial is over: says what is known of each flow, and closes them.
    fn finish(&mut self) -> Vec<FlowReport>;
}
