//! The nodes of an allocation of Slurm.

use std::collections::HashMap;
use std::process::Command;

use super::{FleetHost, list, printed};
use crate::{Failure, Result};

/// Command that runs another one on a node of the present allocation, beside its job.
const SRUN: [&str; 7] = ["srun", "--unbuffered", "--overlap", "-N1", "-n1", "-w", "{host}"];

/// Returns the hosts of the present allocation of Slurm; their groups are the switches they are
/// connected to, where Slurm knows them.
///
/// # Errors
/// If there is none.
pub(super) fn of_slurm() -> Result<Vec<FleetHost>> {
    let nodes = std::env::var("SLURM_JOB_NODELIST").map_err(|_| {
        Failure::missing(
            "mesh --slurm: no allocation (SLURM_JOB_NODELIST is not set); run it in one: \
                `salloc -N8 linerate mesh --slurm`",
        )
    })?;
    let mut hosts = list::read(&hostnames(&nodes)?)?;
    let mut topology = Command::new("scontrol");
    topology.args(["--oneliner", "show", "topology"]);
    // Most clusters have no topology, and a controller without one may refuse.
    let topology = printed("--slurm", &mut topology).unwrap_or_default();
    let mut members = Vec::new();
    for (switch, nodes) in leaves(&topology) {
        // Groups are a help only, and a switch may have no nodes.
        let nodes = hostnames(nodes).unwrap_or_default();
        let ours = nodes.lines().filter(|node| hosts.iter().any(|host| host.name == *node));
        members.extend(ours.map(|node| (node.to_owned(), switch.to_owned())));
    }
    let groups = groups(members);
    for host in &mut hosts {
        host.reach = Some(SRUN.map(str::to_owned).to_vec());
        host.group = groups.get(&host.name).cloned();
    }
    Ok(hosts)
}

/// Returns the names in a list of nodes such as `n[1-4]`, one a line.
fn hostnames(nodes: &str) -> Result<String> {
    let mut scontrol = Command::new("scontrol");
    scontrol.args(["show", "hostnames", nodes]);
    printed("--slurm", &mut scontrol)
}

/// Returns the switches in what `scontrol show topology` printed that nodes are connected to, with
/// their lists of nodes.
fn leaves(topology: &str) -> Vec<(&str, &str)> {
    topology.lines().filter_map(leaf).collect()
}

fn leaf(line: &str) -> Option<(&str, &str)> {
    let field = |name: &str| {
        line.split_whitespace().find_map(|word| word.strip_prefix(name)?.strip_prefix('='))
    };
    let is_leaf = field("Level") == Some("0");
    field("SwitchName").zip(field("Nodes")).filter(|_| is_leaf)
}

/// Returns the switch of each node; none if a node is connected to two, because the uplink that it
/// takes is not known then.
fn groups(members: Vec<(String, String)>) -> HashMap<String, String> {
    let n_members = members.len();
    let groups: HashMap<String, String> = members.into_iter().collect();
    if groups.len() < n_members { HashMap::new() } else { groups }
}

/// Gives the `bad` nodes of Slurm among `n_hosts`, each with a reason, no further jobs, unless too
/// few are left to be the usual ones. Each goes to `on_drained`.
///
/// # Errors
/// If too many are bad, or Slurm refuses.
pub fn drain(bad: &[(String, String)], n_hosts: usize, on_drained: impl Fn(&str)) -> Result<()> {
    /// Nodes may be drained up to one in this many.
    const SHARE: usize = 4;
    if bad.len() * SHARE > n_hosts {
        let message = format!(
            "mesh --drain: {} of {n_hosts} nodes are confirmed to be bad, more than one in \
                {SHARE}: none was drained. Look for what they share.",
            bad.len()
        );
        return Err(Failure::missing(message));
    }
    bad.iter().try_for_each(|(node, reason)| {
        drain_one(node, reason)?;
        on_drained(node);
        Ok(())
    })
}

/// Gives a node of Slurm no further jobs.
fn drain_one(node: &str, reason: &str) -> Result<()> {
    let mut scontrol = Command::new("scontrol");
    scontrol.args(["update", &format!("nodename={node}"), "state=drain"]);
    scontrol.arg(format!("reason={reason}"));
    printed(&format!("--drain {node}"), &mut scontrol).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_the_switches_that_nodes_are_connected_to() {
        // Printed by Slurm 22.05.
        let topology = "SwitchName=leaf1 Level=0 LinkSpeed=1 Nodes=n[1-4]\n\
            SwitchName=leaf2 Level=0 LinkSpeed=1 Nodes=n[5-8]\n\
            SwitchName=top Level=1 LinkSpeed=1 Nodes=n[1-8] Switches=leaf[1-2]\n";
        assert_eq!(leaves(topology), [("leaf1", "n[1-4]"), ("leaf2", "n[5-8]")]);
        assert_eq!(leaves("No topology information available\n"), []);
        let member = |(node, switch): (&str, &str)| (node.to_owned(), switch.to_owned());
        let found = groups([("n1", "leaf1"), ("n5", "leaf2")].map(member).to_vec());
        assert_eq!(found["n5"], "leaf2");
        assert!(groups([("n1", "leaf1"), ("n1", "leaf2")].map(member).to_vec()).is_empty());
    }

    #[test]
    fn most_of_a_cluster_is_never_drained() {
        let bad: Vec<_> = ["n1", "n2", "n3"].map(|node| (node.to_owned(), String::new())).to_vec();
        let refused = drain(&bad, 8, |_| {}).expect_err("three of eight");
        assert!(
            refused.message().ends_with("none was drained. Look for what they share."),
            "{}",
            refused.message()
        );
        assert!(drain(&[], 8, |_| {}).is_ok());
    }
}
