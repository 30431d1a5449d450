//! Changes of this host for the time of a test: network namespaces, loop devices, mounts. Each is
//! undone when its value is dropped, even by a failing test. Test programs of several crates
//! include this file.

#![allow(dead_code, reason = "each test program uses its part")]

use std::ffi::OsStr;
use std::fmt::Display;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Prints that the running test, which its thread is named after, is skipped, and why.
pub(crate) fn skip<T>(why: impl Display) -> Option<T> {
    println!("skipped: {}: {why}", std::thread::current().name().unwrap_or_default());
    None
}

/// Returns `Some` for root, and skips the test for others; `why` says what it needs root for.
pub(crate) fn root(why: &str) -> Option<()> {
    if tried("id -u").is_ok_and(|id| id == "0\n") { Some(()) } else { skip(why) }
}

/// Runs `command`, whose words are separated by spaces, and returns its output or its complaint.
pub(crate) fn tried(command: &str) -> Result<String, String> {
    let mut words = command.split_whitespace();
    let output = Command::new(words.next().unwrap_or_default()).args(words).output();
    let output = output.map_err(|error| format!("{command}: {error}"))?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        Err(format!("{command}: {}", String::from_utf8_lossy(&output.stderr).trim()))
    }
}

/// Does the same, and panics with the complaint.
pub(crate) fn ran(command: &str) -> String {
    tried(command).unwrap_or_else(|complaint| panic!("{complaint}"))
}

/// Command that runs when this is dropped.
#[derive(Debug)]
pub(crate) struct Undo(Command);

impl Undo {
    /// Returns the command of these words.
    pub(crate) fn by<const N: usize>(words: [&dyn AsRef<OsStr>; N]) -> Self {
        let mut command = Command::new(words[0]);
        command.args(&words[1..]);
        Self(command)
    }
}

impl Drop for Undo {
    fn drop(&mut self) {
        // If the change was never made, there is nothing to undo.
        let _undone = self.0.output();
    }
}

/// Network namespace.
#[derive(Debug)]
pub(crate) struct Namespace {
    pub(crate) name: String,
    _undo: Undo,
}

impl Namespace {
    /// Makes the namespace `name`; `None`, with a message, if that is not possible.
    pub(crate) fn new(name: String) -> Option<Self> {
        match tried(&format!("ip netns add {name}")) {
            Ok(_) => Some(Self { _undo: Undo::by([&"ip", &"netns", &"delete", &name]), name }),
            Err(complaint) => skip(complaint),
        }
    }

    /// Runs a command inside, which must succeed, and returns its output.
    pub(crate) fn ran(&self, command: &str) -> String {
        ran(&format!("ip netns exec {} {command}", self.name))
    }
}

/// Loop device.
#[derive(Debug)]
pub(crate) struct Attached {
    path: PathBuf,
    _undo: Undo,
}

impl Deref for Attached {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.path
    }
}

impl<T: ?Sized> AsRef<T> for Attached
where
    Path: AsRef<T>,
{
    fn as_ref(&self) -> &T {
        self.path.as_path().as_ref()
    }
}

/// Attaches `image` to a free loop device; `None`, with a message, if there are none.
pub(crate) fn attach(options: &str, image: &Path) -> Option<Attached> {
    match tried(&format!("losetup -f --show {options} {}", image.display())) {
        Ok(path) => {
            let path = PathBuf::from(path.trim());
            Some(Attached { _undo: Undo::by([&"losetup", &"-d", &path]), path })
        }
        Err(complaint) => skip(complaint),
    }
}

/// Loop device over its own blank file.
#[derive(Debug)]
pub(crate) struct Loop {
    pub(crate) device: Attached,
    pub(crate) image: PathBuf,
    _folder: tempfile::TempDir,
}

impl Loop {
    /// Creates one with its file in `folder`; `None`, with a message, if there are no loop devices.
    pub(crate) fn within(options: &str, size: u64, folder: &Path) -> Option<Self> {
        let folder = tempfile::tempdir_in(folder).expect("a folder");
        let image = folder.path().join("image");
        std::fs::File::create(&image).and_then(|file| file.set_len(size)).expect("a sparse file");
        let device = attach(options, &image)?;
        Some(Self { device, image, _folder: folder })
    }
}
