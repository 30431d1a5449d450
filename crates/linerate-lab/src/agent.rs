//! SNMP agent of a switch: snmpd of Net-SNMP in the namespace of the switch, as a switch has one
//! of its own. It needs no file, and answers whoever is in the namespace.

use std::io;
use std::net::UdpSocket;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use linerate_sys::netns::within;

use crate::tool::{LabError, Result, run};

/// Address of the agent in the namespace of its switch.
pub const ADDRESS: &str = "127.0.0.1:161";
/// Community of SNMPv2c that the agent answers. Nobody outside of the namespace reaches it.
pub const COMMUNITY: &str = "lab";
/// The program.
const SNMPD: &str = "snmpd";
/// Object that says for how many seconds the agent keeps the counters of interfaces
/// (`nsCacheTimeout` of ifTable, NET-SNMP-AGENT-MIB).
const CACHE: &str = "1.3.6.1.4.1.8072.1.5.3.1.2.1.3.6.1.2.1.2.2";

/// Running agent. Dropping it ends it.
#[derive(Debug)]
pub(crate) struct Agent(Child);

impl Agent {
    /// Starts one in `namespace`; `None` where snmpd is not installed.
    pub(crate) fn start(namespace: &str) -> Result<Option<Self>> {
        if !is_installed() {
            return Ok(None);
        }
        let community = format!("--rwcommunity={COMMUNITY}");
        let failed = |cause| LabError::Tool { tool: "ip".to_owned(), package: "iproute2", cause };
        let agent = Command::new("ip")
            .args(["netns", "exec", namespace, SNMPD, "-f", "-Ln", "-C", &community, ADDRESS])
            // It would read descriptions that it does not need, and write down how often it began.
            .envs([("MIBS", ""), ("SNMP_PERSISTENT_DIR", "/dev/null/none")])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map(Self)
            .map_err(failed)?;
        await_answer(namespace)?;
        // Without the tool, values are up to three seconds old, and their reader asks again.
        let set = ["netns", "exec", namespace, "snmpset", "-v2c", "-c", COMMUNITY, ADDRESS, CACHE];
        drop(run("ip", &[&set[..], &["i", "0"]].concat(), None));
        Ok(Some(agent))
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        // It may have ended by itself.
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// Returns whether snmpd can be started here.
fn is_installed() -> bool {
    let asked = Command::new(SNMPD).arg("-v").stdout(Stdio::null()).stderr(Stdio::null()).status();
    !asked.is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
}

/// Waits until the agent has opened its port.
fn await_answer(namespace: &str) -> Result<()> {
    const PATIENCE: Duration = Duration::from_secs(10);
    const PAUSE: Duration = Duration::from_millis(20);
    let begun = Instant::now();
    while let Err(error) = within(namespace, knock)? {
        if begun.elapsed() > PATIENCE {
            return Err(LabError::Refused {
                what: format!("start {SNMPD} in {namespace}"),
                cause: error.to_string(),
                remedy: "",
            });
        }
        std::thread::sleep(PAUSE);
    }
    Ok(())
}

/// Sends two empty datagrams. The second fails if nobody has the port, because of the answer to the
/// first.
fn knock() -> io::Result<()> {
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    socket.connect(ADDRESS)?;
    socket.send(&[])?;
    socket.send(&[]).map(drop)
}
