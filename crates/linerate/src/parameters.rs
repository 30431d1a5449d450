//! Options that are parameters of a workload. Their range, default and help are those of the
//! workload's declaration.

use std::marker::PhantomData;

use clap::{Arg, ArgAction, ArgMatches, Args, Command, Error, FromArgMatches};
use linerate_campaign::drafts::{OF_PROBE, OF_SERVE, OF_TO, Setting};
use linerate_campaign::letters;
use linerate_campaign::options::{self, Readings};
use linerate_load::{Parameter, Takes, workload};
use serde_json::Value;

use crate::exit::Failure;

/// The workload of `linerate disk`.
const STORAGE: &str = "storage";
/// Parameter that `linerate disk` takes as its first argument.
const TARGET: &str = "target";
/// Heading of the options in help.
const HEADING: &str = "Parameters of the load (a number without a unit is per cent, per second, \
    seconds or bytes; k, M, G, T of bytes are powers of 1024, of a rate of 1000)";
/// Short names of options.
const ALIASES: [(&str, &str); 3] = [("block_size", "bs"), ("depth", "qd"), ("read", "mix")];
/// Parameters that an access specification replaces.
const OF_ACCESS: [&str; 4] = ["block_size", "read", "random", "reply"];
/// Options that `-h` shows; `--help` shows all.
const COMMON: [&str; 14] = [
    "block_size",
    "cache",
    "condition",
    "consent",
    "depth",
    "engine",
    "flush",
    "random",
    "rate",
    "read",
    "size",
    "sync",
    "verify",
    "workers",
];

/// The parameters of `storage` that were given as options, each with one value or a list.
#[derive(Clone, Debug, Default)]
pub(crate) struct StorageOptions {
    pub(crate) given: Vec<(&'static str, Vec<Value>)>,
}

/// The options of a command's table that were given, each with its readings.
#[derive(Clone, Debug)]
pub(crate) struct SettingOptions<T> {
    typed: Vec<(&'static Setting, Readings)>,
    of: PhantomData<T>,
}

/// Command whose options are a table.
pub(crate) trait Settings {
    /// The table.
    const ALL: &'static [Setting];
}

/// `linerate probe`.
#[derive(Clone, Debug)]
pub(crate) struct ProbeSettings;

impl Settings for ProbeSettings {
    const ALL: &'static [Setting] = &OF_PROBE;
}

/// `linerate to`.
#[derive(Clone, Debug)]
pub(crate) struct ToSettings;

impl Settings for ToSettings {
    const ALL: &'static [Setting] = &OF_TO;
}

/// `linerate serve`.
#[derive(Clone, Debug)]
pub(crate) struct ServeSettings;

impl Settings for ServeSettings {
    const ALL: &'static [Setting] = &OF_SERVE;
}

impl<T: Settings> Args for SettingOptions<T> {
    fn augment_args(command: Command) -> Command {
        let options = T::ALL.iter().map(|setting| setting_option(T::ALL, setting));
        options.fold(command, Command::arg)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl<T: Settings> FromArgMatches for SettingOptions<T> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let typed = T::ALL.iter().filter_map(|setting| Some((setting, chosen(matches, setting)?)));
        Ok(Self { typed: typed.collect(), of: PhantomData })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl<T> SettingOptions<T> {
    /// Returns the options that were given to `command`, each with its value for `workload`.
    ///
    /// # Errors
    /// If a value does not fit this workload.
    pub(crate) fn given(
        &self,
        command: &str,
        workload: &str,
    ) -> Result<Vec<(&'static Setting, Value)>, Failure> {
        let values = self.typed.iter().map(|(setting, readings)| {
            let value = options::reading(command, workload, setting, readings)?;
            Ok((*setting, value))
        });
        values.collect()
    }
}

/// Returns the readings of `setting` on the command line, if it is there.
fn chosen(matches: &ArgMatches, setting: &Setting) -> Option<Readings> {
    match setting.fixed {
        Some(word) => matches.get_flag(setting.option).then(|| {
            setting.parameters().map(|(workload, _)| (workload, Ok(word.into()))).collect()
        }),
        None => matches.get_one::<Readings>(setting.option).cloned(),
    }
}

/// Returns the option of `setting`.
fn setting_option(all: &'static [Setting], setting: &'static Setting) -> Arg {
    let lines = options::helps(setting);
    let others = all.iter().filter(|other| {
        other.option != setting.option && setting.sets.iter().any(|one| other.sets.contains(one))
    });
    let mut option = Arg::new(setting.option)
        .long(setting.option)
        // The last of two values of one parameter would silently win.
        .conflicts_with_all(others.map(|other| other.option))
        .help(lines.join("; "))
        .long_help(lines.join(";\n"));
    if let Some(letter) = setting.letter {
        option = option.short(letter);
    }
    if setting.fixed.is_some() {
        return option.action(ArgAction::SetTrue);
    }
    let (_, first) = setting.parameters().next().expect("a setting sets a parameter");
    valued(option, &first.takes).value_parser(move |text: &str| {
        let readings = options::readings(setting, text)?;
        let mut parameters = setting.parameters();
        if parameters.any(|(_, parameter)| matches!(parameter.takes, Takes::Size { .. })) {
            announce(text);
        }
        Ok::<Readings, String>(readings)
    })
}

/// Prints the number of bytes of a size whose unit people read in two ways.
fn announce(text: &str) {
    letters::meaning(text).iter().for_each(|meaning| eprintln!("{meaning}"));
}

/// Returns `option` with a value of type `takes`.
fn valued(option: Arg, takes: &Takes) -> Arg {
    let option = option.value_name(options::value_name(takes));
    match takes {
        // Without the equals sign, the next argument would be taken for the value.
        Takes::Flag => option.num_args(0..=1).require_equals(true).default_missing_value("true"),
        _ => option,
    }
}

impl Args for StorageOptions {
    fn augment_args(command: Command) -> Command {
        let options = storage().map(|parameter| option(&parameter));
        options.fold(command.next_help_heading(HEADING), Command::arg)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for StorageOptions {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        Ok(Self { given: storage().filter_map(|one| given(matches, &one)).collect() })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

fn given(matches: &ArgMatches, parameter: &Parameter) -> Option<(&'static str, Vec<Value>)> {
    let texts = matches.get_many::<Vec<Value>>(parameter.name)?;
    Some((parameter.name, texts.flatten().cloned().collect()))
}

fn storage() -> impl Iterator<Item = Parameter> {
    let all = workload(STORAGE).expect("it is registered").parameters();
    all.into_iter().filter(|parameter| parameter.name != TARGET)
}

/// Returns the option of `parameter`: a list of values, except for texts, which may have commas.
fn option(parameter: &Parameter) -> Arg {
    let is_text = matches!(parameter.takes, Takes::Path { .. } | Takes::Text { .. });
    let option = Arg::new(parameter.name)
        .long(parameter.name.replace('_', "-"))
        .help(options::help(parameter))
        .hide_short_help(!COMMON.contains(&parameter.name))
        .action(ArgAction::Append);
    let own = parameter.clone();
    let mut option = valued(option, &parameter.takes).value_parser(move |text: &str| {
        if matches!(own.takes, Takes::Size { .. }) {
            announce(text);
        }
        options::values(&own, text)
    });
    // A text may contain commas.
    if !is_text {
        option = option.value_delimiter(',');
    }
    if parameter.name == "access" {
        // An access specification sets these parameters itself.
        option = option.conflicts_with_all(OF_ACCESS);
    }
    match ALIASES.iter().find(|(name, _)| *name == parameter.name) {
        Some((_, alias)) => option.visible_alias(*alias),
        None => option,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(arguments: &[String]) -> Result<StorageOptions, Error> {
        let command = StorageOptions::augment_args(Command::new("disk"));
        let matches = command.try_get_matches_from(
            ["disk".to_owned()].into_iter().chain(arguments.iter().cloned()),
        )?;
        StorageOptions::from_arg_matches(&matches)
    }

    #[test]
    fn every_parameter_is_an_option_and_its_printed_default_is_a_value_of_it() {
        let mut command = StorageOptions::augment_args(Command::new("disk"));
        let help = command.render_long_help().to_string();
        let mut n_defaults = 0;
        for parameter in storage() {
            let option = format!("--{}", parameter.name.replace('_', "-"));
            assert!(help.contains(&option), "{option} is not in the help");
            let Some(default) = parameter.default_value() else { continue };
            let text = default.as_str().map_or_else(|| default.to_string(), str::to_owned);
            let given = read(&[format!("{option}={text}")]).expect(&option).given;
            assert_eq!(given, [(parameter.name, vec![default])]);
            n_defaults += 1;
        }
        assert!(n_defaults > 30, "{n_defaults}");
    }

    #[test]
    fn an_option_of_a_table_has_its_letter_and_the_range_and_help_of_its_parameters() {
        let options = |arguments: &[&str]| {
            let command = SettingOptions::<ToSettings>::augment_args(Command::new("to"));
            let matches = command.try_get_matches_from([&["to"], arguments].concat())?;
            SettingOptions::<ToSettings>::from_arg_matches(&matches)
        };
        let given = ["-P", "4", "-l", "64K", "-N", "-Z", "-C", "bbr", "-b", "2.5M"];
        let given = options(&given).expect("options").given("to", "tcp_stream").expect("values");
        let given: Vec<_> = given.iter().map(|(setting, value)| (setting.option, value)).collect();
        let expected: [(&str, &Value); 6] = [
            ("parallel", &4.into()),
            ("bitrate", &"2.5 Mbit/s".into()),
            ("length", &"64 KiB".into()),
            ("congestion", &"bbr".into()),
            ("no-delay", &true.into()),
            ("zerocopy", &"sendfile".into()),
        ];
        assert_eq!(given, expected);
        let error = options(&["-b", "1G", "--fq-rate", "2G"]).expect_err("one limit").to_string();
        assert!(error.contains("cannot be used with"), "{error}");
    }

    #[test]
    fn an_option_takes_a_list_and_a_switch_no_value() {
        let swept = read(&["--qd=1..8x2,3".to_owned(), "--verify".to_owned()]).expect("a range");
        let depths: Vec<Value> = [1, 2, 4, 8, 3].map(Value::from).into();
        assert_eq!(swept.given, [("depth", depths), ("verify", vec![Value::from(true)])]);
    }

    #[test]
    fn a_value_out_of_range_is_refused_with_option_and_range() {
        for (argument, option, range) in [
            ("--qd=0", "--depth", "from 1 to 32768"),
            ("--read=101", "--read", "from \"0 %\" to \"100 %\""),
            ("--bs=4q", "--block-size", "from \"512 B\" to \"1 GiB\""),
            ("--engine=libaio", "--engine", "one of \"auto\""),
        ] {
            let error = read(&[argument.to_owned()]).expect_err(argument).to_string();
            assert!(error.contains(option) && error.contains(range), "{error}");
        }
        let both = ["--access=4 KiB, read 70 %".to_owned(), "--bs=8k".to_owned()];
        assert!(read(&both).expect_err("both").to_string().contains("cannot be used with"));
    }
}
