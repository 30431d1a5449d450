//! The messages of the control protocol.

use std::net::IpAddr;

use linerate_load::{Offer, Secret};
use linerate_model::{
    Background, Endpoint, FlowReport, Incident, Interval, Lines, Params, PeerClock, Phases,
    SampleBlock, Side, TrialId,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::tune::{SettingState, TuneRequest};

/// First word of every session.
pub(crate) const PROTOCOL_MAGIC: &str = "linerate-control";
/// Version of the protocol spoken here; two ends work together only if theirs are equal.
pub const PROTOCOL_VERSION: u32 = 3;
/// The release named in greetings.
pub(crate) const RELEASE: &str = env!("CARGO_PKG_VERSION");

/// Who greets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HelloRole {
    /// Decides what is measured.
    Conductor,
    /// Measures.
    Agent,
    /// Offers to be paired.
    PairOffer,
    /// Accepts an offer to be paired.
    PairAccept,
}

/// The greeting: shape fixed for all versions, later ones may only add fields.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Greeting {
    /// [`PROTOCOL_MAGIC`].
    pub magic: String,
    /// Protocol version of the sender.
    pub version: u32,
    /// Release of the sender, for people.
    pub release: String,
    /// Who greets.
    pub role: HelloRole,
    /// The sender's name for itself, for people.
    #[serde(default)]
    pub name: String,
    /// The campaign a conductor conducts; an agent lets the same campaign take over its own stale
    /// session.
    #[serde(default)]
    pub campaign: String,
    /// Whether a conductor comes to change settings ([`Message::Tune`]) rather than to measure;
    /// both may be served at once.
    #[serde(default)]
    pub tunes: bool,
    /// Set by a conductor that comes only to ask what the host is, and by which device it reaches
    /// these addresses: it is answered and let go, beside whoever is served.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asks: Option<Vec<IpAddr>>,
    /// An agent's answer to `asks`: the addresses it has a route to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub routes: Vec<RouteDevice>,
    /// An agent's answer to `asks` too: what packets leave by where no route or device says it
    /// alone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub branches: Vec<Branches>,
    /// An agent's facts about its host.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub facts: Value,
}

/// The device by which a host reaches an address.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RouteDevice {
    /// The address asked for.
    pub destination: IpAddr,
    /// The interface that packets to it leave by.
    pub device: String,
}

/// The interfaces by which packets to an address leave a host, where its device only hands them on,
/// or several next hops share them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Branches {
    /// The address asked for.
    pub destination: IpAddr,
    /// The port of a bridge, or the devices of the next hops, of which each flow takes one.
    pub devices: Vec<String>,
}

impl Greeting {
    /// A greeting of this version.
    #[must_use]
    pub fn new(role: HelloRole, name: &str) -> Self {
        Self {
            magic: PROTOCOL_MAGIC.into(),
            version: PROTOCOL_VERSION,
            release: RELEASE.into(),
            role,
            name: name.into(),
            campaign: String::new(),
            tunes: false,
            asks: None,
            routes: Vec::new(),
            branches: Vec::new(),
            facts: Value::Null,
        }
    }
}

/// One end of one job, as given to the agent that carries it out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PreparedJob {
    /// The job's number in the trial.
    pub job: u32,
    /// Which end of it.
    pub side: Side,
    /// The workload's name in the registry.
    pub workload: String,
    /// Its parameters.
    pub params: Params,
    /// This end.
    pub local: Endpoint,
    /// Set for a background job.
    #[serde(default)]
    pub background: Option<Background>,
    /// Seed of everything random at this end.
    pub seed: u64,
    /// The session's secret, the same at both ends of the job.
    pub secret: Secret,
    /// How the clock of the job's other end stands to this end's; absent if it is the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peer_clock: Option<PeerClock>,
}

/// Everything an agent needs to know of a trial.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Prepare {
    /// Which trial.
    pub trial: TrialId,
    /// Its phases.
    pub phases: Phases,
    /// What this agent does in it.
    pub jobs: Vec<PreparedJob>,
    /// How long opening connections may take, ms.
    pub patience_ms: u64,
    /// Time between readings of the samplers, ms.
    pub sample_period_ms: u64,
    /// Interfaces to read besides those the endpoints name: legs among which the trial's flows are
    /// shared.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub legs: Vec<String>,
}

/// Where the passive end of a job listens.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobOffer {
    /// The job's number in the trial.
    pub job: u32,
    /// Where to connect to.
    pub offer: Offer,
}

/// Proof of knowing the pairing token.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PairProof {
    /// HMAC-SHA256, hexadecimal; what it covers is said in [`crate::pairing`].
    pub mac: String,
}

/// One message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Message {
    /// Both ways: the first message.
    Hello(Box<Greeting>),
    /// Agent: another conductor is being served.
    Busy {
        /// Which.
        by: String,
        /// For how long, seconds.
        since_s: u64,
    },
    /// Either end: no session comes about, and why.
    Refused {
        /// Protocol version of the sender.
        version: u32,
        /// Release of the sender.
        release: String,
        /// Why, for people.
        why: String,
    },
    /// Conductor: what time is it, and are you there?
    Ping {
        /// Comes back with the answer.
        n: u64,
        /// When it left, by the conductor's monotonic clock, ns; comes back too.
        #[serde(default, skip_serializing_if = "is_zero")]
        sent_ns: u64,
    },
    /// Agent: I am here, and it is this late.
    Pong {
        /// That of the ping.
        n: u64,
        /// The agent's monotonic clock when the ping arrived, ns.
        clock_ns: u64,
        /// That of the ping.
        #[serde(default, skip_serializing_if = "is_zero")]
        sent_ns: u64,
        /// The agent's monotonic clock when this left, ns; 0 if it does not say.
        #[serde(default, skip_serializing_if = "is_zero")]
        answered_ns: u64,
    },
    /// Conductor: get ready for a trial; listen for its passive jobs.
    Prepare(Box<Prepare>),
    /// Agent: this is where I listen.
    Offers {
        /// Which trial.
        trial: TrialId,
        /// One per passive job of this agent.
        offers: Vec<JobOffer>,
    },
    /// Conductor: connect your active jobs, accept for your passive ones.
    Connect {
        /// Which trial.
        trial: TrialId,
        /// One per active job of the agent.
        offers: Vec<JobOffer>,
    },
    /// Agent: every flow is open and the samplers read.
    Ready {
        /// Which trial.
        trial: TrialId,
    },
    /// Conductor: the start barrier, on the agent's own monotonic clock, ns.
    StartAt {
        /// Which trial.
        trial: TrialId,
        /// When the measured jobs start.
        clock_ns: u64,
    },
    /// Agent: workers counted.
    Intervals {
        /// Which trial.
        trial: TrialId,
        /// Which job of it.
        job: u32,
        /// Which end.
        side: Side,
        /// What they counted.
        intervals: Vec<Interval>,
    },
    /// Agent: one end of a job ended.
    FlowsEnded {
        /// Which trial.
        trial: TrialId,
        /// Which job of it.
        job: u32,
        /// Which end.
        side: Side,
        /// Its flows.
        flows: Vec<FlowReport>,
    },
    /// Agent: what the samplers read.
    Samples {
        /// Which trial.
        trial: TrialId,
        /// The readings.
        block: Box<SampleBlock>,
    },
    /// Agent: something went wrong, the trial goes on.
    Incident {
        /// During which trial.
        trial: Option<TrialId>,
        /// What; its `host` is filled in by the conductor.
        incident: Incident,
    },
    /// Agent: the trial has ended here; the last message about it.
    Done {
        /// Which trial.
        trial: TrialId,
        /// When each end of a measured job really started, on the agent's monotonic clock, ns;
        /// empty if none did.
        #[serde(default)]
        started_ns: Vec<u64>,
        /// Why it could not be carried out; absent if it was, or if it was aborted on request.
        #[serde(default)]
        failed: Option<String>,
    },
    /// Conductor: end the trial now.
    Abort {
        /// Which trial.
        trial: TrialId,
    },
    /// Conductor, in a session that tunes: settings of the host are wanted or to be changed.
    Tune {
        /// Comes back with the answer.
        n: u64,
        /// What is wanted.
        request: TuneRequest,
    },
    /// Agent: what became of the request.
    Tuned {
        /// That of the request.
        n: u64,
        /// The settings it named, as they are now.
        states: Vec<SettingState>,
        /// Why it was not done; then nothing of it was.
        #[serde(default)]
        failed: Option<String>,
    },
    /// Conductor: that was all.
    Goodbye,
    /// Pairing: proof of knowing the token.
    PairProof(PairProof),
    /// Pairing: your key is kept.
    Paired,
}

/// Whether a stamp was not set: it is left out then.
fn is_zero(stamp_ns: &u64) -> bool {
    *stamp_ns == 0
}

/// A message's name on the wire.
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

/// Longest text of a peer that is shown to a person, characters.
const SHOWN: usize = 500;

/// A peer's words, fit to be shown on a terminal: control characters (escape sequences) are written
/// out, and there is an end.
#[must_use]
pub fn printable(text: &str) -> String {
    let end = text.char_indices().nth(SHOWN).map_or(text.len(), |(at, _)| at);
    linerate_model::printable(&text[..end], Lines::One).into_owned()
}
