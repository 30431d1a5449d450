//! The table of every metric: the only place that spells a metric's name.
//!
//! A new metric is one row here and the code that computes it. The columns of the row say where it
//! is shown and what may be done with it; lists of metrics elsewhere are read from them.

use super::Use::{
    Answer, AsGoodput, ByCount, BySetting, BySize, Cost, Family, LookedAt, Mean, Mixed, Points,
    Request, Served, StreamOnly, Sweep,
};
use super::{Layer, Metric, Unit, Values};

const UP: Option<bool> = Some(true);
const DOWN: Option<bool> = Some(false);
const NEITHER: Option<bool> = None;
const L4: Option<Layer> = Some(Layer::L4);
const L3: Option<Layer> = Some(Layer::L3);
const L2: Option<Layer> = Some(Layer::L2);
const NO: Option<Layer> = None;

/// Declares each metric as a constant of its name, and [`METRICS`].
macro_rules! metrics {
    ($($constant:ident = $group:ident($name:literal, $unit:expr, $layer:expr, $better:expr, $meaning:literal)
        $(.$column:ident($($value:expr),*))*;)*) => {
        $(#[doc = $meaning] pub const $constant: &str = $name;)*

        /// Every metric, in the order in which figures are shown.
        pub static METRICS: &[Metric] = &[
            $(Metric::$group($name, $unit, $layer, $better, $meaning)$(.$column($($value),*))*),*
        ];
    };
}

metrics! {
    // Rates.
    GOODPUT_SERVED = rate("goodput_served", Unit::BitPerSecond, L4, UP,
        "payload that clients of other programs took or sent, over the time in which a file was \
            under way: nobody asks \
         what our server did while they were away").chief(1).used(&[Served]);
    GOODPUT = rate("goodput", Unit::BitPerSecond, L4, UP,
        "payload bits delivered to the receiving application, counted there")
        .adds_up().chief(2).used(&[Points, Mean, Sweep, BySize, ByCount, BySetting, Answer, Served, Family, StreamOnly]);
    GOODPUT_PEAK = rate("goodput_peak", Unit::BitPerSecond, L4, UP,
        "highest goodput of a whole second of a file transfer").used(&[Served]);
    THROUGHPUT_L2 = rate("throughput_l2", Unit::BitPerSecond, L2, UP,
        "frame bits, with the frame check sequence, received at the \
            device").used(&[AsGoodput, Points, StreamOnly]);
    PACKET_RATE = rate("packet_rate", Unit::PacketPerSecond, L3, UP,
        "IP packets delivered to the receiving host, in the direction of the data")
        .adds_up().chief(7).used(&[AsGoodput, Points, BySize, ByCount, BySetting, Family, StreamOnly]);
    MESSAGE_RATE = rate("message_rate", Unit::PerSecond, L4, UP, "application messages delivered \
        per second")
        .adds_up().used(&[AsGoodput, Points]);
    TRANSACTION_RATE = rate("transaction_rate", Unit::PerSecond, L4, UP, "requests answered per \
        second")
        .adds_up().chief(4).used(&[Points, Mean, Sweep, BySize, ByCount, BySetting, Answer, Served, Family, Request]);
    CONNECTION_RATE = rate("connection_rate", Unit::PerSecond, NO, UP,
        "connections opened, used once and closed per second")
        .adds_up().chief(3).used(&[Points, Mean, Sweep, ByCount, BySetting, Answer, Family, Request]);
    IOPS = rate("iops", Unit::PerSecond, NO, UP,
        "transfers of a disk or file that ended well per second: rx reads, tx writes")
        .adds_up().chief(5).used(&[Points, Sweep, BySize, ByCount, Family]);
    TRANSFER_RATE = rate("transfer_rate", Unit::BytePerSecond, NO, UP,
        "bytes of a disk or file read (rx) or written (tx) per second, shown in MB/s of 10^6 bytes")
        .adds_up().chief(6).used(&[Points, BySize]);
    TRANSFER_RATE_BINARY = rate("transfer_rate_binary", Unit::BytePerSecond, NO, UP,
        "the same as transfer_rate, shown in MiB/s of 2^20 bytes, as Iometer's \
            MiBps").adds_up().used(&[Points]);
    EXCHANGE_RATE = rate("exchange_rate", Unit::PerSecond, NO, UP,
        "transfers of a disk or file with the reply to each per second, as Iometer's \
            transactions").adds_up();
    FLUSH_RATE = rate("flush_rate", Unit::PerSecond, NO, NEITHER,
        "flushes of a disk or file (fsync, fdatasync) per second").adds_up();
    TRIM_RATE = rate("trim_rate", Unit::PerSecond, NO, UP, "discards of a disk or file per \
        second").adds_up();
    TRIM_BYTES = rate("trim_bytes", Unit::BytePerSecond, NO, UP, "bytes of a disk or file \
        discarded per second")
        .adds_up();
    BANDWIDTH = rate("bandwidth", Unit::BitPerSecond, NO, UP,
        "payload bits moved over a bus, or to and from a storage device").used(&[Family]);
    BUS_TRANSACTION_RATE = rate("bus_transaction_rate", Unit::PerSecond, NO, UP,
        "transactions of one payload each, moved over a bus per second");
    CALLS_PER_SECOND = rate("calls_per_second", Unit::PerSecond, NO, NEITHER,
        "send and receive system calls of the workload, both ends added").adds_up();
    // Times of requests, frames and transfers.
    RESPONSE_TIME = time("response_time", Unit::Second, NO, DOWN,
        "from the intended start of a request to the end of its response; of a frame, from its \
            scheduled departure \
         to its receipt (one way)");
    RESPONSE_TIME_P50 = time("response_time_p50", Unit::Second, NO, DOWN, "median response time")
        .used(&[Points, BySize, Answer, Family, Mixed]);
    RESPONSE_TIME_P90 = time("response_time_p90", Unit::Second, NO, DOWN, "90th percentile of the \
        response time");
    RESPONSE_TIME_P99 = time("response_time_p99", Unit::Second, NO, DOWN, "99th percentile of the \
        response time")
        .used(&[Points, BySetting, Answer, Family, Mixed]);
    RESPONSE_TIME_P999 = time("response_time_p999", Unit::Second, NO, DOWN, "99.9th percentile of \
        the response time")
        .used(&[Mixed]);
    RESPONSE_TIME_P9999 = time("response_time_p9999", Unit::Second, NO, DOWN,
        "99.99th percentile of the response time");
    RESPONSE_TIME_MAX = time("response_time_max", Unit::Second, NO, DOWN,
        "largest response time; infinite when a request was lost");
    SERVICE_TIME_MIN = time("service_time_min", Unit::Second, NO, DOWN, "smallest service time");
    SERVICE_TIME_MEAN = time("service_time_mean", Unit::Second, NO, DOWN, "mean service time");
    SERVICE_TIME_P50 = time("service_time_p50", Unit::Second, NO, DOWN,
        "median service time, from the actual start of a request, or the hand-over of a \
            frame").used(&[Mixed]);
    SERVICE_TIME_P90 = time("service_time_p90", Unit::Second, NO, DOWN, "90th percentile of the \
        service time")
        .used(&[Mixed]);
    SERVICE_TIME_P99 = time("service_time_p99", Unit::Second, NO, DOWN, "99th percentile of the \
        service time")
        .used(&[Mixed]);
    SERVICE_TIME_P999 = time("service_time_p999", Unit::Second, NO, DOWN, "99.9th percentile of \
        the service time")
        .used(&[Mixed]);
    SERVICE_TIME_P9999 = time("service_time_p9999", Unit::Second, NO, DOWN, "99.99th percentile of \
        the service time");
    SERVICE_TIME_MAX = time("service_time_max", Unit::Second, NO, DOWN, "largest service time");
    FLUSH_TIME_MEAN = time("flush_time_mean", Unit::Second, NO, DOWN, "mean flush time");
    FLUSH_TIME_P50 = time("flush_time_p50", Unit::Second, NO, DOWN,
        "median time from the start of a flush (fsync, fdatasync) to its end");
    FLUSH_TIME_P99 = time("flush_time_p99", Unit::Second, NO, DOWN, "99th percentile of \
        flush_time");
    FLUSH_TIME_MAX = time("flush_time_max", Unit::Second, NO, DOWN, "largest flush time");
    TRIM_TIME_MEAN = time("trim_time_mean", Unit::Second, NO, DOWN, "mean discard time");
    TRIM_TIME_P50 = time("trim_time_p50", Unit::Second, NO, DOWN, "median time from the start of a \
        discard to its end");
    TRIM_TIME_P99 = time("trim_time_p99", Unit::Second, NO, DOWN, "99th percentile of trim_time");
    TRIM_TIME_MAX = time("trim_time_max", Unit::Second, NO, DOWN, "largest discard time");
    CONNECT_TIME_P50 = time("connect_time_p50", Unit::Second, NO, DOWN,
        "median time to open the connection that carries a file");
    CONNECT_TIME_P99 = time("connect_time_p99", Unit::Second, NO, DOWN, "99th percentile of \
        connect_time");
    FIRST_BYTE_TIME_P50 = time("first_byte_time_p50", Unit::Second, NO, DOWN,
        "median time from a file's request to its first byte");
    FIRST_BYTE_TIME_P99 = time("first_byte_time_p99", Unit::Second, NO, DOWN, "99th percentile of \
        first_byte_time");
    TRANSFER_TIME_P50 = time("transfer_time_p50", Unit::Second, NO, DOWN,
        "median time from the first byte of a file to its last").used(&[Served]);
    TRANSFER_TIME_P99 = time("transfer_time_p99", Unit::Second, NO, DOWN, "99th percentile of \
        transfer_time")
        .used(&[Served]);
    CLOSE_TIME_P50 = time("close_time_p50", Unit::Second, NO, DOWN,
        "median time from a file's last byte until it is confirmed");
    CLOSE_TIME_P99 = time("close_time_p99", Unit::Second, NO, DOWN, "99th percentile of \
        close_time");
    // Losses, and operations accounted for.
    LOSS_RATIO = loss("loss_ratio", Unit::Ratio, L4, DOWN,
        "lost over what was due in the measured span (of datagrams and frames: over those sent in \
            it)")
        .with(Values::ShareOfCounts).used(&[Points, BySetting, Answer, Family]);
    LOST = loss("lost", Unit::Count, L4, DOWN,
        "of what was due in the measured span: datagrams and frames that never came, operations \
            given up")
        .adds_up().with(Values::Whole);
    LATE = loss("late", Unit::Count, L4, DOWN, "datagrams that arrived after the drain ended or \
        after their deadline")
        .adds_up().with(Values::Whole);
    DUPLICATES = loss("duplicates", Unit::Count, L4, DOWN, "datagrams received more than once")
        .adds_up().with(Values::Whole);
    REORDERED = loss("reordered", Unit::Count, L4, DOWN,
        "datagrams that arrived after one with a higher sequence \
            number").adds_up().with(Values::Whole);
    RETRANSMITS = loss("retransmits", Unit::Count, L4, DOWN, "TCP segments retransmitted, from \
        TCP_INFO of the sender")
        .adds_up().with(Values::Whole).used(&[Points, Answer]);
    RETRANSMIT_RATIO = loss("retransmit_ratio", Unit::Ratio, L4, DOWN,
        "payload bytes retransmitted over payload bytes sent, from TCP_INFO of the sender")
        .with(Values::ShareOfCounts).used(&[LookedAt]);
    ECN_MARKS = rate("ecn_marks", Unit::Count, L4, DOWN,
        "segments delivered with a mark of congestion (ECN), by the sender's \
            TCP_INFO").with(Values::Whole);
    CONTROLLER_RECEIVED = rate("controller_received", Unit::Count, L2, UP,
        "frames from the network that a controller received for the host behind its sideband, by \
            its own NC-SI \
         statistics").with(Values::Whole);
    CONTROLLER_DROPPED = loss("controller_dropped", Unit::Count, L2, DOWN,
        "frames from the network that a controller dropped before its sideband, by its own NC-SI \
            statistics")
        .with(Values::Whole).used(&[Points]);
    SOFTNET_DROPPED = loss("softnet_dropped", Unit::Count, L3, DOWN,
        "packets dropped at the per-CPU backlog, both hosts").with(Values::Whole);
    SOFTNET_SQUEEZED = rate("softnet_squeezed", Unit::Count, L3, DOWN,
        "times the softirq ran out of budget with packets waiting, both hosts").with(Values::Whole);
    TRANSFER_ERRORS = rate("transfer_errors", Unit::Count, NO, DOWN,
        "reads (rx) and writes (tx) that failed or were cut short in a \
            trial").adds_up().with(Values::Whole);
    OPERATIONS_DUE = rate("operations_due", Unit::Count, NO, NEITHER,
        "requests, connections, files and transfers whose intended start lies in the measured \
            span, datagrams and \
         frames sent in it, and those of an open load never sent: operations_answered + \
         operations_lost + \
         operations_open");
    OPERATIONS_ANSWERED = rate("operations_answered", Unit::Count, NO, UP,
        "of operations_due, those that were answered, completed or (datagrams, frames) received, \
            in the span or in \
         the drain after it");
    OPERATIONS_LOST = loss("operations_lost", Unit::Count, NO, DOWN,
        "of operations_due, those given up: timeout, failure or end of the connection; datagrams \
            and frames that \
         never came");
    OPERATIONS_OPEN = rate("operations_open", Unit::Count, NO, DOWN,
        "of operations_due, those still waiting at the end of the drain, and those of an open load \
            never started");
    UNANSWERED_RATIO = rate("unanswered_ratio", Unit::Ratio, NO, DOWN,
        "operations_lost and operations_open over operations_due").used(&[Answer]);
    // TCP's own state, and the flows.
    RTT = time("rtt", Unit::Second, NO, DOWN, "smoothed round-trip time of TCP_INFO, mean over \
        intervals and flows")
        .used(&[Points, Mixed, LookedAt]);
    RTT_MIN = time("rtt_min", Unit::Second, NO, DOWN, "smallest round-trip time TCP saw");
    CONGESTION_WINDOW = rate("congestion_window", Unit::Byte, L4, NEITHER,
        "payload the sender's congestion windows let be under way, mean over readings, all flows \
            added");
    PEER_WINDOW = rate("peer_window", Unit::Byte, L4, NEITHER,
        "largest receive window that the sender saw advertised, all flows added");
    WINDOW_SWING = rate("window_swing", Unit::Ratio, L4, DOWN,
        "smallest over largest window the peer advertised to one flow, as a distance from 1; the \
            flow where it moved \
         most").with(Values::ShareOfCounts);
    IN_FLIGHT = rate("in_flight", Unit::Byte, L4, NEITHER, "payload bytes sent and not yet \
        acknowledged");
    UNSENT = rate("unsent", Unit::Byte, L4, NEITHER,
        "payload in the sender's queues that was never sent, mean over readings, all flows added");
    RECEIVE_QUEUE = rate("receive_queue", Unit::Ratio, L4, DOWN,
        "kernel memory held for what had arrived and was not read, over the receive buffers")
        .with(Values::FreeRatio).used(&[LookedAt]);
    RWND_LIMITED = rate("rwnd_limited", Unit::Ratio, L4, DOWN,
        "share of time the sender waited for the peer's receive window").used(&[LookedAt]);
    SNDBUF_LIMITED = rate("sndbuf_limited", Unit::Ratio, L4, DOWN,
        "share of time the sender waited for its own send buffer").used(&[LookedAt]);
    SENDER_BUSY = rate("sender_busy", Unit::Ratio, L4, NEITHER,
        "share of time the sender had data to send or unacknowledged").used(&[LookedAt]);
    SOURCE_WAIT = rate("source_wait", Unit::Ratio, L4, DOWN,
        "share of time the sending workers had nothing to send: their source had produced nothing");
    IO_STALLED = rate("io_stalled", Unit::Ratio, NO, DOWN,
        "share of time in which some task of the receiving host stalled for storage (PSI)");
    PACING_RATE = rate("pacing_rate", Unit::BitPerSecond, L3, NEITHER,
        "rate at which the sender's kernel paces, median of each flow's readings, all flows added; \
            headers \
         included");
    PAYLOAD_PER_SEND = rate("payload_per_send", Unit::Byte, L4, NEITHER,
        "payload bytes handed over per system call that sends");
    FAIRNESS = rate("fairness", Unit::Ratio, L4, UP,
        "Jain's index over the goodput of the flows: 1 is equal shares, 1/n is one flow taking all")
        .with(Values::ShareOfCounts).used(&[Points, ByCount]);
    // One-way delay.
    DELAY_VARIATION = time("delay_variation", Unit::Second, NO, DOWN,
        "99.9th percentile of the service time less the smallest (PDV of RFC 8219 7.3.1), one-way \
            for frames")
        .used(&[Mixed]);
    DELAY_VARIATION_MIN = time("delay_variation_min", Unit::Second, NO, NEITHER,
        "largest fall of delay from one frame to the next sent on its flow, negative (IPDV of RFC \
            8219 7.3.2)")
        .with(Values::Difference);
    DELAY_VARIATION_P50 = time("delay_variation_p50", Unit::Second, NO, NEITHER,
        "median change of delay from one frame to the next sent on its flow (IPDV of RFC 8219 \
            7.3.2)")
        .with(Values::Difference);
    DELAY_VARIATION_MAX = time("delay_variation_max", Unit::Second, NO, DOWN,
        "largest rise of delay from one frame to the next sent on its flow (IPDV of RFC 8219 \
            7.3.2)");
    CLOCK_UNCERTAINTY = rate("clock_uncertainty", Unit::Second, NO, DOWN,
        "how wrong one-way times may be because the ends have two clocks; one-way times no longer \
            than that are \
         withheld");
    // What it costs, and the hosts.
    CPU_SECONDS_PER_GIGABYTE = cost("cpu_seconds_per_gigabyte", Unit::SecondPerGigabyte, L4, DOWN,
        "CPU time of both ends per 10^9 payload bytes \
            delivered").used(&[Points, Cost, Answer, StreamOnly]);
    CPU_NS_PER_PACKET = cost("cpu_ns_per_packet", Unit::Nanosecond, L3, DOWN,
        "CPU time of both ends per IP packet sent and received (GSO segments are counted as \
            packets)")
        .used(&[Points, Cost, StreamOnly]);
    INSTRUCTIONS_PER_PACKET = cost("instructions_per_packet", Unit::Count, L3, DOWN,
        "instructions retired per IP packet, both ends, all CPUs").used(&[Cost]);
    CACHE_MISSES_PER_PACKET = cost("cache_misses_per_packet", Unit::Count, L3, DOWN,
        "last-level cache misses per IP packet, both ends, all CPUs").used(&[Cost]);
    PACKETS_PER_INTERRUPT = cost("packets_per_interrupt", Unit::Count, L3, NEITHER,
        "IP packets received per interrupt of the receiving device").used(&[Cost]);
    CYCLES_PER_INSTRUCTION = cost("cycles_per_instruction", Unit::Ratio, NO, DOWN,
        "CPU cycles over instructions of both hosts: what memory makes a CPU wait raises \
            it").with(Values::FreeRatio);
    INTERRUPTS = cost("interrupts", Unit::PerSecond, NO, NEITHER, "interrupts served, all vectors, \
        both hosts added");
    CONTEXT_SWITCHES = cost("context_switches", Unit::PerSecond, NO, DOWN, "context switches of \
        the host, all CPUs")
        .used(&[Cost]);
    CPU_APP = cost("cpu_app", Unit::Core, NO, DOWN, "CPU spent in user space by the load's \
        workers, both ends added")
        .adds_up();
    CPU_KERNEL = cost("cpu_kernel", Unit::Core, NO, DOWN,
        "CPU spent in system calls by the load's workers, both ends added").adds_up();
    CPU_SOFTIRQ = cost("cpu_softirq", Unit::Core, NO, DOWN, "CPU spent in soft and hard \
        interrupts, both hosts added");
    CPU_STEAL = cost("cpu_steal", Unit::Core, NO, DOWN,
        "CPU taken by the hypervisor while there was work to do, both hosts added");
    CPU_FROM = cost("cpu_from", Unit::Core, NO, DOWN, "CPU busy on the host of `from`: user, \
        system, softirq and irq");
    CPU_TO = cost("cpu_to", Unit::Core, NO, DOWN, "CPU busy on the host of `to`: user, system, \
        softirq and irq");
    CPU_OF_OTHERS = cost("cpu_of_others", Unit::Ratio, NO, NEITHER,
        "part of both hosts' CPU use that other programs had in user space");
    SENDER_CPU = cost("sender_cpu", Unit::Core, NO, DOWN,
        "CPU of the busiest worker thread at the end that sends, user and system")
        .with(Values::CpuOfOneThread).used(&[LookedAt]);
    RECEIVER_CPU = cost("receiver_cpu", Unit::Core, NO, DOWN,
        "CPU of the busiest worker thread at the end that receives, user and system")
        .with(Values::CpuOfOneThread).used(&[LookedAt]);
    SOFTIRQ_CORE = rate("softirq_core", Unit::Ratio, NO, DOWN,
        "share of time that the CPU of either host which handles most interrupts spent in softirq \
            and irq")
        .used(&[LookedAt]);
    IDLE_CORE = rate("idle_core", Unit::Ratio, NO, NEITHER,
        "share of time that the idlest CPU of either host was idle").used(&[LookedAt]);
    RUN_QUEUE_WAIT = cost("run_queue_wait", Unit::Ratio, NO, DOWN,
        "share of the measured time in which the worker that waited most was ready to run and had \
            no CPU, wake-ups \
         and waits for each other included").used(&[LookedAt]);
    SENDER_THROTTLED = rate("sender_throttled", Unit::Ratio, NO, DOWN,
        "share of scheduling periods in which the sending host's control group had used up its CPU \
            quota")
        .used(&[LookedAt]);
    RECEIVER_THROTTLED = rate("receiver_throttled", Unit::Ratio, NO, DOWN,
        "share of scheduling periods in which the receiving host's control group had used up its \
            CPU quota")
        .used(&[LookedAt]);
    REMOTE_CPUS = cost("remote_cpus", Unit::Ratio, NO, DOWN,
        "share of the CPUs that workers are pinned to which lie in another NUMA node than their \
            network device, \
         worse end").with(Values::ShareOfCounts);
    IOPS_PER_CORE = rate("iops_per_core", Unit::PerSecond, NO, UP,
        "transfers of a disk or file per second of CPU that the load's workers spent, in user \
            space and in system \
         calls").used(&[Points]);
    CPU_EFFECTIVENESS = cost("cpu_effectiveness", Unit::PerSecond, NO, UP,
        "transfers of a disk or file per second over per cent of the host's CPUs in use, as \
            Iometer's CPU \
         Effectiveness");
    HOST_CPU = cost("host_cpu", Unit::Ratio, NO, DOWN,
        "share of the active host's CPUs in use, without steal: user and privileged");
    HOST_CPU_USER = cost("host_cpu_user", Unit::Ratio, NO, DOWN, "share of the active host's CPUs \
        in user space");
    HOST_CPU_PRIVILEGED = cost("host_cpu_privileged", Unit::Ratio, NO, DOWN,
        "share of the active host's CPUs in the kernel, interrupts included");
    HOST_CPU_SOFTIRQ = cost("host_cpu_softirq", Unit::Ratio, NO, DOWN,
        "share of the active host's CPUs in soft interrupts, Iometer's DPC time");
    HOST_CPU_IRQ = cost("host_cpu_irq", Unit::Ratio, NO, DOWN,
        "share of the active host's CPUs in hard interrupts, Iometer's interrupt time");
    HOST_PACKETS = rate("host_packets", Unit::PacketPerSecond, NO, NEITHER,
        "packets sent and received at the active host's interfaces, without lo");
    HOST_PACKET_ERRORS = rate("host_packet_errors", Unit::PerSecond, NO, DOWN,
        "errors of sending and receiving at the active host's interfaces, without lo");
    HOST_RETRANSMITS = loss("host_retransmits", Unit::PerSecond, NO, DOWN,
        "TCP segments the active host's network namespace sent again");
    // Disks and files.
    ACHIEVED_DEPTH = rate("achieved_depth", Unit::Count, NO, NEITHER,
        "transfers of disks and files under way, averaged over time, all workers \
            added").adds_up().used(&[Points]);
    DEPTH_ERROR = rate("depth_error", Unit::Ratio, NO, DOWN,
        "difference between the achieved depth and what Little's law makes of rate and mean \
            service time, over the \
         depth").with(Values::FreeRatio);
    DEVICE_SHARE = rate("device_share", Unit::Ratio, NO, NEITHER,
        "bytes the kernel counted at the disk over bytes the load read (rx) or wrote (tx): below 1 \
            something was \
         served by a cache, above 1 others used the disk").with(Values::FreeRatio).used(&[Points]);
    STEADY_RANGE = rate("steady_range", Unit::Ratio, NO, DOWN,
        "largest less smallest rate of transfers in fifths of a trial, over their mean: at most 20 \
            % in a steady \
         state").with(Values::FreeRatio);
    STEADY_TREND = rate("steady_trend", Unit::Ratio, NO, DOWN,
        "rise or fall of a straight line through the rates of transfers in fifths of a trial, over \
            their mean: at \
         most 10 % in a steady state").with(Values::FreeRatio);
    // Links of a group.
    LINKS_AVAILABLE = rate("links_available", Unit::Count, NO, NEITHER,
        "member links of the groups that the flows cross");
    LINKS_USED = rate("links_used", Unit::Count, NO, UP, "member links of a group that carry at \
        least one flow");
    LINK_BALANCE = rate("link_balance", Unit::Ratio, NO, UP,
        "mean over largest load of the member links of a group: 1 is an even \
            spread").with(Values::ShareOfCounts);
    BUSIEST_LINK_FLOWS = rate("busiest_link_flows", Unit::Count, NO, DOWN,
        "flows on the member link of a group that carries most of them");
    ALL_LINKS_USED = rate("all_links_used", Unit::Ratio, NO, UP,
        "probability that every member link of a group carries a flow").with(Values::ShareOfCounts);
    // The tool itself.
    PACING_ERROR = rate("pacing_error", Unit::Ratio, NO, DOWN,
        "operations of an open load started over those due, as distance from \
            1").with(Values::FreeRatio);
    DEPARTURE_GAP_ERROR_P99 = time("departure_gap_error_p99", Unit::Second, NO, DOWN,
        "99th percentile of how far gaps between departures of datagrams or frames were from the \
            mean gap intended; \
         random and bursty arrivals are meant to be far from it");
    START_SKEW = rate("start_skew", Unit::Second, NO, DOWN,
        "difference between the two ends' start of the trial, with the clock uncertainty added");
    NULL_STEP_COST = rate("null_step_cost", Unit::Nanosecond, NO, DOWN,
        "cost of one engine step with tally, pacer and interval accounting and nothing \
            else").chief(8);
}
