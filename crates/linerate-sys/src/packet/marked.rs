//! Marked frames to and from nobody, for the tests of this family.

use super::FrameRing;

/// A frame of 60 bytes to and from nobody, of an EtherType for local experiments (IEEE 802.1),
/// marked.
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

/// Everything that arrives within a second, until `n` have.
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
