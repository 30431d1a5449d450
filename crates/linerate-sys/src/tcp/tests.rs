use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use super::*;

fn pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
    let near = TcpStream::connect(listener.local_addr().expect("bound")).expect("connect");
    let far = listener.accept().expect("accept").0;
    far.set_read_timeout(Some(Duration::from_secs(5))).expect("a timeout");
    (near, far)
}

#[test]
fn tcp_info_counts_the_bytes_both_ends_moved() {
    let (mut near, mut far) = pair();
    near.write_all(&[7; 10_000]).expect("fits the buffer");
    let mut received = [0; 10_000];
    far.read_exact(&mut received).expect("arrives");
    far.write_all(b"x").expect("fits");
    near.read_exact(&mut [0]).expect("arrives, and with it the acknowledgement");
    let (sender, receiver) = (info(&near).expect("tcp"), info(&far).expect("tcp"));
    assert_eq!((sender.bytes_sent, sender.bytes_acked, receiver.bytes_received), (10_000, 10_001, 10_000));
    // bytes_acked counts the SYN, RFC 4898.
    assert_eq!((sender.bytes_received, sender.retransmits, sender.timeouts), (1, 0, 0));
    assert!(sender.known_bytes >= 232, "{sender:?}");
    // Loopback has an MTU of 65 536, and IPv4 packets end at 65 535 bytes (RFC 791).
    assert!(sender.path_mtu >= 1_500, "{sender:?}");
    assert!(sender.congestion_window > 0 && sender.rtt_us > 0 && sender.min_rtt_us <= sender.rtt_us + 1, "{sender:?}");
    assert!(sender.send_window > 10_000 && sender.send_mss > 1_000, "{sender:?}");
}

#[test]
fn a_discarding_receive_takes_bytes_and_copies_none() {
    let (mut near, far) = pair();
    near.write_all(&[7; 5_000]).expect("fits the buffer");
    near.shutdown(std::net::Shutdown::Write).expect("connected");
    let mut taken = 0;
    loop {
        match discard(&far, 1 << 20).expect("data or the end") {
            0 => break,
            n => taken += n,
        }
    }
    assert_eq!(taken, 5_000);
}

#[test]
fn a_batch_sends_its_messages_in_order_over_short_sends() {
    const MESSAGE: usize = 1_000;
    let mut memory = Region::new(64 * MESSAGE).expect("memory");
    let fitting = memory.len() / MESSAGE;
    for (idx, byte) in memory.iter_mut().enumerate() {
        *byte = (idx / MESSAGE) as u8;
    }
    let mut batch = MessageBatch::new(memory, 100, MESSAGE);
    let (near, mut far) = pair();
    near.set_nonblocking(true).expect("a socket");
    let reader = std::thread::spawn(move || {
        let mut all = Vec::new();
        far.read_to_end(&mut all).expect("until the end");
        all
    });
    let mut sent = 0;
    // Several rounds of the batch, more than the socket buffers hold: some sends are short.
    while sent < 20_000_000 {
        match batch.send(&near) {
            Ok(n) => sent += n,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => std::thread::yield_now(),
            Err(error) => panic!("{error}"),
        }
    }
    drop(near);
    let all = reader.join().expect("the reader");
    assert_eq!(all.len(), sent);
    for (position, byte) in all.iter().enumerate() {
        assert_eq!(usize::from(*byte), position / MESSAGE % 100 % fitting, "at byte {position}");
    }
}

#[test]
fn a_receive_window_takes_everything_mapped_or_copied() {
    let (mut near, far) = pair();
    let mut window = ReceiveWindow::new(&far, 1 << 20).expect("a tcp socket can be mapped");
    assert_eq!(window.receive(&far).expect_err("nothing is queued").kind(), io::ErrorKind::WouldBlock);
    let writer = std::thread::spawn(move || near.write_all(&[7; 3_000_000]).expect("the reader reads"));
    let mut taken = 0;
    loop {
        match window.receive(&far) {
            Ok(Taken { ended: true, .. }) => break,
            Ok(part) => taken += part.mapped + part.copied,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => std::thread::yield_now(),
            Err(error) => panic!("{error}"),
        }
    }
    writer.join().expect("the writer");
    assert_eq!(taken, 3_000_000);
}

#[test]
fn a_window_clamp_reads_back() {
    let (near, _far) = pair();
    assert_eq!(set_window_clamp(&near, 20_000).expect("tcp"), 20_000);
}
