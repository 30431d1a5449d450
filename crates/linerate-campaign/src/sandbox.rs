//! Permission to build a lab: as root, or inside an unprivileged user namespace.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use crate::{Failure, Result};

/// Set in the process that already runs inside our own user namespace.
const INSIDE: &str = "LINERATE_USER_NAMESPACE";

/// Namespaces that a process without root leaves.
const UNSHARED: &[&str] = &[
    "--user",
    "--map-root-user",
    "--net",
    "--mount",
    "--pid",
    "--fork",
    "--kill-child",
    "--mount-proc",
];

/// Makes sure that namespaces may be made and that their names are private, so that none outlives
/// this process. As root it makes private mounts. Otherwise it starts this program again inside a
/// user namespace, with its own mounts and its own process tree.
///
/// # Errors
/// If user namespaces are not allowed here. The message has the reason and the remedies.
pub fn enter() -> Result<()> {
    // The program starts itself again, so the mark prevents an endless chain.
    if std::env::var_os(INSIDE).is_some() {
        return Ok(());
    }
    if is_root() {
        return linerate_sys::netns::keep_names_private()
            .map_err(|error| Failure::missing(format!("build a lab: {error} ({})", remedy())));
    }
    let why_not =
        |cause: &str| Failure::missing(format!("build a lab without root: {cause} ({})", remedy()));
    possible().map_err(|cause| why_not(&cause))?;
    let program =
        std::env::current_exe().map_err(|error| why_not(&format!("find this program: {error}")))?;
    let error = Command::new("unshare")
        .args(UNSHARED)
        .args([
            "sh",
            "-c",
            // `ip netns` keeps its names under /run, which belongs to root outside.
            "mount -t tmpfs tmpfs /run && mkdir -p /run/netns && exec \"$0\" \"$@\"",
        ])
        .arg(program)
        .args(std::env::args_os().skip(1))
        .env(INSIDE, "1")
        // On success this call does not return.
        .exec();
    Err(why_not(&format!("run unshare: {error}")))
}

/// Tests whether a lab's namespaces may be made.
///
/// # Errors
/// If they may not: the reason.
pub fn possible() -> Result<(), String> {
    // The test asks for the same namespaces that a lab will need.
    let flags = if is_root() || std::env::var_os(INSIDE).is_some() { &["--net"] } else { UNSHARED };
    match Command::new("unshare").args(flags).arg("true").output() {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
        Err(error) => Err(format!("run unshare: {error} (install util-linux)")),
    }
}

/// Returns the changes that would permit a lab, according to the kernel's settings.
pub fn remedy() -> String {
    if is_root() {
        return "give this container CAP_SYS_ADMIN and CAP_NET_ADMIN, or leave it".to_owned();
    }
    let is = |path: &str, value: &str| {
        std::fs::read_to_string(path).is_ok_and(|text| text.trim() == value)
    };
    let settings = [
        ("/proc/sys/user/max_user_namespaces", "0", "user.max_user_namespaces=15000"),
        ("/proc/sys/kernel/unprivileged_userns_clone", "0", "kernel.unprivileged_userns_clone=1"),
        (
            "/proc/sys/kernel/apparmor_restrict_unprivileged_userns",
            "1",
            "kernel.apparmor_restrict_unprivileged_userns=0",
        ),
    ];
    let mut remedy = "run as root".to_owned();
    for (_, _, change) in settings.iter().filter(|(path, forbids, _)| is(path, forbids)) {
        remedy += &format!(", or sysctl -w {change}");
    }
    remedy
}

/// Returns the tools of a lab that are not installed.
pub fn missing_tools() -> Vec<&'static str> {
    fn found(tool: &str) -> bool {
        ["/usr/sbin", "/sbin", "/usr/bin", "/bin", "/usr/local/bin"]
            .iter()
            .any(|d| Path::new(d).join(tool).exists())
    }
    ["ip", "tc", "ethtool", "sysctl"].into_iter().filter(|tool| !found(tool)).collect()
}

/// Returns whether the effective user is root.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}
