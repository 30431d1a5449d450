//! Resources that the jobs of a mix share, as far as the evidence of its own trials shows.
//!
//! - nothing: no job lost more than the margin
//! - an edge: alone the jobs add up to more than the tree of known capacities lets all of them pass
//!   together, and together they fill it
//! - a PCI Express link: a disk and a network device are below one function; the same, with its
//!   rate for payloads
//! - CPU: the workers of a job that lost were ready and without a CPU for at least half of its
//!   loss, and were not when alone
//!
//! Any other cause is inconclusive. Memory bandwidth is never claimed, because nothing here counts
//! it.

use linerate_model::{
    Arm, Bytes, Campaign, Direction, JobSpec, Metric, TestbedKind, Unit, Verdict, metric,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::super::obtained::Obtained;
use super::super::samples::Hosts;
use super::{MemoryDirection, MixedJob, PointStudy};
use crate::limits::pcie::{self, slots};
use crate::statistics::median;

/// Share of a capacity from which on the jobs together fill it; a token bucket keeps its rate to
/// within a few per cent.
const FULL: f64 = 0.9;
/// Factor by which the jobs alone must exceed the capacity; with less demand they need not compete
/// for it.
const MORE: f64 = 1.02;
/// Share of a loss that waiting for a CPU must explain to be its cause.
const EXPLAINED: f64 = 0.5;
/// Bits in a byte.
const BITS: f64 = 8.0;

/// Resources that the jobs share and saturate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// Nothing: no job lost anything.
    Nothing,
    /// A capacity of this name.
    Edge(String),
    /// CPU time.
    Cpu,
    /// Not known.
    Unknown,
}

/// A cause with its evidence.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Attribution {
    /// The cause.
    pub cause: Cause,
    /// How well it is established: at most suspected where only one kind of evidence is available.
    pub verdict: Verdict,
    /// The evidence.
    pub evidence: Vec<MixEvidence>,
}

/// Item of the evidence of a cause: rates in bit/s, shares of one; `job` is a workload.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "fields that are not explained are what they are called")]
pub enum MixEvidence {
    /// A job kept this share of its figure alone.
    Kept { job: String, share: f64 },
    /// Jobs that alone carry `asked` fill a capacity; `devices` if it is the link above two
    /// devices.
    Full { name: String, devices: bool, asked: f64, room: f64, passed: f64 },
    /// The worker of a job that waited most was ready and without a CPU, together and alone.
    Waited { job: String, lost: f64, together: f64, alone: f64 },
    /// The kernel does not account waits of a job's workers.
    WaitsNotCounted { job: String },
    /// Some job has no figure alone or together.
    MissingFigures,
    /// No job's loss is decided.
    LossUndecided,
    /// A capacity is full and a CPU was waited for.
    TwoCauses,
    /// Nothing counts memory bandwidth.
    MemoryNotCounted,
}

/// Returns the resource that the jobs of `point` share.
pub(super) fn attribution(
    campaign: &Campaign,
    hosts: &Hosts<'_>,
    point: &PointStudy,
    alone: &[(&PointStudy, &Arm)],
    jobs: &[MixedJob],
) -> Attribution {
    fn unknown(evidence: Vec<MixEvidence>) -> Attribution {
        Attribution { cause: Cause::Unknown, verdict: Verdict::Inconclusive, evidence }
    }
    fn suspected(cause: Cause, evidence: Vec<MixEvidence>) -> Attribution {
        Attribution { cause, verdict: Verdict::Suspected, evidence }
    }
    if jobs.len() < 2 {
        return unknown(vec![MixEvidence::MissingFigures]);
    }
    if jobs.iter().all(MixedJob::kept) {
        fn kept(job: &MixedJob) -> MixEvidence {
            MixEvidence::Kept { job: job.workload.clone(), share: job.main.effect.shift }
        }
        return suspected(Cause::Nothing, jobs.iter().map(kept).collect());
    }
    if !jobs.iter().any(MixedJob::lost) {
        return unknown(vec![MixEvidence::LossUndecided]);
    }
    let edge =
        known_edge(point, alone, jobs).or_else(|| common_link(campaign, hosts, point, alone, jobs));
    let waits = jobs.iter().filter(|job| job.lost()).map(|job| wait(point, alone, job));
    let (waited, mut evidence): (Vec<bool>, Vec<MixEvidence>) = waits.unzip();
    let by_cpu = waited.iter().any(|explains| *explains);
    let cause = edge.as_ref().map(|(name, _)| Cause::Edge(name.clone()));
    evidence.splice(0..0, edge.map(|(_, full)| full));
    match (cause, by_cpu) {
        (Some(edge), false) => suspected(edge, evidence),
        (Some(_), true) => {
            evidence.push(MixEvidence::TwoCauses);
            unknown(evidence)
        }
        (None, true) => suspected(Cause::Cpu, evidence),
        (None, false) => {
            evidence.push(MixEvidence::MemoryNotCounted);
            unknown(evidence)
        }
    }
}

/// Returns the study of `job` where it ran alone.
fn base<'a>(
    alone: &[(&'a PointStudy, &Arm)],
    job: &MixedJob,
) -> Option<&'a super::super::JobStudy> {
    alone.iter().find_map(|(point, arm)| {
        point.jobs.get(arm.jobs.iter().position(|number| *number as usize == job.job)?)
    })
}

fn typical(
    job: &super::super::JobStudy,
    metric: &'static Metric,
    direction: Direction,
) -> Option<f64> {
    let values: Vec<f64> =
        job.metric(metric, direction)?.values.iter().flatten().copied().collect();
    median(&values)
}

/// Returns the bound of all jobs together whose capacity is below their demand and that they fill:
/// its name and the evidence.
fn known_edge(
    point: &PointStudy,
    alone: &[(&PointStudy, &Arm)],
    jobs: &[MixedJob],
) -> Option<(String, MixEvidence)> {
    let ways = [Direction::Tx, Direction::Rx, Direction::Sum];
    ways.into_iter().find_map(|direction| full_edge(point, alone, jobs, direction))
}

/// Returns the ceiling that the jobs fill in `direction` together and would exceed alone, and the
/// figures that say so.
fn full_edge(
    point: &PointStudy,
    alone: &[(&PointStudy, &Arm)],
    jobs: &[MixedJob],
    direction: Direction,
) -> Option<(String, MixEvidence)> {
    // The job that adds up all measured ones comes last.
    let all = point.jobs.last()?;
    let metric = all.metric(metric::GOODPUT, direction)?;
    let bound = &point.ceilings[metric.ceiling?];
    let asked: f64 =
        jobs.iter().filter_map(|job| typical(base(alone, job)?, metric::GOODPUT, direction)).sum();
    let passed = typical(all, metric::GOODPUT, direction)?;
    (asked > bound.value * MORE && passed > bound.value * FULL).then(|| {
        let (name, room) = (bound.name(), bound.value);
        (name.clone(), MixEvidence::Full { name, devices: false, asked, room, passed })
    })
}

/// Returns how long the workers of `job` waited for a CPU, and whether that explains its loss.
fn wait(point: &PointStudy, alone: &[(&PointStudy, &Arm)], job: &MixedJob) -> (bool, MixEvidence) {
    let waited = |job: Option<&super::super::JobStudy>| {
        typical(job?, metric::RUN_QUEUE_WAIT, Direction::Sum)
    };
    let (lost, workload) = (1.0 - job.main.effect.shift, job.workload.clone());
    let Some(together) = waited(point.jobs.get(job.job)) else {
        return (false, MixEvidence::WaitsNotCounted { job: workload });
    };
    let alone = waited(base(alone, job)).unwrap_or(0.0);
    let evidence = MixEvidence::Waited { job: workload, lost, together, alone };
    (together - alone >= EXPLAINED * lost, evidence)
}

/// Returns a PCI Express link below which a disk and a network device of one host hang, whose
/// capacity is below the jobs' demand and that they fill.
fn common_link(
    campaign: &Campaign,
    hosts: &Hosts<'_>,
    point: &PointStudy,
    alone: &[(&PointStudy, &Arm)],
    jobs: &[MixedJob],
) -> Option<(String, MixEvidence)> {
    if campaign.header.testbed != TestbedKind::Hosts {
        return None;
    }
    let id = point.trials.first()?.id;
    let spec = &campaign.trials.iter().find(|trial| trial.spec.id == id)?.spec;
    let chains = |job: &MixedJob| {
        device_chains(hosts, spec.jobs.get(job.job)?, point.jobs.get(job.job)?, job)
    };
    let found: Vec<(&MixedJob, Crossing<'_>)> = jobs
        .iter()
        .flat_map(|job| chains(job).into_iter().flatten().map(move |crossing| (job, crossing)))
        .collect();
    for (first, near) in &found {
        for (second, far) in found
            .iter()
            .filter(|(job, far)| job.job > first.job && far.0 == near.0 && far.1 == near.1)
        {
            let Some(function) = near
                .2
                .iter()
                .rev()
                .find(|function| far.2.iter().any(|other| same(function, other)))
            else {
                continue;
            };
            if let Some(told) = full_link(function, point, alone, [first, second], near) {
                return Some(told);
            }
        }
    }
    None
}

/// A host, a way, and the PCI functions from its root port to a device.
type Crossing<'a> = (String, MemoryDirection, &'a [Value]);

fn same(a: &Value, b: &Value) -> bool {
    a.get("address").is_some_and(|address| Some(address) == b.get("address"))
}

fn device_chains<'a>(
    hosts: &Hosts<'a>,
    spec: &JobSpec,
    study: &super::super::JobStudy,
    job: &MixedJob,
) -> Option<Vec<Crossing<'a>>> {
    let disk = study.obtained.get("device").and_then(Obtained::word);
    let crossings = job.ways.iter().filter_map(|(host, way)| {
        let end = if *host == spec.from.host { &spec.from } else { &spec.to };
        let device = disk.or(end.device.as_deref())?;
        let chain = hosts.fact(host, "pcie")?.get(device)?.as_array()?;
        Some((host.clone(), *way, chain.as_slice()))
    });
    Some(crossings.collect())
}

fn full_link(
    function: &Value,
    point: &PointStudy,
    alone: &[(&PointStudy, &Arm)],
    jobs: [&MixedJob; 2],
    (host, way, _): &Crossing<'_>,
) -> Option<(String, MixEvidence)> {
    let (generation, lanes) = slots::link_of(function)?;
    let size = |name| slots::size(function, name).unwrap_or(pcie::link::PAGE);
    let link = pcie::Link::new(generation, lanes, size("mps_bytes"), size("mrrs_bytes"))?;
    let page: Bytes = pcie::link::PAGE;
    let room = if *way == MemoryDirection::Down { link.read(page) } else { link.write(page) }.0;
    let sum = |of: &dyn Fn(&MixedJob) -> Option<f64>| jobs.into_iter().map(of).sum::<Option<f64>>();
    let asked = sum(&|job| bits(job, base(alone, job)?))?;
    let passed = sum(&|job| bits(job, point.jobs.get(job.job)?))?;
    let name = format!("pcie {} of {host}", function.get("address").and_then(Value::as_str)?);
    (asked > room * MORE && passed > room * FULL)
        .then(|| (name.clone(), MixEvidence::Full { name, devices: true, asked, room, passed }))
}

/// Returns the typical rate in bit/s that `study` has of the main figure of `job`.
fn bits(job: &MixedJob, study: &super::super::JobStudy) -> Option<f64> {
    let metric = job.main.metric.metric()?;
    let rate = typical(study, metric, job.main.direction)?;
    // Storage counts bytes, networks bits.
    match metric.unit {
        Unit::BitPerSecond => Some(rate),
        Unit::BytePerSecond => Some(rate * BITS),
        _ => None,
    }
}
