//! Readings of instruments that are not linerate's: counters of `nft`, `tc`, the kernel's SNMP
//! tables, `ss`, iperf3, disk statistics.

use std::collections::BTreeMap;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, ensure};
use serde_json::Value;

use super::super::outputs::{self, Unit};
use super::ground::{AGENT_PORT, End, Family, Ground, OTHER_CLOCK_PORT, PORTS};

/// A counter of `nft`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Counter {
    pub(super) packets: u64,
    pub(super) bytes: u64,
}

/// Reads every named counter at the bridge.
pub(super) fn nft_counters(ground: &Ground) -> anyhow::Result<BTreeMap<String, Counter>> {
    parse_nft(&ground.at_bridge("nft -j list counters")?)
}

fn parse_nft(text: &str) -> anyhow::Result<BTreeMap<String, Counter>> {
    let value: Value = serde_json::from_str(text).context("parse the JSON of nft")?;
    let entries = value["nftables"].as_array().context("nft: no list")?;
    // The list also has the version of nft and other objects.
    let named = entries.iter().filter_map(|entry| {
        let counter = entry.get("counter")?;
        let read = |name: &str| counter[name].as_u64();
        Some((
            counter["name"].as_str()?.to_owned(),
            Counter { packets: read("packets")?, bytes: read("bytes")? },
        ))
    });
    Ok(named.collect())
}

/// Bytes and packets that a shaper sent and dropped since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Shaper {
    pub(super) bytes: u64,
    pub(super) packets: u64,
    pub(super) drops: u64,
}

/// Reads the shapers towards `a` and towards `b`.
pub(super) fn shapers(ground: &Ground) -> anyhow::Result<[Shaper; 2]> {
    let read =
        |port: &str| parse_tc(&ground.at_bridge(&format!("tc -s -j qdisc show dev {port}"))?);
    Ok([read(PORTS[0])?, read(PORTS[1])?])
}

fn parse_tc(text: &str) -> anyhow::Result<Shaper> {
    let value: Value = serde_json::from_str(text).context("parse the JSON of tc")?;
    // A path without a shaper has no such discipline.
    let Some(shaper) =
        value.as_array().and_then(|list| list.iter().find(|one| one["kind"] == "tbf"))
    else {
        return Ok(Shaper::default());
    };
    let read = |name: &str| shaper[name].as_u64().with_context(|| format!("tc: no {name}"));
    Ok(Shaper { bytes: read("bytes")?, packets: read("packets")?, drops: read("drops")? })
}

/// The kernel's counters of an end's namespace (`/proc/net/snmp`, `netstat`, `snmp6`), which
/// `nstat` reads too.
pub(super) type Snmp = BTreeMap<String, f64>;

pub(super) fn snmp(ground: &Ground, end: End) -> anyhow::Result<Snmp> {
    // One command reads all tables, so that they are of one moment.
    Ok(parse_snmp(&ground.at(end, "cat /proc/net/snmp /proc/net/netstat /proc/net/snmp6")?))
}

/// Tables come as a line of names and a line of values, with the same first word; lists come as a
/// name and a value a line.
fn parse_snmp(text: &str) -> Snmp {
    let mut counters = Snmp::new();
    // Two kinds of text follow each other: tables of two lines, and lists of one counter a line.
    let mut heads: Option<(&str, Vec<&str>)> = None;
    for line in text.lines() {
        let mut words = line.split_whitespace();
        let Some(first) = words.next() else { continue };
        let rest: Vec<&str> = words.collect();
        // A second line with the same name has the values.
        match (first.strip_suffix(':'), heads.take()) {
            (Some(table), Some((name, names))) if name == table => {
                for (name, value) in names.iter().zip(&rest) {
                    counters
                        .extend(value.parse().ok().map(|value| (format!("{table}.{name}"), value)));
                }
            }
            (Some(table), _) => heads = Some((table, rest)),
            (None, _) => counters.extend(
                rest.first()
                    .and_then(|value| value.parse().ok())
                    .map(|value| (first.to_owned(), value)),
            ),
        }
    }
    counters
}

/// One socket in a reading of `ss -tin`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Socket {
    pub(super) rtt_s: f64,
    pub(super) window_bytes: f64,
    pub(super) bytes_sent: f64,
}

/// Sockets of load at `end`, without those of agents.
pub(super) fn sockets(ground: &Ground, end: End) -> anyhow::Result<Vec<Socket>> {
    Ok(parse_ss(&ground.at(end, "ss -tinH state established")?))
}

fn parse_ss(text: &str) -> Vec<Socket> {
    let ports = [AGENT_PORT, OTHER_CLOCK_PORT].map(|port| format!(":{port}"));
    let lines: Vec<&str> = text.lines().collect();
    let pairs = lines
        // `ss` prints a socket in two lines, the second of which is indented.
        .windows(2)
        .filter(|pair| !pair[0].starts_with([' ', '\t']) && pair[1].starts_with([' ', '\t']));
    // Control connections are no load.
    let of_load = pairs.filter(|pair| {
        !pair[0]
            .split_whitespace()
            .any(|word| ports.iter().any(|port| word.ends_with(port.as_str())))
    });
    of_load
        .map(|pair| {
            fn field(name: &str, pair: &[&str]) -> f64 {
                let word = pair[1]
                    .split_whitespace()
                    .find_map(|word| word.strip_prefix(name)?.strip_prefix(':'));
                // Some values are pairs, such as `rtt:1.5/0.7`.
                word.and_then(|word| word.split('/').next()?.parse::<f64>().ok())
                    .unwrap_or_default()
            }
            Socket {
                rtt_s: field("rtt", pair) / 1e3,
                window_bytes: field("cwnd", pair) * field("mss", pair),
                bytes_sent: field("bytes_sent", pair),
            }
        })
        .collect()
}

/// Time between readings of `ss`: as many as its process start allows beside the load.
const SS_EVERY: Duration = Duration::from_millis(100);

/// Readings of `ss` at both ends until `is_over`.
pub(super) fn watch_sockets(ground: &Ground, is_over: &AtomicBool) -> Vec<[Vec<Socket>; 2]> {
    let mut readings = Vec::new();
    while !is_over.load(Ordering::Relaxed) {
        // A reading that fails is left out; the load goes on.
        if let (Ok(a), Ok(b)) = (sockets(ground, End::A), sockets(ground, End::B)) {
            readings.push([a, b]);
        }
        std::thread::sleep(SS_EVERY);
    }
    readings
}

/// Where iperf3's server listens.
const IPERF3_PORT: &str = "5299";

/// Goodput that iperf3's receiver in `b` counted over `seconds`, after as long as a start takes,
/// bit/s.
pub(super) fn iperf3(ground: &Ground, family: Family, seconds: u32) -> anyhow::Result<f64> {
    let mut server = ground.command(End::B, "iperf3");
    let server = server
        // The server ends after one test, and prints its figures then.
        .args(["-s", "-1", "-J", "-p", IPERF3_PORT])
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let server = server.spawn().context("start iperf3 -s")?;
    let began = std::time::Instant::now();
    while !ground.at(End::B, "ss -Hltn")?.contains(&format!(":{IPERF3_PORT} ")) {
        ensure!(began.elapsed() < Duration::from_secs(5), "iperf3 -s does not listen");
        std::thread::sleep(Duration::from_millis(20));
    }
    let address = Ground::address(family, End::B);
    let client = ground.at(
        End::A,
        // `-O 1` leaves out the first second, while the window still grows.
        &format!("iperf3 -c {address} -p {IPERF3_PORT} -t {seconds} -O 1 -C cubic -J"),
    )?;
    let output = server.wait_with_output().context("wait for iperf3 -s")?;
    Ok(outputs::iperf3(&String::from_utf8_lossy(&output.stdout), &client, Unit::Bits)?.rate)
}

/// The kernel's counts of a disk since it was made (Documentation/block/stat.rst).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct DiskCounts {
    pub(super) reads: u64,
    pub(super) read_bytes: u64,
    pub(super) writes: u64,
    pub(super) written_bytes: u64,
    pub(super) discards: u64,
    pub(super) discarded_bytes: u64,
    pub(super) flushes: u64,
}

impl DiskCounts {
    /// Of `device`, by its name in `/sys/block`.
    pub(super) fn of(device: &str) -> anyhow::Result<Self> {
        let file = format!("/sys/block/{device}/stat");
        let text = std::fs::read_to_string(&file).with_context(|| format!("read {file}"))?;
        Self::parse(&text).with_context(|| format!("parse {file}"))
    }

    fn parse(text: &str) -> Option<Self> {
        /// Bytes of a sector in `stat`, whatever the device's own are.
        const SECTOR: u64 = 512;
        let fields: Vec<u64> =
            text.split_whitespace().map_while(|field| field.parse().ok()).collect();
        let of = |place: usize| fields.get(place).copied();
        Some(Self {
            reads: of(0)?,
            read_bytes: of(2)? * SECTOR,
            writes: of(4)?,
            written_bytes: of(6)? * SECTOR,
            discards: of(11)?,
            discarded_bytes: of(13)? * SECTOR,
            flushes: of(15)?,
        })
    }

    /// Returns the counts between `before` and this reading.
    pub(super) fn since(self, before: Self) -> Self {
        Self {
            reads: self.reads - before.reads,
            read_bytes: self.read_bytes - before.read_bytes,
            writes: self.writes - before.writes,
            written_bytes: self.written_bytes - before.written_bytes,
            discards: self.discards - before.discards,
            discarded_bytes: self.discarded_bytes - before.discarded_bytes,
            flushes: self.flushes - before.flushes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_of_nft_are_read_by_name() {
        let text = r#"{"nftables": [{"metainfo": {"version": "1.0.6"}},
        {"counter": {"family": "netdev", "name": "there_hit",
            "table": "truth", "handle": 1, "packets": 43, "bytes": 12300}}]}"#;
        let counters = parse_nft(text).expect("as printed");
        assert_eq!(counters["there_hit"], Counter { packets: 43, bytes: 12_300 });
        assert!(parse_nft("Error: no").is_err());
    }

    #[test]
    fn a_shaper_is_read_and_its_absence_is_zero() {
        let text = r#"[{"kind":"tbf","handle":"8001:","root":true,"options":{},"bytes":700,
        "packets":5,"drops":3,"overlimits":9,
            "requeues":0,"backlog":0,"qlen":0}]"#;
        assert_eq!(
            parse_tc(text).expect("as printed"),
            Shaper { bytes: 700, packets: 5, drops: 3 }
        );
        assert_eq!(parse_tc(r#"[{"kind":"noqueue"}]"#).expect("as printed"), Shaper::default());
    }

    #[test]
    fn snmp_tables_and_lists_are_read() {
        let text = "Tcp: ActiveOpens RetransSegs\nTcp: 4 7\nUdp: InCsumErrors\nUdp: \
            2\nUdp6InErrors                    \t3\n";
        let counters = parse_snmp(text);
        assert_eq!(
            (counters["Tcp.RetransSegs"], counters["Udp.InCsumErrors"], counters["Udp6InErrors"]),
            (7.0, 2.0, 3.0)
        );
    }

    #[test]
    fn sockets_of_agents_are_not_load() {
        let text = "0      0      10.98.0.1:50000    10.98.0.2:4777\n\t cubic rtt:9.9/1 mss:1448 \
            cwnd:10 bytes_sent:5\n\
                    0      90     10.98.0.1:50002    10.98.0.2:40001\n\t cubic rtt:3.75/0.2 \
                    mss:1448 cwnd:20 bytes_sent:7000\n";
        let expected = Socket { rtt_s: 3.75e-3, window_bytes: 28_960.0, bytes_sent: 7000.0 };
        assert_eq!(parse_ss(text), [expected]);
    }

    #[test]
    fn a_block_device_is_read_in_its_own_sectors() {
        let text = "     120        3     960       12        5 0 80 0 0 7 8 9 0 72 0 4 1\n";
        let counts = DiskCounts {
            reads: 120,
            read_bytes: 491_520,
            writes: 5,
            written_bytes: 40_960,
            discards: 9,
            discarded_bytes: 36_864,
            flushes: 4,
        };
        assert_eq!(DiskCounts::parse(text), Some(counts));
        assert_eq!(counts.since(counts), DiskCounts::default());
        assert_eq!(
            DiskCounts::parse("120 3 960 12 5 0 80"),
            None,
            "a kernel that counts no discards"
        );
    }
}
