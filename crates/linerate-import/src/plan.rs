//! Plan of an imported file.

use linerate_model::plan::{Draft, DraftCampaign, DraftJob, DraftSweep};
use linerate_model::{Lines, Nanos, Params, printable};
use serde_json::Value;

use super::Imported;

/// Smallest target or span of a plan.
const LEAST_BYTES: u64 = 1 << 20;

/// Jobs that run side by side.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Sweep {
    pub(super) name: String,
    /// Seconds.
    pub(super) warmup: f64,
    pub(super) seconds: f64,
    pub(super) jobs: Vec<Job>,
    /// Axis of depths; empty: each job's own.
    pub(super) depths: Vec<u32>,
}

impl Sweep {
    /// Adds `job`, or a worker to an equal one.
    pub(super) fn push(&mut self, job: Job) {
        // Jobs that differ only in their number of workers become one with more workers.
        match self.jobs.iter_mut().find(|known| known.with_workers(1) == job.with_workers(1)) {
            Some(known) => known.value("workers", known.number("workers").unwrap_or(1) + 1),
            None => self.jobs.push(job),
        }
    }
}

/// Workload of a job.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) enum Workload {
    #[default]
    Storage,
    TcpStream,
    TcpRr,
    TcpCrr,
}

impl Workload {
    const fn name(self) -> &'static str {
        match self {
            Self::Storage => "storage",
            Self::TcpStream => "tcp_stream",
            Self::TcpRr => "tcp_rr",
            Self::TcpCrr => "tcp_crr",
        }
    }
}

/// One job.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Job {
    /// Parameters by name.
    pub(super) params: Params,
    pub(super) workload: Workload,
    /// It runs from `b` to `a`.
    pub(super) is_reversed: bool,
}

impl Job {
    /// Sets a parameter to a text.
    pub(super) fn text(&mut self, name: &str, value: &str) {
        self.params.set(name, value);
    }

    /// Sets a parameter to a number or flag.
    pub(super) fn value(&mut self, name: &str, value: impl Into<Value>) {
        self.params.set(name, value);
    }

    /// Sets a parameter to a size in bytes.
    pub(super) fn size(&mut self, name: &str, bytes: u64) {
        self.text(name, &format!("{bytes} B"));
    }

    /// Returns the same job with `n` workers.
    pub(super) fn with_workers(&self, n: u32) -> Self {
        let mut job = self.clone();
        job.value("workers", n);
        job
    }

    /// Sets the used extent of the target, at least [`LEAST_BYTES`]; returns true if it is `bytes`.
    /// A scratch file also has the bytes before `offset`.
    pub(super) fn extent(&mut self, is_scratch: bool, bytes: u64, offset: u64) -> bool {
        let (name, room) =
            if is_scratch { ("size", bytes.saturating_add(offset)) } else { ("span", bytes) };
        self.size(name, room.max(LEAST_BYTES));
        room >= LEAST_BYTES
    }

    /// Returns a parameter that is a number, or a size in bytes.
    pub(super) fn number(&self, name: &str) -> Option<u64> {
        match self.params.get(name)? {
            Value::String(text) => text.trim_end_matches(" B").parse().ok(),
            value => value.as_u64(),
        }
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.params.get(name).is_some()
    }
}

/// Longest time of transfers in flight at the end of a sweep.
const DRAIN: Nanos = Nanos::from_secs(1);

/// Returns the plan of `imported`, named `name`, of the file `origin`.
pub(super) fn text(name: &str, origin: &str, imported: &Imported) -> String {
    let origin = printable(origin, Lines::One);
    let draft = draft(name, imported).text();
    format!(
        "# Imported from {origin}. It carries no consent to write: a device needs `consent` \
            (linerate disk claim).\n\n{draft}"
    )
}

fn draft(name: &str, imported: &Imported) -> Draft {
    let sweeps = &imported.sweeps;
    let campaign = DraftCampaign { name: name.to_owned(), ..DraftCampaign::default() };
    Draft { campaign, sweeps: (0..sweeps.len()).map(|number| sweep(sweeps, number)).collect() }
}

/// Returns the sweep `number` of `sweeps`.
fn sweep(sweeps: &[Sweep], number: usize) -> DraftSweep {
    let sweep = &sweeps[number];
    // Names of sweeps must be distinct; those of foreign files need not be.
    let taken = sweeps[..number].iter().any(|other| other.name == sweep.name);
    let name = if taken { format!("{} ({})", sweep.name, number + 1) } else { sweep.name.clone() };
    let depths: Vec<Value> = sweep.depths.iter().map(|depth| Value::from(*depth)).collect();
    let axis = (!depths.is_empty()).then(|| ("params.depth".to_owned(), depths));
    DraftSweep {
        name,
        duration: Nanos::from_secs_f64(sweep.seconds),
        warmup: Nanos::from_secs_f64(sweep.warmup),
        drain: Some(DRAIN),
        jobs: sweep.jobs.iter().map(job).collect(),
        axes: axis.into_iter().collect(),
        ..DraftSweep::default()
    }
}

fn job(job: &Job) -> DraftJob {
    let (from, to) = if job.is_reversed { ("b", "a") } else { ("a", "b") };
    DraftJob { params: job.params.clone(), ..DraftJob::new(job.workload.name(), from, to) }
}
