//! Command lines of recommendations.
//!
//! A finding names a command without a place. The campaign's own command line, which its header
//! records, says where it ran: at a host, in a lab, or in the testbed of a file.

use linerate_analysis::diagnosis::Advice;
use linerate_model::{Campaign, Command, TestbedKind};

use crate::document::NextStep;
use crate::sentences;

/// Widest line of a command before it continues on the next one.
const WIDTH: usize = 78;
/// Name of this end's host in a campaign towards one other host.
pub(crate) const HERE: &str = "here";
/// Placeholder of a host that a person has to name.
const TO_BE_NAMED: &str = "HOST";
/// Lab that `linerate demo` builds.
const DEMO_LAB: &str = "pair-100m";
/// Subcommands that choose the endpoints of a lab or testbed by name.
const CHOOSES_ENDS: [&str; 2] = ["diagnose", "tune window"];

/// Options that lead a command to the path of a campaign.
///
/// The default is this host alone: a load on a disk needs no path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommandPlace {
    options: Vec<String>,
    /// True if the place has endpoints with names of their own.
    has_names: bool,
}

impl CommandPlace {
    /// Returns the place of `campaign`. It ends in a placeholder only if neither the recorded
    /// command line nor the hosts name the place.
    #[must_use]
    pub fn of(campaign: &Campaign) -> Self {
        let header = &campaign.header;
        // The recorded command line is exact; hosts and testbed are only a fallback.
        if let Some(place) = Self::of_arguments(&header.argv) {
            return place;
        }
        match header.testbed {
            // This command builds its lab without an option that names it.
            TestbedKind::Lab if header.argv.iter().any(|word| word == "demo") => {
                Self::named("--lab", DEMO_LAB)
            }
            TestbedKind::Lab => Self::named("--lab", "LAB"),
            TestbedKind::Loopback => Self::host("loopback"),
            TestbedKind::Hosts => {
                let names = campaign.hosts.iter().map(|host| host.host.as_str());
                let name = names.clone().find(|name| *name != HERE).unwrap_or(TO_BE_NAMED);
                // The user's spelling may contain a port or a user name that is needed to reach the
                // host.
                Self::host(as_typed(&header.argv, name).unwrap_or(name)).reached_as(&header.argv)
            }
        }
    }

    /// Returns the place that the options of a command line name: `--lab`, `--testbed` or `--to`. A
    /// server's clients are other programs, so a host with an agent is still to be named.
    #[must_use]
    pub fn of_arguments(argv: &[String]) -> Option<Self> {
        if verb(argv) == Some("serve") {
            return Some(Self::host(TO_BE_NAMED));
        }
        let named = ["--testbed", "--lab"]
            .into_iter()
            .find_map(|name| Some(Self::named(name, option(argv, name)?)));
        named.or_else(|| Some(Self::host(option(argv, "--to")?).reached_as(argv)))
    }

    /// Adds the command by which `argv` reaches the host.
    fn reached_as(mut self, argv: &[String]) -> Self {
        if let Some(command) = option(argv, "--reach") {
            self.options.extend(["--reach".to_owned(), command.to_owned()]);
        }
        self
    }

    fn named(option: &str, value: &str) -> Self {
        Self { options: vec![option.to_owned(), value.to_owned()], has_names: true }
    }

    fn host(host: &str) -> Self {
        Self { options: vec!["--to".to_owned(), host.to_owned()], has_names: false }
    }

    /// Returns the command line of `command` at this place, quoted for a shell.
    #[must_use]
    pub fn line(&self, command: &Command) -> String {
        let mut words: Vec<&str> = vec!["linerate"];
        words.extend(command.verb.split(' '));
        if let Some(path) = &command.path {
            words.extend(self.options.iter().map(String::as_str));
            // Other commands choose the ends from their plan.
            if self.has_names && CHOOSES_ENDS.contains(&command.verb.as_str()) {
                words.extend(["--from", &path.from, "--to", &path.to]);
            }
        }
        words.extend(command.arguments.iter().map(String::as_str));
        words.into_iter().map(quoted).collect::<Vec<_>>().join(" ")
    }

    /// Returns `advice` as a step of a document.
    #[must_use]
    pub fn step(&self, advice: &Advice) -> NextStep {
        let (step, effect) = sentences::step(&advice.step);
        let effect = effect.map_or(String::new(), |effect| format!(" (expected: {effect})"));
        let command = advice.command.as_ref().map(|command| self.line(command));
        NextStep { text: format!("{step}{effect}"), command }
    }
}

impl NextStep {
    /// Returns the step in one line; its command stands in backticks.
    #[must_use]
    pub fn text(&self) -> String {
        match &self.command {
            Some(command) => format!("{}: `{command}`", self.text),
            None => self.text.clone(),
        }
    }
}

/// Part of a campaign of which more is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Repeated {
    /// Runs of each point.
    Runs,
    /// Pairs of a comparison.
    Pairs,
}

/// Returns the command that runs the campaign of `argv` again with `n` runs or pairs; `None` if its
/// command has no option for them.
pub(crate) fn repeat_command(argv: &[String], of: Repeated, n: usize) -> Option<String> {
    let (option, value) = match (verb(argv)?, of) {
        ("run", Repeated::Runs) => ("--set", format!("campaign.repeats={n}")),
        ("run", Repeated::Pairs) => ("--set", format!("compare.pairs={n}")),
        ("disk", Repeated::Runs) => ("--repeats", n.to_string()),
        ("diagnose" | "tune", Repeated::Pairs) => ("--pairs", n.to_string()),
        _ => return None,
    };
    let mut words = vec!["linerate"];
    let mut rest = argv.iter().skip(1).map(String::as_str);
    while let Some(word) = rest.next() {
        // Of several `--set` the last one counts; the other options may be given once.
        let is_replaced = option != "--set" && word.strip_prefix(option).is_some();
        if !is_replaced {
            words.push(word);
        } else if word == option {
            rest.next();
        }
    }
    words.extend([option, value.as_str()]);
    Some(words.into_iter().map(quoted).collect::<Vec<_>>().join(" "))
}

/// Returns the subcommand of `argv`: the first word that is no option. Of the options that may
/// stand before it only `--color` has a value.
fn verb(argv: &[String]) -> Option<&str> {
    let mut words = argv.iter().skip(1).map(String::as_str);
    while let Some(word) = words.next() {
        match word {
            "--color" => {
                words.next();
            }
            _ if word.starts_with('-') => {}
            verb => return Some(verb),
        }
    }
    None
}

/// Returns the value of an option in `argv`, written as `--name value` or `--name=value`.
fn option<'a>(argv: &'a [String], name: &str) -> Option<&'a str> {
    argv.iter().enumerate().find_map(|(index, word)| {
        if word == name {
            return argv.get(index + 1).map(String::as_str);
        }
        // Both spellings of an option are valid on a command line.
        word.strip_prefix(name)?.strip_prefix('=')
    })
}

/// Returns the word of `argv` that names `host`, with its port or `ssh:` as the user typed it.
fn as_typed<'a>(argv: &'a [String], host: &str) -> Option<&'a str> {
    argv.iter().skip(1).find(|word| names_host(word, host)).map(String::as_str)
}

/// Returns whether the argument `word` names `host`: alone, with a port, or by ssh.
fn names_host(word: &str, host: &str) -> bool {
    word == host
        || word.starts_with("ssh:")
        || word.strip_prefix(host).is_some_and(|rest| rest.starts_with(':'))
}

/// Returns `line` with a backslash and a line break between words where it is too wide. A shell
/// reads it as the same command.
#[must_use]
pub(crate) fn continued(line: &str, indent: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let mut current = String::new();
    let words = words_of(line);
    for (index, word) in words.iter().enumerate() {
        let value = words.get(index + 1).filter(|value| !value.starts_with('-'));
        let width = word.chars().count() + value.map_or(0, |value| 1 + value.chars().count());
        // Three columns are kept for the backslash and the space before it.
        let fits = current.chars().count() + width + 3 + indent <= WIDTH;
        // An option stays beside its value.
        if !current.is_empty() && !fits && word.starts_with('-') {
            lines.push(format!("{current} \\"));
            current = format!("  {word}");
            continue;
        }
        if !current.is_empty() {
            current.push(' ');
        }
        current.push_str(word);
    }
    lines.push(current);
    lines
}

/// Splits a command line at spaces outside single quotes.
fn words_of(line: &str) -> Vec<&str> {
    let mut is_quoted = false;
    line.split(|letter: char| {
        is_quoted ^= letter == '\'';
        letter == ' ' && !is_quoted
    })
    .collect()
}

/// Returns `word` quoted for a POSIX shell.
pub(crate) fn quoted(word: &str) -> String {
    // Only characters that no shell interprets are left without quotes.
    let safe = |c: char| c.is_ascii_alphanumeric() || "-_./=:,@%+".contains(c);
    if !word.is_empty() && word.chars().all(safe) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn argv(line: &str) -> Vec<String> {
        line.split(' ').map(str::to_owned).collect()
    }

    fn diagnose() -> Command {
        Command::local("diagnose", &["--param", "mss=250 B"]).between("a", "b")
    }

    #[test]
    fn a_campaign_is_repeated_by_the_option_of_its_command() {
        let repeated = |line: &str, of| {
            let argv: Vec<String> = line.split(' ').map(str::to_owned).collect();
            repeat_command(&argv, of, 9)
        };
        for (line, of, expected) in [
            (
                "linerate --color never run p.toml --to h",
                Repeated::Runs,
                Some("linerate --color never run p.toml --to h --set campaign.repeats=9"),
            ),
            ("linerate run p", Repeated::Pairs, Some("linerate run p --set compare.pairs=9")),
            (
                "linerate disk run /dev/sdb --repeats 2 -t 5",
                Repeated::Runs,
                Some("linerate disk run /dev/sdb -t 5 --repeats 9"),
            ),
            (
                "linerate diagnose --pairs=3 --to run",
                Repeated::Pairs,
                Some("linerate diagnose --to run --pairs 9"),
            ),
            ("linerate to run", Repeated::Runs, None),
            ("linerate demo", Repeated::Runs, None),
        ] {
            assert_eq!(repeated(line, of).as_deref(), expected, "{line}");
        }
    }

    #[test]
    fn a_command_can_be_pasted_into_a_shell() {
        assert_eq!(quoted("plan=a b"), "'plan=a b'");
        assert_eq!(quoted(""), "''");
        assert_eq!(quoted("it's"), r"'it'\''s'");
        assert_eq!(quoted("--set"), "--set");
    }

    #[test]
    fn the_place_of_a_command_is_that_of_the_campaign() {
        let line = |argv_line: &str| {
            CommandPlace::of_arguments(&argv(argv_line)).map(|place| place.line(&diagnose()))
        };
        assert_eq!(
            line("linerate run tcp --lab pair").as_deref(),
            Some("linerate diagnose --lab pair --from a --to b --param 'mss=250 B'")
        );
        assert_eq!(
            line("linerate diagnose --to=192.0.2.7:99").as_deref(),
            Some("linerate diagnose --to 192.0.2.7:99 --param 'mss=250 B'")
        );
        assert_eq!(
            line("linerate probe --to web --reach=lxc").as_deref(),
            Some("linerate diagnose --to web --reach lxc --param 'mss=250 B'")
        );
        let mut typed = argv("linerate to web -t 5 --reach");
        typed.push("podman exec -i {host}".to_owned());
        assert_eq!(
            CommandPlace::host("web").reached_as(&typed).line(&diagnose()),
            "linerate diagnose --to web --reach 'podman exec -i {host}' --param 'mss=250 B'"
        );
        assert_eq!(line("linerate to host-b -t 5"), None, "its host is an argument");
        assert_eq!(
            line("linerate serve http --root .").as_deref(),
            Some("linerate diagnose --to HOST --param 'mss=250 B'"),
            "the clients have no agent"
        );
    }

    #[test]
    fn a_host_keeps_the_port_that_was_typed() {
        assert_eq!(as_typed(&argv("linerate to -t 5 box:99"), "box"), Some("box:99"));
        assert_eq!(as_typed(&argv("linerate to ssh:me@box"), "192.0.2.7"), Some("ssh:me@box"));
        assert_eq!(as_typed(&argv("linerate to boxer"), "box"), None);
    }

    #[test]
    fn a_command_of_this_host_has_no_place() {
        let place = CommandPlace::host("192.0.2.7");
        assert_eq!(place.line(&Command::local("doctor", &[])), "linerate doctor");
    }

    #[test]
    fn a_long_command_continues_on_the_next_line() {
        let params =
            ["--param 'receive_buffer=8 MiB'", "--param streams=4", "--param send=sendfile"];
        let line = format!("linerate diagnose --lab pair --from a --to b {}", params.join(" "));
        let lines = continued(&line, 4);
        assert!(
            lines.len() > 1 && lines.iter().all(|line| line.chars().count() <= WIDTH),
            "{lines:?}"
        );
        assert_eq!(lines.join("\n").replace(" \\\n ", ""), line, "a shell reads the same words");
    }
}
