//! Processors: model, topology, frequency policy, idle states, virtualisation, clock source.

use std::collections::BTreeSet;

use linerate_model::cpu_list;
use serde_json::{Value, json};

use super::root::{Root, unavailable};

const CPUS: &str = "sys/devices/system/cpu";

pub(super) fn cpu(root: &Root) -> Value {
    let cpuinfo = root.text("proc/cpuinfo").unwrap_or_default();
    let online = root
        .text(&format!("{CPUS}/online"))
        .ok()
        .and_then(|text| cpu_list(&text))
        .unwrap_or_default();
    let flags: BTreeSet<&str> =
        field(&cpuinfo, "flags").unwrap_or_default().split_whitespace().collect();
    let topology =
        |cpu: usize, name: &str| root.text(&format!("{CPUS}/cpu{cpu}/topology/{name}")).ok();
    let sockets: BTreeSet<_> =
        // Core numbers repeat in each socket, so both identify a core.
        online.iter().filter_map(|&cpu| topology(cpu, "physical_package_id")).collect();
    let core = |cpu| Some((topology(cpu, "physical_package_id")?, topology(cpu, "core_id")?));
    let cores: BTreeSet<_> = online.iter().filter_map(|&cpu| core(cpu)).collect();
    let known = |n: usize, what: &str| {
        if n > 0 { json!(n) } else { unavailable(format!("/{CPUS} has no {what}")) }
    };
    let governors: BTreeSet<_> =
        online.iter().filter_map(|cpu| policy(root, *cpu, "scaling_governor")).collect();
    let nodes = root.text("sys/devices/system/node/online").ok().and_then(|text| cpu_list(&text));
    let allowed = linerate_sys::cpu::allowed().map_or_else(unavailable, |cpus| json!(cpus));
    json!({
        "model": model(root, &cpuinfo),
        "microcode": field(&cpuinfo, "microcode").map_or_else(|| unavailable("/proc/cpuinfo has no \
            microcode"), |m| json!(m)),
        "count": known(online.len(), "list of online CPUs"),
        "allowed": allowed,
        "sockets": known(sockets.len(), "topology"),
        "cores": known(cores.len(), "topology"),
        "smt": root.text(&format!("{CPUS}/smt/active")).map_or_else(|why| why,
            |active| json!(active == "1")),
        "numa_nodes": nodes.map_or_else(|| unavailable("/sys/devices/system/node is not \
            there"), |nodes| json!(nodes.len())),
        "isolated": root.string(&format!("{CPUS}/isolated")),
        "governor": match governors.len() {
            0 => unavailable("no cpufreq: a virtual machine, or no cpufreq driver"),
            1 => json!(governors.first()),
            _ => json!(governors),
        },
        "turbo": turbo(root),
        "max_frequency_hz": max_frequency(root, &online),
        "idle_states": idle_states(root),
        "virtual": if cpuinfo.is_empty() { unavailable("read \
            /proc/cpuinfo") } else { json!(flags.contains("hypervisor")) },
        "tsc": if flags.is_empty() { unavailable("no flags in /proc/cpuinfo") } else {
            json!({ "constant": flags.contains("constant_tsc"),
                "nonstop": flags.contains("nonstop_tsc") })
        },
        "clocksource": root.string(
            "sys/devices/system/clocksource/clocksource0/current_clocksource"),
    })
}

/// The first value of `name` in `/proc/cpuinfo`.
fn field<'a>(cpuinfo: &'a str, name: &str) -> Option<&'a str> {
    let mut fields = cpuinfo.lines().filter_map(|line| line.split_once(':'));
    fields.find(|(key, _)| key.trim() == name).map(|(_, value)| value.trim())
}

/// x86 says the model; Arm gives part numbers, and boards their name in the device tree.
fn model(root: &Root, cpuinfo: &str) -> Value {
    let model = field(cpuinfo, "model name").map(str::to_owned).or_else(|| part(root, cpuinfo));
    model.map_or_else(|| unavailable("/proc/cpuinfo names no model"), Value::String)
}

/// Returns the implementer and part of an Arm CPU, and the board.
fn part(root: &Root, cpuinfo: &str) -> Option<String> {
    let (implementer, part) = (field(cpuinfo, "CPU implementer")?, field(cpuinfo, "CPU part")?);
    let board =
        root.text("proc/device-tree/model").map(|board| format!(", {board}")).unwrap_or_default();
    Some(format!("implementer {implementer} part {part}{board}"))
}

fn policy(root: &Root, cpu: usize, name: &str) -> Option<String> {
    root.text(&format!("{CPUS}/cpu{cpu}/cpufreq/{name}")).ok()
}

fn turbo(root: &Root) -> Value {
    let no_turbo = root.text(&format!("{CPUS}/intel_pstate/no_turbo")).map(|text| text == "0");
    // Drivers other than intel_pstate have the switch with the opposite meaning.
    let boost = || root.text(&format!("{CPUS}/cpufreq/boost")).map(|text| text == "1");
    let why = |_| {
        unavailable("neither intel_pstate/no_turbo nor cpufreq/boost in /sys/devices/system/cpu")
    };
    no_turbo.or_else(|_| boost()).map_or_else(why, |on| json!(on))
}

fn max_frequency(root: &Root, online: &[usize]) -> Value {
    const HERTZ_PER_KILOHERTZ: u64 = 1000;
    let of_cpu = |&cpu: &usize| policy(root, cpu, "cpuinfo_max_freq")?.parse::<u64>().ok();
    let fastest = online.iter().filter_map(of_cpu).max();
    fastest.map_or_else(
        || unavailable("no cpufreq"),
        |khz| json!(khz.saturating_mul(HERTZ_PER_KILOHERTZ)),
    )
}

/// Idle states of CPU 0 with their exit latency and whether they are off.
fn idle_states(root: &Root) -> Value {
    let folder = format!("{CPUS}/cpu0/cpuidle");
    let states = root.names(&folder);
    if states.is_empty() {
        return unavailable("no cpuidle driver: a virtual machine, or idle=poll");
    }
    states
        .iter()
        .map(|state| {
            json!({
                "name": root.string(&format!("{folder}/{state}/name")),
                "exit_latency_us": root.number(&format!("{folder}/{state}/latency")),
                "disabled": root.text(&format!("{folder}/{state}/disable")).map_or_else(|why| why,
                    |off| json!(off != "0")),
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_described_from_its_files() {
        let root = Root(concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/sysfs-two-ports").into());
        let cpu = cpu(&root);
        let figures = ["count", "sockets", "cores", "numa_nodes"].map(|key| cpu[key].as_u64());
        assert_eq!(figures, [4, 1, 2, 1].map(Some));
        assert_eq!(
            (&cpu["model"], &cpu["virtual"]),
            (&json!("Example Server CPU 4310"), &json!(false))
        );
        assert_eq!((&cpu["governor"], &cpu["turbo"]), (&json!("performance"), &json!(true)));
        assert_eq!(
            (&cpu["smt"], &cpu["max_frequency_hz"]),
            (&json!(true), &json!(3_300_000_000_u64))
        );
        assert_eq!(cpu["idle_states"][0]["name"], "POLL");
        assert_eq!(cpu["tsc"], json!({ "constant": true, "nonstop": true }));
    }
}
