//! Names of the models of calculators: which model, with which parameters.

use core::fmt;

use serde::{Deserialize, Serialize};

use crate::{BitRate, Bytes, Direction, Nanos, Ratio};

/// Model of a calculator with its parameters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "fields that are not explained are what they are called")]
pub enum ModelName {
    /// Window that a shallow buffer and its path hold.
    AckClocked,
    /// Ethernet link.
    Ethernet { rate: BitRate, frame: Bytes },
    /// Fibre Channel link; without `payload`, its rate after the line code.
    FibreChannel { speed: u32, payload: Option<Bytes> },
    /// Burst that a shallow buffer passes while it drains.
    Fluid,
    /// Window that a shallow buffer passes without draining.
    FrameGranular,
    /// Bytes that fill a path for one round trip.
    InFlight { rate: BitRate, rtt: Nanos },
    /// Square-root law of loss, with one acknowledgement for `segments`.
    Mathis { loss: Ratio, segments: f64 },
    /// Conventional PCI bus; without `bursts`, its peak.
    Pci { bits: u64, megahertz: u32, bursts: Option<(BusAccess, Bytes)> },
    /// PCI Express link; `is_approximate` for flits.
    Pcie { generation: u32, lanes: u32, load: PcieLoad, max_payload: Bytes, is_approximate: bool },
    /// Devices of a PCI tree, and the functions that are full first.
    PcieTree { devices: Vec<String>, access: BusAccess, full: Vec<String> },
    /// Law of loss with timeouts.
    Pftk { loss: Ratio, timeout: Nanos },
    /// Port of a network card.
    Port { rate: BitRate, frame: Bytes },
    /// Largest window without loss in a shallow buffer.
    SafeWindow,
    /// Goodput with the safe window.
    SafeWindowGoodput,
    /// Slow link behind a buffer.
    SlowLink(BitRate),
    /// Flows on the links of a group; `member` is the rate of a link.
    Spread { figure: SpreadFigure, links: u32, flows: u32, member: Option<BitRate> },
    /// Reads in flight on a PCI Express link.
    Tags { tags: u32, request: Bytes },
    /// TCP over Ethernet.
    Tcp { rate: BitRate, mtu: Bytes },
    /// UDP over Ethernet.
    Udp { rate: BitRate, mtu: Bytes, payload: Bytes },
    /// Window over round-trip time.
    Window { window: Bytes, rtt: Nanos },
    /// Name that is not typed, as in data before typed names.
    // It takes any text, so it must be the last one that is tried.
    #[serde(untagged)]
    Text(String),
}

/// Access to a bus.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the names are those of the accesses")]
pub enum BusAccess {
    Reads,
    Writes,
}

/// Load of a PCI Express link, in transactions or frames of a size.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "fields that are not explained are what they are called")]
pub enum PcieLoad {
    /// Frames of a network card.
    Frames { card: String, frame: Bytes, direction: Direction },
    /// Memory reads or writes.
    Memory(BusAccess, Bytes),
    /// Reads and writes together.
    ReadsAndWrites(Bytes),
    /// Writes in both directions.
    WritesBothWays(Bytes),
}

/// Figure of the spread of flows over links.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SpreadFigure {
    /// Probability that all links are used.
    AllUsed,
    /// Balance.
    Balance,
    /// Most throughput with the best hash.
    BestHash,
    /// Flows on the fullest link.
    Busiest,
    /// Throughput with an ideal hash.
    IdealHash,
    /// Links used.
    LinksUsed,
}

impl BusAccess {
    const fn name(self) -> &'static str {
        match self {
            Self::Reads => "reads",
            Self::Writes => "writes",
        }
    }
}

impl SpreadFigure {
    const fn name(self) -> &'static str {
        match self {
            Self::AllUsed => "probability that all links are used",
            Self::Balance => "expected balance",
            Self::BestHash => "most, best hash",
            Self::Busiest => "expected flows on the fullest link",
            Self::IdealHash => "expected, ideal hash",
            Self::LinksUsed => "expected links used",
        }
    }
}

impl fmt::Display for PcieLoad {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Frames { card, frame, direction } => {
                let what = match direction {
                    Direction::Tx => "sent",
                    Direction::Rx => "received",
                    Direction::Sum => "sent and received at once",
                };
                write!(f, "{card} card, frames of {} B {what}", frame.0)
            }
            Self::Memory(access, size) => write!(f, "memory {} of {} B", access.name(), size.0),
            Self::ReadsAndWrites(size) => write!(f, "reads and writes together of {} B", size.0),
            Self::WritesBothWays(size) => write!(f, "writes both ways of {} B", size.0),
        }
    }
}

// Tables and JSON had these texts before the names were typed. Readers of older files match them,
// so they stay as they are, to the letter.
impl fmt::Display for ModelName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AckClocked => f.write_str("ACK-clocked: the buffer and what the path holds"),
            Self::Ethernet { rate, frame } => write!(f, "ethernet {rate}, {} B frames", frame.0),
            Self::FibreChannel { speed, payload: None } => {
                write!(f, "{speed}GFC, after the line code")
            }
            Self::FibreChannel { speed, payload: Some(payload) } => {
                write!(f, "{speed}GFC, frames of {} B", payload.0)
            }
            Self::Fluid => f.write_str("fluid: a burst that drains while it arrives"),
            Self::FrameGranular => {
                f.write_str("frame-granular: fits without any draining, at any feed")
            }
            Self::InFlight { rate, rtt } => write!(f, "bytes in flight that fill {rate} for {rtt}"),
            Self::Mathis { loss, segments } => {
                write!(f, "Mathis at {loss} loss, one ACK for {segments} segments")
            }
            Self::Pci { bits, megahertz, bursts } => {
                write!(f, "pci {bits} bit, {megahertz} MHz, ")?;
                match bursts {
                    None => f.write_str("peak"),
                    Some((access, burst)) => write!(f, "{} of {} B", access.name(), burst.0),
                }
            }
            Self::Pcie { generation, lanes, load, max_payload, is_approximate } => {
                let approximate = if *is_approximate { ", approximate" } else { "" };
                let mps = max_payload.0;
                write!(f, "pcie gen {generation} x{lanes}, {load}, mps {mps}{approximate}")
            }
            Self::PcieTree { devices, access, full } => {
                let [devices, full] = [devices, full].map(|names| names.join(" + "));
                write!(f, "pcie of {devices}, memory {}: {full}", access.name())
            }
            Self::Pftk { loss, timeout } => {
                write!(f, "PFTK at {loss} loss, one ACK for 2 segments, timeout {timeout}")
            }
            Self::Port { rate, frame } => write!(f, "port of {rate}, frames of {} B", frame.0),
            Self::SafeWindow => f.write_str("safe window, all senders together"),
            Self::SafeWindowGoodput => f.write_str("predicted with the safe window"),
            Self::SlowLink(rate) => write!(f, "slow link of {rate}"),
            Self::Spread { figure, links, flows, member } => {
                write!(f, "{}: {flows} flows on {links} links", figure.name())?;
                match member {
                    Some(member) => write!(f, " of {member}"),
                    None => f.write_str(", ideal hash"),
                }
            }
            Self::Tags { tags, request } => {
                write!(f, "{tags} tags, memory reads of {} B", request.0)
            }
            Self::Tcp { rate, mtu } => write!(f, "tcp over ethernet {rate}, mtu {}", mtu.0),
            Self::Udp { rate, mtu, payload } => {
                let (mtu, payload) = (mtu.0, payload.0);
                write!(f, "udp over ethernet {rate}, mtu {mtu}, {payload} B datagrams")
            }
            Self::Window { window, rtt } => write!(f, "window {window} in {rtt}"),
            Self::Text(text) => f.write_str(text),
        }
    }
}
