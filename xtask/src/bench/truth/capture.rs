//! Every TCP segment of a load as `tcpdump` saw it at one end, put together to streams by sequence
//! numbers.
//!
//! At the end that measures, a segment that came is one that the path let through, and one that was
//! sent again is the same bytes: what was delivered is counted to the byte whatever the path drops,
//! in bytes of payload (L4). What came after that end closed the connection does not count.
//! Offloads must be off, so that segments are those of the wire.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::PathBuf;
use std::process::{ChildStderr, Command, Stdio};

use anyhow::{Context, ensure};

use super::super::scratch::Killed;
use super::ground::{AGENT_PORT, End, Family, Ground, OTHER_CLOCK_PORT};
use crate::tools::printed;

/// Bytes kept of a segment: Ethernet, IP and TCP headers with options.
const SNAP: &str = "134";
/// tcpdump's buffer, KiB: a second of a full 100 Mbit/s path.
const BUFFER: &str = "16384";

/// A capture under way.
pub(super) struct Capture {
    child: Killed,
    said: BufReader<ChildStderr>,
    file: PathBuf,
}

/// One segment.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Segment {
    /// When it passed, s of the wall clock.
    pub(super) at_s: f64,
    /// Ports of `a` and of `b`.
    pub(super) ports: (u16, u16),
    /// True if `a` sent it.
    pub(super) is_sent: bool,
    pub(super) is_syn: bool,
    /// True if it ends the connection: FIN or RST.
    pub(super) is_end: bool,
    /// Number of its first byte.
    pub(super) sequence: u32,
    pub(super) bytes: u32,
}

/// One connection as `a` saw it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Connection {
    /// Its port at `b`.
    pub(super) served_at: u16,
    /// Its segments, in the order in which they passed.
    pub(super) segments: Vec<Segment>,
}

impl Capture {
    /// Starts to capture TCP at `a`, without what agents say to each other.
    pub(super) fn start(ground: &Ground) -> anyhow::Result<Self> {
        let file = ground.folder.join("segments.pcap");
        let filter = format!("tcp and not port {AGENT_PORT} and not port {OTHER_CLOCK_PORT}");
        let mut command = ground.command(End::A, "tcpdump");
        command.args([
            "-i",
            "lr0",
            "-nn",
            "-s",
            SNAP,
            "-B",
            BUFFER,
            "--immediate-mode",
            "-U",
            "-Z",
            "root",
            "-w",
        ]);
        let mut child = command
            .arg(&file)
            .arg(filter)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .context("start tcpdump")?;
        let mut said = BufReader::new(child.stderr.take().context("the messages of tcpdump")?);
        let mut line = String::new();
        while said.read_line(&mut line).context("wait for tcpdump")? > 0
            && !line.contains("listening on")
        {
            line.clear();
        }
        ensure!(line.contains("listening on"), "tcpdump ended");
        Ok(Self { child: Killed(child), said, file })
    }

    /// Ends it; returns the connections of the load.
    pub(super) fn connections(mut self) -> anyhow::Result<Vec<Connection>> {
        let stopped = Command::new("kill").args(["-INT", &self.child.0.id().to_string()]).status();
        ensure!(stopped.context("stop tcpdump")?.success(), "tcpdump ended before the load did");
        let mut said = String::new();
        self.said.read_to_string(&mut said).context("read what tcpdump says")?;
        self.child.0.wait().context("wait for tcpdump")?;
        ensure!(n_dropped(&said) == Some(0), "tcpdump missed segments: {}", said.trim());
        let mut reading = Command::new("tcpdump");
        let told = printed(reading.args(["-nn", "-tt", "-S", "-r"]).arg(&self.file))?;
        Ok(connections(&told))
    }
}

/// `0 packets dropped by kernel`.
fn n_dropped(said: &str) -> Option<u64> {
    said.lines().find_map(|line| {
        line.strip_suffix(" dropped by kernel")?.split_whitespace().next()?.parse().ok()
    })
}

/// Connections in what `tcpdump -nn -tt -S` prints.
fn connections(text: &str) -> Vec<Connection> {
    let mut connections: Vec<Connection> = Vec::new();
    let mut latest: BTreeMap<(u16, u16), usize> = BTreeMap::new();
    for segment in text.lines().filter_map(segment) {
        let known = latest.get(&segment.ports).copied();
        // Ports are used again by the next connection, which begins at another number.
        let begins = segment.is_sent && segment.is_syn;
        let is_same =
            |place: &usize| !begins || connections[*place].segments[0].sequence == segment.sequence;
        let place = known.filter(is_same).unwrap_or_else(|| {
            latest.insert(segment.ports, connections.len());
            connections.push(Connection { served_at: segment.ports.1, segments: Vec::new() });
            connections.len() - 1
        });
        connections[place].segments.push(segment);
    }
    connections
}

/// `1732.5 IP 10.98.0.1.40000 > 10.98.0.2.5000: Flags [P.], seq 7:207, ack 1, win 502, options
/// [...], length 200`; one without bytes has `seq 7` or none.
fn segment(line: &str) -> Option<Segment> {
    let (time, rest) = line.split_once(" IP ")?;
    let (from, rest) = rest.split_once(" > ")?;
    let (to, rest) = rest.split_once(": Flags [")?;
    let (flags, rest) = rest.split_once(']')?;
    let port = |end: &str| end.rsplit_once('.')?.1.parse::<u16>().ok();
    let is_sent = from.starts_with(&format!("{}.", Ground::address(Family::V4, End::A)));
    let ports = if is_sent { (port(from)?, port(to)?) } else { (port(to)?, port(from)?) };
    let field = |name: &str| rest.split_once(name).map(|(_, value)| value);
    let sequence = field(", seq ").and_then(|value| value.split([':', ',']).next()?.parse().ok());
    let bytes = field(", length ")?.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()?;
    Some(Segment {
        at_s: time.trim().parse().ok()?,
        ports,
        is_sent,
        is_syn: flags.contains('S'),
        is_end: flags.contains(['F', 'R']),
        sequence: sequence.unwrap_or_default(),
        bytes,
    })
}

impl Connection {
    /// Bytes of payload without a hole that `a` sent, or that came to it, among the segments that
    /// `counts` picks.
    fn whole(&self, is_sent: bool, counts: impl Fn(&Segment) -> bool) -> u64 {
        let way = || self.segments.iter().filter(move |segment| segment.is_sent == is_sent);
        let Some(syn) = way().find(|segment| segment.is_syn) else { return 0 };
        let first = syn.sequence.wrapping_add(1);
        let pieces = way().filter(|segment| segment.bytes > 0 && counts(segment));
        let mut pieces: Vec<(u64, u64)> = pieces
            .map(|segment| {
                let from = u64::from(segment.sequence.wrapping_sub(first));
                (from, from + u64::from(segment.bytes))
            })
            .collect();
        pieces.sort_unstable();
        pieces
            .into_iter()
            .fold(0, |whole, (from, to)| if from <= whole { whole.max(to) } else { whole })
    }

    /// When `a` closed it, s; never, if it did not.
    fn closed_s(&self) -> f64 {
        let end = self.segments.iter().find(|segment| segment.is_sent && segment.is_end);
        end.map_or(f64::INFINITY, |segment| segment.at_s)
    }

    /// Bytes that `a` sent.
    pub(super) fn sent(&self) -> u64 {
        self.whole(true, |_| true)
    }

    /// Bytes that came to `a`, without a hole, until it closed the connection.
    pub(super) fn come(&self) -> u64 {
        let closed_s = self.closed_s();
        self.whole(false, |segment| segment.at_s < closed_s)
    }

    /// The same until `at_s`.
    pub(super) fn come_by(&self, at_s: f64) -> u64 {
        self.whole(false, |segment| segment.at_s < at_s)
    }

    /// When `a` first sent each of its segments with payload, s, in their order.
    pub(super) fn departures_s(&self) -> Vec<f64> {
        let mut first: BTreeMap<u32, f64> = BTreeMap::new();
        for segment in self.segments.iter().filter(|segment| segment.is_sent && segment.bytes > 0) {
            first.entry(segment.sequence).or_insert(segment.at_s);
        }
        let mut times: Vec<f64> = first.into_values().collect();
        times.sort_by(f64::total_cmp);
        times
    }

    /// Bytes that came to `a` behind the first segment of them, and how long that took, s.
    pub(super) fn delivered(&self) -> Option<(u64, f64)> {
        let mut coming =
            self.segments.iter().filter(|segment| !segment.is_sent && segment.bytes > 0);
        let (first, last) = (coming.next()?, coming.next_back()?);
        Some((self.come().saturating_sub(u64::from(first.bytes)), last.at_s - first.at_s))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
1000.000001 IP 10.98.0.1.40000 > 10.98.0.2.5000: Flags [S], seq 4294967290, win 64240, options \
[mss 1460], length 0
1000.000002 IP 10.98.0.2.5000 > 10.98.0.1.40000: Flags [S.], seq 99, ack 4294967291, win 65160, \
options [mss 1460], length 0
1000.000003 IP 10.98.0.1.40000 > 10.98.0.2.5000: Flags [.], ack 100, win 502, length 0
1000.000004 IP 10.98.0.1.40000 > 10.98.0.2.5000: Flags [P.], seq 4294967291:195, ack 100, win 502, \
length 200
1000.100000 IP 10.98.0.2.5000 > 10.98.0.1.40000: Flags [P.], seq 300:500, ack 195, win 510, length \
200
1000.200000 IP 10.98.0.2.5000 > 10.98.0.1.40000: Flags [P.], seq 100:300, ack 195, win 510, length \
200: HTTP
1000.200001 IP 10.98.0.2.5000 > 10.98.0.1.40000: Flags [P.], seq 100:300, ack 195, win 510, length \
200
1000.200002 IP 10.98.0.2.5000 > 10.98.0.1.40000: Flags [P.], seq 600:700, ack 195, win 510, length \
100
1000.300000 IP 10.98.0.1.40000 > 10.98.0.2.5000: Flags [F.], seq 195, ack 500, win 502, length 0
1000.400000 IP 10.98.0.2.5000 > 10.98.0.1.40000: Flags [P.], seq 500:600, ack 196, win 510, length \
100
1000.500000 IP 10.98.0.1.40000 > 10.98.0.2.5000: Flags [S], seq 7, win 64240, options [mss 1460], \
length 0
";

    #[test]
    fn streams_are_put_together_by_their_numbers_until_the_end_closes() {
        let connections = connections(TEXT);
        let [connection, next] = &connections[..] else { panic!("two connections") };
        assert_eq!((connection.served_at, next.segments.len(), next.come()), (5000, 1, 0));
        assert_eq!(
            (connection.sent(), connection.come()),
            (200, 400),
            "the numbers wrap, and a hole ends the complete part"
        );
        assert_eq!((connection.come_by(1000.15), connection.come_by(1000.25)), (0, 400));
        assert_eq!(connection.come_by(1001.0), 600);
        assert_eq!(connection.departures_s(), [1000.000004]);
        let (bytes, seconds) = connection.delivered().expect("something came");
        assert!(bytes == 200 && (seconds - 0.3).abs() < 1e-6, "{bytes} in {seconds}");
        assert_eq!(connection.segments.len(), 10);
    }

    #[test]
    fn lost_segments_are_read_from_what_tcpdump_says() {
        let said =
            "10 packets captured\n12 packets received by filter\n0 packets dropped by kernel\n";
        assert_eq!(n_dropped(said), Some(0));
        assert_eq!(n_dropped("7 packets dropped by kernel"), Some(7));
        assert_eq!(n_dropped("tcpdump: lr0: no such device"), None);
        assert!(segment("1000.1 ARP, Request who-has 10.98.0.1").is_none());
    }
}
