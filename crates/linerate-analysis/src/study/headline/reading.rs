//! Readings of a stage: a measured quantity of the path, without words.

use linerate_model::{Layer, Unit};
use serde::{Deserialize, Serialize};

/// Observation at a stage.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reading {
    /// Observed quantity.
    #[serde(rename = "what")]
    pub kind: ReadingKind,
    /// Value in the base unit.
    pub value: f64,
    /// Unit.
    pub unit: Unit,
    /// Layer, where bits are counted.
    pub layer: Option<Layer>,
}

/// Quantity that a stage is observed by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReadingKind {
    /// Bits or packets that the receiving socket accepted.
    Accepted,
    /// Receive window that the receiver advertised.
    AdvertisedWindow,
    /// Packets dropped because the kernel's backlog was full.
    BacklogDrops,
    /// Share of the receive buffer that is filled.
    BufferFill,
    /// Share of time that the sender waited for its own send buffer.
    BufferWait,
    /// CPU time of the busiest worker thread.
    BusiestThreadCpu,
    /// Share of time that a disk was busy.
    Busy,
    /// Payload per system call.
    BytesPerCall,
    /// Congestion window.
    CongestionWindow,
    /// Packets dropped.
    Dropped,
    /// Packets forwarded by a device.
    Forwarded,
    /// Payload that the application passed to the socket.
    HandedOver,
    /// Transfers in flight.
    InFlight,
    /// CPU time of all threads of a load.
    LoadCpu,
    /// Packets per second of an interface.
    Packets,
    /// Bits that passed a queueing discipline.
    Passed,
    /// Bytes that wait in a queue.
    Queued,
    /// Share of scheduling periods without CPU quota.
    QuotaExhausted,
    /// Bytes that a disk read.
    Read,
    /// Bytes that a load read and wrote.
    ReadAndWritten,
    /// Bits received.
    Received,
    /// Datagrams that the socket refused to send.
    Refused,
    /// Share of the bytes that the sender sent again.
    Retransmitted,
    /// Round-trip time.
    RoundTrip,
    /// Bits sent.
    Sent,
    /// Share of the requested bytes that reached the disk instead of the cache.
    ServedByDisk,
    /// CPU time of the busiest softirq.
    SoftirqCpu,
    /// Transfers per second.
    Transfers,
    /// Share of time that the sender waited for the peer's window.
    WindowWait,
    /// Bytes that a disk wrote.
    Written,
}

impl Reading {
    pub(super) fn new(kind: ReadingKind, value: f64, unit: Unit, layer: Option<Layer>) -> Self {
        Self { kind, value, unit, layer }
    }
}
