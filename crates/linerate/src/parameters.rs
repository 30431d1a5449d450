//! Options that are parameters of a workload. Their range, default and help are those of the
//! workload's declaration.

use std::marker::PhantomData;

use clap::{Arg, ArgAction, ArgMatches, Args, Command, Error, FromArgMatches};
use linerate_campaign::drafts::{OF_PROBE, OF_SERVE, OF_TO, Setting, word_of};
use linerate_campaign::letters;
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

/// A value of an option as each of its workloads reads it: types and ranges differ.
type Readings = Vec<(&'static str, Result<Value, String>)>;

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
        self.typed.iter().map(|typed| read(command, workload, typed)).collect()
    }
}

/// Returns an option of `command` with its value for `workload`.
fn read(
    command: &str,
    workload: &str,
    (setting, readings): &(&'static Setting, Readings),
) -> Result<(&'static Setting, Value), Failure> {
    let own = readings.iter().find(|(of, _)| *of == workload);
    // An option that does not apply is refused where the plan is drafted.
    let other = || readings.iter().find(|(_, value)| value.is_ok());
    let value = own.or_else(other).map(|(_, value)| value.clone());
    let value = value.unwrap_or_else(|| Err("no value".to_owned()));
    value.map(|value| (*setting, value)).map_err(|cause| {
        let mode = word_of(workload);
        Failure::wrong(format!("{command}: {} of {mode}: {cause}", setting.typed()))
    })
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

/// Returns the option of `setting`. Its help is that of each different parameter which it sets.
fn setting_option(all: &'static [Setting], setting: &'static Setting) -> Arg {
    let mut helps: Vec<(String, Vec<&str>)> = Vec::new();
    for (workload, parameter) in setting.parameters() {
        let text = match setting.fixed {
            Some(word) => format!("Set {} = \"{word}\": {}", parameter.name, parameter.meaning),
            None => help(&parameter),
        };
        match helps.iter_mut().find(|(known, _)| *known == text) {
            Some((_, words)) => words.push(word_of(workload)),
            None => helps.push((text, vec![word_of(workload)])),
        }
    }
    let of_all = helps.len() == 1;
    let lines = helps.into_iter().map(|(text, words)| match of_all {
        true => text,
        false => format!("{}: {text}", words.join(", ")),
    });
    let lines: Vec<String> = setting.note.map(str::to_owned).into_iter().chain(lines).collect();
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
    valued(option, &first.takes).value_parser(move |text: &str| readings(setting, text))
}

/// Reads `text` for each workload of `setting`.
///
/// # Errors
/// If it fits none: why it does not fit the first.
fn readings(setting: &Setting, text: &str) -> Result<Readings, String> {
    let mut readings = Vec::new();
    let mut refused = Vec::new();
    let mut is_size = false;
    for (workload, parameter) in setting.parameters() {
        is_size |= matches!(parameter.takes, Takes::Size { .. });
        // As with iperf3, a rate without a unit is in bits.
        let bits = letters::rate(text).map(|rate| vec![Value::from(rate.to_string())]);
        let values = match (&parameter.takes, bits) {
            (Takes::Rate, Some(bits)) => checked(&parameter, bits),
            _ => values(&parameter, text),
        };
        // A count may be a range, of which an option of one measurement takes the first.
        let value = values.and_then(|values| values.into_iter().next().ok_or_else(String::new));
        refused.extend(value.clone().err());
        readings.push((workload, value));
    }
    if readings.iter().all(|(_, value)| value.is_err()) {
        return Err(refused.swap_remove(0));
    }
    if is_size {
        announce(text);
    }
    Ok(readings)
}

/// Prints the number of bytes of a size whose unit people read in two ways.
fn announce(text: &str) {
    letters::meaning(text).iter().for_each(|meaning| eprintln!("{meaning}"));
}

/// Returns `option` with a value of type `takes`.
fn valued(option: Arg, takes: &Takes) -> Arg {
    let option = option.value_name(value_name(takes));
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
    let is_text = matches!(parameter.takes, Takes::Text { .. });
    let option = Arg::new(parameter.name)
        .long(parameter.name.replace('_', "-"))
        .help(help(parameter))
        .hide_short_help(!COMMON.contains(&parameter.name))
        .action(ArgAction::Append);
    let own = parameter.clone();
    let mut option = valued(option, &parameter.takes).value_parser(move |text: &str| {
        if matches!(own.takes, Takes::Size { .. }) {
            announce(text);
        }
        values(&own, text)
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

/// Returns the placeholder of values in help.
fn value_name(takes: &Takes) -> &'static str {
    match takes {
        Takes::BitRate | Takes::Rate => "RATE",
        Takes::Count { .. } => "NUMBER",
        Takes::Flag => "true|false",
        Takes::Ratio { .. } => "PER CENT",
        Takes::Size { .. } => "BYTES",
        Takes::Text { .. } => "TEXT",
        Takes::Time { .. } => "TIME",
        Takes::Word(_) | Takes::WordOr(..) => "WORD",
    }
}

/// Returns the help of an option: meaning, range and default of `parameter`.
fn help(parameter: &Parameter) -> String {
    let Parameter { takes, default, meaning, .. } = parameter;
    let capital: String = meaning[..1].to_uppercase();
    format!("{capital}{} ({takes}) [default: {default}]", &meaning[1..])
}

/// Reads `text` as users of fio and iperf3 type a value of `parameter`: bare numbers are per cent,
/// operations per second, seconds, bytes with K, M, G, T for powers of 1024, or bits per second
/// with powers of 1000; a count may be a range, FIRST..LASTxFACTOR or FIRST..LAST+STEP.
fn values(parameter: &Parameter, text: &str) -> Result<Vec<Value>, String> {
    let values = match &parameter.takes {
        // Its values have names, too.
        Takes::Count { .. } if parameter.name == "dscp" => {
            vec![letters::code_point(text).map_or_else(|| text.into(), Value::from)]
        }
        // A plain number is not a range of one.
        Takes::Count { .. } => match (text.parse::<u64>(), letters::depths(text)) {
            (Ok(number), _) => vec![number.into()],
            (_, Some(range)) => range.into_iter().map(Value::from).collect(),
            _ => vec![text.into()],
        },
        Takes::Flag => vec![text.parse::<bool>().map_or_else(|_| text.into(), Value::from)],
        Takes::Ratio { .. } => with_unit(text, "%"),
        Takes::Rate => {
            vec![letters::operations(text).map_or_else(|| text.into(), |of| of.to_string().into())]
        }
        Takes::Size { .. } => {
            vec![letters::size(text).map_or_else(|| text.into(), |size| size.to_string().into())]
        }
        Takes::Time { .. } => with_unit(text, "s"),
        Takes::BitRate => {
            vec![letters::rate(text).map_or_else(|| text.into(), |rate| rate.to_string().into())]
        }
        Takes::Text { .. } | Takes::Word(_) | Takes::WordOr(..) => vec![text.into()],
    };
    checked(parameter, values)
}

/// Returns `values` if each fits `parameter`.
fn checked(parameter: &Parameter, values: Vec<Value>) -> Result<Vec<Value>, String> {
    for value in &values {
        // The declaration of the workload decides, so options and plans accept the same values.
        parameter.check(value).map_err(|error| {
            let expected = error.expected.map(|expected| format!("; expected {expected}"));
            error.cause + &expected.unwrap_or_default()
        })?;
    }
    if values.is_empty() { Err("the range is empty".to_owned()) } else { Ok(values) }
}

/// Returns `text` with `unit` if it is a bare number: the unit that fio and iperf3 assume.
fn with_unit(text: &str, unit: &str) -> Vec<Value> {
    let is_bare = text.parse::<f64>().is_ok();
    vec![Value::from(if is_bare { format!("{text} {unit}") } else { text.to_owned() })]
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
        let error = options(&["-P", "0"]).expect_err("no stream").to_string();
        assert!(error.contains("from 1 to 16384"), "{error}");
        let error = options(&["-b", "1G", "--fq-rate", "2G"]).expect_err("one limit").to_string();
        assert!(error.contains("cannot be used with"), "{error}");
        // Each mode has its own types and ranges, and bare rates are in bits as with iperf3.
        for (mode, words, expected) in [
            ("tcp_rr", ["-l", "1"], Ok("1 B")),
            ("tcp_stream", ["-b", "1G"], Ok("1 Gbit/s")),
            ("udp_stream", ["-b", "1G"], Ok("1 Gbit/s")),
            ("udp_stream", ["-b", "1000000"], Ok("1 Mbit/s")),
            ("udp_stream", ["-b", "1 kpps"], Ok("1 kpps")),
            ("tcp_stream", ["-b", "1 kpps"], Err("to: -b of tcp: ")),
            ("udp_stream", ["-l", "1"], Err("to: -l of udp: ")),
        ] {
            let read = options(&words).expect("for one mode").given("to", mode);
            match (read, expected) {
                (Ok(given), Ok(value)) => assert_eq!(given[0].1, Value::from(value), "{words:?}"),
                (Err(refused), Err(part)) => {
                    assert!(refused.message().starts_with(part), "{}", refused.message());
                }
                (read, expected) => panic!("{mode} {words:?}: {read:?}, {expected:?}"),
            }
        }
        let command = SettingOptions::<ToSettings>::augment_args(Command::new("to"));
        let help = command.clone().render_long_help().to_string();
        for part in
            ["udp: UDP payload", "TCP_MAXSEG", "0 is no limit", "Set send = \"sendfile\": how "]
        {
            assert!(help.contains(part), "{part}: {help}");
        }
        // Help has the words that a person types, and the defaults of the command.
        assert!(!help.contains("tcp_") && !help.contains("udp_"), "{help}");
        for default in ["[default: \"1 Mbit/s\"]", "[default: \"host\"]"] {
            assert!(help.contains(default), "{default}: {help}");
        }
    }

    #[test]
    fn a_bare_number_has_the_unit_of_its_option() {
        for (argument, expected) in [
            ("--read=70", "70 %"),
            ("--rate=500", "500 packet/s"),
            ("--rate=2k", "2 kpacket/s"),
            ("--rate=800 Mbit/s", "800 Mbit/s"),
            ("--bs=4k", "4 KiB"),
            ("--delay=1", "1 s"),
            ("--delay=5 ms", "5 ms"),
        ] {
            let options = read(&[argument.to_owned()]).expect(argument);
            assert_eq!(options.given[0].1, [Value::from(expected)], "{argument}");
        }
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
