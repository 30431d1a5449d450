//! IDT 89PES24T6G2 PCI Express switch report, the Ethernet half: items S5.1 to S5.5 and S5.8,
//! shapes V5.1, V5.5, V5.7.
//!
//! Two campaigns are judged: `throughput` (the highest rate without loss, both ways, through an OS
//! bridge, with and without one more hop) and `latency` (idle, loaded, and of bursts). The emulated
//! host forwards 2290 frames a second each way and no more than 25 Mbit/s. Not reproduced: bursts
//! synchronised over several ports.

use linerate_model::{Bytes, Distribution, Metric, TestbedKind, metric};

use super::{
    Comparison, Figure, FigureForm, Reproduction, Shape, coordinate, figure, judged, shape, sweep,
    whole,
};
use linerate_analysis::limits::ethernet;
use linerate_analysis::limits::pcie::{Link, LinkLayerPackets};
use linerate_analysis::{PointStudy, Study};

/// Forwarding rate of the emulated host each way, frames per second, and bit/s on the wire.
const FORWARDED: f64 = 2290.0;
const PORT: f64 = 25e6;
/// Frames that the emulated host buffers before a loss, and the length of a trial, s. At a rate
/// above the forwarding rate, this many more frames pass in a trial.
const BUFFERED: f64 = 96.0;
const TRIAL: f64 = 1.0;
/// The paper's efficiencies (figures 3 and 4), per cent, of payloads in bytes: 20 bytes of framing,
/// and 4 more of link layer.
pub(super) const EFFICIENCIES: [(u64, f64, f64); 7] = [
    (64, 76.19, 72.73),
    (128, 86.49, 84.21),
    (256, 92.75, 91.43),
    (512, 96.24, 95.52),
    (1024, 98.08, 97.71),
    (2048, 99.03, 98.84),
    (4096, 99.51, 99.42),
];

/// Judges the shapes of the Ethernet half of the IDT report.
pub fn idt_pcie(throughput: &Study, latency: &Study) -> Reproduction {
    let found = throughputs(throughput);
    let mut shapes = vec![efficiencies(&EFFICIENCIES)];
    shapes.extend(waiting(latency));
    shapes.extend(packet_bound(&found));
    shapes.push(same(&found));
    Reproduction {
        place: TestbedKind::Lab,
        campaigns: Vec::new(),
        paper: "IDT 89PES24T6G2 PCI Express switch performance report: the Ethernet half".into(),
        tables: vec![framing_table(), throughput_table(&found), latency_table(latency)],
        figures: vec![framing_figure(), throughput_figure(&found)],
        shapes,
    }
}

/// The two paths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Path {
    Without,
    With,
}

impl Path {
    const BOTH: [Self; 2] = [Self::Without, Self::With];

    fn of(point: &PointStudy) -> Self {
        let pairs = coordinate(&point.parameters, "pairs").unwrap_or_default();
        if pairs.contains("a2") { Self::With } else { Self::Without }
    }

    const fn word(self) -> &'static str {
        match self {
            Self::Without => "without",
            Self::With => "with",
        }
    }
}

/// The highest rate without loss of a size on a path.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Throughput {
    pub(super) path: Path,
    pub(super) frame: u64,
    /// Bounds of the search, medians over its runs: frames per second each way without loss, and
    /// with loss.
    pub(super) lower: Option<f64>,
    pub(super) upper: Option<f64>,
    pub(super) n_searches: usize,
    pub(super) n_trials: usize,
}

impl Throughput {
    /// Returns the distance of the bounds: the precision of the throughput.
    fn step(&self) -> f64 {
        self.upper.zip(self.lower).map_or(0.0, |(upper, lower)| upper / lower - 1.0)
    }

    /// Returns the known answer (the rate of the host, or of the line) and the highest result of a
    /// trial, if the host's buffer was empty before.
    fn known(&self) -> (f64, f64) {
        // The slower of line and host limits the rate.
        if line(self.frame) < FORWARDED {
            // The same buffer limits the frames that wait for the line.
            return (line(self.frame), line(self.frame) + BUFFERED / TRIAL);
        }
        (FORWARDED, FORWARDED + BUFFERED / TRIAL)
    }
}

fn throughputs(study: &Study) -> Vec<Throughput> {
    let searches = study.searches.iter().filter(|search| search.sweep == "throughput");
    let mut found: Vec<Throughput> = searches
        .filter_map(|search| {
            let size: Bytes = coordinate(&search.parameters, "frame_size")?.parse().ok()?;
            let goal = search.goals.first()?;
            Some(Throughput {
                path: if search.from == "a2" { Path::With } else { Path::Without },
                frame: size.0,
                lower: goal.lower,
                upper: goal.upper,
                n_searches: search.runs.len(),
                n_trials: search.runs.iter().map(|run| run.trials.len()).sum(),
            })
        })
        .collect();
    found.sort_by_key(|found| (found.frame, found.path == Path::With));
    found
}

/// Returns the frames of `size` bytes that the ports carry per second.
fn line(size: u64) -> f64 {
    ethernet::packet_rate(linerate_model::BitRate(PORT), Bytes(size)).0
}

/// Compares the efficiencies `printed` with the arithmetic of the bus.
pub(super) fn efficiencies(printed: &[(u64, f64, f64)]) -> Shape {
    let claim = "V5.1 (hard): framing of 20 B, or 24 B with link-layer packets, gives the paper's \
        efficiencies (figures 3 and 4)";
    let off = printed.iter().flat_map(|(size, bare, with)| {
        let [ours, ours_with] = efficiency(*size);
        [(ours - bare).abs(), (ours_with - with).abs()]
    });
    let worst = off.fold(0.0, f64::max);
    shape(
        "V5.1",
        claim,
        format!("largest difference {worst:.3} percentage points, {} sizes", printed.len()),
        Some(worst < 0.006),
    )
}

/// Returns the efficiency of payloads of `size` on a link, per cent: with framing alone, and with
/// link-layer packets.
fn efficiency(size: u64) -> [f64; 2] {
    let mut link = Link::new(2, 8, Bytes(4096), Bytes(4096)).expect("generation 2 has 8 lanes");
    let share = |link: &Link| link.write(Bytes(size)).0 / link.rate.0 * 100.0;
    let bare = share(&link);
    link.dllp = LinkLayerPackets::Idt;
    [bare, share(&link)]
}

pub(super) fn packet_bound(found: &[Throughput]) -> Vec<Shape> {
    let claim = "V5.7 (hard): frames per second do not depend on the size while the host's packet \
        rate is the limit (within one step)";
    let by_packets = || found.iter().filter(|f| line(f.frame) > FORWARDED);
    let bound: Vec<f64> = by_packets().filter_map(|f| f.lower).collect();
    let step = by_packets().map(Throughput::step).fold(0.0, f64::max);
    let (least, most) =
        (bound.iter().copied().reduce(f64::min), bound.iter().copied().reduce(f64::max));
    // Two sizes always lie on a line, so constancy needs a third.
    let constant = least.zip(most).filter(|_| bound.len() > 2).map(|(least, most)| {
        let measured = format!(
            "{least:.0} to {most:.0} frames/s ({:.1} % apart), {} sizes and paths; step {:.1} %; \
                the host forwards {FORWARDED} frames/s",
            (most / least - 1.0) * 100.0,
            bound.len(),
            step * 100.0
        );
        // Rates within the resolution of the search are equal.
        (measured, most / least - 1.0 <= step)
    });
    let why = "fewer than three sizes have a throughput";
    let mut shapes = vec![judged("V5.7a", claim, constant, why)];
    let claim = "V5.7 (hard): the bounds of each search contain the lower of the line's rate and \
        the host's packet rate (plus what the host's buffer takes in a trial)";
    let checked: Vec<(&Throughput, bool)> = found
        .iter()
        .filter_map(|f| {
            let (least, most) = f.known();
            // The bracket must contain the known rate. A search without an upper bound found none
            // too high.
            Some((f, f.lower? <= most && f.upper.is_none_or(|upper| upper >= least)))
        })
        .collect();
    let wrong: Vec<String> = checked
        .iter()
        .filter(|(_, right)| !right)
        .map(|(f, _)| format!("{} B {}", f.frame, f.path.word()))
        .collect();
    let (n, right) = (checked.len(), checked.len() - wrong.len());
    let measured = format!("{right} of {n} searches contain it {}", wrong.join(", "));
    let found = (n > 0).then(|| (measured.trim_end().to_owned(), wrong.is_empty()));
    shapes.push(judged("V5.7b", claim, found, "no size has a throughput"));
    shapes
}

pub(super) fn same(found: &[Throughput]) -> Shape {
    let claim = "S5.8 (hard): a hop that is faster than the host changes nothing beyond the \
        search's step (the paper reads \
                 differences of one or two of its steps of 0.71 % of the line as effects)";
    let of = |path: Path, frame: u64| found.iter().find(|f| f.path == path && f.frame == frame);
    // Frame size, ratio, and the larger of the two searches' steps.
    let pairs: Vec<(u64, f64, f64)> = found
        .iter()
        .filter(|f| f.path == Path::Without)
        .filter_map(|without| {
            let with = of(Path::With, without.frame)?;
            // The coarser of both searches limits what can be distinguished.
            Some((without.frame, with.lower? / without.lower?, with.step().max(without.step())))
        })
        .collect();
    let beyond = |(_, ratio, step): &(u64, f64, f64)| (ratio - 1.0).abs() - step;
    let worst = pairs.iter().max_by(|a, b| beyond(a).total_cmp(&beyond(b)));
    let found = worst.map(|worst @ (frame, ratio, step)| {
        let measured = format!(
            "ratio with hop over without {ratio:.4} at {frame} B, the largest difference of {} \
                sizes; step {:.1} %",
            pairs.len(),
            step * 100.0
        );
        (measured, beyond(worst) <= 0.0)
    });
    judged("S5.8", claim, found, "no size has a throughput on both paths")
}

/// Percentiles of an idle path and of a loaded one are compared at the highest of these for which
/// both have enough frames, over all trials together (docs/methodology/papers.md#shapes, V5.5: the
/// 99.9th).
const TAILS: [(f64, &str); 3] = [(0.999, "99.9th"), (0.99, "99th"), (0.9, "90th")];
/// Least number of frames beyond a percentile (docs/methodology/latency.md#percentiles).
const BEYOND: f64 = 10.0;

/// Returns the highest percentile for which both of `times` have enough frames: its name, and both
/// values in seconds.
fn tails(times: [&Distribution; 2]) -> Option<(&'static str, [f64; 2])> {
    let is_known = |share: f64| {
        // The product of a share and a count may fall short of ten by its last digit.
        times.iter().all(|times| times.count() as f64 * (1.0 - share) >= BEYOND - 1e-9)
    };
    let (share, name) = TAILS.into_iter().find(|(share, _)| is_known(*share))?;
    let at = |times: &Distribution| {
        times.percentile(share)?.map_or(Some(f64::INFINITY), |ns| Some(ns as f64 / 1e9))
    };
    Some((name, [at(times[0])?, at(times[1])?]))
}

pub(super) fn waiting(latency: &Study) -> Vec<Shape> {
    let mut shapes = Vec::new();
    for path in Path::BOTH {
        let claim = format!(
            "V5.5 (hard): {} the hop, the slowest frames under load are not faster than on an idle \
                path",
            path.word()
        );
        let mut points: Vec<(f64, &Distribution)> = sweep(latency, "load")
            .filter(|point| Path::of(point) == path)
            .filter_map(|point| {
                let rate: linerate_model::PacketRate =
                    coordinate(&point.parameters, "rate")?.parse().ok()?;
                Some((rate.0, &whole(point)?.response))
            })
            .collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        // The slowest load stands for an idle path.
        let compared = match &points[..] {
            [(slow, idle), .., (fast, loaded)] => {
                tails([idle, loaded]).map(|found| (*slow, *fast, found))
            }
            _ => None,
        };
        let found = compared.map(|(slow, fast, (name, [idle, loaded]))| {
            let measured = format!(
                "{name} percentile over all trials: {:.0} us at {slow:.0} frames/s, {:.0} us at \
                    {fast:.0} frames/s",
                idle * 1e6,
                loaded * 1e6
            );
            (measured, loaded >= idle)
        });
        shapes.push(judged("V5.5a", claim, found, "a load has too few frames"));
    }
    for point in sweep(latency, "bursts") {
        let Some(burst) =
            coordinate(&point.parameters, "burst").and_then(|text| text.parse::<f64>().ok())
        else {
            continue;
        };
        // The last of n frames waits for n - 1 before it.
        let least = (burst - 1.0) / FORWARDED;
        let claim = format!(
            "V5.5 (hard): the last frame of a burst of {burst} waits for all others: at least \
                {:.0} us",
            least * 1e6
        );
        let found = figure(point, metric::RESPONSE_TIME_MAX)
            .map(|most| (format!("{:.0} us", most.value * 1e6), most.value >= least));
        shapes.push(judged("V5.5b", claim, found, "no response time"));
    }
    shapes
}

fn framing_table() -> Comparison {
    let rows = EFFICIENCIES.iter().map(|(size, bare, with)| {
        let [ours, ours_with] = efficiency(*size);
        let [ours, ours_with] = [ours, ours_with].map(|share| format!("{share:.2}"));
        vec![format!("{size} B"), bare.to_string(), ours, with.to_string(), ours_with]
    });
    Comparison::new(
        "Figures 3 and 4: payload share of the link, per cent, with framing of 20 B or of 24 B \
            (link-layer packets included)",
        ["payload", "paper, 20 B", "ours, 20 B", "paper, 24 B", "ours, 24 B"],
        rows.collect(),
    )
}

fn framing_figure() -> Figure {
    let of = |share: fn(&(u64, f64, f64)) -> f64| {
        EFFICIENCIES.iter().map(|row| Some(share(row))).collect::<Vec<_>>()
    };
    Figure {
        title: "Figures 3 and 4: payload share of the link".into(),
        note: "Both are arithmetic. Shape V5.1 is judged from these points.".into(),
        form: FigureForm::Bars,
        axes: ["payload, B", "per cent"].map(str::to_owned),
        places: EFFICIENCIES.iter().map(|(size, ..)| size.to_string()).collect(),
        series: vec![
            ("paper, 20 B".into(), of(|row| row.1)),
            ("ours, 20 B".into(), of(|row| efficiency(row.0)[0])),
            ("paper, 24 B".into(), of(|row| row.2)),
            ("ours, 24 B".into(), of(|row| efficiency(row.0)[1])),
        ],
    }
}

fn throughput_figure(found: &[Throughput]) -> Figure {
    let mut sizes: Vec<u64> = found.iter().map(|one| one.frame).collect();
    sizes.dedup();
    let at = |path, frame| found.iter().find(|one| (one.path, one.frame) == (path, frame));
    let of = |path| sizes.iter().map(|frame| at(path, *frame)?.lower).collect::<Vec<_>>();
    Figure {
        title: "Table 3, Ethernet: frames per second without loss, each way".into(),
        note:
            "The paper's host forwards 68,500 to 96,500 frames a second each way, ours 2290: the \
            shape is that the rate does not depend on the size (V5.7a) nor on the hop (S5.8)."
                .into(),
        form: FigureForm::Bars,
        axes: ["frame, B", "frames/s"].map(str::to_owned),
        places: sizes.iter().map(u64::to_string).collect(),
        series: vec![
            ("without the hop".into(), of(Path::Without)),
            ("with the hop".into(), of(Path::With)),
        ],
    }
}

fn throughput_table(found: &[Throughput]) -> Comparison {
    let rows = found.iter().map(|f| {
        let rate = |rate: Option<f64>| rate.map_or("-".to_owned(), |rate| format!("{rate:.0}"));
        let share =
            f.lower.map_or("-".to_owned(), |rate| format!("{:.1} %", rate / line(f.frame) * 100.0));
        let (expected, with_buffer) = f.known();
        vec![
            format!("{} B", f.frame),
            f.path.word().to_owned(),
            rate(f.lower),
            rate(f.upper),
            format!("{expected:.0} to {with_buffer:.0}"),
            share,
            format!("{} ({})", f.n_searches, f.n_trials),
        ]
    });
    Comparison::new(
        "Table 3, Ethernet: frames per second in each direction, both at once, through a software \
            bridge. The paper's host forwards 137,000 to 193,000 frames per second, both \
            directions added, at every size",
        ["frame", "hop", "none lost", "some lost", "known", "of the line", "searches (trials)"],
        rows.collect(),
    )
}

fn latency_table(latency: &Study) -> Comparison {
    let loads = sweep(latency, "load").map(|point| {
        let rate = coordinate(&point.parameters, "rate").unwrap_or_default();
        latency_row(format!("{rate}, {} the hop", Path::of(point).word()), point)
    });
    let bursts = sweep(latency, "bursts").map(|point| {
        latency_row(
            format!(
                "bursts of {} frames",
                coordinate(&point.parameters, "burst").unwrap_or_default()
            ),
            point,
        )
    });
    Comparison::new(
        "Latency in us, from a frame's due departure to its arrival, frames of 512 B. The paper \
            defines latency but prints no figure",
        ["load", "median", "90 %", "99 %", "largest"],
        loads.chain(bursts).collect(),
    )
}

fn latency_row(what: String, point: &PointStudy) -> Vec<String> {
    let times = [
        metric::RESPONSE_TIME_P50,
        metric::RESPONSE_TIME_P90,
        metric::RESPONSE_TIME_P99,
        metric::RESPONSE_TIME_MAX,
    ];
    std::iter::once(what).chain(times.map(|time| micros(point, time))).collect()
}

fn micros(point: &PointStudy, metric: &'static Metric) -> String {
    figure(point, metric).map_or("-".to_owned(), |estimate| format!("{:.0}", estimate.value * 1e6))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: Path, frame: u64, lower: f64, upper: f64) -> Throughput {
        Throughput {
            path,
            frame,
            lower: Some(lower),
            upper: Some(upper),
            n_searches: 3,
            n_trials: 40,
        }
    }

    fn holds(shapes: &[Shape]) -> Vec<Option<bool>> {
        shapes.iter().map(|shape| shape.holds).collect()
    }

    #[test]
    fn a_host_of_constant_packet_rate_is_told_from_one_that_slows_with_size() {
        let constant = [64, 512, 1024].map(|frame| found(Path::Without, frame, 2280.0, 2300.0));
        assert_eq!(holds(&packet_bound(&constant)), [Some(true), Some(true)]);
        let slowing = [(64, 2280.0), (512, 2130.0), (1024, 1880.0)]
            .map(|(frame, rate)| found(Path::Without, frame, rate, rate * 1.01));
        assert_eq!(holds(&packet_bound(&slowing)), [Some(false), Some(false)]);
        // At 1518 B the line carries 2032, and the buffer 96 more in a trial of a second.
        let line_bound = found(Path::With, 1518, 2120.0, 2140.0);
        assert_eq!(holds(&packet_bound(&[line_bound])), [None, Some(true)]);
        assert_eq!(
            holds(&packet_bound(&[found(Path::With, 1518, 2250.0, 2275.0)])),
            [None, Some(false)]
        );
        assert_eq!(holds(&packet_bound(&[])), [None, None]);
    }

    #[test]
    fn what_lies_within_the_searches_step_is_no_difference() {
        let without = found(Path::Without, 64, 9000.0, 9090.0);
        let of =
            |rate: f64| same(&[without.clone(), found(Path::With, 64, rate, rate * 1.01)]).holds;
        assert_eq!(
            [of(9000.0), of(9089.0), of(8920.0), of(8890.0)],
            [Some(true), Some(true), Some(true), Some(false)]
        );
        assert_eq!(same(std::slice::from_ref(&without)).holds, None);
    }

    /// 20 000 frames an end: the idle path is always slow to wake, the loaded one queues now and
    /// then.
    #[test]
    fn what_an_idle_path_takes_to_wake_is_not_told_as_its_tail() {
        let of = |buckets: &[(u64, u64)]| Distribution::of(buckets.to_vec());
        let idle = of(&[(192_000, 19_990), (300_000, 10)]);
        let loaded = of(&[(136_000, 19_900), (1_500_000, 100)]);
        assert_eq!(tails([&idle, &loaded]), Some(("99.9th", [192e-6, 1_500e-6])));
        // A tenth of the frames: only the 99th percentile has ten beyond it.
        let few = of(&[(192_000, 1_990), (300_000, 10)]);
        assert_eq!(tails([&few, &loaded]).map(|(name, _)| name), Some("99th"));
        assert_eq!(tails([&of(&[(1, 9)]), &loaded]), None);
    }

    #[test]
    fn the_papers_efficiencies_are_its_own_arithmetic() {
        assert_eq!(efficiencies(&EFFICIENCIES).holds, Some(true));
    }
}
