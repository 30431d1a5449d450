//! Running the program as a person does, and reading what it left behind.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use linerate_analysis::{JobStudy, Reason, Study, study};
use linerate_campaign::judged::judged;
use linerate_model::{Campaign, Validity};
use linerate_report::Format;
use linerate_report::scan::{study_violations, text_violations};
use linerate_report::sentences;
use linerate_store::{Ledger, Which};
use rustix::process::{WaitId, WaitIdOptions};
use serde_json::Value;

use crate::host::{self, Namespace, ran};

/// The longest anything here may take before the test gives up on it.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// Turns for tests that load all CPUs or need a figure that a loaded machine does not give.
static TURNS: (Mutex<usize>, Condvar) = (Mutex::new(2), Condvar::new());

/// One of [`TURNS`], given back when it is dropped.
pub(crate) struct Turn;

/// Waits for one of [`TURNS`]. Tests that hold at any speed do not call this.
pub(crate) fn turn() -> Turn {
    // A test that failed has left nothing in there.
    let left = TURNS.0.lock().unwrap_or_else(PoisonError::into_inner);
    let waited = TURNS.1.wait_while(left, |left| *left == 0);
    *waited.unwrap_or_else(PoisonError::into_inner) -= 1;
    Turn
}

impl Drop for Turn {
    fn drop(&mut self) {
        *TURNS.0.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        TURNS.1.notify_one();
    }
}

/// Returns `text` on one line: the width of a terminal decides where a line ends.
pub(crate) fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Prints that the running test is skipped, and why.
pub(crate) fn skip(why: impl std::fmt::Display) {
    let _nothing = host::skip::<()>(why);
}

/// Returns `Some` if namespaces may be made. Prints that the test is skipped if not.
pub(crate) fn privileged() -> Option<()> {
    host::root("needs root to make network namespaces")
}

/// Returns an empty folder for a test that makes namespaces, or prints that it is skipped.
pub(crate) fn privileged_folder() -> Option<tempfile::TempDir> {
    privileged().map(|()| tempfile::tempdir().expect("a folder"))
}

/// The program with `arguments`, its keys in a folder of the test's own.
pub(crate) fn linerate(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_linerate"));
    command
        .args(arguments)
        .current_dir(folder)
        .env("LINERATE_KEYS", folder.join("keys"))
        .env("NO_COLOR", "1");
    command.stdin(Stdio::null());
    command
}

/// Output and exit code of a command.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl From<Output> for Ended {
    fn from(output: Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).expect("linerate prints UTF-8");
        Self {
            code: output.status.code(),
            stdout: text(output.stdout),
            stderr: text(output.stderr),
        }
    }
}

impl Ended {
    /// Asserts the exit code.
    pub(crate) fn expect(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{}\n{}", self.stdout, self.stderr);
        self
    }

    /// Asserts that the command ran to its end: what it measured may be worthless (3) on a machine
    /// that others use.
    pub(crate) fn ran(self) -> Self {
        assert!(
            matches!(self.code, Some(0 | 3)),
            "{:?}: {}\n{}",
            self.code,
            self.stdout,
            self.stderr
        );
        self
    }

    /// Asserts that standard output is one JSON document and nothing else.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout)
            .unwrap_or_else(|error| panic!("{error}: {}\n{}", self.stdout, self.stderr))
    }
}

/// Runs the program to its end; every number of every ledger that it wrote in `folder` must be one
/// that can be.
pub(crate) fn run(folder: &Path, arguments: &[&str]) -> Ended {
    let since = SystemTime::now();
    let ended = linerate(folder, arguments).output().expect("linerate starts").into();
    scan(folder, since);
    ended
}

/// Makes every report of the ledgers in `folder` written since `since`, and panics on a number that
/// cannot be. Prints the number of trials, which `cargo xtask test` adds up.
pub(crate) fn scan(folder: &Path, since: SystemTime) {
    let is_new = |path: &Path| {
        let modified = path.metadata().and_then(|metadata| metadata.modified());
        path.extension().is_some_and(|kind| kind == "ledger")
            && modified.is_ok_and(|at| at >= since)
    };
    let files = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    // Some tests leave ledgers that cannot be opened, on purpose.
    let open = |path: PathBuf| Ledger::open_read_only(&path).ok();
    for ledger in files.filter(|path| is_new(path)).filter_map(open) {
        let Ok(campaign) = ledger.load(Which::Latest) else { continue };
        let document = linerate_report::compose(&campaign, &study(&campaign));
        let by_points = ledger.recording(Which::Latest).map(judged).expect("it was just read");
        let (loaded, by_points) = by_points.expect("it was just read");
        let by_points = linerate_report::compose(&loaded.campaign, &by_points);
        assert!(by_points == document, "{}: another report of its points", campaign.header.name);
        let mut found = study_violations(&document.study);
        for format in [Format::Csv, Format::Html, Format::Md] {
            let artifacts = linerate_report::render(&document, format).expect("a report");
            let texts =
                artifacts.iter().filter_map(|artifact| std::str::from_utf8(&artifact.bytes).ok());
            found.extend(texts.flat_map(text_violations));
        }
        assert!(found.is_empty(), "numbers of {} that cannot be: {found:#?}", campaign.header.name);
        println!("scanned: {} trials", campaign.trials.len());
    }
}

/// Starts the program with its output kept.
pub(crate) fn start(folder: &Path, arguments: &[&str]) -> Child {
    linerate(folder, arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("linerate starts")
}

/// Writes `text` to `name` in `folder` and returns its path.
pub(crate) fn file(folder: &Path, name: &str, text: &str) -> PathBuf {
    let path = folder.join(name);
    std::fs::File::create(&path)
        .and_then(|mut file| file.write_all(text.as_bytes()))
        .expect("the folder is writable");
    path
}

/// Warm-up of [`plan`], seconds.
pub(crate) const WARM_UP: f64 = 0.2;

/// A plan of one point and one repeat: [`WARM_UP`] seconds of warm-up, then `seconds` of `workload`
/// from `a` to `b`.
pub(crate) fn plan(workload: &str, seconds: f64, params: &str) -> String {
    format!(
        "[campaign]\nname = \"known\"\nrepeats = 1\n[[sweep]]\nname = \"known\"\nduration = \"{} \
            ms\"\nwarmup = \"{} ms\"\n\
         drain = \"300 ms\"\nrest = \"0 s\"\n[[sweep.job]]\nworkload = \"{workload}\"\nfrom \
         = \"a\"\nto = \"b\"\n\
         params = {{ {params} }}\n",
        seconds * 1e3,
        WARM_UP * 1e3
    )
}

/// The newest campaign of the ledger at `path`, which must open.
pub(crate) fn load(path: &Path) -> Campaign {
    let ledger = Ledger::open_read_only(path).expect("the ledger opens");
    ledger.load(Which::Latest).expect("it holds a campaign")
}

/// A campaign that was run, and its study.
pub(crate) struct Measured {
    pub(crate) campaign: Campaign,
    pub(crate) study: Study,
    pub(crate) json: Value,
}

impl Measured {
    /// The only job of the only point.
    pub(crate) fn job(&self) -> &JobStudy {
        &self.study.points[0].jobs[0]
    }

    /// A metric as a program reads it, in its base unit; `null` is not a number.
    pub(crate) fn metric(&self, name: &str) -> f64 {
        let metric = &self.json["points"][0]["jobs"][0]["metrics"][name];
        let found = metric["estimate"].as_f64();
        found.unwrap_or_else(|| {
            panic!("{name} has no figure: {metric}; {}", self.json["points"][0]["why"])
        })
    }

    /// Returns a metric, or `None` if the study has a reason for no figure: a shared machine may
    /// make a trial worthless, or keep a rate from settling. Then says that the test is skipped.
    pub(crate) fn figure(&self, name: &str) -> Option<f64> {
        let found = self.json["points"][0]["jobs"][0]["metrics"][name]["estimate"].as_f64();
        if found.is_none() {
            let (point, job) = (&self.study.points[0], self.job());
            let own = job.metrics.iter().filter(|figure| figure.metric.name == name);
            let unsettled = own.filter_map(|figure| figure.settled.as_ref());
            // Stalls take times out, and may leave none.
            let mut reasons = point.trials.iter().flat_map(|trial| &trial.why);
            let mut stood = || reasons.any(|why| matches!(why, Reason::Stood(_)));
            // Another reason for doubt is none for a figure that is missing.
            let is_explained = point.validity > Validity::Suspect
                || name.contains("time") && stood()
                || job.withheld.iter().any(|one| one.name == name)
                || unsettled.into_iter().any(|settled| !settled.has_single_number);
            assert!(is_explained, "{name} has no figure and nothing says why: {}", self.json);
            let why = point.why.first().map(sentences::reason).unwrap_or_default();
            skip(format_args!("no figure of {name}: {why}"));
        }
        found
    }

    /// Returns whether a point has no figure for a reason that the study gives: a machine that
    /// others use may make it so. Then says that the test is skipped.
    pub(crate) fn refused(&self) -> bool {
        let refused = self.study.points.iter().find(|point| point.validity > Validity::Suspect);
        if let Some(point) = refused {
            assert!(
                !point.why.is_empty(),
                "{} is {:?} and nothing says why",
                point.sweep,
                point.validity
            );
            skip(format_args!("{}: {}", point.sweep, sentences::reason(&point.why[0])));
        }
        refused.is_some()
    }

    /// The value of the ceiling that bounds a metric.
    pub(crate) fn ceiling(&self, name: &str) -> f64 {
        let point = &self.json["points"][0];
        let index =
            point["jobs"][0]["metrics"][name]["ceiling"].as_u64().expect("it has a ceiling");
        point["ceilings"][index as usize]["value"].as_f64().expect("a ceiling has a value")
    }
}

/// Runs `text` on the place that `place` names (`--lab`, `pair-100m`) and reads the ledger back.
/// See [`measure_in`].
pub(crate) fn measure(text: &str, place: &[&str]) -> Option<Measured> {
    let folder = tempfile::tempdir().expect("a folder");
    measure_in(folder.path(), text, place)
}

/// Returns `None` if an end of a trial was late because others had the CPUs. Then says that the
/// test is skipped.
pub(crate) fn measure_in(folder: &Path, text: &str, place: &[&str]) -> Option<Measured> {
    let measured = attempt(folder, text, place);
    measured.inspect_err(|why| skip(format_args!("a trial failed: {why}"))).ok()
}

/// Parts of the reasons for which a measurement fails whose ends are kept from running.
const LATE: [&str; 4] = ["in time", "flows within", "for too long", "after the start barrier"];
/// Share of the CPUs' time that is idle or the program's own at least, if others do not keep an end
/// from running.
const FREE: f64 = 0.5;

/// Runs `text` and reads the ledger back.
///
/// # Errors
/// The reason why a trial failed, if it was late and the CPUs were not free.
pub(crate) fn attempt(folder: &Path, text: &str, place: &[&str]) -> Result<Measured, String> {
    file(folder, "plan.toml", text);
    let mut arguments =
        vec!["run", "plan.toml", "--ledger", "known.ledger", "--json", "--out", "report"];
    arguments.extend(place);
    let ended = punctual(folder, &arguments)?;
    // 3: the measurement is invalid, which the study explains and `Measured::figure` finds.
    // Accounts balance all the same.
    let ended = ended.ran();
    let campaign = load(&folder.join("known.ledger"));
    let study = study(&campaign);
    Ok(Measured { json: ended.json(), study, campaign })
}

/// Runs the program to its end.
///
/// # Errors
/// The reason why a measurement failed, if an end was late and other programs had the CPUs.
pub(crate) fn punctual(folder: &Path, arguments: &[&str]) -> Result<Ended, String> {
    let before = cpu_ticks();
    let since = SystemTime::now();
    let (ended, own) = accounted(start(folder, arguments));
    scan(folder, since);
    let after = cpu_ticks();
    let free = (after[0] - before[0] + own) as f64 / (after[1] - before[1]).max(1) as f64;
    let is_late = |line: &&str| LATE.iter().any(|late| line.contains(late));
    match ended.stderr.lines().find(is_late) {
        Some(why) if ended.code != Some(0) && free < FREE => {
            Err(format!("{why} (other programs had {:.0} % of the CPUs)", (1.0 - free) * 100.0))
        }
        _ => Ok(ended),
    }
}

/// Waits for `child` to end, and returns the time that it and its children had the CPUs, in ticks.
fn accounted(mut child: Child) -> (Ended, u64) {
    fn all(mut pipe: impl Read + Send + 'static) -> std::thread::JoinHandle<Vec<u8>> {
        std::thread::spawn(move || {
            let mut bytes = Vec::new();
            pipe.read_to_end(&mut bytes).expect("the pipe is read");
            bytes
        })
    }
    let stdout = all(child.stdout.take().expect("piped"));
    let stderr = all(child.stderr.take().expect("piped"));
    let [stdout, stderr] = [stdout, stderr].map(|pipe| pipe.join().expect("it reads"));
    let id = rustix::process::Pid::from_child(&child);
    // Left unreaped, it still has its account.
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
    rustix::process::waitid(WaitId::Pid(id), options).expect("it is our child");
    let text = std::fs::read_to_string(format!("/proc/{}/stat", child.id())).expect("a zombie");
    let status = child.wait().expect("it is our child");
    (Output { status, stdout, stderr }.into(), ticks_of(&text))
}

/// Returns the CPU time of a process and its reaped children, from its line in `/proc`
/// (proc_pid_stat(5)): fields 14 to 17, counted behind its name, which may contain anything.
fn ticks_of(line: &str) -> u64 {
    let behind = line.rsplit_once(')').expect("a name").1.split_whitespace();
    behind.skip(11).take(4).map(|ticks| ticks.parse::<u64>().expect("ticks")).sum()
}

/// Returns the time that all CPUs were idle, and all their time, both since the start of the
/// system (proc_stat(5)).
fn cpu_ticks() -> [u64; 2] {
    let text = std::fs::read_to_string("/proc/stat").expect("Linux has it");
    let first = text.lines().next().expect("the sum of all CPUs");
    let ticks: Vec<u64> = first.split_whitespace().skip(1).flat_map(str::parse).collect();
    // Guest time is part of user time.
    [ticks[3], ticks.iter().take(8).sum()]
}

#[test]
fn the_account_of_a_process_is_its_own_and_that_of_its_children() {
    assert_eq!(ticks_of("7 (a) b) Z 1 7 7 0 -1 4 5 6 0 0 10 20 300 4000 20 0 1 0 9"), 4330);
    let (_, idle) = accounted(spawn_shell("sleep 0.3"));
    let (_, busy) = accounted(spawn_shell("i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done"));
    assert!(idle < 10 && busy > idle, "{idle} and {busy} ticks");
}

fn spawn_shell(script: &str) -> Child {
    let mut shell = Command::new("sh");
    shell.args(["-c", script]).stdout(Stdio::piped()).stderr(Stdio::piped());
    shell.spawn().expect("a shell")
}

/// Waits until `done` yields something.
pub(crate) fn eventually<T>(what: &str, mut done: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = done() {
            return found;
        }
        assert!(Instant::now() < deadline, "waited {PATIENCE:?} for {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Waits for `child` to end by itself.
pub(crate) fn wait(mut child: Child) -> Ended {
    let deadline = Instant::now() + PATIENCE;
    while child.try_wait().expect("it is our child").is_none() {
        if Instant::now() > deadline {
            child.kill().expect("it is our child");
            let output = child.wait_with_output().expect("it is our child");
            panic!("it did not end by itself: {:?}", Ended::from(output));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    child.wait_with_output().expect("it is our child").into()
}

/// Returns a port on loopback for a program that cannot choose one itself.
///
/// It lies below those that the kernel chooses from (32768 to 60999). The kernel's tables say if it
/// is free: a try would take it, as a program that another thread starts has a copy of the socket.
pub(crate) fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let of_process = 10_000 + (std::process::id() % 100) as u16 * 100;
    let is_in = |table: &str, port: u16| {
        let text = std::fs::read_to_string(format!("/proc/net/{table}")).unwrap_or_default();
        text.contains(&format!(":{port:04X} "))
    };
    loop {
        let port = of_process + NEXT.fetch_add(1, Ordering::Relaxed);
        if ["tcp", "tcp6", "udp", "udp6"].iter().all(|table| !is_in(table, port)) {
            return port;
        }
    }
}

/// Sends a signal by name.
pub(crate) fn signal(pid: u32, name: &str) {
    let sent = Command::new("kill")
        .args([&format!("-{name}"), &pid.to_string()])
        .status()
        .expect("kill runs");
    assert!(sent.success(), "{name} to {pid}");
}

/// Returns the names of the namespaces of the lab that `process` has built, which no other process
/// sees.
pub(crate) fn private_namespaces(process: u32) -> Vec<String> {
    let text =
        String::from_utf8_lossy(&within_mounts(process, &["netns", "list"]).stdout).into_owned();
    text.lines().filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect()
}

/// Runs `ip` among the mounts of `process`.
pub(crate) fn within_mounts(process: u32, arguments: &[&str]) -> std::process::Output {
    let mounts = format!("--mount=/proc/{process}/ns/mnt");
    Command::new("nsenter")
        .args([&mounts, "ip"])
        .args(arguments)
        .output()
        .expect("nsenter is in util-linux")
}

/// Names of the namespaces that begin with `prefix`.
pub(crate) fn namespaces(prefix: &str) -> Vec<String> {
    ran("ip netns list")
        .lines()
        .filter_map(|line| line.split_whitespace().next())
        .filter(|n| n.starts_with(prefix))
        .map(str::to_owned)
        .collect()
}

/// Two namespaces joined by a veth pair, `lr-PIDxNAME-a` and `-b`; they go when this goes.
pub(crate) struct Pair {
    pub(crate) names: [String; 2],
    made: [Namespace; 2],
    /// Locks that show that the namespaces have a living maker, as those of a lab do.
    _held: [std::fs::File; 2],
}

impl Pair {
    /// Builds the pair. Each pair of this program needs an `instance` of its own.
    pub(crate) fn build(instance: &str) -> Self {
        let prefix = format!("lr-{}x{instance}", std::process::id());
        let names = ["a", "b"].map(|end| format!("{prefix}-{end}"));
        let made = names
            .each_ref()
            .map(|name| Namespace::new(name.clone()).expect("the test may make namespaces"));
        let held = names.each_ref().map(|name| {
            let file = std::fs::File::open(format!("/run/netns/{name}")).expect("it was made");
            file.try_lock().expect("nobody else holds it");
            file
        });
        let [a, b] = &names;
        // Numbers of interfaces differ between hosts.
        ran(&format!("ip link add v0 index 9 netns {a} type veth peer name v0 netns {b}"));
        let pair = Self { names, made, _held: held };
        for (end, address) in ["198.18.9.1/24", "198.18.9.2/24"].into_iter().enumerate() {
            pair.ran(end, &format!("ip address add {address} dev v0"));
            pair.ran(end, "ip link set lo up");
            pair.ran(end, "ip link set v0 up");
        }
        pair
    }

    /// Runs a command at `end`, which must succeed, and returns its output.
    pub(crate) fn ran(&self, end: usize, command: &str) -> String {
        self.made[end].ran(command)
    }

    /// The program inside namespace `end`, with the keys in `keys`.
    pub(crate) fn linerate(
        &self,
        end: usize,
        folder: &Path,
        keys: &str,
        arguments: &[&str],
    ) -> Command {
        linerate_in(&self.names[end], folder, keys, arguments)
    }

    /// Starts an agent at the second end, with the keys in `b`, and waits until it listens at
    /// `address`.
    pub(crate) fn agent(&self, folder: &Path, address: &str, more: &[&str]) -> Guard {
        let arguments = [&["agent", "--listen", address], more].concat();
        let mut child = self.linerate(1, folder, "b", &arguments).spawn().expect("starts");
        let listening = format!("listening on {address}");
        if more.is_empty() {
            let mut lines = BufReader::new(child.stderr.take().expect("piped")).lines();
            let first = lines.next().expect("a line").expect("text");
            assert!(first.starts_with(&listening), "{first}");
            // What it writes later must not block it.
            std::thread::spawn(move || lines.for_each(drop));
        } else {
            // One that may tune may have put something back before that.
            heard(&mut child, &listening);
        }
        Guard(child)
    }
}

/// The program inside `namespace`, with the keys in `keys`.
pub(crate) fn linerate_in(
    namespace: &str,
    folder: &Path,
    keys: &str,
    arguments: &[&str],
) -> Command {
    let mut command = Command::new("ip");
    command.args(["netns", "exec", namespace, env!("CARGO_BIN_EXE_linerate")]).args(arguments);
    command.current_dir(folder).env("LINERATE_KEYS", folder.join(keys)).env("NO_COLOR", "1");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// The second end of a pair, where agents listen.
pub(crate) const AGENT: &str = "198.18.9.2";

/// Waits until `child` writes a line that begins with `start`. What it writes later must not block
/// it.
pub(crate) fn heard(child: &mut Child, start: &str) {
    let mut lines = BufReader::new(child.stderr.take().expect("piped")).lines();
    assert!(lines.any(|line| line.is_ok_and(|line| line.starts_with(start))), "{start}");
    std::thread::spawn(move || lines.for_each(drop));
}

/// Exchanges keys: `offer` on the agent's host, `accept` on the other, with the token from standard
/// input, where no list of processes shows it.
pub(crate) fn exchange_keys(pair: &Pair, folder: &Path) {
    let mut offer = pair
        .linerate(1, folder, "b", &["pair", "offer", "--listen", AGENT])
        .spawn()
        .expect("starts");
    let mut output = BufReader::new(offer.stdout.take().expect("piped"));
    let mut token = String::new();
    output.read_line(&mut token).expect("the token is printed first");
    let mut accept = pair.linerate(0, folder, "a", &["pair", "accept", AGENT, "-"]);
    let mut accept = accept.stdin(Stdio::piped()).spawn().expect("starts");
    accept.stdin.take().expect("piped").write_all(token.as_bytes()).expect("it reads");
    let accepted = wait(accept).expect(0);
    assert!(accepted.stdout.starts_with("paired with "), "{accepted:?}");
    let mut rest = String::new();
    output.read_to_string(&mut rest).expect("text");
    assert!(rest.starts_with("paired with "), "{rest}");
    assert!(offer.wait().expect("our child").success());
    let again = pair
        .linerate(0, folder, "a", &["pair", "accept", AGENT, token.trim()])
        .output()
        .expect("starts");
    let again = Ended::from(again).expect(4);
    assert!(
        again.stderr.contains("`linerate pair offer` waiting there?"),
        "a token is for one use: {again:?}"
    );
}

/// A child that is killed when the test leaves it.
pub(crate) struct Guard(pub(crate) Child);

impl Drop for Guard {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _dead = self.0.kill();
        let _gone = self.0.wait();
    }
}
