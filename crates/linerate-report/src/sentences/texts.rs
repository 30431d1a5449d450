//! Texts of variants beside their values, compared with a file.

use core::fmt::Debug;

use linerate_analysis::compare::{Mechanism, Unproven};
use linerate_analysis::diagnosis::Evidence;
use linerate_analysis::fire_hose::DropEvidence;
use linerate_analysis::tune::experiments::{Hindrance, HindranceKind};
use linerate_analysis::{MixEvidence, Reason};
use linerate_model::derivation::{self, Line, Measure, Remark, Statement};
use linerate_model::{Bytes, Unit};

/// Returns each of `all` and its text, a line each.
fn lines<T: Debug>(all: &[T], text: impl Fn(&T) -> String) -> String {
    all.iter().map(|one| format!("{one:?}\n    {}\n", text(one))).collect()
}

fn mechanisms() -> String {
    let names = "capacity port_rate half_duplex packet_size offloads queues flow_hash \
        interrupt_cpu coalescing rings qdisc pause_frames driver firmware slot receive_window \
        data_in_flight largest_receive_buffer largest_send_buffer congestion_control \
        default_qdisc kernel_network cpu_quota cpu_clock cpu_sleep processor mitigations kernel \
        memory disk linerate other_programs unknown";
    let read = |name: &str| serde_json::from_value::<Mechanism>(name.into()).expect("a mechanism");
    let all: Vec<Mechanism> = names.split_whitespace().map(read).collect();
    lines(&all, |one| super::mechanism(*one).to_owned())
}

fn effects() -> String {
    let all = [
        Unproven::NoPlacebo,
        Unproven::PlaceboMoved,
        Unproven::TooSmall { moved: 1.05, needed: 1.1 },
        Unproven::TooFewPairs { n: 5 },
        Unproven::WithinNoise { moved: 0.96 },
        Unproven::NoChange,
    ];
    lines(&all, super::unproven)
}

fn drops() -> String {
    let all = [
        DropEvidence::Ring { missed: 3, dropped: Some(1) },
        DropEvidence::Ring { missed: 3, dropped: None },
        DropEvidence::Controller {
            dropped: 5,
            received: 90,
            retransmitted: 6,
            window: 7300,
            safe: 2920,
        },
        DropEvidence::Socket { lost: 4, dropped: 2 },
        DropEvidence::Pauses(8),
        DropEvidence::Retransmitted { n: 6, dropped: 5 },
        DropEvidence::NoDrops { utilisation: 0.42 },
        DropEvidence::WindowAboveSafe { n: 6, window: 7300, safe: 2920 },
        DropEvidence::WindowFits { n: 6, window: 1460 },
        DropEvidence::NoRetransmissions { utilisation: Some(0.42) },
        DropEvidence::NoRetransmissions { utilisation: None },
        DropEvidence::NotRead,
    ];
    lines(&all, super::drops)
}

fn mixes() -> String {
    let job = || "storage".to_owned();
    let full = |devices| MixEvidence::Full {
        name: "link".to_owned(),
        devices,
        asked: 2e9,
        room: 1e9,
        passed: 0.9e9,
    };
    let all = [
        MixEvidence::Kept { job: job(), share: 0.985 },
        full(false),
        full(true),
        MixEvidence::Waited { job: job(), lost: 0.4, together: 0.35, alone: 0.02 },
        MixEvidence::WaitsNotCounted { job: job() },
        MixEvidence::MissingFigures,
        MixEvidence::LossUndecided,
        MixEvidence::TwoCauses,
        MixEvidence::MemoryNotCounted,
    ];
    lines(&all, super::mix_evidence)
}

fn hindrances() -> String {
    let evidence = [
        Evidence::RingMissed { missed: 3, received: 9_997 },
        Evidence::Flood { feed: 900e6, drain: 800e6, goodput: 33e6 },
        Evidence::QueueDrops { packets: 7 },
    ];
    let seen =
        lines(&evidence, |one| format!("{} ({})", super::observation(one), super::source(one)));
    let all = [
        Hindrance::Agent { kind: HindranceKind::Refused, message: "denied".to_owned() },
        Hindrance::Already("256".to_owned()),
        Hindrance::Malformed("many".to_owned()),
        Hindrance::NoEvidence(Some(Evidence::BelowCeiling { share: 0.97 })),
        Hindrance::NoEvidence(None),
        Hindrance::Outdone { yields: 1.02, best: "threaded 1".to_owned(), best_yields: 2.5 },
        Hindrance::NotRead,
        Hindrance::OneCpu,
        Hindrance::NoOtherControl,
    ];
    seen + &lines(&all, super::hindrance)
}

fn derivations() -> String {
    let ip = derivation::Quantity::Ipv6;
    let (each, data, wire) = (Bytes(84), Bytes(1538), Bytes(1538));
    let datagram = |packets| Statement::Datagram {
        payload: Bytes(1472),
        ip,
        packets,
        wire,
        at: "link".to_owned(),
    };
    let equation = Line::equation(Measure::Bytes.of(2.0), Measure::Bytes.figure(2.0));
    let all = [
        Statement::AcknowledgementsLeftOut { each, segments: 2, data, share: 0.0273 }.into(),
        datagram(1).into(),
        datagram(2).into(),
        Statement::IpHeaderOnly.into(),
        Statement::WindowSeen { window: Bytes(65_536), rtt_seconds: 50e-6 }.into(),
        equation.remark(Remark::Sampled),
    ];
    lines(&all, super::derivation_line)
}

fn reasons() -> String {
    let unit = Unit::PacketPerSecond;
    let above = |n| Reason::AboveLine { n, line: 812.7, unit, ceiling: "link".to_owned() };
    lines(&[above(1), above(2)], super::reason)
}

/// `LINERATE_UPDATE=1` rewrites the file.
#[test]
fn every_variant_has_the_text_of_the_file() {
    let parts = [mechanisms(), effects(), drops(), mixes(), hindrances(), derivations(), reasons()];
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/snapshots/sentences.txt");
    if std::env::var_os("LINERATE_UPDATE").is_some() {
        std::fs::write(path, parts.concat()).expect("writes the file");
    }
    let expected = std::fs::read_to_string(path).expect("the file is there");
    for (expected, found) in expected.lines().zip(parts.concat().lines()) {
        assert_eq!(found, expected, "LINERATE_UPDATE=1 accepts");
    }
    assert_eq!(parts.concat().len(), expected.len());
}
