//! Parameters of `storage`.

use std::ops::RangeInclusive;

use linerate_disk::Synchrony;
use linerate_model::{Bytes, Nanos, ParamError, Ratio};
use linerate_sys::storage::Operation;

use super::access::{Line, WeightOf};
use super::places::{Pattern, Zone};
use crate::parameter::{Reader, Words, word};
use crate::workloads::arrivals::Arrivals;
use crate::workloads::parameters::Parameters;
use crate::workloads::placement::WORKERS;

/// Most transfers under way per worker: the capacity of the rings of io_uring and native AIO.
const MOST_DEPTH: u64 = 32_768;
/// Sizes of a transfer: from the smallest block of a disk to the most that a kernel takes at once.
pub(super) const TRANSFER: RangeInclusive<Bytes> = Bytes(512)..=Bytes(1 << 30);
/// Targets and budgets.
const AMOUNT: RangeInclusive<Bytes> = Bytes(1 << 20)..=Bytes(1 << 60);
/// Blocks that wait to be read back: their places fit some megabytes.
const MOST_BACKLOG: u64 = 1 << 20;
const ZONE: RangeInclusive<Bytes> = Bytes(512)..=Bytes(1 << 60);
/// Bytes skipped in a target.
const SKIPPED: RangeInclusive<Bytes> = Bytes(0)..=Bytes(1 << 60);
/// Longer pauses are no load.
const PAUSE: RangeInclusive<Nanos> = Nanos(0)..=Nanos::from_secs(3_600);
const SHARE: RangeInclusive<Ratio> = Ratio(0.0)..=Ratio(1.0);
/// With a larger exponent, all transfers go to one place.
const SKEW: RangeInclusive<Ratio> = Ratio(0.01)..=Ratio(5.0);

/// Use of the page cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cache {
    /// Past it.
    Direct,
    /// Through it.
    Buffered,
}

impl Cache {
    const WORDS: Words<Self> = &[("direct", Self::Direct), ("buffered", Self::Buffered)];

    /// Returns the word in plans and reports.
    pub(super) fn name(self) -> &'static str {
        word(Self::WORDS, &self)
    }
}

/// The requested engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    /// The one that suits target and depth.
    Auto,
    IoUring,
    IoUringPolling,
    IoUringThread,
    Aio,
    Threads,
    Pread,
}

impl Wanted {
    const WORDS: Words<Self> = &[
        ("auto", Self::Auto),
        ("io_uring", Self::IoUring),
        ("io_uring_polling", Self::IoUringPolling),
        ("io_uring_thread", Self::IoUringThread),
        ("aio", Self::Aio),
        ("threads", Self::Threads),
        ("pread", Self::Pread),
    ];
}

/// Parts of the range in which the sequences of several workers run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Regions {
    Disjoint,
    Same,
}

impl Regions {
    const WORDS: Words<Self> = &[("disjoint", Self::Disjoint), ("same", Self::Same)];
}

/// The call that makes writes durable after they have ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flush {
    None,
    Fsync,
    Fdatasync,
}

impl Flush {
    const WORDS: Words<Self> =
        &[("none", Self::None), ("fsync", Self::Fsync), ("fdatasync", Self::Fdatasync)];

    /// Returns the word in plans and reports.
    pub(super) fn name(self) -> &'static str {
        word(Self::WORDS, &self)
    }

    /// Returns the operation, if there is one.
    pub(super) const fn operation(self) -> Option<Operation> {
        match self {
            Self::None => None,
            Self::Fsync => Some(Operation::Fsync),
            Self::Fdatasync => Some(Operation::Fdatasync),
        }
    }
}

const SYNCHRONIES: Words<Synchrony> =
    &[("none", Synchrony::None), ("dsync", Synchrony::Data), ("sync", Synchrony::All)];

/// Parameters of `storage`.
#[derive(Clone, Debug)]
pub(in crate::workloads) struct StorageParams {
    pub(super) target: String,
    pub(super) size: Bytes,
    pub(super) offset: Bytes,
    pub(super) span: Option<Bytes>,
    pub(super) block_size: Bytes,
    pub(super) read: Ratio,
    pub(super) random: Ratio,
    pub(super) align: Option<Bytes>,
    pub(super) burst: u32,
    pub(super) delay: Nanos,
    pub(super) reply: Bytes,
    pub(super) access: Option<String>,
    pub(super) weight_of: WeightOf,
    pub(super) pattern: Pattern,
    pub(super) skew: Ratio,
    pub(super) zones: Option<String>,
    pub(super) backward: bool,
    pub(super) start_after: Nanos,
    pub(super) stride: Option<Bytes>,
    pub(super) regions: Regions,
    pub(super) depth: u32,
    pub(super) workers: u32,
    pub(super) engine: Wanted,
    pub(super) cache: Cache,
    pub(super) sync: Synchrony,
    pub(super) flush: Flush,
    pub(super) flush_every: u32,
    pub(super) trim: Ratio,
    pub(super) verify: bool,
    pub(super) verify_backlog: u32,
    pub(super) compress: Ratio,
    pub(super) copies: Ratio,
    pub(super) copies_of: u32,
    pub(super) zone_size: Option<Bytes>,
    pub(super) zone_range: Option<Bytes>,
    pub(super) zone_skip: Bytes,
    pub(super) priority: String,
    pub(super) flow: u32,
    pub(super) reopen_every: u32,
    pub(super) latency_target: Option<Nanos>,
    pub(super) latency_share: Ratio,
    pub(super) latency_window: Nanos,
    pub(super) condition: u32,
    pub(super) consent: Option<String>,
    pub(super) max_written: Option<Bytes>,
    pub(super) arrivals: Arrivals,
    /// Lines of the access specification.
    pub(super) lines: Vec<Line>,
    /// Zones of the range and their shares.
    pub(super) shares: Vec<Zone>,
}

impl Parameters for StorageParams {
    fn declare(reader: &mut Reader<'_>) -> Self {
        Self {
            // On a disk nearly everywhere, and not for keeping.
            target: reader.path(
                "target",
                "/dev/nvme1n1",
                "/var/tmp",
                "a block device, a file to be read, or a folder in which a scratch file without a \
                    name is made",
            ),
            // A size beyond any disk's own cache would be better; this fits everywhere.
            size: reader.size(
                "size",
                AMOUNT,
                Bytes(256 << 20),
                "size of the scratch file, if target is a folder",
            ),
            offset: reader.size("offset", SKIPPED, Bytes(0), "skip the first bytes of the target"),
            span: reader.optional_size(
                "span",
                AMOUNT,
                "all of it",
                "use only this many bytes of the target, from offset on",
            ),
            block_size: reader.size("block_size", TRANSFER, Bytes(4096), "bytes of a transfer"),
            read: reader.ratio("read", SHARE, Ratio(1.0), "share of reads; the others are writes"),
            random: reader.ratio(
                "random",
                SHARE,
                Ratio(1.0),
                "share of transfers to random places; the others continue where the last one ended",
            ),
            align: reader.optional_size(
                "align",
                Bytes(512)..=Bytes(1 << 40),
                "as block_size",
                "places are multiples of this",
            ),
            burst: reader.count("burst", 1..=1 << 30, 1, "transfers from one pause to the next"),
            delay: reader.time(
                "delay",
                PAUSE,
                Nanos(0),
                "pause before each burst, counted from the last start",
            ),
            reply: reader.size(
                "reply",
                Bytes(0)..=Bytes(1 << 30),
                Bytes(0),
                "bytes of a transfer in the other direction that follows each one and ends the \
                    transaction, as Iometer's; 0 B: no reply",
            ),
            access: reader.optional_text(
                "access",
                "4 KiB, weight 60 %, read 70 %; 64 KiB, weight 40 %, random 0 %",
                "one line of the seven above",
                "lines of an access specification: size, then any of weight, read, random, burst, \
                    delay, align, reply, priority",
            ),
            weight_of: reader.choice(
                "weight_of",
                WeightOf::WORDS,
                WeightOf::Transfers,
                "unit of a line's weight: its share of transfers, or of bursts, as in Iometer",
            ),
            pattern: reader.choice(
                "pattern",
                Pattern::WORDS,
                Pattern::Uniform,
                "random places: all alike, a few often, or each once before any again",
            ),
            skew: reader.ratio("skew", SKEW, Ratio(1.0), "exponent of the Zipf law"),
            zones: reader.optional_text(
                "zones",
                "50 % to 5 %, 30 % to 15 %, 20 % to 80 %",
                "none",
                "shares of the random transfers that go to shares of the range, from its start on; \
                    within each as pattern = \"uniform\"",
            ),
            backward: reader.flag(
                "backward",
                false,
                "sequences run from the end of the range to its start",
            ),
            start_after: reader.time(
                "start_after",
                PAUSE,
                Nanos(0),
                "start this long after the other jobs of the trial; rates are still means over the \
                    whole measurement",
            ),
            stride: reader.optional_size(
                "stride",
                TRANSFER,
                "as block_size",
                "from one start to the next in a sequence",
            ),
            regions: reader.choice(
                "regions",
                Regions::WORDS,
                Regions::Disjoint,
                "each worker's sequence runs in a part of its own, or all run through the whole",
            ),
            // A solid-state disk needs this many to show its rate.
            depth: reader.count(
                "depth",
                1..=MOST_DEPTH,
                32,
                "queue depth: transfers in flight per worker, constant in a closed loop, the most \
                    in an open one",
            ),
            workers: reader.count("workers", WORKERS, 1, "threads, each with an engine of its own"),
            engine: reader.choice(
                "engine",
                Wanted::WORDS,
                Wanted::Auto,
                "auto: pread at depth 1, else io_uring (in memory aio below 1 MiB), or where the \
                    kernel refuses it aio, or threads; io_uring_polling polls the device's queue \
                    instead of taking interrupts, io_uring_thread leaves submission to a kernel \
                    thread",
            ),
            cache: reader.choice(
                "cache",
                Cache::WORDS,
                Cache::Direct,
                "past the page cache (O_DIRECT), or through it",
            ),
            sync: reader.choice(
                "sync",
                SYNCHRONIES,
                Synchrony::None,
                "end of a write: when the device has it (none), or when its data (dsync: O_DSYNC) \
                    or all metadata too (sync: O_SYNC) are durable",
            ),
            flush: reader.choice(
                "flush",
                Flush::WORDS,
                Flush::None,
                "flush after every flush_every completed writes of a worker; flushes have times of \
                    their own",
            ),
            // As the log of a database does.
            flush_every: reader.count(
                "flush_every",
                1..=1 << 30,
                1,
                "writes of a worker from one flush to the next",
            ),
            trim: reader.ratio(
                "trim",
                SHARE,
                Ratio(0.0),
                "share of discards (BLKDISCARD, or a hole punched in a file), which have times of \
                    their own; the others read and write",
            ),
            verify: reader.flag(
                "verify",
                false,
                "check every block read against the content written there; the target is filled \
                    first",
            ),
            verify_backlog: reader.count(
                "verify_backlog",
                0..=MOST_BACKLOG,
                0,
                "read back and check the blocks of a worker after this many of its writes; 0: \
                    never; needs verify",
            ),
            compress: reader.ratio(
                "compress",
                SHARE,
                Ratio(0.0),
                "share of each 512 B written that is zeros, as a disk that compresses saves them \
                    (at most 93 %: a stamp is kept)",
            ),
            copies: reader.ratio(
                "copies",
                SHARE,
                Ratio(0.0),
                "share of writes with the same contents as others, as a disk that deduplicates \
                    saves them",
            ),
            copies_of: reader.count(
                "copies_of",
                1..=1 << 31,
                1,
                "different contents that copies repeat, all alike often; they are the same in all \
                    workers of a job",
            ),
            zone_size: reader.optional_size(
                "zone_size",
                ZONE,
                "none: all of the range",
                "bytes transferred in one zone before the next: transfers stay within a zone that \
                    moves through the range and begins again",
            ),
            zone_range: reader.optional_size(
                "zone_range",
                ZONE,
                "as zone_size",
                "length of a zone",
            ),
            zone_skip: reader.size(
                "zone_skip",
                SKIPPED,
                Bytes(0),
                "bytes skipped between one zone and the next",
            ),
            priority: reader.text(
                "priority",
                "best-effort 7",
                "none",
                "I/O priority of transfers: idle, or realtime or best-effort with a level of 0 \
                    (first) to 7; the disk's scheduler or the disk decides whether it has an \
                    effect",
            ),
            flow: reader.count(
                "flow",
                0..=1_000_000,
                0,
                "weight: workers with a weight start operations in the ratio of their weights, \
                    across jobs; the fast ones wait for the slow ones; 0: own pace",
            ),
            reopen_every: reader.count(
                "reopen_every",
                0..=1 << 30,
                0,
                "close the target and open it again after this many transfers of a worker, when \
                    none is under way: Iometer's test connection rate; 0: it stays open",
            ),
            latency_target: reader.optional_time(
                "latency_target",
                Nanos(1_000)..=Nanos::from_secs(3_600),
                "none: the depth is depth",
                "each worker searches for the greatest depth, up to depth, at which latency_share \
                    of its transfers take no longer, and keeps it",
            ),
            // Without outliers that no depth prevents.
            latency_share: reader.ratio(
                "latency_share",
                SHARE,
                Ratio(0.999),
                "share of the transfers of a window that must end within latency_target",
            ),
            // A thousand transfers of a millisecond.
            latency_window: reader.time(
                "latency_window",
                Nanos::from_millis(1)..=Nanos::from_secs(3_600),
                Nanos::from_secs(1),
                "trial time of each depth; a search takes some ten windows, which belong into the \
                    warmup",
            ),
            // It writes, and takes long.
            condition: reader.count(
                "condition",
                0..=10,
                0,
                "write the range this many times first, in sequence by 128 KiB; twice is customary \
                    for solid-state disks; 0: unconditioned, which every row of the report notes",
            ),
            consent: reader.optional_text(
                "consent",
                "S4EWNX0M123456",
                "none: nothing is written to a device",
                "the serial number with which a person claimed the device (linerate disk claim)",
            ),
            max_written: reader.optional_size(
                "max_written",
                AMOUNT,
                "three times the target's size",
                "budget of bytes written to the target in a campaign; beyond it the trial ends",
            ),
            arrivals: Arrivals {
                rate: reader.rate(
                    "rate",
                    "closed loop",
                    "transfers per second of all workers together (\"10 kpps\"), or the bits per \
                        second that they move (\"800 Mbit/s\"): an open loop, at most depth under \
                        way",
                ),
                ..Arrivals::declare(reader)
            },
            lines: Vec::new(),
            shares: Vec::new(),
        }
    }

    fn settle(&mut self) -> Result<(), ParamError> {
        self.check()
    }
}
