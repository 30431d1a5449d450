//! The stages of a load on a disk or file: application, page cache, queue and disk; and the disk of
//! a file that crosses a network.
//!
//! The disk's figures are the kernel's counters, which include all programs. The served share is
//! the disk's count over the requested one.

use linerate_model::series::disk as columns;
use linerate_model::{BitRate, Counter, Direction, Metric, PacketRate, Series, Unit, metric};

use super::super::JobStudy;
use super::super::transfers::mode;
use super::ends::{cores, disk};
use super::{PathEnd, Reading, ReadingKind, Seen, Stage, StageKind};
use crate::diagnosis::{Advice, Evidence, Step};

/// The cache mode that bypasses the page cache.
const DIRECT: &str = "direct";

const BITS_PER_BYTE: f64 = 8.0;
/// Fraction of a rate that counts as reached.
const REACHED: f64 = 0.99;
/// Share of its core from which on a worker has no time for more.
const BUSY: f64 = 0.9;

/// Returns the evidence on the limit of a load on a disk or file without a claim, and the next
/// step: a rate of the plan that was reached, workers without CPU time, or the depth (Little's law:
/// rate is depth over service time). `None` for any other job.
pub(super) fn known(job: &JobStudy) -> Option<(Vec<Evidence>, Vec<Advice>)> {
    let (evidence, step) = observed(job)?;
    Some((vec![evidence], vec![step.into()]))
}

fn twice(parameter: &str) -> Step {
    Step::Double { parameter: parameter.to_owned(), value: None, requests: None }
}

fn observed(job: &JobStudy) -> Option<(Evidence, Step)> {
    let value = |metric| value_of_any(job, metric);
    let iops = value(metric::IOPS)?;
    // A rate in bits is one of the bytes moved.
    let in_bits = |text: &str| {
        Some(text.parse::<BitRate>().ok()?.0 / BITS_PER_BYTE * iops / value(metric::TRANSFER_RATE)?)
    };
    let asked = job.params.0.get("rate").and_then(serde_json::Value::as_str);
    // The rate may be written in transfers or in bits; the unit in the text decides.
    let asked = asked.and_then(|text| {
        text.parse::<PacketRate>().map(|rate| rate.0).ok().or_else(|| in_bits(text))
    });
    // A load that reached its own rate says nothing about the disk.
    if let Some(asked) = asked.filter(|asked| iops >= REACHED * asked) {
        return Some((Evidence::RateReached { rate: asked }, Step::WithoutRate));
    }
    let workers = job.params.0.get("workers").and_then(serde_json::Value::as_f64).unwrap_or(1.0);
    let cores = value(metric::IOPS_PER_CORE).filter(|each| *each > 0.0).map(|each| iops / each);
    // Workers without CPU time come before the depth: more depth would not help them.
    if let Some(cores) = cores.filter(|cores| *cores >= BUSY * workers) {
        let used = Evidence::ThreadCpus { threads: workers, cpus: cores, all: true };
        return Some((used, twice("workers")));
    }
    let (depth, seconds) = (value(metric::ACHIEVED_DEPTH)?, value(metric::SERVICE_TIME_MEAN)?);
    if !seconds.is_finite() {
        return Some((Evidence::NeverEnded { rate: iops }, Step::KernelLog));
    }
    let (transfers, rate) = (depth, iops);
    Some((Evidence::InFlight { transfers, seconds, rate, asked }, twice("depth")))
}

/// Returns the estimate of `metric` over both directions, or of the first direction that has one.
fn value_of_any(job: &JobStudy, metric: &'static Metric) -> Option<f64> {
    let ways = [Direction::Sum, Direction::Rx, Direction::Tx];
    ways.into_iter().find_map(|way| Some(job.metric(metric, way)?.estimate?.value))
}

/// Returns the stages of a load on a disk or file.
pub(super) fn stages(first: &Seen<'_>) -> Vec<Stage> {
    let (record, host) = (first.job.active, first.job.spec.from.host.as_str());
    let stage = |place, name: &str| Stage::new(PathEnd::Sender, place, host, name);
    let mut stages = vec![stage(StageKind::Application, &first.job.spec.workload)];
    let cache = mode(record, "cache").unwrap_or_default();
    // Direct transfers bypass the page cache, so it is no stage of their path.
    if cache != DIRECT {
        stages.push(stage(StageKind::Cache, cache));
    }
    stages.push(stage(StageKind::Queue, mode(record, "engine").unwrap_or_default()));
    stages.push(stage(StageKind::Disk, mode(record, "device").unwrap_or_default()));
    stages
}

/// Returns the readings at `stage` during a trial.
pub(super) fn readings(stage: &Stage, one: &Seen<'_>) -> Vec<Reading> {
    let alone = one.job.flow(one.direction).is_none();
    match stage.place {
        StageKind::Application => application(one),
        StageKind::Cache => served(one).into_iter().collect(),
        // A load on a disk moves both counters; a file that crosses a network is read at one end
        // and written at the other.
        StageKind::Disk if alone => disk(one, PathEnd::Sender, &stage.name, &series(one)),
        StageKind::Disk if stage.end == PathEnd::Sender => {
            disk(one, PathEnd::Sender, &stage.name, &[columns::BYTES_READ])
        }
        StageKind::Disk => disk(one, PathEnd::Receiver, &stage.name, &[columns::BYTES_WRITTEN]),
        StageKind::Queue
        | StageKind::Socket
        | StageKind::Interface
        | StageKind::Bus
        | StageKind::Wire => Vec::new(),
    }
}

/// Returns the disk counters that the load moves.
fn series(one: &Seen<'_>) -> Vec<Series> {
    let done = |counter| rate(one, counter).is_some();
    let ways = [
        (columns::BYTES_READ, Counter::BytesRead),
        (columns::BYTES_WRITTEN, Counter::BytesWritten),
    ];
    ways.into_iter().filter(|(_, counter)| done(*counter)).map(|(column, _)| column).collect()
}

fn rate(one: &Seen<'_>, counter: Counter) -> Option<f64> {
    // The workload counts at its active end whatever the direction of the data.
    let own = Seen { direction: Direction::Tx, job: one.job.clone(), ..*one };
    own.rate(PathEnd::Sender, counter)
}

fn sum(one: &Seen<'_>, counters: [Counter; 2]) -> Option<f64> {
    counters.into_iter().filter_map(|counter| rate(one, counter)).reduce(|a, b| a + b)
}

fn application(one: &Seen<'_>) -> Vec<Reading> {
    let moved = sum(one, [Counter::BytesRead, Counter::BytesWritten]);
    let moved = moved
        .map(|rate| Reading::new(ReadingKind::ReadAndWritten, rate, Unit::BytePerSecond, None));
    let transfers = sum(one, [Counter::Reads, Counter::Writes]);
    let transfers =
        transfers.map(|rate| Reading::new(ReadingKind::Transfers, rate, Unit::PerSecond, None));
    let cpu =
        cores(&Seen { direction: Direction::Tx, job: one.job.clone(), ..*one }, PathEnd::Sender);
    let cpu = cpu.map(|cores| Reading::new(ReadingKind::LoadCpu, cores, Unit::Core, None));
    [moved, transfers, cpu].into_iter().flatten().collect()
}

/// Returns the fraction of the requested transfers that reached the disk.
fn served(one: &Seen<'_>) -> Option<Reading> {
    let device = mode(one.job.active, "device")?;
    let asked = sum(one, [Counter::BytesRead, Counter::BytesWritten])?;
    let own = Seen { direction: Direction::Tx, job: one.job.clone(), ..*one };
    let done = disk(&own, PathEnd::Sender, device, &series(one)).into_iter().next()?;
    // The first reading is the busy share where the bytes were not read.
    (done.unit == Unit::BytePerSecond)
        .then(|| Reading::new(ReadingKind::ServedByDisk, done.value / asked, Unit::Ratio, None))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::MetricStudy;

    /// 10 000 transfers a second of 3.2 ms, 32 in flight, by threads that used this many cores.
    fn of(cores: f64, params: &[(&str, Value)]) -> (Evidence, Step) {
        of_transfers(3.2e-3, cores, params)
    }

    /// Returns the same with transfers of this many seconds.
    fn of_transfers(seconds: f64, cores: f64, params: &[(&str, Value)]) -> (Evidence, Step) {
        let figure = |(name, value): (&str, f64)| {
            MetricStudy::single(
                linerate_model::Metric::named(name).expect(name),
                Direction::Sum,
                value,
            )
        };
        let figures = [
            ("iops", 10_000.0),
            ("iops_per_core", 10_000.0 / cores),
            ("achieved_depth", 32.0),
            ("service_time_mean", seconds),
        ];
        let mut job = JobStudy { metrics: figures.map(figure).to_vec(), ..JobStudy::default() };
        params.iter().for_each(|(key, value)| job.params.set(key, value.clone()));
        observed(&job).expect("a disk")
    }

    #[test]
    fn advice_of_a_disk_that_hangs_says_so() {
        let hung = of_transfers(f64::INFINITY, 0.2, &[]);
        assert_eq!(hung, (Evidence::NeverEnded { rate: 10_000.0 }, Step::KernelLog));
    }

    #[test]
    fn evidence_of_a_disk_names_what_is_known_of_its_limit() {
        let depth =
            |asked| Evidence::InFlight { transfers: 32.0, seconds: 3.2e-3, rate: 10_000.0, asked };
        assert_eq!(of(0.2, &[]), (depth(None), twice("depth")));
        let reached = Evidence::RateReached { rate: 10_000.0 };
        assert_eq!(of(0.2, &[("rate", json!("10 kpps"))]), (reached, Step::WithoutRate));
        assert_eq!(of(0.2, &[("rate", json!("20 kpps"))]).0, depth(Some(20_000.0)));
        assert_eq!(of(0.95, &[]).1, twice("workers"));
        assert_eq!(of(0.95, &[("workers", json!(2))]).1, twice("depth"), "one of two CPUs is left");
        assert_eq!(known(&JobStudy::default()), None);
    }
}
