//! Datagrams that a relay loses between an unmodified client and our server.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::time::Duration;

use linerate_iperf3::session::Limits;
use linerate_sys::socket::{Buffer, set_buffer};

use crate::common::{LOOPBACK, Server, client, free_address, has_iperf3, json};

/// Copies of the datagram with this number that arrive.
type Pattern = fn(u32) -> usize;

const PATTERNS: [(&str, Pattern); 5] = [
    ("none", |_| 1),
    ("every tenth", |number| usize::from(number % 10 != 0)),
    ("all after the 50th", |number| usize::from(number <= 50)),
    ("all", |_| 0),
    ("every tenth, and another tenth twice", |number| match number % 10 {
        0 => 0,
        1 => 2,
        _ => 1,
    }),
];

/// Starts a relay to `server` for one client and returns its address.
fn relay(server: SocketAddr, pattern: Pattern) -> SocketAddr {
    let at = free_address();
    let listener = TcpListener::bind(at).expect("loopback");
    let outside = UdpSocket::bind(at).expect("the same port with UDP");
    std::thread::spawn(move || {
        for client in listener.incoming().take(1).flatten() {
            let there = TcpStream::connect(server).expect("it listens");
            let pairs = [
                (client.try_clone().expect("a copy"), there.try_clone().expect("a copy")),
                (there, client),
            ];
            for (mut from, mut to) in pairs {
                std::thread::spawn(move || {
                    let mut buffer = [0; 4096];
                    while let Ok(n @ 1..) = from.read(&mut buffer) {
                        if to.write_all(&buffer[..n]).is_err() {
                            break;
                        }
                    }
                    let _ = to.shutdown(std::net::Shutdown::Write);
                });
            }
        }
    });
    std::thread::spawn(move || {
        let inside = UdpSocket::bind((LOOPBACK, 0)).expect("loopback");
        inside.connect(server).expect("an address");
        let mut buffer = [0; 2048];
        let (n, client) = outside.recv_from(&mut buffer).expect("the request");
        inside.send(&buffer[..n]).expect("loopback");
        let n = inside.recv(&mut buffer).expect("the answer");
        outside.send_to(&buffer[..n], client).expect("loopback");
        outside.set_read_timeout(Some(Duration::from_secs(20))).expect("a socket");
        // Only the pattern loses, even if this thread gets no CPU for the whole transfer.
        set_buffer(&outside, Buffer::Receive, 4 << 20).expect("a buffer");
        while let Ok(n) = outside.recv(&mut buffer) {
            let number = u32::from_be_bytes(buffer[8..12].try_into().expect("four bytes"));
            for _ in 0..pattern(number) {
                // The server has closed the stream at the end.
                let _ = inside.send(&buffer[..n]);
            }
        }
    });
    at
}

#[test]
fn an_unmodified_client_prints_the_true_loss_to_the_last_datagram() {
    if !has_iperf3("an_unmodified_client_prints_the_true_loss_to_the_last_datagram") {
        return;
    }
    let server = Server::start(Limits::default());
    std::thread::scope(|scope| {
        for (name, pattern) in PATTERNS {
            let at = relay(server.at, pattern);
            scope.spawn(move || {
                let arguments = "-u -l 1000 -k 100 -b 10M";
                let output = client(at, arguments).output().expect("iperf3 starts");
                let found = json(&output, arguments);
                let sum = &found["end"]["sum"];
                let counted = |name: &str| sum[name].as_u64().expect("a count");
                // 3.12 sends 100; later releases look at the number of blocks less often.
                let sent = counted("packets");
                assert!(sent >= 100, "{name}: {sum}");
                let lost = (1..=sent).filter(|number| pattern(*number as u32) == 0).count() as u64;
                assert_eq!(counted("lost_packets"), lost, "{name}: {sum}");
                let percent = sum["lost_percent"].as_f64().expect("a number");
                let expected = 100.0 * lost as f64 / sent as f64;
                assert!((percent - expected).abs() < 1e-6, "{name}: {sum}");
            });
        }
    });
}
