//! Disks: a file shown as a block device that nobody else uses, so that its own counters are exact.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};

use super::super::claim::{Claim, Relation, Tolerance, Unit};
use super::super::ground::Ground;
use super::super::instruments::disk_reads;
use super::super::judge::{Skipped, run_plan};
use super::super::study::Study;
use super::Special;

const FILE_BYTES: u64 = 64 << 20;
const BLOCK_BYTES: f64 = 4096.0;
const SECONDS: f64 = 1.5;
const STARTING: Duration = Duration::from_secs(10);

pub(super) static SPECIAL: &[Special] = &[
    Special { name: "storage, 1000 reads a second by io_uring", run: |ground| open_rate(ground, "io_uring", 1000) },
    Special { name: "storage, 1000 reads a second by native AIO", run: |ground| open_rate(ground, "aio", 1000) },
    Special { name: "storage, 1000 reads a second by threads", run: |ground| open_rate(ground, "threads", 1000) },
    Special { name: "storage, 3 times the closed loop's rate by io_uring", run: overload },
    Special { name: "storage, closed loop of 8 beside fio", run: beside_fio },
    Special {
        name: "storage, writes by io_uring to a disk that hangs at the end",
        run: |ground| hangs(ground, "io_uring"),
    },
    Special {
        name: "storage, writes by threads to a disk that hangs at the end",
        run: |ground| hangs(ground, "threads"),
    },
];

/// A file in memory as a block device; both gone when dropped.
struct Disk {
    file: PathBuf,
    device: String,
}

impl Disk {
    fn make() -> anyhow::Result<Self> {
        let file = Self::file();
        std::fs::write(&file, vec![0x5a; FILE_BYTES as usize]).with_context(|| format!("write {}", file.display()))?;
        Self::show(file)
    }

    /// One of holes.
    fn empty(n_bytes: u64) -> anyhow::Result<Self> {
        let file = Self::file();
        let made = std::fs::File::create(&file).and_then(|made| made.set_len(n_bytes));
        made.with_context(|| format!("make {}", file.display()))?;
        Self::show(file)
    }

    fn file() -> PathBuf {
        Path::new("/dev/shm").join(format!("linerate-truth-{}", std::process::id()))
    }

    fn show(file: PathBuf) -> anyhow::Result<Self> {
        let output = Command::new("losetup").args(["--find", "--show", "--direct-io=off"]).arg(&file).output();
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

    /// What `work` returns, and the reads and bytes that the kernel counted meanwhile.
    fn counted<T>(&self, work: impl FnOnce() -> anyhow::Result<T>) -> anyhow::Result<(T, f64, f64)> {
        let before = disk_reads(self.name())?;
        let result = work()?;
        let after = disk_reads(self.name())?;
        Ok((result, (after.0 - before.0) as f64, (after.1 - before.1) as f64))
    }

    fn plan(&self, params: &str) -> String {
        format!(
            "[campaign]\nname = \"truth\"\nrepeats = 1\n[[sweep]]\nname = \"truth\"\nduration = \"1500 ms\"\nwarmup = \"0 ms\"\n\
             [[sweep.job]]\nworkload = \"storage\"\nfrom = \"a\"\nto = \"a\"\nparams = {{ target = \"{}\", read = \"100 %\", {params} }}\n",
            self.device
        )
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

fn iops(study: &Study) -> Option<f64> {
    study.metric("iops").or_else(|| study.metric("iops_rx"))
}

/// All transfers that are due are made, and the device counts as many.
fn open_rate(ground: &mut Ground, engine: &str, rate: u32) -> anyhow::Result<Vec<Claim>> {
    let disk = Disk::make()?;
    let plan = disk.plan(&format!("engine = \"{engine}\", depth = 256, rate = \"{rate} pps\""));
    let (study, reads, bytes) = disk.counted(|| run_plan(ground, &plan, None))?;
    let why = "transfers under way at the end, and a busy machine's late starts";
    let tolerance = Tolerance { absolute: 0.0, relative: 0.03, why };
    let iops_claim = Claim::new("reads a second", Unit::PerSecond, iops(&study), Relation::Equal(tolerance));
    let due = f64::from(rate) * SECONDS;
    let why = "reads of the partition table and of set-up, by linerate and udev";
    let probing = Tolerance { absolute: 64.0, relative: 0.03, why };
    let total = Claim::new(
        "reads, rate times duration",
        Unit::Count,
        iops(&study).map(|iops| iops * SECONDS),
        Relation::Equal(probing),
    );
    let probed = Tolerance { absolute: 64.0 * BLOCK_BYTES, relative: 0.03, why };
    let moved = study.metric("transfer_rate").or_else(|| study.metric("transfer_rate_rx")).map(|rate| rate * SECONDS);
    let moved = Claim::new("bytes read", Unit::Bytes, moved, Relation::Equal(probed));
    let [asked, answered, open] = ["due", "answered", "open"].map(|of| study.metric(&format!("operations_{of}")));
    let asked = Claim::count("reads due", asked).expect(due, "rate times duration");
    let ended = Claim::count("reads answered or open", answered.zip(open).map(|(answered, open)| answered + open));
    Ok(vec![
        asked,
        ended.expect(due, "all that were due"),
        iops_claim.expect(f64::from(rate), "the rate asked for"),
        total.expect(due, "rate times duration").beside(reads, "stat of the device, reads"),
        moved.expect(due * BLOCK_BYTES, "reads x 4096 B").beside(bytes, "stat of the device, sectors x 512 B"),
    ])
}

/// An ext4 filesystem on a disk of its own; unmounted when dropped.
struct Filesystem {
    mount: PathBuf,
    _disk: Disk,
}

impl Filesystem {
    fn make(ground: &Ground) -> anyhow::Result<Self> {
        // linerate leaves 2 GiB of a filesystem free.
        const BYTES: u64 = 4 << 30;
        let disk = Disk::empty(BYTES)?;
        let mount = ground.folder.join("disk");
        std::fs::create_dir_all(&mount).with_context(|| format!("make {}", mount.display()))?;
        run("mkfs.ext4", &["-q".as_ref(), disk.device.as_ref()])?;
        run("mount", &[disk.device.as_ref(), mount.as_ref()])?;
        Ok(Self { mount, _disk: disk })
    }

    /// Lets all that would write wait for `time`.
    fn freeze(&self, time: Duration) -> anyhow::Result<()> {
        run("fsfreeze", &["-f".as_ref(), self.mount.as_ref()])?;
        std::thread::sleep(time);
        run("fsfreeze", &["-u".as_ref(), self.mount.as_ref()])
    }

    /// Bytes in use.
    fn used(&self) -> anyhow::Result<u64> {
        let output = Command::new("df").args(["--output=used", "-B1"]).arg(&self.mount).output().context("start df")?;
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
    let output = Command::new(program).args(arguments).output().with_context(|| format!("start {program}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), Skipped(format!("{program}: {}", said.trim())));
    Ok(())
}

/// Writes under way when the disk stopped are open at the end, one of each slot, and nothing else is.
fn hangs(ground: &mut Ground, engine: &str) -> anyhow::Result<Vec<Claim>> {
    const DEPTH: f64 = 4.0;
    const SCRATCH_BYTES: u64 = 1 << 20;
    /// Since the file was made; the load lasts longer, and the disk hangs for longer than the load and its drain.
    const CALM: Duration = Duration::from_millis(900);
    const HANG: Duration = Duration::from_secs(3);
    let filesystem = Filesystem::make(ground)?;
    let plan = format!(
        "[campaign]\nname = \"truth\"\nrepeats = 1\n[[sweep]]\nname = \"truth\"\nduration = \"1500 ms\"\nwarmup = \"0 ms\"\n\
         [[sweep.job]]\nworkload = \"storage\"\nfrom = \"a\"\nto = \"a\"\nparams = {{ target = \"{}\", size = \"1 MiB\", \
         read = \"0 %\", depth = {DEPTH}, engine = \"{engine}\", cache = \"buffered\" }}\n",
        filesystem.mount.display()
    );
    let before = filesystem.used()?;
    let study = std::thread::scope(|scope| {
        let freezing = scope.spawn(|| {
            let began = Instant::now();
            while filesystem.used()? < before + SCRATCH_BYTES {
                ensure!(began.elapsed() < STARTING, "linerate made no file on the disk");
                std::thread::sleep(Duration::from_millis(10));
            }
            std::thread::sleep(CALM);
            filesystem.freeze(HANG)
        });
        let study = run_plan(ground, &plan, None);
        freezing.join().expect("freezing does not panic").and(study)
    })?;
    let [due, answered, lost, open] =
        ["due", "answered", "lost", "open"].map(|of| study.metric(&format!("operations_{of}")));
    let all =
        Claim::count("writes due", due).expect(answered.unwrap_or_default() + DEPTH, "answered, and one of each slot");
    Ok(vec![
        Claim::count("writes open", open).expect(DEPTH, "one of each slot"),
        Claim::count("writes lost", lost).expect(0.0, "none fails"),
        all,
    ])
}

/// Offered more than it can, an engine does what it does in a closed loop.
fn overload(ground: &mut Ground) -> anyhow::Result<Vec<Claim>> {
    let disk = Disk::make()?;
    let closed = iops(&run_plan(ground, &disk.plan("engine = \"io_uring\", depth = 16"), None)?);
    let closed = closed.context("linerate printed no IOPS of the closed loop")?;
    let plan = disk.plan(&format!("engine = \"io_uring\", depth = 16, rate = \"{:.0} pps\"", closed * 3.0));
    let (study, reads, _) = disk.counted(|| run_plan(ground, &plan, None))?;
    let why = "two runs one after the other on a busy machine";
    let tolerance = Tolerance { absolute: 0.0, relative: 0.3, why };
    let claim = Claim::new("reads a second", Unit::PerSecond, iops(&study), Relation::AtLeast(tolerance));
    Ok(vec![claim.expect(closed, "the closed loop before").beside(reads / SECONDS, "stat of the device")])
}

/// The same closed loop by fio, one after the other, twice, and the device's count of each.
fn beside_fio(ground: &mut Ground) -> anyhow::Result<Vec<Claim>> {
    let disk = Disk::make()?;
    let (study, reads, _) = disk.counted(|| run_plan(ground, &disk.plan("engine = \"io_uring\", depth = 8"), None))?;
    let fio = || -> anyhow::Result<f64> {
        let output = Command::new("fio")
            .args([
                "--name=truth",
                "--filename",
                &disk.device,
                "--rw=randread",
                "--bs=4k",
                "--direct=1",
                "--ioengine=io_uring",
            ])
            .args(["--iodepth=8", "--time_based", "--runtime=2", "--output-format=json", "--readonly"])
            .output()
            .context("start fio")?;
        let text = String::from_utf8_lossy(&output.stdout);
        let json = text.find('{').map_or("", |start| &text[start..]);
        let value: serde_json::Value =
            serde_json::from_str(json).with_context(|| format!("parse the JSON of fio: {text}"))?;
        value["jobs"][0]["read"]["iops"].as_f64().context("fio: no read.iops")
    };
    let beside = fio()?;
    let counted =
        Tolerance { absolute: 64.0 / SECONDS, relative: 0.02, why: "reads of set-up, and those under way at the end" };
    let claim = Claim::new("reads a second", Unit::PerSecond, iops(&study), Relation::Equal(counted));
    let why = "fio runs after linerate on a busy machine: the order of magnitude is judged";
    let similar = Tolerance { absolute: 0.0, relative: 0.6, why };
    let same_work = Claim::new("reads a second", Unit::PerSecond, iops(&study), Relation::Equal(similar));
    Ok(vec![
        claim.beside(reads / SECONDS, "stat of the device, over 1.5 s"),
        same_work.beside(beside, "fio, randread of 4 KiB"),
    ])
}
