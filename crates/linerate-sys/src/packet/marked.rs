//! Marked test frames that no host processes, for the tests of this module.

use super::FrameRing;

/// Returns a marked frame of 60 bytes without real addresses, of an EtherType for local experiments
/// (IEEE 802.1).
pub(super) fn frame(mark: u32) -> [u8; 60] {
    let mut frame = [0; 60];
    frame[12..14].copy_from_slice(&0x88b5_u16.to_be_bytes());
    frame[14..18].copy_from_slice(&mark.to_be_bytes());
    frame
}

pub(super) fn privileged(test: &str) -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        println!("skipped: {test}: needs CAP_NET_RAW");
    }
    root
}

/// Returns the frames that arrive within a second, at most `n`.
pub(super) fn received(ring: &mut FrameRing, n: usize) -> Vec<(u32, usize, u64)> {
    let mut got = Vec::new();
    let until = crate::clock::monotonic() + 1_000_000_000;
    while got.len() < n && crate::clock::monotonic() < until {
        ring.receive(|frame| {
            let mark = frame.bytes[14..18].try_into().expect("four bytes");
            got.push((u32::from_be_bytes(mark), frame.length, frame.stamp_ns));
        });
    }
    got
}
