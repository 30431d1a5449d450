//! Every case, as data: a path, a fault, a load, and the numbers that are judged.

use std::collections::BTreeMap;
use std::time::Duration;

use super::capture::Connection;
use super::claim::Claim;
use super::ground::{Between, End, Ground};
use super::instruments::{Counter, Shaper, Snmp, Socket};
use super::plan::Trial;
use super::relay::{Delays, Faults};
use super::study::Study;

mod datagrams;
mod delay;
mod files;
mod frames;
pub(super) mod many;
mod paths;
mod places;
mod requests;
mod storage;
mod streams;

/// Treatment of packets on the way. Only packets of the load are treated; set-up and control pass.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Fault {
    None,
    /// Every N-th is dropped, there and, if wanted, back.
    Drop {
        every: u64,
        back: bool,
    },
    /// Every N-th is dropped on the way back.
    DropAnswers {
        every: u64,
    },
    /// All are dropped, in both directions, from this time after the first.
    DropFrom {
        after_ms: u64,
    },
    /// Every N-th there is sent twice.
    Duplicate {
        every: u64,
    },
    /// Two bytes of the payload of every N-th there are overwritten.
    Corrupt {
        every: u64,
    },
    /// The relay delays some frames, and has others pass every N-th of the load.
    Relay {
        delays: Delays,
        delay_us: u64,
        reorder_every: u64,
    },
}

/// Which packets count.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Packets {
    /// UDP datagrams with this number of payload bytes.
    Udp(u64),
    /// TCP segments with this number of payload bytes, over IPv4 with time stamps.
    Tcp(u64),
    /// TCP segments of load that are larger than any control message.
    TcpData,
    /// UDP datagrams of load in superpackets, which are larger than one of this number of bytes of
    /// payload.
    UdpSuper(u64),
}

/// Which clock the passive end has.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Clock {
    Same,
    Other,
}

/// A load that linerate puts on the path.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Load {
    pub(super) workload: &'static str,
    /// Inside of a TOML table.
    pub(super) params: &'static str,
    pub(super) duration_ms: u64,
    pub(super) warmup_ms: u64,
    /// Operations due in the measurement: rate times duration; 0 in a closed loop.
    pub(super) due: u64,
    pub(super) packets: Packets,
    pub(super) clock: Clock,
}

/// Instruments that are read while the load runs. Fewer readings disturb less.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Watch {
    Nothing,
    /// Counters where the measurement begins and ends.
    Counters,
    /// These, and `ss` all the time.
    Sockets,
    /// Every segment of TCP, by `tcpdump` at `a`.
    Segments,
}

/// Counts of instruments until the instant at which linerate ended measuring.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Window {
    /// Bytes that the shaper towards `b` sent since the path was made, with warm-up and control.
    pub(super) shaper: Shaper,
    /// TCP segments sent again by both ends since before the load: shortly before the end, and
    /// shortly after.
    pub(super) sent_again: [f64; 2],
}

/// A case whose load is one trial of one job between the ends.
pub(super) struct Network {
    pub(super) name: &'static str,
    pub(super) between: Between,
    pub(super) fault: Fault,
    pub(super) load: Load,
    pub(super) watch: Watch,
    pub(super) checks: &'static [fn(&Seen<'_>) -> anyhow::Result<Claim>],
}

/// A case that drives itself.
pub(super) struct Special {
    pub(super) name: &'static str,
    pub(super) run: fn(&mut Ground) -> anyhow::Result<Vec<Claim>>,
}

const fn special(
    name: &'static str,
    run: fn(&mut Ground) -> anyhow::Result<Vec<Claim>>,
) -> Special {
    Special { name, run }
}

#[derive(Clone, Copy)]
pub(super) enum Case {
    Network(&'static Network),
    Special(&'static Special),
}

impl Case {
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Network(case) => case.name,
            Self::Special(case) => case.name,
        }
    }
}

/// Figures of linerate and the instruments for one network case.
pub(super) struct Seen<'a> {
    pub(super) ground: &'a Ground,
    pub(super) case: &'a Network,
    pub(super) study: Study,
    pub(super) nft: BTreeMap<String, Counter>,
    /// Towards `a` and towards `b`.
    pub(super) shapers: [Shaper; 2],
    /// Before and after, of `a` and `b`.
    pub(super) snmp: [[Snmp; 2]; 2],
    /// Of `a` and `b`, one entry a reading.
    pub(super) sockets: Vec<[Vec<Socket>; 2]>,
    pub(super) window: Option<Window>,
    /// Of TCP, where every segment was watched.
    pub(super) connections: Vec<Connection>,
    /// Counts of the relay.
    pub(super) relay: serde_json::Value,
}

impl Seen<'_> {
    /// Packets of the load that passed the bridge's port, before any was dropped.
    pub(super) fn packets(&self, counter: &str) -> f64 {
        self.nft.get(counter).map_or(0.0, |counter| counter.packets as f64)
    }

    pub(super) fn bytes(&self, counter: &str) -> f64 {
        self.nft.get(counter).map_or(0.0, |counter| counter.bytes as f64)
    }

    /// By how much a counter of the kernel at `end` rose during the load.
    pub(super) fn risen(&self, end: End, counter: &str) -> f64 {
        let [before, after] = &self.snmp;
        let read = |snmp: &[Snmp; 2]| {
            snmp[usize::from(end == End::B)].get(counter).copied().unwrap_or_default()
        };
        read(after) - read(before)
    }

    pub(super) fn relayed(&self, way: &str, name: &str) -> f64 {
        self.relay[way][name].as_f64().unwrap_or_default()
    }
}

impl Load {
    /// Returns the plan of one trial.
    pub(super) fn plan(&self) -> String {
        let Self { workload, params, duration_ms, warmup_ms, .. } = *self;
        Trial { workload, to: "b", duration_ms, warmup_ms, params }.plan()
    }
}

impl Fault {
    pub(super) fn relay(self, packets: Packets) -> Option<Faults> {
        /// IPv4 and UDP headers.
        const HEADERS: u64 = 28;
        let (
            Self::Relay { delays, delay_us, reorder_every },
            Packets::Udp(payload) | Packets::UdpSuper(payload) | Packets::Tcp(payload),
        ) = (self, packets)
        else {
            return None;
        };
        let ip_length = u16::try_from(payload + HEADERS).ok()?;
        Some(Faults { ip_length, delay: Duration::from_micros(delay_us), delays, reorder_every })
    }
}

/// Every case, in the order of the table.
pub(super) fn all() -> Vec<Case> {
    let network = [requests::CASES, datagrams::CASES, streams::CASES, frames::CASES, delay::CASES];
    let special = [
        streams::SPECIAL,
        delay::SPECIAL,
        files::SPECIAL,
        storage::SPECIAL,
        places::SPECIAL,
        paths::SPECIAL,
    ];
    let network = network.into_iter().flatten().map(Case::Network);
    network.chain(special.into_iter().flatten().map(Case::Special)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases_have_names_of_their_own_and_something_to_judge() {
        let mut names: Vec<&str> = all().iter().map(Case::name).collect();
        let n_cases = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), n_cases);
        for case in all() {
            let Case::Network(network) = case else { continue };
            assert!(!network.checks.is_empty(), "{}", network.name);
        }
    }
}
