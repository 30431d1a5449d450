//! From parameters to workers: opens the target through the gate, fills it if necessary, and
//! creates an engine for each worker.

use std::ops::Range;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use linerate_disk::{Filled, Permission, Synchrony, Target};
use linerate_model::{Bytes, Ratio};
use linerate_sys::privilege::remedy;
use linerate_sys::storage::{Engine, Operation, Priority, Request, Transfers};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;

use super::access::Choice;
use super::backlog::Backlog;
use super::contents::Copies;
use super::facts::WorkerFacts;
use super::latency::DepthSearch;
use super::pace::{Budget, Pace, Reopening, Upkeep};
use super::places::Places;
use super::stamp::Stamper;
use super::worker::StorageWorker;
use super::{Cache, Regions, StorageParams, Wanted};
use super::{contents, latency};
use crate::workloads::arrivals::share;
use crate::{LoadError, Result, Setup, Worker, Workers};

/// Most threads of the engine with one thread per transfer.
pub(super) const MOST_THREADS: u32 = 256;
/// Blocks with a stamp of their own: the smallest of any disk.
const STAMPED_BYTES: usize = contents::BLOCK_BYTES;
/// Buffers are whole pages, as direct transfers require.
const PAGE_BYTES: usize = 4096;
/// In memory a wait ends after this fraction (one in this many) of the transfers in flight.
/// Measured at depth 16 by io_uring, whose transfers end on another thread, in thousand transfers
/// per second: 357 with this fraction, 315 with a quarter, 303 with one transfer.
const MEMORY_BATCHES: u32 = 2;
/// From this size on io_uring is faster in memory, because its kernel threads copy on several CPUs.
/// Measured at depth 16 against native AIO: 4.07 against 3.53 thousand reads per second of 1 MiB,
/// but 18 against 20 thousand of 256 KiB (n = 4, two CPUs).
const SHARED_COPY_BYTES: u64 = 1 << 20;
/// On a device at most this many transfers are held back, and at most one part in [`HELD_PART`] of
/// the depth: a device that completes all its transfers at once would idle while the next are made.
/// Measured in thousand reads of 4 KiB per second at depth 16, and per busy core-second, on a
/// virtual disk that completes all with one interrupt (n = 6): all at once 60 and 188, by eight 67
/// and 210, by four 74 and 224, by two 72 and 202, one by one 73 and 184. At depth 8 (n = 5): all
/// at once 55, by four 55, by two 62, one by one 61.
const MOST_HELD: u32 = 4;
const HELD_PART: u32 = 4;
/// Size of the pieces of a fill, and their number in flight.
const FILL_BYTES: u64 = 1 << 20;
/// Pieces in which a device is conditioned (SNIA Performance Test Specification 2.0.1,
/// workload-independent preconditioning).
const CONDITION_BYTES: u64 = 128 << 10;
const FILL_DEPTH: u32 = 8;
/// Memory of the fill and its threads, bytes. The fill ends before the load begins.
pub(super) const FILL_MEMORY: u64 = (FILL_DEPTH as u64 + 1) * FILL_BYTES;
/// Budget of a device without `max_written`: this many times its range.
const BUDGET_RANGES: u64 = 3;
/// Budget of a scratch file without `max_written`: the file may be small, and a campaign long.
const SCRATCH_BUDGET: u64 = 64 << 30;

/// Creates the workers of one job.
pub(super) fn workers(
    params: &StorageParams,
    setup: &Setup<'_>,
    patience: Duration,
) -> Result<Workers> {
    // Before the target is opened or filled, which may take minutes.
    check_priorities(params)?;
    let target = open(params, setup)?;
    let range = range(params, &target)?;
    check_blocks(params, &target, &range)?;
    let most = params.max_written.map_or_else(|| default_budget(&target, &range), |bytes| bytes.0);
    let stamper = fill(params, setup, &target, &range, most, patience)?;
    // The load overwrites what was filled, so checksums no longer hold; the run's stamps do.
    if params.writes() && !params.verify {
        let passes = target.filled().map_or(0, |filled| filled.passes);
        target.set_filled(Filled { run: stamper.run, has_checksums: false, passes });
    }
    (0..params.workers)
        .map(|number| worker(params, setup, &target, &range, stamper, most, number))
        .collect()
}

fn worker(
    params: &StorageParams,
    setup: &Setup<'_>,
    target: &Arc<Target>,
    range: &Range<u64>,
    stamper: Stamper,
    most: u64,
    number: u32,
) -> Result<Box<dyn Worker>> {
    let (mut transfers, why) = obtain(params, target, params.depth)?;
    // The golden ratio spreads consecutive worker numbers over the whole range of seeds.
    let seed = setup.seed.wrapping_add(u64::from(number).wrapping_mul(0x9E37_79B9_7F4A_7C15));
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    for slot in 0..params.depth {
        contents::fill(transfers.buffer(slot), params.compress.0, &mut random);
    }
    // Slots that have read hold the disk's contents, so writes take this payload instead.
    let mut payload = vec![0; (params.longest() as usize).next_multiple_of(PAGE_BYTES)];
    // The seed is the same in all workers, so that they repeat the same contents.
    let mut shared = Xoshiro256PlusPlus::seed_from_u64(setup.seed);
    contents::fill(&mut payload, params.compress.0, &mut shared);
    let is_disjoint = params.regions == Regions::Disjoint;
    let shares = (u64::from(number), u64::from(params.workers), is_disjoint);
    let stride = params.stride.map(|stride| stride.0);
    // Every worker uses the same permutation, so that together they visit each place once.
    let mut places =
        Places::new((params.pattern, params.skew.0), range.clone(), stride, shares, setup.seed);
    places.set_zones(&params.shares);
    if params.backward {
        places.turn_around();
    }
    if let Some(window) = params.window() {
        places.set_window(window);
    }
    // Regions are whole blocks: what is left after division may be too short.
    if places.room() < params.longest() {
        let why = format!("a worker's part of {} is shorter than a transfer", Bytes(places.room()));
        return Err(LoadError::Unsupported { what: format!("{} workers", params.workers), why });
    }
    let facts = WorkerFacts {
        target: target.path().display().to_string(),
        engine: transfers.described(),
        why,
        cache: params.cache.name(),
        contents: match target.filled() {
            Some(_) => "filled by this campaign",
            None => {
                "as found: blocks that were never written may be read without touching the disk"
            }
        },
        conditioning: match target.filled().map_or(0, |filled| filled.passes) {
            0 => "unconditioned".into(),
            passes => format!(
                "written over {passes} times by sequential writes of {}",
                Bytes(CONDITION_BYTES)
            ),
        },
        device: target.device_name(),
        durability: params.durability(),
        priority: params.priorities(),
        data: params.data(),
        opened: (params.reopen_every > 0).then(|| {
            // An open flag that this process may not have would fail only at the first reopening.
            format!(
                "closed and opened again after every {} transfers of a worker",
                params.reopen_every
            )
        }),
    };
    let start_after = params.start_after;
    let upkeep = Upkeep {
        flush: params.flush.operation(),
        every: params.flush_every,
        trim: params.trim.0,
        copies: Copies::new(params.copies.0, params.copies_of),
    };
    let pace = Pace {
        backlog: Backlog::new(params.verify_backlog, params.depth),
        search: params.latency_target.map(|latency| {
            let misses = 1.0 - params.latency_share.0;
            DepthSearch::new(
                latency::Target { latency, misses, window: params.latency_window },
                params.depth,
            )
        }),
        reopening: (params.reopen_every > 0).then(|| {
            let is_direct = params.cache == Cache::Direct;
            let opener =
                target.opener(params.writes() || target.is_writable(), is_direct, params.sync);
            Reopening { opener, every: params.reopen_every, since: 0 }
        }),
        flow: (params.flow > 0).then(|| (Arc::clone(setup.disks.balance()), params.flow)),
        member: None,
    };
    Ok(Box::new(StorageWorker::new(
        number,
        params.depth,
        (transfers, payload),
        Choice::new(params.lines.clone(), params.weight_of),
        places,
        random,
        stamper,
        Budget::new(Arc::clone(target), most),
        (upkeep, pace, start_after),
        (
            share(
                params.operations_per_second(),
                params.arrivals.arrival(),
                params.depth,
                1,
                params.workers,
            ),
            params.times(),
        ),
        facts,
    )))
}

/// Checks that the kernel permits this process the priorities of the transfers.
fn check_priorities(params: &StorageParams) -> Result<()> {
    for priority in
        params.lines.iter().filter_map(|line| line.priority).filter(|one| *one != Priority::NONE)
    {
        // The kernel refuses a priority at the call that sets it, so it is set and taken back.
        let tried = priority.apply();
        Priority::NONE.apply().map_err(LoadError::from)?;
        tried.map_err(|error| LoadError::Unsupported {
            what: format!("transfers of I/O priority {priority}"),
            why: format!(
                "{error} ({})",
                remedy().unwrap_or("run as root, or `setcap cap_sys_nice+ep` the program")
            ),
        })?;
    }
    Ok(())
}

fn open(params: &StorageParams, setup: &Setup<'_>) -> Result<Arc<Target>> {
    let path = Path::new(&params.target);
    // A folder means a scratch file in it, which nobody else has.
    if setup.disks.is_folder(path) {
        return Ok(setup.disks.scratch(path, params.size.0)?);
    }
    // Verification fills the target beforehand, so it needs permission to write as well.
    let permission = if params.writes() || params.verify || params.condition > 0 {
        Permission::Write { consent: params.consent.as_deref() }
    } else {
        Permission::Read
    };
    Ok(setup.disks.open(path, permission)?)
}

/// Returns the used range of the target.
fn range(params: &StorageParams, target: &Target) -> Result<Range<u64>> {
    let all = target.range();
    let room = all.end - all.start;
    let Some(rest) = room.checked_sub(params.offset.0) else {
        let why = format!("the target has {room} bytes for loads");
        return Err(LoadError::Unsupported {
            what: format!("offset = \"{}\"", params.offset),
            why,
        });
    };
    let span = params.span.map_or(rest, |span| span.0);
    if span > rest {
        let why = format!("the target has {rest} bytes for loads behind the offset");
        return Err(LoadError::Unsupported { what: format!("span = \"{}\"", Bytes(span)), why });
    }
    if span < params.longest() {
        let why = format!("{} has only {span} bytes for loads", target.path().display());
        return Err(LoadError::Unsupported {
            what: format!("transfers of {}", Bytes(params.longest())),
            why,
        });
    }
    let start = all.start + params.offset.0;
    Ok(start..start + span)
}

/// Checks alignment: direct transfers consist of whole blocks in whole places, verified ones of
/// whole stamps.
fn check_blocks(params: &StorageParams, target: &Target, range: &Range<u64>) -> Result<()> {
    let block = match (params.cache, params.verify) {
        (Cache::Direct, _) => {
            target.block_bytes().max(if params.verify { STAMPED_BYTES as u64 } else { 1 })
        }
        // A stamp must fit its block whole, also where the page cache would accept any size.
        (Cache::Buffered, true) => STAMPED_BYTES as u64,
        (Cache::Buffered, false) => return Ok(()),
    };
    let sizes = params.lines.iter().flat_map(|line| {
        [("transfers", line.size), ("places", line.align), ("replies", line.reply)]
    });
    let strides = params.stride.map(|stride| ("strides", stride.0));
    for (what, bytes) in sizes.chain(strides).chain([("a range that starts at", range.start)]) {
        if bytes % block != 0 {
            return Err(LoadError::Unsupported {
                what: format!("{what} of {bytes} bytes on {}", target.path().display()),
                why: format!(
                    "its blocks have {block} bytes: use multiples, or cache = \"buffered\""
                ),
            });
        }
    }
    Ok(())
}

fn default_budget(target: &Target, range: &Range<u64>) -> u64 {
    // A few passes over the range, so that a forgotten load does not wear out a disk.
    let ranges = (range.end - range.start).saturating_mul(BUDGET_RANGES);
    if target.is_scratch() { ranges.max(SCRATCH_BUDGET) } else { ranges }
}

/// Creates an engine with `depth` slots; returns it and the reason for its choice.
fn obtain(params: &StorageParams, target: &Target, depth: u32) -> Result<(Transfers, String)> {
    let asked = [match params.engine {
        Wanted::Auto | Wanted::IoUring => Engine::IoUring,
        Wanted::IoUringPolling => Engine::IoUringPolling,
        Wanted::IoUringThread => Engine::IoUringThread,
        Wanted::Aio => Engine::NativeAio,
        Wanted::Threads => Engine::Threads,
        Wanted::Pread => Engine::Calls,
    }];
    let is_direct = params.cache == Cache::Direct;
    if params.engine == Wanted::IoUringPolling {
        check_polling(target)?;
    }
    let in_memory = target.device_name().is_none();
    let is_shared = in_memory && is_direct && params.longest() >= SHARED_COPY_BYTES;
    let (chosen, why): (&[Engine], &str) = match (params.engine, depth, is_direct) {
        (Wanted::Auto, 1, _) => (&[Engine::Calls], ": one call per transfer is the minimum"),
        (Wanted::Auto, _, true) if is_shared => (
            &[Engine::IoUring, Engine::NativeAio, Engine::Threads],
            ": kernel threads share the copying of 1 MiB and more",
        ),
        (Wanted::Auto, _, true) if in_memory => (
            &[Engine::NativeAio, Engine::IoUring, Engine::Threads],
            ": it copies in the call, while io_uring would wake a thread for each transfer",
        ),
        (Wanted::Auto, _, true) => (&[Engine::IoUring, Engine::NativeAio, Engine::Threads], ""),
        (Wanted::Auto, _, false) => (&[Engine::IoUring, Engine::Threads], ""),
        _ => (&asked, ""),
    };
    let place = if in_memory { " in memory" } else { "" };
    let is_device = is_device(&params.target);
    let slot_bytes = (params.longest() as usize).next_multiple_of(PAGE_BYTES);
    let mut refused = Vec::new();
    for engine in chosen {
        // A thread for each transfer: beyond this, stacks and switches would be the load.
        if *engine == Engine::Threads && depth > MOST_THREADS {
            refused.push(format!("threads: {depth} are more than {MOST_THREADS}"));
            continue;
        }
        if params.reopen_every > 0 && !Transfers::can_reopen(*engine) {
            refused.push(format!(
                "{}: its threads keep the target open (reopen_every)",
                engine.name()
            ));
            continue;
        }
        if let Some(operation) =
            needed(params).into_iter().find(|one| !Transfers::can(*engine, *one, is_device))
        {
            refused.push(cannot(*engine, operation));
            continue;
        }
        let writable = params.writes() || target.is_writable();
        let file = target.open_as(writable, is_direct, params.sync)?;
        match Transfers::new(*engine, file, depth, slot_bytes) {
            Ok(mut transfers) => {
                // In memory every transfer completes in the call. Waiting for several saves a
                // switch for each.
                if in_memory && !params.arrivals.is_open() {
                    transfers.wait_for((depth / MEMORY_BATCHES).max(1));
                }
                // Held back a little, so that several are handed over in one call.
                if !in_memory && is_direct {
                    transfers.hold_at_most((depth / HELD_PART).clamp(1, MOST_HELD));
                }
                let reason = match (refused.is_empty(), params.engine) {
                    (true, Wanted::Auto) => format!("chosen for depth {depth}{place}{why}"),
                    (true, _) => "requested".into(),
                    (false, _) => refused.join("; "),
                };
                return Ok((transfers, reason));
            }
            Err(error) => refused.push(error.to_string()),
        }
    }
    Err(LoadError::Unsupported {
        what: format!("{depth} transfers in flight"),
        why: refused.join("; "),
    })
}

/// Returns the operations that the load needs beside reads and writes.
fn needed(params: &StorageParams) -> Vec<Operation> {
    let trim = (params.trim.0 > 0.0).then_some(Operation::Trim);
    [params.flush.operation(), trim].into_iter().flatten().collect()
}

fn cannot(engine: Engine, operation: Operation) -> String {
    let what = if operation == Operation::Trim { "discards" } else { "flushes" };
    format!(
        "{}: it has no {what} of this target: set engine = \"threads\", or \"pread\" with depth = \
            1",
        engine.name()
    )
}

fn is_device(target: &str) -> bool {
    std::fs::metadata(target).is_ok_and(|found| found.file_type().is_block_device())
}

/// Returns true if the disk's driver has queues to poll. The kernel would also poll a queue with
/// interrupts, which costs a CPU and gains nothing.
fn check_polling(target: &Target) -> Result<()> {
    let what = || format!("poll the device of {}", target.path().display());
    let refused = |why: String| LoadError::Unsupported { what: what(), why };
    let device = target.device_name().ok_or_else(|| refused("it is in memory".into()))?;
    // A partition uses the queue of its disk.
    let polling = [
        format!("/sys/class/block/{device}/queue/io_poll"),
        format!("/sys/class/block/{device}/../queue/io_poll"),
    ]
    .iter()
    .find_map(|path| std::fs::read_to_string(path).ok());
    match polling.as_deref().map(str::trim) {
        Some("1") => Ok(()),
        _ => Err(refused(format!(
            "{device} has no queues to poll (/sys/class/block/{device}/queue/io_poll): load the \
                NVMe driver with poll_queues=N, or set engine = \"io_uring\""
        ))),
    }
}

/// Fills scratch files, which would otherwise be read without touching the disk, and targets to be
/// verified.
fn fill(
    params: &StorageParams,
    setup: &Setup<'_>,
    target: &Target,
    range: &Range<u64>,
    most: u64,
    patience: Duration,
) -> Result<Stamper> {
    let filled = target.filled();
    let run = filled.map_or(setup.seed | 1, |filled| filled.run);
    let stamper = Stamper { block: STAMPED_BYTES, run, verified: params.verify };
    let is_scratch = target.is_scratch();
    // Stamps without checksums cannot be verified.
    let is_good = filled.is_some_and(|filled| filled.has_checksums || !params.verify);
    let passes = filled.map_or(0, |filled| filled.passes);
    // Conditioning writes the range in any case, so it also fills it.
    if params.condition > passes {
        return condition(params, setup, (target, range, most), stamper, passes, patience);
    }
    // A load that reads back its own writes needs no earlier contents.
    let reads_stamps = params.verify && params.moves_reads();
    if is_good || !(is_scratch || reads_stamps) {
        return Ok(stamper);
    }
    // Fill the whole scratch file, so that a later trial finds it filled whatever its span.
    let range = if is_scratch { target.range() } else { range.clone() };
    // Filling counts as written: the budget is for the target's wear.
    if !target.spend(range.end - range.start, most) {
        let why =
            format!("filling it takes more than the budget of {most} bytes (set max_written)");
        return Err(LoadError::Unsupported {
            what: format!("fill {}", target.path().display()),
            why,
        });
    }
    write_all(
        params,
        target,
        &range,
        (stamper, FILL_BYTES),
        setup.seed,
        Instant::now() + patience,
    )?;
    target.set_filled(Filled { run, has_checksums: params.verify, passes });
    Ok(stamper)
}

/// Writes the range over until it has been `params.condition` times in this session, of which
/// `passes` are done.
fn condition(
    params: &StorageParams,
    setup: &Setup<'_>,
    (target, range, most): (&Target, &Range<u64>, u64),
    stamper: Stamper,
    passes: u32,
    patience: Duration,
) -> Result<Stamper> {
    let deadline = Instant::now() + patience;
    for pass in passes..params.condition {
        if !target.spend(range.end - range.start, most) {
            let why = format!(
                "writing it over takes more than the budget of {most} bytes (set max_written)"
            );
            return Err(LoadError::Unsupported {
                what: format!("condition {}", target.path().display()),
                why,
            });
        }
        write_all(
            params,
            target,
            range,
            (stamper, CONDITION_BYTES),
            // Each pass has other contents, so a disk that recognises equal data gains nothing.
            setup.seed ^ u64::from(pass),
            deadline,
        )?;
        target.set_filled(Filled {
            run: stamper.run,
            has_checksums: params.verify,
            passes: pass + 1,
        });
    }
    Ok(stamper)
}

fn write_all(
    params: &StorageParams,
    target: &Target,
    range: &Range<u64>,
    (stamper, piece): (Stamper, u64),
    seed: u64,
    deadline: Instant,
) -> Result<()> {
    let what = || format!("fill {} bytes of {}", range.end - range.start, target.path().display());
    let failed = |why: String| LoadError::Unsupported { what: what(), why };
    let filling = StorageParams {
        // Large sequential writes of one direction: filling is no part of what is measured.
        lines: vec![super::Line { size: piece, read: 0.0, reply: 0, ..params.lines[0] }],
        engine: Wanted::Auto,
        sync: Synchrony::None,
        flush: super::Flush::None,
        trim: Ratio(0.0),
        reopen_every: 0,
        ..params.clone()
    };
    let (mut transfers, _) = obtain(&filling, target, FILL_DEPTH)?;
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut free: Vec<u32> = (0..FILL_DEPTH).collect();
    for &slot in &free {
        contents::fill(transfers.buffer(slot), params.compress.0, &mut random);
    }
    let (mut at, mut sequence) = (range.start, 0);
    // A short write would leave a part of the file unfilled.
    let mut asked = [0_u32; FILL_DEPTH as usize];
    while at < range.end || transfers.in_flight() > 0 {
        while let Some(slot) = free.pop_if(|_| at < range.end) {
            let bytes = (range.end - at).min(piece) as u32;
            stamper.stamp(&mut transfers.buffer(slot)[..bytes as usize], at, &mut sequence);
            asked[slot as usize] = bytes;
            transfers.queue(Request {
                slot,
                operation: Operation::Write,
                offset: at,
                bytes,
                priority: Priority::NONE,
            });
            at += u64::from(bytes);
        }
        let mut wrong = None;
        // A bound, so that revocation and deadline are checked even if the disk hangs.
        let reaped = transfers.reap(Duration::from_millis(100), |done| {
            if done.result != asked[done.slot as usize] as i32 {
                wrong = Some(done.result);
            }
            free.push(done.slot);
        });
        reaped.map_err(|error| failed(error.to_string()))?;
        if let Some(result) = wrong {
            return Err(failed(super::flight::shortfall(result)));
        }
        if let Some(why) = target.revocation() {
            return Err(failed(format!("stopped because it is in use or was changed: {why}")));
        }
        if Instant::now() > deadline {
            return Err(failed(
                "it takes longer than the trial's preparation may (use a smaller size or span)"
                    .into(),
            ));
        }
    }
    // What is still in the page cache would be written during the measurement.
    let file = target.open(true, false)?;
    file.sync_all().map_err(|error| failed(error.to_string()))
}
