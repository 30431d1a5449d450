//! IDT 89PES24T6G2 PCI Express switch report, the Ethernet half: items S5.1 to S5.5 and S5.8, shapes V5.1, V5.5, V5.7.
//!
//! Two campaigns are judged: `throughput` (the highest rate without loss, both ways, through an OS bridge, with and without one more
//! hop) and `latency` (idle, loaded, and of bursts). The emulated host forwards 9150 frames a second each way and no more than
//! 100 Mbit/s. What is not reproduced: the storage half (S5.6, S5.7, S5.9, S5.10), which says so; and bursts come from one port,
//! not synchronised over several.

use linerate_model::{Bytes, Direction, Validity};

use super::{Comparison, Reproduction, Shape, coordinate, figure, not_judged, shape, sweep, whole};
use crate::limits::ethernet;
use crate::limits::pcie::{Link, LinkLayerPackets};
use crate::{PointStudy, Study};

/// What the emulated host forwards each way, frames per second, and bit/s on the wire.
const FORWARDED: f64 = 9150.0;
const PORT: f64 = 100e6;
/// From one offered rate to the next: what a throughput is known to.
const STEP: f64 = 0.09;
/// Operations started over those due may be this far from 1; beyond it the load was not offered, and no loss says nothing.
const OFFERED: f64 = 0.02;
/// The paper's efficiencies (figures 3 and 4), per cent, of payloads in bytes: 20 bytes of framing, and 4 more of link layer.
const EFFICIENCIES: [(u64, f64, f64); 7] = [
    (64, 76.19, 72.73),
    (128, 86.49, 84.21),
    (256, 92.75, 91.43),
    (512, 96.24, 95.52),
    (1024, 98.08, 97.71),
    (2048, 99.03, 98.84),
    (4096, 99.51, 99.42),
];

/// Judges the shapes of the Ethernet half of the IDT report.
#[must_use]
pub fn idt_pcie(throughput: &Study, latency: &Study) -> Reproduction {
    let found = throughputs(throughput);
    let mut shapes = vec![efficiencies()];
    shapes.extend(waiting(latency));
    shapes.extend(packet_bound(&found));
    shapes.push(same(&found));
    shapes.push(not_judged(
        "V5.6",
        "the storage half: totals, shares and equivalence (S5.6, S5.7, S5.9, S5.10)",
        "it is not reproduced yet",
    ));
    Reproduction {
        paper: "IDT 89PES24T6G2 PCI Express switch performance report: the Ethernet half".into(),
        tables: vec![framing_table(), throughput_table(&found), latency_table(latency)],
        shapes,
    }
}

/// Which of the two paths a point takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Path {
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
struct Throughput {
    path: Path,
    frame: u64,
    /// Frames per second each way without loss, and the lowest offered above it that lost some; `None` where there is none.
    lower: Option<f64>,
    upper: Option<f64>,
    n_trials: usize,
}

/// One offered load.
struct Offered {
    path: Path,
    frame: u64,
    rate: f64,
    /// Whether nothing was lost in at least half of the trials that offered it: a stall of the machine that emulates now and then
    /// is no property of the path (RFC 9971 calls it an exceed ratio of 50 %). `None` if none offered it.
    held: Option<bool>,
    n_trials: usize,
}

fn throughputs(study: &Study) -> Vec<Throughput> {
    let offered: Vec<Offered> = sweep(study, "throughput").filter_map(offered).collect();
    let mut found: Vec<Throughput> = Vec::new();
    for load in &offered {
        if found.iter().any(|known| (known.path, known.frame) == (load.path, load.frame)) {
            continue;
        }
        let mut own: Vec<&Offered> =
            offered.iter().filter(|other| (other.path, other.frame) == (load.path, load.frame)).collect();
        own.sort_by(|a, b| a.rate.total_cmp(&b.rate));
        // The throughput is below the first load that lost anything, whatever passed above it.
        let upper = own.iter().find(|load| load.held == Some(false)).map(|load| load.rate);
        let below = own.iter().filter(|load| load.held == Some(true) && upper.is_none_or(|upper| load.rate < upper));
        found.push(Throughput {
            path: load.path,
            frame: load.frame,
            lower: below.map(|load| load.rate).max_by(f64::total_cmp),
            upper,
            n_trials: own.iter().map(|load| load.n_trials).sum(),
        });
    }
    found.sort_by_key(|found| (found.frame, found.path == Path::With));
    found
}

fn offered(point: &PointStudy) -> Option<Offered> {
    let size: Bytes = coordinate(&point.parameters, "frame_size")?.parse().ok()?;
    let rate: linerate_model::PacketRate = coordinate(&point.parameters, "rate")?.parse().ok()?;
    let job = whole(point)?;
    let values = |metric: &str, direction| job.metric(metric, direction).map(|metric| metric.values.clone());
    let off = values("pacing_error", Direction::Sum)?;
    let lost = values("lost", Direction::Sum)?;
    // Trials that other programs disturbed speak only where there is no other.
    let is_valid = |trial: usize| point.trials.get(trial).is_some_and(|trial| trial.validity == Validity::Valid);
    let all: Vec<(bool, f64)> = off
        .into_iter()
        .zip(lost)
        .enumerate()
        .filter_map(|(trial, (off, lost))| Some((is_valid(trial), off.filter(|off| off.abs() <= OFFERED).and(lost)?)))
        .collect();
    let any_valid = all.iter().any(|(valid, _)| *valid);
    let counted: Vec<f64> = all.into_iter().filter(|(valid, _)| *valid || !any_valid).map(|(_, lost)| lost).collect();
    let n_held = counted.iter().filter(|lost| **lost == 0.0).count();
    let held = (!counted.is_empty()).then_some(2 * n_held >= counted.len());
    Some(Offered { path: Path::of(point), frame: size.0, rate: rate.0, held, n_trials: counted.len() })
}

/// What frames of `size` bytes the ports carry a second.
fn line(size: u64) -> f64 {
    ethernet::packet_rate(linerate_model::BitRate(PORT), Bytes(size)).0
}

fn efficiencies() -> Shape {
    let claim = "V5.1 (hard): framing of 20 B, and 24 with link-layer packets, gives the paper's efficiencies (figures 3 and 4)";
    let off = EFFICIENCIES.iter().flat_map(|(size, bare, with)| {
        let [ours, ours_with] = efficiency(*size);
        [(ours - bare).abs(), (ours_with - with).abs()]
    });
    let worst = off.fold(0.0, f64::max);
    shape(
        "V5.1",
        claim,
        format!("at most {worst:.3} points off, over {} sizes", EFFICIENCIES.len()),
        Some(worst < 0.006),
    )
}

/// Per cent of a link that payloads of `size` are: framing alone, and with link-layer packets.
fn efficiency(size: u64) -> [f64; 2] {
    let mut link = Link::new(2, 8, Bytes(4096), Bytes(4096)).expect("generation 2 has 8 lanes");
    let share = |link: &Link| link.write(Bytes(size)).0 / link.rate.0 * 100.0;
    let bare = share(&link);
    link.dllp = LinkLayerPackets::Idt;
    [bare, share(&link)]
}

fn packet_bound(found: &[Throughput]) -> Vec<Shape> {
    let claim = "V5.7 (hard): frames per second do not depend on size while the host's packet rate binds (one step)";
    let bound: Vec<f64> = found.iter().filter(|f| line(f.frame) > FORWARDED).filter_map(|f| f.lower).collect();
    let (least, most) = (bound.iter().copied().reduce(f64::min), bound.iter().copied().reduce(f64::max));
    let mut shapes = vec![match least.zip(most).filter(|_| bound.len() > 2) {
        Some((least, most)) => {
            let measured = format!(
                "{least:.0} to {most:.0}/s over {} sizes and paths, the host forwards {FORWARDED}",
                bound.len()
            );
            shape("V5.7a", claim, measured, Some(most / least - 1.0 <= STEP))
        }
        None => not_judged("V5.7a", claim, "fewer than three sizes have a throughput"),
    }];
    let claim =
        "V5.7 (hard): where the line is slower than that, it binds: the throughput brackets the smaller of the two";
    let checked: Vec<(&Throughput, bool)> = found
        .iter()
        .filter_map(|f| {
            let expected = line(f.frame).min(FORWARDED);
            Some((f, f.lower? <= expected && f.upper.is_none_or(|upper| upper >= expected)))
        })
        .collect();
    let wrong: Vec<String> =
        checked.iter().filter(|(_, right)| !right).map(|(f, _)| format!("{} B {}", f.frame, f.path.word())).collect();
    shapes.push(if checked.is_empty() {
        not_judged("V5.7b", claim, "no size has a throughput")
    } else {
        let measured =
            format!("{} of {} brackets hold it {}", checked.len() - wrong.len(), checked.len(), wrong.join(", "));
        shape("V5.7b", claim, measured.trim_end().to_owned(), Some(wrong.is_empty()))
    });
    shapes
}

fn same(found: &[Throughput]) -> Shape {
    let claim = "S5.8 (hard): a hop that is faster than the host changes nothing beyond the search's step (the paper reads \
                 differences of one or two of its steps of 0.71 % of the line as effects)";
    let of = |path: Path, frame: u64| found.iter().find(|f| f.path == path && f.frame == frame)?.lower;
    let pairs: Vec<(u64, f64)> = found
        .iter()
        .filter(|f| f.path == Path::Without)
        .filter_map(|f| Some((f.frame, of(Path::With, f.frame)? / f.lower?)))
        .collect();
    let worst = pairs.iter().max_by(|a, b| (a.1 - 1.0).abs().total_cmp(&(b.1 - 1.0).abs()));
    match worst {
        Some((frame, ratio)) => {
            let measured = format!("with over without {ratio:.3} at {frame} B, the worst of {} sizes", pairs.len());
            shape("S5.8", claim, measured, Some((ratio - 1.0).abs() <= STEP))
        }
        None => not_judged("S5.8", claim, "no size has a throughput on both paths"),
    }
}

fn waiting(latency: &Study) -> Vec<Shape> {
    let mut shapes = Vec::new();
    for path in Path::BOTH {
        let claim = format!(
            "V5.5 (hard): {} the hop: the 90th percentile under load is not below that of an idle path",
            path.word()
        );
        let mut points: Vec<(f64, f64)> = sweep(latency, "load")
            .filter(|point| Path::of(point) == path)
            .filter_map(|point| {
                let rate: linerate_model::PacketRate = coordinate(&point.parameters, "rate")?.parse().ok()?;
                Some((rate.0, figure(point, "response_time_p90")?.value))
            })
            .collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        shapes.push(match &points[..] {
            [(slow, idle), .., (fast, loaded)] => {
                let measured = format!("{:.0} us at {slow:.0}/s, {:.0} us at {fast:.0}/s", idle * 1e6, loaded * 1e6);
                shape("V5.5a", claim, measured, Some(loaded >= idle))
            }
            _ => not_judged("V5.5a", &claim, "a load has no figure"),
        });
    }
    for point in sweep(latency, "bursts") {
        let Some(burst) = coordinate(&point.parameters, "burst").and_then(|text| text.parse::<f64>().ok()) else {
            continue;
        };
        let least = (burst - 1.0) / FORWARDED;
        let claim = format!(
            "V5.5 (hard): the last of {burst} frames at once waits for all before it: at least {:.0} us",
            least * 1e6
        );
        shapes.push(match figure(point, "response_time_max") {
            Some(most) => {
                let measured = format!("{:.0} us", most.value * 1e6);
                shape("V5.5b", claim, measured, Some(most.value >= least))
            }
            None => not_judged("V5.5b", &claim, "no response time"),
        });
    }
    shapes
}

fn head<const N: usize>(names: [&str; N]) -> Vec<String> {
    names.map(str::to_owned).to_vec()
}

fn framing_table() -> Comparison {
    let rows = EFFICIENCIES.iter().map(|(size, bare, with)| {
        let [ours, ours_with] = efficiency(*size);
        [format!("{size} B"), format!("{bare}"), format!("{ours:.2}"), format!("{with}"), format!("{ours_with:.2}")]
            .to_vec()
    });
    Comparison {
        title:
            "Figures 3 and 4: payload over what crosses the link, per cent; 20 B of framing, 24 with link-layer packets"
                .into(),
        head: head(["payload", "paper, 20 B", "ours", "paper, 24 B", "ours"]),
        rows: rows.collect(),
    }
}

fn throughput_table(found: &[Throughput]) -> Comparison {
    let rows = found.iter().map(|f| {
        let rate = |rate: Option<f64>| rate.map_or("-".to_owned(), |rate| format!("{rate:.0}"));
        let share = f.lower.map_or("-".to_owned(), |rate| format!("{:.1} %", rate / line(f.frame) * 100.0));
        let expected = line(f.frame).min(FORWARDED);
        vec![
            format!("{} B", f.frame),
            f.path.word().to_owned(),
            rate(f.lower),
            rate(f.upper),
            format!("{expected:.0}"),
            share,
            f.n_trials.to_string(),
        ]
    });
    Comparison {
        title: "Table 3, Ethernet: frames per second each way, both at once, through an OS bridge; the paper's host forwards 137 to \
                193 thousand a second both ways together, at every size"
            .into(),
        head: head(["frame", "hop", "none lost", "some lost", "known", "of the line", "trials"]),
        rows: rows.collect(),
    }
}

fn latency_table(latency: &Study) -> Comparison {
    let micros = |point: &PointStudy, metric: &str| {
        figure(point, metric).map_or("-".to_owned(), |estimate| format!("{:.0}", estimate.value * 1e6))
    };
    let row = |what: String, point: &PointStudy| {
        let mut row = vec![what];
        row.extend(
            ["response_time_p50", "response_time_p90", "response_time_p99", "response_time_max"]
                .map(|m| micros(point, m)),
        );
        row
    };
    let loads = sweep(latency, "load").map(|point| {
        let rate = coordinate(&point.parameters, "rate").unwrap_or_default();
        row(format!("{rate}, {} the hop", Path::of(point).word()), point)
    });
    let bursts = sweep(latency, "bursts").map(|point| {
        row(format!("bursts of {} frames", coordinate(&point.parameters, "burst").unwrap_or_default()), point)
    });
    Comparison {
        title: "Latency, us from a frame's due departure to its arrival, frames of 512 B; the report defines it (bit in to bit out, \
                of the last packet too) and prints none"
            .into(),
        head: head(["", "median", "90 %", "99 %", "largest"]),
        rows: loads.chain(bursts).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: Path, frame: u64, lower: f64, upper: f64) -> Throughput {
        Throughput { path, frame, lower: Some(lower), upper: Some(upper), n_trials: 4 }
    }

    fn holds(shapes: &[Shape]) -> Vec<Option<bool>> {
        shapes.iter().map(|shape| shape.holds).collect()
    }

    #[test]
    fn a_host_of_constant_packet_rate_is_told_from_one_that_slows_with_size() {
        let constant = [64, 512, 1024].map(|frame| found(Path::Without, frame, 9000.0, 9600.0));
        assert_eq!(holds(&packet_bound(&constant)), [Some(true), Some(true)]);
        let slowing = [(64, 9000.0), (512, 8500.0), (1024, 7500.0)]
            .map(|(frame, rate)| found(Path::Without, frame, rate, rate * 1.06));
        assert_eq!(holds(&packet_bound(&slowing)), [Some(false), Some(false)]);
        // At 1518 B the line carries 8127.
        let line_bound = found(Path::With, 1518, 8000.0, 8500.0);
        assert_eq!(holds(&packet_bound(&[line_bound])), [None, Some(true)]);
        assert_eq!(holds(&packet_bound(&[found(Path::With, 1518, 9000.0, 9600.0)])), [None, Some(false)]);
        assert_eq!(holds(&packet_bound(&[])), [None, None]);
    }

    #[test]
    fn one_step_is_no_difference_and_two_are_one() {
        let without = found(Path::Without, 64, 9000.0, 9600.0);
        let of = |rate: f64| same(&[without.clone(), found(Path::With, 64, rate, rate * 1.06)]).holds;
        assert_eq!([of(9000.0), of(8500.0), of(8000.0)], [Some(true), Some(true), Some(false)]);
        assert_eq!(same(std::slice::from_ref(&without)).holds, None);
    }

    #[test]
    fn the_papers_efficiencies_are_its_own_arithmetic() {
        assert_eq!(efficiencies().holds, Some(true));
    }
}
