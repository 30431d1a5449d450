//! The nodes of an allocation of Slurm.

use std::process::Command;

use super::{FleetHost, list, printed};
use crate::{Failure, Result};

/// Command that runs another one on a node of the present allocation, beside its job.
const SRUN: [&str; 7] = ["srun", "--unbuffered", "--overlap", "-N1", "-n1", "-w", "{host}"];

/// Returns the hosts of the present allocation of Slurm.
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
    let mut scontrol = Command::new("scontrol");
    scontrol.args(["show", "hostnames", &nodes]);
    let mut hosts = list::read(&printed("--slurm", &mut scontrol)?)?;
    for host in &mut hosts {
        host.reach = Some(SRUN.map(str::to_owned).to_vec());
    }
    Ok(hosts)
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
