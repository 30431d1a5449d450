//! HP 9000 N4000, FTP over Gigabit Ethernet (Mier Communications, 1999), items S4.1 to S4.7, shapes
//! V4.1 to V4.7 of docs/methodology/papers.md#shapes.
//!
//! Two campaigns are judged: `clients` (a server and six clients on a switch at a tenth of the
//! paper's rates) and `server` (an unshaped link, where data paths, sources and sinks differ).
//! Figures are Mbit/s of L4 payload counted where it is delivered. Not reproduced: the paper's
//! disks; a sink of known rate replaces them, so that the correct answer is known.

use linerate_model::{Direction, Estimate, ObserverKind, TestbedKind, metric};

use super::{
    Comparison, Figure, FigureForm, Reproduction, Shape, coordinate, figure, judged, mbit,
    not_judged, shape, sweep, whole,
};
use linerate_analysis::statistics::{MeanInterval, mean_interval};
use linerate_analysis::{Agreement, IntervalSeries, PointStudy, PortStudy, Study};

/// The paper's downloads to a null device: clients and Mbit/s.
const TO_NOTHING: [(usize, f64); 3] = [(1, 292.0), (2, 440.0), (4, 762.0)];
/// The same to disks.
const TO_DISK: [(usize, f64); 2] = [(1, 63.0), (2, 184.0)];
/// The emulation runs at a tenth of the paper's rates.
const SCALE: f64 = 10.0;
/// Difference that counts as equal (V4.2).
const EQUAL: f64 = 0.05;
/// Change from more clients past the knee that counts as none (V4.1).
const FLAT: f64 = 0.03;
/// Amount by which an average may exceed its best second through rounding.
const ROUNDING: f64 = 0.005;
/// Accuracy required of the layers' arithmetic (V4.4).
const ALGEBRA: f64 = 0.005;
/// Largest fraction of a cached file that may come from the disk: other programs use it too.
const WARM: f64 = 0.01;
/// Least fraction of a cold file that must come from the disk.
const COLD: f64 = 0.9;
/// An Ethernet frame of 1500 bytes with its header, as a bridge's kernel counts it (a switch adds 4
/// of check sequence), and the payload in it: IPv4, TCP, timestamps.
const FRAME: f64 = 1514.0;
const PAYLOAD: f64 = 1448.0;
const DASH: &str = "-";

/// Judges the shapes of the HP paper.
pub fn hp_ftp(clients: &Study, server: &Study) -> Reproduction {
    let curve = curve(clients);
    let mut shapes = scaling(&curve);
    shapes.extend(sinks(clients));
    shapes.push(data_paths(server));
    shapes.push(observer(&curve));
    shapes.push(frames(&curve));
    shapes.push(sources(server));
    shapes.push(planner(&curve));
    shapes.push(papers_plan(TO_NOTHING[2].1, TO_DISK));
    Reproduction {
        place: TestbedKind::Lab,
        campaigns: Vec::new(),
        paper: "HP 9000 N4000 FTP over Gigabit Ethernet, Mier Communications (1999)".into(),
        tables: vec![clients_table(&curve), sinks_table(clients), paths_table(server)],
        figures: vec![clients_figure(&curve)],
        shapes,
    }
}

/// A number of simultaneous clients.
struct Clients<'a> {
    n: usize,
    goodput: Estimate,
    point: &'a PointStudy,
}

/// Returns aggregate goodput by number of clients, fewest first.
fn curve(study: &Study) -> Vec<Clients<'_>> {
    let mut curve: Vec<Clients<'_>> = sweep(study, "clients")
        .filter_map(|point| {
            Some(Clients { n: pairs(point), goodput: figure(point, metric::GOODPUT)?, point })
        })
        .collect();
    curve.sort_by_key(|clients| clients.n);
    curve
}

/// Returns the number of endpoint pairs of a point.
fn pairs(point: &PointStudy) -> usize {
    let pairs = coordinate(&point.parameters, "pairs").unwrap_or_default();
    serde_json::from_str::<Vec<String>>(&pairs).map_or(1, |pairs| pairs.len())
}

/// Goodput that the clients receive.
const GOODPUT_RX: IntervalSeries = IntervalSeries::Directed(metric::GOODPUT, Direction::Rx);

/// Returns the highest second of any trial, all clients added: the series of a trial adds its jobs
/// up.
fn peak(point: &PointStudy) -> Option<f64> {
    const SECOND: f64 = 1.0;
    let mut peak: Option<f64> = None;
    for trial in &point.trials {
        let Some(series) = trial.series.get(&GOODPUT_RX) else { continue };
        let (mut window, mut from) = (Vec::new(), trial.measured_from);
        for (end, value) in trial.seconds.iter().zip(series) {
            // Intervals of the warm-up only move the start of the first window.
            if *end <= trial.measured_from {
                from = *end;
                continue;
            }
            window.push((end - from, value.unwrap_or(0.0)));
            from = *end;
            // Intervals are not exactly a tenth of a second long, so a window of one second may
            // exceed it slightly.
            while window.iter().map(|(width, _)| width).sum::<f64>() > SECOND * 1.01 {
                window.remove(0);
            }
            let width: f64 = window.iter().map(|(width, _)| width).sum();
            // A window cut short by the begin of the series is no whole second.
            if width >= SECOND * 0.99 {
                let mean = window.iter().map(|(width, value)| width * value).sum::<f64>() / width;
                peak = Some(peak.map_or(mean, |peak: f64| peak.max(mean)));
            }
        }
    }
    peak
}

/// Returns the rate of one client and that of the plateau.
fn one_and_all(curve: &[Clients<'_>]) -> Option<(Estimate, Estimate)> {
    let one = curve.iter().find(|clients| clients.n == 1)?.goodput;
    let all =
        curve.iter().map(|clients| clients.goodput).max_by(|a, b| a.value.total_cmp(&b.value))?;
    // A knee needs at least one point before it and one after it.
    (curve.len() > 2 && one.value > 0.0).then_some((one, all))
}

fn scaling(curve: &[Clients<'_>]) -> Vec<Shape> {
    let claim = "V4.1 (hard): the total rises with each client up to a knee at S/c (server rate \
        over client rate) rounded up, plus or minus one client";
    let flat_claim = "V4.1 (hard): each client after the knee changes the total by less than 3 %";
    let peak_claim = "V4.1 (hard): the best second is at least the average";
    let Some((one, all)) = one_and_all(curve) else {
        let why = "fewer than three numbers of clients have a figure";
        return [("V4.1a", claim), ("V4.1b", flat_claim), ("V4.1c", peak_claim)]
            .map(|(id, claim)| not_judged(id, claim, why))
            .to_vec();
    };
    let expected = (all.value / one.value).ceil() as usize;
    let knee = knee(curve, all);
    let told: Vec<String> = curve
        .iter()
        .map(|clients| format!("{}: {}", clients.n, mbit(clients.goodput.value)))
        .collect();
    let measured = format!(
        "{} Mbit/s; S/c = {} / {} = {:.2}; knee at {knee} clients",
        told.join(", "),
        mbit(all.value),
        mbit(one.value),
        all.value / one.value
    );
    let past: Vec<&Clients<'_>> = curve.iter().filter(|clients| clients.n >= knee).collect();
    let changes = past.windows(2).map(|pair| pair[1].goodput.value / pair[0].goodput.value - 1.0);
    let worst = changes.max_by(|a, b| a.abs().total_cmp(&b.abs()));
    let peaks: Vec<(usize, f64, f64)> = curve
        .iter()
        .filter_map(|clients| Some((clients.n, clients.goodput.value, peak(clients.point)?)))
        .collect();
    let told_peaks: Vec<String> = peaks
        .iter()
        .map(|(n, average, peak)| format!("{n}: best {}, average {}", mbit(*peak), mbit(*average)))
        .collect();
    let holds = peaks.iter().all(|(_, average, peak)| *peak >= average * (1.0 - ROUNDING));
    let best = (!peaks.is_empty()).then(|| (told_peaks.join(", "), holds));
    let told_change =
        |worst: f64| format!("largest change by one more client: {:+.2} %", worst * 100.0);
    vec![
        // Give or take one, because the quotient lies between two whole numbers of clients.
        shape("V4.1a", claim, measured, Some(knee.abs_diff(expected) <= 1)),
        judged(
            "V4.1b",
            flat_claim,
            worst.map(|worst| (told_change(worst), worst.abs() < FLAT)),
            "no number of clients past the knee has a figure",
        ),
        judged("V4.1c", peak_claim, best, "no trial has a whole second"),
    ]
}

/// A point of a sink's rate.
struct SinkPoint {
    clients: usize,
    /// Joint rate of the sinks, bit/s.
    rate: f64,
    goodput: Estimate,
    runs: Vec<f64>,
    limited: Option<f64>,
}

fn sink_points(study: &Study) -> Vec<SinkPoint> {
    let of = |clients: usize, name: &'static str| {
        sweep(study, name).filter_map(move |point| sink_point(clients, point))
    };
    of(1, "sinks, 1 client").chain(of(2, "sinks, 2 clients")).collect()
}

fn sink_point(clients: usize, point: &PointStudy) -> Option<SinkPoint> {
    let rate: linerate_model::BitRate = coordinate(&point.parameters, "sink_rate")?.parse().ok()?;
    let goodput = whole(point)?.metric(metric::GOODPUT, Direction::Rx)?;
    let jobs = point.jobs.iter().filter(|job| job.workload != "all");
    let limited = jobs
        .filter_map(|job| Some(job.metric(metric::RWND_LIMITED, Direction::Rx)?.estimate?.value));
    Some(SinkPoint {
        clients,
        rate: rate.0 * clients as f64,
        goodput: goodput.estimate?,
        runs: goodput.values.iter().flatten().copied().collect(),
        // The client that waited least decides whether all of them waited.
        limited: limited.reduce(f64::min),
    })
}

/// Returns the rate of a null sink with this number of clients, and its runs.
fn null_runs(study: &Study, clients: usize) -> Option<(f64, Vec<f64>)> {
    let point = sweep(study, "clients").find(|point| pairs(point) == clients)?;
    let metric = whole(point)?.metric(metric::GOODPUT, Direction::Rx)?;
    Some((metric.estimate?.value, metric.values.iter().flatten().copied().collect()))
}

fn sinks(study: &Study) -> Vec<Shape> {
    let points = sink_points(study);
    let claim = "V4.2 (hard): throughput is the lower of the disk's rate and the rate with a null \
        sink, within 5 %";
    let limited_claim = "V4.2 (hard): with a slower disk, the sender waits for the receiver's \
        window more than half of the time";
    let bounded: Vec<(&SinkPoint, f64)> = points
        .iter()
        // The slower of disk and network sets the rate.
        .filter_map(|point| Some((point, point.rate.min(null_runs(study, point.clients)?.0))))
        .collect();
    let mut shapes = Vec::new();
    if bounded.is_empty() {
        return vec![not_judged("V4.2a", claim, "no sink has a figure"), ratio(study, &points)];
    }
    let told: Vec<String> = bounded
        .iter()
        .map(|(SinkPoint { clients, rate, goodput, .. }, bound)| {
            let [rate, goodput, bound] = [*rate, goodput.value, *bound].map(mbit);
            format!("{clients} client(s), disk {rate}: {goodput}, expected {bound}")
        })
        .collect();
    let holds =
        bounded.iter().all(|(point, bound)| (point.goodput.value / bound - 1.0).abs() <= EQUAL);
    shapes.push(shape("V4.2a", claim, told.join("; "), Some(holds)));
    let slow: Vec<f64> = bounded
        .iter()
        .filter(|(point, _)| {
            null_runs(study, point.clients)
                // Only disks that are clearly slower than the network must make the sender wait.
                .is_some_and(|(null, _)| point.rate < null * (1.0 - EQUAL))
        })
        .filter_map(|(point, _)| point.limited)
        .collect();
    let least = slow.iter().copied().reduce(f64::min).map(|least| {
        (format!("lowest of {} points: {:.0} %", slow.len(), least * 100.0), least > 0.5)
    });
    let why = "the kernel does not report it, or no disk was slower";
    shapes.push(judged("V4.2b", limited_claim, least, why));
    shapes.push(ratio(study, &points));
    shapes
}

/// Judges the ratio of totals with its interval, never a mean of ratios, at the rates of the
/// paper's two disks.
fn ratio(study: &Study, points: &[SinkPoint]) -> Shape {
    let claim = "V4.2: rate with a null sink over rate with a disk, as a ratio of totals, is below \
        the printed \"4:1\" (its totals give 732 / 247 = 2.96)";
    match ratio_of_totals(study, points) {
        Some((value, interval, n)) => {
            let interval = interval.map_or("too few runs for an interval".to_owned(), |interval| {
                format!("95 % interval {:.2} to {:.2}", interval.low.exp(), interval.high.exp())
            });
            shape("V4.2c", claim, format!("{value:.2} ({interval}, {n} runs)"), Some(value < 4.0))
        }
        None => not_judged("V4.2c", claim, "a sink at the paper's rates has no figure"),
    }
}

/// Returns the sink with these clients and this rate, bit/s.
fn sink_at(points: &[SinkPoint], clients: usize, rate: f64) -> Option<&SinkPoint> {
    let mut known = points.iter().filter(|point| point.clients == clients);
    known.find(|point| (point.rate / rate - 1.0).abs() < 1e-6)
}

/// Returns the totals of the null device over those of disks, the interval of the ratio, and the
/// runs behind it.
fn ratio_of_totals(
    study: &Study,
    points: &[SinkPoint],
) -> Option<(f64, Option<MeanInterval>, usize)> {
    // The paper's disks: 6.3 Mbit/s with one client and 9.2 with each of two.
    let (one, two) = (sink_at(points, 1, 6.3e6)?, sink_at(points, 2, 18.4e6)?);
    let (null_one, null_two) = (null_runs(study, 1)?.1, null_runs(study, 2)?.1);
    let runs =
        // Runs may have failed in one of the four points; totals need the same number of runs
        // from each.
        [one.runs.len(), two.runs.len(), null_one.len(), null_two.len()].into_iter().min()?;
    let null: Vec<f64> = (0..runs).map(|run| null_one[run] + null_two[run]).collect();
    let disk: Vec<f64> = (0..runs).map(|run| one.runs[run] + two.runs[run]).collect();
    let of_totals = null.iter().sum::<f64>() / disk.iter().sum::<f64>();
    let logs: Vec<f64> =
        // Intervals of ratios are computed on logarithms, which makes them symmetric.
        null.iter().zip(&disk).map(|(null, disk)| (null / disk).ln()).collect();
    Some((of_totals, mean_interval(&logs), runs))
}

/// Returns one way to send: its name, Mbit/s, and CPU seconds of the sending thread per gigabyte.
fn path(point: &PointStudy) -> Option<(String, Estimate, f64)> {
    let name = coordinate(&point.parameters, "send")?;
    let goodput = whole(point)?.metric(metric::GOODPUT, Direction::Rx)?.estimate?;
    let cpu = whole(point)?.metric(metric::SENDER_CPU, Direction::Rx)?.estimate?;
    const BITS_PER_GIGABYTE: f64 = 8e9;
    Some((name, goodput, cpu.value / goodput.value * BITS_PER_GIGABYTE))
}

fn data_paths(server: &Study) -> Shape {
    let claim = "V4.3: sending without a copy (sendfile) takes the server less CPU time per byte \
        than copying (paper: +100 Mbit/s, 36 % CPU)";
    let paths: Vec<_> = sweep(server, "data path").filter_map(path).collect();
    let told: Vec<String> = paths
        .iter()
        .map(|(name, goodput, cpu)| format!("{name} {} Mbit/s, {cpu:.3} s/GB", mbit(goodput.value)))
        .collect();
    let known = || paths.iter().filter(|(.., cpu)| *cpu > 0.0);
    let cost = |wanted: &str| known().find(|(name, ..)| name == wanted).map(|(.., cpu)| *cpu);
    let found = cost("copy").zip(cost("sendfile"));
    let found = found.map(|(copy, sendfile)| (told.join("; "), sendfile < copy));
    judged("V4.3", claim, found, "one of the two ways has no CPU time")
}

/// Compares the octets that the server's switch port received with the bytes sent, all trials of
/// one client added. This is where the paper polled.
fn observer(curve: &[Clients<'_>]) -> Shape {
    let claim = "V4.4 (hard): the octets that the switch's port received from the server, read by \
        SNMP, are the bytes sent times frame size over payload size, within 0.5 %";
    let port = server_port(curve, Direction::Tx);
    let Some(port) = port else {
        return not_judged("V4.4", claim, "no port of the switch was observed");
    };
    let PortStudy { observer, n, octets, payload, expected, agreement, kind, .. } = port;
    let (ratio, algebra) = (octets / payload, FRAME / PAYLOAD);
    let counted =
        format!("counted {ratio:.4} octets per byte of payload, {algebra:.4} are expected");
    // The paper polled a switch. Without an agent there is only the kernel that linerate runs on.
    let other = match kind {
        Some(ObserverKind::Snmp) => None,
        Some(_) => Some(format!(
            "no SNMP agent counted at the switch (in a lab, install snmpd and snmp); its kernel \
                {counted}"
        )),
        None => Some(format!(
            "the ledger is of an older version, which did not record the kind of observer; \
                {observer} {counted}"
        )),
    };
    if let Some(why) = other {
        return not_judged("V4.4", claim, &why);
    }
    let measured = format!(
        "SNMP agent of {observer}, {n} trial(s): {ratio:.4}; {FRAME:.0} / {PAYLOAD:.0} = \
            {algebra:.4}, difference {:+.2} %; difference to the size of the segments {:+.2} %",
        (ratio / algebra - 1.0) * 100.0,
        (octets / expected - 1.0) * 100.0,
    );
    let fits = (ratio / algebra - 1.0).abs() <= ALGEBRA;
    shape("V4.4", claim, measured, Some(*agreement == Agreement::Agrees && fits))
}

/// Returns the port of the switch that carries the data of one client in `direction`: that towards
/// the server, as the others carry acknowledgements.
fn server_port<'a>(curve: &'a [Clients<'_>], direction: Direction) -> Option<&'a PortStudy> {
    let one = curve.iter().find(|clients| clients.n == 1)?;
    let observed = || one.point.observed.iter().filter(|port| port.n > 0);
    let data = observed()
        .filter(|port| port.direction == Direction::Tx && port.payload > 0.0)
        .max_by(|a, b| a.payload.total_cmp(&b.payload))?;
    observed().find(|port| {
        (&port.observer, &port.port, port.direction) == (&data.observer, &data.port, direction)
    })
}

/// Judges the paper's two observations at the server's port: full frames, and little in return.
fn frames(curve: &[Clients<'_>]) -> Shape {
    /// Least mean size of a frame, bytes without check sequence: full but for the last of a file
    /// and the commands.
    const FULL: f64 = 1450.0;
    /// Largest octets in return. Acknowledgements of 66 B for every second frame are 2.2 %.
    const MINIMAL: f64 = 0.05;
    let claim = "S4.6: the server's frames are full (paper: all of 1518 B), and the other \
        direction carries at most 5 % as many octets (paper: minimal)";
    let data = server_port(curve, Direction::Tx);
    let found = data.zip(server_port(curve, Direction::Rx)).and_then(|(data, back)| {
        let size = data.octets / data.frames.filter(|frames| *frames > 0.0)?;
        let share = back.octets / data.octets;
        let measured =
            format!("mean frame {size:.0} B without check sequence, {:.1} % back", share * 100.0);
        Some((measured, size >= FULL && share <= MINIMAL))
    });
    judged("S4.6", claim, found, "the switch's port counts no frames")
}

fn sources(server: &Study) -> Shape {
    let claim = "V4.5 (hard): the page cache serves a warm file, and the disk serves a cold one";
    let found = read_share(server, "warm").zip(read_share(server, "cold")).map(|(warm, cold)| {
        let measured = format!(
            "the disk read {:.2} % of the warm file's bytes, {:.1} % of the cold one's",
            warm * 100.0,
            cold * 100.0
        );
        (measured, warm <= WARM && cold >= COLD)
    });
    let why = "the kernel counts no sectors of the disk under the file (is it in memory?)";
    judged("V4.5", claim, found, why)
}

/// Returns the share of the file's bytes that its disk read, for a warm or a cold file.
fn read_share(server: &Study, source: &str) -> Option<f64> {
    let point = sweep(server, "source")
        .find(|point| coordinate(&point.parameters, "source").as_deref() == Some(source))?;
    Some(whole(point)?.metric(metric::DEVICE_SHARE, Direction::Rx)?.estimate?.value)
}

/// Returns the first number of clients that is as good as the plateau `all`, within the tolerance.
fn knee(curve: &[Clients<'_>], all: Estimate) -> usize {
    let full = |clients: &&Clients<'_>| clients.goodput.value >= all.value * (1.0 - FLAT);
    curve.iter().find(full).map_or(0, |clients| clients.n)
}

fn planner(curve: &[Clients<'_>]) -> Shape {
    let claim = "V4.7: the number of clients that saturates the server is S/c within its interval, \
        rounded up";
    let Some((one, all)) = one_and_all(curve) else {
        return not_judged("V4.7a", claim, "fewer than three numbers of clients have a figure");
    };
    // The extremes of both intervals bound the quotient.
    let Some((low, high)) = (|| Some((all.low? / one.high?, all.high? / one.low?)))() else {
        return not_judged("V4.7a", claim, "too few runs for an interval");
    };
    let (value, knee) = (all.value / one.value, knee(curve, all));
    let measured =
        format!("{value:.2} clients (interval {low:.2} to {high:.2}); saturated by {knee}");
    // A plateau counts from 3 % below it, so the interval is wider by as much.
    let planned = (low * (1.0 - FLAT)).ceil() as usize..=high.ceil() as usize;
    shape("V4.7a", claim, measured, Some(planned.contains(&knee)))
}

/// Judges the paper's plan by its own figures: the `sustained` rate and the rates `to_disk`, by
/// clients.
pub(super) fn papers_plan(sustained: f64, to_disk: [(usize, f64); 2]) -> Shape {
    let [(_, one), (n, two)] = to_disk;
    // Two clients shared the disk rate of the table.
    let (by_one, by_two) = (sustained / one, sustained / (two / n as f64));
    let claim =
        "V4.7 (hard): the paper's figures give 8 to 12 clients with disks, not \"about 20\"";
    let measured = format!(
        "{sustained} / {one} = {by_one:.1}, {sustained} / {} = {by_two:.1}",
        two / n as f64
    );
    shape("V4.7b", claim, measured, Some(by_one < 13.0 && by_two > 8.0))
}

fn interval_of(estimate: Estimate) -> String {
    match (estimate.low, estimate.high) {
        (Some(low), Some(high)) => format!("{} to {}", mbit(low), mbit(high)),
        _ => "too few runs".to_owned(),
    }
}

fn clients_table(curve: &[Clients<'_>]) -> Comparison {
    Comparison::new(
        "Downloads to a null device, Mbit/s. In brackets: a tenth of the paper's figure, the scale \
            of this testbed. The paper's best second is 812 (81.2), and it has no run with three \
            clients",
        ["clients", "paper", "ours", "95 % interval", "best second"],
        curve.iter().map(clients_row).collect(),
    )
}

fn clients_figure(curve: &[Clients<'_>]) -> Figure {
    const MEGABIT: f64 = 1e6;
    let paper = |n: usize| {
        TO_NOTHING.iter().find(|(clients, _)| *clients == n).map(|(_, rate)| rate / SCALE)
    };
    Figure {
        title: "Downloads to a null device, by clients".into(),
        note: "A tenth of the paper's rates, the scale of this testbed; the paper has no run with \
            three clients. Shapes V4.1a to V4.1c and V4.7a are judged from these points."
            .into(),
        form: FigureForm::Lines,
        axes: ["clients", "Mbit/s"].map(str::to_owned),
        places: curve.iter().map(|clients| clients.n.to_string()).collect(),
        series: vec![
            ("paper / 10".into(), curve.iter().map(|clients| paper(clients.n)).collect()),
            (
                "ours".into(),
                curve.iter().map(|clients| Some(clients.goodput.value / MEGABIT)).collect(),
            ),
        ],
    }
}

fn clients_row(clients: &Clients<'_>) -> Vec<String> {
    let paper = TO_NOTHING.iter().find(|(n, _)| *n == clients.n);
    let printed = |(_, paper): &(usize, f64)| format!("{paper:.0} ({:.1})", paper / SCALE);
    vec![
        clients.n.to_string(),
        paper.map_or(DASH.to_owned(), printed),
        mbit(clients.goodput.value),
        interval_of(clients.goodput),
        peak(clients.point).map_or(DASH.to_owned(), mbit),
    ]
}

fn sinks_table(study: &Study) -> Comparison {
    Comparison::new(
        "Downloads to disks of a known rate, Mbit/s",
        ["clients", "disk rate", "paper", "ours", "null sink", "null over disk", "window-limited"],
        sink_points(study).iter().map(|point| sinks_row(study, point)).collect(),
    )
}

fn sinks_row(study: &Study, point: &SinkPoint) -> Vec<String> {
    let paper = TO_DISK.iter().find(|(n, rate)| {
        *n == point.clients && (rate / SCALE * 1e6 / point.rate - 1.0).abs() < 1e-6
    });
    let null = null_runs(study, point.clients).map(|(null, _)| null);
    vec![
        point.clients.to_string(),
        mbit(point.rate),
        paper.map_or(DASH.to_owned(), |(_, paper)| format!("{paper:.0} ({:.1})", paper / SCALE)),
        mbit(point.goodput.value),
        null.map_or(DASH.to_owned(), mbit),
        null.map_or(DASH.to_owned(), |null| format!("{:.2}", null / point.goodput.value)),
        point.limited.map_or(DASH.to_owned(), |share| format!("{:.0} %", share * 100.0)),
    ]
}

fn paths_table(server: &Study) -> Comparison {
    let mut rows: Vec<Vec<String>> = sweep(server, "data path")
        .filter_map(path)
        .map(|(name, goodput, cpu)| {
            let interval = interval_of(goodput);
            vec![format!("send: {name}"), mbit(goodput.value), interval, format!("{cpu:.3}")]
        })
        .collect();
    for (sweep_name, axis) in [("source", "source"), ("sink", "sink")] {
        rows.extend(sweep(server, sweep_name).filter_map(|point| {
            let goodput = whole(point)?.metric(metric::GOODPUT, Direction::Rx)?.estimate?;
            let interval = interval_of(goodput);
            Some(vec![
                format!("{axis}: {}", coordinate(&point.parameters, axis)?),
                mbit(goodput.value),
                interval,
                DASH.into(),
            ])
        }));
    }
    Comparison::new(
        "Ways to send, sources and sinks, without a shaped link (paper: HP-UX 11's copy avoidance \
            uses 36 % of four CPUs at 760 Mbit/s; the older daemon is about 100 Mbit/s slower)",
        ["variant", "Mbit/s", "95 % interval", "server CPU, s/GB"],
        rows,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_papers_plan_is_judged_by_its_own_figures() {
        let shape = papers_plan(TO_NOTHING[2].1, TO_DISK);
        assert_eq!(shape.measured, "762 / 63 = 12.1, 762 / 92 = 8.3");
        assert_eq!(shape.holds, Some(true));
    }

    #[test]
    fn without_figures_nothing_is_judged_and_nothing_passes() {
        let reproduction = hp_ftp(&Study::default(), &Study::default());
        let judged: Vec<&str> = reproduction
            .shapes
            .iter()
            .filter(|shape| shape.holds.is_some())
            .map(|shape| shape.id.as_str())
            .collect();
        assert_eq!(judged, ["V4.7b"]);
    }

    #[test]
    fn a_port_that_counts_too_much_or_too_little_is_found_out() {
        let judge = |octets: f64, agreement: Agreement, kind| {
            let port = PortStudy {
                observer: "switch.s".into(),
                port: "s0".into(),
                faces: "s".into(),
                kind,
                direction: Direction::Tx,
                n: 3,
                payload: 1448e4,
                expected: 1514e4,
                octets,
                frames: None,
                dropped: None,
                bound: 1e5,
                agreement,
                why: Vec::new(),
            };
            let point = PointStudy { observed: vec![port], ..PointStudy::default() };
            let goodput = linerate_analysis::statistics::estimate(&[28e6]).expect("a run");
            observer(&[Clients { n: 1, goodput, point: &point }])
        };
        let snmp = Some(ObserverKind::Snmp);
        assert_eq!(judge(1515e4, Agreement::Agrees, snmp).holds, Some(true));
        // Headers counted once for super-packets, and foreign traffic.
        assert_eq!(judge(1480e4, Agreement::Agrees, snmp).holds, Some(false));
        assert_eq!(judge(1540e4, Agreement::Background, snmp).holds, Some(false));
        let kernel = Some(ObserverKind::Kernel);
        assert_eq!(
            judge(1515e4, Agreement::Agrees, kernel).holds,
            None,
            "the paper asked a switch"
        );
        let older = judge(1515e4, Agreement::Agrees, None).measured;
        assert!(older.contains("the ledger is of an older version"), "{older}");
        assert_eq!(observer(&[]).holds, None);
    }

    fn scaled(rates: &[f64]) -> Vec<PointStudy> {
        rates.iter().map(|_| PointStudy::default()).collect()
    }

    #[test]
    fn a_knee_is_found_where_clients_stop_adding_and_not_elsewhere() {
        let judge = |rates: &[f64]| {
            let points = scaled(rates);
            let curve: Vec<Clients<'_>> = (1..)
                .zip(rates)
                .zip(&points)
                .map(|((n, rate), point)| {
                    let goodput = linerate_analysis::statistics::estimate(&[*rate]).expect("a run");
                    Clients { n, goodput, point }
                })
                .collect();
            scaling(&curve).into_iter().map(|shape| shape.holds).collect::<Vec<_>>()
        };
        assert_eq!(judge(&[28.0, 56.0, 84.0, 94.0, 94.1, 93.9]), [Some(true), Some(true), None]);
        // It continues to grow slowly beyond the point of saturation.
        assert_eq!(judge(&[60.0, 61.0, 70.0, 80.0, 90.0, 100.0])[0], Some(false));
        assert_eq!(judge(&[28.0, 56.0, 84.0, 94.0, 85.0, 93.9])[1], Some(false));
    }
}
