//! `linerate serve stamp`: a reflector of test packets.

use std::cell::Cell;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use linerate_answers::stamp as answers;
use linerate_stamp::reflect::{ReflectEvent, reflect};
use linerate_stamp::wire::PORT;
use linerate_sys::signal;

use super::{ServeArgs, iperf3};
use crate::args::Global;
use crate::exit::{Exit, Failure, Outcome};

fn print(event: &ReflectEvent, global: Global) {
    match event {
        ReflectEvent::Ended(session) if global.json => {
            println!("{}", answers::reflected_json(session));
        }
        ReflectEvent::Ended(session) => println!("{}", answers::reflected(session)),
        ReflectEvent::Listening(at) if !global.json && !global.quiet => println!(
            "reflecting STAMP and TWAMP Light packets at {at}; for example: linerate to \
                stamp://THIS-HOST{}",
            if at.port() == PORT { String::new() } else { format!(":{}", at.port()) }
        ),
        ReflectEvent::Listening(_) => {}
    }
}

/// Reflects with a line for each session that has ended.
pub(super) fn run(args: &ServeArgs, global: Global) -> Outcome {
    let of_iperf3 = [
        ("--per-client", args.per_client.is_some()),
        ("--longest", args.longest.is_some()),
        ("--most-rate", args.most_rate.is_some()),
    ];
    if let Some((option, _)) = of_iperf3.into_iter().find(|(_, is_given)| *is_given) {
        return Err(Failure::wrong(format!("serve stamp: {option} is an option of iperf3")));
    }
    let address = SocketAddr::new(args.address(), iperf3::port(args, PORT)?);
    signal::note_interrupts().map_err(Failure::missing)?;
    let is_permitted = |sender: IpAddr| {
        args.allow.is_empty() || args.allow.iter().any(|network| network.contains(sender))
    };
    let begun = Instant::now();
    let longest = args.seconds.map(Duration::from_secs_f64);
    let is_done = Cell::new(false);
    let is_over = || longest.is_some_and(|longest| begun.elapsed() >= longest);
    let is_stopped = || is_done.get() || is_over() || signal::interrupted();
    let on_event = &mut |event| {
        is_done.set(args.one_off && matches!(event, ReflectEvent::Ended(_)));
        print(&event, global);
    };
    reflect(address, &is_permitted, on_event, &is_stopped).map_err(|error| {
        let mut message = error.to_string();
        if error.cause.kind() == std::io::ErrorKind::PermissionDenied {
            message += ". Ports below 1024 need root: choose another one with -p";
        }
        Failure::missing(message)
    })?;
    Ok(Exit::Done)
}
