//! A server in this process, over a folder with ledgers, and a client that sends bytes as they are.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::time::{Duration, Instant};

use linerate_dashboard::{Access, serve};
use linerate_model::{CampaignHeader, Event, HostRecord, Nanos, Recorder, TestbedKind};
use linerate_store::Ledger;
use serde_json::Value;

/// Longest wait for something that takes milliseconds.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) fn header(id: &str, name: &str) -> CampaignHeader {
    CampaignHeader {
        id: id.to_owned(),
        name: name.to_owned(),
        started: Nanos(1_795_219_500_000_000_000),
        testbed: TestbedKind::Hosts,
        version: "0.2.0".to_owned(),
        ..CampaignHeader::default()
    }
}

/// Records a campaign without trials that has ended.
pub(crate) fn record(path: &Path, header: CampaignHeader, host: &str) {
    let mut ledger = Ledger::create(path).expect("created");
    let host = HostRecord {
        host: host.to_owned(),
        facts: Value::Null,
        clock_offset_ns: 0,
        clock_uncertainty_ns: 0,
    };
    for event in [
        Event::CampaignStarted(Box::new(header)),
        Event::HostJoined(Box::new(host)),
        Event::CampaignEnded { at: Nanos(1_795_219_600_000_000_000) },
    ] {
        ledger.record(&event).expect("recorded");
    }
    ledger.flush().expect("written");
}

/// Serves `folder` on loopback until the test program ends.
pub(crate) fn served(folder: &Path, access: Access) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("its address");
    let folder = folder.to_owned();
    std::thread::spawn(move || serve(&folder, listener, access).expect("it serves"));
    address
}

/// Answer: status, head, body.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

/// Sends `request` as it is and reads until the other end closes.
pub(crate) fn exchange(stream: &mut (impl Read + Write), request: &str) -> Answer {
    stream.write_all(request.as_bytes()).expect("sent");
    let mut all = Vec::new();
    // An end without a farewell of TLS is an end, too.
    let _end = stream.read_to_end(&mut all);
    let text = String::from_utf8_lossy(&all).into_owned();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
    Answer { status, head: head.to_lowercase(), body: body.to_owned() }
}

pub(crate) fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).expect("connected");
    stream.set_read_timeout(Some(PATIENCE)).expect("set");
    stream
}

/// Gets `path` with the address as its host.
pub(crate) fn get(address: SocketAddr, path: &str) -> Answer {
    get_as(address, path, &address.to_string())
}

pub(crate) fn get_as(address: SocketAddr, path: &str, host: &str) -> Answer {
    let request = format!("GET {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n");
    exchange(&mut connect(address), &request)
}

/// Gets `path` until its page has `text`.
pub(crate) fn get_with(address: SocketAddr, path: &str, text: &str) -> Answer {
    let began = Instant::now();
    loop {
        let answer = get(address, path);
        if answer.body.contains(text) {
            return answer;
        }
        assert!(began.elapsed() < PATIENCE, "no {text:?} in {answer:?}");
        std::thread::sleep(Duration::from_millis(50));
    }
}
