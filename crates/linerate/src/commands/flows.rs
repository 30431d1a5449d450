//! `linerate flows`: on which member of a group flows go, and ports that put them there.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use clap::{Args, Subcommand, ValueEnum};
use linerate_analysis::flow_hash::planner::{self, Plan, USUAL_PORTS};
use linerate_analysis::flow_hash::polarisation::{Spread, Verdict, polarisation};
use linerate_analysis::flow_hash::{Flow, bond, toeplitz};
use linerate_control::flow_probe::FlowProbe;
use linerate_sys::ethtool::Ethtool;
use serde_json::json;

use crate::exit::{Exit, Failure, Outcome};

#[derive(Debug, Args)]
pub(crate) struct FlowsArgs {
    #[command(subcommand)]
    pub(crate) action: FlowsAction,
}

#[derive(Debug, Subcommand)]
pub(crate) enum FlowsAction {
    /// Compute source ports by a hash that is known: Linux bonding, or receive side scaling
    Plan(FlowsPlanArgs),
    /// Send from many ports, see which member each leaves by, judge the spread, and list ports for
    /// every member
    Probe(FlowsProbeArgs),
    /// Judge how flows are spread over members: as an even hash would, polarised, or dealt out
    Judge {
        /// Flows on each member
        #[arg(required = true, value_delimiter = ',')]
        counts: Vec<u64>,
    },
}

#[derive(Debug, Args)]
pub(crate) struct FlowsPlanArgs {
    /// Address that sends
    #[arg(long)]
    pub(crate) from: IpAddr,
    /// Address and port that receive
    #[arg(long)]
    pub(crate) to: SocketAddr,
    /// The hash that chooses a member
    #[arg(long, value_enum)]
    pub(crate) hash: FlowHash,
    /// Active members, or queues where no device is asked
    #[arg(long, required_unless_present = "device")]
    pub(crate) members: Option<u32>,
    /// With rss: the receiver's interface, here, whose key and table are read [default: Microsoft's
    /// key, queues in turn]
    #[arg(long, value_name = "IF")]
    pub(crate) device: Option<String>,
    /// Ports for each member
    #[arg(long, default_value_t = 1)]
    pub(crate) each: usize,
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

#[derive(Debug, Args)]
pub(crate) struct FlowsProbeArgs {
    /// Interfaces of this host that share the flows, in order
    #[arg(long = "member", value_name = "IF", required = true, value_delimiter = ',')]
    pub(crate) members: Vec<String>,
    /// Address that sends [default: the one the route chooses]
    #[arg(long)]
    pub(crate) from: Option<IpAddr>,
    /// Address and port that receive; nobody need listen
    #[arg(long)]
    pub(crate) to: SocketAddr,
    /// Ports probed at random, and as many in sequence
    #[arg(long, default_value_t = 64)]
    pub(crate) ports: u16,
    /// Ports listed for each member
    #[arg(long, default_value_t = 1)]
    pub(crate) each: usize,
    /// Seed of the random ports
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
}

/// Does what `action` says.
pub(crate) fn run(action: &FlowsAction, as_json: bool) -> Outcome {
    match action {
        FlowsAction::Plan(args) => plan(args, as_json),
        FlowsAction::Probe(args) => probe(args, as_json),
        FlowsAction::Judge { counts } => judge(counts, as_json),
    }
}

fn judge(counts: &[u64], as_json: bool) -> Outcome {
    let spread = polarisation(counts).ok_or_else(|| {
        Failure::wrong("flows judge: expected flows of two members or more, such as 12,0,9,0")
    })?;
    if as_json {
        println!("{}", json!({ "spread": spread }));
    } else {
        print_spread("given", &spread);
    }
    Ok(exit_of([&spread]))
}

fn plan(args: &FlowsPlanArgs, as_json: bool) -> Outcome {
    let flow = |port| Flow { from: SocketAddr::new(args.from, port), to: args.to };
    if args.from.is_ipv4() != args.to.is_ipv4() {
        return Err(Failure::wrong(
            "flows plan: --from and --to are addresses of different families",
        ));
    }
    let members = args.members.unwrap_or(0);
    if args.device.is_none() && members == 0 {
        return Err(Failure::wrong("flows plan --members: a group has at least one member"));
    }
    let (chosen, basis) = match args.hash {
        FlowHash::Layer34 | FlowHash::Layer34Old => {
            if args.device.is_some() {
                return Err(Failure::wrong(
                    "flows plan --device: belongs to --hash rss; a bond takes --members",
                ));
            }
            let form = if args.hash == FlowHash::Layer34 {
                bond::Form::LowestBitDropped
            } else {
                bond::Form::Whole
            };
            let member_of = |port| Some(bond::member(&flow(port), form, members));
            let basis = "members count from 0 in the order in which they became active".to_owned();
            (planner::plan(USUAL_PORTS, members, args.each, member_of), basis)
        }
        FlowHash::Rss | FlowHash::RssAddresses => {
            let (table, key, basis) = spread_of(args)?;
            let fields = match args.hash {
                FlowHash::RssAddresses => toeplitz::Fields::Addresses,
                _ => toeplitz::Fields::AddressesAndPorts,
            };
            let queues = table.iter().max().map_or(0, |last| last + 1);
            let queue_of =
                |port| Some(toeplitz::queue(toeplitz::hash(&flow(port), fields, &key), &table));
            (planner::plan(USUAL_PORTS, queues, args.each, queue_of), basis)
        }
    };
    if as_json {
        println!(
            "{}",
            json!({ "ports": chosen, "basis": basis, "params": params(&chosen, args.to) })
        );
    } else {
        println!("{basis}");
        print_plan(&chosen, args.to, |member| member.to_string());
    }
    Ok(told_missing(&chosen, args.each))
}

/// Table and key of receive side scaling, and where they are from.
fn spread_of(args: &FlowsPlanArgs) -> Result<(Vec<u32>, Vec<u8>, String), Failure> {
    let Some(device) = &args.device else {
        let basis =
            "Microsoft's default key, queues in turn: real cards differ, name --device on the \
                receiver"
                .to_owned();
        return Ok((
            toeplitz::default_table(args.members.unwrap_or(1)),
            toeplitz::DEFAULT_KEY.to_vec(),
            basis,
        ));
    };
    let failed = |why: String| {
        Failure::missing(format!(
            "flows plan --device: {why} (name --members to use the default key)"
        ))
    };
    let spread = Ethtool::open()
        .and_then(|ethtool| ethtool.rss_spread(device))
        .map_err(|error| failed(error.to_string()))?;
    if spread.indirection.is_empty() || spread.key.is_empty() {
        return Err(failed(format!("{device} tells no key or no table")));
    }
    if !spread.toeplitz {
        return Err(failed(format!("{device} hashes by another function than Toeplitz's")));
    }
    let (entries, bytes) = (spread.indirection.len(), spread.key.len());
    let basis = format!("key of {bytes} bytes and table of {entries} entries, read from {device}");
    Ok((spread.indirection, spread.key, basis))
}

fn probe(args: &FlowsProbeArgs, as_json: bool) -> Outcome {
    if args.members.len() < 2 {
        return Err(Failure::wrong("flows probe --member: name two interfaces or more"));
    }
    let any: IpAddr =
        if args.to.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let from = args.from.unwrap_or(any);
    let mut probe = FlowProbe::new(from, args.to, &args.members).map_err(Failure::missing)?;
    let mut found: Vec<(u16, Option<u32>)> = Vec::new();
    let mut spreads = Vec::new();
    for (name, ports) in [("random", random_ports(args)), ("sequential", sequential_ports(args))] {
        let mut counts = vec![0; args.members.len()];
        for port in ports {
            let member = probe.member_of(port).map_err(Failure::missing)?;
            if let Some(member) = member {
                counts[member as usize] += 1;
            }
            found.push((port, member));
        }
        spreads.push((name, polarisation(&counts)));
    }
    let unknown = found.iter().filter(|(_, member)| member.is_none()).count();
    let member_of =
        |port| found.iter().find(|(known, _)| *known == port).and_then(|(_, member)| *member);
    let chosen = planner::plan(
        found.iter().map(|(port, _)| *port),
        args.members.len() as u32,
        args.each,
        member_of,
    );
    if as_json {
        let spreads: Vec<_> = spreads
            .iter()
            .map(|(name, spread)| json!({ "ports": name, "spread": spread }))
            .collect();
        println!(
            "{}",
            json!({ "members": args.members, "spreads": spreads, "unknown": unknown, "ports": chosen, "params": params(&chosen, args.to) })
        );
    } else {
        for (name, spread) in &spreads {
            match spread {
                Some(spread) => print_spread(&format!("{name} ports"), spread),
                None => println!("{name} ports: none was seen to leave by a member"),
            }
        }
        if unknown > 0 {
            println!("{unknown} ports: taken, or not counted by one member alone");
        }
        print_plan(&chosen, args.to, |member| args.members[member as usize].clone());
    }
    match told_missing(&chosen, args.each) {
        Exit::Done => Ok(exit_of(spreads.iter().filter_map(|(_, spread)| spread.as_ref()))),
        other => Ok(other),
    }
}

fn sequential_ports(args: &FlowsProbeArgs) -> Vec<u16> {
    USUAL_PORTS.take(usize::from(args.ports)).collect()
}

/// Distinct ports in the order of a seeded generator (the finalizer of SplitMix64), none of the
/// sequential ones.
fn random_ports(args: &FlowsProbeArgs) -> Vec<u16> {
    let (first, last) = (u64::from(*USUAL_PORTS.start()), u64::from(*USUAL_PORTS.end()));
    let kept = first + u64::from(args.ports).min((last - first) / 2);
    let mut state = args.seed;
    let mut ports: Vec<u16> = Vec::new();
    while ports.len() < usize::from(args.ports).min((last - kept) as usize / 2) {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        let port = (kept + (mixed ^ mixed >> 31) % (last - kept)) as u16;
        if !ports.contains(&port) {
            ports.push(port);
        }
    }
    ports
}

fn print_spread(what: &str, spread: &Spread) {
    let counts = spread.counts.iter().map(u64::to_string).collect::<Vec<_>>().join(", ");
    let verdict = match spread.verdict {
        Verdict::Even => "even",
        Verdict::Polarised => "polarised",
        Verdict::TooEven => "too even",
        Verdict::Inconclusive => "inconclusive",
    };
    println!("{what}: {counts} flows by member: {verdict}: {}", spread.meaning);
    println!(
        "    as uneven by chance with probability {:.4}, as even with {:.4}; {}",
        spread.uneven, spread.even, spread.method
    );
}

/// What `frames`, `tcp_stream` and `udp_stream` take for as many flows as there are ports, dealt
/// out in turn.
fn params(plan: &Plan, to: SocketAddr) -> serde_json::Value {
    let ports = planner::in_turn(plan);
    let list = ports.iter().map(u16::to_string).collect::<Vec<_>>().join(",");
    json!({ "streams": ports.len(), "source_ports": list, "destination_port": to.port() })
}

fn print_plan(plan: &Plan, to: SocketAddr, name: impl Fn(u32) -> String) {
    for (member, ports) in plan {
        let ports = ports.iter().map(u16::to_string).collect::<Vec<_>>().join(" ");
        println!(
            "{}: {}",
            name(*member),
            if ports.is_empty() { "no port leads there" } else { &ports }
        );
    }
    let params = params(plan, to);
    if params["streams"] != 0 {
        let [streams, ports, port] =
            ["streams", "source_ports", "destination_port"].map(|key| &params[key]);
        println!(
            "in a plan, of workload `frames`, `tcp_stream` or `udp_stream`: streams = {streams}, \
                source_ports = {ports}, destination_port = {port}"
        );
    }
}

/// Members without enough ports are a goal missed.
fn told_missing(plan: &Plan, each: usize) -> Exit {
    if planner::missing(plan, each).is_empty() { Exit::Done } else { Exit::Missed }
}

fn exit_of<'a>(spreads: impl IntoIterator<Item = &'a Spread>) -> Exit {
    let polarised = spreads.into_iter().any(|spread| spread.verdict == Verdict::Polarised);
    if polarised { Exit::Missed } else { Exit::Done }
}
