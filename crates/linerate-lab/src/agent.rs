//! SNMP agent of a switch: snmpd of Net-SNMP in the namespace of the switch, as a switch has one
//! of its own. It needs no file, and answers whoever is in the namespace.

use std::io::{self, Read};
use std::net::UdpSocket;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use linerate_sys::netns::within;

use crate::tool::{LabError, Result, run};

/// Address of the agent in the namespace of its switch.
pub const ADDRESS: &str = "127.0.0.1:161";
/// Community of SNMPv2c that the agent answers. It may write nothing.
pub const COMMUNITY: &str = "lab";
/// Community that may write [`CACHE`], from the switch itself. Write access to all objects would
/// let everybody in the namespace start programs (NET-SNMP-EXTEND-MIB).
const CACHE_COMMUNITY: &str = "lab-cache";
/// The program.
const SNMPD: &str = "snmpd";
/// The tool that sets [`CACHE`].
const SNMPSET: &str = "snmpset";
/// Object that says for how many seconds the agent keeps the counters of interfaces
/// (`nsCacheTimeout` of ifTable, NET-SNMP-AGENT-MIB).
const CACHE: &str = "1.3.6.1.4.1.8072.1.5.3.1.2.1.3.6.1.2.1.2.2";

/// Running agent. Dropping it ends it.
#[derive(Debug)]
pub(crate) struct Agent(Child);

impl Agent {
    /// Starts one in `namespace`; `None` where snmpd or snmpset is not installed, or snmpd ends at
    /// once, which is reported on standard error.
    pub(crate) fn start(namespace: &str) -> Result<Option<Self>> {
        if ![SNMPD, SNMPSET].into_iter().all(is_installed) {
            return Ok(None);
        }
        let read = format!("--rocommunity={COMMUNITY}");
        let write = format!("--rwcommunity={CACHE_COMMUNITY} 127.0.0.1 .{CACHE}");
        let failed = |cause| LabError::Tool { tool: "ip".to_owned(), package: "iproute2", cause };
        let mut agent = Command::new("ip")
            .args(["netns", "exec", namespace, SNMPD, "-f", "-LE", "4", "-C", &read, &write])
            .arg(ADDRESS)
            // It would read descriptions that it does not need, and write down how often it began.
            .envs([("MIBS", ""), ("SNMP_PERSISTENT_DIR", "/dev/null/none")])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            // Ctrl-C reaches the group of linerate, whose last readings need the agent.
            .process_group(0)
            .spawn()
            .map(Self)
            .map_err(failed)?;
        if let Some(cause) = agent.await_answer(namespace)? {
            eprintln!(
                "linerate: start {SNMPD} in {namespace}: {cause}. The kernel's counters of its \
                    ports are read instead."
            );
            return Ok(None);
        }
        // A full pipe would stop the agent.
        let errors = agent.0.stderr.take();
        std::thread::spawn(move || errors.map(|mut from| io::copy(&mut from, &mut io::sink())));
        // Otherwise values are up to three seconds old, and their reader asks again.
        let set = ["netns", "exec", namespace, SNMPSET, "-v2c", "-c", CACHE_COMMUNITY];
        drop(run("ip", &[&set[..], &[ADDRESS, CACHE, "i", "0"]].concat(), None));
        Ok(Some(agent))
    }

    /// Waits until the agent has opened its port. Returns the agent's error if it ends before.
    fn await_answer(&mut self, namespace: &str) -> Result<Option<String>> {
        const PATIENCE: Duration = Duration::from_secs(10);
        const PAUSE: Duration = Duration::from_millis(20);
        let begun = Instant::now();
        while let Err(error) = within(namespace, knock)? {
            if let Ok(Some(status)) = self.0.try_wait() {
                let mut text = String::new();
                let errors = self.0.stderr.take();
                // What it wrote before an unreadable byte is still worth showing.
                let _read = errors.map(|mut from| from.read_to_string(&mut text));
                // Earlier lines are about descriptions and folders that it can do without.
                let lines: Vec<&str> = text.lines().collect();
                let last = lines[lines.len().saturating_sub(2)..].join("; ");
                return Ok(Some(format!("it ended with {status}: {last}")));
            }
            if begun.elapsed() > PATIENCE {
                return Err(LabError::Refused {
                    what: format!("start {SNMPD} in {namespace}"),
                    cause: error.to_string(),
                    remedy: "",
                });
            }
            std::thread::sleep(PAUSE);
        }
        Ok(None)
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        // It may have ended by itself.
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// Returns whether `program` can be started here.
fn is_installed(program: &str) -> bool {
    let asked =
        Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    !asked.is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
}

/// Sends two empty datagrams. The second fails if nobody has the port, because of the answer to the
/// first.
fn knock() -> io::Result<()> {
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    socket.connect(ADDRESS)?;
    socket.send(&[])?;
    socket.send(&[]).map(drop)
}
