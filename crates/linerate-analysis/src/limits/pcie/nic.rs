//! Traffic of a network card over its slot besides frames: doorbells, descriptors, interrupts, and
//! pointers read back.
//!
//! Units: bytes on the link per frame, by direction. Source: the models of pcie-bench (Neugebauer
//! et al., SIGCOMM 2018); for the second and third, also the Intel 82599 data sheet (1.9.1, 1.9.2,
//! 7.1.5 to 7.2.3) and the drivers of Linux and DPDK. The request for a receive descriptor is
//! counted here; the published model omits it, so that its figures are a few per cent higher.
//!
//! Frames cross without their check sequence. Not covered: descriptors written into the doorbell,
//! header split, compressed completions, and several queues that batch less each.

use linerate_model::derivation::Quantity;
use linerate_model::{Bytes, PacketRate};
use serde::Deserialize;

use super::link::Link;
use crate::limits::ethernet;
use Access::{DeviceRead, DeviceWrite, HostRead, HostWrite};

/// Interface between card and driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Nic {
    /// A doorbell, a descriptor, an interrupt and a pointer read back for every frame.
    Simple,
    /// An Intel 82599 and its Linux driver: batches where those batch.
    Kernel,
    /// The same card polled by DPDK: no interrupts, doorbells for 32 frames.
    PollMode,
}

/// Initiator of a transaction and direction of its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// The device reads memory.
    DeviceRead,
    /// The device writes memory.
    DeviceWrite,
    /// The host reads a register.
    HostRead,
    /// The host writes a register.
    HostWrite,
}

/// One thing that happens once in `frames` frames.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step {
    /// Name of the transaction.
    pub what: Quantity,
    /// Its initiator and direction.
    pub access: Access,
    /// Its size; `None` for the frame itself.
    pub size: Option<Bytes>,
    /// Frames that share it.
    pub frames: u32,
}

/// Bytes on the link for each frame, by direction; fractions come from batches.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct FrameBytes {
    /// From the device to the host.
    pub up: f64,
    /// From the host to the device.
    pub down: f64,
}

impl core::ops::Add for FrameBytes {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { up: self.up + other.up, down: self.down + other.down }
    }
}

const REGISTER: Bytes = Bytes(4);
/// An interrupt message is a write of one double word.
const INTERRUPT: Bytes = Bytes(4);
const DESCRIPTOR: Bytes = Bytes(16);

const fn step(what: Quantity, access: Access, size: u64, frames: u32) -> Step {
    Step { what, access, size: Some(Bytes(size)), frames }
}

const fn data(access: Access) -> Step {
    Step { what: Quantity::Frame, access, size: None, frames: 1 }
}

/// Descriptors that the card fetches and writes back at once, 7.2.3.4 and 7.2.3.5 of its data
/// sheet.
const FETCHED: u32 = 40;
const WRITTEN_BACK: u32 = 8;
/// Free buffers that a driver hands over at once, and frames between two interrupts.
const FREED: u32 = 32;
const PER_INTERRUPT: u32 = 32;
/// Frames that the Linux driver takes before it looks at the head pointer again.
const TAKEN: u32 = 8;
/// Frames that a poll-mode driver sends at once.
const BURST: u32 = 32;

static SIMPLE_TRANSMIT: [Step; 5] = [
    step(Quantity::Doorbell, HostWrite, REGISTER.0, 1),
    step(Quantity::Descriptor, DeviceRead, DESCRIPTOR.0, 1),
    data(DeviceRead),
    step(Quantity::Interrupt, DeviceWrite, INTERRUPT.0, 1),
    step(Quantity::HeadPointer, HostRead, REGISTER.0, 1),
];
static SIMPLE_RECEIVE: [Step; 6] = [
    step(Quantity::FreeBuffers, HostWrite, REGISTER.0, 1),
    step(Quantity::Descriptor, DeviceRead, DESCRIPTOR.0, 1),
    data(DeviceWrite),
    step(Quantity::DescriptorWrittenBack, DeviceWrite, DESCRIPTOR.0, 1),
    step(Quantity::Interrupt, DeviceWrite, INTERRUPT.0, 1),
    step(Quantity::HeadPointer, HostRead, REGISTER.0, 1),
];
static KERNEL_TRANSMIT: [Step; 6] = [
    step(Quantity::Doorbell, HostWrite, REGISTER.0, 1),
    step(Quantity::Descriptors, DeviceRead, DESCRIPTOR.0 * FETCHED as u64, FETCHED),
    data(DeviceRead),
    step(
        Quantity::DescriptorsWrittenBack,
        DeviceWrite,
        DESCRIPTOR.0 * WRITTEN_BACK as u64,
        WRITTEN_BACK,
    ),
    step(Quantity::Interrupt, DeviceWrite, INTERRUPT.0, PER_INTERRUPT),
    step(Quantity::HeadPointer, HostRead, REGISTER.0, 1),
];
static KERNEL_RECEIVE: [Step; 6] = [
    step(Quantity::FreeBuffers, HostWrite, REGISTER.0, FREED),
    step(Quantity::Descriptor, DeviceRead, DESCRIPTOR.0, 1),
    data(DeviceWrite),
    step(Quantity::DescriptorWrittenBack, DeviceWrite, DESCRIPTOR.0, 1),
    step(Quantity::Interrupt, DeviceWrite, INTERRUPT.0, PER_INTERRUPT),
    step(Quantity::HeadPointer, HostRead, REGISTER.0, TAKEN),
];
static POLL_TRANSMIT: [Step; 4] = [
    step(Quantity::Doorbell, HostWrite, REGISTER.0, BURST),
    step(Quantity::Descriptors, DeviceRead, DESCRIPTOR.0 * FETCHED as u64, FETCHED),
    data(DeviceRead),
    step(
        Quantity::DescriptorsWrittenBack,
        DeviceWrite,
        DESCRIPTOR.0 * WRITTEN_BACK as u64,
        WRITTEN_BACK,
    ),
];
static POLL_RECEIVE: [Step; 4] = [
    step(Quantity::FreeBuffers, HostWrite, REGISTER.0, FREED),
    step(Quantity::Descriptor, DeviceRead, DESCRIPTOR.0, 1),
    data(DeviceWrite),
    step(Quantity::DescriptorWrittenBack, DeviceWrite, DESCRIPTOR.0, 1),
];

impl Nic {
    /// Returns the transactions that send a frame.
    #[must_use]
    pub fn transmit(self) -> &'static [Step] {
        match self {
            Self::Simple => &SIMPLE_TRANSMIT,
            Self::Kernel => &KERNEL_TRANSMIT,
            Self::PollMode => &POLL_TRANSMIT,
        }
    }

    /// Returns the transactions that receive a frame.
    #[must_use]
    pub fn receive(self) -> &'static [Step] {
        match self {
            Self::Simple => &SIMPLE_RECEIVE,
            Self::Kernel => &KERNEL_RECEIVE,
            Self::PollMode => &POLL_RECEIVE,
        }
    }

    /// Returns the card's name as in options.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Simple => "simple",
            Self::Kernel => "kernel",
            Self::PollMode => "poll-mode",
        }
    }
}

impl Step {
    /// Returns the bytes on `link` per frame, shared by the frames of a batch. `frame` includes its
    /// check sequence, which does not cross.
    #[must_use]
    pub fn bytes(&self, link: &Link, frame: Bytes) -> FrameBytes {
        // A frame shorter than its check sequence is refused by the calculator, but this function
        // is public.
        let size = self.size.unwrap_or(Bytes(frame.0.saturating_sub(ethernet::CHECK_SEQUENCE.0)));
        let (up, down) = match self.access {
            DeviceRead => {
                let bytes = link.read_bytes(size);
                (bytes.up, bytes.down)
            }
            DeviceWrite => (link.write_bytes(size).up, Bytes(0)),
            // The host asks and the device answers with a completion, so the directions are those
            // of a device's read exchanged.
            HostRead => (size + link.completion_overhead(), link.request_overhead()),
            HostWrite => (Bytes(0), size + link.request_overhead()),
        };
        let share = f64::from(self.frames);
        FrameBytes { up: up.0 as f64 / share, down: down.0 as f64 / share }
    }
}

/// Returns the bytes of all `steps` per frame.
#[must_use]
pub fn frame_bytes(steps: &[Step], link: &Link, frame: Bytes) -> FrameBytes {
    steps
        .iter()
        .map(|step| step.bytes(link, frame))
        .fold(FrameBytes::default(), core::ops::Add::add)
}

/// Returns the frames a second that `link` has room for: the busier direction decides.
pub fn frame_rate(link: &Link, bytes: FrameBytes) -> PacketRate {
    const BITS: f64 = 8.0;
    PacketRate(link.packet_rate().0 / (BITS * bytes.up.max(bytes.down)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::pcie::link::{Addressing, LinkLayerPackets};

    fn pcie_bench() -> Link {
        let mut link = Link::new(3, 8, Bytes(256), Bytes(512)).expect("known");
        link.addressing = Addressing::Bits64;
        link.dllp = LinkLayerPackets::PcieModel;
        link
    }

    /// Gbit/s each way of frames without their check sequence, sent and received at once;
    /// `forgotten` bytes upwards are left out, as the published model does with the request for
    /// each receive descriptor.
    fn both_ways(nic: Nic, size: u64, forgotten: u64) -> f64 {
        let (link, frame) = (pcie_bench(), Bytes(size));
        let mut bytes =
            frame_bytes(nic.transmit(), &link, frame) + frame_bytes(nic.receive(), &link, frame);
        bytes.up -= forgotten as f64;
        frame_rate(&link, bytes).0 * (size - 4) as f64 * 8.0 / 1e9
    }

    #[test]
    fn pcie_benchs_figures_are_reproduced_with_its_omission_and_lower_without() {
        // docs/methodology/ceilings.md#pci-express: generation 3 x8, MPS 256, MRRS 512, 64-bit
        // addresses, frames of 64, 256, 512 and 1500 B.
        let golden = [
            (Nic::Simple, [12.58, 31.17, 39.31, 46.06]),
            (Nic::Kernel, [17.63, 37.50, 43.96, 48.08]),
            (Nic::PollMode, [20.65, 40.50, 45.93, 48.86]),
        ];
        let request = pcie_bench().request_overhead().0;
        for (nic, gigabits) in golden {
            for (size, expected) in [64, 256, 512, 1500].into_iter().zip(gigabits) {
                let found = both_ways(nic, size, request);
                assert!((found - expected).abs() < 0.0051, "{nic:?} {size}: {found}");
                assert!(both_ways(nic, size, 0) < expected, "{nic:?} {size}");
            }
        }
    }

    #[test]
    fn a_simple_card_moves_these_bytes_for_a_frame_of_64() {
        let link = pcie_bench();
        // Doorbell 28, descriptor 24 and 36, data 24 and 80, interrupt 28, pointer 24 and 24.
        let transmit = frame_bytes(Nic::Simple.transmit(), &link, Bytes(64));
        assert_eq!(transmit, FrameBytes { up: 100.0, down: 168.0 });
        // Doorbell 28, descriptor 24 and 36, data 84, written back 40, interrupt 28, pointer 24 and
        // 24.
        let receive = frame_bytes(Nic::Simple.receive(), &link, Bytes(64));
        assert_eq!(receive, FrameBytes { up: 200.0, down: 88.0 });
    }
}
