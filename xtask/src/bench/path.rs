//! `cargo xtask bench path`: facts of `linerate probe --to` beside limits that `tc` and `nft` make
//! at a bridge between two namespaces.
//!
//! The known answers are those of the kernel's own elements: rate, burst and limit of `tbf`, rate
//! and burst of nft's `limit`, the MTU of a port of the bridge, which drops larger packets without
//! a message, the field that nft writes into the IP header, and the offset of a time namespace.
//! `tbf` counts Ethernet frames, and facts count IP packets. Not covered: delay, cross traffic,
//! network cards.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, ensure};
use linerate_analysis::path::{Limiter, PathFacts};

use super::markdown;
use super::options::{chosen, count, keep, parsed, program};
use super::truth::ground::{
    Between, CLOCK_AHEAD_S, DEVICE, End, Family, Ground, OTHER_CLOCK_PORT, PLAIN, PORTS,
};

/// Largest error of the clock that is good, in seconds, however wide the interval of the probe is.
const MOST_CLOCK_ERROR_S: f64 = 1e-3;
/// IP packet and Ethernet frame of a full datagram, B.
const PACKET: f64 = 1500.0;
const FRAME: f64 = 1514.0;
/// Largest error of rates, and of sizes of queues and buckets.
const OF_RATES: f64 = 0.03;
const OF_SIZES: f64 = 0.1;

/// Limit in the direction from `a` to `b`.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Made {
    /// `tbf` with this rate (bit/s), burst and limit (bytes of frames), and a link of the rate
    /// `back` on the way back; 0 for none.
    Tbf { rate: f64, burst: f64, limit: f64, back: f64 },
    /// nft's `limit` with this rate (bit/s) and burst (bytes of packets). Its bucket holds one
    /// second of the rate, and the burst (`nft_limit_init` of Linux).
    Nft { rate: f64, burst: f64 },
    /// MTU of the bridge's port, B.
    Mtu(u64),
    /// `tbf` with this rate (bit/s) on the sender's own interface.
    Own(f64),
    /// Field that nft writes into the ECN bits of every packet.
    Ecn(Family, &'static str),
    /// A receiver whose clock is ahead.
    Clock,
}

const fn link(megabits: u32, limit: f64) -> Made {
    // The kernel needs a burst of one timer tick above 100 Mbit/s; 1600 B are one frame.
    let burst = if megabits >= 200 { 15_000.0 } else { 1_600.0 };
    Made::Tbf { rate: megabits as f64 * 1e6, burst, limit, back: 0.0 }
}

const fn shaper(megabits: u32, burst: f64, limit: f64) -> Made {
    Made::Tbf { rate: megabits as f64 * 1e6, burst, limit, back: 0.0 }
}

const fn slow_back(megabits: u32, limit: f64) -> Made {
    Made::Tbf { rate: megabits as f64 * 1e6, burst: 1_600.0, limit, back: 0.15e6 }
}

const CASES: [(&str, Made); 23] = [
    ("link 5 Mbit/s", link(5, 50_000.0)),
    ("link 20 Mbit/s", link(20, 60_000.0)),
    ("link 50 Mbit/s", link(50, 90_000.0)),
    ("link 200 Mbit/s", link(200, 300_000.0)),
    ("link 1 Gbit/s", link(1_000, 600_000.0)),
    ("link 20 Mbit/s, 0.15 back", slow_back(20, 60_000.0)),
    ("link 50 Mbit/s, 0.15 back", slow_back(50, 90_000.0)),
    ("shaper 5 Mbit/s", shaper(5, 60_000.0, 30_000.0)),
    ("shaper 20 Mbit/s", shaper(20, 100_000.0, 60_000.0)),
    ("shaper 50 Mbit/s", shaper(50, 200_000.0, 60_000.0)),
    ("policer 5 Mbit/s", Made::Nft { rate: 5e6, burst: 50_000.0 }),
    ("policer 20 Mbit/s", Made::Nft { rate: 20e6, burst: 100_000.0 }),
    ("policer 50 Mbit/s", Made::Nft { rate: 50e6, burst: 100_000.0 }),
    ("MTU 1400 B", Made::Mtu(1400)),
    ("MTU 1281 B", Made::Mtu(1281)),
    ("own tbf 20 Mbit/s", Made::Own(20e6)),
    ("own tbf 80 Mbit/s", Made::Own(80e6)),
    ("ECN cleared", Made::Ecn(Family::V4, "not-ect")),
    ("ECN marked", Made::Ecn(Family::V4, "ce")),
    ("ECN of ECT(1)", Made::Ecn(Family::V4, "ect1")),
    ("ECN cleared, IPv6", Made::Ecn(Family::V6, "not-ect")),
    ("ECN marked, IPv6", Made::Ecn(Family::V6, "ce")),
    ("other clock", Made::Clock),
];

/// Options of `bench path`.
#[derive(clap::Parser)]
struct Options {
    /// Probes of each case
    #[arg(long, value_parser = count::<u32>, default_value = "1")]
    rounds: u32,
    /// Part of a case's name
    #[arg(long)]
    only: Vec<String>,
    /// An already built linerate
    #[arg(long)]
    program: Option<PathBuf>,
    /// File of the table
    #[arg(long)]
    out: Option<PathBuf>,
}

/// How a fact is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shown {
    /// In Mbit/s.
    Rate,
    /// As a whole number.
    Whole,
    /// In seconds. The goal is the interval of the fact itself.
    Clock,
}

/// A fact beside its known answer.
struct Compared {
    fact: &'static str,
    shown: Shown,
    made: f64,
    found: Option<f64>,
    within: f64,
}

impl Compared {
    fn error(&self) -> Option<f64> {
        self.found.map(|found| found / self.made - 1.0)
    }

    /// Returns `value` of this fact as a cell of the table.
    fn number(&self, value: f64) -> String {
        match self.shown {
            Shown::Rate => format!("{:.3}", value / 1e6),
            Shown::Clock => format!("{value:.6}"),
            Shown::Whole => format!("{value:.0}"),
        }
    }

    /// Returns the largest error that meets the goal.
    fn goal(&self) -> String {
        match self.shown {
            Shown::Clock => format!("{:.0} us", self.within * self.made * 1e6),
            Shown::Rate | Shown::Whole => format!("{:.0} %", self.within * 100.0),
        }
    }

    fn is_good(&self) -> bool {
        self.error().is_some_and(|error| error.abs() <= self.within)
    }
}

/// Probes every case, prints the table, and returns whether every fact is as exact as its goal.
///
/// # Errors
/// If an argument is wrong, or a case cannot be made or probed.
pub(super) fn run(root: &Path, arguments: &[String]) -> anyhow::Result<bool> {
    let options: Options = parsed("path", arguments)?;
    let cases = chosen(CASES, &options.only, |(name, _)| (*name).to_owned())?;
    let mut ground = Ground::make(&program(root, options.program.as_deref())?)?;
    let mut rows = Vec::new();
    let mut is_good = true;
    for (name, made) in cases {
        for round in 1..=options.rounds {
            let compared = probe(&mut ground, made).with_context(|| format!("{name}, {round}"))?;
            is_good &= compared.iter().all(Compared::is_good);
            rows.extend(compared.iter().map(|one| row(name, one)));
        }
    }
    let mut text = markdown::table(&["path", "fact", "made", "found", "error", "goal"], &rows);
    let _infallible = writeln!(text, "\nRates in Mbit/s and sizes in B, of IP packets.");
    print!("{text}");
    keep(options.out.as_deref(), &text)?;
    Ok(is_good)
}

fn row(name: &str, one: &Compared) -> Vec<String> {
    let error = one.error().map(|error| format!("{:+.2} %", error * 100.0));
    vec![
        name.to_owned(),
        one.fact.to_owned(),
        one.number(one.made),
        one.found.map_or("none".to_owned(), |found| one.number(found)),
        error.unwrap_or_default(),
        one.goal(),
    ]
}

/// Makes the limit, probes the path, and compares the facts.
fn probe(ground: &mut Ground, made: Made) -> anyhow::Result<Vec<Compared>> {
    let family = if let Made::Ecn(family, _) = made { family } else { Family::V4 };
    ground.lay(&Between { family, ..PLAIN }, false)?;
    // The ports of the bridge towards `a` and `b`.
    let [port_back, port] = PORTS;
    let mut to = Ground::address(family, End::B).to_owned();
    let mut budget = vec!["--max-rate", "200 Mbit/s", "--max-bytes", "32 MB"];
    match made {
        Made::Tbf { rate, burst, limit, back } => {
            ground.at_bridge(&format!(
                "tc qdisc add dev {port} root tbf rate {rate:.0}bit burst {burst:.0} limit \
                    {limit:.0}"
            ))?;
            if back > 0.0 {
                ground.at_bridge(&format!(
                    "tc qdisc add dev {port_back} root tbf rate {back:.0}bit burst 1600 limit 15kb"
                ))?;
            }
            if rate > 100e6 {
                budget = vec!["--max-rate", "2 Gbit/s", "--max-bytes", "80 MB"];
            }
        }
        Made::Nft { rate, burst } => ground.nft(&format!(
            "table bridge referee {{ chain police {{ type filter hook forward priority 0; oifname \
                {port} limit rate over {:.0} bytes/second burst {burst:.0} bytes drop; }}; }};\n",
            rate / 8.0
        ))?,
        Made::Mtu(mtu) => {
            ground.at_bridge(&format!("ip link set {port} mtu {mtu}"))?;
        }
        Made::Own(rate) => {
            ground.at(
                End::A,
                &format!(
                    "tc qdisc add dev {DEVICE} root tbf rate {rate:.0}bit burst 5kb limit 60kb"
                ),
            )?;
        }
        Made::Ecn(family, field) => {
            let version = if family == Family::V6 { "ip6" } else { "ip" };
            ground.nft(&format!(
                "table bridge referee {{ chain fields {{ type filter hook forward priority 0; \
                    oifname {port} ether type {version} {version} ecn set {field} counter; }}; \
                    }};\n"
            ))?;
        }
        Made::Clock => {
            ground.other_clock()?;
            to = format!("{to}:{OTHER_CLOCK_PORT}");
        }
    }
    let mut command = ground.linerate(End::A);
    command.args(["--json", "--quiet", "probe", "--to", &to]);
    command.args(budget).arg("--out").arg(ground.folder.join("probe"));
    let output = command.stdin(Stdio::null()).output().context("start linerate probe")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "linerate probe: {}", said.trim());
    let answer: serde_json::Value = serde_json::from_slice(&output.stdout)?;
    if let Made::Ecn(..) = made {
        let rules = ground.at_bridge("nft -j list table bridge referee")?;
        ensure!(matched(&rules)? > 0, "the rule at the bridge wrote the field of no packet");
    }
    let facts: Vec<PathFacts> = serde_json::from_value(answer["path"].clone())?;
    compared(made, &facts)
}

/// Returns the packets that the rules of nft, printed as JSON, counted.
fn matched(rules: &str) -> anyhow::Result<u64> {
    let rules: serde_json::Value = serde_json::from_str(rules).context("parse the JSON of nft")?;
    let listed = rules["nftables"].as_array().context("nft: no list")?;
    let terms = listed.iter().filter_map(|one| one["rule"]["expr"].as_array()).flatten();
    let packets = terms.filter_map(|term| term["counter"]["packets"].as_u64());
    packets.reduce(|a, b| a + b).context("nft: no counter")
}

/// Returns the facts of both directions, that from `a` to `b` first, beside their known answers.
fn compared(made: Made, both: &[PathFacts]) -> anyhow::Result<Vec<Compared>> {
    let (facts, back) = both.split_first().context("no direction was probed")?;
    let rate = |facts: &PathFacts| facts.capacity.map(|fact| fact.value.0);
    let capacity = rate(facts);
    let capacity_back = back.first().and_then(rate);
    let size = |bytes: Option<u64>| bytes.map(|bytes| bytes as f64);
    let queue = size(facts.queue_bytes.map(|fact| fact.value.0));
    let bucket = size(facts.token_bucket.map(|tokens| tokens.bucket.value.0));
    let of = |fact, shown, made, found, within| Compared { fact, shown, made, found, within };
    Ok(match made {
        Made::Tbf { rate, burst, limit, back } => {
            let mut all = vec![
                of("capacity", Shown::Rate, rate * PACKET / FRAME, capacity, OF_RATES),
                of("queue", Shown::Whole, limit * PACKET / FRAME, queue, OF_SIZES),
            ];
            if burst > 20_000.0 {
                all.push(of("bucket", Shown::Whole, burst * PACKET / FRAME, bucket, OF_SIZES));
            }
            if back > 0.0 {
                let made = back * PACKET / FRAME;
                all.push(of("capacity back", Shown::Rate, made, capacity_back, OF_RATES));
            }
            all
        }
        Made::Nft { rate, burst } => {
            let is_policer = facts.limiter == Some(Limiter::Policer);
            vec![
                of("token rate", Shown::Rate, rate, capacity.filter(|_| is_policer), OF_RATES),
                of("bucket", Shown::Whole, rate / 8.0 + burst, bucket, OF_SIZES),
            ]
        }
        Made::Own(rate) => {
            let own = facts.local.first().map(|queue| queue.rate.0);
            vec![
                of("own rate", Shown::Rate, rate, own, 0.0),
                of("capacity", Shown::Rate, rate * PACKET / FRAME, capacity, OF_RATES),
            ]
        }
        Made::Ecn(_, field) => {
            let cleared = facts.ecn_cleared.map(|share| share.value.0);
            let marked = facts.ecn_marked.map(|share| share.value.0);
            let found = match field {
                "ce" => marked,
                "not-ect" => cleared,
                _ => cleared.zip(marked).map(|(cleared, marked)| 1.0 - cleared - marked),
            };
            vec![of("share of pings", Shown::Whole, 1.0, found, 0.0)]
        }
        Made::Clock => {
            let within = facts.clock.map_or(0.0, |clock| clock.within.as_secs_f64());
            let ahead = f64::from(CLOCK_AHEAD_S);
            let found = facts.clock.map(|clock| clock.ahead_ns as f64 / 1e9);
            vec![of("clock, s", Shown::Clock, ahead, found, within.min(MOST_CLOCK_ERROR_S) / ahead)]
        }
        Made::Mtu(mtu) => {
            vec![of("MTU", Shown::Whole, mtu as f64, size(facts.mtu.map(|fact| fact.value.0)), 0.0)]
        }
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn fact(value: &str) -> Value {
        json!({ "value": value, "low": value, "high": value, "n": 10, "method": "flood" })
    }

    #[test]
    fn packets_of_a_rule_are_read_and_a_rule_without_counter_is_an_error() {
        // As printed by nft 1.0.6.
        let listed = |term: &str| {
            format!(
                r#"{{"nftables": [{{"metainfo": {{"version": "1.0.6"}}}}, {{"chain": {{}}}},
                {{"rule": {{"family": "bridge", "expr": [{{"mangle": {{}}}}, {term}]}}}}]}}"#
            )
        };
        let counter = listed(r#"{"counter": {"packets": 37, "bytes": 55500}}"#);
        assert_eq!(matched(&counter).expect("a counter"), 37);
        assert!(matched(&listed(r#"{"drop": null}"#)).is_err());
    }

    #[test]
    fn a_fact_is_good_within_its_goal_and_a_missing_one_never_is() {
        let facts: PathFacts = serde_json::from_value(json!({
            "from": "a", "to": "b", "is_queue_full": true, "receiver_drops": 0,
            "capacity": fact("19.9 Mbit/s"), "queue_bytes": fact("50000 B"),
        }))
        .expect("facts");
        let judge = |made, facts: &[&PathFacts]| {
            let facts: Vec<_> = facts.iter().copied().cloned().collect();
            let compared = compared(made, &facts).expect("facts");
            compared.iter().map(Compared::is_good).collect::<Vec<_>>()
        };
        let good = |made| judge(made, &[&facts]);
        assert_eq!(good(link(20, 60_000.0)), [true, false]);
        assert_eq!(good(shaper(20, 50_000.0, 52_000.0)), [true, true, false]);
        assert_eq!(good(Made::Mtu(1400)), [false]);
        let slow_there = Made::Tbf { rate: 20e6, burst: 1_600.0, limit: 50_000.0, back: 2e5 };
        let mut back = facts.clone();
        back.capacity = serde_json::from_value(fact("0.199 Mbit/s")).expect("a rate");
        assert_eq!(judge(slow_there, &[&facts, &back]), [true, true, true]);
        assert_eq!(judge(slow_there, &[&facts, &facts]), [true, true, false]);
        assert_eq!(good(slow_there), [true, true, false], "no way back");
        let mut ahead = facts.clone();
        for (error_ns, is_within) in [(900_i64, true), (1_100, false)] {
            let ahead_ns = i64::from(CLOCK_AHEAD_S) * 1_000_000_000 + error_ns;
            let clock = json!({ "ahead_ns": ahead_ns, "within": "1000 ns", "n": 50 });
            ahead.clock = serde_json::from_value(clock).expect("a clock");
            assert_eq!(judge(Made::Clock, &[&ahead])[0], is_within);
        }
        let unset = json!({ "ahead_ns": 0, "within": "86400 s", "n": 50 });
        ahead.clock = serde_json::from_value(unset).expect("a clock");
        assert!(!judge(Made::Clock, &[&ahead])[0], "a wide interval excuses nothing");
    }
}
