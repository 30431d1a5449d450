//! Our client, and an unmodified server.

use std::time::Duration;

use linerate_iperf3::drive::{Asked, DriveError, Line, Outcome, drive};
use linerate_iperf3::session::Limits;
use linerate_iperf3::wire::{Parameters, Protocol};

use crate::common::{Iperf3, LOOPBACK, Server, has_iperf3};

pub(crate) const SHORT: Option<Duration> = Some(Duration::from_millis(300));

pub(crate) fn asked(
    server: std::net::SocketAddr,
    parameters: Parameters,
    end: Option<Duration>,
) -> Asked {
    Asked {
        server,
        local: Some(LOOPBACK),
        first_port: None,
        parameters,
        credentials: None,
        duration: end,
        omit: Duration::ZERO,
        interval: Duration::from_millis(100),
        patience: Duration::from_secs(20),
    }
}

pub(crate) fn run(asked: &Asked) -> Result<(Outcome, Vec<Line>), DriveError> {
    let mut lines = Vec::new();
    let outcome = drive(asked, &mut |line| lines.push(line.clone()), &|| false)?;
    Ok((outcome, lines))
}

/// Parameters by name, with the end of the load.
fn table() -> Vec<(&'static str, Parameters, Option<Duration>)> {
    let tcp = || Parameters { parallel: 1, version: "test".into(), ..Parameters::default() };
    let udp = || Parameters { protocol: Protocol::Udp, bandwidth: Some(20_000_000), ..tcp() };
    vec![
        ("-t", tcp(), SHORT),
        ("-P", Parameters { parallel: 3, ..tcp() }, SHORT),
        ("-R", Parameters { reverse: true, ..tcp() }, SHORT),
        ("--bidir", Parameters { bidirectional: true, parallel: 2, ..tcp() }, SHORT),
        ("-b", Parameters { bandwidth: Some(20_000_000), ..tcp() }, SHORT),
        ("-l", Parameters { length: Some(16 << 10), ..tcp() }, SHORT),
        ("-w", Parameters { window: Some(128 << 10), ..tcp() }, SHORT),
        ("-M", Parameters { mss: Some(1200), ..tcp() }, SHORT),
        ("-C", Parameters { congestion: Some("reno".into()), ..tcp() }, SHORT),
        ("-n", Parameters { bytes: 1 << 20, ..tcp() }, None),
        ("-k", Parameters { blocks: 10, ..tcp() }, None),
        ("-n -R", Parameters { bytes: 1 << 20, reverse: true, ..tcp() }, None),
        ("-Z", Parameters { zerocopy: true, ..tcp() }, SHORT),
        ("-S", Parameters { tos: Some(0x20), ..tcp() }, SHORT),
        ("-N", Parameters { no_delay: true, ..tcp() }, SHORT),
        ("--fq-rate", Parameters { fq_rate: Some(50_000_000), ..tcp() }, SHORT),
        ("-u", udp(), SHORT),
        ("-u -P", Parameters { parallel: 2, ..udp() }, SHORT),
        ("-u -R", Parameters { reverse: true, ..udp() }, SHORT),
        ("-u --bidir", Parameters { bidirectional: true, ..udp() }, SHORT),
        ("-u -l", Parameters { length: Some(1000), ..udp() }, SHORT),
        ("-u -n", Parameters { bytes: 100_000, ..udp() }, None),
        ("-u -k", Parameters { blocks: 50, length: Some(1000), ..udp() }, None),
        ("-u -w", Parameters { window: Some(256 << 10), ..udp() }, SHORT),
    ]
}

/// Checks the result of `parameters`.
fn check(name: &str, parameters: &Parameters, (outcome, lines): &(Outcome, Vec<Line>)) {
    let n_ways = outcome.ways.iter().flatten().count();
    let expected = parameters.streams().iter().filter(|n| **n > 0).count();
    assert_eq!(n_ways, expected, "{name}");
    for way in outcome.ways.iter().flatten() {
        assert!(way.bytes > 0 && way.seconds > 0.0, "{name}: {outcome:?}");
        assert_eq!(way.lost.is_some(), parameters.protocol == Protocol::Udp, "{name}");
    }
    // iperf3 3.21 reports less sent than arrives: its threads count blocks when they are complete.
    if let Some(way) = &outcome.ways[0] {
        let sent = way.sent_bytes.unwrap_or(0);
        assert!(way.bytes <= sent, "{name}: more arrived than was sent: {outcome:?}");
    }
    let sent: u64 = lines.iter().flat_map(|line| &line.ways).flatten().map(|way| way.bytes).sum();
    assert!(sent > 0, "{name}: {lines:?}");
    assert!(lines.iter().all(|line| line.until > line.from), "{name}: {lines:?}");
}

#[test]
fn an_unmodified_server_is_driven_with_every_option() {
    if !has_iperf3("an_unmodified_server_is_driven_with_every_option") {
        return;
    }
    // Several at a time: most of a test is waiting.
    let table = table();
    for part in table.chunks(6) {
        std::thread::scope(|scope| {
            for (name, parameters, end) in part {
                scope.spawn(move || {
                    let server = Iperf3::start();
                    let measured = run(&asked(server.1, parameters.clone(), *end));
                    let measured = measured.unwrap_or_else(|error| panic!("{name}: {error}"));
                    check(name, parameters, &measured);
                });
            }
        });
    }
}

#[test]
fn our_own_server_gives_the_same_results() {
    let server = Server::start(Limits::default());
    let at = server.at;
    std::thread::scope(|scope| {
        for (name, parameters, end) in table() {
            scope.spawn(move || {
                let measured = run(&asked(at, parameters.clone(), end));
                let measured = measured.unwrap_or_else(|error| panic!("{name}: {error}"));
                check(name, &parameters, &measured);
                if name == "-n" {
                    let way = measured.0.ways[0].as_ref().expect("it sends");
                    assert_eq!((way.bytes, way.sent_bytes), (1 << 20, Some(1 << 20)));
                }
            });
        }
    });
}

#[test]
fn a_warm_up_is_in_the_lines_and_not_in_the_result() {
    let server = Server::start(Limits::default());
    let parameters = Parameters { parallel: 1, ..Parameters::default() };
    let parameters = Parameters { bandwidth: Some(40_000_000), ..parameters };
    let mut asked = asked(server.at, parameters, SHORT);
    asked.omit = Duration::from_secs(1);
    let (outcome, lines) = run(&asked).expect("it runs");
    let omitted = lines.iter().filter(|line| line.is_omitted).count();
    assert!((8..=10).contains(&omitted), "{lines:?}");
    let all: u64 = lines.iter().flat_map(|line| &line.ways).flatten().map(|way| way.bytes).sum();
    let way = outcome.ways[0].as_ref().expect("it sends");
    assert!(way.bytes < all, "{outcome:?} of {all}");
    assert!(way.sent_bytes < Some(all), "{outcome:?} of {all}");
}

#[test]
fn a_server_that_is_busy_or_absent_is_named_with_the_reason() {
    if !has_iperf3("a_server_that_is_busy_or_absent_is_named_with_the_reason") {
        return;
    }
    let server = Iperf3::start();
    let parameters = Parameters { parallel: 1, ..Parameters::default() };
    let long = asked(server.1, parameters.clone(), Some(Duration::from_secs(30)));
    let is_over = std::sync::atomic::AtomicBool::new(false);
    let is_running = std::sync::atomic::AtomicBool::new(false);
    use std::sync::atomic::Ordering::Relaxed;
    std::thread::scope(|scope| {
        let first = scope.spawn(|| {
            drive(&long, &mut |_| is_running.store(true, Relaxed), &|| is_over.load(Relaxed))
        });
        while !is_running.load(Relaxed) && !first.is_finished() {
            std::thread::sleep(Duration::from_millis(5));
        }
        let busy = run(&asked(server.1, parameters.clone(), SHORT)).expect_err("one at a time");
        is_over.store(true, Relaxed);
        assert!(busy.to_string().contains("busy"), "{busy}");
        let first = first.join().expect("it ended");
        assert!(matches!(first, Err(DriveError::Interrupted)), "{first:?}");
    });
    drop(server);
    let absent = run(&asked(long.server, parameters, SHORT)).expect_err("nobody listens");
    assert!(absent.to_string().contains("refused"), "{absent}");
}
