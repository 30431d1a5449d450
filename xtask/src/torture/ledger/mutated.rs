//! Ledgers with changed contents: each is read or refused, in little time and memory.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::ensure;

use super::{Ground, MOST_MEMORY_KIB, MOST_TIME, Measured, completions, measured};

/// Files that are read at once.
const READ_AT_ONCE: u32 = 3;
/// Trials of many kinds, so that there is something of everything to change.
const MIXED_PLAN: &str = "[campaign]\nname = \"mixed\"\nrepeats = 2\n";
const MIXED: [(&str, &str); 7] = [
    ("tcp_stream", "pacing_rate = \"20 Mbit/s\""),
    ("udp_stream", "rate = \"10 Mbit/s\""),
    ("tcp_rr", ""),
    ("udp_rr", ""),
    ("tcp_crr", ""),
    ("http", "file_size = \"64 KiB\""),
    ("null", ""),
];

/// Ledgers with right digests and hostile contents, and some with raw damage: each is read or
/// refused, in little time and memory.
pub(super) fn mutated(ground: &Ground<'_>) -> anyhow::Result<bool> {
    let n_files = ground.bench.count(8, 2_000);
    let room = ground.room("mutated")?;
    let sweeps: String = MIXED
        .iter()
        .map(|(workload, params)| {
            format!(
                "[[sweep]]\nname = \"{workload}\"\nduration = \"100 ms\"\nwarmup = \"20 \
                    ms\"\ndrain = \"20 ms\"\nrest = \"0 s\"\n\
                 [[sweep.job]]\nworkload = \"{workload}\"\nfrom = \"a\"\nto = \"b\"\nparams = {{ \
                 {params} }}\n"
            )
        })
        .collect();
    fs::write(room.join("plan.toml"), format!("{MIXED_PLAN}{sweeps}"))?;
    let ledger = ground.recorded(&room)?;
    let n_completed = completions(&ledger)?.len();
    // A plan whose trials fail would leave nothing to damage.
    ensure!(
        n_completed > MIXED.len(),
        "only {n_completed} of {} trials were completed",
        2 * MIXED.len()
    );
    let next = AtomicU32::new(0);
    let read = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..READ_AT_ONCE)
            .map(|thread| {
                let room = room.join(format!("{thread}"));
                let (next, ledger) = (&next, &ledger);
                scope.spawn(move || read_in_turn(ground, &room, ledger, next, n_files))
            })
            .collect();
        let ended = threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        ended.collect::<anyhow::Result<Vec<Read>>>()
    })?;
    let most = |of: fn(&Read) -> (u64, &str)| read.iter().map(of).max().unwrap_or_default();
    let (largest, largest_file) = most(|read| (read.largest.0, &read.largest.1));
    let (longest, longest_file) = most(|read| (read.longest_ms.0, &read.longest_ms.1));
    let total = |of: fn(&Read) -> u32| read.iter().map(of).sum::<u32>();
    println!(
        "mutated: {n_files} files: {} read, {} refused, {} beyond 5 s of CPU time, 256 MiB or \
            without an answer; longest {longest} ms ({longest_file}), largest {largest} KiB \
            ({largest_file})",
        total(|read| read.n_read),
        total(|read| read.n_refused),
        total(|read| read.n_broken)
    );
    Ok(total(|read| read.n_broken) == 0)
}

/// Reads damaged copies of `ledger` in `room` until all `n_files` numbers are taken.
fn read_in_turn(
    ground: &Ground<'_>,
    room: &Path,
    ledger: &Path,
    next: &AtomicU32,
    n_files: u32,
) -> anyhow::Result<Read> {
    fs::create_dir(room)?;
    let mut read = Read::default();
    loop {
        // Threads take the next number, so none waits for a slow one.
        let number = next.fetch_add(1, Ordering::Relaxed);
        if number >= n_files {
            return Ok(read);
        }
        let [from, to] = [number, number + 1].map(|number| number.to_string());
        let arguments = [&ledger.to_string_lossy(), &*room.to_string_lossy(), &from, &to];
        ground.example("mutated_ledgers", &arguments)?;
        let path = room.join(format!("{number}.ledger"));
        read.one(&path, &measured(ground, room, &path)?)?;
        // Two thousand files would fill the disk.
        fs::remove_file(&path)?;
    }
}

/// Outcomes of the files that were read.
#[derive(Default)]
struct Read {
    n_read: u32,
    n_refused: u32,
    n_broken: u32,
    longest_ms: (u64, String),
    largest: (u64, String),
}

impl Read {
    fn one(&mut self, path: &Path, measured: &Measured) -> anyhow::Result<()> {
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let size = path.metadata()?.len();
        ensure!(size <= 1_000_000, "{name} has {size} bytes");
        match measured.code {
            Some(0 | 1 | 3) => self.n_read += 1,
            // Codes that mean "refused with a reason".
            Some(2 | 4) => self.n_refused += 1,
            _ => {}
        }
        // A crash has a signal and no code, or a code above those documented.
        let is_answer = measured.code.is_some_and(|code| code < 5);
        if !is_answer || measured.cpu > MOST_TIME || measured.peak_kib > MOST_MEMORY_KIB {
            println!(
                "mutated: {name} ({size} bytes): exit {:?}, {:.1} s of CPU time, {} KiB: {}",
                measured.code,
                measured.cpu.as_secs_f64(),
                measured.peak_kib,
                measured.last
            );
            self.n_broken += 1;
        }
        self.longest_ms = std::mem::take(&mut self.longest_ms)
            .max((measured.cpu.as_millis() as u64, name.clone()));
        self.largest = std::mem::take(&mut self.largest).max((measured.peak_kib, name));
        Ok(())
    }
}
