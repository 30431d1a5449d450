//! Settings of an agent's host that a conductor may ask for, change with consent, and put back.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

/// One setting, with the value it has or is to have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Setting {
    /// `window` and `initrwnd` of the route that leads to `destination`; every connection over that route has them.
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
    /// Where the work of an interface is done, at every queue of it: `rps_cpus`, `xps_cpus` (masks of CPUs) or `threaded`.
    Steering {
        /// The interface.
        device: String,
        /// What.
        name: String,
        /// Its value, hexadecimal; where queues differ, those of all of them, separated by blanks.
        value: String,
    },
    /// A kernel parameter of the host, for every connection of it: `net.ipv4.tcp_rmem` or `net.ipv4.tcp_wmem`.
    Sysctl {
        /// Its name.
        name: String,
        /// Its value, fields separated by one space.
        value: String,
    },
}

/// A setting as it is, and how a person spells it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SettingState {
    /// With its present value.
    pub setting: Setting,
    /// What `ip route change` or `sysctl -w` takes to mean it, without the value.
    pub spelled: String,
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
