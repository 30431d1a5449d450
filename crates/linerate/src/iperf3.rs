//! Options of iperf3 that `linerate to` does not have: each is answered with what replaces it.

use clap::error::ErrorKind;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, Error, FromArgMatches};
use linerate_campaign::iperf3::{Fate, IPERF3, Iperf3Option};

/// Options that were given although linerate always does what they ask for.
#[derive(Clone, Debug, Default)]
pub(crate) struct Iperf3Options {
    /// Answer of linerate to each.
    pub(crate) notes: Vec<String>,
}

fn others() -> impl Iterator<Item = &'static Iperf3Option> {
    IPERF3.iter().filter(|option| option.fate != Fate::Works)
}

impl Args for Iperf3Options {
    fn augment_args(command: Command) -> Command {
        others().fold(command, |command, option| {
            let arg = Arg::new(option.long).long(option.long).hide(true);
            let arg = match option.takes_value {
                true => arg.num_args(1).action(ArgAction::Append),
                // A debug level or a format of times may follow the equals sign.
                false => arg.num_args(0..=1).require_equals(true).default_missing_value(""),
            };
            command.arg(option.letter.into_iter().fold(arg, Arg::short))
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Iperf3Options {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let mut notes = Vec::new();
        for option in others().filter(|option| matches.contains_id(option.long)) {
            match option.fate {
                Fate::Replaced(by) => {
                    let message = format!("to: {} is not an option here: {by}\n", option.typed());
                    return Err(Error::raw(ErrorKind::UnknownArgument, message));
                }
                Fate::Always(does) => notes.push(format!("{}: {does}", option.typed())),
                Fate::Works => {}
            }
        }
        Ok(Self { notes })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}
