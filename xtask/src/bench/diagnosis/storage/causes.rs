//! Limits of a load on a disk, one each, made with tools that are not linerate's.
//!
//! A seed draws the speed of the disk, the block size and the depth.

use super::super::answers::Cause;
use super::super::draw::Draw;
use super::slow_disk::Speed;

/// A load, its disk, and what is beside it.
#[derive(Clone, Debug)]
pub(super) struct Setup {
    pub(super) target: Target,
    /// Parameters of the load beside its target.
    pub(super) params: Vec<String>,
    pub(super) beside: Beside,
}

/// Target of a load.
#[derive(Clone, Copy, Debug)]
pub(super) enum Target {
    /// A disk of known speed.
    Disk(Speed),
    /// A folder of an ext4 filesystem on such a disk.
    Folder(Speed),
    /// A file whose bytes are in the page cache.
    CachedFile,
    /// A compressed disk in memory (zram).
    Memory,
}

/// Limit outside the load, or program beside it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Beside {
    Nothing,
    /// Requests that the disk's queue admits.
    Queue(u32),
    /// Limit of the control group on the disk.
    Group(Limit, u64),
    /// fio reads from the same disk with this depth.
    Fio(u32),
}

/// Limit of a control group on reads, per second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Limit {
    Bytes,
    Transfers,
}

impl Limit {
    /// Returns the key in `io.max`, and the file of version 1.
    pub(super) const fn place(self) -> (&'static str, &'static str) {
        match self {
            Self::Bytes => ("rbps", "blkio.throttle.read_bps_device"),
            Self::Transfers => ("riops", "blkio.throttle.read_iops_device"),
        }
    }
}

/// Rates and latencies that no experiment reaches.
const FREE: f64 = 1e9;
const MILLI: f64 = 1e-3;

const QUICK: Speed = Speed { latency: 0.3 * MILLI, transfers: 4e3, bytes: FREE, flush: MILLI };

/// Returns one of `of`.
fn one<T: Copy>(draw: &mut Draw, of: &[T]) -> T {
    of[(draw.share() * of.len() as f64) as usize]
}

fn load(target: Target, params: &[String], beside: Beside) -> Setup {
    Setup { target, params: params.to_vec(), beside }
}

fn depth(depth: u32) -> String {
    format!("depth={depth}")
}

fn block(kib: u32) -> String {
    format!("block_size={kib} KiB")
}

/// Every cause; the control first.
pub(super) const CAUSES: &[Cause<Setup>] = &[
    Cause::new("own rate (control)", &["unknown"], |draw| {
        let rate = draw.between(50.0, 200.0);
        let params = [depth(8), format!("rate={rate:.0} pps")];
        load(Target::Disk(QUICK), &params, Beside::Nothing)
    }),
    Cause::new("disk full, transfers", &["disk_full"], |draw| {
        let transfers = draw.between(300.0, 1500.0);
        let speed = Speed { transfers, ..QUICK };
        let params = [depth(one(draw, &[8, 16, 32])), block(one(draw, &[4, 8, 16]))];
        load(Target::Disk(speed), &params, Beside::Nothing)
    }),
    Cause::new("disk full, bytes", &["disk_full"], |draw| {
        let bytes = draw.between(10e6, 60e6);
        let speed = Speed { bytes, ..QUICK };
        let params = [depth(one(draw, &[8, 16, 32])), block(one(draw, &[32, 64, 128]))];
        load(Target::Disk(speed), &params, Beside::Nothing)
    }),
    Cause::new("small depth", &["disk_depth"], |draw| {
        let latency = draw.between(2.0, 8.0) * MILLI;
        let speed = Speed { latency, ..QUICK };
        let params = [depth(one(draw, &[1, 2, 3])), block(one(draw, &[4, 16]))];
        load(Target::Disk(speed), &params, Beside::Nothing)
    }),
    Cause::new("worker without CPU", &["disk_cpu"], |draw| {
        // Engines that work in the thread of the load. io_uring would use kernel threads here.
        let (engine, of) = one(draw, &[("pread", 1), ("aio", 4), ("aio", 16)]);
        let params = [depth(of), block(one(draw, &[4, 8, 16])), format!("engine={engine}")];
        load(Target::Memory, &params, Beside::Nothing)
    }),
    Cause::new("queue of the disk", &["disk_queue"], |draw| {
        let latency = draw.between(4.0, 10.0) * MILLI;
        let queue = one(draw, &[4, 6, 8]);
        let params = [depth(queue * one(draw, &[3, 4])), block(one(draw, &[4, 16]))];
        load(Target::Disk(Speed { latency, ..QUICK }), &params, Beside::Queue(queue))
    }),
    Cause::new("page cache", &["disk_cache"], |draw| {
        let params = [
            "cache=buffered".to_owned(),
            depth(one(draw, &[1, 2, 4])),
            block(one(draw, &[4, 16, 64])),
        ];
        load(Target::CachedFile, &params, Beside::Nothing)
    }),
    Cause::new("limit of the control group", &["disk_group_limit"], |draw| {
        let kib = one(draw, &[4, 8, 16]);
        let transfers = draw.between(100.0, 600.0);
        let limit = match one(draw, &[true, false]) {
            true => Beside::Group(Limit::Bytes, (transfers * f64::from(kib) * 1024.0) as u64),
            false => Beside::Group(Limit::Transfers, transfers as u64),
        };
        load(Target::Disk(QUICK), &[depth(one(draw, &[4, 8, 16])), block(kib)], limit)
    }),
    Cause::new("journal", &["disk_flush"], |draw| {
        let flush = draw.between(5.0, 20.0) * MILLI;
        let durable = one(draw, &["flush=fdatasync", "flush=fsync", "sync=dsync"]);
        let params = [
            "read=0 %".to_owned(),
            "size=8 MiB".to_owned(),
            durable.to_owned(),
            depth(one(draw, &[1, 2])),
        ];
        load(Target::Folder(Speed { flush, ..QUICK }), &params, Beside::Nothing)
    }),
    Cause::new("neighbour", &["disk_shared"], |draw| {
        let transfers = draw.between(500.0, 1500.0);
        let beside = Beside::Fio(one(draw, &[8, 16, 32]));
        let params = [depth(one(draw, &[4, 8])), block(one(draw, &[4, 8]))];
        load(Target::Disk(Speed { transfers, ..QUICK }), &params, beside)
    }),
];
