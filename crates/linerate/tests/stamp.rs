//! `linerate serve stamp` and `linerate to stamp://HOST` as two programs.

use std::io::{BufRead, BufReader};

use crate::common::{file, free_port, run, signal, start, wait};

#[test]
fn a_reflector_and_a_sender_count_the_same_packets() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let port = free_port().to_string();
    let serve = ["serve", "stamp", "-B", "127.0.0.1", "-p", &port, "--allow", "127.0.0.1"];
    let mut reflector = start(folder, &serve);
    let mut printed = BufReader::new(reflector.stdout.take().expect("piped")).lines();
    let line = printed.next().expect("a line").expect("text");
    assert!(line.contains(&format!("linerate to stamp://THIS-HOST:{port}")), "{line}");
    let host = format!("stamp://127.0.0.1:{port}");
    let to = ["to", &host, "-t", "0.2", "-b", "200 pps", "-l", "100", "--dscp", "EF"];
    let text = run(folder, &to).expect(0).stdout;
    assert!(text.contains("lost 0 of 40 packets (0.00 %): 0 there, 0 back"), "{text}");
    let document = run(folder, &[&to[..], &["--json"]].concat()).expect(0).json();
    assert_eq!((&document["sent"], &document["replied"]), (&40.into(), &40.into()));
    assert_eq!(document["packet_bytes"], 100);
    assert_eq!(document["loss_method"], "counts");
    let refused = run(folder, &["to", &host, "-P", "2"]).expect(2);
    assert!(refused.stderr.contains("a test packet has no `streams` of 2"), "{refused:?}");
    signal(reflector.id(), "INT");
    let ended: Vec<String> = printed.map(|line| line.expect("text")).collect();
    wait(reflector).expect(0);
    let counted =
        ended.iter().filter(|line| line.ends_with("40 packets, 0 missing up to number 39"));
    assert_eq!(counted.count(), 2, "{ended:?}");
    let nobody = run(folder, &["to", &host, "-t", "0.1"]).expect(4);
    assert!(!nobody.stderr.contains("same key"), "{nobody:?}");
    assert!(nobody.stderr.contains("Start one with `linerate serve stamp`"), "{nobody:?}");
}

#[test]
fn a_reflector_with_a_key_answers_only_senders_that_have_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    file(folder, "key", "000102030405060708090a0b0c0d0e0f\n");
    file(folder, "other", "100102030405060708090a0b0c0d0e0f\n");
    file(folder, "short", "0001\n");
    let port = free_port().to_string();
    let serve = ["serve", "stamp", "-B", "127.0.0.1", "-p", &port, "--auth-key", "key"];
    let mut reflector = start(folder, &serve);
    let mut printed = BufReader::new(reflector.stdout.take().expect("piped")).lines();
    let line = printed.next().expect("a line").expect("text");
    assert!(line.contains("reflecting authenticated STAMP packets"), "{line}");
    let host = format!("stamp://127.0.0.1:{port}");
    let to = ["to", &host, "-t", "0.1", "-b", "200 pps", "--connect-timeout", "200"];
    let with = |key| run(folder, &[&to[..], &["--auth-key", key]].concat());
    let text = with("key").expect(0).stdout;
    assert!(text.contains("20 packets of 148 B") && text.contains("0 there, 0 back"), "{text}");
    for nobody in [with("other"), run(folder, &to)] {
        assert!(nobody.expect(4).stderr.contains("no reply"));
    }
    let refused = with("short").expect(2).stderr;
    assert!(refused.contains("expected at least 32 hexadecimal digits"), "{refused}");
    signal(reflector.id(), "INT");
    wait(reflector).expect(0);
    for other in
        [&["to", "127.0.0.1", "--auth-key", "key"][..], &["serve", "http", "--auth-key", "key"]]
    {
        assert!(run(folder, other).expect(2).stderr.contains("is an option of stamp"));
    }
}
