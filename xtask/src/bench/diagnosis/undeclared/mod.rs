//! `cargo xtask bench diagnosis --undeclared`: the confusion matrix of `linerate diagnose` on paths
//! whose capacity nobody declared.
//!
//! Two network namespaces are joined by a relay of this bench, or by a bridge. Limits are made by
//! the relay, `tc`, `nft`, `sysctl`, busy loops, iperf3 and curl. `linerate diagnose --to` runs
//! unmodified at one end, with an agent at the other; where a foreign program reads or writes,
//! `linerate serve` records and `linerate diagnose LEDGER` judges. Not covered: network cards,
//! wireless links, and causes that two namespaces on one machine cannot have.

mod causes;
mod relay;

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use serde_json::{Value, json};

use super::super::truth::ground::{Between, End, Family, Ground, PLAIN};
use super::Options;
use super::answers::{Answer, Cause, Diagnosed, Goals, diagnosed, limited, matrix};
use super::draw::Draw;
use causes::{CAUSES, Company, Setup};

/// First argument of the process that relays frames.
pub(super) const RELAY: &str = "undeclared-relay";
/// MTU of the interfaces below a tunnel: packets of 1,500 B fit into it.
const UNDERLAY_MTU: u32 = 1550;
/// Longest diagnosis, s. A longer one counts as failed.
const LONGEST: u64 = 150;
/// Time that linerate serves a foreign program, s. The program would read for longer, so that the
/// record has no idle end.
const SERVING: &str = "8";
const READING: &str = "30";
/// Port of `linerate serve` and of iperf3.
const SERVED: u16 = 8080;
const IPERF: u16 = 5201;
/// Loops on a busy CPU.
const N_LOOPS: usize = 3;
/// Goals of the matrix.
const GOALS: Goals = Goals { named: 0.85, misled: 0.03 };

/// Returns true if `part` is in the name of a cause.
pub(super) fn is_cause(part: &str) -> bool {
    CAUSES.iter().any(|cause| cause.name.contains(part))
}

/// Runs as the relay between two ends.
///
/// # Errors
/// If an argument is wrong or the port is in use.
pub(super) fn relay(arguments: &[String]) -> anyhow::Result<bool> {
    relay::run(arguments)
}

/// Returns the arguments of a relay that delays each frame by `delay` seconds in both directions.
pub(super) fn delaying(seed: u32, delay: f64) -> [String; 3] {
    let hop = json!(relay::Hop { delay, ..relay::Hop::default() }).to_string();
    [seed.to_string(), hop.clone(), hop]
}

/// Diagnoses every cause with every seed, prints the matrix, and returns whether it meets the
/// goals.
pub(super) fn run(program: &Path, options: &Options) -> anyhow::Result<bool> {
    matrix(CAUSES, options, GOALS, &|cause, seed| diagnose(program, cause, seed))
}

/// Makes the path of `cause` and diagnoses it; returns the leading finding and the whole answer
/// beside the path.
fn diagnose(program: &Path, cause: &Cause<Setup>, seed: u32) -> Diagnosed {
    let setup = (cause.setup)(&mut Draw::of(cause.name, u64::from(seed)));
    let ground = Ground::make(program)?;
    let family = if setup.hops.is_some() { Family::Relay } else { Family::V4 };
    let between = match setup.hops {
        Some(_) => Between { family, mtu: UNDERLAY_MTU, ..PLAIN },
        None => Between { family, offloads: true, ..PLAIN },
    };
    ground.lay(&between, true)?;
    let relay = match &setup.hops {
        Some(hops) => {
            let [there, back] = hops.map(|hop| json!(hop).to_string());
            Some(ground.start_relay(&["diagnosis", RELAY], &[seed.to_string(), there, back])?)
        }
        None => None,
    };
    for (end, words) in &setup.commands {
        run_at(&ground, *end, words)?;
    }
    if let Some(rules) = &setup.nft {
        let file = ground.folder.join("rules.nft");
        std::fs::write(&file, rules).with_context(|| format!("write {}", file.display()))?;
        run_at(&ground, End::B, &["nft".into(), "-f".into(), file.display().to_string()])?;
    }
    let mut others = company(&ground, family, &setup)?;
    let begun = Instant::now();
    let found = match setup.company {
        Company::Reader(rate) => foreign(&ground, family, rate),
        _ => own(&ground, family, &setup, seed),
    };
    let seconds = begun.elapsed().as_secs_f64();
    for other in &mut others {
        other.kill().and_then(|()| other.wait()).context("end another program")?;
    }
    let found = found?;
    let answer = Answer::of(&found, seed, seconds);
    let counts = relay.map(|relay| relay.counts()).transpose()?;
    Ok((answer, json!({ "path": setup.hops, "frames": counts, "answer": found })))
}

fn run_at(ground: &Ground, end: End, words: &[String]) -> anyhow::Result<()> {
    let output = ground.command(end, &words[0]).args(&words[1..]).output();
    let output = output.with_context(|| format!("start {}", words[0]))?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{}: {}", words.join(" "), said.trim());
    Ok(())
}

/// Starts the other programs of `setup`.
fn company(ground: &Ground, family: Family, setup: &Setup) -> anyhow::Result<Vec<Child>> {
    match setup.company {
        Company::Iperf(flows) => {
            let mut server = ground.command(End::B, "iperf3");
            server.args(["-s", "-p", &IPERF.to_string()]);
            let server = start(server, "iperf3")?;
            std::thread::sleep(Duration::from_millis(300));
            let mut client = ground.command(End::A, "iperf3");
            client.args(["-c", Ground::address(family, End::B), "-p", &IPERF.to_string()]);
            client.args(["-t", &LONGEST.to_string(), "-P", &flows.to_string()]);
            Ok(vec![start(client, "iperf3")?, server])
        }
        Company::BusyCpu(end) => {
            let cpu = if end == End::A { "0" } else { "1" };
            // The agent's processes; later ones inherit the CPU.
            for process in ground.processes(end)? {
                run_at(
                    ground,
                    end,
                    &["taskset", "-a", "-p", "-c", cpu, &process].map(String::from),
                )?;
            }
            (0..N_LOOPS).map(|_| busy_loop(ground, end, cpu)).collect()
        }
        Company::None | Company::Reader(_) => Ok(Vec::new()),
    }
}

/// Starts a loop on `cpu`, at `end`. It ends with its limit of CPU time at the latest.
fn busy_loop(ground: &Ground, end: End, cpu: &str) -> anyhow::Result<Child> {
    let mut command = ground.command(end, "taskset");
    let limit = LONGEST.to_string();
    // One process, which a kill ends: `timeout` would leave its child.
    command.args(["-c", cpu, "sh", "-c", "ulimit -t \"$0\"; while :; do :; done", &limit]);
    start(command, "a loop")
}

fn start(mut command: Command, what: &str) -> anyhow::Result<Child> {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().with_context(|| format!("start {what}"))
}

/// Runs `linerate diagnose --to` and returns its answer.
fn own(ground: &Ground, family: Family, setup: &Setup, seed: u32) -> anyhow::Result<Value> {
    let limit = LONGEST.to_string();
    let mut before = limited(&limit).to_vec();
    if setup.company == Company::BusyCpu(End::A) {
        before.extend(["taskset", "-c", "0"]);
    }
    let mut command = ground.linerate_by(End::A, &before);
    command
        .args(["--json", "--quiet", "diagnose", "--to", Ground::address(family, End::B)])
        .args(["--limits", "1", "--seed", &seed.to_string(), "--out"])
        .arg(ground.folder.join("ledgers"));
    for param in &setup.params {
        command.args(["--param", param]);
    }
    diagnosed(command)
}

/// Lets curl read from `linerate serve`, and returns the diagnosis of the ledger.
fn foreign(ground: &Ground, family: Family, rate: u32) -> anyhow::Result<Value> {
    let ledger = ground.folder.join("served.ledger");
    let limit = LONGEST.to_string();
    let mut serving = ground.linerate_by(End::A, &limited(&limit));
    serving.args(["serve", "http", "--quiet", "--time", SERVING, "--size", "256M", "--ledger"]);
    serving.arg(&ledger).args(["--port", &SERVED.to_string()]).stdout(Stdio::null());
    let mut serving = serving.spawn().context("start linerate serve")?;
    let mut curl = ground.command(End::B, "curl");
    curl.args(["-s", "-o", "/dev/null", "--max-time", READING, "--limit-rate", &rate.to_string()]);
    curl.args(["--retry", "50", "--retry-delay", "0", "--retry-connrefused"]);
    curl.arg(format!("http://{}:{SERVED}/file", Ground::address(family, End::A)));
    let mut curl = curl.stderr(Stdio::null()).spawn().context("start curl")?;
    serving.wait().context("wait for linerate serve")?;
    curl.kill().and_then(|()| curl.wait()).context("end curl")?;
    let mut judging = ground.linerate_by(End::A, &limited(&limit));
    judging.args(["--json", "--quiet", "diagnose"]).arg(&ledger);
    diagnosed(judging)
}
