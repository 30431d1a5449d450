//! The tools that labs are built with, and why one could not be.

use std::io::Write;
use std::process::{Command, Stdio};

use linerate_sys::SysError;

/// Why a lab could not be built or used.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// A tool is not installed.
    #[error("run `{tool}`: {cause} (install it: apt install {package})")]
    Tool {
        /// Its name.
        tool: String,
        /// Debian's package.
        package: &'static str,
        /// Why it did not start.
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
        /// What it printed.
        cause: String,
        /// What to do, with a leading space and brackets, or nothing.
        remedy: &'static str,
    },
}

/// Runs one of the tools; `input` goes to its standard input, a line each.
pub(crate) fn run(
    tool: &str,
    arguments: &[&str],
    input: Option<&[String]>,
) -> Result<String, LabError> {
    let failed = |cause| LabError::Tool { tool: tool.to_owned(), package: "iproute2", cause };
    let mut child = Command::new(tool)
        .args(arguments)
        .stdin(if input.is_some() { Stdio::piped() } else { Stdio::null() })
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(failed)?;
    if let (Some(lines), Some(mut stdin)) = (input, child.stdin.take()) {
        stdin.write_all((lines.join("\n") + "\n").as_bytes()).map_err(failed)?;
    }
    let output = child.wait_with_output().map_err(failed)?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
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
