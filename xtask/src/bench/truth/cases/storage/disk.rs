//! Disks and filesystems that nobody else uses: files in memory shown as block devices.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use serde_json::Value;

use super::super::super::ground::{End, Ground};
use super::super::super::instruments::DiskCounts;
use super::super::super::judge::Skipped;
use crate::tools;

const FILE_BYTES: u64 = 64 << 20;
/// Of holes: linerate leaves 2 GiB of a filesystem free.
const FILESYSTEM_BYTES: u64 = 4 << 30;

/// A file in memory as a block device; both gone when dropped.
pub(super) struct Disk {
    file: PathBuf,
    pub(super) device: String,
}

impl Disk {
    /// One that was written all over.
    pub(super) fn make() -> anyhow::Result<Self> {
        let file = Self::file();
        std::fs::write(&file, vec![0x5a; FILE_BYTES as usize])
            .with_context(|| format!("write {}", file.display()))?;
        Self::show(file)
    }

    /// One of holes.
    pub(super) fn empty(n_bytes: u64) -> anyhow::Result<Self> {
        Self::within(Self::file(), n_bytes)
    }

    /// One of holes in `file`.
    fn within(file: PathBuf, n_bytes: u64) -> anyhow::Result<Self> {
        let made = std::fs::File::create(&file).and_then(|made| made.set_len(n_bytes));
        made.with_context(|| format!("make {}", file.display()))?;
        Self::show(file)
    }

    fn file() -> PathBuf {
        Path::new("/dev/shm").join(format!("linerate-truth-{}", std::process::id()))
    }

    fn show(file: PathBuf) -> anyhow::Result<Self> {
        let output = Command::new("losetup")
            .args(["--find", "--show", "--direct-io=off"])
            .arg(&file)
            .output();
        let output = output.context("start losetup")?;
        let disk = Self { file, device: String::from_utf8_lossy(&output.stdout).trim().to_owned() };
        ensure!(
            output.status.success(),
            Skipped(format!("losetup: {}", String::from_utf8_lossy(&output.stderr).trim()))
        );
        Ok(disk)
    }

    /// Its name in `/sys/block`.
    fn name(&self) -> &str {
        self.device.trim_start_matches("/dev/")
    }

    /// Returns the result of `work`, and the kernel's counts of the disk meanwhile.
    pub(super) fn counted<T>(
        &self,
        work: impl FnOnce() -> anyhow::Result<T>,
    ) -> anyhow::Result<(T, DiskCounts)> {
        let before = DiskCounts::of(self.name())?;
        let result = work()?;
        Ok((result, DiskCounts::of(self.name())?.since(before)))
    }

    /// Lets linerate write to it; returns the serial number that a load must name.
    pub(super) fn claim(&self, ground: &Ground) -> anyhow::Result<String> {
        let said = |command: &[&str]| tools::printed(ground.linerate(End::A).args(command));
        let listed: Value = serde_json::from_str(&said(&["disk", "list", "--json"])?)
            .context("parse the list of disks")?;
        let mut disks = listed["disks"].as_array().into_iter().flatten();
        let own = disks
            .find(|disk| disk["name"] == self.name())
            .context("linerate does not list the disk")?;
        let serial = own["serial"].as_str().context("the disk has no serial number")?;
        said(&["disk", "claim", &self.device, "--serial", serial])?;
        Ok(serial.to_owned())
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        if !self.device.is_empty() {
            let _ = Command::new("losetup").args(["--detach", &self.device]).output();
        }
        let _ = std::fs::remove_file(&self.file);
    }
}

/// An ext4 filesystem on a disk of its own; unmounted when dropped.
pub(super) struct Filesystem {
    pub(super) mount: PathBuf,
    _disk: Disk,
}

impl Filesystem {
    /// On a disk in memory.
    pub(super) fn make(ground: &Ground) -> anyhow::Result<Self> {
        Self::on(Disk::empty(FILESYSTEM_BYTES)?, ground.folder.join("disk"))
    }

    /// On a disk that is a file on `below`: where that is frozen, this one's disk hangs.
    pub(super) fn above(below: &Self, ground: &Ground) -> anyhow::Result<Self> {
        Self::on(
            Disk::within(below.mount.join("disk"), FILESYSTEM_BYTES)?,
            ground.folder.join("above"),
        )
    }

    fn on(disk: Disk, mount: PathBuf) -> anyhow::Result<Self> {
        std::fs::create_dir_all(&mount).with_context(|| format!("make {}", mount.display()))?;
        run("mkfs.ext4", &["-q".as_ref(), disk.device.as_ref()])?;
        run("mount", &[disk.device.as_ref(), mount.as_ref()])?;
        Ok(Self { mount, _disk: disk })
    }

    /// Lets all that would write wait for `time`.
    pub(super) fn freeze(&self, time: Duration) -> anyhow::Result<()> {
        run("fsfreeze", &["-f".as_ref(), self.mount.as_ref()])?;
        std::thread::sleep(time);
        run("fsfreeze", &["-u".as_ref(), self.mount.as_ref()])
    }

    /// Bytes in use.
    pub(super) fn used(&self) -> anyhow::Result<u64> {
        let output = Command::new("df")
            .args(["--output=used", "-B1"])
            .arg(&self.mount)
            .output()
            .context("start df")?;
        let text = String::from_utf8_lossy(&output.stdout);
        let used = text.lines().nth(1).map(str::trim).context("df printed no line")?;
        used.parse().with_context(|| format!("parse {used:?} of df"))
    }
}

impl Drop for Filesystem {
    fn drop(&mut self) {
        // A case that failed may have left it frozen.
        let _ = Command::new("fsfreeze").arg("-u").arg(&self.mount).output();
        let _ = Command::new("umount").arg("-l").arg(&self.mount).output();
    }
}

fn run(program: &str, arguments: &[&std::ffi::OsStr]) -> anyhow::Result<()> {
    let output = Command::new(program)
        .args(arguments)
        .output()
        .with_context(|| format!("start {program}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), Skipped(format!("{program}: {}", said.trim())));
    Ok(())
}
