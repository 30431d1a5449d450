//! Settings of an agent's host that a conductor may read, change with consent, and put back.

use std::net::IpAddr;

use linerate_sys::steering;
use serde::{Deserialize, Serialize};

/// Setting with a value, present or wanted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Setting {
    /// CPU quota of the agent's control group, for everything in it.
    CpuQuota {
        /// Share of one CPU such as `150 %`, `none`, or a multiple of the present quota such as
        /// `x2`.
        value: String,
    },
    /// `window` and `initrwnd` of the route to `destination`, for every connection over that route.
    RouteWindow {
        /// Address that the route leads to.
        destination: IpAddr,
        /// Device by which the route must leave. May be empty in a request to read.
        device: String,
        /// Largest window advertised, bytes; 0 for none.
        window: u32,
        /// First window advertised, segments; 0 for none.
        initial: u32,
    },
    /// CPUs that process the packets of an interface, at all its queues: `rps_cpus`, `xps_cpus`
    /// (masks of CPUs) or `threaded`.
    Steering {
        /// The interface.
        device: String,
        /// Name of the setting.
        name: String,
        /// Its value, hexadecimal. If queues differ: the values of all, separated by blanks.
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

/// Name of [`Setting::CpuQuota`] in [`Setting::of`].
const CPU_QUOTA: &str = "cpu_quota";

impl Setting {
    /// Creates the setting that arms call `name` ([`linerate_model::HOST_SETTINGS`]). `device` is
    /// needed for settings of interfaces; without it the agent refuses with the remedy.
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

/// Present state of a setting.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SettingState {
    /// The setting with its present value.
    pub setting: Setting,
    /// Its name for people: the argument of `ip route change` or `sysctl -w`, or its place.
    pub spelled: String,
    /// Reason why it may not be changed. Absent if it may, and in answers of older agents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
}

/// Request of a conductor about a host's settings.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TuneRequest {
    /// Read the settings. Values in the request are ignored.
    Read(Vec<Setting>),
    /// Change the settings, all or none. The old values are put back when the session ends.
    Apply(Vec<Setting>),
    /// Put all changes back now.
    Revert,
    /// Keep all changes when the session ends.
    Keep,
}
