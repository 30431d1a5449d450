//! Supervisor of a lab: a separate process that removes the lab if its maker was killed.
//!
//! It waits at the end of a pipe whose other end only the maker has. The kernel closes that end
//! however the maker ends. The supervisor then gives the programs inside half a second to end,
//! kills the rest, and removes namespaces and control groups. It has its own process group and
//! ignores every signal that can be ignored, so that a signal to the maker's group or terminal does
//! not end it. A lock shows the owner of a namespace or group ([`crate::reap`]): the supervisor
//! never removes one that another lab has made under the same name since.
//!
//! It does not survive SIGKILL to itself, nor the end of the PID namespace that both run in. Then
//! namespaces with private names end with their last process, and a control group stays until the
//! next lab removes it.

use std::io::Write;
use std::process::{Child, ChildStdin, Command, Stdio};

use crate::tool::{LabError, Result};

/// Reads the objects to remove, a line each, until `done` or the end. A tool that the maker has
/// started may still create something, so the script goes on for at least a second and until
/// nothing is left, but at most for five. It reads a clock, in hundredths of a second, because a
/// turn takes longer on a busy machine.
const SCRIPT: &str = r#"
trap '' HUP INT QUIT TERM PIPE
names= groups=
while read -r kind what; do
  case $kind in
    namespace) names="$names $what" ;;
    group) groups="$groups $what" ;;
    done) exit 0 ;;
  esac
done
# Numbers of processes mean something only where /proc shows those of this PID namespace.
sees=no
grep -q 'linerate lab supervisor' "/proc/$$/cmdline" 2>/dev/null && sees=yes
ticks=0
clock() {
  ticks=$((ticks + 5)) now=$ticks
  read -r uptime idle < /proc/uptime && now=${uptime%.*}${uptime#*.}
}
# Runs a command under the lock of its first argument, a file, if the lock is free and the path
# still leads to the locked file.
locked() (
  at=$1
  shift
  exec 9<"$at" && flock -n 9 && [ /dev/fd/9 -ef "$at" ] && "$@"
)
clock
began=$now
while :; do
  clock
  age=$((now - began)) left=
  for name in $names; do
    [ -e "/run/netns/$name" ] || continue
    left=yes
    inside=$(ip netns pids "$name")
    [ -z "$inside" ] || [ $age -ge 50 ] || continue
    locked "/run/netns/$name" ip netns delete "$name" || continue
    [ -z "$inside" ] || [ $sees = no ] || kill -9 $inside
  done
  for group in $groups; do
    [ -d "$group" ] || continue
    left=yes
    [ $age -lt 50 ] || [ $sees = no ] ||
      locked "$group" sh -c 'kill -9 $(cat "$0/cgroup.procs")' "$group"
    locked "$group" rmdir "$group"
  done
  [ $age -lt 100 ] || [ -n "$left" ] || exit 0
  [ $age -lt 500 ] || exit 0
  sleep 0.05
done
"#;

/// Running supervisor. It removes all registered objects if this process ends without
/// [`Supervisor::dismiss`].
#[derive(Debug)]
pub(crate) struct Supervisor {
    process: Child,
    orders: Option<ChildStdin>,
}

impl Supervisor {
    pub(crate) fn start() -> Result<Self> {
        use std::os::unix::process::CommandExt;
        let failed = |cause| LabError::Tool { tool: "sh".to_owned(), package: "dash", cause };
        let mut process = Command::new("sh")
            .args(["-c", SCRIPT, "linerate lab supervisor"])
            // The maker's folder may be on a file system that someone wants to unmount.
            .current_dir("/")
            // A signal to the maker's group, such as Ctrl-C, must not reach it.
            .process_group(0)
            .stdin(Stdio::piped())
            // An open output would keep a pipe of the maker's caller open after the maker has
            // ended.
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(failed)?;
        let orders = process.stdin.take();
        Ok(Self { process, orders })
    }

    /// Registers the network namespace `name`, before or after it is made.
    pub(crate) fn namespace(&mut self, name: &str) {
        self.order(&format!("namespace {name}"));
    }

    /// Registers the control group at `path`.
    pub(crate) fn group(&mut self, path: &std::path::Path) {
        self.order(&format!("group {}", path.display()));
    }

    /// Ends the supervisor: everything is removed, or is to stay.
    pub(crate) fn dismiss(&mut self) {
        self.order("done");
        // Closing the pipe ends the script even if the word did not arrive.
        drop(self.orders.take());
        let _ended = self.process.wait();
    }

    fn order(&mut self, line: &str) {
        if let Some(orders) = &mut self.orders {
            // Without a supervisor, the next lab removes what SIGKILL leaves.
            let _sent = writeln!(orders, "{line}");
        }
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        self.dismiss();
    }
}
