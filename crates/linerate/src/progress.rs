//! Progress for a person: a bar with an estimate on a terminal, a line a trial elsewhere.

use std::collections::BTreeSet;
use std::io::IsTerminal;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use linerate_answers::plan::{coordinate, span};
use linerate_answers::progress::{learnt, looked};
use linerate_campaign::stages::Watcher;
use linerate_control::Progress;
use linerate_model::{Incident, IncidentKind, Lines, TrialOutcome, printable};

use crate::args::Global;

/// Returns a display for one stage of a ladder.
pub(crate) fn watcher(global: Global) -> Watcher<'static> {
    let mut display = Display::new(global);
    Box::new(move |event| display.show(event))
}

/// Prints the incident that `event` reports, if it is one, unless only results are wanted.
pub(crate) fn incident(event: &Progress<'_>, global: Global) {
    if let Progress::Incident { incident, .. } = event
        && !global.quiet
    {
        eprintln!("{}", incident.message);
    }
}

/// Display of progress on standard error.
pub(crate) struct Display {
    bar: Option<ProgressBar>,
    lines: bool,
    verbose: bool,
    /// Hosts of whose clock something was said: through a slow ssh it would be said twice a trial.
    clocks: BTreeSet<String>,
}

impl Display {
    /// Returns a display that suits the options and the terminal.
    pub(crate) fn new(global: Global) -> Self {
        let terminal = std::io::stderr().is_terminal();
        let bar = (terminal && !global.quiet).then(|| {
            let style = ProgressStyle::with_template("{bar:24} {pos}/{len}  {msg}")
                .expect("the template is valid");
            ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr()).with_style(style)
        });
        Self {
            lines: !terminal && !global.quiet,
            verbose: global.verbose,
            clocks: BTreeSet::new(),
            bar,
        }
    }

    /// Shows one event.
    pub(crate) fn show(&mut self, event: &Progress<'_>) {
        match event {
            Progress::HostJoined { record } if self.verbose => {
                self.say(&format!(
                    "{} joined; its clock is known to {} us",
                    record.host,
                    record.clock_uncertainty_ns as f64 / 1e3
                ));
            }
            Progress::TrialStarted { trial, number, of, eta } => {
                if let Some(bar) = &self.bar {
                    bar.set_length(*of as u64);
                    bar.set_position(*number as u64 - 1);
                    let message = format!(
                        "{} left  {}: {}",
                        span(eta.as_secs_f64()),
                        trial.sweep,
                        coordinate(trial)
                    );
                    // The bar is drawn past this crate's macros.
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
                    eprintln!(
                        "{number}/{of} {word}  {}: {} #{}  ({left} left)",
                        trial.sweep,
                        coordinate(trial),
                        trial.repeat + 1
                    );
                }
            }
            Progress::Looked { trial, look, until, more } => {
                self.say(&looked(trial, look, until, *more))
            }
            Progress::Searched { trial, result, found } => self.say(&learnt(trial, result, found)),
            Progress::Incident { incident, .. } if self.is_said(incident) => {}
            Progress::Incident { incident, .. } => {
                let at = if incident.host.is_empty() {
                    String::new()
                } else {
                    format!("{}: ", incident.host)
                };
                self.say(&format!("{at}{}", incident.message));
            }
            Progress::Reconnecting { host, attempt } => {
                self.say(&format!("{host}: reconnecting, attempt {attempt}"))
            }
            _ => {}
        }
    }

    /// Returns true if `incident` is about a clock of which something was said before.
    fn is_said(&mut self, incident: &Incident) -> bool {
        incident.kind == IncidentKind::Clock
            && !self.clocks.insert(incident.host.clone())
            && !self.verbose
    }

    fn say(&self, line: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| eprintln!("{line}")),
            None if self.lines => eprintln!("{line}"),
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
    fn an_uncertain_clock_is_told_once_for_each_host_and_other_incidents_always() {
        let display =
            |verbose| Display { bar: None, lines: true, verbose, clocks: BTreeSet::new() };
        let of =
            |host: &str, kind| Incident { host: host.to_owned(), kind, message: String::new() };
        let said = |verbose| {
            let mut display = display(verbose);
            let (clock, lost) = (IncidentKind::Clock, IncidentKind::AgentLost);
            [of("a", clock), of("a", clock), of("b", clock), of("a", lost), of("a", lost)]
                .map(|incident| display.is_said(&incident))
        };
        assert_eq!(said(false), [false, true, false, false, false]);
        assert_eq!(said(true), [false; 5]);
    }
}
