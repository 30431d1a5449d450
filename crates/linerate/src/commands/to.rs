//! `linerate to HOST`: one measurement of the path to a host.

use std::path::PathBuf;

use clap::Args;
use linerate_analysis::live::{LiveLine, LiveLines};
use linerate_analysis::study;
use linerate_answers::path::{self, Asked, Offered};
use linerate_answers::quantity;
use linerate_campaign::drafts::{self, MODES, Mode, PathLoad};
use linerate_campaign::testbeds;
use linerate_control::Progress;
use linerate_model::plan::Draft;
use linerate_model::{Nanos, metric};

use crate::args::{Global, Saved, one_of};
use crate::commands::measure;
use crate::exit::Outcome;
use crate::parameters::{SettingOptions, ToSettings};
use crate::{progress, reports};

#[derive(Debug, Args)]
pub(crate) struct ToArgs {
    /// Host with an agent (`host` or `host:port`), `ssh:HOST` to start an agent there, or
    /// `loopback`
    pub(crate) host: String,
    /// Kind of measurement
    #[arg(value_parser = one_of(&MODES, |mode| (mode.name, mode.summary)),
        default_value = MODES[0].name)]
    mode: Mode,
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
        workload: args.mode.workload,
        direction: args.bidir.then_some("both").or(args.reverse.then_some("rx")),
        duration: Nanos::from_secs_f64(args.seconds),
        warmup: omit,
        given: &args.settings.given,
    })?;
    // Workers report every 100 ms, so shorter lines would be empty.
    let span = Nanos::from_secs_f64(args.interval).max(SHORTEST_LINE);
    let mut lines = LiveLines::new(span, omit + Nanos::from_secs_f64(args.seconds));
    let shows = !global.quiet && !global.json;
    let mut printer = Printer { omit, shows, headed: false, printed: Vec::new() };
    let watch = &mut |event: Progress<'_>| match event {
        Progress::Intervals { side, intervals, .. } => printer.print(lines.take(side, intervals)),
        event => progress::incident(&event, global),
    };
    let (campaign, summary) =
        measure::drafted("to", &draft, &ground, (args.ledger.as_deref(), &[]), watch)?;
    printer.print(lines.rest());
    let study = study(&campaign);
    let congestion = drafts::given_value(&args.settings.given, "congestion");
    let congestion = congestion.and_then(|name| name.as_str());
    let offered = args.offered(&draft);
    let asked = Asked { host: &args.host, congestion, offered, lines: &printer.printed };
    let answer = path::document(&campaign, &study, &asked);
    reports::measured(&answer, &campaign, &study, &args.saved, global)?;
    reports::end(&campaign, &study, &summary, global)
}

impl ToArgs {
    /// Returns the offered load of datagrams.
    fn offered(&self, draft: &Draft) -> Offered {
        let is_given = drafts::given_value(&self.settings.given, "bitrate").is_some();
        match drafts::rate(draft) {
            _ if self.mode.name != "udp" => Offered::NoDatagrams,
            None => Offered::Unlimited,
            Some(rate) if is_given => Offered::Chosen(rate),
            Some(rate) => Offered::Default(rate),
        }
    }
}

/// Printer of complete lines, with a heading before the first.
struct Printer {
    omit: Nanos,
    /// False if nobody reads lines.
    shows: bool,
    headed: bool,
    printed: Vec<LiveLine>,
}

impl Printer {
    fn print(&mut self, lines: Vec<LiveLine>) {
        if self.shows {
            lines.iter().for_each(|line| self.line(line));
        }
        self.printed.extend(lines);
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
