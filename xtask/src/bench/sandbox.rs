//! Two network namespaces and a link between them, for the time of a benchmark.
//!
//! Everything sent stays inside. The congestion control of every route is cubic, so that tools
//! which cannot ask for one use the same as those which can. Removal is left to a shell that waits
//! for the end of a pipe: it comes when this value is dropped, and just as well when this process
//! is killed.

use std::fs::File;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, ensure};

use super::scratch::Afterwards;

/// Addresses of the ends of the link, and of loopback.
const ENDS: [&str; 2] = ["10.99.0.1", "10.99.0.2"];
const LOOPBACK: &str = "127.0.0.1";
const CONGESTION: &str = "cubic";

/// Kind of path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Medium {
    Loopback,
    Veth,
}

/// The namespaces.
#[derive(Debug)]
pub(super) struct Sandbox {
    names: [String; 2],
    _reaper: Afterwards,
    /// See [`hold`].
    _held: Vec<File>,
}

impl Sandbox {
    pub(super) fn new() -> anyhow::Result<Self> {
        let id = std::process::id();
        // The process number keeps benches that run at the same time apart.
        let names = [format!("lr-bench-{id}-a"), format!("lr-bench-{id}-b")];
        // Started before anything is made, so that a kill in between is cleaned up.
        let reaper = reaper(&names)?;
        let mut sandbox = Self { names, _reaper: reaper, _held: Vec::new() };
        let [a, b] = &sandbox.names;
        // Interface names are at most 15 bytes long; both ends are created inside their namespaces.
        let congestion = format!("congctl {CONGESTION}");
        for command in [
            format!("netns add {a}"),
            format!("netns add {b}"),
            format!("-n {a} link add lr0 type veth peer name lr0 netns {b}"),
            format!("-n {a} address add {}/24 dev lr0", ENDS[0]),
            format!("-n {b} address add {}/24 dev lr0", ENDS[1]),
            format!("-n {a} link set lo up"),
            format!("-n {a} link set lr0 up"),
            format!("-n {b} link set lr0 up"),
            // The route decides for tools that cannot ask for a congestion control.
            format!(
                "-n {a} route replace local {LOOPBACK} dev lo src {LOOPBACK} table local \
                    {congestion}"
            ),
            format!("-n {a} route replace {}/32 dev lr0 src {} {congestion}", ENDS[1], ENDS[0]),
            format!("-n {b} route replace {}/32 dev lr0 src {} {congestion}", ENDS[0], ENDS[1]),
        ] {
            ip(&command)?;
        }
        sandbox._held = hold(&sandbox.names)?;
        Ok(sandbox)
    }

    /// The address of the passive end over `path`.
    pub(super) fn address(path: Medium) -> &'static str {
        if path == Medium::Loopback { LOOPBACK } else { ENDS[1] }
    }

    /// The address the active end uses over `path`.
    pub(super) fn source(path: Medium) -> &'static str {
        if path == Medium::Loopback { LOOPBACK } else { ENDS[0] }
    }

    /// `program` at the active end, on `core` only if one is given.
    pub(super) fn active(&self, program: &Path, core: Option<usize>) -> Command {
        inside(&self.names[0], program, core)
    }

    /// `program` at the passive end over `path`.
    pub(super) fn passive(&self, path: Medium, program: &Path, core: Option<usize>) -> Command {
        inside(&self.names[usize::from(path == Medium::Veth)], program, core)
    }
}

/// Holds namespaces, as the maker of a lab does, until the files are closed: frames may be sent
/// there.
pub(super) fn hold(names: &[String]) -> anyhow::Result<Vec<File>> {
    names
        .iter()
        .map(|name| {
            let file = File::open(Path::new("/run/netns").join(name))
                .with_context(|| format!("open namespace {name}"))?;
            // A lab's reaper takes namespaces without a lock for abandoned.
            file.try_lock().with_context(|| format!("hold namespace {name}"))?;
            Ok(file)
        })
        .collect()
}

/// Removes the namespaces, and ends whoever is in them, once this process has ended.
pub(crate) fn reaper(names: &[String]) -> anyhow::Result<Afterwards> {
    // Processes first: a namespace stays as long as one is in it.
    let script = "for n in \"$@\"; do for p in $(ip netns pids \"$n\"); do kill -9 $p \
        2>/dev/null; done; ip netns delete \"$n\"; done";
    Afterwards::run(script, names)
}

/// Entering replaces the process, so that the child is the program itself.
pub(super) fn inside(namespace: &str, program: &Path, core: Option<usize>) -> Command {
    let mut command = Command::new("ip");
    command.args(["netns", "exec", namespace]);
    if let Some(core) = core {
        // Pinned inside the namespace, so that only the program itself is restricted.
        command.args(["taskset", "--cpu-list", &core.to_string()]);
    }
    command.arg(program);
    command
}

pub(crate) fn ip(arguments: &str) -> anyhow::Result<()> {
    let output =
        Command::new("ip").args(arguments.split_whitespace()).output().context("start ip")?;
    let message = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "ip {arguments}: {} (needs root)", message.trim());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_made_is_gone_when_dropped() {
        let sandbox = match Sandbox::new() {
            Ok(sandbox) => sandbox,
            Err(why) => return println!("skipped: what_was_made_is_gone_when_dropped: {why:#}"),
        };
        let there = Path::new("/run/netns").join(&sandbox.names[1]);
        assert!(there.exists());
        let mut ping = sandbox.active(Path::new("ip"), None);
        let routes = ping.args(["route", "get", ENDS[1]]).output().expect("ip");
        assert!(String::from_utf8_lossy(&routes.stdout).contains("dev lr0"));
        drop(sandbox);
        assert!(!there.exists());
    }
}
