//! Share of a CPU for a host: a control group with everything that is started in the host.
//!
//! Uses version 2 (`cpu.max`) or version 1 (`cpu.cfs_quota_us`), whichever the machine has mounted;
//! admin-guide/cgroup-v2 and scheduler/sched-bwc of the kernel documentation. A group has the name
//! of its namespace, with a number behind it if a lab of another PID namespace has a group of that
//! name. Its maker has a lock on it ([`crate::reap`]).

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use linerate_model::Ratio;

use crate::reap;
use crate::tool::{LabError, Result};

/// Period of the share: many in a second, but long against a tick of the scheduler.
const PERIOD_US: f64 = 20_000.0;
/// Shortest time that the kernel grants in a period (`min_cfs_quota_period`). A small share needs a
/// longer period.
const LEAST_US: f64 = 1_000.0;
/// Mount points of the controller, newest version first.
const UNIFIED: &str = "/sys/fs/cgroup";
const LEGACY: &str = "/sys/fs/cgroup/cpu";

/// Control group with a quota, removed on drop.
#[derive(Debug)]
pub(crate) struct Quota {
    folder: PathBuf,
    _lock: File,
}

/// Most groups of one name.
const MOST_ALIKE: u32 = 64;

/// Returns the folder of groups, and whether it is version 2.
fn mount() -> Result<(&'static Path, bool), String> {
    let unified = Path::new(UNIFIED);
    let list = |file| fs::read_to_string(unified.join(file)).unwrap_or_default();
    let has_cpu = |file| list(file).split_whitespace().any(|controller| controller == "cpu");
    // The root group of version 1 has no quota file; its children do.
    let legacy = || Path::new(LEGACY).join("cgroup.procs").exists();
    place([has_cpu("cgroup.subtree_control"), has_cpu("cgroup.controllers"), legacy()])
}

/// The same from three facts: groups of version 2 get the controller; version 2 has it; version 1
/// is mounted.
fn place([granted, present, legacy]: [bool; 3]) -> Result<(&'static Path, bool), String> {
    match (granted, present, legacy) {
        (true, ..) => Ok((Path::new(UNIFIED), true)),
        (.., true) => Ok((Path::new(LEGACY), false)),
        (_, true, _) => Err(format!(
            "the groups of {UNIFIED} do not get its cpu controller (remedy: `echo +cpu > \
                {UNIFIED}/cgroup.subtree_control`)"
        )),
        _ => Err("no cpu control group is mounted".to_owned()),
    }
}

impl Quota {
    /// Makes the group `name`, whose members together may use `share` of one CPU.
    pub(crate) fn new(name: &str, share: Ratio) -> Result<Self> {
        let refused = |cause: String| no_quota(name, share, cause);
        let (root, unified) = mount().map_err(refused)?;
        // A maker that was killed could not remove its group.
        for (group, _until_it_is_gone) in abandoned() {
            // It fails while a process of it is still ending.
            let _later = reap::remove_group(&group);
        }
        let quota = Self::make(root, name)
            .map_err(|error| refused(format!("create {name} in {}: {error}", root.display())))?;
        // The kernel grants at least a millisecond, so a small share needs a longer period.
        let period = PERIOD_US.max((LEAST_US / share.0).ceil());
        let (period, allowed) = (period as u64, (share.0 * period).round() as u64);
        let settings = if unified {
            vec![("cpu.max", format!("{allowed} {period}"))]
        } else {
            vec![
                ("cpu.cfs_period_us", period.to_string()),
                ("cpu.cfs_quota_us", allowed.to_string()),
            ]
        };
        for (file, value) in settings {
            let path = quota.folder.join(file);
            fs::write(&path, value)
                .map_err(|error| refused(format!("write {}: {error}", path.display())))?;
        }
        Ok(quota)
    }

    /// Makes a group called `name`, with a number behind it if the name is taken.
    fn make(root: &Path, name: &str) -> io::Result<Self> {
        for number in 0..MOST_ALIKE {
            let folder =
                root.join(if number == 0 { name.to_owned() } else { format!("{name}.{number}") });
            match fs::create_dir(&folder) {
                // Before it has a lock, another lab may take it for an abandoned one.
                Ok(()) => {
                    if let Ok(Some(lock)) = reap::lock(&folder) {
                        return Ok(Self { folder, _lock: lock });
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        Err(io::Error::from(io::ErrorKind::AlreadyExists))
    }

    /// Returns its path.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns the command prefix that runs a command inside the group.
    pub(crate) fn prefix(&self) -> Vec<String> {
        // The shell enters the group and then becomes the command, so that no process of it starts
        // outside.
        let join = format!("echo $$ > {}/cgroup.procs && exec \"$@\"", self.folder.display());
        ["sh", "-c", &join, "sh"].map(str::to_owned).to_vec()
    }
}

fn no_quota(name: &str, share: Ratio, cause: String) -> LabError {
    LabError::Refused {
        what: format!("give host {name} {share} of a CPU"),
        cause,
        remedy: " (needs root and a mounted cpu control group; leave `cpu` out of the lab to \
            go without)",
    }
}

impl Drop for Quota {
    fn drop(&mut self) {
        // It is busy while a process of it is still ending. If it stays, the next lab removes it.
        for _ in 0..PATIENCE {
            match fs::remove_dir(&self.folder) {
                Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
                    std::thread::sleep(PAUSE)
                }
                _ => return,
            }
        }
    }
}

/// Most attempts to remove a group.
const PATIENCE: u32 = 50;
/// Pause between two attempts.
const PAUSE: std::time::Duration = std::time::Duration::from_millis(10);

/// Returns the groups of labs whose maker is gone, each with its lock. While the lock is taken, no
/// other process removes the group or makes one of its name.
pub(crate) fn abandoned() -> Vec<(PathBuf, File)> {
    let Ok((root, _)) = mount() else { return Vec::new() };
    // Process numbers count only for names of earlier versions, which had no locks.
    let runs = |pid: &str| Path::new("/proc").join(pid).exists();
    let is_ours = |name: &str| reap::may_be_abandoned(name, runs);
    let entries = fs::read_dir(root).into_iter().flatten().flatten();
    let ours = entries
        .filter(|entry| entry.file_name().to_str().is_some_and(is_ours))
        .map(|entry| entry.path());
    ours.filter_map(|group| reap::lock(&group).ok().flatten().map(|lock| (group, lock))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_controller_that_groups_do_not_get_is_not_called_unmounted() {
        let unified = Ok((Path::new(UNIFIED), true));
        assert_eq!(
            (place([true, true, true]), place([true, true, false])),
            (unified.clone(), unified)
        );
        assert_eq!(place([false, true, true]), Ok((Path::new(LEGACY), false)));
        let denied = place([false, true, false]).expect_err("not granted");
        assert!(denied.contains("+cpu > /sys/fs/cgroup/cgroup.subtree_control"), "{denied}");
        assert!(place([false; 3]).expect_err("none").contains("mounted"));
    }
}
