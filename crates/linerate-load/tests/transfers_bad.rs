//! Servers that misbehave: each ends in a clear message, and nothing hangs.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use linerate_load::engine::EngineReport;
use linerate_load::{Offer, workload};
use linerate_model::{Counter, Nanos};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use rustls_pki_types::PrivatePkcs8KeyDer;
use serde_json::json;
use socket2::{Domain, Socket, Type};

use crate::shared::{V4, endpoint, join, params, setup, start, sum};

/// Fault of a bad FTP server at the decisive moment.
#[derive(Clone, Copy, PartialEq)]
enum Fault {
    Stalls,
    LiesAboutSize,
    NamesAnotherHost,
    DropsTheControlConnection,
    IsNoFtpServer,
    RefusesTheFile,
    /// As behind a firewall that lets the port of the server through, and no other.
    DataPortIsBlocked,
    /// The following faults happen over TLS.
    HasNoTls,
    HangsUpInTheHandshake,
    SpeaksOnInTheClear,
    RefusesToProtectFiles,
    HangsUpInTheHandshakeOfTheFile,
}

impl Fault {
    fn is_over_tls(self) -> bool {
        use Fault::{
            HangsUpInTheHandshake, HangsUpInTheHandshakeOfTheFile, HasNoTls, RefusesToProtectFiles,
            SpeaksOnInTheClear,
        };
        let secure = [
            HasNoTls,
            HangsUpInTheHandshake,
            SpeaksOnInTheClear,
            RefusesToProtectFiles,
            HangsUpInTheHandshakeOfTheFile,
        ];
        secure.contains(&self)
    }
}

/// Starts TLS with a certificate that nobody vouches for.
fn secured(control: TcpStream) -> Option<StreamOwned<ServerConnection, TcpStream>> {
    let own = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).ok()?;
    let key = PrivatePkcs8KeyDer::from(own.signing_key.serialize_der());
    let config = ServerConfig::builder_with_provider(linerate_load::pinned::provider());
    let config = config.with_safe_default_protocol_versions().ok()?.with_no_client_auth();
    let config = config.with_single_cert(vec![own.cert.der().clone()], key.into()).ok()?;
    Some(StreamOwned::new(ServerConnection::new(Arc::new(config)).ok()?, control))
}

/// Returns the next line, read byte by byte: TLS may follow it.
fn line(control: &mut impl Read) -> Option<String> {
    let (mut text, mut byte) = (String::new(), [0]);
    while !text.ends_with('\n') {
        control.read_exact(&mut byte).ok()?;
        text.push(byte[0].into());
    }
    Some(text.trim_end().to_owned())
}

/// Answers until AUTH TLS, and from there on over TLS, as a server with this fault does.
fn serve_tls(mut control: TcpStream, fault: Fault) -> Option<()> {
    control.write_all(b"220 Hello\r\n").ok()?;
    assert_eq!(line(&mut control)?, "AUTH TLS", "nothing is said in the clear before");
    match fault {
        Fault::HasNoTls => {
            return control.write_all(b"530 Please login with USER and PASS.\r\n").ok();
        }
        Fault::SpeaksOnInTheClear => {
            control.write_all(b"234 Go\r\n230 No need to log in\r\n").ok()?
        }
        _ => control.write_all(b"234 Go\r\n").ok()?,
    }
    if fault == Fault::HangsUpInTheHandshake || fault == Fault::SpeaksOnInTheClear {
        // Reads the client's first bytes of TLS before it hangs up, so that the close is not a
        // reset.
        return control.read(&mut [0; 4096]).ok().map(drop);
    }
    let data = TcpListener::bind("127.0.0.1:0").ok()?;
    let port = data.local_addr().ok()?.port();
    let mut control = secured(control)?;
    loop {
        let asked = line(&mut control)?;
        let mut say =
            |text: &str| control.write_all(text.as_bytes()).and_then(|()| control.flush()).ok();
        match asked.split(' ').next()? {
            "USER" => say("331 Password\r\n")?,
            "PASS" => say("230 In\r\n")?,
            "PROT" if fault == Fault::RefusesToProtectFiles => say("536 Not here\r\n")?,
            "SIZE" => say(&format!("213 {FILE}\r\n"))?,
            "EPSV" => say(&format!("229 There (|||{port}|)\r\n"))?,
            "RETR" => {
                let (mut file, _) = data.accept().ok()?;
                say("150 Here\r\n")?;
                // Reads any first bytes of TLS.
                let _ = file.read(&mut [0; 4096]).ok()?;
                drop(file);
                say("522 You are not who you were\r\n")?;
            }
            _ => say("200 Well\r\n")?,
        }
    }
}

const FILE: usize = 1000;

/// Serves one connection after the other on its own thread, until the test's process ends.
fn bad_server(fault: Fault) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
    let address = listener.local_addr().expect("bound");
    std::thread::spawn(move || {
        for control in listener.incoming().flatten() {
            std::thread::spawn(move || serve(control, fault));
        }
    });
    format!("ftp://me:mine@{address}/file")
}

fn serve(mut control: TcpStream, fault: Fault) -> Option<()> {
    if fault.is_over_tls() {
        return serve_tls(control, fault);
    }
    let mut lines = BufReader::new(control.try_clone().ok()?).lines();
    let mut say = |text: &str| control.write_all(text.as_bytes()).ok();
    if fault == Fault::IsNoFtpServer {
        return say("HTTP/1.1 400 Bad Request\r\n\r\n");
    }
    say("220-Hello\r\n220 there\r\n")?;
    let blocked = (fault == Fault::DataPortIsBlocked).then(Silent::new);
    let data = TcpListener::bind("127.0.0.1:0").ok()?;
    let named = blocked.as_ref().map_or(data.local_addr().ok()?, |blocked| blocked.address);
    let [high, low] = named.port().to_be_bytes();
    while let Some(Ok(line)) = lines.next() {
        match line.split(' ').next()? {
            "USER" => say("331 Password\r\n")?,
            "PASS" => say("230 In\r\n")?,
            "TYPE" => say("200 Well\r\n")?,
            "SIZE" if fault == Fault::LiesAboutSize => say("213 999999\r\n")?,
            "SIZE" => say(&format!("213 {FILE}\r\n"))?,
            "PASV" if fault == Fault::NamesAnotherHost => {
                say(&format!("227 Entering Passive Mode (198,18,0,9,{high},{low})\r\n"))?;
            }
            "PASV" => say(&format!("227 Entering Passive Mode (127,0,0,1,{high},{low})\r\n"))?,
            "RETR" if fault == Fault::RefusesTheFile => say("550 No such file\r\n")?,
            "RETR" => {
                let (mut file, _) = data.accept().ok()?;
                say("150 Here\r\n")?;
                match fault {
                    Fault::Stalls => {
                        file.write_all(&[7; FILE / 2]).ok()?;
                        std::thread::sleep(Duration::from_secs(60));
                    }
                    Fault::DropsTheControlConnection => {
                        file.write_all(&[7; FILE / 2]).ok()?;
                        return None;
                    }
                    _ => file.write_all(&[7; FILE]).ok()?,
                }
                drop(file);
                say("226 Done\r\n")?;
            }
            _ => say("502 What\r\n")?,
        }
    }
    Some(())
}

/// Address that answers no attempt to connect: its listener has no room for another connection, and
/// the kernel then drops what arrives.
struct Silent {
    address: SocketAddr,
    _held: Vec<Socket>,
}

impl Silent {
    fn new() -> Self {
        let socket = || Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
        let listener = socket();
        listener.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).expect("loopback");
        listener.listen(0).expect("bound");
        let address = listener.local_addr().expect("bound").as_socket().expect("an IPv4 address");
        let mut held = vec![listener];
        for _ in 0..4 {
            let caller = socket();
            caller.set_nonblocking(true).expect("Linux has it");
            // The first ones fit; the others wait for an answer, as the client of a test does.
            let _pending = caller.connect(&address.into());
            held.push(caller);
        }
        Self { address, _held: held }
    }
}

/// Fetches from a bad server for `milliseconds`.
fn fetch(url: &str, milliseconds: u64) -> EngineReport {
    fetch_with(json!({ "server": url, "passive": "pasv", "timeout": "200 ms" }), milliseconds)
}

fn fetch_with(table: serde_json::Value, milliseconds: u64) -> EngineReport {
    transfer("ftp", table, milliseconds)
}

fn transfer(name: &str, table: serde_json::Value, milliseconds: u64) -> EngineReport {
    let (params, local) = (params(table), endpoint(V4));
    let workload = workload(name).expect("registered");
    let offer = Offer { addresses: Vec::new() };
    let workers = workload.connect(&setup(&params, &local), &offer).expect("nothing is opened yet");
    join(start(workers, Nanos::from_millis(milliseconds), Nanos::from_millis(200)))
}

/// Returns everything reported about the failures, in incidents and modes.
fn failures(report: &EngineReport) -> String {
    let modes = report.flows.iter().filter_map(|flow| flow.modes.get("failures"));
    modes
        .chain(report.incidents.iter().map(|incident| &incident.message))
        .cloned()
        .collect::<Vec<_>>()
        .join("; ")
}

#[test]
fn each_fault_has_its_message() {
    for (fault, word) in [
        (Fault::LiesAboutSize, "the server announced a file of 999999 bytes and sent 1000"),
        (Fault::IsNoFtpServer, "no reply of FTP"),
        (Fault::RefusesTheFile, "the server answered 550"),
        (Fault::Stalls, "nothing arrived in the middle of the file"),
        (
            Fault::DropsTheControlConnection,
            "the other end closed the connection after the last byte, before confirming it",
        ),
    ] {
        let began = Instant::now();
        let report = fetch(&bad_server(fault), 1000);
        assert!(began.elapsed() < Duration::from_secs(20), "it hung: {word}");
        assert!(failures(&report).contains(word), "{word}: {}", failures(&report));
        assert_eq!(sum(&report, Counter::Transactions), 0, "{word}");
        assert!(sum(&report, Counter::TransactionsLost) > 0, "{word}");
    }
}

#[test]
fn data_come_from_the_server_itself_whatever_host_it_names_and_however_it_is_asked() {
    // It does not know EPSV. The client falls back to PASV and ignores the address in its answer.
    for passive in ["epsv", "pasv"] {
        let table = json!({ "server": bad_server(Fault::NamesAnotherHost), "passive": passive,
            "timeout": "2 s" });
        let report = fetch_with(table, 1000);
        assert!(sum(&report, Counter::Transactions) > 0, "{passive}: {}", failures(&report));
        assert_eq!(sum(&report, Counter::TransactionsLost), 0, "{passive}: {}", failures(&report));
    }
}

#[test]
fn each_fault_of_a_server_over_tls_has_its_message() {
    for (fault, word) in [
        (
            Fault::HasNoTls,
            "the server answered 530 to AUTH TLS: it has no TLS there, or not for this login",
        ),
        (Fault::HangsUpInTheHandshake, "the other end closed the connection in the middle of TLS"),
        (Fault::SpeaksOnInTheClear, "more words in the clear after the server agreed to TLS"),
        (Fault::RefusesToProtectFiles, "the server answered 536 to PROT P"),
        (
            Fault::HangsUpInTheHandshakeOfTheFile,
            "the server answered 522 to TLS of the data connection",
        ),
    ] {
        let url = bad_server(fault);
        let params = json!({ "server": url, "tls": true, "verify": false, "timeout": "2 s" });
        // A busy machine may not reach the fault within a second.
        let spans_ms = [1000, 4000, 16_000];
        let mut reports = spans_ms.iter().map(|&span| fetch_with(params.clone(), span));
        let report = reports
            .find(|report| !failures(report).is_empty())
            .expect("a load of 16 s meets the fault");
        assert!(failures(&report).contains(word), "{word}: {}", failures(&report));
        assert_eq!(sum(&report, Counter::Transactions), 0, "{word}");
    }
}

#[test]
fn an_early_refusal_of_an_http_server_is_reported() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
    let url = format!("http://{}/file", listener.local_addr().expect("bound"));
    std::thread::spawn(move || {
        for mut connection in listener.incoming().flatten() {
            let _ = connection.read(&mut [0; 64]);
            // The connection is closed with unread bytes, so the kernel sends a reset after this
            // reply.
            let _ = connection
                .write_all(b"HTTP/1.1 413 Content Too Large\r\nConnection: close\r\n\r\n");
        }
    });
    // More than the buffers of both ends can take.
    let table = json!({ "server": url, "direction": "tx", "file_size": "256 MiB", "send": "copy" });
    let report = transfer("http", table, 10_000);
    assert!(failures(&report).contains("the server answered 413"), "{}", failures(&report));
    assert_eq!(sum(&report, Counter::Transactions), 0);
}

#[test]
fn an_absent_server_is_reported() {
    // Bound but not listening: the port refuses, and no server of another test can use it.
    let held = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
    held.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).expect("loopback");
    let port = held.local_addr().expect("bound").as_socket().expect("an IPv4 address").port();
    let report = fetch(&format!("ftp://127.0.0.1:{port}/file"), 1000);
    assert!(failures(&report).contains("Connection refused"), "{}", failures(&report));
}

#[test]
fn a_port_that_does_not_answer_is_named_whether_the_load_or_the_time_allowed_ends_first() {
    let silent = Silent::new();
    let (address, port) = (silent.address, silent.address.port());
    for (name, timeout) in [("ftp", "10 s"), ("http", "10 s"), ("ftp", "20 ms")] {
        let table = json!({ "server": format!("{name}://{address}/file"), "timeout": timeout });
        let shown = failures(&transfer(name, table, 1000));
        assert!(shown.contains(&format!("connect to {address}: ")), "{name}, {timeout}: {shown}");
        let hint = format!("does a firewall drop TCP to port {port} there?");
        assert!(shown.contains(&hint), "{name}, {timeout}: {shown}");
    }
    let url = bad_server(Fault::DataPortIsBlocked);
    // A busy machine may not reach the data connection within a second.
    let mut reports = [1000, 4000, 16_000].into_iter().map(|span| {
        failures(&fetch_with(json!({ "server": url, "passive": "pasv", "timeout": "60 s" }), span))
    });
    let shown = reports.find(|shown| !shown.is_empty()).expect("16 s reach it");
    assert!(shown.contains("connect to 127.0.0.1:") && shown.contains("firewall"), "{shown}");
    // A server that answers is not called blocked, whatever is open at the end of the load.
    let stalled = bad_server(Fault::Stalls);
    let shown = failures(&fetch_with(json!({ "server": stalled, "passive": "pasv" }), 1000));
    assert!(!shown.contains("firewall"), "{shown}");
}
