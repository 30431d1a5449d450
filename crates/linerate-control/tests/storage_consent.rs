//! Consent to write to a disk is given on the disk's host only: tested over the wire, by a
//! conductor that allows itself everything.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;

use linerate_control::{Access, Agent, AgentOptions, run};
use linerate_disk::{Writable, claim, inspect};
use linerate_model::{Counter, Side};
use serde_json::{Value, json};

use crate::common::{Listening, Recorded, endpoint, job, trial};
use crate::host::Loop;

const SIZE: u64 = 16 << 20;
/// Bytes that a claim reserves at both ends of a disk.
const EDGE: usize = 1 << 20;

/// Claimed loop device over a blank file in memory.
struct Disk {
    on: Loop,
    serial: String,
}

impl Disk {
    /// Attaches and claims the device; `None`, with a message, without loop devices.
    fn claimed() -> Option<Self> {
        let on = Loop::within("", SIZE, Path::new("/dev/shm"))?;
        let serial = inspect(&on.device).unwrap().topology.serial.unwrap();
        claim(&on.device, &serial).unwrap();
        Some(Self { on, serial })
    }

    fn contents(&self) -> Vec<u8> {
        std::fs::read(&self.on.image).unwrap()
    }

    fn job(&self, consent: Option<&str>) -> Value {
        json!({ "target": *self.on.device, "read": "0 \
            %", "depth": 4, "consent": consent, "max_written": "64 GiB" })
    }
}

/// Runs a trial of `params` over TCP, at an agent that may write to `writable`.
fn over_the_wire(writable: Writable, mut params: Value) -> Recorded {
    params.as_object_mut().unwrap().retain(|_, value| !value.is_null());
    let options = AgentOptions { writable, ..AgentOptions::default() };
    let agent = Listening::start(options, Access::Loopback);
    let (a, b) = (endpoint("a", None), endpoint("b", None));
    let mut campaign = agent.campaign(vec![trial(0, vec![job("storage", a, b, params)])]);
    // The conductor's own agent plays no part.
    campaign.agent =
        Agent::new(AgentOptions { writable: Writable::Claimed, ..AgentOptions::default() });
    let mut recorded = Recorded::default();
    let _summary = run(campaign, &mut recorded, &mut |_| {});
    recorded
}

fn is_refused(recorded: &Recorded, disk: &Disk, before: &[u8], why: &str) {
    let told: Vec<String> =
        recorded.incidents().into_iter().map(|incident| incident.message).collect();
    assert!(told.iter().any(|message| message.contains(why)), "{why}: {told:?}");
    assert_eq!(recorded.total(0, Side::Active, Counter::Writes), 0);
    assert!(disk.contents() == before, "no byte was changed");
}

#[test]
fn a_conductor_cannot_make_an_agent_write_to_a_disk_that_is_not_permitted() {
    let Some(disk) = Disk::claimed() else { return };
    let before = disk.contents();
    let (serial, not_listed) =
        (disk.serial.as_str(), "it is not among the disks this agent may write to");
    for writable in [Writable::default(), Writable::Listed(vec!["another".into()])] {
        let recorded = over_the_wire(writable, disk.job(Some(serial)));
        is_refused(&recorded, &disk, &before, not_listed);
    }
    // The disk is permitted, but the job carries no consent, like an imported one.
    let recorded = over_the_wire(Writable::Listed(vec![serial.into()]), disk.job(None));
    is_refused(&recorded, &disk, &before, not_listed);
}

#[test]
fn an_agent_writes_to_a_permitted_disk_between_its_edges() {
    let Some(disk) = Disk::claimed() else { return };
    let before = disk.contents();
    let recorded =
        over_the_wire(Writable::Listed(vec![disk.serial.clone()]), disk.job(Some(&disk.serial)));
    assert!(recorded.total(0, Side::Active, Counter::Writes) > 0, "{:?}", recorded.incidents());
    let after = disk.contents();
    assert!(
        after[..EDGE] == before[..EDGE]
            && after[after.len() - EDGE..] == before[before.len() - EDGE..]
    );
    assert!(after[EDGE..after.len() - EDGE] != before[EDGE..before.len() - EDGE]);
    assert!(disk.on.device.exists());
}
