//! Comparisons: two arms measured in turn, pair by pair (methodology 6.6).
//!
//! Every trial of a comparison carries its [`Arm`], so that a ledger can be judged without its plan. Trials of equal sweep, point
//! (the arm apart) and repeat are one pair: they share a seed and are run one after the other.

use serde::{Deserialize, Serialize};

use crate::Ratio;

/// The coordinate that tells the arms of a comparison apart.
pub const ARM_AXIS: &str = "arm";

/// What makes a trial one of a comparison.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Arm {
    /// What it is called.
    pub name: String,
    /// Which one it is.
    pub role: Role,
    /// The least relative difference that counts as one.
    pub margin: Ratio,
    /// What is set at hosts while it is measured, and put back afterwards.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub settings: Vec<HostSetting>,
}

/// Which arm of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// What the other is compared with: without.
    Base,
    /// With.
    Changed,
    /// The first once more, under another name: whatever differs is noise.
    Placebo,
}

/// Something set at a host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostSetting {
    /// The endpoint whose host and interface are meant.
    pub at: String,
    /// What, one of [`HOST_SETTINGS`].
    pub name: String,
    /// To what.
    pub value: String,
}

/// What an arm can set at a host, and what its value is.
pub const HOST_SETTINGS: [(&str, &str); 2] = [
    ("net.ipv4.tcp_rmem", "least, default and largest receive buffer, bytes: \"4096 131072 6291456\""),
    ("net.ipv4.tcp_wmem", "least, default and largest send buffer, bytes"),
];
