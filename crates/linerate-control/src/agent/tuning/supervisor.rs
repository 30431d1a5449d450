//! Supervisor of changed settings: a process that outlives an agent that is killed, and puts back
//! the changes in its journal.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

/// Process that waits for the end of this one. It has its own process group, so that a signal to
/// the agent's group does not end it.
#[derive(Debug)]
pub(super) struct Supervisor {
    process: Child,
}

impl Supervisor {
    /// Starts `command`: its program and arguments.
    pub(super) fn start(command: &[OsString]) -> Result<Self, String> {
        let [program, arguments @ ..] = command else {
            return Err("start the supervisor of settings: no command".into());
        };
        let process = Command::new(program)
            .args(arguments)
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let process = process.map_err(|cause| {
            format!(
                "start the supervisor of settings {}: {cause} (nothing is changed without one)",
                program.display()
            )
        })?;
        Ok(Self { process })
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        // The end of its input is the sign that the agent has ended.
        drop(self.process.stdin.take());
        let _ended = self.process.wait();
    }
}
