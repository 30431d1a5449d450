//! Snapshots for other processes of this host: a Unix socket beside the ledger.
//!
//! A snapshot is one line of JSON, sent five times a second at most and at once when the stage
//! changes. A reader that does not keep up misses snapshots; one that reads nothing for longer than
//! [`STUCK`] is cut off. Only processes that may write to the socket's file can connect: the user
//! of the campaign, with the usual umask.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::fs::FileTypeExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Receiver;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::{Live, LiveStage, Snapshot};

/// Interval between two looks for new readers, and at the end of the campaign.
const LOOK: Duration = Duration::from_millis(100);
/// Shortest time between two snapshots of the same stage: writing and reading one takes CPU time
/// from the measurement.
const EVERY: Duration = Duration::from_millis(200);
/// Longest line that a reader takes, many times a snapshot.
const LONGEST: u64 = 4 << 20;
/// Time after which a reader that takes nothing is cut off.
const STUCK: Duration = Duration::from_secs(10);
/// Most readers at once.
const READERS: usize = 16;

/// Returns the path of the socket that belongs to `ledger`.
#[must_use]
pub fn socket_path(ledger: &Path) -> PathBuf {
    let mut path = OsString::from(ledger);
    path.push(".live");
    path.into()
}

fn is_socket(path: &Path) -> bool {
    std::fs::symlink_metadata(path).is_ok_and(|file| file.file_type().is_socket())
}

/// Socket of a running campaign; removed when this is dropped.
#[derive(Debug)]
pub struct LiveSocket {
    path: PathBuf,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl LiveSocket {
    /// Serves the snapshots of `live` beside `ledger`. Returns `None` if no socket can be made
    /// there, or another campaign has it: a measurement needs no viewer.
    #[must_use]
    pub fn open(live: &Live, ledger: &Path) -> Option<Self> {
        let path = socket_path(ledger);
        // A campaign that was killed leaves its socket, where nobody answers.
        let refused = |path: &Path| {
            UnixStream::connect(path).is_err_and(|e| e.kind() == ErrorKind::ConnectionRefused)
        };
        // Another file of that name is refused, too.
        if is_socket(&path) && refused(&path) {
            let _gone = std::fs::remove_file(&path);
        }
        let listener = UnixListener::bind(&path).ok()?;
        let (snapshots, is_over) = (live.watch(), Arc::new(AtomicBool::new(false)));
        let over = Arc::clone(&is_over);
        let thread = listener.set_nonblocking(true).ok().and_then(|()| {
            let named = std::thread::Builder::new().name("linerate-live".into());
            named.spawn(move || serve(&listener, &snapshots, &over)).ok()
        });
        Some(Self { path, is_over, thread })
    }
}

impl Drop for LiveSocket {
    fn drop(&mut self) {
        // Removed first, so that nobody connects to a campaign that is over.
        if is_socket(&self.path) {
            let _gone = std::fs::remove_file(&self.path);
        }
        self.is_over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // Its longest wait is one look.
            let _ended = thread.join();
        }
    }
}

/// Reader on the other side of the socket.
struct Reader {
    stream: UnixStream,
    /// Rest of a snapshot that did not fit into the socket's buffer.
    unsent: Vec<u8>,
    /// Time of the last byte that was taken.
    took: Instant,
}

impl Reader {
    /// Sends `line`, unless the one before has not been taken. Returns whether the reader stays.
    fn offer(&mut self, line: &[u8]) -> bool {
        // Only complete snapshots are replaced: half a line would end the reader's understanding.
        if self.unsent.is_empty() {
            self.unsent.extend_from_slice(line);
            self.took = Instant::now();
        }
        self.flush()
    }

    /// Sends the rest of a snapshot. Returns whether the reader stays.
    fn flush(&mut self) -> bool {
        while !self.unsent.is_empty() {
            match self.stream.write(&self.unsent) {
                Ok(n_bytes) if n_bytes > 0 => {
                    self.unsent.drain(..n_bytes);
                    self.took = Instant::now();
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    return self.took.elapsed() < STUCK;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                _ => return false,
            }
        }
        true
    }
}

/// Last snapshot that was sent: when, and its stage.
#[derive(Debug, Default)]
struct Pace {
    sent: Option<(Instant, LiveStage, usize)>,
}

impl Pace {
    /// Returns the time from `now` until `snapshot` may be sent.
    fn wait(&self, snapshot: &Snapshot, now: Instant) -> Duration {
        match self.sent {
            Some((at, stage, n_ended))
                if (stage, n_ended) == (snapshot.stage, snapshot.n_ended) =>
            {
                EVERY.saturating_sub(now.saturating_duration_since(at))
            }
            _ => Duration::ZERO,
        }
    }

    fn note(&mut self, snapshot: &Snapshot, now: Instant) {
        self.sent = Some((now, snapshot.stage, snapshot.n_ended));
    }
}

fn serve(listener: &UnixListener, snapshots: &Receiver<Arc<Snapshot>>, over: &AtomicBool) {
    let mut readers: Vec<Reader> = Vec::new();
    let mut newest: Option<Arc<Snapshot>> = None;
    let (mut pace, mut is_news) = (Pace::default(), false);
    // The last snapshots are offered before an end is looked for.
    loop {
        let is_last = over.load(Ordering::Relaxed);
        let waiting = newest.as_ref().filter(|_| is_news);
        let patience = waiting.map_or(LOOK, |one| pace.wait(one, Instant::now()).min(LOOK));
        let news = if is_last { None } else { snapshots.recv_timeout(patience).ok() };
        let news = snapshots.try_iter().last().or(news);
        let mut arrived = Vec::new();
        while let Ok((stream, _)) = listener.accept() {
            if readers.len() + arrived.len() < READERS && stream.set_nonblocking(true).is_ok() {
                arrived.push(Reader { stream, unsent: Vec::new(), took: Instant::now() });
            }
        }
        readers.retain_mut(Reader::flush);
        is_news |= news.is_some();
        newest = news.or(newest);
        if let Some(newest) = &newest {
            let now = Instant::now();
            let is_due = is_news && (is_last || pace.wait(newest, now).is_zero());
            let n_readers = arrived.len() + if is_due { readers.len() } else { 0 };
            let mut line = Vec::new();
            if n_readers > 0 {
                line = serde_json::to_vec(&**newest).unwrap_or_default();
                line.push(b'\n');
            }
            if is_due {
                readers.retain_mut(|reader| reader.offer(&line));
                pace.note(newest, now);
                is_news = false;
            }
            arrived.retain_mut(|reader| reader.offer(&line));
        }
        readers.extend(arrived);
        if is_last {
            return;
        }
    }
}

/// Connects to the campaign that runs into `ledger`. The iterator waits for each snapshot and ends
/// with the campaign; with a `patience`, also after that time without one.
///
/// # Errors
/// If no campaign runs there, or it belongs to another user.
pub fn connect(
    ledger: &Path,
    patience: Option<Duration>,
) -> std::io::Result<impl Iterator<Item = Snapshot> + use<>> {
    let stream = UnixStream::connect(socket_path(ledger))?;
    stream.set_read_timeout(patience)?;
    let mut stream = BufReader::new(stream);
    Ok(std::iter::from_fn(move || {
        let mut line = Vec::new();
        (&mut stream).take(LONGEST).read_until(b'\n', &mut line).ok()?;
        // A line that is cut off, by its end or by the limit, is no snapshot.
        let line = line.strip_suffix(b"\n")?;
        serde_json::from_slice(line).ok()
    }))
}

#[cfg(test)]
mod tests {
    use linerate_model::Nanos;

    use super::*;

    fn snapshot(n: u64, n_bytes: usize) -> Arc<Snapshot> {
        let name = "x".repeat(n_bytes);
        Arc::new(Snapshot { at: Nanos(n), name, ..Snapshot::default() })
    }

    #[test]
    fn another_process_sees_whole_snapshots_the_last_one_included_and_the_end() {
        let folder = tempfile::tempdir().expect("a folder");
        let (ledger, live) = (folder.path().join("x.ledger"), Live::default());
        let socket = LiveSocket::open(&live, &ledger).expect("the folder is ours");
        live.offer(&snapshot(1, 0));
        let mut reader = connect(&ledger, None).expect("it listens");
        assert_eq!(reader.next().expect("the newest").at, Nanos(1));
        live.offer(&snapshot(2, 0));
        drop(socket);
        assert_eq!(reader.map(|shown| shown.at).collect::<Vec<_>>(), [Nanos(2)]);
        assert!(connect(&ledger, None).is_err(), "nothing runs there");
        assert!(!socket_path(&ledger).exists());
    }

    #[test]
    fn a_reader_that_stands_still_holds_up_nobody_and_then_misses_whole_snapshots() {
        let folder = tempfile::tempdir().expect("a folder");
        let (ledger, live) = (folder.path().join("x.ledger"), Live::default());
        let socket = LiveSocket::open(&live, &ledger).expect("the folder is ours");
        live.offer(&snapshot(0, 300_000));
        let mut stuck = connect(&ledger, None).expect("it listens");
        let mut reads = connect(&ledger, None).expect("it listens");
        assert_eq!([&mut stuck, &mut reads].map(|one| one.next().expect("the first").at.0), [0; 2]);
        // More than the buffers of a socket hold.
        for n in 1..10 {
            live.offer(&snapshot(n, 300_000));
            assert_eq!(reads.next().expect("it reads").at, Nanos(n));
        }
        let ended = std::thread::spawn(move || drop(socket));
        let seen: Vec<u64> = stuck.map(|shown| shown.at.0).collect();
        ended.join().expect("it ends");
        assert!(!seen.is_empty() && seen.len() < 9, "{seen:?}");
        assert!(seen.is_sorted(), "{seen:?}");
    }

    #[test]
    fn snapshots_wait_for_the_pace_and_a_new_stage_does_not() {
        let (began, mut pace) = (Instant::now(), Pace::default());
        let at = |ms| began + Duration::from_millis(ms);
        let of = |stage, n_ended| Snapshot { stage, n_ended, ..Snapshot::default() };
        let trial = of(LiveStage::Trial, 0);
        assert_eq!(pace.wait(&trial, at(0)), Duration::ZERO);
        pace.note(&trial, at(0));
        assert_eq!(pace.wait(&trial, at(130)), Duration::from_millis(70));
        assert_eq!(pace.wait(&trial, at(200)), Duration::ZERO);
        assert_eq!(pace.wait(&of(LiveStage::Resting, 1), at(1)), Duration::ZERO);
        assert_eq!(pace.wait(&of(LiveStage::Trial, 1), at(1)), Duration::ZERO, "the next trial");
    }

    #[test]
    fn a_line_without_an_end_ends_the_reader_and_fills_no_memory() {
        let folder = tempfile::tempdir().expect("a folder");
        let ledger = folder.path().join("x.ledger");
        let listener = UnixListener::bind(socket_path(&ledger)).expect("the folder is ours");
        let mut reader = connect(&ledger, None).expect("it listens");
        let (mut sender, _) = listener.accept().expect("it connected");
        let sent = std::thread::spawn(move || {
            let spaces = vec![b' '; 1 << 20];
            (0..64).take_while(|_| sender.write_all(&spaces).is_ok()).count()
        });
        assert!(reader.next().is_none());
        drop(reader);
        let n_mib = sent.join().expect("the sender ends");
        assert!((3..8).contains(&n_mib), "{n_mib} MiB were taken");
    }

    #[test]
    fn a_file_of_the_name_of_the_socket_is_left_alone() {
        let folder = tempfile::tempdir().expect("a folder");
        let ledger = folder.path().join("x.ledger");
        let path = socket_path(&ledger);
        std::fs::write(&path, "notes").expect("written");
        assert!(LiveSocket::open(&Live::default(), &ledger).is_none());
        assert_eq!(std::fs::read_to_string(&path).expect("it is still there"), "notes");
        std::fs::remove_file(&path).expect("removed");
        // A file that took the socket's place stays, too.
        let socket = LiveSocket::open(&Live::default(), &ledger).expect("the name is free");
        std::fs::remove_file(&path).expect("removed");
        std::fs::write(&path, "notes").expect("written");
        drop(socket);
        assert!(path.exists());
    }

    #[test]
    fn the_socket_of_a_killed_campaign_is_replaced_and_that_of_a_running_one_is_not() {
        let folder = tempfile::tempdir().expect("a folder");
        let (ledger, live) = (folder.path().join("x.ledger"), Live::default());
        // Closing a listener leaves its file, as a kill does.
        drop(UnixListener::bind(socket_path(&ledger)).expect("the folder is ours"));
        let socket = LiveSocket::open(&live, &ledger).expect("nobody answers there");
        assert!(LiveSocket::open(&live, &ledger).is_none(), "somebody answers there");
        drop(socket);
    }
}
