//! Independent observers of a load: somebody else's counters of the frames that crossed a port
//! (docs/methodology/papers.md#sources, S4.4).
//!
//! A switch's port is read over SNMP (`snmp`), a bridge's or any other of this machine's from its
//! kernel (`kernel`). An observer is no sampler: it may be slow, silent or wrong, so it has a
//! thread of its own and is asked only while a trial runs, once a period, in one request of one
//! packet. Octets are of L2, from the destination address on; whether the frame check sequence is
//! among them is a fact of the observer.
//!
//! Not seen: frames that a switch does not count (flow control), and what became of a frame after
//! it was counted.

mod kernel;
mod port;
mod session;
mod snmp;
mod watch;

use core::fmt;
use std::time::Duration;

use linerate_model::{Nanos, ObservedPort};
pub use linerate_packet::snmp::Digest;

pub use watch::{Ending, Observed, Observer};

use crate::Unavailable;

/// One port of one observer, and how it is asked.
#[derive(Clone, Debug)]
pub struct ObserverSpec {
    /// The observer's name.
    pub name: String,
    /// The endpoint behind the port.
    pub faces: String,
    /// The port: what the observer calls it, or over SNMP also its `ifIndex`.
    pub interface: String,
    /// True if octets are counted with the frame check sequence; `None` to ask the observer for its
    /// description.
    pub counts_fcs: Option<bool>,
    /// The network namespace (as of `ip netns`) to ask in; this process's own if `None`.
    pub namespace: Option<String>,
    /// How often it is asked during a trial.
    pub period: Nanos,
    /// Who counts.
    pub source: ObserverSource,
}

/// Who counts.
#[derive(Clone, Debug)]
pub enum ObserverSource {
    /// This machine's kernel.
    Kernel,
    /// An SNMP agent.
    Snmp(SnmpAgent),
}

/// An SNMP agent and what it wants to know before it answers.
#[derive(Clone, Debug)]
pub struct SnmpAgent {
    /// `host:port`.
    pub address: String,
    /// Credentials.
    pub access: SnmpAccess,
    /// How long an answer may take.
    pub timeout: Duration,
}

/// Credentials of an observer. Never printed.
#[derive(Clone)]
pub enum SnmpAccess {
    /// SNMPv2c (RFC 1901).
    Community(String),
    /// SNMPv3 with the user-based security model (RFC 3414).
    User {
        /// Its name.
        name: String,
        /// Digest and password that prove who asks; none: nothing is proven.
        authentication: Option<(Digest, String)>,
        /// Password of AES-128 (RFC 3826); none: nothing is hidden. Needs authentication.
        privacy: Option<String>,
    },
}

impl fmt::Debug for SnmpAccess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Community(_) => f.write_str("Community(..)"),
            Self::User { name, .. } => write!(f, "User({name}, ..)"),
        }
    }
}

/// Something that can be asked for a port's counters.
trait Counting {
    /// Reads them, within a bounded time.
    ///
    /// # Errors
    /// Why there is no reading.
    fn read(&mut self) -> Result<port::Counts, Unavailable>;
}

/// Opens what `spec` names in the calling thread's network namespace.
fn open(spec: &ObserverSpec) -> Result<(Box<dyn Counting>, ObservedPort), Unavailable> {
    match &spec.source {
        ObserverSource::Kernel => kernel::open(spec),
        ObserverSource::Snmp(agent) => snmp::open(spec, agent),
    }
}
