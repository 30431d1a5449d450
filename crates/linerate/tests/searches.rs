//! Searches end to end: a device of known capacity is found, a search that is killed goes on, and
//! mistakes are shown at their place.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use linerate_analysis::{SearchRun, study};
use linerate_model::{Campaign, Purpose, TrialId, TrialOutcome};

use crate::common::{file, linerate, load, one_line, privileged_folder, run, skip, turn};

/// Capacity and buffer of the lab `device`, frames per second and frames.
const CAPACITY: f64 = 20_000.0;
const BUFFER: f64 = 64.0;

fn plan(goal: &str, trial: &str, repeats: u32) -> String {
    format!(
        "[campaign]\nname = \"search\"\n[[sweep]]\nname = \"zero\"\ndrain = \"100 ms\"\nrest \
            = \"50 ms\"\n[[sweep.job]]\n\
         workload = \"udp_stream\"\nfrom = \"adev\"\nto = \"bdev\"\nparams = {{ datagram_size \
         = \"64 B\" }}\n[sweep.search]\n\
         metric = \"rate\"\ngoal = \"{goal}\"\nmax = \"40 kpps\"\nwidth = \"2 %\"\ntrial \
         = \"{trial}\"\nsearch_trial = \"250 ms\"\n\
         warmup = \"100 ms\"\nself_test = \"200 ms\"\nwire = \"awire bwire\"\nrepeats = {repeats}\n"
    )
}

const RUN: [&str; 8] =
    ["run", "plan.toml", "--lab", "device", "--ledger", "s.ledger", "--out", "report"];

fn only(campaign: &Campaign) -> SearchRun {
    let mut study = study(campaign);
    assert_eq!((study.searches.len(), study.searches[0].runs.len()), (1, 1));
    study.searches.remove(0).runs.remove(0)
}

/// The account of a search's trials: nothing arrives that was not sent, the device forwards what it
/// can, and a bound is a load that was tried. That searches find a capacity is decided in virtual
/// time (`linerate-control`), and of devices by `cargo xtask bench search`.
fn balances(run: &SearchRun) {
    for trial in &run.trials {
        let crosses = trial.purpose != Purpose::SelfTest;
        assert!(trial.sent >= trial.received, "{trial:?}");
        let most = forwarded_at_most(trial.duration.as_secs_f64());
        assert!(
            !crosses || trial.received as f64 <= most,
            "{} of {most}: {trial:?}",
            trial.received
        );
    }
    for bounds in run.found.iter().map(|found| &found.strict) {
        println!("found {:?} to {:?}", bounds.lower, bounds.upper);
        assert!(
            bounds.lower.zip(bounds.upper).is_none_or(|(lower, upper)| lower < upper),
            "{bounds:?}"
        );
        let tried = |bound: f64| run.trials.iter().any(|trial| trial.load == bound);
        assert!(
            [bounds.lower, bounds.upper].into_iter().flatten().all(tried),
            "{bounds:?} {:?}",
            run.trials
        );
    }
}

#[test]
fn an_mlrsearch_over_a_device_is_run_recorded_and_reported() {
    let Some(folder) = privileged_folder() else { return };
    let _turn = turn();
    file(
        folder.path(),
        "plan.toml",
        &plan("mlr-ndr", "250 ms", 1).replace("width = \"2 %\"", "width = \"10 %\""),
    );
    let told = run(folder.path(), &RUN);
    // The tester may be the limit on a machine that others use (3), or lose frames at the lowest
    // load (1); the exit code says which.
    assert!(matches!(told.code, Some(0 | 1 | 3)), "{}\n{}", told.stdout, told.stderr);
    assert!(told.stdout.contains("Bounds by goal"), "{}\n{}", told.stdout, told.stderr);
    let found = only(&load(&folder.path().join("s.ledger")));
    assert_eq!(
        found.trials[0].purpose,
        Purpose::SelfTest,
        "the tester is tried without the device first"
    );
    balances(&found);
    let json = run(folder.path(), &["report", "s.ledger", "--json", "--out", "report"]).json();
    let lower = json["searches"][0]["runs"][0]["found"][0]["strict"]["lower"].as_f64();
    assert_eq!(lower, found.found.first().and_then(|found| found.strict.lower));
}

#[test]
fn a_strict_search_that_is_killed_goes_on_from_its_record() {
    let Some(folder) = privileged_folder() else { return };
    let _turn = turn();
    file(
        folder.path(),
        "plan.toml",
        &plan("rfc2544", "250 ms", 1).replace("width = \"2 %\"", "width = \"5 %\""),
    );
    let mut child = linerate(folder.path(), &RUN)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("starts");
    let mut lines = BufReader::new(child.stderr.take().expect("piped")).lines();
    assert!(lines.any(|line| line.is_ok_and(|line| line.starts_with("5/"))), "five trials end");
    child.kill().expect("it runs");
    child.wait().expect("it was started");
    run(folder.path(), &["lab", "reap"]).expect(0);
    let started = |campaign: &Campaign| -> Vec<(TrialId, u64)> {
        let done =
            campaign.trials.iter().filter(|trial| trial.outcome == Some(TrialOutcome::Completed));
        done.map(|trial| (trial.spec.id, trial.started.expect("it ran").0)).collect()
    };
    let before = started(&load(&folder.path().join("s.ledger")));
    assert!(before.len() >= 5, "{before:?}");
    let mut again = RUN.to_vec();
    again.push("--resume");
    let told = run(folder.path(), &again);
    let campaign = load(&folder.path().join("s.ledger"));
    let after = started(&campaign);
    assert!(before.iter().all(|trial| after.contains(trial)), "{before:?} {after:?}");
    assert!(after.len() > before.len() && campaign.ended.is_some());
    let found = only(&campaign);
    assert!(matches!(told.code, Some(0 | 1 | 3)), "{}\n{}", told.stdout, told.stderr);
    balances(&found);
}

#[test]
fn plan_describes_a_search_and_locates_its_mistakes() {
    let folder = tempfile::tempdir().expect("a folder");
    file(folder.path(), "plan.toml", &plan("mlr", "250 ms", 3));
    let told = run(folder.path(), &["plan", "plan.toml", "--lab", "device"]).expect(0).stdout;
    for part in [
        "from 400 packet/s to 40 kpacket/s (the plan)",
        "NDR",
        "PDR",
        "about ",
        "at most 300 trials",
        "over the wire awire to bwire",
    ] {
        assert!(told.contains(part), "{part}: {told}");
    }
    let share = plan("mlr", "250 ms", 1).replace("\"40 kpps\"", "\"90 %\"");
    file(folder.path(), "share.toml", &share);
    let told = run(folder.path(), &["plan", "share.toml", "--lab", "device"]).expect(2).stderr;
    assert!(
        told.contains("a ceiling that is not known") && told.contains("max = \"90 %\""),
        "{told}"
    );
    // 64 B of payload are 106 B on the link of 100 Mbit/s, which counts Ethernet headers.
    let known =
        share.replace("adev", "a").replace("bdev", "b").replace("wire = \"awire bwire\"\n", "");
    file(folder.path(), "known.toml", &known);
    let told = run(folder.path(), &["plan", "known.toml", "--lab", "pair-100m"]).expect(0).stdout;
    let told = one_line(&told);
    assert!(told.contains("to 106.132075 kpacket/s (90 % of "), "{told}");
    file(folder.path(), "metric.toml", &known.replace("\"rate\"", "\"rat\""));
    let told = run(folder.path(), &["plan", "metric.toml", "--lab", "pair-100m"]).expect(2).stderr;
    assert!(told.contains("no parameter `rat`") && told.contains("rate"), "{told}");
}

/// Searches of every other kind, with whole frames, in trials as short as they may be.
const KINDS: &str = r#"
[campaign]
name = "kinds"
order = "sequential"
[[sweep]]
name = "bursts"
drain = "100 ms"
rest = "0 s"
[[sweep.job]]
workload = "frames"
from = "adev"
to = "bdev"
params = { frame_size = "64 B" }
[sweep.search]
metric = "rate"
goal = "back-to-back"
max = "40 kpps"
width = "10 %"
trial = "500 ms"
search_trial = "250 ms"
bursts = 1
longest_burst = "12 ms"
warmup = "0 s"
self_test = "100 ms"
wire = "awire bwire"
repeats = 1
[[sweep]]
name = "steps"
drain = "100 ms"
rest = "0 s"
[[sweep.job]]
workload = "frames"
from = "adev"
to = "bdev"
params = { frame_size = "imix", direction = "both" }
[sweep.search]
metric = "rate"
goal = "y1564"
max = "4 kpps"
loss_ratio = "10 %"
trial = "500 ms"
performance = "500 ms"
warmup = "0 s"
repeats = 1
[[sweep]]
name = "latency"
drain = "100 ms"
rest = "0 s"
[[sweep.job]]
workload = "frames"
from = "adev"
to = "bdev"
params = { frame_size = "512 B" }
[sweep.search]
metric = "rate"
goal = "latency"
max = "40 kpps"
width = "30 %"
trial = "300 ms"
search_trial = "300 ms"
latency_trial = "200 ms"
latency_repeats = 1
warmup = "0 s"
self_test = "0 s"
repeats = 1
"#;

/// Frames of a burst of 12 ms at 40,000 a second.
const LONGEST_BURST: f64 = 480.0;

/// Returns the most that the device can have forwarded in `seconds`: frames may be sent for a while
/// after their time, and its buffer is empty at first.
fn forwarded_at_most(seconds: f64) -> f64 {
    const CAUGHT_UP: f64 = 0.1;
    CAPACITY * (seconds + CAUGHT_UP) + BUFFER
}

#[test]
fn bursts_steps_and_latency_of_a_known_device_are_measured_with_whole_frames() {
    let Some(folder) = privileged_folder() else { return };
    let _turn = turn();
    file(folder.path(), "plan.toml", KINDS);
    let told = run(folder.path(), &RUN);
    // On a shared machine the tester may be the limit (3), or a step may lose frames (1).
    assert!(matches!(told.code, Some(0 | 1 | 3)), "{}\n{}", told.stdout, told.stderr);
    let searches = study(&load(&folder.path().join("s.ledger"))).searches;
    assert_eq!(searches.len(), 3);
    for trial in searches.iter().flat_map(|search| &search.runs[0].trials) {
        let seconds = trial.duration.as_secs_f64();
        let crosses = !matches!(trial.purpose, Purpose::SelfTest);
        assert!(trial.sent >= trial.received, "{trial:?}");
        assert!(!crosses || trial.received as f64 <= 2.0 * forwarded_at_most(seconds), "{trial:?}");
    }
    // A busy machine may end a search early: each part that is missing is a counted skip.
    match &searches[0].runs[0].bursts {
        Some(bursts) => {
            println!("bursts: {bursts:?}");
            assert!(bursts.mean > 0.0 && bursts.max <= LONGEST_BURST, "{bursts:?}");
            // Lines break at 80 columns.
            let words = one_line(&told.stdout);
            assert!(words.contains("corrected buffer time"), "{}", told.stdout);
        }
        None => skip(format_args!("no burst passed: {:?}", searches[0].runs[0].tester_limited)),
    }
    let counted = searches[1].runs[0].trials.iter().filter(|trial| trial.observation().is_some());
    let steps = counted.filter(|trial| trial.purpose == Purpose::Load).count();
    if steps < 5 {
        skip(format_args!("{steps} of 5 steps were passed"));
    }
    assert!(steps <= 5, "{:?}", searches[1].runs[0].trials);
    let tested = searches[1].runs[0].trials.iter().any(|trial| trial.purpose == Purpose::SelfTest);
    assert!(!tested, "frames have no loopback: without a wire there is no self-test");
    let latencies = &searches[2].runs[0].latencies;
    if latencies.len() < 5 {
        skip(format_args!("latency at {} of 5 loads", latencies.len()));
    }
    for at in latencies {
        let latency = &at.latency;
        // Never before it was sent, never longer than a trial; percentiles in order.
        assert!(
            latency.least > 0.0 && latency.typical.is_none_or(|typical| typical >= latency.least),
            "{at:?}"
        );
        assert!(latency.worst_case.is_none() || latency.n >= 10_000, "{at:?}");
    }
}

/// Known: a queue of 200 frames behind a device of 2000 a second. When the load falls it is full:
/// it has room again at once, so that no frame sent afterwards is lost, and what it holds takes 100
/// ms to go: as long the receiver waits for the frame behind the last gap.
const DEEP: &str = "[lab]\nname = \"deep\"\n[[host]]\nname = \"a\"\n[[host]]\nname \
    = \"b\"\n[[element]]\nname = \"dut\"\n\
                    ends = [\"a.adev\", \"b.bdev\"]\npacket_rate = \"2 kpps\"\nbuffer = \"1 \
                    MiB\"\nbuffer_frames = 200\n";

#[test]
fn recovery_after_an_overload_includes_the_time_to_drain_the_queue() {
    let Some(folder) = privileged_folder() else { return };
    let _turn = turn();
    let plan = "[campaign]\nname = \"recovery\"\n[[sweep]]\nname = \"recovery\"\ndrain = \"300 \
        ms\"\nrest = \"0 s\"\n[[sweep.job]]\n\
                workload = \"frames\"\nfrom = \"adev\"\nto = \"bdev\"\nparams = \
                { mode = \"packet\" }\n[sweep.search]\n\
                metric = \"rate\"\ngoal = \"recovery\"\nmax = \"4 kpps\"\nwidth = \"10 %\"\ntrial \
                = \"250 ms\"\nsearch_trial = \"250 ms\"\n\
                overload = \"500 ms\"\nafter = \"300 ms\"\nwarmup = \"0 s\"\nself_test = \"0 \
                s\"\nrepeats = 1\n";
    file(folder.path(), "plan.toml", plan);
    file(folder.path(), "deep.toml", DEEP);
    let arguments =
        ["run", "plan.toml", "--lab", "./deep.toml", "--ledger", "s.ledger", "--out", "report"];
    let told = run(folder.path(), &arguments);
    assert!(matches!(told.code, Some(0 | 1 | 3)), "{}\n{}", told.stdout, told.stderr);
    let campaign = load(&folder.path().join("s.ledger"));
    let found = only(&campaign);
    let overloads: Vec<_> =
        found.trials.iter().filter(|trial| trial.purpose == Purpose::Overload).collect();
    let mut lossy = overloads
        .iter()
        .filter(|trial| trial.observation().is_some() && trial.sent > trial.received)
        .peekable();
    if lossy.peek().is_none() {
        return skip(format_args!(
            "no overload lost a frame: the tester is the limit at {:?}",
            found.tester_limited
        ));
    }
    for trial in lossy {
        println!(
            "overload: ended {:?}, cleared {:?}, lost {}",
            trial.recovery_s, trial.cleared_s, trial.loss_ratio
        );
        let cleared = trial.cleared_s.expect("the receiver keeps its last gap");
        // How long it took is decided on recorded gaps in `linerate-analysis`.
        assert!(trial.recovery_s.is_some_and(|ended| ended <= cleared), "{trial:?}");
    }
    assert!(told.stdout.contains("(receiver: "), "{}", told.stdout);
}
