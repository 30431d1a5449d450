//! Faults of a fleet of eight hosts in two racks: which part each is, and whom a mesh may name.

use std::fmt;

use serde_json::Value;

use super::super::answers::Cause;
use super::super::draw::Draw;
use super::CULPRIT;

/// Hosts of the fleet, h1 to h8; the first half of them is in rack1, the others in rack2.
pub(super) const N_HOSTS: usize = 8;
pub(super) const N_OF_RACK: usize = N_HOSTS / 2;

/// Fault, by the numbers of its hosts from 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Fault {
    /// The port of a host has 90 % of the rate, in both directions.
    Slow(usize),
    /// The same in one direction.
    SlowToSend(usize),
    SlowToReceive(usize),
    /// One in 200 frames from one host to another is lost.
    Lossy(usize, usize),
    /// The racks share this rate, in bit/s.
    Shared(u64),
    /// Each frame of a host takes 1 ms longer, and each frame to it.
    Late(usize),
    /// Busy loops have priority over the agent of a host.
    BusyCpu(usize),
}

/// Part of a fleet, as the answer of a mesh has it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Culprit {
    kind: String,
    of: Vec<String>,
}

impl Culprit {
    pub(super) fn new(kind: &str, of: &[&str]) -> Self {
        Self { kind: kind.to_owned(), of: of.iter().map(|&one| one.to_owned()).collect() }
    }

    /// Returns the culprit of a suspect in the JSON of a mesh.
    pub(super) fn of(suspect: &Value) -> Self {
        let of = suspect["of"].as_array().into_iter().flatten();
        let of = of.filter_map(|one| one.as_str().map(str::to_owned)).collect();
        Self { kind: suspect["kind"].as_str().unwrap_or_default().to_owned(), of }
    }
}

impl fmt::Display for Culprit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind, self.of.join(" "))
    }
}

/// Returns the name of a host.
pub(super) fn name(host: usize) -> String {
    format!("h{host}")
}

impl Fault {
    /// Returns the culprits that name the fault.
    pub(super) fn culprits(&self) -> Vec<Culprit> {
        let of_host = |kinds: &[&str], host: usize| {
            kinds.iter().map(|kind| Culprit::new(kind, &[&name(host)])).collect()
        };
        match *self {
            Self::Slow(host) | Self::Late(host) => of_host(&["host"], host),
            Self::SlowToSend(host) => of_host(&["send side"], host),
            Self::SlowToReceive(host) => of_host(&["receive side"], host),
            // Which side a lack of CPU time slows more depends on the programs.
            Self::BusyCpu(host) => of_host(&["host", "send side", "receive side"], host),
            Self::Lossy(from, to) => vec![Culprit::new("direction", &[&name(from), &name(to)])],
            Self::Shared(_) => vec![Culprit::new("groups", &["rack1", "rack2"])],
        }
    }

    /// Returns the name of the host at fault, if it is one.
    pub(super) fn host(&self) -> Option<String> {
        match *self {
            Self::Slow(host)
            | Self::SlowToSend(host)
            | Self::SlowToReceive(host)
            | Self::Late(host)
            | Self::BusyCpu(host) => Some(name(host)),
            Self::Lossy(..) | Self::Shared(_) => None,
        }
    }
}

/// Draws a host.
fn host(draw: &mut Draw) -> usize {
    1 + (draw.share() * N_HOSTS as f64) as usize
}

/// Draws two hosts.
fn two(draw: &mut Draw) -> [usize; 2] {
    let (one, further) = (host(draw), 1 + (draw.share() * (N_HOSTS - 1) as f64) as usize);
    [one, 1 + (one - 1 + further) % N_HOSTS]
}

const NAMED: &[&str] = &[CULPRIT];

/// Every fault.
pub(super) const CAUSES: &[Cause<Vec<Fault>>] = &[
    Cause::new("no fault", &["unknown"], |_| Vec::new()),
    Cause::new("port at 90 %", NAMED, |draw| vec![Fault::Slow(host(draw))]),
    Cause::new("port sends at 90 %", NAMED, |draw| vec![Fault::SlowToSend(host(draw))]),
    Cause::new("port receives at 90 %", NAMED, |draw| vec![Fault::SlowToReceive(host(draw))]),
    Cause::new("pair loses 0.5 %", NAMED, |draw| {
        let [from, to] = two(draw);
        vec![Fault::Lossy(from, to)]
    }),
    Cause::new("shared uplink", NAMED, |draw| vec![Fault::Shared(draw.between(1e8, 2e8) as u64)]),
    Cause::new("2 ms longer", NAMED, |draw| vec![Fault::Late(host(draw))]),
    Cause::new("busy CPU", NAMED, |draw| vec![Fault::BusyCpu(host(draw))]),
    Cause::new("two faults", NAMED, |draw| {
        let [one, other] = two(draw);
        let kinds: [fn(usize) -> Fault; 3] = [Fault::Slow, Fault::SlowToSend, Fault::SlowToReceive];
        [one, other].map(|host| kinds[(draw.share() * 3.0) as usize](host)).to_vec()
    }),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_have_names_of_their_own_and_hosts_of_the_fleet() {
        let mut names: Vec<&str> = CAUSES.iter().map(|cause| cause.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), CAUSES.len());
        for seed in 1..=100 {
            let [one, other] = two(&mut Draw::new(seed));
            let is_host = |host: usize| (1..=N_HOSTS).contains(&host);
            assert!(one != other && is_host(one) && is_host(other), "{one} {other}");
            for cause in CAUSES {
                let faults = (cause.setup)(&mut Draw::of(cause.name, seed));
                assert_eq!(faults.is_empty(), cause.accepted == ["unknown"], "{}", cause.name);
                assert!(faults.iter().all(|fault| !fault.culprits().is_empty()));
            }
        }
    }
}
