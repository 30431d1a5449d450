//! The parameters of `storage`, as `linerate list workloads` and the reference tell them.

use linerate_model::{Bytes, Nanos, Ratio};

use super::MOST_DEPTH;
use crate::parameter::{ParamDoc, Takes};
use crate::workloads::placement::WORKERS;

/// Transfers, from the smallest block a disk has to what a kernel takes in one piece at most.
pub(super) const TRANSFER: Takes = Takes::Size { least: Bytes(512), most: Bytes(1 << 30) };
/// Targets and budgets.
const AMOUNT: Takes = Takes::Size { least: Bytes(1 << 20), most: Bytes(1 << 60) };
/// Blocks that wait to be read back: their places fit some megabytes.
const MOST_BACKLOG: u64 = 1 << 20;
const AMOUNT_OF_ZONE: Takes = Takes::Size { least: Bytes(512), most: Bytes(1 << 60) };
/// Longer pauses are no load.
const PAUSE: Takes = Takes::Time { least: Nanos(0), most: Nanos::from_secs(3_600) };
const SHARE: Takes = Takes::Ratio { least: Ratio(0.0), most: Ratio(1.0) };
/// Beyond this everything goes to one place.
const SKEW: Takes = Takes::Ratio { least: Ratio(0.01), most: Ratio(5.0) };

/// Those that no other workload shares.
pub(super) const OWN: &[ParamDoc] = &[
    ParamDoc {
        name: "target",
        takes: Takes::Text { example: "/dev/nvme1n1" },
        default: "\"/var/tmp\"",
        meaning: "a block device, a file to be read, or a folder in which a scratch file without a \
            name is made",
    },
    ParamDoc {
        name: "size",
        takes: AMOUNT,
        default: "\"256 MiB\"",
        meaning: "of the scratch file, if target is a folder",
    },
    ParamDoc {
        name: "offset",
        takes: Takes::Size { least: Bytes(0), most: Bytes(1 << 60) },
        default: "\"0 B\"",
        meaning: "leave out the first bytes of the target",
    },
    ParamDoc {
        name: "span",
        takes: AMOUNT,
        default: "all of it",
        meaning: "use only so many bytes of the target, from offset on",
    },
    ParamDoc {
        name: "block_size",
        takes: TRANSFER,
        default: "\"4 KiB\"",
        meaning: "bytes of a transfer",
    },
    ParamDoc {
        name: "read",
        takes: SHARE,
        default: "\"100 %\"",
        meaning: "share of reads; the others are writes",
    },
    ParamDoc {
        name: "random",
        takes: SHARE,
        default: "\"100 %\"",
        meaning: "share of transfers to random places; the others continue where the last one \
            ended",
    },
    ParamDoc {
        name: "align",
        takes: Takes::Size { least: Bytes(512), most: Bytes(1 << 40) },
        default: "as block_size",
        meaning: "places are multiples of this",
    },
    ParamDoc {
        name: "burst",
        takes: Takes::Count { least: 1, most: 1 << 30 },
        default: "1",
        meaning: "transfers from one pause to the next",
    },
    ParamDoc {
        name: "delay",
        takes: PAUSE,
        default: "\"0 s\"",
        meaning: "pause before each burst, counted from the last start",
    },
    ParamDoc {
        name: "reply",
        takes: Takes::Size { least: Bytes(0), most: Bytes(1 << 30) },
        default: "\"0 B\": none",
        meaning: "bytes of a transfer in the other direction that follows each one and ends the \
            transaction, as Iometer's",
    },
    ParamDoc {
        name: "access",
        takes: Takes::Text {
            example: "4 KiB, weight 60 %, read 70 %; 64 KiB, weight 40 %, random 0 %",
        },
        default: "one line of the seven above",
        meaning: "lines of an access specification: size, then any of weight, read, random, burst, \
            delay, align, reply, priority",
    },
    ParamDoc {
        name: "weight_of",
        takes: Takes::Word(&["transfers", "bursts"]),
        default: "\"transfers\"",
        meaning: "what a line's weight is a share of; Iometer's are of bursts",
    },
    ParamDoc {
        name: "pattern",
        takes: Takes::Word(&["uniform", "zipf", "permutation"]),
        default: "\"uniform\"",
        meaning: "random places: all alike, a few often, or each once before any again",
    },
    ParamDoc {
        name: "skew",
        takes: SKEW,
        default: "\"100 %\"",
        meaning: "exponent of the Zipf law",
    },
    ParamDoc {
        name: "zones",
        takes: Takes::Text { example: "50 % to 5 %, 30 % to 15 %, 20 % to 80 %" },
        default: "none",
        meaning: "shares of the random transfers that go to shares of the range, from its start \
            on; within each as pattern = \"uniform\"",
    },
    ParamDoc {
        name: "backward",
        takes: Takes::Flag,
        default: "false",
        meaning: "sequences run from the end of the range to its start",
    },
    ParamDoc {
        name: "start_after",
        takes: PAUSE,
        default: "\"0 s\"",
        meaning: "begin so long after the other jobs of the trial; rates are still means over all \
            of the measurement",
    },
    ParamDoc {
        name: "stride",
        takes: TRANSFER,
        default: "as block_size",
        meaning: "from one start to the next in a sequence",
    },
    ParamDoc {
        name: "regions",
        takes: Takes::Word(&["disjoint", "same"]),
        default: "\"disjoint\"",
        meaning: "each worker's sequence runs in a part of its own, or all run through the whole",
    },
    ParamDoc {
        name: "depth",
        takes: Takes::Count { least: 1, most: MOST_DEPTH as u64 },
        default: "32",
        meaning: "transfers under way per worker: always so many in a closed loop, at most in an \
            open one",
    },
    ParamDoc {
        name: "workers",
        takes: WORKERS,
        default: "1",
        meaning: "threads, each with an engine of its own",
    },
    ParamDoc {
        name: "engine",
        takes: Takes::Word(&[
            "auto",
            "io_uring",
            "io_uring_polling",
            "io_uring_thread",
            "aio",
            "threads",
            "pread",
        ]),
        default: "\"auto\"",
        meaning: "auto: pread at depth 1, else io_uring (in memory aio below 1 MiB), or where the \
            kernel refuses it aio, or threads; io_uring_polling looks into \
                  the device's queue instead of taking interrupts, io_uring_thread leaves \
                  submission to a thread of the kernel's",
    },
    ParamDoc {
        name: "cache",
        takes: Takes::Word(&["direct", "buffered"]),
        default: "\"direct\"",
        meaning: "past the page cache (O_DIRECT), or through it",
    },
    ParamDoc {
        name: "sync",
        takes: Takes::Word(&["none", "dsync", "sync"]),
        default: "\"none\"",
        meaning: "when a write ends: when the device has it, or when its data (O_DSYNC) or all \
            metadata too (O_SYNC) are durable",
    },
    ParamDoc {
        name: "flush",
        takes: Takes::Word(&["none", "fsync", "fdatasync"]),
        default: "\"none\"",
        meaning: "flush after every flush_every writes of a worker that have ended; flushes have \
            times of their own",
    },
    ParamDoc {
        name: "flush_every",
        takes: Takes::Count { least: 1, most: 1 << 30 },
        default: "1",
        meaning: "writes of a worker from one flush to the next",
    },
    ParamDoc {
        name: "trim",
        takes: SHARE,
        default: "\"0 %\"",
        meaning: "share of discards (BLKDISCARD, or a hole punched in a file), which have times of \
            their own; the others read and write",
    },
    ParamDoc {
        name: "verify",
        takes: Takes::Flag,
        default: "false",
        meaning: "check every block read against what was written there; the target is filled \
            first",
    },
    ParamDoc {
        name: "verify_backlog",
        takes: Takes::Count { least: 0, most: MOST_BACKLOG },
        default: "0: written blocks are not read back",
        meaning: "read back and check what a worker wrote after so many of its writes; needs \
            verify",
    },
    ParamDoc {
        name: "compress",
        takes: SHARE,
        default: "\"0 %\"",
        meaning: "share of each 512 B written that is zeros, as a disk that compresses saves them \
            (at most 93 %: a stamp is kept)",
    },
    ParamDoc {
        name: "copies",
        takes: SHARE,
        default: "\"0 %\"",
        meaning: "share of writes with the same contents as others, as a disk that deduplicates \
            saves them",
    },
    ParamDoc {
        name: "copies_of",
        takes: Takes::Count { least: 1, most: 1 << 31 },
        default: "1",
        meaning: "different contents that copies repeat, all alike often; they are the same in all \
            workers of a job",
    },
    ParamDoc {
        name: "zone_size",
        takes: AMOUNT_OF_ZONE,
        default: "none: all of the range",
        meaning: "bytes transferred in one zone before the next: transfers stay within a zone that \
            moves through the range and begins again",
    },
    ParamDoc {
        name: "zone_range",
        takes: AMOUNT_OF_ZONE,
        default: "as zone_size",
        meaning: "how long a zone is",
    },
    ParamDoc {
        name: "zone_skip",
        takes: Takes::Size { least: Bytes(0), most: Bytes(1 << 60) },
        default: "\"0 B\"",
        meaning: "bytes left out between one zone and the next",
    },
    ParamDoc {
        name: "priority",
        takes: Takes::Text { example: "best-effort 7" },
        default: "\"none\"",
        meaning: "I/O priority of transfers: idle, or realtime or best-effort with a level of 0 \
            (first) to 7; the disk's scheduler or the disk decides whether it counts",
    },
    ParamDoc {
        name: "flow",
        takes: Takes::Count { least: 0, most: 1_000_000 },
        default: "0: its own pace",
        meaning: "weight: workers that have one start operations in the ratio of their weights, \
            whatever their jobs; the fast ones wait for the slow ones",
    },
    ParamDoc {
        name: "reopen_every",
        takes: Takes::Count { least: 0, most: 1 << 30 },
        default: "0: it stays open",
        meaning: "close the target and open it again after so many transfers of a worker, when \
            none is under way: Iometer's test connection rate",
    },
    ParamDoc {
        name: "latency_target",
        takes: Takes::Time { least: Nanos(1_000), most: Nanos::from_secs(3_600) },
        default: "none: the depth is depth",
        meaning: "each worker looks for the greatest depth, up to depth, at which latency_share of \
            its transfers take no longer, and keeps it",
    },
    ParamDoc {
        name: "latency_share",
        takes: SHARE,
        default: "\"99.9 %\"",
        meaning: "share of the transfers of a window that must end within latency_target",
    },
    ParamDoc {
        name: "latency_window",
        takes: Takes::Time { least: Nanos::from_millis(1), most: Nanos::from_secs(3_600) },
        default: "\"1 s\"",
        meaning: "how long each depth is tried; a search takes some ten windows, which belong into \
            the warmup",
    },
    ParamDoc {
        name: "rate",
        takes: Takes::Rate,
        default: "closed loop",
        meaning: "transfers per second of all workers together (\"10 kpps\"), or bits per second \
            that they move (\"800 Mbit/s\"): an open loop, at most depth under way",
    },
    ParamDoc {
        name: "condition",
        takes: Takes::Count { least: 0, most: 10 },
        default: "0: unconditioned, and every row says so",
        meaning: "write the range over so many times first, in sequence by 128 KiB; twice is \
            customary for solid-state disks",
    },
    ParamDoc {
        name: "consent",
        takes: Takes::Text { example: "S4EWNX0M123456" },
        default: "none: nothing is written to a device",
        meaning: "the serial number with which a person claimed the device (linerate disk claim)",
    },
    ParamDoc {
        name: "max_written",
        takes: AMOUNT,
        default: "three times the target's size",
        meaning: "budget of bytes written to the target in a campaign; beyond it the trial ends",
    },
];
