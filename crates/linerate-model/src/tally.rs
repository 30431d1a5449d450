//! Counts of a worker, and how they reach the collector.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use crate::{
    Carried, CarriedApart, Distribution, Nanos, OperationKind, ProbeRecord, Rare, Stages, TcpState,
    Variation,
};

macro_rules! counters {
    ($($variant:ident $name:literal $doc:literal,)*) => {
        /// Everything a worker can count. Values are monotone within a trial; an [`Interval`]
        /// carries their change.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(usize)]
        pub enum Counter { $(#[doc = $doc] $variant,)* }

        impl Counter {
            /// Every counter, in order of its index.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// Name on the wire and in the ledger.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }
        }
    };
}

counters! {
    PayloadSent "payload_sent" "L4 payload bytes accepted by the sending socket (not yet \
        delivered).",
    PayloadReceived "payload_received" "L4 payload bytes delivered to the receiving application, \
        duplicates excluded.",
    MessagesSent "messages_sent" "Application messages handed to the socket.",
    MessagesReceived "messages_received" "Application messages received whole.",
    DatagramsSent "datagrams_sent" "Datagrams handed to the socket (GSO segments counted singly).",
    DatagramsReceived "datagrams_received" "Distinct datagrams received in time (GRO segments \
        counted singly).",
    Duplicates "duplicates" "Datagrams received more than once.",
    Reordered "reordered" "Datagrams received after one with a higher sequence number.",
    Late "late" "Distinct datagrams received after their deadline.",
    Foreign "foreign" "Datagrams or connections dropped because they did not carry the session's \
        secret.",
    Transactions "transactions" "Requests whose response was received whole and in time.",
    TransactionsLost "transactions_lost" "Requests whose response never came.",
    Connections "connections" "Connections opened, used and closed.",
    ConnectionsFailed "connections_failed" "Connections that could not be opened or were cut off.",
    CallsSent "calls_sent" "System calls that sent.",
    CallsReceived "calls_received" "System calls that received.",
    WouldBlock "would_block" "System calls that found no room or no data.",
    SendErrors "send_errors" "System calls that failed to send.",
    ReceiveErrors "receive_errors" "System calls that failed to receive.",
    SocketDrops "socket_drops" "Messages or frames the kernel dropped at the receiving socket or \
        ring (SO_RXQ_OVFL, PACKET_STATISTICS); a coalesced message counts once.",
    SendDrops "send_drops" "Frames that a queue or driver of the sending host refused and dropped: \
        they are not among those sent.",
    Reflected "reflected" "Own frames that came back to the end that sent them.",
    ZerocopySends "zerocopy_sends" "Sends the kernel completed as zero-copy notifications.",
    ZerocopyCopied "zerocopy_copied" "Zero-copy sends the kernel copied after all.",
    ZerocopyMapped "zerocopy_mapped" "Payload bytes received by page mapping \
        (TCP_ZEROCOPY_RECEIVE).",
    Steps "steps" "Engine steps.",
    LateStarts "late_starts" "Operations of an open load started more than one gap after their \
        intended time.",
    Intended "intended" "Operations of an open load that were due.",
    Started "started" "Operations of an open load that were started.",
    CpuUser "cpu_user_ns" "CPU time of the worker thread in user space, ns.",
    CpuSystem "cpu_system_ns" "CPU time of the worker thread in the kernel, ns.",
    VoluntarySwitches "voluntary_switches" "Times the worker thread gave up its CPU.",
    RunQueueWait "run_queue_wait_ns" "Time the worker thread was ready to run and had no CPU, ns.",
    Reads "reads" "Reads from disks and files that ended well.",
    Writes "writes" "Writes to disks and files that ended well.",
    BytesRead "bytes_read" "Bytes read from disks and files.",
    BytesWritten "bytes_written" "Bytes written to disks and files.",
    TransferErrors "transfer_errors" "Reads and writes that failed or moved fewer bytes than asked \
        for.",
    Flaws "flaws" "Blocks read back that were not what was written there.",
    OutstandingTime "outstanding_ns" "Reads and writes under way, integrated over time, ns.",
    ReadErrors "read_errors" "Reads that failed or moved fewer bytes than asked for.",
    WriteErrors "write_errors" "Writes that failed or moved fewer bytes than asked for.",
    Exchanges "exchanges" "Transfers and the replies to them in the other direction, both ended \
        well.",
    PayloadAcknowledged "payload_acknowledged" "L4 payload bytes that the other end acknowledged, \
        by its TCP or in its protocol; counted by the sender where the other end is not linerate.",
    InvoluntarySwitches "involuntary_switches" "Times the worker thread was taken off its CPU.",
    OperationsDue "operations_due" "Operations that were to start: all that started, and of an \
        open load those that never did; of disks and files those that read.",
    OperationsAnswered "operations_answered" "Of those, ended well.",
    OperationsLost "operations_lost" "Of those, timed out or failed.",
    OperationsOpen "operations_open" "Of those, started and neither answered nor lost at the end \
        of the trial.",
    OperationsUnstarted "operations_unstarted" "Operations of an open load that were due and never \
        started: there was no room for them.",
    PortsExhausted "ports_exhausted" "Connections that could not be opened because no local port \
        was free.",
    VeryLateStarts "very_late_starts" "Frames and datagrams of an open load sent more than 1 ms \
        after their intended time.",
    SocketDroppedDatagrams "socket_dropped_datagrams" "Datagrams missing in the sequence where the \
        receiving socket dropped messages, at most as many as those can hold (segments of \
        coalesced messages counted singly).",
    SequenceAdvance "sequence_advance" "By how much the highest datagram numbers seen rose, all \
        flows added: what of it was not received is missing.",
    SourceWait "source_wait_ns" "Time the worker had room to send and its source had produced \
        nothing, ns.",
    Flushes "flushes" "Flushes of disks and files (fsync, fdatasync) that ended well.",
    Trims "trims" "Discards of disks and files (BLKDISCARD, punched holes) that ended well.",
    BytesTrimmed "bytes_trimmed" "Bytes of disks and files discarded.",
    WritesDue "writes_due" "Operations of disks and files that began with a write and were \
        started.",
    WritesAnswered "writes_answered" "Of those, ended well, with the reply if there is one.",
    WritesLost "writes_lost" "Of those, failed.",
    WritesOpen "writes_open" "Of those, still under way at the end of the trial.",
    FlushesDue "flushes_due" "Flushes of disks and files that were started.",
    FlushesAnswered "flushes_answered" "Of those, ended well.",
    FlushesLost "flushes_lost" "Of those, failed.",
    FlushesOpen "flushes_open" "Of those, still under way at the end of the trial.",
    TrimsDue "trims_due" "Discards of disks and files that were started.",
    TrimsAnswered "trims_answered" "Of those, ended well.",
    TrimsLost "trims_lost" "Of those, failed.",
    TrimsOpen "trims_open" "Of those, still under way at the end of the trial.",
    DelayChange "delay_change_ns" "Changes of the transit time from one datagram to the next, \
        added without their signs, ns (RFC 3550 clause 6.4.1): of each message with a kernel's \
        stamp, or of the first one of each call that received.",
    DelayChanges "delay_changes" "Number of these changes: their mean is the jitter.",
    Serving "serving_ns" "Time in which at least one file of another program was under way at the \
        worker: asked for, and not yet acknowledged whole, ns.",
}

/// One value for each [`Counter`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counters([u64; Counter::ALL.len()]);

impl Default for Counters {
    fn default() -> Self {
        Self([0; Counter::ALL.len()])
    }
}

impl std::ops::Index<Counter> for Counters {
    type Output = u64;
    fn index(&self, counter: Counter) -> &u64 {
        &self.0[counter as usize]
    }
}

impl std::ops::IndexMut<Counter> for Counters {
    fn index_mut(&mut self, counter: Counter) -> &mut u64 {
        &mut self.0[counter as usize]
    }
}

impl Counters {
    /// The change since `earlier`, counter by counter.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let mut change = *self;
        for (now, then) in change.0.iter_mut().zip(earlier.0) {
            // Counters are cumulative, and a difference stays right even if one wrapped.
            *now = now.wrapping_sub(then);
        }
        change
    }

    /// Adds `other`, counter by counter.
    pub fn add(&mut self, other: &Self) {
        for (sum, more) in self.0.iter_mut().zip(other.0) {
            *sum = sum.wrapping_add(more);
        }
    }

    /// Counters that are not zero, by name.
    pub(crate) fn nonzero(&self) -> impl Iterator<Item = (Counter, u64)> + '_ {
        // Most counters of an interval are zero, and leaving them out keeps ledgers small.
        Counter::ALL
            .iter()
            .map(|&counter| (counter, self[counter]))
            .filter(|(_, value)| *value != 0)
    }
}

/// Changes of the counters during an interval. Most are zero, and those take no memory.
#[derive(Clone, Debug, Default)]
pub struct CounterChanges {
    /// A bit for each counter in `values`.
    present: u128,
    /// In the order of the counters.
    values: Vec<u64>,
}

const _: () = assert!(Counter::ALL.len() <= u128::BITS as usize);

impl CounterChanges {
    /// Returns whether the counter is in `values`, and its place there.
    fn place(&self, counter: Counter) -> (bool, usize) {
        let bit = 1_u128 << counter as usize;
        let before = (self.present & (bit - 1)).count_ones();
        (self.present & bit != 0, before as usize)
    }

    /// Returns those that are not zero.
    fn nonzero(&self) -> impl Iterator<Item = (Counter, u64)> + '_ {
        let present = Counter::ALL
            .iter()
            .copied()
            .filter(|&counter| self.present >> counter as usize & 1 == 1);
        present.zip(self.values.iter().copied()).filter(|(_, value)| *value != 0)
    }
}

impl std::ops::Index<Counter> for CounterChanges {
    type Output = u64;
    fn index(&self, counter: Counter) -> &u64 {
        match self.place(counter) {
            (true, place) => &self.values[place],
            (false, _) => &0,
        }
    }
}

impl std::ops::IndexMut<Counter> for CounterChanges {
    fn index_mut(&mut self, counter: Counter) -> &mut u64 {
        let (is_present, place) = self.place(counter);
        if !is_present {
            self.present |= 1 << counter as usize;
            self.values.insert(place, 0);
        }
        &mut self.values[place]
    }
}

impl From<Counters> for CounterChanges {
    fn from(counters: Counters) -> Self {
        let present = counters.nonzero().fold(0, |bits, (counter, _)| bits | 1 << counter as usize);
        Self { present, values: counters.nonzero().map(|(_, value)| value).collect() }
    }
}

impl PartialEq for CounterChanges {
    fn eq(&self, other: &Self) -> bool {
        self.nonzero().eq(other.nonzero())
    }
}

impl Serialize for CounterChanges {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.nonzero().map(|(counter, value)| (counter.name(), value)))
    }
}

impl<'de> Deserialize<'de> for CounterChanges {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Counters::deserialize(deserializer).map(Self::from)
    }
}

impl Serialize for Counters {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.nonzero().map(|(counter, value)| (counter.name(), value)))
    }
}

impl<'de> Deserialize<'de> for Counters {
    /// Names this version does not know are ignored: a newer agent may count more.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let named = BTreeMap::<String, u64>::deserialize(deserializer)?;
        let mut counters = Self::default();
        for &counter in Counter::ALL {
            // A counter that an older agent does not know did not count anything.
            counters[counter] = named.get(counter.name()).copied().unwrap_or(0);
        }
        Ok(counters)
    }
}

/// A flow's TCP state at one instant; counters in it are cumulative since the connection was
/// opened.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct FlowTcp {
    /// The flow's number within its job.
    pub flow: u32,
    /// The kernel's view.
    pub tcp: TcpState,
}

/// Counts of one worker during one interval.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// The worker's number within its job and side.
    pub worker: u32,
    /// Start, nanoseconds since the trial's start barrier on the agreed clock.
    pub start: Nanos,
    /// End, likewise. `end - start` is measured, not nominal.
    pub end: Nanos,
    /// Changes of the counters.
    pub counters: CounterChanges,
    /// Memory the kernel held at `end` for what had arrived for this worker and was not read,
    /// payload waiting behind a hole included: an upper bound of that payload. `None` if nobody
    /// looked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_bytes: Option<u64>,
    /// Of the times from one engine step of this worker to the next that ended in this interval,
    /// the one with the longest part in which its thread did not run. A step waits ten milliseconds
    /// at most: a longer wait is the tester's own. Where steps may wait for a disk, only the time
    /// in which the whole process stood counts. `None` if nobody looked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub longest_step: Option<StepGap>,
    /// Service times: from actual start to end of an operation, ns.
    #[serde(default, skip_serializing_if = "Rare::is_empty")]
    pub service: Rare<Distribution>,
    /// Service times of writes to disks and files, ns; those of reads are in `service`.
    #[serde(default, skip_serializing_if = "Rare::is_empty")]
    pub writes: Rare<Distribution>,
    /// Times of flushes of disks and files (fsync, fdatasync), ns.
    #[serde(default, skip_serializing_if = "Rare::is_empty")]
    pub flushes: Rare<Distribution>,
    /// Times of discards of disks and files, ns.
    #[serde(default, skip_serializing_if = "Rare::is_empty")]
    pub trims: Rare<Distribution>,
    /// Response times: from *intended* start to end of an operation, ns.
    #[serde(default, skip_serializing_if = "Rare::is_empty")]
    pub response: Rare<Distribution>,
    /// Gaps between departures, ns.
    #[serde(default, skip_serializing_if = "Rare::is_empty")]
    pub gap: Rare<Distribution>,
    /// Differences between the delays of frames sent one after the other.
    #[serde(default, skip_serializing_if = "Rare::is_empty")]
    pub variation: Rare<Variation>,
    /// Times of the parts of file transfers.
    #[serde(default, skip_serializing_if = "Rare::is_empty")]
    pub stages: Rare<Stages>,
    /// Operations that were due in an earlier interval than that in which they ended: those of
    /// [`OperationKind::Request`].
    #[serde(default, skip_serializing_if = "Rare::is_empty")]
    pub carried: Rare<Carried>,
    /// The same of other kinds.
    #[serde(default, skip_serializing_if = "Rare::is_empty")]
    pub carried_apart: Rare<CarriedApart>,
    /// Datagrams and frames that this worker sent, by the interval in which they were to depart:
    /// its start, nanoseconds since the start barrier, and how many. Absent of versions that did
    /// not count them.
    #[serde(default, skip_serializing_if = "Rare::is_empty")]
    pub departures: Rare<Distribution>,
    /// Datagrams and frames that came for the first time, by the interval of their sender in which
    /// they were to depart, likewise.
    #[serde(default, skip_serializing_if = "Rare::is_empty")]
    pub arrivals: Rare<Distribution>,
    /// TCP state of this worker's flows at `end`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub flows: Vec<FlowTcp>,
}

impl Interval {
    /// Returns the counts of operations of `kind` that were carried into it.
    #[must_use]
    pub fn carried_of(&self, kind: OperationKind) -> &Carried {
        match kind {
            OperationKind::Request => &self.carried,
            OperationKind::Write => &self.carried_apart.writes,
            OperationKind::Flush => &self.carried_apart.flushes,
            OperationKind::Trim => &self.carried_apart.trims,
        }
    }

    /// The same, to be filled in.
    pub fn carried_of_mut(&mut self, kind: OperationKind) -> &mut Carried {
        match kind {
            OperationKind::Request => &mut self.carried,
            OperationKind::Write => &mut self.carried_apart.writes,
            OperationKind::Flush => &mut self.carried_apart.flushes,
            OperationKind::Trim => &mut self.carried_apart.trims,
        }
    }

    /// Times of the operations of `kind`: from actual start to end.
    #[must_use]
    pub fn times_of(&self, kind: OperationKind) -> &Distribution {
        match kind {
            OperationKind::Request => &self.service,
            OperationKind::Write => &self.writes,
            OperationKind::Flush => &self.flushes,
            OperationKind::Trim => &self.trims,
        }
    }
}

/// Time between two consecutive engine steps of a worker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepGap {
    /// When the first of them began, nanoseconds since the trial's start barrier.
    pub start: Nanos,
    /// Time until the next one began.
    pub length: Nanos,
    /// CPU time that the worker's thread took meanwhile, known to a few milliseconds and never too
    /// small.
    pub ran: Nanos,
}

impl StepGap {
    /// When the second step began.
    pub fn end(self) -> Nanos {
        Nanos(self.start.0.saturating_add(self.length.0))
    }

    /// The part in which the worker's thread did not run.
    pub fn stood(self) -> Nanos {
        // CPU time is known to a few milliseconds and may exceed a short step.
        self.length.since(self.ran)
    }
}

/// A socket option as asked for, as granted when the flow was opened, and as found at its end.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SocketValue {
    /// Value that the plan requested; `None` if it requested none.
    pub requested: Option<Value>,
    /// Value that the kernel reported after it was set.
    pub granted: Option<Value>,
    /// Value that the kernel reported when the flow ended.
    pub at_end: Option<Value>,
}

/// Report of one flow at the end of a trial, from one side.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FlowReport {
    /// The flow's number within its job.
    pub flow: u32,
    /// The worker that carried it.
    pub worker: u32,
    /// Local address and port.
    pub local: String,
    /// Peer address and port.
    pub remote: String,
    /// Totals over the whole trial, warm-up and drain included.
    pub counters: Counters,
    /// Highest datagram sequence number sent or seen, plus one; 0 if none. With both ends' counters
    /// it splits loss into gap (below it), tail (above it) and all.
    #[serde(default)]
    pub next_sequence: u64,
    /// Socket options: `send_buffer`, `receive_buffer`, `congestion`, `mss`, `no_delay`, `dscp`,
    /// ...
    #[serde(default)]
    pub socket: BTreeMap<String, SocketValue>,
    /// The mode actually obtained, e.g. `send: copy`, `receive: discard`, `gso: 64`.
    #[serde(default)]
    pub modes: BTreeMap<String, String>,
    /// Final TCP state.
    pub tcp: Option<TcpState>,
    /// The last gap in the numbers received, where the receiver kept it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_gap: Option<LastGap>,
    /// The most numbers in a row that were jumped over, zero if none was; `None` where the receiver
    /// kept no gaps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub longest_gap: Option<Gap>,
    /// Of each of the first bursts the response time of the slowest frame, ns, in their order; 0
    /// where none of a burst came. Of all flows of a worker together, with its first flow.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bursts: Vec<u64>,
    /// Datagrams of a path probe, one by one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probe: Option<Box<ProbeRecord>>,
    /// Totals of the other end, where it is not linerate and reports them itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub foreign: Option<Box<ForeignEnd>>,
}

/// Totals that the foreign end of a flow reports, over its whole load: warm-up included.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ForeignEnd {
    /// Payload and datagrams that it sent or received.
    #[serde(default)]
    pub counters: Counters,
    /// Highest datagram number that it sent or saw, plus one, as in [`FlowReport`].
    #[serde(default)]
    pub next_sequence: u64,
    /// Time for which it counted.
    #[serde(default)]
    pub time: Nanos,
    /// Segments that it sent again; `None` if it does not report them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retransmits: Option<u64>,
    /// Share of one CPU that its program used for all flows; `None` if it does not report it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<f64>,
}

/// Numbers of a flow that were jumped over on receipt, and the time from the frame before them to
/// the frame behind them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gap {
    /// How many.
    pub missing: u64,
    /// Between the arrivals of the two frames.
    pub seen: Nanos,
    /// Between the moments at which the two were to depart; `None` if one-way times are not known.
    pub scheduled: Option<Nanos>,
}

/// The last numbers of a flow that were jumped over on receipt; times by the receiver's clock, from
/// the start barrier.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastGap {
    /// The number behind the gap.
    pub behind: u64,
    /// When the frame with that number came.
    pub seen: Nanos,
    /// When it was to depart; `None` if one-way times are not known.
    pub scheduled: Option<Nanos>,
}

impl LastGap {
    /// The same with times counted from `start`, which they were not yet.
    #[must_use]
    pub fn since(self, start: Nanos) -> Self {
        Self {
            seen: self.seen.since(start),
            scheduled: self.scheduled.map(|at| at.since(start)),
            ..self
        }
    }
}
