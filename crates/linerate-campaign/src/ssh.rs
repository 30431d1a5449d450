//! Command lines of ssh.

use linerate_model::HostAddress;

use crate::Failure;

/// Returns an agent to start through ssh at `target`.
///
/// # Errors
/// If `target` is not `[USER@]HOST`.
pub(crate) fn through_ssh(target: &str) -> Result<HostAddress, Failure> {
    let agent = ["linerate", "agent", "--stdio"].map(str::to_owned);
    Ok(HostAddress::Command(ssh_to(target)?.into_iter().chain(agent).collect()))
}

/// Returns the command line of ssh to `target`, which is `[USER@]HOST`, without a command there.
///
/// The only place that builds one. A target that ssh could read as an option
/// (`-oProxyCommand=...` runs a command here) is refused, and `--` ends the options in any case.
pub(crate) fn ssh_to(target: &str) -> Result<Vec<String>, Failure> {
    let is_word = |c: char| c.is_ascii_alphanumeric() || ".:_-%[]".contains(c);
    // The user and the host, or the host alone.
    let mut parts = target.split('@');
    let is_name =
        |part: &str| !part.is_empty() && !part.starts_with('-') && part.chars().all(is_word);
    if !parts.clone().all(is_name) || parts.nth(2).is_some() {
        return Err(Failure::wrong(format!(
            "reach a host through ssh: `{}` is not [USER@]HOST (letters, digits and . : _ - @ % [ \
                ], not beginning with -)",
            target.escape_debug()
        )));
    }
    Ok(["ssh", "-o", "BatchMode=yes", "--", target].map(str::to_owned).to_vec())
}
