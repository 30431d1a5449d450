//! Section `storage`: Iometer's result table under Iometer's names, the conditions of the load, and
//! the knee of a load curve.
//!
//! With reads or writes alone, columns of one direction would repeat the totals and are left out;
//! so are transactions without replies. `report --format iometer-csv` has all columns. Iometer's
//! figures of connections are absent, because no workload opens a disk repeatedly. A transaction is
//! a transfer with its reply; without replies each transfer is one, as in Iometer. `% CPU` covers
//! the whole host without steal and I/O wait, as in Iometer.

use linerate_analysis::{JobStudy, MetricStudy, PointStudy};
use linerate_model::Direction::{Rx, Sum, Tx};
use linerate_model::{Direction, Metric, metric};

use super::{Section, Subject};
use crate::document::{Block, Column, Sheet, Table};
use crate::grid::{Grid, estimate_cell};
use crate::number::Scale;
use crate::words::obtained_text;

const NAME: &str = "storage";
const MEGABYTES: Scale = Scale { base: "B/s", symbol: "MB/s", factor: 1e6 };
const MEBIBYTES: Scale = Scale { base: "B/s", symbol: "MiB/s", factor: 1_048_576.0 };
const MILLISECONDS: Scale = Scale { base: "s", symbol: "ms", factor: 1e-3 };
const PER_SECOND: Scale = Scale { base: "1/s", symbol: "1/s", factor: 1.0 };
const PACKETS: Scale = Scale { base: "packet/s", symbol: "packet/s", factor: 1.0 };

/// Column: Iometer's name, metrics of which the first known one is shown, direction (`Sum`: all),
/// and unit as shown.
type StorageColumn = (&'static str, &'static [&'static Metric], Direction, Scale);

/// Tables: name, caption, columns.
const TABLES: [(&str, &str, &[StorageColumn]); 5] = [
    (
        "rates",
        "Transfers and bytes",
        &[
            ("IOps", &[metric::IOPS], Sum, PER_SECOND),
            ("Read IOps", &[metric::IOPS], Rx, PER_SECOND),
            ("Write IOps", &[metric::IOPS], Tx, PER_SECOND),
            ("MBps (Decimal)", &[metric::TRANSFER_RATE], Sum, MEGABYTES),
            ("Read MBps (Decimal)", &[metric::TRANSFER_RATE], Rx, MEGABYTES),
            ("Write MBps (Decimal)", &[metric::TRANSFER_RATE], Tx, MEGABYTES),
            ("MiBps (Binary)", &[metric::TRANSFER_RATE_BINARY], Sum, MEBIBYTES),
            ("Read MiBps (Binary)", &[metric::TRANSFER_RATE_BINARY], Rx, MEBIBYTES),
            ("Write MiBps (Binary)", &[metric::TRANSFER_RATE_BINARY], Tx, MEBIBYTES),
            ("Transactions per Second", &[metric::EXCHANGE_RATE, metric::IOPS], Sum, PER_SECOND),
        ],
    ),
    (
        "times",
        "Response times and errors",
        &[
            ("Average Response Time", &[metric::SERVICE_TIME_MEAN], Sum, MILLISECONDS),
            ("Average Read Response Time", &[metric::SERVICE_TIME_MEAN], Rx, MILLISECONDS),
            ("Average Write Response Time", &[metric::SERVICE_TIME_MEAN], Tx, MILLISECONDS),
            (
                "Average Transaction Time",
                &[metric::RESPONSE_TIME, metric::SERVICE_TIME_MEAN],
                Sum,
                MILLISECONDS,
            ),
            ("Maximum Response Time", &[metric::SERVICE_TIME_MAX], Sum, MILLISECONDS),
            ("Maximum Read Response Time", &[metric::SERVICE_TIME_MAX], Rx, MILLISECONDS),
            ("Maximum Write Response Time", &[metric::SERVICE_TIME_MAX], Tx, MILLISECONDS),
            (
                "Maximum Transaction Time",
                &[metric::RESPONSE_TIME_MAX, metric::SERVICE_TIME_MAX],
                Sum,
                MILLISECONDS,
            ),
            ("Read Errors", &[metric::TRANSFER_ERRORS], Rx, Scale::COUNT),
            ("Write Errors", &[metric::TRANSFER_ERRORS], Tx, Scale::COUNT),
        ],
    ),
    (
        "tails",
        "Times of reads (rx) and writes (tx), and depth",
        &[
            ("p50 read", &[metric::SERVICE_TIME_P50], Rx, MILLISECONDS),
            ("p99 read", &[metric::SERVICE_TIME_P99], Rx, MILLISECONDS),
            ("p99.9 read", &[metric::SERVICE_TIME_P999], Rx, MILLISECONDS),
            ("p50 write", &[metric::SERVICE_TIME_P50], Tx, MILLISECONDS),
            ("p99 write", &[metric::SERVICE_TIME_P99], Tx, MILLISECONDS),
            ("p99.9 write", &[metric::SERVICE_TIME_P999], Tx, MILLISECONDS),
            ("depth", &[metric::ACHIEVED_DEPTH], Sum, Scale::COUNT),
            ("off Little's law", &[metric::DEPTH_ERROR], Sum, Scale::PERCENT),
            ("device over load, read", &[metric::DEVICE_SHARE], Rx, Scale::PERCENT),
            ("device over load, written", &[metric::DEVICE_SHARE], Tx, Scale::PERCENT),
        ],
    ),
    (
        "durability",
        "Flushes and discards (not transfers)",
        &[
            ("flushes per second", &[metric::FLUSH_RATE], Sum, PER_SECOND),
            ("flush mean", &[metric::FLUSH_TIME_MEAN], Sum, MILLISECONDS),
            ("flush p50", &[metric::FLUSH_TIME_P50], Sum, MILLISECONDS),
            ("flush p99", &[metric::FLUSH_TIME_P99], Sum, MILLISECONDS),
            ("flush max", &[metric::FLUSH_TIME_MAX], Sum, MILLISECONDS),
            ("discards per second", &[metric::TRIM_RATE], Sum, PER_SECOND),
            ("discarded", &[metric::TRIM_BYTES], Sum, MEGABYTES),
            ("discard mean", &[metric::TRIM_TIME_MEAN], Sum, MILLISECONDS),
            ("discard p50", &[metric::TRIM_TIME_P50], Sum, MILLISECONDS),
            ("discard p99", &[metric::TRIM_TIME_P99], Sum, MILLISECONDS),
            ("discard max", &[metric::TRIM_TIME_MAX], Sum, MILLISECONDS),
        ],
    ),
    (
        "host",
        "Host during the load",
        &[
            ("% CPU Utilization", &[metric::HOST_CPU], Sum, Scale::PERCENT),
            ("% User Time", &[metric::HOST_CPU_USER], Sum, Scale::PERCENT),
            ("% Privileged Time", &[metric::HOST_CPU_PRIVILEGED], Sum, Scale::PERCENT),
            ("% DPC Time", &[metric::HOST_CPU_SOFTIRQ], Sum, Scale::PERCENT),
            ("% Interrupt Time", &[metric::HOST_CPU_IRQ], Sum, Scale::PERCENT),
            ("Interrupts per Second", &[metric::INTERRUPTS], Sum, PER_SECOND),
            ("CPU Effectiveness", &[metric::CPU_EFFECTIVENESS], Sum, PER_SECOND),
            ("Packets/Second", &[metric::HOST_PACKETS], Sum, PACKETS),
            ("Packet Errors", &[metric::HOST_PACKET_ERRORS], Sum, PER_SECOND),
            ("Segments Retransmitted/Second", &[metric::HOST_RETRANSMITS], Sum, PER_SECOND),
        ],
    ),
];

/// Conditions of a row.
const CIRCUMSTANCES: [(&str, &str); 8] = [
    ("engine", "engine"),
    ("engine_why", "why this engine"),
    ("cache", "page cache"),
    ("durability", "durability"),
    ("contents", "contents"),
    ("conditioning", "conditioning"),
    (STEADY_STATE, "steady state"),
    ("steady_rounds", "steady over rounds"),
];
const STEADY_STATE: &str = "steady_state";
const ON_STEADY_STATE: &str = "Steady state, after SNIA's performance test specification: over \
    fifths of a trial the range of the rate is at most 20 % of its \
     mean and its trend at most 10 %. The worst trial of a row is told. Over rounds: the same of \
     five repeats in a row, the first five that are so.";

/// Section `storage`.
pub(super) const SECTION: Section = Section {
    name: NAME,
    title: "Disks and files",
    summary: "Iometer's result table under its own names, engines and conditioning, steady state, \
        and the knee of a load curve",
    order: 45,
    blocks,
};

fn blocks(subject: &Subject<'_>) -> Vec<Block> {
    subject.grids.iter().flat_map(of_sweep).collect()
}

type Loaded<'a> = (&'a PointStudy, &'a JobStudy);

fn of_sweep(grid: &Grid<'_>) -> Vec<Block> {
    let jobs = grid.points.iter().flat_map(|point| point.jobs.iter().map(move |job| (*point, job)));
    let loaded: Vec<Loaded<'_>> =
        jobs.filter(|(_, job)| !job.background && job.workload == NAME).collect();
    if loaded.is_empty() {
        return Vec::new();
    }
    let mut blocks: Vec<Block> = [most(grid, &loaded), knee(grid, &loaded)]
        .into_iter()
        .flatten()
        .map(Block::Paragraph)
        .collect();
    blocks
        .extend(TABLES.iter().filter_map(|table| figures(grid, &loaded, table)).map(Block::Table));
    let (alike, differing) =
        CIRCUMSTANCES.iter().partition::<Vec<Circumstance>, _>(|(name, _)| is_alike(&loaded, name));
    blocks.extend(throughout(&alike, &loaded).map(Block::Paragraph));
    blocks.extend(circumstances(grid, &loaded, &differing).map(Block::Table));
    blocks
}

/// Returns the highest rates of transfers and of bytes, with their points.
fn most(grid: &Grid<'_>, loaded: &[Loaded<'_>]) -> Option<String> {
    let top = |metric| best_load(loaded, metric);
    let shown = |value: f64, scale: Scale| format!("{} {}", scale.plain(value), scale.symbol);
    let (iops, at, job) = top(metric::IOPS)?;
    let tail = summed(job, metric::SERVICE_TIME_P99).map_or_else(String::new, |tail| {
        format!(", 99 % of them within {}", shown(tail, MILLISECONDS))
    });
    let (bytes, bytes_at, _) = top(metric::TRANSFER_RATE)?;
    let place = |point| {
        if loaded.len() > 1 { format!(" at {}", grid.place_of(point)) } else { String::new() }
    };
    let also = if std::ptr::eq(at, bytes_at) { String::new() } else { place(bytes_at) };
    Some(format!(
        "{} reached {iops:.0} transfers per second{}{tail}, and {}{also}.",
        grid.sweep,
        place(at),
        shown(bytes, MEGABYTES)
    ))
}

/// Returns the largest value of `metric` with the point and the job that reached it.
fn best_load<'a>(
    loaded: &[Loaded<'a>],
    metric: &Metric,
) -> Option<(f64, &'a PointStudy, &'a JobStudy)> {
    let known = loaded.iter().filter_map(|(point, job)| Some((summed(job, metric)?, *point, *job)));
    known.max_by(|(one, ..), (other, ..)| one.total_cmp(other))
}

fn summed(job: &JobStudy, metric: &Metric) -> Option<f64> {
    Some(metric_of(job, &[metric], Direction::Sum)?.estimate?.value)
}

/// Name of an obtained value, and its heading.
type Circumstance = &'static (&'static str, &'static str);

/// Returns true if every job obtained the same value for `name`.
fn is_alike(loaded: &[Loaded<'_>], name: &str) -> bool {
    let said = |(_, job): &Loaded<'_>| job.obtained.get(name).map(obtained_text);
    loaded.len() > 1
        && said(&loaded[0]).is_some()
        && loaded.iter().all(|one| said(one) == said(&loaded[0]))
}

/// Returns the conditions that all rows share.
fn throughout(alike: &[Circumstance], loaded: &[Loaded<'_>]) -> Option<String> {
    let (_, job) = loaded.first()?;
    let told: Vec<String> = alike
        .iter()
        .map(|(name, head)| format!("{head} {}", obtained_text(&job.obtained[*name])))
        .collect();
    (!told.is_empty()).then(|| format!("In every row: {}.", told.join("; ")))
}

/// Returns the first of `metrics` that `job` has; for a total, that of the only direction.
fn metric_of<'a>(
    job: &'a JobStudy,
    metrics: &[&Metric],
    direction: Direction,
) -> Option<&'a MetricStudy> {
    let of = |metric: &Metric, direction| {
        job.metric(metric, direction).filter(|figure| figure.estimate.is_some())
    };
    let total = direction == Direction::Sum;
    metrics.iter().find_map(|metric| {
        of(metric, direction).or_else(|| {
            let either = || of(metric, Direction::Rx).or_else(|| of(metric, Direction::Tx));
            if total { either() } else { None }
        })
    })
}

/// Columns that would repeat others.
struct Redundant {
    has_one_direction: bool,
    has_replies: bool,
}

impl Redundant {
    fn of(loaded: &[Loaded<'_>]) -> Self {
        let has = |metric: &Metric, direction| {
            loaded.iter().any(|(_, job)| job.metric(metric, direction).is_some())
        };
        Self {
            has_one_direction: !(has(metric::IOPS, Direction::Rx)
                && has(metric::IOPS, Direction::Tx)),
            has_replies: has(metric::EXCHANGE_RATE, Direction::Sum),
        }
    }

    /// Returns true if `column` of `table` would repeat another column.
    fn has(&self, (name, names, direction, _): &StorageColumn, table: &[StorageColumn]) -> bool {
        let is_total = |(_, others, direction, _): &StorageColumn| {
            others == names && *direction == Direction::Sum
        };
        let repeats_total = *direction != Direction::Sum && table.iter().any(is_total);
        (self.has_one_direction && repeats_total)
            || (!self.has_replies && name.contains("Transaction"))
    }
}

fn figures(
    grid: &Grid<'_>,
    loaded: &[Loaded<'_>],
    (id, caption, told): &(&str, &str, &[StorageColumn]),
) -> Option<Table> {
    let redundant = Redundant::of(loaded);
    let known: Vec<&StorageColumn> = told
        .iter()
        .filter(|column| !redundant.has(column, told))
        .filter(|(_, names, direction, _)| {
            loaded.iter().any(|(_, job)| metric_of(job, names, *direction).is_some())
        })
        .collect();
    if known.is_empty() {
        return None;
    }
    let mut sheet = places(grid, loaded);
    for (name, names, direction, scale) in known {
        let column = Column::estimate(*name, *scale, None, *direction);
        sheet
            .column(column, |(point, job)| estimate_cell(point, metric_of(job, names, *direction)));
    }
    let (id, caption) =
        (format!("{NAME}-{}-{id}", grid.number), format!("{caption}: {}", grid.sweep));
    Some(sheet.judged(id, caption, |(point, _)| point.validity))
}

fn circumstances(
    grid: &Grid<'_>,
    loaded: &[Loaded<'_>],
    differing: &[Circumstance],
) -> Option<Table> {
    let known: Vec<Circumstance> = differing
        .iter()
        .copied()
        .filter(|(name, _)| loaded.iter().any(|(_, job)| job.obtained.contains_key(*name)))
        .collect();
    if known.is_empty() {
        return None;
    }
    let mut sheet = places(grid, loaded);
    for (name, head) in &known {
        let said = |job: &JobStudy| job.obtained.get(*name).map(obtained_text);
        sheet.text_or(head, "–", |(_, job)| said(job));
    }
    let caption = format!("Conditions: {}", grid.sweep);
    let mut table =
        sheet.judged(format!("{NAME}-{}-how", grid.number), caption, |(point, _)| point.validity);
    table.note =
        known.iter().any(|(name, _)| *name == STEADY_STATE).then(|| ON_STEADY_STATE.to_owned());
    Some(table)
}

/// Returns true if a point has several storage jobs, which then need their ends as names.
fn is_several(loaded: &[Loaded<'_>]) -> bool {
    loaded.windows(2).any(|pair| std::ptr::eq(pair[0].0, pair[1].0))
}

/// Returns a sheet of `loaded` with their places.
fn places<'a>(grid: &Grid<'_>, loaded: &[Loaded<'a>]) -> Sheet<Loaded<'a>> {
    let mut sheet = grid.sheet(loaded.iter().copied(), |(point, _)| point);
    if is_several(loaded) {
        sheet.text("target", |(_, job)| {
            let target = job.params.get("target").and_then(|target| target.as_str());
            target.unwrap_or(&job.from).to_owned()
        });
    }
    sheet
}

/// Returns the knee of the load curve: the point with the highest ratio of rate to mean time
/// (Kleinrock 1979, "power").
fn knee(grid: &Grid<'_>, loaded: &[Loaded<'_>]) -> Option<String> {
    const LEAST_POINTS: usize = 3;
    const AXES: [&str; 2] = ["depth", "rate"];
    let [axis] = grid.axes.as_slice() else { return None };
    if is_several(loaded) || loaded.len() < LEAST_POINTS || !AXES.contains(&axis.name.as_str()) {
        return None;
    }
    let value =
        |job, metrics: &[&Metric]| Some(metric_of(job, metrics, Direction::Sum)?.estimate?.value);
    let powers = loaded.iter().filter_map(|(point, job)| {
        let (rate, time) = (
            value(job, &[metric::IOPS])?,
            value(job, &[metric::RESPONSE_TIME, metric::SERVICE_TIME_MEAN])?,
        );
        (time > 0.0 && time.is_finite()).then_some((rate / time, rate, time, *point))
    });
    let (_, rate, time, point) = powers.max_by(|a, b| a.0.total_cmp(&b.0))?;
    // At the largest depth the curve has not bent yet, because no larger one was measured.
    if axis.place(point)? + 1 == axis.values.len() {
        return None;
    }
    let place = grid.place_of(point);
    Some(format!(
        "The knee of {} is at {place}: {rate:.0} transfers per second at {:.3} ms on average. \
            Beyond it the time grows faster than the rate.",
        grid.sweep,
        time * 1e3
    ))
}
