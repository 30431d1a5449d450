//! Host name, operating system and kernel: release, command line, mitigations, boot.

use serde_json::{Map, Value, json};

use super::root::{Root, unavailable};

pub(super) fn host(root: &Root) -> Value {
    json!({ "name": root.string("proc/sys/kernel/hostname") })
}

/// Which clock this host's monotonic one is: two hosts that name the same have one clock, and times
/// between them are exact.
pub(super) fn clock(root: &Root) -> Value {
    const SOURCE: &str = "sys/devices/system/clocksource/clocksource0/current_clocksource";
    let unknown = || unavailable("/proc shows neither the boot nor the time namespace");
    let identity =
        linerate_sys::clock::identity_text().map_or_else(unknown, |identity| json!(identity));
    json!({ "identity": identity, "source": root.string(SOURCE) })
}

pub(super) fn os(root: &Root) -> Value {
    let text = match root.text("etc/os-release").or_else(|_| root.text("usr/lib/os-release")) {
        Ok(text) => text,
        Err(why) => return why,
    };
    let field = |name| field(&text, name);
    json!({ "name": field("PRETTY_NAME"), "id": field("ID"), "version": field("VERSION_ID") })
}

fn field(text: &str, name: &str) -> Value {
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
    let missing = || unavailable(format!("/etc/os-release has no {name}"));
    // os-release quotes values that contain blanks (os-release(5)).
    value.map_or_else(missing, |value| json!(value.trim_matches('"')))
}

pub(super) fn kernel(root: &Root) -> Value {
    const VULNERABILITIES: &str = "sys/devices/system/cpu/vulnerabilities";
    let names = root.names(VULNERABILITIES);
    let state = |name: &String| root.string(&format!("{VULNERABILITIES}/{name}"));
    let mitigations: Map<_, _> =
        names.into_iter().map(|name| (name.clone(), state(&name))).collect();
    json!({
        "release": root.string("proc/sys/kernel/osrelease"),
        "version": root.string("proc/sys/kernel/version"),
        "cmdline": root.string("proc/cmdline"),
        "boot_id": root.string("proc/sys/kernel/random/boot_id"),
        "architecture": std::env::consts::ARCH,
        "mitigations": mitigations,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn os_release_is_unquoted() {
        let root = Root(concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/sysfs-two-ports").into());
        let os = os(&root);
        assert_eq!(
            (&os["name"], &os["version"]),
            (&json!("Debian GNU/Linux 13 (trixie)"), &json!("13"))
        );
        assert_eq!(kernel(&root)["mitigations"]["meltdown"], "Not affected");
    }
}
