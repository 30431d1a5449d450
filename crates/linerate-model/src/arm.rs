//! Comparisons: two arms measured in turn, pair by pair
//! (docs/methodology/with-and-without.md#the-figure).
//!
//! Every trial of a comparison carries its [`Arm`], so that a ledger can be judged without its
//! plan. Trials of equal sweep, point (the arm apart) and repeat are one pair: they share a seed
//! and are run one after the other. A mix, every job alone and all together, has arms likewise.

use serde::{Deserialize, Serialize};

use crate::{Metric, Ratio};

/// Coordinate that names the arm of a comparison.
pub const ARM_AXIS: &str = "arm";
/// The coordinate of a mix that is measured at fixed loads too: what is offered.
pub const OFFERED_AXIS: &str = "offered";
/// Its value where every job goes as fast as it can.
pub const SATURATION: &str = "saturation";

/// Membership of a trial in a comparison.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Arm {
    /// Name of the arm.
    pub name: String,
    /// Which one it is.
    pub role: Role,
    /// The least relative difference that counts as one.
    pub margin: Ratio,
    /// Settings made at hosts for the measurement and restored afterwards.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub settings: Vec<HostSetting>,
    /// Hypothesis that the comparison tests, if it was made for one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tests: Option<Hypothesis>,
    /// In a mix: the number that each job of the trial has when all run together. Empty in a
    /// comparison.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub jobs: Vec<u32>,
    /// In a mix at a fixed load: this share of what each job reached alone, as fast as it went, is
    /// offered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offered: Option<Ratio>,
}

impl Arm {
    /// An arm that nothing is set for.
    #[must_use]
    pub fn new(name: impl Into<String>, role: Role, margin: Ratio) -> Self {
        let (settings, tests, jobs, offered) = (Vec::new(), None, Vec::new(), None);
        Self { name: name.into(), role, margin, settings, tests, jobs, offered }
    }
}

/// A claim about what limits a path, put to the test by changing what it says is the limit
/// (docs/methodology/diagnosis.md#verdict).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Hypothesis {
    /// The diagnosis rule whose claim it is.
    pub rule: String,
    /// Factor by which the change should multiply the metric if the claim is true: smallest and
    /// largest.
    pub ratio: [Ratio; 2],
    /// The metric; goodput, or the transfer rate of a disk or file, where it is absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metric: Option<&'static Metric>,
    /// Verdict on the claim if goodput does not change by that factor.
    #[serde(default, skip_serializing_if = "Failing::is_usual")]
    pub failing: Failing,
    /// Error probability of this look, where a claim is examined several times: a share of 5 %.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Ratio>,
}

/// Verdict on a claim whose change did not make the predicted difference.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Failing {
    /// The claim is wrong: the change was of the limit itself.
    #[default]
    Refutes,
    /// Nothing: the change spares some of what is scarce, and what is scarce may go elsewhere.
    SaysNothing,
}

impl Failing {
    /// Of the name it has in plans.
    #[must_use]
    pub fn of(name: &str) -> Option<Self> {
        [Self::Refutes, Self::SaysNothing].into_iter().find(|failing| failing.name() == name)
    }

    /// As plans and ledgers write it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Refutes => "refutes",
            Self::SaysNothing => "says_nothing",
        }
    }

    fn is_usual(&self) -> bool {
        // Ledgers leave out the usual value, so that older versions read them as before.
        *self == Self::default()
    }
}

/// Which arm of a comparison or mix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The arm without the change, with which the other is compared.
    Base,
    /// With.
    Changed,
    /// The first, or a job alone, once more under another name, or with a change that should make
    /// no difference: whatever differs is noise.
    Placebo,
    /// In a mix: one job without the others.
    Alone,
    /// In a mix: all jobs at once.
    Together,
}

/// Something set at a host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostSetting {
    /// The endpoint whose host and interface are meant.
    pub at: String,
    /// Name of the setting, one of [`HOST_SETTINGS`].
    pub name: String,
    /// To what.
    pub value: String,
}

/// Settings that an arm can make at a host, and the form of their values.
pub const HOST_SETTINGS: [(&str, &str); 16] = [
    (
        "adaptive_rx",
        "\"1\" if the driver of the endpoint's interface adapts how long it waits before it \
            interrupts, \"0\" if not",
    ),
    (
        "cpu_quota",
        "CPU time of the control group that the endpoint's agent is in: \"150 %\" of a CPU, \"x2\" \
            for twice what it is, or \"none\" for no quota",
    ),
    (
        "gro",
        "\"1\" if the endpoint's interface merges received segments (generic receive \
            offload), \"0\" if not",
    ),
    (
        "gso",
        "\"1\" if segments are cut behind the queue of the endpoint's interface (generic \
            segmentation offload), \"0\" before",
    ),
    (
        "irq_cpus",
        "CPUs that the queues of the endpoint's interface may interrupt, a hexadecimal mask for \
            all of them",
    ),
    (
        "net.ipv4.tcp_congestion_control",
        "congestion control of connections that name none: \"cubic\"",
    ),
    (
        "net.ipv4.tcp_rmem",
        "least, default and largest receive buffer, bytes: \"4096 131072 6291456\"",
    ),
    ("net.ipv4.tcp_wmem", "least, default and largest send buffer, bytes"),
    (
        "rps_cpus",
        "CPUs that packets received at the endpoint's interface are spread to, a hexadecimal \
            mask: \"2\" is CPU 1, \"0\" none, \"all\" those the agent may run on",
    ),
    ("rx_frames", "packets that the endpoint's interface waits for before it interrupts"),
    ("rx_ring", "descriptors of the receive ring of the endpoint's interface"),
    (
        "rx_usecs",
        "microseconds that the endpoint's interface waits after a packet before it interrupts",
    ),
    (
        "threaded",
        "\"1\" if polling of the endpoint's interface runs in threads of its own (threaded \
            NAPI), \"0\" in softirqs",
    ),
    (
        "tso",
        "\"1\" if the endpoint's interface cuts segments of TCP itself (segmentation \
            offload), \"0\" if the kernel does",
    ),
    ("tx_ring", "descriptors of the transmit ring of the endpoint's interface"),
    (
        "xps_cpus",
        "CPUs that send through each transmit queue of the endpoint's interface, a hexadecimal \
            mask",
    ),
];
