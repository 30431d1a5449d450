//! Sentences of observations, and the source of each.

use linerate_analysis::diagnosis::{Evidence, Permit, Quantity};
use linerate_model::path::Limiter;
use linerate_model::{Metric, Shown, Unit, metric};

use super::claim::permit;
use super::step::by_end;
use super::{rate, share, time};
use crate::number::{Scale, percent, round_half_up};
use crate::words::count;

/// Texts around the value of a metric: before it, after it, and the source.
type Words = (&'static Metric, &'static str, &'static str, &'static str);

const BLOCK_STAT: &str = "/sys/block/*/stat";
const BUSIEST: &str = "getrusage of the thread (RUSAGE_THREAD)";
const CONTROL_GROUP: &str = "cpu.stat of its control group: nr_throttled of nr_periods";
const CPUS: &str = "/proc/stat, CPU by CPU";
const IO_MAX: &str = "io.max or blkio.throttle.* of its control group, and the groups above";
const SOFTNET: &str = "/proc/net/softnet_stat";

/// Every metric that a rule shows, alphabetically. A metric without a row is shown with its title
/// and meaning.
static FIGURES: [Words; 33] = [
    (
        metric::ACKNOWLEDGEMENTS,
        "",
        "acknowledgements arrived per second",
        "TCP_INFO of the sender: tcpi_segs_in less tcpi_data_segs_in",
    ),
    (
        metric::CACHE_SERVED,
        "the page cache served",
        "of the bytes of the load",
        "/sys/block/*/stat beside the load's own counters",
    ),
    (metric::CALLS_PER_SECOND, "", "calls per second, sum of both ends", "the workers' counters"),
    (
        metric::CONTROLLER_DROPPED,
        "the network controller dropped",
        "frames",
        "Get NC-SI Pass-through Statistics, dropped frames from the network",
    ),
    (
        metric::CYCLES_PER_INSTRUCTION,
        "",
        "cycles per instruction",
        "perf events of both hosts: cycles, instructions",
    ),
    (metric::DEVICE_BUSY, "the disk had requests in flight", "of the time", BLOCK_STAT),
    (metric::DEVICE_DEPTH, "the disk held", "requests of all programs on average", BLOCK_STAT),
    (
        metric::DEVICE_OTHERS,
        "other programs moved",
        "of the bytes at the disk",
        "/sys/block/*/stat beside the load's own counters",
    ),
    (
        metric::DEVICE_QUEUE,
        "the kernel's queue of the disk admits",
        "requests",
        "/sys/block/*/queue/nr_requests",
    ),
    (
        metric::DEVICE_QUEUES,
        "the disk has",
        "hardware queues, each with as many requests",
        "/sys/block/*/mq",
    ),
    (
        metric::GROUP_BYTES_USED,
        "the load used",
        "of the bytes per second that its control group permits on this disk",
        IO_MAX,
    ),
    (
        metric::GROUP_TRANSFERS_USED,
        "the load used",
        "of the transfers per second that its control group permits on this disk",
        IO_MAX,
    ),
    (metric::IDLE_CORE, "the idlest CPU was idle", "of the time", CPUS),
    (
        metric::IO_STALLED,
        "tasks of the receiving host stalled for storage",
        "of the time",
        "/proc/pressure/io",
    ),
    (metric::PAYLOAD_PER_SEND, "each call sent", "", "the sending worker's counters"),
    (
        metric::RECEIVE_QUEUE,
        "unread data filled",
        "of the receive buffer",
        "memory of the receiving socket (SO_MEMINFO)",
    ),
    (metric::RECEIVER_CPU, "the busiest receiving thread used", "of a core", BUSIEST),
    (
        metric::RECEIVER_THROTTLED,
        "the receiving host had no CPU quota left in",
        "of the scheduling periods",
        CONTROL_GROUP,
    ),
    (
        metric::REMOTE_CPUS,
        "",
        "of the CPUs of one end are in a NUMA node other than its device's",
        "facts: memory.numa, interfaces.*.numa_node",
    ),
    (
        metric::RETRANSMIT_RATIO,
        "",
        "of the bytes were retransmitted",
        "TCP_INFO of the sender: tcpi_bytes_retrans of tcpi_bytes_sent",
    ),
    (metric::RTT, "the round-trip time was", "", "TCP_INFO of the sender: tcpi_rtt"),
    (
        metric::RUN_QUEUE_WAIT,
        "the worker that waited most was ready but had no CPU",
        "of the time",
        "run-queue wait of the workers (schedstat)",
    ),
    (
        metric::RWND_LIMITED,
        "the sender waited for the receiver's window",
        "of the time",
        "TCP_INFO of the sender: tcpi_rwnd_limited",
    ),
    (
        metric::SENDER_BUSY,
        "the connection had nothing to send and nothing in flight",
        "of the time",
        "TCP_INFO of the sender: tcpi_busy_time",
    ),
    (metric::SENDER_CPU, "the busiest sending thread used", "of a core", BUSIEST),
    (
        metric::SENDER_THROTTLED,
        "the sending host had no CPU quota left in",
        "of the scheduling periods",
        CONTROL_GROUP,
    ),
    (
        metric::SNDBUF_LIMITED,
        "the sender waited for room in its send buffer",
        "of the time",
        "TCP_INFO of the sender: tcpi_sndbuf_limited",
    ),
    (
        metric::SOFTIRQ_CORE,
        "the CPU that handled most interrupts spent",
        "of the time in softirq",
        CPUS,
    ),
    (metric::SOFTNET_DROPPED, "", "packets were dropped at the backlog", SOFTNET),
    (metric::SOFTNET_SQUEEZED, "", "softirqs ended with packets still waiting", SOFTNET),
    (
        metric::SOURCE_WAIT,
        "the sending workers had nothing to send",
        "of the time",
        "the sending workers' counters: waits for the source",
    ),
    (
        metric::STORAGE_STALLED,
        "some task of the host stalled for storage",
        "of the time",
        "/proc/pressure/io",
    ),
    (
        metric::WINDOW_SWING,
        "the advertised window varied by",
        "of its maximum",
        "TCP_INFO of the sender: tcpi_snd_wnd",
    ),
];

/// Returns an observation with its figures and units.
#[must_use]
pub fn observation(evidence: &Evidence) -> String {
    match evidence {
        Evidence::Figure { metric, value } => figure(metric, *value),
        Evidence::Near { quantity, value, threshold } => near(*quantity, *value, *threshold),
        Evidence::OfCeiling { goodput, share, ceiling } => format!(
            "goodput {} is {} % of the ceiling {}",
            rate(*goodput),
            percent(*share),
            rate(ceiling.value)
        ),
        Evidence::BelowCeiling { share } => {
            format!("goodput is {} % of the lowest known ceiling", percent(*share))
        }
        Evidence::OfPermit { by, goodput, rate: permitted } => format!(
            "goodput {} is {:.2} times the {} that {} permits",
            rate(*goodput),
            goodput / permitted,
            rate(*permitted),
            permit(*by)
        ),
        Evidence::NoQueue { rtt, rtt_min } => format!(
            "the round-trip time of {} is near its minimum of {}, without retransmissions",
            time(*rtt),
            time(*rtt_min)
        ),
        Evidence::Queue { ratio } => {
            format!("a queue remained: the round-trip time was {ratio:.1} times its minimum")
        }
        Evidence::QueuedBytes { bytes, goodput, rtt, rtt_min } => format!(
            "{bytes} B are queued: {} times the {} by which the round-trip time exceeds its \
             minimum of {}",
            rate(*goodput),
            time((rtt - rtt_min).max(0.0)),
            time(*rtt_min)
        ),
        Evidence::CpuTaken { share: taken } => {
            let taken = percent(*taken);
            format!(
                "other programs took {taken} % of the load's CPU time, which explains the \
                    difference"
            )
        }
        Evidence::OfPath { limiter, capacity, goodput } => format!(
            "goodput {} is {} % of the rate of {} that the probe measured, {}",
            rate(*goodput),
            percent(*goodput / *capacity),
            match limiter {
                Limiter::Link => "a link",
                Limiter::Shaper => "a shaper",
                Limiter::Policer => "a policer",
            },
            rate(*capacity)
        ),
        Evidence::ReversePath { reverse, data, goodput } => format!(
            "goodput is {}; the probe measured {} in the direction of the acknowledgements and {} \
             in that of the data",
            rate(*goodput),
            rate(*reverse),
            data.map_or_else(|| "no limit".to_owned(), rate)
        ),
        Evidence::QueueBeforeLoad { idle, rtt_min } => format!(
            "before the load every round trip took {} or more, and with it the shortest took {}",
            time(*idle),
            time(*rtt_min)
        ),
        Evidence::Buffer { bytes, product } => format!(
            "the buffer of the link holds {bytes} B, {:.2} times the bandwidth-delay product of \
             {product:.0} B",
            *bytes as f64 / product
        ),
        Evidence::LossWithoutLoad { share, low, high } => format!(
            "the probe lost {} % (95 %: {} to {} %) of its datagrams at rates that the path \
             carries",
            percent(*share),
            percent(*low),
            percent(*high)
        ),
        Evidence::SmallerMtu { found, routed } => format!(
            "the largest packet that passed the probe has {found} B, and the interface of the \
             sender allows {routed} B"
        ),
        Evidence::CpuWait { end, waited, ran } => format!(
            "the busiest {} worker waited for a CPU {} % of the time, and ran {} %",
            by_end(*end, "sending", "receiving"),
            percent(*waited),
            percent(*ran)
        ),
        Evidence::FillsBuffer { bytes, ratio } => format!(
            "{bytes:.0} B of a flow were in flight, {ratio:.1} times its send buffer; nothing else \
             limited the sender"
        ),
        Evidence::Flood { feed, drain, goodput } => format!(
            "a flood of {} left the path at {}; the stream used {}",
            rate(*feed),
            rate(*drain),
            rate(*goodput)
        ),
        Evidence::QueueDrops { packets } => {
            format!("queues of the sender dropped {packets} packets of the stream")
        }
        Evidence::RingMissed { missed, received } => format!(
            "the receive ring had no room for {missed} packets, {} of all",
            share(*missed as f64 / (missed + received).max(1) as f64)
        ),
        Evidence::RuledOut { claims } => {
            let claims: Vec<String> = claims.iter().map(super::claim).collect();
            format!("ruled out by experiments: {}", claims.join("; "))
        }
        Evidence::LossModels { goodput, with_timeouts, without_timeouts } => format!(
            "goodput {} is {:.2} to {:.2} times the model for such loss: {} with timeouts, {} \
             without",
            rate(*goodput),
            goodput / without_timeouts,
            goodput / with_timeouts,
            rate(*with_timeouts),
            rate(*without_timeouts)
        ),
        Evidence::FlowsOnLinks { flows, used, available, chance } => format!(
            "{flows:.0} flows used {used:.0} of {available:.0} links; an even hash does that with \
             a probability of at most {chance:.1e}"
        ),
        Evidence::OfLinksInUse { share: of } => {
            format!("goodput is {} of the capacity of these links", share(*of))
        }
        Evidence::OneFlow { links } => format!("one flow crosses a group of {links:.0} links"),
        Evidence::WindowUsed { share: used } => {
            format!("only {} of the largest advertised window was in flight", share(*used))
        }
        Evidence::LittleToSend { unsent_bytes, window_share } => format!(
            "{unsent_bytes:.0} B of a flow waited to be sent, and {} of the congestion window was \
             in flight; neither the receiver's window nor the send buffer was full",
            share(*window_share)
        ),
        Evidence::Segments { bytes } => format!("segments carry up to {bytes:.0} B"),
        Evidence::Cpus { softirq, idle, worker } => format!(
            "one CPU spent {} of the time in softirq, another was idle {}, and no worker used more \
             than {} of a core",
            share(*softirq),
            share(*idle),
            share(*worker)
        ),
        Evidence::InFlight { transfers, seconds, rate, asked } => {
            let asked = asked.map_or_else(String::new, |asked| format!(" of {asked:.0} asked for"));
            format!(
                "{transfers:.1} transfers in flight of {} each make {rate:.0} per second{asked} \
                 (Little's law)",
                time(*seconds)
            )
        }
        Evidence::ThreadCpus { threads, cpus, all } => {
            let left = if *all { ", so they had no CPU time left" } else { "" };
            let threads = count(threads.round() as usize, "thread");
            format!("the load's {threads} used {cpus:.2} CPUs{left}")
        }
        Evidence::Flushing { share: taken, transfers, rate, seconds } => format!(
            "flushes took {} of the time of {transfers:.1} transfers in flight: {rate:.0} per \
             second of {} each",
            share(*taken),
            time(*seconds)
        ),
        Evidence::DurableWrites { mode, seconds } => format!(
            "each write waits until its data is durable (sync = \"{mode}\"): {} on average",
            time(*seconds)
        ),
        Evidence::RateReached { rate } => format!(
            "the plan's rate of {rate:.0} transfers per second was reached, so the disk was not \
             the limit"
        ),
        Evidence::NeverEnded { rate } => format!(
            "a transfer was still in flight when the load ended ({rate:.0} per second on average \
             until then)"
        ),
        Evidence::NothingArrived => {
            "the connections opened, but none of the data sent on them arrived".to_owned()
        }
        Evidence::NoFlow => "no flow carried data".to_owned(),
        Evidence::NoFigure => "no figure that a rule examines was recorded".to_owned(),
        Evidence::NoClosedLoad => {
            "the disk rules need a single closed load without latency_target".to_owned()
        }
        Evidence::Against(reason) => super::reason(reason),
        Evidence::Validity(validity) => validity.word().to_owned(),
        Evidence::NotSeenAgain { .. } => {
            "these runs do not show the evidence of the claim again".to_owned()
        }
        Evidence::LostThere { share, lost } => format!(
            "{} % of the {lost} frames lost above this load were lost there",
            round_half_up(share * 100.0, 1)
        ),
        Evidence::NotLocated { lost } => {
            format!("no counter locates the {lost} frames lost above this load")
        }
    }
}

/// Returns the counter, file or study that an observation comes from.
#[must_use]
pub fn source(evidence: &Evidence) -> String {
    let source = match evidence {
        Evidence::Figure { metric, .. }
        | Evidence::Near { quantity: Quantity::Metric(metric), .. } => {
            words(metric).map_or(metric.meaning, |(.., source)| *source)
        }
        Evidence::OfCeiling { ceiling, .. } => {
            return format!("{}: {}", ceiling.name(), ceiling.source);
        }
        Evidence::NotSeenAgain { arm } => return format!("the runs of arm {arm}"),
        Evidence::BelowCeiling { .. } => "the ceilings of the point",
        Evidence::OfPermit { by: Permit::Pacing, .. } => "TCP_INFO of the sender: tcpi_pacing_rate",
        Evidence::OfPermit { by: Permit::CongestionWindow, .. } => {
            "TCP_INFO of the sender: tcpi_snd_cwnd over tcpi_rtt"
        }
        Evidence::OfPermit { by: Permit::ReceiveWindow, .. } | Evidence::WindowUsed { .. } => {
            "TCP_INFO of the sender: tcpi_snd_wnd and tcpi_rtt"
        }
        Evidence::NoQueue { .. } => {
            "TCP_INFO of the sender: tcpi_rtt, tcpi_min_rtt, tcpi_bytes_retrans"
        }
        Evidence::Near { quantity: Quantity::StandingQueue, .. } | Evidence::Queue { .. } => {
            "TCP_INFO of the sender: tcpi_rtt over tcpi_min_rtt"
        }
        Evidence::QueuedBytes { .. } => "TCP_INFO of the sender: tcpi_rtt and tcpi_min_rtt",
        Evidence::CpuTaken { .. } => {
            "steal time of the CPU that lost most, or run-queue wait of the slowest worker"
        }
        Evidence::OfPath { .. }
        | Evidence::ReversePath { .. }
        | Evidence::Buffer { .. }
        | Evidence::QueueBeforeLoad { .. }
        | Evidence::LossWithoutLoad { .. }
        | Evidence::SmallerMtu { .. } => "the probe of the path before the load (`linerate probe`)",
        Evidence::CpuWait { .. } => "run-queue wait and CPU time of the worker's thread",
        Evidence::FillsBuffer { .. } => "TCP_INFO of the sender: tcpi_rtt; SO_SNDBUF",
        Evidence::Flood { .. } => "datagrams sent and received",
        Evidence::QueueDrops { .. } => "drops of the queueing disciplines (tc -s qdisc)",
        Evidence::RingMissed { .. } => "rx_missed_errors and rx_fifo_errors of the interface",
        Evidence::RuledOut { .. } => "the experiments of this diagnosis",
        Evidence::LossModels { .. } => {
            "Padhye et al. 1998 and Mathis et al. 1997, from loss, round trip and segment"
        }
        Evidence::FlowsOnLinks { .. } => "bytes sent by each member link",
        Evidence::OfLinksInUse { .. } => "the declared capacities of the links that sent bytes",
        Evidence::OneFlow { .. } => "the declared capacities",
        Evidence::LittleToSend { .. } => {
            "TCP_INFO of the sender: tcpi_notsent_bytes, tcpi_snd_cwnd, tcpi_rtt"
        }
        Evidence::Segments { .. } => "TCP_MAXSEG of the connections",
        Evidence::NothingArrived | Evidence::NoFlow => "the counters of both ends",
        Evidence::Cpus { .. } => "/proc/stat, CPU by CPU, and getrusage of the workers",
        Evidence::InFlight { .. } => "the load's own counters: outstanding time and service times",
        Evidence::ThreadCpus { .. } => BUSIEST,
        Evidence::Flushing { .. } => "the load's own counters: flushes and their times",
        Evidence::DurableWrites { .. } => "the parameters and service times of the load",
        Evidence::RateReached { .. } | Evidence::NeverEnded { .. } => "the load's own counters",
        Evidence::NoClosedLoad => "the parameters of the load",
        Evidence::NoFigure | Evidence::Against(_) | Evidence::Validity(_) => {
            "the study of the point"
        }
        Evidence::LostThere { .. } | Evidence::NotLocated { .. } => {
            "loss ledger and counters of the path"
        }
    };
    source.to_owned()
}

fn words(metric: &Metric) -> Option<&'static Words> {
    FIGURES.iter().find(|(known, ..)| *known == metric)
}

/// Returns the value of a metric in a clause.
fn figure(metric: &Metric, value: f64) -> String {
    // The metric counts the busy time; a finding is about the rest.
    let value = if metric == metric::SENDER_BUSY { 1.0 - value } else { value };
    let value = match metric.unit {
        _ if metric.shown == Shown::PlainNumber => round_half_up(value, 2),
        Unit::Ratio | Unit::Core => share(value),
        Unit::Count | Unit::PerSecond => round_half_up(value, 0),
        Unit::Byte => format!("{value:.0} B"),
        _ => Scale::of(metric, [value]).shown(value),
    };
    match words(metric) {
        Some((_, before, after, _)) => format!("{before} {value} {after}").trim().to_owned(),
        None => format!("{}: {value}", metric.title),
    }
}

/// Returns a quantity beside the threshold of its rule.
fn near(quantity: Quantity, value: f64, threshold: f64) -> String {
    let (seen, limit) = match quantity {
        Quantity::Metric(metric) => (figure(metric, value), share(threshold)),
        Quantity::StandingQueue => (
            format!("the round-trip time was {:.1} times its minimum", 1.0 + value),
            format!("{:.1} times", 1.0 + threshold),
        ),
    };
    let why = if value > threshold { "; other conditions of the rule fail" } else { "" };
    format!("{seen} (threshold {limit}{why})")
}

#[cfg(test)]
mod tests {
    use linerate_model::Use;

    use super::*;

    #[test]
    fn every_metric_that_an_unexplained_point_shows_has_its_clause() {
        let missing: Vec<&str> = Use::LookedAt
            .metrics()
            .filter(|metric| words(metric).is_none())
            .map(|metric| metric.name)
            .collect();
        assert!(missing.is_empty(), "{missing:?}");
        assert!(FIGURES.is_sorted_by_key(|(metric, ..)| metric.name));
    }

    #[test]
    fn a_figure_is_a_clause_with_its_unit() {
        let clauses = [
            (
                metric::RWND_LIMITED,
                0.8,
                "the sender waited for the receiver's window 80 % of the time",
            ),
            (metric::SENDER_CPU, 0.97, "the busiest sending thread used 97 % of a core"),
            (metric::RETRANSMIT_RATIO, 0.0012, "0.12 % of the bytes were retransmitted"),
            (metric::PAYLOAD_PER_SEND, 65_536.0, "each call sent 65536 B"),
            (metric::RTT, 0.0012, "the round-trip time was 1.200 ms"),
            (metric::SOFTNET_DROPPED, 3.0, "3 packets were dropped at the backlog"),
            (
                metric::SENDER_BUSY,
                0.4,
                "the connection had nothing to send and nothing in flight 60 % of the time",
            ),
        ];
        for (metric, value, text) in clauses {
            assert_eq!(observation(&Evidence::figure(metric, value)), text);
        }
    }

    #[test]
    fn a_quantity_beside_its_threshold_has_both_values() {
        let near = |quantity, value, threshold| {
            observation(&Evidence::Near { quantity, value, threshold })
        };
        assert_eq!(
            near(Quantity::Metric(metric::RUN_QUEUE_WAIT), 0.86, 0.3),
            "the worker that waited most was ready but had no CPU 86 % of the time (threshold \
             30 %; other conditions of the rule fail)"
        );
        assert_eq!(
            near(Quantity::StandingQueue, 0.5, 1.0),
            "the round-trip time was 1.5 times its minimum (threshold 2.0 times)"
        );
    }
}
