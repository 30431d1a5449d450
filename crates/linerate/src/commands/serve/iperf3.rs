//! `linerate serve iperf3`: a server for iperf3 clients.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use linerate_answers::foreign as answers;
use linerate_campaign::drafts;
use linerate_iperf3::serve::{ServeOptions, Served, serve};
use linerate_iperf3::session::Limits;
use linerate_iperf3::wire::PORT;
use linerate_sys::signal;
use serde_json::Value;

use super::ServeArgs;
use crate::args::Global;
use crate::exit::{Exit, Failure, Outcome};

/// Refuses the options of iperf3 for a server of files.
pub(super) fn refuse_options(args: &ServeArgs) -> Result<(), Failure> {
    let given = [
        ("-1", args.one_off),
        ("--allow", !args.allow.is_empty()),
        ("--per-client", args.per_client.is_some()),
        ("--longest", args.longest.is_some()),
        ("--most-rate", args.most_rate.is_some()),
    ];
    let protocol = args.protocol.name();
    match given.into_iter().find(|(_, is_given)| *is_given) {
        Some((option, _)) => {
            Err(Failure::wrong(format!("serve {protocol}: {option} is an option of iperf3")))
        }
        None => Ok(()),
    }
}

/// Returns the chosen port, or the usual one, and refuses the options of servers of files.
pub(super) fn port(args: &ServeArgs, usual: u16) -> Result<u16, Failure> {
    let protocol = args.protocol.name();
    let given = args.settings.given("serve", protocol)?;
    let other = given.iter().map(|(setting, _)| setting.typed()).find(|typed| typed != "-p");
    let of_files = [
        ("--root", args.root.is_some()),
        ("--upload", args.upload),
        ("--ledger", args.ledger.is_some()),
        ("--format", !args.saved.formats.format.is_empty()),
    ];
    let of_files = of_files.into_iter().find(|(_, is_given)| *is_given);
    if let Some(option) = other.or(of_files.map(|(option, _)| option.to_owned())) {
        let message = format!("serve {protocol}: {option} is an option of http and ftp");
        return Err(Failure::wrong(message));
    }
    let port = drafts::given_value(&given, "port").and_then(Value::as_u64);
    Ok(port.and_then(|port| u16::try_from(port).ok()).unwrap_or(usual))
}

/// Prints an event, as a line or as JSON.
fn print(event: &Served, global: Global) {
    match (event, global.json) {
        (Served::Ended(record), true) => println!("{}", answers::test_json(record)),
        (_, true) => {}
        (_, false) => {
            let is_announced = !global.quiet || matches!(event, Served::Ended(_));
            if let Some(line) = answers::served(event).filter(|_| is_announced) {
                println!("{line}");
            }
        }
    }
}

/// Serves with a line for each test.
pub(super) fn run(args: &ServeArgs, global: Global) -> Outcome {
    let mut limits = Limits::default();
    if let Some(longest) = args.longest {
        limits.load = Duration::from_secs_f64(longest);
    }
    limits.rate = args.most_rate.map(|rate| rate.0 as u64);
    let allowed = args.allow.clone();
    let usual = ServeOptions::default();
    let options = ServeOptions {
        address: args.bind,
        port: port(args, PORT)?,
        limits,
        per_client: args.per_client.map_or(usual.per_client, usize::from),
        permits: Arc::new(move |client| {
            allowed.is_empty() || allowed.iter().any(|network| network.contains(client))
        }),
        ..usual
    };
    signal::note_interrupts().map_err(Failure::missing)?;
    let is_done = Arc::new(AtomicBool::new(false));
    let (done, one_off) = (Arc::clone(&is_done), args.one_off);
    let begun = Instant::now();
    let longest = args.seconds.map(Duration::from_secs_f64);
    let is_over = move || longest.is_some_and(|longest| begun.elapsed() >= longest);
    let is_stopped = move || is_done.load(Ordering::Relaxed) || signal::interrupted() || is_over();
    let served = serve(
        options,
        move |event| {
            print(&event, global);
            if one_off && matches!(event, Served::Ended(_)) {
                done.store(true, Ordering::Relaxed);
            }
        },
        is_stopped,
    );
    served.map_err(Failure::missing)?;
    Ok(Exit::Done)
}
