//! `cargo xtask bench diagnosis --undeclared`: the confusion matrix of `linerate diagnose` on paths
//! whose capacity nobody declared.
//!
//! Two network namespaces are joined by a relay of this bench, or by a bridge. Limits are made by
//! the relay, `tc`, `nft`, `sysctl`, busy loops, iperf3 and curl. `linerate diagnose --to` runs
//! unmodified at one end, with an agent at the other; where a foreign program reads or writes,
//! `linerate serve` records and `linerate diagnose LEDGER` judges. Not covered: network cards,
//! wireless links, and causes that two namespaces on one machine cannot have.

mod causes;
pub(super) mod draw;
mod relay;

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use serde_json::{Value, json};

use super::super::options::{keep, kept};
use super::super::truth::ground::{Between, End, Family, Ground, PLAIN};
use super::answers::{Answer, Answers, Goals, Grade, Injected, document};
use super::{Options, side_by_side};
use causes::{CAUSES, Cause, Company, Setup};
use draw::Draw;

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

/// Returns every cause with the rules that name it.
fn injected() -> Vec<Injected<'static>> {
    CAUSES.iter().map(|cause| (cause.name, cause.accepted)).collect()
}

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

/// Diagnoses every cause with every seed, prints the matrix, and returns whether it meets the
/// goals.
pub(super) fn run(program: &Path, options: &Options) -> anyhow::Result<bool> {
    let answers: Mutex<Answers> = Mutex::new(kept(options.keep.as_deref())?);
    for seed in options.first..options.first + options.seeds {
        let (alone, together): (Vec<&Cause>, Vec<&Cause>) = {
            let kept = answers.lock().unwrap_or_else(PoisonError::into_inner);
            let wanted = CAUSES.iter().filter(|cause| is_wanted(cause, &kept, options, seed));
            wanted.partition(|cause| cause.is_alone)
        };
        for (causes, n_at_once) in [(together, options.jobs), (alone, 1)] {
            side_by_side(&causes, n_at_once, &|cause| {
                let answer = answer(program, cause, seed);
                let mut answers = answers.lock().unwrap_or_else(PoisonError::into_inner);
                answers.entry(cause.name.to_owned()).or_default().push(answer);
                keep(options.keep.as_deref(), serde_json::to_string(&*answers)?)
            })?;
        }
    }
    let answers = answers.into_inner().unwrap_or_else(PoisonError::into_inner);
    let (text, is_good) = document(&injected(), &answers, GOALS);
    print!("{text}");
    keep(options.out.as_deref(), &text)?;
    Ok(is_good)
}

/// Returns true if `cause` was asked for and has no answer with this seed.
fn is_wanted(cause: &Cause, kept: &Answers, options: &Options, seed: u32) -> bool {
    let is_kept = |of: &Vec<Answer>| of.iter().any(|answer| answer.seed == seed);
    !kept.get(cause.name).is_some_and(is_kept)
        && options.only.as_deref().is_none_or(|only| cause.name.contains(only))
}

/// Diagnoses `cause` and prints the answer, in full if it does not name the cause.
fn answer(program: &Path, cause: &Cause, seed: u32) -> Answer {
    let diagnosed = diagnose(program, cause, seed);
    let (answer, whole) = diagnosed.unwrap_or_else(|error| {
        eprintln!("{}, seed {seed}: {error:#}", cause.name);
        (Answer::failed(seed), Value::Null)
    });
    let grade = answer.grade(cause.accepted);
    eprintln!(
        "seed {seed}, {}: {grade:?}: {} ({}), {:.0} s",
        cause.name, answer.rule, answer.verdict, answer.seconds
    );
    if grade != Grade::Named {
        eprintln!("{whole:#}");
    }
    answer
}

/// Makes the path of `cause` and diagnoses it; returns the leading finding and the whole answer
/// beside the path.
fn diagnose(program: &Path, cause: &Cause, seed: u32) -> anyhow::Result<(Answer, Value)> {
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

/// Starts a loop on `cpu`, at `end`. It ends with its time limit at the latest.
fn busy_loop(ground: &Ground, end: End, cpu: &str) -> anyhow::Result<Child> {
    let mut command = ground.command(end, "taskset");
    let limit = LONGEST.to_string();
    command.args(["-c", cpu, "timeout", &limit, "sh", "-c", "while :; do :; done"]);
    start(command, "a loop")
}

fn start(mut command: Command, what: &str) -> anyhow::Result<Child> {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().with_context(|| format!("start {what}"))
}

/// Returns the words before a command that end it after `limit` seconds, whatever it does: the
/// matrix goes on with the next cause.
pub(super) const fn limited(limit: &str) -> [&str; 4] {
    ["timeout", "-k", "10", limit]
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
    parsed(command)
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
    parsed(judging)
}

pub(super) fn parsed(mut command: Command) -> anyhow::Result<Value> {
    let output = command.stdin(Stdio::null()).output().context("start linerate diagnose")?;
    serde_json::from_slice(&output.stdout).with_context(|| {
        format!(
            "linerate diagnose ended with {} and printed no JSON: {}",
            output.status,
            String::from_utf8_lossy(&output.stderr).trim()
        )
    })
}

#[cfg(test)]
mod tests {
    use super::super::FAILED;
    use super::*;

    fn answered(rule: &str, verdict: &str) -> Answer {
        Answer { seed: 1, rule: rule.into(), verdict: verdict.into(), seconds: 20.0 }
    }

    #[test]
    fn an_answer_is_named_unknown_wrong_or_failed() {
        let of = |name: &str| CAUSES.iter().find(|cause| cause.name == name).expect("a cause");
        let grade = |name, rule, verdict| answered(rule, verdict).grade(of(name).accepted);
        assert_eq!(grade("policer", "policer", "suspected"), Grade::Named);
        assert_eq!(grade("policer", "policer", "inconclusive"), Grade::Unknown);
        assert_eq!(grade("policer", "unknown", "inconclusive"), Grade::Unknown);
        assert_eq!(grade("no fault", "unknown", "inconclusive"), Grade::Named);
        assert_eq!(grade("policer", "path_loss", "suspected"), Grade::SuspectedWrongly);
        assert_eq!(grade("policer", "path_loss", "proven"), Grade::ProvenWrongly);
        assert_eq!(grade("policer", FAILED, "inconclusive"), Grade::Failed);
    }

    #[test]
    fn the_goals_are_met_only_without_failures_and_wrong_proofs() {
        let judged = |worst: Answer| {
            let mut of = vec![answered("policer", "suspected"); 39];
            of.push(worst);
            document(&injected(), &Answers::from([("policer".to_owned(), of)]), GOALS)
        };
        let (text, is_good) = judged(answered("path_loss", "suspected"));
        assert!(is_good && text.contains("39 of 40 causes were named: 0.975"), "{text}");
        assert!(!judged(answered("path_loss", "proven")).1);
        assert!(!judged(answered(FAILED, "inconclusive")).1);
    }
}
