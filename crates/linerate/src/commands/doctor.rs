//! `linerate doctor`: what this host can and cannot measure, with the tool's own ceiling.

use std::time::Duration;

use linerate_load::engine::{Engine, Timeline};
use linerate_load::{Offer, Secret, Setup, workload};
use linerate_model::{Counter, Endpoint, Nanos, Params};
use linerate_observe::{SAMPLERS, Scope};
use serde_json::{Value, json};

use crate::exit::{Exit, Outcome};
use crate::sandbox;

/// How long the tool measures itself.
const SELF_TEST: Nanos = Nanos::from_millis(300);

/// One thing that was looked at.
struct Check {
    subject: String,
    good: bool,
    seen: String,
    remedy: Option<String>,
}

impl Check {
    fn good(subject: impl Into<String>, seen: impl Into<String>) -> Self {
        Self { subject: subject.into(), good: true, seen: seen.into(), remedy: None }
    }

    fn lacking(subject: impl Into<String>, seen: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { subject: subject.into(), good: false, seen: seen.into(), remedy: Some(remedy.into()) }
    }
}

/// Looks at everything and prints it. What is lacking is no failure: the report will show the gap.
pub(crate) fn run(as_json: bool) -> Outcome {
    let facts = linerate_observe::facts();
    let mut checks = vec![own_ceiling(), lab(), cpus(&facts), clocksource(&facts), congestion(&facts), buffers(&facts)];
    checks.extend(samplers());
    if as_json {
        let list: Vec<Value> = checks
            .iter()
            .map(|c| json!({ "subject": c.subject, "good": c.good, "seen": c.seen, "remedy": c.remedy }))
            .collect();
        println!("{}", json!({ "checks": list }));
        return Ok(Exit::Done);
    }
    let width = checks.iter().map(|check| check.subject.len()).max().unwrap_or(0);
    for check in &checks {
        println!("{} {:width$}  {}", if check.good { "ok  " } else { "lack" }, check.subject, check.seen);
        if let Some(remedy) = &check.remedy {
            println!("     {:width$}  -> {remedy}", "");
        }
    }
    Ok(Exit::Done)
}

/// The cost of one engine step with nothing in it.
fn own_ceiling() -> Check {
    let subject = "the tool's own ceiling";
    match null_step() {
        Some(step_ns) => {
            let rate = 1e9 / step_ns;
            Check::good(
                subject,
                format!("{step_ns:.1} ns of CPU a step, {:.1} million steps per second and worker", rate / 1e6),
            )
        }
        None => Check::lacking(subject, "the null workload could not be run", "report this as a defect"),
    }
}

fn null_step() -> Option<f64> {
    let params = Params::default();
    let local = Endpoint {
        name: "a".into(),
        host: "local".into(),
        address: None,
        device: None,
        cpus: Vec::new(),
        pin: false,
        ncsi: None,
    };
    let setup = Setup {
        params: &params,
        local: &local,
        seed: 0,
        secret: Secret([0; 16]),
        patience: Duration::from_secs(1),
        loaded: SELF_TEST.into(),
    };
    let workers = workload("null")?.connect(&setup, &Offer { addresses: Vec::new() }).ok()?;
    let start = Nanos(linerate_sys::clock::monotonic()) + Nanos::from_millis(5);
    let end = start + SELF_TEST;
    let timeline =
        Timeline { start, load_from: start, load_until: end, drain_until: end, interval: Nanos::from_millis(100) };
    let report = Engine::start(workers, timeline, &[], 0).join();
    let total = |counter| report.intervals.iter().map(|interval| interval.counters[counter]).sum::<u64>();
    let (steps, cpu) = (total(Counter::Steps), total(Counter::CpuUser) + total(Counter::CpuSystem));
    (steps > 0).then(|| cpu as f64 / steps as f64)
}

fn lab() -> Check {
    let subject = "labs (demo, reproduce, run --lab)";
    let missing = sandbox::missing_tools();
    if !missing.is_empty() {
        return Check::lacking(
            subject,
            format!("{} not installed", missing.join(", ")),
            "apt install iproute2 ethtool procps",
        );
    }
    match (sandbox::is_root(), sandbox::possible()) {
        (true, _) => Check::good(subject, "root: network namespaces can be made"),
        (false, true) => Check::good(subject, "unprivileged user namespaces are allowed"),
        (false, false) => Check::lacking(
            subject,
            "neither root nor user namespaces",
            "run as root, or sysctl -w kernel.unprivileged_userns_clone=1",
        ),
    }
}

fn text<'a>(facts: &'a Value, pointer: &str) -> Option<&'a str> {
    facts.pointer(pointer).and_then(Value::as_str)
}

fn cpus(facts: &Value) -> Check {
    let subject = "CPUs";
    let count = facts.pointer("/cpu/count").and_then(Value::as_u64).unwrap_or(0);
    let model = text(facts, "/cpu/model").unwrap_or("unknown model");
    let governor = text(facts, "/cpu/governor");
    let seen = format!("{count}, {model}{}", governor.map(|g| format!(", governor {g}")).unwrap_or_default());
    match governor {
        Some(governor) if governor != "performance" => {
            Check::lacking(subject, seen, "cpupower frequency-set -g performance, for figures that do not wander")
        }
        _ => Check::good(subject, seen),
    }
}

fn clocksource(facts: &Value) -> Check {
    let subject = "clock source";
    match text(facts, "/cpu/clocksource") {
        Some(source @ ("tsc" | "arch_sys_counter" | "kvm-clock")) => Check::good(subject, source),
        Some(source) => Check::lacking(
            subject,
            format!("{source}: each reading is a system call"),
            "boot with clocksource=tsc if the hardware allows",
        ),
        None => Check::lacking(subject, "unknown", "mount sysfs"),
    }
}

fn congestion(facts: &Value) -> Check {
    let subject = "congestion control";
    let read = |key: &str| text(facts, &format!("/net/{key}")).unwrap_or("unknown").to_owned();
    let seen = format!("default {}, available {}", read("congestion_control"), read("available_congestion_control"));
    Check::good(subject, format!("{seen}; linerate sets it for each connection and records what was granted"))
}

fn buffers(facts: &Value) -> Check {
    /// Buffer from which UDP at millions of datagrams a second no longer drops on a busy receiver.
    const WANTED: u64 = 8 << 20;
    let subject = "socket buffer limits";
    let number = |key: &str| {
        let value = facts.pointer(&format!("/net/{key}"));
        value.and_then(|v| v.as_u64().or_else(|| v.as_str().and_then(|t| t.trim().parse().ok()))).unwrap_or(0)
    };
    let (receive, send) = (number("rmem_max"), number("wmem_max"));
    let seen = format!("receive {receive} B, send {send} B");
    if receive < WANTED && !sandbox::is_root() {
        return Check::lacking(
            subject,
            seen,
            format!("sysctl -w net.core.rmem_max={WANTED} net.core.wmem_max={WANTED}, or run as root"),
        );
    }
    Check::good(subject, seen)
}

/// One line for each sampler that cannot be opened, and one for all that can.
fn samplers() -> Vec<Check> {
    let scope = Scope::default();
    let mut open = Vec::new();
    let mut checks = Vec::new();
    for sampler in SAMPLERS {
        match sampler.open(&scope) {
            Ok(_) => open.push(sampler.name()),
            Err(why) => checks.push(Check::lacking(
                format!("sampler {}", sampler.name()),
                why.to_string(),
                "the report will show this gap",
            )),
        }
    }
    checks.insert(0, Check::good("samplers", open.join(", ")));
    checks
}
