//! Every shape: the evidence behind it, the measurements it is judged by, and the effect whose
//! absence makes it miss.
//!
//! A shape without an entry cannot be made, and a test makes each entry miss
//! (`every_shape_misses_where_its_effect_is_absent`).

use serde::{Deserialize, Serialize};

/// Source of the agreement between a paper and us.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Evidence {
    /// This machine's own CPUs, caches and kernel: no setting of a lab bounds the figure.
    #[default]
    Measured,
    /// A lab with the paper's rates and buffers. The expected value is not among its settings.
    Emulated,
    /// A lab, and the expected value follows from its settings. Agreement proves that the lab and
    /// the tool work, and nothing of the paper's machine.
    Circular,
    /// The paper's printed figures. Nothing was measured.
    Computed,
}

impl Evidence {
    /// Every kind, in the order of a report.
    pub const ALL: [Self; 4] = [Self::Measured, Self::Emulated, Self::Computed, Self::Circular];

    /// Returns the word as printed.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Measured => "measured",
            Self::Emulated => "emulated",
            Self::Circular => "circular",
            Self::Computed => "computed",
        }
    }
}

/// A shape of a paper.
#[derive(Debug)]
pub struct Definition {
    /// Its number in docs/methodology/papers.md#shapes.
    pub id: &'static str,
    /// The evidence behind it.
    pub evidence: Evidence,
    /// The measurements it is judged by: a campaign of the recipe, and the begin of the names of
    /// its sweeps (empty: all).
    pub sources: Sources,
    /// The absent effect, or the mistake, that makes it miss.
    pub misses: &'static str,
}

impl Definition {
    /// Returns the names of the campaigns that it is judged by.
    #[must_use]
    pub fn campaigns(&self) -> Vec<String> {
        let mut names: Vec<String> =
            self.sources.iter().map(|(campaign, _)| (*campaign).to_owned()).collect();
        names.dedup();
        names
    }
}

use Evidence::{Circular, Computed, Emulated, Measured};

const fn of(
    id: &'static str,
    evidence: Evidence,
    sources: Sources,
    misses: &'static str,
) -> Definition {
    Definition { id, evidence, sources, misses }
}

type Sources = &'static [(&'static str, &'static str)];

const TABLES: Sources = &[("tables-default", ""), ("tables-tuned", "")];
const CAUSES: Sources = &[("causes-default", "stream, "), ("causes-tuned", "stream, ")];
const DRAWS: Sources = &[("draws-vic", ""), ("draws-expander", "")];
const PACKETS: Sources = &[("ports-vic", "packets"), ("ports-expander", "packets")];
const ONE_FLOW: Sources = &[("ports-vic", "one flow"), ("ports-expander", "one flow")];
const PLATFORMS: Sources = &[("sun-platform", ""), ("sun-slower", "")];

/// Every shape of every paper.
pub static SHAPES: [Definition; 80] = [
    of(
        "S1.2",
        Emulated,
        &[("causes-default", "console stream")],
        "the stream arrives with gaps: a tenth of its datagrams are lost",
    ),
    of(
        "S1.3",
        Emulated,
        &[("port-1g", "virtual media"), ("port-10g", "virtual media")],
        "the faster port halves the rate",
    ),
    of(
        "V1.1a",
        Emulated,
        &[("causes-default", "management")],
        "the load takes 3 % of the sideband",
    ),
    of(
        "V1.1b",
        Emulated,
        &[("causes-default", "management")],
        "one trial has two requests outstanding",
    ),
    of("V1.4", Circular, &[("port-100m", "stream")], "the stream reaches 90 % of the sideband"),
    of(
        "V1.5a",
        Emulated,
        &[("port-100m", "stream")],
        "a port of the sideband's rate still overruns it",
    ),
    of(
        "V1.5b",
        Emulated,
        &[("port-1g", "stream")],
        "a port of ten times the rate overruns nothing",
    ),
    of(
        "V1.6a",
        Emulated,
        &[("tables-tuned", "")],
        "the small window still overruns the controller",
    ),
    of("V1.6b", Emulated, TABLES, "the tuned seconds vary as much as the default ones"),
    of("V1.6c", Emulated, CAUSES, "the small window costs a modern sender 41 % (0.59)"),
    of("V1.6d", Emulated, CAUSES, "the legacy sender does not collapse, though another row does"),
    of("V1.7a", Emulated, &[("tables-default", "")], "one console receives 10 % less"),
    of("V1.7b", Emulated, &[("cpu", "share")], "the rate does not follow the share of a CPU"),
    of("V1.8a", Emulated, &[("tables-default", "")], "data from the BMC collapse too"),
    of("V1.8b", Emulated, &[("tables-default", "")], "data to the BMC keep 60 % in one pair"),
    of("V1.8c", Emulated, TABLES, "the small window gains 1.34 times"),
    of("V1.10", Emulated, TABLES, "the window is constant from the first interval on"),
    of("V1.11", Circular, &[("fire-hose", "burst")], "bursts of 8 frames pass without loss"),
    of("V1.12", Emulated, &[("fire-hose", "window")], "loss begins at two segments already"),
    of("V1.14", Computed, &[], "a printed average is changed by 0.01"),
    of(
        "V2.1a",
        Emulated,
        &[("sun-link", "buffers")],
        "the small buffer is as fast as the middle one",
    ),
    of("V2.1b", Emulated, &[("sun-link", "buffers")], "the rate does not follow the windows"),
    of(
        "V2.1c",
        Emulated,
        &[("sun-link", "buffers")],
        "the large buffer gains more than the link leaves",
    ),
    of("V2.1d", Measured, &[("sun-host", "messages")], "large messages are slower"),
    of(
        "V2.1e",
        Measured,
        &[("sun-host", "messages")],
        "small messages cost nothing each: the rate does not depend on their size",
    ),
    of("V2.1f", Measured, &[("sun-host", "messages")], "messages of 1 KiB are as fast as any"),
    of("V2.2a", Emulated, &[("sun-link", "connections")], "twenty connections carry less than ten"),
    of("V2.2b", Emulated, &[("sun-link", "connections")], "one connection starves"),
    of("V2.3", Measured, &[("sun-host", "cpus")], "two CPUs are slower than one"),
    of("V2.4", Circular, &[("sun-buses", "placement")], "one bus carries 90 % of its bound"),
    of("V2.5a", Emulated, PLATFORMS, "the platforms are equal"),
    of("V2.5b", Measured, &[("sun-platform", "")], "odd runs are slower"),
    of("V2.6a", Measured, &[("sun-host", "cost per packet")], "one size has no cost"),
    of("V2.6b", Measured, &[("sun-host", "cost per packet")], "the counter reads zero"),
    of("V2.9", Measured, PLATFORMS, "the second run lacks a row"),
    of("S3.8a", Circular, PACKETS, "the expander gains nothing"),
    of("S3.8b", Circular, DRAWS, "the expander gains nothing on one fabric"),
    of("S3.8c", Circular, DRAWS, "the expander gains nothing on two fabrics"),
    of(
        "V3.1a",
        Emulated,
        &[
            ("payload", ""),
            ("ports-vic", ""),
            ("ports-expander", ""),
            ("draws-vic", ""),
            ("draws-expander", ""),
            ("draws-polarised", ""),
        ],
        "one trial is above its ceiling",
    ),
    of("V3.1b", Circular, &[("payload", "payload, TCP")], "an idle CPU and 80 % of the port"),
    of(
        "V3.2a",
        Emulated,
        &[("ports-vic", "packets")],
        "the interface counted a tenth less than the application",
    ),
    of(
        "V3.2b",
        Emulated,
        &[("ports-expander", "packets")],
        "the interface counted a tenth less than the application",
    ),
    of("V3.2c", Emulated, &[("ports-vic", "packets")], "larger packets come more often"),
    of("V3.2d", Emulated, &[("ports-expander", "packets")], "larger packets come more often"),
    of("V3.2e", Circular, &[("ports-vic", "packets")], "the ports carry 90 %"),
    of("V3.2f", Circular, &[("ports-expander", "packets")], "the slot carries 90 %"),
    of("V3.4a", Circular, ONE_FLOW, "one flow uses two ports of the expander"),
    of("V3.4b", Circular, ONE_FLOW, "the second fabric adds nothing"),
    of("V3.4c", Emulated, DRAWS, "the hash is broken: every draw uses one link"),
    of("V3.4d", Circular, DRAWS, "draws carry half of what their links do"),
    of("V3.4e", Emulated, &[("draws-polarised", "")], "a hash of addresses spreads the flows"),
    of(
        "V3.6a",
        Measured,
        &[("placement", "receive queue")],
        "the receive queue was not moved in earnest: the placebo has an effect",
    ),
    of("V3.6b", Measured, &[("placement", "worker beside")], "the placebo has an effect"),
    of(
        "V3.7a",
        Emulated,
        &[("failover", "failover")],
        "no cable takes over: the outage is as long as without failover",
    ),
    of(
        "V3.7b",
        Circular,
        &[("failover", "failover")],
        "the outage is shorter than the time in which frames are lost",
    ),
    of("V3.7c", Emulated, &[("failover", "failover")], "one frame in ten is missing in the count"),
    of("S4.6", Emulated, &[("clients", "clients")], "half the frames are small"),
    of("V4.1a", Circular, &[("clients", "clients")], "the total keeps growing slowly past S/c"),
    of("V4.1b", Circular, &[("clients", "clients")], "a client past the knee costs 10 %"),
    of("V4.1c", Emulated, &[("clients", "clients")], "the best second is below the average"),
    of("V4.2a", Circular, &[("clients", "sinks")], "a slow disk takes more than its rate"),
    of("V4.2b", Emulated, &[("clients", "sinks")], "the sender does not wait for the window"),
    of(
        "V4.2c",
        Circular,
        &[("clients", "sinks"), ("clients", "clients")],
        "disks take a quarter of the null sink's rate or less",
    ),
    of("V4.3", Measured, &[("server", "data path")], "sendfile costs as much as copying"),
    of(
        "V4.4",
        Emulated,
        &[("clients", "clients")],
        "the port counts headers once for super-packets",
    ),
    of("V4.5", Measured, &[("server", "source")], "the cold file comes from the cache"),
    of(
        "V4.7a",
        Circular,
        &[("clients", "clients")],
        "six clients are needed where 3.4 are planned",
    ),
    of("V4.7b", Computed, &[], "the disks are slower: 20 clients follow"),
    of("S5.8", Emulated, &[("throughput", "throughput")], "the hop costs two steps"),
    of("V5.1", Computed, &[], "one efficiency is printed 0.1 too high"),
    of("V5.5a", Emulated, &[("latency", "load")], "loaded frames are faster than idle ones"),
    of("V5.5b", Circular, &[("latency", "bursts")], "the last frame of a burst does not wait"),
    of("V5.6a", Emulated, &[("mixed", "")], "the hop costs 15 %"),
    of("V5.6b", Circular, &[("shared-edge", "")], "the edge passes 10 % more than it has room for"),
    of("V5.7a", Circular, &[("throughput", "throughput")], "the frame rate falls with size"),
    of("V5.7b", Circular, &[("throughput", "throughput")], "a search ends above the line's rate"),
    of("V5.10a", Measured, &[("mixed", "")], "4 KiB of 100 MiB are missing"),
    of("V5.10b", Measured, &[("mixed", "")], "one transfer is not counted"),
    of("V5.10c", Measured, &[("mixed", "")], "both units print the same number"),
    of("V5.10d", Measured, &[("mixed", "")], "the queue is 20 % off Little's law"),
];

/// Returns the definition of the shape `id`.
pub(super) fn definition(id: &str) -> Option<&'static Definition> {
    SHAPES.iter().find(|shape| shape.id == id)
}
