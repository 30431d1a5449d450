//! Progress for a person: a bar with an estimate on a terminal, a line a trial elsewhere.

use std::collections::BTreeSet;
use std::io::IsTerminal;
use std::sync::Mutex;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use linerate_answers::plan::{coordinate, span};
use linerate_answers::progress::{learnt, looked};
use linerate_control::Progress;
use linerate_model::{AGENT_PORT, Incident, IncidentKind, Lines, Nanos, TrialOutcome, printable};

use crate::{Console, View};

impl Console {
    /// Prints what `event` reports besides the measurement, if anything, unless only results are
    /// wanted.
    pub fn notice(&self, event: &Progress<'_>) {
        if !self.is_quiet
            && let Some(line) = notice(event, self.is_verbose)
        {
            (self.say)(&line);
        }
    }
}

/// Returns what `event` reports besides the measurement.
fn notice(event: &Progress<'_>, is_verbose: bool) -> Option<String> {
    match event {
        Progress::Incident { incident, .. } if is_verbose || is_new(incident, &REPORTED) => {
            Some(incident.message.clone())
        }
        Progress::OwnPorts { datagrams, error } => Some(own_ports(*datagrams, *error)),
        _ => None,
    }
}

/// Returns the notice that data has ports of its own here, because of `error`.
fn own_ports(datagrams: bool, error: &dyn std::error::Error) -> String {
    let what = if datagrams { "datagrams" } else { "data" };
    format!(
        "cannot open port {AGENT_PORT} for {what}: {error}. Jobs get free ports here, which a \
            firewall must let through"
    )
}

/// Hosts whose uncertain clock this command has reported: through a slow ssh it would do so twice
/// a trial.
static REPORTED: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

/// Returns true unless `incident` is an uncertain clock of a host that is in `reported`.
fn is_new(incident: &Incident, reported: &Mutex<BTreeSet<String>>) -> bool {
    let first = || reported.lock().is_ok_and(|mut hosts| hosts.insert(incident.host.clone()));
    incident.kind != IncidentKind::ClockUncertain || first()
}

/// A campaign that takes longer says so before its first trial.
const WORTH_SAYING: Nanos = Nanos::from_secs(60);

/// Display of progress on standard error.
pub struct Display {
    bar: Option<ProgressBar>,
    lines: bool,
    /// True if a live view shows what the bar would.
    has_view: bool,
    console: Console,
    /// True from the first trial on.
    is_begun: bool,
}

impl Display {
    /// Returns a display that suits the console, beside a `view`.
    #[must_use]
    pub fn new(view: &View) -> Self {
        let (console, has_view) = (view.console, view.is_shown());
        let is_terminal = std::io::stderr().is_terminal();
        let bar = (is_terminal && !console.is_quiet && !has_view).then(|| {
            let style = ProgressStyle::with_template("{bar:24} {pos}/{len}  {msg}")
                .expect("the template is valid");
            ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr()).with_style(style)
        });
        let lines = !is_terminal && !console.is_quiet;
        Self { lines, has_view, console, is_begun: false, bar }
    }

    /// Shows one event.
    pub fn show(&mut self, event: &Progress<'_>) {
        match event {
            Progress::HostJoined { record } if self.console.is_verbose => {
                self.say(&format!(
                    "{} joined; its clock is known to {} us",
                    record.host,
                    record.clock_uncertainty_ns as f64 / 1e3
                ));
            }
            Progress::TrialStarted { trial, number, of, eta } => {
                if !std::mem::replace(&mut self.is_begun, true) && *eta > WORTH_SAYING {
                    let left = of + 1 - number;
                    self.say(&format!("{left} trials, about {}", span(eta.as_secs_f64())));
                }
                if let Some(bar) = &self.bar {
                    bar.set_length(*of as u64);
                    bar.set_position(*number as u64 - 1);
                    let message = format!(
                        "{} left  {}: {}",
                        span(eta.as_secs_f64()),
                        trial.sweep,
                        coordinate(trial)
                    );
                    // The bar is drawn past the printing that escapes control characters.
                    bar.set_message(printable(&message, Lines::One).into_owned());
                }
            }
            Progress::TrialEnded { trial, outcome, number, of, eta } => {
                if let Some(bar) = &self.bar {
                    bar.set_position(*number as u64);
                }
                let word = match outcome {
                    TrialOutcome::Completed => "done",
                    TrialOutcome::Failed => "FAILED",
                    TrialOutcome::Interrupted => "interrupted",
                };
                if self.lines {
                    let left = span(eta.as_secs_f64());
                    (self.console.say)(&format!(
                        "{number}/{of} {word}  {}: {} #{}  ({left} left)",
                        trial.sweep,
                        coordinate(trial),
                        trial.repeat + 1
                    ));
                }
            }
            Progress::Looked { trial, look, until, more } => {
                self.say(&looked(trial, look, until, *more))
            }
            Progress::Searched { trial, result, found } => self.say(&learnt(trial, result, found)),
            Progress::Incident { incident, .. }
                if self.console.is_verbose || is_new(incident, &REPORTED) =>
            {
                let at = if incident.host.is_empty() {
                    String::new()
                } else {
                    format!("{}: ", incident.host)
                };
                self.say(&format!("{at}{}", incident.message));
            }
            Progress::OwnPorts { datagrams, error } => {
                self.say(&own_ports(*datagrams, *error));
            }
            Progress::Reconnecting { host, attempt } => {
                self.say(&format!("{host}: reconnecting, attempt {attempt}"))
            }
            _ => {}
        }
    }

    fn say(&self, line: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| (self.console.say)(line)),
            None if self.lines || self.has_view => (self.console.say)(line),
            None => {}
        }
    }
}

impl Drop for Display {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_uncertain_clock_is_reported_once_for_each_host_and_other_incidents_always() {
        let reported = Mutex::default();
        let of =
            |host: &str, kind| Incident { host: host.to_owned(), kind, message: String::new() };
        let (uncertain, stepped) = (IncidentKind::ClockUncertain, IncidentKind::Clock);
        let incidents = [
            of("a", uncertain),
            of("a", uncertain),
            of("b", uncertain),
            of("a", stepped),
            of("a", stepped),
        ];
        let is_new = incidents.map(|incident| is_new(&incident, &reported));
        assert_eq!(is_new, [true, false, true, true, true]);
    }
}
