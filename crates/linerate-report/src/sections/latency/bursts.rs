//! Latency of the last frame of a burst that arrives at several ports at once, beside the expected
//! wait (S5.5).
//!
//! Jobs of `frames` towards one endpoint, with one rate and size, start at one barrier and send at
//! the same instants. Of m bursts of n frames, the last frame waits for m·n - 1 others, each for
//! its wire time at the slowest capacity of the path. In the distribution of all times, each
//! position in the queue has an equal share, so the last position is its slowest part. That is
//! exact for synchronous senders and an upper bound for others.

use linerate_analysis::{BurstStudy, JobStudy, PointStudy};
use linerate_model::{Bytes, Campaign, Distribution, metric};

use super::{basis, cell, with_interval};
use crate::document::{
    AxisScale, Block, Cell, Chart, Column, ColumnKind, Plot, Role, Row, Sheet, Table,
};
use crate::grid::Grid;
use crate::number::Scale;

const WORKLOAD: &str = "frames";
/// Snapshots drawn; the table has every point.
const MOST_SNAPSHOTS: usize = 6;
/// Bytes of an Ethernet frame around its packet: header 14, check sequence 4 (IEEE 802.3 clause 3).
const FRAME_AROUND_PACKET: f64 = 18.0;
/// Bits in a byte.
const BITS: f64 = 8.0;
const NANOS: f64 = 1e9;

/// Planned burst.
struct Burst {
    ports: usize,
    frames_each: u32,
    /// Wire time of one frame at the slowest capacity; `None` if no capacity is known.
    frame_seconds: Option<f64>,
}

impl Burst {
    /// Returns the burst of the jobs of `point`, if they send bursts.
    fn of(campaign: &Campaign, point: &PointStudy) -> Option<Self> {
        let jobs: Vec<&JobStudy> =
            point.jobs.iter().filter(|job| !job.background && job.workload == WORKLOAD).collect();
        let first = jobs.first()?;
        let same =
            |key: &str| jobs.iter().all(|job| job.params.0.get(key) == first.params.0.get(key));
        let frames_each = first
            .params
            .0
            .get("burst")
            .map_or(Some(1), |burst| u32::try_from(burst.as_u64()?).ok())?;
        let alike = jobs.iter().all(|job| job.to == first.to)
            && ["rate", "frame_size", "burst"].into_iter().all(same);
        let timed =
            alike && first.params.0.contains_key("rate") && jobs.len() * frames_each as usize > 1;
        let size: Bytes = first.params.0.get("frame_size")?.as_str()?.parse().ok()?;
        timed.then(|| Self {
            ports: jobs.len(),
            frames_each,
            frame_seconds: slowest(campaign, &jobs, size),
        })
    }

    fn frames(&self) -> usize {
        self.ports * self.frames_each as usize
    }
}

/// Returns the wire time of a frame of `size` at the slowest capacity that all of `jobs` share.
fn slowest(campaign: &Campaign, jobs: &[&JobStudy], size: Bytes) -> Option<f64> {
    let shared = campaign.header.capacities.iter().filter(|capacity| {
        let joins = |job: &&JobStudy| {
            capacity.pairs.iter().any(|(from, to)| (from, to) == (&job.from, &job.to))
        };
        capacity.members.is_empty() && jobs.iter().all(joins)
    });
    let seconds = shared.map(|capacity| {
        let wire = size.0 as f64 - FRAME_AROUND_PACKET + capacity.frame_overhead.0 as f64;
        wire * BITS / capacity.rate.0
    });
    seconds.reduce(f64::max)
}

/// Point that sent bursts, and the times of its frames from their own departures.
type Sent<'a> = (&'a Grid<'a>, &'a PointStudy, Burst, &'a Distribution);

/// Returns the table of points that sent bursts, and a snapshot of those whose last frames were
/// kept; empty without such points.
pub(super) fn blocks(campaign: &Campaign, id: &str, of: &str, grids: &[&Grid<'_>]) -> Vec<Block> {
    let points = grids.iter().flat_map(|grid| grid.points.iter().map(move |point| (*grid, *point)));
    let bursts: Vec<Sent<'_>> = points
        .filter_map(|(grid, point)| {
            let burst = Burst::of(campaign, point)?;
            // The sum of all jobs comes last.
            let times = &point.jobs.last()?.service;
            (!times.is_empty()).then_some((grid, point, burst, times))
        })
        .collect();
    if bursts.is_empty() {
        return Vec::new();
    }
    let longest = bursts.iter().filter_map(|(_, _, burst, _)| waits(burst, burst.frames()));
    let scale = Scale::of(metric::SERVICE_TIME_P50, longest);
    let kept = bursts
        .iter()
        .filter_map(|(grid, point, burst, _)| Some((*grid, *point, burst, point.bursts.as_ref()?)));
    let snapshots = kept.take(MOST_SNAPSHOTS).enumerate();
    let snapshots = snapshots.map(|(number, (grid, point, burst, kept))| {
        let place = grid.full_place_of(point);
        Block::Chart(snapshot(format!("{id}-snapshot-{number}"), &place, burst, kept, scale))
    });
    std::iter::once(Block::Table(table(id, of, &bursts, scale)))
        .chain(snapshots.collect::<Vec<_>>())
        .collect()
}

/// Returns the wire time of `frames` frames of a burst at the slowest capacity, in seconds.
fn waits(burst: &Burst, frames: usize) -> Option<f64> {
    burst.frame_seconds.map(|frame| frame * frames as f64)
}

fn table(id: &str, of: &str, bursts: &[Sent<'_>], scale: Scale) -> Table {
    let time = |head: &str| Column::number(head, scale);
    let ranged = |head: &str| Column { kind: ColumnKind::Estimate, ..time(head) };
    let columns = vec![
        Column::text("sweep"),
        Column::number("ports", Scale::COUNT),
        Column::number("frames each", Scale::COUNT),
        time("expected: first"),
        time("expected: last"),
        time("fastest frame"),
        time("last: least"),
        ranged("last: median"),
        ranged("last: 90 %"),
        ranged("last: 99 %"),
        time("last: most"),
        Column::number("bursts", Scale::COUNT),
    ];
    let mut table =
        Table::new(format!("{id}-bursts"), format!("Last frame of a burst{of}"), columns);
    for (grid, point, burst, times) in bursts {
        let expected = |n| Cell::number_or(waits(burst, n), "no known capacity");
        let mut cells = vec![
            Cell::Text(grid.full_place_of(point)),
            Cell::Number(burst.ports as f64),
            Cell::Number(f64::from(burst.frames_each)),
            expected(1),
            expected(burst.frames()),
            times
                .buckets
                .first()
                .map_or(Cell::Missing("–".into()), |(ns, _)| Cell::Number(*ns as f64 / NANOS)),
        ];
        cells.extend(match &point.bursts {
            Some(kept) => of_kept(kept),
            None => of_all(times, burst.frames()),
        });
        table.rows.push(Row::judged(cells, point.validity));
    }
    let kept = bursts.iter().filter_map(|(_, point, ..)| point.bursts.as_ref());
    table.note = Some(format!(
        "Senders start at one barrier and send at the same instants. Expected, with m ports of n \
            frames each: the first frame takes its own wire time at the slowest shared capacity, \
            the last frame that of m·n frames. Time above that is other delay. With a snapshot in \
            the plan, the last frame is timed for each burst, from its instant to the receipt of \
            its slowest frame; a sender that wakes late lengthens it. Without a snapshot, the \
            slowest 1 in m·n of all times is shown: an upper bound, because threads wake some tens \
            of microseconds apart.{}",
        basis(kept.flat_map(|kept| &kept.percentiles))
    ));
    table
}

/// Returns minimum, median, 90 %, 99 %, maximum and number of the bursts in the snapshot.
fn of_kept(kept: &BurstStudy) -> [Cell; 6] {
    [
        Cell::Number(kept.least),
        quantile_cell(kept, 0.5, Some(kept.median)),
        quantile_cell(kept, 0.9, kept.p90),
        quantile_cell(kept, 0.99, kept.p99),
        Cell::Number(kept.most),
        Cell::Number(kept.n as f64),
    ]
}

fn quantile_cell(kept: &BurstStudy, quantile: f64, value: Option<f64>) -> Cell {
    match (with_interval(&kept.percentiles, quantile), value) {
        // There are enough bursts for the percentile, but not for its interval.
        (Cell::Missing(_), Some(value)) => Cell::Number(value),
        (cell, _) => cell,
    }
}

/// Returns the same for the slowest part of all times of bursts of `frames`.
fn of_all(times: &Distribution, frames: usize) -> [Cell; 6] {
    let none = || Cell::Missing("no snapshot".into());
    let last = times.percentile(1.0 - 0.5 / frames as f64);
    [none(), cell(last, None), none(), none(), cell(times.max(), None), none()]
}

/// Returns the chart of the last frame of each burst.
fn snapshot(id: String, place: &str, burst: &Burst, kept: &BurstStudy, scale: Scale) -> Chart {
    let title = format!("{place}: last frame of each burst in turn");
    let expected = waits(burst, burst.frames());
    let mut sheet = Sheet::new((1_u32..).zip(&kept.snapshot));
    sheet.number("burst", Scale::COUNT, |(number, _)| f64::from(*number));
    let last = Column::number("last frame", scale);
    sheet.drawn(Role::Line, last, |(_, last)| Cell::number_or(**last, metric::LOST.name));
    let of_expected = Column::number("expected", scale);
    match expected {
        Some(_) => sheet.drawn(Role::Ceiling(None), of_expected, |_| {
            Cell::number_or(expected, "no known capacity")
        }),
        None => sheet.column(of_expected, |_| Cell::Missing("no known capacity".into())),
    }
    let marks = sheet.marks();
    let mut table = sheet.plain(id, title);
    table.folded = true;
    table.note = Some("First trial, from its first burst on.".into());
    Chart {
        summary: "Latency of each burst's last frame, burst by burst, beside the expected latency."
            .into(),
        x_scale: AxisScale::Linear,
        ..Chart::of(Plot::Lines, "latency of the last frame", marks, table)
    }
}
