//! Getting where a lab may be built: as root, or inside an unprivileged user namespace of our own.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use crate::exit::Failure;

/// Set in the process that already runs inside our own user namespace.
const INSIDE: &str = "LINERATE_USER_NAMESPACE";

/// Makes sure namespaces may be made: does nothing for root, otherwise starts this program again inside a user namespace
/// (with its own mounts, so that `/run/netns` is ours, and its own process tree, so that nothing outlives it).
///
/// # Errors
/// If user namespaces are not allowed here: why, and the remedies.
pub(crate) fn enter() -> Result<(), Failure> {
    if is_root() || std::env::var_os(INSIDE).is_some() {
        return Ok(());
    }
    let why_not = |cause: &str| {
        Failure::missing(format!(
            "build a lab without root: {cause} (run as root, or allow unprivileged user namespaces: sysctl -w kernel.unprivileged_userns_clone=1, \
             and on Ubuntu kernel.apparmor_restrict_unprivileged_userns=0)"
        ))
    };
    let flags = ["--user", "--map-root-user", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"];
    let probe = Command::new("unshare").args(flags).arg("true").output();
    match probe {
        Ok(output) if output.status.success() => {}
        Ok(output) => return Err(why_not(String::from_utf8_lossy(&output.stderr).trim())),
        Err(error) => return Err(why_not(&format!("run unshare: {error}; install util-linux"))),
    }
    let program = std::env::current_exe().map_err(|error| why_not(&format!("find this program: {error}")))?;
    let error = Command::new("unshare")
        .args(flags)
        .args(["sh", "-c", "mount -t tmpfs tmpfs /run && mkdir -p /run/netns && exec \"$0\" \"$@\""])
        .arg(program)
        .args(std::env::args_os().skip(1))
        .env(INSIDE, "1")
        .exec();
    Err(why_not(&format!("run unshare: {error}")))
}

/// Whether a lab can be built at all, without trying for long.
pub(crate) fn possible() -> bool {
    is_root()
        || std::env::var_os(INSIDE).is_some()
        || Command::new("unshare")
            .args(["--user", "--map-root-user", "--net", "true"])
            .output()
            .is_ok_and(|o| o.status.success())
}

/// Whether the tools a lab is built with are installed; the missing ones otherwise.
pub(crate) fn missing_tools() -> Vec<&'static str> {
    let found = |tool: &str| {
        ["/usr/sbin", "/sbin", "/usr/bin", "/bin", "/usr/local/bin"].iter().any(|d| Path::new(d).join(tool).exists())
    };
    ["ip", "tc", "ethtool", "sysctl"].into_iter().filter(|tool| !found(tool)).collect()
}

/// Whether the effective user is root.
pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}
