//! Recommendations of a finding as data: a step, and the command that takes it.
//!
//! The expected effect follows from the step. A command names no host: the same finding is shown
//! for a ledger, a lab and a live path. The report adds the place from the campaign it describes.

use linerate_model::{Command, Direction, Metric};
use serde::{Deserialize, Serialize};

use super::evidence::FlowEnd;
use super::experiment::Change;

/// A recommended next step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Advice {
    /// The step.
    pub step: Step,
    /// The command that takes the step, where one exists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<Command>,
}

/// Change or measurement to make next.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "fields that are not explained are what they are called")]
pub enum Step {
    /// Measure with the change of an experiment, after this consent of hosts. `ratio` is the
    /// predicted range of `metric` over its value now.
    Experiment { name: String, metric: &'static Metric, ratio: [f64; 2], consent: Option<Consent> },
    /// Repeat with this many flows; the effect shows whether the limit is per flow.
    Streams { streams: u64 },
    /// Send or receive this many flows on several CPUs.
    MoreFlows { end: FlowEnd, streams: u64 },
    /// Send this many flows over the links of a group.
    FlowsOnLinks { streams: u64, links: f64 },
    /// Send one flow, or give each end CPUs of its own.
    OneFlow,
    /// Stop other programs, or give each end CPUs of its own.
    FreeCpus,
    /// Raise the CPU quota of an end.
    CpuQuota(FlowEnd),
    /// Double the socket buffer of an end.
    DoubleBuffer(FlowEnd),
    /// Use a large socket buffer at an end.
    LargeBuffer(FlowEnd),
    /// Send without copying; `both` is true if the receiver shall not copy either.
    WithoutCopies { both: bool },
    /// Send larger messages.
    LargerMessages,
    /// Send small segments.
    SmallSegments,
    /// Discard the data at the receiver.
    Discard,
    /// Send from memory.
    FromMemory,
    /// Measure longer, without pacing, or with another congestion control.
    OtherCongestionControl,
    /// Find the largest window that a shallow buffer survives.
    FindWindow,
    /// Locate drops with datagrams.
    LocateDrops,
    /// Find the hop with the queue.
    FindHop,
    /// Pace below the token rate of a policer.
    PaceBelow,
    /// Measure while others send nothing.
    WithoutOthers,
    /// Limit the queue of the hop.
    ShortenQueue,
    /// Raise the rate of the reverse path.
    FasterReversePath,
    /// Let the hash of a group include ports.
    HashPorts,
    /// Use a faster link, or a larger MTU.
    FasterLink,
    /// Move the device to a wider slot.
    OtherSlot,
    /// Pin workers to CPUs of the device's node.
    PinToNode,
    /// Spread reception over CPUs.
    SpreadReception,
    /// Check what the host cannot measure.
    CheckHost,
    /// Raise this parameter of a load on a disk to twice its value, and each hardware queue of the
    /// disk to as many `requests` where it admits fewer.
    Double { parameter: String, value: Option<u64>, requests: Option<f64> },
    /// Flush less often.
    FlushLess,
    /// Ask less of a full disk: transfers and bytes per second that it does.
    FasterDisk { rate: f64, bytes: Option<f64> },
    /// Raise the limit of the control group on a disk for writes or reads: per second, in bytes or
    /// transfers.
    RaiseGroupLimit { in_bytes: bool, direction: Direction, rate: f64 },
    /// Raise the number of requests that each hardware queue of a disk admits, or lower the load by
    /// this change.
    RaiseDiskQueue { admitted: f64, wanted: f64, change: Change },
    /// Stop the other programs at a disk, which move `bytes` per second.
    StopOthersAtDisk { bytes: Option<f64> },
    /// Measure the rate at each queue depth.
    SweepDepth,
    /// Repeat without the plan's rate.
    WithoutRate,
    /// Look for errors of the disk in the kernel's log.
    KernelLog,
    /// Send from more workers or hosts.
    MoreTesters,
    /// Read the drop counters of every hop.
    ReadCounters,
}

/// Consent that hosts must give before an experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Consent {
    /// Both agents permit settings of their host.
    Hosts,
    /// The receiving agent permits settings of its device.
    ReceivingDevice,
}

impl From<Step> for Advice {
    fn from(step: Step) -> Self {
        Self { step, command: None }
    }
}

impl Step {
    /// Returns true for an experiment that makes the load slower: a test, and no cure.
    pub(super) fn is_setback(&self) -> bool {
        let Self::Experiment { metric, ratio: [_, most], .. } = self else { return false };
        metric.higher_is_better == Some(true) && *most < 1.0
    }

    /// Returns the step with the command that takes it; `None` if there is none.
    #[must_use]
    pub fn by(self, command: impl Into<Option<Command>>) -> Advice {
        Advice { step: self, command: command.into() }
    }
}
