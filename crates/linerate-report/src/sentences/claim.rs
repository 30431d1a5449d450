//! Sentences of claims.

use linerate_analysis::diagnosis::rules::RULES;
use linerate_analysis::diagnosis::{Claim, FlowEnd, Permit, SlowReader};
use linerate_analysis::statistics::measured_rate;
use linerate_model::{Direction, metric};

use super::share;
use crate::number::Scale;

/// Returns a claim as a short clause.
#[must_use]
pub fn claim(claim: &Claim) -> String {
    let text = match claim {
        Claim::Saturated(part) => return format!("{part} is saturated"),
        Claim::LostAt(place) => return format!("above this load, frames are lost at {place}"),
        Claim::PathRate { goodput } => {
            return format!("a link of the path is saturated at {}", measured_rate(*goodput));
        }
        Claim::Policer { rate } => {
            return format!("a policer drops packets above {}", measured_rate(*rate));
        }
        Claim::ReversePath { rate } => {
            let rate = measured_rate(*rate);
            return format!("the reverse path carries {rate}, too little for acknowledgements");
        }
        Claim::DiskFull { rate, bytes } => {
            return format!("the disk is full at {}", per_second(*rate, *bytes));
        }
        Claim::DiskGroupLimit { in_bytes, direction, rate } => {
            let rate = group_limit(*in_bytes, *direction, *rate);
            return format!("the control group permits {rate} on this disk (io.max)");
        }
        Claim::DiskQueue { admitted } => {
            return format!(
                "the kernel's queue admits {admitted:.0} requests to the disk, which could serve \
                 more at once"
            );
        }
        Claim::DiskShared { share: of_bytes } => {
            let of_bytes = share(*of_bytes);
            return format!("other programs use the disk: they move {of_bytes} of its bytes");
        }
        Claim::NotConfirmed { rule } => {
            let summary = RULES.iter().find(|known| known.name == rule);
            return format!("not confirmed: {}", summary.map_or(rule.as_str(), |it| it.summary));
        }
        Claim::Paced(by) => {
            let what = permit(*by);
            return format!("{what} keeps less data in flight than the path could carry");
        }
        Claim::QueueDepth => "the queue depth limits the rate: the disk could serve more at once",
        Claim::Cached => "the page cache serves the load, so the rate is that of memory",
        Claim::DiskWorkers => "the workers of the load use all of their CPU time",
        Claim::Flushes => {
            "flushes limit the writes: data becomes durable more slowly than it is written"
        }
        Claim::ControllerOverrun => "the TCP window overruns the buffer of the network controller",
        Claim::ShallowBuffer { before_controller: true } => {
            "the path loses packets at random, or a shallow buffer overflows before the network \
             controller, which dropped nothing"
        }
        Claim::ShallowBuffer { before_controller: false } => {
            "the TCP window overruns a shallow buffer, or the path loses packets at random"
        }
        Claim::UnevenHash { saturated: true } => {
            "the hash does not spread these flows over the links, and the used ones are saturated"
        }
        Claim::UnevenHash { saturated: false } => {
            "the hash does not spread these flows over the links"
        }
        Claim::MemoryBandwidth => "the CPUs wait for memory: copies use up its bandwidth",
        Claim::NotValid => "the measurement is not valid, so it shows nothing about the path",
        Claim::RemoteNode => "workers and network device are in different NUMA nodes",
        Claim::Loss => "the path loses packets, and TCP treats the loss as congestion",
        Claim::SmallerMtu => {
            "a link has a smaller MTU, and its ICMP messages do not reach the sender"
        }
        Claim::ReceiveBuffer => "the receive buffer is smaller than the bandwidth-delay product",
        Claim::Receiver => {
            "the receiver limits the sender: its buffer is small, or its application reads slowly"
        }
        Claim::SendBuffer => "the send buffer is smaller than the bandwidth-delay product",
        Claim::OutOfCpu(FlowEnd::Sending) => "the sender uses all of its CPU",
        Claim::OutOfCpu(FlowEnd::Receiving) => "the receiver uses all of its CPU",
        Claim::CpuTaken(FlowEnd::Sending) => {
            "other programs take the CPU time that the sender needs"
        }
        Claim::CpuTaken(FlowEnd::Receiving) => {
            "other programs take the CPU time that the receiver needs"
        }
        Claim::CpuTakenOfBoth => "other programs take the CPU time that both ends need",
        Claim::CrossTraffic => "other traffic shares a queue of the path",
        Claim::OneLink => "one flow can use only one link of the group",
        Claim::SlowReader(SlowReader::Storage) => {
            "the receiving application reads slowly: its host waits for storage"
        }
        Claim::SlowReader(SlowReader::CpuLeft) => {
            "the receiving application reads slowly, although it has CPU time left"
        }
        Claim::SlowReader(SlowReader::ClosedWindow) => {
            "the receiver reads slowly: it closes a window that was larger before"
        }
        Claim::SlowSource => "the sending application has nothing to send",
        Claim::SmallMessages => {
            "messages are small, and the cost of each system call limits the sender"
        }
        Claim::OneInterruptCpu => "one CPU handles all network interrupts while others are idle",
        Claim::Unexplained => "the recorded evidence does not show what limits the rate",
        Claim::Tester => "the tester was the limit; the device's own limit is higher",
    };
    text.to_owned()
}

/// Returns transfers per second, with bytes per second where they are known.
pub(super) fn per_second(rate: f64, bytes: Option<f64>) -> String {
    let bytes = bytes.map_or_else(String::new, |bytes| format!(" ({})", limit(true, bytes)));
    format!("{}{bytes}", limit(false, rate))
}

/// Returns a rate of bytes or transfers.
pub(super) fn limit(in_bytes: bool, rate: f64) -> String {
    if in_bytes {
        Scale::of(metric::TRANSFER_RATE, [rate]).shown(rate)
    } else {
        format!("{rate:.0} transfers/s")
    }
}

/// Returns a limit of a control group, with what it limits.
pub(super) fn group_limit(in_bytes: bool, direction: Direction, rate: f64) -> String {
    let of = match direction {
        Direction::Rx => " of reads",
        Direction::Tx => " of writes",
        Direction::Sum => "",
    };
    format!("{}{of}", limit(in_bytes, rate))
}

pub(super) const fn permit(by: Permit) -> &'static str {
    match by {
        Permit::Pacing => "pacing",
        Permit::CongestionWindow => "the congestion window",
        Permit::ReceiveWindow => "the receiver's window",
    }
}
