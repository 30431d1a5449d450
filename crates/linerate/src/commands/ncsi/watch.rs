//! `linerate ncsi watch`: rates of the pass-through statistics, and notifications.

use std::time::{Duration, Instant};

use linerate_answers::controller::{Rates, Source, notified};
use linerate_observe::ncsi::{Address, Controller, Notifications, Transport};
use linerate_packet::ncsi::{Answer, Command, PassThroughStatistics};
use linerate_sys::signal::{interrupted, note_interrupts};

use super::{NcsiArgs, ask, refusal};
use crate::args::Global;
use crate::exit::{Exit, Failure, Outcome as Ended};

/// Interval between two questions.
const EVERY: Duration = Duration::from_secs(1);
/// Longest wait for a notification before an interrupt is looked for.
const PATIENCE: Duration = Duration::from_millis(100);
/// Notifications of the standard; others are a manufacturer's own.
const STANDARD: u32 = 0b111;

/// Prints the rates of the pass-through statistics, one line each second, and notifications as they
/// arrive.
pub(super) fn watch(
    controller: &mut Controller,
    args: &NcsiArgs,
    address: Address,
    global: Global,
) -> Ended {
    let device = args.interface.as_str();
    let source = Source { device, transport: controller.transport() };
    if !global.json {
        println!("{device}: {}", controller.transport().reason());
    }
    // Opened first, so that none is missed.
    let mut notifications = Notifications::open(device).map_err(Failure::missing)?;
    note_interrupts().map_err(Failure::missing)?;
    let before = if args.allow_set { enable(controller, device, address)? } else { None };
    let ended = follow(controller, &mut notifications, args, address, source, global);
    if let Some(control) = before {
        ask(controller, device, address, &Command::AenEnable { management: 0, control })?;
    }
    ended
}

/// Enables the notifications that the channel has. Returns those that were enabled before; `None`
/// where the kernel chooses them.
fn enable(
    controller: &mut Controller,
    device: &str,
    address: Address,
) -> Result<Option<u32>, Failure> {
    if controller.transport() == Transport::GenericNetlink {
        eprintln!("{device}: the kernel's NC-SI stack enables notifications itself");
        return Ok(None);
    }
    let reply = ask(controller, device, address, &Command::GetParameters)?;
    let Answer::Parameters(parameters) = &reply.answer else {
        return Err(Failure::missing(refusal(device, &reply)));
    };
    let reply = ask(controller, device, address, &Command::GetCapabilities)?;
    let Answer::Capabilities(capabilities) = &reply.answer else {
        return Err(Failure::missing(refusal(device, &reply)));
    };
    let control = capabilities.notifications & STANDARD;
    ask(controller, device, address, &Command::AenEnable { management: 0, control })?;
    Ok(Some(parameters.notifications))
}

fn follow(
    controller: &mut Controller,
    notifications: &mut Notifications,
    args: &NcsiArgs,
    address: Address,
    source: Source<'_>,
    global: Global,
) -> Ended {
    let mut before: Option<(Instant, PassThroughStatistics)> = None;
    let mut left = args.count.map(|count| count + 1);
    while left != Some(0) {
        let question = Command::GetPassThroughStatistics;
        let reply = ask(controller, source.device, address, &question)?;
        let Answer::PassThroughStatistics(now) = reply.answer else {
            return Err(Failure::missing(refusal(source.device, &reply)));
        };
        let at = Instant::now();
        if let Some((then, earlier)) = before {
            let rates = Rates::between(&earlier, &now, (at - then).as_secs_f64());
            match global.json {
                true => println!("{}", rates.json(source)),
                false => println!("{}", rates.line()),
            }
        }
        before = Some((at, now));
        left = left.map(|left| left - 1);
        // After the last reading nothing is awaited.
        while left != Some(0) && at.elapsed() < EVERY {
            if interrupted() {
                return Ok(Exit::Interrupted);
            }
            let Some(one) = notifications.next(PATIENCE.min(EVERY - at.elapsed())) else {
                continue;
            };
            let (line, json) = notified(source, &one);
            match global.json {
                true => println!("{json}"),
                false => println!("{line}"),
            }
        }
    }
    Ok(Exit::Done)
}
