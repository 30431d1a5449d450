//! Measures the cost that confinement adds to system calls of loads: CPU time of equal work in two processes, one confined and one not, in pairs.
//!
//! `cargo run -p linerate-sys --example confined_calls [PAIRS]` prints, for 32 KiB through a TCP connection over loopback and for reads of 4 KiB from
//! a file in memory, the ratio of CPU times (confined / not) with a 95 % interval of the mean of their logarithms. CPU time, because other programs on the machine take turns.

use std::fs::File;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;

use linerate_sys::sandbox::{Account, Confinement, confine, fork};
use rustix::time::{ClockId, clock_gettime};

/// Bytes of a message, and of a read.
const MESSAGE: usize = 32 << 10;
const BLOCK: usize = 4 << 10;
/// Repetitions of a batch: some milliseconds of work.
const MESSAGES: u32 = 250;
const BLOCKS: u32 = 4000;
/// Two-sided 95 % of the normal distribution.
const Z: f64 = 1.96;

fn main() {
    let n_pairs: u32 = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(500);
    let path = "/dev/shm/lr-confined-calls";
    std::fs::write(path, vec![7; 1 << 20]).expect("room in memory");
    let (mut confined, mut free) = (worker(path, true), worker(path, false));
    for (kind, name) in [(0, "tcp, 32 KiB sent and received"), (1, "read of 4 KiB")] {
        let ratios: Vec<f64> = (0..n_pairs)
            .map(|idx| {
                let (a, b) = if idx % 2 == 0 {
                    let a = batch(&mut confined, kind);
                    (a, batch(&mut free, kind))
                } else {
                    let b = batch(&mut free, kind);
                    (batch(&mut confined, kind), b)
                };
                (a / b).ln()
            })
            .collect();
        let n = f64::from(n_pairs);
        let mean = ratios.iter().sum::<f64>() / n;
        let spread = (ratios.iter().map(|ratio| (ratio - mean).powi(2)).sum::<f64>() / (n - 1.0)).sqrt();
        let half = Z * spread / n.sqrt();
        let mut sorted = ratios;
        sorted.sort_by(f64::total_cmp);
        println!(
            "{name}: CPU time confined / not = {:.4} [{:.4}, {:.4}], median {:.4}, n {n_pairs} pairs",
            mean.exp(),
            (mean - half).exp(),
            (mean + half).exp(),
            sorted[sorted.len() / 2].exp()
        );
    }
    std::fs::remove_file(path).expect("it is ours");
}

/// CPU time of this thread so far, to the nanosecond: getrusage(2) counts by ticks.
fn cpu_ns() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// CPU time of a batch, ns.
fn batch(worker: &mut UnixStream, kind: u8) -> f64 {
    worker.write_all(&[kind]).expect("it listens");
    let mut answer = [0; 8];
    worker.read_exact(&mut answer).expect("it answers");
    u64::from_be_bytes(answer) as f64
}

/// A process that works on demand.
fn worker(path: &str, is_confined: bool) -> UnixStream {
    let (here, there) = UnixStream::pair().expect("a pair");
    let path = path.to_owned();
    fork("lr-worker", OwnedFd::from(there), move |channel| {
        let file = File::open(path).expect("it is there");
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
        let mut out = TcpStream::connect(listener.local_addr().expect("bound")).expect("loopback");
        let mut inward = listener.accept().expect("loopback").0;
        if is_confined {
            let account = Some(Account { name: "nobody".into(), user: 65_534, group: 65_534 });
            confine(&Confinement { account, ..Confinement::default() }).expect("run as root");
        }
        let mut channel = UnixStream::from(channel);
        let (mut kind, mut buffer) = ([0], vec![7; MESSAGE]);
        while channel.read_exact(&mut kind).is_ok() {
            let before = cpu_ns();
            if kind[0] == 0 {
                for _ in 0..MESSAGES {
                    out.write_all(&buffer).expect("loopback");
                    inward.read_exact(&mut buffer).expect("loopback");
                }
            } else {
                for idx in 0..BLOCKS {
                    let at = u64::from(idx % 256) * BLOCK as u64;
                    file.read_exact_at(&mut buffer[..BLOCK], at).expect("it is long enough");
                }
            }
            channel.write_all(&(cpu_ns() - before).to_be_bytes()).expect("it is awaited");
        }
        0
    })
    .expect("a process");
    here
}
