//! Cables that fail again and again, while another one takes over.
//!
//! Each end of a [`Failover`](crate::description::Failover) is a bridge of its host with two ports.
//! Frames to the other end leave by one of them. The other is its backup (`backup_port` of
//! bridge(8)): the kernel sends there by itself while the first has no carrier. A cable fails in
//! two steps: its ports are disabled, which loses frames and is not seen by the other end, and
//! later it is taken down. It comes back as the backup: the kernel notices a carrier that returns
//! up to a second late, and frames that went back at once would be lost. Measured times include
//! the commands, which take some milliseconds each.

use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use linerate_model::Nanos;
use linerate_sys::SysError;

use crate::tool::{LabError, Result, run};

/// Cables of a failover.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cables {
    /// The two ends.
    pub ends: [CableEnd; 2],
    /// True if the other cable takes over.
    pub backup: bool,
    /// Time from one failure to the next.
    pub every: Nanos,
    /// Duration of each.
    pub length: Nanos,
    /// Time for which a failed cable has a carrier.
    pub unnoticed: Nanos,
}

/// End of the cables of a failover.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CableEnd {
    /// Namespace.
    pub namespace: String,
    /// Its bridge.
    pub bridge: String,
    /// Hardware address of the bridge at the other end.
    pub peer: String,
}

/// A step of a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// Ports lose frames, and the carrier stays.
    PortsDisabled,
    /// Ports work again.
    PortsForwarding,
    /// The carrier is gone, and the other cable carries the frames.
    Down,
    /// The carrier is back, and the cable is the backup of the other.
    Up,
}

impl CableEnd {
    /// Returns the port of a cable.
    pub(crate) fn port(&self, cable: usize) -> String {
        format!("{}f{cable}", self.bridge)
    }

    /// Returns the `bridge` batch lines that send frames by `cable`.
    pub(crate) fn use_cable(&self, cable: usize, backup: bool) -> Vec<String> {
        let [port, other] = [cable, 1 - cable].map(|cable| self.port(cable));
        // The way to the other end is written, because the kernel forgets learned ones with the
        // carrier.
        let way = format!("fdb replace {} dev {port} master static", self.peer);
        // Broadcasts would be forwarded back over the second cable.
        let flood = |port: &str, on: &str| {
            format!("link set dev {port} flood {on} mcast_flood {on} bcast_flood {on}")
        };
        let mut lines = vec![
            way,
            format!("link set dev {other} learning off nobackup_port"),
            flood(&other, "off"),
            format!("link set dev {port} learning off"),
            flood(&port, "on"),
        ];
        if backup {
            lines.push(format!("link set dev {port} backup_port {other}"));
        }
        lines
    }
}

impl Cables {
    /// Returns the steps of a failure, each with the time to wait before it.
    fn course(&self) -> Vec<(Nanos, Step)> {
        let works = self.every.since(self.length);
        if !self.backup {
            return vec![(works, Step::PortsDisabled), (self.length, Step::PortsForwarding)];
        }
        if self.unnoticed == Nanos(0) {
            return vec![(works, Step::Down), (self.length, Step::Up)];
        }
        let down = self.length.since(self.unnoticed);
        vec![(works, Step::PortsDisabled), (self.unnoticed, Step::Down), (down, Step::Up)]
    }

    /// Does `step` with `cable`.
    fn take(&self, step: Step, cable: usize) -> Result<()> {
        if step == Step::Up {
            for end in &self.ends {
                let lines = end.use_cable(1 - cable, self.backup);
                run("bridge", &["-n", &end.namespace, "-batch", "-"], Some(&lines))?;
            }
        }
        for end in &self.ends {
            let (namespace, port) = (&*end.namespace, &*end.port(cable));
            let (tool, what, value) = match step {
                Step::PortsDisabled => ("bridge", Some("state"), "disabled"),
                Step::PortsForwarding => ("bridge", Some("state"), "forwarding"),
                Step::Down => ("ip", None, "down"),
                Step::Up => ("ip", None, "up"),
            };
            let arguments = ["-n", namespace, "link", "set", "dev", port];
            let arguments: Vec<&str> = arguments.into_iter().chain(what).chain([value]).collect();
            run(tool, &arguments, None)?;
        }
        Ok(())
    }

    /// Lets the cables fail in turn until `stopped` is closed.
    fn fail_in_turn(&self, stopped: &Receiver<()>) {
        let mut cable = 0;
        for (wait, step) in self.course().into_iter().cycle() {
            let wait = Duration::from_nanos(wait.0);
            if stopped.recv_timeout(wait) != Err(RecvTimeoutError::Timeout) {
                return;
            }
            // After a command that fails, the cables stay as they are until the lab ends.
            if let Err(error) = self.take(step, cable) {
                eprintln!(
                    "linerate: the cables of the lab do not fail any more, and outages are not \
                        those of its description: {error}"
                );
                return;
            }
            if step == Step::Up {
                cable = 1 - cable;
            }
        }
    }

    /// Waits until the bridges have a carrier, which takes the kernel up to a second.
    fn await_carrier(&self) -> Result<()> {
        const PATIENCE: Duration = Duration::from_secs(10);
        const PAUSE: Duration = Duration::from_millis(20);
        let begun = Instant::now();
        for CableEnd { namespace, bridge, .. } in &self.ends {
            let arguments = ["-n", namespace, "-o", "link", "show", "dev", bridge];
            while !run("ip", &arguments, None)?.contains("LOWER_UP") {
                if begun.elapsed() > PATIENCE {
                    let what = format!("wait for the carrier of {bridge} in {namespace}");
                    let cause = "there is none".to_owned();
                    return Err(LabError::Refused { what, cause, remedy: "" });
                }
                std::thread::sleep(PAUSE);
            }
        }
        Ok(())
    }
}

/// Thread that lets cables fail. Dropping it ends the thread.
#[derive(Debug)]
pub(crate) struct Failing {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Failing {
    pub(crate) fn start(cables: Cables) -> Result<Self> {
        cables.await_carrier()?;
        let (stop, stopped) = mpsc::channel::<()>();
        let thread = std::thread::Builder::new()
            .name("lr-failing".into())
            .spawn(move || cables.fail_in_turn(&stopped));
        let place = "this process";
        let thread = thread
            .map_err(|cause| SysError::new("start thread of failing cables in", place, cause))?;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Failing {
    fn drop(&mut self) {
        // The thread wakes when the channel closes. It ends before the namespaces of its commands.
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_takes_its_time_and_the_cable_works_in_between() {
        let of = |backup, unnoticed| -> Vec<(u64, Step)> {
            let ends = ["a", "b"].map(|name| CableEnd {
                namespace: name.into(),
                bridge: name.into(),
                peer: String::new(),
            });
            let [every, length, unnoticed] = [2000, 500, unnoticed].map(Nanos::from_millis);
            let cables = Cables { ends, backup, every, length, unnoticed };
            cables.course().into_iter().map(|(wait, step)| (wait.0 / 1_000_000, step)).collect()
        };
        assert_eq!(of(true, 0), [(1500, Step::Down), (500, Step::Up)]);
        assert_eq!(of(true, 50), [(1500, Step::PortsDisabled), (50, Step::Down), (450, Step::Up)]);
        assert_eq!(of(false, 0), [(1500, Step::PortsDisabled), (500, Step::PortsForwarding)]);
    }

    #[test]
    fn the_other_cable_is_the_backup_and_floods_nothing() {
        let end = CableEnd { namespace: "n".into(), bridge: "b0".into(), peer: "02:00".into() };
        let mut lines = vec![
            "fdb replace 02:00 dev b0f1 master static",
            "link set dev b0f0 learning off nobackup_port",
            "link set dev b0f0 flood off mcast_flood off bcast_flood off",
            "link set dev b0f1 learning off",
            "link set dev b0f1 flood on mcast_flood on bcast_flood on",
        ];
        assert_eq!(end.use_cable(1, false), lines);
        lines.push("link set dev b0f1 backup_port b0f0");
        assert_eq!(end.use_cable(1, true), lines);
    }
}
