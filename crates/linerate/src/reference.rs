//! The command line as the reference describes it: clap's definitions as plain data.

use clap::Arg;
use linerate_answers::reference::{Argument, Command, Page};

use crate::cli;

/// Returns every page of the reference.
pub(crate) fn pages() -> Vec<Page> {
    let mut root = cli::command();
    // Only a built command knows the full names of its subcommands.
    root.build();
    let global = arguments(root.get_arguments().filter(|arg| arg.is_global_set()));
    let commands: Vec<Command> = root.get_subcommands().filter_map(described).collect();
    let mut pages = linerate_answers::reference::pages(&commands, &global);
    pages.push(Page { name: "shapes.md".into(), text: linerate_papers::document::of_catalogue() });
    pages
}

/// Returns `command` and its subcommands; `None` if it is hidden.
fn described(command: &clap::Command) -> Option<Command> {
    // The registry of limits has a page of its own; `help` is everywhere.
    if command.is_hide_set() || command.get_name() == "help" {
        return None;
    }
    let about = command.get_long_about().or(command.get_about());
    let usage = command.clone().render_usage().to_string();
    let below = command.get_subcommands().filter(|_| command.get_name() != "limit");
    Some(Command {
        name: command.get_bin_name().unwrap_or(command.get_name()).to_owned(),
        about: about.map(ToString::to_string).unwrap_or_default(),
        usage: usage.trim_start_matches("Usage: ").trim().to_owned(),
        arguments: arguments(command.get_arguments().filter(|arg| !arg.is_global_set())),
        below: below.filter_map(described).collect(),
    })
}

fn arguments<'a>(arguments: impl Iterator<Item = &'a Arg>) -> Vec<Argument> {
    let shown = arguments
        .filter(|arg| !arg.is_hide_set() && !matches!(arg.get_id().as_str(), "help" | "version"));
    shown.map(argument).collect()
}

fn argument(arg: &Arg) -> Argument {
    Argument { spelling: spelling(arg), default: default_of(arg), meaning: meaning(arg) }
}

fn spelling(arg: &Arg) -> String {
    let value = arg.get_value_names().and_then(|names| names.first()).map(ToString::to_string);
    let value = value.unwrap_or_else(|| arg.get_id().as_str().to_uppercase());
    let short = arg.get_short().map(|short| format!("-{short}"));
    let long = arg.get_long().map(|long| format!("--{long}"));
    let names: Vec<String> = short.into_iter().chain(long).collect();
    match (names.is_empty(), arg.get_action().takes_values()) {
        (true, _) => value,
        (false, true) => format!("{} {value}", names.join(", ")),
        (false, false) => names.join(", "),
    }
}

fn default_of(arg: &Arg) -> String {
    let values: Vec<String> =
        arg.get_default_values().iter().map(|value| value.to_string_lossy().into_owned()).collect();
    if !arg.get_action().takes_values() || values.is_empty() {
        String::new()
    } else {
        values.join(",")
    }
}

fn meaning(arg: &Arg) -> String {
    let help = arg.get_long_help().or(arg.get_help()).map(ToString::to_string).unwrap_or_default();
    let mut meaning = help.split_whitespace().collect::<Vec<_>>().join(" ");
    let choices = arg.get_possible_values();
    let choices: Vec<String> = choices
        .iter()
        .filter(|choice| !choice.is_hide_set())
        .map(|choice| format!("`{}`", choice.get_name()))
        .collect();
    if arg.get_action().takes_values() && !choices.is_empty() {
        meaning += &format!(": {}", choices.join(", "));
    }
    if let Some(variable) = arg.get_env() {
        meaning += &format!(" (or the environment variable `{}`)", variable.to_string_lossy());
    }
    meaning
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::path::Path;

    use linerate_answers::registries::{Registry, entries};

    use super::*;

    #[test]
    fn the_reference_is_that_of_this_program() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference");
        let entries = std::fs::read_dir(&folder)
            .expect("the repository has a reference: run `cargo xtask docs`");
        let written: BTreeMap<String, String> = entries
            .map(|entry| {
                let path = entry.expect("readable").path();
                let name = path.file_name().expect("it has a name").to_string_lossy().into_owned();
                (name, std::fs::read_to_string(&path).expect("it is text"))
            })
            .collect();
        let made: BTreeMap<String, String> =
            pages().into_iter().map(|page| (page.name, page.text)).collect();
        assert_eq!(
            written.keys().collect::<Vec<_>>(),
            made.keys().collect::<Vec<_>>(),
            "run `cargo xtask docs`"
        );
        for (name, text) in &made {
            let changed =
                text.lines().zip(written[name].lines()).find(|(made, written)| made != written);
            assert!(
                *text == written[name],
                "docs/reference/{name} is stale, run `cargo xtask docs`: {changed:?}"
            );
        }
    }

    #[test]
    fn everything_registered_is_in_the_reference() {
        let all: String = pages().into_iter().map(|page| page.text).collect();
        for entry in Registry::ALL.into_iter().flat_map(entries) {
            let name = entry["name"].as_str().expect("a name");
            assert!(all.contains(name), "{entry}");
            for parameter in entry["parameters"].as_array().into_iter().flatten() {
                let name = parameter["name"].as_str().expect("a name");
                let found =
                    all.contains(&format!("`{name}`")) || all.contains(&name.replace('_', "-"));
                assert!(found, "{parameter}");
            }
        }
        for command in cli::command().get_subcommands().filter(|command| !command.is_hide_set()) {
            assert!(
                all.contains(&format!("\n## linerate {}\n", command.get_name())),
                "{}",
                command.get_name()
            );
        }
    }
}
