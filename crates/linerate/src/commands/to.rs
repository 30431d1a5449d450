//! `linerate to HOST`: one measurement of the path to a host.

use std::path::PathBuf;

use clap::Args;
use linerate_analysis::live::{LiveLine, LiveLines};
use linerate_analysis::study;
use linerate_answers::path::{self, Asked, Offered};
use linerate_answers::quantity;
use linerate_campaign::drafts::{self, DEFAULT_UDP_RATE, PathLoad};
use linerate_campaign::{letters, testbeds};
use linerate_control::Progress;
use linerate_model::{BitRate, Nanos, metric};

use crate::args::{Global, Saved, ToMode};
use crate::commands::measure;
use crate::exit::Outcome;
use crate::parameters::{SettingOptions, ToSettings};
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
    #[command(flatten)]
    settings: SettingOptions<ToSettings>,
    /// Reverse direction: the host sends, this end receives
    #[arg(short = 'R', long, conflicts_with = "bidir")]
    pub(crate) reverse: bool,
    /// Both directions at once
    #[arg(long)]
    pub(crate) bidir: bool,
    /// Offered load in bit/s for each direction, all streams together; K, M, G are decimal, 0 is
    /// unlimited [default: udp 1M, tcp unlimited; tcp is paced by the kernel]
    #[arg(short = 'b', long = "bitrate", value_parser = rate)]
    pub(crate) bitrate: Option<f64>,
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

/// Shortest span of a line: workers report their counts every 100 ms.
const SHORTEST_LINE: Nanos = Nanos::from_millis(100);
/// Measures with a line each second, then prints the result.
pub(crate) fn run(args: &ToArgs, global: Global) -> Outcome {
    let ground = match args.host.as_str() {
        "loopback" => testbeds::loopback(args.ipv6),
        host => testbeds::to_host(host, args.bind, args.ipv6)?,
    };
    let omit = Nanos::from_secs_f64(args.omit);
    let draft = drafts::path(&PathLoad {
        workload: args.mode.workload(),
        direction: args.bidir.then_some("both").or(args.reverse.then_some("rx")),
        duration: Nanos::from_secs_f64(args.seconds),
        warmup: omit,
        rate: args.bitrate,
        given: &args.settings.given,
    })?;
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
    let chosen = args.settings.given.iter().find(|(setting, _)| setting.option == "congestion");
    let congestion = chosen.and_then(|(_, name)| name.as_str());
    let asked = Asked { host: &args.host, congestion, offered: args.offered() };
    let answer = path::document(&campaign, &study, &asked);
    reports::measured(&answer, &campaign, &study, &args.saved, global)?;
    reports::end(&campaign, &study, &summary, global)
}

impl ToArgs {
    /// Returns the offered load of datagrams.
    fn offered(&self) -> Offered {
        match self.bitrate {
            _ if self.mode != ToMode::Udp => Offered::NoDatagrams,
            None => Offered::Default(DEFAULT_UDP_RATE),
            Some(0.0) => Offered::Unlimited,
            Some(rate) => Offered::Chosen(BitRate(rate)),
        }
    }
}

/// Reads the rate that a person gave as `-b`, bit/s.
fn rate(text: &str) -> Result<f64, String> {
    letters::rate(text).ok_or_else(|| {
        "not a rate (expected bit/s, with K, M or G for 10^3, 10^6, 10^9)".to_owned()
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
                "seconds",
                heads[0],
                heads[1],
                "retrans",
                metric::RTT.name
            );
            self.headed = true;
        }
        let none = || "-".to_owned();
        // A dash shows an idle direction better than a zero.
        let shown =
            |bytes: f64| (bytes != 0.0).then(|| quantity(metric::GOODPUT, bytes * 8.0 / seconds));
        let rate = |bytes| shown(bytes).unwrap_or_else(none);
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
