//! `cargo xtask bench diagnosis --storage`: the confusion matrix of `linerate diagnose` on disks.
//!
//! Disks are files of a FUSE filesystem of this bench behind `losetup`, a compressed disk in
//! memory, or a file. Limits are made by that filesystem, sysfs, control groups and fio. `linerate
//! diagnose --workload storage` runs unmodified. Not covered: heat and other limits of real
//! devices, and device-mapper, which many kernels lack.

mod causes;
mod slow_disk;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context;
use serde_json::json;

use super::super::options::provide;
use super::super::scratch::{Afterwards, Killed, Scratch, fill};
use super::Options;
use super::answers::{Answer, Cause, Diagnosed, Goals, diagnosed, limited, matrix};
use super::draw::Draw;
use causes::{Beside, CAUSES, Limit, Setup, Target};
use slow_disk::SlowDisk;

use crate::tools::{self, printed};

/// Goals of the matrix.
const GOALS: Goals = Goals { named: 0.9, misled: 0.03 };
/// Longest diagnosis, s. A longer one counts as failed.
const LONGEST: &str = "180";
/// Length of a run and of its warm-up, s.
const SECONDS: &str = "0.5";
const OMITTED: &str = "0.3";
/// Size of the file in the page cache and of the disk in memory.
const FILE_BYTES: u64 = 64 << 20;
const GROUPS: &str = "/sys/fs/cgroup";

/// Returns true if `part` is in the name of a cause.
pub(super) fn is_cause(part: &str) -> bool {
    CAUSES.iter().any(|cause| cause.name.contains(part))
}

/// Diagnoses every cause with every seed, prints the matrix, and returns whether it meets the
/// goals.
pub(super) fn run(program: &Path, options: &Options) -> anyhow::Result<bool> {
    provide(tools::FOR_DISKS)?;
    matrix(CAUSES, options, GOALS, &|cause, seed| diagnose(program, cause, seed))
}

/// Makes the disk of `cause` and what is beside it, and diagnoses the load; returns the leading
/// finding and the whole answer beside the setup.
fn diagnose(program: &Path, cause: &Cause<Setup>, seed: u32) -> Diagnosed {
    let setup = (cause.setup)(&mut Draw::of(cause.name, u64::from(seed)));
    let name = cause.name.replace([' ', ',', '(', ')'], "-");
    let scratch = Scratch::new(&format!("disk-{name}"))?;
    let folder = scratch.path();
    let ground = Ground::make(folder, setup.target)?;
    let disk = ground.disk.as_ref();
    let mut before = limited(LONGEST).map(str::to_owned).to_vec();
    let mut guests = Vec::new();
    match (setup.beside, disk) {
        (Beside::Queue(requests), Some(disk)) => disk.admit(requests)?,
        (Beside::Group(limit, rate), Some(disk)) => {
            let group = Group::make(&disk.name(), limit, rate)?;
            let enter = "echo $$ > \"$0/cgroup.procs\" && exec \"$@\"";
            let words = ["sh", "-c", enter].map(str::to_owned);
            before.splice(..0, words.into_iter().chain([group.path.display().to_string()]));
            guests.push(Guest::Group(group));
        }
        (Beside::Fio(depth), Some(disk)) => guests.push(Guest::Program(fio(disk, depth)?)),
        (Beside::Nothing, _) => {}
        (beside, None) => anyhow::bail!("{beside:?} needs a disk"),
    }
    let begun = Instant::now();
    let mut command = Command::new(&before[0]);
    command.args(&before[1..]).arg(program);
    command.args(["--json", "--quiet", "diagnose", "--workload", "storage", "--limits", "1"]);
    command.args(["--seconds", SECONDS, "--omit", OMITTED, "--seed", &seed.to_string()]);
    command.arg("--out").arg(folder.join("ledgers"));
    command.args(["--param", &format!("target={}", ground.target.display())]);
    for param in &setup.params {
        command.args(["--param", param]);
    }
    let found = diagnosed(command);
    let seconds = begun.elapsed().as_secs_f64();
    drop(guests);
    let found = found?;
    let answer = Answer::of(&found, seed, seconds);
    Ok((answer, json!({ "setup": format!("{setup:?}"), "answer": found })))
}

fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    std::fs::write(path, text).with_context(|| format!("write {text} to {}", path.display()))
}

/// Program or limit beside a load; it ends when this is dropped.
#[expect(dead_code, reason = "what it holds is dropped with it")]
enum Guest {
    Group(Group),
    Program(Killed),
}

/// Starts fio, which reads from `disk` and never writes, for as long as a diagnosis may take.
fn fio(disk: &SlowDisk, depth: u32) -> anyhow::Result<Killed> {
    let fio = Command::new("fio")
        .args(["--name=other", "--readonly", "--rw=randread", "--bs=4k", "--direct=1"])
        // A process of its own for the job would outlive fio.
        .args(["--ioengine=libaio", "--thread", "--time_based", &format!("--runtime={LONGEST}")])
        .args([format!("--iodepth={depth}"), format!("--filename={}", disk.device.display())])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let fio = Killed(fio.context("start fio")?);
    // It opens the disk and lays out its load.
    std::thread::sleep(Duration::from_secs(1));
    Ok(fio)
}

/// A control group with a limit on a disk. It is removed when this is dropped, or this process
/// ends.
struct Group {
    path: PathBuf,
    _remover: Afterwards,
}

/// Ends the processes of a group, and removes it: the kernel permits that once the last of them has
/// ended, which may take a moment.
const REMOVE_GROUP: &str = "for n in $(seq 50); do [ -d \"$1\" ] || exit 0; \
    rmdir \"$1\" 2>/dev/null && exit; { kill -9 $(cat \"$1/cgroup.procs\"); } 2>/dev/null; \
    sleep 0.1; done; echo \"left behind: $1\" >&2";

impl Group {
    /// Makes a group with a limit of `rate` on the disk called `name`, of the version of the disk
    /// controller that this host has.
    fn make(name: &str, limit: Limit, rate: u64) -> anyhow::Result<Self> {
        let number = std::fs::read_to_string(format!("/sys/block/{name}/dev"))
            .with_context(|| format!("read the number of {name}"))?;
        let number = number.trim();
        let (key, file) = limit.place();
        let own = format!("linerate-bench-{}-{name}", std::process::id());
        let version_1 = Path::new(GROUPS).join("blkio");
        let (path, file, text) = if version_1.is_dir() {
            (version_1.join(own), file, format!("{number} {rate}"))
        } else {
            (Path::new(GROUPS).join(own), "io.max", format!("{number} {key}={rate}"))
        };
        std::fs::create_dir(&path).with_context(|| format!("make {}", path.display()))?;
        let remover = Afterwards::run(REMOVE_GROUP, [&path])?;
        write(&path.join(file), &text)?;
        Ok(Self { path, _remover: remover })
    }
}

/// Target of a load, and what must be removed after it. Fields are dropped in their order.
struct Ground {
    target: PathBuf,
    _removers: Vec<Afterwards>,
    disk: Option<SlowDisk>,
}

impl Ground {
    fn make(folder: &Path, target: Target) -> anyhow::Result<Self> {
        match target {
            Target::Disk(speed) => {
                let disk = SlowDisk::new(folder, speed)?;
                Ok(Self { target: disk.device.clone(), _removers: Vec::new(), disk: Some(disk) })
            }
            Target::Folder(speed) => {
                let disk = SlowDisk::new(folder, speed)?;
                let mount = folder.join("mounted");
                std::fs::create_dir(&mount).with_context(|| format!("make {}", mount.display()))?;
                let device = disk.device.display().to_string();
                // Nothing may initialise the filesystem later, beside the load.
                let at_once = "nodiscard,lazy_itable_init=0,lazy_journal_init=0";
                let small = ["-q", "-F", "-N", "64", "-J", "size=4", "-E", at_once, &device];
                printed(Command::new("mkfs.ext4").args(small))?;
                printed(Command::new("mount").args(["-t", "ext4", &device]).arg(&mount))?;
                let remover = Afterwards::run("umount \"$1\" || umount -l \"$1\"", [&mount])?;
                Ok(Self { target: mount, _removers: vec![remover], disk: Some(disk) })
            }
            Target::CachedFile => {
                // Temporary files may be in memory, which has no disk.
                let file = Path::new("/var/tmp").join(folder.file_name().unwrap_or_default());
                let remover = Afterwards::run("rm -f -- \"$1\"", [&file])?;
                fill(&file, FILE_BYTES)?;
                Ok(Self { target: file, _removers: vec![remover], disk: None })
            }
            Target::Memory => {
                let control = Path::new("/sys/class/zram-control");
                let number = std::fs::read_to_string(control.join("hot_add"));
                let number = number.context("add a zram disk")?.trim().to_owned();
                let target = PathBuf::from(format!("/dev/zram{number}"));
                let script = "echo 1 > /sys/block/zram${1#/dev/zram}/reset; \
                    echo ${1#/dev/zram} > /sys/class/zram-control/hot_remove";
                let remover = Afterwards::run(script, [&target])?;
                let size = format!("/sys/block/zram{number}/disksize");
                write(Path::new(&size), &FILE_BYTES.to_string())?;
                let mut fill = Command::new("dd");
                fill.args(["if=/dev/urandom", "bs=1M", "oflag=direct"]);
                fill.arg(format!("of={}", target.display()));
                printed(fill.arg(format!("count={}", FILE_BYTES >> 20)))?;
                Ok(Self { target, _removers: vec![remover], disk: None })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_that_never_was_is_nothing_to_wait_for_and_one_that_stays_is_named() {
        let scratch = Scratch::new("group-test").expect("a folder");
        let removed = |path: &Path| {
            let begun = Instant::now();
            let output =
                Command::new("sh").args(["-c", REMOVE_GROUP, "afterwards"]).arg(path).output();
            let complaint = output.expect("sh runs").stderr;
            (String::from_utf8_lossy(&complaint).into_owned(), begun.elapsed())
        };
        let empty = scratch.path().join("empty");
        std::fs::create_dir(&empty).expect("a folder");
        for path in [&empty, &scratch.path().join("none")] {
            let (complaint, took) = removed(path);
            assert_eq!(complaint, "");
            // All attempts together wait for 5 s.
            assert!(!path.exists() && took < Duration::from_secs(4), "{took:?}");
        }
        let kept = scratch.path().join("kept");
        std::fs::create_dir_all(kept.join("inside")).expect("a folder");
        assert_eq!(removed(&kept).0, format!("left behind: {}\n", kept.display()));
    }

    #[test]
    fn causes_have_names_of_their_own_and_setups_that_fit_them() {
        let mut names: Vec<&str> = CAUSES.iter().map(|cause| cause.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), CAUSES.len());
        assert!(is_cause("journal") && !is_cause("policer"));
        for cause in CAUSES {
            for seed in 1..=20 {
                let setup = (cause.setup)(&mut Draw::of(cause.name, seed));
                let is_on_disk = matches!(setup.target, Target::Disk(_));
                assert!(setup.beside == Beside::Nothing || is_on_disk, "{}", cause.name);
            }
        }
    }
}
