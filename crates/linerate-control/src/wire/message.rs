//! Messages of the control protocol.

use std::net::IpAddr;

use linerate_load::{Offer, Secret};
use linerate_model::{
    Background, Endpoint, FlowReport, Incident, Interval, Lines, Params, PeerClock, Phases,
    SampleBlock, Side, TrialId,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::share::Share;
use super::tune::{SettingState, TuneRequest};

/// First word of every session.
pub(crate) const PROTOCOL_MAGIC: &str = "linerate-control";
/// Version of the protocol. Two ends work together only if their versions are equal.
pub const PROTOCOL_VERSION: u32 = 4;
/// Release named in greetings.
pub(crate) const RELEASE: &str = env!("CARGO_PKG_VERSION");

/// Role of the sender of a greeting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HelloRole {
    /// Chooses the measurements.
    Conductor,
    /// Measures.
    Agent,
    /// Offers to be paired.
    PairOffer,
    /// Accepts an offer to be paired.
    PairAccept,
}

/// Greeting. Its shape is the same in all versions; later ones may only add fields.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Greeting {
    /// `PROTOCOL_MAGIC`.
    pub magic: String,
    /// Protocol version of the sender.
    pub version: u32,
    /// Release of the sender, for people.
    pub release: String,
    /// Role of the sender.
    pub role: HelloRole,
    /// Name of the sender, for people.
    #[serde(default)]
    pub name: String,
    /// Campaign of a conductor. A new session of the same campaign replaces a stale one.
    #[serde(default)]
    pub campaign: String,
    /// Time that the conductor's campaign is expected to take, seconds; 0 if unknown.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub lasts_s: u64,
    /// Number by which an agent recognizes a conductor that asks again while it waits for its turn:
    /// the time at which its command began, ns since 1970. Of those that wait, the lowest comes
    /// first. 0 in releases that do not wait.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub turn: u64,
    /// True if another campaign of the conductor's command follows, for which it needs the agent
    /// again.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub returns: bool,
    /// Part of the host that the conductor uses; absent if it needs all of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share: Option<Share>,
    /// True if a conductor wants to change settings ([`Message::Tune`]) and not to measure. An
    /// agent serves one such conductor at a time.
    #[serde(default)]
    pub tunes: bool,
    /// Set by a conductor that only wants the host's facts, and its routes to these addresses. It
    /// is answered even while another conductor is served, and its session ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asks: Option<Vec<IpAddr>>,
    /// Answer of an agent to `asks`: its routes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub routes: Vec<RouteDevice>,
    /// Answer of an agent to `asks`: bridge ports and next hops of destinations that no single
    /// device describes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub branches: Vec<Branches>,
    /// Facts of an agent about its host.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub facts: Value,
}

/// Route of a host: the device by which it reaches an address.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RouteDevice {
    /// Requested address.
    pub destination: IpAddr,
    /// Interface by which packets to it leave.
    pub device: String,
}

/// Interfaces by which packets to an address leave a host, if the route's device only forwards them
/// or several next hops share them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Branches {
    /// Requested address.
    pub destination: IpAddr,
    /// Port of a bridge, or the devices of the next hops, of which each flow uses one.
    pub devices: Vec<String>,
}

impl Greeting {
    /// Creates a greeting of this version.
    #[must_use]
    pub fn new(role: HelloRole, name: &str) -> Self {
        Self {
            magic: PROTOCOL_MAGIC.into(),
            version: PROTOCOL_VERSION,
            release: RELEASE.into(),
            role,
            name: name.into(),
            campaign: String::new(),
            lasts_s: 0,
            turn: 0,
            returns: false,
            share: None,
            tunes: false,
            asks: None,
            routes: Vec::new(),
            branches: Vec::new(),
            facts: Value::Null,
        }
    }
}

/// End of a job, as sent to the agent that carries it out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PreparedJob {
    /// Number of the job in the trial.
    pub job: u32,
    /// End of the job.
    pub side: Side,
    /// Name of the workload in the registry.
    pub workload: String,
    /// Its parameters.
    pub params: Params,
    /// Endpoint of this end.
    pub local: Endpoint,
    /// Set for a background job.
    pub background: Option<Background>,
    /// Seed of everything random at this end.
    pub seed: u64,
    /// Secret of the session, the same at both ends of the job.
    pub secret: Secret,
    /// Clock of the job's other end in terms of this end's. Absent if it is the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peer_clock: Option<PeerClock>,
}

/// Specification of a trial for one agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Prepare {
    /// The trial.
    pub trial: TrialId,
    /// Its phases.
    pub phases: Phases,
    /// Ends of jobs at this agent.
    pub jobs: Vec<PreparedJob>,
    /// Longest time for opening connections, ms.
    pub patience_ms: u64,
    /// Interval between readings of the samplers, ms.
    pub sample_period_ms: u64,
    /// Interfaces to read besides those of the endpoints: legs among which the trial's flows are
    /// shared.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub legs: Vec<String>,
    /// True if counts are wanted ten times a second, for a viewer. Between hosts they share the
    /// path with the load: on a way back of 0.1 Mbit/s they would take the place of half of the
    /// acknowledgements.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub counts_often: bool,
}

/// Addresses on which the passive end of a job listens.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobOffer {
    /// Number of the job in the trial.
    pub job: u32,
    /// Addresses to connect to.
    pub offer: Offer,
}

/// Proof of knowing the pairing token.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PairProof {
    /// HMAC-SHA256, hexadecimal. [`crate::pairing`] defines its input.
    pub mac: String,
}

/// Message of the protocol.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Message {
    /// Both ways: the first message.
    Hello(Box<Greeting>),
    /// Agent: another conductor is being served.
    Busy {
        /// Name of that conductor, and what of the host both need, for people.
        by: String,
        /// Duration of its session so far, seconds.
        since_s: u64,
        /// Time that it is expected to take from now on, seconds; 0 if unknown.
        #[serde(default, skip_serializing_if = "is_zero")]
        left_s: u64,
        /// Number of conductors that wait and come first.
        #[serde(default, skip_serializing_if = "is_zero")]
        ahead: u64,
    },
    /// Either end: the session is refused.
    Refused {
        /// Protocol version of the sender.
        version: u32,
        /// Release of the sender.
        release: String,
        /// Reason, for people.
        why: String,
    },
    /// Conductor: heartbeat and query of the agent's clock.
    Ping {
        /// Number, repeated in the answer.
        n: u64,
        /// Time of sending on the conductor's monotonic clock, ns; repeated in the answer.
        #[serde(default, skip_serializing_if = "is_zero")]
        sent_ns: u64,
    },
    /// Agent: answer to a ping.
    Pong {
        /// Number of the ping.
        n: u64,
        /// Time at which the ping arrived, on the agent's monotonic clock, ns.
        clock_ns: u64,
        /// Time of sending in the ping.
        #[serde(default, skip_serializing_if = "is_zero")]
        sent_ns: u64,
        /// Time of sending of this answer on the agent's monotonic clock, ns; 0 if unknown.
        #[serde(default, skip_serializing_if = "is_zero")]
        answered_ns: u64,
    },
    /// Conductor: prepare a trial, and listen for its passive jobs.
    Prepare(Box<Prepare>),
    /// Agent: the addresses on which it listens.
    Offers {
        /// The trial.
        trial: TrialId,
        /// One per passive job of this agent.
        offers: Vec<JobOffer>,
    },
    /// Conductor: connect the active jobs, and accept connections of the passive ones.
    Connect {
        /// The trial.
        trial: TrialId,
        /// One per active job of the agent.
        offers: Vec<JobOffer>,
    },
    /// Agent: every flow is open, and samplers have started.
    Ready {
        /// The trial.
        trial: TrialId,
    },
    /// Conductor: the start barrier.
    StartAt {
        /// The trial.
        trial: TrialId,
        /// Start of the measured jobs on the agent's own monotonic clock, ns.
        clock_ns: u64,
    },
    /// Agent: counts of workers.
    Intervals {
        /// The trial.
        trial: TrialId,
        /// Number of the job.
        job: u32,
        /// End of the job.
        side: Side,
        /// The counts.
        intervals: Vec<Interval>,
    },
    /// Agent: one end of a job ended.
    FlowsEnded {
        /// The trial.
        trial: TrialId,
        /// Number of the job.
        job: u32,
        /// End of the job.
        side: Side,
        /// Its flows.
        flows: Vec<FlowReport>,
    },
    /// Agent: readings of the samplers.
    Samples {
        /// The trial.
        trial: TrialId,
        /// The readings.
        block: Box<SampleBlock>,
    },
    /// Agent: something went wrong, and the trial goes on.
    Incident {
        /// The present trial, if any.
        trial: Option<TrialId>,
        /// Its description. The conductor sets its `host`.
        incident: Incident,
    },
    /// Agent: the trial has ended here. This is the last message about it.
    Done {
        /// The trial.
        trial: TrialId,
        /// Actual start of each end of a measured job on the agent's monotonic clock, ns. Empty if
        /// none started.
        #[serde(default)]
        started_ns: Vec<u64>,
        /// When all workers were ready to start, on the agent's monotonic clock, ns. Absent if none
        /// was, and of versions that did not say it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        ready_ns: Option<u64>,
        /// Reason of a failure. Absent if the trial succeeded or was aborted on request.
        failed: Option<String>,
    },
    /// Conductor: end the trial at once.
    Abort {
        /// The trial.
        trial: TrialId,
    },
    /// Conductor that tunes: request about settings of the host.
    Tune {
        /// Number, repeated in the answer.
        n: u64,
        /// The request.
        request: TuneRequest,
    },
    /// Agent: answer to a request about settings.
    Tuned {
        /// Number of the request.
        n: u64,
        /// The requested settings with their present values.
        states: Vec<SettingState>,
        /// Reason of a failure. Then nothing was changed.
        failed: Option<String>,
    },
    /// Conductor: end of the session.
    Goodbye,
    /// Pairing: proof of knowing the token.
    PairProof(PairProof),
    /// Pairing: the other end's key has been stored.
    Paired,
}

/// Returns whether a number is unset. Unset ones are not sent.
fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// Returns a message's name on the wire.
#[must_use]
pub fn name(message: &Message) -> &'static str {
    match message {
        Message::Hello(_) => "hello",
        Message::Busy { .. } => "busy",
        Message::Refused { .. } => "refused",
        Message::Ping { .. } => "ping",
        Message::Pong { .. } => "pong",
        Message::Prepare(_) => "prepare",
        Message::Offers { .. } => "offers",
        Message::Connect { .. } => "connect",
        Message::Ready { .. } => "ready",
        Message::StartAt { .. } => "start_at",
        Message::Intervals { .. } => "intervals",
        Message::FlowsEnded { .. } => "flows_ended",
        Message::Samples { .. } => "samples",
        Message::Incident { .. } => "incident",
        Message::Done { .. } => "done",
        Message::Abort { .. } => "abort",
        Message::Tune { .. } => "tune",
        Message::Tuned { .. } => "tuned",
        Message::Goodbye => "goodbye",
        Message::PairProof(_) => "pair_proof",
        Message::Paired => "paired",
    }
}

/// Most characters of a peer's text that are shown to a person.
const SHOWN: usize = 500;

/// Makes a peer's text safe for a terminal: escapes control characters and limits its length.
#[must_use]
pub fn printable(text: &str) -> String {
    let end = text.char_indices().nth(SHOWN).map_or(text.len(), |(at, _)| at);
    linerate_model::printable(&text[..end], Lines::One).into_owned()
}
