//! Ports that somebody other than the tool counts: an independent observer of the load
//! (docs/methodology/papers.md#sources, S4.4).

use serde::{Deserialize, Serialize};

/// A port whose frames an observer counts: a switch's, read over SNMP, or a kernel's. Its readings
/// are recorded with each trial under the observer's name, in the columns of
/// [`crate::series::observer`], instance the port. Where it is reached and by which secret is not
/// known here.
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
    /// How it is asked; `None` in ledgers of versions that did not record it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<ObserverKind>,
}

/// The way in which an observer is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ObserverKind {
    /// Its kernel, which is this machine's.
    Kernel,
    /// Over SNMP.
    Snmp,
}
