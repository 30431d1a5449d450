//! Differences between the environments of two campaigns, ranked as causes of a change.
//!
//! Facts are compared leaf by leaf, host by host (by name, otherwise in order). Of interfaces, only
//! those the campaigns used are compared, where they name any. Values that differ on every start
//! (numbers assigned by the kernel, addresses) are left out because they are no cause. A difference
//! ranks first by whether it affects a kind of figure that changed, then by how often its kind is
//! the cause. A rank is an opinion, not a proof: the proof is a run with that difference alone.

use std::collections::{BTreeMap, BTreeSet};

use linerate_model::{Campaign, HostRecord, MetricGroup};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Kinds of figures a difference reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Touch {
    /// Throughput and rates.
    Rate,
    /// Times.
    Time,
    /// CPU cost.
    Cost,
    /// Loss and retransmission.
    Loss,
}

/// Way in which a fact affects figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mechanism {
    /// The capacity of the path.
    Capacity,
    /// The rate of a port.
    PortRate,
    /// Collisions of half duplex.
    HalfDuplex,
    /// The cost of each packet.
    PacketSize,
    /// Segments that the CPU handles instead of the device.
    Offloads,
    /// The number of CPUs that share the packets.
    Queues,
    /// The CPU that gets a flow.
    FlowHash,
    /// Other work on the CPU of the interrupts.
    InterruptCpu,
    /// Time that packets wait for the interrupt.
    Coalescing,
    /// Bursts that a ring holds.
    Rings,
    /// A queueing discipline.
    Qdisc,
    /// Pause frames.
    PauseFrames,
    /// The driver of a device.
    Driver,
    /// The firmware of a device.
    Firmware,
    /// The width and speed of a slot.
    Slot,
    /// The receive window.
    ReceiveWindow,
    /// The data in flight.
    DataInFlight,
    /// The largest receive buffer of a program.
    LargestReceiveBuffer,
    /// The largest send buffer of a program.
    LargestSendBuffer,
    /// The reaction to loss and delay.
    CongestionControl,
    /// Pacing and queueing by default.
    DefaultQdisc,
    /// Another network setting of the kernel.
    KernelNetwork,
    /// A quota of CPU time.
    CpuQuota,
    /// The clock of the CPUs.
    CpuClock,
    /// Time that a sleeping CPU takes to wake.
    CpuSleep,
    /// The processor.
    Processor,
    /// The cost of a system call.
    Mitigations,
    /// The kernel.
    Kernel,
    /// Memory bandwidth and page sizes.
    Memory,
    /// A disk, its scheduler or its cache.
    Disk,
    /// The tool.
    Linerate,
    /// Other programs on the CPUs.
    OtherPrograms,
    /// Not known.
    Unknown,
}

/// A difference between the two environments.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cause {
    /// The host it is on; empty for what belongs to the whole campaign.
    pub host: String,
    /// Dotted name of the fact, e.g. `cpu.governor`.
    pub name: String,
    /// Value before; empty if it was absent.
    pub before: String,
    /// Value after.
    pub after: String,
    /// True if it affects a kind of figure that changed.
    pub explains: bool,
    /// How often its kind is the cause: 1 is often, 4 is seldom.
    pub rank: u8,
    /// Its effect.
    pub mechanism: Mechanism,
}

/// A known kind of fact: the beginning of its name (`*` matches one part), its rank, the figures it
/// affects and how.
type Known = (&'static str, u8, &'static [Touch], Mechanism);

use Touch::{Cost, Loss, Rate, Time};

/// Known kinds. The first matching entry is used.
const KNOWN: [Known; 34] = [
    ("path", 1, &[Rate, Time, Loss], Mechanism::Capacity),
    ("interfaces.*.speed_bps", 1, &[Rate, Time], Mechanism::PortRate),
    ("interfaces.*.duplex", 1, &[Rate, Loss], Mechanism::HalfDuplex),
    ("interfaces.*.mtu", 1, &[Rate, Cost], Mechanism::PacketSize),
    ("interfaces.*.offloads", 1, &[Rate, Cost, Time], Mechanism::Offloads),
    ("interfaces.*.channels", 1, &[Rate, Cost], Mechanism::Queues),
    ("interfaces.*.queues", 1, &[Rate, Cost], Mechanism::Queues),
    ("interfaces.*.rss", 2, &[Rate, Cost], Mechanism::FlowHash),
    ("interfaces.*.irqs", 2, &[Rate, Cost, Time], Mechanism::InterruptCpu),
    ("interfaces.*.coalescing", 1, &[Time, Cost], Mechanism::Coalescing),
    ("interfaces.*.rings", 2, &[Loss, Time], Mechanism::Rings),
    ("interfaces.*.qdiscs", 1, &[Rate, Time, Loss], Mechanism::Qdisc),
    ("interfaces.*.pause", 2, &[Rate, Loss], Mechanism::PauseFrames),
    ("interfaces.*.driver", 1, &[Rate, Cost, Time], Mechanism::Driver),
    ("interfaces.*.firmware", 2, &[Rate, Loss, Time], Mechanism::Firmware),
    ("interfaces.*.pcie", 1, &[Rate], Mechanism::Slot),
    ("pcie", 2, &[Rate], Mechanism::Slot),
    ("net.tcp_rmem", 1, &[Rate], Mechanism::ReceiveWindow),
    ("net.tcp_wmem", 1, &[Rate], Mechanism::DataInFlight),
    ("net.rmem_max", 2, &[Rate, Loss], Mechanism::LargestReceiveBuffer),
    ("net.wmem_max", 2, &[Rate], Mechanism::LargestSendBuffer),
    ("net.congestion_control", 1, &[Rate, Time, Loss], Mechanism::CongestionControl),
    ("net.default_qdisc", 2, &[Rate, Time], Mechanism::DefaultQdisc),
    ("net", 3, &[Rate, Time, Cost, Loss], Mechanism::KernelNetwork),
    ("cgroup", 1, &[Rate, Cost, Time], Mechanism::CpuQuota),
    ("cpu.governor", 1, &[Rate, Cost, Time], Mechanism::CpuClock),
    ("cpu.turbo", 1, &[Rate, Cost, Time], Mechanism::CpuClock),
    ("cpu.idle_states", 2, &[Time], Mechanism::CpuSleep),
    ("cpu", 2, &[Rate, Cost, Time], Mechanism::Processor),
    ("kernel.mitigations", 2, &[Cost, Time], Mechanism::Mitigations),
    ("kernel", 2, &[Rate, Cost, Time], Mechanism::Kernel),
    ("memory", 3, &[Rate, Cost], Mechanism::Memory),
    ("block", 2, &[Rate, Time], Mechanism::Disk),
    ("linerate", 3, &[Rate, Cost, Time], Mechanism::Linerate),
];

/// Facts that differ on every start and cause nothing.
const INCIDENTAL: [&str; 9] = [
    "host",
    "kernel.boot_id",
    "kernel.version",
    "interfaces.*.index",
    "interfaces.*.addresses",
    "interfaces.*.mac",
    "clock",
    "process",
    "time",
];

/// Keys of tables in lists that the kernel numbers anew each time.
const NUMBERED: [&str; 4] = ["handle", "parent", "irq", "index"];

/// Shares of the CPUs' work that differ by more are not the same.
const ANOTHER_SHARE: f64 = 0.02;

/// Returns the kind of figure that metrics of `group` are.
pub(super) fn touched(group: MetricGroup) -> Touch {
    match group {
        MetricGroup::Loss => Touch::Loss,
        MetricGroup::Cost => Touch::Cost,
        MetricGroup::Time => Touch::Time,
        MetricGroup::Rate => Touch::Rate,
    }
}

/// Returns the differences between `before` and `after`, most likely cause of a change of the
/// metrics `changed` first. `others` is the fraction of the CPUs' work that other programs used in
/// each, where known.
#[must_use]
pub fn environment(
    before: &Campaign,
    after: &Campaign,
    others: [Option<f64>; 2],
    changed: &BTreeSet<MetricGroup>,
) -> Vec<Cause> {
    let touched: Vec<Touch> = changed.iter().map(|group| touched(*group)).collect();
    let mut causes: Vec<Cause> = company(others, &touched).into_iter().collect();
    causes.extend(differences("", &of_campaign(before), &of_campaign(after), &touched));
    for (place, host) in after.hosts.iter().enumerate() {
        let same =
            // A renamed host is still the same machine in most plans, so the place in the list is
            // the second key.
            before.hosts.iter().find(|other| other.host == host.host).or(before.hosts.get(place));
        let Some(was) = same else { continue };
        let renamed = renamed(before, was, after, host);
        // Only the names of the first campaign are translated, so that both use the names of the
        // second.
        let was = facts(before, was, &renamed);
        let is = facts(after, host, &BTreeMap::new());
        causes.extend(differences(&host.host, &was, &is, &touched));
    }
    // The sort is stable, so causes of equal rank keep the order of the facts.
    causes.sort_by(|a, b| b.explains.cmp(&a.explains).then(a.rank.cmp(&b.rank)));
    causes
}

/// Returns the facts of `host` that differ, each with what is known about its kind. The changed
/// metrics are sensitive to `touched`.
fn differences(
    host: &str,
    was: &BTreeMap<String, String>,
    is: &BTreeMap<String, String>,
    touched: &[Touch],
) -> Vec<Cause> {
    let names: BTreeSet<&String> = was.keys().chain(is.keys()).collect();
    let mut causes = Vec::new();
    for name in names {
        // Absent facts compare as empty text, so a fact that appeared or vanished is a difference
        // too.
        let of = |facts: &BTreeMap<String, String>| facts.get(name).cloned().unwrap_or_default();
        let (was, is) = (of(was), of(is));
        if was == is || INCIDENTAL.iter().any(|pattern| fits(pattern, name)) {
            continue;
        }
        let known = KNOWN.iter().find(|(pattern, ..)| fits(pattern, name));
        let (_, rank, touches, mechanism) =
            // Unknown kinds stay in the list, last: leaving them out would hide a cause nobody has
            // thought of.
            known.copied().unwrap_or(("", 4, &[], Mechanism::Unknown));
        causes.push(Cause {
            host: host.to_owned(),
            name: name.clone(),
            before: was,
            after: is,
            explains: touches.iter().any(|touch| touched.contains(touch)),
            rank,
            mechanism,
        });
    }
    causes
}

/// Returns other programs as a cause if they used another fraction of the CPUs' work before than
/// after.
fn company(others: [Option<f64>; 2], touched: &[Touch]) -> Option<Cause> {
    let [Some(before), Some(after)] = others else { return None };
    let told = |share: f64| format!("{:.0} %", share * 100.0);
    ((after - before).abs() > ANOTHER_SHARE).then(|| Cause {
        host: String::new(),
        name: "cpu.other_programs".to_owned(),
        before: told(before),
        after: told(after),
        explains: [Rate, Cost, Time].iter().any(|touch| touched.contains(touch)),
        rank: 1,
        mechanism: Mechanism::OtherPrograms,
    })
}

/// Returns the facts of a campaign as a whole.
fn of_campaign(campaign: &Campaign) -> BTreeMap<String, String> {
    let header = &campaign.header;
    let mut leaves = BTreeMap::from([
        ("linerate.version".to_owned(), header.version.clone()),
        ("path.kind".to_owned(), words(&serde_json::to_value(header.testbed).unwrap_or_default())),
    ]);
    for capacity in &header.capacities {
        leaves.insert(format!("path.{}.rate", capacity.name), capacity.rate.to_string());
        leaves.insert(format!("path.{}.mtu", capacity.name), capacity.mtu.to_string());
    }
    leaves
}

/// Returns interfaces that take each other's place under different names: old name to new.
fn renamed<'a>(
    before: &'a Campaign,
    was: &'a HostRecord,
    after: &'a Campaign,
    is: &'a HostRecord,
) -> BTreeMap<&'a str, &'a str> {
    before.interfaces(was).into_iter().zip(after.interfaces(is)).collect()
}

/// Returns the leaves of a host's facts, by dotted name.
fn facts(
    campaign: &Campaign,
    host: &HostRecord,
    renamed: &BTreeMap<&str, &str>,
) -> BTreeMap<String, String> {
    let used = campaign.interfaces(host);
    let mut leaves = BTreeMap::new();
    let Some(facts) = host.facts.as_object() else { return leaves };
    for (key, value) in facts {
        let Some(interfaces) = value.as_object().filter(|_| key == "interfaces") else {
            walk(key.clone(), value, &mut leaves);
            continue;
        };
        for (name, value) in interfaces.iter().filter(|(name, _)| used.contains(&name.as_str())) {
            let name = renamed.get(name.as_str()).copied().unwrap_or(name);
            walk(format!("interfaces.{name}"), value, &mut leaves);
        }
    }
    leaves
}

/// Descends into tables. A list is one leaf, and so is a fact that could not be read.
fn walk(path: String, value: &Value, leaves: &mut BTreeMap<String, String>) {
    match value.as_object() {
        // A fact that could not be read carries a reason, whose text may change while the fact does
        // not.
        Some(table) if table.contains_key("unavailable") => {
            leaves.insert(path, "unavailable".into());
        }
        Some(table) => {
            table.iter().for_each(|(key, value)| walk(format!("{path}.{key}"), value, leaves))
        }
        None => {
            leaves.insert(path, words(value));
        }
    }
}

/// Returns a value as shown. Lists of tables omit fields that the kernel numbers anew each time.
fn words(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(words).collect();
            items.join("; ")
        }
        Value::Object(table) => {
            let told = table.iter().filter(|(key, _)| !NUMBERED.contains(&key.as_str()));
            told.map(|(key, value)| format!("{key} {}", words(value)))
                .collect::<Vec<_>>()
                .join(", ")
        }
        other => other.to_string(),
    }
}

/// Returns whether `name` begins with the parts of `pattern`.
fn fits(pattern: &str, name: &str) -> bool {
    let mut parts = name.split('.');
    pattern
        .split('.')
        // Only the beginning must match, so one entry covers a whole table of facts.
        .all(|wanted| parts.next().is_some_and(|part| wanted == "*" || wanted == part))
}

#[cfg(test)]
mod tests {
    use linerate_model::CampaignHeader;
    use serde_json::json;

    use super::*;

    fn campaign(facts: Value, version: &str) -> Campaign {
        let header = CampaignHeader { version: version.into(), ..CampaignHeader::default() };
        let host =
            HostRecord { host: "a".into(), facts, clock_offset_ns: 0, clock_uncertainty_ns: 0 };
        Campaign { header, hosts: vec![host], ..Campaign::default() }
    }

    #[test]
    fn what_explains_the_change_stands_first_and_what_every_start_changes_is_left_out() {
        let before = json!({
            "kernel": { "release": "6.1", "boot_id": "1", "mitigations": { "mds": "Not \
                affected" } },
            "net": { "tcp_rmem": [4096, 131_072, 33_554_432], "somaxconn": 128 },
            "interfaces": { "eth0": { "mtu": 9000, "index": 2 }, "lo": { "mtu": 65_536 } },
            "cpu": { "governor": { "unavailable": "no cpufreq" } },
        });
        let after = json!({
            "kernel": { "release": "6.1", "boot_id": "2", "mitigations": { "mds": "Vulnerable" } },
            "net": { "tcp_rmem": [4096, 131_072, 65_536], "somaxconn": 256 },
            "interfaces": { "eth0": { "mtu": 1500, "index": 3 }, "lo": { "mtu": 1500 } },
            "cpu": { "governor": { "unavailable": "read: denied" } },
        });
        let (before, after) = (campaign(before, "0.1.0"), campaign(after, "0.1.1"));
        let names = |changed: MetricGroup| -> Vec<String> {
            environment(&before, &after, [None; 2], &BTreeSet::from([changed]))
                .into_iter()
                .map(|cause| cause.name)
                .collect()
        };
        assert_eq!(
            names(MetricGroup::Rate),
            [
                "interfaces.eth0.mtu",
                "net.tcp_rmem",
                "linerate.version",
                "net.somaxconn",
                "kernel.mitigations.mds"
            ]
        );
        assert_eq!(
            names(MetricGroup::Cost)[..2],
            ["interfaces.eth0.mtu", "kernel.mitigations.mds"]
        );
        let causes = environment(&before, &after, [None; 2], &BTreeSet::from([MetricGroup::Rate]));
        assert_eq!((causes[1].host.as_str(), causes[1].explains, causes[1].rank), ("a", true, 1));
        assert_eq!(
            (causes[1].before.as_str(), causes[1].after.as_str()),
            ("4096; 131072; 33554432", "4096; 131072; 65536")
        );
    }

    #[test]
    fn other_programs_are_a_cause_of_what_cpus_reach_and_none_if_they_went_on_as_before() {
        let same = campaign(json!({}), "0.1.0");
        let found = |others: [f64; 2], changed: MetricGroup| {
            environment(&same, &same, others.map(Some), &BTreeSet::from([changed]))
        };
        let causes = found([0.01, 0.2], MetricGroup::Cost);
        assert_eq!((causes.len(), causes[0].explains, causes[0].after.as_str()), (1, true, "20 %"));
        assert!(!found([0.2, 0.01], MetricGroup::Loss)[0].explains);
        assert_eq!(found([0.2, 0.21], MetricGroup::Rate), []);
    }
}
