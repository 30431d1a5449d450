//! Profiles: what was changed at a host and why, so that it can be made so again, and put back.
//!
//! ```toml
//! host = "b"
//! campaign = "20261121T171500Z-7f3a"
//!
//! [[change]]
//! setting = "net.ipv4.tcp_rmem"
//! device = ""
//! before = "4096 32768 32768"
//! after = "4096 131072 131072"
//! why = "the sender waited for the peer's window 98 % of the time"
//! proof = "goodput 28.9 Mbit/s -> 95.6 Mbit/s, x3.307 [3.1 to 3.4 at 95 %], n = 6 pairs; ..."
//! side_effects = ["CPU for a gigabyte -8.0 % (better)"]
//! ```
//!
//! What belongs to the sockets of a program (`pacing_rate`) stands under `[[program]]`, alike: `tune apply` cannot make other programs do it, and
//! says how they do.
//!
//! A profile is applied and reverted on the host itself, by whoever may. A setting is changed only where it is as the profile expects
//! it: what somebody else has set since is left alone and told. All of a profile or nothing is changed.

use std::path::{Path, PathBuf};

use clap::Args;
use linerate_analysis::tune::experiments::By;
use linerate_model::HOST_SETTINGS;
use linerate_sys::{SysError, steering, sysctl};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::cli::Global;
use crate::exit::{Exit, Failure, Outcome};

#[derive(Debug, Args)]
pub(crate) struct ProfileArgs {
    /// The profile, as `linerate tune host` wrote it
    pub(crate) profile: PathBuf,
}

/// A change that is proven to help.
#[derive(Clone, Debug)]
pub(super) struct Proven {
    pub(super) host: String,
    pub(super) device: String,
    pub(super) setting: String,
    pub(super) by: By,
    pub(super) before: String,
    pub(super) after: String,
    pub(super) why: String,
    pub(super) proof: String,
    pub(super) side_effects: Vec<String>,
}

/// A profile as written.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Profile {
    host: String,
    campaign: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    change: Vec<Entry>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    program: Vec<Entry>,
}

/// One change of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    setting: String,
    device: String,
    before: String,
    after: String,
    why: String,
    proof: String,
    side_effects: Vec<String>,
}

/// Which way a profile is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    Apply,
    Revert,
}

/// Writes a profile for each host of `proven` into `folder`; their paths.
pub(super) fn write(folder: &Path, campaign: &str, proven: &[Proven]) -> Result<Vec<String>, Failure> {
    let mut hosts: Vec<&str> = proven.iter().map(|change| change.host.as_str()).collect();
    hosts.sort_unstable();
    hosts.dedup();
    let mut paths = Vec::new();
    for host in hosts {
        let entry = |change: &Proven| Entry {
            setting: change.setting.clone(),
            device: change.device.clone(),
            before: change.before.clone(),
            after: change.after.clone(),
            why: change.why.clone(),
            proof: change.proof.clone(),
            side_effects: change.side_effects.clone(),
        };
        let of = |by: By| {
            proven.iter().filter(|change| change.host == host && change.by == by).map(entry).collect::<Vec<_>>()
        };
        let (change, program) = (of(By::Agent), of(By::Load));
        let profile = Profile { host: host.to_owned(), campaign: campaign.to_owned(), change, program };
        let path = folder.join(format!("{}.profile.toml", host.replace('/', "-")));
        let written = |cause: String| Failure::missing(format!("write profile {}: {cause}", path.display()));
        let text = toml::to_string(&profile).map_err(|error| written(error.to_string()))?;
        std::fs::write(&path, text).map_err(|error| written(error.to_string()))?;
        paths.push(path.display().to_string());
    }
    Ok(paths)
}

/// Applies or reverts the profile at `path`, on this host.
pub(super) fn turn(path: &Path, way: Turn, global: Global) -> Outcome {
    let text = std::fs::read_to_string(path)
        .map_err(|error| Failure::wrong(format!("read profile {}: {error}", path.display())))?;
    let profile: Profile = toml::from_str(&text)
        .map_err(|error| Failure::wrong(format!("profile {}: {}", path.display(), error.message())))?;
    let unknown = |entry: &&Entry| HOST_SETTINGS.iter().all(|(name, _)| *name != entry.setting);
    if let Some(entry) = profile.change.iter().find(unknown) {
        return Err(Failure::wrong(format!("profile {}: `{}` is never changed", path.display(), entry.setting)));
    }
    let mut entries = profile.change;
    if way == Turn::Revert {
        entries.reverse();
        entries.iter_mut().for_each(|entry| std::mem::swap(&mut entry.before, &mut entry.after));
    }
    let mut lines = Vec::new();
    for entry in &entries {
        let now = read(entry).map_err(|error| Failure::missing(error.to_string()))?;
        match () {
            () if same(entry, &now, &entry.after) => {
                lines.push(format!("{} is {} already", entry.setting, entry.after))
            }
            () if same(entry, &now, &entry.before) => {}
            () => {
                return Err(Failure::wrong(format!(
                    "profile {}: {} is {now:?}, which is neither {:?} nor {:?}: somebody has set it since; nothing was changed",
                    path.display(),
                    entry.setting,
                    entry.before,
                    entry.after
                )));
            }
        }
    }
    let mut made: Vec<&Entry> = Vec::new();
    for entry in entries.iter().filter(|entry| read(entry).is_ok_and(|now| !same(entry, &now, &entry.after))) {
        made.push(entry);
        if let Err(error) = set(entry, &entry.after) {
            let left: Vec<String> =
                made.iter().rev().filter_map(|entry| set(entry, &entry.before).err()).map(|e| e.to_string()).collect();
            return Err(Failure::missing([vec![error.to_string()], left].concat().join("; ")));
        }
        lines.push(format!("{} set to {} (it was {}): {}", entry.setting, entry.after, entry.before, entry.why));
    }
    if way == Turn::Apply {
        lines.extend(profile.program.iter().map(of_programs));
    }
    if global.json {
        println!("{}", json!(lines));
    } else {
        lines.iter().for_each(|line| println!("{line}"));
    }
    Ok(Exit::Done)
}

/// What is not done here, and by whom it is.
fn of_programs(entry: &Entry) -> String {
    format!(
        "{} {}: not set, programs do it at their own sockets (setsockopt SO_MAX_PACING_RATE, bytes per second), or the kernel for each of \
         their connections (`tc qdisc replace dev {} root fq maxrate {}`): {}",
        entry.setting,
        entry.after,
        entry.device,
        entry.after.replace(" bit/s", "bit"),
        entry.why
    )
}

fn is_of_interface(entry: &Entry) -> bool {
    steering::settings().contains(&entry.setting.as_str())
}

fn read(entry: &Entry) -> Result<String, SysError> {
    if !is_of_interface(entry) {
        return sysctl::read(&entry.setting);
    }
    let places = steering::places(&entry.device, &entry.setting)?;
    let mut values: Vec<String> =
        places.iter().map(|place| steering::read(&entry.device, place)).collect::<Result<_, _>>()?;
    values.dedup();
    Ok(values.join(" "))
}

fn set(entry: &Entry, value: &str) -> Result<(), SysError> {
    if !is_of_interface(entry) {
        return sysctl::write(&entry.setting, value);
    }
    let places = steering::places(&entry.device, &entry.setting)?;
    places.iter().try_for_each(|place| steering::write(&entry.device, place, value))
}

fn same(entry: &Entry, now: &str, value: &str) -> bool {
    if is_of_interface(entry) {
        return steering::plain(now) == steering::plain(value);
    }
    now.split_whitespace().eq(value.split_whitespace())
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUIET: Global = Global { json: false, quiet: true, verbose: false, color: crate::cli::Color::Auto };

    fn proven(host: &str, setting: &str) -> Proven {
        Proven {
            host: host.into(),
            device: "eth0".into(),
            setting: setting.into(),
            by: if setting == "pacing_rate" { By::Load } else { By::Agent },
            before: "0".into(),
            after: "1".into(),
            why: "because \"it\" was off".into(),
            proof: "x2".into(),
            side_effects: vec!["CPU +1 %".into()],
        }
    }

    #[test]
    fn each_host_has_a_profile_of_its_own_that_reads_back() {
        let folder = tempfile::tempdir().expect("a folder");
        let written = [proven("b", "gro"), proven("a", "tso"), proven("b", "threaded")];
        let paths = write(folder.path(), "campaign", &written).unwrap_or_else(|_| panic!("written"));
        assert_eq!(paths.len(), 2);
        let read = |path: &str| -> Profile {
            toml::from_str(&std::fs::read_to_string(path).expect("there")).expect("a profile")
        };
        assert_eq!(read(&paths[0]).host, "a");
        let of_b: Vec<String> = read(&paths[1]).change.into_iter().map(|entry| entry.setting).collect();
        assert_eq!(of_b, ["gro", "threaded"]);
        assert_eq!(read(&paths[0]).change[0].why, "because \"it\" was off");
    }

    #[test]
    fn what_programs_do_themselves_is_told_and_nothing_is_changed_for_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let paced = Proven { after: "89440832 bit/s".into(), ..proven("a", "pacing_rate") };
        let paths = write(folder.path(), "campaign", &[paced]).unwrap_or_else(|_| panic!("written"));
        let read: Profile = toml::from_str(&std::fs::read_to_string(&paths[0]).expect("there")).expect("a profile");
        assert_eq!((read.change.len(), read.program.len()), (0, 1));
        assert!(of_programs(&read.program[0]).contains("dev eth0 root fq maxrate 89440832bit`"));
        for way in [Turn::Apply, Turn::Revert] {
            assert!(turn(Path::new(&paths[0]), way, QUIET).is_ok());
        }
    }

    #[test]
    fn a_profile_that_names_anything_else_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let paths =
            write(folder.path(), "campaign", &[proven("b", "kernel.panic")]).unwrap_or_else(|_| panic!("written"));
        assert!(turn(Path::new(&paths[0]), Turn::Apply, QUIET).is_err());
    }
}
