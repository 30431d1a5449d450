//! Refusals of the kernel are reported before the first frame: what failed, where, why, and the
//! remedy. Runs as root; otherwise skipped with a message.

use linerate_sys::xdp::{Copying, Filter, Match, Options, Placement, XdpSocket, features};
use linerate_sys::{SysError, live};

use crate::shared::{DEVICE, Pair, frame};

const OPTIONS: Options = Options {
    queue: 0,
    copying: Copying::IfNeeded,
    frame_bytes: 1514,
    n_transmit: 64,
    n_receive: 64,
};

fn filter(placement: Option<Placement>) -> Result<Filter, SysError> {
    Filter::attach(DEVICE, &[&[Match::exactly(12, &[0x88, 0xb5])]], placement, false)
}

/// Checks that the error contains all of `words`.
fn says<T: std::fmt::Debug>(result: Result<T, SysError>, words: &[&str]) {
    let text = result.expect_err("it must be refused").to_string();
    assert!(words.iter().all(|word| text.contains(word)), "{text:?} lacks one of {words:?}");
}

fn one_row() -> ([live::Row; 1], live::Shape) {
    let row = live::Row { frame: frame(60, 0x88b5, 0), sum: 0, flow: 0 };
    ([row], live::Shape { header_bytes: 60, checksum_at: 40, stamp_at: 48, random_ports_at: None })
}

#[test]
fn a_queue_that_is_used_or_does_not_exist_is_named() {
    let Some(pair) = Pair::new(1, 1500) else { return };
    pair.at(0, || {
        let _first = XdpSocket::open(DEVICE, OPTIONS).expect("queue 0 is free");
        says(
            XdpSocket::open(DEVICE, OPTIONS),
            &["queue 0 of lr0", "another XDP socket uses the queue"],
        );
        says(
            XdpSocket::open(DEVICE, Options { queue: 5, ..OPTIONS }),
            &["queue 5 of lr0", "does the queue exist?"],
        );
        says(XdpSocket::open("lr-none", OPTIONS), &["lr-none"]);
    });
}

#[test]
fn a_driver_that_requires_copying_is_named() {
    let Some(pair) = Pair::new(1, 1500) else { return };
    pair.at(0, || {
        let zero_copy = Options { copying: Copying::ZeroCopy, ..OPTIONS };
        says(XdpSocket::open(DEVICE, zero_copy), &["requires copying"]);
        let reported = features(DEVICE).expect("the device is there");
        assert!(
            reported.is_none_or(|reported| reported.native()
                && !reported.zero_copy()
                && reported.multi_buffer()),
            "{reported:?}"
        );
    });
}

#[test]
fn an_interface_that_has_a_program_is_left_alone() {
    let Some(pair) = Pair::new(1, 1500) else { return };
    pair.at(0, || {
        let _first = filter(None).expect("veth has native XDP");
        for placement in [None, Some(Placement::Native), Some(Placement::Generic)] {
            says(filter(placement), &["lr0", "another program is attached"]);
        }
    });
}

/// Helper of the next test, which runs it in a process of its own; alone it does nothing.
#[test]
fn holds_an_interface_until_killed() {
    use std::io::Write;
    if std::env::var_os("LINERATE_TEST_HOLD").is_some() {
        let _held = filter(None).expect("veth has native XDP");
        // Directly to standard error: the harness would hold back what a test prints.
        std::io::stderr().write_all(b"held\n").expect("a pipe");
        std::thread::sleep(std::time::Duration::from_secs(60));
    }
}

#[test]
fn a_program_is_gone_when_its_process_was_killed() {
    use std::io::BufRead;
    let Some(pair) = Pair::new(1, 1500) else { return };
    let own = std::env::current_exe().expect("this test's program");
    let (_, module) = module_path!().split_once("::").expect("a module of the test program");
    let mut child = std::process::Command::new("ip")
        .args(["netns", "exec", pair.name(0)])
        .arg(own)
        .args(["--exact", &format!("{module}::holds_an_interface_until_killed"), "--nocapture"])
        .env("LINERATE_TEST_HOLD", "1")
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .expect("iproute2 is there");
    let mut said = String::new();
    std::io::BufReader::new(child.stderr.take().expect("piped"))
        .read_line(&mut said)
        .expect("a pipe");
    assert_eq!(said, "held\n");
    pair.at(0, || says(filter(None), &["another program is attached"]));
    child.kill().expect("ours");
    child.wait().expect("ours");
    pair.at(0, || assert!(filter(None).is_ok()));
}

#[test]
fn an_mtu_beyond_one_buffer_is_named_and_the_generic_mode_is_the_fallback() {
    let Some(pair) = Pair::new(1, 9000) else { return };
    pair.at(0, || {
        says(filter(Some(Placement::Native)), &["lr0", "MTU"]);
        assert_eq!(filter(None).expect("generic mode takes it").placement(), Placement::Generic);
    });
}

#[test]
fn a_driver_without_native_xdp_gets_the_generic_mode() {
    let Some(pair) = Pair::new(1, 1500) else { return };
    pair.ip(0, "link add lr1 type bridge");
    pair.at(0, || {
        let at = |placement| {
            Filter::attach("lr1", &[&[Match::exactly(12, &[0x88, 0xb5])]], placement, false)
        };
        says(at(Some(Placement::Native)), &["lr1", "no native XDP", "generic"]);
        assert_eq!(
            at(None).expect("every interface has the generic mode").placement(),
            Placement::Generic
        );
    });
}

#[test]
fn without_privilege_the_missing_one_is_named() {
    use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities};
    let Some(pair) = Pair::new(1, 1500) else { return };
    pair.at(0, || {
        // Capabilities belong to a thread, and this thread ends after the test.
        let none = CapabilitySet::empty();
        set_capabilities(
            None,
            CapabilitySets { effective: none, permitted: none, inheritable: none },
        )
        .expect("fewer");
        says(XdpSocket::open(DEVICE, OPTIONS), &["lr0", "needs CAP_NET_RAW"]);
        says(filter(None), &["needs CAP_BPF", "root"]);
    });
}

#[test]
fn a_link_that_is_down_is_named_before_any_frame() {
    let Some(pair) = Pair::new(1, 1500) else { return };
    pair.ip(0, "link set lr0 down");
    let (rows, shape) = one_row();
    pair.at(0, || {
        says(XdpSocket::open(DEVICE, OPTIONS), &["lr0", "down"]);
        says(live::LiveFrames::open(DEVICE, &rows, shape, 64), &["lr0", "down"]);
    });
    pair.ip(0, "link set lr0 up");
    pair.ip(1, "link set lr0 down");
    pair.at(0, || says(XdpSocket::open(DEVICE, OPTIONS), &["lr0", "no carrier"]));
}

#[test]
fn a_frame_longer_than_the_mtu_allows_is_named_before_any_frame() {
    let Some(pair) = Pair::new(1, 1400) else { return };
    let (mut rows, shape) = one_row();
    rows[0].frame.resize(1419, 0);
    let _receiver = pair.at(1, || filter(None).expect("veth has native XDP"));
    pair.at(0, || {
        says(XdpSocket::open(DEVICE, OPTIONS), &["lr0", "1514 B", "MTU of 1400"]);
        says(live::LiveFrames::open(DEVICE, &rows, shape, 64), &["lr0", "1419 B", "MTU of 1400"]);
        assert!(XdpSocket::open(DEVICE, Options { frame_bytes: 1418, ..OPTIONS }).is_ok());
    });
}

#[test]
fn a_peer_that_accepts_no_frames_is_named_with_the_remedy() {
    let Some(pair) = Pair::new(1, 1500) else { return };
    let (rows, shape) = one_row();
    pair.at(0, || {
        says(
            live::LiveFrames::open(DEVICE, &rows, shape, 64),
            &["lr0", "the peer of a veth", "gro on"],
        )
    });
    let _receiver = pair.at(1, || filter(None).expect("veth has native XDP"));
    pair.at(0, || assert!(live::LiveFrames::open(DEVICE, &rows, shape, 64).is_ok()));
}
