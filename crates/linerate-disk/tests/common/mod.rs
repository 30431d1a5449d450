//! Loop devices over sparse files, made by the standard tools, with a digest of every byte.

#[path = "../../../linerate-sys/tests/shared/host.rs"]
mod host;

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use linerate_disk::{DiskError, Refusal, inspect};
use sha2::{Digest, Sha256};

pub(crate) use host::{Undo, attach, skip};

pub(crate) const MIB: u64 = 1 << 20;

/// Loop device over its own file, with its partitions.
pub(crate) struct Loop(host::Loop, #[expect(dead_code, reason = "held until the end")] File);

/// Opens what tests with loop devices agree on, in this process and in others. Some topologies make
/// every loop device of the host suspect, such as one whose file is on an overlay, so that a test
/// that needs an accepted device must not run beside them.
pub(crate) fn turns() -> File {
    let path = std::env::temp_dir().join("linerate-loop-devices.lock");
    let opened = File::options().create(true).append(true).open(path);
    opened.expect("the folder of temporary files takes files")
}

impl std::ops::Deref for Loop {
    type Target = host::Loop;

    fn deref(&self) -> &host::Loop {
        &self.0
    }
}

impl Loop {
    /// Creates a blank loop device; `None`, with a message, if loop devices are not available.
    pub(crate) fn blank(size: u64) -> Option<Self> {
        let turn = turns();
        turn.lock_shared().expect("the file can be locked");
        host::Loop::within("-P", size, &std::env::temp_dir()).map(|own| Self(own, turn))
    }

    /// Returns a digest of every byte of the file behind it, all earlier writes included: the
    /// kernel flushes a tool's writes when the last user closes the device, and another test that
    /// inspects all devices may have it open at that moment.
    pub(crate) fn digest(&self) -> Vec<u8> {
        let device = File::open(&*self.device).expect("a block device");
        device.sync_all().expect("the device can be flushed");
        digest_from(&self.image, 0)
    }

    pub(crate) fn serial(&self) -> String {
        inspect(&self.device)
            .expect("it is a block device")
            .topology
            .serial
            .expect("its file stands for it")
    }

    pub(crate) fn part(&self, number: u32) -> PathBuf {
        PathBuf::from(format!("{}p{number}", self.device.display()))
    }
}

/// Returns everything in `path` from `start` on.
pub(crate) fn digest_from(path: &Path, start: usize) -> Vec<u8> {
    let mut file = File::open(path).expect("readable");
    let mut digest = Sha256::new();
    let mut chunk = vec![0; 1 << 20];
    let mut skipped = start;
    loop {
        let read = file.read(&mut chunk).expect("readable");
        if read == 0 {
            return digest.finalize().to_vec();
        }
        let from = skipped.min(read);
        skipped -= from;
        digest.update(&chunk[from..read]);
    }
}

/// Runs a tool; `None`, with a message, if it is missing. A device that the list of another test
/// holds for a moment is in use for it: it is asked again for a while.
pub(crate) fn tool(command: &str, arguments: &[&str]) -> Option<()> {
    let deadline = Instant::now() + Duration::from_secs(5);
    loop {
        let output = Command::new(command).args(arguments).stdin(Stdio::null()).output();
        let Ok(output) = output else { return skip(format_args!("there is no {command}")) };
        if output.status.success() {
            return Some(());
        }
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        let is_held = message.contains("in use") || message.contains("busy");
        assert!(is_held && Instant::now() < deadline, "{command} {arguments:?}: {message}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Returns the reasons in a refusal.
pub(crate) fn reasons<T: std::fmt::Debug>(result: Result<T, DiskError>) -> Vec<Refusal> {
    match result {
        Err(DiskError::Refused { refusals, .. }) => refusals,
        other => panic!("expected a refusal, got {other:?}"),
    }
}
