//! Discards and flushes beside what the kernel counted of the disk: each is one request of its own.

use super::super::super::claim::{Claim, Relation, Unit};
use super::super::super::ground::Ground;
use super::super::super::judge::run_plan;
use super::disk::Disk;
use super::{BLOCK_BYTES, EXACT, SECONDS, plan};

const DISK_BYTES: u64 = 64 << 20;

/// Only discards: every one that was answered reached the disk, and no other did.
pub(super) fn discards(
    ground: &mut Ground,
    engine: &str,
    depth: u32,
) -> anyhow::Result<Vec<Claim>> {
    let disk = Disk::empty(DISK_BYTES)?;
    let serial = disk.claim(ground)?;
    let params = format!(
        "trim = \"100 %\", engine = \"{engine}\", depth = {depth}, rate = \"2 kpps\", consent \
            = \"{serial}\""
    );
    let (study, counted) = disk.counted(|| run_plan(ground, &plan(&disk, &params), None))?;
    let answered = study.metric("operations_answered");
    let open = study.metric("operations_open");
    let bytes = Claim::new(
        "bytes discarded",
        Unit::Bytes,
        answered.map(|n| n * BLOCK_BYTES),
        Relation::Equal(EXACT),
    );
    Ok(vec![
        Claim::count("discards", answered)
            .beside(counted.discards as f64, "stat of the device, discards"),
        bytes.beside(
            counted.discarded_bytes as f64,
            "stat of the device, sectors discarded x 512 B",
        ),
        Claim::count(
            "discards answered or open",
            answered.zip(open).map(|(answered, open)| answered + open),
        )
        .expect(2000.0 * SECONDS, "rate times duration"),
        Claim::count("discards open", open).expect(0.0, "the drain waits for them"),
    ])
}

/// One write at a time, and a flush after every fourth.
pub(super) fn flushes(ground: &mut Ground, engine: &str) -> anyhow::Result<Vec<Claim>> {
    const EVERY: f64 = 4.0;
    let disk = Disk::empty(DISK_BYTES)?;
    let serial = disk.claim(ground)?;
    let params = format!(
        "read = \"0 %\", flush = \"fdatasync\", flush_every = {EVERY}, engine = \"{engine}\", \
            depth = 1, rate = \"1 kpps\", consent = \"{serial}\""
    );
    let (study, counted) = disk.counted(|| run_plan(ground, &plan(&disk, &params), None))?;
    let (all, writes) =
        (study.metric("operations_answered"), study.metric("operations_answered_tx"));
    let flushes = all.zip(writes).map(|(all, writes)| all - writes);
    let every_fourth = (writes.unwrap_or_default() / EVERY).floor();
    Ok(vec![
        // The kernel counts a request to flush among the writes, too.
        Claim::count("writes and flushes", all)
            .beside(counted.writes as f64, "stat of the device, writes"),
        Claim::count("flushes", flushes)
            .expect(every_fourth, "one for every fourth write")
            .beside(counted.flushes as f64, "stat of the device, flushes"),
    ])
}
