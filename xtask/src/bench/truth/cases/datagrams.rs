//! Streams of datagrams: lost, duplicated, corrupted and reordered ones are counted one by one, on
//! every kind of path.

use super::super::claim::{Claim, EXACT, Relation, Tolerance, Unit};
use super::super::ground::{Between, End, Family, PLAIN};
use super::super::relay::Delays;
use super::{Clock, Fault, Load, Network, Packets, Seen, Watch};
use Relation::Equal;
use Unit::{BitRate, Ratio};

type Check = fn(&Seen<'_>) -> anyhow::Result<Claim>;

const PAYLOAD: u64 = 1000;
const STREAM: Load = Load {
    workload: "udp_stream",
    params: "datagram_size = \"1000 B\", rate = \"2 kpps\"",
    duration_ms: 1000,
    warmup_ms: 0,
    due: 2000,
    packets: Packets::Udp(PAYLOAD),
    clock: Clock::Same,
};
const LOSS: &[Check] = &[lost, loss_ratio];

const fn case(
    name: &'static str,
    between: Between,
    fault: Fault,
    checks: &'static [Check],
) -> Network {
    Network { name, between, fault, load: STREAM, watch: Watch::Nothing, checks }
}

const fn over(family: Family, mtu: u32) -> Between {
    Between { family, mtu, ..PLAIN }
}

const fn shaped(bits_per_second: u64) -> Between {
    Between { bits_per_second, ..PLAIN }
}

const OFFLOADED: Between = Between { offloads: true, ..PLAIN };

const EVERY_37TH: Fault = Fault::Drop { every: 37, back: false };

const EVERY_13TH: Fault = Fault::Drop { every: 13, back: false };
/// Some of what is dropped was sent in the warm-up, which is no figure's.
const WARMED: Load = Load { warmup_ms: 500, ..STREAM };

pub(super) static CASES: &[Network] = &[
    case("udp_stream, nothing lost", PLAIN, Fault::None, &[lost, goodput, first_interval]),
    case("udp_stream, every 37th dropped", PLAIN, EVERY_37TH, LOSS),
    case(
        "udp_stream over IPv6, MTU 1280, every 37th dropped",
        over(Family::V6, 1280),
        EVERY_37TH,
        LOSS,
    ),
    case("udp_stream over MTU 9000, every 37th dropped", over(Family::V4, 9000), EVERY_37TH, LOSS),
    case("udp_stream in VXLAN, every 37th dropped", over(Family::Vxlan, 1500), EVERY_37TH, LOSS),
    Network {
        load: WARMED,
        ..case(
            "udp_stream, every 13th dropped, after a warm-up of 0.5 s",
            PLAIN,
            EVERY_13TH,
            &[lost_in_span, account],
        )
    },
    Network {
        load: Load {
            workload: "frames",
            params: "mode = \"udp\", frame_size = \"1046 B\", rate = \"2 kpps\", allow_outside_lab \
                = true",
            ..WARMED
        },
        ..case(
            "frames by udp, every 13th dropped, after a warm-up of 0.5 s",
            PLAIN,
            EVERY_13TH,
            &[lost_in_span, account],
        )
    },
    case(
        "udp_stream, everything dropped after 0.6 s of 1 s",
        PLAIN,
        Fault::DropFrom { after_ms: 600 },
        LOSS,
    ),
    case("udp_stream, everything dropped", PLAIN, Fault::DropFrom { after_ms: 0 }, LOSS),
    case(
        "udp_stream, every 50th sent twice",
        PLAIN,
        Fault::Duplicate { every: 50 },
        &[lost, duplicates],
    ),
    case(
        "udp_stream, every 40th corrupted",
        PLAIN,
        Fault::Corrupt { every: 40 },
        &[lost_by_checksum, located_at_checksum],
    ),
    case(
        "udp_stream, every 20th overtaken by three",
        over(Family::Relay, 1500),
        Fault::Relay { delays: Delays::Load, delay_us: 0, reorder_every: 20 },
        &[reordered],
    ),
    Network {
        load: Load {
            params: "datagram_size = \"1000 B\", rate = \"20 Mbit/s\", gso = 0, batch = 1",
            due: 2500,
            ..STREAM
        },
        ..case(
            "udp_stream of 20 Mbit/s into a shaper of 10 Mbit/s",
            shaped(10_000_000),
            Fault::None,
            &[lost_in_shaper, shaped_goodput],
        )
    },
    Network {
        load: Load {
            params: "datagram_size = \"1000 B\", rate = \"3200 pps\", gso = 16, batch = 1",
            due: 3200,
            packets: Packets::UdpSuper(PAYLOAD + 200),
            ..STREAM
        },
        ..case(
            "udp_stream by GSO of 16, every 10th superpacket dropped",
            OFFLOADED,
            Fault::Drop { every: 10, back: false },
            &[lost_in_superpackets],
        )
    },
    Network {
        load: Load {
            params: "datagram_size = \"1000 B\", rate = \"40 kpps\", gso = 32, batch = 1, \
                receive_buffer = \"8 KiB\"",
            due: 40_000,
            packets: Packets::UdpSuper(PAYLOAD + 200),
            ..STREAM
        },
        ..case(
            "udp_stream by GSO of 32 into a socket buffer of 8 KiB",
            OFFLOADED,
            Fault::None,
            &[lost_in_socket],
        )
    },
];

/// Datagrams that the rules dropped are lost, and no others.
fn lost(seen: &Seen<'_>) -> anyhow::Result<Claim> {
    let claim = Claim::count("datagrams lost", seen.study.lost());
    let due = seen.case.load.due;
    let claim = match seen.case.fault {
        // On a busy machine not all that are due are sent.
        Fault::Drop { every, .. } => {
            let sent = seen.packets("there_seen");
            claim.expect((sent / every as f64).floor(), format!("{sent} / {every}"))
        }
        Fault::DropFrom { after_ms: 0 } => claim.expect(due as f64, "rate times duration"),
        Fault::DropFrom { .. } => claim,
        _ => claim.expect(0.0, "nothing is dropped"),
    };
    Ok(claim.beside(
        seen.packets("there_hit") * f64::from(u8::from(is_loss(seen.case.fault))),
        "nft, dropped",
    ))
}

/// The rules drop every N-th from the first of the warm-up on; those are lost that were sent behind
/// it.
fn lost_in_span(seen: &Seen<'_>) -> anyhow::Result<Claim> {
    let Fault::Drop { every, .. } = seen.case.fault else {
        anyhow::bail!("nothing is dropped in this case")
    };
    let load = &seen.case.load;
    let before = load.due * load.warmup_ms / load.duration_ms;
    let claim = Claim::count("datagrams lost of those sent behind the warm-up", seen.study.lost());
    let expected = (before + load.due) / every - before / every;
    Ok(claim.expect(
        expected as f64,
        format!("{} / {every} less {before} / {every}", before + load.due),
    ))
}

fn account(seen: &Seen<'_>) -> anyhow::Result<Claim> {
    let claim =
        Claim::count("datagrams due behind the warm-up", seen.study.metric("operations_due"));
    Ok(claim.expect(seen.case.load.due as f64, "rate times duration"))
}

fn is_loss(fault: Fault) -> bool {
    matches!(fault, Fault::Drop { .. } | Fault::DropFrom { .. })
}

fn loss_ratio(seen: &Seen<'_>) -> anyhow::Result<Claim> {
    let tolerance = Tolerance::absolute(1e-6, "a quotient of exact counts");
    let claim = Claim::new("loss ratio", Ratio, seen.study.metric("loss_ratio"), Equal(tolerance));
    let apart = if matches!(seen.case.fault, Fault::DropFrom { .. }) {
        seen.packets("there_hit")
    } else {
        0.0
    };
    Ok(claim.beside(
        seen.packets("there_hit") / (seen.packets("there_seen") + apart),
        "nft, dropped over seen",
    ))
}

/// Payload a second.
fn goodput(seen: &Seen<'_>) -> anyhow::Result<Claim> {
    let tolerance = Tolerance::relative(0.01, "intervals end between two datagrams");
    let claim = Claim::new("goodput", BitRate, seen.study.metric("goodput"), Equal(tolerance));
    let bits = (PAYLOAD * 8) as f64;
    let seconds = seen.case.load.duration_ms as f64 / 1e3;
    let claim =
        claim.expect(seen.case.load.due as f64 * bits / seconds, "datagrams due times 1000 B");
    Ok(claim.beside(seen.packets("there_seen") * bits / seconds, "nft, datagrams times 1000 B"))
}

/// No interval shows a loss where there was none.
fn first_interval(seen: &Seen<'_>) -> anyhow::Result<Claim> {
    let worst = seen.study.series("loss_ratio").into_iter().fold(0.0, f64::max);
    let claim = Claim::new("largest loss ratio of an interval", Ratio, Some(worst), Equal(EXACT));
    Ok(claim.expect(0.0, "nothing is dropped"))
}

fn duplicates(seen: &Seen<'_>) -> anyhow::Result<Claim> {
    let Fault::Duplicate { every } = seen.case.fault else {
        anyhow::bail!("no duplicates in this case")
    };
    let due = seen.case.load.due;
    let claim = Claim::count("datagrams received twice", seen.study.metric("duplicates"));
    Ok(claim
        .expect((due / every) as f64, format!("{due} / {every}"))
        .beside(seen.packets("there_hit"), "nft, sent again"))
}

fn lost_by_checksum(seen: &Seen<'_>) -> anyhow::Result<Claim> {
    let Fault::Corrupt { every } = seen.case.fault else {
        anyhow::bail!("no corruption in this case")
    };
    let due = seen.case.load.due;
    let claim = Claim::count("datagrams lost", seen.study.lost());
    let claim = claim.expect((due / every) as f64, format!("{due} / {every}"));
    Ok(claim.beside(seen.risen(End::B, "Udp.InCsumErrors"), "SNMP, InCsumErrors"))
}

/// Checks that datagrams with a bad checksum are located there and not as an overflow.
fn located_at_checksum(seen: &Seen<'_>) -> anyhow::Result<Claim> {
    let claim = Claim::count("datagrams located at the checksum", seen.study.located("checksum"));
    Ok(claim.beside(seen.risen(End::B, "Udp.InCsumErrors"), "SNMP, InCsumErrors"))
}

fn reordered(seen: &Seen<'_>) -> anyhow::Result<Claim> {
    // The last one held back has nothing to overtake it if fewer than three follow.
    let due = seen.case.load.due;
    let claim = Claim::count("datagrams out of order", seen.study.metric("reordered"));
    let expected = (1..=due / 20).filter(|n| n * 20 + 3 <= due).count();
    Ok(claim.expect(expected as f64, format!("{due} / 20, without the last")))
}

fn lost_in_shaper(seen: &Seen<'_>) -> anyhow::Result<Claim> {
    let claim = Claim::count("datagrams lost", seen.study.lost());
    Ok(claim.beside(seen.shapers[1].drops as f64, "tc, dropped by tbf"))
}

fn shaped_goodput(seen: &Seen<'_>) -> anyhow::Result<Claim> {
    let tolerance = Tolerance::relative(
        0.06,
        "the shaper's burst of 4 kB and its queue of 40 ms come on top of 1 s",
    );
    let claim = Claim::new("goodput", BitRate, seen.study.metric("goodput"), Equal(tolerance));
    let frame = PAYLOAD + 8 + 20 + 14;
    Ok(claim.expect(
        seen.case.between.bits_per_second as f64 * PAYLOAD as f64 / frame as f64,
        "10 Mbit/s x 1000 / 1042",
    ))
}

/// The bytes of dropped superpackets, less one header each, are whole datagrams.
fn lost_in_superpackets(seen: &Seen<'_>) -> anyhow::Result<Claim> {
    /// IPv4 and UDP: nft counts from the IP header on.
    const HEADERS: f64 = 28.0;
    let claim = Claim::count("datagrams lost", seen.study.lost());
    let (packets, bytes) = (seen.packets("there_hit"), seen.bytes("there_hit"));
    Ok(claim.beside((bytes - packets * HEADERS) / PAYLOAD as f64, "nft, bytes dropped"))
}

/// A superpacket that finds the socket full is lost whole: the kernel counts one, linerate must
/// count its datagrams.
fn lost_in_socket(seen: &Seen<'_>) -> anyhow::Result<Claim> {
    let claim = Claim::count("datagrams located at the socket", seen.study.located("socket"));
    let lost = seen.study.lost().unwrap_or_default();
    let overflows = seen.risen(End::B, "Udp.RcvbufErrors");
    Ok(claim.expect(
        lost,
        format!("all that were lost: SNMP counts {overflows:.0} RcvbufErrors, nft no drop"),
    ))
}
