//! Sessions of a paired conductor while strangers connect to the same agent: `strangers RATE SOURCE
//! SESSIONS SECONDS`.
//!
//! RATE connections a second come from SOURCE (an address of loopback), by turns silent, with the
//! head of an HTTP request, with half a greeting and with half a TLS record. The conductor queries
//! the agent's facts SESSIONS times. Prints the number of sessions that were served within SECONDS,
//! the number of connections, and the number of log lines.

use std::collections::VecDeque;
use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use linerate_control::{Access, Agent, AgentOptions, KeyStore, Timeouts, ask, pairing};
use linerate_model::HostAddress;
use socket2::{Domain, Socket, Type};

const ANY_PORT: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
/// Number of connections of the flood that stay open. Older ones are reset, so that descriptors do
/// not run out.
const OPEN: usize = 400;

fn main() {
    if let Err(error) = run() {
        eprintln!("strangers: {error}");
        std::process::exit(2);
    }
}

fn run() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [rate, source, sessions, seconds] = &arguments[..] else {
        return Err("usage: strangers RATE SOURCE SESSIONS SECONDS".into());
    };
    let (rate, sessions): (u64, u64) = (rate.parse()?, sessions.parse()?);
    let (source, limit): (IpAddr, Duration) =
        (source.parse()?, Duration::from_secs(seconds.parse()?));
    let (there, here) = (tempfile::tempdir()?, tempfile::tempdir()?);
    let (theirs, ours) = (KeyStore::open(there.path())?, KeyStore::open(here.path())?);
    let offer =
        pairing::offer(KeyStore::open(there.path())?, "there", ANY_PORT, Duration::from_secs(60))?;
    let (address, token) = (offer.address().to_string(), offer.token().clone());
    let waiting = thread::spawn(move || offer.wait());
    pairing::accept(&ours, "here", &address, &token)?;
    waiting.join().map_err(|_| "the offer panicked")??;

    let said = Arc::new(AtomicU64::new(0));
    let notify = {
        let said = Arc::clone(&said);
        Arc::new(move |line: &str| {
            said.fetch_add(u64::from(line.starts_with("refused")), Ordering::Relaxed);
        })
    };
    let agent = Agent::new(AgentOptions { notify, ..AgentOptions::default() });
    let serving = agent.listen(ANY_PORT, Access::Paired(theirs))?;
    let (address, stopper) = (serving.address(), serving.stopper());
    let agent = thread::spawn(move || serving.run());
    let (over, made) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let flood = {
        let (over, made) = (Arc::clone(&over), Arc::clone(&made));
        thread::spawn(move || flood(address, source, rate, &over, &made))
    };
    let began = Instant::now();
    let (mut served, mut slowest) = (0, Duration::ZERO);
    for _ in 0..sessions {
        let from = Instant::now();
        let answer = ask(
            "there",
            &HostAddress::Tcp(address.to_string()),
            Some(&ours),
            "here",
            &[],
            &Timeouts::default(),
        );
        slowest = slowest.max(from.elapsed());
        match answer {
            Ok(_) => served += u64::from(from.elapsed() <= limit),
            Err(error) => eprintln!("not served: {error}"),
        }
        // Sessions are spread over time, as those of people and schedulers are.
        thread::sleep(Duration::from_millis(5));
    }
    let lasted = began.elapsed();
    over.store(true, Ordering::Relaxed);
    flood.join().map_err(|_| "the flood panicked")?;
    stopper.stop();
    agent.join().map_err(|_| "the agent panicked")?;
    let (made, said) = (made.load(Ordering::Relaxed), said.load(Ordering::Relaxed));
    println!(
        "served {served} of {sessions} within {} s, slowest {} ms; {made} strangers in {:.1} s \
            ({:.0} a second), {said} lines",
        limit.as_secs(),
        slowest.as_millis(),
        lasted.as_secs_f64(),
        made as f64 / lasted.as_secs_f64()
    );
    Ok(())
}

/// Connects `rate` times a second until `over`.
fn flood(agent: SocketAddr, source: IpAddr, rate: u64, over: &AtomicBool, made: &AtomicU64) {
    const BEGINNINGS: [&[u8]; 4] =
        [b"", b"GET / HTTP/1.1\r\n\r\n", b"\0\0\x01\0{", b"\x16\x03\x01\x02\0\x01"];
    let (began, mut due) = (Instant::now(), 0);
    let mut open: VecDeque<TcpStream> = VecDeque::new();
    while !over.load(Ordering::Relaxed) {
        let now_due = (began.elapsed().as_secs_f64() * rate as f64) as u64;
        if due >= now_due {
            thread::sleep(Duration::from_micros(200));
            continue;
        }
        let beginning = BEGINNINGS[due as usize % BEGINNINGS.len()];
        due += 1;
        if let Ok(mut socket) = connect(agent, source) {
            made.fetch_add(1, Ordering::Relaxed);
            // The agent may have closed it already.
            let _ = socket.write_all(beginning);
            open.push_back(socket);
        }
        if open.len() > OPEN {
            open.pop_front();
        }
    }
}

/// Opens a connection that is reset when it is closed, so that no port stays in TIME_WAIT.
fn connect(agent: SocketAddr, source: IpAddr) -> std::io::Result<TcpStream> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    socket.set_linger(Some(Duration::ZERO))?;
    socket.bind(&SocketAddr::new(source, 0).into())?;
    socket.connect_timeout(&agent.into(), Duration::from_secs(1))?;
    Ok(socket.into())
}
