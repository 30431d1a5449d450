//! Where datagrams are lost inside the two hosts: each place is made to drop some, and the drops
//! are counted by whoever makes them.
//!
//! Drops at random are as good as every N-th here: the instrument counts the same ones.

use std::fmt::Write as _;

use anyhow::Context;
use serde_json::Value;

use super::super::claim::Claim;
use super::super::ground::{End, Family, Ground, PLAIN};
use super::super::instruments::{Snmp, snmp};
use super::super::judge;
use super::super::plan::Trial;
use super::Special;

/// The interface of each end.
const DEVICE: &str = "lr0";
/// IPv4 and UDP headers and 1000 bytes of payload.
const PACKET: u32 = 1028;
const STREAM: &str = "datagram_size = \"1000 B\", rate = \"2 kpps\"";
/// Datagrams of three fragments.
const FRAGMENTED: &str = "datagram_size = \"4000 B\", rate = \"500 pps\"";

pub(super) static SPECIAL: &[Special] = &[
    Special {
        name: "loss place: ingress hook of nftables at the receiver",
        run: |ground| {
            nftables(ground, End::B, Hook::Ingress, "receiver ingress (XDP, tc, nftables)")
        },
    },
    Special {
        name: "loss place: input hook of nftables at the receiver",
        run: |ground| nftables(ground, End::B, Hook::Input, "receiver packet filter"),
    },
    Special {
        name: "loss place: egress hook of nftables at the sender",
        run: |ground| nftables(ground, End::A, Hook::Egress, "sender output (neighbour, nftables)"),
    },
    Special {
        name: "loss place: tc at the receiver's ingress",
        run: |ground| {
            traffic_control(ground, End::B, "ingress", "receiver ingress (XDP, tc, nftables)")
        },
    },
    Special {
        name: "loss place: tc at the sender's egress",
        run: |ground| traffic_control(ground, End::A, "egress", "sender qdisc"),
    },
    Special { name: "loss place: no memory for fragments at the receiver", run: no_reassembly },
    Special { name: "loss place: no route back to the source at the receiver", run: no_way_back },
];

/// A hook of the netdev family, or of IP.
#[derive(Clone, Copy)]
enum Hook {
    Ingress,
    Input,
    Egress,
}

/// Lets linerate send datagrams while `inject` holds, takes that back, and judges what it located
/// at `place` by `count`.
fn lost_at(
    ground: &Ground,
    place: &str,
    params: &str,
    [inject, restore]: [&dyn Fn() -> anyhow::Result<()>; 2],
    count: &dyn Fn() -> anyhow::Result<(f64, String)>,
) -> anyhow::Result<Vec<Claim>> {
    inject()
        .or_else(|error| restore().and(Err(error)))
        .map_err(|error| judge::Skipped(format!("{error:#}")))?;
    let (workload, to) = ("udp_stream", "b");
    let plan = Trial { workload, to, duration_ms: 1000, warmup_ms: 0, params }.plan();
    let study = judge::run_plan(ground, &plan, Some(Ground::address(Family::V4, End::B)));
    let counted = count();
    restore()?;
    let (study, (dropped, source)) = (study?, counted?);
    Ok(vec![
        Claim::count("datagrams lost", study.lost()).beside(dropped, source.clone()),
        Claim::count(format!("datagrams located at `{place}`"), study.located(place))
            .beside(dropped, source),
    ])
}

fn nftables(ground: &Ground, end: End, hook: Hook, place: &str) -> anyhow::Result<Vec<Claim>> {
    ground.lay(&PLAIN, false)?;
    let (family, at) = match hook {
        Hook::Ingress => ("netdev", format!("hook ingress device {DEVICE}")),
        Hook::Egress => ("netdev", format!("hook egress device {DEVICE}")),
        Hook::Input => ("ip", "hook input".to_owned()),
    };
    let rules = format!(
        "table {family} truth {{\n counter hit {{ }}\n chain drops {{\n  type filter {at} priority \
            0;\n  meta l4proto udp ip length {PACKET} \
         numgen inc mod 37 == 36 counter name hit drop\n }}\n}}\n"
    );
    let file = ground.folder.join("end.nft");
    let file = file.to_str().context("a folder whose name is text")?;
    let write = || std::fs::write(file, &rules).with_context(|| format!("write {file}"));
    let inject = || write().and_then(|()| ground.at(end, &format!("nft -f {file}")).map(drop));
    let count = || dropped_by_nft(ground, end);
    lost_at(
        ground,
        place,
        STREAM,
        [&inject, &|| ground.at(end, "nft flush ruleset").map(drop)],
        &count,
    )
}

fn dropped_by_nft(ground: &Ground, end: End) -> anyhow::Result<(f64, String)> {
    let text = ground.at(end, "nft -j list counters")?;
    let counters: Value = serde_json::from_str(&text).context("parse the JSON of nft")?;
    let entries = counters["nftables"].as_array().context("nft: no list")?;
    let hits = entries.iter().find_map(|entry| entry["counter"]["packets"].as_f64());
    Ok((hits.context("nft: no counter")?, "nft, dropped".to_owned()))
}

/// Classic BPF: 1 in 37 UDP packets of IPv4 longer than 500 bytes is dropped (2, `TC_ACT_SHOT`), by
/// a random number of the kernel (`SKF_AD_RANDOM`); each instruction is code, jumps and operand.
const PROGRAM: [[u32; 4]; 11] = [
    [0x28, 0, 0, 12],
    [0x15, 0, 8, 0x0800],
    [0x30, 0, 0, 23],
    [0x15, 0, 6, 17],
    [0x28, 0, 0, 16],
    [0x25, 0, 4, 500],
    [0x20, 0, 0, 0xffff_f000 + 56],
    [0x94, 0, 0, 37],
    [0x15, 0, 1, 0],
    [0x06, 0, 0, 2],
    [0x06, 0, 0, 0],
];

fn traffic_control(
    ground: &Ground,
    end: End,
    way: &str,
    place: &str,
) -> anyhow::Result<Vec<Claim>> {
    ground.lay(&PLAIN, false)?;
    let mut program = PROGRAM.len().to_string();
    for [code, jump_if, jump_else, operand] in PROGRAM {
        let _infallible = write!(program, ",{code} {jump_if} {jump_else} {operand}");
    }
    let file = ground.folder.join("drop.bpf");
    let file = file.to_str().context("a folder whose name is text")?;
    let write = || std::fs::write(file, &program).with_context(|| format!("write {file}"));
    let inject = || write().and_then(|()| attach(ground, end, way, file));
    let count = || dropped_by_tc(ground, end, way);
    let restore = || ground.at(end, &format!("tc qdisc delete dev {DEVICE} clsact")).map(drop);
    lost_at(ground, place, STREAM, [&inject, &restore], &count)
}

fn dropped_by_tc(ground: &Ground, end: End, way: &str) -> anyhow::Result<(f64, String)> {
    let text = ground.at(end, &format!("tc -s -j qdisc show dev {DEVICE}"))?;
    let qdiscs: Value = serde_json::from_str(&text).context("parse the JSON of tc")?;
    let list = qdiscs.as_array().context("tc: no list")?;
    let hook = list.iter().find(|qdisc| qdisc["kind"] == "clsact").context("tc: no clsact")?;
    Ok((hook["drops"].as_f64().context("tc: no drops")?, format!("tc, dropped at {way}")))
}

fn attach(ground: &Ground, end: End, way: &str, file: &str) -> anyhow::Result<()> {
    ground.at(end, &format!("tc qdisc add dev {DEVICE} clsact"))?;
    let filter = format!("tc filter add dev {DEVICE} {way} bpf da bytecode-file {file}");
    ground.at(end, &filter).map(drop)
}

fn no_reassembly(ground: &mut Ground) -> anyhow::Result<Vec<Claim>> {
    ground.lay(&PLAIN, false)?;
    let ground = &*ground;
    // The lower one may never exceed the higher one.
    fn set(thresholds: [(&str, u64); 2], ground: &Ground) -> Result<(), anyhow::Error> {
        for (name, bytes) in thresholds {
            ground.at(End::B, &format!("sysctl -qw net.ipv4.ipfrag_{name}_thresh={bytes}"))?;
        }
        anyhow::Ok(())
    }
    let before = snmp(ground, End::B)?;
    // A datagram of which one fragment was refused is lost, whatever became of the other two.
    let lost = || anyhow::Ok((risen(ground, &before, "Ip.ReasmFails")? / 3.0).ceil());
    let count = || Ok((lost()?, "SNMP, ReasmFails / 3 fragments".to_owned()));
    lost_at(
        ground,
        "receiver reassembly",
        FRAGMENTED,
        [&|| set([("low", 0), ("high", 1)], ground), &|| {
            set([("high", 4 << 20), ("low", 3 << 20)], ground)
        }],
        &count,
    )
}

/// A route that leads nowhere back to the source, for a moment: the test of the reverse path
/// refuses what comes from there. TCP repeats what it refuses of the control connection; the kernel
/// counts that too, so that a datagram less may be lost than were refused.
fn no_way_back(ground: &mut Ground) -> anyhow::Result<Vec<Claim>> {
    ground.lay(&PLAIN, false)?;
    let ground = &*ground;
    let filter = |on: u8| filter_reverse_path(ground, on);
    let is_over = std::sync::atomic::AtomicBool::new(false);
    let before = snmp(ground, End::B)?;
    let source = Ground::address(Family::V4, End::A);
    let refused = |name: &str| risen(ground, &before, name);
    let count =
        || Ok((refused("TcpExt.IPReversePathFilter")?, "SNMP, IPReversePathFilter".to_owned()));
    std::thread::scope(|scope| {
        let injecting = scope.spawn(|| {
            // Begun when the load has sent some, ended before control misses an answer.
            while !is_over.load(std::sync::atomic::Ordering::Relaxed) {
                let sent =
                    snmp(ground, End::B)?.get("Udp.InDatagrams").copied().unwrap_or_default();
                if sent > before.get("Udp.InDatagrams").copied().unwrap_or_default() + 100.0 {
                    ground.at(End::B, &format!("ip route add blackhole {source}/32"))?;
                    std::thread::sleep(std::time::Duration::from_millis(200));
                    return ground
                        .at(End::B, &format!("ip route delete blackhole {source}/32"))
                        .map(drop);
                }
                std::thread::sleep(std::time::Duration::from_millis(10));
            }
            anyhow::Ok(())
        });
        let claims = lost_at(
            ground,
            "receiver packet filter",
            STREAM,
            [&|| filter(1), &|| filter(0)],
            &count,
        );
        is_over.store(true, std::sync::atomic::Ordering::Relaxed);
        injecting.join().expect("ip does not panic")?;
        claims
    })
}

fn filter_reverse_path(ground: &Ground, on: u8) -> anyhow::Result<()> {
    for of in ["all", DEVICE] {
        ground.at(End::B, &format!("sysctl -qw net.ipv4.conf.{of}.rp_filter={on}"))?;
    }
    Ok(())
}

/// Returns how far the counter `name` of the receiver has risen since `before`.
fn risen(ground: &Ground, before: &Snmp, name: &str) -> anyhow::Result<f64> {
    let after = snmp(ground, End::B)?;
    let rose = after.get(name).zip(before.get(name)).map(|(after, before)| after - before);
    rose.with_context(|| format!("no {name}"))
}
