//! Sun, NetFrame (2001), items S2.1 to S2.9, shapes V2.1 to V2.6 and V2.9 of
//! docs/methodology/papers.md#shapes.
//!
//! Five campaigns are judged: `link` (one delayed gigabit link at a tenth of its rate), `faster`
//! and `slower` (one plan on hosts with all of a CPU and with seven tenths of it), `buses` (eight
//! interfaces under a bus tree at a tenth of the paper's rates) and `host` (an unshaped link, where
//! the CPUs are the limit).

mod tables;

use linerate_model::{BoundClass, Bytes, Direction, Metric, TestbedKind, Validity, metric};

use super::{
    Reproduction, Shape, coordinate, figure, judged, mbit, not_judged, one_way, shape, sweep, whole,
};
use linerate_analysis::{PointStudy, Study};

/// Difference of two medians of few runs that counts as equal.
const NOISE: f64 = 0.05;
/// Gain below which more CPUs or larger messages are not worthwhile, per doubling.
const KNEE_GAIN: f64 = 0.05;

/// Campaigns of the reproduction.
#[derive(Clone, Copy, Debug)]
pub struct SunStudies<'a> {
    /// `sun-link`.
    pub link: &'a Study,
    /// `sun-platform` on hosts with a whole CPU.
    pub faster: &'a Study,
    /// The same on hosts with seven tenths of it.
    pub slower: &'a Study,
    /// `sun-buses`.
    pub buses: &'a Study,
    /// `sun-host`.
    pub host: &'a Study,
}

/// Judges the shapes of the Sun paper.
pub fn sun_netframe(studies: &SunStudies<'_>) -> Reproduction {
    let SunStudies { link, faster, slower, buses, host } = *studies;
    let mut shapes = buffers(link);
    shapes.extend(messages(host));
    shapes.push(connections(link));
    shapes.push(fairness(link));
    shapes.push(cpus(host));
    shapes.extend(placement(buses));
    shapes.extend(platforms(faster, slower));
    shapes.extend(cost(host));
    shapes.push(row_keys(faster, slower));
    Reproduction {
        place: TestbedKind::Lab,
        campaigns: Vec::new(),
        paper: "Sun Fire gigabit performance characterization with NetFrame (2001)".into(),
        tables: vec![tables::table_1(host), tables::table_2(link, buses, host)],
        figures: vec![tables::buses_figure(buses)],
        shapes,
    }
}

/// Returns the value of `metric` in sweep `name` where `axis` is `value`.
fn at(study: &Study, name: &str, axis: &str, value: &str, metric: &'static Metric) -> Option<f64> {
    let point = sweep(study, name)
        .find(|point| coordinate(&point.parameters, axis).as_deref() == Some(value))?;
    one_way(point, metric).map(|estimate| estimate.value)
}

fn buffers(link: &Study) -> Vec<Shape> {
    const SWEEP: &str = "buffers";
    let goodput = |buffer: &str| at(link, SWEEP, "socket_buffer", buffer, metric::GOODPUT);
    let claim = "V2.1: throughput is ordered 24 KiB < 64 KiB <= 1 MiB of socket buffer";
    let (Some(small), Some(middle), Some(large)) =
        (goodput("24 KiB"), goodput("64 KiB"), goodput("1 MiB"))
    else {
        return vec![not_judged("V2.1a", claim, "a buffer size has no valid figure")];
    };
    let figures = format!("{}, {}, {} Mbit/s", mbit(small), mbit(middle), mbit(large));
    let mut shapes = vec![shape(
        "V2.1a",
        claim,
        figures,
        Some(small < middle && middle <= large * (1.0 + NOISE)),
    )];
    // Below the bandwidth-delay product, throughput is window over round-trip time. The windows are
    // those the kernel advertised, not the buffers requested: the study derives an expectation from
    // them for every point.
    let claim = "V2.1: throughput(24 KiB) / throughput(64 KiB) is the ratio of the advertised \
        windows, within 15 %";
    let ceiling = sweep(link, SWEEP).find_map(|point| {
        let metric = whole(point)?.metric(metric::GOODPUT, Direction::Tx)?;
        Some(point.ceilings.get(metric.ceiling?)?.value)
    });
    shapes.push(
        match (window_rate(link, SWEEP, "24 KiB"), window_rate(link, SWEEP, "64 KiB"), ceiling) {
            (Some(narrow), Some(wide), Some(ceiling)) if wide < ceiling => {
                let (ratio, expected) = (small / middle, narrow / wide);
                let measured = format!("{ratio:.3}; the windows' ratio is {expected:.3}");
                shape("V2.1b", claim, measured, Some((ratio / expected - 1.0).abs() <= 0.15))
            }
            (Some(_), Some(_), _) => not_judged(
                "V2.1b",
                claim,
                "the window of 64 KiB is not below the bandwidth-delay product",
            ),
            _ => not_judged("V2.1b", claim, "the kernel does not report the advertised window"),
        },
    );
    let gain = large / middle - 1.0;
    let claim =
        "V2.1: 1 MiB gains at most what the ceiling leaves above 64 KiB (paper: up to 25 %)";
    let found = ceiling.map(|ceiling| {
        let room = ceiling / middle - 1.0;
        let measured = format!("+{:.1} %, ceiling leaves +{:.1} %", gain * 100.0, room * 100.0);
        (measured, gain <= room + NOISE)
    });
    shapes.push(judged("V2.1c", claim, found, "no ceiling is known"));
    shapes
}

/// Returns the rate that the advertised window permits at a buffer size, bit/s.
fn window_rate(link: &Study, name: &str, buffer: &str) -> Option<f64> {
    let point = sweep(link, name)
        .find(|p| coordinate(&p.parameters, "socket_buffer").as_deref() == Some(buffer))?;
    point.ceilings.iter().find(|c| c.class() == BoundClass::Window && !c.is_hard()).map(|c| c.value)
}

/// Returns the points of a sweep ordered by a size axis, with one-way goodput.
fn by_size<'a>(study: &'a Study, name: &'a str, axis: &str) -> Vec<(Bytes, f64, &'a PointStudy)> {
    let mut points: Vec<(Bytes, f64, &PointStudy)> = sweep(study, name)
        .filter_map(|point| {
            let size = coordinate(&point.parameters, axis)?.parse().ok()?;
            Some((size, one_way(point, metric::GOODPUT)?.value, point))
        })
        .collect();
    points.sort_by_key(|(size, ..)| *size);
    points
}

fn messages(host: &Study) -> Vec<Shape> {
    let points = by_size(host, "messages", "message_size");
    let claim = "V2.1: throughput does not fall with message size";
    if points.len() < 3 {
        return vec![not_judged(
            "V2.1d",
            claim,
            "fewer than three message sizes have a valid figure",
        )];
    }
    let curve = points
        .iter()
        .map(|(size, goodput, _)| format!("{size} {}", mbit(*goodput)))
        .collect::<Vec<_>>()
        .join(", ");
    // The CPUs are the limit here: the noise of unpinned threads on few cores is several times that
    // of a shaped link.
    let falls =
        points.windows(2).filter(|pair| pair[1].1 < pair[0].1 * (1.0 - 4.0 * NOISE)).count();
    let mut shapes = vec![shape("V2.1d", claim, format!("{curve} Mbit/s"), Some(falls == 0))];
    let small: Vec<_> = points.iter().filter(|(size, ..)| size.0 <= 1024).collect();
    let claim = "V2.1: up to 1 KiB the cost of a message is the limit: log-log slope 0.85 to 1.05";
    if let [first, .., last] = &small[..] {
        let slope = (last.1 / first.1).ln() / (last.0.0 as f64 / first.0.0 as f64).ln();
        shapes.push(shape(
            "V2.1e",
            claim,
            format!("{slope:.2} from {} to {}", first.0, last.0),
            Some((0.85..=1.05).contains(&slope)),
        ));
    }
    shapes.push(small_messages(&points));
    shapes
}

/// Judges the paper's advice not to send small messages.
fn small_messages(points: &[(Bytes, f64, &PointStudy)]) -> Shape {
    /// The paper's rate of messages of at most 2 KiB, over that of the largest: 500 of 936 Mbit/s.
    const PAPER: f64 = 500.0 / 936.0;
    let claim = "V2.1: messages of at most 2 KiB carry at most 53 % of the largest rate (paper: \
        less than 500 of 936 Mbit/s)";
    let up_to = |most: u64| points.iter().filter(move |(size, ..)| size.0 <= most);
    let best = |most| up_to(most).map(|(_, rate, _)| *rate).reduce(f64::max);
    let found = best(2048).zip(best(u64::MAX)).map(|(small, all)| {
        let knee = points.windows(2).find(|pair| {
            let doublings = (pair[1].0.0 as f64 / pair[0].0.0 as f64).log2();
            (pair[1].1 / pair[0].1).powf(doublings.recip()) - 1.0 < KNEE_GAIN
        });
        let knee = knee.map_or_else(|| "beyond the largest".to_owned(), |p| p[0].0.to_string());
        let measured = format!(
            "{:.0} %; doubling the message gains less than 5 % from {knee} on (paper: 8 KiB)",
            small / all * 100.0
        );
        (measured, small / all <= PAPER)
    });
    judged("V2.1f", claim, found, "no message of at most 2 KiB has a figure")
}

/// Returns the points of a sweep ordered by a count axis.
fn by_count<'a>(study: &'a Study, name: &'a str, axis: &str) -> Vec<(u64, &'a PointStudy)> {
    let count = |point: &PointStudy| coordinate(&point.parameters, axis)?.parse().ok();
    let mut points: Vec<(u64, &PointStudy)> =
        sweep(study, name).filter_map(|p| Some((count(p)?, p))).collect();
    points.sort_by_key(|(count, _)| *count);
    points
}

fn connections(link: &Study) -> Shape {
    let claim = "V2.2: the total of all connections does not fall before the plateau";
    let points = by_count(link, "connections", "streams");
    let sums: Vec<(u64, f64)> =
        points.iter().filter_map(|(n, p)| Some((*n, figure(p, metric::GOODPUT)?.value))).collect();
    if sums.len() < 3 {
        return not_judged(
            "V2.2a",
            claim,
            "fewer than three connection counts have a valid figure",
        );
    }
    let curve =
        sums.iter().map(|(n, sum)| format!("{n}: {}", mbit(*sum))).collect::<Vec<_>>().join(", ");
    let falls = sums.windows(2).any(|pair| pair[1].1 < pair[0].1 * (1.0 - NOISE));
    shape("V2.2a", claim, format!("{curve} Mbit/s, both directions"), Some(!falls))
}

fn fairness(link: &Study) -> Shape {
    let claim = "V2.2: the connections share fairly (Jain's index at least 0.8)";
    let worst = by_count(link, "connections", "streams")
        .into_iter()
        .filter(|(n, _)| *n > 1)
        .filter_map(|(n, point)| Some((n, figure(point, metric::FAIRNESS)?.value)))
        .min_by(|a, b| a.1.total_cmp(&b.1));
    let found = worst.map(|(n, jain)| (format!("worst {jain:.3} at {n} connections"), jain >= 0.8));
    judged("V2.2b", claim, found, "no fairness was computed")
}

fn cpus(host: &Study) -> Shape {
    let claim = "V2.3: throughput does not fall as CPUs are added";
    let is_many =
        |point: &PointStudy| coordinate(&point.parameters, "streams").as_deref() == Some("20");
    let many: Vec<(u64, f64, &PointStudy)> = by_count(host, "cpus", "cpus")
        .into_iter()
        .filter(|(_, point)| is_many(point))
        .filter_map(|(n, point)| Some((n, figure(point, metric::GOODPUT)?.value, point)))
        .collect();
    let [first, .., last] = &many[..] else {
        return not_judged("V2.3", claim, "this host offers fewer than two CPU counts");
    };
    let curve = listed(many.iter().map(|(n, rate, _)| format!("{n}: {}", mbit(*rate))));
    let enough = many
        .windows(2)
        .find(|pair| pair[1].1 / pair[0].1 - 1.0 < KNEE_GAIN)
        .map_or(last.0, |pair| pair[0].0);
    let costs = listed(many.iter().map(|(n, _, point)| {
        let of = |metric| figure(point, metric).map(|estimate| estimate.value);
        let cost = of(metric::CPU_SECONDS_PER_GIGABYTE);
        let waited = of(metric::RUN_QUEUE_WAIT);
        let cost = cost.map_or("-".to_owned(), |cost| format!("{cost:.2} s/GB"));
        let waited = waited.map_or(String::new(), |w| format!(" (waited {:.0} %)", w * 100.0));
        format!("{n}: {cost}{waited}")
    }));
    // Both ends share these CPUs. With one, data stay in its caches; with two they cross to the
    // other's, so a byte costs more, and the paper's hosts had CPUs of their own.
    let measured = format!(
        "20 connections, Mbit/s by CPUs: {curve}; {enough} are enough (paper: 4 of 8). CPU time \
            by CPUs, which both ends share: {costs}"
    );
    shape("V2.3", claim, measured, Some(last.1 >= first.1 * (1.0 - NOISE)))
}

fn listed(items: impl Iterator<Item = String>) -> String {
    items.collect::<Vec<String>>().join(", ")
}

/// Judges placement on buses: every figure is the bound of its tree, and the ratios of the paper
/// follow.
fn placement(buses: &Study) -> Vec<Shape> {
    let mut shapes = Vec::new();
    let mut figures: Vec<(String, f64)> = Vec::new();
    for point in sweep(buses, "placement") {
        let Some(pairs) = coordinate(&point.parameters, "pairs") else { continue };
        let claim = format!(
            "V2.4: interfaces {} reach the bound of their buses, within 5 %",
            label(&pairs)
        );
        let bound = whole(point).and_then(|job| {
            let metric = job.metric(metric::GOODPUT, Direction::Tx)?;
            Some((metric.estimate?, &point.ceilings[metric.ceiling?]))
        });
        let found = bound.map(|(estimate, ceiling)| {
            let share = estimate.value / ceiling.value;
            let measured = format!(
                "{} of {} Mbit/s ({:.1} %), bound by {}",
                mbit(estimate.value),
                mbit(ceiling.value),
                share * 100.0,
                ceiling.name()
            );
            figures.push((label(&pairs), estimate.value));
            (measured, share >= 1.0 - NOISE && point.validity != Validity::Impossible)
        });
        shapes.push(judged("V2.4", claim, found, "no valid figure or no bound"));
    }
    let of = |name: &str| figures.iter().find(|(pairs, _)| pairs == name).map(|(_, value)| *value);
    let ratios = [
        ("66 MHz slot over 33 MHz slot", "a4", "a1", 936.0 / 544.0, "1.72"),
        (
            "two buses over one",
            "a1+a4",
            "a1+a2",
            (936.0 + 544.0) / 884.0,
            "1.55; its own capacities give 1.67",
        ),
        ("second host bridge", "a1+a2+a3+a4+a5+a6+a7+a8", "a1+a2+a3+a4", 2733.0 / 1687.0, "1.62"),
    ];
    for (what, over, under, expected, paper) in ratios {
        let claim = format!("V2.4: {what}: ratio {expected:.2} within 5 % (paper: {paper})");
        let ratio = of(over).zip(of(under)).map(|(a, b)| a / b);
        let found =
            ratio.map(|ratio| (format!("{ratio:.2}"), (ratio / expected - 1.0).abs() <= NOISE));
        shapes.push(judged("V2.4", claim, found, "one of the two has no valid figure"));
    }
    shapes
}

/// Returns `["a1 b1","a2 b2"]` as `a1+a2`.
fn label(pairs: &str) -> String {
    let names: Vec<String> = serde_json::from_str(pairs).unwrap_or_default();
    names.iter().filter_map(|pair| pair.split_whitespace().next()).collect::<Vec<_>>().join("+")
}

/// Compares the faster with the slower platform over message sizes, and the faster with itself.
/// Nothing but the hosts' CPU time differs, so that the CPU is what the paper concludes to be the
/// limit.
fn platforms(faster: &Study, slower: &Study) -> Vec<Shape> {
    const SWEEP: &str = "platform";
    /// CPU time of the slower platform over that of the faster.
    const SHARE: f64 = 0.7;
    /// Distance from it: throughput is not exactly in proportion to CPU time.
    const CLOSE: f64 = 0.15;
    /// Size from which the paper's platforms differ.
    const LARGE: Bytes = Bytes(8 << 10);
    let claim = "V2.5: in messages of 8 KiB and more, a platform with 70 % of the CPU time is 30 % \
        slower (ratio 0.70 within 15 %; paper: 30 % slower above 8 KiB)";
    let (fast, slow) =
        (by_size(faster, SWEEP, "message_size"), by_size(slower, SWEEP, "message_size"));
    let ratios: Vec<(Bytes, f64)> = fast
        .iter()
        .filter(|(size, ..)| *size >= LARGE)
        .filter_map(|(size, rate, _)| {
            let (_, other, _) = slow.iter().find(|(other, ..)| other == size)?;
            Some((*size, other / rate))
        })
        .collect();
    let found = (!ratios.is_empty()).then(|| {
        let measured = listed(ratios.iter().map(|(size, ratio)| format!("{size}: {ratio:.2}")));
        (measured, ratios.iter().all(|(_, ratio)| (ratio / SHARE - 1.0).abs() <= CLOSE))
    });
    let mut shapes = vec![judged("V2.5a", claim, found, "a platform has no figure")];
    let claim = "V2.5: the same platform compared with itself does not differ (odd against even \
        runs of the largest messages, within 5 %)";
    let runs = fast.last().map(|(.., point)| values(point)).unwrap_or_default();
    let halves = median_of_half(&runs, 0).zip(median_of_half(&runs, 1));
    let found =
        halves.map(|(even, odd)| (format!("{:.4}", odd / even), (odd / even - 1.0).abs() <= NOISE));
    shapes.push(judged("V2.5b", claim, found, "fewer than two runs"));
    shapes
}

/// Returns the median of the even (`parity` 0) or odd runs.
fn median_of_half(runs: &[f64], parity: usize) -> Option<f64> {
    let mut half: Vec<f64> = runs.iter().copied().skip(parity).step_by(2).collect();
    half.sort_by(f64::total_cmp);
    half.get(half.len() / 2).copied()
}

fn values(point: &PointStudy) -> Vec<f64> {
    let metric = whole(point).and_then(|job| job.metric(metric::GOODPUT, Direction::Tx));
    metric
        .map(|metric| metric.values.iter().filter_map(|value| *value).collect())
        .unwrap_or_default()
}

/// Sweep in which the cost of a packet is measured.
const COST: &str = "cost per packet";

fn cost(host: &Study) -> Vec<Shape> {
    let points = by_size(host, COST, "message_size");
    let claim = "V2.6: the cost of a packet is known and not zero for every message size";
    let costs: Vec<(Bytes, f64)> = points
        .iter()
        .filter_map(|(size, _, p)| Some((*size, figure(p, metric::CPU_NS_PER_PACKET)?.value)))
        .collect();
    let told = listed(costs.iter().map(|(size, cost)| format!("{size}: {cost:.0} ns")));
    let all = costs.len() == points.len() && costs.iter().all(|(_, cost)| *cost > 0.0);
    let found = (!points.is_empty()).then_some((told, all));
    let mut shapes = vec![judged("V2.6a", claim, found, "no message size has a figure")];
    let claim = "V2.6: instructions per packet differ by at most 21 % between message sizes \
        (paper: 4633 to 5621)";
    /// The paper's largest figure over its smallest.
    const SPREAD: f64 = 5621.0 / 4633.0;
    let instructions: Vec<f64> = points
        .iter()
        .filter_map(|(_, _, p)| Some(figure(p, metric::INSTRUCTIONS_PER_PACKET)?.value))
        .collect();
    let ends = [f64::min, f64::max].map(|of| instructions.iter().copied().reduce(of));
    let found = ends[0].zip(ends[1]).map(|(least, most)| {
        (format!("{least:.0} to {most:.0}"), least > 0.0 && most / least <= SPREAD)
    });
    shapes.push(judged("V2.6b", claim, found, NO_COUNTERS));
    shapes
}

/// Reason for missing counts of instructions and cache misses.
const NO_COUNTERS: &str =
    "this machine has no hardware counters (virtual machines often have none)";

/// Judges that the same plan has the same rows whenever it is run: the campaigns of the two
/// platforms are two runs of one plan.
fn row_keys(faster: &Study, slower: &Study) -> Shape {
    let claim = "V2.9: a plan that is run twice has the same rows, each once";
    fn keys(study: &Study) -> Vec<String> {
        let mut keys: Vec<String> =
            study.points.iter().map(|p| format!("{} {:?}", p.sweep, p.parameters)).collect();
        keys.sort();
        keys
    }
    let [first, second] = [faster, slower].map(keys);
    let found = (!first.is_empty()).then(|| {
        let unique = first.windows(2).all(|pair| pair[0] != pair[1]);
        let measured = format!("{} and {} rows", first.len(), second.len());
        (measured, unique && first == second)
    });
    judged("V2.9", claim, found, "it was not run")
}
