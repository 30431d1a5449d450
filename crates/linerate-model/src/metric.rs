//! Measurables: every name linerate prints, with unit, layer and meaning.
//!
//! The table is the promise of `linerate list metrics` and of the JSON of a study. Names are the field's.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What a number counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Unit {
    /// Bits per second.
    #[serde(rename = "bit/s")]
    BitPerSecond,
    /// Packets, frames or datagrams per second.
    #[serde(rename = "packet/s")]
    PacketPerSecond,
    /// Events per second (transactions, connections, calls, interrupts).
    #[serde(rename = "1/s")]
    PerSecond,
    /// Bytes.
    #[serde(rename = "B")]
    Byte,
    /// Bytes per second.
    #[serde(rename = "B/s")]
    BytePerSecond,
    /// A count.
    #[serde(rename = "1")]
    Count,
    /// A ratio of like quantities.
    #[serde(rename = "ratio")]
    Ratio,
    /// Seconds.
    #[serde(rename = "s")]
    Second,
    /// Nanoseconds.
    #[serde(rename = "ns")]
    Nanosecond,
    /// CPU seconds per 10^9 bytes.
    #[serde(rename = "s/GB")]
    SecondPerGigabyte,
    /// CPU cores kept busy (CPU seconds per second).
    #[serde(rename = "core")]
    Core,
    /// Hertz.
    #[serde(rename = "Hz")]
    Hertz,
}

impl Unit {
    /// The unit's symbol as printed and as written in JSON.
    #[must_use]
    pub const fn symbol(self) -> &'static str {
        match self {
            Self::BitPerSecond => "bit/s",
            Self::PacketPerSecond => "packet/s",
            Self::PerSecond => "1/s",
            Self::Byte => "B",
            Self::BytePerSecond => "B/s",
            Self::Count => "1",
            Self::Ratio => "ratio",
            Self::Second => "s",
            Self::Nanosecond => "ns",
            Self::SecondPerGigabyte => "s/GB",
            Self::Core => "core",
            Self::Hertz => "Hz",
        }
    }
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.symbol())
    }
}

/// Where bits are counted. L1 includes preamble and inter-packet gap, L2 the frame with its check sequence, L3 the IP
/// packet, L4 the transport payload as the application sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Layer {
    /// The wire: frame, preamble and gap.
    L1,
    /// The frame with FCS and tags.
    L2,
    /// The IP packet.
    L3,
    /// Transport payload.
    L4,
}

impl fmt::Display for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// Which way the data goes, seen from the job's `from` endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// `from` sends, `to` receives.
    Tx,
    /// `from` receives, `to` sends.
    Rx,
    /// Both directions added.
    Sum,
}

impl fmt::Display for Direction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tx => "tx",
            Self::Rx => "rx",
            Self::Sum => "sum",
        })
    }
}

/// A measurable: its name, unit, the layer where bits or packets are counted, and which way is better.
#[derive(Debug, PartialEq, Eq)]
pub struct Metric {
    /// The field's name, as in JSON and in plans.
    pub name: &'static str,
    /// Unit of every value of this metric.
    pub unit: Unit,
    /// Layer, where bits, bytes or packets are counted.
    pub layer: Option<Layer>,
    /// Whether a larger value is better; `None` where neither is.
    pub higher_is_better: Option<bool>,
    /// One sentence: what is counted, where, by whom.
    pub meaning: &'static str,
}

const fn m(
    name: &'static str,
    unit: Unit,
    layer: Option<Layer>,
    higher_is_better: Option<bool>,
    meaning: &'static str,
) -> Metric {
    Metric { name, unit, layer, higher_is_better, meaning }
}

const UP: Option<bool> = Some(true);
const DOWN: Option<bool> = Some(false);
const L4: Option<Layer> = Some(Layer::L4);
const L3: Option<Layer> = Some(Layer::L3);
const L2: Option<Layer> = Some(Layer::L2);

/// Every metric, alphabetically.
pub static METRICS: &[Metric] = &[
    m(
        "achieved_depth",
        Unit::Count,
        None,
        None,
        "transfers of disks and files under way, averaged over time, all workers added",
    ),
    m("all_links_used", Unit::Ratio, None, UP, "probability that every member link of a group carries a flow"),
    m("bandwidth", Unit::BitPerSecond, None, UP, "payload bits moved over a bus, or to and from a storage device"),
    m(
        "bus_transaction_rate",
        Unit::PerSecond,
        None,
        UP,
        "transactions of one payload each, moved over a bus per second",
    ),
    m("busiest_link_flows", Unit::Count, None, DOWN, "flows on the member link of a group that carries most of them"),
    m("cache_misses_per_packet", Unit::Count, L3, DOWN, "last-level cache misses per IP packet, both ends, all CPUs"),
    m(
        "calls_per_second",
        Unit::PerSecond,
        None,
        None,
        "send and receive system calls of the workload, both ends added",
    ),
    m("close_time_p50", Unit::Second, L4, DOWN, "median time from a file's last byte until it is confirmed"),
    m("close_time_p99", Unit::Second, L4, DOWN, "99th percentile of close_time"),
    m(
        "clock_uncertainty",
        Unit::Second,
        None,
        DOWN,
        "how wrong one-way times may be because the ends have two clocks; one-way times no longer than that are withheld",
    ),
    m(
        "congestion_window",
        Unit::Byte,
        L4,
        None,
        "payload the sender's congestion windows let be under way, mean over readings, all flows added",
    ),
    m("connect_time_p50", Unit::Second, L4, DOWN, "median time to open the connection that carries a file"),
    m("connect_time_p99", Unit::Second, L4, DOWN, "99th percentile of connect_time"),
    m("connection_rate", Unit::PerSecond, None, UP, "connections opened, used once and closed per second"),
    m("context_switches", Unit::PerSecond, None, DOWN, "context switches of the host, all CPUs"),
    m(
        "controller_dropped",
        Unit::Count,
        L2,
        DOWN,
        "frames from the network that a controller dropped before its sideband, by its own NC-SI statistics",
    ),
    m(
        "controller_received",
        Unit::Count,
        L2,
        UP,
        "frames from the network that a controller received for the host behind its sideband, by its own NC-SI statistics",
    ),
    m("cpu_app", Unit::Core, None, DOWN, "CPU spent in user space by the load's workers, both ends added"),
    m(
        "cpu_effectiveness",
        Unit::PerSecond,
        None,
        UP,
        "transfers of a disk or file per second over per cent of the host's CPUs in use, as Iometer's CPU Effectiveness",
    ),
    m("cpu_from", Unit::Core, None, DOWN, "CPU busy on the host of `from`: user, system, softirq and irq"),
    m("cpu_kernel", Unit::Core, None, DOWN, "CPU spent in system calls by the load's workers, both ends added"),
    m(
        "cpu_ns_per_packet",
        Unit::Nanosecond,
        L3,
        DOWN,
        "CPU time of both ends per IP packet sent and received (GSO segments are counted as packets)",
    ),
    m(
        "cpu_seconds_per_gigabyte",
        Unit::SecondPerGigabyte,
        L4,
        DOWN,
        "CPU time of both ends per 10^9 payload bytes delivered",
    ),
    m("cpu_softirq", Unit::Core, None, DOWN, "CPU spent in soft and hard interrupts, both hosts added"),
    m("cpu_steal", Unit::Core, None, DOWN, "CPU taken by the hypervisor while there was work to do, both hosts added"),
    m("cpu_to", Unit::Core, None, DOWN, "CPU busy on the host of `to`: user, system, softirq and irq"),
    m(
        "cycles_per_instruction",
        Unit::Ratio,
        None,
        DOWN,
        "CPU cycles over instructions of both hosts: what memory makes a CPU wait raises it",
    ),
    m(
        "delay_variation",
        Unit::Second,
        L4,
        DOWN,
        "99.9th percentile of the service time less the smallest (PDV of RFC 8219 7.3.1), one-way for frames",
    ),
    m(
        "delay_variation_max",
        Unit::Second,
        L4,
        DOWN,
        "largest rise of delay from one frame to the next sent on its flow (IPDV of RFC 8219 7.3.2)",
    ),
    m(
        "delay_variation_min",
        Unit::Second,
        L4,
        None,
        "largest fall of delay from one frame to the next sent on its flow, negative (IPDV of RFC 8219 7.3.2)",
    ),
    m(
        "delay_variation_p50",
        Unit::Second,
        L4,
        None,
        "median change of delay from one frame to the next sent on its flow (IPDV of RFC 8219 7.3.2)",
    ),
    m(
        "departure_gap_error_p99",
        Unit::Second,
        None,
        DOWN,
        "99th percentile of how far gaps between departures of datagrams or frames were from the mean gap intended; random and bursty \
         arrivals are meant to be far from it",
    ),
    m(
        "depth_error",
        Unit::Ratio,
        None,
        DOWN,
        "difference between the achieved depth and what Little's law makes of rate and mean service time, over the depth",
    ),
    m(
        "device_share",
        Unit::Ratio,
        None,
        None,
        "bytes the kernel counted at the disk over bytes the load read (rx) or wrote (tx): below 1 something was served by a cache, above 1 others used the disk",
    ),
    m("duplicates", Unit::Count, L4, DOWN, "datagrams received more than once"),
    m(
        "ecn_marks",
        Unit::Count,
        L4,
        DOWN,
        "segments delivered with a mark of congestion (ECN), by the sender's TCP_INFO",
    ),
    m(
        "exchange_rate",
        Unit::PerSecond,
        None,
        UP,
        "transfers of a disk or file with the reply to each per second, as Iometer's transactions",
    ),
    m(
        "fairness",
        Unit::Ratio,
        L4,
        UP,
        "Jain's index over the goodput of the flows: 1 is equal shares, 1/n is one flow taking all",
    ),
    m("first_byte_time_p50", Unit::Second, L4, DOWN, "median time from a file's request to its first byte"),
    m("first_byte_time_p99", Unit::Second, L4, DOWN, "99th percentile of first_byte_time"),
    m("goodput", Unit::BitPerSecond, L4, UP, "payload bits delivered to the receiving application, counted there"),
    m("goodput_peak", Unit::BitPerSecond, L4, UP, "highest goodput of a whole second of a file transfer"),
    m(
        "host_cpu",
        Unit::Ratio,
        None,
        DOWN,
        "share of the active host's CPUs in use, without steal: user and privileged",
    ),
    m(
        "host_cpu_irq",
        Unit::Ratio,
        None,
        DOWN,
        "share of the active host's CPUs in hard interrupts, Iometer's interrupt time",
    ),
    m(
        "host_cpu_privileged",
        Unit::Ratio,
        None,
        DOWN,
        "share of the active host's CPUs in the kernel, interrupts included",
    ),
    m(
        "host_cpu_softirq",
        Unit::Ratio,
        None,
        DOWN,
        "share of the active host's CPUs in soft interrupts, Iometer's DPC time",
    ),
    m("host_cpu_user", Unit::Ratio, None, DOWN, "share of the active host's CPUs in user space"),
    m(
        "host_packet_errors",
        Unit::PerSecond,
        None,
        DOWN,
        "errors of sending and receiving at the active host's interfaces, without lo",
    ),
    m(
        "host_packets",
        Unit::PacketPerSecond,
        None,
        None,
        "packets sent and received at the active host's interfaces, without lo",
    ),
    m("host_retransmits", Unit::PerSecond, None, DOWN, "TCP segments the active host's network namespace sent again"),
    m("idle_core", Unit::Ratio, None, None, "share of time that the idlest CPU of either host was idle"),
    m("in_flight", Unit::Byte, L4, None, "payload bytes sent and not yet acknowledged"),
    m("instructions_per_packet", Unit::Count, L3, DOWN, "instructions retired per IP packet, both ends, all CPUs"),
    m("interrupts", Unit::PerSecond, None, None, "interrupts served, all vectors, both hosts added"),
    m(
        "io_stalled",
        Unit::Ratio,
        None,
        DOWN,
        "share of time in which some task of the receiving host stalled for storage (PSI)",
    ),
    m("iops", Unit::PerSecond, None, UP, "transfers of a disk or file that ended well per second: rx reads, tx writes"),
    m(
        "iops_per_core",
        Unit::PerSecond,
        None,
        UP,
        "transfers of a disk or file per second of CPU that the load's workers spent, in user space and in system calls",
    ),
    m("late", Unit::Count, L4, DOWN, "datagrams that arrived after the drain ended or after their deadline"),
    m(
        "link_balance",
        Unit::Ratio,
        None,
        UP,
        "mean over largest load of the member links of a group: 1 is an even spread",
    ),
    m("links_available", Unit::Count, None, None, "member links of the groups that the flows cross"),
    m("links_used", Unit::Count, None, UP, "member links of a group that carry at least one flow"),
    m("loss_ratio", Unit::Ratio, L4, DOWN, "datagrams or requests sent and never received, over those sent"),
    m(
        "lost",
        Unit::Count,
        L4,
        DOWN,
        "datagrams or requests sent and never received: gaps, tails and black holes alike",
    ),
    m("message_rate", Unit::PerSecond, L4, UP, "application messages delivered per second"),
    m(
        "null_step_cost",
        Unit::Nanosecond,
        None,
        DOWN,
        "cost of one engine step with tally, pacer and interval accounting and nothing else",
    ),
    m("pacing_error", Unit::Ratio, None, DOWN, "operations of an open load started over those due, as distance from 1"),
    m(
        "pacing_rate",
        Unit::BitPerSecond,
        L3,
        None,
        "rate at which the sender's kernel paces, mean over readings, all flows added; headers included",
    ),
    m(
        "packet_rate",
        Unit::PacketPerSecond,
        L3,
        UP,
        "IP packets delivered to the receiving host, in the direction of the data",
    ),
    m("packets_per_interrupt", Unit::Count, L3, None, "IP packets received per interrupt of the receiving device"),
    m("payload_per_send", Unit::Byte, L4, None, "payload bytes handed over per system call that sends"),
    m("peer_window", Unit::Byte, L4, None, "largest receive window that the sender saw advertised, all flows added"),
    m(
        "receive_queue",
        Unit::Ratio,
        L4,
        DOWN,
        "kernel memory held for what had arrived and was not read, over the receive buffers",
    ),
    m(
        "receiver_cpu",
        Unit::Core,
        None,
        DOWN,
        "CPU of the busiest worker thread at the end that receives, user and system",
    ),
    m(
        "receiver_throttled",
        Unit::Ratio,
        None,
        DOWN,
        "share of scheduling periods in which the receiving host's control group had used up its CPU quota",
    ),
    m(
        "remote_cpus",
        Unit::Ratio,
        None,
        DOWN,
        "share of the CPUs that workers are pinned to which lie in another NUMA node than their network device, worse end",
    ),
    m("reordered", Unit::Count, L4, DOWN, "datagrams that arrived after one with a higher sequence number"),
    m(
        "response_time",
        Unit::Second,
        L4,
        DOWN,
        "from the intended start of a request to the end of its response; of a frame, from its scheduled departure to its receipt (one way)",
    ),
    m("response_time_max", Unit::Second, L4, DOWN, "largest response time; infinite when a request was lost"),
    m("response_time_p50", Unit::Second, L4, DOWN, "median response time"),
    m("response_time_p90", Unit::Second, L4, DOWN, "90th percentile of the response time"),
    m("response_time_p99", Unit::Second, L4, DOWN, "99th percentile of the response time"),
    m("response_time_p999", Unit::Second, L4, DOWN, "99.9th percentile of the response time"),
    m("response_time_p9999", Unit::Second, L4, DOWN, "99.99th percentile of the response time"),
    m(
        "retransmit_ratio",
        Unit::Ratio,
        L4,
        DOWN,
        "payload bytes retransmitted over payload bytes sent, from TCP_INFO of the sender",
    ),
    m("retransmits", Unit::Count, L4, DOWN, "TCP segments retransmitted, from TCP_INFO of the sender"),
    m("rtt", Unit::Second, L4, DOWN, "smoothed round-trip time of TCP_INFO, mean over intervals and flows"),
    m("rtt_min", Unit::Second, L4, DOWN, "smallest round-trip time TCP saw"),
    m(
        "run_queue_wait",
        Unit::Ratio,
        None,
        DOWN,
        "share of the measured time in which the worker that waited most was ready to run and had no CPU, wake-ups and waits for each other included",
    ),
    m("rwnd_limited", Unit::Ratio, L4, DOWN, "share of time the sender waited for the peer's receive window"),
    m("sender_busy", Unit::Ratio, L4, None, "share of time the sender had data to send or unacknowledged"),
    m("sender_cpu", Unit::Core, None, DOWN, "CPU of the busiest worker thread at the end that sends, user and system"),
    m(
        "sender_throttled",
        Unit::Ratio,
        None,
        DOWN,
        "share of scheduling periods in which the sending host's control group had used up its CPU quota",
    ),
    m("service_time_max", Unit::Second, L4, DOWN, "largest service time"),
    m("service_time_mean", Unit::Second, L4, DOWN, "mean service time"),
    m("service_time_min", Unit::Second, L4, DOWN, "smallest service time"),
    m(
        "service_time_p50",
        Unit::Second,
        L4,
        DOWN,
        "median service time, from the actual start of a request, or the hand-over of a frame",
    ),
    m("service_time_p90", Unit::Second, L4, DOWN, "90th percentile of the service time"),
    m("service_time_p99", Unit::Second, L4, DOWN, "99th percentile of the service time"),
    m("service_time_p999", Unit::Second, L4, DOWN, "99.9th percentile of the service time"),
    m("service_time_p9999", Unit::Second, L4, DOWN, "99.99th percentile of the service time"),
    m("sndbuf_limited", Unit::Ratio, L4, DOWN, "share of time the sender waited for its own send buffer"),
    m(
        "softirq_core",
        Unit::Ratio,
        None,
        DOWN,
        "share of time that the CPU of either host which handles most interrupts spent in softirq and irq",
    ),
    m("softnet_dropped", Unit::Count, L3, DOWN, "packets dropped at the per-CPU backlog, both hosts"),
    m(
        "softnet_squeezed",
        Unit::Count,
        L3,
        DOWN,
        "times the softirq ran out of budget with packets waiting, both hosts",
    ),
    m(
        "start_skew",
        Unit::Second,
        None,
        DOWN,
        "difference between the two ends' start of the trial, with the clock uncertainty added",
    ),
    m(
        "steady_range",
        Unit::Ratio,
        None,
        DOWN,
        "largest less smallest rate of transfers in fifths of a trial, over their mean: at most 20 % in a steady state",
    ),
    m(
        "steady_trend",
        Unit::Ratio,
        None,
        DOWN,
        "rise or fall of a straight line through the rates of transfers in fifths of a trial, over their mean: at most 10 % in a steady state",
    ),
    m(
        "throughput_l2",
        Unit::BitPerSecond,
        Some(Layer::L2),
        UP,
        "frame bits, with the frame check sequence, received at the device",
    ),
    m("transaction_rate", Unit::PerSecond, L4, UP, "requests answered per second"),
    m(
        "transfer_errors",
        Unit::Count,
        None,
        DOWN,
        "reads (rx) and writes (tx) that failed or were cut short in a trial",
    ),
    m(
        "transfer_rate",
        Unit::BytePerSecond,
        None,
        UP,
        "bytes of a disk or file read (rx) or written (tx) per second, shown in MB/s of 10^6 bytes",
    ),
    m(
        "transfer_rate_binary",
        Unit::BytePerSecond,
        None,
        UP,
        "the same as transfer_rate, shown in MiB/s of 2^20 bytes, as Iometer's MiBps",
    ),
    m("transfer_time_p50", Unit::Second, L4, DOWN, "median time from the first byte of a file to its last"),
    m("transfer_time_p99", Unit::Second, L4, DOWN, "99th percentile of transfer_time"),
    m(
        "unsent",
        Unit::Byte,
        L4,
        None,
        "payload in the sender's queues that was never sent, mean over readings, all flows added",
    ),
    m(
        "window_swing",
        Unit::Ratio,
        L4,
        DOWN,
        "smallest over largest window the peer advertised to one flow, as a distance from 1; the flow where it moved most",
    ),
];

/// The metric called `name`.
#[must_use]
pub fn metric(name: &str) -> Option<&'static Metric> {
    METRICS.iter().find(|metric| metric.name == name)
}
