//! Options of iperf3 on the command line of `linerate to`: each works, or is answered with what
//! replaces it.

use std::io::{BufRead, BufReader, Read};

use linerate_campaign::iperf3::{Fate, IPERF3};

use crate::common::{load, run, signal, start, wait};

/// Options that work, each with arguments and a part of the trial that they made.
const WORKING: [(&str, &[&str], &str); 22] = [
    ("affinity", &["-A", "0"], r#""cpus":[0],"pin":true"#),
    ("bidir", &["--bidir"], r#""direction":"both""#),
    ("bind", &["-B", "127.0.0.2"], r#""address":"127.0.0.2""#),
    ("bind-dev", &["--bind-dev", "lo"], r#""device":"endpoint""#),
    ("bitrate", &["-b", "5M", "-P", "2"], r#""pacing_rate":"5 Mbit/s""#),
    ("congestion", &["-C", "reno"], r#""congestion":"reno""#),
    ("cport", &["--cport", "50321", "-P", "2"], r#""source_ports":"50321,50322""#),
    ("dscp", &["--dscp", "EF"], r#""dscp":46"#),
    ("fq-rate", &["--fq-rate", "5M"], r#""pacing_rate":"5 Mbit/s""#),
    ("length", &["-l", "64K"], r#""message_size":"64 KiB""#),
    ("no-delay", &["-N"], r#""no_delay":true"#),
    ("omit", &["-O", "0.1"], r#""warmup":{"fixed":"100 ms"}"#),
    ("parallel", &["-P", "2"], r#""streams":2"#),
    ("reverse", &["-R"], r#""direction":"rx""#),
    ("set-mss", &["-M", "1200"], r#""mss":"1200 B""#),
    ("time", &["-t", "200 ms"], r#""measure":"200 ms""#),
    ("title", &["-T", "lab"], ""),
    ("tos", &["-S", "0xb8"], r#""dscp":46"#),
    ("udp", &["-u", "-b", "1M", "-P", "2"], r#""rate":"2 Mbit/s""#),
    ("version6", &["-6"], r#""address":"::1""#),
    ("window", &["-w", "64K"], r#""socket_buffer":"64 KiB""#),
    ("zerocopy", &["-Z"], r#""send":"sendfile""#),
];
/// Options that work and make no trial, or the usual one.
const ELSEWHERE: [&str; 10] = [
    "client", "format", "help", "interval", "json", "logfile", "port", "verbose", "version",
    "version4",
];

#[test]
fn each_option_of_iperf3_that_works_makes_the_trial_that_it_asks_for() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let works = IPERF3.iter().filter(|option| option.fate == Fate::Works);
    for option in works {
        let Some((_, arguments, part)) = WORKING.iter().find(|(name, ..)| *name == option.long)
        else {
            assert!(ELSEWHERE.contains(&option.long), "{}", option.long);
            continue;
        };
        let ledger = format!("{}.ledger", option.long);
        let command = [&["to", "loopback", "-t", "0.2", "--ledger", &ledger][..], arguments];
        // The last of two lengths would be refused.
        let command = match option.long {
            "time" => [&["to", "loopback", "--ledger", &ledger][..], arguments],
            _ => command,
        };
        run(folder, &command.concat()).ran();
        let spec = load(&folder.join(&ledger)).trials[0].spec.clone();
        let text = serde_json::to_string(&spec).expect("JSON");
        assert!(text.contains(part), "{arguments:?}: {part}: {text}");
    }
    let lines = run(folder, &["to", "loopback", "-t", "0.2", "-T", "lab"]).ran().stdout;
    assert!(lines.lines().any(|line| line.starts_with("lab:  ")), "{lines}");
    for unit in [["-f", "K"], ["--format", "K"]] {
        let command = [&["to", "loopback", "-t", "0.2"][..], &unit].concat();
        let lines = run(folder, &command).ran().stdout;
        assert!(lines.contains(" kB/s"), "{lines}");
    }
    for (interval, n_expected) in [("0.2", 2), ("0.4", 1), ("0", 0)] {
        let lines = run(folder, &["to", "loopback", "-t", "0.4", "-i", interval]).ran().stdout;
        let is_line =
            |line: &&str| line.contains(" - ") && !line.contains("drain") && line.contains("bit/s");
        let n = lines.lines().filter(is_line).count();
        assert_eq!(n, n_expected, "-i {interval}: {lines}");
    }
    for n_results in 1..=2 {
        let logged = run(folder, &["to", "loopback", "-t", "0.2", "--logfile", "log"]).ran();
        assert_eq!(logged.stdout, "");
        let log = std::fs::read_to_string(folder.join("log")).expect("it was written");
        assert_eq!(log.matches("127.0.0.1 (lo) to").count(), n_results, "{log}");
    }
    run(folder, &["to", "loopback", "-t", "0.2", "--logfile", "none/log"]).expect(4);
    const LONG: &str = "Result of one run";
    for (verbose, is_long) in [(&["-V"][..], true), (&["-v"], true), (&[], false)] {
        let command = [&["to", "loopback", "-t", "0.2"][..], verbose].concat();
        let text = run(folder, &command).ran().stdout;
        assert_eq!(text.contains(LONG), is_long, "{verbose:?}: {text}");
    }
    for (family, host) in [("-4", "::1"), ("-6", "127.0.0.1")] {
        let refused = run(folder, &["to", host, family]).expect(4);
        assert!(refused.stderr.contains("it has no IPv"), "{refused:?}");
    }
    let listed = run(folder, &["-c", "loopback", "-t", "0.2", "-J"]).ran().json();
    assert_eq!(listed["schema"], 1);
    let refused = run(folder, &["to", "-c", "127.0.0.1", "-p", "1"]).expect(4);
    assert!(refused.stderr.contains("127.0.0.1:1"), "{refused:?}");
    for words in [&["to", "loopback", "--version"][..], &["--version"], &["-v"]] {
        let version = run(folder, words).expect(0).stdout;
        assert!(version.contains(env!("CARGO_PKG_VERSION")), "{version}");
    }
    for words in [["help", "to"], ["to", "-h"]] {
        assert!(run(folder, &words).expect(0).stdout.contains("--parallel"));
    }
}

#[test]
fn each_mode_has_the_types_and_ranges_of_its_own_options() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    for (arguments, part) in [
        (&["udp", "-b", "1 kpps", "-P", "2"][..], r#""rate":"2 kpacket/s""#),
        (&["rr", "-l", "1"], r#""request_size":"1 B""#),
    ] {
        let ledger = format!("{}.ledger", arguments[0]);
        let command = [&["to", "loopback", "-t", "0.2", "--ledger", &ledger][..], arguments];
        run(folder, &command.concat()).ran();
        let spec = load(&folder.join(&ledger)).trials[0].spec.clone();
        let text = serde_json::to_string(&spec).expect("JSON");
        assert!(text.contains(part), "{arguments:?}: {text}");
    }
    for (arguments, part) in [
        (&["-l", "1", "udp"][..], "to: -l of udp: "),
        (&["-B", "127.0.0.2", "-6"], "-B 127.0.0.2"),
        (&["-B", "::1", "-4"], "-B ::1"),
        (&["-p", "4777"], "-p 4777: both ends of loopback"),
        (&["-b", "1G", "--fq-rate", "2G"], "cannot be used with"),
        (&["-A", "0,0,0"], "CPU,CPU of both ends"),
    ] {
        let command = [&["to", "loopback", "-t", "0.1"][..], arguments].concat();
        let refused = run(folder, &command).expect(2);
        assert!(refused.stderr.contains(part), "{arguments:?}: {refused:?}");
        assert_eq!(refused.stdout, "", "nothing was measured");
    }
}

#[test]
fn a_measurement_prints_two_lines_of_header_and_at_most_four_of_result() {
    let folder = tempfile::tempdir().expect("a folder");
    for (mode, load, heads) in [
        ("tcp", "tcp · ", ["goodput", "rtt", "cpu a | b"]),
        ("udp", "udp · 1 Mbit/s offered", ["goodput", "jitter", "lost"]),
        ("rr", "rr · ", ["requests", "p50", "p99.9"]),
    ] {
        let text = run(folder.path(), &["to", "loopback", mode, "-t", "0.5"]).ran().stdout;
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "127.0.0.1 (lo) to 127.0.0.1 (lo)");
        assert!(lines[1].starts_with(load), "{text}");
        assert!(heads.iter().all(|head| lines[2].contains(head)), "{text}");
        assert!(lines.iter().all(|line| line.chars().count() <= 80), "{text}");
        let result = text.rsplit_once("\n\n").expect("a result").1;
        assert!((1..=4).contains(&result.lines().count()), "{text}");
        let quiet = run(folder.path(), &["to", "loopback", mode, "-t", "0.5", "-q"]).ran().stdout;
        assert!((1..=4).contains(&quiet.trim().lines().count()), "{quiet}");
    }
}

#[test]
fn an_interrupted_measurement_has_the_figures_of_its_lines() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut child = start(folder.path(), &["to", "loopback", "-t", "60", "-i", "0.2", "-b", "80M"]);
    let mut output = BufReader::new(child.stdout.take().expect("piped"));
    let mut line = String::new();
    // Two lines of header, a heading, and lines of the load.
    let mut text = String::new();
    while text.lines().count() < 6 {
        line.clear();
        assert_ne!(output.read_line(&mut line).expect("text"), 0, "it ended: {text}");
        text += &line;
    }
    signal(child.id(), "INT");
    output.read_to_string(&mut text).expect("text");
    wait(child).expect(130);
    let result = text.rsplit_once("\n\n").expect("a result").1;
    assert!(result.starts_with("TCP "), "{text}");
    let after = result.split("interrupted after ").nth(1).and_then(|rest| rest.split(' ').next());
    let after: f64 = after.and_then(|seconds| seconds.parse().ok()).expect("a time");
    assert!(after < 60.0 && result.contains(" of 60 s"), "{text}");
}

#[test]
fn each_other_option_of_iperf3_is_answered_with_what_replaces_it() {
    let folder = tempfile::tempdir().expect("a folder");
    for option in &IPERF3 {
        let typed = option.typed();
        let value = option.takes_value.then_some("1");
        let words: Vec<&str> =
            ["to", "loopback", "-t", "0.1", &typed].into_iter().chain(value).collect();
        match option.fate {
            Fate::Works => {}
            Fate::Always(does) => {
                let ended = run(folder.path(), &words).ran();
                assert!(ended.stderr.contains(does), "{typed}: {ended:?}");
            }
            Fate::Replaced(by) => {
                let ended = run(folder.path(), &words).expect(2);
                assert!(ended.stderr.contains(by), "{typed}: {ended:?}");
                assert_eq!(ended.stdout, "", "nothing was measured");
            }
        }
    }
}

#[test]
fn a_failure_has_a_document_and_the_exit_of_what_is_missing() {
    let folder = tempfile::tempdir().expect("a folder");
    let unreachable = run(folder.path(), &["to", "127.0.0.1:1", "--json"]).expect(4).json();
    assert_eq!(unreachable["exit"], 4);
    assert!(unreachable["error"].as_str().expect("text").contains("127.0.0.1:1"));
    for arguments in [["-C", "nosuch"], ["-B", "192.0.2.1"]] {
        let command = [&["to", "loopback", "-t", "0.1", "--json"][..], &arguments].concat();
        // A document of its own says that the trial failed.
        let document = run(folder.path(), &command).expect(4).json();
        assert_eq!(document["points"][0]["validity"], "invalid", "{arguments:?}");
    }
    let measured = run(folder.path(), &["rnu"]).expect(2);
    assert!(measured.stderr.contains("linerate to rnu"), "{measured:?}");
    for words in [["-s", "-p", "5201"], ["-p", "5201", "-s"]] {
        let server = run(folder.path(), &words).expect(2);
        assert!(server.stderr.contains("linerate agent"), "{server:?}");
    }
    let plan = run(folder.path(), &["plan.toml"]).expect(2);
    assert!(plan.stderr.contains("`linerate run plan.toml`"), "{plan:?}");
}
