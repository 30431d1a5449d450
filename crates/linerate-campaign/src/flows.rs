//! Source ports that put flows on chosen members of a group: computed from a known hash, or found
//! by probing.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use linerate_analysis::flow_hash::planner::{self, Plan, USUAL_PORTS};
use linerate_analysis::flow_hash::polarisation::{Spread, Verdict, polarisation};
use linerate_analysis::flow_hash::{Flow, bond, toeplitz};
use linerate_control::flow_probe::FlowProbe;
use linerate_sys::ethtool::Ethtool;

use crate::{Exit, Failure, Result};

/// A hash that can be computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlowHash {
    /// Linux bonding, layer3+4.
    Bond(bond::Form),
    /// Receive side scaling.
    Rss(toeplitz::Fields),
}

/// Flows whose ports are wanted.
#[derive(Clone, Debug)]
pub struct PlannedFlows {
    /// Address that sends.
    pub from: IpAddr,
    /// Address and port that receive.
    pub to: SocketAddr,
    /// The hash that chooses a member.
    pub hash: FlowHash,
    /// Active members, or queues where no device is named.
    pub members: Option<u32>,
    /// The receiver's interface, whose key and table are read.
    pub device: Option<String>,
    /// Ports for each member.
    pub each: usize,
}

/// Ports by member, and the key and table they were computed from.
#[derive(Clone, Debug)]
pub struct FlowPlan {
    /// Ports of each member.
    pub ports: Plan,
    /// The basis of the computation, for readers.
    pub basis: String,
}

/// Computes the ports.
///
/// # Errors
/// If the options contradict each other, or the device does not report its hash.
pub fn plan(wanted: &PlannedFlows) -> Result<FlowPlan> {
    let PlannedFlows { from, to, hash, members, device, each } = wanted;
    let flow = |port| Flow { from: SocketAddr::new(*from, port), to: *to };
    // The hash mixes both addresses, which must have the same length.
    if from.is_ipv4() != to.is_ipv4() {
        return Err(Failure::wrong(
            "flows plan: --from and --to are addresses of different families",
        ));
    }
    let members = members.unwrap_or(0);
    if device.is_none() && members == 0 {
        // With a device, its table gives the number of queues.
        return Err(Failure::wrong("flows plan --members: a group has at least one member"));
    }
    match hash {
        FlowHash::Bond(_) if device.is_some() => Err(Failure::wrong(
            "flows plan --device: belongs to --hash rss; a bond takes --members",
        )),
        FlowHash::Bond(form) => {
            let member_of = |port| Some(bond::member(&flow(port), *form, members));
            let basis = "members count from 0 in the order of /sys/class/net/BOND/bonding/slaves, \
                those without a link left out"
                .to_owned();
            Ok(FlowPlan { ports: planner::plan(USUAL_PORTS, members, *each, member_of), basis })
        }
        FlowHash::Rss(fields) => {
            let (table, key, basis) = table_and_key(device.as_deref(), members)?;
            // The table names queues from 0, so the last one gives their number.
            let queues = table.iter().max().map_or(0, |last| last + 1);
            let queue_of =
                |port| Some(toeplitz::queue(toeplitz::hash(&flow(port), *fields, &key), &table));
            Ok(FlowPlan { ports: planner::plan(USUAL_PORTS, queues, *each, queue_of), basis })
        }
    }
}

/// Returns table and key of receive side scaling, and their source.
fn table_and_key(device: Option<&str>, queues: u32) -> Result<(Vec<u32>, Vec<u8>, String)> {
    let Some(device) = device else {
        let basis = "Microsoft's default key, queues in turn. Real cards differ: name --device on \
            the receiver"
            .to_owned();
        return Ok((toeplitz::default_table(queues), toeplitz::DEFAULT_KEY.to_vec(), basis));
    };
    fn failed(why: String) -> Failure {
        Failure::missing(format!(
            "flows plan --device: {why} (name --members to use the default key)"
        ))
    }
    let spread = Ethtool::open()
        .and_then(|ethtool| ethtool.rss_spread(device))
        .map_err(|error| failed(error.to_string()))?;
    // Some drivers report an empty table instead of an error.
    if spread.indirection.is_empty() || spread.key.is_empty() {
        return Err(failed(format!("{device} reports no key or no table")));
    }
    // Another function would put the ports on wrong queues without any sign of it.
    if !spread.toeplitz {
        return Err(failed(format!("{device} hashes by another function than Toeplitz's")));
    }
    let (entries, bytes) = (spread.indirection.len(), spread.key.len());
    let basis = format!("key of {bytes} bytes and table of {entries} entries, read from {device}");
    Ok((spread.indirection, spread.key, basis))
}

/// A group to be probed.
#[derive(Clone, Debug)]
pub struct ProbedGroup {
    /// Interfaces of this host that share the flows, in order.
    pub members: Vec<String>,
    /// Address that sends; `None` for the route's choice.
    pub from: Option<IpAddr>,
    /// Address and port that receive. No receiver is needed there.
    pub to: SocketAddr,
    /// Ports probed in random order, and as many in sequence.
    pub ports: u16,
    /// Ports wanted for each member.
    pub each: usize,
    /// Seed of the random order.
    pub seed: u64,
}

/// Result of probing a group.
#[derive(Clone, Debug)]
pub struct Probed {
    /// How the random and the sequential ports are spread; `None` where no port left by a member.
    pub spreads: [(&'static str, Option<Spread>); 2],
    /// Ports that were taken, or not counted by one member alone.
    pub n_unknown: usize,
    /// Ports of each member.
    pub ports: Plan,
}

/// Sends from many ports and counts by which member each leaves.
///
/// # Errors
/// If fewer than two members are named, or the probe cannot send or count.
pub fn probe(group: &ProbedGroup) -> Result<Probed> {
    // A single member carries all flows under any hash.
    if group.members.len() < 2 {
        return Err(Failure::wrong("flows probe --member: name two interfaces or more"));
    }
    let any: IpAddr = if group.to.is_ipv4() {
        Ipv4Addr::UNSPECIFIED.into()
    } else {
        Ipv6Addr::UNSPECIFIED.into()
    };
    let from = group.from.unwrap_or(any);
    let mut probe = FlowProbe::new(from, group.to, &group.members).map_err(Failure::missing)?;
    let mut found: Vec<(u16, Option<u32>)> = Vec::new();
    let n_members = group.members.len();
    let random = random_ports(group.ports, group.seed);
    let random = spread_of(&mut probe, n_members, random, &mut found)?;
    // Both orders are probed: an XOR hash spreads ports in sequence perfectly and random ones not
    // at all, or the reverse.
    let sequential = USUAL_PORTS.take(usize::from(group.ports)).collect();
    let sequential = spread_of(&mut probe, n_members, sequential, &mut found)?;
    let member_of =
        |port| found.iter().find(|(known, _)| *known == port).and_then(|(_, member)| *member);
    let ports = found.iter().map(|(port, _)| *port);
    Ok(Probed {
        spreads: [("random", random), ("sequential", sequential)],
        n_unknown: found.iter().filter(|(_, member)| member.is_none()).count(),
        ports: planner::plan(ports, group.members.len() as u32, group.each, member_of),
    })
}

/// Returns how evenly `ports` spread over the members, and adds the member of each to `found`.
fn spread_of(
    probe: &mut FlowProbe,
    n_members: usize,
    ports: Vec<u16>,
    found: &mut Vec<(u16, Option<u32>)>,
) -> Result<Option<Spread>> {
    let mut counts = vec![0; n_members];
    for port in ports {
        let member = probe.member_of(port).map_err(Failure::missing)?;
        if let Some(member) = member {
            counts[member as usize] += 1;
        }
        found.push((port, member));
    }
    Ok(polarisation(&counts))
}

/// Returns `n` distinct ports in the order of a seeded generator (the finalizer of SplitMix64),
/// none of them among the `n` sequential ones.
fn random_ports(n: u16, seed: u64) -> Vec<u16> {
    let (first, last) = (u64::from(*USUAL_PORTS.start()), u64::from(*USUAL_PORTS.end()));
    let kept = first + u64::from(n).min((last - first) / 2);
    let mut state = seed;
    let mut ports: Vec<u16> = Vec::new();
    // The random ports must not run out, or the loop would not end.
    while ports.len() < usize::from(n).min((last - kept) as usize / 2) {
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

/// Judges how flows are spread over members.
///
/// # Errors
/// If there are fewer than two members or no flows.
pub fn judge(counts: &[u64]) -> Result<Spread> {
    polarisation(counts).ok_or_else(|| {
        Failure::wrong("flows judge: expected flows of two members or more, such as 12,0,9,0")
    })
}

/// Returns the exit of a command that looked for `each` ports of every member: a goal is missed if
/// a member has fewer, or a hash polarises.
pub fn exit_of<'a>(
    ports: Option<(&Plan, usize)>,
    spreads: impl IntoIterator<Item = &'a Spread>,
) -> Exit {
    let lacks = ports.is_some_and(|(ports, each)| !planner::missing(ports, each).is_empty());
    let polarised = spreads.into_iter().any(|spread| spread.verdict == Verdict::Polarised);
    if lacks || polarised { Exit::Missed } else { Exit::Done }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(hash: FlowHash) -> PlannedFlows {
        PlannedFlows {
            from: IpAddr::from([198, 18, 0, 1]),
            to: "198.18.0.2:4000".parse().expect("literal"),
            hash,
            members: Some(2),
            device: None,
            each: 3,
        }
    }

    #[test]
    fn every_member_gets_the_ports_that_were_asked_for() {
        for hash in
            [FlowHash::Bond(bond::Form::Whole), FlowHash::Rss(toeplitz::Fields::AddressesAndPorts)]
        {
            let found = plan(&wanted(hash)).expect("it is complete");
            assert_eq!(planner::missing(&found.ports, 3).len(), 0, "{hash:?}");
            assert_eq!(exit_of(Some((&found.ports, 3)), []), Exit::Done);
        }
        // All flows between two addresses share a queue.
        let one = plan(&wanted(FlowHash::Rss(toeplitz::Fields::Addresses))).expect("complete");
        assert_eq!(exit_of(Some((&one.ports, 3)), []), Exit::Missed);
    }

    #[test]
    fn options_that_contradict_each_other_are_refused() {
        let bond = wanted(FlowHash::Bond(bond::Form::Whole));
        let families = PlannedFlows { to: "[::1]:1".parse().expect("literal"), ..bond.clone() };
        let device = PlannedFlows { device: Some("eth0".into()), ..bond.clone() };
        let nobody = PlannedFlows { members: Some(0), ..bond };
        for wrong in [families, device, nobody] {
            assert_eq!(plan(&wrong).err().map(|failure| failure.exit()), Some(Exit::Wrong));
        }
    }

    #[test]
    fn random_ports_are_distinct_and_none_is_a_sequential_one() {
        // With this many, random ports from the whole range would meet sequential ones.
        const N: u16 = 2_000;
        let ports = random_ports(N, 1);
        let mut distinct = ports.clone();
        distinct.sort_unstable();
        distinct.dedup();
        assert_eq!((ports.len(), distinct.len()), (N.into(), N.into()));
        let first_random = USUAL_PORTS.start() + N;
        assert!(ports.iter().all(|port| (first_random..=*USUAL_PORTS.end()).contains(port)));
        assert!(!ports.is_sorted());
        assert_ne!(ports, random_ports(N, 2));
    }

    #[test]
    fn a_polarised_spread_misses_the_goal() {
        let exit = |counts: &[u64]| exit_of(None, [&judge(counts).expect("two members")]);
        assert_eq!((exit(&[64, 0]), exit(&[33, 31])), (Exit::Missed, Exit::Done));
        assert!(judge(&[5]).is_err());
    }
}
