//! The supervisor of a lab: a process of its own that ends what the lab's maker could not end
//! itself, because it was killed.
//!
//! It waits at the end of a pipe whose other end only the maker has: the kernel closes it however
//! the maker ends. It then lets the programs inside end by themselves for half a second, ends the
//! rest, and removes namespaces and control groups. It has a process group of its own and heeds no
//! signal that can be heeded, so that what ends the maker's group or terminal does not end it.
//! Whose a namespace or group is tells a lock ([`crate::reap`]): it never removes what another lab
//! has made under the same name since.
//!
//! What it cannot survive: SIGKILL to itself, and the end of the PID namespace that both run in.
//! Namespaces with private names end with their last process then; a control group stays until the
//! next lab removes it.

use std::io::Write;
use std::process::{Child, ChildStdin, Command, Stdio};

use crate::tool::LabError;

/// Reads what it has to remove, a line each, until `done` or the end. A tool that the maker had
/// started may still make something: it looks for a second at least, and until nothing is left, but
/// for no more than five. Time is that of the clock, in hundredths of a second: a turn takes longer
/// on a busy machine.
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
# Runs a command under the lock of the file that is its first argument, if that is free and still means what was locked.
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
    [ $age -lt 50 ] || [ $sees = no ] || locked "$group" sh -c 'kill -9 $(cat "$0/cgroup.procs")' "$group"
    locked "$group" rmdir "$group"
  done
  [ $age -lt 100 ] || [ -n "$left" ] || exit 0
  [ $age -lt 500 ] || exit 0
  sleep 0.05
done
"#;

/// A supervisor; it removes everything that it was told of when this process ends without
/// [`Supervisor::dismiss`].
#[derive(Debug)]
pub(crate) struct Supervisor {
    process: Child,
    orders: Option<ChildStdin>,
}

impl Supervisor {
    pub(crate) fn start() -> Result<Self, LabError> {
        use std::os::unix::process::CommandExt;
        let failed = |cause| LabError::Tool { tool: "sh".to_owned(), package: "dash", cause };
        let mut process = Command::new("sh")
            .args(["-c", SCRIPT, "linerate lab supervisor"])
            .current_dir("/")
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(failed)?;
        let orders = process.stdin.take();
        Ok(Self { process, orders })
    }

    /// The network namespace `name` belongs to the lab, or is about to.
    pub(crate) fn namespace(&mut self, name: &str) {
        self.order(&format!("namespace {name}"));
    }

    /// The control group at `path` belongs to the lab.
    pub(crate) fn group(&mut self, path: &std::path::Path) {
        self.order(&format!("group {}", path.display()));
    }

    /// There is nothing left to remove, or it is to stay.
    pub(crate) fn dismiss(&mut self) {
        self.order("done");
        drop(self.orders.take());
        let _ended = self.process.wait();
    }

    fn order(&mut self, line: &str) {
        if let Some(orders) = &mut self.orders {
            // Without a supervisor, what is left after SIGKILL is found by the next lab.
            let _told = writeln!(orders, "{line}");
        }
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        self.dismiss();
    }
}
