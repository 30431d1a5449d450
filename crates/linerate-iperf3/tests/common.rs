//! A server of ours in this process, and iperf3 as a program.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use linerate_iperf3::serve::{ServeOptions, Served, TestRecord, serve};
use linerate_iperf3::session::Limits;
use serde_json::Value;

/// Longest time for anything here.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Returns whether iperf3 is installed. Prints that the test is skipped if not.
pub(crate) fn has_iperf3(test: &str) -> bool {
    let found = Command::new("iperf3").arg("--version").output().is_ok();
    if !found {
        println!("skipped: {test}: needs iperf3");
    }
    found
}

/// A server of ours on loopback.
pub(crate) struct Server {
    pub(crate) at: SocketAddr,
    stop: Arc<AtomicBool>,
    events: Mutex<Receiver<Served>>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    pub(crate) fn start(limits: Limits) -> Self {
        let options = ServeOptions {
            address: Some(Ipv4Addr::LOCALHOST.into()),
            port: 0,
            limits,
            ..ServeOptions::default()
        };
        Self::with(options)
    }

    pub(crate) fn with(options: ServeOptions) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (tell, events) = channel();
        let tell = Mutex::new(tell);
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let tell = move |event| {
                // A test that has failed reads no more.
                let _ = tell.lock().expect("nobody panics with it").send(event);
            };
            serve(options, tell, move || stopped.load(Ordering::Relaxed)).expect("it listens");
        });
        let Ok(Served::Listening(at)) = events.recv_timeout(PATIENCE) else {
            panic!("it does not listen");
        };
        Self { at, stop, events: Mutex::new(events), thread: Some(thread) }
    }

    /// Waits for the next event that `wanted` takes.
    pub(crate) fn next<T>(&self, wanted: impl Fn(Served) -> Option<T>) -> T {
        let events = self.events.lock().expect("one reader");
        loop {
            let event = events.recv_timeout(PATIENCE).expect("an event in time");
            if let Some(found) = wanted(event) {
                return found;
            }
        }
    }

    pub(crate) fn ended(&self) -> TestRecord {
        self.next(|event| match event {
            Served::Ended(record) => Some(*record),
            _ => None,
        })
    }

    /// Runs the client iperf3 with `arguments`.
    pub(crate) fn client(&self, arguments: &str) -> Command {
        client(self.at, arguments)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let ended = self.thread.take().map(JoinHandle::join);
        assert!(std::thread::panicking() || matches!(ended, Some(Ok(()))));
    }
}

/// The client iperf3 with `arguments`, to the server `at`.
pub(crate) fn client(at: SocketAddr, arguments: &str) -> Command {
    let mut command = Command::new("iperf3");
    command.args(["-c", &at.ip().to_string(), "-p", &at.port().to_string(), "-J"]);
    command.args(arguments.split_whitespace()).stdin(Stdio::null());
    command
}

/// Returns the JSON of a client that has ended well.
pub(crate) fn json(output: &Output, arguments: &str) -> Value {
    let text = String::from_utf8_lossy(&output.stdout);
    let found: Value =
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{arguments}: {error}: {text}"));
    assert!(output.status.success() && found.get("error").is_none(), "{arguments}: {text}");
    found
}

/// Returns an address on loopback for a program that cannot choose a port itself.
///
/// The kernel gives a port that it has chosen, and that was closed again, to any other socket
/// before the program opens it. These ports lie below those that it chooses from (32768 to 60999).
/// Whether one is free is read, not tried: a program that another thread starts at the same time
/// has a copy of every open socket for a moment, and keeps the port.
pub(crate) fn free_address() -> SocketAddr {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let of_process = 20_000 + (std::process::id() % 100) as u16 * 100;
    loop {
        let port = of_process + NEXT.fetch_add(1, Ordering::Relaxed);
        if ["tcp", "tcp6", "udp", "udp6"].iter().all(|table| !is_in(table, port)) {
            return (Ipv4Addr::LOCALHOST, port).into();
        }
    }
}

/// Returns whether a socket of a kernel's table has `port`.
fn is_in(table: &str, port: u16) -> bool {
    let text = std::fs::read_to_string(format!("/proc/net/{table}")).unwrap_or_default();
    text.contains(&format!(":{port:04X} "))
}

/// A server iperf3 for one test.
pub(crate) struct Iperf3(Child, pub(crate) SocketAddr);

impl Iperf3 {
    pub(crate) fn start() -> Self {
        Self::start_with(&[])
    }

    pub(crate) fn start_with(arguments: &[&str]) -> Self {
        let at = free_address();
        let mut command = Command::new("iperf3");
        command.args(["-s", "-1", "-B", "127.0.0.1", "-p", &at.port().to_string()]);
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null());
        let mut server = Self(command.spawn().expect("iperf3 starts"), at);
        // Its table of sockets is asked: a connection would be its only test.
        let port = format!(":{:04X} 00000000:0000 0A", at.port());
        let begun = std::time::Instant::now();
        while !std::fs::read_to_string("/proc/net/tcp").is_ok_and(|text| text.contains(&port)) {
            let ended = server.0.try_wait().expect("a child of ours");
            assert!(ended.is_none(), "iperf3 has ended: {ended:?}");
            assert!(begun.elapsed() < PATIENCE, "iperf3 does not listen");
            std::thread::sleep(Duration::from_millis(5));
        }
        server
    }
}

impl Drop for Iperf3 {
    fn drop(&mut self) {
        // It has ended by itself after a good test.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub(crate) const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
