//! `frames`: whole Ethernet frames past TCP and UDP, as fast as possible or at a rate, each with
//! its number, its flow and its scheduled departure. Unit: frames, and L4 payload bits behind their
//! headers; sizes are RFC 2544's, frame check sequence included.
//!
//! A *mode* selects how frames are sent and received: one workload has several [`backend`]s, and
//! every result names the mode obtained. Frames that the kernel took count as sent. Frames that a
//! queue or driver refused count as `send_drops` only, so an overloaded sender shows as operations
//! not started, not as loss. Received frames are identified by a tag that only this trial's ends
//! can make. Duplicates, reordering and late frames have their own counters, and a frame that
//! returned to its sender is *reflected*, not received. The kernel counts each drop of the
//! receiving ring.
//!
//! Where both ends are on one kernel, `response` is the time from a frame's *scheduled* departure
//! to the kernel's receipt, and `service` that from its actual hand-over: one clock, no correction.
//! This does not see frames dropped between a device and the packet layer (the counters of device
//! and backlog show those), the wire time of single frames, or time between hosts.
//!
//! RFC 6815: such load belongs in laboratories. It is refused on any interface that is neither a
//! lab's nor the loopback, unless `allow_outside_lab` confirms that the network can take it.

use std::net::IpAddr;

use linerate_model::{Bytes, ParamError};

use super::pairing::{self, Waiting as Unpaired};
use super::parameters::Typed;
use super::ports::PlannedPorts;
use crate::workloads::footprint;
use crate::{JobPorts, Listener, Offer, Result, Setup, Times, Workers};

mod backend;
mod card;
mod checks;
mod choice;
mod filler;
mod interface;
mod ledger;
mod live;
mod numbering;
mod packet;
mod packet_ring;
mod params;
mod queues;
mod sizes;
mod start;
mod udp;
mod worker;
mod xdp;

use interface::Interface;
pub(super) use interface::raw_frames;
use params::{FramesParams, Keep, Mode, PortChoice};

/// `frames` in a hello.
const WORKLOAD: u32 = u32::from_be_bytes(*b"fram");

/// The `frames` workload.
#[derive(Debug)]
pub(super) struct Frames;

impl Typed for Frames {
    type Params = FramesParams;
    const NAME: &'static str = "frames";
    const SUMMARY: &'static str = "Ethernet frames of one size or a mixture, at a rate or as fast \
        as possible: frames delivered per second, with an account of every frame";

    const ON_LOOPBACK: bool = false;

    fn fits(params: &FramesParams, address: IpAddr) -> Result<(), ParamError> {
        params.check_size(address)
    }

    fn packet_of(params: &FramesParams, _: Bytes) -> Option<Bytes> {
        /// Ethernet header and check sequence; tags count as the packet's.
        const AROUND: u64 = 18;
        let sizes = params.frame_size.sizes();
        let size = sizes.largest() as u64;
        // Frames of several sizes have no common packet.
        sizes.is_single().then(|| Bytes(size.saturating_sub(AROUND)))
    }

    fn ports_of(_: &FramesParams) -> JobPorts {
        JobPorts::FREE
    }

    fn memory_of(params: &FramesParams) -> u64 {
        // The ring is the largest part by far.
        let ring = params.options.receive_buffer.map_or(0, |bytes| bytes.0);
        let slowest = u64::from(params.snapshot) * 8;
        // The send ring, and the same frames before they enter it. The times are those of an end
        // that sends and receives.
        let times =
            Times { service: true, response: true, gap: true, variation: true, ..Times::NONE };
        footprint::of(&params.placement, times, ring + slowest + (16 << 20), 128 << 10)
    }

    fn start_passive(params: FramesParams, setup: &Setup<'_>) -> Result<Box<dyn Listener>> {
        // The passive end does not know its peer yet, so its interface must be named or follow from
        // its address.
        let interface = Interface::find(&params, setup.local, None)?.beside(setup.control)?;
        start::check(&params, &interface, setup.permits)?;
        // Filters find raw frames by their ports, so each job has its own.
        let setup = &Setup { shared_port: None, ..setup.clone() };
        let options = params.options.clone();
        let prepare = move |socket: &socket2::Socket| options.set(socket);
        let (shape, planned) = (params.shape(), &PlannedPorts::NONE);
        let unpaired = Unpaired::listen(setup, None, shape, planned, prepare)?;
        let Setup { secret, seed, peer_clock, .. } = *setup;
        let permits = setup.permits.clone();
        Ok(Box::new(start::FramesListener {
            params,
            unpaired,
            interface,
            secret,
            seed,
            peer_clock,
            permits,
        }))
    }

    fn start_active(params: FramesParams, setup: &Setup<'_>, offer: &Offer) -> Result<Workers> {
        let toward = offer.addresses.first().copied();
        let interface = Interface::find(&params, setup.local, toward)?.beside(setup.control)?;
        start::check(&params, &interface, setup.permits)?;
        let paired =
            pairing::connect(setup, offer, None, params.shape(), &PlannedPorts::NONE, |socket| {
                params.options.set(socket)
            })?;
        start::active(&params, setup, &interface, paired)
    }
}
