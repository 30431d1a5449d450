//! `linerate to HOST`: one measurement of the path to a host.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use linerate_analysis::live::{LiveLine, LiveLines};
use linerate_analysis::study;
use linerate_answers::path::{self, Asked, Offered};
use linerate_answers::quantity;
use linerate_campaign::{letters, testbeds};
use linerate_control::Progress;
use linerate_model::plan::{Draft, DraftJob, DraftSweep};
use linerate_model::{BitRate, Nanos, metric};
use serde_json::Value;

use crate::args::{Global, Saved};
use crate::commands::measure::{self, size};
use crate::exit::{Failure, Outcome};
use crate::parameters::{help_of, one};
use crate::{progress, reports};

#[derive(Debug, Args)]
#[command(disable_help_flag = true)]
pub(crate) struct ToArgs {
    /// Print help
    #[arg(long, action = clap::ArgAction::Help)]
    help: Option<bool>,
    /// Host with an agent (`host` or `host:port`), `ssh:HOST` to start an agent there, or
    /// `loopback`
    pub(crate) host: String,
    /// Kind of measurement
    #[arg(value_enum, default_value_t = ToMode::Tcp)]
    pub(crate) mode: ToMode,
    /// Length of the measurement, in seconds
    #[arg(short = 't', long = "time", default_value_t = 10.0)]
    pub(crate) seconds: f64,
    /// Warm-up before the measurement, in seconds
    #[arg(short = 'O', long = "omit", default_value_t = 0.0)]
    pub(crate) omit: f64,
    #[arg(short = 'P', long = "parallel", help = help_of(TCP, "streams"),
        value_parser = one(TCP, "streams"), default_value = "1", hide_default_value = true)]
    pub(crate) parallel: Value,
    /// Reverse direction: the host sends, this end receives
    #[arg(short = 'R', long, conflicts_with = "bidir")]
    pub(crate) reverse: bool,
    /// Both directions at once
    #[arg(long)]
    pub(crate) bidir: bool,
    /// Message or datagram size in bytes; K, M are 1024 and 1024^2
    #[arg(short = 'l', long = "length")]
    pub(crate) length: Option<String>,
    /// Socket buffers at both ends, in bytes; K, M are 1024 and 1024^2
    #[arg(short = 'w', long = "window")]
    pub(crate) window: Option<String>,
    /// Offered load in bit/s for each direction, all streams together; K, M, G are decimal, 0 is
    /// unlimited [default: udp 1M, tcp unlimited; tcp is paced by the kernel]
    #[arg(short = 'b', long = "bitrate")]
    pub(crate) bitrate: Option<String>,
    /// Congestion control at both ends [default: each host's own]
    #[arg(short = 'C', long = "congestion")]
    pub(crate) congestion: Option<String>,
    /// Send small messages without delay (TCP_NODELAY)
    #[arg(short = 'N', long)]
    pub(crate) no_delay: bool,
    #[arg(
        short = 'M', long = "set-mss",
        help = help_of(TCP, "mss"), value_parser = one(TCP, "mss")
    )]
    pub(crate) mss: Option<Value>,
    #[arg(long, help = help_of(TCP, "dscp"), value_parser = one(TCP, "dscp"))]
    pub(crate) dscp: Option<Value>,
    /// Send without copying (sendfile)
    #[arg(short = 'Z', long)]
    pub(crate) zerocopy: bool,
    /// Local address
    #[arg(short = 'B', long = "bind")]
    pub(crate) bind: Option<std::net::IpAddr>,
    /// Time between two lines, in seconds
    #[arg(short = 'i', long = "interval", default_value_t = 1.0)]
    pub(crate) interval: f64,
    /// Use IPv6
    #[arg(short = '6', long = "ipv6")]
    pub(crate) ipv6: bool,
    /// Keep the results in this ledger
    #[arg(long)]
    pub(crate) ledger: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) saved: Saved,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ToMode {
    /// TCP goodput
    Tcp,
    /// UDP goodput, loss and reordering
    Udp,
    /// TCP request and response
    Rr,
    /// TCP connect, request, response, close
    Crr,
    /// UDP request and response
    UdpRr,
}

/// Workload whose declarations serve all modes: they share streams, segment size and code point.
const TCP: &str = "tcp_stream";
/// Shortest span of a line: workers report their counts every 100 ms.
const SHORTEST_LINE: Nanos = Nanos::from_millis(100);
/// Default offered load of `to HOST udp`: that of iperf3, which floods no path.
const DEFAULT_UDP_RATE: BitRate = BitRate(1e6);
/// The congestion control that leaves the choice to each host.
const HOST_DEFAULT: &str = "host";

/// Measures with a line each second, then prints the result.
pub(crate) fn run(args: &ToArgs, global: Global) -> Outcome {
    let ground = match args.host.as_str() {
        "loopback" => testbeds::loopback(args.ipv6),
        host => testbeds::to_host(host, args.bind, args.ipv6)?,
    };
    let draft = draft(args)?;
    let omit = Nanos::from_secs_f64(args.omit);
    // Workers report every 100 ms, so shorter lines would be empty.
    let span = Nanos::from_secs_f64(args.interval).max(SHORTEST_LINE);
    let mut lines = LiveLines::new(span, omit + Nanos::from_secs_f64(args.seconds));
    let mut printer = Printer { omit, headed: false };
    let show = !global.quiet && !global.json;
    let watch = &mut |event: Progress<'_>| match event {
        Progress::Intervals { side, intervals, .. } if show => {
            printer.print(&lines.take(side, intervals))
        }
        event => progress::incident(&event, global),
    };
    let (campaign, summary) =
        measure::drafted("to", &draft, &ground, (args.ledger.as_deref(), &[]), watch)?;
    if show {
        printer.print(&lines.rest());
    }
    let study = study(&campaign);
    let (host, congestion) = (args.host.as_str(), args.congestion.as_deref());
    let answer =
        path::document(&campaign, &study, &Asked { host, congestion, offered: args.offered()? });
    reports::measured(&answer, &campaign, &study, &args.saved, global)?;
    reports::end(&campaign, &study, &summary, global)
}

impl ToArgs {
    /// Returns the offered load of datagrams.
    fn offered(&self) -> Result<Offered, Failure> {
        Ok(match self.bitrate.as_deref().map(rate).transpose()? {
            _ if self.mode != ToMode::Udp => Offered::NoDatagrams,
            None => Offered::Default(DEFAULT_UDP_RATE),
            Some(0.0) => Offered::Unlimited,
            Some(rate) => Offered::Chosen(BitRate(rate)),
        })
    }
}

/// Returns the plan of these options. It is recorded, so that the measurement can be repeated.
fn draft(args: &ToArgs) -> Result<Draft, Failure> {
    let mut params: Vec<(&str, Value)> = Vec::new();
    let stream = matches!(args.mode, ToMode::Tcp | ToMode::Udp);
    let tcp = !matches!(args.mode, ToMode::Udp | ToMode::UdpRr);
    let refuse = |letter: &str, what: &str| {
        Err(Failure::wrong(format!("to: {letter} does not apply to {what}")))
    };
    if stream {
        let direction = if args.bidir {
            "both"
        } else if args.reverse {
            "rx"
        } else {
            "tx"
        };
        params.push(("direction", direction.into()));
    // A request has an answer, so it always goes both ways.
    } else if args.bidir || args.reverse {
        return refuse("-R or --bidir", "requests and responses");
    }
    params.push(("streams", args.parallel.clone()));
    if let Some(length) = &args.length {
        let name = match args.mode {
            ToMode::Tcp => "message_size",
            ToMode::Udp => "datagram_size",
            // Only the request has a size here; the answer has its own default.
            ToMode::Rr | ToMode::Crr | ToMode::UdpRr => "request_size",
        };
        params.push((name, size("to -l", length)?.to_string().into()));
    }
    if let Some(window) = &args.window {
        let size = Value::String(size("to -w", window)?.to_string());
        match args.mode {
            // Datagrams have no common buffer option, so both are set.
            ToMode::Udp => params.extend([("send_buffer", size.clone()), ("receive_buffer", size)]),
            ToMode::Tcp => params.push(("socket_buffer", size)),
            _ => return refuse("-w", "requests and responses"),
        }
    }
    let rate = args.bitrate.as_deref().map(rate).transpose()?;
    let (name, default) = match args.mode {
        ToMode::Tcp => ("pacing_rate", 0.0),
        ToMode::Udp => ("rate", DEFAULT_UDP_RATE.0),
        _ if rate.is_some() => return refuse("-b", "requests and responses"),
        _ => ("", 0.0),
    };
    // As with iperf3, 0 is no limit. The kernel paces each connection by itself.
    // The rate is for all streams together.
    let share = if args.mode == ToMode::Tcp { args.parallel.as_f64().unwrap_or(1.0) } else { 1.0 };
    if let Some(rate) = Some(rate.unwrap_or(default) / share).filter(|rate| *rate > 0.0) {
        params.push((name, BitRate(rate).to_string().into()));
    }
    if args.congestion.is_some() && !tcp {
        return refuse("-C", "UDP");
    }
    if tcp {
        // Without -C each host keeps its own congestion control, as users of iperf3 expect.
        params.push(("congestion", args.congestion.as_deref().unwrap_or(HOST_DEFAULT).into()));
    }
    let only_tcp_stream =
        [("-N", args.no_delay), ("-M", args.mss.is_some()), ("-Z", args.zerocopy)];
    if let Some((letter, _)) =
        only_tcp_stream.iter().find(|(_, given)| *given && args.mode != ToMode::Tcp)
    {
        return refuse(letter, "anything but tcp");
    }
    if args.no_delay {
        params.push(("no_delay", true.into()));
    }
    params.extend(args.mss.clone().map(|mss| ("mss", mss)));
    if args.zerocopy {
        params.push(("send", "sendfile".into()));
    }
    params.extend(args.dscp.clone().map(|dscp| ("dscp", dscp)));
    let workload = match args.mode {
        ToMode::Tcp => "tcp_stream",
        ToMode::Udp => "udp_stream",
        ToMode::Rr => "tcp_rr",
        ToMode::Crr => "tcp_crr",
        ToMode::UdpRr => "udp_rr",
    };
    let job = DraftJob::new(workload, "a", "b").with(params);
    let (duration, warmup) = (Nanos::from_secs_f64(args.seconds), Nanos::from_secs_f64(args.omit));
    Ok(Draft::new("to", 1, vec![DraftSweep::one("to", duration, warmup, job)]))
}

/// Reads the rate that a person gave as `-b`, bit/s.
fn rate(text: &str) -> Result<f64, Failure> {
    letters::rate(text).ok_or_else(|| {
        Failure::wrong(format!(
            "to -b {text}: not a rate (expected bit/s, with K, M or G for 10^3, 10^6, 10^9)"
        ))
    })
}

/// Printer of complete lines, with a heading before the first.
struct Printer {
    omit: Nanos,
    headed: bool,
}

impl Printer {
    fn print(&mut self, lines: &[LiveLine]) {
        lines.iter().for_each(|line| self.line(line));
    }

    fn line(&mut self, line: &LiveLine) {
        let seconds = line.until.since(line.from).as_secs_f64();
        // Each connection of `crr` carries one request.
        let operations = if line.connections > 0.0 { line.connections } else { line.transactions };
        let of_requests = operations > 0.0 || line.operations.is_some();
        if !self.headed {
            let heads = if of_requests { ["operations", ""] } else { ["tx", "rx"] };
            println!(
                "{:>13}  {:>14}  {:>14}  {:>8}  {:>9}",
                "seconds", heads[0], heads[1], "retrans", "rtt"
            );
            self.headed = true;
        }
        let none = || "-".to_owned();
        let rate = |bytes: f64| match bytes {
            // A dash shows an idle direction better than a zero.
            0.0 => none(),
            _ => quantity(metric::GOODPUT, bytes * 8.0 / seconds),
        };
        // Open operations are those of all lines so far, so that lines and result add up.
        let unanswered =
            line.operations.map(|of| format!("{:.0} lost, {:.0} open", of.lost, of.open));
        let [forward, backward] = match of_requests {
            false => [rate(line.forward_bytes), rate(line.backward_bytes)],
            true => [format!("{:.0}/s", operations / seconds), unanswered.unwrap_or_default()],
        };
        let retransmits = line.retransmits.map_or_else(none, |n| n.to_string());
        let rtt = line.rtt.map_or_else(none, |rtt| format!("{:.0} us", rtt * 1e6));
        let remark = match line {
            _ if line.is_drain => "  (drain: not in the result)",
            // A line across the end of the warm-up counts in part, so it is not marked.
            _ if line.until <= self.omit => "  (omitted)",
            _ => "",
        };
        let (from, until) = (line.from.as_secs_f64(), line.until.as_secs_f64());
        println!(
            "{from:>5.1} - {until:<5.1}  {forward:>14}  {backward:>14}  {retransmits:>8}  \
                {rtt:>9}{remark}"
        );
    }
}
