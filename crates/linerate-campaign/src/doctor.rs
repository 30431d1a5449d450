//! Checks of a host: which measurements it allows, and how fast this program is itself.

use std::net::{Ipv4Addr, UdpSocket};

use linerate_load::engine::{Engine, Timeline};
use linerate_load::workloads::UDP_RECEIVE_BUFFER;
use linerate_load::{Offer, Secret, Setup, workload};
use linerate_model::{Bytes, Counter, Endpoint, Nanos, Params};
use linerate_observe::{SAMPLERS, Scope};
use linerate_sys::socket::{Buffer, set_buffer};
use serde::Serialize;
use serde_json::Value;

use crate::{Result, sandbox};
use linerate_agent::policy::{Policy, Separation, USUAL};
use linerate_agent::separation::{self, Tried};

/// Length of the self-test.
const SELF_TEST: Nanos = Nanos::from_millis(300);

/// Result of one check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Check {
    /// Subject of the check.
    pub subject: String,
    /// True if nothing is missing.
    pub good: bool,
    /// The value found.
    pub seen: String,
    /// Remedy, if something is missing.
    pub remedy: Option<String>,
}

impl Check {
    /// Returns a check that found nothing missing.
    pub fn good(subject: impl Into<String>, seen: impl Into<String>) -> Self {
        Self { subject: subject.into(), good: true, seen: seen.into(), remedy: None }
    }

    /// Returns a check that found something missing.
    pub fn lacking(
        subject: impl Into<String>,
        seen: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self {
            subject: subject.into(),
            good: false,
            seen: seen.into(),
            remedy: Some(remedy.into()),
        }
    }
}

/// Runs every check of this host. This process must have one thread: a process is split off.
#[must_use]
pub fn checks() -> Vec<Check> {
    let agent = agent();
    let facts = linerate_observe::facts();
    let mut checks = vec![
        agent,
        own_ceiling(),
        lab(),
        cpus(&facts),
        clocksource(&facts),
        congestion(&facts),
        buffers(&facts),
    ];
    checks.extend(samplers());
    checks
}

/// Tests whether an agent started here would separate its privileges.
fn agent() -> Check {
    let subject = "agent's separation";
    // The policy of the next agent decides, not options given here.
    let policy = match Policy::usual() {
        Ok(policy) => policy,
        Err(why) => return Check::lacking(subject, "an agent would not start", why.message()),
    };
    let Separation::Separated(user) = policy.separation else {
        return Check::lacking(
            subject,
            "an agent would keep all rights of its account",
            format!("remove `separate = false` from {USUAL}"),
        );
    };
    separated(subject, separation::tried(user.as_deref()))
}

fn separated(subject: &str, tried: Result<Tried>) -> Check {
    match tried {
        Ok(tried) if tried.remedies.is_empty() => Check::good(subject, tried.seen),
        Ok(tried) => Check::lacking(subject, tried.seen, tried.remedies.join("; ")),
        Err(why) => Check::lacking(subject, "an agent would not start", why.message()),
    }
}

/// Measures the cost of an engine step that does nothing.
fn own_ceiling() -> Check {
    let subject = "the tool's own ceiling";
    match null_step() {
        Some(step_ns) => {
            let rate = 1e9 / step_ns;
            Check::good(
                subject,
                format!(
                    "{step_ns:.1} ns of CPU a step, {:.1} million steps per second and worker",
                    rate / 1e6
                ),
            )
        }
        None => Check::lacking(
            subject,
            "the null workload could not be run",
            "please report this as a defect",
        ),
    }
}

fn null_step() -> Option<f64> {
    let params = Params::default();
    let local = Endpoint::named("a", "local");
    // No peer, no address and no disk: the step measures the engine alone.
    let setup =
        Setup { loaded: SELF_TEST.into(), ..Setup::alone(&params, &local, Secret([0; 16])) };
    let workers = workload("null")?.connect(&setup, &Offer { addresses: Vec::new() }).ok()?;
    // Threads start before the common start time, or the first interval would be short.
    let start = Nanos(linerate_sys::clock::monotonic()) + Nanos::from_millis(5);
    let end = start + SELF_TEST;
    let timeline = Timeline {
        start,
        load_from: start,
        load_until: end,
        drain_until: end,
        interval: Nanos::from_millis(100),
    };
    // The real engine is used, so that the figure includes what every load pays.
    let report = Engine::start(workers, timeline, &[], 0).join();
    let total =
        |counter| report.intervals.iter().map(|interval| interval.counters[counter]).sum::<u64>();
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
    match (sandbox::possible(), sandbox::is_root()) {
        (Ok(()), true) => Check::good(subject, "root: network namespaces can be made"),
        (Ok(()), false) => Check::good(subject, "unprivileged user namespaces are allowed"),
        (Err(cause), _) => Check::lacking(subject, cause, sandbox::remedy()),
    }
}

fn text<'a>(facts: &'a Value, pointer: &str) -> Option<&'a str> {
    facts.pointer(pointer).and_then(Value::as_str)
}

fn cpus(facts: &Value) -> Check {
    let subject = "CPUs";
    let count = facts.pointer("/cpu/count").and_then(Value::as_u64).unwrap_or(0);
    let model = text(facts, "/cpu/model").unwrap_or("unknown model");
    // One governor for all CPUs, or a list where they differ. A virtual machine has none.
    let governors: Vec<&str> = match facts.pointer("/cpu/governor") {
        Some(Value::Array(list)) => list.iter().filter_map(Value::as_str).collect(),
        one => one.and_then(Value::as_str).into_iter().collect(),
    };
    let seen = format!("{count}, {model}");
    if governors.is_empty() {
        return Check::good(subject, seen);
    }
    let seen = format!("{seen}, governor {}", governors.join(" and "));
    // A list shows CPUs with different governors, which is never as steady as one.
    if governors == ["performance"] {
        return Check::good(subject, seen);
    }
    Check::lacking(subject, seen, "cpupower frequency-set -g performance, for steady figures")
}

fn clocksource(facts: &Value) -> Check {
    /// Sources that the kernel's vDSO cannot read: each reading is a system call
    /// (`vdso_clock_mode` in Linux).
    const SLOW: [&str; 4] = ["acpi_pm", "hpet", "jiffies", "refined-jiffies"];
    const AVAILABLE: &str = "/sys/devices/system/clocksource/clocksource0/available_clocksource";
    let subject = "clock source";
    match text(facts, "/cpu/clocksource") {
        None => Check::lacking(subject, "unknown", "mount sysfs on /sys"),
        Some(source) if SLOW.contains(&source) => {
            let available = std::fs::read_to_string(AVAILABLE).unwrap_or_default();
            // Only a source that the kernel offers can be selected.
            let remedy = if available.split_whitespace().any(|name| name == "tsc") {
                "echo tsc > /sys/devices/system/clocksource/clocksource0/current_clocksource"
            } else {
                "none while this kernel runs: it offers no tsc (dmesg says why). Boot with \
                    tsc=reliable if \
                    the processor's is"
            };
            Check::lacking(subject, format!("{source}: each reading is a system call"), remedy)
        }
        Some(source) => Check::good(subject, source),
    }
}

fn congestion(facts: &Value) -> Check {
    /// The workloads' default.
    const ASKED: &str = "cubic";
    let subject = "congestion control";
    let read = |key: &str| text(facts, &format!("/net/{key}")).unwrap_or("unknown").to_owned();
    let available = read("available_congestion_control");
    let seen = format!("default {}, available {available}", read("congestion_control"));
    if available.split_whitespace().any(|name| name == ASKED) {
        return Check::good(
            subject,
            format!("{seen}; linerate sets it for each connection and records the one in use"),
        );
    }
    Check::lacking(subject, seen, format!("modprobe tcp_{ASKED}, the default of the workloads"))
}

/// Tests whether the kernel grants the receive buffer of `udp_stream`. Privileges and limits both
/// count, so a socket is asked.
fn buffers(facts: &Value) -> Check {
    let subject = "socket buffer limits";
    let wanted = UDP_RECEIVE_BUFFER.0;
    let limit = facts.pointer("/net/rmem_max").and_then(Value::as_u64);
    let limit = limit.map_or_else(String::new, |limit| format!(" (net.core.rmem_max {limit})"));
    match granted_receive_buffer(wanted) {
        Ok(granted) if granted >= wanted => Check::good(
            subject,
            format!("receive {UDP_RECEIVE_BUFFER}, as udp_stream asks for, is granted{limit}"),
        ),
        Ok(granted) => Check::lacking(
            subject,
            format!(
                "receive {} of the {UDP_RECEIVE_BUFFER} udp_stream asks for{limit}",
                Bytes(granted)
            ),
            format!("sysctl -w net.core.rmem_max={wanted}, or run with CAP_NET_ADMIN"),
        ),
        Err(cause) => Check::lacking(subject, cause, "allow UDP sockets on 127.0.0.1"),
    }
}

/// Returns the bytes of the receive buffer that the kernel grants a socket.
fn granted_receive_buffer(wanted: u64) -> Result<u64, String> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).map_err(|error| error.to_string())?;
    let bytes = usize::try_from(wanted).unwrap_or(usize::MAX);
    // The kernel counts double, to have room for its own records.
    let granted =
        set_buffer(&socket, Buffer::Receive, bytes).map_err(|error| error.to_string())? / 2;
    Ok(granted as u64)
}

/// Returns a check for each sampler that cannot be opened, and one for all others.
fn samplers() -> Vec<Check> {
    let scope = Scope::default();
    let mut open = Vec::new();
    let mut checks = Vec::new();
    for sampler in SAMPLERS {
        match (sampler.open)(&scope) {
            Ok(_) => open.push(sampler.name),
            // A missing sampler leaves a gap in the report and prevents nothing.
            Err(why) => checks.push(Check::lacking(
                format!("sampler {}", sampler.name),
                why.to_string(),
                "none needed; reports will lack its readings",
            )),
        }
    }
    checks.insert(0, Check::good("samplers", open.join(", ")));
    checks
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Failure;

    #[test]
    fn a_weaker_separation_is_lacking_with_every_remedy() {
        let of = |remedies: &[&str]| {
            let remedies = remedies.iter().map(|&remedy| remedy.to_owned()).collect();
            separated("agent", Ok(Tried { seen: "serving".to_owned(), remedies }))
        };
        assert_eq!(of(&[]), Check::good("agent", "serving"));
        assert_eq!(of(&["a", "b"]), Check::lacking("agent", "serving", "a; b"));
        let no_user = separated("agent", Err(Failure::missing("no user")));
        assert_eq!(no_user, Check::lacking("agent", "an agent would not start", "no user"));
    }
}
