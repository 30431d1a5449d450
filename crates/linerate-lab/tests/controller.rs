//! Emulated network controller on the real kernel: frames that fit its buffer pass, the rest is
//! dropped and counted, and its control plane reports the same counts.

use std::net::UdpSocket;
use std::time::{Duration, Instant};

use linerate_lab::controller::Event;
use linerate_lab::{Description, Lab};
use linerate_sys::netns::within;
use linerate_sys::packet::PacketSocket;
use linerate_sys::udp::set_segment_size;

use crate::privileged;

/// Payload of a full frame: MTU 1500 less IPv4 and UDP headers.
const PAYLOAD: usize = 1472;
/// Full frames that 8 KiB takes from a link of 1 Gbit/s or more into 100 Mbit/s.
const FITTING: usize = 5;

/// Time without a frame after which no further one is expected.
const QUIET: Duration = Duration::from_millis(500);
/// Longest wait for an expected frame.
const PATIENCE: Duration = Duration::from_secs(30);

/// Sends `n` full frames in one call; the kernel segments them and sends them back to back. Returns
/// the number that arrives.
fn burst(near: &UdpSocket, far: &UdpSocket, n: usize) -> usize {
    near.send(&vec![0; n * PAYLOAD]).expect("sent");
    let mut buffer = [0; PAYLOAD];
    std::iter::from_fn(|| far.recv(&mut buffer).ok()).count()
}

/// Lab with UDP sockets at console `a` and at the management controller, connected to each other.
struct Bench {
    lab: Lab,
    instance: String,
    near: UdpSocket,
    far: UdpSocket,
}

impl Bench {
    fn new(text: &str, suffix: &str) -> Self {
        let (description, problems) = Description::parse(text);
        assert_eq!(problems, []);
        let instance = format!("{}c{suffix}", std::process::id());
        let lab = Lab::build(&description.expect("no problem"), &instance).expect("built");
        let open = |name: &str| {
            let endpoint = lab.testbed().endpoint(name).expect("described");
            let address = endpoint.address.expect("placed");
            within(&format!("lr-{instance}-{}", endpoint.host), || UdpSocket::bind((address, 0)))
                .expect("entered")
                .expect("bound")
        };
        let (near, far) = (open("a"), open("bmc"));
        near.connect(far.local_addr().expect("bound")).expect("connected");
        far.connect(near.local_addr().expect("bound")).expect("connected");
        for socket in [&near, &far] {
            socket.set_read_timeout(Some(QUIET)).expect("set");
        }
        set_segment_size(&near, PAYLOAD as u16).expect("UDP_SEGMENT");
        // The first datagram pays for address resolution, which takes long on a busy machine.
        let deadline = Instant::now() + PATIENCE;
        while burst(&near, &far, 1) == 0 {
            assert!(Instant::now() < deadline, "no datagram arrives");
        }
        Self { lab, instance, near, far }
    }

    /// The interface that the testbed names for NC-SI.
    fn sideband(&self) -> PacketSocket {
        let endpoint = self.lab.testbed().endpoint("bmc").expect("described");
        let device = endpoint.ncsi.clone().expect("named");
        within(&format!("lr-{}-bmc", self.instance), || PacketSocket::open(&device))
            .expect("entered")
            .expect("opened")
    }
}

/// Waits for the next control packet from `sideband`. `None` if none comes.
fn next_control(sideband: &PacketSocket) -> Option<Vec<u8>> {
    let (deadline, mut buffer) = (Instant::now() + PATIENCE, [0; 2048]);
    while Instant::now() < deadline {
        match sideband.receive(&mut buffer).expect("received") {
            Some(length) if buffer[12..14] == [0x88, 0xf8] => {
                return Some(buffer[..length].to_vec());
            }
            Some(_) => {}
            None => std::thread::yield_now(),
        }
    }
    None
}

/// Waits for the next frame of the type for local experiments, and returns its tag. `None` if none
/// comes within `patience`.
fn tag_seen(sideband: &PacketSocket, patience: Duration) -> Option<[u8; 4]> {
    let (deadline, mut buffer) = (Instant::now() + patience, [0; 2048]);
    while Instant::now() < deadline {
        match sideband.receive_stamped(&mut buffer).expect("received") {
            Some(_) if buffer[16..18] == [0x88, 0xb5] => {
                return Some([buffer[12], buffer[13], buffer[14], buffer[15]]);
            }
            Some(_) => {}
            None => std::thread::yield_now(),
        }
    }
    None
}

/// Sends a command without checksum to channel 0 of package 0 and returns the answer.
fn ask(sideband: &PacketSocket, instance: u8, kind: u8, payload: &[u8]) -> Option<Vec<u8>> {
    let mut frame =
        [&[0xff; 12][..], &[0x88, 0xf8, 0, 1, 0, instance, kind, 0, 0, payload.len() as u8]]
            .concat();
    frame.resize(30, 0);
    frame.extend_from_slice(payload);
    frame.resize(60, 0);
    assert!(sideband.send(&frame).expect("sent"));
    next_control(sideband)
}

fn word(frame: &[u8], at: usize) -> u64 {
    u64::from(u32::from_be_bytes(frame[14 + at..18 + at].try_into().expect("four bytes")))
}

/// Get NC-SI Pass-through Statistics.
const PASS_THROUGH_STATISTICS: u8 = 0x1a;

#[test]
fn a_burst_beyond_the_buffer_loses_exactly_what_does_not_fit() {
    let Some(()) = privileged() else { return };
    let bench = Bench::new(include_str!("../../../labs/ncsi.toml"), "n");
    let (controller, sideband) = (&bench.lab.controllers()[0], bench.sideband());
    let before = controller.from_network();
    for (sent, arriving) in [(FITTING, FITTING), (FITTING + 4, FITTING)] {
        assert_eq!(burst(&bench.near, &bench.far, sent), arriving, "of {sent}");
    }
    let after = controller.from_network();
    assert_eq!((after.dropped - before.dropped, bench.lab.emulation_losses()), (4, 0));
    assert!(after.received - before.received >= 2 * FITTING as u64 + 4);
    let answer = ask(&sideband, 1, PASS_THROUGH_STATISTICS, &[]).expect("answered");
    assert_eq!((answer[18], word(&answer, 16)), (0x80 | PASS_THROUGH_STATISTICS, 0), "completed");
    let (inward, outward) = (controller.from_network(), controller.from_management());
    assert_eq!(
        (word(&answer, 44), word(&answer, 48)),
        (inward.received - inward.refused, inward.dropped)
    );
    assert_eq!((word(&answer, 24), word(&answer, 28)), (outward.received - outward.refused, 0));
    assert!(outward.forwarded() >= 1, "address resolution at least");
}

#[test]
fn a_channel_passes_frames_once_it_is_set_up_and_notifies_of_its_link() {
    let Some(()) = privileged() else { return };
    let bench = Bench::new(include_str!("../../../labs/ncsi.toml"), "c");
    let sideband = bench.sideband();
    let completed = |instance, kind, payload: &[u8]| {
        let answer = ask(&sideband, instance, kind, payload)
            .unwrap_or_else(|| panic!("no answer to {kind:#x}"));
        assert_eq!((answer[17], word(&answer, 16)), (instance, 0), "{kind:#x}");
    };
    // After Disable Channel no frame passes, after Enable Channel all do.
    completed(1, 0x04, &[0; 4]);
    assert_eq!(burst(&bench.near, &bench.far, 2), 0);
    completed(2, 0x03, &[]);
    assert_eq!(burst(&bench.near, &bench.far, 2), 2);
    // After Disable Channel Network TX no frame leaves.
    completed(3, 0x07, &[]);
    bench.far.send(&[0; 100]).expect("sent");
    let mut buffer = [0; PAYLOAD];
    assert!(bench.near.recv(&mut buffer).is_err());
    completed(4, 0x06, &[]);
    bench.far.send(&[0; 100]).expect("sent");
    assert_eq!(bench.near.recv(&mut buffer).expect("arrived"), 100);
    // A tagged frame: refused until Enable VLAN lets any tag pass, and then it keeps its tag.
    let device = bench
        .lab
        .testbed()
        .endpoint("a")
        .and_then(|endpoint| endpoint.device.clone())
        .expect("placed");
    let console = within(&format!("lr-{}-a", bench.instance), || PacketSocket::open(&device))
        .expect("entered")
        .expect("opened");
    let mut tagged =
        vec![0x02, b'N', b'C', b'S', b'I', 0, 2, 0, 0, 0, 0, 9, 0x81, 0, 0, 100, 0x88, 0xb5];
    tagged.resize(100, 0);
    for (passes, instance, kind) in [(false, 0x20, 0x0c), (true, 0x21, 0x0d)] {
        assert!(console.send(&tagged).expect("sent"));
        assert_eq!(
            tag_seen(&sideband, if passes { PATIENCE } else { QUIET }),
            passes.then_some([0x81, 0, 0, 100])
        );
        completed(instance, kind, &[0, 0, 0, 3]);
    }
    // AEN Enable, and a link that goes down and comes back.
    completed(5, 0x08, &[0, 0, 0, 0, 0, 0, 0, 7]);
    for (event, up) in [(Event::LinkDown, 0), (Event::LinkUp, 1)] {
        bench.lab.controllers()[0].order(event);
        let notification = next_control(&sideband).expect("notified");
        assert_eq!(
            (notification[17], notification[18], word(&notification, 20) & 1),
            (0, 0xff, up)
        );
    }
    assert_eq!(bench.lab.emulation_losses(), 0);
}
