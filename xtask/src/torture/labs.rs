//! Labs whose maker ends at a random moment by SIGKILL, SIGHUP or SIGQUIT, also as the first
//! process of a PID namespace: what is left of it 2 s after its end.
//!
//! Looked for: processes (by a mark in their environment), names of network namespaces, control
//! groups, mounts that any process sees, and the settings of this host that labs and agents may
//! change. What nobody names and no process is in, the kernel has removed. Several are killed at a
//! time, so that the machine is busy.
//!
//! The rule for lateness: the 2 s are those of a machine that is not busy. A yardstick runs beside
//! the cases, at the same priority: turns of what a supervisor does (a shell, `ip`, `flock`, a
//! sleep of 50 ms). A case is late if more turns pass until nothing is left than 2 s hold of the
//! shortest turn seen. What is left at last is a fault, whatever the clock. Both times are printed.
//!
//! A case is made from its number alone: `cargo xtask torture labs 400..1000` goes on where another
//! run was stopped.

use std::collections::BTreeMap;
use std::fs;
use std::ops::Range;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context;

use super::Bench;
use crate::tools::is_root;
use KillPlace::{FirstOfNamespace, Here, InNamespace};

/// How many at a time.
const AT_ONCE: u64 = 4;
/// Anything left after this time is a fault. The quick form is part of the tests, so nothing in it
/// depends on speed.
const LIMIT: Duration = Duration::from_secs(2);
const QUICK_LIMIT: Duration = Duration::from_secs(60);
/// A signal that is heeded ends a campaign within this.
const PATIENCE: Duration = Duration::from_secs(60);
/// The latest moment: a campaign of these labs has ended by then if the machine is idle.
const LATEST_MS: u64 = 3000;
/// The environment variable that marks everything that belongs to a victim.
const MARK: &str = "LINERATE_TORTURE";
/// Time between two looks at what is left.
const PAUSE: Duration = Duration::from_millis(50);
/// One round of a supervisor.
const TURN: &str = "ip netns list 2>&1; flock -n / true; sleep 0.05";
/// Turns before the first case.
const FIRST_TURNS: u32 = 20;
/// Settings of a host that no namespace has of its own.
const SETTINGS: [&str; 4] = [
    "net/ipv4/tcp_rmem",
    "net/ipv4/tcp_wmem",
    "net/ipv4/tcp_congestion_control",
    "net/ipv4/ip_forward",
];

const PLAN: &str = "[campaign]\nname = \"k\"\nrepeats = 3\n[[sweep]]\nname = \"s\"\nduration \
    = \"150 ms\"\nwarmup = \"50 ms\"\n\
    drain = \"50 ms\"\nrest = \"0 s\"\n[[sweep.job]]\nworkload = \"tcp_stream\"\nfrom = \"a\"\nto \
    = \"b\"\n\
    params = { pacing_rate = \"20 Mbit/s\" }\n";

/// With everything that a lab makes: a control group, and a link that a process carries.
const LAB: &str = "[lab]\nname = \"NAME\"\n[[host]]\nname = \"a\"\ncpu = \"50 %\"\n[[host]]\nname \
    = \"b\"\n\
    [[link]]\nends = [\"a\", \"b\"]\ndelay = \"1 ms\"\n";

/// Where linerate runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum KillPlace {
    Here,
    InNamespace,
    FirstOfNamespace,
}

/// One way to end.
#[derive(Clone, Copy, Debug)]
struct Case {
    number: u64,
    signal: &'static str,
    is_standing: bool,
    place: KillPlace,
    after: Duration,
    /// By when nothing may be left.
    limit: Duration,
}

impl Case {
    /// From a number that says all of it (splitmix64, Steele 2014).
    fn new(number: u64, limit: Duration) -> Self {
        // Consecutive numbers must give unrelated cases, so all bits are mixed.
        let mut state = number.wrapping_add(0x9E37_79B9_7F4A_7C15);
        state = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        state = (state ^ (state >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        state ^= state >> 31;
        Self {
            number,
            signal: ["KILL", "HUP", "QUIT"][(state % 3) as usize],
            // Each decision takes bits of its own.
            is_standing: state >> 8 & 3 == 0,
            place: [Here, Here, InNamespace, FirstOfNamespace][(state >> 16 & 3) as usize],
            after: Duration::from_millis((state >> 24) % LATEST_MS),
            limit,
        }
    }
}

/// How many, and in the quick form.
const KILLS: u32 = 1000;
const FEW_KILLS: u32 = 6;

/// Kills them; prints the faults.
pub(super) fn run(bench: &Bench) -> anyhow::Result<bool> {
    if !is_root() {
        println!("skipped: torture labs: needs root to build namespaces");
        return Ok(true);
    }
    let program = &bench.linerate;
    let cases = cases(bench)?;
    let limit = if bench.quick { QUICK_LIMIT } else { LIMIT };
    // Read before the first lab: afterwards nothing may differ.
    let before = settings();
    let next = AtomicU64::new(cases.start);
    let outcome = Mutex::new(Outcome::default());
    let yardstick = Yardstick::new()?;
    std::thread::scope(|scope| {
        scope.spawn(|| yardstick.until_over());
        let take = || Some(next.fetch_add(1, Ordering::Relaxed)).filter(|n| *n < cases.end);
        let case = |number| Case::new(number, limit);
        let kill = |case| kill_and_count(program, case, &yardstick, &outcome);
        let work = move || std::iter::from_fn(take).map(case).for_each(kill);
        let workers: Vec<_> = (0..AT_ONCE).map(|_| scope.spawn(work)).collect();
        let panicked = workers.into_iter().filter_map(|worker| worker.join().err()).next();
        // The yardstick would run for ever otherwise, also after a panic.
        yardstick.is_over.store(true, Ordering::Relaxed);
        if let Some(panic) = panicked {
            std::panic::resume_unwind(panic);
        }
    });
    let mut outcome = outcome.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    if settings() != before {
        println!("settings of this host have changed: {before:?} to {:?}", settings());
        outcome.faults += 1;
    }
    println!(
        "control groups left by PID namespaces that ended, until the next lab: {}",
        groups_of_namespaces()
    );
    // What only the next lab can remove is removed now, and must be gone then.
    Command::new(program)
        .args(["lab", "reap"])
        .stdout(Stdio::null())
        .status()
        .context("run linerate lab reap")?;
    if groups_of_namespaces() > 0 {
        println!("{} of them stay after `linerate lab reap`", groups_of_namespaces());
        outcome.faults += 1;
    }
    let turn_ms = yardstick.shortest_us.into_inner() as f64 / 1e3;
    println!(
        "kills {} to {}: {outcome}; {} turns of the yardstick, the shortest {turn_ms:.1} ms",
        cases.start,
        cases.end,
        yardstick.turns.into_inner()
    );
    Ok(outcome.faults == 0)
}

fn kill_and_count(program: &Path, case: Case, yardstick: &Yardstick, outcome: &Mutex<Outcome>) {
    let ended = kill_one(program, case, yardstick);
    // The counts of a worker that panicked stay in the summary.
    outcome.lock().unwrap_or_else(std::sync::PoisonError::into_inner).count(case, ended);
}

/// Returns the numbers of the cases: `FROM..TO` if it is given.
fn cases(bench: &Bench) -> anyhow::Result<Range<u64>> {
    let Some(text) = bench.parts.first() else {
        return Ok(0..u64::from(bench.count(FEW_KILLS, KILLS)));
    };
    let (from, to) = text
        .split_once("..")
        .with_context(|| format!("`{text}` is no range of cases, as 400..1000 is"))?;
    Ok(from.parse()?..to.parse()?)
}

/// Outcomes of the cases so far.
#[derive(Default)]
struct Outcome {
    /// By signal and place.
    kills: BTreeMap<String, u64>,
    faults: u64,
    /// Nothing was left, but later than the limit by the wall clock.
    late_by_the_wall_clock: u64,
    longest: Cleaned,
}

/// How long it took until nothing was left.
#[derive(Clone, Copy, Default)]
struct Cleaned {
    /// By the wall clock.
    took: Duration,
    /// As by the yardstick it would have been on a machine that is not busy.
    own: Duration,
}

impl Outcome {
    fn count(&mut self, case: Case, ended: anyhow::Result<Cleaned>) {
        *self.kills.entry(case.signal.to_owned()).or_default() += 1;
        *self.kills.entry(format!("{:?}", case.place)).or_default() += 1;
        match ended {
            Ok(cleaned) => {
                self.late_by_the_wall_clock += u64::from(cleaned.took > case.limit);
                self.longest.took = self.longest.took.max(cleaned.took);
                self.longest.own = self.longest.own.max(cleaned.own);
            }
            Err(error) => {
                println!("{case:?}: {error:#}");
                self.faults += 1;
            }
        }
    }
}

impl std::fmt::Display for Outcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let kills: Vec<String> = self.kills.iter().map(|(what, n)| format!("{what} {n}")).collect();
        let Self { faults, late_by_the_wall_clock: late, longest, .. } = self;
        let (took, own) = (longest.took.as_millis(), longest.own.as_millis());
        write!(
            f,
            "{}; {faults} faults; {late} late by the wall clock only; until nothing was left at \
                most {own} ms by the yardstick, {took} ms by the wall clock",
            kills.join(", ")
        )
    }
}

fn settings() -> Vec<String> {
    SETTINGS
        .iter()
        .map(|name| fs::read_to_string(Path::new("/proc/sys").join(name)).unwrap_or_default())
        .collect()
}

/// How long it took after the end until nothing was left.
fn kill_one(program: &Path, case: Case, yardstick: &Yardstick) -> anyhow::Result<Cleaned> {
    // Process and number together are unique on this machine.
    let name = format!("t{}x{}", std::process::id(), case.number);
    let folder = std::env::temp_dir().join(format!("linerate-torture-{name}"));
    fs::create_dir(&folder).with_context(|| format!("make {}", folder.display()))?;
    let outcome = kill_in(&folder, &name, program, case, yardstick);
    fs::remove_dir_all(&folder).with_context(|| format!("remove {}", folder.display()))?;
    outcome
}

fn kill_in(
    folder: &Path,
    name: &str,
    program: &Path,
    case: Case,
    yardstick: &Yardstick,
) -> anyhow::Result<Cleaned> {
    let mark = format!("{MARK}={name}");
    fs::write(folder.join("k.toml"), PLAN)?;
    fs::write(folder.join("lab.toml"), LAB.replace("NAME", name))?;
    let mut words: Vec<&str> = match case.place {
        Here => Vec::new(),
        FirstOfNamespace => vec!["unshare", "-p", "-f", "--kill-child", "--"],
        // Its first process outlives linerate, as that of a container does.
        InNamespace => {
            vec![
                "unshare",
                "-p",
                "-f",
                "--kill-child",
                "--",
                "sh",
                "-c",
                "env --default-signal=HUP,QUIT \"$@\" & wait; sleep 20",
                "sh",
            ]
        }
    };
    if case.place != InNamespace {
        // Behind `nohup`, or in the background, a signal is ignored, and children inherit that.
        words.extend(["env", "--default-signal=HUP,QUIT"]);
    }
    words.extend([mark.as_str(), program.to_str().context("its path is text")?]);
    if case.is_standing {
        words.extend(["lab", "up", "lab.toml"]);
    } else {
        words.extend(["run", "k.toml", "--lab", "lab.toml", "--ledger", "k.ledger", "--out", "r"]);
    }
    let mut started = Command::new(words[0])
        .args(&words[1..])
        .current_dir(folder)
        // A signal to the group must reach linerate and nothing of this program.
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(fs::File::create(folder.join("said"))?)
        .spawn()
        .context("start linerate")?;
    std::thread::sleep(case.after);
    let find = || victim_of(case.place, started.id());
    // On a busy machine it may not have been started yet: a case without a victim would wait for a
    // whole campaign.
    let mut target = find();
    while target.is_none() && has_memory(started.id()) {
        std::thread::sleep(Duration::from_millis(5));
        target = find();
    }
    let victim = Victim { name, mark: &mark, own: target.and_then(instance), place: case.place };
    let outcome = end(target.unwrap_or(0), case, &mut started)
        .and_then(|()| until_clean(&victim, case, yardstick));
    // Whatever is left of the case must not disturb the next one.
    let _ended = started.kill();
    started.wait().context("wait for what was started")?;
    outcome
}

fn victim_of(place: KillPlace, started: u32) -> Option<u32> {
    match place {
        Here => Some(started),
        FirstOfNamespace => child_of(started),
        InNamespace => child_of(started).and_then(child_of),
    }
}

/// Kills `target` and waits until it is dead.
fn end(target: u32, case: Case, started: &mut Child) -> anyhow::Result<()> {
    let kill = |signal: &str| kill(target, signal);
    if target == 0 || !is_alive(started, target) {
        return Ok(());
    }
    kill(case.signal)?;
    let began = Instant::now();
    while is_alive(started, target) {
        // The first process of a PID namespace dies of no signal that it does not heed yet: a
        // campaign then ends by itself.
        if case.place == FirstOfNamespace && case.is_standing && began.elapsed() > case.limit {
            kill("KILL")?;
        }
        if began.elapsed() > PATIENCE {
            kill("KILL")?;
            anyhow::bail!("it did not end within {PATIENCE:?}");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

fn has_memory(pid: u32) -> bool {
    // A dead process that nobody has waited for still has a number, but no pages.
    fs::read_to_string(format!("/proc/{pid}/statm")).is_ok_and(|text| !text.starts_with("0 "))
}

fn kill(target: u32, signal: &str) -> std::io::Result<std::process::ExitStatus> {
    Command::new("kill")
        .args([&format!("-{signal}"), &target.to_string()])
        .stderr(Stdio::null())
        .status()
}

/// Returns whether the victim is alive.
fn is_alive(started: &mut Child, target: u32) -> bool {
    let _reaped = started.try_wait();
    has_memory(target)
}

/// A process that `parent` has started.
fn child_of(parent: u32) -> Option<u32> {
    // `/proc` has no list of children without a kernel option.
    let all = fs::read_dir("/proc").ok()?.flatten();
    let mut pids = all.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.find(|pid| parent_of(*pid) == Some(parent))
}

fn parent_of(pid: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The parent is the second field behind the name, which may contain brackets.
    stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse().ok()
}

/// A killed process, and the names of its resources.
struct Victim<'a> {
    /// That of its lab, where it has one.
    name: &'a str,
    /// In the environment of its processes.
    mark: &'a str,
    /// With what names of the labs of its process begin.
    own: Option<String>,
    place: KillPlace,
}

/// With what names of the labs of process `pid` begin: its number in its PID namespace, and when it
/// started.
fn instance(pid: u32) -> Option<String> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:"))?;
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // Field 22, of which the first two end with the bracket (proc_pid_stat(5)).
    let start = stat.rsplit_once(") ")?.1.split(' ').nth(19)?;
    Some(format!("lr-{}.{start}", numbers.split_whitespace().last()?))
}

fn until_clean(victim: &Victim<'_>, case: Case, yardstick: &Yardstick) -> anyhow::Result<Cleaned> {
    let (began, before) = (Instant::now(), yardstick.passed());
    loop {
        let left = left_over(victim, &marked(victim.mark));
        let took = began.elapsed();
        let own = yardstick.quiet(before, took);
        if left.is_empty() {
            anyhow::ensure!(
                own <= case.limit,
                "it took {own:?} ({took:?} by the wall clock) until nothing was left"
            );
            return Ok(Cleaned { took, own });
        }
        // Ten times the limit by the wall clock: nothing will remove it any more.
        anyhow::ensure!(took <= case.limit * 10, "left after {took:?}: {}", left.join(", "));
        std::thread::sleep(PAUSE);
    }
}

/// Processes with `mark` in their environment.
fn marked(mark: &str) -> Vec<u32> {
    let all = names("/proc").into_iter().filter_map(|name| name.parse().ok());
    all.filter(|pid| {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|entry| entry == mark.as_bytes())
    })
    .collect()
}

/// Turns of a supervisor's work, counted while cases run.
#[derive(Default)]
struct Yardstick {
    turns: AtomicU64,
    shortest_us: AtomicU64,
    is_over: AtomicBool,
}

impl Yardstick {
    /// One that knows its shortest turn already.
    fn new() -> anyhow::Result<Self> {
        let yardstick = Self { shortest_us: AtomicU64::new(u64::MAX), ..Self::default() };
        for _ in 0..FIRST_TURNS {
            yardstick.turn()?;
        }
        Ok(yardstick)
    }

    fn turn(&self) -> anyhow::Result<()> {
        let began = Instant::now();
        Command::new("sh").args(["-c", TURN]).stdout(Stdio::null()).status().context("run sh")?;
        self.shortest_us.fetch_min(began.elapsed().as_micros() as u64, Ordering::Relaxed);
        self.turns.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn until_over(&self) {
        while !self.is_over.load(Ordering::Relaxed) {
            if self.turn().is_err() {
                return;
            }
        }
    }

    fn passed(&self) -> u64 {
        self.turns.load(Ordering::Relaxed)
    }

    /// How long `took` would have been on a machine that is not busy, of which the turns since
    /// `before` have passed: the one under way counts.
    fn quiet(&self, before: u64, took: Duration) -> Duration {
        // The turn under way counts, so that an early look is not late.
        let turns = self.passed().saturating_sub(before) + 1;
        took.min(Duration::from_micros(
            self.shortest_us.load(Ordering::Relaxed).saturating_mul(turns),
        ))
    }
}

fn names(folder: &str) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
}

/// Control groups of labs whose maker was the last of its PID namespace: nobody is left to remove
/// them but the next lab.
fn groups_of_namespaces() -> u64 {
    let entries = ["/sys/fs/cgroup", "/sys/fs/cgroup/cpu"]
        .map(fs::read_dir)
        .into_iter()
        .flatten()
        .flatten()
        .flatten();
    entries.filter(|entry| entry.file_name().to_str().is_some_and(is_of_namespace)).count() as u64
}

/// Process numbers inside a namespace are small.
fn is_of_namespace(name: &str) -> bool {
    // A lab's own process outside of a namespace has a larger number on any running machine.
    let number =
        name.strip_prefix("lr-").and_then(|rest| rest.split('.').next()?.parse::<u32>().ok());
    number.is_some_and(|number| number < 100)
}

/// Everything that is left of the victim, whose `processes` these are.
fn left_over(victim: &Victim<'_>, processes: &[u32]) -> Vec<String> {
    let is_ours = |text: &str| {
        text.contains(victim.name) || victim.own.as_ref().is_some_and(|own| text.contains(own))
    };
    // Nobody is left to remove the groups of a PID namespace that ended but the next lab; they are
    // counted at the end.
    let groups = if victim.place == FirstOfNamespace {
        &[][..]
    } else {
        &["/sys/fs/cgroup", "/sys/fs/cgroup/cpu"]
    };
    let mut left: Vec<String> = Vec::new();
    for folder in [&["/run/netns"], groups].concat() {
        left.extend(
            names(folder)
                .into_iter()
                .filter(|name| is_ours(name))
                .map(|found| format!("{folder}/{found}")),
        );
    }
    left.extend(processes.iter().map(|process| format!("process {process}")));
    for process in
        // Mounts of other processes may keep a namespace alive.
        names("/proc")
            .into_iter()
            .filter(|name| name.bytes().all(|byte| byte.is_ascii_digit()))
    {
        if is_ours(&fs::read_to_string(format!("/proc/{process}/mountinfo")).unwrap_or_default()) {
            left.push(format!("a mount that process {process} sees"));
        }
    }
    left
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases_differ_and_are_the_same_whenever_they_are_made() {
        let all: Vec<String> =
            (0..1000).map(|number| format!("{:?}", Case::new(number, LIMIT))).collect();
        let again: Vec<String> =
            (0..1000).map(|number| format!("{:?}", Case::new(number, LIMIT))).collect();
        assert_eq!(all, again);
        for part in
            ["KILL", "HUP", "QUIT", "Here", "InNamespace", "FirstOfNamespace", "is_standing: true"]
        {
            let n = all.iter().filter(|case| case.contains(part)).count();
            assert!(n > 150, "{part}: {n} of 1000");
        }
    }

    #[test]
    fn a_turn_that_takes_three_times_as_long_makes_two_seconds_six() {
        let yardstick = Yardstick {
            shortest_us: AtomicU64::new(100_000),
            turns: AtomicU64::new(29),
            ..Yardstick::default()
        };
        let six = Duration::from_secs(6);
        // 20 turns of 100 ms, the one under way among them.
        assert_eq!(yardstick.quiet(10, six), Duration::from_secs(2));
        // It never makes anything longer than it was.
        assert_eq!(yardstick.quiet(0, Duration::from_secs(1)), Duration::from_secs(1));
    }
}
