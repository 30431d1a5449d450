//! Privileges of this process: limits, capabilities, the sysctls that grant or forbid, and the
//! helper programs that exist.

use std::path::PathBuf;

use rustix::process::{Resource, Rlimit, getrlimit};
use serde_json::{Map, Value, json};

use super::root::{Root, unavailable};

/// Capabilities that some measurement needs, by bit number (linux/capability.h).
const CAPABILITIES: &[(&str, u32)] = &[
    ("bpf", 39),
    ("ipc_lock", 14),
    ("net_admin", 12),
    ("net_bind_service", 10),
    ("net_raw", 13),
    ("perfmon", 38),
    ("sys_admin", 21),
    ("sys_nice", 23),
    ("sys_resource", 24),
];

/// Programs linerate may start, and the Debian package each comes in.
const TOOLS: &[(&str, &str)] =
    &[("ethtool", "ethtool"), ("ip", "iproute2"), ("ssh", "openssh-client"), ("tc", "iproute2")];

pub(super) fn limits() -> Value {
    json!({
        "memlock_bytes": limit(Resource::Memlock),
        "nofile": limit(Resource::Nofile),
        "nproc": limit(Resource::Nproc),
        "rtprio": limit(Resource::Rtprio),
    })
}

fn limit(resource: Resource) -> Value {
    let Rlimit { current, maximum } = getrlimit(resource);
    let value = |limit: Option<u64>| limit.map_or_else(|| json!("unlimited"), |limit| json!(limit));
    json!({ "soft": value(current), "hard": value(maximum) })
}

pub(super) fn privileges(root: &Root) -> Value {
    json!({
        "euid": rustix::process::geteuid().as_raw(),
        "capabilities": root.text("proc/self/status").map_or_else(|why| why,
            |status| capabilities(&status)),
        "perf_event_paranoid": root.number("proc/sys/kernel/perf_event_paranoid"),
        "io_uring_disabled": root.number("proc/sys/kernel/io_uring_disabled"),
        "unprivileged_bpf_disabled": root.number("proc/sys/kernel/unprivileged_bpf_disabled"),
        "unprivileged_user_namespaces": user_namespaces(root),
    })
}

/// Which of `PATH`'s programs exist.
pub(super) fn tools() -> Value {
    let path = std::env::var_os("PATH").unwrap_or_default();
    // Users often lack the folders where the network tools live.
    let usual = ["/usr/sbin", "/sbin"].map(PathBuf::from);
    let folders: Vec<_> = std::env::split_paths(&path).chain(usual).collect();
    let find = |&(tool, package): &(&str, &str)| (tool.to_owned(), found(&folders, tool, package));
    Value::Object(TOOLS.iter().map(find).collect::<Map<_, _>>())
}

fn found(folders: &[PathBuf], tool: &str, package: &str) -> Value {
    let found = folders.iter().map(|folder| folder.join(tool)).find(|file| file.is_file());
    let missing = || unavailable(format!("{tool} is not installed: apt install {package}"));
    found.map_or_else(missing, |file| json!(file.to_string_lossy()))
}

fn capabilities(status: &str) -> Value {
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let Some(effective) = line.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok()) else {
        return unavailable("/proc/self/status has no CapEff");
    };
    let held = |&(name, bit): &(&str, u32)| (name.to_owned(), json!(effective >> bit & 1 == 1));
    Value::Object(CAPABILITIES.iter().map(held).collect::<Map<_, _>>())
}

/// Returns whether a user without privileges may make a user namespace, as far as the three usual
/// switches decide it.
fn user_namespaces(root: &Root) -> Value {
    let switch = |file: &str| root.text(&format!("proc/sys/{file}")).ok();
    let Some(most) = switch("user/max_user_namespaces") else {
        return json!(false);
    };
    // Only kernels of Debian and its relatives have the switch; without it nothing is forbidden.
    let debian = switch("kernel/unprivileged_userns_clone").is_none_or(|value| value == "1");
    let apparmor =
        switch("kernel/apparmor_restrict_unprivileged_userns").is_none_or(|value| value == "0");
    json!(most != "0" && debian && apparmor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capabilities_are_read_by_bit() {
        let held = capabilities("Name:\tx\nCapEff:\t0000000000003000\n");
        assert_eq!(
            (&held["net_admin"], &held["net_raw"], &held["sys_admin"]),
            (&json!(true), &json!(true), &json!(false))
        );
        assert!(capabilities("CapEff:\tzz\n")["unavailable"].is_string());
    }

    #[test]
    fn one_closed_switch_forbids_user_namespaces() {
        let root = Root(concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/sysfs-two-ports").into());
        assert_eq!(user_namespaces(&root), json!(false));
    }
}
