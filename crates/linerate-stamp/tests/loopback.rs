//! Sender and reflector over loopback. Nothing here depends on how fast the host is.

use std::cell::RefCell;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

use linerate_stamp::auth::Key;
use linerate_stamp::reflect::{ReflectEvent, reflect};
use linerate_stamp::reflector::Reflected;
use linerate_stamp::send::{Outcome, SendError, SendOptions, send};
use linerate_stamp::session::{LossMethod, Losses};

fn options(to: SocketAddr) -> SendOptions {
    SendOptions {
        to,
        local: None,
        gap: Duration::from_millis(1),
        n_packets: 30,
        bytes: 200,
        dscp: Some(46),
        patience: Duration::from_secs(30),
        session: 17,
    }
}

/// Sends to a reflector at `address` that serves hosts for which `is_permitted` is true.
fn measured(
    address: &str,
    is_permitted: fn(IpAddr) -> bool,
    patience: Duration,
) -> (Outcome, Vec<Reflected>) {
    with_keys(address, [None, None], is_permitted, patience)
}

/// Does the same with the keys of the sender and the reflector.
fn with_keys(
    address: &str,
    [of_sender, of_reflector]: [Option<&Key>; 2],
    is_permitted: fn(IpAddr) -> bool,
    patience: Duration,
) -> (Outcome, Vec<Reflected>) {
    let is_over = AtomicBool::new(false);
    let (listening, address_of) = channel();
    let address = address.parse().expect("an address");
    std::thread::scope(|scope| {
        let reflecting = scope.spawn(|| {
            let ended = RefCell::new(Vec::new());
            let on_event = &mut |event| match event {
                ReflectEvent::Listening(at) => listening.send(at).expect("it is awaited"),
                ReflectEvent::Ended(session) => ended.borrow_mut().push(session),
            };
            let is_stopped = || is_over.load(Ordering::Relaxed);
            reflect(address, of_reflector, &is_permitted, on_event, &is_stopped).expect("loopback");
            ended.into_inner()
        });
        let to = address_of.recv().expect("it listens");
        let options = SendOptions { patience, ..options(to) };
        let outcome = send(&options, of_sender, &mut |_| {}, &|| false).expect("it answers");
        is_over.store(true, Ordering::Relaxed);
        (outcome, reflecting.join().expect("no panic"))
    })
}

#[test]
fn with_one_key_every_packet_comes_back_and_with_two_none() {
    let keys = [b"0123456789abcdef", b"0123456789abcdeg"].map(|bytes| Key::new(bytes));
    let [one, other] = keys.each_ref().map(Option::as_ref);
    let within = |keys, patience| with_keys("127.0.0.1:0", keys, |_| true, patience);
    let (outcome, ended) = within([one, one], Duration::from_secs(30));
    let session = &outcome.session;
    assert_eq!((session.n_sent(), session.n_replied(), outcome.bytes), (30, 30, 200));
    assert_eq!((session.method(), ended[0].n_packets), (LossMethod::Counts, 30));
    for keys in [[one, other], [None, one]] {
        let (outcome, ended) = within(keys, Duration::from_millis(50));
        assert_eq!((outcome.session.n_replied(), ended.len()), (0, 0));
    }
    // A reply without a digest is none.
    let (outcome, _) = within([one, None], Duration::from_millis(50));
    assert_eq!(outcome.session.n_replied(), 0);
    assert!(outcome.session.n_foreign > 0);
}

#[test]
fn every_packet_comes_back_and_both_ends_agree() {
    for address in ["127.0.0.1:0", "[::1]:0"] {
        let (outcome, ended) = measured(address, |_| true, Duration::from_secs(30));
        let session = &outcome.session;
        assert_eq!((session.n_sent(), session.n_replied(), outcome.bytes), (30, 30, 200));
        assert_eq!((session.losses(), session.method()), (Losses::default(), LossMethod::Counts));
        assert!(session.exchanges(0).all(|one| one.is_some_and(|one| one.round_trip().is_some())));
        let hops = session.last().expect("a reply").hops;
        assert!(hops > 0 && hops < 255, "the kernel reports it: {hops}");
        let [reflected] = &ended[..] else { panic!("{ended:?}") };
        assert_eq!((reflected.session, reflected.n_packets, reflected.highest), (17, 30, 29));
        assert_eq!(reflected.sender.port(), outcome.local.port());
    }
}

#[test]
fn a_host_that_is_not_permitted_gets_no_answer() {
    let (outcome, ended) = measured("127.0.0.1:0", |_| false, Duration::from_millis(50));
    assert_eq!((outcome.session.n_replied(), ended.len()), (0, 0));
    assert_eq!(outcome.session.losses().unplaced, 30);
}

#[test]
fn a_port_where_nothing_listens_is_named_and_an_interrupt_ends_a_session() {
    let free = UdpSocket::bind("127.0.0.1:0").and_then(|socket| socket.local_addr());
    let refused = send(&options(free.expect("loopback")), None, &mut |_| {}, &|| false);
    assert!(matches!(refused, Err(SendError::Refused(_))), "{refused:?}");
    let silent = UdpSocket::bind("127.0.0.1:0").expect("loopback");
    let to = silent.local_addr().expect("bound");
    let cut = send(&options(to), None, &mut |_| {}, &|| true).expect("it only ends");
    assert!(cut.is_cut && cut.session.n_sent() == 0);
}
