//! The table of every metric: the only place that spells a metric's name.
//!
//! A new metric is one row here and the code that computes it. The columns of the row say where it
//! is shown and what may be done with it; lists of metrics elsewhere are read from them.

use super::Use::{
    Account, Answer, AsGoodput, Asked, ByCount, BySetting, BySize, Cost, Counted, CpuPart,
    DiskCost, DiskFlush, DiskLookedAt, DiskRate, DiskTime, EndLoss, Family, FileOnly, LookedAt,
    Mean, Mixed, OneWay, OverTime, Points, Request, ResponseBesideRate, Served, StorageTime,
    StreamOnly, StreamRate, Sweep, TableOverTime, WorkerCpu,
};
use super::source::Source::{
    ControllerCount, DiskSum, DiskWays, HostCount, HostRate, OperationRate, PerPacket, SendingTime,
};
use super::{Layer, Metric, MetricGroup, Shown, Times, Unit, Values};
use crate::Counter;
use crate::series::{context_switches, interrupts, ncsi, perf_hardware, softnet};

const UP: Option<bool> = Some(true);
const DOWN: Option<bool> = Some(false);
const NEITHER: Option<bool> = None;
const L4: Option<Layer> = Some(Layer::L4);
const L3: Option<Layer> = Some(Layer::L3);
const L2: Option<Layer> = Some(Layer::L2);
const NO: Option<Layer> = None;

/// Declares each metric as a constant of its name, and [`METRICS`].
macro_rules! metrics {
    ($($constant:ident = $group:ident($name:literal, $title:literal, $unit:expr, $layer:expr,
        $better:expr, $meaning:literal)
        $(.$column:ident($($value:expr),*))*;)*) => {
        $(
            #[doc = $meaning]
            pub const $constant: &Metric =
                &Metric::row(MetricGroup::$group, $name, $title, $unit, $layer, $better, $meaning)
                    $(.$column($($value),*))*;
        )*

        /// Every metric, in the order in which figures are shown.
        pub static METRICS: &[&Metric] = &[$($constant),*];
    };
}

metrics! {
    // Rates.
    GOODPUT_SERVED = Rate("goodput_served", "Goodput served", Unit::BitPerSecond, L4, UP,
        "payload that clients of other programs took or sent, over the time in which a file was \
         under way: nobody asks what our server did while they were away").chief(1)
        .used(&[FileOnly, Served]);
    GOODPUT = Rate("goodput", "Goodput", Unit::BitPerSecond, L4, UP,
        "payload bits delivered to the receiving application, counted there").adds_up().chief(2)
        .used(&[
            Answer, ByCount, BySetting, BySize, Family, Mean, OverTime, Points, Served,
            StreamOnly, StreamRate, Sweep,
        ]);
    GOODPUT_PEAK = Rate("goodput_peak", "Goodput peak", Unit::BitPerSecond, L4, UP,
        "highest goodput of a whole second of a file transfer").used(&[Served]);
    THROUGHPUT_L2 = Rate("throughput_l2", "Throughput l2", Unit::BitPerSecond, L2, UP,
        "frame bits, with the frame check sequence, received at the device")
        .used(&[AsGoodput, Points, StreamOnly]);
    PACKET_RATE = Rate("packet_rate", "Packet rate", Unit::PacketPerSecond, L3, UP,
        "IP packets delivered to the receiving host, in the direction of the data").adds_up()
        .chief(7)
        .used(&[AsGoodput, ByCount, BySetting, BySize, Family, Points, StreamOnly, StreamRate]);
    MESSAGE_RATE = Rate("message_rate", "Message rate", Unit::PerSecond, L4, UP,
        "application messages delivered per second").adds_up().used(&[AsGoodput, Points]);
    TRANSACTION_RATE = Rate("transaction_rate", "Transaction rate", Unit::PerSecond, L4, UP,
        "requests answered per second").adds_up().chief(4)
        .used(&[
            Answer, Asked, ByCount, BySetting, BySize, Family, Mean, OverTime, Points, Request,
            Served, Sweep,
        ])
        .from(OperationRate(Counter::Transactions));
    CONNECTION_RATE = Rate("connection_rate", "Connection rate", Unit::PerSecond, NO, UP,
        "connections opened, used once and closed per second").adds_up().chief(3)
        .used(&[
            Answer, Asked, ByCount, BySetting, Family, Mean, OverTime, Points, Request, Sweep,
        ])
        .from(OperationRate(Counter::Connections));
    IOPS = Rate("iops", "IOPS", Unit::PerSecond, NO, UP,
        "transfers of a disk or file that ended well per second: rx reads, tx writes").adds_up()
        .chief(5).used(&[Asked, ByCount, BySize, DiskRate, Family, Points, Sweep])
        .from(DiskWays { tx: Counter::Writes, rx: Counter::Reads });
    TRANSFER_RATE = Rate("transfer_rate", "Transfer rate", Unit::BytePerSecond, NO, UP,
        "bytes of a disk or file read (rx) or written (tx) per second, shown in MB/s of 10^6 bytes")
        .adds_up().chief(6).used(&[BySize, DiskRate, Points])
        .from(DiskWays { tx: Counter::BytesWritten, rx: Counter::BytesRead });
    TRANSFER_RATE_BINARY = Rate("transfer_rate_binary", "Transfer rate binary",
        Unit::BytePerSecond, NO, UP,
        "the same as transfer_rate, shown in MiB/s of 2^20 bytes, as Iometer's MiBps").adds_up()
        .used(&[DiskRate, Points]).shown(Shown::BinaryPrefixes)
        .from(DiskWays { tx: Counter::BytesWritten, rx: Counter::BytesRead });
    EXCHANGE_RATE = Rate("exchange_rate", "Exchange rate", Unit::PerSecond, NO, UP,
        "transfers of a disk or file with the reply to each per second, as Iometer's transactions")
        .adds_up().used(&[Asked, DiskCost])
        .from(DiskSum(Counter::Exchanges));
    FLUSH_RATE = Rate("flush_rate", "Flush rate", Unit::PerSecond, NO, NEITHER,
        "flushes of a disk or file (fsync, fdatasync) per second").adds_up()
        .used(&[DiskFlush])
        .from(DiskSum(Counter::Flushes));
    TRIM_RATE = Rate("trim_rate", "Trim rate", Unit::PerSecond, NO, UP,
        "discards of a disk or file per second").adds_up()
        .used(&[DiskFlush])
        .from(DiskSum(Counter::Trims));
    TRIM_BYTES = Rate("trim_bytes", "Trim bytes", Unit::BytePerSecond, NO, UP,
        "bytes of a disk or file discarded per second").adds_up()
        .from(DiskSum(Counter::BytesTrimmed));
    BANDWIDTH = Rate("bandwidth", "Bandwidth", Unit::BitPerSecond, NO, UP,
        "payload bits moved over a bus, or to and from a storage device").used(&[Family]);
    BUS_TRANSACTION_RATE = Rate("bus_transaction_rate", "Bus transaction rate",
        Unit::PerSecond, NO, UP,
        "transactions of one payload each, moved over a bus per second");
    FOREIGN_GOODPUT = Rate("foreign_goodput", "Foreign goodput", Unit::BitPerSecond, L4, UP,
        "payload bits that a receiver that is not linerate counted, such as an iperf3 server, over \
         its whole load: warm-up included").used(&[Points]);
    CALLS_PER_SECOND = Rate("calls_per_second", "Calls per second", Unit::PerSecond, NO, NEITHER,
        "send and receive system calls of the workload, both ends added").adds_up();
    // Times of requests, frames and transfers.
    RESPONSE_TIME = Time("response_time", "Response time", Unit::Second, NO, DOWN,
        "from the intended start of a request to the end of its response; of a frame, from its \
         scheduled departure to its receipt (one way)").mean(Times::Response);
    RESPONSE_TIME_P50 = Time("response_time_p50", "Response time p50", Unit::Second, NO, DOWN,
        "median response time").quantile(Times::Response, 0.5)
        .used(&[Answer, BySize, Family, Mixed, Points, ResponseBesideRate]);
    RESPONSE_TIME_P90 = Time("response_time_p90", "Response time p90", Unit::Second, NO, DOWN,
        "90th percentile of the response time").quantile(Times::Response, 0.9);
    RESPONSE_TIME_P99 = Time("response_time_p99", "Response time p99", Unit::Second, NO, DOWN,
        "99th percentile of the response time").quantile(Times::Response, 0.99)
        .used(&[Answer, BySetting, DiskCost, Family, Mixed, Points, ResponseBesideRate]);
    RESPONSE_TIME_P999 = Time("response_time_p999", "Response time p99.9", Unit::Second, NO, DOWN,
        "99.9th percentile of the response time").quantile(Times::Response, 0.999)
        .used(&[Mixed, ResponseBesideRate]);
    RESPONSE_TIME_P9999 = Time("response_time_p9999", "Response time p99.99",
        Unit::Second, NO, DOWN,
        "99.99th percentile of the response time").quantile(Times::Response, 0.9999);
    RESPONSE_TIME_MAX = Time("response_time_max", "Response time max", Unit::Second, NO, DOWN,
        "largest response time; infinite when a request was lost").largest(Times::Response);
    SERVICE_TIME_MIN = Time("service_time_min", "Service time min", Unit::Second, NO, DOWN,
        "smallest service time").smallest(Times::Service);
    SERVICE_TIME_MEAN = Time("service_time_mean", "Service time mean", Unit::Second, NO, DOWN,
        "mean service time").mean(Times::Service).used(&[DiskTime, StorageTime]);
    SERVICE_TIME_P50 = Time("service_time_p50", "Service time p50", Unit::Second, NO, DOWN,
        "median service time, from the actual start of a request, or the hand-over of a frame")
        .quantile(Times::Service, 0.5).used(&[DiskTime, Mixed, OneWay]);
    SERVICE_TIME_P90 = Time("service_time_p90", "Service time p90", Unit::Second, NO, DOWN,
        "90th percentile of the service time").quantile(Times::Service, 0.9)
        .used(&[Mixed, StorageTime]);
    SERVICE_TIME_P99 = Time("service_time_p99", "Service time p99", Unit::Second, NO, DOWN,
        "99th percentile of the service time").quantile(Times::Service, 0.99)
        .used(&[DiskTime, Mixed]);
    SERVICE_TIME_P999 = Time("service_time_p999", "Service time p99.9", Unit::Second, NO, DOWN,
        "99.9th percentile of the service time").quantile(Times::Service, 0.999)
        .used(&[DiskTime, Mixed, OneWay]);
    SERVICE_TIME_P9999 = Time("service_time_p9999", "Service time p99.99", Unit::Second, NO, DOWN,
        "99.99th percentile of the service time").quantile(Times::Service, 0.9999)
        .used(&[StorageTime]);
    SERVICE_TIME_MAX = Time("service_time_max", "Service time max", Unit::Second, NO, DOWN,
        "largest service time").largest(Times::Service).used(&[DiskTime, StorageTime]);
    FLUSH_TIME_MEAN = Time("flush_time_mean", "Flush time mean", Unit::Second, NO, DOWN,
        "mean flush time").mean(Times::Flush);
    FLUSH_TIME_P50 = Time("flush_time_p50", "Flush time p50", Unit::Second, NO, DOWN,
        "median time from the start of a flush (fsync, fdatasync) to its end")
        .quantile(Times::Flush, 0.5)
        .used(&[DiskFlush]);
    FLUSH_TIME_P99 = Time("flush_time_p99", "Flush time p99", Unit::Second, NO, DOWN,
        "99th percentile of flush_time").quantile(Times::Flush, 0.99)
        .used(&[DiskFlush]);
    FLUSH_TIME_MAX = Time("flush_time_max", "Flush time max", Unit::Second, NO, DOWN,
        "largest flush time").largest(Times::Flush);
    TRIM_TIME_MEAN = Time("trim_time_mean", "Trim time mean", Unit::Second, NO, DOWN,
        "mean discard time").mean(Times::Trim);
    TRIM_TIME_P50 = Time("trim_time_p50", "Trim time p50", Unit::Second, NO, DOWN,
        "median time from the start of a discard to its end").quantile(Times::Trim, 0.5)
        .used(&[DiskFlush]);
    TRIM_TIME_P99 = Time("trim_time_p99", "Trim time p99", Unit::Second, NO, DOWN,
        "99th percentile of trim_time").quantile(Times::Trim, 0.99)
        .used(&[DiskFlush]);
    TRIM_TIME_MAX = Time("trim_time_max", "Trim time max", Unit::Second, NO, DOWN,
        "largest discard time").largest(Times::Trim);
    CONNECT_TIME_P50 = Time("connect_time_p50", "Connect time p50", Unit::Second, NO, DOWN,
        "median time to open the connection that carries a file").quantile(Times::Connect, 0.5);
    CONNECT_TIME_P99 = Time("connect_time_p99", "Connect time p99", Unit::Second, NO, DOWN,
        "99th percentile of connect_time").quantile(Times::Connect, 0.99);
    FIRST_BYTE_TIME_P50 = Time("first_byte_time_p50", "First byte time p50", Unit::Second, NO, DOWN,
        "median time from a file's request to its first byte").quantile(Times::FirstByte, 0.5);
    FIRST_BYTE_TIME_P99 = Time("first_byte_time_p99", "First byte time p99", Unit::Second, NO, DOWN,
        "99th percentile of first_byte_time").quantile(Times::FirstByte, 0.99);
    TRANSFER_TIME_P50 = Time("transfer_time_p50", "Transfer time p50", Unit::Second, NO, DOWN,
        "median time from the first byte of a file to its last")
        .quantile(Times::Transfer, 0.5).used(&[FileOnly, Served]);
    TRANSFER_TIME_P99 = Time("transfer_time_p99", "Transfer time p99", Unit::Second, NO, DOWN,
        "99th percentile of transfer_time").quantile(Times::Transfer, 0.99).used(&[Served]);
    CLOSE_TIME_P50 = Time("close_time_p50", "Close time p50", Unit::Second, NO, DOWN,
        "median time from a file's last byte until it is confirmed").quantile(Times::Close, 0.5);
    CLOSE_TIME_P99 = Time("close_time_p99", "Close time p99", Unit::Second, NO, DOWN,
        "99th percentile of close_time").quantile(Times::Close, 0.99);
    // Losses, and operations accounted for.
    LOSS_RATIO = Loss("loss_ratio", "Loss ratio", Unit::Ratio, L4, DOWN,
        "lost over what was due in the measured span (of datagrams and frames: over those sent in \
         it)").with(Values::ShareOfCounts).used(&[Answer, BySetting, EndLoss, Family, Points]);
    LOST = Loss("lost", "Lost", Unit::Count, L4, DOWN,
        "of what was due in the measured span: datagrams and frames that never came, operations \
         that ended without an answer").adds_up().with(Values::Whole);
    OUTAGE = Loss("outage", "Outage", Unit::Second, NO, DOWN,
        "longest outage of a flow of frames in the whole trial: time between the departures (or \
         arrivals) of the frames before and after the most frames in a row that never came; zero \
         if none is missing").used(&[Points]);
    OUTAGE_LOST = Loss("outage_lost", "Outage lost", Unit::Count, L4, DOWN,
        "frames in a row that never came in the longest outage of a flow").with(Values::Whole);
    LATE = Loss("late", "Late", Unit::Count, L4, DOWN,
        "datagrams that arrived after the drain ended or after their deadline").adds_up()
        .with(Values::Whole);
    DUPLICATES = Loss("duplicates", "Duplicates", Unit::Count, L4, DOWN,
        "datagrams received more than once").adds_up().with(Values::Whole);
    REORDERED = Loss("reordered", "Reordered", Unit::Count, L4, DOWN,
        "datagrams that arrived after one with a higher sequence number").adds_up()
        .with(Values::Whole);
    RETRANSMITS = Loss("retransmits", "Retransmits", Unit::Count, L4, DOWN,
        "TCP segments retransmitted, from TCP_INFO of the sender").adds_up().with(Values::Whole)
        .used(&[Answer, EndLoss, Points]);
    FOREIGN_RETRANSMITS = Loss("foreign_retransmits", "Foreign retransmits", Unit::Count, L4, DOWN,
        "TCP segments that a sender that is not linerate reports to have sent again in its whole \
         load, warm-up included").adds_up().with(Values::Whole).used(&[Points]);
    RETRANSMIT_RATIO = Loss("retransmit_ratio", "Retransmit ratio", Unit::Ratio, L4, DOWN,
        "payload bytes retransmitted over payload bytes sent, from TCP_INFO of the sender")
        .with(Values::ShareOfCounts).used(&[LookedAt]);
    ACKNOWLEDGEMENTS = Rate("acknowledgements", "Acknowledgements", Unit::PerSecond, L4, NEITHER,
        "segments without payload that the sender received per second, by its TCP_INFO").adds_up();
    ECN_MARKS = Rate("ecn_marks", "Ecn marks", Unit::Count, L4, DOWN,
        "segments delivered with a mark of congestion (ECN), by the sender's TCP_INFO")
        .with(Values::Whole);
    CONTROLLER_RECEIVED = Rate("controller_received", "Controller received", Unit::Count, L2, UP,
        "frames from the network that a controller received for the host behind its sideband, by \
         its own NC-SI statistics").with(Values::Whole)
        .from(ControllerCount(ncsi::PASS_THROUGH_RECEIVED));
    CONTROLLER_DROPPED = Loss("controller_dropped", "Controller dropped", Unit::Count, L2, DOWN,
        "frames from the network that a controller dropped before its sideband, by its own NC-SI \
         statistics").with(Values::Whole).used(&[Points])
        .from(ControllerCount(ncsi::PASS_THROUGH_DROPPED));
    SOFTNET_DROPPED = Loss("softnet_dropped", "Softnet dropped", Unit::Count, L3, DOWN,
        "packets dropped at the per-CPU backlog, both hosts").with(Values::Whole)
        .from(HostCount(softnet::DROPPED));
    SOFTNET_SQUEEZED = Rate("softnet_squeezed", "Softnet squeezed", Unit::Count, L3, DOWN,
        "times the softirq ran out of budget with packets waiting, both hosts").with(Values::Whole)
        .from(HostCount(softnet::SQUEEZED));
    TRANSFER_ERRORS = Rate("transfer_errors", "Transfer errors", Unit::Count, NO, DOWN,
        "reads (rx) and writes (tx) that failed or were cut short in a trial").adds_up()
        .with(Values::Whole);
    OPERATIONS_DUE = Rate("operations_due", "Operations due", Unit::Count, NO, NEITHER,
        "requests, connections, files and transfers whose intended start lies in the measured \
         span, datagrams and frames sent in it, and those of an open load never sent: \
         operations_answered + operations_lost + operations_open").used(&[Account]);
    OPERATIONS_ANSWERED = Rate("operations_answered", "Operations answered", Unit::Count, NO, UP,
        "of operations_due, those that were answered, completed or (datagrams, frames) received, \
         in the span or in the drain after it").used(&[Account]);
    OPERATIONS_LOST = Loss("operations_lost", "Operations lost", Unit::Count, NO, DOWN,
        "of operations_due, those that ended without an answer: timeout, failure or end of the \
         connection; datagrams and frames that never came").used(&[Account]);
    OPERATIONS_OPEN = Rate("operations_open", "Operations open", Unit::Count, NO, DOWN,
        "of operations_due, those still waiting at the end of the drain, and those of an open load \
         never started").used(&[Account]);
    UNANSWERED_RATIO = Rate("unanswered_ratio", "Unanswered ratio", Unit::Ratio, NO, DOWN,
        "operations_lost and operations_open over operations_due").used(&[Answer]);
    // TCP's own state, and the flows.
    RTT = Time("rtt", "RTT", Unit::Second, NO, DOWN,
        "smoothed round-trip time of TCP_INFO, mean over intervals and flows")
        .used(&[LookedAt, Mixed, Points, TableOverTime]);
    RTT_MIN = Time("rtt_min", "RTT min", Unit::Second, NO, DOWN,
        "smallest round-trip time TCP saw");
    CONGESTION_WINDOW = Rate("congestion_window", "Congestion window", Unit::Byte, L4, NEITHER,
        "payload the sender's congestion windows let be under way, mean over readings, all flows \
         added");
    PEER_WINDOW = Rate("peer_window", "Peer window", Unit::Byte, L4, NEITHER,
        "largest receive window that the sender saw advertised, all flows added")
        .used(&[TableOverTime]);
    WINDOW_SWING = Rate("window_swing", "Window swing", Unit::Ratio, L4, DOWN,
        "smallest over largest window the peer advertised to one flow, as a distance from 1; the \
         flow where it moved most").with(Values::ShareOfCounts);
    IN_FLIGHT = Rate("in_flight", "In flight", Unit::Byte, L4, NEITHER,
        "payload bytes sent and not yet acknowledged");
    UNSENT = Rate("unsent", "Unsent", Unit::Byte, L4, NEITHER,
        "payload in the sender's queues that was never sent, mean over readings, all flows added");
    RECEIVE_QUEUE = Rate("receive_queue", "Receive queue", Unit::Ratio, L4, DOWN,
        "kernel memory held for what had arrived and was not read, over the receive buffers")
        .with(Values::FreeRatio).used(&[LookedAt]);
    RWND_LIMITED = Rate("rwnd_limited", "Rwnd limited", Unit::Ratio, L4, DOWN,
        "share of time the sender waited for the peer's receive window").used(&[LookedAt])
        .from(SendingTime(|tcp| tcp.receive_window_limited_us));
    SNDBUF_LIMITED = Rate("sndbuf_limited", "Sndbuf limited", Unit::Ratio, L4, DOWN,
        "share of time the sender waited for its own send buffer").used(&[LookedAt])
        .from(SendingTime(|tcp| tcp.send_buffer_limited_us));
    SENDER_BUSY = Rate("sender_busy", "Sender busy", Unit::Ratio, L4, NEITHER,
        "share of time the sender had data to send or unacknowledged").used(&[LookedAt])
        .from(SendingTime(|tcp| tcp.busy_us));
    SOURCE_WAIT = Rate("source_wait", "Source wait", Unit::Ratio, L4, DOWN,
        "share of time the sending workers had nothing to send: their source had produced nothing");
    IO_STALLED = Rate("io_stalled", "Io stalled", Unit::Ratio, NO, DOWN,
        "share of time in which some task of the receiving host stalled for storage (PSI)");
    PACING_RATE = Rate("pacing_rate", "Pacing rate", Unit::BitPerSecond, L3, NEITHER,
        "rate at which the sender's kernel paces, median of each flow's readings, all flows added; \
         headers included");
    PAYLOAD_PER_SEND = Rate("payload_per_send", "Payload per send", Unit::Byte, L4, NEITHER,
        "payload bytes handed over per system call that sends");
    FAIRNESS = Rate("fairness", "Fairness", Unit::Ratio, L4, UP,
        "Jain's index over the goodput of the flows: 1 is equal shares, 1/n is one flow taking all")
        .with(Values::ShareOfCounts).used(&[Points, ByCount]).shown(Shown::PlainNumber);
    // One-way delay.
    DELAY_VARIATION = Time("delay_variation", "Delay variation", Unit::Second, NO, DOWN,
        "99.9th percentile of the service time less the smallest (PDV of RFC 8219 7.3.1), one-way \
         for frames").used(&[Mixed, OneWay]);
    DELAY_VARIATION_MIN = Time("delay_variation_min", "Delay variation min",
        Unit::Second, NO, NEITHER,
        "largest fall of delay from one frame to the next sent on its flow, negative (IPDV of RFC \
         8219 7.3.2)").smallest(Times::Variation).with(Values::Difference);
    DELAY_VARIATION_P50 = Time("delay_variation_p50", "Delay variation p50",
        Unit::Second, NO, NEITHER,
        "median change of delay from one frame to the next sent on its flow (IPDV of RFC 8219 \
         7.3.2)").quantile(Times::Variation, 0.5).with(Values::Difference);
    DELAY_VARIATION_MAX = Time("delay_variation_max", "Delay variation max", Unit::Second, NO, DOWN,
        "largest rise of delay from one frame to the next sent on its flow (IPDV of RFC 8219 \
         7.3.2)").largest(Times::Variation);
    CLOCK_UNCERTAINTY = Rate("clock_uncertainty", "Clock uncertainty", Unit::Second, NO, DOWN,
        "how wrong one-way times may be because the ends have two clocks; one-way times no longer \
         than that are withheld");
    // What it costs, and the hosts.
    CPU_SECONDS_PER_GIGABYTE = Cost("cpu_seconds_per_gigabyte", "CPU seconds per gigabyte",
        Unit::SecondPerGigabyte, L4, DOWN,
        "CPU time of both ends per 10^9 payload bytes delivered")
        .used(&[Points, Cost, Answer, StreamOnly]);
    CPU_NS_PER_PACKET = Cost("cpu_ns_per_packet", "CPU time per packet", Unit::Nanosecond, L3, DOWN,
        "CPU time of both ends per IP packet sent and received (GSO segments are counted as \
         packets)").used(&[Points, Cost, StreamOnly]);
    INSTRUCTIONS_PER_PACKET = Cost("instructions_per_packet", "Instructions per packet",
        Unit::Count, L3, DOWN,
        "instructions retired per IP packet, both ends, all CPUs").used(&[Cost, Counted])
        .from(PerPacket(perf_hardware::INSTRUCTIONS));
    CACHE_MISSES_PER_PACKET = Cost("cache_misses_per_packet", "Cache misses per packet",
        Unit::Count, L3, DOWN,
        "last-level cache misses per IP packet, both ends, all CPUs").used(&[Cost, Counted])
        .from(PerPacket(perf_hardware::CACHE_MISSES));
    L1_MISSES_PER_PACKET = Cost("l1_misses_per_packet", "Level-1 misses per packet",
        Unit::Count, L3, DOWN,
        "reads that miss the level-1 data cache per IP packet, both ends, all CPUs")
        .used(&[Cost, Counted]).from(PerPacket(perf_hardware::L1_DATA_MISSES));
    PACKETS_PER_INTERRUPT = Cost("packets_per_interrupt", "Packets per interrupt",
        Unit::Count, L3, NEITHER,
        "IP packets received per interrupt of the receiving device").used(&[Cost, Counted]);
    CYCLES_PER_INSTRUCTION = Cost("cycles_per_instruction", "Cycles per instruction",
        Unit::Ratio, NO, DOWN,
        "CPU cycles over instructions of both hosts: what memory makes a CPU wait raises it")
        .with(Values::FreeRatio);
    INTERRUPTS = Cost("interrupts", "Interrupts", Unit::PerSecond, NO, NEITHER,
        "interrupts served, all vectors, both hosts added")
        .from(HostRate(interrupts::TOTAL));
    CONTEXT_SWITCHES = Cost("context_switches", "Context switches", Unit::PerSecond, NO, DOWN,
        "context switches of the host, all CPUs").used(&[Cost])
        .from(HostRate(context_switches::SWITCHES));
    CPU_APP = Cost("cpu_app", "CPU: application", Unit::Core, NO, DOWN,
        "CPU spent in user space by the load's workers, both ends added").adds_up()
        .used(&[CpuPart]);
    CPU_KERNEL = Cost("cpu_kernel", "CPU: system calls", Unit::Core, NO, DOWN,
        "CPU spent in system calls by the load's workers, both ends added").adds_up()
        .used(&[CpuPart]);
    CPU_SOFTIRQ = Cost("cpu_softirq", "CPU: softirq and irq", Unit::Core, NO, DOWN,
        "CPU spent in soft and hard interrupts, both hosts added")
        .used(&[CpuPart]);
    CPU_STEAL = Cost("cpu_steal", "CPU steal", Unit::Core, NO, DOWN,
        "CPU taken by the hypervisor while there was work to do, both hosts added");
    CPU_FROM = Cost("cpu_from", "CPU from", Unit::Core, NO, DOWN,
        "CPU busy on the host of `from`: user, system, softirq and irq");
    CPU_TO = Cost("cpu_to", "CPU to", Unit::Core, NO, DOWN,
        "CPU busy on the host of `to`: user, system, softirq and irq");
    CPU_OF_OTHERS = Cost("cpu_of_others", "CPU of others", Unit::Ratio, NO, NEITHER,
        "part of both hosts' CPU use that other programs had in user space");
    SENDER_CPU = Cost("sender_cpu", "Sender CPU", Unit::Core, NO, DOWN,
        "CPU of the busiest worker thread at the end that sends, user and system")
        .with(Values::CpuOfOneThread).used(&[LookedAt, WorkerCpu]);
    RECEIVER_CPU = Cost("receiver_cpu", "Receiver CPU", Unit::Core, NO, DOWN,
        "CPU of the busiest worker thread at the end that receives, user and system")
        .with(Values::CpuOfOneThread).used(&[LookedAt, WorkerCpu]);
    FOREIGN_CPU = Cost("foreign_cpu", "Foreign CPU", Unit::Core, NO, DOWN,
        "CPU of the program at an end that is not linerate, as it reports it for its whole load")
        .used(&[Points]);
    SOFTIRQ_CORE = Rate("softirq_core", "Softirq core", Unit::Ratio, NO, DOWN,
        "share of time that the CPU of either host which handles most interrupts spent in softirq \
         and irq").used(&[LookedAt]);
    IDLE_CORE = Rate("idle_core", "Idle core", Unit::Ratio, NO, NEITHER,
        "share of time that the idlest CPU of either host was idle").used(&[LookedAt]);
    RUN_QUEUE_WAIT = Cost("run_queue_wait", "Run queue wait", Unit::Ratio, NO, DOWN,
        "share of the measured time in which the worker that waited most was ready to run and had \
         no CPU, wake-ups and waits for each other included").used(&[LookedAt]);
    SENDER_THROTTLED = Rate("sender_throttled", "Sender throttled", Unit::Ratio, NO, DOWN,
        "share of scheduling periods in which the sending host's control group had used up its CPU \
         quota").used(&[LookedAt]);
    RECEIVER_THROTTLED = Rate("receiver_throttled", "Receiver throttled", Unit::Ratio, NO, DOWN,
        "share of scheduling periods in which the receiving host's control group had used up its \
         CPU quota").used(&[LookedAt]);
    REMOTE_CPUS = Cost("remote_cpus", "Remote CPUs", Unit::Ratio, NO, DOWN,
        "share of the CPUs that workers are pinned to which lie in another NUMA node than their \
         network device, worse end").with(Values::ShareOfCounts);
    IOPS_PER_CORE = Rate("iops_per_core", "IOPS per core", Unit::PerSecond, NO, UP,
        "transfers of a disk or file per second of CPU that the load's workers spent, in user \
         space and in system calls").used(&[DiskCost, Points]);
    CPU_EFFECTIVENESS = Cost("cpu_effectiveness", "CPU effectiveness", Unit::PerSecond, NO, UP,
        "transfers of a disk or file per second over per cent of the host's CPUs in use, as \
         Iometer's CPU Effectiveness")
        .used(&[DiskCost]);
    HOST_CPU = Cost("host_cpu", "Host CPU", Unit::Ratio, NO, DOWN,
        "share of the active host's CPUs in use, without steal: user and privileged");
    HOST_CPU_USER = Cost("host_cpu_user", "Host CPU user", Unit::Ratio, NO, DOWN,
        "share of the active host's CPUs in user space");
    HOST_CPU_PRIVILEGED = Cost("host_cpu_privileged", "Host CPU privileged", Unit::Ratio, NO, DOWN,
        "share of the active host's CPUs in the kernel, interrupts included");
    HOST_CPU_SOFTIRQ = Cost("host_cpu_softirq", "Host CPU softirq", Unit::Ratio, NO, DOWN,
        "share of the active host's CPUs in soft interrupts, Iometer's DPC time");
    HOST_CPU_IRQ = Cost("host_cpu_irq", "Host CPU irq", Unit::Ratio, NO, DOWN,
        "share of the active host's CPUs in hard interrupts, Iometer's interrupt time");
    HOST_PACKETS = Rate("host_packets", "Host packets", Unit::PacketPerSecond, NO, NEITHER,
        "packets sent and received at the active host's interfaces, without lo");
    HOST_PACKET_ERRORS = Rate("host_packet_errors", "Host packet errors", Unit::PerSecond, NO, DOWN,
        "errors of sending and receiving at the active host's interfaces, without lo");
    HOST_RETRANSMITS = Loss("host_retransmits", "Host retransmits", Unit::PerSecond, NO, DOWN,
        "TCP segments the active host's network namespace sent again");
    // Disks and files.
    ACHIEVED_DEPTH = Rate("achieved_depth", "Achieved queue depth", Unit::Count, NO, NEITHER,
        "transfers of disks and files under way, averaged over time, all workers added").adds_up()
        .used(&[DiskCost, Points]);
    DEPTH_ERROR = Rate("depth_error", "Queue depth error", Unit::Ratio, NO, DOWN,
        "difference between the achieved depth and what Little's law makes of rate and mean \
         service time, over the depth").with(Values::FreeRatio);
    DEVICE_SHARE = Rate("device_share", "Device share", Unit::Ratio, NO, NEITHER,
        "bytes the kernel counted at the disk over bytes the load read (rx) or wrote (tx): below 1 \
         something was served by a cache, above 1 others used the disk").with(Values::FreeRatio)
        .used(&[Points]);
    DEVICE_BUSY = Rate("device_busy", "Device busy", Unit::Ratio, NO, NEITHER,
        "share of time in which the disk of the load had requests in flight").used(&[DiskLookedAt]);
    DEVICE_DEPTH = Rate("device_depth", "Device depth", Unit::Count, NO, NEITHER,
        "requests of all programs at the disk of the load, averaged over time");
    DEVICE_QUEUE = Rate("device_queue", "Device queue", Unit::Count, NO, NEITHER,
        "requests that each hardware queue of the load's disk admits (nr_requests)");
    DEVICE_QUEUES = Rate("device_queues", "Device queues", Unit::Count, NO, NEITHER,
        "hardware queues of the load's disk");
    DEVICE_OTHERS = Rate("device_others", "Device others", Unit::Ratio, NO, DOWN,
        "share of the bytes at the disk of a direct load that other programs moved")
        .with(Values::ShareOfCounts).used(&[DiskLookedAt]);
    CACHE_SERVED = Rate("cache_served", "Cache served", Unit::Ratio, NO, NEITHER,
        "share of the bytes of a buffered load that did not reach the disk: the page cache served \
         them").with(Values::ShareOfCounts).used(&[DiskLookedAt]);
    STORAGE_STALLED = Rate("storage_stalled", "Storage stalled", Unit::Ratio, NO, DOWN,
        "share of time in which some task of the load's host stalled for storage (PSI)")
        .used(&[DiskLookedAt]);
    GROUP_BYTES_USED = Rate("group_bytes_used", "Group bytes used", Unit::Ratio, NO, NEITHER,
        "rate of bytes over the limit of the load's control group on that disk (io.max)")
        .with(Values::FreeRatio).used(&[DiskLookedAt]);
    GROUP_TRANSFERS_USED = Rate("group_transfers_used", "Group transfers used", Unit::Ratio, NO,
        NEITHER,
        "rate of transfers over the limit of the load's control group on that disk (io.max)")
        .with(Values::FreeRatio).used(&[DiskLookedAt]);
    STEADY_RANGE = Rate("steady_range", "Steady range", Unit::Ratio, NO, DOWN,
        "largest less smallest rate of transfers in fifths of a trial, over their mean: at most 20 \
         % in a steady state").with(Values::FreeRatio);
    STEADY_TREND = Rate("steady_trend", "Steady trend", Unit::Ratio, NO, DOWN,
        "rise or fall of a straight line through the rates of transfers in fifths of a trial, over \
         their mean: at most 10 % in a steady state").with(Values::FreeRatio);
    // Links of a group.
    LINKS_AVAILABLE = Rate("links_available", "Links available", Unit::Count, NO, NEITHER,
        "member links of the groups that the flows cross");
    LINKS_USED = Rate("links_used", "Links used", Unit::Count, NO, UP,
        "member links of a group that carry at least one flow");
    LINK_BALANCE = Rate("link_balance", "Link balance", Unit::Ratio, NO, UP,
        "mean over largest load of the member links of a group: 1 is an even spread")
        .with(Values::ShareOfCounts);
    BUSIEST_LINK_FLOWS = Rate("busiest_link_flows", "Busiest link flows", Unit::Count, NO, DOWN,
        "flows on the member link of a group that carries most of them");
    ALL_LINKS_USED = Rate("all_links_used", "All links used", Unit::Ratio, NO, UP,
        "probability that every member link of a group carries a flow").with(Values::ShareOfCounts);
    // The tool itself.
    PACING_ERROR = Rate("pacing_error", "Pacing error", Unit::Ratio, NO, DOWN,
        "operations of an open load started over those due, as distance from 1")
        .with(Values::FreeRatio);
    DEPARTURE_GAP_ERROR_P99 = Time("departure_gap_error_p99", "Departure gap error p99",
        Unit::Second, NO, DOWN,
        "99th percentile of how far gaps between departures of datagrams or frames were from the \
         mean gap intended; random and bursty arrivals are meant to be far from it")
        .quantile(Times::DepartureGap, 0.99);
    START_SKEW = Rate("start_skew", "Start skew", Unit::Second, NO, DOWN,
        "difference between the two ends' start of the trial, with the clock uncertainty added");
    NULL_STEP_COST = Rate("null_step_cost", "Null step cost", Unit::Nanosecond, NO, DOWN,
        "cost of one engine step with tally, pacer and interval accounting and nothing else")
        .chief(8);
}
