//! `linerate to HOST`: one measurement of the path to a host.

use std::path::PathBuf;

use clap::Args;
use linerate_analysis::live::{LiveLine, LiveLines};
use linerate_analysis::{planned_ceiling, study};
use linerate_answers::path::{self, Asked, Offered};
use linerate_answers::path_lines::{self, PathAsked};
use linerate_campaign::catalog::PlanText;
use linerate_campaign::checks;
use linerate_campaign::drafts::{self, Given, MODES, Mode, OF_TO, PathLoad, SENT_FILE, Setting};
use linerate_campaign::foreign;
use linerate_campaign::letters;
use linerate_campaign::push::Push;
use linerate_campaign::stamp::reflector;
use linerate_campaign::testbeds::{self, Family, Ground, Towards};
use linerate_control::Progress;
use linerate_model::plan::Draft;
use linerate_model::{CampaignHeader, Direction, HostRecord, Nanos, TrialOutcome, TrialSpec};
use linerate_report::live::{LiveForm, LiveTable, LoadKind, PathCut};
use linerate_view::View;
use serde_json::Value;

use crate::args::{Global, REACH, Saved, one_of, time};
use crate::commands::measure::{self, WaitArgs};
use crate::commands::pair;
use crate::exit::{Failure, Outcome};
use crate::iperf3::Iperf3Options;
use crate::parameters::{SettingOptions, ToSettings};
use crate::{output, reports};

mod iperf3_server;
mod stamp;

#[derive(Debug, Args)]
#[command(disable_version_flag = true)]
pub(crate) struct ToArgs {
    /// Host with an agent (`host` or `host:port`), `ssh:HOST` to start an agent there,
    /// `iperf3://HOST[:PORT]` for an iperf3 server, `stamp://HOST[:PORT]` for a reflector of STAMP
    /// or TWAMP Light, or `loopback`
    pub(crate) host: String,
    /// Kind of measurement
    #[arg(value_parser = one_of(&MODES, |mode| (mode.name, mode.summary)),
        default_value = MODES[0].name)]
    mode: Mode,
    /// The same as `udp`
    #[arg(short = 'u', long = "udp", conflicts_with = "mode")]
    is_udp: bool,
    #[arg(short = 't', long = "time", value_parser = time, help = "Length of the measurement, in \
        seconds or with a unit [default: 10]")]
    seconds: Option<Nanos>,
    /// Warm-up before the measurement, in seconds or with a unit
    #[arg(short = 'O', long = "omit", default_value = "0", value_parser = time)]
    pub(crate) omit: Nanos,
    #[command(flatten)]
    settings: SettingOptions<ToSettings>,
    /// Type of service: a byte, four times the code point of --dscp
    #[arg(short = 'S', long, conflicts_with = "dscp", value_parser = type_of_service)]
    tos: Option<u64>,
    /// Reverse direction: the host sends, this end receives
    #[arg(short = 'R', long, conflicts_with = "bidir")]
    pub(crate) reverse: bool,
    /// Both directions at once
    #[arg(long)]
    pub(crate) bidir: bool,
    /// Local address
    #[arg(short = 'B', long = "bind")]
    pub(crate) bind: Option<std::net::IpAddr>,
    /// Bind both ends to their devices; this end's is DEVICE
    #[arg(long, value_name = "DEVICE")]
    bind_dev: Option<String>,
    /// Port of the agent [default: 4777]
    #[arg(short = 'p', long)]
    port: Option<u16>,
    #[command(flatten)]
    wait: WaitArgs,
    /// First pair with the host, whose agent was started with `--pair`: `-` reads its one-time
    /// token from standard input
    #[arg(long, value_name = "-", value_parser = ["-"])]
    token: Option<String>,
    #[arg(long, value_name = "COMMAND", conflicts_with = "token", help = REACH)]
    reach: Option<String>,
    /// Copy linerate to a host behind ssh or --reach that has none of this release, and remove it
    /// at the end: this program, or FILE for another architecture
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true)]
    push: Option<Option<PathBuf>>,
    /// Longest time to connect to the agent and to greet it, with the command that starts it; in
    /// milliseconds or with a unit, at most 1 h [default: 5 s, 30 s with ssh or --reach]
    #[arg(long = "connect-timeout", value_name = "MS", value_parser = milliseconds)]
    patience: Option<Nanos>,
    /// CPU of this end's workers, and of the other end's
    #[arg(short = 'A', long, value_name = "CPU[,CPU]", value_parser = cpus)]
    affinity: Option<[Option<usize>; 2]>,
    /// Time between two lines, in seconds or with a unit; 0 prints no lines
    #[arg(short = 'i', long = "interval", default_value = "1", value_parser = time)]
    pub(crate) interval: Nanos,
    /// Unit of the rates in lines: kbit/s to Tbit/s, or with a capital kB/s to TB/s
    #[arg(short = 'f', value_name = "UNIT",
        value_parser = ["k", "m", "g", "t", "K", "M", "G", "T"])]
    unit: Option<String>,
    /// Use IPv4 only
    #[arg(short = '4', long = "ipv4", alias = "version4", conflicts_with = "ipv6")]
    ipv4: bool,
    /// Use IPv6 only
    #[arg(short = '6', long = "ipv6", alias = "version6")]
    pub(crate) ipv6: bool,
    /// Text before each line
    #[arg(short = 'T', long)]
    title: Option<String>,
    /// Append the output to this file instead of printing it
    #[arg(long, value_name = "FILE")]
    logfile: Option<PathBuf>,
    /// The same as --verbose
    #[arg(short = 'V', hide = true)]
    pub(crate) is_verbose: bool,
    /// The same as --json
    #[arg(short = 'J', hide = true)]
    pub(crate) is_json: bool,
    /// Print events instead: `start`, an `interval` for each line, `end` or `error`, each a JSON
    /// object on a line of its own
    #[arg(long = "json-stream")]
    pub(crate) is_stream: bool,
    /// Print version
    #[arg(long, action = clap::ArgAction::Version)]
    version: Option<bool>,
    /// Keep the results in this ledger
    #[arg(long)]
    pub(crate) ledger: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) saved: Saved,
    #[command(flatten)]
    pub(crate) iperf3: Iperf3Options,
}

fn cpus(text: &str) -> Result<[Option<usize>; 2], String> {
    let listed: Result<Vec<usize>, _> = text.split(',').map(str::parse).collect();
    match listed.as_deref() {
        Ok([here]) => Ok([Some(*here), None]),
        Ok([here, there]) => Ok([Some(*here), Some(*there)]),
        _ => Err("expected the CPU of this end, or CPU,CPU of both ends".to_owned()),
    }
}

/// Reads a time as iperf3 users type this one.
fn milliseconds(text: &str) -> Result<Nanos, String> {
    /// Longest time that somebody waits for a connection.
    const MOST: Nanos = Nanos::from_secs(3_600);
    // A number that is too large must not become a time with a unit.
    let read = match text.parse::<u64>() {
        Ok(number) => number.checked_mul(1_000_000).map(Nanos),
        Err(_) => letters::time(text),
    };
    let some = read.filter(|time| (Nanos(1)..=MOST).contains(time));
    some.ok_or_else(|| {
        "expected milliseconds, or a time such as \"2 s\", of at most an hour".to_owned()
    })
}

fn type_of_service(text: &str) -> Result<u64, String> {
    letters::type_of_service(text)
        .ok_or_else(|| "expected a byte, such as 0xb8, whose two lowest bits are 0".to_owned())
}

/// Shortest span of a line: workers report their counts every 100 ms.
const SHORTEST_LINE: Nanos = Nanos::from_millis(100);

/// Measures with a line each second, then prints the result.
pub(crate) fn run(args: &ToArgs, global: Global) -> Outcome {
    args.logfile.as_deref().map_or(Ok(()), output::append_to)?;
    args.iperf3.notes.iter().for_each(|note| eprintln!("{note}"));
    let family = match (args.ipv4, args.ipv6) {
        (true, _) => Family::V4,
        (_, true) => Family::V6,
        _ => Family::Any,
    };
    let (omit, given) = (args.omit, args.given()?);
    let duration = args.duration(&given)?;
    let served: Vec<PathBuf> = args.file(&given).into_iter().collect();
    let draft = drafts::path(&PathLoad {
        workload: args.mode().workload,
        direction: args.bidir.then_some("both").or(args.reverse.then_some("rx")),
        duration,
        warmup: omit,
        is_bound: args.bind_dev.is_some(),
        given: &given,
    })?;
    if let Some(server) = foreign::iperf3_server(&args.host) {
        return iperf3_server::run(args, (server, family), (&draft, &given[..]), global);
    }
    if let Some(reflector) = reflector(&args.host) {
        return stamp::run(args, (reflector, family), (&draft, &given[..]), global);
    }
    let towards = Towards {
        host: &args.host,
        port: args.port,
        family,
        local: args.bind,
        device: args.bind_dev.as_deref(),
        cpus: args.affinity.unwrap_or_default(),
        patience: args.patience,
        push: args.push.as_ref().map(|file| Push { file: file.as_deref() }),
        reach: args.reach.as_deref(),
    };
    // A token works once, so all that may be wrong is checked before.
    let (found, plan) = PlanText::drafted("to", &draft)?;
    checks::trials(&found, &plan, &testbeds::loopback(family == Family::V6))?;
    if args.token.is_some() {
        pair::with_agent(&towards.agent_address()?)?;
    }
    let ground = testbeds::to_host(&towards)?;
    let congestion = drafts::given_value(&given, "congestion").and_then(Value::as_str);
    let window = drafts::given_value(&given, "window").and_then(Value::as_str);
    let asked = PathAsked {
        workload: args.mode().workload,
        is_reverse: args.reverse,
        congestion,
        offered: args.offered(&draft, &given),
        window: window.and_then(|size| size.parse().ok()),
        omit,
        duration: drafts::ended_by(&given).is_none().then_some(duration),
    };
    let mut lines = LiveLines::new(args.span(omit + duration), omit + duration);
    let shows = !global.quiet && !global.json;
    let mut printer = Printer {
        table: LiveTable::new(&LiveForm {
            kind: args.kind(),
            is_both: args.bidir,
            omit,
            title: args.title.as_deref(),
            unit: args.unit.as_deref(),
        }),
        shows,
        shows_lines: shows && args.interval > Nanos(0),
        printed: Vec::new(),
        hosts: Vec::new(),
    };
    let console = global.console();
    let view = View::new("to", console);
    let kept: (_, &[PathBuf], _) = (args.ledger.as_deref(), &served, view.live());
    let watch = &mut |event: Progress<'_>| match event {
        Progress::HostJoined { record } => printer.hosts.push(record.clone()),
        Progress::TrialStarted { trial, .. } => printer.begin(&ground, trial, &asked),
        Progress::Intervals { side, intervals, .. } => printer.print(lines.take(side, intervals)),
        Progress::TrialEnded { outcome, .. } => printer.print(lines.rest(outcome)),
        event => console.notice(&event),
    };
    let measured = args.wait.when_free(|| measure::drafted("to", &draft, &ground, kept, watch));
    // The lines that it held come before the result.
    drop(view);
    printer.print(lines.rest(TrialOutcome::Interrupted));
    let printed = &printer.printed;
    let (campaign, summary) = match measured {
        Ok(measured) => measured,
        Err(failure) => {
            // A full disk must not take the figures that were printed line by line.
            if global.json {
                let (message, exit) = (failure.message(), failure.exit().code());
                output::document("error", path::failed(&message, exit, printed));
            } else if !printed.is_empty() {
                let cut = Some(PathCut::NotRecorded);
                print!("\n{}", path_lines::summary(None, printed, cut, &asked).text());
            }
            return Err(failure);
        }
    };
    let study = study(&campaign);
    let asked_long = Asked { host: &args.host, congestion, offered: asked.offered, lines: printed };
    let answer = path::document(&campaign, &study, &asked_long);
    let cut = path_lines::cut_of(&summary, &campaign);
    let mut text = path_lines::summary(Some((&campaign, &study)), printed, cut, &asked).text();
    if global.verbose {
        text += &format!("\n{}", linerate_report::text::whole(&answer));
    }
    reports::measured((&answer, &text), &campaign, &study, &args.saved, global)?;
    reports::end(&campaign, &study, &summary, global)
}

impl ToArgs {
    fn mode(&self) -> Mode {
        let is_udp = self.is_udp || reflector(&self.host).is_some();
        let name = if is_udp { "udp" } else { self.mode.name };
        *MODES.iter().find(|mode| mode.name == name).expect("it is one of them")
    }

    /// Returns the time between two lines of a load that lasts until `loaded`.
    fn span(&self, loaded: Nanos) -> Nanos {
        match self.interval {
            // As with iperf3, one line has all of it.
            Nanos(0) => loaded,
            // Workers report every 100 ms, so shorter lines would be empty.
            interval => interval.max(SHORTEST_LINE),
        }
    }

    fn kind(&self) -> LoadKind {
        match self.mode().name {
            "tcp" => LoadKind::Stream,
            "udp" => LoadKind::Datagrams,
            _ => LoadKind::Requests,
        }
    }

    /// Returns the planned length of the measurement. A load with an end of its own ends before.
    fn duration(&self, given: Given<'_>) -> Result<Nanos, Failure> {
        const USUAL: Nanos = Nanos::from_secs(10);
        if self.file(given).is_some() && (self.reverse || self.bidir) {
            return Err(Failure::wrong(
                "to: -F sends a file of this host, and no host sends its files to another one on \
                    request: leave out -R or --bidir",
            ));
        }
        let Some(ended_by) = drafts::ended_by(given) else {
            return Ok(self.seconds.unwrap_or(USUAL));
        };
        // Of two ends, the reader of a figure would have to find out which one came first. A file
        // may be longer than a person wants to wait.
        if self.seconds.is_some() && ended_by.option != SENT_FILE {
            return Err(Failure::wrong(format!(
                "to: a measurement has one end: {} or -t",
                ended_by.typed()
            )));
        }
        if self.omit > Nanos(0) {
            return Err(Failure::wrong(format!(
                "to: {} counts from the start: leave out -O",
                ended_by.typed()
            )));
        }
        Ok(self.seconds.unwrap_or(drafts::LONGEST))
    }

    /// Returns the file that is sent.
    fn file(&self, given: Given<'_>) -> Option<PathBuf> {
        drafts::given_value(given, SENT_FILE).and_then(Value::as_str).map(PathBuf::from)
    }

    /// Returns the options that are parameters.
    fn given(&self) -> Result<Vec<(&'static Setting, Value)>, Failure> {
        let dscp = OF_TO.iter().find(|setting| setting.option == "dscp");
        let tos = dscp.zip(self.tos.map(Value::from));
        let mut given = self.settings.given("to", self.mode().workload)?;
        for (setting, value) in &mut given {
            if let (SENT_FILE, Some(path)) = (setting.option, value.as_str()) {
                // The ledger keeps a path that means the same in every folder.
                let whole = std::fs::canonicalize(path)
                    .map_err(|error| Failure::missing(format!("to -F {path}: {error}")))?;
                *value = whole.display().to_string().into();
            }
        }
        Ok(given.into_iter().chain(tos).collect())
    }

    /// Returns the offered load of datagrams.
    fn offered(&self, draft: &Draft, given: Given<'_>) -> Offered {
        let is_given = drafts::given_value(given, "bitrate").is_some();
        match drafts::rate(draft) {
            _ if self.mode().name != "udp" => Offered::NoDatagrams,
            None => Offered::Unlimited,
            Some(rate) if is_given => Offered::Chosen(rate),
            Some(rate) => Offered::Default(rate),
        }
    }
}

/// Printer of the header and of complete lines.
struct Printer {
    table: LiveTable,
    /// False if nobody reads the header.
    shows: bool,
    /// False if nobody reads lines.
    shows_lines: bool,
    printed: Vec<LiveLine>,
    hosts: Vec<HostRecord>,
}

impl Printer {
    /// Prints the header, once all hosts have joined.
    fn begin(&mut self, ground: &Ground, trial: &TrialSpec, asked: &PathAsked<'_>) {
        let (capacities, testbed) = (ground.capacities.clone(), ground.kind);
        let header = CampaignHeader { capacities, testbed, ..CampaignHeader::default() };
        let direction = if asked.is_reverse { Direction::Rx } else { Direction::Tx };
        let ceiling = planned_ceiling(&header, &self.hosts, trial, direction);
        let ceiling = ceiling.map(|ceiling| ceiling.value);
        self.table.set_ceiling(ceiling);
        let [from, to, ..] = &ground.testbed.endpoints[..] else { return };
        output::event("start", || path::start([from, to], trial, ceiling));
        if self.shows {
            print!("{}", path_lines::header([from, to], &self.hosts, asked).text());
        }
    }

    fn print(&mut self, lines: Vec<LiveLine>) {
        lines.iter().for_each(|line| output::event("interval", || path::line(line)));
        if self.shows_lines {
            lines.iter().for_each(|line| print!("{}", self.table.line(line)));
        }
        self.printed.extend(lines);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_to_connect_is_in_milliseconds_or_has_a_unit_and_ends_after_an_hour() {
        let read = |text| milliseconds(text).ok();
        assert_eq!(read("1500"), Some(Nanos::from_millis(1500)));
        assert_eq!(read("2 s"), Some(Nanos::from_secs(2)));
        assert_eq!(read("3600000"), Some(Nanos::from_secs(3_600)));
        for wrong in ["0", "3600001", "18446744073710", "18446744073709551616", "2 h", "x"] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }
}
