//! Ceilings of paths that are more than a cable: a shaper below a tunnel, classes of a shaper,
//! IPv6.
//!
//! The ceiling that linerate prints must be what arithmetic says, and no goodput may exceed it.

use anyhow::Context;

use super::super::claim::{Claim, Relation, Tolerance, Unit};
use super::super::ground::{Between, End, Family, Ground, PLAIN};
use super::super::judge;
use super::super::plan::Trial;
use super::Special;

/// The interface of each end.
const DEVICE: &str = "lr0";
const MTU: f64 = 1500.0;
/// Ethernet header, as disciplines count it.
const FRAME: f64 = 14.0;
/// IPv4, IPv6, TCP with time stamps.
const IPV4: f64 = 20.0;
const IPV6: f64 = 40.0;
const TCP: f64 = 32.0;
/// Outer IPv4, UDP, VXLAN and inner Ethernet.
const VXLAN: f64 = 20.0 + 8.0 + 8.0 + 14.0;
/// All rates are of this order, bit/s.
const RATE: f64 = 100e6;
const TBF: &str = "root tbf rate 100mbit burst 32kb latency 30ms";

pub(super) static SPECIAL: &[Special] = &[
    Special {
        name: "ceiling: tbf of 100 Mbit/s at the sender, IPv6",
        run: |ground| {
            bounded(ground, Family::V6, &[TBF], RATE * (MTU - IPV6 - TCP) / (MTU + FRAME))
        },
    },
    Special {
        name: "ceiling: tbf of 100 Mbit/s below VXLAN",
        run: |ground| {
            let inner = MTU - VXLAN;
            bounded(ground, Family::Vxlan, &[TBF], RATE * (inner - IPV4 - TCP) / (MTU + FRAME))
        },
    },
    Special {
        name: "ceiling: HTB, the default class of ceil 60 Mbit/s",
        run: |ground| {
            bounded(ground, Family::V4, &HTB, 0.6 * RATE * (MTU - IPV4 - TCP) / (MTU + FRAME))
        },
    },
    Special {
        name: "ceiling: HTB, a filter picks one of two classes",
        run: |ground| {
            let filter = "parent 1: protocol ip u32 match ip protocol 6 0xff flowid 1:10";
            let [root, outer, first, second] = HTB;
            bounded(
                ground,
                Family::V4,
                &[root, outer, first, second, filter],
                0.8 * RATE * (MTU - IPV4 - TCP) / (MTU + FRAME),
            )
        },
    },
];

/// A discipline, a class of 100 Mbit/s, and below it one that may have 80 and the default, which
/// may have 60.
const HTB: [&str; 4] = [
    "root handle 1: htb default 20",
    "parent 1: classid 1:1 htb rate 100mbit",
    "parent 1:1 classid 1:10 htb rate 20mbit ceil 80mbit",
    "parent 1:1 classid 1:20 htb rate 20mbit ceil 60mbit",
];

/// Runs a stream over what `shaping` makes of the sender's interface: a discipline, its classes, a
/// filter.
fn bounded(
    ground: &mut Ground,
    family: Family,
    shaping: &[&str],
    expected: f64,
) -> anyhow::Result<Vec<Claim>> {
    ground.lay(&Between { family, offloads: true, ..PLAIN }, false)?;
    for what in shaping {
        let object = match what {
            what if what.contains("classid") => "class",
            what if what.contains("flowid") => "filter",
            _ => "qdisc",
        };
        let made = ground.at(End::A, &format!("tc {object} add dev {DEVICE} {what}"));
        made.map_err(|error| judge::Skipped(format!("{error:#}")))?;
    }
    let (workload, params) = ("tcp_stream", "congestion = \"cubic\"");
    let plan = Trial { workload, to: "b", duration_ms: 1500, warmup_ms: 500, params }.plan();
    let address = Ground::address(family, End::B);
    let host = if address.contains(':') { format!("[{address}]") } else { address.to_owned() };
    let study = judge::run_plan(ground, &plan, Some(&host));
    ground.at(End::A, &format!("tc qdisc delete dev {DEVICE} root"))?;
    let study = study?;
    let ceiling = study.ceiling("goodput").context("linerate printed no ceiling of goodput")?;
    let exact = Tolerance::absolute(1.0, "arithmetic");
    let at_most = Tolerance::relative(0.005, "a burst of 32 kB on top of 1.5 s");
    Ok(vec![
        Claim::new("ceiling", Unit::BitRate, Some(ceiling), Relation::Equal(exact))
            .expect(expected, "arithmetic"),
        Claim::new("goodput", Unit::BitRate, study.metric("goodput"), Relation::AtMost(at_most))
            .expect(expected, "arithmetic"),
    ])
}
