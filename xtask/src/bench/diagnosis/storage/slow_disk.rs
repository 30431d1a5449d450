//! A disk of known speed: a file of a FUSE filesystem that this process serves, shown as a block
//! device by `losetup`. Source: include/uapi/linux/fuse.h of the kernel.
//!
//! Each transfer takes the latency, and one after the other the time of its bytes and of the limit
//! of transfers; a flush takes its own time. The kernel's work for a request is added to that.

use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};

use super::super::super::scratch::Afterwards;

/// Speed of a disk.
#[derive(Clone, Copy, Debug)]
pub(super) struct Speed {
    /// Time of a transfer, s.
    pub(super) latency: f64,
    /// Most transfers per second.
    pub(super) transfers: f64,
    /// Most bytes per second.
    pub(super) bytes: f64,
    /// Time of a flush, s.
    pub(super) flush: f64,
}

impl Speed {
    /// Returns the end of a transfer of `bytes` that begins `now`, on a disk that is `free` then.
    fn done(&self, free: &mut Instant, now: Instant, bytes: usize) -> Instant {
        let takes = (1.0 / self.transfers).max(bytes as f64 / self.bytes);
        *free = (*free).max(now) + Duration::from_secs_f64(takes);
        (*free).max(now + Duration::from_secs_f64(self.latency))
    }
}

/// Size of the disk, bytes.
const SIZE: u64 = 4 << 30;
const BLOCK: u64 = 4096;
/// Largest write, bytes, and room for its header.
const MOST_WRITE: u32 = 1 << 20;
const HEADER: usize = 40;
const NODE_ROOT: u64 = 1;
const NODE_FILE: u64 = 2;
const NAME: &str = "disk";
/// Seconds for which the kernel keeps what it learned of the file.
const VALID: u64 = 3600;
/// Requests that the kernel keeps in flight.
const MOST_REQUESTS: u16 = 1024;
/// Requests that the queue of a loop device usually admits. An earlier user's number stays.
const USUAL_QUEUE: u32 = 128;
/// Errors that a reply names (errno).
const NOT_FOUND: i32 = -2;
const NOT_IMPLEMENTED: i32 = -38;

/// Numbers of the requests that are served.
mod request {
    pub(super) const LOOKUP: u32 = 1;
    pub(super) const FORGET: u32 = 2;
    pub(super) const GETATTR: u32 = 3;
    pub(super) const SETATTR: u32 = 4;
    pub(super) const OPEN: u32 = 14;
    pub(super) const READ: u32 = 15;
    pub(super) const WRITE: u32 = 16;
    pub(super) const STATFS: u32 = 17;
    pub(super) const RELEASE: u32 = 18;
    pub(super) const FSYNC: u32 = 20;
    pub(super) const FLUSH: u32 = 25;
    pub(super) const INIT: u32 = 26;
    pub(super) const OPENDIR: u32 = 27;
    pub(super) const RELEASEDIR: u32 = 29;
    pub(super) const ACCESS: u32 = 34;
    pub(super) const INTERRUPT: u32 = 36;
    pub(super) const BATCH_FORGET: u32 = 42;
}

/// A reply that is due at a time.
struct Due {
    at: Instant,
    unique: u64,
    body: Vec<u8>,
}

impl PartialEq for Due {
    fn eq(&self, other: &Self) -> bool {
        self.at == other.at
    }
}
impl Eq for Due {}
impl PartialOrd for Due {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Due {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        // The heap returns the largest first, which shall be the earliest.
        other.at.cmp(&self.at)
    }
}

/// Replies that wait for their time; `None` when the filesystem is gone.
type Waiting = Arc<(Mutex<Option<BinaryHeap<Due>>>, Condvar)>;

/// A disk that is removed when this is dropped, or this process ends.
pub(super) struct SlowDisk {
    /// Block device.
    pub(super) device: PathBuf,
    _remover: Afterwards,
}

impl SlowDisk {
    /// Makes a disk of `speed` in `folder`.
    pub(super) fn new(folder: &Path, speed: Speed) -> anyhow::Result<Self> {
        let mount = folder.join("fuse");
        std::fs::create_dir(&mount).with_context(|| format!("make {}", mount.display()))?;
        let fuse = File::options().read(true).write(true).open("/dev/fuse");
        let fuse = fuse.context("open /dev/fuse")?;
        // The kernel takes the descriptor from the process that mounts: its standard input.
        let options = "fd=0,rootmode=40000,user_id=0,group_id=0,allow_other";
        let status = Command::new("mount")
            .args(["-i", "-t", "fuse", "-o", options, "linerate-slow-disk"])
            .arg(&mount)
            .stdin(fuse.try_clone().context("share /dev/fuse")?)
            .status()
            .context("start mount")?;
        ensure!(status.success(), "mount of FUSE ended with {status}");
        let waiting = Waiting::default();
        *lock(&waiting) = Some(BinaryHeap::new());
        let replying = (fuse.try_clone().context("share /dev/fuse")?, Arc::clone(&waiting));
        std::thread::spawn(move || reply_when_due(&replying.0, &replying.1));
        std::thread::spawn(move || serve(&fuse, speed, &waiting));
        let mut made = Self {
            device: PathBuf::new(),
            _remover: Afterwards::run(
                "losetup -d \"$(losetup -n -O NAME -j \"$1/disk\")\"; umount -l \"$1\"",
                [&mount],
            )?,
        };
        let output = Command::new("losetup")
            .args(["--find", "--show", "--direct-io=on"])
            .arg(mount.join(NAME))
            .stderr(Stdio::inherit())
            .output();
        let output = output.context("start losetup")?;
        ensure!(output.status.success(), "losetup ended with {}", output.status);
        made.device = String::from_utf8_lossy(&output.stdout).trim().into();
        made.admit(USUAL_QUEUE)?;
        Ok(made)
    }

    /// Sets the number of requests that the queue of the disk admits.
    pub(super) fn admit(&self, requests: u32) -> anyhow::Result<()> {
        let path = format!("/sys/block/{}/queue/nr_requests", self.name());
        std::fs::write(&path, requests.to_string()).with_context(|| format!("write {path}"))
    }

    /// Name in `/sys/block`.
    pub(super) fn name(&self) -> String {
        self.device.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }
}

fn lock(waiting: &Waiting) -> std::sync::MutexGuard<'_, Option<BinaryHeap<Due>>> {
    waiting.0.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Sends each reply at its time until the filesystem is gone.
fn reply_when_due(fuse: &File, waiting: &Waiting) {
    let mut known = lock(waiting);
    while let Some(replies) = known.as_mut() {
        let left = replies.peek().map(|due| due.at.saturating_duration_since(Instant::now()));
        match left {
            Some(Duration::ZERO) => {
                let due = replies.pop();
                drop(known);
                due.into_iter().for_each(|due| send(fuse, due.unique, 0, &due.body));
                known = lock(waiting);
            }
            Some(left) => {
                let waited = waiting.1.wait_timeout(known, left);
                known = waited.unwrap_or_else(PoisonError::into_inner).0;
            }
            None => known = waiting.1.wait(known).unwrap_or_else(PoisonError::into_inner),
        }
    }
}

/// Sends a reply. A request that the kernel gave up has no reader.
fn send(mut fuse: &File, unique: u64, error: i32, body: &[u8]) {
    let mut bytes = Vec::with_capacity(16 + body.len());
    bytes.extend((16 + body.len() as u32).to_ne_bytes());
    bytes.extend(error.to_ne_bytes());
    bytes.extend(unique.to_ne_bytes());
    bytes.extend(body);
    let _ = fuse.write_all(&bytes);
}

/// Serves requests until the filesystem is gone.
fn serve(mut fuse: &File, speed: Speed, waiting: &Waiting) {
    // The kernel gives memory to the pages that are written.
    let mut content = vec![0_u8; SIZE as usize];
    let mut buffer = vec![0_u8; MOST_WRITE as usize + 4096];
    let mut free = Instant::now();
    while let Ok(length) = fuse.read(&mut buffer) {
        let Some(request) = Request::of(&buffer[..length]) else { break };
        let now = Instant::now();
        let later = |at: Instant, body| put(waiting, Due { at, unique: request.unique, body });
        let mut done = |bytes: usize| speed.done(&mut free, now, bytes);
        match request.number {
            request::READ => {
                let (from, size) = (request.u64(8) as usize, request.u32(16) as usize);
                let to = (from + size).min(content.len());
                let body = content[from.min(to)..to].to_vec();
                later(done(size), body);
            }
            request::WRITE => {
                let (from, size) = (request.u64(8) as usize, request.u32(16));
                let data = &request.body[HEADER..];
                let to = (from + data.len()).min(content.len());
                content[from.min(to)..to].copy_from_slice(&data[..to - from.min(to)]);
                later(done(data.len()), [size, 0].map(u32::to_ne_bytes).concat());
            }
            request::FSYNC => later(now + Duration::from_secs_f64(speed.flush), Vec::new()),
            _ => at_once(fuse, &request),
        }
    }
    *lock(waiting) = None;
    waiting.1.notify_one();
}

/// Lets a reply wait for its time.
fn put(waiting: &Waiting, due: Due) {
    if let Some(replies) = lock(waiting).as_mut() {
        replies.push(due);
    }
    waiting.1.notify_one();
}

/// Answers a request that moves no data.
fn at_once(fuse: &File, request: &Request<'_>) {
    let (error, body) = match request.number {
        request::FORGET | request::BATCH_FORGET | request::INTERRUPT => return,
        request::INIT => (0, init(request.u32(8))),
        request::LOOKUP if request.body == format!("{NAME}\0").as_bytes() => (
            0,
            [[NODE_FILE, 0, VALID, VALID, 0].map(u64::to_ne_bytes).concat(), attributes(NODE_FILE)]
                .concat(),
        ),
        request::LOOKUP => (NOT_FOUND, Vec::new()),
        request::GETATTR | request::SETATTR => {
            (0, [[VALID, 0].map(u64::to_ne_bytes).concat(), attributes(request.node)].concat())
        }
        request::OPEN | request::OPENDIR => (0, vec![0; 16]),
        request::STATFS => (0, vec![0; 80]),
        request::RELEASE | request::RELEASEDIR | request::FLUSH | request::ACCESS => {
            (0, Vec::new())
        }
        _ => (NOT_IMPLEMENTED, Vec::new()),
    };
    send(fuse, request.unique, error, &body);
}

/// Returns the answer to the first request, whose kernel reads ahead `readahead` bytes.
fn init(readahead: u32) -> Vec<u8> {
    const VERSION: [u32; 2] = [7, 31];
    /// Reads without order, writes above a page, asynchronous direct transfers, large requests.
    const FLAGS: u32 = 1 | 1 << 5 | 1 << 15 | 1 << 22;
    let [major, minor] = VERSION;
    let mut body = [major, minor, readahead, FLAGS].map(u32::to_ne_bytes).concat();
    body.extend([MOST_REQUESTS; 2].map(u16::to_ne_bytes).concat());
    body.extend([MOST_WRITE, 1].map(u32::to_ne_bytes).concat());
    body.extend([(MOST_WRITE / BLOCK as u32) as u16, 0].map(u16::to_ne_bytes).concat());
    body.resize(64, 0);
    body
}

/// Returns the attributes of a node: the folder of the filesystem, or its only file.
fn attributes(node: u64) -> Vec<u8> {
    const FOLDER: u32 = 0o040_755;
    const FILE: u32 = 0o100_600;
    let (size, mode) = if node == NODE_ROOT { (0, FOLDER) } else { (SIZE, FILE) };
    let mut body = [node, size, size / 512, 0, 0, 0].map(u64::to_ne_bytes).concat();
    body.extend([0, 0, 0, mode, 1, 0, 0, 0, BLOCK as u32, 0].map(u32::to_ne_bytes).concat());
    body
}

/// A request of the kernel.
struct Request<'a> {
    number: u32,
    unique: u64,
    node: u64,
    body: &'a [u8],
}

impl<'a> Request<'a> {
    fn of(bytes: &'a [u8]) -> Option<Self> {
        let (header, body) = bytes.split_at_checked(HEADER)?;
        let head = Request { number: 0, unique: 0, node: 0, body: header };
        Some(Self { number: head.u32(4), unique: head.u64(8), node: head.u64(16), body })
    }

    /// Returns the number at an offset; zero beyond the end.
    fn u32(&self, at: usize) -> u32 {
        let bytes = self.body.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
        bytes.map_or(0, u32::from_ne_bytes)
    }

    fn u64(&self, at: usize) -> u64 {
        let bytes = self.body.get(at..at + 8).and_then(|bytes| bytes.try_into().ok());
        bytes.map_or(0, u64::from_ne_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_have_the_sizes_of_the_protocol() {
        assert_eq!((init(0).len(), attributes(NODE_FILE).len()), (64, 88));
    }

    #[test]
    fn a_request_is_read_as_the_kernel_writes_it() {
        let mut bytes = [56_u32, request::READ].map(u32::to_ne_bytes).concat();
        bytes.extend([7_u64, NODE_FILE, 0, 0].map(u64::to_ne_bytes).concat());
        bytes.extend([1_u64, 4096].map(u64::to_ne_bytes).concat());
        let read = Request::of(&bytes).expect("a header");
        assert_eq!((read.number, read.unique, read.node), (request::READ, 7, NODE_FILE));
        assert_eq!((read.u64(8), read.u32(16)), (4096, 0));
        assert!(Request::of(&bytes[..HEADER - 1]).is_none());
    }

    #[test]
    fn the_earliest_reply_is_the_first() {
        let now = Instant::now();
        let due = |ms| Due { at: now + Duration::from_millis(ms), unique: ms, body: Vec::new() };
        let mut replies: BinaryHeap<Due> = [5, 1, 9].map(due).into();
        assert_eq!(replies.pop().map(|due| due.unique), Some(1));
    }
}
