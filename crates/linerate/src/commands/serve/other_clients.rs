//! `linerate serve iperf3`, `serve netperf` and `serve stamp`: servers for clients of iperf3 and
//! netperf, and a reflector of test packets.

use std::time::Duration;

use linerate_answers::{
    foreign as iperf3_answers, netperf as netperf_answers, stamp as stamp_answers,
};
use linerate_campaign::iperf3_users::{Users, padding};
use linerate_campaign::other_clients::ServerQuestion;
use linerate_campaign::{drafts, stamp};
use linerate_iperf3::serve::Served;
use linerate_netperf::serve::Served as NetperfServed;
use linerate_stamp::reflect::ReflectEvent;
use serde_json::Value;

use super::ServeArgs;
use crate::args::{Global, refuse_given};
use crate::exit::{Exit, Failure, Outcome};

/// Refuses the options of other servers for a server of files.
pub(super) fn refuse_options(args: &ServeArgs) -> Result<(), Failure> {
    let protocol = args.protocol.name();
    let of_any = [("-1", args.one_off), ("--allow", !args.allow.is_empty())];
    refuse_given(&of_any, |option| {
        format!("serve {protocol}: {option} is an option of iperf3, netperf and stamp")
    })?;
    refuse_limits(args)?;
    refuse_iperf3(args)?;
    refuse_key(args)
}

/// Refuses the limits of servers for iperf3 and netperf clients.
fn refuse_limits(args: &ServeArgs) -> Result<(), Failure> {
    let protocol = args.protocol.name();
    let given =
        [("--per-client", args.per_client.is_some()), ("--longest", args.longest.is_some())];
    let why =
        |option: &str| format!("serve {protocol}: {option} is an option of iperf3 and netperf");
    refuse_given(&given, why)
}

/// Refuses the options that only a server for iperf3 clients has.
fn refuse_iperf3(args: &ServeArgs) -> Result<(), Failure> {
    let protocol = args.protocol.name();
    let given = [
        ("--most-rate", args.most_rate.is_some()),
        ("--rsa-private-key-path", args.rsa_private_key_path.is_some()),
    ];
    let why = |option: &str| format!("serve {protocol}: {option} is an option of iperf3");
    refuse_given(&given, why)
}

/// Refuses the key of a reflector.
fn refuse_key(args: &ServeArgs) -> Result<(), Failure> {
    let protocol = args.protocol.name();
    let why = |option: &str| format!("serve {protocol}: {option} is an option of stamp");
    refuse_given(&[("--auth-key", args.auth_key.is_some())], why)
}

/// Returns what `args` ask of a server whose usual port is `usual`. Refuses the options of servers
/// of files.
fn question(args: &ServeArgs, usual: u16) -> Result<ServerQuestion, Failure> {
    let protocol = args.protocol.name();
    let given = args.settings.given("serve", protocol)?;
    let why = |option: &str| format!("serve {protocol}: {option} is an option of http and ftp");
    let other = given.iter().map(|(setting, _)| setting.typed()).find(|typed| typed != "-p");
    other.map_or(Ok(()), |option| Err(Failure::wrong(why(&option))))?;
    let of_files = [
        ("--root", args.root.is_some()),
        ("--upload", args.upload),
        ("--ledger", args.ledger.is_some()),
        ("--format", !args.saved.formats.format.is_empty()),
    ];
    refuse_given(&of_files, why)?;
    let port = drafts::given_value(&given, "port").and_then(Value::as_u64);
    Ok(ServerQuestion {
        address: args.bind,
        port: port.and_then(|port| u16::try_from(port).ok()).unwrap_or(usual),
        duration: args.seconds.map(Duration::from_secs_f64),
        is_one_off: args.one_off,
        allowed: args.allow.clone(),
        per_client: args.per_client,
        longest: args.longest.map(Duration::from_secs_f64),
        most_rate: args.most_rate,
        users: args.rsa_private_key_path.clone().zip(args.authorized_users_path.clone()).map(
            |(key, users)| Users {
                key,
                users,
                skew: Duration::from_secs_f64(args.time_skew_threshold),
                padding: padding(args.use_pkcs1_padding),
            },
        ),
    })
}

/// Serves iperf3 clients with a line for each test.
pub(super) fn serve_iperf3(args: &ServeArgs, global: Global) -> Outcome {
    refuse_key(args)?;
    let question = question(args, linerate_iperf3::wire::PORT)?;
    question.serve_iperf3(move |event| match (event, global.json) {
        (Served::Ended(record), true) => println!("{}", iperf3_answers::test_json(record)),
        (_, true) => {}
        (_, false) => {
            let is_announced = !global.quiet || matches!(event, Served::Ended(_));
            if let Some(line) = iperf3_answers::served(event).filter(|_| is_announced) {
                println!("{line}");
            }
        }
    })?;
    Ok(Exit::Done)
}

/// Serves netperf clients with a line for each test.
pub(super) fn serve_netperf(args: &ServeArgs, global: Global) -> Outcome {
    refuse_key(args)?;
    refuse_iperf3(args)?;
    let question = question(args, linerate_netperf::wire::PORT)?;
    question.serve_netperf(move |event| show_netperf(event, (global.json, global.quiet)))?;
    Ok(Exit::Done)
}

/// Prints an event of a server for netperf clients.
pub(crate) fn show_netperf(event: &NetperfServed, (as_json, is_quiet): (bool, bool)) {
    match event {
        NetperfServed::Ended(record) if as_json => {
            println!("{}", netperf_answers::test_json(record));
        }
        NetperfServed::Ended(_) => println!("{}", netperf_answers::served(event)),
        _ if as_json || is_quiet => {}
        _ => println!("{}", netperf_answers::served(event)),
    }
}

/// Reflects test packets with a line for each session that has ended.
pub(super) fn reflect(args: &ServeArgs, global: Global) -> Outcome {
    refuse_limits(args)?;
    refuse_iperf3(args)?;
    let key = args.auth_key.as_deref().map(stamp::key).transpose()?;
    question(args, linerate_stamp::wire::PORT)?.reflect(key.as_ref(), |event| match event {
        ReflectEvent::Ended(session) if global.json => {
            println!("{}", stamp_answers::reflected_json(session));
        }
        ReflectEvent::Ended(session) => println!("{}", stamp_answers::reflected(session)),
        ReflectEvent::Listening(at) if !global.json && !global.quiet => {
            println!("{}", stamp_answers::listening(*at, key.is_some()));
        }
        ReflectEvent::Listening(_) => {}
    })?;
    Ok(Exit::Done)
}
