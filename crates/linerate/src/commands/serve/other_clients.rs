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

use super::{Protocol, ServeArgs};
use crate::args::Global;
use crate::exit::{Exit, Failure, Outcome};

/// Refuses the first option that the server has not, other than those of the load.
pub(super) fn refuse_options(args: &ServeArgs) -> Result<(), Failure> {
    let files = &[Protocol::Http, Protocol::Ftp][..];
    let clients = &[Protocol::Iperf3, Protocol::Netperf, Protocol::Stamp][..];
    let tests = &clients[..2];
    let options = [
        ("--root", args.root.is_some(), files),
        ("--upload", args.upload, files),
        ("--ledger", args.ledger.is_some(), files),
        ("--format", !args.saved.formats.format.is_empty(), files),
        ("-1", args.one_off, clients),
        ("--allow", !args.allow.is_empty(), clients),
        ("--per-client", args.per_client.is_some(), tests),
        ("--longest", args.longest.is_some(), tests),
        ("--most-rate", args.most_rate.is_some(), &clients[..1]),
        ("--rsa-private-key-path", args.rsa_private_key_path.is_some(), &clients[..1]),
        ("--auth-key", args.auth_key.is_some(), &clients[2..]),
    ];
    let other = options.iter().find(|(_, given, of)| *given && !of.contains(&args.protocol));
    let Some((option, _, of)) = other else { return Ok(()) };
    let (protocol, of) = (args.protocol.name(), of.iter().map(|one| one.name()));
    let of = of.collect::<Vec<_>>().join(", ");
    Err(Failure::wrong(format!("serve {protocol}: {option} is an option of {of}")))
}

/// Returns what `args` ask of a server whose usual port is `usual`. Refuses settings of loads.
fn question(args: &ServeArgs, usual: u16) -> Result<ServerQuestion, Failure> {
    let protocol = args.protocol.name();
    let given = args.settings.given("serve", protocol)?;
    let why = |option: &str| format!("serve {protocol}: {option} is an option of http and ftp");
    let other = given.iter().map(|(setting, _)| setting.typed()).find(|typed| typed != "-p");
    other.map_or(Ok(()), |option| Err(Failure::wrong(why(&option))))?;
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
