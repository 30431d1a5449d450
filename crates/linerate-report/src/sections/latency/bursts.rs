//! Latency of the last frame of a burst that comes at several ports at once, beside what it must
//! wait by arithmetic (S5.5).
//!
//! Jobs of `frames` that end at one endpoint, with one rate and size, start at one barrier and send
//! at the same instants: of every m bursts of n frames the last waits for m·n - 1 others, each as
//! long on the wire as the path's slowest capacity says. All times of the jobs together are a
//! distribution in which each place in the queue has an equal share, so that the last place is its
//! slowest part: exactly where senders are synchronous, an upper bound of it where they are not.

use linerate_analysis::{BurstStudy, JobStudy, PointStudy};
use linerate_model::{Bytes, Campaign, Distribution, Unit, metric};

use super::{basis, cell, with_interval};
use crate::document::{
    AxisScale, Block, Cell, Chart, Column, ColumnKind, Mark, Plot, Role, Row, Table,
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

/// A burst as planned.
struct Burst {
    ports: usize,
    frames_each: u32,
    /// Time of one frame on the wire of the slowest capacity; `None` if none is known.
    frame_seconds: Option<f64>,
}

impl Burst {
    /// Of the jobs of `point`, if they are such.
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

/// Time of a frame of `size` at the slowest capacity that all of `jobs` share.
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

/// A point that sent bursts, and the times of its frames from their own departures.
type Sent<'a> = (&'a Grid<'a>, &'a PointStudy, Burst, &'a Distribution);

/// The table of the points that sent bursts, and a snapshot of those whose last frames were kept;
/// nothing without one.
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
    let scale = Scale::fit(metric::SERVICE_TIME_P50, Unit::Second, longest);
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

/// The time of `frames` frames of a burst on the slowest wire, seconds.
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
        let expected = |frames: usize| {
            waits(burst, frames).map_or(Cell::Missing("no known capacity".into()), Cell::Number)
        };
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
        "Senders start at one barrier and send at the same instants. Expected by arithmetic: of m \
            ports with n frames each the first frame takes \
         its own time on the wire of the slowest capacity they share, the last that of m·n frames; \
         whatever is above is delay of another \
         kind. The last frame's times are of each burst one by one where the plan keeps a \
         snapshot, from the instant of the burst to the \
         receipt of its slowest frame at whichever port: a sender that wakes late makes it longer. \
         Elsewhere they are the slowest 1 in m·n of \
         all times together, an upper bound where senders are not synchronous (threads wake some \
         tens of microseconds apart).{}",
        basis(kept.flat_map(|kept| &kept.percentiles))
    ));
    table
}

/// Least, median, 90 %, 99 %, most and number of bursts kept one by one.
fn of_kept(kept: &BurstStudy) -> [Cell; 6] {
    let told = |quantile: f64, value: Option<f64>| match (
        with_interval(&kept.percentiles, quantile),
        value,
    ) {
        // Bursts enough for it, and not for its interval.
        (Cell::Missing(_), Some(value)) => Cell::Number(value),
        (cell, _) => cell,
    };
    [
        Cell::Number(kept.least),
        told(0.5, Some(kept.median)),
        told(0.9, kept.p90),
        told(0.99, kept.p99),
        Cell::Number(kept.most),
        Cell::Number(kept.n as f64),
    ]
}

/// The same of the slowest part of all times of bursts of `frames`.
fn of_all(times: &Distribution, frames: usize) -> [Cell; 6] {
    let none = || Cell::Missing("no snapshot".into());
    let last = times.percentile(1.0 - 0.5 / frames as f64);
    [none(), cell(last, None), none(), none(), cell(times.max(), None), none()]
}

/// The last frame of each burst in turn.
fn snapshot(id: String, place: &str, burst: &Burst, kept: &BurstStudy, scale: Scale) -> Chart {
    let title = format!("{place}: last frame of each burst in turn");
    let columns = vec![
        Column::number("burst", Scale::COUNT),
        Column::number("last frame", scale),
        Column::number("expected", scale),
    ];
    let mut table = Table::new(id, title.clone(), columns);
    let expected = waits(burst, burst.frames());
    for (number, last) in (1_u32..).zip(&kept.snapshot) {
        let number = Cell::Number(f64::from(number));
        let cell =
            |value: Option<f64>, why: &str| value.map_or(Cell::Missing(why.into()), Cell::Number);
        table.rows.push(Row::plain(vec![
            number,
            cell(*last, "lost"),
            cell(expected, "no known capacity"),
        ]));
    }
    table.folded = true;
    table.note = Some("Of the first trial, from its first burst on.".into());
    let mut marks = vec![Mark { column: 1, name: "last frame".into(), role: Role::Line }];
    marks.extend(expected.map(|_| Mark {
        column: 2,
        name: "expected".into(),
        role: Role::Ceiling(None),
    }));
    Chart {
        summary:
            "The latency of each burst's last frame, burst by burst, beside what arithmetic says."
                .into(),
        title,
        plot: Plot::Lines,
        x_scale: AxisScale::Linear,
        y_scale: AxisScale::Linear,
        y_name: "latency of the last frame".into(),
        marks,
        measured_from: None,
        table,
    }
}
