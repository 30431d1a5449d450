//! One writer: who records into a ledger stands in it, and the operating system's lock on the file
//! says whether he is still there.
//!
//! The lock ends with its process, whatever its number or namespace. Where the file system's locks
//! do not reach (another machine, some network file systems), the process itself is looked for, and
//! where that cannot be seen, the lease ends when it has not been renewed for [`STALE`]. Every
//! transaction renews it, and fails if somebody else has it: two writers never both succeed.

use std::fs::{File, TryLockError};
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use linerate_sys::process::{Life, ProcessIdentity};
use rusqlite::{Connection, OptionalExtension, Transaction, params};
use serde::{Deserialize, Serialize};

use crate::{Result, StoreError};

/// After how long without renewal the lease of a process that cannot be seen has ended. Flushes
/// come every second.
const STALE: Duration = Duration::from_secs(120);

/// Longest time for which a lock outlives its writer: a child that the writer's process started a
/// moment ago shares the open file until it runs its own program, as `flock(2)` describes.
const INHERITED: Duration = Duration::from_millis(300);

/// Who records.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Holder {
    host: String,
    boot: String,
    namespace: u64,
    pid: u32,
    started_ticks: u64,
    /// Since when, seconds since the Unix epoch.
    since_s: u64,
    /// Distinguishes two ledgers that one process has open.
    opened: u64,
}

impl Holder {
    /// This process.
    pub(crate) fn own() -> std::io::Result<Self> {
        static OPENED: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
        // A process number alone is not enough: it is reused, and means another process in another
        // namespace or after a reboot.
        let ProcessIdentity { host, boot, namespace, pid, started_ticks } = ProcessIdentity::own()?;
        let opened = OPENED.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        Ok(Self { host, boot, namespace, pid, started_ticks, since_s: now_s(), opened })
    }

    fn life(&self) -> Life {
        let Self { host, boot, namespace, pid, started_ticks, .. } = self.clone();
        ProcessIdentity { host, boot, namespace, pid, started_ticks }.life()
    }

    /// Returns false if the process is known to have ended.
    pub(crate) fn may_live(&self) -> bool {
        self.life() != Life::Dead
    }

    /// `process 42 on lab7, since 35 s`.
    pub(crate) fn described(&self) -> String {
        format!(
            "process {} on {}, since {} s",
            self.pid,
            self.host,
            now_s().saturating_sub(self.since_s)
        )
    }
}

/// Result of taking the operating system's lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OsLock {
    /// We have it: nobody of this kernel has.
    Held,
    /// Somebody else has it.
    Busy,
    /// The file system has none that can be trusted.
    None,
}

/// Tries to lock the file, for at most [`INHERITED`].
pub(crate) fn lock(file: &File) -> OsLock {
    // `flock` on NFS is turned into a byte-range lock, which collides with SQLite's own locks.
    if linerate_sys::whole_file::is_remote(file) {
        return OsLock::None;
    }
    let began = Instant::now();
    loop {
        match file.try_lock() {
            Ok(()) => return OsLock::Held,
            // A child that was started a moment ago may still share the lock.
            Err(TryLockError::WouldBlock) if began.elapsed() < INHERITED => {
                std::thread::sleep(INHERITED / 20);
            }
            Err(TryLockError::WouldBlock) => return OsLock::Busy,
            Err(TryLockError::Error(_)) => return OsLock::None,
        }
    }
}

/// Reads who records, and when he last wrote.
pub(crate) fn read(connection: &Connection) -> rusqlite::Result<Option<(Holder, u64)>> {
    let sql = "SELECT holder, renewed FROM lease WHERE key = 1";
    let row = connection
        .query_row(sql, [], |row| Ok((row.get::<_, String>(0)?, row.get::<_, i64>(1)?)))
        .optional()?;
    // What does not read back is nobody: the lock decides.
    Ok(row.and_then(|(holder, renewed)| {
        Some((serde_json::from_str(&holder).ok()?, renewed.unsigned_abs()))
    }))
}

/// Returns true if the ledger may be taken over from `holder`, whose lease was renewed at
/// `renewed_s`.
fn has_ended(holder: &Holder, life: Life, renewed_s: u64, now_s: u64, lock: OsLock) -> bool {
    // A clock that was set back makes the difference zero, not huge: the lease then looks fresh.
    let is_stale = now_s.saturating_sub(renewed_s) > STALE.as_secs();
    match (lock, life) {
        (OsLock::Busy, _) => false,
        (_, Life::Dead) => true,
        // Lock and process are this kernel's; a holder of this process has dropped its ledger.
        (OsLock::Held, Life::Alive) => true,
        (OsLock::Held, Life::Unknown) => {
            // The lock proves that nobody of this kernel has the file. In the same boot, the holder
            // has therefore ended.
            is_stale || ProcessIdentity::own().is_ok_and(|own| own.boot == holder.boot)
        }
        (OsLock::None, Life::Alive) => false,
        (OsLock::None, Life::Unknown) => is_stale,
    }
}

/// Takes the lease for `own`, or says who has it.
pub(crate) fn take(
    connection: &mut Connection,
    path: &Path,
    own: &Holder,
    lock: OsLock,
) -> Result<()> {
    let fail = |error| StoreError::sqlite("open ledger", path, error);
    let transaction = connection
        // Immediate: two processes that take the lease at once must not both read before one
        // writes.
        .transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)
        .map_err(fail)?;
    if let Some((holder, renewed_s)) = read(&transaction).map_err(fail)?
        && !has_ended(&holder, holder.life(), renewed_s, now_s(), lock)
    {
        return Err(StoreError::Held { path: path.to_owned(), holder: holder.described() });
    }
    write(&transaction, own).map_err(fail)?;
    transaction.commit().map_err(fail)
}

/// Writes the lease down: part of the transaction that makes or opens a ledger.
pub(crate) fn write(transaction: &Transaction<'_>, own: &Holder) -> rusqlite::Result<()> {
    let holder = serde_json::to_string(own).expect("numbers and texts");
    let sql = "INSERT OR REPLACE INTO lease (key, holder, renewed) VALUES (1, ?1, ?2)";
    transaction.execute(sql, params![holder, now_s() as i64]).map(|_| ())
}

/// Renews the lease: part of every transaction. False if somebody else has it.
pub(crate) fn renew(transaction: &Transaction<'_>, own: &Holder) -> rusqlite::Result<bool> {
    let holder = serde_json::to_string(own).expect("numbers and texts");
    // The comparison is part of the statement, so no other process can take the lease in between.
    let sql = "UPDATE lease SET renewed = ?2 WHERE key = 1 AND holder = ?1";
    transaction
        .prepare_cached(sql)?
        .execute(params![holder, now_s() as i64])
        .map(|n_rows| n_rows == 1)
}

/// Gives the lease back.
pub(crate) fn give_back(connection: &Connection, own: &Holder) -> rusqlite::Result<()> {
    let holder = serde_json::to_string(own).expect("numbers and texts");
    connection.execute("DELETE FROM lease WHERE holder = ?1", [holder]).map(|_| ())
}

fn now_s() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_that_is_let_go_a_moment_later_is_taken_and_one_that_is_kept_is_busy() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("x.ledger");
        let open = || File::create(&path).expect("a file");
        let kept = open();
        assert_eq!(lock(&kept), OsLock::Held);
        assert_eq!(lock(&open()), OsLock::Busy);
        let child = std::thread::spawn(move || {
            std::thread::sleep(INHERITED / 6);
            drop(kept);
        });
        assert_eq!(lock(&open()), OsLock::Held);
        child.join().expect("it ends");
    }

    #[test]
    fn a_lease_ends_with_its_process_or_when_it_is_stale() {
        let own = Holder::own().expect("there is /proc");
        let elsewhere = Holder { boot: "another".into(), host: "another".into(), ..own.clone() };
        for (holder, lock, life, age_s, ended) in [
            (&own, OsLock::Busy, Life::Dead, 1_000, false),
            (&own, OsLock::Held, Life::Dead, 0, true),
            (&own, OsLock::None, Life::Dead, 0, true),
            (&own, OsLock::None, Life::Alive, 1_000, false),
            // In another namespace of process numbers, of this kernel: the lock proves it.
            (&own, OsLock::Held, Life::Unknown, 0, true),
            (&own, OsLock::None, Life::Unknown, 0, false),
            (&own, OsLock::None, Life::Unknown, 121, true),
            // On another machine the lock proves nothing.
            (&elsewhere, OsLock::Held, Life::Unknown, 0, false),
            (&elsewhere, OsLock::Held, Life::Unknown, 121, true),
        ] {
            assert_eq!(
                has_ended(holder, life, 5_000, 5_000 + age_s, lock),
                ended,
                "{lock:?} {life:?} {age_s}"
            );
        }
    }
}
