//! `linerate lab`: emulated testbeds on their own.
//!
//! A lab that can stand alone has public names, as `ip netns` knows them, and stays. Any other is
//! carried by its `linerate lab up`: its names are private to that process, and other commands find
//! the process ([`linerate_campaign::standing`]).

use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::{Duration, Instant};

use clap::builder::PossibleValuesParser;
use clap::{Args, Subcommand};
use linerate_campaign::sandbox;
use linerate_campaign::standing::{self, Claim, Maker};
use linerate_campaign::testbeds::describe;
use linerate_lab::Lab;
use linerate_lab::controller::Event;
use linerate_lab::element::{Class, Fate};
use serde_json::json;

use crate::exit::{Exit, Failure, Outcome};

#[derive(Debug, Args)]
pub(crate) struct LabArgs {
    #[command(subcommand)]
    pub(crate) action: LabAction,
}

#[derive(Debug, Subcommand)]
pub(crate) enum LabAction {
    /// Build a lab that stays; one with delays, faults, controllers or CPU shares stays as long as
    /// the command runs
    Up {
        /// A lab file, or the name of a preset
        lab: String,
    },
    /// Remove a lab
    Down {
        /// Its name
        lab: String,
    },
    /// List labs that are up (`linerate list labs` prints those that come with linerate)
    List,
    /// Run a command on a host of a lab
    Exec {
        /// Its name
        lab: String,
        /// The host
        host: String,
        /// The command
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
        command: Vec<String>,
    },
    /// Let something happen at an emulated controller of a lab that is up
    Event {
        /// Its name
        lab: String,
        /// The controller
        controller: String,
        /// What happens there
        #[arg(value_parser = PossibleValuesParser::new(Event::NAMES.map(|(name, _)| name)))]
        event: String,
    },
    /// Remove the remains of killed processes
    Reap,
}

/// Prefix of the namespaces of labs.
const STANDING: &str = "lr-up.";
/// Interval between two looks for an interrupt.
const PATIENCE: Duration = Duration::from_millis(100);
/// Longest time that a lab's process may take to end.
const END_PATIENCE: Duration = Duration::from_secs(30);

/// Runs `action`.
pub(crate) fn run(action: LabAction, as_json: bool) -> Outcome {
    if !sandbox::is_root() {
        let message =
            "lab: root is needed for a lab of its own (labs of `run` and `demo` need none)";
        return Err(Failure::missing(message));
    }
    match action {
        LabAction::Up { lab } => up(&lab),
        LabAction::Down { lab } => down(&lab),
        LabAction::List => list(as_json),
        LabAction::Exec { lab, host, command } => exec(&lab, &host, &command),
        LabAction::Event { lab, controller, event } => order(&lab, &controller, &event),
        LabAction::Reap => reap(as_json),
    }
}

fn up(name: &str) -> Outcome {
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
    for endpoint in &lab.testbed().endpoints {
        let address = endpoint.address.map(|a| a.to_string()).unwrap_or_default();
        println!(
            "{}: host {}, {address} on {}",
            endpoint.name,
            endpoint.host,
            endpoint.device.as_deref().unwrap_or("-")
        );
    }
    let name = &description.name;
    println!("`linerate lab exec {name} HOST COMMAND` runs a command there");
    if stands_alone {
        println!("it stays until `linerate lab down {name}` or the next boot");
        return Ok(Exit::Done);
    }
    println!(
        "its delays, faults, controllers and CPU shares last as long as this command: Ctrl-C \
            removes the lab"
    );
    stay(&lab, claim)
}

/// Carries the frames of `lab` until an interrupt, and answers commands that look for it.
fn stay(lab: &Lab, mut claim: Claim) -> Outcome {
    linerate_sys::signal::note_interrupts().map_err(Failure::missing)?;
    while !linerate_sys::signal::interrupted() {
        std::thread::sleep(PATIENCE);
        // Others look for the process of a lab by its claim.
        claim.answer(|order| happen(lab, order));
    }
    for controller in lab.controllers() {
        let (inward, outward) = (controller.from_network(), controller.from_management());
        println!(
            "{}: from the network {} frames, {} refused, {} dropped; from the management \
                controller {} frames, {} refused, {} dropped",
            controller.name(),
            inward.received,
            inward.refused,
            inward.dropped,
            outward.received,
            outward.refused,
            outward.dropped
        );
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
                println!("{}, {near} to {far}: frames {}", device.name(), fates.join(", "));
            }
        }
    }
    // A loss of the emulation looks like one of the path.
    match lab.emulation_losses() {
        0 => {}
        lost => println!(
            "{lost} frames were lost by the emulation itself: measurements of that time are invalid"
        ),
    }
    Ok(Exit::Done)
}

/// Lets the event of `order`, name and controller, happen in `lab`.
fn happen(lab: &Lab, order: &str) -> Result<(), String> {
    let (event, name) = order.split_once(' ').ok_or("it names no controller")?;
    let event = Event::of(event).ok_or_else(|| format!("there is no event {event}"))?;
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

/// Lets `event` happen at `controller` of the lab `name`.
fn order(name: &str, controller: &str, event: &str) -> Outcome {
    let failed =
        |why: &str| Failure::missing(format!("lab event {name} {controller} {event}: {why}"));
    let maker = Maker::of(name)?
        .ok_or_else(|| failed("no such lab with a controller is up (see `linerate lab list`)"))?;
    maker.order(&format!("{event} {controller}")).map_err(|why| failed(&why))?;
    Ok(Exit::Done)
}

/// Returns the namespaces of labs that no process carries, without their prefix.
fn alone() -> Result<Vec<String>, Failure> {
    let list = Command::new("ip").args(["netns", "list"]).output();
    let list = list.map_err(|error| {
        Failure::missing(format!("run ip: {error} (install it: apt install iproute2)"))
    })?;
    let text = String::from_utf8_lossy(&list.stdout).into_owned();
    let names = text.lines().filter_map(|line| line.split_whitespace().next());
    Ok(names.filter_map(|name| name.strip_prefix(STANDING)).map(str::to_owned).collect())
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

/// Splits a namespace's name into lab and node.
fn parts(full: &str) -> Option<(&str, &str)> {
    // The node is the last part of the name.
    full.rsplit_once('-')
}

fn down(name: &str) -> Outcome {
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
    Ok(Exit::Done)
}

/// Ends the process that carries the lab `name`, and waits until it has gone.
fn end(name: &str, maker: &Maker) -> Outcome {
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
    Ok(Exit::Done)
}

fn list(as_json: bool) -> Outcome {
    let mut labs = alone()?;
    labs.extend(carried());
    // Devices between two nodes only carry frames: no command can run there.
    labs.retain(|full| parts(full).is_some_and(|(_, node)| !linerate_lab::is_device(node)));
    if as_json {
        println!("{}", json!(labs));
    } else if labs.is_empty() {
        // An empty output would look like a list of presets without an entry.
        eprintln!("no lab is up; `linerate list labs` prints the labs that come with linerate");
    } else {
        labs.iter().filter_map(|full| parts(full)).for_each(|(lab, node)| println!("{lab} {node}"));
    }
    Ok(Exit::Done)
}

fn exec(lab: &str, host: &str, command: &[String]) -> Outcome {
    let namespace = format!("{STANDING}{lab}-{host}");
    let Some(maker) = Maker::of(lab)? else {
        // The command replaces this process, so its exit code is its own.
        let error = Command::new("ip").args(["netns", "exec", &namespace]).args(command).exec();
        return Err(Failure::missing(format!(
            "run ip: {error} (install it: apt install iproute2)"
        )));
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
    Err(Failure::missing(format!("run nsenter: {error} (install it: apt install util-linux)")))
}

fn reap(as_json: bool) -> Outcome {
    let reaped = linerate_lab::reap().map_err(Failure::missing)?;
    if as_json {
        println!("{}", json!(reaped));
    } else {
        reaped.iter().for_each(|name| println!("{name} removed"));
    }
    Ok(Exit::Done)
}
