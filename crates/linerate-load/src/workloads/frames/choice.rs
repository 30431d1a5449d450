//! Choice of the backend for a mode. `auto` takes the fastest that works and does not change the
//! measured path.
//!
//! `auto` sends live frames or by AF_XDP only if the load is as fast as possible, or faster than
//! packet sockets, and only if the interface has no queueing discipline: these modes bypass it, and
//! a shaper there may be the object of the measurement. Otherwise it takes packet sockets, whose
//! times of receipt are the kernel's own.

use linerate_sys::netlink::RouteSocket;

use super::backend::{Both, Opening, Receive, Transmit};
use super::interface::Interface;
use super::live::LiveTransmit;
use super::packet::{PacketReceive, PacketTransmit};
use super::packet_ring::RingTransmit;
use super::udp::{UdpReceive, UdpTransmit};
use super::xdp::{XdpBoth, XdpReceive, XdpTransmit};
use super::{FramesParams, Mode};
use crate::Result;
use crate::workloads::parameters::Direction;
use Mode::{
    Auto, Live, Packet, PacketBypass, PacketRing, PacketRingBypass, Udp, Xdp, XdpCopy, XdpGeneric,
    XdpZeroCopy,
};

/// Frames per second that a worker surely sends by packet sockets on one slow core.
const PACKET_SUFFICES: f64 = 300_000.0;

/// Opens the sending half of the requested mode.
pub(super) fn transmit(opening: &Opening<'_>) -> Result<Box<dyn Transmit>> {
    match opening.mode {
        Live => Ok(Box::new(LiveTransmit::open(opening)?)),
        Xdp | XdpCopy | XdpGeneric | XdpZeroCopy => Ok(Box::new(XdpTransmit::open(opening)?)),
        Auto if wants_speed(opening.params) && is_bare(opening.interface) => {
            // Opening is the test: whether a driver takes such frames cannot be asked beforehand.
            if let Ok(live) = LiveTransmit::open(opening) {
                return Ok(Box::new(live));
            }
            match XdpTransmit::open(opening) {
                // One AF_XDP socket serves one queue in both directions, which halves of their own
                // cannot share.
                Ok(xdp) if opening.params.direction != Direction::Both => Ok(Box::new(xdp)),
                _ => Ok(Box::new(PacketTransmit::open(opening)?)),
            }
        }
        Auto | Packet | PacketBypass => Ok(Box::new(PacketTransmit::open(opening)?)),
        PacketRing | PacketRingBypass => Ok(Box::new(RingTransmit::open(opening)?)),
        Udp => Ok(Box::new(UdpTransmit::open(opening)?)),
    }
}

/// Opens the receiving half.
pub(super) fn receive(opening: &Opening<'_>) -> Result<Box<dyn Receive>> {
    match opening.mode {
        Live | Xdp | XdpCopy | XdpGeneric | XdpZeroCopy => Ok(Box::new(XdpReceive::open(opening)?)),
        Auto if wants_speed(opening.params) && is_bare(opening.interface) => {
            match XdpReceive::open(opening) {
                Ok(xdp) if xdp.is_native() => Ok(Box::new(xdp)),
                _ => Ok(Box::new(PacketReceive::open(opening)?)),
            }
        }
        Auto | Packet | PacketBypass | PacketRing | PacketRingBypass => {
            Ok(Box::new(PacketReceive::open(opening)?))
        }
        Udp => Ok(Box::new(UdpReceive::open(opening)?)),
    }
}

/// Opens both halves in one, for modes in which a queue has one socket for both directions.
pub(super) fn both(opening: &Opening<'_>) -> Result<Box<dyn Both>> {
    Ok(Box::new(XdpBoth::open(opening)?))
}

/// Returns true if `mode` needs its halves in one to send and receive.
pub(super) fn is_joined(mode: Mode) -> bool {
    matches!(mode, Xdp | XdpCopy | XdpGeneric | XdpZeroCopy)
}

fn wants_speed(params: &FramesParams) -> bool {
    let workers = f64::from(params.placement.workers());
    params.frames_per_second().is_none_or(|rate| rate / workers > PACKET_SUFFICES)
}

/// Returns true if the interface has no discipline in either direction. The loopback has no driver
/// with a fast path.
fn is_bare(interface: &Interface) -> bool {
    let mut disciplines = 0;
    // Asked at each start: a discipline may be attached between two trials.
    let asked = RouteSocket::open().and_then(|mut kernel| {
        kernel.qdiscs(|discipline| {
            disciplines +=
                u32::from(discipline.index == interface.index && discipline.kind != "noqueue");
        })
    });
    asked.is_ok() && disciplines == 0 && !interface.is_loopback()
}
