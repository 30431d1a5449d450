//! Capacity of the emulated controller itself, and its share of a round trip. Rates in a lab must
//! be well below it.
//!
//! Full frames go both ways at once through a controller whose ports have a gigabit, for [`SPAN`]
//! at each of [`RATES`], [`N_ROUNDS`] times. The emulator's thread has CPU 0 to itself, senders and
//! receivers share CPU 1. Rates count Ethernet frames with preamble, FCS and gap. Round trips of
//! small datagrams are compared with those over a plain link. Needs root and two CPUs.
//!
//! `cargo run --release -p linerate-lab --example controller_capacity`

use std::fmt::Write as _;
use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use linerate_lab::{Description, Lab};
use linerate_sys::clock::{monotonic, sleep_until};
use linerate_sys::cpu::pin;
use linerate_sys::netns::within;
use linerate_sys::udp::set_segment_size;

/// Rates each way, Mbit/s on the wire.
const RATES: [f64; 4] = [200.0, 400.0, 600.0, 800.0];
const N_ROUNDS: usize = 5;
const SPAN: Duration = Duration::from_secs(2);
/// Payload of a full frame: MTU 1500 less IPv4 and UDP headers; and what it takes on the wire.
const PAYLOAD: usize = 1472;
const FULL_FRAME_BITS: f64 = 1538.0 * 8.0;
/// Frames that a sender passes in one call.
const BURST: usize = 8;
const N_ROUND_TRIPS: usize = 20_000;
const EMULATOR_CPU: usize = 0;
const LOAD_CPU: usize = 1;

const CONTROLLER: &str = "[[controller]]\nname='nc'\nnetwork={to='a',rate='1 Gbit/s'}\n\
    sideband={to='bmc',rate='1 Gbit/s'}\nbuffer='4 MiB'\ntransmit_buffer='4 MiB'\n";
const PLAIN_LINK: &str = "[[link]]\nends=['a','bmc']\noffloads=false\n";

/// Lab of two hosts with a socket at each, connected to each other.
fn build(between: &str) -> (Lab, [UdpSocket; 2]) {
    let text =
        format!("[lab]\nname='capacity'\n[[host]]\nname='a'\n[[host]]\nname='bmc'\n{between}");
    let (description, problems) = Description::parse(&text);
    assert!(problems.is_empty(), "{problems:?}");
    // The emulator's thread inherits the CPU of the thread that starts it.
    pin(EMULATOR_CPU).expect("pinned");
    let lab = Lab::build(&description.expect("no problem"), &Lab::instance()).expect("built");
    pin(LOAD_CPU).expect("pinned");
    let sockets = ["a", "bmc"].map(|name| {
        let address =
            lab.testbed().endpoint(name).and_then(|endpoint| endpoint.address).expect("placed");
        let namespace = format!("lr-{}-{name}", Lab::instance());
        within(&namespace, || UdpSocket::bind((address, 0))).expect("entered").expect("bound")
    });
    for end in [0, 1] {
        sockets[end].connect(sockets[1 - end].local_addr().expect("bound")).expect("connected");
        sockets[end].set_read_timeout(Some(Duration::from_millis(300))).expect("set");
    }
    (lab, sockets)
}

/// Reads the CPU time of the emulator's thread.
fn emulator_cpu() -> Duration {
    let tasks = std::fs::read_dir("/proc/self/task").expect("procfs");
    let of_emulator = tasks.filter_map(Result::ok).map(|task| task.path()).find(|task| {
        std::fs::read_to_string(task.join("comm")).is_ok_and(|name| name.trim() == "lr-middle")
    });
    let times =
        std::fs::read_to_string(of_emulator.expect("it runs").join("schedstat")).expect("read");
    Duration::from_nanos(
        times.split(' ').next().and_then(|time| time.parse().ok()).expect("a time"),
    )
}

/// Sends full frames at `rate` Mbit/s until `end`. Returns their number.
fn send(socket: &UdpSocket, rate: f64, end: u64) -> u64 {
    let burst = vec![0; BURST * PAYLOAD];
    let gap = (BURST as f64 * FULL_FRAME_BITS * 1e3 / rate) as u64;
    let (mut due, mut n_sent) = (monotonic(), 0);
    while due < end {
        sleep_until(due, 0);
        socket.send(&burst).expect("sent");
        n_sent += BURST as u64;
        due += gap;
    }
    n_sent
}

fn receive(socket: &UdpSocket, over: &AtomicBool) -> u64 {
    let mut buffer = [0; PAYLOAD];
    let mut n_received = 0;
    loop {
        match socket.recv(&mut buffer) {
            Ok(_) => n_received += 1,
            Err(_) if over.load(Ordering::Relaxed) => return n_received,
            Err(_) => {}
        }
    }
}

/// Result of one span at `rate` both ways: frames sent and received, the emulator's losses, and its
/// share of a CPU.
fn round(lab: &Lab, sockets: &[UdpSocket; 2], rate: f64) -> (u64, u64, u64, f64) {
    let (lost_before, busy_before, start) =
        (lab.emulation_losses(), emulator_cpu(), Instant::now());
    let end = monotonic() + SPAN.as_nanos() as u64;
    let over = AtomicBool::new(false);
    let (n_sent, share, n_received) = thread::scope(|scope| {
        let receivers =
            [0, 1].map(|i| (&sockets[i], &over)).map(|(s, over)| scope.spawn(|| receive(s, over)));
        let senders =
            [0, 1].map(|i| &sockets[i]).map(|socket| scope.spawn(move || send(socket, rate, end)));
        let n_sent: u64 = senders.into_iter().map(|sender| sender.join().expect("no panic")).sum();
        let share = (emulator_cpu() - busy_before).as_secs_f64() / start.elapsed().as_secs_f64();
        over.store(true, Ordering::Relaxed);
        let n_received: u64 =
            receivers.into_iter().map(|receiver| receiver.join().expect("no panic")).sum();
        (n_sent, share, n_received)
    });
    (n_sent, n_received, lab.emulation_losses() - lost_before, share)
}

/// Medians of five are the middle one; the least and the greatest bound the median with 94 % (order
/// statistics).
fn spread(mut values: Vec<f64>) -> [f64; 3] {
    values.sort_unstable_by(f64::total_cmp);
    [values[0], values[values.len() / 2], values[values.len() - 1]]
}

/// Measures round trips of a small datagram, sorted, microseconds.
fn round_trips(sockets: &[UdpSocket; 2]) -> Vec<f64> {
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let echo = scope.spawn(|| {
            let mut buffer = [0; 64];
            while !over.load(Ordering::Relaxed) {
                if let Ok(length) = sockets[1].recv(&mut buffer) {
                    sockets[1].send(&buffer[..length]).expect("sent");
                }
            }
        });
        let mut buffer = [0; 64];
        let mut taken: Vec<f64> = (0..N_ROUND_TRIPS)
            .filter_map(|_| {
                let start = Instant::now();
                sockets[0].send(&buffer).expect("sent");
                sockets[0].recv(&mut buffer).ok().map(|_| start.elapsed().as_secs_f64() * 1e6)
            })
            .collect();
        over.store(true, Ordering::Relaxed);
        echo.join().expect("no panic");
        taken.sort_unstable_by(f64::total_cmp);
        taken
    })
}

fn main() {
    let quantiles =
        |taken: &[f64]| [0.5, 0.99].map(|q| taken[((taken.len() - 1) as f64 * q) as usize]);
    let (lab, sockets) = build(PLAIN_LINK);
    let plain = quantiles(&round_trips(&sockets));
    drop(lab);
    let (lab, sockets) = build(CONTROLLER);
    let through = quantiles(&round_trips(&sockets));
    println!(
        "round trip of 64 bytes, n = {N_ROUND_TRIPS}: plain link p50 {:.1} p99 {:.1} us, through \
            the controller p50 {:.1} p99 {:.1} us",
        plain[0], plain[1], through[0], through[1]
    );
    for socket in &sockets {
        set_segment_size(socket, PAYLOAD as u16).expect("UDP_SEGMENT");
    }
    println!(
        "full frames both ways at once, n = {N_ROUNDS} of {} s; least, median, greatest",
        SPAN.as_secs()
    );
    for rate in RATES {
        let rounds: Vec<_> = (0..N_ROUNDS).map(|_| round(&lab, &sockets, rate)).collect();
        let received = rounds
            .iter()
            .map(|(_, n, ..)| *n as f64 / 2.0 * FULL_FRAME_BITS / SPAN.as_secs_f64() / 1e6);
        let mut line = String::new();
        for value in spread(received.collect()) {
            write!(line, " {value:.1}").expect("strings take all");
        }
        let lost: u64 = rounds.iter().map(|(.., lost, _)| lost).sum();
        let missing: u64 = rounds.iter().map(|(sent, received, ..)| sent - received).sum();
        let sent: u64 = rounds.iter().map(|(sent, ..)| sent).sum();
        let [least, median, most] =
            spread(rounds.iter().map(|(.., share)| share * 100.0).collect());
        println!(
            "{rate:.0} Mbit/s each way: arrived{line} Mbit/s each way; {missing} of {sent} frames \
                missing, {lost} lost by the emulator; its CPU {least:.0} {median:.0} {most:.0} %"
        );
    }
}
