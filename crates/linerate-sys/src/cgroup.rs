//! CPU quota of the control group that this process belongs to: version 2 (`cpu.max`) and version 1
//! (`cpu.cfs_quota_us`). Source: admin-guide/cgroup-v2 and scheduler/sched-bwc of the kernel
//! documentation.
//!
//! A quota is a text: the CPU time in microseconds that the group may use in each period, or `max`
//! for no limit. Quotas of parent groups also apply; this module does not read them.

use std::io::{Error, ErrorKind};
use std::os::unix::process::parent_id;
use std::path::{Path, PathBuf};

use crate::{Result, SysError};

const MOUNT: &str = "/sys/fs/cgroup";
const MEMBERSHIP: &str = "/proc/self/cgroup";
/// File of the quota and file of its period. Version 2 has one file for both.
const VERSIONS: [(&str, &str); 2] =
    [("cpu.max", "cpu.max"), ("cpu.cfs_quota_us", "cpu.cfs_period_us")];
/// No quota.
pub const UNLIMITED: &str = "max";
/// Text for "no quota" in version 1.
const UNLIMITED_BEFORE: &str = "-1";

/// Returns the folders below the mount in which the CPU controller of a process may be, version 2
/// first. `membership` is the text of `/proc/self/cgroup`. Each folder but the root ends in a
/// slash.
#[must_use]
pub fn folders(membership: &str) -> Vec<String> {
    let mut found: Vec<(u8, String)> = membership.lines().filter_map(folder).collect();
    found.sort();
    found.into_iter().map(|(_, folder)| folder).collect()
}

/// Returns the folder of one line of the membership, after its rank: 0 for version 2, 1 for version
/// 1. `None` for lines of other controllers.
fn folder(line: &str) -> Option<(u8, String)> {
    let mut fields = line.splitn(3, ':').skip(1);
    let (controllers, group) = (fields.next()?, fields.next()?.trim_matches('/'));
    let group = if group.is_empty() { String::new() } else { format!("{group}/") };
    match controllers {
        "" => Some((0, group)),
        list if list.split(',').any(|one| one == "cpu") => Some((1, format!("cpu/{group}"))),
        _ => None,
    }
}

/// Returns the paths at which `file` of this process's CPU controller may be, the most likely
/// first.
#[must_use]
pub fn candidates(file: &str) -> Vec<String> {
    let membership = std::fs::read_to_string(MEMBERSHIP).unwrap_or_default();
    let folders = folders(&membership);
    mounts()
        .iter()
        .flat_map(|mount| folders.iter().map(move |folder| format!("{mount}/{folder}{file}")))
        .collect()
}

/// Returns the paths of `file` of the disk controller: of this process's group and of every group
/// above, whose limits apply too.
#[must_use]
pub fn io_files(file: &str) -> Vec<String> {
    let membership = std::fs::read_to_string(MEMBERSHIP).unwrap_or_default();
    existing_io_files(&membership, &mounts(), file)
}

/// Returns the path of `file` in each folder of the disk controller, below the first of `mounts`
/// that has it.
fn existing_io_files(membership: &str, mounts: &[String], file: &str) -> Vec<String> {
    let folders = io_folders(membership).into_iter();
    let paths =
        folders.map(|folder| mounts.iter().map(move |mount| format!("{mount}/{folder}{file}")));
    let existing = paths.filter_map(|mut paths| paths.find(|path| Path::new(path).exists()));
    existing.collect()
}

/// Returns the folders below the mount of the group in `membership` and of all groups above, for
/// the disk controller of both versions. Each folder but the root ends in a slash.
fn io_folders(membership: &str) -> Vec<String> {
    let mut found = Vec::new();
    for line in membership.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(group)) = (fields.next(), fields.next()) else { continue };
        // Version 2 is mounted at the root, or beside the controllers of version 1.
        let roots: &[&str] = match controllers {
            "" => &["", "unified/"],
            list if list.split(',').any(|one| one == "blkio") => &["blkio/"],
            _ => continue,
        };
        let mut group = group.trim_matches('/');
        loop {
            let below = if group.is_empty() { String::new() } else { format!("{group}/") };
            found.extend(roots.iter().map(|root| format!("{root}{below}")));
            if group.is_empty() {
                break;
            }
            group = group.rsplit_once('/').map_or("", |(above, _)| above);
        }
    }
    found
}

/// Mount points of this process and of its parent. `ip netns exec` gives a process its own `/sys`,
/// which has no control groups.
fn mounts() -> [String; 2] {
    [MOUNT.to_owned(), format!("/proc/{}/root{MOUNT}", parent_id())]
}

/// Returns the place of this process's quota. [`read()`] and [`write()`] accept it in this process
/// and in a later one.
///
/// # Errors
/// If the group has no quota: it has no CPU controller, or it is the root group.
pub fn place() -> Result<String> {
    let membership = std::fs::read_to_string(MEMBERSHIP).unwrap_or_default();
    let places = folders(&membership)
        .into_iter()
        .flat_map(|folder| VERSIONS.map(|(file, _)| format!("{folder}{file}")));
    let found = places.into_iter().find(|place| read(place).is_ok());
    found.ok_or_else(|| {
        let cause = Error::new(
            ErrorKind::NotFound,
            "the group has no CPU controller, or it is the root group",
        );
        SysError::new("find CPU quota of", "the control group of this process", cause)
    })
}

/// Returns the quota at `place`.
///
/// # Errors
/// If there is no such file.
pub fn read(place: &str) -> Result<String> {
    let quota = field(place, 0)?;
    Ok(if quota == UNLIMITED_BEFORE { UNLIMITED.to_owned() } else { quota })
}

/// Returns the period of the quota at `place`, microseconds.
///
/// # Errors
/// If the period cannot be read.
pub fn period_us(place: &str) -> Result<u64> {
    let (folder, file) = place.rsplit_once('/').unwrap_or(("", place));
    let told = match VERSIONS.iter().find(|(quota, _)| *quota == file) {
        Some((quota, period)) if quota != period => field(&format!("{folder}/{period}"), 0)?,
        _ => field(place, 1)?,
    };
    told.parse()
        .map_err(|_| SysError::new("read period of", place, Error::from(ErrorKind::InvalidData)))
}

/// Sets the quota at `place`.
///
/// # Errors
/// If the file cannot be written (needs root and a mount that is not read-only), or if the kernel
/// sets another value: it grants at least a millisecond, and version 1 grants no larger share than
/// the parent group has.
pub fn write(place: &str, quota: &str) -> Result<()> {
    let wrap = |cause| SysError::new("set CPU quota", format!("{place} to {quota}"), cause);
    let before = quota == UNLIMITED && !place.ends_with(VERSIONS[0].0);
    let spelled = if before { UNLIMITED_BEFORE } else { quota };
    path(place).and_then(|path| std::fs::write(path, spelled)).map_err(wrap)?;
    let granted = read(place)?;
    if granted == quota {
        return Ok(());
    }
    Err(wrap(Error::other(format!("the kernel set {granted} instead"))))
}

/// Returns one field of the file at `place`.
fn field(place: &str, number: usize) -> Result<String> {
    let wrap = |cause| SysError::new("read CPU quota", place, cause);
    let text = path(place).and_then(std::fs::read_to_string).map_err(wrap)?;
    let field = text.split_whitespace().nth(number).map(str::to_owned);
    field.ok_or_else(|| wrap(Error::from(ErrorKind::InvalidData)))
}

/// Returns the path of the file at `place` below the first mount that has it. Accepts only files of
/// quotas and periods, and no path that leaves the mount.
fn path(place: &str) -> std::io::Result<PathBuf> {
    let is_known =
        |file: &str| VERSIONS.iter().any(|(quota, period)| [quota, period].contains(&&file));
    let parts: Vec<&str> = place.split('/').collect();
    if parts.contains(&"..")
        || place.starts_with('/')
        || !parts.last().is_some_and(|file| is_known(file))
    {
        return Err(Error::new(ErrorKind::InvalidInput, "this is not the path of a CPU quota"));
    }
    let paths = mounts().map(|mount| PathBuf::from(format!("{mount}/{place}")));
    let found = paths.into_iter().find(|path| path.exists());
    found.ok_or_else(|| Error::new(ErrorKind::NotFound, format!("not below {MOUNT}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_of_a_disk_are_those_of_all_groups_above() {
        assert_eq!(
            io_folders("7:blkio:/jobs/fast\n1:cpu:/jobs\n0::/jobs\n"),
            ["blkio/jobs/fast/", "blkio/jobs/", "blkio/", "jobs/", "unified/jobs/", "", "unified/"]
        );
        assert_eq!(io_folders("1:cpu:/\n"), [""; 0]);
    }

    #[test]
    fn each_file_is_that_of_the_first_mount_that_has_it() {
        let scratch = tempfile::tempdir().expect("a folder");
        let mounts = ["hidden", "parent"].map(|name| scratch.path().join(name));
        let [hidden, parent] = mounts.each_ref().map(|mount| mount.display().to_string());
        for (mount, folders) in [(&hidden, &["jobs"][..]), (&parent, &["", "jobs", "jobs/fast"])] {
            for folder in folders {
                let folder = Path::new(mount).join(folder);
                std::fs::create_dir_all(&folder).expect("a folder");
                std::fs::write(folder.join("io.max"), "").expect("a file");
            }
        }
        let found =
            existing_io_files("0::/jobs/fast\n", &[hidden.clone(), parent.clone()], "io.max");
        let expected = [
            format!("{parent}/jobs/fast/io.max"),
            format!("{hidden}/jobs/io.max"),
            format!("{parent}/io.max"),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn folders_are_found_by_membership_version_2_first() {
        let hybrid = "9:name=systemd:/\n1:cpu,cpuacct:/lr-1-a\n0::/\n";
        assert_eq!(folders(hybrid), ["", "cpu/lr-1-a/"]);
        assert_eq!(folders("3:cpuset:/x\n"), Vec::<String>::new());
        assert_eq!(folders("0::/user.slice/x\n"), ["user.slice/x/"]);
    }

    #[test]
    fn no_place_leads_elsewhere() {
        for place in ["cpu.stat", "../cpu.max", "/cpu.max", "cpu/../../x/cpu.max", ""] {
            assert!(
                read(place).is_err() && write(place, "1000").is_err() && period_us(place).is_err(),
                "{place}"
            );
        }
    }
}
