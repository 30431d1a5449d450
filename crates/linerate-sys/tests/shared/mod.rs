//! Two namespaces with a veth pair between them, for tests that need real interfaces. Needs root.

#![allow(dead_code, unreachable_pub, reason = "each test program uses its part")]

pub(crate) mod host;

use std::fs::File;
use std::sync::atomic::{AtomicU32, Ordering};

use linerate_sys::netns;

use host::{Namespace, ran};

/// Device name at both ends.
pub const DEVICE: &str = "lr0";

/// Veth pair whose ends are up, each in its own namespace; removed when dropped.
pub struct Pair {
    names: [String; 2],
    /// Locks that mark the namespaces as used by a living process, as a lab's locks do.
    _held: [File; 2],
    _made: [Namespace; 2],
}

impl Pair {
    /// Creates a pair with `n_queues` queues and an MTU of `mtu` at both ends; `None`, with the
    /// message that `test` is skipped, without privilege.
    pub fn new(n_queues: u32, mtu: u32) -> Option<Self> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let id = format!("{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        let names = ["a", "b"].map(|end| format!("lr-sys-{id}-{end}"));
        let [a, b] = &names;
        let made = [Namespace::new(a.clone())?, Namespace::new(b.clone())?];
        let held = [a, b].map(|name| {
            let file = File::open(format!("/run/netns/{name}")).expect("it was made");
            file.try_lock().expect("nobody else holds it");
            file
        });
        let queues = format!("numtxqueues {n_queues} numrxqueues {n_queues}");
        let peer = format!("type veth peer name {DEVICE} {queues} netns {b}");
        ran(&format!("ip -n {a} link add {DEVICE} {queues} {peer}"));
        let pair = Self { names, _held: held, _made: made };
        for end in 0..2 {
            pair.ip(end, &format!("link set {DEVICE} mtu {mtu} up"));
        }
        // Neighbour discovery would add foreign frames, and it is not under test.
        for end in 0..2 {
            let off =
                || std::fs::write(format!("/proc/sys/net/ipv6/conf/{DEVICE}/disable_ipv6"), "1");
            let _without_ipv6 = netns::within(&pair.names[end], off);
        }
        Some(pair)
    }

    /// Runs `work` at end 0 or 1.
    pub fn at<T: Send>(&self, end: usize, work: impl FnOnce() -> T + Send) -> T {
        netns::within(&self.names[end], work).expect("the namespace is there")
    }

    /// Returns the name of an end's namespace.
    pub fn name(&self, end: usize) -> &str {
        &self.names[end]
    }

    /// Runs `ip` with these arguments at an end.
    pub fn ip(&self, end: usize, arguments: &str) {
        ran(&format!("ip -n {} {arguments}", self.names[end]));
    }
}

/// Returns a frame of `bytes` with a local experimental EtherType (IEEE 802 clause 9.2.4), followed
/// by `number`.
pub fn frame(bytes: usize, ethertype: u16, number: u32) -> Vec<u8> {
    let mut frame = vec![0; bytes];
    frame[..12].copy_from_slice(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2, 0, 0, 0, 0, 1]);
    frame[12..14].copy_from_slice(&ethertype.to_be_bytes());
    frame[14..18].copy_from_slice(&number.to_be_bytes());
    frame
}

/// Returns the number after the EtherType.
pub fn number(frame: &[u8]) -> u32 {
    u32::from_be_bytes(frame[14..18].try_into().expect("four bytes"))
}
