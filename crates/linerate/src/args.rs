//! Arguments that several commands share.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};
use linerate_campaign::Failure;
use linerate_campaign::letters;
use linerate_campaign::testbeds::Place;
use linerate_model::Nanos;
use linerate_report::Format;
use linerate_view::Console;

use crate::output::{self, Measuring};

/// Options of every command.
#[derive(Clone, Copy, Debug, Args)]
// Under a heading of their own: clap would mix them with the options of the command.
#[command(next_help_heading = "Options of every command")]
pub(crate) struct Global {
    /// Print one JSON document on standard output and nothing else there
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Print only results and errors
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub(crate) quiet: bool,
    /// Print more progress
    #[arg(short, long, global = true)]
    pub(crate) verbose: bool,
    /// Print lines instead of the live view that a terminal shows during a measurement
    #[arg(long, global = true)]
    pub(crate) plain: bool,
    /// When to use colour
    #[arg(long, global = true, value_enum, default_value_t = Color::Auto)]
    pub(crate) color: Color,
}

impl Global {
    /// Returns what a view of a campaign needs of the command line.
    pub(crate) fn console(self) -> Console {
        let wants_lines = self.plain || self.quiet || self.json || output::is_redirected();
        Console {
            may_draw: !wants_lines,
            is_quiet: self.quiet,
            is_verbose: self.verbose,
            has_color: output::color(),
            say: |line| eprintln!("{line}"),
            hold: || Box::new(Measuring::hold()),
            relay: || Box::new(Measuring::relay()),
        }
    }
}

/// When to use colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Color {
    /// On a terminal, unless NO_COLOR is set.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

impl Color {
    /// Returns whether messages are coloured.
    pub(crate) fn is_wanted(self) -> bool {
        match self {
            Self::Always => true,
            Self::Never => false,
            // Only messages have colour, and they go to standard error. An empty NO_COLOR counts
            // as unset, as its convention says.
            Self::Auto => {
                std::io::stderr().is_terminal()
                    && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty())
            }
        }
    }
}

/// Formats of a report.
#[derive(Clone, Debug, Args)]
pub(crate) struct ReportFormats {
    /// Formats of the report
    #[arg(long, value_parser = format(), value_delimiter = ',',
        default_value = DEFAULT_FORMAT.name())]
    pub(crate) format: Vec<Format>,
}

/// Formats and folder of a report.
#[derive(Clone, Debug, Args)]
pub(crate) struct Output {
    #[command(flatten)]
    pub(crate) formats: ReportFormats,
    /// Folder for the report
    #[arg(long, default_value = ".")]
    pub(crate) out: PathBuf,
}

/// Formats and folder of an answer that is also saved as a report.
#[derive(Clone, Debug, Args)]
pub(crate) struct Saved {
    #[command(flatten)]
    pub(crate) formats: Formats,
    /// Folder for that report
    #[arg(long, default_value = ".", requires = "format")]
    pub(crate) out: PathBuf,
}

impl Saved {
    /// Returns that no report is written.
    pub(crate) fn nowhere() -> Self {
        Self { formats: Formats { format: Vec::new() }, out: PathBuf::new() }
    }
}

/// Formats of the report of a command that has a folder for its results.
#[derive(Clone, Debug, Args)]
pub(crate) struct Formats {
    /// Also write the answer as a report in these formats
    #[arg(long, value_parser = format(), value_delimiter = ',')]
    pub(crate) format: Vec<Format>,
}

impl Formats {
    /// Returns these formats with `folder` as the place of the report.
    pub(crate) fn saved(&self, folder: &Path) -> Saved {
        Saved { formats: self.clone(), out: folder.to_owned() }
    }
}

/// Format where none is chosen.
pub(crate) const DEFAULT_FORMAT: Format = Format::Html;

/// Returns the parser of a format's name.
fn format() -> impl TypedValueParser<Value = Format> {
    one_of(&Format::ALL, |format| (format.name(), format.summary()))
}

/// Returns the parser of a choice among `all`, each with its name and its summary for help. It
/// serves types of other crates, which know nothing of clap.
pub(crate) fn one_of<T: Clone + Send + Sync>(
    all: &'static [T],
    described: fn(&T) -> (&'static str, &'static str),
) -> impl TypedValueParser<Value = T> {
    let values = all.iter().map(described);
    let values = values.map(|(name, summary)| PossibleValue::new(name).help(summary));
    PossibleValuesParser::new(values).map(move |name| {
        let chosen = all.iter().find(|one| described(one).0 == name);
        chosen.cloned().expect("the parser allows only these names")
    })
}

/// Help of the option that names a launcher.
pub(crate) const REACH: &str = "Start the agent with this command, which runs another one there, \
    such as `podman exec -i NAME` or `srun --unbuffered -N1 -w {host}`. HOST is the name or \
    address that data goes to, and replaces `{host}`";

/// Place of a measurement.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct PlaceArgs {
    /// Lab file or preset: hosts emulated on this machine
    #[arg(long, conflicts_with_all = ["testbed", "to"])]
    lab: Option<String>,
    /// Testbed file: names of hosts, endpoints and CPUs
    #[arg(long, conflicts_with = "to")]
    testbed: Option<PathBuf>,
    /// Host with an agent: endpoint `b` is there, `a` is here
    #[arg(long, value_name = "HOST")]
    to: Option<String>,
    #[arg(long, value_name = "COMMAND", requires = "to", conflicts_with_all = ["lab", "testbed"],
        help = REACH)]
    reach: Option<String>,
}

impl PlaceArgs {
    /// Returns where the endpoints are.
    pub(crate) fn place(&self) -> Place {
        Place {
            lab: self.lab.clone(),
            testbed: self.testbed.clone(),
            to: self.to.clone(),
            reach: self.reach.clone(),
            servers: false,
        }
    }
}

/// Returns the parser of what `read` reads; a refusal says that it `expected` something else.
pub(crate) fn read_by<T>(
    read: fn(&str) -> Option<T>,
    expected: &'static str,
) -> impl Fn(&str) -> Result<T, String> + Clone {
    move |text: &str| read(text).ok_or_else(|| format!("expected {expected}"))
}

/// Refuses the first of `options` that was given, in the words of `why`.
pub(crate) fn refuse_given(
    options: &[(&str, bool)],
    why: impl Fn(&str) -> String,
) -> Result<(), Failure> {
    let given = options.iter().find(|(_, is_given)| *is_given);
    given.map_or(Ok(()), |(option, _)| Err(Failure::wrong(why(option))))
}

/// Reads a time of the command line: seconds, or a number with its unit.
pub(crate) fn time(text: &str) -> Result<Nanos, String> {
    read_by(letters::time, "seconds, or a time such as \"500 ms\"")(text)
}

/// Reads a time of the command line, s.
pub(crate) fn seconds(text: &str) -> Result<f64, String> {
    time(text).map(Nanos::as_secs_f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_seconds_or_has_a_unit() {
        let read = ["90", "90s", "1.5 min", "500 ms", "0"].map(|text| seconds(text).ok());
        assert_eq!(read, [Some(90.0), Some(90.0), Some(90.0), Some(0.5), Some(0.0)]);
        assert_eq!(["-3", "x", "nan", "inf", ""].map(|text| seconds(text).is_err()), [true; 5]);
    }
}
