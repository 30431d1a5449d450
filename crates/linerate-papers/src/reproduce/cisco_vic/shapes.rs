//! The shapes V3.1 to V3.6 of docs/methodology/papers.md#shapes. All but the last follow from
//! arithmetic.

use linerate_model::{Direction, Validity, metric};

use super::{
    CiscoStudies, Draws, EXPANDER_PORTS, FABRICS, PORT, Packets, SLOT, VIC_PORTS, bound,
    busiest_worker, coordinate, draws, failover, ideal, most, most_flows, one_flow, packets, sweep,
    whole,
};
use crate::reproduce::{Shape, judged, mbit, not_judged, shape};
use linerate_analysis::compare::Effect;
use linerate_analysis::statistics::median;
use linerate_analysis::{PointStudy, Study};

/// Difference of two medians of few runs that counts as equal (V3.4).
const EQUAL: f64 = 0.02;
/// Distance below its ceiling at which a stream or a port counts as full.
const NEAR: f64 = 0.05;
/// Draws that the methodology requires.
const ENOUGH_DRAWS: usize = 20;
/// Standard deviations that include 95 of 100 means, and 999 of 1000: where several figures are
/// judged at every run, one outside the first is not rare.
const USUAL: f64 = 1.96;
const RARE: f64 = 3.29;

/// Returns all shapes.
pub(super) fn all(studies: &CiscoStudies<'_>) -> Vec<Shape> {
    let mut shapes = vec![ceilings(studies), single_stream(studies.payload)];
    let (vic, expander) = (packets(studies.vic), packets(studies.expander));
    for (letter, adapter, sizes) in [("a", "VIC", &vic), ("b", "expander", &expander)] {
        shapes.push(rate_times_size(letter, adapter, sizes));
        shapes.push(falls(letter, adapter, sizes));
    }
    let ports = "without the expander the ports bind (paper: 37.8 of 40)";
    shapes.push(binding("e", ports, &vic, VIC_PORTS));
    let slot = "with it the slot does (paper: 54.15 of 55.35)";
    shapes.push(binding("f", slot, &expander, EXPANDER_PORTS));
    shapes.push(gain(&vic, &expander));
    shapes.extend([1, 2].map(|n_fabrics| gain_of_flows(studies, n_fabrics)));
    shapes.extend(one_flow_is_one_port(studies));
    for (adapter, ports, study) in [
        ("VIC", VIC_PORTS, studies.vic_draws),
        ("expander", EXPANDER_PORTS, studies.expander_draws),
    ] {
        shapes.extend(
            draws(study).iter().flat_map(|point| several_flows(adapter, ports, point, studies)),
        );
    }
    shapes.push(polarised(studies));
    shapes.extend(placement(studies.placement));
    shapes.extend(failover::all(studies.failover));
    shapes
}

fn ceilings(studies: &CiscoStudies<'_>) -> Shape {
    let claim = "V3.1 (hard): no stream exceeds its ceiling (the paper's single flow does)";
    let CiscoStudies { payload, vic, expander, vic_draws, expander_draws, polarised, .. } = studies;
    let studies = [payload, vic, expander, vic_draws, expander_draws, polarised];
    let points = || studies.into_iter().flat_map(|study| &study.points);
    // Frames read late from a receiving ring may exceed it once; the gate then leaves their trial
    // out.
    let count =
        |raw: bool| impossible_trials(points().filter(|point| (point.sweep == "packets") == raw));
    let ((above, n), (raw_above, raw)) = (count(false), count(true));
    if n == 0 {
        return not_judged("V3.1a", claim, "no stream was run");
    }
    let measured =
        format!("{above} of {n} trials are above; of raw frames {raw_above} of {raw}, left out");
    shape("V3.1a", claim, measured, Some(above == 0))
}

/// Returns how many trials exceed their ceiling, and how many there are.
fn impossible_trials<'a>(points: impl Iterator<Item = &'a PointStudy>) -> (usize, usize) {
    let trials: Vec<Validity> =
        points.flat_map(|point| &point.trials).map(|trial| trial.validity).collect();
    (trials.iter().filter(|validity| **validity == Validity::Impossible).count(), trials.len())
}

fn single_stream(payload: &Study) -> Shape {
    let claim = "V3.1 (hard): a TCP stream reaches 95 % of its port if no CPU limits it";
    let largest = sweep(payload, "payload, TCP")
        .filter_map(|point| {
            let size: linerate_model::Bytes =
                coordinate(&point.parameters, "message_size")?.parse().ok()?;
            Some((size, point))
        })
        .max_by_key(|(size, _)| *size);
    let Some((size, point)) = largest else { return not_judged("V3.1b", claim, "it was not run") };
    let metric = whole(point).and_then(|job| job.metric(metric::GOODPUT, Direction::Tx));
    let Some(share) = metric.and_then(|metric| metric.share) else {
        return not_judged("V3.1b", claim, "no figure or no ceiling");
    };
    let busiest = busiest_worker(point);
    let measured = format!(
        "{:.1} % in messages of {size}, busiest thread {:.0} %",
        share * 100.0,
        busiest * 100.0
    );
    // A busy CPU explains a stream below its port, so the claim about the port cannot be judged.
    let limited = busiest > 1.0 - NEAR && share < 1.0 - NEAR;
    if limited {
        return not_judged("V3.1b", claim, &format!("a CPU limits: {measured}"));
    }
    shape("V3.1b", claim, measured, Some(share >= 1.0 - NEAR))
}

/// Compares the packets that the application counted with the bits that the receiving interface
/// counted. Two counts of the application would always agree.
fn rate_times_size(letter: &str, adapter: &str, sizes: &[Packets]) -> Shape {
    /// Allowance because the interface is read at other moments: a few milliseconds of a second and
    /// a half.
    const OTHER_MOMENTS: f64 = 0.03;
    let id = format!("V3.2{letter}");
    let claim = format!(
        "V3.2 (hard): {adapter}: packets delivered x size x 8 is the bandwidth that the receiving \
            interface counted, within 3 %"
    );
    let offs: Vec<f64> = sizes
        .iter()
        .filter_map(|size| Some(size.rate * size.frame * 8.0 / size.at_interface? - 1.0))
        .collect();
    // The worst size decides, in either direction.
    let worst = offs.iter().copied().max_by(|a, b| a.abs().total_cmp(&b.abs()));
    let found = worst.map(|worst| {
        let measured = format!("worst of {} sizes {:+.2} %", offs.len(), worst * 100.0);
        (measured, worst.abs() <= OTHER_MOMENTS)
    });
    judged(&id, claim, found, "no packet size has a count of the interface")
}

fn falls(letter: &str, adapter: &str, sizes: &[Packets]) -> Shape {
    let id = format!("V3.2{}", if letter == "a" { "c" } else { "d" });
    let claim = format!("V3.2 (hard): {adapter}: the packet rate does not rise with size");
    if sizes.len() < 2 {
        return not_judged(&id, &claim, "fewer than two packet sizes have a figure");
    }
    let curve: Vec<String> =
        sizes.iter().map(|size| format!("{:.0} B {:.0}/s", size.frame, size.rate)).collect();
    // Each size is compared with its neighbour only: a rise anywhere breaks the claim.
    let holds = sizes.windows(2).all(|pair| pair[1].rate <= pair[0].rate);
    shape(&id, claim, curve.join(", "), Some(holds))
}

/// Returns the ceiling that binds at the size with the highest rate.
fn binding(letter: &str, claim: &str, sizes: &[Packets], ports: u32) -> Shape {
    let id = format!("V3.2{letter}");
    let claim = format!("V3.2: {claim}: the largest bandwidth is within 5 % of it");
    let all_ports = f64::from(ports * FABRICS) * PORT;
    // The narrower of the two binds.
    let limit = all_ports.min(SLOT);
    let found = most(sizes).map(|value| {
        let measured = format!(
            "{} Mbit/s: {:.1} % of the ports' {}, {:.1} % of the slot's {}",
            mbit(value),
            value / all_ports * 100.0,
            mbit(all_ports),
            value / SLOT * 100.0,
            mbit(SLOT)
        );
        (measured, (1.0 - NEAR..=1.0 + NEAR).contains(&(value / limit)))
    });
    judged(&id, claim, found, "no packet size has a figure")
}

fn gain(vic: &[Packets], expander: &[Packets]) -> Shape {
    let claim = "S3.8: gain of the expander in raw packets: the slot over the ports, 1.38, within \
        5 % (paper: 1.43)";
    let expected = SLOT / (f64::from(VIC_PORTS * FABRICS) * PORT);
    let found = most(vic).zip(most(expander)).map(|(without, with)| {
        let measured = format!("{} / {} = {:.2}", mbit(with), mbit(without), with / without);
        (measured, (with / without / expected - 1.0).abs() <= NEAR)
    });
    judged("S3.8a", claim, found, "an adapter has no figure")
}

/// Compares the gain of the expander for the most flows with the paper's. Its number of flows is
/// not printed.
fn gain_of_flows(studies: &CiscoStudies<'_>, n_fabrics: u32) -> Shape {
    /// The paper's gains, table 7: 24747 / 12749 and 38698 / 22655.
    const PAPER: [f64; 2] = [1.94, 1.71];
    const CLOSE: f64 = 0.15;
    let (id, paper) = if n_fabrics == 1 { ("S3.8b", PAPER[0]) } else { ("S3.8c", PAPER[1]) };
    let claim = format!(
        "S3.8: gain of the expander for many flows on {n_fabrics} fabric(s): the paper's {paper}, \
            within 15 %"
    );
    let flows = |study| most_flows(study, n_fabrics);
    let found = flows(studies.vic_draws).zip(flows(studies.expander_draws));
    let found = found.map(|((n, without), (_, with))| {
        let gain = with / without;
        let measured = format!("{} / {} = {gain:.2} with {n} flows", mbit(with), mbit(without));
        (measured, (gain / paper - 1.0).abs() <= CLOSE)
    });
    judged(id, claim, found, "an adapter has no draw")
}

fn one_flow_is_one_port(studies: &CiscoStudies<'_>) -> Vec<Shape> {
    let (vic, expander) = (|n| one_flow(studies.vic, n), |n| one_flow(studies.expander, n));
    let claim = "V3.4 (hard): one flow gets one port, with two ports as with four (within 2 %; \
        paper: 9966 and 9966)";
    vec![
        ratio("V3.4a", claim, (expander(1), vic(1)), 1.0),
        ratio("V3.4b", &doubled("VIC"), (vic(2), vic(1)), 2.0),
        ratio("V3.4b", &doubled("expander"), (expander(2), expander(1)), 2.0),
    ]
}

fn doubled(adapter: &str) -> String {
    format!(
        "V3.4 (hard): {adapter}: one flow on each of two fabrics is twice one, within 2 % (paper: \
            19931 / 9966 = 2.000)"
    )
}

/// Judges whether `over` is `expected` times `under`.
fn ratio(id: &str, claim: &str, (over, under): (Option<f64>, Option<f64>), expected: f64) -> Shape {
    let Some((over, under)) = over.zip(under) else {
        return not_judged(id, claim, "a point has no figure");
    };
    let ratio = over / under;
    let measured = format!("{} / {} = {ratio:.3}", mbit(over), mbit(under));
    shape(id, claim, measured, Some((ratio / expected - 1.0).abs() <= EQUAL))
}

/// Compares draws of several flows with an ideal hash, and their rate with that of the ports they
/// use.
fn several_flows(
    adapter: &str,
    ports: u32,
    point: &Draws,
    studies: &CiscoStudies<'_>,
) -> Vec<Shape> {
    let n = point.draws.len();
    let Draws { fabrics, n_flows, .. } = point;
    let what =
        format!("{adapter}, {n_flows} flows on each of {fabrics} fabric(s) of {ports} ports");
    let (mean, deviation) = ideal(ports, *n_flows, *fabrics);
    let error = deviation / (n as f64).sqrt();
    let claim =
        format!("V3.4 (hard): {what}: the mean number of links in use is that of an ideal hash");
    // Fewer draws cannot distinguish an ideal hash from a poor one.
    let links = point.links().filter(|_| n >= ENOUGH_DRAWS).map(|links| {
        let measured = format!(
            "{links:.2} over {n} draws, expected {mean:.2}; 95 of 100 such means are within {:.2}, \
                999 of 1000 within {:.2}",
            USUAL * error,
            // The claim is judged at every run and for several figures, so the wider range applies.
            RARE * error
        );
        // Where every draw must use every link, only rounding errors are allowed.
        (measured, (links - mean).abs() <= RARE * error + 1e-9)
    });
    let why = format!("{n} draws have figures, {ENOUGH_DRAWS} are needed");
    let mut shapes = vec![judged("V3.4c", claim, links, &why)];
    let claim = format!(
        "V3.4 (hard): {what}: a draw reaches the rate of its links, or that of the slot (median \
            within 5 %)"
    );
    let share = one_flow(studies.expander, 1).and_then(|port| {
        let shares = point.draws.iter().map(|(links, goodput)| goodput / bound(*links, port));
        median(&shares.collect::<Vec<f64>>())
    });
    let found =
        share.map(|share| (format!("{:.1} % of it", share * 100.0), (share - 1.0).abs() <= NEAR));
    shapes.push(judged("V3.4d", claim, found, "no draw, or not one flow alone, has a figure"));
    shapes
}

fn polarised(studies: &CiscoStudies<'_>) -> Shape {
    let claim = "V3.4 (hard): a hash of addresses only puts every flow of two hosts on one link of \
        four, in every draw";
    let port = one_flow(studies.expander, 1);
    let all = draws(studies.polarised);
    let n: usize = all.iter().map(|point| point.draws.len()).sum();
    let Some(port) = port.filter(|_| n > 0) else {
        return not_judged("V3.4e", claim, "no draw has a figure");
    };
    let more: usize = all.iter().map(|point| wrong_draws(point, port)).sum();
    shape(
        "V3.4e",
        claim,
        format!("{more} of {n} draws used more than one link a fabric"),
        Some(more == 0),
    )
}

/// Returns how many draws of a point used more than one link of `port` bit/s a fabric.
fn wrong_draws(point: &Draws, port: f64) -> usize {
    let fabrics = f64::from(point.fabrics);
    point
        .draws
        .iter()
        .filter(|(links, goodput)| {
            // A draw is wrong if it used another link or carried more than one link can.
            *links != fabrics || *goodput > fabrics * port * (1.0 + NEAR)
        })
        .count()
}

/// Judges the effect of moving the receive work on goodput, against a placebo. On one memory node
/// no sign is expected. Two things are judged: there is a ratio with an interval, and the placebo's
/// interval contains 1.
fn placement(study: &Study) -> Vec<Shape> {
    let what = [
        ("a", "receive queue to CPU 1", "packets taken in by another CPU (RPS)"),
        (
            "b",
            "worker beside its packets or not",
            "the receiving worker on another CPU than its packets",
        ),
    ];
    what.map(|(letter, sweep, what)| moved(study, letter, sweep, what)).into()
}

fn moved(study: &Study, letter: &str, sweep: &str, what: &str) -> Shape {
    let name = format!("V3.6{letter}");
    /// Least CPU of the busiest thread, cores: where a link is the limit, placement does nothing.
    const BUSY: f64 = 0.5;
    let claim = format!(
        "V3.6: {what}, where a CPU is the limit: the effect on goodput has an interval, and a \
            placebo has none"
    );
    let busiest = study
        .points
        .iter()
        .filter(|point| point.sweep == sweep)
        .map(busiest_worker)
        .reduce(f64::min)
        .unwrap_or(0.0);
    if busiest < BUSY {
        let why = format!(
            "the busiest thread used {:.0} % of a CPU: a link is the limit, or others had it",
            busiest * 100.0
        );
        return not_judged(&name, &claim, &why);
    }
    let compared = study.comparisons.iter().find(|comparison| comparison.sweep == sweep);
    let figure = compared.and_then(|comparison| {
        comparison
            .figures
            .iter()
            .find(|figure| figure.metric == metric::GOODPUT && figure.direction == Direction::Tx)
    });
    let Some(figure) = figure else {
        return not_judged(&name, &claim, "no pair has a figure (two CPUs are needed)");
    };
    let (Some((effect, _)), Some((placebo, is_none))) =
        (effect_words(&figure.effect), figure.placebo.as_ref().and_then(effect_words))
    else {
        return not_judged(
            &name,
            &claim,
            &format!("{} pairs are too few for an interval", figure.pairs),
        );
    };
    let measured = format!(
        "{effect}, placebo {placebo}, n = {} pairs, busiest thread {:.0} %",
        figure.effect.n,
        busiest * 100.0
    );
    shape(&name, claim, measured, Some(is_none))
}

/// Returns the effect with its interval, and whether that contains no effect.
fn effect_words(effect: &Effect) -> Option<(String, bool)> {
    let (low, high) = effect.interval?;
    let [shift, from, to] = [effect.shift, low, high].map(|ratio| (ratio - 1.0) * 100.0);
    let words = format!("{shift:+.1} % [{from:+.1}, {to:+.1}]");
    Some((words, (low..=high).contains(&1.0)))
}
