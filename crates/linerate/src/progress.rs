//! Progress for a person: a bar with an estimate on a terminal, a line a trial elsewhere.

use std::io::IsTerminal;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use linerate_analysis::search::Bounds;
use linerate_analysis::{Look, SearchTrial};
use linerate_answers::plan::{coordinate, span};
use linerate_campaign::stages::Watcher;
use linerate_control::Progress;
use linerate_model::{Lines, TrialOutcome, TrialSpec, Until, Validity, printable};
use linerate_report::sentences;

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
        Self { lines: !terminal && !global.quiet, verbose: global.verbose, bar }
    }

    /// Shows one event.
    pub(crate) fn show(&mut self, event: &Progress<'_>) {
        match event {
            Progress::HostJoined { host, clock_uncertainty_ns } if self.verbose => {
                self.say(&format!(
                    "{host} joined; its clock is known to {} us",
                    *clock_uncertainty_ns as f64 / 1e3
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

/// Returns the state of a point that is repeated until known, in one line.
fn looked(trial: &TrialSpec, look: &Look, until: &Until, more: usize) -> String {
    let percent = |share: f64| format!("±{:.1} %", share * 100.0);
    let seen = look.half_width.map_or_else(|| "no interval".to_owned(), percent);
    let then = match more {
        0 if look.is_enough => "precise enough".to_owned(),
        0 if look.is_unstable => {
            let variation = look.variation.unwrap_or_default() * 100.0;
            format!("noisy: runs scatter by {variation:.0} %, and more do not help")
        }
        0 => "noisy: the most runs are done".to_owned(),
        more => format!("{more} more runs"),
    };
    format!(
        "{}: {seen} of {} after {} runs: {then}",
        coordinate(trial),
        percent(until.within.0),
        look.runs
    )
}

/// Returns the result of a search's trial, in one line.
fn learnt(trial: &TrialSpec, result: &SearchTrial, found: &[(String, Bounds)]) -> String {
    let Some(searched) = &trial.search else { return String::new() };
    let rate = |load: Option<f64>| {
        load.map_or_else(|| "-".to_owned(), |load| searched.search.unit.told(load))
    };
    let standing = match result.validity {
        Validity::Valid => String::new(),
        Validity::Suspect => " (tainted)".to_owned(),
        Validity::Invalid | Validity::Impossible => {
            let why: Vec<String> = result.why.iter().map(sentences::reason).collect();
            format!(" (INVALID: {})", why.join("; "))
        }
    };
    let bounds: Vec<String> = found
        .iter()
        .map(|(goal, found)| format!("{goal} {} to {}", rate(found.lower), rate(found.upper)))
        .collect();
    format!(
        "  {} {} for {}: {} ({:.3} %){standing}  {}",
        result.purpose,
        searched.search.unit.told(result.load),
        result.duration,
        missing(result),
        result.loss_ratio * 100.0,
        bounds.join(", ")
    )
}

/// Returns the losses of a trial, and the frames not sent: these are not lost, though a search
/// counts them like a loss beyond the edges of the load.
fn missing(result: &SearchTrial) -> String {
    let lost = format!("{} of {} lost", result.sent.saturating_sub(result.received), result.sent);
    match result.intended.saturating_sub(result.sent) {
        0 => lost,
        unsent => format!("{lost}, {unsent} not sent"),
    }
}

#[cfg(test)]
mod tests {
    use linerate_model::{Nanos, Purpose, TrialId};

    use super::*;

    #[test]
    fn a_frame_that_was_not_sent_is_not_counted_as_lost() {
        let of = |intended, sent, received| {
            missing(&SearchTrial {
                id: TrialId(0),
                number: 0,
                purpose: Purpose::Load,
                load: 1e3,
                duration: Nanos::from_secs(1),
                intended,
                sent,
                received,
                duplicates: 0,
                reordered: 0,
                loss_ratio: 0.0,
                generator_limited: false,
                doubtful: false,
                departed: None,
                located: Vec::new(),
                recovery_s: None,
                cleared_s: None,
                latency: None,
                validity: Validity::Valid,
                why: Vec::new(),
            })
        };
        assert_eq!(of(1_000, 1_000, 990), "10 of 1000 lost");
        assert_eq!(of(1_000, 999, 999), "0 of 999 lost, 1 not sent");
    }
}
