//! Namespaces and control groups whose maker is gone.

use std::path::Path;

use crate::layout::DEVICE;
use crate::quota;
use crate::tool::{LabError, run};

/// Namespaces that linerate made and whose process no longer runs.
///
/// # Errors
/// If `ip` is missing.
pub fn abandoned() -> Result<Vec<String>, LabError> {
    let list = run("ip", &["netns", "list"], None)?;
    let names = list.lines().filter_map(|line| line.split_whitespace().next());
    Ok(names.filter(|name| is_abandoned(name, runs)).map(str::to_owned).collect())
}

/// Deletes every abandoned namespace and returns their names. Labs that were left standing on purpose
/// (`linerate lab up`) are not touched.
///
/// # Errors
/// If one cannot be deleted.
pub fn reap() -> Result<Vec<String>, LabError> {
    let names = abandoned()?;
    for name in &names {
        run("ip", &["netns", "delete", name], None)?;
    }
    for group in quota::abandoned(|name| is_abandoned(name, runs)) {
        std::fs::remove_dir(&group).map_err(|cause| LabError::Refused {
            what: format!("remove control group {}", group.display()),
            cause: cause.to_string(),
            remedy: " (something still runs in it)",
        })?;
    }
    Ok(names)
}

/// Whether the last part of a namespace's name is that of an emulated device, which no lab's description names.
#[must_use]
pub fn is_device(node: &str) -> bool {
    node.starts_with(DEVICE)
}

/// Whether the process `pid` runs.
fn runs(pid: &str) -> bool {
    Path::new("/proc").join(pid).exists()
}

/// A lab's namespaces are called `lr-PID-node` while their maker lives, `lr-up.NAME-node` when left standing.
fn is_abandoned(namespace: &str, alive: impl Fn(&str) -> bool) -> bool {
    let pid = namespace.strip_prefix("lr-").and_then(|rest| rest.split('-').next());
    pid.is_some_and(|pid| !pid.is_empty() && pid.bytes().all(|b| b.is_ascii_digit()) && !alive(pid))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_namespaces_of_dead_processes_are_abandoned() {
        let alive = |pid: &str| pid == "7";
        assert!(is_abandoned("lr-12-a", alive));
        for name in ["lr-7-a", "lr-up.pair-a", "docker-12", "lr--a", "lr-12x-a"] {
            assert!(!is_abandoned(name, alive), "{name}");
        }
    }
}
