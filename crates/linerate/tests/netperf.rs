//! The program under the names of netperf, and `linerate serve netperf`.

use std::io::{BufRead, BufReader};
use std::net::{TcpStream, UdpSocket};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use linerate_netperf::wire::{Answer, Message, Request, direction};

use crate::common::{Ended, free_port, linerate, signal, wait};

/// A server, which ends with the test.
struct Server {
    child: Child,
    port: u16,
    lines: std::io::Lines<BufReader<std::process::ChildStdout>>,
}

impl Server {
    fn start(mut command: Command, port: u16) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().expect("a server");
        let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        let line = lines.next().expect("a line").expect("text");
        assert!(line.contains(&format!("netperf -H THIS-HOST -p {port}")), "{line}");
        Self { child, port, lines }
    }

    /// Starts `linerate serve netperf` on `address`.
    fn at(folder: &Path, address: &str, more: &[&str]) -> Self {
        let port = free_port();
        let number = port.to_string();
        let serve = ["serve", "netperf", "-B", address, "-p", &number];
        Self::start(linerate(folder, &[&serve[..], more].concat()), port)
    }

    /// Ends the server, and returns the lines of its tests.
    fn end(mut self) -> Vec<String> {
        signal(self.child.id(), "INT");
        let lines = self.lines.by_ref().map(|line| line.expect("text")).collect();
        let _ = self.child.wait();
        lines
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The program under another name.
fn called(folder: &Path, name: &str) -> Command {
    let link = folder.join(name);
    if !link.exists() {
        symlink(env!("CARGO_BIN_EXE_linerate"), &link).expect("a link");
    }
    Command::new(link)
}

fn netperf(folder: &Path, port: u16, arguments: &[&str]) -> Ended {
    let mut command = called(folder, "netperf");
    command.args(["-H", "127.0.0.1", "-p", &port.to_string()]).args(arguments);
    command.output().expect("netperf starts").into()
}

/// Returns the value of a selector.
fn value(ended: &Ended, name: &str) -> f64 {
    let start = format!("{name}=");
    let line = ended.stdout.lines().find_map(|line| line.strip_prefix(&start));
    let value = line.and_then(|value| value.parse().ok());
    value.unwrap_or_else(|| panic!("{name}: {}\n{}", ended.stdout, ended.stderr))
}

const COUNTS: &str = "THROUGHPUT,LOCAL_BYTES_SENT,LOCAL_BYTES_RECVD,REMOTE_BYTES_SENT,\
    REMOTE_BYTES_RECVD,TRANSACTION_RATE,TRANSPORT_MSS,P99_LATENCY,REMOTE_CPU_COUNT";

#[test]
fn both_ends_count_the_same_bytes_in_every_test() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let port = free_port();
    let mut command = called(folder, "netserver");
    command.args(["-D", "-p", &port.to_string()]);
    let server = Server::start(command, port);
    for test in ["TCP_STREAM", "TCP_MAERTS", "TCP_RR", "UDP_RR", "TCP_CRR", "UDP_STREAM"] {
        // A count would end a test of connections without the wait for the server's deadline.
        let length = if test == "TCP_CRR" { "-50" } else { "1" };
        let line = ["-P", "0", "-t", test, "-l", length, "-D", "0.3", "--", "-k", COUNTS];
        let ended = netperf(folder, port, &line).expect(0);
        let of = |name: &str| value(&ended, name);
        assert!(of("THROUGHPUT") > 0.0 && of("REMOTE_CPU_COUNT") >= 1.0, "{test}: {ended:?}");
        let (sent, received) = (of("LOCAL_BYTES_SENT"), of("REMOTE_BYTES_RECVD"));
        match test {
            "TCP_STREAM" => assert_eq!(sent, received, "{test}"),
            "TCP_MAERTS" => assert!(of("REMOTE_BYTES_SENT") >= of("LOCAL_BYTES_RECVD"), "{test}"),
            "UDP_STREAM" => assert!(sent >= received && received > 0.0, "{test}: {ended:?}"),
            "TCP_CRR" => assert_eq!((sent, received), (50.0, 50.0), "{test}"),
            _ => assert!(sent - received <= 1.0 && of("P99_LATENCY") > 0.0, "{test}: {ended:?}"),
        }
        let is_tcp = test.starts_with("TCP");
        assert_eq!(of("TRANSPORT_MSS") > 0.0, is_tcp, "{test}");
        assert!(value(&ended, "NETPERF_INTERIM_RESULT[0]") > 0.0, "{test}: {ended:?}");
    }
    let lines = server.end();
    assert_eq!(lines.len(), 6, "{lines:?}");
    assert!(lines[1].contains("TCP_MAERTS") && lines[1].contains(" sent in 1."), "{lines:?}");
}

#[test]
fn what_a_client_may_not_have_is_refused_with_the_reason() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let server = Server::at(folder, "127.0.0.1", &["--allow", "127.0.0.1"]);
    let tried = |more: &[&str]| netperf(folder, server.port, &[&["-l", "1"][..], more].concat());
    // netperf's own server would read the file.
    let error = tried(&["-F", ",/etc/hostname"]).expect(1).stderr;
    assert!(error.contains("refused the test: Permission denied"), "{error}");
    let error = tried(&["--", "-K", ",nosuch"]).expect(1).stderr;
    assert!(error.contains("refused the test: No such file"), "{error}");
    let error = tried(&["-N"]).expect(1).stderr;
    assert!(error.starts_with("netperf: -N is not supported"), "{error}");
    let error = tried(&["-L", "127.77.9.1"]).expect(1).stderr;
    assert!(error.contains("talk to the netserver"), "{error}");
    let lines = server.end();
    assert_eq!(lines.len(), 3, "{lines:?}");
    assert!(lines[2].contains("127.77.9.1: refused: not in --allow"), "{lines:?}");
    let nobody = netperf(folder, free_port(), &["-l", "1"]).expect(1).stderr;
    assert!(nobody.contains("or linerate serve netperf"), "{nobody}");
    let unfit = crate::common::run(folder, &["serve", "netperf", "--most-rate", "1M"]).expect(2);
    assert!(unfit.stderr.contains("--most-rate is an option of iperf3"), "{unfit:?}");
}

#[test]
fn no_datagram_goes_to_a_host_without_a_control_connection() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut server = Server::at(folder.path(), "127.0.0.1", &["--longest", "30 s"]);
    let mut control = TcpStream::connect(("127.0.0.1", server.port)).expect("a server");
    let asked = Request {
        buffers: [-1; 2],
        sizes: [-1; 2],
        exchange: [1, 1],
        family: 4,
        is_udp: true,
        direction: direction::SENDS | direction::RECEIVES,
        ..Request::default()
    };
    // Without a request to wait for, the server would answer for ever.
    let empty = Request { exchange: [0, 0], ..asked.clone() };
    empty.message(None).write(&mut control).expect("a request");
    assert_ne!(Message::read(&mut control).expect("an answer").word, 0);
    asked.message(None).write(&mut control).expect("a request");
    let answer = Answer::read(&Message::read(&mut control).expect("an answer"));
    let to = ("127.0.0.1", answer.port);
    let ask = |from: &str| {
        let socket = UdpSocket::bind((from, 0)).expect("loopback");
        let patience = Some(Duration::from_millis(300));
        socket.set_read_timeout(patience).expect("a timeout");
        socket.send_to(b"x", to).expect("a request");
        socket.recv(&mut [0; 8])
    };
    assert!(ask("127.77.9.2").is_err(), "a stranger is answered");
    assert_eq!(ask("127.0.0.1").expect("an answer"), 1);
    // A test without end ends with the control connection, long before the longest load.
    drop(control);
    let since = Instant::now();
    let of_test = |line: &String| line.contains("transactions/s");
    let line = server.lines.by_ref().map(|line| line.expect("text")).find(of_test);
    assert!(line.is_some() && since.elapsed() < Duration::from_secs(15), "{line:?}");
    server.end();
}

#[test]
fn a_server_ends_a_load_that_lasts_longer_than_its_owner_permits() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let server = Server::at(folder, "127.0.0.1", &["--longest", "1 s"]);
    for test in ["TCP_STREAM", "TCP_MAERTS", "TCP_RR", "UDP_RR"] {
        let line = ["-t", test, "-l", "20", "--", "-k", "ELAPSED_TIME"];
        let elapsed = value(&netperf(folder, server.port, &line).expect(0), "ELAPSED_TIME");
        assert!(elapsed < 15.0, "{test}: {elapsed}");
    }
    server.end();
}

#[test]
fn an_interrupt_ends_a_test_without_end_with_its_result() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let server = Server::at(folder, "127.0.0.1", &["--longest", "30 s"]);
    let port = server.port.to_string();
    for test in ["TCP_STREAM", "TCP_MAERTS", "TCP_RR"] {
        let mut endless = called(folder, "netperf");
        endless.args(["-H", "127.0.0.1", "-p", &port, "-t", test, "-l", "0", "-D", "0.1"]);
        endless.args(["--", "-k", "ELAPSED_TIME"]);
        let mut endless = endless.stdout(Stdio::piped()).spawn().expect("netperf");
        let printed = BufReader::new(endless.stdout.take().expect("piped")).lines();
        let mut printed = printed.map(|line| line.expect("text"));
        assert!(printed.any(|line| line.starts_with("NETPERF_ENDING[0]=")), "{test}");
        signal(endless.id(), "INT");
        // Without the interrupt the server ends it after its longest load.
        let elapsed = printed.find_map(|line| line.strip_prefix("ELAPSED_TIME=")?.parse().ok());
        wait(endless).expect(0);
        assert!(elapsed.is_some_and(|seconds: f64| seconds < 15.0), "{test}: {elapsed:?}");
    }
    server.end();
}

#[test]
fn a_misspelt_selector_is_reported_before_the_test() {
    let folder = tempfile::tempdir().expect("a folder");
    // No server is needed to see it.
    let ended = netperf(folder.path(), free_port(), &["--", "-k", "THROUGHPUTT"]).expect(1);
    assert!(ended.stderr.contains("no selector is called \"THROUGHPUTT\""), "{ended:?}");
}

#[test]
fn a_client_that_vanishes_frees_its_place() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let server = Server::at(folder, "127.0.0.1", &["--per-client", "1"]);
    let mut endless = called(folder, "netperf");
    let port = server.port.to_string();
    let endless = endless.args(["-H", "127.0.0.1", "-p", &port, "-t", "TCP_MAERTS", "-l", "0"]);
    let mut endless = endless.args(["-D", "0.1"]).stdout(Stdio::piped()).spawn().expect("netperf");
    let mut lines = BufReader::new(endless.stdout.take().expect("piped")).lines();
    let interim = |line: std::io::Result<String>| line.is_ok_and(|line| line.contains("Interim"));
    assert!(lines.any(interim), "it has a place");
    std::thread::spawn(move || lines.for_each(drop));
    let brief = ["-l", "1", "-t", "TCP_RR", "-P", "0", "-v", "0"];
    netperf(folder, server.port, &brief).expect(1);
    signal(endless.id(), "KILL");
    let _ = endless.wait();
    crate::common::eventually("a free place", || {
        (netperf(folder, server.port, &brief).code == Some(0)).then_some(())
    });
    server.end();
}
