//! Sentences of recommended steps and their expected effects.

use linerate_analysis::diagnosis::{Consent, FlowEnd, Step};
use linerate_model::Metric;

use super::claim::{group_limit, limit, per_second};

/// Upper end from which a prediction counts as open.
const OPEN: f64 = 10.0;
/// File with the number of requests that each hardware queue of a disk admits.
const NR_REQUESTS: &str = "`/sys/block/DISK/queue/nr_requests`";

/// Returns a step as an imperative clause, and its expected effect if the claim is true.
pub(crate) fn step(step: &Step) -> (String, Option<String>) {
    let (text, effect) = match step {
        Step::Experiment { name, metric, ratio, consent } => {
            let first = consent.map_or("", |consent| match consent {
                Consent::Hosts => "start the agents with `--allow-tune host`, then ",
                Consent::ReceivingDevice => {
                    "start the receiving host's agent with `--allow-tune DEVICE`, then "
                }
            });
            let text = format!("{first}repeat with this change: {name}");
            return (text, Some(promise(metric, *ratio)));
        }
        Step::Streams { streams } => {
            let effect = "goodput rises if the limit is per flow, and stays if it is the path's";
            return (format!("repeat with {streams} streams"), Some(effect.to_owned()));
        }
        Step::MoreFlows { end, streams } => {
            let verb = by_end(*end, "send", "receive");
            let text = format!("{verb} {streams} flows on several CPUs");
            return (text, Some(HALF.to_owned()));
        }
        Step::FlowsOnLinks { streams, links } => {
            let effect = format!("goodput rises up to {links:.0} times");
            return (format!("send {streams} flows"), Some(effect));
        }
        Step::Double { parameter, value: Some(value), requests } => {
            let queue = requests.map_or_else(String::new, |requests| {
                format!(", and raise the disk's queue to {requests:.0} requests ({NR_REQUESTS})")
            });
            let effect = "the rate rises by a fifth or more".to_owned();
            return (format!("double `{parameter}` to {value}{queue}"), Some(effect));
        }
        Step::Double { parameter, value: None, .. } => {
            let text = format!("repeat with twice the `{parameter}`");
            let effect = "if the rate does not rise, the disk is saturated".to_owned();
            return (text, Some(effect).filter(|_| parameter == "depth"));
        }
        Step::FasterDisk { rate, bytes } => {
            let text = format!(
                "the disk does {}: use a faster disk, larger blocks if transfers fill it, or a \
                 lower `depth` at the same rate",
                per_second(*rate, *bytes)
            );
            return (
                text,
                Some("a lower depth shortens the service time in proportion".to_owned()),
            );
        }
        Step::RaiseGroupLimit { in_bytes, direction, rate } => {
            let permits = group_limit(*in_bytes, *direction, *rate);
            let text = format!(
                "raise the control group's limit of {permits} on this disk (`io.max`), or run the \
                 load outside the group"
            );
            return (text, Some("the rate rises with the limit".to_owned()));
        }
        Step::RaiseDiskQueue { admitted, wanted, change } => {
            let lower: Vec<String> = change
                .iter()
                .map(|(parameter, value)| format!("`{parameter}` to {value}"))
                .collect();
            let text = format!(
                "raise the {admitted:.0} requests of the disk's queue to {wanted:.0} \
                 ({NR_REQUESTS}), or lower {}",
                lower.join(" and ")
            );
            let effect = "more requests raise the rate; fewer transfers shorten the service time";
            return (text, Some(effect.to_owned()));
        }
        Step::StopOthersAtDisk { bytes } => {
            let much = bytes
                .map_or_else(String::new, |bytes| format!(", which move {}", limit(true, bytes)));
            let text = format!(
                "find the other programs at this disk{much} (`pidstat -d 1`, `iotop`), stop them, \
                 and repeat"
            );
            return (text, Some("the rate rises by what the others leave".to_owned()));
        }
        Step::CpuQuota(end) => (
            by_end(*end, "raise the sender's CPU quota", "raise the receiver's CPU quota"),
            "goodput rises with the quota",
        ),
        Step::DoubleBuffer(end) => (
            by_end(*end, "double the send buffer", "double the receive buffer"),
            "goodput rises by half or more, up to the next limit",
        ),
        Step::LargeBuffer(end) => {
            (by_end(*end, "use a larger send buffer", "use a larger receive buffer"), HALF)
        }
        Step::OneFlow => (
            "send one flow, or pin each end to CPUs of its own (`cpus = [2, 3]` at each endpoint \
             of a testbed file; `linerate testbed init HOST` writes one)",
            "the wait for a CPU ends",
        ),
        Step::FreeCpus => (
            "stop other programs, or pin each end to CPUs of its own (`cpus = [2, 3]` at each \
             endpoint of a testbed file; `linerate testbed init HOST` writes one), and repeat",
            "the wait for a CPU ends",
        ),
        Step::WithoutCopies { both: true } => {
            ("send and receive without copying", "cycles per instruction fall")
        }
        Step::WithoutCopies { both: false } => (
            "send without copying",
            "CPU time per byte falls, and goodput rises up to the next limit",
        ),
        Step::LargerMessages => (
            "send twice as much per call, or several messages per call",
            "goodput rises to 1.6 times or more",
        ),
        Step::SmallSegments => (
            "send small segments",
            "data arrives; then lower the MTU of the interface, permit ICMP, or set \
             `net.ipv4.tcp_mtu_probing=1`",
        ),
        Step::Discard => ("discard the data at the receiver", NETWORK),
        Step::FromMemory => ("send from memory", NETWORK),
        Step::OtherCongestionControl => {
            ("measure longer, without pacing, or with another congestion control", RISES)
        }
        Step::FindWindow => (
            "find the largest window that the buffer survives",
            "a smaller window ends the loss of a shallow buffer, but not random loss",
        ),
        Step::LocateDrops => (
            "locate the drops with datagrams",
            "the report's loss section names the place of the drops",
        ),
        Step::FindHop => (
            "find the hop with the queue: repeat towards each hop; the first whose rate equals \
             this goodput is saturated",
            "",
        ),
        Step::PaceBelow => (
            "pace below the token rate, or shape the traffic in front of the policer",
            "retransmissions end",
        ),
        Step::WithoutOthers => ("measure again while other traffic is absent", RISES),
        Step::ShortenQueue => (
            "limit the queue of that hop (`fq_codel` or `cake`), or send with BBR",
            "the round-trip time under load falls, and goodput stays",
        ),
        Step::FasterReversePath => {
            ("raise the rate of the reverse path, or give acknowledgements priority there", RISES)
        }
        Step::HashPorts => (
            "hash ports too: `xmit_hash_policy layer3+4`, or the equivalent of the switch",
            "goodput rises to the capacity of the links in use",
        ),
        Step::FasterLink => (
            "use a faster link, or raise its MTU, and measure again",
            "goodput follows by at least 0.8 of the change",
        ),
        Step::OtherSlot => (
            "move the device to a wider or faster slot, or to another bus",
            "goodput follows the ceiling of the slot",
        ),
        Step::PinToNode => (
            "pin the workers to CPUs of the device's own node (`lscpu` lists them), with `cpus` \
             of the endpoint or with `to_cpus` as an arm of `[sweep.compare]`",
            "goodput rises and cycles per instruction fall",
        ),
        Step::SpreadReception => (
            "spread reception over CPUs (more queues, or `rps_cpus` of the queue), or move the \
             interrupt to the idle CPU",
            RISES,
        ),
        Step::CheckHost => (
            "check what this host cannot measure, repair it, and repeat",
            "the figure falls below its ceiling",
        ),
        Step::FlushLess => (
            "flush less often (`flush_every`), or use a disk with a protected cache",
            "the rate rises",
        ),
        Step::SweepDepth => (
            "measure the rate at each queue depth",
            "where the rate no longer rises, the disk or a quota is the limit",
        ),
        Step::WithoutRate => ("repeat without `rate`", ""),
        Step::KernelLog => {
            ("look for errors of the disk in the kernel's log (`dmesg`), then repeat", "")
        }
        Step::MoreTesters => ("send from more workers or hosts, and search again", ""),
        Step::ReadCounters => ("read the drop counters of every hop, and search again", ""),
    };
    (text.to_owned(), Some(effect.to_owned()).filter(|effect| !effect.is_empty()))
}

const HALF: &str = "goodput rises by half or more";
const NETWORK: &str = "goodput rises to the limit of the network";
const RISES: &str = "goodput rises";

pub(super) const fn by_end(
    end: FlowEnd,
    sending: &'static str,
    receiving: &'static str,
) -> &'static str {
    match end {
        FlowEnd::Sending => sending,
        FlowEnd::Receiving => receiving,
    }
}

/// Returns the predicted effect of an experiment.
fn promise(metric: &Metric, [least, most]: [f64; 2]) -> String {
    if most >= OPEN {
        format!("{metric} changes to {least:.2} times its value or more")
    } else {
        format!("{metric} changes to {least:.2} to {most:.2} times its value")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_is_raised_or_every_parameter_of_the_load_lowered() {
        let change = vec![("depth".to_owned(), 1.into()), ("workers".to_owned(), 4.into())];
        let (text, _) = step(&Step::RaiseDiskQueue { admitted: 4.0, wanted: 32.0, change });
        assert_eq!(
            text,
            "raise the 4 requests of the disk's queue to 32 (`/sys/block/DISK/queue/nr_requests`), \
             or lower `depth` to 1 and `workers` to 4"
        );
        let double = |requests| {
            step(&Step::Double { parameter: "depth".into(), value: Some(36), requests }).0
        };
        assert_eq!(double(None), "double `depth` to 36");
        assert_eq!(
            double(Some(36.0)),
            "double `depth` to 36, and raise the disk's queue to 36 requests \
             (`/sys/block/DISK/queue/nr_requests`)"
        );
    }
}
