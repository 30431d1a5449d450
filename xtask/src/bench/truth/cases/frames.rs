//! Raw frames in every mode: each one that the bridge drops is counted as lost.

use super::super::claim::{Claim, Relation, Tolerance, Unit};
use super::super::ground::{Between, PLAIN};
use super::{Clock, Fault, Load, Network, Packets, Seen, Watch};

/// Bytes of a frame, with check sequence, whose UDP payload is that of [`PAYLOAD`].
const FRAME_BYTES: u64 = 200;
const PAYLOAD: u64 = FRAME_BYTES - 18 - 28;
const DUE: u64 = 2000;
const EVERY: u64 = 37;

/// The interfaces' receive side is polled, which XDP between a pair of virtual interfaces needs.
const POLLED: Between = Between { offloads: true, ..PLAIN };

const fn mode(name: &'static str, params: &'static str) -> Network {
    Network {
        name,
        between: POLLED,
        fault: Fault::Drop { every: EVERY, back: false },
        load: Load {
            workload: "frames",
            params,
            duration_ms: 1000,
            warmup_ms: 0,
            due: DUE,
            packets: Packets::Udp(PAYLOAD),
            clock: Clock::Same,
        },
        watch: Watch::Nothing,
        checks: &[lost, due, answered, delivered],
    }
}

pub(super) static CASES: &[Network] = &[
    mode(
        "frames by packet, every 37th dropped",
        "mode = \"packet\", frame_size = \"200 B\", rate = \"2 kpps\", allow_outside_lab = true",
    ),
    mode(
        "frames by packet_bypass, every 37th dropped",
        "mode = \"packet_bypass\", frame_size = \"200 B\", rate = \"2 kpps\", allow_outside_lab = \
            true",
    ),
    mode(
        "frames by packet_ring, every 37th dropped",
        "mode = \"packet_ring\", frame_size = \"200 B\", rate = \"2 kpps\", allow_outside_lab = \
            true",
    ),
    mode(
        "frames by packet_ring_bypass, every 37th dropped",
        "mode = \"packet_ring_bypass\", frame_size = \"200 B\", rate = \"2 kpps\", \
            allow_outside_lab = true",
    ),
    mode(
        "frames by udp, every 37th dropped",
        "mode = \"udp\", frame_size = \"200 B\", rate = \"2 kpps\", allow_outside_lab = true",
    ),
    mode(
        "frames by xdp, every 37th dropped",
        "mode = \"xdp\", frame_size = \"200 B\", rate = \"2 kpps\", allow_outside_lab = true",
    ),
    mode(
        "frames by xdp_copy, every 37th dropped",
        "mode = \"xdp_copy\", frame_size = \"200 B\", rate = \"2 kpps\", allow_outside_lab = true",
    ),
    mode(
        "frames by xdp_generic, every 37th dropped",
        "mode = \"xdp_generic\", frame_size = \"200 B\", rate = \"2 kpps\", allow_outside_lab = \
            true",
    ),
    mode(
        "frames by live, every 37th dropped",
        "mode = \"live\", frame_size = \"200 B\", rate = \"2 kpps\", allow_outside_lab = true",
    ),
];

fn lost(seen: &Seen<'_>) -> anyhow::Result<Claim> {
    let claim = Claim::count("frames lost", seen.study.lost());
    // On a busy machine not all that are due are sent.
    let sent = seen.packets("there_seen");
    let claim = claim.expect((sent / EVERY as f64).floor(), format!("{sent} / {EVERY}"));
    Ok(claim.beside(seen.packets("there_hit"), "nft, dropped"))
}

/// Frames that were due: the bridge saw them, or they were never sent.
fn due(seen: &Seen<'_>) -> anyhow::Result<Claim> {
    let open = seen.study.metric("operations_open").unwrap_or_default();
    let claim = Claim::count("frames due", seen.study.metric("operations_due"));
    Ok(claim
        .expect(DUE as f64, "rate times duration")
        .beside(seen.packets("there_seen") + open, "nft, and those never sent"))
}

fn answered(seen: &Seen<'_>) -> anyhow::Result<Claim> {
    let claim = Claim::count("frames that came", seen.study.metric("operations_answered"));
    Ok(claim.beside(seen.packets("there_seen") - seen.packets("there_hit"), "nft, let through"))
}

fn delivered(seen: &Seen<'_>) -> anyhow::Result<Claim> {
    let tolerance = Tolerance::relative(0.01, "intervals end between two frames");
    let claim = Claim::new(
        "frames a second",
        Unit::PerSecond,
        seen.study.metric("packet_rate"),
        Relation::Equal(tolerance),
    );
    let seconds = seen.case.load.duration_ms as f64 / 1e3;
    let claim =
        claim.expect((DUE - DUE / EVERY) as f64 / seconds, "the rate asked for, less drops");
    Ok(claim.beside(
        (seen.packets("there_seen") - seen.packets("there_hit")) / seconds,
        "nft, let through",
    ))
}
