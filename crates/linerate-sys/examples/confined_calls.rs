//! Measures how much CPU time confinement adds to system calls of loads, with equal work in one
//! process before and after confinement.
//!
//! `cargo run -p linerate-sys --example confined_calls [PROCESSES]` prints, for each kind of work,
//! the ratio of CPU times and the difference per system call, with 95 % intervals over fresh
//! processes. As a placebo it also prints the figures of as many processes that do not confine
//! themselves. It compares one process before and after, because two processes always differ by the
//! placement of their memory. It uses CPU time, because other programs on the machine take turns.

use std::fs::File;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use linerate_sys::sandbox::{Account, Confinement, confine, fork};
use rustix::time::{ClockId, clock_gettime};

/// Kinds of work: name, bytes per call, repetitions per batch (some milliseconds of work), system
/// calls per repetition.
const KINDS: [(&str, usize, u32, u32); 6] = [
    ("TCP, 128 KiB sent and received", 128 << 10, 100, 2),
    ("TCP, 32 KiB sent and received", 32 << 10, 250, 2),
    ("TCP, 1 B sent and received", 1, 2000, 2),
    ("UDP, 1472 B sent and received", 1472, 2000, 2),
    ("read of 64 KiB from a file in memory", 64 << 10, 500, 1),
    ("read of 4 KiB from a file in memory", 4 << 10, 4000, 1),
];
/// Index of the first kind of UDP; TCP comes before, reads after.
const FIRST_UDP: usize = 3;
const FIRST_READ: usize = 4;
/// Size of the file, which the reads pass from start to end.
const FILE_BYTES: usize = 1 << 20;
/// Request for confinement, beside the requests for work.
const CONFINE: u8 = 100;
const DO_NOTHING: u8 = 101;
/// Batches before and after, of which the median counts, and warm-up batches.
const BATCHES: u32 = 11;
const WARM_UP: u32 = 3;
/// Two-sided 95 % of the normal distribution.
const Z: f64 = 1.96;

fn main() {
    let n_processes: u32 = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(40);
    let path = "/dev/shm/lr-confined-calls";
    std::fs::write(path, vec![7; FILE_BYTES]).expect("room in memory");
    for (kind, (name, ..)) in KINDS.into_iter().enumerate() {
        // They alternate, so that any slowdown of the machine affects both.
        let measured: Vec<[(f64, f64); 2]> = (0..n_processes)
            .map(|_| [CONFINE, DO_NOTHING].map(|what| change(path, kind, what)))
            .collect();
        let shown = [0, 1].map(|arm| {
            let (ratio, half) = mean(&measured.iter().map(|arms| arms[arm].0).collect::<Vec<_>>());
            let (call_ns, call_half) =
                mean(&measured.iter().map(|arms| arms[arm].1).collect::<Vec<_>>());
            format!(
                "{:.4} [{:.4}, {:.4}], {call_ns:.0} [{:.0}, {:.0}] ns a call",
                ratio.exp(),
                (ratio - half).exp(),
                (ratio + half).exp(),
                call_ns - call_half,
                call_ns + call_half
            )
        });
        println!(
            "{name}: CPU time after / before {}; placebo {}; n {n_processes} processes each",
            shown[0], shown[1]
        );
    }
    std::fs::remove_file(path).expect("it is ours");
}

/// Returns how much the CPU time of a kind of work changes when a fresh process performs `what`:
/// the logarithm of the ratio, and ns per system call.
fn change(path: &str, kind: usize, what: u8) -> (f64, f64) {
    let (_, _, repetitions, calls) = KINDS[kind];
    let mut worker = worker(path);
    let mut batches = |n: u32| median((0..n).map(|_| ask(&mut worker, kind as u8)).collect());
    batches(WARM_UP);
    let before = batches(BATCHES);
    ask(&mut worker, what);
    let mut batches = |n: u32| median((0..n).map(|_| ask(&mut worker, kind as u8)).collect());
    batches(WARM_UP);
    let after = batches(BATCHES);
    ((after / before).ln(), (after - before) / f64::from(repetitions * calls))
}

/// Returns the mean and the half width of its interval.
fn mean(values: &[f64]) -> (f64, f64) {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let spread =
        (values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (n - 1.0)).sqrt();
    (mean, Z * spread / n.sqrt())
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Returns the CPU time of this thread so far, with a resolution of 1 ns (getrusage(2) counts by
/// ticks).
fn cpu_ns() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Requests a batch of work, or another action, and returns its CPU time in ns.
fn ask(worker: &mut UnixStream, what: u8) -> f64 {
    worker.write_all(&[what]).expect("it listens");
    let mut answer = [0; 8];
    worker.read_exact(&mut answer).expect("it answers");
    u64::from_be_bytes(answer) as f64
}

/// Starts a process that works on request.
fn worker(path: &str) -> UnixStream {
    let (here, there) = UnixStream::pair().expect("a pair");
    let path = path.to_owned();
    fork("lr-worker", OwnedFd::from(there), move |channel| {
        let file = File::open(path).expect("it is there");
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
        let mut out = TcpStream::connect(listener.local_addr().expect("bound")).expect("loopback");
        out.set_nodelay(true).expect("a connection");
        let mut inward = listener.accept().expect("loopback").0;
        let (sender, receiver) = (UdpSocket::bind("127.0.0.1:0"), UdpSocket::bind("127.0.0.1:0"));
        let (sender, receiver) = (sender.expect("loopback"), receiver.expect("loopback"));
        receiver.set_read_timeout(Some(Duration::from_millis(100))).expect("a time above zero");
        sender.connect(receiver.local_addr().expect("bound")).expect("loopback");
        let mut channel = UnixStream::from(channel);
        let (mut kind, mut buffer) = ([0], vec![7; 128 << 10]);
        while channel.read_exact(&mut kind).is_ok() {
            if kind[0] == CONFINE {
                let account = Some(Account { name: "nobody".into(), user: 65_534, group: 65_534 });
                confine(&Confinement { account, ..Confinement::default() }).expect("run as root");
            }
            let kind = usize::from(kind[0]);
            let (_, bytes, repetitions, _) = KINDS.get(kind).copied().unwrap_or(("", 0, 0, 0));
            let buffer = &mut buffer[..bytes];
            let before = cpu_ns();
            for idx in 0..repetitions as usize {
                match kind {
                    ..FIRST_UDP => {
                        out.write_all(buffer).expect("loopback");
                        inward.read_exact(buffer).expect("loopback");
                    }
                    FIRST_UDP..FIRST_READ => {
                        sender.send(buffer).expect("loopback");
                        // A busy host may lose a datagram, even on loopback.
                        let _lost = receiver.recv(buffer);
                    }
                    _ => file
                        .read_exact_at(buffer, (idx * bytes % FILE_BYTES) as u64)
                        .expect("it is long enough"),
                }
            }
            channel.write_all(&(cpu_ns() - before).to_be_bytes()).expect("it is awaited");
        }
        0
    })
    .expect("a process");
    here
}
