//! The emulated network controller on the real kernel: what fits its buffer passes, the rest is dropped and counted.

use std::net::UdpSocket;
use std::process::Command;
use std::time::Duration;

use linerate_lab::{Description, Lab};
use linerate_sys::netns::within;
use linerate_sys::udp::set_segment_size;

/// Payload of a full frame: MTU 1500 less IPv4 and UDP headers.
const PAYLOAD: usize = 1472;
/// Full frames that 8 KiB takes from a link of 1 Gbit/s or more into 100 Mbit/s (NC-SI reference 7.2).
const FITTING: usize = 5;

fn privileged(test: &str) -> bool {
    let root = Command::new("id").arg("-u").output().is_ok_and(|o| o.stdout.starts_with(b"0\n"));
    if !root {
        println!("skipped: {test}: needs root to build namespaces");
    }
    root
}

/// Sends `n` full frames in one call, which the kernel cuts up and hands on back to back; returns how many arrive.
fn burst(near: &UdpSocket, far: &UdpSocket, n: usize) -> usize {
    near.send(&vec![0; n * PAYLOAD]).expect("sent");
    let mut buffer = [0; PAYLOAD];
    std::iter::from_fn(|| far.recv(&mut buffer).ok()).count()
}

#[test]
fn a_burst_beyond_the_buffer_loses_exactly_what_does_not_fit() {
    if !privileged("a_burst_beyond_the_buffer_loses_exactly_what_does_not_fit") {
        return;
    }
    let (description, problems) = Description::parse(include_str!("../../../labs/ncsi.toml"));
    assert_eq!(problems, []);
    let instance = format!("{}n", std::process::id());
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
    far.set_read_timeout(Some(Duration::from_millis(200))).expect("set");
    set_segment_size(&near, PAYLOAD as u16).expect("UDP_SEGMENT");
    // The first datagram pays for address resolution.
    assert_eq!(burst(&near, &far, 1), 1);
    let controller = &lab.controllers()[0];
    let before = controller.from_network();
    for (sent, arriving) in [(FITTING, FITTING), (FITTING + 4, FITTING)] {
        assert_eq!(burst(&near, &far, sent), arriving, "of {sent}");
    }
    let after = controller.from_network();
    assert_eq!((after.dropped - before.dropped, lab.emulation_losses()), (4, 0));
    assert!(after.received - before.received >= 2 * FITTING as u64 + 4);
}
