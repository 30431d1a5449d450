//! The hosts on which mpirun starts processes.

use std::process::Command;

use super::{FleetHost, list, printed};
use crate::{Failure, Result};

/// Returns the hosts on which `command`, mpirun with its options, starts processes: those of its
/// host file, or of the allocation that it runs in.
///
/// # Errors
/// If it is no command, fails, or two hosts have one name.
pub(super) fn of_mpi(command: &str) -> Result<Vec<FleetHost>> {
    let words = shlex::split(command).filter(|words| !words.is_empty()).ok_or_else(|| {
        Failure::wrong(format!("mesh --mpi '{}': no command", command.escape_debug()))
    })?;
    let mut each = Command::new(&words[0]);
    // One process on each host, in the words of Open MPI.
    each.args(&words[1..]).args(["-N", "1", "hostname"]);
    of_names(&printed("--mpi", &mut each)?, &words)
}

/// Returns the hosts that each printed their name, which `words` starts processes on.
fn of_names(names: &str, words: &[String]) -> Result<Vec<FleetHost>> {
    let mut lines: Vec<&str> =
        names.lines().map(str::trim).filter(|name| !name.is_empty()).collect();
    // They answer in any order.
    lines.sort_unstable();
    if let Some(twice) = lines.windows(2).find(|two| two[0] == two[1]) {
        return Err(Failure::wrong(format!(
            "mesh --mpi: two hosts have the name {}; mpirun cannot distinguish them",
            twice[0]
        )));
    }
    let mut hosts = list::read(&lines.join("\n"))?;
    let reach: Vec<String> =
        words.iter().cloned().chain(["-n", "1", "--host", "{host}"].map(str::to_owned)).collect();
    for host in &mut hosts {
        host.reach = Some(reach.clone());
    }
    Ok(hosts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_host_that_answers_is_one_of_the_mesh() {
        let words = ["mpirun", "--hostfile", "f"].map(str::to_owned);
        let hosts = of_names("n10\nn2\n\nn1\n", &words).expect("three hosts");
        let names: Vec<&str> = hosts.iter().map(|host| host.name.as_str()).collect();
        assert_eq!(names, ["n1", "n10", "n2"]);
        let reach = hosts[0].reach.as_ref().expect("a command").join(" ");
        assert_eq!(reach, "mpirun --hostfile f -n 1 --host {host}");
        let refused = of_names("n1\nn2\nn1\n", &words).expect_err("n1 twice");
        assert!(refused.message().contains("two hosts have the name n1"), "{}", refused.message());
        assert!(of_names("", &words).is_err(), "nobody");
        assert!(of_mpi("").expect_err("no command").message().contains("no command"));
    }
}
