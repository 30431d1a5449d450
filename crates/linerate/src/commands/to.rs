//! `linerate to HOST`: the path to a host, now.

use std::path::PathBuf;

use linerate_analysis::statistics::Percentile;
use linerate_analysis::{JobStudy, Study, study};
use linerate_control::Progress;
use linerate_model::plan::parse;
use linerate_model::{BitRate, Campaign, Counter, Direction, Interval, Nanos, Side, Unit, Verdict};
use linerate_report::study_json;

use crate::campaign::{self, Request};
use crate::catalog::Found;
use crate::cli::{Global, ToArgs, ToMode};
use crate::exit::{Exit, Failure, Outcome};
use crate::{show, testbeds};

/// Measures, with a line a second, and prints one line of result.
pub(crate) fn run(args: &ToArgs, global: Global) -> Outcome {
    let ground = match args.host.as_str() {
        "loopback" => testbeds::loopback(args.ipv6),
        host => testbeds::to_host(host, args.bind, args.ipv6)?,
    };
    let found = Found { origin: "to".into(), text: plan_text(args)? };
    let (Some(plan), problems) = parse(&found.text) else {
        return Err(crate::problems::failure("to", &found.text, &[]));
    };
    if !problems.is_empty() {
        return Err(crate::problems::failure("to", &found.text, &problems));
    }
    let scratch =
        tempfile::tempdir().map_err(|error| Failure::missing(format!("make a folder for the ledger: {error}")))?;
    let ledger = args.ledger.clone().unwrap_or_else(|| PathBuf::from(scratch.path()).join("to.ledger"));
    let request = Request { found: &found, plan: &plan, ground: &ground, ledger: &ledger, resume: false };
    let mut lines = Lines::new(Nanos::from_secs_f64(args.interval), Nanos::from_secs_f64(args.omit));
    let show = !global.quiet && !global.json;
    let (campaign, summary) = campaign::conduct(&request, &mut |event| match event {
        Progress::Intervals { side, intervals, .. } if show => lines.take(side, intervals),
        Progress::Incident { incident, .. } if !global.quiet => eprintln!("{}", incident.message),
        _ => {}
    })?;
    if show {
        lines.rest();
    }
    let study = study(&campaign);
    if global.json {
        println!("{}", study_json(&campaign, &study));
    } else {
        result(&campaign, &study);
    }
    match campaign::exit_of(&summary)? {
        Exit::Done => Ok(crate::reports::exit_of(&study)),
        other => Ok(other),
    }
}

/// The plan these options amount to: it is recorded, so that the measurement can be repeated.
fn plan_text(args: &ToArgs) -> Result<String, Failure> {
    let mut params: Vec<(&str, String)> = Vec::new();
    let quoted = |text: String| format!("\"{text}\"");
    let stream = matches!(args.mode, ToMode::Tcp | ToMode::Udp);
    let tcp = !matches!(args.mode, ToMode::Udp | ToMode::UdpRr);
    let refuse = |letter: &str, what: &str| Err(Failure::wrong(format!("to: {letter} means nothing for {what}")));
    if stream {
        let direction = if args.bidir {
            "both"
        } else if args.reverse {
            "rx"
        } else {
            "tx"
        };
        params.push(("direction", quoted(direction.into())));
    } else if args.bidir || args.reverse {
        return refuse("-R or --bidir", "requests and responses");
    }
    params.push(("streams", args.parallel.to_string()));
    if let Some(length) = &args.length {
        let name = match args.mode {
            ToMode::Tcp => "message_size",
            ToMode::Udp => "datagram_size",
            ToMode::Rr | ToMode::Crr | ToMode::UdpRr => "request_size",
        };
        params.push((name, quoted(format!("{} B", binary("-l", length)?))));
    }
    if let Some(window) = &args.window {
        let size = quoted(format!("{} B", binary("-w", window)?));
        match args.mode {
            ToMode::Udp => params.extend([("send_buffer", size.clone()), ("receive_buffer", size)]),
            ToMode::Tcp => params.push(("socket_buffer", size)),
            _ => return refuse("-w", "requests and responses"),
        }
    }
    if let Some(rate) = &args.bitrate {
        let name = match args.mode {
            ToMode::Tcp => "pacing_rate",
            ToMode::Udp => "rate",
            _ => return refuse("-b", "requests and responses"),
        };
        params.push((name, quoted(BitRate(decimal("-b", rate)?).to_string())));
    }
    if let Some(congestion) = &args.congestion {
        if !tcp {
            return refuse("-C", "UDP");
        }
        params.push(("congestion", quoted(congestion.clone())));
    }
    let only_tcp_stream = [("-N", args.no_delay), ("-M", args.mss.is_some()), ("-Z", args.zerocopy)];
    if let Some((letter, _)) = only_tcp_stream.iter().find(|(_, given)| *given && args.mode != ToMode::Tcp) {
        return refuse(letter, "anything but tcp");
    }
    if args.no_delay {
        params.push(("no_delay", "true".into()));
    }
    if let Some(mss) = args.mss {
        params.push(("mss", quoted(format!("{mss} B"))));
    }
    if args.zerocopy {
        params.push(("send", quoted("sendfile".into())));
    }
    if let Some(dscp) = args.dscp {
        params.push(("dscp", dscp.to_string()));
    }
    let workload = match args.mode {
        ToMode::Tcp => "tcp_stream",
        ToMode::Udp => "udp_stream",
        ToMode::Rr => "tcp_rr",
        ToMode::Crr => "tcp_crr",
        ToMode::UdpRr => "udp_rr",
    };
    let params: Vec<String> = params.iter().map(|(name, value)| format!("{name} = {value}")).collect();
    Ok(format!(
        "[campaign]\nname = \"to\"\nrepeats = 1\n\n[[sweep]]\nname = \"to\"\nduration = \"{} ms\"\nwarmup = \"{} ms\"\n\
         [[sweep.job]]\nworkload = \"{workload}\"\nfrom = \"a\"\nto = \"b\"\nparams = {{ {} }}\n",
        (args.seconds * 1e3).round(),
        (args.omit * 1e3).round(),
        params.join(", ")
    ))
}

/// A size with iperf3's letters: K, M, G are 1024, 1024^2, 1024^3.
fn binary(option: &str, text: &str) -> Result<u64, Failure> {
    suffixed(text, 1024.0).map(|value| value as u64).ok_or_else(|| {
        Failure::wrong(format!(
            "to {option} {text}: not a size (a number of bytes, with K, M or G for 1024, 1024^2, 1024^3)"
        ))
    })
}

/// A rate with iperf3's letters: K, M, G are 1000, 1000^2, 1000^3.
fn decimal(option: &str, text: &str) -> Result<f64, Failure> {
    let error = || {
        Failure::wrong(format!("to {option} {text}: not a rate (bits a second, with K, M or G for 10^3, 10^6, 10^9)"))
    };
    suffixed(text, 1000.0).filter(|rate| *rate > 0.0).ok_or_else(error)
}

fn suffixed(text: &str, base: f64) -> Option<f64> {
    let (number, power) = match text.as_bytes().last()?.to_ascii_lowercase() {
        b'k' => (&text[..text.len() - 1], 1),
        b'm' => (&text[..text.len() - 1], 2),
        b'g' => (&text[..text.len() - 1], 3),
        _ => (text, 0),
    };
    let value = number.parse::<f64>().ok().filter(|value| value.is_finite() && *value >= 0.0)?;
    Some(value * base.powi(power))
}

/// One line for each span of the measurement, from what both ends counted.
struct Lines {
    span: Nanos,
    omit: Nanos,
    headed: bool,
    /// Sums by span and side.
    sums: std::collections::BTreeMap<u64, [Sums; 2]>,
    /// How far each side has reported.
    reached: [Nanos; 2],
    printed: u64,
}

#[derive(Clone, Copy, Default)]
struct Sums {
    bytes: u64,
    transactions: u64,
    connections: u64,
    retransmits: u32,
    rtt_us: u32,
}

impl Lines {
    fn new(span: Nanos, omit: Nanos) -> Self {
        let span = Nanos(span.0.max(100_000_000));
        Self { span, omit, headed: false, sums: Default::default(), reached: Default::default(), printed: 0 }
    }

    fn take(&mut self, side: Side, intervals: &[Interval]) {
        let index = usize::from(side == Side::Passive);
        for interval in intervals {
            let slot = interval.start.0.midpoint(interval.end.0) / self.span.0;
            let sums = &mut self.sums.entry(slot).or_default()[index];
            sums.bytes += interval.counters[Counter::PayloadReceived];
            sums.transactions += interval.counters[Counter::Transactions];
            sums.connections += interval.counters[Counter::Connections];
            for flow in &interval.flows {
                sums.retransmits = sums.retransmits.max(flow.tcp.retransmits);
                sums.rtt_us = flow.tcp.rtt_us;
            }
            self.reached[index] = self.reached[index].max(interval.end);
        }
        let complete = self.reached.iter().map(|reached| reached.0 / self.span.0).min().unwrap_or(0);
        while self.printed < complete {
            self.print(self.printed);
            self.printed += 1;
        }
    }

    /// Prints what is whole but was not yet certain to be.
    fn rest(&mut self) {
        let last = self.sums.keys().next_back().copied().unwrap_or(0);
        while self.printed < last {
            self.print(self.printed);
            self.printed += 1;
        }
    }

    fn print(&mut self, slot: u64) {
        let [active, passive] = self.sums.get(&slot).copied().unwrap_or_default();
        let before = slot.checked_sub(1).and_then(|slot| self.sums.get(&slot)).copied().unwrap_or_default();
        let span = self.span.as_secs_f64();
        let rate = |bytes: u64| {
            if bytes == 0 {
                "-".to_owned()
            } else {
                show::quantity("goodput", bytes as f64 * 8.0 / span, Unit::BitPerSecond)
            }
        };
        let operations = active.transactions + active.connections;
        if !self.headed {
            let heads = if operations > 0 { ["operations", ""] } else { ["tx", "rx"] };
            println!("{:>13}  {:>14}  {:>14}  {:>8}  {:>9}", "seconds", heads[0], heads[1], "retrans", "rtt");
            self.headed = true;
        }
        let (from, until) = (slot as f64 * span, (slot + 1) as f64 * span);
        let forward = if operations > 0 { format!("{:.0}/s", operations as f64 / span) } else { rate(passive.bytes) };
        let backward = if operations > 0 { String::new() } else { rate(active.bytes) };
        let retransmits = active
            .retransmits
            .max(passive.retransmits)
            .saturating_sub(before[0].retransmits.max(before[1].retransmits));
        let rtt = active.rtt_us.max(passive.rtt_us);
        let rtt = if rtt == 0 { "-".to_owned() } else { format!("{rtt} us") };
        let omitted = if until <= self.omit.as_secs_f64() { "  (omitted)" } else { "" };
        println!("{from:>5.1} - {until:<5.1}  {forward:>14}  {backward:>14}  {retransmits:>8}  {rtt:>9}{omitted}");
    }
}

/// The result: each figure with its interval or spread, its ceiling, and what the rules say.
fn result(campaign: &Campaign, study: &Study) {
    let Some(point) = study.points.first() else { return };
    println!();
    let mut has_interval = false;
    for job in &point.jobs {
        for name in [
            "goodput",
            "transaction_rate",
            "connection_rate",
            "response_time_p50",
            "response_time_p99",
            "loss_ratio",
            "cpu_seconds_per_gigabyte",
        ] {
            for metric in job.metrics.iter().filter(|metric| metric.name == name) {
                let layer = metric.layer.map(|layer| format!(" {layer}")).unwrap_or_default();
                let Some(estimate) = metric.estimate else {
                    // The levels stand in the reasons below.
                    let word = metric.settled.as_ref().filter(|settled| !settled.has_single_number);
                    if let Some(settled) = word {
                        let spread = spread(study, name, metric.direction);
                        println!("{name}{layer} {}: no single number: {}{spread}", metric.direction, settled.word);
                    }
                    continue;
                };
                let share =
                    metric.share.map(|share| format!(", {:.1} % of its ceiling", share * 100.0)).unwrap_or_default();
                let value = show::quantity(name, estimate.value, metric.unit);
                let interval = show::interval_of_percentile(job, metric);
                has_interval |= !interval.is_empty();
                let spread = spread(study, name, metric.direction);
                println!("{name}{layer} {}: {value}{interval}{spread}{share}", metric.direction);
            }
        }
        corrected(job).iter().for_each(|line| println!("{line}"));
    }
    let header = &campaign.header;
    println!("n = 1 run; the spread is of its intervals, no confidence interval (run a plan with repeats for one)");
    if has_interval {
        println!(
            "[low, high] of a percentile: 95 % by the ranks of its operations, as if they did not depend on each other"
        );
    }
    if header.emulated() {
        println!("emulated path");
    }
    point.why.iter().for_each(|why| println!("{}: {why}", point.validity.word()));
    for finding in &study.findings {
        let word = match finding.verdict {
            Verdict::Proven => "proven",
            Verdict::Suspected => "suspected",
            Verdict::Inconclusive => "inconclusive",
        };
        println!("likely limit ({word}): {}", finding.claim);
    }
}

/// What a closed load hides: those of its percentiles that differ once it is filled in.
fn corrected(job: &JobStudy) -> Option<String> {
    let corrected = job.corrected.as_ref()?;
    let seconds = |ns: Option<u64>| {
        ns.map_or_else(|| "∞".to_owned(), |ns| show::quantity("response_time_p99", ns as f64 / 1e9, Unit::Second))
    };
    let told = |of: &Percentile| {
        let ends = || format!(" [{}, {}]", seconds(of.low_ns), seconds(of.high_ns));
        let interval = of.confidence.map_or_else(String::new, |_| ends());
        format!("p{} {}{interval}", of.quantile * 100.0, seconds(of.value_ns))
    };
    let tail = corrected.percentiles.iter().filter(|of| of.quantile > 0.5);
    let told: Vec<String> = tail.map(told).collect();
    (!told.is_empty()).then(|| {
        format!(
            "estimate of what a closed load hides ({} requests filled in at the pace of the median): {}",
            corrected.n_filled,
            told.join(", ")
        )
    })
}

/// Smallest to largest interval of the measurement.
fn spread(study: &Study, metric: &str, direction: Direction) -> String {
    let Some(trial) = study.points.first().and_then(|point| point.trials.first()) else { return String::new() };
    let key = if metric == "goodput" { format!("goodput_{direction}") } else { metric.to_owned() };
    let Some(series) = trial.series.get(&key) else { return String::new() };
    let measured =
        trial.seconds.iter().zip(series).filter(|(at, _)| **at > trial.measured_from).filter_map(|(_, value)| *value);
    let values: Vec<f64> = measured.collect();
    let (low, high) =
        values.iter().fold((f64::INFINITY, 0.0_f64), |(low, high), value| (low.min(*value), high.max(*value)));
    let unit = linerate_model::metric(metric).map_or(Unit::Count, |metric| metric.unit);
    if values.len() < 2 {
        String::new()
    } else {
        format!(" (intervals {} to {})", show::quantity(metric, low, unit), show::quantity(metric, high, unit))
    }
}
