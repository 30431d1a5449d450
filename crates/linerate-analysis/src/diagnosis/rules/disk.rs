//! Figures of a load on a disk or file, as the disk rules read them.

use linerate_model::{Command, Direction, Metric, Verdict, metric};

use super::{BUSY, param};
use crate::diagnosis::{Claim, Evidence, Finding, Step, Subject, SubjectLoad};
use crate::{JobStudy, PointStudy};

/// The workload of disks and files.
pub(super) const STORAGE: &str = "storage";
/// Share of the slots' time above which the load mostly waits for flushes.
pub(super) const MOSTLY_FLUSHING: f64 = 0.3;
/// Defaults of the workload's parameters, for plans that leave them out.
const DEPTH: f64 = 32.0;
const WORKERS: f64 = 1.0;

/// Closed load on a disk or file.
pub(super) struct Load<'a> {
    pub(super) job: &'a JobStudy,
    /// Slots per worker.
    pub(super) depth: f64,
    pub(super) workers: f64,
    /// Mean number of slots in use, over all workers.
    pub(super) achieved: f64,
    /// Transfers per second.
    pub(super) rate: f64,
    pub(super) service_seconds: f64,
    /// CPUs that its threads used, if known.
    pub(super) cores: Option<f64>,
    /// Flushes per second, and the mean duration of a flush in seconds.
    pub(super) flushes: (f64, f64),
}

/// Returns the finding that no rule explains a load on a disk or file; `None` for other loads.
pub(super) fn unexplained(point: &PointStudy, rule: &str) -> Option<Finding> {
    let job = point.jobs.iter().find(|job| !job.background && job.workload == STORAGE)?;
    let subject = subject(point, job);
    let inconclusive =
        |evidence| Finding::new(rule, Verdict::Inconclusive, subject, Claim::Unexplained, evidence);
    let Some(load) = closed(point) else {
        return Some(inconclusive(vec![Evidence::NoClosedLoad]));
    };
    let flushed = (load.flushes.0 > 0.0).then(|| load.flushed());
    let evidence = std::iter::once(load.under_way()).chain(load.cpu()).chain(flushed).collect();
    let target = target(job).unwrap_or("TARGET");
    let sweep = Command::local("disk sweep", &[target, "--qd", "1..256x2"]);
    Some(inconclusive(evidence).advise(Step::SweepDepth.by(sweep)))
}

/// Returns the figure of `metric` in the first direction that has it.
fn figure(job: &JobStudy, metric: &'static Metric) -> Option<f64> {
    let ways = [Direction::Sum, Direction::Tx, Direction::Rx];
    ways.into_iter().find_map(|way| super::value(job, metric, way))
}

/// Returns the closed load on a disk or file if it is the only job of `point`.
pub(super) fn closed(point: &PointStudy) -> Option<Load<'_>> {
    let mut jobs = point.jobs.iter().filter(|job| !job.background);
    let job = jobs.next().filter(|job| job.workload == STORAGE && jobs.next().is_none())?;
    // An open load or one with a latency target chooses its own rate, so the queue depth does not
    // limit it.
    if param(job, "rate").is_some() || param(job, "latency_target").is_some() {
        return None;
    }
    let count =
        |name, otherwise| param(job, name).and_then(serde_json::Value::as_f64).unwrap_or(otherwise);
    let rate = figure(job, metric::IOPS).filter(|rate| *rate > 0.0)?;
    Some(Load {
        job,
        depth: count("depth", DEPTH),
        workers: count("workers", WORKERS),
        achieved: figure(job, metric::ACHIEVED_DEPTH)?,
        rate,
        // Infinite where a transfer never ended: a disk that hangs is limited by nothing that more
        // transfers would change.
        service_seconds: figure(job, metric::SERVICE_TIME_MEAN)
            .filter(|seconds| seconds.is_finite())?,
        cores: figure(job, metric::IOPS_PER_CORE)
            .filter(|each| *each > 0.0)
            // The counters report transfers per CPU; the inverse gives the CPUs in use.
            .map(|each| rate / each),
        flushes: figure(job, metric::FLUSH_RATE)
            .zip(figure(job, metric::FLUSH_TIME_MEAN))
            // Reads and plain writes never flush, so the figure is absent and not unknown.
            .unwrap_or((0.0, 0.0)),
    })
}

impl Load<'_> {
    /// Slots of all workers.
    pub(super) fn slots(&self) -> f64 {
        self.depth * self.workers
    }

    /// Share of the slots in use.
    pub(super) fn used(&self) -> f64 {
        self.achieved / self.slots().max(1.0)
    }

    /// Share of the time of the slots in use that flushes took.
    pub(super) fn flushing(&self) -> f64 {
        let (rate, seconds) = self.flushes;
        // A flush counts for the slot that waits for it; rounding of both means can exceed the
        // total.
        if self.achieved > 0.0 { (rate * seconds / self.achieved).min(1.0) } else { 0.0 }
    }

    /// True if its threads had no time for more.
    pub(super) fn is_out_of_cpu(&self) -> bool {
        self.cores.is_some_and(|cores| cores >= BUSY * self.workers)
    }

    /// Subject of a finding on it.
    pub(super) fn subject(&self, point: &PointStudy) -> Subject {
        subject(point, self.job)
    }

    /// How many transfers of which length were under way.
    pub(super) fn under_way(&self) -> Evidence {
        Evidence::InFlight {
            transfers: self.achieved,
            seconds: self.service_seconds,
            rate: self.rate,
            asked: None,
        }
    }

    /// Returns the CPU time of its threads as evidence.
    pub(super) fn cpu(&self) -> Option<Evidence> {
        let threads = self.workers;
        self.cores.map(|cpus| Evidence::ThreadCpus { threads, cpus, all: false })
    }

    /// Returns the share of time that flushes took as evidence.
    pub(super) fn flushed(&self) -> Evidence {
        let (rate, seconds) = self.flushes;
        Evidence::Flushing { share: self.flushing(), transfers: self.achieved, rate, seconds }
    }
}

/// Returns the subject of a finding on `job`.
fn subject(point: &PointStudy, job: &JobStudy) -> Subject {
    let load = SubjectLoad::Disk { target: target(job).map(str::to_owned), host: job.from.clone() };
    Subject {
        parameters: point.parameters.clone(),
        load: Some(load),
        ..Subject::of_sweep(&point.sweep)
    }
}

/// Returns the disk or file of a load, if the plan names it.
fn target(job: &JobStudy) -> Option<&str> {
    param(job, "target").and_then(serde_json::Value::as_str)
}

#[cfg(test)]
pub(super) mod cases {
    use crate::PointStudy;
    use crate::diagnosis::rules::cases;

    /// A load of this depth by one worker, with these figures.
    pub(in crate::diagnosis) fn load(depth: u32, figures: &[(&str, f64)]) -> PointStudy {
        let mut point = cases::point(figures);
        point.ceilings.clear();
        point.jobs[0].workload = super::STORAGE.into();
        point.jobs[0].params.set("depth", depth);
        point
    }
}
