//! A campaign as recorded: what the judge reads.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    BitRate, BoundClass, Bytes, FlowReport, Incident, Interval, Nanos, ObservedPort, SampleBlock, Side, TrialClocks,
    TrialOutcome, TrialSpec,
};

/// What kind of path was measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TestbedKind {
    /// Network namespaces of one kernel: figures say `emulated`.
    Lab,
    /// Two or more hosts.
    Hosts,
    /// One host's loopback.
    Loopback,
}

/// A known capacity of the path, shared by everything that crosses it: a link, a shaper, a bus.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Capacity {
    /// What it is called, e.g. `link a-b`. Nothing follows from it.
    pub name: String,
    /// What kind of thing it is; absent in testbed files that leave it out and in ledgers before 2026-11-22 ([`Capacity::class`]).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<BoundClass>,
    /// How much crosses it per second, counted as `frame_overhead` says.
    pub rate: BitRate,
    /// Bytes it counts per frame beyond the IP packet: 38 on an Ethernet wire (preamble, header, FCS, gap), 14 for a
    /// shaper that sees the Ethernet header only, 0 for a bus that carries payload.
    pub frame_overhead: Bytes,
    /// IP MTU on it.
    pub mtu: Bytes,
    /// Directed endpoint pairs (data from, data to) that cross it and share it.
    pub pairs: Vec<(String, String)>,
    /// Who says so.
    pub source: String,
    /// For a group of equal links that share flows by a hash (IEEE 802.1AX): each of them, by the instance its byte counter has
    /// among the sending host's readings (an interface, or a queueing discipline). `rate` is then that of one link, and a flow
    /// never leaves its link. Empty: one link.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub members: Vec<String>,
}

impl Capacity {
    /// What kind of thing it is. Where that was not declared: a bus if it carries payload without frames, or is one edge of a lab's bus, else
    /// a link.
    #[must_use]
    pub fn class(&self) -> BoundClass {
        /// How labs of earlier releases said where the capacity of a bus's edge comes from; of a port channel they listed the links.
        const OF_LAB_BUS: &str = ": class of a hierarchical token bucket";
        let is_lab_bus =
            self.members.is_empty() && self.source.starts_with("lab ") && self.source.ends_with(OF_LAB_BUS);
        let undeclared = if is_lab_bus || self.frame_overhead == Bytes(0) { BoundClass::Bus } else { BoundClass::Link };
        self.class.unwrap_or(undeclared)
    }

    /// The interface that each member is, or whose queueing discipline it is.
    pub fn member_devices(&self) -> impl Iterator<Item = &str> {
        self.members.iter().filter_map(|member| member.split(' ').next())
    }

    /// How much `n_flows` flows find room for, at most: one link each, as long as there are links.
    #[must_use]
    pub fn room(&self, n_flows: usize) -> BitRate {
        BitRate(self.rate.0 * self.members.len().min(n_flows).max(1) as f64)
    }
}

/// The identity of a campaign.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CampaignHeader {
    /// Unique name of this execution, e.g. `20261121T000500Z-7f3a`.
    pub id: String,
    /// The plan's name.
    pub name: String,
    /// Wall clock at its start, nanoseconds since the Unix epoch.
    pub started: Nanos,
    /// The plan as run, `--set` applied.
    pub plan: String,
    /// SHA-256 of `plan`, hexadecimal.
    pub plan_sha256: String,
    /// The lab description, if the testbed is one.
    pub lab: Option<String>,
    /// Seed of everything random.
    pub seed: u64,
    /// What kind of path.
    pub testbed: TestbedKind,
    /// Capacities of the path known beforehand: a lab's shapers, or what a testbed file declares.
    #[serde(default)]
    pub capacities: Vec<Capacity>,
    /// Ports that an independent observer counts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub observed: Vec<ObservedPort>,
    /// Version of linerate.
    pub version: String,
    /// Arguments of the command, the program's name first.
    pub argv: Vec<String>,
}

impl CampaignHeader {
    /// Whether the path was emulated.
    #[must_use]
    pub fn emulated(&self) -> bool {
        self.testbed == TestbedKind::Lab
    }

    /// Takes the texts that have several lines from `whole`, which is the same header.
    pub fn keep_lines_of(&mut self, whole: Self) {
        self.plan = whole.plan;
        self.lab = whole.lab;
    }
}

/// A host that took part: what it is (the *config record* of methodology 1.6) and how well its clock is known.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HostRecord {
    /// The host's name in the testbed.
    pub host: String,
    /// Facts as a tree: `cpu.model`, `interfaces.eth0.driver`, ...; a fact that could not be read is
    /// `{"unavailable": "why"}`.
    pub facts: Value,
    /// Agent's monotonic clock minus the conductor's, ns.
    pub clock_offset_ns: i64,
    /// Half the best round trip of the offset measurement, ns.
    pub clock_uncertainty_ns: u64,
}

/// What one end of one job did.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct JobRecord {
    /// Per worker and interval, in the order received.
    pub intervals: Vec<Interval>,
    /// Per flow, at the end.
    pub flows: Vec<FlowReport>,
}

/// One trial as recorded.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TrialRecord {
    /// What was asked for.
    pub spec: TrialSpec,
    /// Wall clock at its start, nanoseconds since the Unix epoch; `None` if it was not reached.
    pub started: Option<Nanos>,
    /// How it ended; `None` if it did not (not reached, or the campaign was killed in it).
    pub outcome: Option<TrialOutcome>,
    /// Start skew and clock uncertainty, ns.
    pub skew: Option<(u64, u64)>,
    /// How hosts' clocks stood to the conductor's; empty if they have the same.
    #[serde(default, skip_serializing_if = "TrialClocks::is_empty")]
    pub clocks: TrialClocks,
    /// Per job of the spec: the active and the passive end.
    pub jobs: Vec<(JobRecord, JobRecord)>,
    /// Readings by host; what a lab's devices counted stands under the empty name.
    pub samples: Vec<(String, SampleBlock)>,
    /// What went wrong.
    pub incidents: Vec<Incident>,
}

impl TrialRecord {
    /// A trial nothing is known of yet.
    #[must_use]
    pub fn new(spec: TrialSpec) -> Self {
        let jobs = spec.jobs.iter().map(|_| Default::default()).collect();
        let (samples, incidents) = (Vec::new(), Vec::new());
        Self {
            spec,
            started: None,
            outcome: None,
            skew: None,
            clocks: TrialClocks::default(),
            jobs,
            samples,
            incidents,
        }
    }

    /// What one end of job `job` did.
    #[must_use]
    pub fn job(&self, job: usize, side: Side) -> Option<&JobRecord> {
        self.jobs.get(job).map(|(active, passive)| match side {
            Side::Active => active,
            Side::Passive => passive,
        })
    }
}

/// One execution of a plan on a testbed, as far as it was recorded.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Campaign {
    /// Its identity.
    pub header: CampaignHeader,
    /// Who took part.
    pub hosts: Vec<HostRecord>,
    /// Every planned trial, in the order planned.
    pub trials: Vec<TrialRecord>,
    /// Incidents outside any trial.
    pub incidents: Vec<Incident>,
    /// Whether the campaign came to its end.
    pub ended: Option<Nanos>,
}

impl Campaign {
    /// The interfaces of `host` that the campaign's endpoints name, else all it has but the loopback.
    #[must_use]
    pub fn interfaces<'a>(&'a self, host: &'a HostRecord) -> Vec<&'a str> {
        let jobs = self.trials.iter().flat_map(|trial| &trial.spec.jobs);
        let ends = jobs.flat_map(|job| [&job.from, &job.to]).filter(|end| end.host == host.host);
        let mut names: Vec<&str> = ends.filter_map(|end| end.device.as_deref()).collect();
        if names.is_empty()
            && let Some(all) = host.facts.get("interfaces").and_then(Value::as_object)
        {
            names = all.keys().map(String::as_str).filter(|name| *name != "lo").collect();
        }
        names.sort_unstable();
        names.dedup();
        names
    }
}
