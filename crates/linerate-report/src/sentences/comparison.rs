//! Sentences on comparisons: why an effect is not proven, and how a fact affects figures.

use linerate_analysis::compare::{Mechanism, Unproven};

/// Returns the reason why an effect is not proven.
#[must_use]
pub fn unproven(why: &Unproven) -> String {
    let percent = |ratio: f64| (ratio - 1.0) * 100.0;
    match *why {
        Unproven::NoPlacebo => "no placebo was measured".to_owned(),
        Unproven::PlaceboMoved => "the placebo had an effect too".to_owned(),
        Unproven::TooSmall { moved, needed } => format!(
            "it changed by {:.0} %; proof needs {:.0} % beside this noise",
            percent(moved),
            percent(needed)
        ),
        Unproven::TooFewPairs { n } => format!("an interval needs six pairs or more, not {n}"),
        Unproven::WithinNoise { moved } => format!(
            "it changed by {:.0} %; single pairs of the placebo differ as much",
            percent(moved)
        ),
        Unproven::NoChange => "the interval includes no change".to_owned(),
    }
}

/// Returns the effect of a fact that differs between two environments.
pub(crate) fn mechanism(mechanism: Mechanism) -> &'static str {
    match mechanism {
        Mechanism::Capacity => "the path itself has another capacity",
        Mechanism::PortRate => "the port has another rate",
        Mechanism::HalfDuplex => "half duplex collides",
        Mechanism::PacketSize => "larger packets cost less each byte",
        Mechanism::Offloads => "without offloads the CPU handles every segment as a packet",
        Mechanism::Queues => "queues decide how many CPUs share the packets",
        Mechanism::FlowHash => "the hash decides which CPU gets a flow",
        Mechanism::InterruptCpu => "interrupts on another CPU share it with other work",
        Mechanism::Coalescing => "packets wait until the interrupt",
        Mechanism::Rings => "a short ring drops bursts, a long one delays",
        Mechanism::Qdisc => "the queueing discipline shapes, orders and drops",
        Mechanism::PauseFrames => "pause frames turn loss into waiting",
        Mechanism::Driver => "another driver is another path through the kernel",
        Mechanism::Firmware => "the firmware of the card changed",
        Mechanism::Slot => "a narrower or slower slot is a lower ceiling",
        Mechanism::ReceiveWindow => "it limits the receive window",
        Mechanism::DataInFlight => "it holds the data in flight",
        Mechanism::LargestReceiveBuffer => "the largest receive buffer a program may ask for",
        Mechanism::LargestSendBuffer => "the largest send buffer a program may ask for",
        Mechanism::CongestionControl => "it changes the sender's reaction to loss and delay",
        Mechanism::DefaultQdisc => "decides pacing and queueing where nothing else is set",
        Mechanism::KernelNetwork => "a network setting of the kernel",
        Mechanism::CpuQuota => "a quota limits the CPU time",
        Mechanism::CpuClock => "a slower clock raises the cost of every packet",
        Mechanism::CpuSleep => "a sleeping CPU answers late",
        Mechanism::Processor => "another processor",
        Mechanism::Mitigations => "it makes each system call slower",
        Mechanism::Kernel => "another kernel has another network stack",
        Mechanism::Memory => "memory bandwidth and page sizes",
        Mechanism::Disk => "another disk, scheduler or cache",
        Mechanism::Linerate => "the tool itself changed",
        Mechanism::OtherPrograms => {
            "other programs take this share of the CPUs' work and use their caches"
        }
        Mechanism::Unknown => "its effect is not known",
    }
}
