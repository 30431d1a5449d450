//! Settings that give a window, narrowest first, and the commands that make them by hand.

use std::net::IpAddr;

use linerate_control::{Setting, SettingState};

/// The sysctl that bounds the receive buffers of a host, and with them its windows.
pub(super) const RECEIVE: &str = "net.ipv4.tcp_rmem";
/// The sysctl that bounds its send buffers, which a placebo changes.
const SEND: &str = "net.ipv4.tcp_wmem";
/// Smallest receive buffer of the kernel (one page).
const LEAST_BUFFER: u64 = 4096;
/// The largest window that TCP can advertise (RFC 7323 clause 2.3): as a route's window it bounds
/// nothing.
const LARGEST_WINDOW: u32 = 65_535 << 14;

/// Scope of a setting that gives the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WindowScope {
    /// Connections over one route.
    Route,
    /// Every connection of the host.
    Host,
}

/// Present settings of the host, and their spelling.
#[derive(Clone, Debug)]
pub struct Present {
    route: SettingState,
    receive: SettingState,
    send: SettingState,
}

/// Returns the settings to read, with `console` the address that the window is advertised to.
pub(super) fn questions(console: IpAddr) -> Vec<Setting> {
    let sysctl = |name: &str| Setting::Sysctl { name: name.into(), value: String::new() };
    let route =
        Setting::RouteWindow { destination: console, device: String::new(), window: 0, initial: 0 };
    vec![route, sysctl(RECEIVE), sysctl(SEND)]
}

impl Present {
    /// Returns the present settings from the answers to [`questions`], in their order.
    pub(super) fn of(states: Vec<SettingState>) -> Option<Self> {
        let [route, receive, send] = <[SettingState; 3]>::try_from(states).ok()?;
        Some(Self { route, receive, send })
    }

    /// Returns the device of the route.
    #[must_use]
    pub fn device(&self) -> &str {
        match &self.route.setting {
            Setting::RouteWindow { device, .. } => device,
            Setting::CpuQuota { .. } | Setting::Steering { .. } | Setting::Sysctl { .. } => "",
        }
    }

    /// Returns the route with a window.
    fn route_with(&self, bytes: u32, segments: u32) -> Setting {
        match self.route.setting.clone() {
            Setting::RouteWindow { destination, device, .. } => {
                Setting::RouteWindow { destination, device, window: bytes, initial: segments }
            }
            other => other,
        }
    }

    /// Returns the setting that gives a window of `bytes` by `way`. `buffer` is the receive buffer
    /// for this window.
    pub(super) fn setting(&self, way: WindowScope, bytes: u64, mss: u64, buffer: u64) -> Setting {
        match way {
            WindowScope::Route => {
                let segments = u32::try_from(bytes / mss.max(1)).unwrap_or(u32::MAX).max(1);
                self.route_with(u32::try_from(bytes).unwrap_or(u32::MAX), segments)
            }
            WindowScope::Host => {
                let buffer = buffer.max(LEAST_BUFFER);
                Setting::Sysctl {
                    name: RECEIVE.into(),
                    value: format!("{LEAST_BUFFER} {buffer} {buffer}"),
                }
            }
        }
    }

    /// Returns a change of the same kind that must have no effect: a route's window that bounds
    /// nothing, or send buffers of a host that receives.
    pub(super) fn placebo(&self, way: WindowScope) -> Setting {
        match way {
            WindowScope::Route => self.route_with(LARGEST_WINDOW, 0),
            WindowScope::Host => {
                let fields: Vec<u64> = match &self.send.setting {
                    Setting::Sysctl { value, .. } => {
                        value.split(' ').filter_map(|word| word.parse().ok()).collect()
                    }
                    Setting::CpuQuota { .. }
                    | Setting::RouteWindow { .. }
                    | Setting::Steering { .. } => Vec::new(),
                };
                let halved = fields.get(2).map_or(1 << 20, |most| (most / 2).max(64 << 10));
                let middle = fields.get(1).map_or(16 << 10, |middle| *middle.min(&halved));
                Setting::Sysctl {
                    name: SEND.into(),
                    value: format!("{LEAST_BUFFER} {middle} {halved}"),
                }
            }
        }
    }

    /// Returns the command that restores the present setting.
    pub(super) fn before(&self, way: WindowScope) -> String {
        match (way, &self.route.setting) {
            (WindowScope::Host, _) => self.command(&self.receive.setting),
            (WindowScope::Route, Setting::RouteWindow { window: 0, .. }) => {
                format!("ip route change {}", self.route.spelled)
            }
            (WindowScope::Route, setting) => self.command(setting),
        }
    }

    /// Returns the command that makes `setting` by hand.
    pub(super) fn command(&self, setting: &Setting) -> String {
        match setting {
            Setting::CpuQuota { value } => {
                format!("systemctl set-property --runtime UNIT CPUQuota=\"{value}\"")
            }
            Setting::RouteWindow { window, initial, .. } => {
                let initial =
                    if *initial > 0 { format!(" initrwnd {initial}") } else { String::new() };
                format!("ip route change {} window {window}{initial}", self.route.spelled)
            }
            Setting::Steering { device, name, value } => typed(name, device, value),
            Setting::Sysctl { name, value } => typed(name, "", value),
        }
    }
}

/// Returns the command for a setting of a host, or of its interface `device`.
pub(super) fn typed(setting: &str, device: &str, value: &str) -> String {
    let switch = if value == "0" { "off" } else { "on" };
    match setting {
        "gro" | "gso" | "tso" => format!("ethtool -K {device} {setting} {switch}"),
        "adaptive_rx" => format!("ethtool -C {device} adaptive-rx {switch}"),
        "rx_usecs" | "rx_frames" => {
            format!("ethtool -C {device} {} {value}", setting.replace('_', "-"))
        }
        "rx_ring" | "tx_ring" => {
            format!("ethtool -G {device} {} {value}", setting.trim_end_matches("_ring"))
        }
        // The interrupts are listed below the interface's device, or beside it (virtio).
        "irq_cpus" => format!(
            "for n in $(cd /sys/class/net/{device}/device && ls msi_irqs 2>/dev/null || ls \
                ../msi_irqs); do echo {value} > \
             /proc/irq/$n/smp_affinity; done"
        ),
        "rps_cpus" | "threaded" | "xps_cpus" => {
            format!(
                "for f in $(find /sys/class/net/{device}/ -name {setting}); do echo {value} > $f; \
                    done"
            )
        }
        sysctl => format!("sysctl -w {sysctl}=\"{value}\""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn present() -> Present {
        let destination = "198.18.0.1".parse().expect("literal");
        let route =
            Setting::RouteWindow { destination, device: "eth0".into(), window: 0, initial: 0 };
        let sysctl = |name: &str, value: &str| SettingState {
            setting: Setting::Sysctl { name: name.into(), value: value.into() },
            spelled: name.into(),
            refused: None,
        };
        let spelled = "198.18.0.0/24 dev eth0 proto kernel scope link src 198.18.0.3".into();
        let states = vec![
            SettingState { setting: route, spelled, refused: None },
            sysctl(RECEIVE, "4096 131072 6291456"),
            sysctl(SEND, "4096 16384 4194304"),
        ];
        Present::of(states).expect("three answers")
    }

    #[test]
    fn settings_are_typed_as_ip_and_sysctl_take_them() {
        let present = present();
        let route = present.setting(WindowScope::Route, 7300, 1460, 0);
        assert_eq!(
            present.command(&route),
            "ip route change 198.18.0.0/24 dev eth0 proto kernel scope link src 198.18.0.3 window \
                7300 initrwnd 5"
        );
        let host = present.setting(WindowScope::Host, 7300, 1460, 12_288);
        assert_eq!(present.command(&host), "sysctl -w net.ipv4.tcp_rmem=\"4096 12288 12288\"");
        assert_eq!(
            present.before(WindowScope::Host),
            "sysctl -w net.ipv4.tcp_rmem=\"4096 131072 6291456\""
        );
        assert!(present.before(WindowScope::Route).ends_with("src 198.18.0.3"));
    }

    #[test]
    fn every_setting_of_an_interface_is_typed_as_its_tool_takes_it() {
        let typed = |name: &str| typed(name, "eth0", "1");
        assert_eq!(typed("gro"), "ethtool -K eth0 gro on");
        assert_eq!(typed("adaptive_rx"), "ethtool -C eth0 adaptive-rx on");
        assert_eq!(
            (typed("rx_usecs"), typed("rx_ring")),
            ("ethtool -C eth0 rx-usecs 1".into(), "ethtool -G eth0 rx 1".into())
        );
        for setting in linerate_sys::steering::settings() {
            assert!(
                typed(setting).contains("eth0") && !typed(setting).starts_with("sysctl"),
                "{setting}"
            );
        }
    }

    #[test]
    fn placebos_are_of_the_same_kind_and_bound_nothing_that_matters() {
        let present = present();
        assert!(
            present.command(&present.placebo(WindowScope::Route)).ends_with("window 1073725440")
        );
        assert_eq!(
            present.command(&present.placebo(WindowScope::Host)),
            "sysctl -w net.ipv4.tcp_wmem=\"4096 16384 2097152\""
        );
    }
}
