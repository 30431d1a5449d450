//! Commands and their arguments.

use std::io::IsTerminal;
use std::path::PathBuf;
use std::sync::OnceLock;

use clap::{ArgMatches, Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};

use crate::commands::diagnose::DiagnoseArgs;
use crate::commands::disk::DiskArgs;
use crate::commands::flows::FlowsArgs;
use crate::commands::import::ImportArgs;
use crate::commands::limit;
use crate::commands::pair::PairArgs;
use crate::commands::serve::ServeArgs;
use crate::commands::tune::host::TuneHostArgs;
use crate::commands::tune::profile::ProfileArgs;
use crate::commands::tune::window::WindowArgs;
use crate::exit::Failure;

/// Find out how fast a machine moves data, what each packet costs, what theory would allow, and what is in the way.
#[derive(Debug, Parser)]
#[command(name = "linerate", version, propagate_version = true, disable_help_subcommand = true)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Options of every command.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct Global {
    /// Print one JSON document on standard output and nothing else there
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Print only results and errors
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub(crate) quiet: bool,
    /// Print more of what is done
    #[arg(short, long, global = true)]
    pub(crate) verbose: bool,
    /// When to use colour
    #[arg(long, global = true, value_enum, default_value_t = Color::Auto)]
    pub(crate) color: Color,
}

/// When to use colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Color {
    /// On a terminal, unless NO_COLOR is set.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a short characterization in a lab of its own and write the report
    Demo(DemoArgs),
    /// Run a plan: a file, or the name of a preset (see `linerate list plans`)
    Run(RunArgs),
    /// Measure the path to a host, now, with the letters iperf3 users know
    To(ToArgs),
    /// Serve files to other programs (curl, wget, lftp, browsers) and measure what they take
    Serve(ServeArgs),
    /// Validate and expand a plan: its trials and how long they take
    Plan(PlanArgs),
    /// Study a ledger and write the report
    Report(ReportArgs),
    /// Set one recorded campaign against another: what got worse, what cannot be told, and what differs around them
    ///
    /// Exit 1 if something got worse, 0 if nothing did.
    Compare(CompareArgs),
    /// Run a paper's tests on emulated testbeds and check the shapes of its results
    Reproduce(ReproduceArgs),
    /// Recompute a paper's printed figures and list what disagrees
    Replay(ReplayArgs),
    /// Say what limits a path, and prove it by experiments beside a placebo
    Diagnose(DiagnoseArgs),
    /// Change a setting with consent, prove what it does, and put it back
    Tune(TuneArgs),
    /// Print a ceiling with its derivation
    Limit,
    /// Choose ports so that flows go on chosen members of a group, find where they go, and judge how they are spread
    Flows(FlowsArgs),
    /// Be measured from elsewhere
    Agent(AgentArgs),
    /// Exchange keys with another host, once, with a one-time token
    Pair(PairArgs),
    /// Build, list, enter and remove emulated testbeds
    Lab(LabArgs),
    /// Check a ledger for damage, and save what can be read of a damaged one
    Ledger(LedgerArgs),
    /// List disks, load one, and give or end the consent to write to one
    Disk(DiskArgs),
    /// Turn a foreign job file into a plan, and tell what becomes of each of its keys
    ///
    /// A key that would change the load and cannot be had here is refused: then there is no plan, and exit 2. An imported plan carries no
    /// consent to write.
    Import(ImportArgs),
    /// Talk NC-SI to the network controller behind a BMC's sideband (reads only, unless --allow-set)
    ///
    /// Asks through the kernel's own NC-SI stack (generic netlink) where that owns the interface, in raw frames elsewhere, and says
    /// which and why.
    Ncsi(NcsiArgs),
    /// Print what this host is
    Facts,
    /// Print what this host can and cannot measure, with the tool's own ceiling
    Doctor,
    /// Print a registry
    List(ListArgs),
    /// Print shell completions
    #[command(hide = true)]
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Print the manual page
    #[command(hide = true)]
    Man,
    /// Put back what an agent has changed here, when the standard input ends
    #[command(hide = true)]
    Restore,
    /// Write the reference, page by page
    #[command(hide = true)]
    Reference {
        /// The folder
        out: PathBuf,
    },
}

/// Where a report goes and in which formats.
#[derive(Clone, Debug, Args)]
pub(crate) struct Output {
    /// Formats of the report
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [ReportFormat::Html])]
    pub(crate) format: Vec<ReportFormat>,
    /// Folder for the report
    #[arg(long, default_value = ".")]
    pub(crate) out: PathBuf,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ReportFormat {
    /// One self-contained page
    Html,
    /// One file a table
    Csv,
    /// A workbook with native charts
    Xlsx,
    /// Markdown
    Md,
    /// The study, as of its schema
    Json,
    /// Storage jobs, as fio writes its JSON
    FioJson,
    /// Storage jobs, as Iometer writes its results.csv
    IometerCsv,
}

#[derive(Debug, Args)]
pub(crate) struct DemoArgs {
    /// Folder for the ledger and the report
    #[arg(long, default_value = "linerate-demo")]
    pub(crate) out: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// A plan file, or the name of a preset
    pub(crate) plan: String,
    /// Use the preset's short variant: fewer points and repeats
    #[arg(long)]
    pub(crate) quick: bool,
    #[command(flatten)]
    pub(crate) place: Place,
    /// The ledger to write to; a campaign in it is resumed with --resume [default: NAME.ledger]
    #[arg(long)]
    pub(crate) ledger: Option<PathBuf>,
    /// Change the plan: `campaign.repeats=3`, `duration="2 s"`, `SWEEP.duration="2 s"`
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
    /// Go on with the newest campaign of the ledger that has this plan
    #[arg(long)]
    pub(crate) resume: bool,
    #[command(flatten)]
    pub(crate) output: Output,
}

/// What is measured between.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct Place {
    /// A lab file or preset: hosts emulated on this machine
    #[arg(long, conflicts_with_all = ["testbed", "to"])]
    pub(crate) lab: Option<String>,
    /// A testbed file: hosts, endpoints and CPUs by name
    #[arg(long, conflicts_with = "to")]
    pub(crate) testbed: Option<PathBuf>,
    /// A host with an agent: endpoint `b` is there, `a` is here
    #[arg(long, value_name = "HOST")]
    pub(crate) to: Option<String>,
}

#[derive(Debug, Args)]
#[command(disable_help_flag = true)]
pub(crate) struct ToArgs {
    /// Print help
    #[arg(long, action = clap::ArgAction::Help)]
    help: Option<bool>,
    /// A host with an agent (`host` or `host:port`), `ssh:HOST` to start one there, or `loopback`
    pub(crate) host: String,
    /// What to measure
    #[arg(value_enum, default_value_t = ToMode::Tcp)]
    pub(crate) mode: ToMode,
    /// Seconds to measure
    #[arg(short = 't', long = "time", default_value_t = 10.0)]
    pub(crate) seconds: f64,
    /// Seconds before the measurement that do not count
    #[arg(short = 'O', long = "omit", default_value_t = 0.0)]
    pub(crate) omit: f64,
    /// Streams at once
    #[arg(short = 'P', long = "parallel", default_value_t = 1)]
    pub(crate) parallel: u32,
    /// The host sends, this end receives
    #[arg(short = 'R', long, conflicts_with = "bidir")]
    pub(crate) reverse: bool,
    /// Both ends send
    #[arg(long)]
    pub(crate) bidir: bool,
    /// Bytes a message or datagram; K, M are 1024 and 1024^2
    #[arg(short = 'l', long = "length")]
    pub(crate) length: Option<String>,
    /// Socket buffers, both ends; K, M are 1024 and 1024^2
    #[arg(short = 'w', long = "window")]
    pub(crate) window: Option<String>,
    /// Bits a second of each direction, all streams together; K, M, G are decimal, 0 is no limit (udp: 1M unless given; tcp: no limit
    /// unless given, paced by the kernel)
    #[arg(short = 'b', long = "bitrate")]
    pub(crate) bitrate: Option<String>,
    /// Congestion control at both ends [default: each host's own]
    #[arg(short = 'C', long = "congestion")]
    pub(crate) congestion: Option<String>,
    /// Send small messages at once
    #[arg(short = 'N', long)]
    pub(crate) no_delay: bool,
    /// TCP maximum segment size, bytes
    #[arg(short = 'M', long = "set-mss")]
    pub(crate) mss: Option<u32>,
    /// Differentiated services code point, 0 to 63
    #[arg(long)]
    pub(crate) dscp: Option<u8>,
    /// Send without copying (sendfile)
    #[arg(short = 'Z', long)]
    pub(crate) zerocopy: bool,
    /// Address of this end to use
    #[arg(short = 'B', long = "bind")]
    pub(crate) bind: Option<std::net::IpAddr>,
    /// Seconds between the lines
    #[arg(short = 'i', long = "interval", default_value_t = 1.0)]
    pub(crate) interval: f64,
    /// Use IPv6
    #[arg(short = '6', long = "ipv6")]
    pub(crate) ipv6: bool,
    /// Keep what was measured in this ledger
    #[arg(long)]
    pub(crate) ledger: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ToMode {
    /// TCP goodput
    Tcp,
    /// UDP goodput, loss and order
    Udp,
    /// TCP request and response
    Rr,
    /// TCP connect, request, response, close
    Crr,
    /// UDP request and response
    UdpRr,
}

#[derive(Debug, Args)]
pub(crate) struct PlanArgs {
    /// A plan file, or the name of a preset
    pub(crate) plan: String,
    /// Use the preset's short variant: fewer points and repeats
    #[arg(long)]
    pub(crate) quick: bool,
    #[command(flatten)]
    pub(crate) place: Place,
    /// Change the plan, as for `run`
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
    /// Print the plan's text and nothing else
    #[arg(long)]
    pub(crate) show: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ReportArgs {
    /// A ledger; `LEDGER#ID` names one campaign of it, else the newest
    pub(crate) ledger: String,
    #[command(flatten)]
    pub(crate) output: Output,
}

#[derive(Debug, Args)]
pub(crate) struct LedgerArgs {
    #[command(subcommand)]
    pub(crate) action: LedgerAction,
}

#[derive(Debug, Subcommand)]
pub(crate) enum LedgerAction {
    /// Compare the file and each record with their digests and name what is damaged
    ///
    /// Exit 0 if nothing is, 3 if something is.
    Check {
        /// The ledger
        ledger: PathBuf,
    },
    /// Copy every undamaged record into a new ledger; trials that lost a record are run again by `run --resume`
    Salvage {
        /// The damaged ledger; it is not changed
        ledger: PathBuf,
        /// The new ledger
        to: PathBuf,
    },
}

#[derive(Debug, Args)]
pub(crate) struct CompareArgs {
    /// The ledger to compare with; `LEDGER#ID` names one campaign of it, else the newest
    pub(crate) before: String,
    /// The ledger to compare
    pub(crate) after: String,
    /// A ledger that repeats the first campaign: what they differ by is the noise floor
    #[arg(long, value_name = "LEDGER")]
    pub(crate) again: Option<String>,
    /// A change smaller than this is none
    #[arg(long, value_name = "RATIO", default_value_t = linerate_model::plan::DEFAULT_MARGIN)]
    pub(crate) margin: linerate_model::Ratio,
    /// Formats of the report
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [ReportFormat::Html])]
    pub(crate) format: Vec<ReportFormat>,
    /// Folder for the report
    #[arg(long, default_value = "linerate-compare")]
    pub(crate) out: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct ReproduceArgs {
    /// The paper
    pub(crate) paper: Paper,
    /// A shorter run: fewer points and repeats
    #[arg(long)]
    pub(crate) quick: bool,
    /// Folder for the ledgers and the report
    #[arg(long)]
    pub(crate) out: Option<PathBuf>,
    /// Go on with the ledgers already in that folder: what they have is judged again and not run again
    #[arg(long)]
    pub(crate) resume: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Paper {
    /// Cisco, UCS VIC 1240/1280 on RHEL 6.2 (2012)
    CiscoVic,
    /// HP 9000 N4000, FTP over Gigabit Ethernet (1999)
    HpFtp,
    /// IDT, 89PES24T6G2 PCI Express switch: Ethernet and storage
    IdtPcie,
    /// Intel, NC-SI overview and performance (2013)
    IntelNcsi,
    /// Sun, NetFrame (2001)
    SunNetframe,
}

#[derive(Debug, Args)]
pub(crate) struct ReplayArgs {
    /// The paper, or `all`
    pub(crate) paper: String,
}

#[derive(Debug, Args)]
pub(crate) struct NcsiArgs {
    /// What to ask
    pub(crate) verb: NcsiVerb,
    /// The BMC's interface on the sideband
    #[arg(long, short = 'i', value_name = "IF")]
    pub(crate) interface: String,
    /// Package, 0 to 7
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=7))]
    pub(crate) package: u8,
    /// Channel of the package, 0 to 30
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=30))]
    pub(crate) channel: u8,
    /// Allow commands that change the controller's state
    #[arg(long)]
    pub(crate) allow_set: bool,
    /// Send raw frames even where the kernel's NC-SI stack owns the interface (either may take the other's answers)
    #[arg(long)]
    pub(crate) force_raw: bool,
    /// With watch: lines to print [default: until interrupted]
    #[arg(long)]
    pub(crate) count: Option<u64>,
}

/// What `linerate ncsi` asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum NcsiVerb {
    /// Which packages and channels there are
    Discover,
    /// What a channel can do, and how much it can hold
    Capabilities,
    /// Standard, firmware and manufacturer
    Version,
    /// What is set
    Parameters,
    /// The link
    Link,
    /// All three groups of statistics
    Stats,
    /// Pass-through statistics as rates, a line a second
    Watch,
    /// Bring a channel up (needs --allow-set)
    Configure,
}

#[derive(Debug, Args)]
pub(crate) struct AgentArgs {
    /// Address to listen on; beyond loopback only with a paired key [default: every address when paired, else loopback]
    #[arg(long)]
    pub(crate) listen: Option<String>,
    /// Speak on standard input and output, for ssh
    #[arg(long, conflicts_with = "listen")]
    pub(crate) stdio: bool,
    /// Folder of the keys
    #[arg(long, env = "LINERATE_KEYS")]
    pub(crate) keys: Option<PathBuf>,
    /// What paired conductors may do here [default: /etc/linerate/agent.toml if it exists; with --stdio, whatever this user may]
    #[arg(long, value_name = "FILE")]
    pub(crate) policy: Option<PathBuf>,
    /// Let a conductor change the windows of this device's routes and where and how its work is done (RPS, XPS, threaded NAPI, GRO, GSO, TSO, coalescing, rings, interrupts), or with `host` tcp_rmem, tcp_wmem, the congestion control and the CPU quota of the agent's control group; put back when it leaves
    #[arg(long, value_name = "DEVICE")]
    pub(crate) allow_tune: Vec<String>,
    /// Let a conductor's jobs write to the disk with this serial number, once it is claimed (linerate disk claim)
    #[arg(long, value_name = "SERIAL")]
    pub(crate) allow_write: Vec<String>,
    /// Let a conductor's jobs send the files in this folder to whoever asks for them (`root` of the `ftp` and `http` workloads)
    #[arg(long, value_name = "FOLDER")]
    pub(crate) allow_serve: Vec<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct TuneArgs {
    #[command(subcommand)]
    pub(crate) action: TuneAction,
}

#[derive(Debug, Subcommand)]
pub(crate) enum TuneAction {
    /// Find the receive window that a shallow buffer survives, apply the narrowest setting that gives it, and prove what it does
    Window(WindowArgs),
    /// Try settings of both hosts of a path, each predicted, proven by pairs beside a placebo, and put back; write a profile of what helps
    Host(TuneHostArgs),
    /// Make this host as a profile says, where it still is as the profile found it
    Apply(ProfileArgs),
    /// Say whether this host is as a profile says
    Check(ProfileArgs),
    /// Put back what a profile changed on this host, where it still is as the profile made it
    Revert(ProfileArgs),
    /// Put back what an agent that was killed here has left changed
    Restore,
}

#[derive(Debug, Args)]
pub(crate) struct LabArgs {
    #[command(subcommand)]
    pub(crate) action: LabAction,
}

#[derive(Debug, Subcommand)]
pub(crate) enum LabAction {
    /// Build a lab and leave it standing; one with delays, faults, controllers or CPU shares as long as the command runs
    Up {
        /// A lab file, or the name of a preset
        lab: String,
    },
    /// Remove a lab that was left standing
    Down {
        /// Its name
        lab: String,
    },
    /// Print the labs that stand
    List,
    /// Run a command on a host of a standing lab
    Exec {
        /// Its name
        lab: String,
        /// The host
        host: String,
        /// The command
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
        command: Vec<String>,
    },
    /// Remove what killed processes left behind
    Reap,
}

#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// Which
    #[arg(value_enum)]
    pub(crate) what: Registry,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Registry {
    /// Kinds of stimulus and their parameters
    Workloads,
    /// Readings taken during a trial
    Samplers,
    /// Calculators of ceilings
    Limits,
    /// Diagnosis rules
    Rules,
    /// Sections of a report
    Sections,
    /// Plans that come with linerate
    Plans,
    /// Labs that come with linerate
    Labs,
    /// Measurables
    Metrics,
}

/// A command line as read: the arguments, and the matches of `limit`, whose options come from its registry.
#[derive(Debug)]
pub(crate) struct Invocation {
    pub(crate) cli: Cli,
    pub(crate) limit: Option<ArgMatches>,
}

/// The whole command line, registries included.
pub(crate) fn command() -> clap::Command {
    Cli::command().mut_subcommand("limit", |command| {
        command.subcommand_required(true).arg_required_else_help(true).subcommands(limit::subcommands())
    })
}

/// Reads the command line; help, version and mistakes end the program as clap does (mistakes with exit code 2).
pub(crate) fn parse() -> Result<Invocation, Failure> {
    let matches = command().get_matches();
    let cli = Cli::from_arg_matches(&matches).map_err(|error| Failure::wrong(error.to_string()))?;
    COLOR.get_or_init(|| match cli.global.color {
        Color::Always => true,
        Color::Never => false,
        Color::Auto => std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty()),
    });
    let limit = matches.subcommand_matches("limit").cloned();
    Ok(Invocation { cli, limit })
}

static COLOR: OnceLock<bool> = OnceLock::new();

/// Whether messages are coloured.
pub(crate) fn color() -> bool {
    COLOR.get().copied().unwrap_or(false)
}
