//! `linerate to iperf3://HOST`: the other end is an iperf3 server.

use linerate_answers::foreign as answers;
use linerate_campaign::drafts::{self, Given};
use linerate_campaign::foreign::{self, ForeignAsked};
use linerate_campaign::testbeds::Family;
use linerate_iperf3::drive::{DriveError, Line, drive};
use linerate_iperf3::wire::Protocol;
use linerate_model::plan::Draft;
use linerate_sys::signal;

use super::ToArgs;
use crate::args::Global;
use crate::exit::{Exit, Failure, Outcome};
use crate::output;

/// Measures with a line each second, then prints the result.
pub(super) fn run(
    args: &ToArgs,
    (server, family): (&str, Family),
    (draft, given): (&Draft, Given<'_>),
    global: Global,
) -> Outcome {
    args.has_only_options_of_iperf3()?;
    let ended_by = drafts::ended_by(given);
    let asked = foreign::measurement(&ForeignAsked {
        host: server,
        port: args.port,
        family,
        local: args.bind,
        draft,
        is_udp: args.mode().name == "udp",
        duration: ended_by.is_none().then_some(args.duration(given)?),
        omit: args.omit,
        interval: args.interval,
        patience: args.patience,
    })?;
    signal::note_interrupts().map_err(Failure::missing)?;
    let is_udp = asked.parameters.protocol == Protocol::Udp;
    let shows = !global.quiet && !global.json;
    let title = args.title.as_deref().map(|title| format!("{title}:  ")).unwrap_or_default();
    let heading = answers::heading(is_udp, asked.parameters.bidirectional);
    let mut lines = Vec::new();
    let on_line = &mut |line: &Line| {
        output::event("interval", || answers::line_json(line));
        // Below a server that does not answer there is no table.
        if shows && lines.is_empty() {
            print!("{title}{heading}");
        }
        if shows {
            print!("{title}{}", answers::line(line, is_udp));
        }
        lines.push(line.clone());
    };
    let outcome = match drive(&asked, on_line, &signal::interrupted) {
        Ok(outcome) => outcome,
        Err(DriveError::Interrupted) => {
            let message = format!("to iperf3://{server}: interrupted; the lines are complete");
            return Err(Failure::new(Exit::Interrupted, message));
        }
        Err(error) => return Err(Failure::missing(error)),
    };
    if global.json {
        let whole = answers::document(server, &asked.parameters, &outcome, &lines);
        output::document("end", whole);
    } else {
        print!("\n{}", answers::result(asked.parameters.protocol, &outcome));
    }
    Ok(Exit::Done)
}

impl ToArgs {
    /// Refuses options that need an agent at the other end, in the words of `scheme`.
    pub(super) fn has_only_options_without_agent(&self, scheme: &str) -> Result<(), Failure> {
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
        match given.into_iter().find(|(_, is_given)| *is_given) {
            Some((option, _)) => Err(Failure::wrong(format!(
                "to {scheme}://: {option} needs an agent at the other end: run `linerate agent` there"
            ))),
            None => Ok(()),
        }
    }

    fn has_only_options_of_iperf3(&self) -> Result<(), Failure> {
        let mode = self.mode().name;
        if !["tcp", "udp"].contains(&mode) {
            let message = format!("to iperf3://: an iperf3 server has tcp and udp, not {mode}");
            return Err(Failure::wrong(message));
        }
        self.has_only_options_without_agent("iperf3")
    }
}
