//! Profiles: changes of a host with their reasons, which can be applied, checked and reverted.
//!
//! ```toml
//! # ... how it is applied, checked and reverted, and the commands that do the same by hand
//! host = "b"
//! campaign = "20261121T171500Z-7f3a"
//!
//! [[change]]
//! setting = "net.ipv4.tcp_rmem"
//! device = ""
//! before = "4096 32768 32768"
//! after = "4096 131072 131072"
//! why = "the sender waited for the receiver's window 98 % of the time"
//! proof = "goodput 28.9 Mbit/s -> 95.6 Mbit/s, x3.307 [3.1 to 3.4 at 95 %], n = 6 pairs; ..."
//! side_effects = ["CPU time per gigabyte -8.0 % (better)"]
//! ```
//!
//! Settings of a program's sockets (`pacing_rate`) are under `[[program]]`: `tune apply` cannot
//! make them in other programs, and prints how to. Changes that were tried and not kept are under
//! `[[dropped]]`, and those that could not be tried under `[[untried]]`, with the reasons. Both are
//! for readers only.
//!
//! A profile is applied, checked and reverted on the host itself. A setting is changed only if it
//! has the value that the profile expects: a value that another program has set since is left alone
//! and reported. Either all of a profile is changed, or nothing.

use std::collections::BTreeSet;
use std::path::Path;

use linerate_analysis::tune::experiments::By;
use linerate_model::HOST_SETTINGS;
use linerate_report::sentences;
use linerate_sys::{SysError, steering, sysctl};
use serde::{Deserialize, Serialize};

use super::outcome::{Findings, NotTried, Tried};
use super::settings::typed;
use crate::{Exit, Failure, Result};

/// Profile as written.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Profile {
    host: String,
    campaign: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    change: Vec<Entry>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    program: Vec<Entry>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    dropped: Vec<Entry>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    untried: Vec<Hindered>,
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

/// A setting that could not be tried.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Hindered {
    setting: String,
    device: String,
    why: String,
}

/// Action on a profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// Make its changes.
    Apply,
    /// Check that the host matches it.
    Check,
    /// Put back the values before it.
    Revert,
}

impl From<&Tried> for Entry {
    fn from(tried: &Tried) -> Self {
        Self {
            setting: tried.candidate.setting.to_owned(),
            device: tried.device.clone(),
            before: tried.candidate.before.clone(),
            after: tried.candidate.after.clone(),
            why: tried.evidence(),
            proof: match tried.why.filter(|_| tried.goodput.is_some()) {
                Some(why) => format!("{}; but {why}", tried.proof()),
                None => tried.proof(),
            },
            side_effects: tried.side_effect_lines(),
        }
    }
}

impl Profile {
    /// Returns the profile of `host`.
    fn of(host: &str, campaign: &str, findings: &Findings) -> Self {
        let (kept, dropped): (Vec<&Tried>, Vec<&Tried>) =
            findings.tried.iter().filter(|tried| tried.host == host).partition(|one| one.is_kept());
        let kept = |by: By| {
            kept.iter().copied().filter(|tried| tried.candidate.by == by).map(Entry::from).collect()
        };
        fn hindered(untried: &NotTried) -> Hindered {
            Hindered {
                setting: untried.setting.to_owned(),
                device: untried.device.clone(),
                why: sentences::hindrance(&untried.hindrance),
            }
        }
        Self {
            host: host.to_owned(),
            campaign: campaign.to_owned(),
            change: kept(By::Agent),
            program: kept(By::Load),
            dropped: dropped.into_iter().map(Entry::from).collect(),
            untried: findings
                .untried
                .iter()
                .filter(|untried| untried.host == host)
                .map(hindered)
                .collect(),
        }
    }

    /// Writes it into `folder` and returns its path.
    fn write(&self, folder: &Path) -> Result<String> {
        let path = folder.join(format!("{}.profile.toml", self.host.replace('/', "-")));
        let written =
            |cause: String| Failure::missing(format!("write profile {}: {cause}", path.display()));
        let text = toml::to_string(self).map_err(|error| written(error.to_string()))?;
        let (host, file) = (&self.host, path.display().to_string());
        let by_hand =
            |entry: &Entry| format!("#   {}\n", typed(&entry.setting, &entry.device, &entry.after));
        let by_hand: String = self.change.iter().map(by_hand).collect();
        let head = format!(
            "# Settings that help at {host}, found by `linerate tune host`. None is in force. On \
                {host} itself:\n\
             #   linerate tune apply {file}    makes them, until the next boot\n\
             #   linerate tune check {file}    checks them\n\
             #   linerate tune revert {file}   puts back the values before\n"
        );
        let lasting =
            "# For every boot, apply it in an init script, or make the settings by hand:\n";
        let lasting =
            if by_hand.is_empty() { String::new() } else { format!("{lasting}{by_hand}") };
        linerate_sys::whole_file::replace(&path, format!("{head}{lasting}\n{text}").as_bytes())
            .map_err(|error| written(error.cause.to_string()))?;
        Ok(file)
    }

    fn read(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path)
            .map_err(|error| Failure::wrong(format!("read profile {}: {error}", path.display())))?;
        let profile: Self = toml::from_str(&text).map_err(|error| {
            Failure::wrong(format!("profile {}: {}", path.display(), error.message()))
        })?;
        let unknown = |entry: &&Entry| HOST_SETTINGS.iter().all(|(name, _)| *name != entry.setting);
        match profile.change.iter().find(unknown) {
            Some(Entry { setting, .. }) => Err(Failure::wrong(format!(
                "profile {}: `{setting}` is not a setting that linerate changes",
                path.display()
            ))),
            None => Ok(profile),
        }
    }
}

/// Writes a profile into `folder` for each host with a setting that is proven to help. Returns
/// their paths.
///
/// # Errors
/// If one cannot be written.
pub fn write(folder: &Path, findings: &Findings) -> Result<Vec<String>> {
    let hosts: BTreeSet<&str> = findings.kept().map(|tried| tried.host.as_str()).collect();
    hosts
        .into_iter()
        .map(|host| Profile::of(host, &findings.campaign, findings).write(folder))
        .collect()
}

/// Applies, checks or reverts the profile at `path` on this host. Returns a line for each setting,
/// and the exit.
///
/// # Errors
/// If there is no such profile, a setting has been changed since, or a setting cannot be read or
/// written.
pub fn turn(path: &Path, way: Turn) -> Result<(Vec<String>, Exit)> {
    let profile = Profile::read(path)?;
    let mut entries = profile.change;
    if way == Turn::Revert {
        entries.reverse();
        entries.iter_mut().for_each(|entry| std::mem::swap(&mut entry.before, &mut entry.after));
    }
    let mut lines = Vec::new();
    let mut wanting = Vec::new();
    for entry in &entries {
        let now = read(entry).map_err(|error| Failure::missing(error.to_string()))?;
        let Entry { setting, before, after, .. } = entry;
        if same(entry, &now, after) {
            lines.push(format!("{setting} is {after} already"));
        } else if way == Turn::Check {
            let made = if same(entry, &now, before) {
                "as it was before"
            } else {
                "somebody has set it since"
            };
            lines.push(format!("{setting} is {now}, not {after}: {made}"));
            wanting.push(entry);
        } else if same(entry, &now, before) {
            wanting.push(entry);
        } else {
            return Err(Failure::wrong(format!(
                "profile {}: {setting} is {now:?}, which is neither {before:?} nor {after:?}: \
                    somebody has set it since; nothing was changed",
                path.display()
            )));
        }
    }
    let exit = if way == Turn::Check && !wanting.is_empty() { Exit::Missed } else { Exit::Done };
    if way != Turn::Check {
        lines.extend(make(&wanting)?);
    }
    if way == Turn::Apply {
        lines.extend(profile.program.iter().map(of_programs));
    }
    Ok((lines, exit))
}

/// Makes all changes of `entries`, or none. Returns a line for each.
fn make(entries: &[&Entry]) -> Result<Vec<String>> {
    for (at, entry) in entries.iter().enumerate() {
        if let Err(error) = set(entry, &entry.after) {
            let undo =
                entries[..=at].iter().rev().filter_map(|entry| set(entry, &entry.before).err());
            let failed: Vec<String> =
                [error].into_iter().chain(undo).map(|error| error.to_string()).collect();
            return Err(Failure::missing(failed.join("; ")));
        }
    }
    let made = |entry: &&Entry| {
        format!("{} set to {} (it was {}): {}", entry.setting, entry.after, entry.before, entry.why)
    };
    Ok(entries.iter().map(made).collect())
}

/// Returns the settings that other programs must make themselves.
fn of_programs(entry: &Entry) -> String {
    format!(
        "{} {}: not set, programs do it at their own sockets (setsockopt SO_MAX_PACING_RATE, bytes \
            per second), or the kernel for each of \
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
    let mut values: Vec<String> = places
        .iter()
        .map(|place| steering::read(&entry.device, place))
        .collect::<Result<_, _>>()?;
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

    fn entry(setting: &str, after: &str) -> Entry {
        Entry {
            setting: setting.into(),
            device: "eth0".into(),
            before: "0".into(),
            after: after.into(),
            why: "because \"it\" was off".into(),
            proof: "x2".into(),
            side_effects: vec!["CPU +1 %".into()],
        }
    }

    fn profile(change: Vec<Entry>, program: Vec<Entry>) -> Profile {
        let untried = Hindered {
            setting: "rx_ring".into(),
            device: "eth0".into(),
            why: "not offered".into(),
        };
        let (host, campaign) = ("b".to_owned(), "campaign".to_owned());
        Profile { host, campaign, change, program, dropped: Vec::new(), untried: vec![untried] }
    }

    #[test]
    fn a_profile_reads_back_and_tells_by_which_commands_it_is_turned() {
        let folder = tempfile::tempdir().expect("a folder");
        let written = profile(vec![entry("gro", "1"), entry("rx_ring", "512")], Vec::new());
        let path = written.write(folder.path()).unwrap_or_else(|_| panic!("written"));
        assert!(path.ends_with("/b.profile.toml"));
        assert_eq!(
            Profile::read(Path::new(&path)).unwrap_or_else(|_| panic!("a profile")),
            written
        );
        let text = std::fs::read_to_string(&path).expect("there");
        for told in [
            "tune apply",
            "tune check",
            "tune revert",
            "ethtool -K eth0 gro on",
            "ethtool -G eth0 rx 512",
        ] {
            assert!(text.contains(told), "{told}: {text}");
        }
    }

    #[test]
    fn what_programs_do_themselves_is_told_and_nothing_is_changed_for_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let paced = profile(Vec::new(), vec![entry("pacing_rate", "89440832 bit/s")]);
        let path = paced.write(folder.path()).unwrap_or_else(|_| panic!("written"));
        assert!(of_programs(&paced.program[0]).contains("dev eth0 root fq maxrate 89440832bit`"));
        for way in [Turn::Apply, Turn::Check, Turn::Revert] {
            assert!(turn(Path::new(&path), way).is_ok());
        }
    }

    #[test]
    fn a_profile_that_names_anything_else_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let odd = profile(vec![entry("kernel.panic", "1")], Vec::new());
        let path = odd.write(folder.path()).unwrap_or_else(|_| panic!("written"));
        assert!(turn(Path::new(&path), Turn::Apply).is_err());
    }
}
