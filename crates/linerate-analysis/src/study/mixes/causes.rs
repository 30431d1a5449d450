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
/// Advice for proof of a suspected cause.
const NOT_COUNTED: &str = "memory bandwidth was not counted; a direction matrix, other CPUs \
    (`from_cpus`), or a job on a target that is not there (`null`) would tell more";

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
    /// The evidence, sentence by sentence.
    pub evidence: Vec<String>,
}

/// Returns the resource that the jobs of `point` share.
pub(super) fn attribution(
    campaign: &Campaign,
    hosts: &Hosts<'_>,
    point: &PointStudy,
    alone: &[(&PointStudy, &Arm)],
    jobs: &[MixedJob],
) -> Attribution {
    fn unknown(why: &str) -> Attribution {
        Attribution {
            cause: Cause::Unknown,
            verdict: Verdict::Inconclusive,
            evidence: vec![why.to_owned()],
        }
    }
    if jobs.len() < 2 {
        return unknown("not every job has a figure both alone and together");
    }
    if jobs.iter().all(MixedJob::kept) {
        let kept = jobs
            .iter()
            .map(|job| format!("{} kept {:.1} %", job.workload, job.main.effect.shift * 100.0));
        return Attribution {
            cause: Cause::Nothing,
            verdict: Verdict::Suspected,
            evidence: kept.collect(),
        };
    }
    if !jobs.iter().any(MixedJob::lost) {
        return unknown("whether a job lost anything is undecided");
    }
    let edge =
        known_edge(point, alone, jobs).or_else(|| common_link(campaign, hosts, point, alone, jobs));
    let waits = jobs.iter().filter(|job| job.lost()).map(|job| wait(point, alone, job));
    let (waited, mut told): (Vec<bool>, Vec<String>) = waits.unzip();
    let by_cpu = waited.iter().any(|explains| *explains);
    match (edge, by_cpu) {
        (Some((name, evidence)), false) => {
            told.insert(0, evidence);
            Attribution { cause: Cause::Edge(name), verdict: Verdict::Suspected, evidence: told }
        }
        (Some((_, evidence)), true) => {
            told.insert(0, evidence);
            told.push(
                "an edge is full and a CPU was waited for: these causes cannot be separated here"
                    .to_owned(),
            );
            Attribution { cause: Cause::Unknown, verdict: Verdict::Inconclusive, evidence: told }
        }
        (None, true) => {
            Attribution { cause: Cause::Cpu, verdict: Verdict::Suspected, evidence: told }
        }
        (None, false) => {
            told.push(NOT_COUNTED.to_owned());
            Attribution { cause: Cause::Unknown, verdict: Verdict::Inconclusive, evidence: told }
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
) -> Option<(String, String)> {
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
) -> Option<(String, String)> {
    // The job that adds up all measured ones comes last.
    let all = point.jobs.last()?;
    let metric = all.metric(metric::GOODPUT, direction)?;
    let bound = &point.ceilings[metric.ceiling?];
    let asked: f64 =
        jobs.iter().filter_map(|job| typical(base(alone, job)?, metric::GOODPUT, direction)).sum();
    let passed = typical(all, metric::GOODPUT, direction)?;
    (asked > bound.value * MORE && passed > bound.value * FULL).then(|| {
        let mega = |rate: f64| format!("{:.1} Mbit/s", rate / 1e6);
        let (asked, room, passed) = (mega(asked), mega(bound.value), mega(passed));
        let told = format!(
            "alone they add up to {asked}, {} has room for {room}, together they pass {passed}",
            bound.name()
        );
        (bound.name(), told)
    })
}

/// Returns how long the workers of `job` waited for a CPU, and whether that explains its loss.
fn wait(point: &PointStudy, alone: &[(&PointStudy, &Arm)], job: &MixedJob) -> (bool, String) {
    let waited = |job: Option<&super::super::JobStudy>| {
        typical(job?, metric::RUN_QUEUE_WAIT, Direction::Sum)
    };
    let lost = 1.0 - job.main.effect.shift;
    let (together, before) = (waited(point.jobs.get(job.job)), waited(base(alone, job)));
    match (together, before) {
        (Some(together), before) => {
            let before = before.unwrap_or(0.0);
            let told = format!(
                "{}, which lost {:.0} %: its worker that waited most was ready and without a CPU \
                    for {:.0} % of the time, {:.0} % alone",
                job.workload,
                lost * 100.0,
                together * 100.0,
                before * 100.0
            );
            (together - before >= EXPLAINED * lost, told)
        }
        (None, _) => (
            false,
            format!(
                "{}: the kernel does not account how long its workers waited for a CPU",
                job.workload
            ),
        ),
    }
}

/// Returns a PCI Express link below which a disk and a network device of one host hang, whose
/// capacity is below the jobs' demand and that they fill.
fn common_link(
    campaign: &Campaign,
    hosts: &Hosts<'_>,
    point: &PointStudy,
    alone: &[(&PointStudy, &Arm)],
    jobs: &[MixedJob],
) -> Option<(String, String)> {
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
) -> Option<(String, String)> {
    let (generation, lanes) = slots::link_of(function)?;
    let size = |name| slots::size(function, name).unwrap_or(pcie::link::PAGE);
    let link = pcie::Link::new(generation, lanes, size("mps_bytes"), size("mrrs_bytes"))?;
    let page: Bytes = pcie::link::PAGE;
    let room = if *way == MemoryDirection::Down { link.read(page) } else { link.write(page) }.0;
    let sum = |of: &dyn Fn(&MixedJob) -> Option<f64>| jobs.into_iter().map(of).sum::<Option<f64>>();
    let asked = sum(&|job| bits(job, base(alone, job)?))?;
    let passed = sum(&|job| bits(job, point.jobs.get(job.job)?))?;
    let name = format!("pcie {} of {host}", function.get("address").and_then(Value::as_str)?);
    (asked > room * MORE && passed > room * FULL).then(|| {
        let giga = |rate: f64| format!("{:.2} Gbit/s", rate / 1e9);
        let told = format!(
            "both devices hang below {name}: alone they add up to {}, it has room for {}, together \
                they pass {}",
            giga(asked),
            giga(room),
            giga(passed)
        );
        (name, told)
    })
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
