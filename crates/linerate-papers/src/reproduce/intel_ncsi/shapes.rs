//! The shapes V1.1 to V1.14 of docs/methodology/papers.md#shapes. Those that follow from arithmetic
//! are marked "hard"; the others compare with the paper's observations.

use linerate_model::{BitRate, Bytes, Direction, Metric, Nanos, metric};

use super::{DataDirection, IntelStudies, NOISE, SIDEBAND, causes, cell, only, tables, value};
use crate::replay::{self, ReplayItem};
use crate::reproduce::{Shape, coordinate, judged, mbit, not_judged, shape, sweep, whole};
use linerate_analysis::fire_hose::{BufferSearch, Form, Hose, WindowPoint, onset};
use linerate_analysis::statistics::{coefficient_of_variation, median};
use linerate_analysis::{IntervalSeries, Study};

/// Share of bytes sent again that counts as none: 1 in 100 000 (docs/methodology/papers.md#shapes,
/// V1.5).
const NONE: f64 = 1e-5;
/// Cost of a tail probe in a short trial: a segment or two of some ten thousand.
const PROBES: f64 = 1e-3;
/// Least factor by which a cured collapse is faster (docs/methodology/papers.md#shapes, V1.6).
const COLLAPSE: f64 = 3.0;
/// The smaller of the paper's two gains with data in both directions (5.2 and 7.4), halved: the
/// lab's machines are not the paper's.
const GAIN_BOTH_WAYS: f64 = 5.2 / 2.0;
/// Least growth of the window with default settings. The paper's grew from 85 to 798 KiB.
const GROWTH: f64 = 2.0;
const CONSOLES: [&str; 2] = ["a", "b"];
const BMCS: [&str; 2] = ["bmc1", "bmc2"];

/// Returns `of` each console and controller that were measured; real hosts may lack some. `None` if
/// one of them has no figure, or none was measured.
fn of_pairs(study: &Study, of: impl Fn(&str, &str) -> Option<f64>) -> Option<Vec<f64>> {
    let pairs = CONSOLES.iter().flat_map(|console| BMCS.map(|bmc| [*console, bmc]));
    let is_measured =
        |[console, bmc]: &[&str; 2]| only(study, &format!("{console} {bmc} uni net2bmc")).is_some();
    let all: Option<Vec<f64>> =
        pairs.filter(is_measured).map(|[console, bmc]| of(console, bmc)).collect();
    all.filter(|all| !all.is_empty())
}

/// Returns all shapes.
pub(super) fn all(studies: &IntelStudies<'_>) -> Vec<Shape> {
    let mut shapes = vec![management(studies.causes), one_outstanding(studies.causes)];
    shapes.push(console_stream(studies.causes));
    shapes.push(faster_port(studies.fast_port, studies.faster_port));
    shapes.extend(link_speed(studies.slow_port, studies.fast_port));
    shapes.extend(tuning(studies));
    shapes.push(to_network(studies.default));
    shapes.push(cpu_share(studies.cpu));
    shapes.extend(both_ways(studies.default, studies.tuned));
    shapes.push(windows(studies.default, studies.tuned));
    shapes.extend(fire_hose(studies.hose));
    shapes.push(replayed(&replay::paper("intel-ncsi").expect("registered").replay().items));
    shapes
}

fn management(causes: &Study) -> Shape {
    /// The larger of request and response, which go in opposite directions.
    const BITS: f64 = 100.0 * 8.0;
    let claim = "V1.1 (hard): request and response load uses less than 2 % of each direction of \
        the sideband";
    let rate = value(causes, "management", metric::TRANSACTION_RATE, Direction::Sum);
    // Request and response travel in opposite directions, so the larger one loads a direction most.
    let found = rate.map(|rate| {
        let share = rate * BITS / SIDEBAND;
        (format!("{rate:.0}/s, {:.2} % of it", share * 100.0), share <= 0.02)
    });
    judged("V1.1a", claim, found, "no valid transaction rate")
}

/// Compares rate and mean time of each trial: a median of rates and a mean over all trials belong
/// to different trials.
fn one_outstanding(causes: &Study) -> Shape {
    /// Largest distance from one.
    const CLOSE: f64 = 0.01;
    let claim = "V1.1 (hard): one outstanding request: rate x mean response time = 1 in every \
        trial, within 1 %";
    let job = only(causes, "management").and_then(whole);
    let per_trial = |metric| Some(&job?.metric(metric, Direction::Sum)?.values);
    let products = per_trial(metric::TRANSACTION_RATE).zip(per_trial(metric::RESPONSE_TIME)).map(
        |(rates, times)| {
            let both = rates.iter().zip(times);
            both.filter_map(|(rate, time)| Some((*rate)? * (*time)?)).collect::<Vec<f64>>()
        },
    );
    let ends = products.filter(|products| !products.is_empty()).map(|products| {
        let [least, most] = [f64::min, f64::max]
            .map(|of| products.iter().copied().reduce(of).expect("it is not empty"));
        let measured = format!("{least:.4} to {most:.4} over {} trials", products.len());
        (measured, (1.0 - CLOSE..=1.0 + CLOSE).contains(&least) && most <= 1.0 + CLOSE)
    });
    judged("V1.1b", claim, ends, "no trial has a rate and a mean response time")
}

/// Judges a paced stream of datagrams from the management controller, as serial over LAN and a
/// remote console send them.
fn console_stream(causes: &Study) -> Shape {
    /// Offered payload, bit/s: the upper end of what the paper saw in practice.
    const OFFERED: f64 = 8e6;
    let claim = "S1.2: a paced stream from the BMC (serial over LAN, remote console; paper: below \
        10 Mbit/s) arrives whole: its rate within 1 %, nothing lost";
    let read = |metric| value(causes, "console stream", metric, Direction::Rx);
    let found = read(metric::GOODPUT).zip(read(metric::LOSS_RATIO)).map(|(rate, lost)| {
        let measured = format!("{} of 8 Mbit/s, {:.3} % lost", mbit(rate), lost * 100.0);
        (measured, (rate / OFFERED - 1.0).abs() <= 0.01 && lost == 0.0)
    });
    judged("S1.2", claim, found, "it has no figure")
}

/// Compares virtual media behind a port of 1 Gbit/s and behind one of 10.
fn faster_port(one: &Study, ten: &Study) -> Shape {
    let claim = "S1.3: virtual media are as fast behind a port of 10 Gbit/s as behind one of 1, \
        within 7 %";
    let read = |study| value(study, "virtual media", metric::TRANSACTION_RATE, Direction::Sum);
    let found = read(one).zip(read(ten)).map(|(one, ten)| {
        let measured = [one, ten].map(|rate| mbit(rate * causes::BLOCK_BITS));
        let measured = format!("{} and {} Mbit/s, {:.2}", measured[0], measured[1], ten / one);
        (measured, (ten / one - 1.0).abs() <= NOISE)
    });
    judged("S1.3", claim, found, "a port has no figure")
}

fn link_speed(slow: &Study, fast: &Study) -> Vec<Shape> {
    let read = |study, metric| value(study, "stream", metric, Direction::Tx);
    let claim = "V1.4 (hard): at a port as fast as the sideband a stream reaches 97 % of it, and \
        never more than all";
    let found = only(slow, "stream")
        .and_then(|point| whole(point)?.metric(metric::GOODPUT, Direction::Tx)?.share)
        .map(|share| (format!("{:.1} %", share * 100.0), (0.97..=1.0025).contains(&share)));
    let mut shapes = vec![judged("V1.4", claim, found, "no figure or no ceiling")];
    let dropped = |study| value(study, "stream", metric::CONTROLLER_DROPPED, Direction::Sum);
    let said = |again: f64, dropped: f64| {
        format!("{:.4} % sent again, {dropped:.0} frames dropped by the controller", again * 100.0)
    };
    let claim = "V1.5 (hard): with a port of 100 Mbit/s nothing is retransmitted (paper: 0), and \
        the controller drops nothing";
    let found = read(slow, metric::RETRANSMIT_RATIO).zip(dropped(slow));
    // A few tail probes are no loss, so a small floor is allowed beside the controller's own count.
    let found =
        found.map(|(again, dropped)| (said(again, dropped), again <= NONE && dropped < 1.0));
    shapes.push(judged("V1.5a", claim, found, "no figure"));
    let claim = "V1.5 (hard): with a port of 1 Gbit/s at least ten times as much is retransmitted \
        (paper: up to 5 %), and the controller drops frames";
    let found = read(fast, metric::RETRANSMIT_RATIO).zip(dropped(fast));
    // Ten times the floor separates overruns from probes.
    let found = found
        .map(|(again, dropped)| (said(again, dropped), again >= NONE * 10.0 && dropped >= 1.0));
    shapes.push(judged("V1.5b", claim, found, "no figure"));
    shapes
}

fn tuning(studies: &IntelStudies<'_>) -> Vec<Shape> {
    let claim = "V1.6 (hard): with the small window a single stream does not overrun the \
        controller, which drops nothing";
    let worst = most(studies.tuned, metric::RETRANSMIT_RATIO, Direction::Tx).zip(most(
        studies.tuned,
        metric::CONTROLLER_DROPPED,
        Direction::Sum,
    ));
    let found = worst.map(|(again, dropped)| {
        let measured =
            format!("at most {:.4} % sent again and {dropped:.0} frames dropped", again * 100.0);
        // Short trials end with a probe or two, which are a larger share than in long ones.
        (measured, again <= PROBES && dropped < 1.0)
    });
    let mut shapes = vec![judged("V1.6a", claim, found, "a cell has no figure")];
    shapes.push(steadier(studies));
    let claim = "V1.6: a modern sender alone neither gains nor loses by the small window, within \
        7 % (paper's Linux: 0.99)";
    let found =
        gain(studies, "stream, cubic").map(|(told, gain)| (told, (gain - 1.0).abs() <= NOISE));
    shapes.push(judged("V1.6c", claim, found, "a row has no figure"));
    let claim = "V1.6: a stream of the paper's time collapses, and the small window makes it at \
        least three times as fast (paper's Windows: 8.2)";
    // The row is fixed: the best of several would be found by chance. The paper's factor is 8.2. A
    // lower one is required, as the lab's sender is not its Windows.
    let found = gain(studies, "stream, legacy reno").map(|(told, gain)| (told, gain >= COLLAPSE));
    shapes.push(judged("V1.6d", claim, found, "the row has no figures"));
    shapes
}

/// Returns the largest figure of single streams to a controller.
fn most(study: &Study, metric: &'static Metric, direction: Direction) -> Option<f64> {
    let all = of_pairs(study, |console, bmc| {
        value(study, &format!("{console} {bmc} uni net2bmc"), metric, direction)
    });
    Some(all?.into_iter().fold(0.0, f64::max))
}

/// Returns the gain from the small window of one row of causes, as text and as a factor.
fn gain(studies: &IntelStudies<'_>, row: &str) -> Option<(String, f64)> {
    let (before, after) = causes::pair(studies.causes, studies.causes_tuned, row)?;
    let factor = after / before;
    Some((format!("{} to {} Mbit/s, {factor:.2}", mbit(before), mbit(after)), factor))
}

/// Judges whether seconds differ less with the small window.
fn steadier(studies: &IntelStudies<'_>) -> Shape {
    /// Least number of seconds for a spread.
    const SECONDS: usize = 10;
    let claim =
        "V1.6: the small window halves the variation between seconds (coefficient of variation)";
    fn spread(study: &Study) -> Option<f64> {
        let spreads = of_pairs(study, |console, bmc| {
            let name = format!("{console} {bmc} uni net2bmc");
            let seconds = tables::seconds(only(study, &name)?, DataDirection::ToBmc);
            if seconds.len() < SECONDS { None } else { coefficient_of_variation(&seconds) }
        });
        median(&spreads?)
    }
    let found = spread(studies.default).zip(spread(studies.tuned)).map(|(default, tuned)| {
        let measured = format!("median over consoles and controllers: {default:.3} to {tuned:.3}");
        (measured, tuned <= default / 2.0)
    });
    judged("V1.6b", claim, found, "fewer than 10 seconds per series (quick run)")
}

fn to_network(default: &Study) -> Shape {
    let claim = "V1.7: the sending rate of a BMC does not depend on the receiver, within 5 %";
    // Each pair is compared with the same controller's other console.
    let differences = of_pairs(default, |console, bmc| {
        let of = |console| cell(default, console, bmc, "uni", DataDirection::ToNetwork);
        let other = if console == "a" { "b" } else { "a" };
        Some((of(console)? / of(other)? - 1.0).abs())
    });
    let worst = differences.map(|all| all.into_iter().fold(0.0, f64::max));
    let found = worst.map(|worst| (format!("at most {:.2} % apart", worst * 100.0), worst <= 0.05));
    judged("V1.7a", claim, found, "a cell has no figure")
}

/// Judges the rate of a management controller against its share of a CPU.
fn cpu_share(study: &Study) -> Shape {
    /// Utilisation at which a sideband is full: more CPU cannot increase it much.
    const FULL: f64 = 0.9;
    /// Range of "in proportion", both ways.
    const PROPORTION: f64 = 0.25;
    let claim = "V1.7: the sending rate of a BMC is proportional to its share of a CPU, within 25 \
        %, until the sideband is full";
    // The lab's management controllers are named after their share, in per cent.
    let share = |name: &str| {
        name.trim_start_matches(|letter: char| !letter.is_ascii_digit()).parse::<f64>().ok()
    };
    let mut sent: Vec<(f64, f64)> = sweep(study, "share")
        .filter_map(|point| {
            let job = whole(point)?;
            Some((share(&job.to)?, job.metric(metric::GOODPUT, Direction::Rx)?.estimate?.value))
        })
        .collect();
    sent.sort_by(|a, b| a.0.total_cmp(&b.0));
    let measured: Vec<String> =
        sent.iter().map(|(share, rate)| format!("{share} %: {}", mbit(*rate))).collect();
    let measured = format!("Mbit/s at a share of {}", measured.join(", "));
    // Only shares below saturation can be proportional.
    let n_rising = sent.windows(2).take_while(|pair| pair[1].1 < FULL * SIDEBAND).count();
    let full = sent.last().is_some_and(|(_, rate)| *rate >= FULL * SIDEBAND);
    // Without both a rising part and a full one, the claim was not tested.
    if n_rising == 0 || !full {
        return not_judged(
            "V1.7b",
            claim,
            &format!("the sideband is full at every share, or at none ({measured})"),
        );
    }
    let in_proportion = sent.windows(2).take(n_rising).all(|pair| {
        let ((less, slow), (more, fast)) = (pair[0], pair[1]);
        ((fast / slow) / (more / less) - 1.0).abs() <= PROPORTION
    });
    shape("V1.7b", claim, measured, Some(in_proportion))
}

/// Returns the worst of a ratio over the consoles and controllers of `study`.
fn worst(study: &Study, of: impl Fn(&str, &str) -> Option<f64>) -> Option<f64> {
    Some(of_pairs(study, of)?.into_iter().fold(f64::INFINITY, f64::min))
}

fn both_ways(default: &Study, tuned: &Study) -> Vec<Shape> {
    fn against(study: &Study, way: DataDirection) -> impl Fn(&str, &str) -> Option<f64> {
        move |console: &str, bmc: &str| {
            Some(cell(study, console, bmc, "bidi", way)? / cell(study, console, bmc, "uni", way)?)
        }
    }
    let percent = |share: f64| format!("{:.0} % at worst", share * 100.0);
    let claim = "V1.8: data from the BMC keeps 90 % of its rate while data goes in the other \
        direction (E1.c: the paper states the opposite)";
    let share = worst(default, against(default, DataDirection::ToNetwork));
    let found = share.map(|share| (percent(share), share >= 0.9));
    let mut shapes = vec![judged("V1.8a", claim, found, "a cell has no figure")];
    let claim = "V1.8: data to the BMC falls to less than half while data goes in the other \
        direction (paper: 0.14 and 0.54)";
    let collapse = worst(default, move |console, bmc| {
        // The smallest of the negative shares is the largest share: the best pair must collapse
        // too.
        against(default, DataDirection::ToBmc)(console, bmc).map(|share| -share)
    });
    let found = collapse.map(|share| (format!("{:.1} % at best", -share * 100.0), -share < 0.5));
    shapes.push(judged("V1.8b", claim, found, "a cell has no figure"));
    let claim = "V1.8: with data in the other direction too, the small window makes data to the \
        BMC at least 2.6 times as fast (half the smaller of the paper's gains, 5.2 and 7.4)";
    let gain = worst(default, |console, bmc| {
        let of = |study| cell(study, console, bmc, "bidi", DataDirection::ToBmc);
        Some(of(tuned)? / of(default)?)
    });
    let found = gain.map(|gain| (format!("{gain:.2} times at worst"), gain >= GAIN_BOTH_WAYS));
    shapes.push(judged("V1.8c", claim, found, "a cell has no figure"));
    shapes
}

fn windows(default: &Study, tuned: &Study) -> Shape {
    /// The paper's `tcp_rmem`.
    const RECEIVE_MEMORY: f64 = 12_288.0;
    let claim = "V1.10: with default settings the window the console sees grows at least twofold \
        (paper: 85 to 798 KiB); tuned, it stays within tcp_rmem (hard)";
    /// Returns the window of the first interval and the largest of the others.
    fn seen(study: &Study) -> Option<(f64, f64)> {
        let point = only(study, "a bmc1 uni net2bmc")?;
        let mut windows = point
            .trials
            .first()?
            .series
            .get(&IntervalSeries::Of(metric::PEER_WINDOW))?
            .iter()
            .flatten()
            .copied();
        Some((windows.next()?, windows.reduce(f64::max)?))
    }
    let found = seen(default).zip(seen(tuned)).map(|((first, largest), (_, bound))| {
        let measured =
            format!("default {first:.0} B, later {largest:.0} B; tuned at most {bound:.0} B");
        (measured, largest >= first * GROWTH && bound <= RECEIVE_MEMORY)
    });
    judged("V1.10", claim, found, "the kernel does not report the peer's window")
}

/// Returns the sideband of the lab; its round trip is measured.
fn lab_hose(rtt: Nanos) -> Hose {
    Hose {
        buffer: Bytes(8192),
        burst: Bytes(0),
        feed: BitRate(1e9),
        drain: BitRate(SIDEBAND),
        frame: Bytes(1514),
        mss: Bytes(1460),
        rtt,
        flows: 1,
    }
}

fn fire_hose(hose: &Study) -> Vec<Shape> {
    let rtt = sweep(hose, "window")
        .filter_map(|p| whole(p)?.metric(metric::RTT_MIN, Direction::Tx)?.estimate)
        .map(|e| e.value);
    // The smallest round trip of any window is that of the empty path.
    let rtt = Nanos((rtt.fold(f64::INFINITY, f64::min) * 1e9) as u64);
    let lab = lab_hose(rtt);
    vec![inferred(hose, &lab), loss_onset(hose, &lab)]
}

fn inferred(study: &Study, lab: &Hose) -> Shape {
    let claim = "V1.11 (hard): bursts measure the controller's buffer within one frame";
    let mut search = BufferSearch::new();
    for point in sweep(study, "burst") {
        let Some(length) =
            coordinate(&point.parameters, "burst").and_then(|text| text.parse::<u32>().ok())
        else {
            // Points without a length are of another sweep.
            continue;
        };
        let Some(loss) = whole(point).and_then(|job| job.loss.first()) else { continue };
        let trains = u32::try_from(loss.ledger.sent / u64::from(length)).unwrap_or(u32::MAX);
        search.observe(length, trains, loss.ledger.lost());
    }
    let found = search.inferred(lab).map(|found| {
        let measured = format!(
            "{} frames pass: {} B to {} B, in truth {} B",
            found.longest_train, found.buffer.start.0, found.buffer.end.0, lab.buffer.0
        );
        (measured, found.buffer.contains(&lab.buffer))
    });
    judged("V1.11", claim, found, "no burst was lost, or lengths are missing")
}

fn loss_onset(study: &Study, lab: &Hose) -> Shape {
    let claim = "V1.12 (hard): loss begins between the frame-granular window and two segments \
        above the widest form";
    let points: Vec<WindowPoint> = sweep(study, "window")
        .filter_map(|point| {
            let job = whole(point)?;
            let read = |metric| Some(job.metric(metric, Direction::Tx)?.estimate?.value);
            Some(WindowPoint {
                window: coordinate(&point.parameters, "window_clamp")?.parse().ok()?,
                loss: read(metric::RETRANSMIT_RATIO)?,
                goodput: BitRate(read(metric::GOODPUT)?),
            })
        })
        .collect();
    let bracket = lab.bracket();
    let Some(found) = onset(&points) else {
        return not_judged("V1.12", claim, "no window has figures");
    };
    match (found.last_clean, found.first_lossy, found.within(&bracket, lab)) {
        (Some(clean), Some(lossy), Some(within)) => {
            let [low, high] = bracket.onset();
            let form = found.nearest_form(&bracket).map_or("none", |(form, _)| match form {
                Form::FrameGranular => "whole frames without draining",
                Form::Fluid => "burst that drains while it arrives",
                Form::AckClocked => "buffer and bandwidth-delay product",
            });
            let measured = format!(
                "between {} B and {} B; bracket {} B to {} B at {} us; nearest form: {form}",
                clean.0,
                lossy.0,
                low.0,
                high.0,
                lab.rtt.0 / 1000
            );
            shape("V1.12", claim, measured, Some(within))
        }
        _ => not_judged("V1.12", claim, "loss begins outside the sweep"),
    }
}

/// Judges the averages among the replayed `items`.
pub(in crate::reproduce) fn replayed(items: &[ReplayItem]) -> Shape {
    let claim = "V1.14 (hard): the paper's 32 averages follow from its tables";
    let averages: Vec<bool> =
        items.iter().filter(|item| item.what.starts_with("average of")).map(|i| i.agrees).collect();
    let agree = averages.iter().filter(|agrees| **agrees).count();
    shape(
        "V1.14",
        claim,
        format!("{agree} of {}", averages.len()),
        // The count guards against an empty list, of which all would agree.
        Some(agree == 32 && averages.len() == 32),
    )
}
