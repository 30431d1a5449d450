//! `linerate ncsi`: identity, capabilities and counters of the network controller behind a
//! sideband.
//!
//! It only reads, except with `--allow-set`. It asks through the kernel's NC-SI stack where that
//! owns the interface, and in raw frames elsewhere; each answer names the transport and the reason.

use clap::{Args, ValueEnum};
use linerate_answers::controller::{self as answers, Source, remarks};
use linerate_observe::ncsi::{
    Address, Controller, Failure as Unanswered, Preference, Reply, Transport, survey,
};
use linerate_packet::ncsi::{Command, Outcome, Reason};
use linerate_sys::SysError;
use rustix::io::Errno;

mod watch;

use crate::args::{Global, Saved};
use crate::exit::{Exit, Failure, Outcome as Ended};
use crate::reports;

#[derive(Debug, Args)]
pub(crate) struct NcsiArgs {
    /// Question to the controller
    pub(crate) verb: NcsiVerb,
    /// Interface of the BMC on the sideband
    #[arg(long, short = 'i', value_name = "IF")]
    pub(crate) interface: String,
    /// Package number, 0 to 7
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=7))]
    pub(crate) package: u8,
    /// Channel number in the package, 0 to 30
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=30))]
    pub(crate) channel: u8,
    /// Allow commands that change the controller's state
    #[arg(long)]
    pub(crate) allow_set: bool,
    /// Send raw frames even where the kernel's NC-SI stack owns the interface (each may receive
    /// answers meant for the other)
    #[arg(long)]
    pub(crate) force_raw: bool,
    /// With watch: number of lines [default: until interrupted]
    #[arg(long)]
    pub(crate) count: Option<u64>,
    #[command(flatten)]
    pub(crate) saved: Saved,
}

/// Questions to a controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum NcsiVerb {
    /// Find packages and channels
    Discover,
    /// Capabilities of a channel, and the size of its buffer
    Capabilities,
    /// NC-SI version, firmware and manufacturer
    Version,
    /// Settings of a channel
    Parameters,
    /// State of the link
    Link,
    /// Pass-through, control and port statistics
    Stats,
    /// Rates of the pass-through statistics, one line each second, and notifications (AEN) as they
    /// arrive; --allow-set enables them meanwhile
    Watch,
    /// Bring a channel up (needs --allow-set)
    Configure,
}

/// Asks the question of `args`.
pub(crate) fn run(args: &NcsiArgs, global: Global) -> Ended {
    let device = &args.interface;
    if matches!(args.verb, NcsiVerb::Configure | NcsiVerb::Watch)
        && !args.saved.formats.format.is_empty()
    {
        return Err(Failure::wrong(
            "ncsi: --format writes an answer as a report; configure and watch print lines only",
        ));
    }
    let preference = if args.force_raw { Preference::RawFrames } else { Preference::Safe };
    let mut controller = Controller::open(device, preference).map_err(|error| {
        Failure::missing(format!(
            "{error} (NC-SI needs CAP_NET_RAW, and the interface of the sideband)"
        ))
    })?;
    warn(controller.transport(), device, args.verb);
    let address = Address { package: args.package, channel: args.channel };
    let commands = match args.verb {
        NcsiVerb::Discover => return discover(&mut controller, args, global),
        NcsiVerb::Configure => return configure(&mut controller, args, address),
        NcsiVerb::Watch => return watch::watch(&mut controller, args, address, global),
        NcsiVerb::Capabilities => vec![Command::GetCapabilities],
        NcsiVerb::Version => vec![Command::GetVersion],
        NcsiVerb::Parameters => vec![Command::GetParameters],
        NcsiVerb::Link => vec![Command::GetLinkStatus],
        NcsiVerb::Stats => vec![
            Command::GetPassThroughStatistics,
            Command::GetControlStatistics,
            Command::GetPortStatistics,
        ],
    };
    channel(&mut controller, args, address, commands, global)
}

/// Warns of side effects of the transport.
fn warn(transport: Transport, device: &str, verb: NcsiVerb) {
    if let Some(warning) = transport.warning() {
        eprintln!("warning: {device}: {warning}");
    }
    if transport == Transport::GenericNetlink && verb == NcsiVerb::Capabilities {
        eprintln!(
            "warning: {device}: many kernels mistake this answer for one to a question of their \
                own, \
                and forget their filters until they next configure the channel"
        );
    }
}

/// Asks `command`. The inner error is an answer that the kernel keeps to itself; any other missing
/// answer is a failure.
fn attempt(
    controller: &mut Controller,
    device: &str,
    address: Address,
    command: &Command,
) -> Result<Result<Reply, String>, Failure> {
    let Address { package, channel } = address;
    let whom = format!("package {package} channel {channel} on {device}");
    match controller.ask(address, command).map_err(|error| broken(&error))? {
        Ok(reply) => Ok(Ok(reply)),
        Err(withheld @ (Unanswered::Withheld(_) | Unanswered::NoCommands)) => {
            Ok(Err(format!("ask {whom}: {withheld}")))
        }
        Err(failure) => Err(Failure::missing(format!(
            "ask {whom}: {failure} ({}; is {device} the sideband's interface, is the controller \
                powered, and is it that package and \
             channel? linerate ncsi discover --interface {device})",
            controller.transport().reason()
        ))),
    }
}

/// Returns the failure of a transport that does not work.
fn broken(error: &SysError) -> Failure {
    let denied = error.errno() == Some(Errno::PERM.raw_os_error());
    Failure::missing(if denied {
        format!("{error} (the kernel's NC-SI stack takes commands with CAP_NET_ADMIN only)")
    } else {
        error.to_string()
    })
}

/// Asks `command`, whose answer is needed.
fn ask(
    controller: &mut Controller,
    device: &str,
    address: Address,
    command: &Command,
) -> Result<Reply, Failure> {
    attempt(controller, device, address, command)?.map_err(Failure::missing)
}

/// Asks `commands` one by one and prints the answers.
fn channel(
    controller: &mut Controller,
    args: &NcsiArgs,
    address: Address,
    commands: Vec<Command>,
    global: Global,
) -> Ended {
    let (mut answers, mut refusals) = (Vec::new(), Vec::new());
    for command in commands {
        let answer = attempt(controller, &args.interface, address, &command)?;
        match &answer {
            Ok(reply) if reply.outcome == Outcome::Completed => {}
            Ok(reply) => refusals.push(refusal(&args.interface, reply)),
            Err(why) => refusals.push(why.clone()),
        }
        answers.push((command, answer));
    }
    let source = Source { device: &args.interface, transport: controller.transport() };
    reports::answer(&answers::channel(source, address, &answers), &args.saved, global)?;
    // One group of several that a controller lacks is a gap; a single one is what was asked for.
    match refusals.pop() {
        Some(why) if refusals.len() + 1 == answers.len() => Err(Failure::missing(why)),
        _ => Ok(Exit::Done),
    }
}

fn refusal(device: &str, reply: &Reply) -> String {
    let remedy = if reply.reason == Reason::INITIALIZATION_REQUIRED {
        format!("`linerate ncsi configure --interface {device} --allow-set` brings it up")
    } else {
        format!("`linerate ncsi discover --interface {device}` lists the channels")
    };
    format!("the controller on {device} refused: {} ({remedy})", reply.reason.words())
}

fn discover(controller: &mut Controller, args: &NcsiArgs, global: Global) -> Ended {
    let device = &args.interface;
    let found = survey(controller, args.allow_set).map_err(|error| broken(&error))?;
    if found.is_empty() {
        let why = match controller.transport() {
            Transport::GenericNetlink => format!(
                "the kernel's NC-SI stack owns it and knows no channel (it searches when the \
                    interface \
                    comes up: ip link set {device} up)"
            ),
            Transport::RawFrames(_) => {
                format!(
                    "no controller answered (is {device} the sideband's interface, and is the \
                        controller powered?)"
                )
            }
        };
        return Err(Failure::missing(format!("discover controllers on {device}: {why}")));
    }
    let source = Source { device, transport: controller.transport() };
    reports::answer(&answers::discovered(source, &found), &args.saved, global)?;
    Ok(Exit::Done)
}

/// Brings a channel up in the order that Linux uses, without filters.
fn configure(controller: &mut Controller, args: &NcsiArgs, address: Address) -> Ended {
    if !args.allow_set {
        return Err(Failure::wrong(format!(
            "configure {}: this changes the controller's state, which a running BMC depends on \
                (allow it with --allow-set)",
            args.interface
        )));
    }
    if controller.transport() == Transport::GenericNetlink {
        return Err(Failure::wrong(format!(
            "configure {0}: the kernel's NC-SI stack owns the interface and configures the channel \
                when it comes up (ip link set {0} up; --force-raw does it beside the kernel)",
            args.interface
        )));
    }
    // The order in which Linux brings a channel up.
    let steps = [
        Command::ClearInitialState,
        Command::DisableBroadcastFilter,
        Command::EnableNetworkTx,
        Command::EnableChannel,
    ];
    for command in steps {
        let reply = ask(controller, &args.interface, address, &command)?;
        let word = if reply.outcome == Outcome::Completed { "done" } else { "refused" };
        println!("{word:<8} {command:?}{}", remarks(&reply));
        if reply.outcome != Outcome::Completed {
            return Err(Failure::missing(format!("{command:?}: {}", reply.reason.words())));
        }
    }
    Ok(Exit::Done)
}
