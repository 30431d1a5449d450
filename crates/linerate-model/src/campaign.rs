//! A campaign as recorded: what the judge reads.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::path::PathFacts;
use crate::{
    Capacity, FlowReport, Incident, Interval, Nanos, ObservedPort, SampleBlock, Side, TrialClocks,
    TrialOutcome, TrialSpec,
};

/// Kind of path that was measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TestbedKind {
    /// Network namespaces of one kernel: figures say `emulated`.
    Lab,
    /// Two or more hosts.
    Hosts,
    /// One host's loopback.
    #[default]
    Loopback,
}

/// The identity of a campaign.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
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
    /// Kind of path.
    pub testbed: TestbedKind,
    /// Capacities of the path known beforehand: a lab's shapers, or what a testbed file declares.
    #[serde(default)]
    pub capacities: Vec<Capacity>,
    /// Facts of the path that a probe measured before the campaign, one for each direction; empty
    /// without a probe.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub path: Vec<PathFacts>,
    /// Ports that an independent observer counts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub observed: Vec<ObservedPort>,
    /// Version of linerate.
    pub version: String,
    /// Arguments of the command, the program's name first.
    pub argv: Vec<String>,
}

impl CampaignHeader {
    /// Returns true if the path was emulated.
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

/// A host that took part: what it is (the *config record* of
/// docs/methodology/papers.md#record-of-a-host) and how well its clock is known.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HostRecord {
    /// The host's name in the testbed.
    pub host: String,
    /// Facts as a tree: `cpu.model`, `interfaces.eth0.driver`, ...; a fact that could not be read
    /// is `{"unavailable": "why"}`.
    pub facts: Value,
    /// Agent's monotonic clock minus the conductor's, ns.
    pub clock_offset_ns: i64,
    /// Half the best round trip of the offset measurement, ns.
    pub clock_uncertainty_ns: u64,
}

/// Record of one end of one job.
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
    /// The trial as planned.
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
    /// Problems during the trial.
    pub incidents: Vec<Incident>,
}

impl TrialRecord {
    /// A trial nothing is known of yet.
    #[must_use]
    pub fn new(spec: TrialSpec) -> Self {
        // An end that reports nothing still has an empty record, so that jobs keep their places.
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

    /// Drops intervals, flows and the columns of readings: most of what is recorded of a trial.
    pub fn forget(&mut self) {
        self.jobs.fill(Default::default());
        for (_, block) in &mut self.samples {
            (block.series, block.columns) = (Arc::default(), Vec::new());
        }
    }

    /// Returns the record of one end of job `job`.
    #[must_use]
    pub fn job(&self, job: usize, side: Side) -> Option<&JobRecord> {
        self.jobs.get(job).map(|(active, passive)| match side {
            Side::Active => active,
            Side::Passive => passive,
        })
    }
}

/// One execution of a plan on a testbed, as far as it was recorded.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Campaign {
    /// Its identity.
    pub header: CampaignHeader,
    /// Who took part.
    pub hosts: Vec<HostRecord>,
    /// Every planned trial, in the order planned.
    pub trials: Vec<TrialRecord>,
    /// Incidents outside any trial.
    pub incidents: Vec<Incident>,
    /// Time at which the campaign ended; `None` if it was interrupted.
    pub ended: Option<Nanos>,
}

impl Campaign {
    /// The interfaces of `host` that the campaign's endpoints name, else all it has but the
    /// loopback.
    #[must_use]
    pub fn interfaces<'a>(&'a self, host: &'a HostRecord) -> Vec<&'a str> {
        let jobs = self.trials.iter().flat_map(|trial| &trial.spec.jobs);
        let ends = jobs.flat_map(|job| [&job.from, &job.to]).filter(|end| end.host == host.host);
        let mut names: Vec<&str> = ends.filter_map(|end| end.device.as_deref()).collect();
        // Endpoints without a named device may use any, so all of them are facts of the campaign.
        if names.is_empty()
            && let Some(all) = host.facts.get("interfaces").and_then(Value::as_object)
        {
            // The loopback carries nothing between hosts.
            names = all.keys().map(String::as_str).filter(|name| *name != "lo").collect();
        }
        names.sort_unstable();
        names.dedup();
        names
    }
}
