//! Generated topologies of files, links, mounts, partitions and loop devices. Whatever path leads
//! to somebody's data, the gate refuses, and every digest is the same afterwards. A device that
//! only looks entangled is accepted.
//!
//! A run has `LINERATE_TOPOLOGIES` topologies (20) from `LINERATE_SEED` (1); `cargo xtask disks`
//! runs the full number. Each topology goes as far as the gate allows. A device that is opened is
//! overwritten from end to end, so a wrong decision of the gate destroys the data.

use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use linerate_disk::{Disks, Permission, Writable, claim, inspect};
use rustix::fs::{AtFlags, CWD, Mode, OFlags, linkat};

use crate::common::{self, MIB, digest_from, skip};

/// Size of the file behind every candidate.
const IMAGE_BYTES: u64 = 32 * MIB;
/// Position and length of somebody's data in it.
const DATA_AT: u64 = 8 * MIB;
const DATA_BYTES: u64 = 16 * MIB;
/// Highest number of a partition here.
const MOST_PARTITIONS: u32 = 7;
/// Patience for any step on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// Another path to the same file.
const WAYS: [&str; 11] = [
    "the same path",
    "a hard link",
    "a symbolic link",
    "a bind mount of the file",
    "a bind mount of the folder",
    "a hard link after a rename",
    "a hard link whose first name is deleted",
    "a path of another mount namespace",
    "a file that has no name",
    "the first name of a file that had none",
    "an overlay",
];
/// Ways that begin with a file without a name (`O_TMPFILE`).
const NAMELESS: [&str; 2] = ["a file that has no name", "the first name of a file that had none"];
/// Data that somebody stores in it.
const DATA: [&str; 7] = [
    "a filesystem behind an offset, mounted",
    "a filesystem on all of it, mounted",
    "swap",
    "a filesystem on a loop device over a loop device, mounted",
    "a filesystem on a partition, mounted",
    "a filesystem mounted in another mount namespace",
    "a filesystem that nobody has mounted",
];
/// Devices that linerate is asked to write to.
const CANDIDATES: [&str; 3] = ["a loop device", "a partition", "a loop device over a loop device"];
/// Time at which the data appears.
const ORDERS: [&str; 3] = ["before the claim", "after the claim", "while it is held"];
/// Situations that only look like a conflict.
const HARMLESS: [&str; 4] = [
    "links and bind mounts that nobody uses",
    "another file's filesystem, mounted",
    "another partition's filesystem, mounted",
    "a reflink copy, mounted",
];

/// Pseudo-random numbers (xorshift64, Marsaglia 2003).
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 32) as usize % sides
    }
}

/// Everything created, to be undone in reverse order.
#[derive(Default)]
struct Ground {
    undo: Vec<Vec<String>>,
    children: Vec<Child>,
    /// Files that exist as long as they are open.
    nameless: Vec<File>,
}

impl Drop for Ground {
    fn drop(&mut self) {
        for mut child in self.children.drain(..) {
            // The process ends with its input, and its mount namespace with it.
            drop(child.stdin.take());
            let _ = child.wait();
        }
        for command in self.undo.drain(..).rev() {
            let began = Instant::now();
            // Programs that open every device briefly, such as udev, keep one busy for a moment.
            let done =
                || Command::new(&command[0]).args(&command[1..]).stderr(Stdio::null()).status();
            while !done().is_ok_and(|status| status.success()) && began.elapsed() < PATIENCE {
                std::thread::sleep(Duration::from_millis(50));
            }
        }
    }
}

fn text(path: &Path) -> String {
    path.to_str().expect("plain text").to_owned()
}

/// Runs a command line and returns what it printed.
fn run(line: &str) -> String {
    let words: Vec<&str> = line.split(' ').collect();
    let output = Command::new(words[0])
        .args(&words[1..])
        .stdin(Stdio::null())
        .output()
        .expect("the tool is there");
    assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// Does the same, and repeats it while a device is busy: programs such as udev open every device
/// for a moment.
fn patiently(line: &str) {
    let words: Vec<&str> = line.split(' ').collect();
    let began = Instant::now();
    loop {
        let output = Command::new(words[0]).args(&words[1..]).stdin(Stdio::null()).output();
        let output = output.expect("the tool is there");
        if output.status.success() {
            return;
        }
        assert!(began.elapsed() < PATIENCE, "{line}: {}", String::from_utf8_lossy(&output.stderr));
        std::thread::sleep(Duration::from_millis(50));
    }
}

impl Ground {
    fn undo(&mut self, line: &str) {
        self.undo.push(line.split(' ').map(str::to_owned).collect());
    }

    fn attach(&mut self, options: &str, file: &Path) -> PathBuf {
        let device = run(&format!("losetup -f --show {options} {}", text(file)).replace("  ", " "));
        self.undo(&format!("losetup -d {device}"));
        // A killed run leaves partitions on a device that is no longer set up.
        for number in 1..=MOST_PARTITIONS {
            if Path::new(&format!("{device}p{number}")).exists() {
                patiently(&format!("delpart {device} {number}"));
            }
        }
        PathBuf::from(device)
    }

    fn mount(&mut self, options: &str, what: &Path, at: &Path) {
        run(&format!("mount {options} {} {}", text(what), text(at)).replace("  ", " "));
        self.undo(&format!("umount {}", text(at)));
    }

    /// Starts a process that runs `script` in a mount namespace of its own and then waits.
    fn elsewhere(&mut self, script: &str) -> String {
        use std::io::{BufRead, BufReader};
        let script = format!("set -e; {script}; cat >/dev/null");
        let words = ["-m", "--propagation", "private", "sh", "-c", &script];
        let piped = Command::new("unshare")
            .args(words)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn();
        let mut child = piped.expect("unshare is in util-linux");
        let mut line = String::new();
        let out = child.stdout.take().expect("it is piped");
        BufReader::new(out).read_line(&mut line).expect("it is readable");
        self.children.push(child);
        assert!(!line.is_empty(), "{script}");
        line.trim().to_owned()
    }

    /// Creates a file of zeros.
    fn image(folder: &Path, name: &str) -> PathBuf {
        let path = folder.join(name);
        File::create(&path).and_then(|file| file.set_len(IMAGE_BYTES)).expect("a sparse file");
        path
    }

    /// Creates a file of zeros without a name in any folder (`O_TMPFILE`, open(2)), and returns the
    /// path of its descriptor.
    fn nameless(&mut self, folder: &Path) -> PathBuf {
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        let file =
            File::from(rustix::fs::open(folder, flags, Mode::RUSR | Mode::WUSR).expect("a file"));
        file.set_len(IMAGE_BYTES).expect("a sparse file");
        let path = format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd());
        self.nameless.push(file);
        PathBuf::from(path)
    }

    /// Returns a loop device over `image`, reached by `way`.
    fn reach(&mut self, folder: &Path, image: &Path, way: &str, options: &str) -> PathBuf {
        let other = folder.join("other");
        let link = |to: &Path| fs::hard_link(image, to).expect("one filesystem");
        match way {
            "the same path" | "a file that has no name" => self.attach(options, image),
            "the first name of a file that had none" => {
                linkat(CWD, image, CWD, &other, AtFlags::SYMLINK_FOLLOW).expect("one filesystem");
                self.attach(options, &other)
            }
            "a hard link" => {
                link(&other);
                self.attach(options, &other)
            }
            "a symbolic link" => {
                symlink(image, &other).expect("a link");
                self.attach(options, &other)
            }
            "a bind mount of the file" => {
                File::create(&other).expect("a place");
                self.mount("--bind", image, &other);
                self.attach(options, &other)
            }
            "a bind mount of the folder" => {
                let at = folder.join("at");
                fs::create_dir(&at).expect("a folder");
                self.mount("--bind", &folder.join("upper"), &at);
                self.attach(options, &at.join("image"))
            }
            "a hard link after a rename" => {
                link(&other);
                fs::rename(&other, folder.join("again")).expect("renamed");
                self.attach(options, &folder.join("again"))
            }
            "a hard link whose first name is deleted" => {
                link(&other);
                let device = self.attach(options, &other);
                fs::remove_file(&other).expect("deleted");
                fs::rename(image, folder.join("moved")).expect("renamed");
                device
            }
            "a path of another mount namespace" => {
                let hidden = folder.join("hidden");
                fs::create_dir(&hidden).expect("a folder");
                let script = format!(
                    "mount --bind {} {hidden}; losetup -f --show {options} {hidden}/image",
                    text(&folder.join("upper")),
                    hidden = text(&hidden)
                );
                let device = self.elsewhere(&script);
                self.undo(&format!("losetup -d {device}"));
                PathBuf::from(device)
            }
            _ => {
                let [lower, work, merged] =
                    ["lower", "work", "merged"].map(|name| folder.join(name));
                for path in [&lower, &work, &merged] {
                    fs::create_dir(path).expect("a folder");
                }
                let upper = text(&folder.join("upper"));
                let layers =
                    format!("lowerdir={},upperdir={upper},workdir={}", text(&lower), text(&work));
                self.mount(&format!("-t overlay -o {layers}"), Path::new("overlay"), &merged);
                self.attach(options, &merged.join("image"))
            }
        }
    }

    /// Stores somebody's data in `image`, and returns a mounted file with it, if there is one.
    fn occupy(&mut self, folder: &Path, image: &Path, way: &str, data: &str) -> Option<PathBuf> {
        let part = format!("-o {DATA_AT} --sizelimit {DATA_BYTES}");
        let make = |device: &Path| run(&format!("mkfs.ext4 -q -F {}", text(device)));
        let device = match data {
            "a filesystem on all of it, mounted" => self.reach(folder, image, way, ""),
            "a filesystem on a loop device over a loop device, mounted" => {
                let below = self.reach(folder, image, way, "");
                self.attach(&part, &below)
            }
            "a filesystem on a partition, mounted" => {
                let whole = self.reach(folder, image, way, "");
                patiently(&format!(
                    "addpart {} 7 {} {}",
                    text(&whole),
                    DATA_AT / 512,
                    DATA_BYTES / 512
                ));
                self.undo(&format!("delpart {} 7", text(&whole)));
                PathBuf::from(format!("{}p7", whole.display()))
            }
            _ => self.reach(folder, image, way, &part),
        };
        if data == "swap" {
            run(&format!("mkswap -q {}", text(&device)));
            run(&format!("swapon {}", text(&device)));
            self.undo(&format!("swapoff {}", text(&device)));
            return None;
        }
        make(&device);
        let at = folder.join("mounted");
        fs::create_dir(&at).expect("a folder");
        let write = "head -c 6000000 /dev/urandom";
        let script = format!(
            "mount {device} {at}; {write} > {at}/data; sync; mount -o remount,ro {at}; echo",
            device = text(&device),
            at = text(&at)
        );
        match data {
            "a filesystem that nobody has mounted" => {
                run(&format!("mount {} {}", text(&device), text(&at)));
                fill(&at.join("data"));
                patiently(&format!("umount {}", text(&at)));
                None
            }
            "a filesystem mounted in another mount namespace" => {
                self.elsewhere(&format!("{script} made"));
                None
            }
            _ => {
                self.mount("", &device, &at);
                fill(&at.join("data"));
                // From here on only the candidate writes: not even the filesystem's own journal. A
                // program that another test starts has a copy of the open file until it runs.
                patiently(&format!("mount -o remount,ro {}", text(&at)));
                Some(at.join("data"))
            }
        }
    }

    /// Returns the device that linerate is asked to write to.
    fn candidate(&mut self, image: &Path, kind: &str) -> PathBuf {
        let device = self.attach("", image);
        match kind {
            "a loop device" => device,
            "a partition" => {
                // From 8 MiB to 30 MiB: the range around the data.
                patiently(&format!(
                    "addpart {} 2 {} {}",
                    text(&device),
                    DATA_AT / 512,
                    (22 * MIB) / 512
                ));
                self.undo(&format!("delpart {} 2", text(&device)));
                PathBuf::from(format!("{}p2", device.display()))
            }
            _ => self.attach("", &device),
        }
    }
}

/// Fills a file with unique bytes.
fn fill(path: &Path) {
    let mut state = 0x9E37_79B9_7F4A_7C15_u64 ^ u64::from(std::process::id());
    let words = std::iter::repeat_with(|| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state.to_le_bytes()
    });
    let bytes: Vec<u8> = words.take(750_000).flatten().collect();
    let file = File::create(path).expect("room");
    file.write_all_at(&bytes, 0).and_then(|()| file.sync_all()).expect("room");
}

/// Returns the digest of the first `bytes` of the data in `image`.
fn digest(image: &File, bytes: usize) -> Vec<u8> {
    use sha2::{Digest, Sha256};
    let mut bytes = vec![0; bytes];
    image.sync_all().expect("it can be");
    image.read_exact_at(&mut bytes, DATA_AT).expect("it is that long");
    Sha256::digest(&bytes).to_vec()
}

/// Claims and opens `device` as far as the gate allows, and overwrites all of it; `Err` with the
/// reasons if it is refused.
fn overwrite(device: &Path, is_claimed: bool) -> Result<(), String> {
    let serial = inspect(device)
        .map_err(|error| error.to_string())?
        .topology
        .serial
        .expect("its file stands for it");
    if !is_claimed {
        claim(device, &serial).map_err(|error| error.to_string())?;
    }
    let disks = Disks::new(Writable::Claimed);
    let target = disks
        .open(device, Permission::Write { consent: Some(&serial) })
        .map_err(|error| error.to_string())?;
    let file = target.open(true, false).expect("it may be written to");
    let junk = vec![0xAA; MIB as usize];
    let mut at = target.range().start;
    while at < target.range().end {
        let n = (target.range().end - at).min(MIB);
        file.write_all_at(&junk[..n as usize], at).expect("written");
        at += n;
    }
    file.sync_all().expect("written");
    Ok(())
}

/// Result of one topology.
struct Outcome {
    what: String,
    /// The fault, if there is one.
    fault: Option<String>,
    /// Time from the data's appearance to the end of the permission.
    revoked_after: Option<Duration>,
}

fn conflict(folder: &Path, dice: &mut Dice) -> Outcome {
    let (way, data) = (WAYS[dice.roll(WAYS.len())], DATA[dice.roll(DATA.len())]);
    let (kind, order) = (CANDIDATES[dice.roll(CANDIDATES.len())], ORDERS[dice.roll(ORDERS.len())]);
    let what = format!("{kind}; {data}, by {way}, {order}");
    let upper = folder.join("upper");
    fs::create_dir(&upper).expect("a folder");
    let mut ground = Ground::default();
    let image = if NAMELESS.contains(&way) {
        ground.nameless(&upper)
    } else {
        Ground::image(&upper, "image")
    };
    let held = File::open(&image).expect("just made");
    let device = ground.candidate(&image, kind);
    let mut is_claimed = false;
    let mut session = None;
    if order != "before the claim" {
        let serial =
            inspect(&device).expect("a device").topology.serial.expect("its file stands for it");
        if let Err(error) = claim(&device, &serial) {
            return Outcome {
                what,
                fault: Some(format!("a blank device is refused: {error}")),
                revoked_after: None,
            };
        }
        is_claimed = true;
        if order == "while it is held" {
            let disks = Disks::new(Writable::Claimed);
            let target = disks
                .open(&device, Permission::Write { consent: Some(&serial) })
                .expect("claimed and free");
            session = Some((disks, target));
        }
    }
    let file = ground.occupy(folder, &image, way, data);
    let appeared = Instant::now();
    let mut faults = Vec::new();
    let mut revoked_after = None;
    if let Some((_, target)) = &session {
        while !target.is_revoked() && appeared.elapsed() < PATIENCE {
            std::thread::sleep(Duration::from_millis(20));
        }
        revoked_after = target.is_revoked().then(|| appeared.elapsed());
        if revoked_after.is_none() {
            faults.push("the permission goes on".to_owned());
        }
    }
    // Dirty pages of the devices in between would change the image later.
    run("sync");
    let seen = file.as_ref().map(|file| digest_from(file, 0));
    // The kernel writes to swap at any time. Only the page of its header stays constant.
    let judged = if data == "swap" { 4096 } else { DATA_BYTES as usize };
    let before = digest(&held, judged);
    drop(session);
    if overwrite(&device, is_claimed).is_ok() {
        faults.push("it was written to".to_owned());
    }
    // Reads mounted data from the file below, not from the page cache.
    let _ = fs::write("/proc/sys/vm/drop_caches", "3");
    if digest(&held, judged) != before {
        faults.push("the image has changed".to_owned());
    }
    if file.map(|file| digest_from(&file, 0)) != seen {
        faults.push("the mounted file has changed".to_owned());
    }
    Outcome { what, fault: (!faults.is_empty()).then(|| faults.join(", ")), revoked_after }
}

fn harmless(folder: &Path, dice: &mut Dice) -> Outcome {
    let what = HARMLESS[dice.roll(HARMLESS.len())];
    let mut ground = Ground::default();
    let upper = folder.join("upper");
    fs::create_dir(&upper).expect("a folder");
    let mut image = Ground::image(&upper, "image");
    let mut kind = CANDIDATES[dice.roll(CANDIDATES.len())];
    let file = match what {
        "links and bind mounts that nobody uses" => {
            fs::hard_link(&image, folder.join("hard")).expect("one filesystem");
            symlink(&image, folder.join("soft")).expect("a link");
            let at = folder.join("at");
            fs::create_dir(&at).expect("a folder");
            ground.mount("--bind", &upper, &at);
            None
        }
        "another file's filesystem, mounted" => {
            let other = Ground::image(&upper, "second");
            ground.occupy(folder, &other, "the same path", DATA[0])
        }
        "another partition's filesystem, mounted" => {
            kind = "a partition";
            None
        }
        _ => {
            let room = folder.join("room");
            File::create(&room).and_then(|file| file.set_len(320 * MIB)).expect("a sparse file");
            run(&format!("mkfs.xfs -q -m reflink=1 {}", text(&room)));
            let at = folder.join("xfs");
            fs::create_dir(&at).expect("a folder");
            ground.mount("-o loop", &room, &at);
            image = Ground::image(&at, "image");
            run(&format!("cp --reflink=always {} {}", text(&image), text(&at.join("copy"))));
            ground.occupy(folder, &at.join("copy"), "the same path", DATA[0])
        }
    };
    let device = ground.candidate(&image, kind);
    let file = file.or_else(|| {
        (what == "another partition's filesystem, mounted").then(|| {
            let whole = PathBuf::from(text(&device).trim_end_matches("p2"));
            patiently(&format!("addpart {} 1 2048 {}", text(&whole), (6 * MIB) / 512));
            ground.undo(&format!("delpart {} 1", text(&whole)));
            let part = PathBuf::from(format!("{}p1", whole.display()));
            run(&format!("mkfs.ext4 -q -F {}", text(&part)));
            let at = folder.join("mounted");
            fs::create_dir(&at).expect("a folder");
            ground.mount("", &part, &at);
            fs::write(at.join("data"), vec![7; 100_000]).expect("room");
            at.join("data")
        })
    });
    run("sync");
    let before = file.as_ref().map(|file| digest_from(file, 0));
    let fault = overwrite(&device, false).err().map(|why| format!("refused: {why}"));
    let _ = fs::write("/proc/sys/vm/drop_caches", "3");
    let is_changed = file.map(|file| digest_from(&file, 0)) != before;
    let fault = if is_changed { Some("the data has changed".to_owned()) } else { fault };
    Outcome { what: format!("{kind}; {what}"), fault, revoked_after: None }
}

fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

#[test]
fn no_topology_leads_around_the_gate() {
    let ground = tempfile::tempdir().expect("a folder");
    let probe = Ground::image(ground.path(), "probe");
    let Some(device) = common::attach("", &probe) else { return };
    drop(device);
    for tool in ["mkfs.ext4", "addpart", "mkswap", "unshare", "mkfs.xfs"] {
        if Command::new("which")
            .arg(tool)
            .stdout(Stdio::null())
            .status()
            .is_ok_and(|found| !found.success())
        {
            return skip(format_args!("there is no {tool}")).unwrap_or_default();
        }
    }
    let (n, seed) = (number("LINERATE_TOPOLOGIES", 20), number("LINERATE_SEED", 1));
    let mut faults = Vec::new();
    let mut latest = Duration::ZERO;
    let mut n_harmless = 0;
    let mut n_nameless = 0;
    for turn in 0..n {
        let mut dice = Dice((seed << 32 | turn).wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        dice.roll(2);
        let alone = common::turns();
        alone.lock().expect("the file can be locked");
        let folder = tempfile::tempdir_in(ground.path()).expect("a folder");
        // Every fifth topology must be accepted.
        let is_harmless = turn % 5 == 4;
        n_harmless += u64::from(is_harmless);
        let outcome = if is_harmless {
            harmless(folder.path(), &mut dice)
        } else {
            conflict(folder.path(), &mut dice)
        };
        latest = latest.max(outcome.revoked_after.unwrap_or_default());
        n_nameless += u64::from(NAMELESS.iter().any(|way| outcome.what.contains(way)));
        println!(
            "{turn}: {}: {}",
            outcome.what,
            outcome.fault.as_deref().unwrap_or("as it should be")
        );
        faults.extend(outcome.fault.map(|fault| format!("{turn}: {}: {fault}", outcome.what)));
    }
    println!(
        "{n} topologies, {n_harmless} of them harmless, {n_nameless} with an image made without a \
            name: {} faults; longest until revoked {latest:?}",
        faults.len()
    );
    assert!(faults.is_empty(), "{faults:#?}");
}
