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
    assert_eq!(
        (sender.bytes_sent, sender.bytes_acked, receiver.bytes_received),
        (10_000, 10_001, 10_000)
    );
    // bytes_acked counts the SYN, RFC 4898.
    // Loopback takes the 10 000 bytes as one segment, or as few.
    assert!((1..=8).contains(&receiver.data_segments_in), "{receiver:?}");
    assert!(receiver.receive_mss > 500, "{receiver:?}");
    assert_eq!((sender.bytes_received, sender.retransmits, sender.timeouts), (1, 0, 0));
    assert!(sender.known_bytes >= 232, "{sender:?}");
    // Loopback has an MTU of 65 536, and IPv4 packets end at 65 535 bytes (RFC 791).
    assert!(sender.path_mtu >= 1_500, "{sender:?}");
    assert!(
        sender.congestion_window > 0 && sender.rtt_us > 0 && sender.min_rtt_us <= sender.rtt_us + 1,
        "{sender:?}"
    );
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

/// Sends about 20 MB of batches, more than the socket buffers can take, so that some sends are
/// short. Returns what arrived.
fn arrived(mut batch: MessageBatch) -> Vec<u8> {
    let (near, mut far) = pair();
    near.set_nonblocking(true).expect("a socket");
    let reader = std::thread::spawn(move || {
        let mut all = Vec::new();
        far.read_to_end(&mut all).expect("until the end");
        all
    });
    let mut sent = 0;
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
    all
}

#[test]
fn a_batch_sends_whole_messages_in_order_over_short_sends() {
    // A block has room for 65 messages of 1000 B; 100 messages end within the second block. A block
    // has room for one message of 100 kB.
    for (message_bytes, n_messages) in [(1_000, 100), (100_000, 7), (7, 1)] {
        let message: Vec<u8> = (0..message_bytes).map(|idx| (idx % 251) as u8).collect();
        let all = arrived(MessageBatch::new(&message, n_messages).expect("memory"));
        let wrong =
            (0..all.len()).find(|position| all[*position] != message[position % message_bytes]);
        assert_eq!(wrong, None, "{n_messages} messages of {message_bytes}");
    }
}

#[test]
fn a_call_takes_as_many_small_messages_as_fit_its_vectors() {
    assert_eq!(
        [64, 1460, 65_536, 131_072].map(MessageBatch::most),
        [1_048_576, 44 * 1024, 1024, 1024]
    );
}

#[test]
fn a_receive_window_takes_everything_mapped_or_copied() {
    let (mut near, far) = pair();
    let mut window = ReceiveWindow::new(&far, 1 << 20).expect("a tcp socket can be mapped");
    assert_eq!(
        window.receive(&far).expect_err("nothing is queued").kind(),
        io::ErrorKind::WouldBlock
    );
    let writer =
        std::thread::spawn(move || near.write_all(&[7; 3_000_000]).expect("the reader reads"));
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
