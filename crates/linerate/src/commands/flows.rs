//! `linerate flows`: the member of a group that each flow takes, and ports for every member.

use std::net::{IpAddr, SocketAddr};

use clap::{Args, Subcommand, ValueEnum};
use linerate_analysis::flow_hash::{bond, toeplitz};
use linerate_answers::flows as answers;
use linerate_campaign::flows::{self, PlannedFlows, ProbedGroup};

use crate::args::{Global, Saved};
use crate::exit::Outcome;
use crate::reports;

#[derive(Debug, Args)]
pub(crate) struct FlowsArgs {
    #[command(subcommand)]
    pub(crate) action: FlowsAction,
}

#[derive(Debug, Subcommand)]
pub(crate) enum FlowsAction {
    /// Compute source ports from a known hash: Linux bonding, or receive side scaling
    Plan(FlowsPlanArgs),
    /// Send from many ports, count the member that each leaves by, judge the spread, and list ports
    /// for every member
    Probe(FlowsProbeArgs),
    /// Judge how flows are spread over members: evenly, polarised, or dealt out in turn
    Judge {
        /// Flows on each member
        #[arg(required = true, value_delimiter = ',')]
        counts: Vec<u64>,
        #[command(flatten)]
        saved: Saved,
    },
}

#[derive(Debug, Args)]
pub(crate) struct FlowsPlanArgs {
    /// Source address
    #[arg(long)]
    pub(crate) from: IpAddr,
    /// Destination address and port
    #[arg(long)]
    pub(crate) to: SocketAddr,
    /// Hash that chooses the member
    #[arg(long, value_enum)]
    pub(crate) hash: FlowHash,
    /// Number of active members, or of queues without --device
    #[arg(long, required_unless_present = "device")]
    pub(crate) members: Option<u32>,
    /// With rss: interface of this host, the receiver, whose key and table are read [default:
    /// Microsoft's key, queues in turn]
    #[arg(long, value_name = "IF")]
    pub(crate) device: Option<String>,
    /// Ports for each member
    #[arg(long, default_value_t = 1)]
    pub(crate) each: usize,
    #[command(flatten)]
    pub(crate) saved: Saved,
}

/// A hash that can be computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum FlowHash {
    /// Linux bonding, layer3+4, Linux 5.5 and later
    #[value(name = "layer3+4")]
    Layer34,
    /// Linux bonding, layer3+4, before Linux 5.5
    #[value(name = "layer3+4-old")]
    Layer34Old,
    /// Receive side scaling by addresses and ports
    Rss,
    /// Receive side scaling by addresses alone, as most cards do for UDP
    RssAddresses,
}

impl FlowHash {
    const fn of(self) -> flows::FlowHash {
        match self {
            Self::Layer34 => flows::FlowHash::Bond(bond::Form::LowestBitDropped),
            Self::Layer34Old => flows::FlowHash::Bond(bond::Form::Whole),
            Self::Rss => flows::FlowHash::Rss(toeplitz::Fields::AddressesAndPorts),
            Self::RssAddresses => flows::FlowHash::Rss(toeplitz::Fields::Addresses),
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct FlowsProbeArgs {
    /// Interfaces of this host that share the flows, in order
    #[arg(long = "member", value_name = "IF", required = true, value_delimiter = ',')]
    pub(crate) members: Vec<String>,
    /// Source address [default: the route's choice]
    #[arg(long)]
    pub(crate) from: Option<IpAddr>,
    /// Destination address and port; no program needs to listen there
    #[arg(long)]
    pub(crate) to: SocketAddr,
    /// Number of ports probed in random order, and as many in sequence
    #[arg(long, default_value_t = 64)]
    pub(crate) ports: u16,
    /// Ports to list for each member
    #[arg(long, default_value_t = 1)]
    pub(crate) each: usize,
    /// Seed of the random order
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    #[command(flatten)]
    pub(crate) saved: Saved,
}

/// Runs `action`.
pub(crate) fn run(action: &FlowsAction, global: Global) -> Outcome {
    match action {
        FlowsAction::Plan(args) => plan(args, global),
        FlowsAction::Probe(args) => probe(args, global),
        FlowsAction::Judge { counts, saved } => {
            let spread = flows::judge(counts)?;
            reports::answer(&answers::judged(&spread), saved, global)?;
            Ok(flows::exit_of(None, [&spread]))
        }
    }
}

fn plan(args: &FlowsPlanArgs, global: Global) -> Outcome {
    let wanted = PlannedFlows {
        from: args.from,
        to: args.to,
        hash: args.hash.of(),
        members: args.members,
        device: args.device.clone(),
        each: args.each,
    };
    let plan = flows::plan(&wanted)?;
    reports::answer(&answers::planned(&plan, args.to), &args.saved, global)?;
    Ok(flows::exit_of(Some((&plan.ports, args.each)), []))
}

fn probe(args: &FlowsProbeArgs, global: Global) -> Outcome {
    let group = ProbedGroup {
        members: args.members.clone(),
        from: args.from,
        to: args.to,
        ports: args.ports,
        each: args.each,
        seed: args.seed,
    };
    let probed = flows::probe(&group)?;
    reports::answer(&answers::probed(&probed, &args.members, args.to), &args.saved, global)?;
    let spreads = probed.spreads.iter().filter_map(|(_, spread)| spread.as_ref());
    Ok(flows::exit_of(Some((&probed.ports, args.each)), spreads))
}
