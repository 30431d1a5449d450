//! `linerate to HOST`: one measurement of the path to a host.

use std::path::PathBuf;

use clap::Args;
use linerate_agent::commands::pair;
use linerate_analysis::live::{LiveLine, LiveLines};
use linerate_answers::path::{self, Asked};
use linerate_answers::path_lines::{self, PathAsked};
use linerate_answers::path_progress::{PathEvent, PathEventKind, PathProgress};
use linerate_campaign::catalog::PlanText;
use linerate_campaign::conduct::Measured;
use linerate_campaign::drafts::{MODES, Mode};
use linerate_campaign::path::{PathQuestion, completed, mode_of};
use linerate_campaign::push::Push;
use linerate_campaign::testbeds::{self, Family, Towards};
use linerate_campaign::{checks, conduct, letters};
use linerate_control::Progress;
use linerate_model::{Nanos, TrialOutcome};
use linerate_report::live::{LiveForm, PathCut};
use linerate_view::View;

use crate::args::{Global, REACH, Saved, one_of, read_by, time};
use crate::commands::measure::WaitArgs;
use crate::exit::{Failure, Outcome};
use crate::iperf3::Iperf3Options;
use crate::output::{self, CONSOLE};
use crate::parameters::{SettingOptions, ToSettings};
use crate::reports;

mod other_ends;

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
    #[arg(short = 'S', long, conflicts_with = "dscp", value_parser = read_by(
        letters::type_of_service, "a byte, such as 0xb8, whose two lowest bits are 0"))]
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
    #[arg(long = "connect-timeout", value_name = "MS", value_parser = read_by(
        letters::milliseconds, "milliseconds, or a time such as \"2 s\", of at most an hour"))]
    patience: Option<Nanos>,
    /// stamp: authenticate packets by the key in this file, in hexadecimal digits
    #[arg(long, value_name = "FILE")]
    auth_key: Option<PathBuf>,
    /// iperf3: user, whose password is in the environment variable IPERF3_PASSWORD
    #[arg(long, value_name = "USER", requires = "rsa_public_key_path")]
    username: Option<String>,
    /// iperf3: encrypt the password for the server's public RSA key in this file (PEM)
    #[arg(long, value_name = "FILE", requires = "username")]
    rsa_public_key_path: Option<PathBuf>,
    /// iperf3: encrypt the password as iperf3 before 3.17 does
    #[arg(long, requires = "username")]
    use_pkcs1_padding: bool,
    /// CPU of this end's workers, and of the other end's
    #[arg(short = 'A', long, value_name = "CPU[,CPU]", value_parser = read_by(
        letters::cpus, "the CPU of this end, or CPU,CPU of both ends"))]
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

/// Measures with a line each second, then prints the result.
pub(crate) fn run(args: &ToArgs, global: Global) -> Outcome {
    args.logfile.as_deref().map_or(Ok(()), output::append_to)?;
    args.iperf3.notes.iter().for_each(|note| eprintln!("{note}"));
    let question = args.question()?;
    let draft = question.draft()?;
    if let Some(outcome) = other_ends::run(args, &question, &draft, global) {
        return outcome;
    }
    let towards = args.towards();
    // A token works once, so all that may be wrong is checked before.
    let (found, plan) = PlanText::drafted("to", &draft)?;
    checks::trials(&found, &plan, &testbeds::loopback(towards.family == Family::V6))?;
    if args.token.is_some() {
        pair::with_agent(&towards.agent_address()?, CONSOLE)?;
    }
    let ground = testbeds::to_host(&towards)?;
    let asked = PathAsked::of(&question, &draft)?;
    let form = LiveForm {
        kind: asked.kind(),
        is_both: args.bidir,
        omit: args.omit,
        title: args.title.as_deref(),
        unit: args.unit.as_deref(),
    };
    let loaded = args.omit + question.planned()?;
    let lines = LiveLines::new(question.span(loaded), loaded);
    let mut progress = PathProgress::new(&ground, asked, &form, lines);
    let console = global.console();
    let view = View::new("to", console);
    let served = Vec::from_iter(question.file());
    let kept: (_, &[PathBuf], _) = (args.ledger.as_deref(), &served, view.live());
    let watch = &mut |event: Progress<'_>| match progress.events(&event) {
        Some(events) => args.print(&events, global),
        None => console.notice(&event),
    };
    let measured = args.wait.when_free(|| conduct::drafted("to", &draft, &ground, kept, watch));
    // The lines that it held come before the result.
    drop(view);
    args.print(&progress.rest(TrialOutcome::Interrupted), global);
    let lines = progress.complete();
    let Measured { campaign, study, summary } =
        measured.inspect_err(|failure| print_failed(failure, lines, &asked, global))?;
    let PathAsked { congestion, offered, .. } = asked;
    let answer =
        path::document(&campaign, &study, &Asked { host: &args.host, congestion, offered, lines });
    let cut = path_lines::cut_of(&summary, &campaign);
    let mut text = path_lines::summary(Some((&campaign, &study)), lines, cut, &asked).text();
    if global.verbose {
        text += &format!("\n{}", linerate_report::text::whole(&answer));
    }
    reports::measured((&answer, &text), &campaign, &study, &args.saved, global)?;
    reports::end(&campaign, &study, &summary, global)
}

/// Prints what is known of a measurement without a result: a full disk must not take the figures
/// that were printed line by line.
fn print_failed(failure: &Failure, lines: &[LiveLine], asked: &PathAsked<'_>, global: Global) {
    if global.json {
        let (message, exit) = (failure.message(), failure.exit().code());
        output::document("error", path::failed(&message, exit, lines));
    } else if !lines.is_empty() {
        let cut = Some(PathCut::NotRecorded);
        print!("\n{}", path_lines::summary(None, lines, cut, asked).text());
    }
}

impl ToArgs {
    fn question(&self) -> Result<PathQuestion, Failure> {
        let mode = mode_of(self.mode, self.is_udp, &self.host);
        Ok(PathQuestion {
            mode,
            is_reverse: self.reverse,
            is_both: self.bidir,
            seconds: self.seconds,
            omit: self.omit,
            interval: self.interval,
            is_bound: self.bind_dev.is_some(),
            given: completed(self.settings.given("to", mode.workload)?, self.tos)?,
        })
    }

    fn family(&self) -> Family {
        match (self.ipv4, self.ipv6) {
            (true, _) => Family::V4,
            (_, true) => Family::V6,
            _ => Family::Any,
        }
    }

    fn towards(&self) -> Towards<'_> {
        Towards {
            host: &self.host,
            port: self.port,
            family: self.family(),
            local: self.bind,
            device: self.bind_dev.as_deref(),
            cpus: self.affinity.unwrap_or_default(),
            patience: self.patience,
            push: self.push.as_ref().map(|file| Push { file: file.as_deref() }),
            reach: self.reach.as_deref(),
        }
    }

    /// Prints the header and the lines that somebody reads.
    fn print(&self, events: &[PathEvent], global: Global) {
        for PathEvent { kind, data, text } in events {
            output::event(kind.name(), || data.clone());
            let is_wanted = *kind == PathEventKind::Start || self.interval > Nanos(0);
            if is_wanted && !global.quiet && !global.json {
                print!("{text}");
            }
        }
    }
}
