//! Files between linerate and common programs: our clients with vsftpd and nginx, curl and lftp
//! with our servers, in both directions. The log or storage of the other program is the witness.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use linerate_disk::Disks;
use linerate_load::engine::{Engine, EngineReport};
use linerate_load::{Offer, Setup, workload};
use linerate_model::{Counter, Nanos};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tempfile::NamedTempFile;

use crate::peers::{Peer, contents, installed};
use crate::shared::{PATIENCE, V4, endpoint, flows_sum, join, params, setup, start, sum};
use Counter::{
    ConnectionsFailed, PayloadAcknowledged, PayloadReceived, PayloadSent, Serving, Transactions,
    TransactionsLost,
};

/// Not a round number, so that lost or added bytes at either end would show.
pub(crate) const FILE: usize = (1 << 20) + 4321;
/// Number of files after which a load ends.
const ENOUGH: u64 = 3 * STREAMS;
const TOO_LONG: Duration = Duration::from_secs(30);
/// Duration of loads and of servers for foreign clients, which are stopped earlier.
const UNTIL_STOPPED: Nanos = Nanos::from_secs(300);
const STREAMS: u64 = 2;

/// Runs our clients against the server at `url`.
pub(crate) fn drive(name: &str, url: &str, more: Value) -> EngineReport {
    let mut table = json!({ "server": url, "streams": STREAMS, "file_size": format!("{FILE} B") });
    table.as_object_mut().expect("a table").extend(more.as_object().expect("a table").clone());
    let (params, local) = (params(table), endpoint(V4));
    let workload = workload(name).expect("registered");
    let offer = Offer { addresses: Vec::new() };
    let workers = workload.connect(&setup(&params, &local), &offer).expect("nothing is opened yet");
    let (mut engine, began) = (start(workers, UNTIL_STOPPED, Nanos::from_secs(1)), Instant::now());
    let (mut intervals, mut files) = (Vec::new(), 0);
    while !engine.finished() && files < ENOUGH && began.elapsed() < TOO_LONG {
        std::thread::sleep(Duration::from_millis(5));
        let more = engine.intervals();
        files += more.iter().map(|interval| interval.counters[Transactions]).sum::<u64>();
        intervals.extend(more);
    }
    engine.stop();
    let mut report = join(engine);
    intervals.append(&mut report.intervals);
    report.intervals = intervals;
    report
}

/// Returns the number of complete files; there must be some, and none lost.
pub(crate) fn files(report: &EngineReport, context: &str) -> u64 {
    let modes: Vec<_> = report.flows.iter().map(|flow| &flow.modes).collect();
    assert!(report.incidents.is_empty(), "{context}: {:?} {modes:?}", report.incidents);
    let files = sum(report, Transactions);
    assert!(files > 0, "{context}: {modes:?}");
    assert_eq!(sum(report, TransactionsLost), 0, "{context}: {modes:?}");
    files
}

/// Checks that the other end's TCP has acknowledged at least the complete files, and no more than
/// was sent: the end of the load cuts files off.
pub(crate) fn assert_acknowledged(report: &EngineReport, files: u64, context: &str) {
    let (acknowledged, sent) = (sum(report, PayloadAcknowledged), sum(report, PayloadSent));
    assert!(
        (files * FILE as u64..=sent).contains(&acknowledged),
        "{context}: {files} files, {acknowledged} of {sent}"
    );
}

/// Our server for foreign clients.
pub(crate) struct Own {
    pub(crate) engine: Engine,
    pub(crate) address: String,
}

impl Own {
    pub(crate) fn start(name: &str, more: Value) -> Self {
        Self::start_with(name, more, &Disks::none())
    }

    pub(crate) fn start_with(name: &str, more: Value, disks: &Disks) -> Self {
        let mut table =
            json!({ "clients": "foreign", "streams": STREAMS, "file_size": format!("{FILE} B") });
        table.as_object_mut().expect("a table").extend(more.as_object().expect("a table").clone());
        let (params, local) = (params(table), endpoint(V4));
        let setup = Setup { disks, ..setup(&params, &local) };
        let listener = workload(name).expect("registered").listen(&setup).expect("listen");
        let address = listener.offer().addresses[0].to_string();
        let workers = listener.accept(PATIENCE.into()).expect("nobody is waited for");
        Self { engine: start(workers, UNTIL_STOPPED, Nanos::from_secs(1)), address }
    }

    pub(crate) fn stop(self) -> EngineReport {
        self.engine.stop();
        join(self.engine)
    }
}

pub(crate) fn call(command: &str, arguments: &[&str]) -> Output {
    let output = Command::new(command)
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .expect("it is installed");
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{command} {arguments:?}: {} {error}", output.status);
    output
}

/// Returns a file to send, and its path.
pub(crate) fn file_to_send() -> (NamedTempFile, String) {
    let file = NamedTempFile::new().expect("a file");
    std::fs::write(&file, contents(FILE)).expect("it is writable");
    let path = file.path().display().to_string();
    (file, path)
}

/// Checks that an incident names `word`, and that no file was complete.
pub(crate) fn assert_refused(report: &EngineReport, word: &str, context: &str) {
    let incidents: Vec<_> = report.incidents.iter().map(|incident| &*incident.message).collect();
    assert!(incidents.iter().any(|text| text.contains(word)), "{context}: {incidents:?}");
    assert_eq!(sum(report, Transactions), 0, "{context}");
}

/// Checks that curl fetched what our server offers; twice, over one connection if the protocol
/// allows it.
pub(crate) fn assert_fetched(output: &Output, context: &str) {
    assert_eq!(output.stdout.len(), 2 * FILE, "{context}");
    assert!(
        output.stdout == [contents(FILE), contents(FILE)].concat(),
        "{context}: other bytes than the file's"
    );
}

#[test]
fn our_ftp_client_fetches_from_and_sends_to_vsftpd() {
    let Some(vsftpd) = Peer::vsftpd(FILE) else { return };
    for passive in ["epsv", "pasv"] {
        let url = format!("ftp://{}/file", vsftpd.at);
        let report = drive("ftp", &url, json!({ "passive": passive, "sink": "memory" }));
        let files = files(&report, passive);
        let received = sum(&report, PayloadReceived);
        assert!(received >= files * FILE as u64, "{files} files, {received} bytes");
        let whole = format!("/file\", {FILE} bytes");
        let logged =
            vsftpd.logged(files, |line| line.contains("OK DOWNLOAD") && line.contains(&whole));
        assert!(logged >= files, "{files} by us, {logged} by vsftpd:\n{}", vsftpd.text("log"));
    }
    for send in ["copy", "sendfile", "splice", "zerocopy"] {
        let url = format!("ftp://{}/in/{send}", vsftpd.at);
        let report = drive("ftp", &url, json!({ "direction": "tx", "send": send, "streams": 1 }));
        let files = files(&report, send);
        let whole = format!("/in/{send}\", {FILE} bytes");
        let logged =
            vsftpd.logged(files, |line| line.contains("OK UPLOAD") && line.contains(&whole));
        assert!(
            logged >= files,
            "{send}: {files} by us, {logged} by vsftpd:\n{}",
            vsftpd.text("log")
        );
        assert_acknowledged(&report, files, send);
        // The end of the load cuts the last file off.
        let stored = std::fs::read(vsftpd.path(&format!("public/in/{send}"))).expect("it was sent");
        assert!(contents(FILE).starts_with(&stored), "{send}: other bytes than those sent");
    }
}

#[test]
fn our_http_client_fetches_from_and_sends_to_nginx() {
    let Some(nginx) = Peer::nginx(FILE) else { return };
    for reuse in [true, false] {
        let url = format!("http://{}/file", nginx.at);
        let before = nginx.text("log").lines().count();
        let report = drive("http", &url, json!({ "reuse": reuse, "sink": "memory" }));
        let files = files(&report, "GET");
        assert!(sum(&report, PayloadReceived) >= files * FILE as u64);
        let logged = nginx.logged(files, |line| {
            line.starts_with("GET 200 ") && line.contains(&format!(" {FILE} "))
        });
        assert!(logged >= files, "{files} by us, {logged} by nginx:\n{}", nginx.text("log"));
        let log = nginx.text("log");
        let connections: std::collections::BTreeSet<&str> =
            log.lines().skip(before).filter_map(|line| line.split(' ').nth(4)).collect();
        assert_eq!(
            connections.len() as u64 <= STREAMS,
            reuse,
            "{} connections, {files} files",
            connections.len()
        );
    }
    for send in ["copy", "sendfile", "splice", "zerocopy"] {
        let url = format!("http://{}/in/{send}", nginx.at);
        let report = drive("http", &url, json!({ "direction": "tx", "send": send }));
        let files = files(&report, send);
        assert_acknowledged(&report, files, send);
        // nginx moves a file to its place when it is complete.
        let stored = std::fs::read(nginx.path(&format!("public/in/{send}"))).expect("it was sent");
        assert!(
            stored == contents(FILE),
            "{send}: {} bytes, or others than those sent",
            stored.len()
        );
    }
}

#[test]
fn refusals_of_foreign_servers_are_reported() {
    let Some(nginx) = Peer::nginx(FILE) else { return };
    let Some(vsftpd) = Peer::vsftpd(FILE) else { return };
    for (name, server, path, direction, word) in [
        ("http", &nginx, "none", "rx", "the server answered 404"),
        ("http", &nginx, "file", "tx", "the server answered 405"),
        ("ftp", &vsftpd, "none", "rx", "the server answered 550"),
        ("ftp", &vsftpd, "new", "tx", "the server answered 553"),
        ("ftp", &vsftpd, "file", "rx", "the server answered 530"),
    ] {
        let user = if word.ends_with("530") { "nobody:wrong@" } else { "" };
        let url = format!("{name}://{user}{}/{path}", server.at);
        let report = drive(name, &url, json!({ "direction": direction }));
        assert_refused(&report, word, &format!("{url}: {}", server.text("error")));
    }
}

#[test]
fn curl_fetches_from_our_servers() {
    let Some(()) = installed("curl") else { return };
    for (name, user) in [("http", ""), ("ftp", "anybody:anything@")] {
        for send in ["copy", "sendfile", "splice", "zerocopy"] {
            let own = Own::start(name, json!({ "send": send }));
            let url = format!("{name}://{user}{}/file", own.address);
            let context = format!("{url} by {send}");
            assert_fetched(&call("curl", &["-s", "-S", &url, &url]), &context);
            if name == "ftp" {
                assert_fetched(
                    &call("curl", &["-s", "-S", "--disable-epsv", &url, &url]),
                    &context,
                );
            }
            let report = own.stop();
            let sent = sum(&report, PayloadSent);
            let fetches = if name == "ftp" { 4 } else { 2 };
            assert_eq!(sent, fetches * FILE as u64, "{context}: {:?}", report.incidents);
            assert_eq!(flows_sum(&report, PayloadSent), sent, "{context}");
            assert_eq!(sum(&report, ConnectionsFailed), 0, "{context}: {:?}", report.flows);
            assert!(sum(&report, Serving) > 0, "{context}");
        }
    }
}

/// A client that stops reading keeps its file under way. Before it came and after it left, no file
/// is under way.
#[test]
fn the_time_in_which_a_file_is_under_way_is_counted() {
    const IDLE: Duration = Duration::from_millis(200);
    // More than the socket buffers of both ends can take.
    let mut own = Own::start("http", json!({ "file_size": "64 MiB" }));
    std::thread::sleep(IDLE);
    let came = Instant::now();
    let mut client = TcpStream::connect(&own.address).expect("it listens");
    client.write_all(b"GET /file HTTP/1.1\r\nHost: a\r\n\r\n").expect("it listens");
    client.read_exact(&mut [0; 1000]).expect("an answer");
    let counted = |own: &mut Own| -> Duration {
        let of = |interval: &linerate_model::Interval| interval.counters[Serving];
        Duration::from_nanos(own.engine.intervals().iter().map(of).sum())
    };
    // The client reads nothing, and the time goes on.
    let mut served = Duration::ZERO;
    while served < IDLE && came.elapsed() < TOO_LONG {
        std::thread::sleep(Duration::from_millis(5));
        served += counted(&mut own);
    }
    assert!(served >= IDLE, "{served:?} of {:?}", came.elapsed());
    drop(client);
    let rest = Duration::from_nanos(sum(&own.stop(), Serving));
    let all = served + rest;
    assert!(all <= came.elapsed(), "{all:?} of {:?}", came.elapsed());
}

#[test]
fn curl_sends_to_our_servers() {
    let Some(()) = installed("curl") else { return };
    let (_kept, file) = file_to_send();
    for (name, user) in [("http", ""), ("ftp", "anybody:anything@")] {
        for sink in ["discard", "memory"] {
            let own = Own::start(name, json!({ "direction": "tx", "sink": sink }));
            let url = format!("{name}://{user}{}/file", own.address);
            // With Expect: 100-continue if curl chooses it, and without.
            call("curl", &["-s", "-S", "-f", "-T", &file, &url]);
            call("curl", &["-s", "-S", "-f", "-H", "Expect: 100-continue", "-T", &file, &url]);
            let report = own.stop();
            assert_eq!(
                sum(&report, PayloadReceived),
                2 * FILE as u64,
                "{url} {sink}: {:?}",
                report.flows
            );
            assert_eq!(sum(&report, ConnectionsFailed), 0, "{url} {sink}: {:?}", report.flows);
        }
    }
}

#[test]
fn lftp_fetches_from_and_sends_to_our_servers() {
    let Some(()) = installed("lftp") else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let [file, fetched] = ["file", "fetched"].map(|name| folder.path().join(name));
    std::fs::write(&file, contents(FILE)).expect("it is writable");
    for name in ["http", "ftp"] {
        let own = Own::start(name, json!({}));
        let get = format!(
            "set net:max-retries 1; get {name}://{}/file -o {}",
            own.address,
            fetched.display()
        );
        call("lftp", &["--norc", "-c", &get]);
        let report = own.stop();
        assert!(
            std::fs::read(&fetched).expect("it was fetched") == contents(FILE),
            "{get}: {:?}",
            report.flows
        );
        std::fs::remove_file(&fetched).expect("it is there");
        let own = Own::start(name, json!({ "direction": "tx" }));
        let put = format!(
            "set net:max-retries 1; put {} -o {name}://{}/file",
            file.display(),
            own.address
        );
        call("lftp", &["--norc", "-c", &put]);
        let report = own.stop();
        assert_eq!(sum(&report, PayloadReceived), FILE as u64, "{put}: {:?}", report.flows);
    }
}

/// Names that need to be encoded.
const AWKWARD: &str = "a b#%\u{e4}.bin";
const ENCODED: &str = "a%20b%23%25%C3%A4.bin";

#[test]
fn other_programs_take_parts_names_and_trees_from_our_servers() {
    let Some(((), ())) = installed("curl").zip(installed("lftp")) else { return };
    let ground = tempfile::tempdir().expect("a folder");
    let [root, fetched] = ["root", "fetched"].map(|name| ground.path().join(name));
    std::fs::create_dir_all(root.join("sub/many")).expect("a folder");
    std::fs::write(root.join("sub").join(AWKWARD), contents(FILE)).expect("it is writable");
    std::fs::write(root.join("sub/empty"), "").expect("it is writable");
    (0..20).for_each(|n| {
        std::fs::write(root.join(format!("sub/many/{n}")), contents(n)).expect("it is writable")
    });
    // Larger than the socket buffers of both ends.
    std::fs::File::create(root.join("large"))
        .and_then(|file| file.set_len(64 << 20))
        .expect("it is writable");
    std::fs::write(ground.path().join("secret"), "secret").expect("it is writable");
    std::os::unix::fs::symlink(ground.path().join("secret"), root.join("link")).expect("a link");
    let disks = Disks::none().serving(vec![ground.path().to_owned()]);
    for (name, chunked) in [("http", false), ("http", true), ("ftp", false)] {
        let mut table = json!({ "root": root.display().to_string() });
        if chunked {
            table["chunked"] = json!(true);
        }
        let own = Own::start_with(name, table, &disks);
        let url = |path: &str| format!("{name}://{}/{path}", own.address);
        let (file, context) =
            (url(&format!("sub/{ENCODED}")), format!("{name}, chunked {chunked}"));
        let whole = call("curl", &["-s", "-S", "-f", &file]);
        assert!(whole.stdout == contents(FILE), "{context}: {} bytes", whole.stdout.len());
        let rest = call("curl", &["-s", "-S", "-f", "-C", "1000000", &file]);
        assert!(
            rest.stdout == contents(FILE)[1_000_000..],
            "{context}: {} bytes",
            rest.stdout.len()
        );
        let head = call("curl", &["-s", "-S", "-f", "-I", &file]);
        let head = String::from_utf8_lossy(&head.stdout).to_lowercase();
        assert!(
            head.contains("last-modified: ") && head.contains("accept-ranges: bytes"),
            "{context}: {head}"
        );
        assert_eq!(
            head.contains(&format!("content-length: {FILE}\r\n")),
            !chunked,
            "{context}: {head}"
        );
        let part = call("curl", &["-s", "-S", "-f", "-r", "5-9", &file]);
        assert_eq!(part.stdout, contents(10)[5..], "{context}");
        if name == "ftp" {
            // A client that has enough closes the data connection and continues the session.
            let large = url("large");
            let parts = call("curl", &["-s", "-S", "-f", "-r", "5-9", &large, &large]);
            assert_eq!(parts.stdout, [0; 10], "{context}");
        }
        for outside in ["link", "../secret", "%2e%2e/secret", "sub/../../secret", "none", "a%00b"] {
            let refused =
                Command::new("curl").args(["-s", "-f", "--path-as-is", &url(outside)]).output();
            let refused = refused.expect("it is installed");
            assert!(!refused.status.success() && refused.stdout.is_empty(), "{context}: {outside}");
        }
        let mirror = format!("set net:max-retries 2; mirror {} {}", url("sub"), fetched.display());
        call("lftp", &["--norc", "-c", &mirror]);
        let read = |path: &str| std::fs::read(fetched.join(path)).expect("it was fetched");
        assert!(read(AWKWARD) == contents(FILE) && read("empty").is_empty(), "{context}");
        (0..20).for_each(|n| assert!(read(&format!("many/{n}")) == contents(n), "{context}: {n}"));
        std::fs::remove_dir_all(&fetched).expect("ours");
        let report = own.stop();
        let (acknowledged, sent) = (sum(&report, PayloadAcknowledged), sum(&report, PayloadSent));
        assert!(
            acknowledged > FILE as u64 && acknowledged <= sent,
            "{context}: {acknowledged} of {sent}"
        );
        // lftp does not request empty files by FTP.
        assert!(sum(&report, Transactions) >= 22, "{context}: {:?}", report.flows);
    }
}

#[test]
fn curl_sends_chunks_to_our_server_and_the_checksum_is_that_of_the_file() {
    let Some(()) = installed("curl") else { return };
    let (_kept, file) = file_to_send();
    let own = Own::start("http", json!({ "direction": "tx", "sink": "memory", "checksum": true }));
    let url = format!("http://{}/file", own.address);
    for expect in ["Expect: 100-continue", "Expect:"] {
        let chunked = ["-H", "Transfer-Encoding: chunked", "-H", expect, "-T", &file, &url];
        call("curl", &[&["-s", "-S", "-f"][..], &chunked].concat());
    }
    let report = own.stop();
    assert_eq!(sum(&report, PayloadReceived), 2 * FILE as u64, "{:?}", report.flows);
    assert_checksum(&report, &contents(FILE), &url);
}

/// Checks the checksum of the last file of each flow.
fn assert_checksum(report: &EngineReport, file: &[u8], context: &str) {
    let sums: Vec<_> =
        report.flows.iter().filter_map(|flow| flow.modes.get("sha256_last")).collect();
    assert!(
        !sums.is_empty() && sums.iter().all(|sum| **sum == sha256(file)),
        "{context}: {sums:?}"
    );
}

fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn our_clients_resume_decode_take_chunks_and_many_files() {
    let Some(nginx) = Peer::nginx(FILE) else { return };
    let Some(vsftpd) = Peer::vsftpd_with(FILE, "cmds_denied=EPSV\n") else { return };
    for (name, peer) in [("http", &nginx), ("ftp", &vsftpd)] {
        std::fs::write(peer.path("public").join(AWKWARD), contents(FILE)).expect("it is ours");
        (0..7).for_each(|n| {
            std::fs::write(peer.path(&format!("public/n{n}")), contents(n)).expect("it is ours")
        });
        let url = |path: &str| format!("{name}://{}/{path}", peer.at);
        let mut cases = vec![
            (url(ENCODED), json!({}), contents(FILE)),
            (url("file"), json!({ "offset": "1000000 B" }), contents(FILE)[1_000_000..].to_vec()),
        ];
        if name == "http" {
            cases.push((url("chunked/file"), json!({}), contents(FILE)));
        }
        for (url, mut table, expected) in cases {
            (table["sink"], table["checksum"]) = (json!("memory"), json!(true));
            let report = drive(name, &url, table);
            files(&report, &url);
            assert_checksum(&report, &expected, &url);
        }
        let table = json!({ "sink": "memory", "checksum": true, "files": 7, "streams": 1 });
        let report = drive(name, &url("n{n}"), table);
        files(&report, name);
        let context = &report.flows[0].modes["sha256_all"];
        let (sum, n) = context
            .split_once(", ")
            .and_then(|(sum, n)| Some((sum, n.split(' ').next()?)))
            .expect("context");
        let n: usize = n.parse().expect("a number");
        let longest = contents(7);
        let all: Vec<u8> = (0..n).flat_map(|n| longest[..n % 7].to_vec()).collect();
        assert_eq!(sum, sha256(&all), "{context}");
    }
}
