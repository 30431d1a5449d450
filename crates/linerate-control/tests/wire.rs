//! Control protocol, version 4: golden bytes, hostile bytes, and round trips of all messages.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use linerate_control::wire::{
    GREETING_LIMIT, Greeting, HelloRole, JobOffer, MESSAGE_LIMIT, Message, PairProof, Prepare,
    PreparedJob, Setting, SettingState, TuneRequest, WireError, decode, decode_within, encode,
    name, pieces, printable,
};
use linerate_load::{Offer, Secret};
use linerate_model::{
    Background, Counter, Distribution, FlowReport, Incident, IncidentKind, Interval, Nanos, Params,
    Phases, SampleBlock, SampleColumn, Side, TrialId, is_obeyed,
};
use proptest::prelude::*;
use serde_json::json;

#[path = "../../../fuzz/driver.rs"]
mod driver;
#[path = "../../../fuzz/entries/wire.rs"]
#[allow(unreachable_pub)]
mod entry;

/// Returns one message of each kind, in the order of the enum.
fn every_message() -> Vec<Message> {
    let trial = TrialId(7);
    let mut greeting = Greeting::new(HelloRole::Agent, "hostb");
    greeting.release = "0.1.0".into();
    greeting.campaign = "20261121T000500Z-7f3a".into();
    greeting.tunes = true;
    greeting.lasts_s = 60;
    greeting.facts = json!({ "cpu": { "model": "x" } });
    let mut interval = Interval { start: Nanos(0), end: Nanos(500_000_123), ..Interval::default() };
    interval.counters[Counter::PayloadReceived] = u64::MAX;
    interval.service = Distribution { lost: 1, ..Distribution::of(vec![(1_000, 3)]) }.into();
    let flow = FlowReport {
        flow: 1,
        local: "192.0.2.1:1".into(),
        remote: "192.0.2.2:2".into(),
        ..FlowReport::default()
    };
    let local = json!({
        "name": "b", "host": "hostb", "address": "192.0.2.2", "device": "eth0", "cpus": [1]
    });
    let serde_json::Value::Object(params) = json!({ "message_size": "64 KiB" }) else {
        unreachable!()
    };
    let job = PreparedJob {
        job: 0,
        side: Side::Passive,
        workload: "tcp_stream".into(),
        params: Params(params),
        local: serde_json::from_value(local).expect("an endpoint"),
        background: Some(Background { start_ns: -3, duration: Nanos::from_secs(1) }),
        seed: u64::MAX,
        secret: Secret([0xab; 16]),
        peer_clock: None,
    };
    let phases = Phases {
        measure: Nanos::from_secs(5),
        drain: Nanos::from_secs(1),
        interval: Nanos::from_millis(500),
        ..Phases::default()
    };
    let prepare = Prepare {
        trial,
        phases,
        jobs: vec![job],
        patience_ms: 10_000,
        sample_period_ms: 100,
        legs: Vec::new(),
        counts_often: false,
    };
    let offer = Offer { addresses: vec!["[2001:db8::1]:4711".parse().expect("an address")] };
    let offers = vec![JobOffer { job: 0, offer }];
    let block = SampleBlock { times: vec![Nanos(1)], cost_ns: 2, ..SampleBlock::default() };
    let destination = "198.18.0.1".parse().expect("an address");
    let window =
        Setting::RouteWindow { destination, device: "eth0".into(), window: 7300, initial: 5 };
    let sysctl =
        Setting::Sysctl { name: "net.ipv4.tcp_rmem".into(), value: "4096 12288 12288".into() };
    let state = SettingState {
        setting: window.clone(),
        spelled: "198.18.0.0/24 dev eth0".into(),
        refused: None,
    };
    let incident =
        Incident { host: String::new(), kind: IncidentKind::NotGranted, message: "less".into() };
    vec![
        Message::Hello(Box::new(greeting)),
        Message::Busy { by: "campaign x (192.0.2.9:1)".into(), since_s: 12, left_s: 48, ahead: 0 },
        Message::Refused { version: 1, release: "0.1.0".into(), why: "no".into() },
        Message::Ping { n: 1, sent_ns: 0 },
        Message::Pong { n: 1, clock_ns: u64::MAX, sent_ns: 0, answered_ns: 0 },
        Message::Prepare(Box::new(prepare)),
        Message::Offers { trial, offers: offers.clone() },
        Message::Connect { trial, offers },
        Message::Ready { trial },
        Message::StartAt { trial, clock_ns: 123_456_789_012_345_678 },
        Message::Intervals { trial, job: 0, side: Side::Active, intervals: vec![interval] },
        Message::FlowsEnded { trial, job: 0, side: Side::Active, flows: vec![flow] },
        Message::Samples { trial, block: Box::new(block) },
        Message::Incident { trial: Some(trial), incident },
        Message::Done {
            trial,
            started_ns: vec![123_456_789_012_345_679],
            ready_ns: None,
            failed: None,
        },
        Message::Abort { trial },
        Message::Tune { n: 1, request: TuneRequest::Apply(vec![window, sysctl]) },
        Message::Tuned { n: 1, states: vec![state], failed: None },
        Message::Goodbye,
        Message::PairProof(PairProof { mac: "00ff".into() }),
        Message::Paired,
    ]
}

/// Frames of version 4 at its first release. They must always decode: a change here needs a new
/// version.
const GOLDEN: &[u8] = include_bytes!("../fixtures/wire-v4.bin");
/// Frames of version 3, whose data connections had no cookie.
const GOLDEN_V3: &[u8] = include_bytes!("../fixtures/wire-v3.bin");
/// Frames of version 2, whose data connections showed the secret instead of proving it.
const GOLDEN_V2: &[u8] = include_bytes!("../fixtures/wire-v2.bin");
/// Frames of version 1, which had no settings.
const GOLDEN_V1: &[u8] = include_bytes!("../fixtures/wire-v1.bin");

/// Returns the messages as a release before version 4 sends them.
fn every_message_before(version: u32) -> Vec<Message> {
    let mut messages = every_message();
    for message in &mut messages {
        match message {
            Message::Hello(greeting) => (greeting.version, greeting.lasts_s) = (version, 0),
            Message::Busy { left_s, .. } => *left_s = 0,
            _ => {}
        }
    }
    messages
}

fn decoded(mut rest: &[u8]) -> Vec<Message> {
    let mut decoded = Vec::new();
    while let Some((message, taken)) = decode(rest).expect("golden bytes decode") {
        decoded.push(message);
        rest = &rest[taken..];
    }
    assert!(rest.is_empty());
    decoded
}

#[test]
fn golden_bytes_of_version_1_decode_as_version_4_except_for_settings() {
    let mut expected = every_message_before(1);
    expected.retain(|message| !matches!(message, Message::Tune { .. } | Message::Tuned { .. }));
    if let Some(Message::Hello(greeting)) = expected.first_mut() {
        greeting.tunes = false;
    }
    assert_eq!(decoded(GOLDEN_V1), expected);
}

#[test]
fn golden_bytes_of_versions_2_and_3_decode_as_version_4() {
    for (version, bytes) in [(2, GOLDEN_V2), (3, GOLDEN_V3)] {
        assert_eq!(decoded(bytes), every_message_before(version), "{version}");
    }
}

#[test]
fn golden_bytes_of_version_4_decode_to_one_message_of_each_kind() {
    let decoded = decoded(GOLDEN);
    assert_eq!(decoded, every_message());
    let mut names: Vec<&str> = decoded.iter().map(name).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), decoded.len(), "each kind once");
}

#[test]
fn the_smallest_frames_are_these_bytes() {
    assert_eq!(encode(&Message::Goodbye).unwrap(), b"\x00\x00\x00\x09\"goodbye\"");
    assert_eq!(
        encode(&Message::Ping { n: 1, sent_ns: 0 }).unwrap(),
        b"\x00\x00\x00\x10{\"ping\":{\"n\":1}}"
    );
}

#[test]
fn a_field_of_a_newer_release_is_ignored() {
    let frame = b"\x00\x00\x00\x1c{\"ping\":{\"n\":1,\"colour\":3}} ";
    assert_eq!(decode(frame).unwrap(), Some((Message::Ping { n: 1, sent_ns: 0 }, frame.len())));
}

#[test]
fn a_length_beyond_the_limit_is_refused_at_its_fourth_byte_and_named_after_what_it_looks_like() {
    let refused = |bytes: &[u8]| decode(bytes).unwrap_err().to_string();
    assert!(refused(b"GET / HTTP/1.1").contains("HTTP"));
    assert!(refused(b"SSH-2.0").contains("SSH"));
    assert!(refused(&[22, 3, 1, 0]).contains("TLS"));
    let banner = refused(b"\r\nWelcome to \x1b[1mdb7\x1b[0m!\nLast login: Monday\n");
    assert!(
        banner.contains("\"Welcome to \\u{1b}[1mdb7\\u{1b}[0m!\" (a command that starts an agent"),
        "{banner}"
    );
    assert_eq!(decode(&[1, 0, 0]), Ok(None));
    let length = MESSAGE_LIMIT + 1;
    let error = WireError::TooLong { length, limit: MESSAGE_LIMIT, hint: "" };
    assert_eq!(decode(&(length as u32).to_be_bytes()), Err(error));
    let strangers = (GREETING_LIMIT as u32 + 1).to_be_bytes();
    assert!(decode_within(&strangers, GREETING_LIMIT).is_err());
    assert_eq!(decode(&strangers), Ok(None));
}

#[test]
fn deep_nesting_is_an_error_and_not_the_end_of_the_stack() {
    let deep = [b"{\"hello\":".as_slice(), &[b'['; 1_000_000]].concat();
    let frame = [&(deep.len() as u32).to_be_bytes(), deep.as_slice()].concat();
    assert!(matches!(decode(&frame), Err(WireError::NotAMessage { .. })));
}

#[test]
fn long_readings_travel_in_pieces_and_lose_nothing() {
    let times: Vec<Nanos> = (0..100_000).map(Nanos).collect();
    let columns: Vec<SampleColumn> =
        (0..10).map(|_| times.iter().map(|at| Some(at.0 as f64 / 3.0)).collect()).collect();
    let unavailable = vec![("perf".to_owned(), "no PMU".to_owned())];
    let block = SampleBlock { times, columns, unavailable, cost_ns: 5, ..SampleBlock::default() };
    let pieces = pieces(Message::Samples { trial: TrialId(1), block: Box::new(block.clone()) });
    assert!(pieces.len() > 1);
    let mut whole =
        SampleBlock { columns: vec![SampleColumn::default(); 10], ..SampleBlock::default() };
    for piece in &pieces {
        assert!(encode(piece).unwrap().len() < MESSAGE_LIMIT / 2);
        let Message::Samples { block, .. } = piece else { panic!("{}", name(piece)) };
        whole.times.extend(&block.times);
        whole.unavailable.extend(block.unavailable.clone());
        whole.cost_ns += block.cost_ns;
        for (column, more) in whole.columns.iter_mut().zip(&block.columns) {
            *column = column.iter().chain(more.iter()).collect();
        }
    }
    assert!(whole == block);
}

#[test]
fn an_agent_says_when_it_was_ready_and_an_older_one_need_not() {
    let done =
        |ready_ns| Message::Done { trial: TrialId(1), started_ns: vec![7], ready_ns, failed: None };
    for (ready_ns, is_said) in [(Some(123_456_789_012_300_000), true), (None, false)] {
        let frame = encode(&done(ready_ns)).unwrap();
        let text = String::from_utf8_lossy(&frame);
        assert_eq!(text.contains("ready_ns"), is_said, "{text}");
        assert_eq!(decode(&frame).unwrap(), Some((done(ready_ns), frame.len())));
    }
}

#[test]
fn readings_arrive_as_they_left_to_the_last_bit() {
    // An inexact decoder reads each of these one bit too high or too low.
    let readings = [
        51.248_178_375_505_404,
        93.311_370_376_880_33,
        36.573_994_842_753_436,
        97.453_653_200_346_85,
    ];
    let times = (0..4).map(Nanos).collect();
    let block = SampleBlock {
        times,
        columns: vec![readings.map(Some).into_iter().collect()],
        ..SampleBlock::default()
    };
    let message = Message::Samples { trial: TrialId(1), block: Box::new(block) };
    let frame = encode(&message).unwrap();
    assert_eq!(decode(&frame).unwrap(), Some((message, frame.len())));
}

#[test]
fn text_of_a_peer_reaches_the_terminal_shortened_and_without_escape_sequences() {
    assert_eq!(printable("a\x1b[2Jb\r\n"), "a\\u001b[2Jb\\r\\n");
    assert_eq!(printable(&"é".repeat(10_000)).chars().count(), 500);
}

/// Appends `hostile` to text number `n` of `value`. Counts the texts in `seen`.
fn poison(value: &mut serde_json::Value, hostile: &str, n: usize, seen: &mut usize) {
    match value {
        serde_json::Value::String(text) => {
            if *seen == n {
                text.push_str(hostile);
            }
            *seen += 1;
        }
        serde_json::Value::Array(values) => {
            values.iter_mut().for_each(|value| poison(value, hostile, n, seen))
        }
        serde_json::Value::Object(fields) => {
            fields.values_mut().for_each(|value| poison(value, hostile, n, seen))
        }
        _ => {}
    }
}

#[test]
fn no_text_of_a_message_reaches_this_end_with_a_control_character() {
    let controls = (0..=0xffff).filter_map(char::from_u32).filter(|c| is_obeyed(*c));
    let hostile: String = controls.collect();
    let mut taken = 0;
    for message in every_message() {
        let mut texts = 0;
        poison(&mut serde_json::to_value(&message).unwrap(), "", usize::MAX, &mut texts);
        for n in 0..texts {
            let mut value = serde_json::to_value(&message).unwrap();
            poison(&mut value, &hostile, n, &mut 0);
            let content = serde_json::to_vec(&value).unwrap();
            let frame = [&(content.len() as u32).to_be_bytes()[..], &content].concat();
            // An address or number with such a suffix is refused, and the refusal quotes it.
            let said = match decode(&frame) {
                Ok(Some((heard, _))) => {
                    taken += 1;
                    serde_json::to_value(&heard).unwrap()
                }
                Ok(None) => panic!("the frame is whole"),
                Err(error) => error.to_string().into(),
            };
            let mut all = Vec::new();
            texts_of(&said, &mut all);
            assert!(
                all.iter().all(|text| !text.chars().any(is_obeyed)),
                "{}: {all:?}",
                name(&message)
            );
        }
    }
    assert!(taken >= 20, "{taken} texts are free-form");
}

fn texts_of(value: &serde_json::Value, all: &mut Vec<String>) {
    match value {
        serde_json::Value::String(text) => all.push(text.clone()),
        serde_json::Value::Array(values) => values.iter().for_each(|value| texts_of(value, all)),
        serde_json::Value::Object(fields) => fields.iter().for_each(|(key, value)| {
            all.push(key.clone());
            texts_of(value, all);
        }),
        _ => {}
    }
}

proptest! {
    #[test]
    fn any_bytes_are_a_message_a_wait_or_an_error(
        bytes in prop::collection::vec(any::<u8>(), 0..300)
    ) {
        entry::wire(&bytes);
    }

    #[test]
    fn a_golden_stream_with_bytes_changed_never_panics(
        changes in prop::collection::vec((0..GOLDEN.len(), any::<u8>()), 1..8),
    ) {
        let mut bytes = GOLDEN.to_vec();
        for (at, value) in changes {
            bytes[at] = value;
        }
        entry::wire(&bytes);
    }

    #[test]
    fn a_frame_is_read_only_when_it_is_whole(
        which in 0..21_usize, cut in any::<prop::sample::Index>()
    ) {
        let message = every_message().swap_remove(which);
        let frame = encode(&message).expect("it is short");
        prop_assert_eq!(decode(&frame[..cut.index(frame.len())]), Ok(None));
        let followed = [frame.as_slice(), b"\x00\x00"].concat();
        prop_assert_eq!(decode(&followed), Ok(Some((message, frame.len()))));
    }
}

#[test]
fn fuzz_wire() {
    let corpus = every_message().iter().map(|message| encode(message).unwrap()).collect();
    let words = [
        "null", "[", "]", "{", "}", "[[[[[[[[", "\"", "\\u0000", "\\ud800", "1e999", "-0.0",
        "true", ",",
    ];
    driver::fuzz("wire", corpus, &words, |bytes| {
        // Mostly with a correct length, so that the content is tested.
        let mut framed = bytes.to_vec();
        if let (Some(length), true) = (bytes.len().checked_sub(4), bytes.len() % 8 != 0) {
            framed[..4].copy_from_slice(&u32::try_from(length).unwrap().to_be_bytes());
        }
        entry::wire(&framed);
        driver::class(&decode(&framed).map(|found| found.map(|(message, _)| name(&message))))
    });
}
