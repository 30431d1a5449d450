//! The CPU quota of the control group that this process is in: version 2 (`cpu.max`) and version 1
//! (`cpu.cfs_quota_us`); admin-guide/cgroup-v2 and scheduler/sched-bwc of the kernel documentation.
//!
//! A quota is the CPU time, in microseconds, that the group may use in each period, as text, or
//! `max` for as much as there is. Not seen: quotas of the groups above, which bind too.

use std::io::{Error, ErrorKind};
use std::os::unix::process::parent_id;
use std::path::PathBuf;

use crate::SysError;

const MOUNT: &str = "/sys/fs/cgroup";
const MEMBERSHIP: &str = "/proc/self/cgroup";
/// The file of a quota, and that of its period: one and the same in version 2.
const VERSIONS: [(&str, &str); 2] =
    [("cpu.max", "cpu.max"), ("cpu.cfs_quota_us", "cpu.cfs_period_us")];
/// No quota.
pub const UNLIMITED: &str = "max";
/// How version 1 writes it.
const UNLIMITED_BEFORE: &str = "-1";

/// Folders below the mount where the CPU controller of a process of this membership
/// (`/proc/self/cgroup`) may be, version 2 first; each ends in a slash but the root.
#[must_use]
pub fn folders(membership: &str) -> Vec<String> {
    let of = |line: &str| {
        let mut fields = line.splitn(3, ':').skip(1);
        let (controllers, group) = (fields.next()?, fields.next()?.trim_matches('/'));
        let group = if group.is_empty() { String::new() } else { format!("{group}/") };
        match controllers {
            "" => Some((0, group)),
            of if of.split(',').any(|one| one == "cpu") => Some((1, format!("cpu/{group}"))),
            _ => None,
        }
    };
    let mut found: Vec<(u8, String)> = membership.lines().filter_map(of).collect();
    found.sort();
    found.into_iter().map(|(_, folder)| folder).collect()
}

/// Where `file` of the CPU controller of this process may be, the most likely first.
#[must_use]
pub fn candidates(file: &str) -> Vec<String> {
    let membership = std::fs::read_to_string(MEMBERSHIP).unwrap_or_default();
    let folders = folders(&membership);
    mounts()
        .iter()
        .flat_map(|mount| folders.iter().map(move |folder| format!("{mount}/{folder}{file}")))
        .collect()
}

/// Our own, and that of whoever started us: `ip netns exec` gives a process a `/sys` of its own,
/// without control groups.
fn mounts() -> [String; 2] {
    [MOUNT.to_owned(), format!("/proc/{}/root{MOUNT}", parent_id())]
}

/// The place of this process's quota: what [`read`] and [`write`] take, in this process and in one
/// that comes after it.
///
/// # Errors
/// If its group has none: there is no CPU controller, or it is the root.
pub fn place() -> Result<String, SysError> {
    let membership = std::fs::read_to_string(MEMBERSHIP).unwrap_or_default();
    let places = folders(&membership)
        .into_iter()
        .flat_map(|folder| VERSIONS.map(|(file, _)| format!("{folder}{file}")));
    let found = places.into_iter().find(|place| read(place).is_ok());
    found.ok_or_else(|| {
        let cause = Error::new(ErrorKind::NotFound, "it has no CPU controller, or is the root");
        SysError::new("find CPU quota of", "the control group of this process", cause)
    })
}

/// The quota at `place`.
///
/// # Errors
/// If there is none.
pub fn read(place: &str) -> Result<String, SysError> {
    let quota = field(place, 0)?;
    Ok(if quota == UNLIMITED_BEFORE { UNLIMITED.to_owned() } else { quota })
}

/// The period that the quota at `place` is counted over, microseconds.
///
/// # Errors
/// If it cannot be read.
pub fn period_us(place: &str) -> Result<u64, SysError> {
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
/// If it may not be written (needs root, and a mount that is not read-only), or the kernel takes
/// another value than was asked for: it grants no less than a millisecond, and version 1 no larger
/// share than the group above has.
pub fn write(place: &str, quota: &str) -> Result<(), SysError> {
    let wrap = |cause| SysError::new("set CPU quota", format!("{place} to {quota}"), cause);
    let before = quota == UNLIMITED && !place.ends_with(VERSIONS[0].0);
    let spelled = if before { UNLIMITED_BEFORE } else { quota };
    path(place).and_then(|path| std::fs::write(path, spelled)).map_err(wrap)?;
    let granted = read(place)?;
    if granted == quota {
        return Ok(());
    }
    Err(wrap(Error::other(format!("the kernel made it {granted}"))))
}

/// A field of what is at `place`.
fn field(place: &str, number: usize) -> Result<String, SysError> {
    let wrap = |cause| SysError::new("read CPU quota", place, cause);
    let text = path(place).and_then(std::fs::read_to_string).map_err(wrap)?;
    let field = text.split_whitespace().nth(number).map(str::to_owned);
    field.ok_or_else(|| wrap(Error::from(ErrorKind::InvalidData)))
}

/// The file at `place`, where any mount has it: only those of quotas and periods, and below the
/// mount.
fn path(place: &str) -> std::io::Result<PathBuf> {
    let is_known =
        |file: &str| VERSIONS.iter().any(|(quota, period)| [quota, period].contains(&&file));
    let parts: Vec<&str> = place.split('/').collect();
    if parts.contains(&"..")
        || place.starts_with('/')
        || !parts.last().is_some_and(|file| is_known(file))
    {
        return Err(Error::new(ErrorKind::InvalidInput, "this is no place of a quota"));
    }
    let paths = mounts().map(|mount| PathBuf::from(format!("{mount}/{place}")));
    let found = paths.into_iter().find(|path| path.exists());
    found.ok_or_else(|| Error::new(ErrorKind::NotFound, format!("not below {MOUNT}")))
}

#[cfg(test)]
mod tests {
    use super::*;

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
