//! `storage`: reads and writes of a disk or file by one end, no network. Units: transfers (IOPS)
//! and bytes per second, and nanoseconds from just before a transfer is queued for the kernel to
//! after its completion is reaped, a batch that is handed over at once sharing each stamp.
//!
//! One pinned thread with an engine of its own per worker (`linerate_sys::storage`). A closed load
//! keeps `depth` transfers under way per worker; an open one starts them at intended times, and
//! `response` counts from those. What may be written is decided by `linerate_disk`, not here. A
//! transfer that fails, or moves fewer bytes than asked for, ends the trial. What it does not see:
//! the device's own cache, and what the page cache did to a buffered file.
//!
//! A rate in bits per second is of the bytes that transfers ask for, divided by their mean size.
//!
//! Durability: `sync` makes each write durable before it ends, `flush` follows every
//! `flush_every`-th write that has ended with a flush in the same slot, whose time is kept apart.
//! `trim` makes a share of the operations discards, with times of their own. Neither flushes nor
//! discards count as transfers.

use std::time::Duration;

use linerate_disk::Synchrony;
use linerate_model::{Bytes, Nanos, ParamError, Ratio};
use linerate_sys::storage::{Operation, Priority};
use serde::Deserialize;

use super::arrivals::{Arrivals, Rate};
use super::null::NullListener;
use super::parameters::{Parameters, Typed, documented, wrong};
use crate::parameter::ParamDoc;
use crate::workloads::footprint;
use crate::{Listener, LoadError, Offer, Setup, Times, Worker};

mod access;
mod backlog;
mod contents;
mod docs;
mod flight;
mod latency;
mod pace;
mod places;
mod prepare;
mod stamp;
mod worker;

use access::{Line, WeightOf};
use docs::{OWN, TRANSFER};
use places::{Pattern, Window, Zone};

/// The most transfers under way per worker: what io_uring's and native AIO's rings hold.
const MOST_DEPTH: u32 = 32_768;

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
    verify_backlog: u32,
    compress: Ratio,
    copies: Ratio,
    copies_of: u32,
    zone_size: Option<Bytes>,
    zone_range: Option<Bytes>,
    zone_skip: Bytes,
    priority: String,
    flow: u32,
    reopen_every: u32,
    latency_target: Option<Nanos>,
    latency_share: Ratio,
    latency_window: Nanos,
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
            verify_backlog: 0,
            compress: Ratio(0.0),
            copies: Ratio(0.0),
            copies_of: 1,
            zone_size: None,
            zone_range: None,
            zone_skip: Bytes(0),
            priority: "none".into(),
            flow: 0,
            reopen_every: 0,
            latency_target: None,
            // Without outliers that no depth prevents.
            latency_share: Ratio(0.999),
            // A thousand transfers of a millisecond.
            latency_window: Nanos::from_secs(1),
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
                priority: None,
            }],
        };
        self.shares = self.zones.as_deref().map_or(Ok(Vec::new()), places::zones)?;
        if !self.shares.is_empty() && self.pattern != Pattern::Uniform {
            return Err(wrong(
                "zones",
                "places in zones are drawn evenly: leave out the pattern, or the zones",
            ));
        }
        self.check_lines()?;
        if self.engine == Wanted::Pread && self.depth > 1 {
            let cause = format!(
                "`pread` has one transfer under way, not {}: set depth = 1, or threads",
                self.depth
            );
            return Err(wrong("engine", cause));
        }
        if self.engine == Wanted::Aio && self.cache == Cache::Buffered {
            return Err(wrong(
                "engine",
                "native AIO is asynchronous past the page cache only: set cache = \"direct\"",
            ));
        }
        if self.engine == Wanted::IoUringPolling && self.cache == Cache::Buffered {
            return Err(wrong(
                "engine",
                "the page cache has no queue to poll: set cache = \"direct\"",
            ));
        }
        if self.engine == Wanted::Threads && self.depth > prepare::MOST_THREADS {
            let cause = format!(
                "{} threads per worker are too many: at most {}",
                self.depth,
                prepare::MOST_THREADS
            );
            return Err(wrong("depth", cause));
        }
        self.settle_priorities()?;
        if self.verify
            && self.moves_reads()
            && self.writes()
            && u64::from(self.depth) * u64::from(self.workers) > 1
        {
            let cause = "a block may be read while it is being written: set depth = 1 and workers \
                = 1, or read = \"100 %\"";
            return Err(wrong("verify", cause));
        }
        self.check_durability()?;
        self.check_contents()?;
        self.check_zones()?;
        self.check_pace()?;
        if self.arrivals.is_open() && self.lines.iter().any(|line| line.delay > Nanos(0)) {
            return Err(wrong(
                "delay",
                "pauses belong to a closed loop: leave out the rate, or the pauses",
            ));
        }
        self.arrivals.check()
    }
}

impl StorageParams {
    /// Gives every line without a priority the job's.
    fn settle_priorities(&mut self) -> Result<(), ParamError> {
        let of_job: Priority = self.priority.parse().map_err(|why| wrong("priority", why))?;
        for line in &mut self.lines {
            line.priority.get_or_insert(of_job);
        }
        Ok(())
    }

    fn check_contents(&self) -> Result<(), ParamError> {
        for (key, share) in [("compress", self.compress), ("copies", self.copies)] {
            if share.0 > 0.0 && !self.moves_writes() {
                return Err(wrong(
                    key,
                    "nothing is written whose contents could matter: set read below 100 %",
                ));
            }
        }
        if self.copies_of > 1 && self.copies.0 == 0.0 {
            return Err(wrong("copies_of", "it needs copies above 0 %"));
        }
        if self.copies.0 > 0.0 && self.verify {
            return Err(wrong(
                "copies",
                "a copy does not say where it belongs: leave out verify, or the copies",
            ));
        }
        if self.verify_backlog == 0 {
            return Ok(());
        }
        if !self.verify || !self.moves_writes() {
            return Err(wrong("verify_backlog", "it needs verify = true, and read below 100 %"));
        }
        if self.arrivals.is_open() || self.lines.iter().any(|line| line.reply > 0) {
            return Err(wrong(
                "verify_backlog",
                "blocks are read back in a closed loop without replies",
            ));
        }
        let is_sequence =
            self.lines.iter().all(|line| line.random == 0.0) && self.regions == Regions::Disjoint;
        if self.workers > 1 && !is_sequence {
            let cause = "a worker may read what another is writing: set workers = 1, or random \
                = \"0 %\" and regions = \"disjoint\"";
            return Err(wrong("verify_backlog", cause));
        }
        Ok(())
    }

    /// The window that transfers stay in, if there is one.
    fn window(&self) -> Option<Window> {
        let bytes = self.zone_size?.0;
        Some(Window {
            bytes,
            range: self.zone_range.map_or(bytes, |range| range.0),
            skip: self.zone_skip.0,
        })
    }

    fn check_zones(&self) -> Result<(), ParamError> {
        let Some(window) = self.window() else {
            let is_given = self.zone_range.is_some() || self.zone_skip.0 > 0;
            return if is_given {
                Err(wrong("zone_size", "zone_range and zone_skip need it"))
            } else {
                Ok(())
            };
        };
        if window.range < self.longest() {
            return Err(wrong(
                "zone_size",
                format!("a zone is shorter than a transfer of {}", Bytes(self.longest())),
            ));
        }
        if self.backward || !self.shares.is_empty() || self.pattern != Pattern::Uniform {
            return Err(wrong(
                "zone_size",
                "zones go onwards with even places: leave out backward, zones and pattern",
            ));
        }
        Ok(())
    }

    fn check_pace(&self) -> Result<(), ParamError> {
        if self.reopen_every > 0 && self.arrivals.is_open() {
            return Err(wrong(
                "reopen_every",
                "a target is opened anew when nothing is under way: leave out the rate",
            ));
        }
        if self.latency_target.is_some() && self.arrivals.is_open() {
            return Err(wrong(
                "latency_target",
                "it looks for the depth of a closed loop: leave out the rate",
            ));
        }
        if self.flow > 0 && self.arrivals.is_open() {
            return Err(wrong(
                "flow",
                "a rate of its own and a ratio to others exclude each other: leave out one",
            ));
        }
        Ok(())
    }

    /// Operations per second of all workers together, if they have a rate.
    fn operations_per_second(&self) -> Option<f64> {
        Some(match self.arrivals.rate? {
            Rate::Packets(rate) => rate.0,
            Rate::Bits(rate) => {
                rate.0 / f64::from(u8::BITS) / access::mean_bytes(&self.lines, self.weight_of)
            }
        })
    }

    /// Whether any line reads.
    fn moves_reads(&self) -> bool {
        self.lines.iter().any(|line| line.weight > 0.0 && (line.read > 0.0 || line.reply > 0))
    }

    fn check_durability(&self) -> Result<(), ParamError> {
        let has_replies = self.lines.iter().any(|line| line.reply > 0);
        if self.flush != Flush::None && !self.moves_writes() {
            return Err(wrong(
                "flush",
                "nothing is written that could be flushed: set read below 100 %",
            ));
        }
        if self.flush_every > 1 && self.flush == Flush::None {
            return Err(wrong("flush_every", "it needs flush = \"fsync\" or \"fdatasync\""));
        }
        if self.flush != Flush::None && has_replies {
            return Err(wrong(
                "flush",
                "a transaction with a reply has no place for a flush: leave out one of them",
            ));
        }
        if self.sync != WriteMode::None && !self.moves_writes() {
            return Err(wrong(
                "sync",
                "nothing is written that could be durable: set read below 100 %",
            ));
        }
        if self.trim.0 > 0.0 && has_replies {
            return Err(wrong("trim", "a discard has no reply: leave out one of them"));
        }
        if self.trim.0 > 0.0 && self.verify {
            return Err(wrong(
                "trim",
                "discarded blocks cannot be verified: what they read as is the device's choice",
            ));
        }
        Ok(())
    }

    fn check_lines(&self) -> Result<(), ParamError> {
        let key = if self.access.is_some() { "access" } else { "block_size" };
        if self.lines.iter().map(|line| line.weight).sum::<f64>() <= 0.0 {
            return Err(wrong("access", "no line has a weight"));
        }
        for line in &self.lines {
            for bytes in
                [line.size, line.reply].into_iter().filter(|bytes| *bytes > 0 || line.size == 0)
            {
                if !TRANSFER.fits_bytes(Bytes(bytes)) {
                    return Err(wrong(
                        key,
                        format!("a transfer of {} is not {TRANSFER}", Bytes(bytes)),
                    ));
                }
            }
        }
        Ok(())
    }

    /// Which times a worker measures.
    fn times(&self) -> Times {
        Times {
            service: self.moves_reads() || self.verify_backlog > 0,
            writes: self.moves_writes(),
            flushes: self.flush != Flush::None,
            trims: self.trim.0 > 0.0,
            response: self.arrivals.is_open() || self.lines.iter().any(|line| line.reply > 0),
            operations: true,
            ..Times::NONE
        }
    }

    /// Whether anything changes the target.
    fn writes(&self) -> bool {
        self.trim.0 > 0.0 || self.moves_writes()
    }

    /// Whether any line writes.
    fn moves_writes(&self) -> bool {
        self.trim.0 < 1.0
            && self
                .lines
                .iter()
                .any(|line| line.weight > 0.0 && (line.read < 1.0 || line.reply > 0))
    }

    /// What a report says of durability; `None` if nothing makes anything durable.
    fn durability(&self) -> Option<String> {
        let sync = match self.sync {
            WriteMode::None => None,
            WriteMode::Dsync => Some("each write is durable before it ends (O_DSYNC)".to_owned()),
            WriteMode::Sync => {
                Some("each write and its metadata are durable before it ends (O_SYNC)".to_owned())
            }
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

    /// What a report says of I/O priorities; `None` if no transfer has one.
    fn priorities(&self) -> Option<String> {
        let mut told: Vec<String> = Vec::new();
        for line in self.lines.iter().filter(|line| line.weight > 0.0) {
            let name = line.priority.unwrap_or_default().to_string();
            if !told.contains(&name) {
                told.push(name);
            }
        }
        (told.iter().any(|name| name != "none")).then(|| told.join(", "))
    }

    /// What a report says of the data written, where it is not unlike all other.
    fn data(&self) -> Option<String> {
        let zeros = (self.compress.0 > 0.0).then(|| format!("{} zeros", self.compress));
        let copies = (self.copies.0 > 0.0).then(|| {
            format!("{} of the writes repeat one of {} contents", self.copies, self.copies_of)
        });
        let told: Vec<String> = [zeros, copies].into_iter().flatten().collect();
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
    const SUMMARY: &'static str = "reads and writes of a disk or file at the active end: transfers \
        and bytes per second, and their times";

    const HAS_TWO_ENDS: bool = false;

    fn memory_of(params: &StorageParams) -> u64 {
        /// What is known of a transfer under way, its entries in the kernel's queues, and a block
        /// to be read back, bytes.
        const SLOT: u64 = 512;
        const WRITTEN: u64 = 16;
        /// A thread of the engine that has one for each transfer: the parts of its stack that are
        /// touched, bytes.
        const THREAD: u64 = 64 << 10;
        let transfer = params.longest().next_multiple_of(4096);
        let buffers = u64::from(params.depth).saturating_add(1).saturating_mul(transfer);
        // Where nothing is asked for they are what is left when the kernel refuses the others.
        let has_threads = matches!(params.engine, Wanted::Auto | Wanted::Threads);
        let threads = if has_threads {
            u64::from(params.depth.min(prepare::MOST_THREADS)) * THREAD
        } else {
            0
        };
        let known =
            u64::from(params.depth) * (SLOT + WRITTEN) + u64::from(params.verify_backlog) * WRITTEN;
        let each = buffers.saturating_add(threads + known);
        footprint::of_counts((params.workers, params.times(), each), (0, 0))
            .saturating_add(prepare::FILL_MEMORY)
    }

    fn start_passive(
        _params: StorageParams,
        _setup: &Setup<'_>,
    ) -> Result<Box<dyn Listener>, LoadError> {
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
            let typed =
                params(&[(doc.name, json!({ "no": "such value" }))]).typed::<StorageParams>();
            assert!(typed.is_err(), "{} is not declared", doc.name);
        }
        for (key, value) in [
            ("block_size", json!("100 B")),
            ("read", json!("101 %")),
            ("read", json!(70)),
            ("access", json!("4 KiB, reed 70 %")),
            ("access", json!("4 KiB, weight 0 %")),
            ("depth", json!(0)),
            ("priority", json!("urgent")),
            ("verify_backlog", json!(8)),
            ("copies_of", json!(8)),
            ("zone_skip", json!("4 KiB")),
            ("engine", json!("libaio")),
            ("poisson", json!(true)),
        ] {
            let errors = read::<StorageParams>(&params(&[(key, value.clone())])).expect_err(key);
            let named = if key == "zone_skip" { "zone_size" } else { key };
            assert_eq!(errors[0].key, named, "{value}");
        }
    }

    #[test]
    fn a_rate_in_bits_is_a_bandwidth_and_one_in_operations_is_not() {
        let rate = |pairs: &[(&str, Value)]| {
            read::<StorageParams>(&params(pairs))
                .expect("a load")
                .operations_per_second()
                .expect("a rate")
        };
        let bits = ("rate", json!("8 Mbit/s"));
        assert_eq!(rate(std::slice::from_ref(&bits)), 1e6 / 4096.0);
        assert_eq!(rate(&[bits.clone(), ("block_size", json!("64 KiB"))]), 1e6 / 65_536.0);
        let access = json!("4 KiB, weight 50 %; 8 KiB, weight 50 %, reply 4 KiB");
        assert_eq!(rate(&[bits, ("access", access)]), 1e6 / 8192.0);
        assert_eq!(rate(&[("rate", json!("2 kpps")), ("block_size", json!("64 KiB"))]), 2e3);
    }

    #[test]
    fn a_depth_that_cannot_be_had_is_an_error() {
        let refused = |pairs: &[(&str, Value)]| {
            read::<StorageParams>(&params(pairs)).expect_err("refused")[0].key.clone()
        };
        assert_eq!(refused(&[("engine", json!("pread")), ("depth", json!(2))]), "engine");
        assert_eq!(refused(&[("engine", json!("aio")), ("cache", json!("buffered"))]), "engine");
        assert_eq!(refused(&[("engine", json!("threads")), ("depth", json!(257))]), "depth");
    }
}
