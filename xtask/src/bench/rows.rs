//! Rows of equal work, linerate's own modes beside them, and the targets.

use super::generators::{Generator, Work};
use super::sandbox::Medium;

/// Figure of a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Measure {
    /// Delivered per second.
    Rate,
    /// Payload delivered per second of CPU of both ends: the reciprocal of CPU seconds per
    /// gigabyte.
    Efficiency,
}

/// Target of linerate, as a ratio to a peer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Target {
    pub(super) measure: Measure,
    pub(super) at_least: f64,
    /// The peer; absent: the best of the row.
    pub(super) against: Option<&'static str>,
}

/// One generator in one mode.
#[derive(Clone, Debug)]
pub(super) struct Contestant {
    pub(super) generator: Generator,
    /// Difference from other generators' work; empty if none.
    pub(super) mode: &'static str,
    pub(super) targets: Vec<Target>,
}

/// Work that several generators do in turn.
#[derive(Clone, Debug)]
pub(super) struct Row {
    /// How it is chosen on the command line.
    pub(super) family: &'static str,
    pub(super) medium: Medium,
    pub(super) pinned: bool,
    pub(super) work: Work,
    pub(super) contestants: Vec<Contestant>,
}

/// How much is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scope {
    Full,
    Quick,
}

const KIB: u32 = 1024;
const MESSAGES: [u32; 6] = [64, 1460, 8 * KIB, 64 * KIB, 128 * KIB, 1024 * KIB];
const QUICK_MESSAGES: [u32; 3] = [64, 1460, 128 * KIB];
const BATCHED: &str = "send=batch receive=discard";

/// Every row of `scope`; `netperf` is true where that is there.
pub(super) fn rows(scope: Scope, netperf: bool) -> Vec<Row> {
    let mut rows = Vec::new();
    let (messages, streams): (&[u32], &[u32]) = match scope {
        Scope::Full => (&MESSAGES, &[1, 4]),
        Scope::Quick => (&QUICK_MESSAGES, &[1]),
    };
    for &message in messages {
        // Pinned on loopback both ends share one core, which shows the cost per call.
        rows.push(stream(Medium::Loopback, true, message, 1, true));
    }
    for &streams in streams {
        for &message in messages {
            rows.push(stream(Medium::Veth, false, message, streams, false));
        }
    }
    rows.push(stream(Medium::Loopback, false, 128 * KIB, 1, true));
    for size in [64, 1472] {
        rows.push(datagrams(size));
    }
    for tcp in [true, false] {
        rows.push(requests(tcp, false, true));
        for spin in [false, true] {
            rows.push(requests(tcp, spin, false));
        }
    }
    if netperf {
        for &message in messages {
            rows.push(in_messages(message));
        }
        for row in &mut rows {
            let usual = Generator::Netperf { in_messages: false };
            match row.work {
                Work::Stream { streams: 1, .. } => row.contestants.extend(peers(&[usual], ONE)),
                Work::Requests { spin: false, .. } => {
                    row.contestants.extend(peers(&[usual], "1 byte"));
                }
                _ => {}
            }
        }
    }
    rows
}

/// Returns the row of one core between two namespaces, where it matters how the receiver takes
/// messages: by calls that take many, it waits for each segment.
fn in_messages(message: u32) -> Row {
    const PIECES: &str = "one send a message, received message by message";
    let mut row = stream(Medium::Veth, true, message, 1, false);
    let taken = format!("receive_size={message}B");
    row.contestants.push(ours(&taken, PIECES, &[(Measure::Rate, 1.0, Some("netperf"))]));
    row.contestants.extend(peers(&[Generator::Netperf { in_messages: true }], PIECES));
    row
}

fn ours(
    parameters: &str,
    mode: &'static str,
    targets: &[(Measure, f64, Option<&'static str>)],
) -> Contestant {
    let target = |&(measure, at_least, against)| Target { measure, at_least, against };
    let targets = targets.iter().map(target).collect();
    Contestant { generator: Generator::Linerate(parameters.into()), mode, targets }
}

fn peers(generators: &[Generator], mode: &'static str) -> impl Iterator<Item = Contestant> {
    generators.iter().cloned().map(move |generator| Contestant {
        generator,
        mode,
        targets: Vec::new(),
    })
}

/// Work of one connection, as every generator does it unless it is asked otherwise.
const ONE: &str = "one send a message, copy";

fn stream(medium: Medium, pinned: bool, message: u32, streams: u32, fastest: bool) -> Row {
    let mut equal = vec![(Measure::Rate, 1.0, None)];
    // At this size the copy dominates, so efficiency is what differs.
    if message == 128 * KIB {
        equal.push((Measure::Efficiency, 1.0, None));
    }
    // iperf, the best of the peers at several streams, has a thread for each.
    let workers = if streams > 1 { format!("workers={streams}") } else { String::new() };
    let mut contestants = vec![ours(&workers, ONE, &equal)];
    // The most one may hope for: a system call less a message, a copy less a byte.
    let hoped: Option<(Measure, f64)> = match message {
        64 => Some((Measure::Rate, 20.0)),
        1460 => Some((Measure::Rate, 4.0)),
        131_072 => Some((Measure::Efficiency, 1.5)),
        _ => None,
    };
    if let Some((measure, ratio)) = hoped.filter(|_| fastest) {
        contestants.push(ours(
            BATCHED,
            "different work: batched sends, discarding receiver",
            &[(measure, ratio, None)],
        ));
    }
    contestants.extend(peers(stream_peers(pinned, message, streams), ONE));
    Row { family: "tcp", medium, pinned, work: Work::Stream { message, streams }, contestants }
}

/// A peer that was never the best of such a row in quick runs of all of them is left out, and so,
/// unmeasured, is nuttcp with four streams: the time goes to more rounds.
fn stream_peers(pinned: bool, message: u32, streams: u32) -> &'static [Generator] {
    match (pinned, message, streams) {
        (true, 64 | 1460, _) => &[Generator::Iperf],
        (true, ..) => &[Generator::Nuttcp, Generator::Iperf],
        (false, 64, 1) => &[Generator::Nuttcp, Generator::Iperf],
        (false, _, 1) => &[Generator::Iperf3, Generator::Nuttcp, Generator::Iperf],
        (false, ..) => &[Generator::Iperf3, Generator::Iperf],
    }
}

fn datagrams(size: u32) -> Row {
    // Small datagrams gain most from segmentation, because the cost is per packet.
    let ratio = if size == 64 { 100.0 } else { 28.0 };
    let mut contestants = vec![
        ours(
            "gso=1 batch=1 gro=false",
            "one datagram a send, received as they gather",
            &[(Measure::Rate, 1.0, None)],
        ),
        ours(
            "",
            "different work: segmented and coalesced by the kernel",
            &[(Measure::Rate, ratio, Some("iperf3"))],
        ),
        ours(
            "receive=discard wait=spin",
            "different work: the same, receiver spins and discards",
            &[],
        ),
    ];
    contestants.extend(peers(&[Generator::Iperf3], "one datagram a call"));
    Row {
        family: "udp",
        medium: Medium::Veth,
        pinned: false,
        work: Work::Datagrams { size },
        contestants,
    }
}

fn requests(tcp: bool, spin: bool, pinned: bool) -> Row {
    // Spinning saves a wake-up, which UDP shows best.
    let ratio = if spin && !tcp { 1.2 } else { 1.0 };
    let mut contestants = vec![ours("", "1 byte", &[(Measure::Rate, ratio, None)])];
    contestants.extend(peers(&[Generator::Sockperf], "14 bytes, its least"));
    Row {
        family: "rr",
        medium: Medium::Veth,
        pinned,
        work: Work::Requests { tcp, spin },
        contestants,
    }
}

impl Row {
    /// As it is named in the table.
    pub(super) fn name(&self) -> String {
        let medium = if self.medium == Medium::Loopback { "loopback" } else { "veth" };
        let pinned = if self.pinned { "one core" } else { "unpinned" };
        let work = match self.work {
            Work::Stream { message, streams } => {
                let size = if message < KIB || message % KIB > 0 {
                    format!("{message} B")
                } else {
                    format!("{} KiB", message / KIB)
                };
                format!("TCP {size} x {streams}")
            }
            Work::Datagrams { size } => format!("UDP {size} B"),
            Work::Requests { tcp, spin } => {
                format!(
                    "{} RR, {}",
                    if tcp { "TCP" } else { "UDP" },
                    if spin { "spinning" } else { "blocking" }
                )
            }
        };
        format!("{work}, {medium}, {pinned}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_has_a_target_and_a_peer_and_its_own_name() {
        for scope in [Scope::Full, Scope::Quick] {
            let rows = rows(scope, true);
            let mut names: Vec<String> = rows.iter().map(Row::name).collect();
            for row in &rows {
                assert!(!row.contestants[0].targets.is_empty(), "{}", row.name());
                assert!(
                    row.contestants.iter().any(|one| one.generator.name() != "linerate"),
                    "{}",
                    row.name()
                );
            }
            names.sort();
            names.dedup();
            assert_eq!(names.len(), rows.len());
        }
    }

    #[test]
    fn sizes_are_named_as_people_say_them() {
        let name = |message| stream(Medium::Veth, false, message, 4, false).name();
        assert_eq!(name(1460), "TCP 1460 B x 4, veth, unpinned");
        assert_eq!(name(131_072), "TCP 128 KiB x 4, veth, unpinned");
    }
}
