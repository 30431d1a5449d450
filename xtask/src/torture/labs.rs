//! Labs whose maker ends at a random moment by SIGKILL, SIGHUP or SIGQUIT, also as the first process of a PID namespace: what is left of it 2 s
//! after its end.
//!
//! Looked for: processes (by a mark in their environment), names of network namespaces, control groups, mounts that any process sees, and the
//! settings of this host that labs and agents may change. What nobody names and no process is in, the kernel has removed. Several are
//! killed at a time, so that the machine is busy.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context;

use super::Bench;

/// How many at a time.
const AT_ONCE: u64 = 4;
/// What is left after this is a fault; in the quick form, which is part of the tests, nothing depends on speed.
const LIMIT: Duration = Duration::from_secs(2);
const QUICK_LIMIT: Duration = Duration::from_secs(60);
/// A signal that is heeded ends a campaign within this.
const PATIENCE: Duration = Duration::from_secs(60);
/// The latest moment: a campaign of these labs has ended by then if the machine is idle.
const LATEST_MS: u64 = 3000;
/// The environment variable that marks everything that belongs to a victim.
const MARK: &str = "LINERATE_TORTURE";
/// What a host has that is not a namespace's own.
const SETTINGS: [&str; 4] =
    ["net/ipv4/tcp_rmem", "net/ipv4/tcp_wmem", "net/ipv4/tcp_congestion_control", "net/ipv4/ip_forward"];

const PLAN: &str = "[campaign]\nname = \"k\"\nrepeats = 3\n[[sweep]]\nname = \"s\"\nduration = \"150 ms\"\nwarmup = \"50 ms\"\n\
    drain = \"50 ms\"\nrest = \"0 s\"\n[[sweep.job]]\nworkload = \"tcp_stream\"\nfrom = \"a\"\nto = \"b\"\n\
    params = { pacing_rate = \"20 Mbit/s\" }\n";

/// With everything that a lab makes: a control group, and a link that a process carries.
const LAB: &str = "[lab]\nname = \"NAME\"\n[[host]]\nname = \"a\"\ncpu = \"50 %\"\n[[host]]\nname = \"b\"\n\
    [[link]]\nends = [\"a\", \"b\"]\ndelay = \"1 ms\"\n";

/// Where linerate runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
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
    place: Place,
    after: Duration,
    /// By when nothing may be left.
    limit: Duration,
}

impl Case {
    /// From a number that says all of it (splitmix64, Steele 2014).
    fn new(number: u64, limit: Duration) -> Self {
        let mut state = number.wrapping_add(0x9E37_79B9_7F4A_7C15);
        state = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        state = (state ^ (state >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        state ^= state >> 31;
        Self {
            number,
            signal: ["KILL", "HUP", "QUIT"][(state % 3) as usize],
            is_standing: state >> 8 & 3 == 0,
            place: [Place::Here, Place::Here, Place::InNamespace, Place::FirstOfNamespace][(state >> 16 & 3) as usize],
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
    let user = Command::new("id").arg("-u").output().context("run id")?;
    if user.stdout != b"0\n" {
        println!("skipped: torture labs: needs root to build namespaces");
        return Ok(true);
    }
    let program = &bench.linerate;
    let n = u64::from(bench.count(FEW_KILLS, KILLS));
    let limit = if bench.quick { QUICK_LIMIT } else { LIMIT };
    let before = settings();
    let (next, faults, latest_ms) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= n {
                        return;
                    }
                    let case = Case::new(number, limit);
                    match kill_one(program, case) {
                        Ok(took) => drop(latest_ms.fetch_max(took.as_millis() as u64, Ordering::Relaxed)),
                        Err(error) => {
                            println!("{case:?}: {error:#}");
                            faults.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                }
            });
        }
    });
    if settings() != before {
        println!("settings of this host have changed: {before:?} to {:?}", settings());
        faults.fetch_add(1, Ordering::Relaxed);
    }
    println!("control groups left by PID namespaces that ended, until the next lab: {}", groups_of_namespaces());
    Command::new(program).args(["lab", "reap"]).stdout(Stdio::null()).status().context("run linerate lab reap")?;
    if groups_of_namespaces() > 0 {
        println!("{} of them stay after `linerate lab reap`", groups_of_namespaces());
        faults.fetch_add(1, Ordering::Relaxed);
    }
    let faults = faults.into_inner();
    println!("{n} kills: {faults} faults; longest until nothing was left: {} ms", latest_ms.into_inner());
    Ok(faults == 0)
}

fn settings() -> Vec<String> {
    SETTINGS.iter().map(|name| fs::read_to_string(Path::new("/proc/sys").join(name)).unwrap_or_default()).collect()
}

/// How long it took after the end until nothing was left.
fn kill_one(program: &Path, case: Case) -> anyhow::Result<Duration> {
    let name = format!("t{}x{}", std::process::id(), case.number);
    let folder = std::env::temp_dir().join(format!("linerate-torture-{name}"));
    fs::create_dir(&folder).with_context(|| format!("make {}", folder.display()))?;
    let outcome = kill_in(&folder, &name, program, case);
    fs::remove_dir_all(&folder).with_context(|| format!("remove {}", folder.display()))?;
    outcome
}

fn kill_in(folder: &Path, name: &str, program: &Path, case: Case) -> anyhow::Result<Duration> {
    let mark = format!("{MARK}={name}");
    fs::write(folder.join("k.toml"), PLAN)?;
    fs::write(folder.join("lab.toml"), LAB.replace("NAME", name))?;
    let mut words: Vec<&str> = match case.place {
        Place::Here => Vec::new(),
        Place::FirstOfNamespace => vec!["unshare", "-p", "-f", "--kill-child", "--"],
        // Its first process outlives linerate, as that of a container does.
        Place::InNamespace => {
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
    if case.place != Place::InNamespace {
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
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(fs::File::create(folder.join("said"))?)
        .spawn()
        .context("start linerate")?;
    std::thread::sleep(case.after);
    let target = match case.place {
        Place::Here => Some(started.id()),
        Place::FirstOfNamespace => child_of(started.id()),
        Place::InNamespace => child_of(started.id()).and_then(child_of),
    };
    let outcome = end(target.unwrap_or(0), case, &mut started).and_then(|()| until_clean(name, &mark, target, case));
    let _ended = started.kill();
    started.wait().context("wait for what was started")?;
    outcome
}

/// Kills `target` and waits until it is dead.
fn end(target: u32, case: Case, started: &mut Child) -> anyhow::Result<()> {
    let kill = |signal: &str| {
        Command::new("kill").args([&format!("-{signal}"), &target.to_string()]).stderr(Stdio::null()).status()
    };
    // A dead process that nobody has waited for still has a number, but no memory.
    let has_memory = || fs::read_to_string(format!("/proc/{target}/statm")).is_ok_and(|text| !text.starts_with("0 "));
    let is_alive = |started: &mut Child| {
        let _reaped = started.try_wait();
        has_memory()
    };
    if target == 0 || !is_alive(started) {
        return Ok(());
    }
    kill(case.signal)?;
    let began = Instant::now();
    while is_alive(started) {
        // The first process of a PID namespace dies of no signal that it does not heed yet: a campaign then ends by itself.
        if case.place == Place::FirstOfNamespace && case.is_standing && began.elapsed() > case.limit {
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

/// A process that `parent` has started.
fn child_of(parent: u32) -> Option<u32> {
    let all = fs::read_dir("/proc").ok()?.flatten();
    let mut pids = all.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.find(|pid| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let found = stat.rsplit_once(") ").and_then(|(_, rest)| rest.split(' ').nth(1)?.parse().ok());
        found == Some(parent)
    })
}

fn until_clean(name: &str, mark: &str, target: Option<u32>, case: Case) -> anyhow::Result<Duration> {
    let began = Instant::now();
    loop {
        let left = left_over(name, mark, target.filter(|_| case.place == Place::Here));
        let took = began.elapsed();
        if left.is_empty() {
            anyhow::ensure!(took <= case.limit, "it took {took:?} until nothing was left");
            return Ok(took);
        }
        anyhow::ensure!(took <= case.limit * 5, "left after {took:?}: {}", left.join(", "));
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Control groups of labs whose maker was the last of its PID namespace: nobody is left to remove them but the next lab.
fn groups_of_namespaces() -> u64 {
    let entries = ["/sys/fs/cgroup", "/sys/fs/cgroup/cpu"].map(fs::read_dir).into_iter().flatten().flatten().flatten();
    entries.filter(|entry| entry.file_name().to_str().is_some_and(is_of_namespace)).count() as u64
}

/// Process numbers inside a namespace are small.
fn is_of_namespace(name: &str) -> bool {
    let number = name.strip_prefix("lr-").and_then(|rest| rest.split('.').next()?.parse::<u32>().ok());
    number.is_some_and(|number| number < 100)
}

/// Everything that is left of the victim, whose number on this host was `pid`, and whose lab is called `name`.
fn left_over(name: &str, mark: &str, pid: Option<u32>) -> Vec<String> {
    let names = |folder: &str| -> Vec<String> {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
    };
    let own = pid.map(|pid| format!("lr-{pid}."));
    let is_ours = |found: &String| found.contains(name) || own.as_ref().is_some_and(|own| found.starts_with(own));
    let mut left: Vec<String> = Vec::new();
    for folder in ["/run/netns", "/sys/fs/cgroup", "/sys/fs/cgroup/cpu"] {
        left.extend(names(folder).into_iter().filter(is_ours).map(|found| format!("{folder}/{found}")));
    }
    for process in names("/proc").into_iter().filter(|name| name.bytes().all(|byte| byte.is_ascii_digit())) {
        let environment = fs::read(format!("/proc/{process}/environ")).unwrap_or_default();
        if environment.split(|byte| *byte == 0).any(|entry| entry == mark.as_bytes()) {
            left.push(format!("process {process}"));
        }
        let mounts = fs::read_to_string(format!("/proc/{process}/mountinfo")).unwrap_or_default();
        if mounts.contains(name) || own.as_ref().is_some_and(|own| mounts.contains(own)) {
            left.push(format!("a mount that process {process} sees"));
        }
    }
    left
}
