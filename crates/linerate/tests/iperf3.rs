//! Options of iperf3 on the command line of `linerate to`: each works, or is answered with what
//! replaces it.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use linerate_campaign::iperf3::{Fate, IPERF3};
use linerate_model::{Counter, JobRecord, Nanos, TrialOutcome};
use serde_json::Value;

use crate::common::{file, load, privileged, run, signal, start, wait};

/// Options that work, each with arguments and a part of the trial that they made.
const WORKING: [(&str, &[&str], &str); 27] = [
    ("affinity", &["-A", "0"], r#""cpus":[0],"pin":true"#),
    ("bidir", &["--bidir"], r#""direction":"both""#),
    ("bind", &["-B", "127.0.0.2"], r#""address":"127.0.0.2""#),
    ("bind-dev", &["--bind-dev", "lo"], r#""device":"endpoint""#),
    ("bitrate", &["-b", "5M", "-P", "2"], r#""pacing_rate":"5 Mbit/s""#),
    ("blockcount", &["-k", "8", "-l", "1K"], r#""messages":8"#),
    ("bytes", &["-n", "1 MiB"], r#""amount":"1 MiB""#),
    ("congestion", &["-C", "reno"], r#""congestion":"reno""#),
    ("cport", &["--cport", "50321", "-P", "2"], r#""source_ports":"50321,50322""#),
    ("dscp", &["--dscp", "EF"], r#""dscp":46"#),
    ("file", &["-F", "contents"], r#"/contents""#),
    ("fq-rate", &["--fq-rate", "5M"], r#""pacing_rate":"5 Mbit/s""#),
    ("gsro", &["--gsro", "-u", "-b", "1M"], r#""gso":"most""#),
    ("length", &["-l", "64K"], r#""message_size":"64 KiB""#),
    ("no-delay", &["-N"], r#""no_delay":true"#),
    ("omit", &["-O", "0.1"], r#""warmup":{"fixed":"100 ms"}"#),
    ("parallel", &["-P", "2"], r#""streams":2"#),
    ("reverse", &["-R"], r#""direction":"rx""#),
    ("set-mss", &["-M", "1200"], r#""mss":"1200 B""#),
    ("skip-rx-copy", &["--skip-rx-copy"], r#""receive":"discard""#),
    ("time", &["-t", "200 ms"], r#""measure":"200 ms""#),
    ("title", &["-T", "lab"], ""),
    ("tos", &["-S", "0xb8"], r#""dscp":46"#),
    ("udp", &["-u", "-b", "1M", "-P", "2"], r#""rate":"2 Mbit/s""#),
    ("version6", &["-6"], r#""address":"::1""#),
    ("window", &["-w", "64K"], r#""socket_buffer":"64 KiB""#),
    ("zerocopy", &["-Z"], r#""send":"sendfile""#),
];
/// Options that work and make no trial, or the usual one.
const ELSEWHERE: [&str; 15] = [
    "client",
    "connect-timeout",
    "format",
    "help",
    "interval",
    "json",
    "json-stream",
    "logfile",
    "port",
    "rsa-public-key-path",
    "use-pkcs1-padding",
    "username",
    "verbose",
    "version",
    "version4",
];

#[test]
fn each_option_of_iperf3_that_works_makes_the_trial_that_it_asks_for() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    file(folder, "contents", &"contents ".repeat(1_000));
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
            "blockcount" | "bytes" | "time" => {
                [&["to", "loopback", "--ledger", &ledger][..], arguments]
            }
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
        // An interval in which a busy machine delivered nothing has a line without a figure.
        let is_line = |line: &&str| {
            line.trim_start().starts_with(|first: char| first.is_ascii_digit())
                && line.contains(" - ")
                && !line.contains("drain")
        };
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
    const LONG: &str = "\nPath to loopback";
    for (verbose, is_long) in [(&["-V"][..], true), (&["-v"], true), (&[], false)] {
        let command = [&["to", "loopback", "-t", "0.2"][..], verbose].concat();
        let text = run(folder, &command).ran().stdout;
        assert_eq!(text.contains(LONG), is_long, "{verbose:?}: {text}");
    }
    for (family, host) in [("-4", "::1"), ("-6", "127.0.0.1")] {
        let refused = run(folder, &["to", host, family]).expect(4);
        assert!(refused.stderr.contains("it has no IPv"), "{refused:?}");
    }
    let user = ["--username", "ann", "--rsa-public-key-path", "none", "--use-pkcs1-padding"];
    for (host, why) in [("loopback", "iperf3://HOST"), ("iperf3://127.0.0.1", "IPERF3_PASSWORD")] {
        let refused = run(folder, &[&["to", host][..], &user].concat()).expect(2);
        assert!(refused.stderr.contains(why), "{refused:?}");
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

/// Reads what `child` prints until its header, the heading and three lines are there, then calls
/// `disturb`, and returns all that it prints.
fn disturbed(child: &mut Child, disturb: impl FnOnce()) -> String {
    let mut output = BufReader::new(child.stdout.take().expect("piped"));
    let mut line = String::new();
    let mut text = String::new();
    while text.lines().count() < 6 {
        line.clear();
        assert_ne!(output.read_line(&mut line).expect("text"), 0, "it ended: {text}");
        text += &line;
    }
    disturb();
    output.read_to_string(&mut text).expect("text");
    text
}

/// Asserts that the result of a run of 60 s, the end of `text`, has the figures until it ended for
/// the reason `why`.
fn has_figures(text: &str, why: &str) {
    let result = text.rsplit_once("\n\n").expect("a result").1;
    assert!(result.starts_with("TCP ") && result.contains("bit/s"), "{text}");
    let after = result.split(&format!("{why} after ")).nth(1);
    let after: Option<f64> = after.and_then(|rest| rest.split(' ').next()?.parse().ok());
    assert!(after.expect("a time") < 60.0 && result.contains(" of 60 s"), "{text}");
}

#[test]
fn a_lost_agent_leaves_the_lines_and_their_figures() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut agent = start(folder.path(), &["agent", "--listen", "127.0.0.1:0"]);
    let mut said = BufReader::new(agent.stderr.take().expect("piped")).lines();
    let listening = said.next().expect("a line").expect("text");
    let address = listening.split([' ', ',']).nth(2).expect("its address").to_owned();
    std::thread::spawn(move || said.for_each(drop));
    let mut to = start(folder.path(), &["to", &address, "-t", "60", "-i", "0.2", "-b", "80M"]);
    let text = disturbed(&mut to, || agent.kill().expect("it runs"));
    agent.wait().expect("it is our child");
    has_figures(&text, "the other end was lost");
    wait(to).expect(4);
}

#[test]
fn a_full_disk_leaves_the_lines_and_their_figures() {
    let Some(()) = privileged() else { return };
    const SCRIPT: &str = "mkdir small && mount -t tmpfs -o size=1m none small || exit 9
        (while [ ! -e fill ]; do sleep 0.05; done; head -c 2000000 /dev/zero > small/full) &
        exec \"$0\" to loopback -t 60 -i 0.2 -P 8 -b 10M --ledger small/to.ledger";
    let folder = tempfile::tempdir().expect("a folder");
    // A mount namespace of its own: the file system goes with it.
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", SCRIPT, env!("CARGO_BIN_EXE_linerate")]);
    command.current_dir(folder.path()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut to = command.spawn().expect("unshare starts");
    let text = disturbed(&mut to, || drop(file(folder.path(), "fill", "")));
    has_figures(&text, "not recorded");
    let ended = wait(to).expect(4);
    assert!(ended.stderr.contains("small/to.ledger: database or disk is full"), "{ended:?}");
}

#[test]
fn an_interrupted_measurement_has_the_figures_of_its_lines() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut child = start(folder.path(), &["to", "loopback", "-t", "60", "-i", "0.2", "-b", "80M"]);
    let interrupted = child.id();
    let text = disturbed(&mut child, || signal(interrupted, "INT"));
    wait(child).expect(130);
    has_figures(&text, "interrupted");
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

#[test]
fn an_amount_or_a_file_ends_the_run_when_it_was_sent_and_arrived_whole() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let contents = "linerate ".repeat(300_000);
    file(folder, "contents", &contents);
    // Mode with its options, and what arrives one way: bytes, and messages or datagrams.
    for (words, bytes, messages) in [
        ("tcp -n 3000001 -P 3", 3_000_001, None),
        ("tcp -n 1M -R -Z", 1 << 20, None),
        ("tcp -k 7 -l 1000 --bidir", 7_000, Some(7)),
        ("udp -n 100001 -l 1000 -b 20M -P 2", 101_000, Some(101)),
        ("udp -k 40 -l 500 -b 0 --bidir", 20_000, Some(40)),
        ("tcp -F contents -P 2", 2 * contents.len() as u64, None),
        ("tcp -F contents -l 1000", contents.len() as u64, Some(contents.len() as u64 / 1_000)),
    ] {
        let ledger = format!("{}.ledger", words.replace(' ', "_"));
        let command: Vec<&str> =
            ["to", "loopback", "--ledger", &ledger].into_iter().chain(words.split(' ')).collect();
        let ended = run(folder, &command).ran();
        let trial = load(&folder.join(&ledger)).trials.remove(0);
        assert_eq!(trial.outcome, Some(TrialOutcome::Completed), "{words}: {ended:?}");
        let (active, passive) = &trial.jobs[0];
        let total = |of: &JobRecord, counter| -> u64 {
            of.flows.iter().map(|flow| flow.counters[counter]).sum()
        };
        let is_udp = words.starts_with("udp");
        let ways = match (words.contains("--bidir"), words.contains("-R")) {
            (true, _) => vec![(active, passive), (passive, active)],
            (_, true) => vec![(passive, active)],
            _ => vec![(active, passive)],
        };
        for (from, to) in ways {
            assert_eq!(total(from, Counter::PayloadSent), bytes, "{words}");
            assert_eq!(total(to, Counter::PayloadReceived), bytes, "{words}");
            let counter = if is_udp { Counter::DatagramsSent } else { Counter::MessagesReceived };
            let end = if is_udp { from } else { to };
            assert!(messages.is_none_or(|n| total(end, counter) == n), "{words}");
        }
        let ends = [active, passive].into_iter().flat_map(|end| &end.intervals);
        let end = ends.map(|interval| interval.end).max().expect("intervals");
        assert!(end < Nanos::from_secs(60), "{words}: it ended after {end}");
    }
    for (words, part) in [
        ("-n 1M -t 3", "one end: -n or -t"),
        ("-k 3 -O 1", "-k counts from the start"),
        ("rr -n 1M", "-n does not apply to rr"),
        ("-n 1M -k 3", "a load has one amount"),
        ("-F contents -R", "-F sends a file of this host"),
        ("-F contents --bidir", "-F sends a file of this host"),
        ("--push", "--push: both ends of loopback"),
        ("--connect-timeout 18446744073710", "at most an hour"),
    ] {
        let command: Vec<&str> = ["to", "loopback"].into_iter().chain(words.split(' ')).collect();
        let refused = run(folder, &command).expect(2);
        assert!(refused.stderr.contains(part), "{words}: {refused:?}");
    }
    let missing = run(folder, &["to", "loopback", "-F", "nothing"]).expect(4);
    assert!(missing.stderr.contains("-F nothing"), "{missing:?}");
}

#[test]
fn events_are_lines_of_json_from_start_to_end() {
    let folder = tempfile::tempdir().expect("a folder");
    let stream = |arguments: &[&str]| {
        let command = [&["to"], arguments, &["--json-stream"]].concat();
        let ended = run(folder.path(), &command);
        let lines = ended.stdout.lines().map(|line| serde_json::from_str(line).expect("JSON"));
        (ended.code, lines.collect::<Vec<Value>>())
    };
    let (code, events) = stream(&["loopback", "-t", "0.6", "-i", "0.2"]);
    assert!(matches!(code, Some(0 | 3)), "{events:?}");
    let names: Vec<&str> = events.iter().filter_map(|event| event["event"].as_str()).collect();
    assert_eq!((names[0], names[names.len() - 1]), ("start", "end"));
    let (first, last) = (&events[0]["data"], &events[events.len() - 1]["data"]);
    assert_eq!(first["trial"]["jobs"][0]["workload"], "tcp_stream");
    let intervals: Vec<&Value> =
        events[1..events.len() - 1].iter().map(|event| &event["data"]).collect();
    assert!(intervals.len() >= 3, "{names:?}");
    assert_eq!(last["lines"].as_array().expect("lines").iter().collect::<Vec<_>>(), intervals);
    let (code, events) = stream(&["127.0.0.1:1"]);
    assert_eq!((code, events.len(), &events[0]["event"]), (Some(4), 1, &"error".into()));
    assert_eq!(events[0]["data"]["exit"], 4);
    let (code, events) = stream(&["127.0.0.1:1", "--nosuch"]);
    assert_eq!((code, events.len(), &events[0]["event"]), (Some(2), 1, &"error".into()));
    assert_eq!(events[0]["data"]["exit"], 2);
}

#[test]
fn an_agent_serves_one_campaign_and_ends() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut agent = start(folder.path(), &["agent", "-1", "--listen", "127.0.0.1:0"]);
    let mut said = BufReader::new(agent.stderr.take().expect("piped")).lines();
    let listening = said.next().expect("a line").expect("text");
    let address = listening.split([' ', ',']).nth(2).expect("its address").to_owned();
    std::thread::spawn(move || said.for_each(drop));
    // A question about its facts is no campaign, and each measurement begins with one. A campaign
    // whose connection breaks is not over: its conductor may come back.
    let broken = ["to", &address, "-t", "60", "-i", "0.2"];
    let mut broken = start(folder.path(), &broken);
    let mut lines = BufReader::new(broken.stdout.take().expect("piped")).lines();
    assert!(lines.by_ref().take(4).all(|line| line.is_ok()));
    broken.kill().expect("it runs");
    wait(broken);
    run(folder.path(), &["to", &address, "-t", "0.2"]).ran();
    wait(agent).expect(0);
    run(folder.path(), &["to", &address, "-t", "0.2"]).expect(4);
}

#[test]
fn a_token_is_not_used_up_by_parameters_that_fail() {
    let folder = tempfile::tempdir().expect("a folder");
    // An agent that is asked would accept the connection.
    let agent = std::net::TcpListener::bind("127.0.0.1:0").expect("loopback");
    agent.set_nonblocking(true).expect("a socket");
    let address = agent.local_addr().expect("bound").to_string();
    for wrong in [&["--push"][..], &["-n", "1M", "-k", "3"], &["--cport", "65535", "-P", "2"]] {
        let command = [&["to", &address, "--token", "-"], wrong].concat();
        run(folder.path(), &command).expect(2);
        let met = agent.accept().map_err(|error| error.kind());
        assert_eq!(met.err(), Some(std::io::ErrorKind::WouldBlock), "{wrong:?}");
    }
}

#[test]
fn the_time_to_connect_is_chosen() {
    let folder = tempfile::tempdir().expect("a folder");
    // It accepts connections and never answers.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("loopback");
    let address = silent.local_addr().expect("bound").to_string();
    // The default is 5 s.
    let taken = ["300", "7 s"].map(|timeout| {
        let begun = Instant::now();
        run(folder.path(), &["to", &address, "--connect-timeout", timeout]).expect(4);
        begun.elapsed().as_secs_f64()
    });
    assert!(taken[0] >= 0.3 && taken[1] >= 6.9 && taken[0] < taken[1], "{taken:?} s");
    for timeout in ["0", "soon"] {
        run(folder.path(), &["to", &address, "--connect-timeout", timeout]).expect(2);
    }
}
