//! `linerate ncsi`: identity, capabilities and counters of the network controller behind a
//! sideband.
//!
//! It only reads, except with `--allow-set`. It asks through the kernel's NC-SI stack where that
//! owns the interface, and in raw frames elsewhere; each answer names the transport and the reason.

use clap::{Args, ValueEnum};
use linerate_answers::controller::{self as answers, Rates, Source, remarks};
use linerate_campaign::sideband::{Seen, Sideband};
use linerate_observe::ncsi::{Address, Preference};
use linerate_packet::ncsi::{Command, Outcome as Answered};

use crate::args::{Global, Saved};
use crate::exit::{Exit, Failure, Outcome};
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
pub(crate) fn run(args: &NcsiArgs, global: Global) -> Outcome {
    let device = &args.interface;
    if matches!(args.verb, NcsiVerb::Configure | NcsiVerb::Watch)
        && !args.saved.formats.format.is_empty()
    {
        return Err(Failure::wrong(
            "ncsi: --format writes an answer as a report; configure and watch print lines only",
        ));
    }
    let preference = if args.force_raw { Preference::RawFrames } else { Preference::Safe };
    let address = Address { package: args.package, channel: args.channel };
    let mut sideband = Sideband::open(device, preference, address)?;
    let commands = match args.verb {
        NcsiVerb::Capabilities => vec![Command::GetCapabilities],
        NcsiVerb::Version => vec![Command::GetVersion],
        NcsiVerb::Parameters => vec![Command::GetParameters],
        NcsiVerb::Link => vec![Command::GetLinkStatus],
        NcsiVerb::Stats => vec![
            Command::GetPassThroughStatistics,
            Command::GetControlStatistics,
            Command::GetPortStatistics,
        ],
        NcsiVerb::Discover | NcsiVerb::Configure | NcsiVerb::Watch => Vec::new(),
    };
    sideband.warnings(&commands).iter().for_each(|warning| eprintln!("{warning}"));
    let source = Source { device, transport: sideband.transport() };
    match args.verb {
        NcsiVerb::Watch => return watch(&mut sideband, source, args, global),
        NcsiVerb::Configure => sideband.configure(args.allow_set, |command, reply| {
            let word = if reply.outcome == Answered::Completed { "done" } else { "refused" };
            println!("{word:<8} {command:?}{}", remarks(reply));
        })?,
        NcsiVerb::Discover => {
            let found = sideband.discover(args.allow_set)?;
            reports::answer(&answers::discovered(source, &found), &args.saved, global)?;
        }
        _ => {
            let asked = sideband.ask_all(commands)?;
            reports::answer(&answers::channel(source, address, &asked), &args.saved, global)?;
            sideband.refusal_of(&asked).map_or(Ok(()), Err)?;
        }
    }
    Ok(Exit::Done)
}

/// Prints the rates of the pass-through statistics, one line each second, and notifications as they
/// arrive.
fn watch(
    sideband: &mut Sideband<'_>,
    source: Source<'_>,
    args: &NcsiArgs,
    global: Global,
) -> Outcome {
    let device = source.device;
    if !global.json {
        println!("{device}: {}", source.transport.reason());
    }
    sideband.watch(args.allow_set, args.count, &mut |seen| {
        let (line, json) = match seen {
            Seen::OwnedByKernel => {
                return eprintln!(
                    "{device}: the kernel's NC-SI stack enables notifications itself"
                );
            }
            Seen::Statistics(readings, seconds) => {
                let rates = Rates::between(&readings[0], &readings[1], seconds);
                (rates.line(), rates.json(source))
            }
            Seen::Notified(one) => answers::notified(source, &one),
        };
        match global.json {
            true => println!("{json}"),
            false => println!("{line}"),
        }
    })
}
