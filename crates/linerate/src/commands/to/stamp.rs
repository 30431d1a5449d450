//! `linerate to stamp://HOST`: the other end is a reflector of STAMP.

use linerate_answers::stamp::{self as answers, StampLine};
use linerate_campaign::drafts::{self, Given};
use linerate_campaign::stamp::{self, StampAsked};
use linerate_campaign::testbeds::Family;
use linerate_model::plan::Draft;
use linerate_model::{Nanos, PacketRate};
use linerate_stamp::send::send;
use linerate_stamp::session::Session;
use linerate_sys::signal;

use super::ToArgs;
use crate::args::Global;
use crate::exit::{Exit, Failure, Outcome};
use crate::output;

/// Measures with a line each second, then prints the result.
pub(super) fn run(
    args: &ToArgs,
    (host, family): (&str, Family),
    (draft, given): (&Draft, Given<'_>),
    global: Global,
) -> Outcome {
    args.has_only_options_of_stamp()?;
    let is_rate_given = drafts::given_value(given, "bitrate").is_some();
    let options = stamp::session(&StampAsked {
        host,
        port: args.port,
        family,
        local: args.bind,
        params: &draft.sweeps[0].jobs[0].params,
        rate: drafts::rate(draft).filter(|_| is_rate_given),
        duration: args.duration(given)?,
        patience: args.patience,
    })?;
    signal::note_interrupts().map_err(Failure::missing)?;
    let shows = !global.quiet && !global.json;
    let gap = options.gap.as_secs_f64();
    let span = args.span(Nanos::from_secs_f64(gap * f64::from(options.n_packets)));
    let per_line = ((span.as_secs_f64() / gap).round() as usize).max(1);
    if shows {
        println!(
            "STAMP to {}: {} packets of {} B, {}",
            options.to,
            options.n_packets,
            options.bytes,
            PacketRate(1.0 / gap)
        );
    }
    let shows = shows && args.interval > Nanos(0);
    if shows {
        print!("{}", answers::heading());
    }
    let mut lines = Lines { per_line, gap, shows, n_done: 0, lines: Vec::new() };
    let sent = send(&options, &mut |session| lines.advance(session, false), &signal::interrupted);
    let outcome = sent.map_err(Failure::missing)?;
    lines.advance(&outcome.session, true);
    if global.json {
        output::document("end", answers::document(host, &outcome, &lines.lines));
    } else {
        print!("\n{}", answers::result(&outcome));
    }
    if outcome.is_cut {
        let message = format!("to stamp://{host}: interrupted; the lines are complete");
        return Err(Failure::new(Exit::Interrupted, message));
    }
    if outcome.session.n_replied() == 0 {
        return Err(Failure::missing(format!(
            "to stamp://{host}: no reply. Does a reflector listen at {}, and does a firewall let \
                UDP through? Start one with `linerate serve stamp`",
            options.to
        )));
    }
    Ok(Exit::Done)
}

/// Lines of a session that runs.
struct Lines {
    /// Packets of a line.
    per_line: usize,
    /// Time between two packets, s.
    gap: f64,
    /// False if nobody reads lines.
    shows: bool,
    /// Packets in lines so far.
    n_done: usize,
    lines: Vec<StampLine>,
}

impl Lines {
    /// Prints the lines that are complete; with `is_over` all that are left. Replies to the last
    /// packets of a line may be on their way, so it waits for half of the next one.
    fn advance(&mut self, session: &Session, is_over: bool) {
        let n_sent = session.n_sent() as usize;
        while self.n_done < n_sent {
            let end = self.n_done + self.per_line;
            if !is_over && n_sent < end + self.per_line.div_ceil(2) {
                break;
            }
            let last = end.min(n_sent);
            let times = [self.n_done, last].map(|number| number as f64 * self.gap);
            let line = StampLine::of(session, [self.n_done, last], times);
            output::event("interval", || line.json());
            if self.shows {
                print!("{}", line.text());
            }
            self.n_done = last;
            self.lines.push(line);
        }
    }
}

impl ToArgs {
    /// Refuses options that a test packet cannot have.
    fn has_only_options_of_stamp(&self) -> Result<(), Failure> {
        let given = [
            ("-R", self.reverse),
            ("--bidir", self.bidir),
            ("-O", self.omit > Nanos(0)),
            ("-T", self.title.is_some()),
        ];
        if let Some((option, _)) = given.into_iter().find(|(_, is_given)| *is_given) {
            return Err(Failure::wrong(format!("to stamp://: {option} does not apply to STAMP")));
        }
        self.has_only_options_without_agent("stamp")
    }
}
