//! Tools that build labs, and the errors of labs.

use std::io::Write;
use std::process::{Command, Stdio};

use linerate_sys::SysError;

/// Result of building or removing a lab.
pub type Result<T, E = LabError> = std::result::Result<T, E>;

/// Error of building or using a lab.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// A tool is not installed.
    #[error("run `{tool}`: {cause} (install it: apt install {package})")]
    Tool {
        /// Its name.
        tool: String,
        /// Its Debian package.
        package: &'static str,
        /// The kernel's answer.
        cause: std::io::Error,
    },
    /// An emulated device could not be started.
    #[error(transparent)]
    Device(#[from] SysError),
    /// A tool refused.
    #[error("{what}: {cause}{remedy}")]
    Refused {
        /// The command and its object.
        what: String,
        /// Its error output.
        cause: String,
        /// Remedy, with a leading space and brackets, or nothing.
        remedy: &'static str,
    },
}

/// Runs a tool. `input` goes to its standard input, a line each. Returns its output.
pub(crate) fn run(tool: &str, arguments: &[&str], input: Option<&[String]>) -> Result<String> {
    let failed = |cause| LabError::Tool { tool: tool.to_owned(), package: "iproute2", cause };
    let mut child = Command::new(tool)
        .args(arguments)
        .stdin(if input.is_some() { Stdio::piped() } else { Stdio::null() })
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(failed)?;
    if let (Some(lines), Some(mut stdin)) = (input, child.stdin.take()) {
        // Written before the output is read: batches are small against the 64 KiB of a pipe.
        stdin.write_all((lines.join("\n") + "\n").as_bytes()).map_err(failed)?;
    }
    let output = child.wait_with_output().map_err(failed)?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    // A batch reports one error a line.
    let cause = String::from_utf8_lossy(&output.stderr).trim().replace('\n', "; ");
    let remedy = if cause.contains("not permitted") || cause.contains("ermission") {
        " (a lab needs root, or an unprivileged user namespace)"
    } else if cause.contains("ethtool") && cause.contains("No such file") {
        " (install it: apt install ethtool)"
    } else {
        ""
    };
    Err(LabError::Refused { what: format!("{tool} {}", arguments.join(" ")), cause, remedy })
}
