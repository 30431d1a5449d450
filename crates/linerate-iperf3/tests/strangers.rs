//! Clients that die or stall, and strangers.

use std::io::{Read, Write};
use std::net::{TcpStream, UdpSocket};
use std::sync::Arc;
use std::time::{Duration, Instant};

use linerate_iperf3::drive::{Asked, drive};
use linerate_iperf3::serve::{Refusal, ServeOptions, Served};
use linerate_iperf3::session::{Ending, Limits};
use linerate_iperf3::wire::{Parameters, Protocol, framed};
use serde_json::json;

use crate::common::{LOOPBACK, Server};

const DEADLINE: Duration = Duration::from_millis(400);
/// Within it after its deadline, a dead client has gone.
const GONE_WITHIN: Duration = Duration::from_secs(1);

fn limits() -> Limits {
    Limits {
        answer: DEADLINE,
        streams: DEADLINE,
        queue: 4 * DEADLINE,
        grace: DEADLINE,
        load: Duration::from_secs(60),
        rate: None,
    }
}

/// A client that has done the first `steps` of a test and then stalls.
fn stalled(server: &Server, cookie: u8, steps: usize) -> Vec<TcpStream> {
    let mut control = TcpStream::connect(server.at).expect("it listens");
    let parameters = framed(&json!({"tcp": true, "time": 1, "parallel": 1}));
    let mut byte = [0];
    let mut read = |control: &mut TcpStream, wanted: u8| {
        control.read_exact(&mut byte).expect("a state");
        assert_eq!(byte, [wanted]);
    };
    let cookie = [cookie; 37];
    if steps == 0 {
        control.write_all(&cookie[..20]).expect("it reads");
        return vec![control];
    }
    control.write_all(&cookie).expect("it reads");
    read(&mut control, 9);
    if steps == 1 {
        return vec![control];
    }
    control.write_all(&parameters).expect("it reads");
    read(&mut control, 10);
    if steps == 2 {
        return vec![control];
    }
    let mut stream = TcpStream::connect(server.at).expect("it listens");
    stream.write_all(&cookie).expect("it reads");
    read(&mut control, 1);
    read(&mut control, 2);
    if steps > 3 {
        control.write_all(&[4]).expect("it reads");
        read(&mut control, 13);
    }
    vec![control, stream]
}

#[test]
fn a_stalled_client_is_dropped_within_a_second_of_its_deadline() {
    let server = Server::start(limits());
    for (steps, missed) in
        [(1, "send parameters"), (2, "open data streams"), (3, "end the load"), (4, "send results")]
    {
        let begun = Instant::now();
        let _kept = stalled(&server, b'a', steps);
        let load = if steps == 3 { Duration::from_secs(1) } else { Duration::ZERO };
        let record = server.ended();
        assert_eq!(record.ending, Ending::Late(missed));
        let taken = begun.elapsed();
        assert!(taken >= DEADLINE + load, "{missed}: {taken:?}");
        assert!(taken < DEADLINE + load + GONE_WITHIN, "{missed}: {taken:?}");
    }
    let _kept = stalled(&server, b'a', 0);
    let refused = server.next(|event| match event {
        Served::Refused(_, why) => Some(why),
        _ => None,
    });
    assert_eq!(refused, Refusal::NoCookie);
}

#[test]
fn a_client_that_dies_frees_its_place_at_once() {
    let options =
        ServeOptions { address: Some(LOOPBACK), port: 0, per_client: 2, ..ServeOptions::default() };
    let server = Server::with(options);
    for steps in [1, 2, 3, 4] {
        // As many as one host may have, again and again.
        for round in 0..5 {
            let two = [stalled(&server, b'a', steps), stalled(&server, b'b', steps)];
            let mut third = TcpStream::connect(server.at).expect("it listens");
            third.write_all(&[b'c'; 37]).expect("it reads");
            let mut byte = [0];
            third.read_exact(&mut byte).expect("an answer");
            assert_eq!(byte, [255], "busy: {steps}, {round}");
            drop(two);
            assert_eq!(
                [server.ended().ending, server.ended().ending],
                [Ending::Gone, Ending::Gone]
            );
        }
    }
    let parameters = Parameters { parallel: 2, bytes: 100_000, ..Parameters::default() };
    let asked = Asked {
        server: server.at,
        local: None,
        first_port: None,
        parameters,
        credentials: None,
        duration: None,
        omit: Duration::ZERO,
        interval: Duration::ZERO,
        patience: Duration::from_secs(20),
    };
    drive(&asked, &mut |_| {}, &|| false).expect("the next one is served");
    assert_eq!(server.ended().ending, Ending::Complete);
}

#[test]
fn no_datagram_goes_to_an_address_without_a_control_connection() {
    let server = Server::start(limits());
    let answered = |from: &str| {
        let socket = UdpSocket::bind((from, 0)).expect("loopback");
        socket.connect(server.at).expect("an address");
        socket.set_read_timeout(Some(Duration::from_millis(200))).expect("a socket");
        socket.send(b"9876").expect("loopback");
        socket.recv(&mut [0; 16]).is_ok()
    };
    assert!(!answered("127.0.0.1"), "nobody has a control connection");
    let mut control = TcpStream::connect(server.at).expect("it listens");
    control.write_all(&[b'u'; 37]).expect("it reads");
    control.write_all(&framed(&json!({"udp": true, "time": 1}))).expect("it reads");
    let mut states = [0; 2];
    control.read_exact(&mut states).expect("two states");
    assert_eq!(states, [9, 10]);
    assert!(!answered("127.0.0.2"), "another address than that of the control connection");
    assert!(answered("127.0.0.1"), "the only stream of the test");
    assert!(!answered("127.0.0.1"), "it has all its streams");
}

#[test]
fn hosts_that_are_not_permitted_are_turned_away() {
    let options = ServeOptions {
        address: Some(LOOPBACK),
        port: 0,
        permits: Arc::new(|client| client != LOOPBACK),
        ..ServeOptions::default()
    };
    let server = Server::with(options);
    let mut control = TcpStream::connect(server.at).expect("it listens");
    let mut byte = [0];
    control.read_exact(&mut byte).expect("an answer");
    assert_eq!(byte, [255]);
    let refused = server.next(|event| match event {
        Served::Refused(client, why) => Some((client, why)),
        _ => None,
    });
    assert_eq!(refused, (LOOPBACK, Refusal::NotPermitted));
}

#[test]
fn clients_of_one_host_open_their_udp_streams_one_after_another() {
    let server = Server::start(Limits::default());
    let udp = Parameters { protocol: Protocol::Udp, parallel: 3, ..Parameters::default() };
    let udp = Parameters { bandwidth: Some(5_000_000), blocks: 20, length: Some(500), ..udp };
    let asked = Asked {
        server: server.at,
        local: None,
        first_port: None,
        parameters: udp,
        credentials: None,
        duration: None,
        omit: Duration::ZERO,
        interval: Duration::ZERO,
        patience: Duration::from_secs(20),
    };
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| drive(&asked, &mut |_| {}, &|| false).expect("its turn comes"));
        }
    });
    for _ in 0..8 {
        let record = server.ended();
        assert_eq!((record.ending, record.streams.len()), (Ending::Complete, 3));
    }
}
