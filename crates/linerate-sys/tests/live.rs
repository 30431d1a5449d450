//! Live frames over a veth pair: the created frames arrive. Runs as root; otherwise skipped with a
//! message.

use std::time::{Duration, Instant};

use linerate_sys::clock;
use linerate_sys::live::{LiveFrames, Row, Shape};
use linerate_sys::xdp::{Copying, Filter, Match, Options, XdpSocket};

use crate::shared::{DEVICE, Pair};

/// Ethernet, IPv4, UDP; then six constant bytes and the stamp.
const SHAPE: Shape =
    Shape { header_bytes: 60, checksum_at: 40, stamp_at: 48, random_ports_at: None };
const FORTY_BITS: u64 = (1 << 40) - 1;
const PATIENCE: Duration = Duration::from_secs(30);

/// Returns the sum of 16-bit big-endian words.
fn sum(bytes: &[u8]) -> u32 {
    let word = |pair: &[u8]| u32::from(pair[0]) << 8 | u32::from(pair.get(1).copied().unwrap_or(0));
    bytes.chunks(2).map(word).sum()
}

fn folded(sum: u32) -> u32 {
    let once = (sum & 0xffff) + (sum >> 16);
    (once & 0xffff) + (once >> 16)
}

/// Returns the sum over what a UDP checksum covers: pseudo header, header and payload.
fn covered(frame: &[u8]) -> u32 {
    sum(&frame[26..34]) + 17 + (frame.len() as u32 - 34) + sum(&frame[34..])
}

/// Returns a UDP datagram over IPv4 from port `port`, `bytes` long, with a non-zero payload.
fn row(flow: u32, port: u16, bytes: usize) -> Row {
    let mut frame: Vec<u8> = (0..bytes).map(|at| (at * 7) as u8).collect();
    frame[..14].copy_from_slice(&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0]);
    let ip_bytes = (bytes as u16 - 14).to_be_bytes();
    frame[14..34].copy_from_slice(&[
        0x45,
        0,
        ip_bytes[0],
        ip_bytes[1],
        0,
        0,
        0x40,
        0,
        64,
        17,
        0,
        0,
        10,
        0,
        0,
        1,
        10,
        0,
        0,
        2,
    ]);
    let header = !(folded(sum(&frame[14..34])) as u16);
    frame[24..26].copy_from_slice(&header.to_be_bytes());
    frame[34..36].copy_from_slice(&port.to_be_bytes());
    frame[36..38].copy_from_slice(&9_u16.to_be_bytes());
    frame[38..40].copy_from_slice(&(bytes as u16 - 34).to_be_bytes());
    frame[40..42].fill(0);
    frame[48..60].fill(0);
    Row { sum: covered(&frame), frame, flow }
}

/// Returns the stamp's fields: number, scheduled departure, shortened lateness.
fn stamp(frame: &[u8]) -> (u64, u64, u16) {
    let forty =
        |at: usize| frame[at..at + 5].iter().fold(0, |value, byte| value << 8 | u64::from(*byte));
    (forty(48), forty(53), u16::from_be_bytes([frame[58], frame[59]]))
}

/// Opens a receiver at end 1 that accepts all our frames.
fn receiver(pair: &Pair) -> (XdpSocket, Filter) {
    pair.at(1, || {
        let filter = Filter::attach(DEVICE, &[&[Match::exactly(12, &[8, 0])]], None, false)
            .expect("veth has native XDP");
        let options = Options {
            queue: 0,
            copying: Copying::IfNeeded,
            frame_bytes: 1514,
            n_transmit: 0,
            n_receive: 4096,
        };
        let socket = XdpSocket::open(DEVICE, options).expect("queue 0 is free");
        filter.direct(&socket).expect("the same device");
        (socket, filter)
    })
}

fn receive(socket: &mut XdpSocket, n: usize) -> Vec<Vec<u8>> {
    let (mut got, until) = (Vec::new(), Instant::now() + PATIENCE);
    while got.len() < n && Instant::now() < until {
        if socket.receive(64, |one| got.push(one.visible.to_vec())) == 0 {
            socket.wait(1_000_000).expect("a socket");
        }
    }
    got
}

#[test]
fn frames_arrive_in_order_whole_and_with_right_checksums() {
    let Some(pair) = Pair::new(1, 1500) else { return };
    let (mut socket, _filter) = receiver(&pair);
    for bytes in [60, 61, 1514] {
        let rows = [row(0, 1000, bytes)];
        let mut live = pair
            .at(0, || LiveFrames::open(DEVICE, &rows, SHAPE, 64).expect("the peer has a program"));
        let before = clock::monotonic();
        // More frames than pages, so that every page is used many times.
        assert_eq!(live.send(3_000).expect("root"), 3_000);
        let after = clock::monotonic();
        let got = receive(&mut socket, 3_000);
        assert_eq!(got.len(), 3_000, "{bytes} B: {:?}, {:?}", live.counts(), socket.statistics());
        for (number, frame) in got.iter().enumerate() {
            let (sequence, scheduled, lateness) = stamp(frame);
            assert_eq!((sequence, lateness), (number as u64, 0));
            assert!(
                (before..=after).contains(&(before & !FORTY_BITS | scheduled)),
                "{scheduled} of {before} to {after}"
            );
            assert_eq!(folded(covered(frame)), 0xffff, "frame {number} of {bytes} B");
            assert_eq!(
                (frame.len(), &frame[..40], &frame[60..]),
                (bytes, &rows[0].frame[..40], &rows[0].frame[60..])
            );
        }
        let counts = live.counts().expect("the kernel counts");
        assert_eq!(
            (counts.made, counts.sent, counts.dropped, live.next(0)),
            (3_000, 3_000, 0, 3_000)
        );
    }
}

#[test]
fn random_ports_spread_over_the_range_of_rfc_4814_and_are_the_same_with_the_same_seed() {
    const N: u32 = 4_000;
    const SPREAD: Shape = Shape { random_ports_at: Some(34), ..SHAPE };
    let Some(pair) = Pair::new(1, 1500) else { return };
    let (mut socket, _filter) = receiver(&pair);
    let mut row = row(0, 0, 60);
    row.frame[34..38].fill(0);
    row.sum = covered(&row.frame);
    let mut drawn = |seed: u64| -> Vec<[u16; 2]> {
        let rows = [row.clone()];
        let mut live = pair
            .at(0, || LiveFrames::open(DEVICE, &rows, SPREAD, 64).expect("the peer has a program"));
        live.seed(seed);
        assert_eq!(live.send(N).expect("root"), N);
        let got = receive(&mut socket, N as usize);
        assert_eq!(got.len(), N as usize, "{:?}, {:?}", live.counts(), socket.statistics());
        assert!(
            got.iter().all(|frame| folded(covered(frame)) == 0xffff),
            "every checksum is right"
        );
        got.iter()
            .map(|frame| [34, 36].map(|at| u16::from_be_bytes([frame[at], frame[at + 1]])))
            .collect()
    };
    let ports = drawn(7);
    for side in [0, 1] {
        let mut sixteenths = [0_u32; 16];
        for pair in &ports {
            assert!(pair[side] >= 1024, "{pair:?}");
            sixteenths[usize::from(pair[side] - 1024) / 4032] += 1;
        }
        // The expected count is 250 each, with a standard deviation of 15.
        assert!(sixteenths.iter().all(|n| (175..325).contains(n)), "{sixteenths:?}");
    }
    let mut distinct = ports.clone();
    distinct.sort_unstable();
    distinct.dedup();
    assert!(distinct.len() > N as usize - 10, "{} pairs of ports", distinct.len());
    assert_eq!(drawn(7), ports);
    assert_ne!(drawn(8), ports);
}

#[test]
fn rows_take_turns_with_their_own_lengths_and_the_numbers_of_their_flows() {
    let Some(pair) = Pair::new(1, 1500) else { return };
    let (mut socket, _filter) = receiver(&pair);
    let rows = [
        row(0, 1000, 60),
        row(1, 1001, 570),
        row(0, 1000, 1514),
        row(1, 1001, 60),
        row(2, 1002, 128),
    ];
    let mut live =
        pair.at(0, || LiveFrames::open(DEVICE, &rows, SHAPE, 16).expect("the peer has a program"));
    // The length of a call is not a multiple of the number of rows.
    for _ in 0..101 {
        live.send(7).expect("root");
    }
    let got = receive(&mut socket, 707);
    assert_eq!(got.len(), 707);
    let mut next = [0; 3];
    for (number, frame) in got.iter().enumerate() {
        let row = &rows[number % rows.len()];
        let flow = row.flow as usize;
        assert_eq!(
            (frame.len(), &frame[34..36], stamp(frame).0),
            (row.frame.len(), &row.frame[34..36], next[flow])
        );
        assert_eq!(folded(covered(frame)), 0xffff, "frame {number}");
        next[flow] += 1;
    }
    assert_eq!([live.next(0), live.next(1), live.next(2)], next);
}

#[test]
fn scheduled_frames_say_how_late_they_are() {
    let Some(pair) = Pair::new(1, 1500) else { return };
    let (mut socket, _filter) = receiver(&pair);
    let rows = [row(0, 1000, 60)];
    let mut live =
        pair.at(0, || LiveFrames::open(DEVICE, &rows, SHAPE, 64).expect("the peer has a program"));
    let now = clock::monotonic();
    // Late by 50 ms, by 40 ms, ...; the last few are early, which counts as no lateness.
    live.schedule(now - 50_000_000, 10_000_000);
    live.send(8).expect("root");
    let took = clock::monotonic() - now;
    for (number, frame) in receive(&mut socket, 8).iter().enumerate() {
        let (sequence, scheduled, short) = stamp(frame);
        assert_eq!(
            (sequence, scheduled),
            (number as u64, (now - 50_000_000 + number as u64 * 10_000_000) & FORTY_BITS)
        );
        let lateness = u64::from(short & 0xfff) << (short >> 12);
        let expected = 50_000_000_u64.saturating_sub(number as u64 * 10_000_000);
        let (low, high) = (expected - expected / 2048, expected + took);
        assert!(
            (low..=high).contains(&lateness),
            "frame {number}: {lateness} ns, {expected} expected"
        );
        assert!(short >> 12 == 0 || short & 0xfff >= 0x800, "as many bits as fit: {short:#x}");
    }
    // A lateness beyond the largest value is stored as the largest value.
    live.schedule(now - 3_000_000_000, 0);
    live.send(1).expect("root");
    assert_eq!(stamp(&receive(&mut socket, 1)[0]).2, 0xffff);
}

#[test]
fn frames_that_a_peer_refuses_do_not_count_as_sent() {
    let Some(pair) = Pair::new(1, 1500) else { return };
    let (socket, filter) = receiver(&pair);
    let mut live = pair.at(0, || {
        LiveFrames::open(DEVICE, &[row(0, 1, 60)], SHAPE, 64).expect("the peer has a program")
    });
    live.send(640).expect("root");
    assert_eq!(live.counts().expect("the kernel counts").sent, 640);
    drop((socket, filter));
    // A program that another test starts has a copy of the filter until it runs.
    let begun = std::time::Instant::now();
    let before = loop {
        live.send(1).expect("a refusing driver is no error");
        let counts = live.counts().expect("the kernel counts");
        if counts.dropped > 0 {
            break counts;
        }
        assert!(begun.elapsed().as_secs() < 10, "the filter stays: {counts:?}");
    };
    live.send(6_400).expect("a refusing driver is no error");
    let after = live.counts().expect("the kernel counts");
    assert_eq!((after.made, after.sent), (before.made + 6_400, before.sent));
    assert_eq!(after.dropped, before.dropped + 6_400);
}
