//! AF_XDP on real interfaces: a veth pair between two namespaces. Runs as root; otherwise skipped
//! with a message.

use std::time::{Duration, Instant};

use linerate_sys::packet::PacketSocket;
use linerate_sys::xdp::{Copying, Filter, Match, Options, Placement, XdpSocket};

use crate::shared::{DEVICE, Pair, frame, number};

/// Local experimental EtherTypes.
const OURS: u16 = 0x88b5;
const THEIRS: u16 = 0x88b6;
const PATIENCE: Duration = Duration::from_secs(30);

fn options(queue: u32, frame_bytes: u32) -> Options {
    Options { queue, copying: Copying::IfNeeded, frame_bytes, n_transmit: 64, n_receive: 256 }
}

fn ours() -> [Match; 1] {
    [Match::exactly(12, &OURS.to_be_bytes())]
}

/// Sends `n` frames numbered from 0, each `bytes` long, until all are sent and returned, after
/// `before` other frames.
fn send(socket: &mut XdpSocket, before: u64, n: u32, bytes: usize) {
    let (mut next, until) = (0, Instant::now() + PATIENCE);
    while socket.flush().expect("the link is up").completed < before + u64::from(n) {
        assert!(Instant::now() < until, "{:?}", socket.sent());
        let wanted = (n - next).min(16);
        let base = next;
        let mut k = 0;
        next += socket
            .send(wanted, |_, slot| {
                slot[..bytes].copy_from_slice(&frame(bytes, OURS, base + k));
                k += 1;
                bytes
            })
            .expect("the link is up");
    }
}

/// Returns numbers and lengths of the frames that arrive, until there are `n` or patience ends.
fn receive(socket: &mut XdpSocket, n: usize) -> Vec<(u32, u32)> {
    let (mut got, until) = (Vec::new(), Instant::now() + PATIENCE);
    while got.len() < n && Instant::now() < until {
        if socket.receive(64, |one| got.push((number(one.visible), one.bytes))) == 0 {
            socket.wait(1_000_000).expect("a socket");
        }
    }
    got
}

fn numbered(n: u32, bytes: u32) -> Vec<(u32, u32)> {
    (0..n).map(|number| (number, bytes)).collect()
}

/// Opens a receiver at end 1 with its program, and a sender at end 0.
fn ends(
    pair: &Pair,
    placement: Placement,
    frame_bytes: u32,
    several: bool,
) -> (XdpSocket, Filter, XdpSocket) {
    let (receiver, filter) = pair.at(1, || {
        let filter =
            Filter::attach(DEVICE, &[&ours()], Some(placement), several).expect("veth takes both");
        let socket = XdpSocket::open(DEVICE, options(0, frame_bytes)).expect("queue 0 is free");
        filter.direct(&socket).expect("the same device");
        (socket, filter)
    });
    assert_eq!(filter.placement(), placement);
    let sender =
        pair.at(0, || XdpSocket::open(DEVICE, options(0, frame_bytes)).expect("queue 0 is free"));
    assert!(!sender.is_zero_copy() && !receiver.is_zero_copy(), "a veth copies");
    (receiver, filter, sender)
}

fn arrives_on_the_stack(pair: &Pair, ethertype: u16) -> bool {
    let stack = pair.at(1, || PacketSocket::open_for(DEVICE, ethertype).expect("root"));
    let sender = pair.at(0, || PacketSocket::open(DEVICE).expect("root"));
    assert!(sender.send(&frame(60, ethertype, 7)).expect("up"));
    linerate_sys::packet::wait([&stack], 300_000_000).expect("a socket");
    stack.receive(&mut [0; 128]).expect("up") == Some(60)
}

#[test]
fn ours_reach_the_socket_and_theirs_the_stack() {
    for placement in [Placement::Native, Placement::Generic] {
        let Some(pair) = Pair::new(1, 1500) else { return };
        let (mut receiver, filter, mut sender) = ends(&pair, placement, 1514, false);
        for (round, bytes) in [60, 1514].into_iter().enumerate() {
            send(&mut sender, round as u64 * 200, 200, bytes);
            assert_eq!(
                receive(&mut receiver, 200),
                numbered(200, bytes as u32),
                "{placement:?}, {bytes} B"
            );
        }
        let sent = sender.sent();
        assert_eq!((sent.handed, sent.completed, sent.dropped), (400, 400, 0));
        assert!(arrives_on_the_stack(&pair, THEIRS), "the stack gets what is not ours");
        assert!(!arrives_on_the_stack(&pair, OURS), "and not what is");
        assert!(filter.takes(&frame(60, OURS, 0)).expect("long enough"));
        assert!(!filter.takes(&frame(60, THEIRS, 0)).expect("long enough"));
        // Without the program, the stack receives our frames as well.
        drop((receiver, filter));
        assert!(arrives_on_the_stack(&pair, OURS), "the program is gone with its owner");
    }
}

#[test]
fn drops_of_a_full_ring_are_counted() {
    let Some(pair) = Pair::new(1, 1500) else { return };
    let (mut receiver, _filter, mut sender) = ends(&pair, Placement::Native, 1514, false);
    send(&mut sender, 0, 1_000, 60);
    let until = Instant::now() + PATIENCE;
    let dropped = loop {
        let told = receiver.statistics().expect("a socket");
        if told.receive_dropped + told.receive_ring_full >= 744 || Instant::now() > until {
            break told.receive_dropped + told.receive_ring_full;
        }
    };
    assert_eq!(receive(&mut receiver, 256), numbered(256, 60), "as many as the ring holds");
    assert_eq!(dropped, 1_000 - 256);
}

#[test]
fn jumbo_frames_pass_in_several_buffers() {
    let Some(pair) = Pair::new(1, 9000) else { return };
    for (placement, several) in [(Placement::Native, true), (Placement::Generic, true)] {
        let (mut receiver, _filter, mut sender) = ends(&pair, placement, 9014, several);
        for (round, bytes) in [9014, 5000, 60].into_iter().enumerate() {
            send(&mut sender, round as u64 * 40, 40, bytes);
            assert_eq!(
                receive(&mut receiver, 40),
                numbered(40, bytes as u32),
                "{placement:?}, {bytes} B"
            );
        }
    }
}

#[test]
fn each_queue_has_its_socket() {
    let Some(pair) = Pair::new(2, 1500) else { return };
    let (mut receivers, _filter) = pair.at(1, || {
        let filter = Filter::attach(DEVICE, &[&ours()], None, false).expect("veth has native XDP");
        let open =
            |queue| XdpSocket::open(DEVICE, options(queue, 1514)).expect("the queue is free");
        let sockets = [open(0), open(1)];
        sockets.iter().for_each(|socket| filter.direct(socket).expect("the same device"));
        (sockets, filter)
    });
    let open = |queue| {
        pair.at(0, || XdpSocket::open(DEVICE, options(queue, 1514)).expect("the queue is free"))
    };
    let mut senders = [open(0), open(1)];
    for (sender, n) in senders.iter_mut().zip([10, 20]) {
        send(sender, 0, n, 60);
    }
    // A veth's transmit queue is its peer's receive queue.
    assert_eq!(receive(&mut receivers[0], 10), numbered(10, 60));
    assert_eq!(receive(&mut receivers[1], 20), numbered(20, 60));
}

/// Returns for each of `frames` whether a filter with these alternatives takes it.
fn taken(alternatives: &[&[Match]], frames: &[&[u8]]) -> Option<Vec<bool>> {
    let pair = Pair::new(1, 1500)?;
    Some(pair.at(1, || {
        let filter =
            Filter::attach(DEVICE, alternatives, None, false).expect("veth has native XDP");
        let socket = XdpSocket::open(DEVICE, options(0, 1514)).expect("queue 0 is free");
        filter.direct(&socket).expect("the same device");
        frames.iter().map(|frame| filter.takes(frame).expect("long enough")).collect()
    }))
}

#[test]
fn a_match_compares_any_bytes_and_bits() {
    let masked = Match::masked(20, &[0x00, 0xa0], &[0x00, 0xf0]);
    let all = [Match::exactly(12, &OURS.to_be_bytes()), Match::exactly(14, &[0, 0, 0, 9]), masked];
    let mut ours = frame(60, OURS, 9);
    ours[20..22].copy_from_slice(&[0x77, 0xab]);
    let Some(found) = taken(&[&all], &[&ours, &ours[..22], &ours[..21]]) else { return };
    assert_eq!(found, [true, true, false], "21 bytes are too short for the match");
    let other = [Match::exactly(40, &[1, 2, 3, 4])];
    let theirs = [(12, 0x89), (17, 8), (21, 0x1b)].map(|(at, other)| {
        let mut theirs = ours.clone();
        theirs[at] = other;
        theirs
    });
    let [first, second, third] = &theirs;
    let frames: [&[u8]; 5] = [&ours, &ours[..22], first, second, third];
    // 22 bytes are too short for the first alternative only.
    assert_eq!(taken(&[&other, &all], &frames), Some(vec![true, true, false, false, false]));
    let long = Match::exactly(12, &[0x88, 0xb5, 0, 0, 0, 9, 0, 0]);
    let found = taken(&[&[long]], &[&ours, &frame(60, OURS, 10)]);
    assert_eq!(found, Some(vec![true, false]));
}
