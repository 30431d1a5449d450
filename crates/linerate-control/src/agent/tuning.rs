//! Changes of this host's settings: made with consent only, written to a journal first, and put
//! back.
//!
//! Consent is given when the agent is started ([`Consent`]). The old value is in the journal on
//! disk before anything is changed. If the agent is killed, its supervisor puts the value back at
//! once, or else the next agent does ([`restore`]). A value is put back only if it is still the one
//! that was written. A value that another program has set since is reported and left alone.
//!
//! There is one journal for each network namespace, locked while its owner lives. It has one line
//! of JSON for each change, appended and synced before the change is made. An incomplete line
//! belongs to a change that was never made.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use linerate_model::Ratio;
use linerate_sys::netlink::RouteSocket;
use linerate_sys::{SysError, cgroup, cpu, steering, sysctl};
use serde::{Deserialize, Serialize};

use journal::{Journal, journal_path};
use routes::{hex, put_back_route, replace};
use supervisor::Supervisor;

use crate::wire::{Setting, SettingState, TuneRequest};

mod journal;
mod routes;
mod supervisor;

/// Kernel parameters that may be changed.
const SYSCTLS: [&str; 3] =
    ["net.ipv4.tcp_congestion_control", "net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem"];
/// Word of `--allow-tune` for settings of the whole host.
const HOST: &str = "host";
/// Default folder of journals. It is empty after a reboot, which undoes the settings too.
const JOURNALS: &str = "/run/linerate";
/// Longest wait for the lock of an agent that was killed: its last thread holds the lock until it
/// has had a CPU to end on.
const DYING: Duration = Duration::from_secs(1);

/// Settings that an agent may change on its host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Consent {
    /// Devices whose routes may be given a window.
    pub devices: Vec<String>,
    /// Permission to change kernel parameters, which affect the whole host, and the CPU quota of
    /// the agent's control group.
    pub host_wide: HostWide,
    /// Permission to make changes stay after the session.
    pub keeping: Keeping,
    /// Folder of the journals.
    pub journals: PathBuf,
    /// Command line of the supervisor: a program that puts back the changes in the journals
    /// ([`restore`]) when its standard input ends. It is started before the first change. Without
    /// one, the next agent puts back the changes of an agent that was killed.
    pub supervisor: Option<Vec<OsString>>,
}

/// Permission to make changes stay when the conductor leaves.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Keeping {
    /// Granted.
    #[default]
    Allowed,
    /// Not granted by the policy.
    Refused {
        /// The file of the policy.
        policy: String,
    },
}

/// Permission to change settings that affect a whole host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HostWide {
    /// Not granted.
    #[default]
    Refused,
    /// Granted.
    Allowed,
}

impl Consent {
    /// Creates the consent of `--allow-tune`: names of devices, and the word `host`.
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

/// Change of a setting, as the journal keeps it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Change {
    /// CPU quota at a place of [`cgroup`].
    Quota {
        place: String,
        before: String,
        after: String,
    },
    /// Route; both values are route messages of the kernel, hexadecimal.
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
    /// Steering at one place of an interface.
    Steering {
        device: String,
        place: String,
        before: String,
        after: String,
    },
}

/// Changes that have been made and not put back.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    made: Vec<Change>,
    journal: Option<Journal>,
    supervisor: Option<Supervisor>,
    /// Set when the agent ends. No change is made after that.
    closed: bool,
}

impl Changes {
    /// Carries out a conductor's request. Returns the requested settings with their values
    /// afterwards.
    pub(crate) fn handle(
        &mut self,
        request: TuneRequest,
        consent: &Consent,
    ) -> Result<Vec<SettingState>, String> {
        match request {
            TuneRequest::Read(settings) => states(&settings, consent),
            TuneRequest::Apply(settings) => {
                // All or none: on an error the changes of this request are undone.
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
                        "keep changes of this host: its policy does not permit it; its owner can, \
                            with `keep = true` in {policy}"
                    ));
                }
                // The conductor takes over the responsibility; nothing is left to put back.
                self.made.clear();
                self.forget();
                Ok(Vec::new())
            }
        }
    }

    /// Puts every change back. Returns a sentence for each that could not be.
    pub(crate) fn put_back(&mut self) -> Vec<String> {
        self.undo(0)
    }

    /// Puts every change back, and refuses further ones.
    pub(crate) fn close(&mut self) -> Vec<String> {
        // Set first: a request that arrives during the undo must not change anything again.
        self.closed = true;
        self.undo(0)
    }

    fn apply(&mut self, setting: &Setting, consent: &Consent) -> Result<(), String> {
        if self.closed {
            return Err("the agent is ending".into());
        }
        // Checked again for each setting: consent is per device.
        allowed(setting, consent)?;
        for change in plan(setting)? {
            if self.journal.is_none() {
                let journal = Journal::open(&consent.journals, Duration::ZERO)?;
                self.journal = Some(journal.ok_or("another agent changes settings of this host")?);
                self.supervisor =
                    consent.supervisor.as_deref().map(Supervisor::start).transpose()?;
            }
            if let Some(journal) = &mut self.journal {
                // Without a durable record a killed agent would leave the change for ever.
                journal.append(&change)?;
            }
            // Listed before it is made: a change that fails halfway is put back too.
            self.made.push(change.clone());
            change.make().map_err(|error| error.to_string())?;
        }
        Ok(())
    }

    /// Undoes all changes but the first `keep`, the last one first.
    fn undo(&mut self, keep: usize) -> Vec<String> {
        let mut left = Vec::new();
        // In reverse order, because a later change may depend on an earlier one.
        while self.made.len() > keep {
            if let Some(change) = self.made.pop() {
                left.extend(change.undo().left());
            }
        }
        // If something could not be put back, the journal stays for the next agent.
        if self.made.is_empty() && left.is_empty() {
            self.forget();
        }
        left
    }

    /// Removes the journal, when no change is left.
    fn forget(&mut self) {
        if let Some(journal) = self.journal.take() {
            journal.remove();
        }
        // The supervisor ends here, and finds nothing to put back.
        self.supervisor = None;
    }
}

impl Drop for Changes {
    fn drop(&mut self) {
        self.close();
    }
}

/// Result for a change that was found in the journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Restored {
    /// The change was put back; its description.
    PutBack(String),
    /// The change had not been made, or had been put back before.
    Untouched,
    /// The object is gone, or another program has set it since; the reason.
    Left(String),
    /// The change could not be put back; the reason.
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

/// Puts back the changes of an agent that was killed in this network namespace. Does nothing if
/// there is no journal, or if its agent still runs.
///
/// # Errors
/// If the journal cannot be read, or another user may have written it.
pub fn restore(journals: &Path) -> Result<Vec<Restored>, String> {
    let path = journal_path(journals)?;
    if !path.exists() {
        return Ok(Vec::new());
    }
    // A locked journal belongs to a living agent, which puts its changes back itself.
    let Some(mut journal) = Journal::open(journals, DYING)? else { return Ok(Vec::new()) };
    let restored: Vec<Restored> = journal.read()?.iter().rev().map(Change::undo).collect();
    // A failed entry may succeed later, so the journal stays.
    if !restored.iter().any(|restored| matches!(restored, Restored::Failed(_))) {
        journal.remove();
    }
    Ok(restored)
}

/// Checks the consent to change `setting`.
///
/// # Errors
/// If there is none; the text names the option that gives it.
fn allowed(setting: &Setting, consent: &Consent) -> Result<(), String> {
    match setting {
        Setting::CpuQuota { .. } if consent.host_wide == HostWide::Refused => Err(
            "set cpu_quota: it affects everything in the agent's control group, and this agent may \
                not change it (start it with --allow-tune host)"
                .into(),
        ),
        Setting::RouteWindow { device, .. } if consent.devices.contains(device) => Ok(()),
        Setting::RouteWindow { device, .. } => Err(format!(
            "change a route of {device}: this agent may not (start it with --allow-tune {device})"
        )),
        Setting::Steering { device, .. } if consent.devices.contains(device) => Ok(()),
        Setting::Steering { device, name, .. } if device.is_empty() => Err(format!(
            "set {name}: the endpoint names no interface (set `device` of the endpoint in the \
                testbed)"
        )),
        Setting::Steering { device, name, .. } => Err(format!(
            "set {name} of {device}: this agent may not (start it with --allow-tune {device})"
        )),
        // Checked before the consent, so that `--allow-tune host` never opens other parameters.
        Setting::Sysctl { name, .. } if !SYSCTLS.contains(&name.as_str()) => {
            Err(format!("set sysctl {name}: an agent only changes {}", SYSCTLS.join(", ")))
        }
        Setting::Sysctl { name, .. } if consent.host_wide == HostWide::Refused => Err(format!(
            "set sysctl {name}: it affects the whole host, and this agent may not change it (start \
                it with --allow-tune host)"
        )),
        Setting::CpuQuota { .. } | Setting::Sysctl { .. } => Ok(()),
    }
}

/// Value of a CPU quota: no limit.
const NO_QUOTA: &str = "none";
/// Value of a mask of CPUs: all CPUs that this process may run on.
const ALL: &str = "all";

fn device_index(socket: &mut RouteSocket, wanted: &str) -> Result<Option<u32>, SysError> {
    let mut index = None;
    // A dump must be read to its end, so there is no early return.
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

/// Returns the places of `name` at `device`, if sysfs shows this network namespace. Otherwise it
/// would be another interface of the same name.
fn steering_places(device: &str, name: &str) -> Result<Vec<String>, String> {
    let shown = steering::index(device).map_err(text)?;
    let own = RouteSocket::open()
        .and_then(|mut socket| device_index(&mut socket, device))
        .map_err(text)?;
    // Interface names repeat between namespaces, indices show whether it is the same one.
    if own != Some(shown) {
        return Err(format!(
            "set {name} of {device}: sysfs shows another network namespace (start the agent with \
                `ip netns exec`)"
        ));
    }
    steering::places(device, name).map_err(text)
}

fn text(error: SysError) -> String {
    error.to_string()
}

/// Returns the changes that lead from the present state to `setting`.
fn plan(setting: &Setting) -> Result<Vec<Change>, String> {
    match setting {
        Setting::CpuQuota { value } => {
            let place = cgroup::place().map_err(text)?;
            let (before, period_us) =
                (cgroup::read(&place).map_err(text)?, cgroup::period_us(&place).map_err(text)?);
            let after = quota(value, &before, period_us)?;
            Ok(vec![Change::Quota { place, before, after }])
        }
        Setting::RouteWindow { destination, device, window, initial } => {
            let mut socket = RouteSocket::open().map_err(text)?;
            let before = socket.route_to(*destination).map_err(text)?;
            let index = device_index(&mut socket, device).map_err(text)?;
            // The route is replaced as a whole; one that leads elsewhere must not be touched.
            if index.is_none() || before.device() != index {
                let leads = device_name(&mut socket, before.device()).map_err(text)?;
                return Err(format!(
                    "change the route to {destination}: it leads out of {leads}, not of {device}"
                ));
            }
            let after = before.with_windows(*window, *initial);
            let (before, after) = (hex(before.as_bytes()), hex(after.as_bytes()));
            Ok(vec![Change::Route { device: device.clone(), before, after }])
        }
        Setting::Sysctl { name, value } => {
            let before = sysctl::read(name).map_err(text)?;
            Ok(vec![Change::Sysctl { name: name.clone(), before, after: value.clone() }])
        }
        Setting::Steering { device, name, value } => {
            let value = match value.as_str() {
                ALL if steering::is_of_cpus(name) => steering::mask(&cpu::allowed().map_err(text)?),
                mask if steering::is_mask(mask) => steering::plain(mask),
                _ => {
                    return Err(format!(
                        "set {name} of {device}: `{value}` is not a hexadecimal mask"
                    ));
                }
            };
            steering_places(device, name)?
                .into_iter()
                .map(|place| {
                    let before = steering::read(device, &place).map_err(text)?;
                    Ok(Change::Steering {
                        device: device.clone(),
                        place,
                        before,
                        after: value.clone(),
                    })
                })
                .collect()
        }
    }
}

/// Returns the quota for `value` if `before` is in force, both in the notation of [`cgroup`].
fn quota(value: &str, before: &str, period_us: u64) -> Result<String, String> {
    let wrong = |why: &str| format!("set cpu_quota to {value}: {why}");
    let micros = |micros: f64| format!("{micros:.0}");
    if value == NO_QUOTA {
        return Ok(cgroup::UNLIMITED.to_owned());
    }
    if let Some(factor) = value.strip_prefix('x') {
        let factor = factor.parse().ok().filter(|factor: &f64| factor.is_finite() && *factor > 0.0);
        let factor = factor.ok_or_else(|| wrong("the x needs a number above 0 behind it"))?;
        // A group without a quota shows a word instead of a number.
        let present = before.parse::<f64>();
        let present = present.map_err(|_| {
            wrong("the agent's control group has no CPU quota: there is nothing to raise")
        })?;
        return Ok(micros(factor * present));
    }
    // The unit is required: "150" could mean per cent or microseconds.
    let share = value.parse().ok().filter(|share: &Ratio| share.0 > 0.0 && value.ends_with('%'));
    let share = share.ok_or_else(|| {
        wrong("not a share of a CPU such as \"150 %\", a multiple such as \"x2\", or \"none\"")
    })?;
    Ok(micros(share.0 * period_us as f64))
}

/// Returns `settings` with their present values.
fn states(settings: &[Setting], consent: &Consent) -> Result<Vec<SettingState>, String> {
    settings
        .iter()
        .map(|setting| {
            let (setting, spelled) = present(setting)?;
            let refused = allowed(&setting, consent).err();
            Ok(SettingState { setting, spelled, refused })
        })
        .collect()
}

/// Returns `setting` with its present value, and its name for people.
fn present(setting: &Setting) -> Result<(Setting, String), String> {
    match setting {
        Setting::CpuQuota { .. } => {
            let place = cgroup::place().map_err(text)?;
            let (quota, period_us) =
                (cgroup::read(&place).map_err(text)?, cgroup::period_us(&place).map_err(text)?);
            let share =
                quota.parse::<f64>().map(|quota| Ratio(quota / period_us as f64).to_string());
            let setting =
                Setting::CpuQuota { value: share.unwrap_or_else(|_| NO_QUOTA.to_owned()) };
            Ok((setting, format!("CPU quota {place}")))
        }
        Setting::RouteWindow { destination, .. } => {
            let mut socket = RouteSocket::open().map_err(text)?;
            let route = socket.route_to(*destination).map_err(text)?;
            let device = device_name(&mut socket, route.device()).map_err(text)?;
            let spelled = route.spelled(&device);
            let (window, initial) = (route.window(), route.initial_window());
            let setting =
                Setting::RouteWindow { destination: *destination, device, window, initial };
            Ok((setting, spelled))
        }
        Setting::Sysctl { name, .. } => {
            if !SYSCTLS.contains(&name.as_str()) {
                return Err(format!(
                    "read sysctl {name}: an agent only reads {}",
                    SYSCTLS.join(", ")
                ));
            }
            let setting =
                Setting::Sysctl { name: name.clone(), value: sysctl::read(name).map_err(text)? };
            Ok((setting, name.clone()))
        }
        Setting::Steering { device, name, .. } => {
            let read = |place: &String| steering::read(device, place).map_err(text);
            let mut values: Vec<String> =
                steering_places(device, name)?.iter().map(read).collect::<Result<_, _>>()?;
            // Usually all queues agree, and one value is easier to read.
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

    /// Puts the old value back, if the present one is the one that was written.
    fn undo(&self) -> Restored {
        let result = match self {
            Self::Quota { place, before, after } => cgroup::read(place).and_then(|now| {
                put_back(format!("CPU quota {place}"), [before, after, &now], || {
                    cgroup::write(place, before)
                })
            }),
            Self::Sysctl { name, .. } if !SYSCTLS.contains(&name.as_str()) => {
                return Restored::Failed(format!(
                    "put back sysctl {name}: no agent changes it, so another program has written \
                        the journal"
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

/// Puts the value `before` back by `write`, if the value `now` is the one that was written.
fn put_back(
    what: String,
    [before, after, now]: [&str; 3],
    write: impl FnOnce() -> Result<(), SysError>,
) -> Result<Restored, SysError> {
    // It may never have been made: the journal is written before the change.
    Ok(if now == before {
        Restored::Untouched
    } else if now == after {
        write()?;
        Restored::PutBack(format!("{what} = {before}"))
    } else {
        Restored::Left(format!("put back {what}: another program has set it to {now} since"))
    })
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
    fn a_change_without_consent_is_refused_with_the_option_that_allows_it() {
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
            "only changes net.ipv4.tcp_congestion_control, net.ipv4.tcp_rmem, net.ipv4.tcp_wmem"
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
    fn quotas_are_shares_of_a_period_multiples_of_the_present_one_or_none() {
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

    /// Writes `text` to the journal in `folder`, as another program would. Returns its path.
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
            "a link is not followed"
        );
        std::fs::remove_file(&path).unwrap();
        let mut journal = Journal::open(folder.path(), Duration::ZERO).unwrap().unwrap();
        assert_eq!(journal.file.metadata().unwrap().mode() & 0o777, 0o600);
        assert_eq!(journal.read().unwrap(), []);
    }

    #[test]
    fn a_journal_with_a_setting_that_no_agent_changes_writes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let (name, value) = ("kernel.ostype", sysctl::read("kernel.ostype").unwrap());
        let change = Change::Sysctl { name: name.into(), before: "1".into(), after: value };
        let path = planted(folder.path(), &serde_json::to_string(&change).unwrap(), 0o600);
        let restored = restore(folder.path()).unwrap();
        assert!(
            matches!(&restored[..], [Restored::Failed(why)] if why.contains("no agent changes it")),
            "{restored:?}"
        );
        assert!(path.exists(), "it is kept for inspection");
    }
}
