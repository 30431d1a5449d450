//! Figures of a load on a disk or file, as the disk rules read them.

use linerate_model::{Bytes, Command, Direction, Metric, Use, Verdict, metric};

use super::{BUSY, param};
use crate::diagnosis::experiment::{Change, bytes, set};
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
    point: &'a PointStudy,
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
    /// Share of the time in which the worker that waited longest for a CPU was ready.
    waited: f64,
}

/// Order in which claims about a disk are tested. A claim about a part above the disk comes first,
/// because that part hides the disk behind it.
pub(super) mod turn {
    pub(in super::super) const CACHE: u8 = 1;
    pub(in super::super) const GROUP: u8 = 2;
    pub(in super::super) const OTHERS: u8 = 3;
    pub(in super::super) const FLUSH: u8 = 4;
    pub(in super::super) const CPU: u8 = 5;
    pub(in super::super) const QUEUE: u8 = 6;
}

/// Share of a limit of the control group from which on it is reached, and from which on it may be
/// where most transfers wait above the disk. The kernel dispatches a few transfers per tick, so a
/// short queue does not reach its limit.
const LIMIT_REACHED: f64 = 0.85;
const LIMIT_IN_FORCE: f64 = 0.4;
/// Share of the transfers in flight that the disk has, below which most wait above it.
const MOSTLY_ABOVE: f64 = 0.5;
/// Share of the disk's bytes that others move from which on the disk is shared.
const SHARED: f64 = 0.2;
/// Share of a buffered load's bytes that the page cache serves from which on the cache is measured.
const CACHED: f64 = 0.5;
/// Share of the queue's requests in use from which on it is full, and from which on the queue
/// evidently admits more than is known.
const QUEUE_FULL: f64 = 0.8;
const QUEUE_EXCEEDED: f64 = 1.1;
/// Factor of the block size in an experiment.
const BLOCK_FACTOR: f64 = 2.0;
/// Blocks above this one are halved instead of doubled: the kernel splits large transfers.
const LARGE_BLOCK: u64 = 64 << 10;
/// Directions of a load: writes and reads.
const WAYS: [Direction; 2] = [Direction::Tx, Direction::Rx];
/// Default block of the workload, bytes.
const BLOCK: Bytes = Bytes(4096);

/// Returns the finding that no rule explains a load on a disk or file; `None` for other loads.
pub(super) fn unexplained(point: &PointStudy, rule: &str) -> Option<Finding> {
    let job = point.jobs.iter().find(|job| !job.background && job.workload == STORAGE)?;
    let subject = subject(point, job);
    let inconclusive =
        |evidence| Finding::new(rule, Verdict::Inconclusive, subject, Claim::Unexplained, evidence);
    let Some(load) = closed(point) else {
        let hangs = figure(job, metric::SERVICE_TIME_MEAN).is_some_and(f64::is_infinite);
        let never_ended = figure(job, metric::IOPS).filter(|_| hangs);
        let why = never_ended.map(|rate| Evidence::NeverEnded { rate });
        return Some(inconclusive(vec![why.unwrap_or(Evidence::NoClosedLoad)]));
    };
    let flushed = (load.flushes.0 > 0.0).then(|| load.flushed());
    let device = Use::DiskLookedAt.metrics().filter_map(|metric| load.seen(metric));
    let evidence = std::iter::once(load.under_way())
        .chain(load.cpu())
        .chain(load.seen(metric::RUN_QUEUE_WAIT))
        .chain(flushed)
        .chain(device)
        .collect();
    let target = target(job).unwrap_or("TARGET");
    let sweep = Command::local("disk sweep", &[target, "--qd", "1..256x2"]);
    Some(inconclusive(evidence).advise(Step::SweepDepth.by(sweep)))
}

/// Returns the figure of `metric` in both directions together, or the larger one of them.
fn figure(job: &JobStudy, metric: &'static Metric) -> Option<f64> {
    let of = |way| super::value(job, metric, way);
    of(Direction::Sum).or_else(|| WAYS.into_iter().filter_map(of).max_by(f64::total_cmp))
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
        point,
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
        waited: figure(job, metric::RUN_QUEUE_WAIT).unwrap_or_default(),
    })
}

/// Returns the closed load of a point whose figures may support a claim.
pub(super) fn judged(point: &PointStudy) -> Option<Load<'_>> {
    closed(point).filter(|_| super::may_be_judged(point))
}

/// Limit of a control group that a load reaches.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct GroupLimit {
    /// True for bytes per second, false for transfers.
    pub(super) in_bytes: bool,
    /// Limited direction: writes or reads.
    pub(super) direction: Direction,
    /// The limit, per second.
    pub(super) rate: f64,
    /// Share in use.
    pub(super) used: f64,
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

    /// Share of the time for which a thread ran or was ready to run; `None` if it is not known. It
    /// waited for the disk in the rest.
    pub(super) fn wanted_cpu(&self) -> Option<f64> {
        Some(self.cores? / self.workers + self.waited)
    }

    /// True if its threads had no time for more.
    pub(super) fn is_out_of_cpu(&self) -> bool {
        self.wanted_cpu().is_some_and(|share| share >= BUSY)
    }

    /// Bytes per second, if known.
    pub(super) fn bytes_per_second(&self) -> Option<f64> {
        figure(self.job, metric::TRANSFER_RATE)
    }

    /// Returns the figure of `metric` of its disk.
    pub(super) fn of_disk(&self, metric: &'static Metric) -> Option<f64> {
        figure(self.job, metric)
    }

    /// Returns the figure of `metric` as evidence, if it was recorded.
    pub(super) fn seen(&self, metric: &'static Metric) -> Option<Evidence> {
        Some(Evidence::figure(metric, self.of_disk(metric)?))
    }

    /// Returns how the disk was used as evidence.
    pub(super) fn device(&self) -> impl Iterator<Item = Evidence> {
        self.seen(metric::DEVICE_BUSY).into_iter().chain(self.seen(metric::DEVICE_DEPTH))
    }

    /// True if writes are durable when they end, or flushes follow them.
    pub(super) fn is_durable(&self) -> bool {
        self.flushes.0 > 0.0 || self.synchrony().is_some()
    }

    /// Returns the mode in which writes are durable when they end; `None` if they are not.
    pub(super) fn synchrony(&self) -> Option<&str> {
        let writes = super::value(self.job, metric::IOPS, Direction::Tx).is_some_and(|w| w > 0.0);
        let sync = param(self.job, "sync").and_then(serde_json::Value::as_str);
        sync.filter(|sync| writes && *sync != "none")
    }

    /// Returns the share of its bytes that the page cache served, if most came from there.
    pub(super) fn cached(&self) -> Option<f64> {
        self.of_disk(metric::CACHE_SERVED).filter(|share| *share >= CACHED)
    }

    /// Returns the share of the disk's bytes that others moved, if it is large. A file system's own
    /// bytes, such as a journal's, count as those of others, so a durable load has none.
    pub(super) fn others(&self) -> Option<f64> {
        let others = self.of_disk(metric::DEVICE_OTHERS)?;
        (others >= SHARED && !self.is_durable()).then_some(others)
    }

    /// Returns the limit of its control group that it reaches while most transfers wait above the
    /// disk, and nothing else explains that they wait.
    pub(super) fn group_limit(&self) -> Option<GroupLimit> {
        if self.cached().is_some() || self.is_out_of_cpu() || self.full_queue().is_some() {
            return None;
        }
        let least = match self.of_disk(metric::DEVICE_DEPTH) {
            Some(depth) if depth < MOSTLY_ABOVE * self.achieved => LIMIT_IN_FORCE,
            Some(_) => return None,
            None => LIMIT_REACHED,
        };
        // The kernel splits and merges the transfers of the page cache.
        let kinds: &[bool] = if self.is_buffered() { &[true] } else { &[true, false] };
        let limits = kinds.iter().flat_map(|kind| WAYS.map(|way| self.limit(*kind, way)));
        let known = limits.flatten().filter(|limit| limit.used >= least);
        known.max_by(|a, b| a.used.total_cmp(&b.used))
    }

    /// Returns the limit of its control group in one direction, in bytes or transfers.
    fn limit(&self, in_bytes: bool, direction: Direction) -> Option<GroupLimit> {
        let (used, rate) = match in_bytes {
            true => (metric::GROUP_BYTES_USED, metric::TRANSFER_RATE),
            false => (metric::GROUP_TRANSFERS_USED, metric::IOPS),
        };
        let used = super::value(self.job, used, direction)?;
        let rate = super::value(self.job, rate, direction)? / used;
        Some(GroupLimit { in_bytes, direction, rate, used })
    }

    /// Returns the requests that each hardware queue of the disk admits, and the number of these
    /// queues that the workers can use at a time.
    pub(super) fn queues(&self) -> Option<(f64, f64)> {
        // A driver without a queue of its own reports none.
        let each = self.of_disk(metric::DEVICE_QUEUE).filter(|each| *each >= 1.0)?;
        // A worker submits to the queue of the CPU on which it runs.
        let queues = self.of_disk(metric::DEVICE_QUEUES).unwrap_or(1.0).min(self.workers).max(1.0);
        Some((each, queues))
    }

    /// Returns the requests that the queues of the disk admit, if they are full and others wait
    /// above.
    pub(super) fn full_queue(&self) -> Option<f64> {
        let (each, queues) = self.queues()?;
        let admitted = each * queues;
        let depth = self.of_disk(metric::DEVICE_DEPTH)?;
        let full = QUEUE_FULL * admitted..=QUEUE_EXCEEDED * admitted;
        // The kernel merges nothing at random places, so a request is a transfer past the cache.
        let is_full =
            full.contains(&depth) && self.achieved > admitted / QUEUE_FULL && !self.is_buffered();
        is_full.then_some(admitted)
    }

    /// Returns what each queue of the disk must admit for `requests` in all; `None` if they are not
    /// known to admit fewer.
    pub(super) fn queue_for(&self, requests: f64) -> Option<f64> {
        let (each, queues) = self.queues()?;
        (requests > each * queues).then(|| (requests / queues).ceil())
    }

    /// True if its transfers go through the page cache, as far as is known.
    fn is_buffered(&self) -> bool {
        self.of_disk(metric::CACHE_SERVED).is_some()
    }

    /// True if the page cache, another program or the control group explains the rate.
    pub(super) fn is_held_above(&self) -> bool {
        self.cached().is_some() || self.others().is_some() || self.group_limit().is_some()
    }

    /// Returns the change to another block size, and the factor of the size; `None` where lines of
    /// an access specification have sizes of their own.
    pub(super) fn other_block(&self) -> Option<(Change, f64)> {
        if ["access", "align", "stride", "reply"].iter().any(|key| param(self.job, key).is_some()) {
            return None;
        }
        let text = param(self.job, "block_size").and_then(serde_json::Value::as_str);
        let block = text.map_or(Some(BLOCK), |text| text.parse::<Bytes>().ok())?.0;
        let factor = if block > LARGE_BLOCK { 1.0 / BLOCK_FACTOR } else { BLOCK_FACTOR };
        let other = block as f64 * factor;
        Some((vec![set("block_size", bytes(other))], factor))
    }

    /// Returns the finding of `rule` that suspects `claim` of limiting it.
    pub(super) fn suspected(
        &self,
        rule: &'static str,
        claim: Claim,
        evidence: Vec<Evidence>,
    ) -> Finding {
        let subject = subject(self.point, self.job);
        Finding::new(rule, Verdict::Suspected, subject, claim, evidence)
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

/// Returns the name of a load with blocks of `factor` times the size.
pub(super) const fn block_name(factor: f64) -> &'static str {
    if factor > 1.0 { "block_size x2" } else { "block_size x0.5" }
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

    /// The same with these figures instead of or beside its own.
    pub(in crate::diagnosis) fn with(mut point: PointStudy, figures: &[(&str, f64)]) -> PointStudy {
        let more = cases::point(figures).jobs.remove(0).metrics;
        let known = &mut point.jobs[0].metrics;
        known.retain(|figure| more.iter().all(|other| other.metric != figure.metric));
        known.extend(more);
        point
    }
}

#[cfg(test)]
mod tests {
    use super::cases::load;
    use crate::diagnosis::rules::RULES;

    /// Parameters that say neither where a load reads and writes nor how much.
    const HARMLESS: [&str; 7] =
        ["block_size", "cache", "depth", "flush", "flush_every", "sync", "workers"];

    #[test]
    fn no_experiment_changes_the_target_of_a_load_or_makes_it_write() {
        let common = [
            ("iops", 500.0),
            ("transfer_rate", 2e6),
            ("achieved_depth", 16.0),
            ("service_time_mean", 32e-3),
            ("device_busy", 1.0),
        ];
        let points = [
            vec![("device_depth", 16.0)],
            vec![("device_depth", 0.1), ("group_bytes_used", 0.9)],
            vec![("device_depth", 0.1), ("group_transfers_used", 0.9)],
            vec![("device_depth", 4.0), ("device_queue", 4.0)],
            vec![("cache_served", 0.9)],
            vec![("iops_per_core", 500.0)],
            vec![("flush_rate", 500.0), ("flush_time_mean", 20e-3)],
        ];
        let mut tested = Vec::new();
        let durable = ["none", "dsync"];
        for (figures, sync) in points.iter().flat_map(|figures| durable.map(|sync| (figures, sync)))
        {
            let mut point = load(16, &[&common[..], figures].concat());
            point.jobs[0].params.set("sync", sync);
            for rule in RULES.iter().filter(|rule| rule.judge(&point).is_some()) {
                for (key, _) in
                    rule.experiments(&point).iter().flat_map(|one| &one.candidates).flatten()
                {
                    assert!(HARMLESS.contains(&key.as_str()), "{}: {key}", rule.name);
                    tested.push(rule.name);
                }
            }
        }
        for rule in
            ["disk_cache", "disk_cpu", "disk_flush", "disk_full", "disk_group_limit", "disk_queue"]
        {
            assert!(tested.contains(&rule), "{rule}: {tested:?}");
        }
    }
}
