//! Changing settings of this host: with consent, written down before it is done, and put back.
//!
//! Consent is what the agent was started with ([`Consent`]). Before anything is changed, the old
//! value is in the journal on disk, so that whoever comes after an agent that was killed can put it
//! back ([`restore`]): its supervisor at once, or else the next agent. A value is put back only
//! where it is still what was written: what somebody else has set since is left alone and told.
//!
//! The journal is one file for each network namespace, locked while its owner lives: lines of JSON,
//! one a change, appended and synced before the change is made. A line that is cut short belongs to
//! a change that was never made.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use linerate_model::Ratio;
use linerate_sys::netlink::{Route, RouteSocket};
use linerate_sys::{SysError, cgroup, cpu, steering, sysctl};
use serde::{Deserialize, Serialize};

use journal::{Journal, journal_path};
use supervisor::Supervisor;

use crate::wire::{Setting, SettingState, TuneRequest};

mod journal;
mod supervisor;

/// The kernel parameters that may be changed.
const SYSCTLS: [&str; 3] =
    ["net.ipv4.tcp_congestion_control", "net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem"];
/// The word that stands for what holds for the whole host.
const HOST: &str = "host";
/// Where journals are unless told otherwise: gone after a reboot, as the settings are.
const JOURNALS: &str = "/run/linerate";
/// An agent that was killed may be seen no more and have a thread that holds the lock: until that
/// has had a CPU to end on.
const DYING: Duration = Duration::from_secs(1);

/// What an agent may change on its host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Consent {
    /// Devices whose routes may be given a window.
    pub devices: Vec<String>,
    /// Whether kernel parameters, which hold for the whole host, and the CPU quota of the agent's
    /// control group may be changed too.
    pub host_wide: HostWide,
    /// Whether changes may be made to stay after the session.
    pub keeping: Keeping,
    /// Folder of the journals.
    pub journals: PathBuf,
    /// The command line of a program that puts back what a journal there tells ([`restore`]) when
    /// its standard input ends: started before the first change, so that settings come back
    /// although the agent is killed. Without one, the next agent puts them back.
    pub supervisor: Option<Vec<OsString>>,
}

/// Whether a conductor may let its changes stay when it leaves.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Keeping {
    /// It may.
    #[default]
    Allowed,
    /// It may not: this policy file does not say so.
    Refused {
        /// The file.
        policy: String,
    },
}

/// Whether settings that hold for a whole host may be changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HostWide {
    /// They may not.
    #[default]
    Refused,
    /// They may.
    Allowed,
}

impl Consent {
    /// To what these words name: devices, and [`HOST`].
    #[must_use]
    pub fn to(words: &[String]) -> Self {
        let host_wide = if words.iter().any(|word| word == HOST) {
            HostWide::Allowed
        } else {
            HostWide::Refused
        };
        let devices = words.iter().filter(|word| *word != HOST).cloned().collect();
        Self { devices, host_wide, ..Self::default() }
    }
}

impl Default for Consent {
    fn default() -> Self {
        Self {
            devices: Vec::new(),
            host_wide: HostWide::Refused,
            keeping: Keeping::Allowed,
            journals: JOURNALS.into(),
            supervisor: None,
        }
    }
}

/// A change as the journal keeps it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Change {
    /// At a place of [`cgroup`].
    Quota {
        place: String,
        before: String,
        after: String,
    },
    /// Both as the kernel's route messages, hexadecimal.
    Route {
        device: String,
        before: String,
        after: String,
    },
    Sysctl {
        name: String,
        before: String,
        after: String,
    },
    /// At one place of an interface.
    Steering {
        device: String,
        place: String,
        before: String,
        after: String,
    },
}

/// What has been changed and not been put back.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    made: Vec<Change>,
    journal: Option<Journal>,
    supervisor: Option<Supervisor>,
    /// Set when the agent ends: nothing is changed after that.
    closed: bool,
}

impl Changes {
    /// Does what a conductor asks for; the settings it named as they are then.
    pub(crate) fn handle(
        &mut self,
        request: TuneRequest,
        consent: &Consent,
    ) -> Result<Vec<SettingState>, String> {
        match request {
            TuneRequest::Read(settings) => states(&settings, consent),
            TuneRequest::Apply(settings) => {
                let n_before = self.made.len();
                let applied = settings.iter().try_for_each(|setting| self.apply(setting, consent));
                if let Err(why) = applied {
                    let left = self.undo(n_before);
                    return Err([vec![why], left].concat().join("; "));
                }
                states(&settings, consent)
            }
            TuneRequest::Revert => match self.undo(0) {
                left if left.is_empty() => Ok(Vec::new()),
                left => Err(left.join("; ")),
            },
            TuneRequest::Keep => {
                if let Keeping::Refused { policy } = &consent.keeping {
                    return Err(format!(
                        "let changes of this host stay: its policy does not permit it; its owner \
                            can, with `keep = true` in {policy}"
                    ));
                }
                self.made.clear();
                self.forget();
                Ok(Vec::new())
            }
        }
    }

    /// Puts everything back; what could not be, a sentence each.
    pub(crate) fn put_back(&mut self) -> Vec<String> {
        self.undo(0)
    }

    /// Puts everything back, for good.
    pub(crate) fn close(&mut self) -> Vec<String> {
        self.closed = true;
        self.undo(0)
    }

    fn apply(&mut self, setting: &Setting, consent: &Consent) -> Result<(), String> {
        if self.closed {
            return Err("the agent is ending".into());
        }
        allowed(setting, consent)?;
        for change in plan(setting)? {
            if self.journal.is_none() {
                let journal = Journal::open(&consent.journals, Duration::ZERO)?;
                self.journal = Some(journal.ok_or("another agent changes settings of this host")?);
                self.supervisor =
                    consent.supervisor.as_deref().map(Supervisor::start).transpose()?;
            }
            if let Some(journal) = &mut self.journal {
                journal.append(&change)?;
            }
            // Noted first: a change that fails half-way is put back too.
            self.made.push(change.clone());
            change.make().map_err(|error| error.to_string())?;
        }
        Ok(())
    }

    /// Undoes the changes from the `keep`-th on, the last first.
    fn undo(&mut self, keep: usize) -> Vec<String> {
        let mut left = Vec::new();
        while self.made.len() > keep {
            if let Some(change) = self.made.pop() {
                left.extend(change.undo().left());
            }
        }
        if self.made.is_empty() && left.is_empty() {
            self.forget();
        }
        left
    }

    /// Nothing is changed any more: the journal goes.
    fn forget(&mut self) {
        if let Some(journal) = self.journal.take() {
            journal.remove();
        }
        // It finds nothing to put back.
        self.supervisor = None;
    }
}

impl Drop for Changes {
    fn drop(&mut self) {
        self.close();
    }
}

/// What was done about a change found in the journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Restored {
    /// It was put back; what.
    PutBack(String),
    /// It had not been made, or was put back before.
    Untouched,
    /// It is gone, or somebody else has set it since: there is nothing to put back.
    Left(String),
    /// It could not be put back; why.
    Failed(String),
}

impl Restored {
    fn left(self) -> Option<String> {
        match self {
            Self::Left(why) | Self::Failed(why) => Some(why),
            Self::PutBack(_) | Self::Untouched => None,
        }
    }
}

/// Puts back what an agent that was killed in this network namespace has left changed. Nothing if
/// there is no such journal, or its agent still runs.
///
/// # Errors
/// If the journal cannot be read, or somebody else may have written it.
pub fn restore(journals: &Path) -> Result<Vec<Restored>, String> {
    let path = journal_path(journals)?;
    if !path.exists() {
        return Ok(Vec::new());
    }
    let Some(mut journal) = Journal::open(journals, DYING)? else { return Ok(Vec::new()) };
    let restored: Vec<Restored> = journal.read()?.iter().rev().map(Change::undo).collect();
    if !restored.iter().any(|restored| matches!(restored, Restored::Failed(_))) {
        journal.remove();
    }
    Ok(restored)
}

fn allowed(setting: &Setting, consent: &Consent) -> Result<(), String> {
    match setting {
        Setting::CpuQuota { .. } if consent.host_wide == HostWide::Refused => Err(
            "set cpu_quota: it holds for all that is in the agent's control group, and this agent \
                was not told that it may (start it with \
             --allow-tune host)"
                .into(),
        ),
        Setting::RouteWindow { device, .. } if consent.devices.contains(device) => Ok(()),
        Setting::RouteWindow { device, .. } => Err(format!(
            "change a route of {device}: this agent was not told that it may (start it with \
                --allow-tune {device})"
        )),
        Setting::Steering { device, .. } if consent.devices.contains(device) => Ok(()),
        Setting::Steering { device, name, .. } if device.is_empty() => Err(format!(
            "set {name}: the endpoint names no interface (give it a `device` in the \
                testbed)"
        )),
        Setting::Steering { device, name, .. } => Err(format!(
            "set {name} of {device}: this agent was not told that it may (start it with \
                --allow-tune {device})"
        )),
        Setting::Sysctl { name, .. } if !SYSCTLS.contains(&name.as_str()) => {
            Err(format!("set sysctl {name}: only {} are ever changed", SYSCTLS.join(", ")))
        }
        Setting::Sysctl { name, .. } if consent.host_wide == HostWide::Refused => Err(format!(
            "set sysctl {name}: it holds for the whole host, and this agent was not told that it \
                may (start it with \
             --allow-tune host)"
        )),
        Setting::CpuQuota { .. } | Setting::Sysctl { .. } => Ok(()),
    }
}

/// In place of a share of a CPU: as much as there is.
const NO_QUOTA: &str = "none";
/// In place of a mask of CPUs: all that this process may run on.
const ALL: &str = "all";

fn device_index(socket: &mut RouteSocket, wanted: &str) -> Result<Option<u32>, SysError> {
    let mut index = None;
    socket.links(|link| {
        if link.name == wanted {
            index = Some(link.index);
        }
    })?;
    Ok(index)
}

fn device_name(socket: &mut RouteSocket, wanted: Option<u32>) -> Result<String, SysError> {
    let mut name = None;
    socket.links(|link| {
        if Some(link.index) == wanted {
            name = Some(link.name);
        }
    })?;
    Ok(name.unwrap_or_default())
}

/// The places of `name` at `device`, if sysfs shows the interface of that name of this network
/// namespace.
fn steering_places(device: &str, name: &str) -> Result<Vec<String>, String> {
    let told = |error: SysError| error.to_string();
    let shown = steering::index(device).map_err(told)?;
    let own = RouteSocket::open()
        .and_then(|mut socket| device_index(&mut socket, device))
        .map_err(told)?;
    if own != Some(shown) {
        return Err(format!(
            "set {name} of {device}: sysfs shows another network namespace (start the agent by `ip \
                netns exec`)"
        ));
    }
    steering::places(device, name).map_err(told)
}

/// The changes that make `setting` so, from what is there now.
fn plan(setting: &Setting) -> Result<Vec<Change>, String> {
    match setting {
        Setting::CpuQuota { value } => {
            let told = |error: SysError| error.to_string();
            let place = cgroup::place().map_err(told)?;
            let (before, period_us) =
                (cgroup::read(&place).map_err(told)?, cgroup::period_us(&place).map_err(told)?);
            let after = quota(value, &before, period_us)?;
            Ok(vec![Change::Quota { place, before, after }])
        }
        Setting::RouteWindow { destination, device, window, initial } => {
            let told = |error: SysError| error.to_string();
            let mut socket = RouteSocket::open().map_err(told)?;
            let before = socket.route_to(*destination).map_err(told)?;
            let index = device_index(&mut socket, device).map_err(told)?;
            if index.is_none() || before.device() != index {
                let leads = device_name(&mut socket, before.device()).map_err(told)?;
                return Err(format!(
                    "change the route to {destination}: it leads out of {leads}, not of {device}"
                ));
            }
            let after = before.with_windows(*window, *initial);
            let (before, after) = (hex(before.as_bytes()), hex(after.as_bytes()));
            Ok(vec![Change::Route { device: device.clone(), before, after }])
        }
        Setting::Sysctl { name, value } => {
            let before = sysctl::read(name).map_err(|error| error.to_string())?;
            Ok(vec![Change::Sysctl { name: name.clone(), before, after: value.clone() }])
        }
        Setting::Steering { device, name, value } => {
            let value = match value.as_str() {
                ALL if steering::is_of_cpus(name) => {
                    steering::mask(&cpu::allowed().map_err(|error| error.to_string())?)
                }
                mask if steering::is_mask(mask) => steering::plain(mask),
                _ => {
                    return Err(format!(
                        "set {name} of {device}: `{value}` is no hexadecimal mask"
                    ));
                }
            };
            let change = |place: String| {
                let before = steering::read(device, &place).map_err(|error| error.to_string())?;
                Ok(Change::Steering { device: device.clone(), place, before, after: value.clone() })
            };
            steering_places(device, name)?.into_iter().map(change).collect()
        }
    }
}

/// The quota that `value` asks for where `before` is in force, both as [`cgroup`] takes them.
fn quota(value: &str, before: &str, period_us: u64) -> Result<String, String> {
    let wrong = |why: &str| format!("set cpu_quota to {value}: {why}");
    let micros = |micros: f64| format!("{micros:.0}");
    if value == NO_QUOTA {
        return Ok(cgroup::UNLIMITED.to_owned());
    }
    if let Some(factor) = value.strip_prefix('x') {
        let factor = factor.parse().ok().filter(|factor: &f64| factor.is_finite() && *factor > 0.0);
        let factor = factor.ok_or_else(|| wrong("behind the x stands no number above 0"))?;
        let present = before.parse::<f64>();
        let present = present.map_err(|_| {
            wrong("the agent's control group has no CPU quota: there is nothing to raise")
        })?;
        return Ok(micros(factor * present));
    }
    let share = value.parse().ok().filter(|share: &Ratio| share.0 > 0.0 && value.ends_with('%'));
    let share = share.ok_or_else(|| {
        wrong("not a share of a CPU such as \"150 %\", a multiple such as \"x2\", or \"none\"")
    })?;
    Ok(micros(share.0 * period_us as f64))
}

/// `settings` with the values they have now.
fn states(settings: &[Setting], consent: &Consent) -> Result<Vec<SettingState>, String> {
    let state = |setting| {
        let (setting, spelled) = present(setting)?;
        let refused = allowed(&setting, consent).err();
        Ok(SettingState { setting, spelled, refused })
    };
    settings.iter().map(state).collect()
}

/// `setting` with the value it has now, and how it is spelled.
fn present(setting: &Setting) -> Result<(Setting, String), String> {
    let told = |error: SysError| error.to_string();
    match setting {
        Setting::CpuQuota { .. } => {
            let place = cgroup::place().map_err(told)?;
            let (quota, period_us) =
                (cgroup::read(&place).map_err(told)?, cgroup::period_us(&place).map_err(told)?);
            let share =
                quota.parse::<f64>().map(|quota| Ratio(quota / period_us as f64).to_string());
            let setting =
                Setting::CpuQuota { value: share.unwrap_or_else(|_| NO_QUOTA.to_owned()) };
            Ok((setting, format!("CPU quota {place}")))
        }
        Setting::RouteWindow { destination, .. } => {
            let mut socket = RouteSocket::open().map_err(told)?;
            let route = socket.route_to(*destination).map_err(told)?;
            let device = device_name(&mut socket, route.device()).map_err(told)?;
            let spelled = route.spelled(&device);
            let (window, initial) = (route.window(), route.initial_window());
            let setting =
                Setting::RouteWindow { destination: *destination, device, window, initial };
            Ok((setting, spelled))
        }
        Setting::Sysctl { name, .. } => {
            if !SYSCTLS.contains(&name.as_str()) {
                return Err(format!("read sysctl {name}: only {} are told", SYSCTLS.join(", ")));
            }
            let setting =
                Setting::Sysctl { name: name.clone(), value: sysctl::read(name).map_err(told)? };
            Ok((setting, name.clone()))
        }
        Setting::Steering { device, name, .. } => {
            let read = |place: &String| steering::read(device, place).map_err(told);
            let mut values: Vec<String> =
                steering_places(device, name)?.iter().map(read).collect::<Result<_, _>>()?;
            values.dedup();
            let setting = Setting::Steering {
                device: device.clone(),
                name: name.clone(),
                value: values.join(" "),
            };
            Ok((setting, format!("{name} of {device}")))
        }
    }
}

impl Change {
    fn make(&self) -> Result<(), SysError> {
        match self {
            Self::Quota { place, after, .. } => cgroup::write(place, after),
            Self::Route { after, .. } => replace(after),
            Self::Sysctl { name, after, .. } => sysctl::write(name, after),
            Self::Steering { device, place, after, .. } => steering::write(device, place, after),
        }
    }

    /// Puts back what was there, if what is there now is what we wrote.
    fn undo(&self) -> Restored {
        let result = match self {
            Self::Quota { place, before, after } => cgroup::read(place).and_then(|now| {
                put_back(format!("CPU quota {place}"), [before, after, &now], || {
                    cgroup::write(place, before)
                })
            }),
            Self::Sysctl { name, .. } if !SYSCTLS.contains(&name.as_str()) => {
                return Restored::Failed(format!(
                    "put back sysctl {name}: no agent changes it, somebody else has written the \
                        journal"
                ));
            }
            Self::Sysctl { name, before, after } => sysctl::read(name).and_then(|now| {
                put_back(name.clone(), [before, after, &now], || sysctl::write(name, before))
            }),
            Self::Route { device, before, after } => put_back_route(device, before, after),
            Self::Steering { device, place, before, after } => steering::read(device, place)
                .and_then(|now| {
                    put_back(format!("{place} of {device}"), [before, after, &now], || {
                        steering::write(device, place, before)
                    })
                }),
        };
        result.unwrap_or_else(|error| Restored::Failed(format!("put back: {error}")))
    }
}

/// By `write`, if what is there `now` is what was written.
fn put_back(
    what: String,
    [before, after, now]: [&str; 3],
    write: impl FnOnce() -> Result<(), SysError>,
) -> Result<Restored, SysError> {
    Ok(if now == before {
        Restored::Untouched
    } else if now == after {
        write()?;
        Restored::PutBack(format!("{what} = {before}"))
    } else {
        Restored::Left(format!("put back {what}: somebody else has set it to {now} since"))
    })
}

fn replace(route: &str) -> Result<(), SysError> {
    RouteSocket::open()?.replace_route(&parsed(route)?)
}

fn parsed(text: &str) -> Result<Route, SysError> {
    let bytes = unhex(text).and_then(|bytes| Route::from_bytes(&bytes));
    let damaged =
        || SysError::new("read route", text, std::io::Error::other("the journal is damaged"));
    bytes.ok_or_else(damaged)
}

fn put_back_route(device: &str, before: &str, after: &str) -> Result<Restored, SysError> {
    let (before, after) = (parsed(before)?, parsed(after)?);
    let spelled = before.spelled(device);
    let mut socket = RouteSocket::open()?;
    let mut present = None;
    socket.routes(|route| {
        if route.is_same_entry(&before) {
            present = Some(route);
        }
    })?;
    let windows = |route: &Route| (route.window(), route.initial_window());
    Ok(match present {
        None => Restored::Left(format!("put back route {spelled}: it is gone")),
        Some(now) if windows(&now) == windows(&before) => Restored::Untouched,
        Some(now) if windows(&now) == windows(&after) => {
            socket.replace_route(&before)?;
            Restored::PutBack(format!("route {spelled}"))
        }
        Some(now) => Restored::Left(format!(
            "put back route {spelled}: somebody else has given it window {} since",
            now.window()
        )),
    })
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).ok());
    digits.map(|pair| u8::from_str_radix(pair.filter(|pair| pair.len() == 2)?, 16).ok()).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::journal::is_trusted;
    use super::*;

    fn consent(folder: &Path) -> Consent {
        Consent {
            devices: vec!["eth0".into()],
            host_wide: HostWide::Refused,
            journals: folder.into(),
            ..Consent::default()
        }
    }

    #[test]
    fn what_was_not_consented_to_is_refused_with_the_option_that_would_allow_it() {
        let folder = tempfile::tempdir().unwrap();
        let consent = consent(folder.path());
        let ask = |setting| {
            Changes::default().handle(TuneRequest::Apply(vec![setting]), &consent).unwrap_err()
        };
        let destination = "198.18.0.1".parse().unwrap();
        let route =
            Setting::RouteWindow { destination, device: "eth1".into(), window: 7300, initial: 0 };
        assert!(ask(route).contains("--allow-tune eth1"));
        let wide = Setting::Sysctl { name: SYSCTLS[0].into(), value: "4096 12288 12288".into() };
        assert!(ask(wide).contains("--allow-tune host"));
        let quota = Setting::CpuQuota { value: "none".into() };
        assert!(ask(quota).contains("--allow-tune host"));
        let steered = |device: &str| Setting::Steering {
            device: device.into(),
            name: "gro".into(),
            value: "1".into(),
        };
        assert!(ask(steered("eth1")).contains("--allow-tune eth1"));
        assert!(ask(steered("")).contains("names no interface"));
        assert_eq!(allowed(&steered("eth0"), &consent), Ok(()));
        let other = Setting::Sysctl { name: "kernel.panic".into(), value: "1".into() };
        assert!(ask(other).contains(
            "only net.ipv4.tcp_congestion_control, net.ipv4.tcp_rmem, net.ipv4.tcp_wmem"
        ));
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "nothing was written");
    }

    #[test]
    fn host_wide_consent_is_a_word_of_its_own_and_an_agent_that_ends_changes_nothing_more() {
        let words = |words: &[&str]| {
            Consent::to(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>())
        };
        let (some, all) = (words(&["eth0", "eth1"]), words(&["eth0", "host"]));
        assert_eq!((some.host_wide, some.devices.len()), (HostWide::Refused, 2));
        assert_eq!((all.host_wide, all.devices), (HostWide::Allowed, vec!["eth0".to_owned()]));
        let folder = tempfile::tempdir().unwrap();
        let mut changes = Changes::default();
        changes.close();
        let setting = Setting::RouteWindow {
            destination: "198.18.0.1".parse().unwrap(),
            device: "eth0".into(),
            window: 7300,
            initial: 0,
        };
        let why =
            changes.handle(TuneRequest::Apply(vec![setting]), &consent(folder.path())).unwrap_err();
        assert!(why.contains("is ending"), "{why}");
    }

    #[test]
    fn quotas_are_shares_of_a_period_multiples_of_what_there_is_or_none() {
        let of = |value: &str, before: &str| quota(value, before, 20_000);
        assert_eq!(of("x2", "2000"), Ok("4000".into()));
        assert_eq!(of("150 %", "max"), Ok("30000".into()));
        assert_eq!(of("none", "2000"), Ok("max".into()));
        assert!(
            of("x2", "max").unwrap_err().contains("has no CPU quota: there is nothing to raise")
        );
        for wrong in ["x", "x0", "xinf", "x-1", "", "2000", "-5 %"] {
            assert!(of(wrong, "2000").is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_journal_cut_short_is_read_up_to_its_last_whole_line() {
        let folder = tempfile::tempdir().unwrap();
        let change = Change::Sysctl { name: "x".into(), before: "1".into(), after: "2".into() };
        let mut journal = Journal::open(folder.path(), Duration::ZERO).unwrap().unwrap();
        journal.append(&change).unwrap();
        journal.append(&change).unwrap();
        let path = journal.path.clone();
        assert!(
            Journal::open(folder.path(), Duration::ZERO).unwrap().is_none(),
            "another agent has it"
        );
        drop(journal);
        let whole = std::fs::read(&path).unwrap();
        // A process that another test starts holds what this one has open, locks included, until it
        // becomes another program.
        let patience = Duration::from_secs(10);
        for end in 0..whole.len() {
            std::fs::write(&path, &whole[..end]).unwrap();
            let read = Journal::open(folder.path(), patience).unwrap().unwrap().read().unwrap();
            // A change that lacks only its last newline is whole.
            assert_eq!(read.len(), (end + 1) / (whole.len() / 2), "{end}");
            assert!(read.iter().all(|read| *read == change));
        }
    }

    /// A journal there, in which somebody wrote `text`; where it is.
    fn planted(folder: &Path, text: &str, mode: u32) -> PathBuf {
        let path = journal_path(folder).unwrap();
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(mode))
            .unwrap();
        path
    }

    #[test]
    fn a_journal_that_others_may_have_written_is_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        assert!(is_trusted(0, 7, 0o644) && is_trusted(7, 7, 0o600));
        assert!(!is_trusted(7, 0, 0o600) && !is_trusted(0, 0, 0o620) && !is_trusted(0, 0, 0o602));
        let path = planted(folder.path(), "", 0o622);
        assert!(restore(folder.path()).unwrap_err().contains("may have written it"));
        let elsewhere = folder.path().join("elsewhere");
        std::fs::rename(&path, &elsewhere).unwrap();
        std::os::unix::fs::symlink(&elsewhere, &path).unwrap();
        assert!(
            restore(folder.path()).unwrap_err().starts_with("open journal"),
            "a link leads anywhere"
        );
        std::fs::remove_file(&path).unwrap();
        let mut journal = Journal::open(folder.path(), Duration::ZERO).unwrap().unwrap();
        assert_eq!(journal.file.metadata().unwrap().mode() & 0o777, 0o600);
        assert_eq!(journal.read().unwrap(), []);
    }

    #[test]
    fn a_journal_that_tells_of_what_no_agent_changes_writes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let (name, value) = ("kernel.ostype", sysctl::read("kernel.ostype").unwrap());
        let change = Change::Sysctl { name: name.into(), before: "1".into(), after: value };
        let path = planted(folder.path(), &serde_json::to_string(&change).unwrap(), 0o600);
        let restored = restore(folder.path()).unwrap();
        assert!(
            matches!(&restored[..], [Restored::Failed(why)] if why.contains("no agent changes it")),
            "{restored:?}"
        );
        assert!(path.exists(), "it is kept to be looked at");
    }

    #[test]
    fn hexadecimal_comes_back_and_nonsense_does_not() {
        assert_eq!(unhex(&hex(&[0, 171, 255])), Some(vec![0, 171, 255]));
        for text in ["0", "0g", "é1", "+1"] {
            assert!(unhex(text).is_none_or(|bytes| text == "+1" && bytes == [1]), "{text}");
        }
    }
}
