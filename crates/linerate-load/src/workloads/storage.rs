//! `storage`: reads and writes of a disk or file by one end, no network. Units: transfers (IOPS) and bytes per second, and nanoseconds
//! from just before a transfer is queued for the kernel to after its completion is reaped, a batch that is handed over at once sharing each stamp.
//!
//! One pinned thread with an engine of its own per worker (`linerate_sys::storage`). A closed load keeps `depth` transfers under way per
//! worker; an open one starts them at intended times, and `response` counts from those. What may be written is decided by
//! `linerate_disk`, not here. A transfer that fails, or moves fewer bytes than asked for, ends the trial. What it does not see: the
//! device's own cache, and what the page cache did to a buffered file.
//!
//! Durability: `sync` makes each write durable before it ends, `flush` follows every `flush_every`-th write that has ended with a flush in
//! the same slot, whose time is kept apart. `trim` makes a share of the operations discards, with times of their own. Neither flushes nor
//! discards count as transfers.

use std::time::Duration;

use linerate_disk::Synchrony;
use linerate_model::{Bytes, Nanos, ParamError, Ratio};
use linerate_sys::storage::Operation;
use serde::Deserialize;

use super::arrivals::Arrivals;
use super::null::NullListener;
use super::parameters::{Parameters, Typed, documented, wrong};
use super::placement::WORKERS;
use crate::parameter::{ParamDoc, Takes};
use crate::workloads::footprint;
use crate::{Listener, LoadError, Offer, Setup, Worker};

mod access;
mod places;
mod prepare;
mod stamp;
mod worker;

use access::{Line, WeightOf};
use places::{Pattern, Zone};

/// The most transfers under way per worker: what io_uring's and native AIO's rings hold.
const MOST_DEPTH: u32 = 32_768;
/// Transfers, from the smallest block a disk has to what a kernel takes in one piece at most.
const TRANSFER: Takes = Takes::Size { least: Bytes(512), most: Bytes(1 << 30) };
/// Targets and budgets.
const AMOUNT: Takes = Takes::Size { least: Bytes(1 << 20), most: Bytes(1 << 60) };
/// Longer pauses are no load.
const PAUSE: Takes = Takes::Time { least: Nanos(0), most: Nanos::from_secs(3_600) };
const SHARE: Takes = Takes::Ratio { least: Ratio(0.0), most: Ratio(1.0) };
/// Beyond this everything goes to one place.
const SKEW: Takes = Takes::Ratio { least: Ratio(0.01), most: Ratio(5.0) };

/// How the page cache is dealt with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Cache {
    /// Past it.
    #[default]
    Direct,
    /// Through it.
    Buffered,
}

/// Which engine is asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Wanted {
    /// What suits target and depth.
    #[default]
    Auto,
    IoUring,
    IoUringPolling,
    IoUringThread,
    Aio,
    Threads,
    Pread,
}

/// Where sequences of several workers run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Regions {
    #[default]
    Disjoint,
    Same,
}

/// What makes writes durable once they have ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Flush {
    #[default]
    None,
    Fsync,
    Fdatasync,
}

impl Flush {
    const fn operation(self) -> Option<Operation> {
        match self {
            Self::None => None,
            Self::Fsync => Some(Operation::Fsync),
            Self::Fdatasync => Some(Operation::Fdatasync),
        }
    }
}

/// When a write counts as done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum WriteMode {
    #[default]
    None,
    Dsync,
    Sync,
}

impl WriteMode {
    const fn synchrony(self) -> Synchrony {
        match self {
            Self::None => Synchrony::None,
            Self::Dsync => Synchrony::Data,
            Self::Sync => Synchrony::All,
        }
    }
}

/// Parameters of `storage`.
#[derive(Clone, Debug, Deserialize)]
#[serde(default)]
pub(super) struct StorageParams {
    target: String,
    size: Bytes,
    offset: Bytes,
    span: Option<Bytes>,
    block_size: Bytes,
    read: Ratio,
    random: Ratio,
    align: Option<Bytes>,
    burst: u32,
    delay: Nanos,
    reply: Bytes,
    access: Option<String>,
    weight_of: WeightOf,
    pattern: Pattern,
    skew: Ratio,
    zones: Option<String>,
    stride: Option<Bytes>,
    backward: bool,
    regions: Regions,
    depth: u32,
    workers: u32,
    engine: Wanted,
    cache: Cache,
    sync: WriteMode,
    flush: Flush,
    flush_every: u32,
    trim: Ratio,
    verify: bool,
    condition: u32,
    consent: Option<String>,
    max_written: Option<Bytes>,
    start_after: Nanos,
    #[serde(flatten)]
    arrivals: Arrivals,
    #[serde(skip)]
    lines: Vec<Line>,
    #[serde(skip)]
    shares: Vec<Zone>,
}

impl Default for StorageParams {
    fn default() -> Self {
        Self {
            // On a disk nearly everywhere, and not for keeping.
            target: "/var/tmp".into(),
            // Larger than any disk's own cache would be better; this fits everywhere.
            size: Bytes(256 << 20),
            offset: Bytes(0),
            span: None,
            block_size: Bytes(4096),
            read: Ratio(1.0),
            random: Ratio(1.0),
            align: None,
            burst: 1,
            delay: Nanos(0),
            reply: Bytes(0),
            access: None,
            weight_of: WeightOf::default(),
            pattern: Pattern::default(),
            skew: Ratio(1.0),
            zones: None,
            stride: None,
            backward: false,
            regions: Regions::default(),
            // What a solid-state disk needs to show its rate.
            depth: 32,
            workers: 1,
            engine: Wanted::default(),
            cache: Cache::default(),
            sync: WriteMode::default(),
            flush: Flush::default(),
            // What a database's log does.
            flush_every: 1,
            trim: Ratio(0.0),
            verify: false,
            // It writes, and takes long.
            condition: 0,
            consent: None,
            max_written: None,
            start_after: Nanos(0),
            arrivals: Arrivals::default(),
            lines: Vec::new(),
            shares: Vec::new(),
        }
    }
}

const OWN: &[ParamDoc] = &[
    ParamDoc {
        name: "target",
        takes: Takes::Text { example: "/dev/nvme1n1" },
        default: "\"/var/tmp\"",
        meaning: "a block device, a file to be read, or a folder in which a scratch file without a name is made",
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
    ParamDoc { name: "block_size", takes: TRANSFER, default: "\"4 KiB\"", meaning: "bytes of a transfer" },
    ParamDoc { name: "read", takes: SHARE, default: "\"100 %\"", meaning: "share of reads; the others are writes" },
    ParamDoc {
        name: "random",
        takes: SHARE,
        default: "\"100 %\"",
        meaning: "share of transfers to random places; the others continue where the last one ended",
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
        meaning: "bytes of a transfer in the other direction that follows each one and ends the transaction, as Iometer's",
    },
    ParamDoc {
        name: "access",
        takes: Takes::Text { example: "4 KiB, weight 60 %, read 70 %; 64 KiB, weight 40 %, random 0 %" },
        default: "one line of the seven above",
        meaning: "lines of an access specification: size, then any of weight, read, random, burst, delay, align, reply",
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
    ParamDoc { name: "skew", takes: SKEW, default: "\"100 %\"", meaning: "exponent of the Zipf law" },
    ParamDoc {
        name: "zones",
        takes: Takes::Text { example: "50 % to 5 %, 30 % to 15 %, 20 % to 80 %" },
        default: "none",
        meaning: "shares of the random transfers that go to shares of the range, from its start on; within each as pattern = \"uniform\"",
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
        meaning: "begin so long after the other jobs of the trial; rates are still means over all of the measurement",
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
        meaning: "transfers under way per worker: always so many in a closed loop, at most in an open one",
    },
    ParamDoc { name: "workers", takes: WORKERS, default: "1", meaning: "threads, each with an engine of its own" },
    ParamDoc {
        name: "engine",
        takes: Takes::Word(&["auto", "io_uring", "io_uring_polling", "io_uring_thread", "aio", "threads", "pread"]),
        default: "\"auto\"",
        meaning: "auto: pread at depth 1, else io_uring (in memory aio below 1 MiB), or where the kernel refuses it aio, or threads; io_uring_polling looks into \
                  the device's queue instead of taking interrupts, io_uring_thread leaves submission to a thread of the kernel's",
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
        meaning: "when a write ends: when the device has it, or when its data (O_DSYNC) or all metadata too (O_SYNC) are durable",
    },
    ParamDoc {
        name: "flush",
        takes: Takes::Word(&["none", "fsync", "fdatasync"]),
        default: "\"none\"",
        meaning: "flush after every flush_every writes of a worker that have ended; flushes have times of their own",
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
        meaning: "share of discards (BLKDISCARD, or a hole punched in a file), which have times of their own; the others read and write",
    },
    ParamDoc {
        name: "verify",
        takes: Takes::Flag,
        default: "false",
        meaning: "check every block read against what was written there; the target is filled first",
    },
    ParamDoc {
        name: "condition",
        takes: Takes::Count { least: 0, most: 10 },
        default: "0: unconditioned, and every row says so",
        meaning: "write the range over so many times first, in sequence by 128 KiB; twice is customary for solid-state disks",
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

impl Parameters for StorageParams {
    fn docs() -> Vec<ParamDoc> {
        documented(OWN, &[Arrivals::DOCS])
    }

    fn settle(&mut self) -> Result<(), ParamError> {
        self.lines = match &self.access {
            Some(text) => access::parse(text)?,
            None => vec![Line {
                size: self.block_size.0,
                weight: 1.0,
                read: self.read.0,
                random: self.random.0,
                burst: self.burst,
                delay: self.delay,
                align: self.align.unwrap_or(self.block_size).0,
                reply: self.reply.0,
            }],
        };
        self.shares = self.zones.as_deref().map_or(Ok(Vec::new()), places::zones)?;
        if !self.shares.is_empty() && self.pattern != Pattern::Uniform {
            return Err(wrong("zones", "places in zones are drawn evenly: leave out the pattern, or the zones"));
        }
        self.check_lines()?;
        if self.engine == Wanted::Pread && self.depth > 1 {
            let cause = format!("`pread` has one transfer under way, not {}: set depth = 1, or threads", self.depth);
            return Err(wrong("engine", cause));
        }
        if self.engine == Wanted::Aio && self.cache == Cache::Buffered {
            return Err(wrong("engine", "native AIO is asynchronous past the page cache only: set cache = \"direct\""));
        }
        if self.engine == Wanted::IoUringPolling && self.cache == Cache::Buffered {
            return Err(wrong("engine", "the page cache has no queue to poll: set cache = \"direct\""));
        }
        if self.engine == Wanted::Threads && self.depth > prepare::MOST_THREADS {
            let cause = format!("{} threads per worker are too many: at most {}", self.depth, prepare::MOST_THREADS);
            return Err(wrong("depth", cause));
        }
        let reads = self.lines.iter().any(|line| line.read > 0.0 || line.reply > 0);
        if self.verify && reads && self.writes() && u64::from(self.depth) * u64::from(self.workers) > 1 {
            let cause =
                "a block may be read while it is being written: set depth = 1 and workers = 1, or read = \"100 %\"";
            return Err(wrong("verify", cause));
        }
        self.check_durability()?;
        if self.arrivals.is_open() && self.lines.iter().any(|line| line.delay > Nanos(0)) {
            return Err(wrong("delay", "pauses belong to a closed loop: leave out the rate, or the pauses"));
        }
        self.arrivals.check()
    }
}

impl StorageParams {
    fn check_durability(&self) -> Result<(), ParamError> {
        let has_replies = self.lines.iter().any(|line| line.reply > 0);
        if self.flush != Flush::None && !self.moves_writes() {
            return Err(wrong("flush", "nothing is written that could be flushed: set read below 100 %"));
        }
        if self.flush_every > 1 && self.flush == Flush::None {
            return Err(wrong("flush_every", "it needs flush = \"fsync\" or \"fdatasync\""));
        }
        if self.flush != Flush::None && has_replies {
            return Err(wrong("flush", "a transaction with a reply has no place for a flush: leave out one of them"));
        }
        if self.sync != WriteMode::None && !self.moves_writes() {
            return Err(wrong("sync", "nothing is written that could be durable: set read below 100 %"));
        }
        if self.trim.0 > 0.0 && has_replies {
            return Err(wrong("trim", "a discard has no reply: leave out one of them"));
        }
        if self.trim.0 > 0.0 && self.verify {
            return Err(wrong("trim", "discarded blocks cannot be verified: what they read as is the device's choice"));
        }
        Ok(())
    }

    fn check_lines(&self) -> Result<(), ParamError> {
        let key = if self.access.is_some() { "access" } else { "block_size" };
        if self.lines.iter().map(|line| line.weight).sum::<f64>() <= 0.0 {
            return Err(wrong("access", "no line has a weight"));
        }
        for line in &self.lines {
            for bytes in [line.size, line.reply].into_iter().filter(|bytes| *bytes > 0 || line.size == 0) {
                if !TRANSFER.fits_bytes(Bytes(bytes)) {
                    return Err(wrong(key, format!("a transfer of {} is not {TRANSFER}", Bytes(bytes))));
                }
            }
        }
        Ok(())
    }

    /// Whether anything changes the target.
    fn writes(&self) -> bool {
        self.trim.0 > 0.0 || self.moves_writes()
    }

    /// Whether any line writes.
    fn moves_writes(&self) -> bool {
        self.trim.0 < 1.0 && self.lines.iter().any(|line| line.weight > 0.0 && (line.read < 1.0 || line.reply > 0))
    }

    /// What a report says of durability; `None` if nothing makes anything durable.
    fn durability(&self) -> Option<String> {
        let sync = match self.sync {
            WriteMode::None => None,
            WriteMode::Dsync => Some("each write is durable before it ends (O_DSYNC)".to_owned()),
            WriteMode::Sync => Some("each write and its metadata are durable before it ends (O_SYNC)".to_owned()),
        };
        let call = match self.flush {
            Flush::None => None,
            Flush::Fsync => Some("fsync"),
            Flush::Fdatasync => Some("fdatasync"),
        };
        let flush = call.map(|call| match self.flush_every {
            1 => format!("{call} after each write"),
            n => format!("{call} after every {n} writes of a worker"),
        });
        let told: Vec<String> = [sync, flush].into_iter().flatten().collect();
        (!told.is_empty()).then(|| told.join("; "))
    }

    /// The longest transfer.
    fn longest(&self) -> u64 {
        self.lines.iter().map(|line| line.size.max(line.reply)).max().unwrap_or(0)
    }
}

/// The `storage` workload.
#[derive(Debug)]
pub(super) struct Storage;

impl Typed for Storage {
    type Params = StorageParams;
    const NAME: &'static str = "storage";
    const SUMMARY: &'static str =
        "reads and writes of a disk or file at the active end: transfers and bytes per second, and their times";

    fn memory_of(params: &StorageParams) -> u64 {
        let transfer = params.longest().next_multiple_of(4096);
        let buffers = u64::from(params.depth).saturating_add(1).saturating_mul(transfer);
        footprint::of_counts((params.workers, buffers.saturating_add(footprint::of_depth(params.depth))), (0, 0))
    }

    fn start_passive(_params: StorageParams, _setup: &Setup<'_>) -> Result<Box<dyn Listener>, LoadError> {
        Ok(Box::new(NullListener))
    }

    fn start_active(
        params: StorageParams,
        setup: &Setup<'_>,
        _offer: &Offer,
    ) -> Result<Vec<Box<dyn Worker>>, LoadError> {
        let patience: Duration = setup.patience;
        prepare::workers(&params, setup, patience)
    }
}

#[cfg(test)]
mod tests {
    use linerate_model::Params;
    use serde_json::{Value, json};

    use super::*;
    use crate::workloads::parameters::read;

    fn params(pairs: &[(&str, Value)]) -> Params {
        let mut params = Params::default();
        pairs.iter().for_each(|(key, value)| params.set(key, value.clone()));
        params
    }

    #[test]
    fn every_parameter_is_documented_and_every_mistake_is_named() {
        assert!(read::<StorageParams>(&Params::default()).is_ok());
        for doc in StorageParams::docs() {
            let typed = params(&[(doc.name, json!({ "no": "such value" }))]).typed::<StorageParams>();
            assert!(typed.is_err(), "{} is not declared", doc.name);
        }
        for (key, value) in [
            ("block_size", json!("100 B")),
            ("read", json!("101 %")),
            ("read", json!(70)),
            ("access", json!("4 KiB, reed 70 %")),
            ("access", json!("4 KiB, weight 0 %")),
            ("depth", json!(0)),
            ("engine", json!("libaio")),
            ("poisson", json!(true)),
        ] {
            let errors = read::<StorageParams>(&params(&[(key, value.clone())])).expect_err(key);
            assert_eq!(errors[0].key, key, "{value}");
        }
    }

    #[test]
    fn a_depth_that_cannot_be_had_is_an_error() {
        let refused =
            |pairs: &[(&str, Value)]| read::<StorageParams>(&params(pairs)).expect_err("refused")[0].key.clone();
        assert_eq!(refused(&[("engine", json!("pread")), ("depth", json!(2))]), "engine");
        assert_eq!(refused(&[("engine", json!("aio")), ("cache", json!("buffered"))]), "engine");
        assert_eq!(refused(&[("engine", json!("threads")), ("depth", json!(257))]), "depth");
    }
}
