//! Which backend a mode is, and what `auto` takes: the fastest that works and changes nothing of
//! what is measured.
//!
//! `auto` sends live frames or by AF_XDP only if frames are wanted as fast as possible, or faster
//! than packet sockets send them, and only where no queueing discipline stands at the interface:
//! these modes pass it by, and a shaper there may be what is measured. Otherwise it takes packet
//! sockets, whose times of receipt are the kernel's own.

use linerate_sys::netlink::RouteSocket;

use super::backend::{Both, Opening, Receive, Transmit};
use super::interface::Interface;
use super::live::LiveTransmit;
use super::packet::{PacketReceive, PacketTransmit};
use super::packet_ring::RingTransmit;
use super::udp::{UdpReceive, UdpTransmit};
use super::xdp::{XdpBoth, XdpReceive, XdpTransmit};
use super::{Flowing, FramesParams, Mode};
use crate::LoadError;

/// What a worker sends by packet sockets on one slow core with room to spare, frames a second.
const PACKET_SUFFICES: f64 = 300_000.0;

/// The sending half for the mode asked for.
pub(super) fn transmit(opening: &Opening<'_>) -> Result<Box<dyn Transmit>, LoadError> {
    match opening.mode {
        Mode::Live => Ok(Box::new(LiveTransmit::open(opening)?)),
        Mode::Xdp | Mode::XdpCopy | Mode::XdpGeneric | Mode::XdpZeroCopy => {
            Ok(Box::new(XdpTransmit::open(opening)?))
        }
        Mode::Auto if wants_speed(opening.params) && is_bare(opening.interface) => {
            if let Ok(live) = LiveTransmit::open(opening) {
                return Ok(Box::new(live));
            }
            match XdpTransmit::open(opening) {
                Ok(xdp) if opening.params.direction != Flowing::Both => Ok(Box::new(xdp)),
                _ => Ok(Box::new(PacketTransmit::open(opening)?)),
            }
        }
        Mode::Auto | Mode::Packet | Mode::PacketBypass => {
            Ok(Box::new(PacketTransmit::open(opening)?))
        }
        Mode::PacketRing | Mode::PacketRingBypass => Ok(Box::new(RingTransmit::open(opening)?)),
        Mode::Udp => Ok(Box::new(UdpTransmit::open(opening)?)),
    }
}

/// The receiving half.
pub(super) fn receive(opening: &Opening<'_>) -> Result<Box<dyn Receive>, LoadError> {
    match opening.mode {
        Mode::Live | Mode::Xdp | Mode::XdpCopy | Mode::XdpGeneric | Mode::XdpZeroCopy => {
            Ok(Box::new(XdpReceive::open(opening)?))
        }
        Mode::Auto if wants_speed(opening.params) && is_bare(opening.interface) => {
            match XdpReceive::open(opening) {
                Ok(xdp) if xdp.is_native() => Ok(Box::new(xdp)),
                _ => Ok(Box::new(PacketReceive::open(opening)?)),
            }
        }
        Mode::Auto
        | Mode::Packet
        | Mode::PacketBypass
        | Mode::PacketRing
        | Mode::PacketRingBypass => Ok(Box::new(PacketReceive::open(opening)?)),
        Mode::Udp => Ok(Box::new(UdpReceive::open(opening)?)),
    }
}

/// Both halves in one, for modes where a queue has one socket for both directions.
pub(super) fn both(opening: &Opening<'_>) -> Result<Box<dyn Both>, LoadError> {
    Ok(Box::new(XdpBoth::open(opening)?))
}

/// Whether `mode` needs its halves in one to send and receive.
pub(super) fn is_joined(mode: Mode) -> bool {
    matches!(mode, Mode::Xdp | Mode::XdpCopy | Mode::XdpGeneric | Mode::XdpZeroCopy)
}

fn wants_speed(params: &FramesParams) -> bool {
    let workers = f64::from(params.placement.workers());
    params.frames_per_second().is_none_or(|rate| rate / workers > PACKET_SUFFICES)
}

/// Whether nothing stands between the interface and the wire, either way. The loopback has no
/// driver to be fast with.
fn is_bare(interface: &Interface) -> bool {
    let mut disciplines = 0;
    let asked = RouteSocket::open().and_then(|mut kernel| {
        kernel.qdiscs(|discipline| {
            disciplines +=
                u32::from(discipline.index == interface.index && discipline.kind != "noqueue");
        })
    });
    asked.is_ok() && disciplines == 0 && !interface.is_loopback()
}
