//! Claims of the rules, and the observations that support them, as data.

use linerate_model::path::Limiter;
use linerate_model::{Ceiling, CeilingSubject, Direction, Metric, Validity};
use serde::{Deserialize, Serialize};

use crate::{LossPlace, Reason};

/// Claim about the limit of a point.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "fields that are not explained are what they are called")]
pub enum Claim {
    /// A link or bus is saturated.
    Saturated(CeilingSubject),
    /// This keeps less data in flight than the path could carry.
    Paced(Permit),
    /// The queue depth of a load on a disk is too small.
    QueueDepth,
    /// Flushes limit writes.
    Flushes,
    /// The page cache serves a load, and its disk is not measured.
    Cached,
    /// The workers of a load on a disk use all of their CPU time.
    DiskWorkers,
    /// A disk does all that it can: transfers and bytes per second.
    DiskFull { rate: f64, bytes: Option<f64> },
    /// A limit of the control group holds the writes or reads of a load on a disk back: per second,
    /// in bytes or transfers.
    DiskGroupLimit { in_bytes: bool, direction: Direction, rate: f64 },
    /// The kernel's queue of a disk admits too few requests.
    DiskQueue { admitted: f64 },
    /// Other programs move this share of a disk's bytes.
    DiskShared { share: f64 },
    /// The window overruns the buffer of the network controller.
    ControllerOverrun,
    /// The window overruns a shallow buffer, or loss is random. `before_controller` is true if the
    /// network controller dropped nothing.
    ShallowBuffer { before_controller: bool },
    /// The hash of a group of links does not spread the flows; `saturated` is true if the links in
    /// use are full.
    UnevenHash { saturated: bool },
    /// Copies use up the memory bandwidth.
    MemoryBandwidth,
    /// The measurement is not valid.
    NotValid,
    /// Workers and network device are in different NUMA nodes.
    RemoteNode,
    /// TCP treats the path's loss as congestion.
    Loss,
    /// A link has a smaller MTU, and its ICMP messages are lost.
    SmallerMtu,
    /// The receive buffer is smaller than the bandwidth-delay product.
    ReceiveBuffer,
    /// The receiver is the limit: its buffer or its application.
    Receiver,
    /// The send buffer is smaller than the bandwidth-delay product.
    SendBuffer,
    /// An end uses all of its CPU.
    OutOfCpu(FlowEnd),
    /// Other programs take the CPU time that an end needs.
    CpuTaken(FlowEnd),
    /// Other programs take the CPU time that both ends need.
    CpuTakenOfBoth,
    /// Other traffic shares a queue of the path.
    CrossTraffic,
    /// A link without a known ceiling is saturated.
    PathRate { goodput: f64 },
    /// A policer drops packets above its token rate.
    Policer { rate: f64 },
    /// The reverse path carries too few acknowledgements.
    ReversePath { rate: f64 },
    /// One flow can use one link of a group.
    OneLink,
    /// The receiving application reads slowly.
    SlowReader(SlowReader),
    /// The sending application has nothing to send.
    SlowSource,
    /// The cost of a call limits the sender of small messages.
    SmallMessages,
    /// One CPU handles all network interrupts.
    OneInterruptCpu,
    /// The recorded evidence does not show the limit.
    Unexplained,
    /// The claim of this rule is not confirmed: its evidence was absent from the tested runs.
    NotConfirmed { rule: String },
    /// The tester was the limit of a search.
    Tester,
    /// Frames are lost there, above the load that a search found.
    LostAt(LossPlace),
}

/// How the receiving application is known to read slowly.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SlowReader {
    /// Its host waits for storage.
    Storage,
    /// It has CPU time left.
    CpuLeft,
    /// It closed a window that was larger before.
    ClosedWindow,
}

/// Amount of data that a sender may keep in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Permit {
    /// The kernel's pacing rate.
    Pacing,
    /// The congestion window over the round-trip time.
    CongestionWindow,
    /// The receiver's window over the round-trip time.
    ReceiveWindow,
}

/// End of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FlowEnd {
    /// The end that sends.
    Sending,
    /// The end that receives.
    Receiving,
}

/// Quantity that a rule compares with a threshold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Quantity {
    /// A metric.
    Metric(&'static Metric),
    /// Relative increase of the round-trip time over its minimum.
    StandingQueue,
}

/// One observation behind a claim. Rates are in bit/s, times in seconds, shares of one. The source
/// of an observation follows from its kind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "fields that are not explained are what they are called")]
pub enum Evidence {
    /// A metric of the flow or its hosts, in the unit of the metric. This is the usual shape; the
    /// others combine several figures.
    Figure { metric: &'static Metric, value: f64 },
    /// A quantity beside the threshold of the rule that reads it, where that rule makes no claim.
    Near { quantity: Quantity, value: f64, threshold: f64 },
    /// Goodput beside the lowest ceiling.
    OfCeiling { goodput: f64, share: f64, ceiling: Box<Ceiling> },
    /// Goodput as a share of the lowest ceiling, without a claim about that.
    BelowCeiling { share: f64 },
    /// Goodput beside the rate that a window or the pacing permits.
    OfPermit { by: Permit, goodput: f64, rate: f64 },
    /// The round-trip time is near its minimum, and nothing was retransmitted.
    NoQueue { rtt: f64, rtt_min: f64 },
    /// A queue remained: the round-trip time is this multiple of its minimum.
    Queue { ratio: f64 },
    /// The standing queue in bytes.
    QueuedBytes { bytes: u64, goodput: f64, rtt: f64, rtt_min: f64 },
    /// Goodput beside the rate of the path that the probe measured.
    OfPath { limiter: Limiter, capacity: f64, goodput: f64 },
    /// Goodput beside the rates that the probe measured in the direction of the acknowledgements
    /// and in that of the data, if it is known.
    ReversePath { reverse: f64, data: Option<f64>, goodput: f64 },
    /// Shortest round-trip times before the load and with it.
    QueueBeforeLoad { idle: f64, rtt_min: f64 },
    /// Bytes of a link's buffer that the probe filled, beside the bandwidth-delay product.
    Buffer { bytes: u64, product: f64 },
    /// Share of the datagrams that the probe lost below the rate of the path: value and interval.
    LossWithoutLoad { share: f64, low: f64, high: f64 },
    /// Largest packets that passed the probe, and that the sender's interface allows, in bytes.
    SmallerMtu { found: u64, routed: u64 },
    /// Other programs used this share of the load's CPU time.
    CpuTaken { share: f64 },
    /// Shares of the time in which the busiest worker of an end waited for a CPU, and ran.
    CpuWait { end: FlowEnd, waited: f64, ran: f64 },
    /// Bytes of a flow in flight, and their ratio to the send buffer, where nothing else limits the
    /// sender.
    FillsBuffer { bytes: f64, ratio: f64 },
    /// A flood of datagrams entered and left the path at these rates, and a stream used `goodput`.
    Flood { feed: f64, drain: f64, goodput: f64 },
    /// Queues of the sender dropped packets of a stream.
    QueueDrops { packets: u64 },
    /// The receive ring had no room for `missed` packets, beside those that were received.
    RingMissed { missed: u64, received: u64 },
    /// Claims that experiments ruled out.
    RuledOut { claims: Vec<Claim> },
    /// Goodput beside the models of TCP under loss.
    LossModels { goodput: f64, with_timeouts: f64, without_timeouts: f64 },
    /// Flows on the links of a group; an even hash uses so few with this probability at most.
    FlowsOnLinks { flows: f64, used: f64, available: f64, chance: f64 },
    /// Goodput as a share of the capacity of the links in use.
    OfLinksInUse { share: f64 },
    /// A single flow crosses a group of this many links.
    OneFlow { links: f64 },
    /// Share of the largest advertised window in flight.
    WindowUsed { share: f64 },
    /// Bytes of a flow that waited to be sent, and the share of the congestion window in flight.
    LittleToSend { unsent_bytes: f64, window_share: f64 },
    /// Payload of the largest segments.
    Segments { bytes: f64 },
    /// Connections opened, and none of their data arrived.
    NothingArrived,
    /// No flow carried data.
    NoFlow,
    /// No figure that a rule examines was recorded.
    NoFigure,
    /// Shares of the time of single CPUs and of the busiest worker.
    Cpus { softirq: f64, idle: f64, worker: f64 },
    /// Transfers in flight, their mean service time and their rate; the rate asked for, if the plan
    /// names one.
    InFlight { transfers: f64, seconds: f64, rate: f64, asked: Option<f64> },
    /// CPUs that the load's threads used; `all` is true if no CPU time was left.
    ThreadCpus { threads: f64, cpus: f64, all: bool },
    /// Share of the time of the transfers in flight that flushes took, and the flushes.
    Flushing { share: f64, transfers: f64, rate: f64, seconds: f64 },
    /// Writes end when they are durable (`sync` of the load), after this mean time.
    DurableWrites { mode: String, seconds: f64 },
    /// The plan's rate was reached.
    RateReached { rate: f64 },
    /// A transfer never ended; the mean rate until then.
    NeverEnded { rate: f64 },
    /// The load is none that the disk rules can judge.
    NoClosedLoad,
    /// A reason against the validity of the point.
    Against(Reason),
    /// The validity of a point without a reason.
    Validity(Validity),
    /// The tested runs of this arm do not show the evidence again.
    NotSeenAgain { arm: String },
    /// This share of the frames lost above a load was lost at the place of the claim.
    LostThere { share: f64, lost: u64 },
    /// No counter locates these lost frames.
    NotLocated { lost: u64 },
}

impl Evidence {
    /// Returns the observation that `metric` has this value.
    #[must_use]
    pub const fn figure(metric: &'static Metric, value: f64) -> Self {
        Self::Figure { metric, value }
    }
}
