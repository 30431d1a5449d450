//! Labs of `linerate lab`: built, listed, entered and removed.
//!
//! A lab that can stand alone has public names, as `ip netns` knows them, and stays. Any other is
//! carried by its `linerate lab up`: its names are private to that process, and other commands find
//! the process ([`standing`](crate::standing)).

use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::{Duration, Instant};

use linerate_lab::Lab;
use linerate_lab::controller::Event;
use linerate_lab::element::{Class, Fate};

use crate::standing::{self, Claim, Maker};
use crate::testbeds::describe;
use crate::{Failure, Result, sandbox};

/// Prefix of the namespaces of labs.
const STANDING: &str = "lr-up.";
/// Interval between two looks for an interrupt.
const PATIENCE: Duration = Duration::from_millis(100);
/// Longest time that a lab's process may take to end.
const END_PATIENCE: Duration = Duration::from_secs(30);

/// A lab that was built.
pub struct Up {
    lab: Lab,
    name: String,
    claim: Claim,
    stands_alone: bool,
}

/// Builds the lab `name`, a file or a preset.
///
/// # Errors
/// If it cannot be read or built, or its name is taken.
pub fn up(name: &str) -> Result<Up> {
    let (description, _) = describe(name)?;
    // Two commands at once would build the same names.
    let claim = Claim::new(&description.name)?;
    let instance = format!("up.{}", description.name);
    // Emulated delays are carried by this process, so they end with it.
    let stands_alone = linerate_lab::layout(&description, &instance).stands_alone();
    if !stands_alone {
        // With private names, a lab of the same name would not be seen.
        Lab::clear(&description, &instance).map_err(Failure::missing)?;
        sandbox::enter()?;
    }
    let mut lab = Lab::build(&description, &instance).map_err(Failure::missing)?;
    if stands_alone {
        lab.keep().map_err(Failure::missing)?;
    }
    Ok(Up { lab, name: description.name, claim, stands_alone })
}

impl Up {
    /// Returns the endpoints of the lab, how to use it, and how long it stays, a line each.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        let endpoints = self.lab.testbed().endpoints.iter().map(|endpoint| {
            let address = endpoint.address.map(|a| a.to_string()).unwrap_or_default();
            let device = endpoint.device.as_deref().unwrap_or("-");
            format!("{}: host {}, {address} on {device}", endpoint.name, endpoint.host)
        });
        let name = &self.name;
        let stay = match self.stands_alone {
            true => format!("it stays until `linerate lab down {name}` or the next boot"),
            false => "its delays, faults, controllers and CPU shares last as long as this \
                      command: Ctrl-C removes the lab"
                .to_owned(),
        };
        let usage = format!("`linerate lab exec {name} HOST COMMAND` runs a command there");
        endpoints.chain([usage, stay]).collect()
    }

    /// Carries the frames of the lab until an interrupt, and answers commands that look for it.
    /// Returns its counters, a line each. A lab that stands alone needs none of this.
    ///
    /// # Errors
    /// If interrupts cannot be noted.
    pub fn stay(mut self) -> Result<Vec<String>> {
        if self.stands_alone {
            return Ok(Vec::new());
        }
        linerate_sys::signal::note_interrupts().map_err(Failure::missing)?;
        while !linerate_sys::signal::interrupted() {
            std::thread::sleep(PATIENCE);
            // Others look for the process of a lab by its claim.
            self.claim.answer(|order| happen(&self.lab, order));
        }
        Ok(counters(&self.lab))
    }
}

/// Returns what the controllers and devices of `lab` counted.
fn counters(lab: &Lab) -> Vec<String> {
    let mut lines = Vec::new();
    for controller in lab.controllers() {
        let (inward, outward) = (controller.from_network(), controller.from_management());
        lines.push(format!(
            "{}: from the network {} frames, {} refused, {} dropped; from the management \
                controller {} frames, {} refused, {} dropped",
            controller.name(),
            inward.received,
            inward.refused,
            inward.dropped,
            outward.received,
            outward.refused,
            outward.dropped
        ));
    }
    for device in lab.elements() {
        for end in [0, 1] {
            let counted = device.counted(end);
            let all = |fate| Class::ALL.map(|class| counted.of(class, fate)).iter().sum::<u64>();
            let [near, far] = [&device.ends()[end], &device.ends()[1 - end]];
            let fates: Vec<String> = Fate::ALL
                .map(|fate| (all(fate), fate.name()))
                .iter()
                .filter(|(n, _)| *n > 0)
                .map(|(n, name)| format!("{n} {}", name.replace('_', " ")))
                .collect();
            if !fates.is_empty() {
                lines.push(format!(
                    "{}, {near} to {far}: frames {}",
                    device.name(),
                    fates.join(", ")
                ));
            }
        }
    }
    // A loss of the emulation looks like one of the path.
    match lab.emulation_losses() {
        0 => {}
        lost => lines.push(format!(
            "{lost} frames were lost by the emulation itself: measurements of that time are invalid"
        )),
    }
    lines
}

/// Lets the event of `order`, name and controller, happen in `lab`.
fn happen(lab: &Lab, order: &str) -> Result<(), String> {
    let (event, name) = event_of(order)?;
    let known = lab.controllers();
    let controller = known.iter().find(|known| known.name() == name).ok_or_else(|| {
        let names: Vec<&str> = known.iter().map(|known| known.name()).collect();
        match names.is_empty() {
            true => "it has no controllers".to_owned(),
            false => format!("it has no controller {name} (it has {})", names.join(", ")),
        }
    })?;
    controller.order(event);
    Ok(())
}

/// Returns the event of `order`, and the name of its controller.
fn event_of(order: &str) -> Result<(Event, &str), String> {
    let (event, name) = order.split_once(' ').ok_or("it names no controller")?;
    let event = Event::of(event).ok_or_else(|| format!("there is no event {event}"))?;
    Ok((event, name))
}

/// Lets `event` happen at `controller` of the lab `name`.
///
/// # Errors
/// If there is no such lab, controller or event.
pub fn order(name: &str, controller: &str, event: &str) -> Result<()> {
    let failed =
        |why: &str| Failure::missing(format!("lab event {name} {controller} {event}: {why}"));
    let maker = Maker::of(name)?
        .ok_or_else(|| failed("no such lab with a controller is up (see `linerate lab list`)"))?;
    maker.order(&format!("{event} {controller}")).map_err(|why| failed(&why))
}

/// Returns the namespaces of labs that no process carries, without their prefix.
fn alone() -> Result<Vec<String>> {
    let list = Command::new("ip").args(["netns", "list"]).output().map_err(no_ip)?;
    let text = String::from_utf8_lossy(&list.stdout);
    let names = text.lines().filter_map(|line| line.split_whitespace().next());
    Ok(names.filter_map(|name| name.strip_prefix(STANDING)).map(str::to_owned).collect())
}

fn no_ip(error: std::io::Error) -> Failure {
    Failure::missing(format!("run ip: {error} (install it: apt install iproute2)"))
}

/// Returns the namespaces of labs that a process carries, without their prefix. A process that is
/// not visible from here, or not root's, is left out: `lab exec` reports the reason.
fn carried() -> Vec<String> {
    let makers = standing::carried().into_iter().filter_map(|lab| Maker::of(&lab).ok().flatten());
    let mut names = Vec::new();
    for maker in makers {
        let entries = std::fs::read_dir(maker.names()).into_iter().flatten().flatten();
        let found: Vec<String> =
            entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
        // A process that ended between the two looks has no lab any longer.
        if maker.is_alive() {
            names.extend(
                found.iter().filter_map(|name| name.strip_prefix(STANDING)).map(str::to_owned),
            );
        }
    }
    names.sort_unstable();
    names
}

/// Splits a namespace's name, without its prefix, into lab and node.
#[must_use]
pub fn parts(full: &str) -> Option<(&str, &str)> {
    // The node is the last part of the name.
    full.rsplit_once('-')
}

/// Returns the hosts of all labs that are up, as the names of their namespaces without their
/// prefix.
///
/// # Errors
/// If they cannot be listed.
pub fn hosts() -> Result<Vec<String>> {
    let mut names = alone()?;
    names.extend(carried());
    names.retain(|full| is_host(full));
    Ok(names)
}

/// Returns whether a namespace is that of a host. Devices between two nodes only carry frames: no
/// command can run there.
fn is_host(full: &str) -> bool {
    parts(full).is_some_and(|(_, node)| !linerate_lab::is_device(node))
}

/// Removes the lab `name`.
///
/// # Errors
/// If there is none, or it stays.
pub fn down(name: &str) -> Result<()> {
    // A carried lab ends with its process.
    if let Some(maker) = Maker::of(name)? {
        return end(name, &maker);
    }
    let nodes: Vec<String> = alone()?
        .into_iter()
        .filter(|full| parts(full).is_some_and(|(lab, _)| lab == name))
        .collect();
    if nodes.is_empty() {
        return Err(Failure::missing(format!(
            "lab down {name}: there is no such lab (see `linerate lab list`)"
        )));
    }
    for node in nodes {
        let namespace = format!("{STANDING}{node}");
        let status = Command::new("ip").args(["netns", "delete", &namespace]).status();
        if !status.is_ok_and(|status| status.success()) {
            return Err(Failure::missing(format!(
                "delete network namespace {namespace}: ip refused"
            )));
        }
        // The mark of a namespace that stays goes with it.
        linerate_lab::forget(&namespace);
    }
    Ok(())
}

/// Ends the process that carries the lab `name`, and waits until it has gone.
fn end(name: &str, maker: &Maker) -> Result<()> {
    let failed = |cause: String| {
        Failure::missing(format!("lab down {name}: end process {}: {cause}", maker.pid))
    };
    // The process removes its lab itself, as at Ctrl-C.
    maker.interrupt().map_err(|error| failed(error.to_string()))?;
    let asked = Instant::now();
    while maker.is_alive() {
        if asked.elapsed() > END_PATIENCE {
            return Err(failed(format!("it still runs after {} s", END_PATIENCE.as_secs())));
        }
        std::thread::sleep(PATIENCE);
    }
    Ok(())
}

/// Runs `command` on `host` of `lab` in place of this program, so that its exit code is its own.
/// Returns only the reason why it could not.
#[must_use]
pub fn exec(lab: &str, host: &str, command: &[String]) -> Failure {
    let namespace = format!("{STANDING}{lab}-{host}");
    let maker = match Maker::of(lab) {
        Ok(Some(maker)) => maker,
        Ok(None) => {
            let arguments = ["netns", "exec", &namespace];
            return no_ip(Command::new("ip").args(arguments).args(command).exec());
        }
        Err(failure) => return failure,
    };
    // Entering the mounts of another process changes to their root directory.
    let here = std::env::current_dir().unwrap_or_else(|_| "/".into());
    let mounts = format!("--mount=/proc/{}/ns/mnt", maker.pid);
    let error = Command::new("nsenter")
        // The shell returns to the folder where the command was typed.
        .args([&mounts, "sh", "-c", "cd \"$0\" && exec \"$@\""])
        .arg(here)
        .args(["ip", "netns", "exec", &namespace])
        .args(command)
        .exec();
    Failure::missing(format!("run nsenter: {error} (install it: apt install util-linux)"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_is_an_event_and_the_name_of_its_controller() {
        let (name, event) = Event::NAMES[0];
        let order = format!("{name} ctl");
        assert_eq!(event_of(&order), Ok((event, "ctl")));
        assert_eq!(event_of(name), Err("it names no controller".to_owned()));
        assert_eq!(event_of("explode ctl"), Err("there is no event explode".to_owned()));
    }

    #[test]
    fn a_command_can_run_on_hosts_of_a_lab_and_not_on_devices_between_them() {
        assert_eq!(parts("two-part-a"), Some(("two-part", "a")), "a lab's name may have a dash");
        assert!(is_host("pair-a") && !is_host("pair") && !is_host("pair-D1"));
    }
}
