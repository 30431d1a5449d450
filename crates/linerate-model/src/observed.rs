//! Ports that somebody other than the tool counts: an independent observer of the load
//! (docs/methodology/papers.md#sources, S4.4).

use serde::{Deserialize, Serialize};

/// A port whose frames an observer counts: a switch's, read over SNMP, or a kernel's. Its readings
/// are recorded with each trial under the observer's name, sampler [`ObservedPort::SAMPLER`],
/// instance the port. Where it is reached and by which secret is not known here.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObservedPort {
    /// The observer's name in the testbed.
    pub observer: String,
    /// The port, as the observer calls it.
    pub port: String,
    /// The endpoint behind the port: what it sends comes in here, and what it receives goes out.
    pub faces: String,
    /// True if octets are counted with the frame check sequence (RFC 3635 3.2.1 requires it; Linux
    /// leaves it out).
    pub counts_fcs: bool,
    /// Who counts, as it says itself.
    pub source: String,
}

impl ObservedPort {
    /// The sampler its series are recorded under.
    pub const SAMPLER: &str = "observer";
    /// Octets at L2 that came in at the port.
    pub const IN_OCTETS: &str = "in_octets";
    /// Frames that came in.
    pub const IN_PACKETS: &str = "in_packets";
    /// Frames that came in and were dropped, and those that came in damaged.
    pub const IN_DISCARDS: &str = "in_discards";
    /// See [`Self::IN_DISCARDS`].
    pub const IN_ERRORS: &str = "in_errors";
    /// Octets at L2 that went out.
    pub const OUT_OCTETS: &str = "out_octets";
    /// Frames that went out.
    pub const OUT_PACKETS: &str = "out_packets";
    /// Frames that should have gone out and were dropped, and those that could not be sent.
    pub const OUT_DISCARDS: &str = "out_discards";
    /// See [`Self::OUT_DISCARDS`].
    pub const OUT_ERRORS: &str = "out_errors";
    /// How often the port's counters began anew since the observation began.
    pub const RESETS: &str = "resets";
}
