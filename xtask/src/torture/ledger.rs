//! The ledger: kills at creation, concurrent resumes, flipped bits, hostile files.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use serde_json::Value;

mod mutated;

use super::Bench;
use mutated::mutated;

/// Four short trials.
const PLAN: &str = "[campaign]\nname = \"torture\"\nrepeats = 4\n[[sweep]]\nname = \"s\"\nduration \
    = \"100 ms\"\nwarmup = \"20 ms\"\n\
    drain = \"0 s\"\nrest = \"0 s\"\n[[sweep.job]]\nworkload = \"null\"\nfrom = \"a\"\nto \
    = \"b\"\n";
/// Trials of the plan.
const N_TRIALS: usize = 4;
/// Processes that resume one ledger at once.
const AT_ONCE: u32 = 4;
/// Campaigns that are killed and resumed at once.
const KILLED_AT_ONCE: u32 = 8;
/// The latest moment of a kill: beside others a campaign of the plan takes longer than this.
const LATEST_KILL_MS: u64 = 1_200;
/// Limits for reading a hostile file of at most 1 MB.
const MOST_TIME: Duration = Duration::from_secs(5);
const MOST_MEMORY_KIB: u64 = 256 << 10;
/// A process that has not ended after it hangs.
const PATIENCE: Duration = Duration::from_secs(60);

/// Runs every requested part.
pub(super) fn run(bench: &Bench) -> anyhow::Result<bool> {
    let ground = Ground { bench, folder: scratch()? };
    let mut held = true;
    for (part, run) in PARTS {
        if bench.wants(part) {
            held &= run(&ground).with_context(|| part.to_owned())?;
        }
    }
    // Removed only if all went well: what is left shows a fault.
    fs::remove_dir_all(&ground.folder)?;
    Ok(held)
}

/// One promise, by name.
type Part = (&'static str, fn(&Ground<'_>) -> anyhow::Result<bool>);

const PARTS: [Part; 6] = [
    ("creation", creation),
    ("kills", kills),
    ("resumes", resumes),
    ("flips", flips),
    ("hostile", hostile),
    ("mutated", mutated),
];

struct Ground<'a> {
    bench: &'a Bench,
    folder: PathBuf,
}

impl Ground<'_> {
    /// A new folder with the plan in it.
    fn room(&self, name: &str) -> anyhow::Result<PathBuf> {
        let room = self.folder.join(name);
        fs::create_dir_all(&room)?;
        fs::write(room.join("plan.toml"), PLAN)?;
        Ok(room)
    }

    fn linerate(&self, room: &Path, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.bench.linerate);
        command
            .current_dir(room)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// A complete ledger.
    fn recorded(&self, room: &Path) -> anyhow::Result<PathBuf> {
        let output = self.linerate(room, &RUN).output()?;
        // linerate fails if a trial was spoilt on a busy machine; the ledger counts.
        ensure!(room.join("t.ledger").exists(), "no ledger: {}", text(&output.stderr));
        Ok(room.join("t.ledger"))
    }

    fn example(&self, name: &str, arguments: &[&str]) -> anyhow::Result<Output> {
        let output = Command::new(self.bench.example(name))
            .args(arguments)
            .output()
            .with_context(|| name.to_owned())?;
        ensure!(output.status.success(), "{name}: {}", text(&output.stderr));
        Ok(output)
    }
}

const RUN: [&str; 6] = ["run", "plan.toml", "--ledger", "t.ledger", "--out", "report"];

/// A process that makes ledgers is killed at any point: what is there is whole.
fn creation(ground: &Ground<'_>) -> anyhow::Result<bool> {
    let n_kills = ground.bench.count(20, 5_000);
    let room = ground.room("creation")?;
    let [mut n_made, mut n_dead_ends, mut n_left] = [0_u64; 3];
    for kill in 0..n_kills {
        let mut child = Command::new(ground.bench.example("create_forever")).arg(&room).spawn()?;
        let started = Instant::now();
        // The kill must not come before the first ledger.
        while !room.join("0.ledger").exists() {
            ensure!(started.elapsed() < PATIENCE, "create_forever makes no ledger");
            std::thread::sleep(Duration::from_micros(100));
        }
        // Somewhere in one of the next ledgers: a prime spreads the kills over all of creation.
        std::thread::sleep(Duration::from_micros(u64::from(kill) * 7_919 % 4_000));
        child.kill()?;
        child.wait()?;
        for found in fs::read_dir(&room)? {
            let path = found?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if name.ends_with(".ledger") {
                n_made += 1;
                // The last one may be cut off; those before it are many, and alike.
                if !room.join(next_of(&name)).exists() && !opens(ground, &room, &name)? {
                    println!("creation: a dead end: {name} after kill {kill}");
                    n_dead_ends += 1;
                }
            } else if name.ends_with(".tmp") {
                n_left += 1;
            }
        }
        // Empty for the next kill, so that names begin at zero again.
        for found in fs::read_dir(&room)? {
            fs::remove_file(found?.path())?;
        }
    }
    println!(
        "creation: {n_kills} kills, {n_made} ledgers made, {n_dead_ends} dead ends, {n_left} \
            temporary files left"
    );
    Ok(n_dead_ends == 0)
}

/// The ledger made after this one.
fn next_of(name: &str) -> String {
    let number: u64 = name.trim_end_matches(".ledger").parse().unwrap_or(0);
    // Names count up, so the next one exists if this one was finished.
    format!("{}.ledger", number + 1)
}

/// Returns true if a ledger opens and has a campaign in it.
fn opens(ground: &Ground<'_>, room: &Path, name: &str) -> anyhow::Result<bool> {
    let output = ground.linerate(room, &["ledger", "check", name, "--json"]).output()?;
    let health: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    // A ledger without a campaign is a dead end: nothing can resume it.
    Ok(output.status.success()
        && health["campaigns"].as_array().is_some_and(|list| list.len() == 1))
}

/// `linerate run` is killed at any point of its life: `--resume` completes it, each trial once.
/// Most of a campaign is waiting, so that several share the machine.
fn kills(ground: &Ground<'_>) -> anyhow::Result<bool> {
    let n_kills = ground.bench.count(2, 200);
    let next = AtomicU32::new(0);
    // Scoped, so that threads can borrow the ground.
    let killed = std::thread::scope(|scope| {
        let run = || kill_in_turn(ground, &next, n_kills);
        let threads: Vec<_> = (0..KILLED_AT_ONCE).map(|_| scope.spawn(run)).collect();
        let ended = threads
            .into_iter()
            // A panic in a thread is a fault of this program, and must not count as a result.
            .map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        ended.collect::<anyhow::Result<Vec<Killed>>>()
    })?;
    let total = |count: fn(&Killed) -> u32| killed.iter().map(count).sum::<u32>();
    let n_dead_ends = total(|killed| killed.dead_ends);
    println!(
        "kills: {n_kills} kills of `linerate run`, {} before there was a ledger, {} before the \
            first trial had ended, {} in the middle, {} after the last: {n_dead_ends} with a \
            doubled or lost trial",
        total(|killed| killed.without_ledger),
        total(|killed| killed.without_trial),
        total(|killed| killed.between),
        total(|killed| killed.complete),
    );
    Ok(n_dead_ends == 0)
}

/// Kills runs until all are done, and counts what was left of them.
fn kill_in_turn(ground: &Ground<'_>, next: &AtomicU32, n_kills: u32) -> anyhow::Result<Killed> {
    let mut killed = Killed::default();
    loop {
        let kill = next.fetch_add(1, Ordering::Relaxed);
        if kill >= n_kills {
            return Ok(killed);
        }
        kill_one(ground, kill, &mut killed).with_context(|| format!("kill {kill}"))?;
    }
}

/// When campaigns were killed, and what became of them.
#[derive(Default)]
struct Killed {
    without_ledger: u32,
    without_trial: u32,
    between: u32,
    complete: u32,
    dead_ends: u32,
}

/// Kills one campaign and resumes it.
fn kill_one(ground: &Ground<'_>, kill: u32, killed: &mut Killed) -> anyhow::Result<()> {
    let room = ground.room(&format!("kill-{kill}"))?;
    let ledger = room.join("t.ledger");
    let mut child =
        ground.linerate(&room, &RUN).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
    // A prime spreads the kills over the whole life of a campaign.
    std::thread::sleep(Duration::from_millis(u64::from(kill) * 7_919 % LATEST_KILL_MS));
    child.kill()?;
    child.wait()?;
    // Killed before the first ledger had its name: `--resume` starts anew.
    if !ledger.exists() {
        killed.without_ledger += 1;
    } else {
        // A look by another program may take in the log of what was killed: it looks at a copy.
        let copy = room.join("copy");
        fs::create_dir(&copy)?;
        for file in ["t.ledger", "t.ledger-wal"].iter().filter(|file| room.join(file).exists()) {
            fs::copy(room.join(file), copy.join(file))?;
        }
        match completions(&copy.join("t.ledger"))?.len() {
            0 => killed.without_trial += 1,
            N_TRIALS => killed.complete += 1,
            _ => killed.between += 1,
        }
    }
    let resumed = ground.linerate(&room, &[&RUN[..], &["--resume"]].concat()).output()?;
    let times = completions(&ledger)?;
    // Each trial must be completed exactly once.
    if times != [1; N_TRIALS] {
        println!("kills: a dead end after kill {kill}: {times:?} {}", text(&resumed.stderr));
        killed.dead_ends += 1;
    }
    fs::remove_dir_all(&room)?;
    Ok(())
}

/// Many start or resume one campaign at once: each trial is run once, and those that do not run it
/// say who does.
fn resumes(ground: &Ground<'_>) -> anyhow::Result<bool> {
    let n_rounds = ground.bench.count(1, 50);
    let [mut n_refused, mut n_done, mut n_doubled] = [0_u32; 3];
    for round in 0..n_rounds {
        let room = ground.room(&format!("resume-{round}"))?;
        let arguments = [&RUN[..], &["--resume"]].concat();
        // Half of the rounds begin with a killed campaign, half with none.
        if round % 2 == 1 {
            // The kill falls into the first trials.
            let mut child = ground.linerate(&room, &RUN).spawn()?;
            std::thread::sleep(Duration::from_millis(300));
            child.kill()?;
            child.wait()?;
        }
        let children: Vec<Child> = (0..AT_ONCE)
            .map(|_| ground.linerate(&room, &arguments).spawn())
            .collect::<Result<_, _>>()?;
        for child in children {
            let output = child.wait_with_output()?;
            let said = text(&output.stderr);
            if said.contains("is being recorded by process") {
                n_refused += 1;
            } else if said.contains("ledger")
                && !output.status.success()
                && output.status.code() != Some(3)
            {
                bail!("round {round}: {:?} {said}", output.status);
            } else {
                n_done += 1;
            }
        }
        ground.linerate(&room, &arguments).output()?;
        let times = completions(&room.join("t.ledger"))?;
        if times != [1; N_TRIALS] {
            println!("resumes: round {round}: trials completed {times:?} times");
            n_doubled += 1;
        }
        fs::remove_dir_all(&room)?;
    }
    let n_resumes = n_rounds * AT_ONCE;
    println!(
        "resumes: {n_resumes} at once in {n_rounds} rounds, {n_done} ran, {n_refused} were told \
            who does, {n_doubled} rounds with a doubled or missing trial"
    );
    Ok(n_doubled == 0)
}

/// How often each trial was completed, as Debian's `sqlite3` reads it.
fn completions(ledger: &Path) -> anyhow::Result<Vec<u64>> {
    let sql = "SELECT count(*) FROM record WHERE kind = 'trial_ended' AND instr(body, \
        CAST('completed' AS BLOB)) GROUP BY campaign, trial";
    let output = Command::new("sqlite3")
        .arg(ledger)
        .arg(sql)
        .output()
        .context("sqlite3 (apt-get install sqlite3)")?;
    Ok(text(&output.stdout).lines().filter_map(|line| line.parse().ok()).collect())
}

/// One bit of a ledger is flipped: nothing changes without a word.
fn flips(ground: &Ground<'_>) -> anyhow::Result<bool> {
    let n_flips = ground.bench.count(100, 10_000).to_string();
    let room = ground.room("flips")?;
    let ledger = ground.recorded(&room)?;
    let ledger = ledger.to_string_lossy();
    let mut held = true;
    for (state, extra) in [("closed", &[][..]), ("killed", &["unsealed"][..])] {
        let output =
            ground.example("flip_bits", &[&[&*ledger, &n_flips, "1"][..], extra].concat())?;
        let counts: Value = serde_json::from_slice(&output.stdout)?;
        let count = |name: &str| counts[name].as_u64().unwrap_or(u64::MAX);
        println!(
            "flips: {} in a {state} ledger of {} bytes: {} refused, {} reported, {} changed \
                nothing, {} silent changes",
            count("flips"),
            count("bytes"),
            count("refused"),
            count("reported"),
            count("same"),
            count("silent")
        );
        // In the free space of a ledger that was not closed a flip is nobody's.
        held &= count("silent") == 0 && (state == "killed" || count("same") == 0);
    }
    Ok(held)
}

/// Every hostile file of at most 1 MB is read or refused, in little time and memory.
fn hostile(ground: &Ground<'_>) -> anyhow::Result<bool> {
    let room = ground.room("hostile")?;
    let ledger = ground.recorded(&room)?;
    let files = room.join("files");
    fs::create_dir_all(&files)?;
    ground.example("hostile_ledgers", &[&ledger.to_string_lossy(), &files.to_string_lossy()])?;
    Command::new("mkfifo").arg(files.join("pipe.ledger")).status()?;
    std::os::unix::fs::symlink("/dev/zero", files.join("zero.ledger"))?;
    fs::create_dir(files.join("folder.ledger"))?;
    fs::write(files.join("empty.ledger"), "")?;
    fs::write(files.join("text.ledger"), "no ledger ".repeat(99_999))?;
    let mut names: Vec<PathBuf> =
        fs::read_dir(&files)?.map(|found| found.map(|f| f.path())).collect::<Result<_, _>>()?;
    names.sort();
    if ground.bench.quick {
        // Every tenth, and those that were worst.
        fn is_worst(path: &Path) -> bool {
            ["bomb-samples", "many-intervals", "endless-view-record", "pipe"]
                .iter()
                .any(|name| path.ends_with(format!("{name}.ledger")))
        }
        names = names
            .iter()
            .enumerate()
            .filter(|(index, path)| index % 10 == 0 || is_worst(path))
            .map(|(_, path)| path.clone())
            .collect();
    }
    let [mut n_read, mut n_refused, mut n_broken] = [0_u32; 3];
    let (mut longest, mut largest) = ((Duration::ZERO, String::new()), (0, String::new()));
    for path in &names {
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let size = fs::symlink_metadata(path)?.len();
        ensure!(size <= 1_000_000 || name == "unchanged", "{name} has {size} bytes");
        let measured = measured(ground, &room, path)?;
        let is_answer = measured.code.is_some_and(|code| code < 5);
        n_read += u32::from(
            measured.code == Some(0) || measured.code == Some(1) || measured.code == Some(3),
        );
        n_refused += u32::from(measured.code == Some(4) || measured.code == Some(2));
        // The quick form runs beside other tests: it says nothing of time.
        let is_slow = measured.time > MOST_TIME && !ground.bench.quick;
        if !is_answer || is_slow || measured.peak_kib > MOST_MEMORY_KIB {
            println!(
                "hostile: {name} ({size} bytes): exit {:?}, {:.1} s, {} KiB: {}",
                measured.code,
                measured.time.as_secs_f64(),
                measured.peak_kib,
                measured.last
            );
            n_broken += 1;
        }
        longest = longest.max((measured.time, name.clone()));
        largest = largest.max((measured.peak_kib, name));
    }
    println!(
        "hostile: {} files: {n_read} read, {n_refused} refused, {n_broken} beyond 5 s, 256 MiB or \
            without an answer; longest {:.2} s ({}), largest {} KiB ({})",
        names.len(),
        longest.0.as_secs_f64(),
        longest.1,
        largest.0,
        largest.1
    );
    Ok(n_broken == 0)
}

/// Time and memory for reading a file.
struct Measured {
    code: Option<i32>,
    time: Duration,
    /// Of all CPUs, in user space and in the kernel: the same beside other programs.
    cpu: Duration,
    peak_kib: u64,
    last: String,
}

/// Runs `linerate report` on `path` under GNU time.
fn measured(ground: &Ground<'_>, room: &Path, path: &Path) -> anyhow::Result<Measured> {
    let started = Instant::now();
    // GNU time measures the child from outside, also if it is killed.
    let mut child = Command::new("/usr/bin/time")
        .args(["--quiet", "-f", "peak %M %U %S"])
        .arg(&ground.bench.linerate)
        .arg("report")
        .arg(path)
        .args(["--out", "hostile-report", "--format", "html,md,json,csv"])
        .current_dir(room)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(fs::File::create(room.join("said"))?)
        .spawn()
        .context("/usr/bin/time (apt-get install time)")?;
    let status = loop {
        match child.try_wait()? {
            Some(status) => break Some(status),
            // One that hangs is an outcome to count, not a reason to stop.
            None if started.elapsed() > PATIENCE => {
                child.kill()?;
                child.wait()?;
                break None;
            }
            None => std::thread::sleep(Duration::from_millis(5)),
        }
    };
    let time = started.elapsed();
    let said = fs::read(room.join("said"))?;
    let said = text(&said);
    let figures = said.lines().rev().find_map(|line| {
        let words: Vec<f64> =
            line.strip_prefix("peak ")?.split(' ').map_while(|word| word.parse().ok()).collect();
        <[f64; 3]>::try_from(words).ok()
    });
    let last = said.lines().rfind(|line| !line.starts_with("peak ")).unwrap_or_default().to_owned();
    let code = status.and_then(|status| status.code());
    // One that hung has no figures, and is counted as having no answer.
    let [peak_kib, user_s, system_s] = figures.unwrap_or([f64::INFINITY, 0.0, 0.0]);
    let cpu = Duration::from_secs_f64(user_s + system_s);
    Ok(Measured { code, time, cpu, peak_kib: peak_kib as u64, last })
}

fn scratch() -> anyhow::Result<PathBuf> {
    let folder = std::env::temp_dir().join(format!("linerate-torture-{}", std::process::id()));
    fs::create_dir(&folder)?;
    Ok(folder)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
