//! `linerate to iperf3://HOST` and `to stamp://HOST`: the other end is an iperf3 server, or a
//! reflector of STAMP.

use linerate_answers::foreign as iperf3_answers;
use linerate_answers::stamp::{self as stamp_answers, StampLine, StampLines};
use linerate_campaign::drafts;
use linerate_campaign::foreign::{self, ForeignAsked, iperf3_server};
use linerate_campaign::iperf3_users::{credentials, padding};
use linerate_campaign::path::PathQuestion;
use linerate_campaign::stamp::{self, StampAsked, reflector};
use linerate_iperf3::drive::{Line, drive};
use linerate_iperf3::wire::Protocol;
use linerate_model::Nanos;
use linerate_model::plan::Draft;
use linerate_stamp::send::send;
use linerate_sys::signal;

use super::ToArgs;
use crate::args::{Global, refuse_given};
use crate::exit::{Exit, Failure, Outcome};
use crate::output;

/// Measures with such another end, with a line each second, then prints the result. Returns `None`
/// if the host is an agent.
pub(super) fn run(
    args: &ToArgs,
    question: &PathQuestion,
    draft: &Draft,
    global: Global,
) -> Option<Outcome> {
    if args.auth_key.is_some() && reflector(&args.host).is_none() {
        let message = "to: --auth-key is an option of stamp://HOST";
        return Some(Err(Failure::wrong(message)));
    }
    let of_iperf3 = iperf3_server(&args.host);
    if args.username.is_some() && of_iperf3.is_none() {
        let message = "to: --username is an option of iperf3://HOST";
        return Some(Err(Failure::wrong(message)));
    }
    let outcome = of_iperf3.map(|server| to_server(args, server, (question, draft), global));
    outcome.or_else(|| {
        let host = reflector(&args.host)?;
        Some(to_reflector(args, host, (question, draft), global))
    })
}

fn to_server(
    args: &ToArgs,
    server: &str,
    (question, draft): (&PathQuestion, &Draft),
    global: Global,
) -> Outcome {
    let mode = question.mode.name;
    if !["tcp", "udp"].contains(&mode) {
        let message = format!("to iperf3://: an iperf3 server has tcp and udp, not {mode}");
        return Err(Failure::wrong(message));
    }
    args.has_only_options_without_agent("iperf3")?;
    let user = args.username.as_deref().zip(args.rsa_public_key_path.as_deref());
    let credentials = user
        .map(|(user, key)| credentials(user, key, padding(args.use_pkcs1_padding)))
        .transpose()?;
    let asked = foreign::measurement(&ForeignAsked {
        host: server,
        port: args.port,
        family: args.family(),
        local: args.bind,
        draft,
        is_udp: question.is_udp(),
        duration: question.duration()?,
        omit: args.omit,
        interval: args.interval,
        patience: args.patience,
        credentials: credentials.as_ref(),
    })?;
    signal::note_interrupts().map_err(Failure::missing)?;
    let is_udp = asked.parameters.protocol == Protocol::Udp;
    let shows = !global.quiet && !global.json;
    let title = args.title.as_deref().map(|title| format!("{title}:  ")).unwrap_or_default();
    let heading = iperf3_answers::heading(is_udp, asked.parameters.bidirectional);
    let mut lines = Vec::new();
    let on_line = &mut |line: &Line| {
        output::event("interval", || iperf3_answers::line_json(line));
        // Below a server that does not answer there is no table.
        if shows && lines.is_empty() {
            print!("{title}{heading}");
        }
        if shows {
            print!("{title}{}", iperf3_answers::line(line, is_udp));
        }
        lines.push(line.clone());
    };
    let outcome = drive(&asked, on_line, &signal::interrupted)
        .map_err(|error| foreign::incomplete(server, &error))?;
    if global.json {
        let whole = iperf3_answers::document(server, &asked.parameters, &outcome, &lines);
        output::document("end", whole);
    } else {
        print!("\n{}", iperf3_answers::result(asked.parameters.protocol, &outcome));
    }
    Ok(Exit::Done)
}

fn to_reflector(
    args: &ToArgs,
    host: &str,
    (question, draft): (&PathQuestion, &Draft),
    global: Global,
) -> Outcome {
    let not_of_stamp = [
        ("-R", args.reverse),
        ("--bidir", args.bidir),
        ("-O", args.omit > Nanos(0)),
        ("-T", args.title.is_some()),
    ];
    let why = |option: &str| format!("to stamp://: {option} does not apply to STAMP");
    refuse_given(&not_of_stamp, why)?;
    args.has_only_options_without_agent("stamp")?;
    let is_rate_given = drafts::given_value(&question.given, "bitrate").is_some();
    let key = args.auth_key.as_deref().map(stamp::key).transpose()?;
    let options = stamp::session(&StampAsked {
        host,
        port: args.port,
        family: args.family(),
        local: args.bind,
        params: &draft.sweeps[0].jobs[0].params,
        rate: drafts::rate(draft).filter(|_| is_rate_given),
        duration: question.planned()?,
        patience: args.patience,
        is_sealed: key.is_some(),
    })?;
    signal::note_interrupts().map_err(Failure::missing)?;
    let shows = !global.quiet && !global.json;
    if shows {
        println!("{}", stamp_answers::subject(&options));
    }
    let shows = shows && args.interval > Nanos(0);
    if shows {
        print!("{}", stamp_answers::heading());
    }
    let mut lines = StampLines::new(&options, question);
    let sent = send(
        &options,
        key.as_ref(),
        &mut |session| print(lines.advance(session, false), shows),
        &signal::interrupted,
    );
    let outcome = sent.map_err(Failure::missing)?;
    print(lines.advance(&outcome.session, true), shows);
    if global.json {
        output::document("end", stamp_answers::document(host, &outcome, lines.all()));
    } else {
        print!("\n{}", stamp_answers::result(&outcome));
    }
    let to = (options.to, key.is_some());
    stamp::complete(host, to, outcome.is_cut, outcome.session.n_replied())?;
    Ok(Exit::Done)
}

/// Prints lines that are complete now.
fn print(lines: &[StampLine], shows: bool) {
    for line in lines {
        output::event("interval", || line.json());
        if shows {
            print!("{}", line.text());
        }
    }
}

impl ToArgs {
    /// Refuses options that need an agent at the other end, in the words of `scheme`.
    fn has_only_options_without_agent(&self, scheme: &str) -> Result<(), Failure> {
        let given = [
            ("--token", self.token.is_some()),
            ("--reach", self.reach.is_some()),
            ("--push", self.push.is_some()),
            ("--wait", self.wait.is_asked()),
            ("--bind-dev", self.bind_dev.is_some()),
            ("-A", self.affinity.is_some()),
            ("--ledger", self.ledger.is_some()),
            ("--format", !self.saved.formats.format.is_empty()),
            ("-f", self.unit.is_some()),
        ];
        refuse_given(&given, |option| {
            format!(
                "to {scheme}://: {option} needs an agent at the other end: run `linerate agent` \
                there"
            )
        })
    }
}
