//! Golden messages: what netperf and netserver 2.7.1 sent, without the zeros at the end.

use super::*;

/// netperf -t UDP_RR -l 7 -C -Y 0x20,0xb8 -T 0,1 -- -r 100,200 -S 4096,8192
const UDP_RR: &str = "000000610000000100001000ffffffff000000080000000000000001\
    0000006400002000ffffffff000000080000000000000001000000c80000002800000000\
    000000070000000000000000ffffffffffffffffffffffff000000000000000400000002\
    00000011000000060000afea000000000000000000000000000000000000000000000000\
    00000000000000000000000000000000ffffffff000000b8";
/// netperf -t TCP_MAERTS -l 3 -- -K cubic,reno
const TCP_MAERTS: &str = "00000061ffffffffffffffffffffffff000000080000000000000000\
    ffffffffffffffffffffffff000000080000000000000002ffffffff0000002000000000\
    000000030000000000000000ffffffffffffffffffffffff000000000000000400000001\
    000000060000000200000000000000000000000000000000000000000000000000000000\
    00000000000000000000000000000000ffffffffffffffff72656e6f";
/// Answer and results of a netserver that received 1,000 bytes with cubic and class 0xb8.
const ANSWER: &str = "000000620000000000020000000200000000000200004000ffffffff\
    000000000000000842c8000000000000000000000000000000009f930000000000000000\
    0000000000000000ffffffff000000b8";
const RESULTS: &str = "620000000000000000000000000003e800000001000200000000000000000000\
    0000000000400000000000000000000039ccff22000000000000000000000000\
    000000000000000000000000b8000000000000080000000200000000";
const RESULTS_TEXT: &str = "6375626963";
/// Zeros before the text of [`RESULTS`].
const TEXT_AT: usize = HEAD_BYTES + 27 * WORD_BYTES + OTHER_TEXT_BYTES;

fn message(hex: &str) -> Message {
    let digits = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).expect("hexadecimal");
    let mut bytes: Vec<u8> = (0..hex.len()).step_by(2).map(digits).collect();
    bytes.resize(MESSAGE_BYTES, 0);
    Message::read(&mut &bytes[..]).expect("a whole message")
}

/// Words of the data whose value netperf and this program choose differently: numbers of blocks,
/// and bytes that are written before a call.
const CHOSEN: [usize; 5] = [4, 10, 17, 18, 19];

fn words(message: &Message) -> Vec<u32> {
    let mut reader = message.reader();
    (0..162).filter_map(|idx| Some(reader.word()).filter(|_| !CHOSEN.contains(&idx))).collect()
}

#[test]
fn requests_of_netperf_are_read_and_written_as_it_does() {
    let udp = message(UDP_RR);
    let request = Request::read(&udp);
    assert_eq!((udp.kind, udp.word), (kind::TEST, 1));
    assert_eq!((request.exchange, request.buffers), ([100, 200], [4096, 8192]));
    assert_eq!(request.flags, flag::CPU | flag::ROUTED);
    assert_eq!((request.length, request.family, request.class), (7, 4, 0xb8));
    assert!(request.is_udp && request.is_exchange());
    assert_eq!(request.client_port, 0xafea);
    assert_eq!(words(&request.message(Some(1))), words(&udp));

    let tcp = message(TCP_MAERTS);
    let request = Request::read(&tcp);
    assert_eq!((request.direction, request.congestion.as_str()), (direction::SENDS, "reno"));
    assert_eq!((request.exchange, request.sizes), ([-1; 2], [-1; 2]));
    assert!(!request.is_udp && !request.is_exchange() && request.class == 0);
    assert_eq!((words(&request.message(None)), tcp.word), (words(&tcp), u32::MAX));
}

#[test]
fn answers_of_netserver_are_read() {
    let answer = Answer::read(&message(ANSWER));
    let expected = Answer {
        buffers: [16_384, 131_072],
        sizes: [-1, 131_072],
        flags: flag::CPU,
        port: 0x9f93,
        class: 0xb8,
    };
    assert_eq!(answer, expected);
    assert_eq!(Answer::read(&answer.message()), answer);

    let zeros = "00".repeat(TEXT_AT - RESULTS.len() / 2);
    let results = Results::read(&message(&(RESULTS.to_owned() + &zeros + RESULTS_TEXT)));
    assert_eq!((results.bytes, results.calls), ([0, 1_000], [0, 1]));
    assert_eq!(results.buffers, [4 << 20, 128 << 10]);
    assert_eq!((results.seconds * 1e6).round(), 391.0);
    assert_eq!((results.congestion.as_str(), results.cpu.n_cpus), ("cubic", 2));
}

#[test]
fn results_survive_their_message() {
    let cpu = CpuUse {
        total: 12.5,
        user: 1.5,
        system: 6.0,
        waiting: 0.25,
        interrupts: 2.0,
        soft: 3.0,
        n_cpus: 8,
        busiest: (3, 99.0),
    };
    let results = Results {
        bytes: [u64::MAX - 7, 1 << 40],
        calls: [7, 9],
        buffers: [1, 2],
        failed: 3,
        transactions: 4,
        seconds: 1.25,
        cpu,
        retransmits: -1,
        congestion: "a name of more than sixteen bytes".to_owned(),
    };
    let read = Results::read(&results.message());
    assert_eq!(read.congestion, "a name of more ");
    assert_eq!(Results { congestion: results.congestion.clone(), ..read }, results);
}

#[test]
fn a_message_that_ends_early_is_an_error() {
    let mut bytes = Vec::new();
    Message::new(kind::TEST, 0).write(&mut bytes).expect("memory");
    assert_eq!(bytes.len(), 656);
    let error = Message::read(&mut &bytes[..655]).expect_err("no whole message");
    assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
}
