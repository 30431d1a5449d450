//! IDT 89PES24T6G2 PCI Express switch report, the storage half: items S5.6, S5.7, S5.9, S5.10,
//! shapes V5.6 and V5.10.
//!
//! Three campaigns are judged: `mixed` (disks and Ethernet at once, without and with one more hop),
//! `sizes` (the Ethernet size swept beside disks), and `shared-edge` (an edge with less capacity
//! than the demand of two jobs). Totals are bytes of 10^6 a second, disk and network added, the
//! network both ways, as the paper seems to add them (E5.f). The disks are files in memory that do
//! not cross the hop; the capped case is measured with a second stream in place of the disk.

use linerate_model::{Direction, Metric, Point, Validity, metric};

use super::{Comparison, Reproduction, Shape, coordinate, judged, not_judged, shape, sweep};
use linerate_analysis::compare::{Better, Change, Effect, Margin, effect_beyond};
use linerate_analysis::statistics::median;
use linerate_analysis::{
    JobStudy, MemoryDirection, MetricStudy, Mix, PointStudy, Study, TransferCounts,
};

/// Bits in a byte.
const BITS: f64 = 8.0;
/// Bytes in the paper's megabyte, which it does not define (E5.f).
const MEGABYTE: f64 = 1e6;
/// Bytes of a transfer.
const TRANSFER: u64 = 1 << 20;
/// A total this close to another is the same: the paper's own differences are 1 to 5 % and were not
/// repeated (E5.h).
const SAME: f64 = 0.05;
/// Distance from the cap at which a total counts as capped (docs/methodology/papers.md#shapes,
/// V5.6).
const CAPPED: f64 = 0.03;
/// Accuracy required of Little's law (V5.10).
const LITTLE: f64 = 0.05;
/// A table of totals in the paper.
struct Totals {
    number: u32,
    /// Our sweep.
    sweep: &'static str,
    /// Change by the switch, per cent, by share of reads.
    changed: [(&'static str, f64); 3],
}

impl Totals {
    /// Returns the rows that have points in `mixed`: a shorter run has fewer. All rows where it has
    /// no points, so that the report shows the gap.
    fn run<'a>(&'a self, mixed: &'a Study) -> impl Iterator<Item = &'a (&'static str, f64)> {
        let is_run = |read: &str| {
            [false, true].iter().any(|hop| at(mixed, self.sweep, *hop, &[(READ, read)]).is_some())
        };
        // Without any point the whole table is shown, so that the report shows the gap.
        let any = self.changed.iter().any(|(read, _)| is_run(read));
        self.changed.iter().filter(move |(read, _)| !any || is_run(read))
    }
}

const TABLES: [Totals; 2] = [
    Totals {
        number: 1,
        sweep: "four fibres",
        changed: [("50 %", 4.5), ("100 %", -1.1), ("0 %", -4.3)],
    },
    Totals {
        number: 2,
        sweep: "one fibre a card",
        changed: [("50 %", 3.0), ("100 %", 2.4), ("0 %", -3.4)],
    },
];
/// Change of the storage rates in table 3 by the switch, per cent, least and most.
const TABLE_3: [(&str, f64, f64); 3] =
    [("0 %", -29.2, -13.1), ("100 %", -19.4, -0.3), ("50 %", -23.4, -13.7)];
const STORAGE: &str = "storage";
/// The axis of the share of reads.
const READ: &str = "job.0.params.read";

/// Returns `reproduction`, the Ethernet half, with the storage half added.
pub fn with_storage(
    mut reproduction: Reproduction,
    mixed: &Study,
    sizes: &Study,
    edge: &Study,
) -> Reproduction {
    reproduction.paper = "IDT 89PES24T6G2 PCI Express switch performance report".into();
    reproduction.tables.extend(TABLES.iter().map(|table| totals_table(mixed, table)));
    reproduction.tables.push(sizes_table(sizes));
    for table in &TABLES {
        reproduction
            .shapes
            .extend(table.run(mixed).map(|(read, _)| equivalent(mixed, table.sweep, read)));
    }
    reproduction.shapes.extend(capped(edge));
    reproduction.shapes.extend(catalogue(mixed));
    reproduction
}

/// Returns whether the point's path has one more hop.
fn has_hop(parameters: &Point) -> bool {
    coordinate(parameters, "pairs").is_some_and(|pairs| pairs.contains("a2"))
}

/// Returns the point of a sweep with all jobs, on the path with or without the hop.
fn at<'a>(
    study: &'a Study,
    name: &'a str,
    hop: bool,
    wanted: &[(&str, &str)],
) -> Option<&'a PointStudy> {
    sweep(study, name).find(|point| {
        // Plans without arms measure all jobs together.
        let together = coordinate(&point.parameters, "arm").is_none_or(|arm| arm == "together");
        together
            && has_hop(&point.parameters) == hop
            && wanted
                .iter()
                .all(|(axis, value)| coordinate(&point.parameters, axis).as_deref() == Some(value))
    })
}

/// Returns a metric of a job per trial, in the widest direction.
fn values(job: &JobStudy, metric: &'static Metric) -> Option<Vec<Option<f64>>> {
    let found = [Direction::Sum, Direction::Tx, Direction::Rx]
        .into_iter()
        .find_map(|way| job.metric(metric, way))?;
    Some(found.values.clone())
}

/// Returns megabytes a second of disk and network per trial, and their sum.
fn totals(point: &PointStudy) -> Option<[Vec<Option<f64>>; 3]> {
    let of = |workload: &str| point.jobs.iter().find(|job| job.workload == workload);
    let scaled = |values: Vec<Option<f64>>, unit: f64| -> Vec<Option<f64>> {
        values.into_iter().map(|value| value.map(|value| value / unit)).collect()
    };
    let disk = scaled(values(of(STORAGE)?, metric::TRANSFER_RATE)?, MEGABYTE);
    let network = scaled(values(of("tcp_stream")?, metric::GOODPUT)?, BITS * MEGABYTE);
    let sum =
        disk.iter().zip(&network).map(|(disk, network)| Some((*disk)? + (*network)?)).collect();
    Some([disk, network, sum])
}

fn typical(values: &[Option<f64>]) -> Option<f64> {
    median(&values.iter().flatten().copied().collect::<Vec<f64>>())
}

fn against(figure: &str, without: &[Option<f64>], with: &[Option<f64>]) -> Option<Effect> {
    effect_beyond(
        figure,
        without,
        with,
        Better::More,
        Margin { relative: SAME, ..Margin::default() },
    )
}

/// Returns the change in per cent, with its interval if there is one.
fn change(effect: &Effect) -> String {
    let percent = |ratio: f64| (ratio - 1.0) * 100.0;
    let interval = effect.interval.map_or(String::new(), |(low, high)| {
        format!(" [{:+.1}, {:+.1}]", percent(low), percent(high))
    });
    format!("{:+.1}{interval} % (n {})", percent(effect.shift), effect.n)
}

fn equivalent(mixed: &Study, name: &str, read: &str) -> Shape {
    let claim = format!(
        "V5.6 (hard): {name}, {read} read: a hop with spare capacity changes the total by less \
            than {:.0} %",
        SAME * 100.0
    );
    let wanted = [(READ, read)];
    let of = |hop| totals(at(mixed, name, hop, &wanted)?).map(|[.., sum]| sum);
    match of(false).zip(of(true)).and_then(|(without, with)| against("total", &without, &with)) {
        Some(effect) => {
            // Equivalence needs proof: an undecided comparison is not the same as no change.
            let holds = match effect.change {
                Change::None => Some(true),
                Change::Better | Change::Worse => Some(false),
                Change::Unclear => None,
            };
            let why =
                if holds.is_none() { ", too few pairs or too much noise to decide" } else { "" };
            shape("V5.6a", claim, format!("{}{why}", change(&effect)), holds)
        }
        None => not_judged("V5.6a", &claim, "a path has no total"),
    }
}

/// Judges an edge with less capacity than demand: the total is the cap, and each job's share is
/// reported.
fn capped(edge: &Study) -> Vec<Shape> {
    let claim = "V5.6 (hard): an edge with less room than both jobs ask for passes what it has, to \
        3 %, and jobs on edges of their own keep all";
    fn same_way(mix: &&Mix) -> bool {
        let ways: Vec<Option<&(String, MemoryDirection)>> =
            mix.jobs.iter().map(|job| job.ways.first()).collect();
        // Only mixes whose jobs load the edge in one direction compete for it.
        mix.sweep == "shared edge" && ways.windows(2).all(|pair| pair[0] == pair[1])
    }
    let mut shapes: Vec<Shape> =
        edge.mixes.iter().filter(same_way).map(|mix| of_edge(edge, mix, claim)).collect();
    if shapes.is_empty() {
        shapes.push(not_judged("V5.6b", claim, "the shared edge was not measured"));
    }
    for mix in edge.mixes.iter().filter(|mix| mix.sweep == "own edges") {
        let (n, joint) = (mix.jobs.len() as f64, mix.joint.as_ref());
        let measured = joint.map_or("no figure".to_owned(), |joint| {
            // Jobs on edges of their own must reach a joint efficiency equal to their number.
            format!("joint efficiency {:.3} of {n} (n {})", joint.value, joint.n)
        });
        shapes.push(shape(
            "V5.6b",
            claim,
            measured,
            joint.map(|joint| (joint.value / n - 1.0).abs() <= CAPPED),
        ));
    }
    shapes
}

fn of_edge(edge: &Study, mix: &Mix, claim: &str) -> Shape {
    let point = edge.points.iter().find(|point| {
        let arm = coordinate(&point.parameters, "arm").is_some_and(|arm| arm == "together");
        arm && point.sweep == mix.sweep
            && mix.parameters.iter().all(|(axis, value)| point.parameters.get(axis) == Some(value))
    });
    let found = point.and_then(|point| {
        let all = point.jobs.last()?;
        let metric = all
            .metrics
            .iter()
            // The sum over all jobs is judged, and only a direction with a known cap.
            .find(|metric| metric.metric == metric::GOODPUT && metric.ceiling.is_some())?;
        let (undisturbed, all) = undisturbed(point, metric);
        Some((median(&undisturbed)?, undisturbed.len(), all, point.ceilings[metric.ceiling?].value))
    });
    let Some((total, n, all, cap)) = found else {
        return not_judged("V5.6b", claim, "no total, or no cap known");
    };
    let shares: Vec<String> =
        mix.jobs.iter().map(|job| format!("{:.1} %", job.main.effect.shift * 100.0)).collect();
    let mega = |rate: f64| rate / MEGABYTE;
    let measured = format!(
        "{:.2} Mbit/s where there is room for {:.2} ({:+.1} %); left of each job {} ({n} of {all} \
            trials, the undisturbed)",
        mega(total),
        mega(cap),
        (total / cap - 1.0) * 100.0,
        shares.join(" and ")
    );
    shape("V5.6b", claim, measured, Some((total / cap - 1.0).abs() <= CAPPED))
}

/// Returns the values of trials without disturbance by another program or the hypervisor, or all
/// where there is none, and their number. An emulated edge stops while it has no CPU, and such a
/// trial is no measurement of its rate.
fn undisturbed(point: &PointStudy, metric: &MetricStudy) -> (Vec<f64>, usize) {
    let told = metric
        .values
        .iter()
        .zip(&point.trials)
        .filter_map(|(value, trial)| Some(((*value)?, trial.validity)));
    let all: Vec<(f64, Validity)> = told.collect();
    let valid: Vec<f64> =
        all.iter().filter(|(_, of)| *of == Validity::Valid).map(|(value, _)| *value).collect();
    // With no undisturbed trial, a disturbed result is better than none, and the count shows it.
    let kept = if valid.is_empty() { all.iter().map(|(value, _)| *value).collect() } else { valid };
    (kept, all.len())
}

/// Checks Iometer's arithmetic on every storage figure of the mixed campaign.
fn catalogue(mixed: &Study) -> Vec<Shape> {
    let jobs: Vec<&JobStudy> = mixed
        .points
        .iter()
        .flat_map(|point| &point.jobs)
        .filter(|job| job.workload == STORAGE)
        .collect();
    let worst =
        |off: &dyn Fn(&JobStudy) -> Option<f64>| largest(jobs.iter().filter_map(|job| off(job)));
    // Runs without timed transfers have nothing to add up.
    let timed = || jobs.iter().flat_map(|job| &job.transfers).filter(|run| run.timed > 0);
    // Computed from the counts of each worker in each run: a median of sums is no sum of medians.
    let exact = |off: &dyn Fn(&TransferCounts) -> f64| largest(timed().map(off));
    fn of_law(id: &str, claim: &str, found: Option<(usize, f64)>, of: &str, most: f64) -> Shape {
        let found = found.map(|(n, off)| {
            (format!("at most {:.3} % off, over {n} {of}", off * 100.0), off <= most)
        });
        judged(id, claim, found, "no storage figure")
    }
    let by_size = exact(&|run| {
        off_by((run.reads + run.writes) * TRANSFER, run.bytes_read + run.bytes_written)
    });
    let by_part = exact(&|run| off_by(run.reads + run.writes, run.timed));
    let by_unit = worst(&|job| {
        let [decimal, binary] = [metric::TRANSFER_RATE, metric::TRANSFER_RATE_BINARY]
            .map(|metric| typical(&values(job, metric)?));
        Some((decimal? / binary? - 1.0).abs())
    });
    let by_law = worst(&|job| typical(&job.metric(metric::DEPTH_ERROR, Direction::Sum)?.values));
    let runs = "workers and runs";
    let sizes = "V5.10 (hard): transfers times 1 MiB equal the counted bytes exactly";
    let parts = "V5.10 (hard): reads and writes add up to all timed transfers exactly";
    let units = "V5.10 (hard): the rates in MB/s and in MiB/s are the same rate";
    let law = "V5.10 (hard): transfers in flight are rate times time (Little's law), within 5 %";
    vec![
        of_law("V5.10a", sizes, by_size, runs, 0.0),
        of_law("V5.10b", parts, by_part, runs, 0.0),
        // Both figures come from the same count, so only rounding may differ.
        of_law("V5.10c", units, by_unit, "points", f64::EPSILON),
        of_law("V5.10d", law, by_law, "points", LITTLE),
    ]
}

/// Returns the number of distances and the largest one; `None` without any.
fn largest(offs: impl Iterator<Item = f64>) -> Option<(usize, f64)> {
    let offs: Vec<f64> = offs.collect();
    Some((offs.len(), offs.into_iter().reduce(f64::max)?))
}

/// Returns the distance of two counts, as a fraction of the second.
fn off_by(one: u64, other: u64) -> f64 {
    one.abs_diff(other) as f64 / other.max(1) as f64
}

fn totals_table(mixed: &Study, table: &Totals) -> Comparison {
    let Totals { number, sweep: name, .. } = table;
    let row = |(read, printed): &(&str, f64)| totals_row(mixed, name, read, *printed);
    Comparison::new(
        format!(
            "Table {number}, {name}: disks and network at once, MB/s, without and with one more \
                hop. The paper made one run (E5.h)"
        ),
        [
            "read",
            "paper, changed",
            "disks",
            "network",
            "total",
            "total, with the hop",
            "changed",
            "joint efficiency",
            "joint efficiency, with the hop",
        ],
        table.run(mixed).map(row).collect(),
    )
}

fn totals_row(mixed: &Study, name: &str, read: &str, printed: f64) -> Vec<String> {
    let of = |hop| at(mixed, name, hop, &[(READ, read)]).and_then(totals);
    fn told(found: Option<&[Vec<Option<f64>>; 3]>, part: usize) -> String {
        let typical = found.and_then(|found| typical(&found[part]));
        typical.map_or("-".to_owned(), |value| format!("{value:.1}"))
    }
    let (without, with) = (of(false), of(true));
    let (without, with) = (without.as_ref(), with.as_ref());
    let effect = without.zip(with).and_then(|(a, b)| against("total", &a[2], &b[2]));
    vec![
        read.to_owned(),
        format!("{printed:+.1} %"),
        told(without, 0),
        told(without, 1),
        told(without, 2),
        told(with, 2),
        effect.as_ref().map_or("-".to_owned(), change),
        joint(mixed, name, read, false),
        joint(mixed, name, read, true),
    ]
}

/// Returns the joint efficiency of a mix as text.
fn joint(mixed: &Study, name: &str, read: &str, hop: bool) -> String {
    let reads = |mix: &Mix| coordinate(&mix.parameters, READ).as_deref() == Some(read);
    let mut mixes = mixed.mixes.iter().filter(|mix| mix.sweep == name && reads(mix));
    let joint = mixes.find(|mix| has_hop(&mix.parameters) == hop);
    let joint = joint.and_then(|mix| mix.joint.as_ref());
    joint.map_or("-".to_owned(), |joint| format!("{:.3}", joint.value))
}

fn sizes_table(sizes: &Study) -> Comparison {
    let mut frame_sizes: Vec<String> = Vec::new();
    for point in sweep(sizes, "sizes") {
        let size = coordinate(&point.parameters, "job.1.params.frame_size").unwrap_or_default();
        if !frame_sizes.contains(&size) {
            frame_sizes.push(size);
        }
    }
    let row = |(read, least, most), size: &String| frame_size_row(sizes, (read, least, most), size);
    Comparison::new(
        "Table 3: MB/s of disks while frames of one size go in both directions at a fixed rate; \
            frames per second and lost frames, both directions added",
        [
            "read",
            "frame",
            "paper, disks changed",
            "disks",
            "disks, with the hop",
            "changed",
            "frames",
            "frames, with the hop",
            metric::LOST.name,
            "with the hop",
        ],
        TABLE_3
            .iter()
            .flat_map(|paper| frame_sizes.iter().map(move |size| row(*paper, size)))
            .collect(),
    )
}

fn frame_size_row(sizes: &Study, (read, least, most): (&str, f64, f64), size: &str) -> Vec<String> {
    let wanted = [(READ, read), ("job.1.params.frame_size", size)];
    let of = |hop, workload: &str, metric| {
        values_of(at(sizes, "sizes", hop, &wanted)?, workload, metric)
    };
    fn told(values: Option<&Vec<Option<f64>>>, unit: f64, decimals: usize) -> String {
        let value = values.and_then(|values| typical(values));
        value.map_or("-".to_owned(), |value| format!("{:.decimals$}", value / unit))
    }
    let disks = [false, true].map(|hop| of(hop, STORAGE, metric::TRANSFER_RATE));
    let frames = [false, true].map(|hop| of(hop, "frames", metric::PACKET_RATE));
    let lost = [false, true].map(|hop| of(hop, "frames", metric::LOST));
    let disks = disks.each_ref().map(Option::as_ref);
    let effect = disks[0].zip(disks[1]).and_then(|(a, b)| against("disks", a, b));
    let mut row = vec![read.to_owned(), size.to_owned(), format!("{least:+.1} to {most:+.1} %")];
    row.extend(disks.map(|values| told(values, MEGABYTE, 1)));
    row.push(effect.as_ref().map_or("-".to_owned(), change));
    row.extend([frames, lost].as_flattened().iter().map(|values| told(values.as_ref(), 1.0, 0)));
    row
}

fn values_of(
    point: &PointStudy,
    workload: &str,
    metric: &'static Metric,
) -> Option<Vec<Option<f64>>> {
    values(point.jobs.iter().find(|job| job.workload == workload)?, metric)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use linerate_analysis::TrialStudy;

    fn metric(name: &str, direction: Direction, values: &[f64]) -> MetricStudy {
        let known = Metric::named(name).expect(name);
        let first = MetricStudy::single(known, direction, values[0]);
        MetricStudy { values: values.iter().copied().map(Some).collect(), ..first }
    }

    /// One point at which disks of `disk` MB/s and a network of `network` Mbit/s run together.
    fn together(hop: bool, disk: [f64; 6], network: f64) -> PointStudy {
        let bytes = disk.map(|value| value * MEGABYTE);
        let storage = JobStudy {
            workload: STORAGE.into(),
            metrics: vec![
                metric("transfer_rate", Direction::Rx, &bytes),
                metric("transfer_rate_binary", Direction::Rx, &bytes),
                metric("iops", Direction::Rx, &bytes.map(|value| value / TRANSFER as f64)),
                metric("depth_error", Direction::Sum, &[0.01; 6]),
            ],
            ..JobStudy::default()
        };
        let stream = JobStudy {
            workload: "tcp_stream".into(),
            metrics: vec![metric("goodput", Direction::Sum, &[network * 1e6; 6])],
            ..JobStudy::default()
        };
        let pairs = if hop { json!(["a2 b2"]) } else { json!(["a1 b1"]) };
        PointStudy {
            sweep: "four fibres".into(),
            parameters: Point::from([
                ("arm".to_owned(), json!("together")),
                ("pairs".to_owned(), pairs),
                ("job.0.params.read".to_owned(), json!("100 %")),
            ]),
            jobs: vec![storage, stream],
            ..PointStudy::default()
        }
    }

    #[test]
    fn a_hop_that_costs_nothing_is_equivalent_and_one_that_costs_a_tenth_is_not() {
        let disk = [268.0, 268.4, 267.9, 268.1, 268.2, 268.0];
        let of = |factor: f64| {
            let points = vec![
                together(false, disk, 188.0),
                together(true, disk.map(|value| value * factor), 188.0),
            ];
            let mixed = Study { points, ..Study::default() };
            equivalent(&mixed, "four fibres", "100 %").holds
        };
        assert_eq!([of(1.0), of(0.99), of(0.85)], [Some(true), Some(true), Some(false)]);
        assert_eq!(equivalent(&Study::default(), "four fibres", "100 %").holds, None);
    }

    #[test]
    fn a_trial_whose_cpu_was_taken_away_says_nothing_of_an_edge_if_there_are_others() {
        use Validity::{Suspect, Valid};
        let metric = metric("goodput", Direction::Rx, &[95.6, 66.5, 95.4]);
        let of = |validity: [Validity; 3]| {
            let trials =
                validity.map(|validity| TrialStudy { validity, ..TrialStudy::default() }).to_vec();
            undisturbed(&PointStudy { trials, ..PointStudy::default() }, &metric)
        };
        assert_eq!(of([Valid, Suspect, Valid]), (vec![95.6, 95.4], 3));
        assert_eq!(of([Suspect; 3]), (vec![95.6, 66.5, 95.4], 3));
    }

    #[test]
    fn a_shorter_run_is_judged_by_the_points_it_has_and_one_without_any_by_none() {
        let disk = [268.0, 268.4, 267.9, 268.1, 268.2, 268.0];
        let mixed = Study {
            points: vec![together(false, disk, 188.0), together(true, disk, 188.0)],
            ..Study::default()
        };
        let of = |mixed: &Study| {
            let none = Study::default();
            let shapes = with_storage(Reproduction::default(), mixed, &none, &none).shapes;
            shapes
                .iter()
                .filter(|shape| shape.id == "V5.6a")
                .map(|shape| shape.holds)
                .collect::<Vec<_>>()
        };
        assert_eq!(
            of(&mixed),
            [Some(true), None, None, None],
            "of the first table one, of the second none was run"
        );
        assert_eq!(of(&Study::default()), [None; 6]);
    }

    #[test]
    fn totals_add_bytes_of_disks_to_bits_of_the_network() {
        let [disk, network, sum] = totals(&together(false, [268.0; 6], 188.0)).expect("both jobs");
        assert_eq!((disk[0], network[0], sum[0]), (Some(268.0), Some(23.5), Some(291.5)));
    }

    #[test]
    fn iometers_arithmetic_is_held_to_its_own_figures() {
        let mut point = together(false, [268.0; 6], 188.0);
        let of = |point: &PointStudy| -> Vec<Option<bool>> {
            catalogue(&Study { points: vec![point.clone()], ..Study::default() })
                .iter()
                .map(|shape| shape.holds)
                .collect()
        };
        assert_eq!(of(&point)[..2], [None, None], "an old study has no counts");
        // Runs whose shares of reads differ: medians of the parts (60 and 60) do not add up to that
        // of the total (100).
        let run = |(trial, reads): (u32, u64)| TransferCounts {
            trial,
            reads,
            writes: 100 - reads,
            bytes_read: reads * TRANSFER,
            bytes_written: (100 - reads) * TRANSFER,
            timed: 100,
            ..TransferCounts::default()
        };
        point.jobs[0].transfers = [(0, 60), (1, 40), (2, 60)].map(run).to_vec();
        assert_eq!(of(&point), [Some(true), Some(true), Some(true), Some(true)]);
        point.jobs[0].metrics[3] = metric("depth_error", Direction::Sum, &[0.2; 6]);
        point.jobs[0].transfers[1].timed = 101;
        assert_eq!(
            of(&point),
            [Some(true), Some(false), Some(true), Some(false)],
            "one transfer was not counted"
        );
        point.jobs[0].transfers[1].bytes_read -= 4096;
        assert_eq!(of(&point)[0], Some(false), "4 KiB of 100 MiB are missing");
    }
}
