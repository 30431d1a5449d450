//! Sun, NetFrame (2001), items S2.1 to S2.9, shapes V2.1 to V2.6 and V2.9 of
//! docs/methodology/papers.md#shapes.
//!
//! Four campaigns are judged: `link` (one delayed gigabit link at a tenth of its rate), `slower`
//! (the same at seven tenths of that), `buses` (eight interfaces under a bus tree at a tenth of the
//! paper's rates) and `host` (an unshaped link, where the CPUs are the limit).

use linerate_model::{BoundClass, Bytes, Direction, Estimate, Metric, Validity, metric};

use super::{
    Comparison, Reproduction, Shape, coordinate, figure, judged, mbit, not_judged, one_way, shape,
    sweep, whole,
};
use linerate_analysis::{PointStudy, Study};

/// Paper, table 2: maxima in Mbit/s and packets per second, as printed.
const TABLE_2: [(&str, f64, f64); 5] = [
    ("single connection", 936.0, 103e3),
    ("single CPU", 590.0, 76e3),
    ("single NIC", 936.0, 124e3),
    ("single host bridge", 1687.0, 220e3),
    ("single I/O assembly", 2733.0, 334e3),
];
/// Paper, table 1: message size, instructions per packet, packets per interrupt.
const TABLE_1: [(&str, u32, f64); 4] = [
    ("1460 B", 4633, 10.99),
    ("24536 B", 4922, 8.23),
    ("65496 B", 5158, 7.52),
    ("1048536 B", 5621, 7.49),
];
/// The emulation runs at a tenth of the paper's rates.
const SCALE: f64 = 10.0;
/// Difference of two medians of few runs that counts as equal.
const NOISE: f64 = 0.05;
/// Gain below which more CPUs or larger messages are not worthwhile, per doubling.
const KNEE_GAIN: f64 = 0.05;

/// Judges the shapes of the Sun paper.
#[must_use]
pub fn sun_netframe(link: &Study, slower: &Study, buses: &Study, host: &Study) -> Reproduction {
    let mut shapes = buffers(link);
    shapes.extend(messages(host));
    shapes.push(connections(link));
    shapes.push(fairness(link));
    shapes.push(cpus(host));
    shapes.extend(placement(buses));
    shapes.extend(platforms(link, slower));
    shapes.extend(cost(host));
    shapes.push(row_keys([link, slower, buses, host]));
    Reproduction {
        paper: "Sun Fire gigabit performance characterization with NetFrame (2001)".into(),
        tables: vec![table_1(host), table_2(link, buses, host)],
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
    let knee = points.windows(2).find(|pair| {
        let doublings = (pair[1].0.0 as f64 / pair[0].0.0 as f64).log2();
        (pair[1].1 / pair[0].1).powf(doublings.recip()) - 1.0 < KNEE_GAIN
    });
    let at =
        knee.map_or_else(|| "beyond the largest size".to_owned(), |pair| pair[0].0.to_string());
    shapes.push(shape(
        "V2.1f",
        "the knee, where doubling the message gains less than 5 % (paper: 8 KiB)",
        at,
        None,
    ));
    shapes
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
    let many: Vec<(u64, f64)> = by_count(host, "cpus", "cpus")
        .into_iter()
        .filter(|(_, point)| is_many(point))
        .filter_map(|(n, point)| Some((n, figure(point, metric::GOODPUT)?.value)))
        .collect();
    let [first, .., last] = &many[..] else {
        return not_judged("V2.3", claim, "this host offers fewer than two CPU counts");
    };
    let curve =
        many.iter().map(|(n, v)| format!("{n}: {}", mbit(*v))).collect::<Vec<_>>().join(", ");
    let enough = many
        .windows(2)
        .find(|pair| pair[1].1 / pair[0].1 - 1.0 < KNEE_GAIN)
        .map_or(last.0, |pair| pair[0].0);
    let measured =
        format!("20 connections, Mbit/s by CPUs: {curve}; {enough} are enough (paper: 4 of 8)");
    shape("V2.3", claim, measured, Some(last.1 >= first.1 * (1.0 - NOISE)))
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

/// Compares the faster with the slower platform, and the faster with itself.
fn platforms(link: &Study, slower: &Study) -> Vec<Shape> {
    const SWEEP: &str = "platform";
    fn of(study: &Study) -> Option<(Estimate, Vec<f64>)> {
        sweep(study, SWEEP)
            .next()
            .and_then(|point| Some((one_way(point, metric::GOODPUT)?, values(point))))
    }
    let claim = "V2.5: a platform configured 30 % slower is 30 % slower (0.70 within 5 %)";
    let (Some((fast, fast_runs)), Some((slow, _))) = (of(link), of(slower)) else {
        return vec![not_judged("V2.5a", claim, "a platform has no valid figure")];
    };
    let ratio = slow.value / fast.value;
    let mut shapes = vec![shape(
        "V2.5a",
        claim,
        format!("{ratio:.3}"),
        Some((ratio / 0.7 - 1.0).abs() <= NOISE),
    )];
    let claim = "V2.5: the same platform compared with itself does not differ (odd against even \
        runs, within 2 %)";
    let halves = median_of_half(&fast_runs, 0).zip(median_of_half(&fast_runs, 1));
    let found =
        halves.map(|(even, odd)| (format!("{:.4}", odd / even), (odd / even - 1.0).abs() <= 0.02));
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

fn cost(host: &Study) -> Vec<Shape> {
    const SWEEP: &str = "cost per packet";
    let points = by_size(host, SWEEP, "message_size");
    let claim = "V2.6: the cost of a packet is reported for every message size";
    let costs: Vec<String> = points
        .iter()
        .filter_map(|(size, _, p)| {
            Some(format!("{size}: {:.0} ns", figure(p, metric::CPU_NS_PER_PACKET)?.value))
        })
        .collect();
    let mut shapes = vec![shape(
        "V2.6a",
        claim,
        costs.join(", "),
        Some(!points.is_empty() && costs.len() == points.len()),
    )];
    let claim = "V2.6: without a hardware counter unit, instructions per packet are unavailable, \
        never zero";
    let instructions: Vec<f64> = points
        .iter()
        .filter_map(|(_, _, p)| Some(figure(p, metric::INSTRUCTIONS_PER_PACKET)?.value))
        .collect();
    let measured = if instructions.is_empty() {
        "unavailable here".to_owned()
    } else {
        format!("{instructions:.0?}")
    };
    shapes.push(shape(
        "V2.6b",
        claim,
        measured,
        Some(instructions.iter().all(|value| *value > 0.0)),
    ));
    shapes
}

/// Judges that the same plan has the same rows: every point's key is unique, so two runs can be
/// compared row by row.
fn row_keys(studies: [&Study; 4]) -> Shape {
    let claim = "V2.9: every row has a unique key, the same in every run of the plan";
    let mut n_rows = 0;
    let unique = studies.iter().all(|study| {
        let mut keys: Vec<String> =
            study.points.iter().map(|p| format!("{} {:?}", p.sweep, p.parameters)).collect();
        n_rows += keys.len();
        keys.sort();
        keys.windows(2).all(|pair| pair[0] != pair[1])
    });
    shape(
        "V2.9",
        claim,
        format!("{n_rows} rows in {} campaigns", studies.len()),
        Some(unique && n_rows > 0),
    )
}

fn table_1(host: &Study) -> Comparison {
    let ours = by_size(host, "cost per packet", "message_size");
    let rows = TABLE_1.iter().map(|(size, instructions, per_interrupt)| {
        let point = ours
            .iter()
            .find(|(own, ..)| own.to_string() == *size || size.parse() == Ok(*own))
            .map(|(.., p)| *p);
        vec![
            (*size).to_owned(),
            instructions.to_string(),
            decimal_cell(point, metric::INSTRUCTIONS_PER_PACKET, 0),
            decimal_cell(point, metric::CPU_NS_PER_PACKET, 0),
            decimal_cell(point, metric::CPU_SECONDS_PER_GIGABYTE, 2),
            format!("{per_interrupt:.2}"),
            decimal_cell(point, metric::PACKETS_PER_INTERRUPT, 2),
        ]
    });
    Comparison::new(
        "Table 1: cost per packet, 10 connections each way, 64 KiB buffers",
        [
            "message",
            "instructions/packet (paper)",
            "instructions/packet",
            "CPU ns/packet",
            "CPU s/GB",
            "packets/interrupt (paper)",
            "packets/interrupt",
        ],
        rows.collect(),
    )
}

fn decimal_cell(point: Option<&PointStudy>, metric: &'static Metric, decimals: usize) -> String {
    let estimate = point.and_then(|point| figure(point, metric));
    let shown = |estimate: Estimate| format!("{:.decimals$}", estimate.value);
    estimate.map_or_else(|| "unavailable".to_owned(), shown)
}

fn table_2(link: &Study, buses: &Study, host: &Study) -> Comparison {
    let best = |points: Vec<&PointStudy>| {
        (largest(&points, metric::GOODPUT), largest(&points, metric::PACKET_RATE))
    };
    let count = |point: &PointStudy, axis: &str, value: &str| {
        coordinate(&point.parameters, axis).as_deref() == Some(value)
    };
    let ours = [
        ("link", best(sweep(link, "connections").filter(|p| count(p, "streams", "1")).collect())),
        ("host", best(sweep(host, "cpus").filter(|p| count(p, "cpus", "1")).collect())),
        ("link", best(sweep(link, "connections").collect())),
        ("buses", best(placed(buses, "a1+a2+a3+a4"))),
        ("buses", best(placed(buses, "a1+a2+a3+a4+a5+a6+a7+a8"))),
    ];
    let rows = TABLE_2.iter().zip(ours).map(
        |((what, goodput, packets), (testbed, (our_goodput, our_packets)))| {
            let scaled = if testbed == "host" {
                "not comparable".to_owned()
            } else {
                format!("{:.1}", goodput / SCALE)
            };
            let packet_rate =
                our_packets.map_or_else(|| "-".to_owned(), |e| format!("{:.0}", e.value));
            vec![
                (*what).to_owned(),
                format!("{goodput:.0}"),
                scaled,
                our_goodput.map_or_else(|| "-".to_owned(), |e| mbit(e.value)),
                format!("{packets:.0}"),
                packet_rate,
                testbed.to_owned(),
            ]
        },
    );
    Comparison::new(
        "Table 2: maxima. The paper does not state whether its figures are of one direction or of \
            both. Ours add both directions where both were run",
        [
            "",
            "Mbit/s (paper)",
            "a tenth of it",
            "Mbit/s",
            "packets/s (paper)",
            "packets/s",
            "testbed",
        ],
        rows.collect(),
    )
}

/// Returns the largest figure of `metric` among `points`.
fn largest(points: &[&PointStudy], metric: &'static Metric) -> Option<Estimate> {
    let figures = points.iter().filter_map(|point| figure(point, metric));
    figures.max_by(|a, b| a.value.total_cmp(&b.value))
}

fn placed<'a>(buses: &'a Study, name: &str) -> Vec<&'a PointStudy> {
    sweep(buses, "placement")
        .filter(|p| coordinate(&p.parameters, "pairs").is_some_and(|v| label(&v) == name))
        .collect()
}
