//! `linerate ncsi`: what the network controller behind a sideband is, can do, and has dropped.
//!
//! It only reads: commands that set anything take `--allow-set`. It asks through the kernel's own
//! NC-SI stack where that owns the interface, in raw frames elsewhere, and says which and why.

mod told;

use std::thread::sleep;
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use linerate_observe::ncsi::{
    Address, Controller, Failure as Unanswered, FoundChannel, Preference, Reply, Strays, Transport,
    survey,
};
use linerate_packet::ncsi::{Answer, Command, Outcome, PassThroughStatistics, Reason};
use linerate_report::Document;
use linerate_report::document::{Block, Origin, Section, Table};
use linerate_sys::SysError;
use rustix::io::Errno;
use serde_json::{Map, Value, json};

use crate::args::{Global, Saved};
use crate::exit::{Exit, Failure, Outcome as Ended};
use crate::reports;

use told::{Lines, json_of_found, name_of, of_known, told};

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
    /// Send raw frames even where the kernel's NC-SI stack owns the interface (either may take the
    /// other's answers)
    #[arg(long)]
    pub(crate) force_raw: bool,
    /// With watch: lines to print [default: until interrupted]
    #[arg(long)]
    pub(crate) count: Option<u64>,
    #[command(flatten)]
    pub(crate) saved: Saved,
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

/// How often `watch` asks.
const WATCH_EVERY: Duration = Duration::from_secs(1);

/// Does what `args` ask.
pub(crate) fn run(args: &NcsiArgs, global: Global) -> Ended {
    let device = &args.interface;
    if matches!(args.verb, NcsiVerb::Configure | NcsiVerb::Watch) && !args.saved.format.is_empty() {
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
    match args.verb {
        NcsiVerb::Discover => discover(&mut controller, args, global),
        NcsiVerb::Configure => configure(&mut controller, args, address),
        NcsiVerb::Watch => watch(&mut controller, args, address, global),
        NcsiVerb::Capabilities => {
            one(&mut controller, args, address, &[Command::GetCapabilities], global)
        }
        NcsiVerb::Version => one(&mut controller, args, address, &[Command::GetVersion], global),
        NcsiVerb::Parameters => {
            one(&mut controller, args, address, &[Command::GetParameters], global)
        }
        NcsiVerb::Link => one(&mut controller, args, address, &[Command::GetLinkStatus], global),
        NcsiVerb::Stats => {
            let groups = [
                Command::GetPassThroughStatistics,
                Command::GetControlStatistics,
                Command::GetPortStatistics,
            ];
            one(&mut controller, args, address, &groups, global)
        }
    }
}

/// Says what may go wrong the way the controller is asked.
fn warn(transport: Transport, device: &str, verb: NcsiVerb) {
    if let Some(warning) = transport.warning() {
        eprintln!("warning: {device}: {warning}");
    }
    if transport == Transport::GenericNetlink && verb == NcsiVerb::Capabilities {
        eprintln!(
            "warning: {device}: many kernels take this answer for one to a question of their own \
                and forget which filters they have \
             set, until they next configure the channel"
        );
    }
}

/// Asks. That the kernel keeps the answer to itself is the inner error; without any other answer
/// nothing can go on.
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

/// The way to the controller is broken.
fn broken(error: &SysError) -> Failure {
    let denied = error.errno() == Some(Errno::PERM.raw_os_error());
    Failure::missing(if denied {
        format!("{error} (the kernel's NC-SI stack takes commands with CAP_NET_ADMIN only)")
    } else {
        error.to_string()
    })
}

/// Asks; a refusal that everything depends on is a failure with its remedy.
fn ask(
    controller: &mut Controller,
    device: &str,
    address: Address,
    command: &Command,
) -> Result<Reply, Failure> {
    attempt(controller, device, address, command)?.map_err(Failure::missing)
}

fn one(
    controller: &mut Controller,
    args: &NcsiArgs,
    address: Address,
    commands: &[Command],
    global: Global,
) -> Ended {
    let mut answers = Map::new();
    let (mut refusals, mut tables) = (Vec::new(), Vec::new());
    for command in commands {
        let (name, heading, lines, value) =
            match attempt(controller, &args.interface, address, command)? {
                Ok(reply) => {
                    let (name, lines, value) = told(&reply);
                    let done = reply.outcome == Outcome::Completed;
                    if !done {
                        refusals.push(refusal(&args.interface, &reply));
                    }
                    (if done { name } else { name_of(command) }, remarks(&reply), lines, value)
                }
                Err(why) => {
                    refusals.push(why.clone());
                    let lines = vec![("withheld".to_owned(), why.clone())];
                    (name_of(command), String::new(), lines, json!({ "withheld": why }))
                }
            };
        tables.push(table(name, &format!("{name}{heading}"), lines));
        answers.insert(name.replace([' ', '-'], "_"), value);
    }
    let values =
        json!({ "package": address.package, "channel": address.channel, "answers": answers });
    let title =
        format!("Package {} channel {} on {}", address.package, address.channel, args.interface);
    answer(title, tables, values, controller.transport(), args, global)?;
    // A group of several that a controller lacks is a gap; one alone is what was asked for.
    match refusals.pop() {
        Some(why) if refusals.len() + 1 == commands.len() => Err(Failure::missing(why)),
        _ => Ok(Exit::Done),
    }
}

/// `document`, with the interface and the way it was asked.
fn with_transport(mut document: Value, transport: Transport, device: &str) -> Value {
    document["interface"] = json!(device);
    document["transport"] = json!(transport.name());
    document["transport_reason"] = json!(transport.reason());
    document
}

/// Prints `tables`, or `values`, with the interface and the way it was asked, and writes them as
/// `args` ask.
fn answer(
    title: String,
    tables: Vec<Table>,
    values: Value,
    transport: Transport,
    args: &NcsiArgs,
    global: Global,
) -> Result<(), Failure> {
    let device = &args.interface;
    let how = Block::Paragraph(format!("{device}: {}", transport.reason()));
    let blocks = std::iter::once(how).chain(tables.into_iter().map(Block::Table)).collect();
    let section = Section { id: "answer", title: "Answers", blocks };
    let values = with_transport(values, transport, device);
    let document =
        Document::answer(title, "as the controller answered", Origin::Read, vec![section], values);
    reports::answer(&document, &args.saved, global)
}

/// `lines` as a table; counters that are zero are one row.
fn table(id: &str, caption: &str, lines: Lines) -> Table {
    /// Fewer zeros than this are no crowd.
    const CROWD: usize = 16;
    let n_zeros = lines.iter().filter(|(_, text)| text == "0").count();
    let folded = n_zeros >= CROWD;
    let shown = lines.into_iter().filter(|(_, text)| !folded || text != "0");
    let mut rows: Vec<Vec<String>> = shown.map(|(what, text)| vec![what, text]).collect();
    if folded {
        rows.push(vec![format!("{n_zeros} other counters"), "0".to_owned()]);
    }
    Table::of_words(
        format!("ncsi-{}", id.replace(' ', "-")),
        caption,
        &["property", "value"],
        &rows,
    )
}

fn refusal(device: &str, reply: &Reply) -> String {
    let remedy = if reply.reason == Reason::INITIALIZATION_REQUIRED {
        format!("linerate ncsi configure --interface {device} --allow-set brings it up")
    } else {
        format!("linerate ncsi discover --interface {device} tells what is there")
    };
    format!("the controller on {device} refused: {} ({remedy})", reply.reason.words())
}

/// What was odd about an answer.
fn remarks(reply: &Reply) -> String {
    let Strays { foreign, malformed, checksum, .. } = reply.strays;
    let mut odd = Vec::new();
    if reply.tries > 1 {
        odd.push(format!("answered at try {}", reply.tries));
    }
    for (n, what) in [
        (foreign, "answers to others"),
        (malformed, "broken packets"),
        (checksum, "wrong checksums"),
    ] {
        if n > 0 {
            odd.push(format!("{n} {what} passed over"));
        }
    }
    if odd.is_empty() { String::new() } else { format!(" ({})", odd.join(", ")) }
}

fn discover(controller: &mut Controller, args: &NcsiArgs, global: Global) -> Ended {
    let device = &args.interface;
    let found = survey(controller, args.allow_set).map_err(|error| broken(&error))?;
    if found.is_empty() {
        let why = match controller.transport() {
            Transport::GenericNetlink => format!(
                "the kernel's NC-SI stack owns it and knows no channel (it looks for them when the \
                    interface comes up: ip link set \
                 {device} up)"
            ),
            Transport::RawFrames(_) => {
                format!(
                    "nobody answered (is {device} the sideband's interface, and is the controller \
                        powered?)"
                )
            }
        };
        return Err(Failure::missing(format!("discover controllers on {device}: {why}")));
    }
    let table_of = |one: &FoundChannel| {
        let mut lines = Lines::new();
        if one.initial_state {
            lines.push((
                "state".into(),
                "initial: refuses everything until it is initialised (--allow-set)".into(),
            ));
        }
        lines.extend(one.known.iter().flat_map(|known| of_known(known, one)));
        let replies = [one.version.as_ref().ok(), one.capabilities.as_ref(), one.link.as_ref()];
        let completed =
            replies.into_iter().flatten().filter(|reply| reply.outcome == Outcome::Completed);
        lines.extend(completed.flat_map(|reply| told(reply).1));
        let Address { package, channel } = one.address;
        table(
            &format!("{package}-{channel}"),
            &format!("package {package} channel {channel}"),
            lines,
        )
    };
    let values = json!({ "channels": found.iter().map(json_of_found).collect::<Vec<_>>() });
    let title = format!("Controllers on {device}");
    answer(
        title,
        found.iter().map(table_of).collect(),
        values,
        controller.transport(),
        args,
        global,
    )?;
    Ok(Exit::Done)
}

/// Brings a channel up in the order Linux does, without filters of its own.
fn configure(controller: &mut Controller, args: &NcsiArgs, address: Address) -> Ended {
    if !args.allow_set {
        return Err(Failure::wrong(format!(
            "configure {}: it changes the controller's state, which a running BMC depends on (add \
                --allow-set)",
            args.interface
        )));
    }
    if controller.transport() == Transport::GenericNetlink {
        return Err(Failure::wrong(format!(
            "configure {0}: the kernel's NC-SI stack owns it and configures it itself when it \
                comes up (ip link set {0} up, or \
             --force-raw to do it beside the kernel)",
            args.interface
        )));
    }
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

/// Pass-through statistics as rates, a line a second.
fn watch(controller: &mut Controller, args: &NcsiArgs, address: Address, global: Global) -> Ended {
    if !global.json {
        println!("{}: {}", args.interface, controller.transport().reason());
    }
    let mut before: Option<(Instant, PassThroughStatistics)> = None;
    let mut left = args.count.map(|count| count + 1);
    while left != Some(0) {
        let reply = ask(controller, &args.interface, address, &Command::GetPassThroughStatistics)?;
        let Answer::PassThroughStatistics(now) = reply.answer else {
            return Err(Failure::missing(refusal(&args.interface, &reply)));
        };
        let at = Instant::now();
        if let Some((then, earlier)) = before {
            let seconds = (at - then).as_secs_f64();
            print_rates(
                &earlier,
                &now,
                seconds,
                global.json.then(|| (controller.transport(), &*args.interface)),
            );
        }
        before = Some((at, now));
        left = left.map(|left| left - 1);
        if left != Some(0) {
            sleep(WATCH_EVERY);
        }
    }
    Ok(Exit::Done)
}

/// Growth of a counter of `width` bits; `None` if it fell without having wrapped: it was cleared,
/// and the interval says nothing.
fn growth(before: Option<u64>, now: Option<u64>, width: u32) -> Option<u64> {
    /// A counter this far from its end has not wrapped within a second.
    const NEAR_THE_END: u64 = 1 << 28;
    let (before, now) = (before?, now?);
    if now >= before {
        return Some(now - before);
    }
    let wrapped = width == u32::BITS && (1 << u32::BITS) - before < NEAR_THE_END;
    wrapped.then(|| (1 << u32::BITS) - before + now)
}

/// Prints a line; as a value if it is told whence.
fn print_rates(
    before: &PassThroughStatistics,
    now: &PassThroughStatistics,
    seconds: f64,
    whence: Option<(Transport, &str)>,
) {
    let grown: Vec<Option<u64>> = (0..10)
        .map(|idx| growth(before.counters[idx], now.counters[idx], now.width(idx)))
        .collect();
    let names = PassThroughStatistics::NAMES;
    if let Some((transport, device)) = whence {
        let rates: Map<String, Value> = names
            .iter()
            .zip(&grown)
            .map(|(name, grown)| (name.replace(' ', "_"), json!(grown.map(|n| n as f64 / seconds))))
            .collect();
        println!(
            "{}",
            with_transport(json!({ "seconds": seconds, "per_second": rates }), transport, device)
        );
        return;
    }
    let rate = |grown: Option<u64>| {
        grown.map_or("n/a".to_owned(), |n| format!("{:.0}", n as f64 / seconds))
    };
    let share = match (grown[5], grown[6]) {
        (Some(received @ 1..), Some(dropped)) => {
            format!("{:.2} % dropped", dropped as f64 / received as f64 * 100.0)
        }
        _ => String::new(),
    };
    println!(
        "from the network {:>8}/s, dropped {:>7}/s {share:>16}   to the network {:>8}/s, dropped \
            {:>7}/s",
        rate(grown[5]),
        rate(grown[6]),
        rate(grown[0]),
        rate(grown[1]),
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_that_wraps_grows_and_one_that_was_cleared_says_nothing() {
        assert_eq!(growth(Some(10), Some(15), 32), Some(5));
        assert_eq!(growth(Some(u64::from(u32::MAX)), Some(4), 32), Some(5));
        assert_eq!(growth(Some(5000), Some(4), 32), None);
        assert_eq!(growth(Some(5000), Some(4), 64), None);
        assert_eq!(growth(None, Some(4), 32), None, "all ones: not supported");
    }
}
