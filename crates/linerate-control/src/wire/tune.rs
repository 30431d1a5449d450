//! Settings of an agent's host that a conductor may ask for, change with consent, and put back.

use std::net::IpAddr;

use linerate_sys::steering;
use serde::{Deserialize, Serialize};

/// One setting, with the value it has or is to have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Setting {
    /// The CPU quota of the control group that the agent is in, for all that is in it.
    CpuQuota {
        /// A share of one CPU such as `150 %`, `none`, or a multiple of what it is now, such as
        /// `x2`.
        value: String,
    },
    /// `window` and `initrwnd` of the route that leads to `destination`; every connection over that
    /// route has them.
    RouteWindow {
        /// Where the route leads.
        destination: IpAddr,
        /// The device it must lead out of; in a question it may be left empty.
        device: String,
        /// Largest window advertised, bytes; 0 for none.
        window: u32,
        /// First window advertised, segments; 0 for none.
        initial: u32,
    },
    /// Where the work of an interface is done, at every queue of it: `rps_cpus`, `xps_cpus` (masks
    /// of CPUs) or `threaded`.
    Steering {
        /// The interface.
        device: String,
        /// What.
        name: String,
        /// Its value, hexadecimal; where queues differ, those of all of them, separated by blanks.
        value: String,
    },
    /// A kernel parameter of the host, for every connection of it: `net.ipv4.tcp_rmem` or
    /// `net.ipv4.tcp_wmem`.
    Sysctl {
        /// Its name.
        name: String,
        /// Its value, fields separated by one space.
        value: String,
    },
}

/// The name of [`Setting::CpuQuota`] among those of [`Setting::of`].
const CPU_QUOTA: &str = "cpu_quota";

impl Setting {
    /// The setting that arms call `name` ([`linerate_model::HOST_SETTINGS`]), of the interface
    /// `device` if it is one of interfaces: without that the agent says what is missing.
    #[must_use]
    pub fn of(name: &str, device: Option<&str>, value: &str) -> Self {
        let (name, value) = (name.to_owned(), value.to_owned());
        if name == CPU_QUOTA {
            return Self::CpuQuota { value };
        }
        if steering::settings().contains(&name.as_str()) {
            return Self::Steering { device: device.unwrap_or_default().to_owned(), name, value };
        }
        Self::Sysctl { name, value }
    }
}

/// A setting as it is, and how a person spells it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SettingState {
    /// With its present value.
    pub setting: Setting,
    /// What `ip route change` or `sysctl -w` takes to mean it, or where it is, without the value.
    pub spelled: String,
    /// Why it may not be changed; absent if it may, and in answers of agents that do not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
}

/// What a conductor asks of a host's settings.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TuneRequest {
    /// What are they? Values in the question mean nothing.
    Read(Vec<Setting>),
    /// Change them, all or none; what was there before is put back when the session ends.
    Apply(Vec<Setting>),
    /// Put back all that was changed, now.
    Revert,
    /// Let what is changed stay when the session ends.
    Keep,
}
