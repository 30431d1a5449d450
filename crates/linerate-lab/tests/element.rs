//! Emulated device on the real kernel: it forwards at its capacity, and counts the fate of every
//! frame.

use std::net::UdpSocket;
use std::time::{Duration, Instant};

use linerate_lab::element::{Class, Counted, Fate};
use linerate_lab::{Description, Lab};
use linerate_sys::netns::within;
use linerate_sys::socket::{Buffer, set_buffer};

use crate::privileged;

/// Bytes of a numbered datagram.
const PAYLOAD: usize = 100;

/// Longest wait for an expected event.
const PATIENCE: Duration = Duration::from_secs(60);

/// Two hosts with a device between them, and UDP sockets at both, connected to each other.
struct Bench {
    lab: Lab,
    near: UdpSocket,
    far: UdpSocket,
}

impl Bench {
    fn new(more: &str, suffix: &str) -> Self {
        let (description, problems) = Description::parse(&format!(
            "[lab]\nname='x'\n[[host]]\nname='a'\n[[host]]\nname='b'\n[[element]]\nname='dut'\n\
                ends=['a','b']\n{more}"
        ));
        assert_eq!(problems, []);
        let instance = format!("{}e{suffix}", std::process::id());
        let lab = Lab::build(&description.expect("no problem"), &instance).expect("built");
        let open = |name: &str| {
            let address = lab.testbed().endpoint(name).expect("described").address.expect("placed");
            within(&format!("lr-{instance}-{name}"), || UdpSocket::bind((address, 0)))
                .expect("entered")
                .expect("bound")
        };
        let (near, far) = (open("a"), open("b"));
        near.connect(far.local_addr().expect("bound")).expect("connected");
        far.connect(near.local_addr().expect("bound")).expect("connected");
        // Room for all datagrams, so that losses happen in the device only. As root, the buffer may
        // exceed the system's limit.
        assert!(set_buffer(&far, Buffer::Receive, 4 << 20).expect("set") >= 4 << 20);
        // The first datagram triggers address resolution, which takes long on a busy machine. It
        // has another length, so that it does not shift the count of faults.
        far.set_read_timeout(Some(PATIENCE)).expect("set");
        near.send(&[0; 40]).expect("sent");
        assert_eq!(far.recv(&mut [0; 64]).expect("arrived"), 40);
        far.set_read_timeout(Some(Duration::from_millis(1_000))).expect("set");
        Self { lab, near, far }
    }

    /// Sends `n` numbered datagrams one after the other. Returns the numbers that arrive, in order,
    /// and the time until the last one arrived.
    fn send(&self, n: u32) -> (Vec<u32>, Duration) {
        let arrive = || {
            let mut payload = [0; PAYLOAD];
            let number =
                |bytes: &[u8]| u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
            let mut last = Instant::now();
            let next = || {
                self.receive(&mut payload)?;
                last = Instant::now();
                Some(number(&payload))
            };
            (std::iter::from_fn(next).collect(), last)
        };
        std::thread::scope(|scope| {
            let arriving = scope.spawn(arrive);
            let start = Instant::now();
            for number in 0..n {
                let mut payload = [0; PAYLOAD];
                payload[..4].copy_from_slice(&number.to_be_bytes());
                self.near.send(&payload).expect("sent");
            }
            let (arrived, last): (Vec<u32>, Instant) = arriving.join().expect("it only receives");
            (arrived, last.saturating_duration_since(start))
        })
    }

    /// Waits for the next datagram. `None` if none arrives for a while.
    fn receive(&self, buffer: &mut [u8]) -> Option<()> {
        loop {
            match self.far.recv(buffer) {
                Ok(_) => return Some(()),
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(_) => return None,
            }
        }
    }

    fn counted(&self) -> Counted {
        self.lab.elements()[0].counted(0)
    }

    fn datagrams(&self, fate: Fate) -> u64 {
        self.counted().of(Class::Datagram, fate)
    }
}

#[test]
fn a_device_forwards_its_capacity_and_holds_its_buffer_and_tells_of_the_rest() {
    let Some(()) = privileged() else { return };
    const N: u32 = 2000;
    let bench = Bench::new("packet_rate='5 kpps'\nbuffer_frames=50\n", "q");
    let (arrived, taken) = bench.send(N);
    // The device may read frames after they were all sent, so its rate bounds them until the last
    // arrival. Its buffer has tests in virtual time.
    let most = taken.as_secs_f64() * 5000.0 + 1.0;
    let n_arrived = arrived.len() as u64;
    assert!(
        (50.0..=most).contains(&(n_arrived as f64)),
        "{n_arrived} of {N} arrived, at most {most:.1} can"
    );
    assert!(arrived.windows(2).all(|pair| pair[0] < pair[1]), "they keep their order");
    // One more datagram triggered address resolution.
    assert_eq!(bench.datagrams(Fate::Received), u64::from(N) + 1);
    assert_eq!(bench.datagrams(Fate::Forwarded), n_arrived + 1);
    assert_eq!(bench.counted().dropped(Class::Datagram), u64::from(N) - n_arrived);
    assert_eq!(bench.lab.emulation_losses(), 0);
}

#[test]
fn each_fault_affects_exactly_the_given_datagrams() {
    let Some(()) = privileged() else { return };
    const N: u32 = 1000;
    let bench = Bench::new(
        "faults={drop_one_in=100,duplicate_one_in=40,reorder_one_in=30,reorder_by=2,\
            reflect_one_in=25}\n",
        "f",
    );
    let (arrived, _) = bench.send(N);
    let mut unique = arrived.clone();
    unique.sort_unstable();
    unique.dedup();
    // Ten are dropped. Five of the 25 duplicates are among them: 200, 400, 600, 800, 1000.
    assert_eq!((unique.len(), arrived.len()), (990, 990 + 20));
    let descents = arrived.windows(2).filter(|pair| pair[0] > pair[1]).count();
    // 33 are overtaken, without the three of them that are dropped: 300, 600, 900.
    assert_eq!((descents, bench.datagrams(Fate::Overtaken)), (30, 30));
    assert_eq!((bench.datagrams(Fate::DroppedByOrder), bench.datagrams(Fate::Reflected)), (10, 40));
    assert_eq!(bench.lab.emulation_losses(), 0);
}

#[test]
fn nothing_passes_while_a_device_stands_still_and_all_of_it_afterwards() {
    let Some(()) = privileged() else { return };
    let bench = Bench::new("stall={length='40 ms',every='200 ms'}\n", "s");
    // A datagram that arrives at its beginning waits for nearly all of the stall.
    let (mut longest, start, mut buffer) = (Duration::ZERO, Instant::now(), [0; 128]);
    while longest < Duration::from_millis(25) {
        assert!(start.elapsed() < PATIENCE, "nothing was held up: {longest:?}");
        let sent = Instant::now();
        bench.near.send(&[0; 100]).expect("sent");
        bench.receive(&mut buffer).expect("it arrives, if late");
        longest = longest.max(sent.elapsed());
    }
    assert_eq!((bench.counted().dropped(Class::Datagram), bench.lab.emulation_losses()), (0, 0));
}

#[test]
fn cut_through_saves_one_serialisation_each_way() {
    let Some(()) = privileged() else { return };
    let bench = |forwarding: &str, suffix: &str| {
        Bench::new(&format!("port_rate='1 Mbit/s'\nforwarding='{forwarding}'\n"), suffix)
    };
    let benches = [bench("store-and-forward", "w"), bench("cut-through", "c")];
    let one = |bench: &Bench| {
        let (start, mut buffer) = (Instant::now(), [0; 1500]);
        bench.near.send(&[0; 1208]).expect("sent");
        bench.receive(&mut buffer).expect("arrived");
        start.elapsed().as_secs_f64() * 1e3
    };
    // 1208 bytes and 42 of headers, 24 more on the wire, at 1 Mbit/s: 10.19 ms.
    let serialisation = 10.192;
    // The shortest of many: other programs only add to it.
    let (mut least, began) = ([f64::INFINITY; 2], Instant::now());
    while (least[0] - least[1] - serialisation).abs() >= 0.5 || least[1].is_infinite() {
        assert!(began.elapsed() < PATIENCE, "{least:?} ms, {serialisation} ms is one frame");
        for (least, bench) in least.iter_mut().zip(&benches) {
            *least = least.min(one(bench));
        }
    }
    // Store-and-forward takes the time of the frame at both ports, cut-through at one of them.
    assert!(
        least[0] >= 2.0 * serialisation * 0.99 && least[1] >= serialisation * 0.99,
        "{least:?}"
    );
}
