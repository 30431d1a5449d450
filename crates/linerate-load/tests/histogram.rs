//! Histogram against a sorted array of the same latencies, from real transfers: plain reads of a
//! file in memory, about 1 us each, and reads of a file on a disk without the page cache by
//! io_uring, sixteen at a time, about 100 us each.

use std::path::Path;
use std::time::Duration;

use linerate_disk::{Disks, Permission};
use linerate_load::Histogram;
use linerate_sys::clock;
use linerate_sys::storage::{Completion, Engine, Operation, Priority, Request, Transfers};

use crate::ground::skip;

/// Largest relative error of a percentile, the mean or the maximum.
const MOST: f64 = 0.004;
const FILE_BYTES: u64 = 8 << 20;
const BLOCK_BYTES: u32 = 4096;

/// Returns nanoseconds of `n` reads of a file in `folder` by `engine`, in the order of completion;
/// `None`, with a message, if that is not possible.
fn latencies(folder: &str, engine: Engine, depth: u32, n: usize) -> Option<Vec<u64>> {
    let file = tempfile::NamedTempFile::new_in(folder).expect("a file");
    std::fs::write(file.path(), vec![7; FILE_BYTES as usize]).expect("written");
    file.as_file().sync_all().expect("on the disk");
    let target = Disks::none().open(file.path(), Permission::Read).expect("it may be read");
    let opened = target.open(false, true);
    let made = opened.map_err(|error| error.to_string()).and_then(|file| {
        Transfers::new(engine, file, depth, BLOCK_BYTES as usize).map_err(|error| error.to_string())
    });
    let refused = |error| skip::<()>(format_args!("{} in {folder}: {error}", engine.name()));
    let mut transfers = made.map_err(refused).ok()?;
    let (mut started, mut taken) =
        (vec![0; depth as usize], Vec::with_capacity(n + depth as usize));
    let mut free: Vec<u32> = (0..depth).collect();
    let mut place = 0_u64;
    while taken.len() < n {
        while let Some(slot) = free.pop() {
            // The step is prime to the number of blocks, so it visits each of them.
            place = (place + 1_237) % (FILE_BYTES / u64::from(BLOCK_BYTES));
            started[slot as usize] = clock::monotonic();
            let offset = place * u64::from(BLOCK_BYTES);
            transfers.queue(Request {
                slot,
                operation: Operation::Read,
                offset,
                bytes: BLOCK_BYTES,
                priority: Priority::NONE,
            });
        }
        let reaped = transfers.reap(Duration::from_secs(1), |Completion { slot, result }| {
            assert_eq!(result, BLOCK_BYTES as i32);
            taken.push(clock::monotonic() - started[slot as usize]);
            free.push(slot);
        });
        reaped.expect("the engine works");
    }
    Some(taken)
}

/// Returns the largest relative error of the histogram's percentiles, mean and maximum against the
/// array.
fn worst(latencies: &[u64]) -> f64 {
    let mut histogram = Histogram::new();
    latencies.iter().for_each(|ns| histogram.record(*ns));
    let distribution = histogram.distribution();
    let mut sorted = latencies.to_vec();
    sorted.sort_unstable();
    let n = sorted.len();
    let mut pairs: Vec<(f64, f64)> = Vec::new();
    for quantile in [0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999, 0.9999] {
        // Nearest rank: the smallest value that at least this share does not exceed.
        let exact = sorted[((quantile * n as f64).ceil() as usize).max(1) - 1];
        if let Some(Some(told)) = distribution.percentile(quantile) {
            pairs.push((told as f64, exact as f64));
        }
    }
    assert!(pairs.len() >= 8, "{} latencies have only {} percentiles", n, pairs.len());
    let largest = distribution.max().flatten().expect("nothing was lost");
    pairs.push((largest as f64, sorted[n - 1] as f64));
    let mean = sorted.iter().sum::<u64>() as f64 / n as f64;
    pairs.push((distribution.mean().expect("some"), mean));
    assert_eq!(distribution.count(), n as u64);
    pairs.iter().map(|(told, exact)| (told / exact - 1.0).abs()).fold(0.0, f64::max)
}

#[test]
fn percentiles_of_real_transfers_match_the_sorted_latencies() {
    for (folder, engine, depth, n) in
        [("/dev/shm", Engine::Calls, 1, 200_000), ("/var/tmp", Engine::IoUring, 16, 20_000)]
    {
        assert!(Path::new(folder).is_dir(), "{folder} is part of every Linux");
        let Some(latencies) = latencies(folder, engine, depth, n) else { continue };
        let error = worst(&latencies);
        println!(
            "{} in {folder}: {} latencies, at most {:.3} % off",
            engine.name(),
            latencies.len(),
            error * 100.0
        );
        assert!(error <= MOST, "{} in {folder}: {error}", engine.name());
    }
}

#[test]
fn the_check_detects_an_error() {
    // 0.5 % error, as a coarser histogram would have.
    let latencies: Vec<u64> = (1..=20_000).map(|n| n * 1_000).collect();
    assert!(worst(&latencies) <= MOST);
    let coarse: Vec<u64> = latencies.iter().map(|ns| (ns / 8_192 + 1) * 8_192).collect();
    let mut histogram = Histogram::new();
    coarse.iter().for_each(|ns| histogram.record(*ns));
    let told = histogram.distribution().percentile(0.01).flatten().expect("enough") as f64;
    assert!((told / 200_000.0 - 1.0).abs() > MOST);
}
