//! The reference in `docs/reference`: pages of Markdown made from the registries and the command
//! line, by which nothing is said twice. What a page cannot say, because no registry knows it, is
//! why; that is in `docs/methodology`.

use std::fmt::Write;

use clap::{Arg, Command};
use serde_json::Value;

use crate::cli;
use crate::commands::list;
use crate::commands::list::Registry;

/// A page: the name of its file and its text.
pub(crate) struct Page {
    /// Of the file, in `docs/reference`.
    pub(crate) name: String,
    /// Markdown.
    pub(crate) text: String,
}

/// A registry, its page and what stands above its table.
struct Chapter {
    registry: Registry,
    file: &'static str,
    title: &'static str,
    introduction: &'static str,
}

/// Every chapter but that of the commands, in the order of a campaign.
const CHAPTERS: &[Chapter] = &[
    Chapter {
        registry: Registry::Plans,
        file: "plans.md",
        title: "Plans that come with linerate",
        introduction: "`linerate run NAME` runs one; `linerate plan NAME --show` prints its text, \
            to begin a plan of your own with.",
    },
    Chapter {
        registry: Registry::Labs,
        file: "labs.md",
        title: "Labs that come with linerate",
        introduction: "`linerate run PLAN --lab NAME` builds one from network namespaces, and \
            takes it down again. What is measured there is \
                       marked as emulated.",
    },
    Chapter {
        registry: Registry::Workloads,
        file: "workloads.md",
        title: "Workloads",
        introduction: "What a `[[sweep.job]]` names as its `workload`. Its parameters go into \
            `params`, or into `[sweep.axis]` as \
                       `\"params.NAME\"` to vary. A quantity is a text with its unit (`\"25 \
                       Gbit/s\"`, `\"64 KiB\"`, `\"5 ms\"`; k, M, G are decimal, \
                       Ki, Mi, Gi binary), a bare number is a count.",
    },
    Chapter {
        registry: Registry::Samplers,
        file: "samplers.md",
        title: "Samplers",
        introduction: "What is read on every host once an interval while a trial runs. One that a \
            host cannot open is named in the report, and \
                       in `linerate doctor`.",
    },
    Chapter {
        registry: Registry::Metrics,
        file: "metrics.md",
        title: "Metrics",
        introduction: "What is computed of a trial. Bits have a layer, rates a direction; JSON and \
            tables carry base units (bit/s, s, B, or a \
                       plain number).",
    },
    Chapter {
        registry: Registry::Limits,
        file: "limits.md",
        title: "Limits",
        introduction: "Upper bounds with their derivation and source, by `linerate limit NAME`. \
            The same models give the ceilings of a report.",
    },
    Chapter {
        registry: Registry::Rules,
        file: "rules.md",
        title: "Diagnosis rules",
        introduction: "What may be said to be in the way, and when. A rule that fires says what \
            was seen, why it matters and what to try; several may.",
    },
    Chapter {
        registry: Registry::Sections,
        file: "sections.md",
        title: "Sections of a report",
        introduction: "The same in every format; one that has nothing to say is left out.",
    },
];

/// The file of the commands.
const COMMANDS: &str = "commands.md";
/// Above every page.
const MADE: &str =
    "<!-- Made by `cargo xtask docs` from the registries. Change them, not this. -->\n\n";

/// Every page, the index first.
pub(crate) fn pages() -> Vec<Page> {
    let mut index = format!(
        "{MADE}# Reference\n\nEvery name linerate knows, with units and defaults; `linerate list` \
            prints the same. How it is measured, and \
         why, is in [the methodology](../methodology/README.md).\n\n- [Commands](commands.md): \
         what is typed\n"
    );
    let mut pages = Vec::new();
    for chapter in CHAPTERS {
        let entries = list::entries(chapter.registry);
        let names: Vec<String> =
            entries.iter().map(|entry| format!("`{}`", text(entry, "name"))).collect();
        let named =
            if names.len() > MOST_NAMED { names.len().to_string() } else { names.join(", ") };
        let _ = writeln!(index, "- [{}]({}): {named}", chapter.title, chapter.file);
        pages.push(Page { name: chapter.file.to_owned(), text: page(chapter, &entries) });
    }
    pages.push(Page { name: COMMANDS.to_owned(), text: commands() });
    pages.insert(0, Page { name: "README.md".to_owned(), text: index });
    pages
}

/// The index names what a chapter holds, unless there is more.
const MOST_NAMED: usize = 20;

fn text<'a>(entry: &'a Value, key: &str) -> &'a str {
    entry[key].as_str().unwrap_or_default()
}

fn page(chapter: &Chapter, entries: &[Value]) -> String {
    let mut page = format!("{MADE}# {}\n\n{}\n", chapter.title, chapter.introduction);
    match chapter.registry {
        Registry::Workloads => entries.iter().for_each(|entry| workload(entry, &mut page)),
        Registry::Limits => entries.iter().for_each(|entry| limit(entry, &mut page)),
        Registry::Metrics => {
            let rows = entries.iter().map(|e| {
                vec![
                    code(text(e, "name")),
                    text(e, "unit").into(),
                    text(e, "layer").into(),
                    text(e, "summary").into(),
                ]
            });
            table(&["Metric", "Unit", "Layer", "Meaning"], rows, &mut page);
        }
        _ => {
            let rows = entries
                .iter()
                .map(|entry| vec![code(text(entry, "name")), text(entry, "summary").into()]);
            table(&["Name", "What it is"], rows, &mut page);
        }
    }
    page
}

fn workload(entry: &Value, page: &mut String) {
    let _ = write!(page, "\n## {}\n\n{}.\n", text(entry, "name"), sentence(text(entry, "summary")));
    let parameters = entry["parameters"].as_array().into_iter().flatten();
    let rows = parameters.map(|p| {
        vec![
            code(text(p, "name")),
            text(p, "takes").into(),
            default(text(p, "default")),
            text(p, "meaning").into(),
        ]
    });
    table(&["Parameter", "Takes", "Default", "Meaning"], rows, page);
}

fn limit(entry: &Value, page: &mut String) {
    let _ = write!(page, "\n## {}\n\n{}.\n", text(entry, "name"), sentence(text(entry, "summary")));
    let options = entry["parameters"].as_array().into_iter().flatten();
    let rows = options.map(|option| {
        let fallback = match text(option, "default") {
            "" => "required".to_owned(),
            "-" => "none".to_owned(),
            value => default(value),
        };
        vec![
            code(&format!("--{}", text(option, "name").replace('_', "-"))),
            fallback,
            text(option, "meaning").into(),
        ]
    });
    table(&["Option", "Default", "Meaning"], rows, page);
}

/// A value as it is written in a plan; words that stand for one are left as they are.
fn default(value: &str) -> String {
    if serde_json::from_str::<Value>(value).is_ok() { code(value) } else { value.to_owned() }
}

fn code(name: &str) -> String {
    format!("`{name}`")
}

/// `text` with a capital at its beginning and no full stop at its end.
fn sentence(text: &str) -> String {
    let mut letters = text.trim_end_matches('.').chars();
    letters
        .next()
        .map(|first| first.to_uppercase().collect::<String>() + letters.as_str())
        .unwrap_or_default()
}

fn table(head: &[&str], rows: impl Iterator<Item = Vec<String>>, page: &mut String) {
    let _ = write!(page, "\n| {} |\n|{}\n", head.join(" | "), "---|".repeat(head.len()));
    for row in rows {
        let cells: Vec<String> =
            row.iter().map(|cell| cell.replace('|', "\\|").replace('\n', " ")).collect();
        let _ = writeln!(page, "| {} |", cells.join(" | "));
    }
}

fn commands() -> String {
    let mut root = cli::command();
    root.build();
    let mut page = format!(
        "{MADE}# Commands\n\n`linerate COMMAND --help` prints the same. The calculators of \
            `linerate limit` are under [limits](limits.md).\n\n## Every \
         command\n"
    );
    options(root.get_arguments().filter(|arg| arg.is_global_set()), &mut page);
    let codes = [
        ("0", "done, every goal met"),
        ("1", "done, but a goal or shape was missed"),
        ("2", "the command or plan is wrong; nothing was run"),
        ("3", "the measurement is invalid"),
        ("4", "a host, agent, file or permission is missing"),
        ("130", "interrupted; what was measured is in the ledger"),
    ];
    table(
        &["Exit code", "Meaning"],
        codes.iter().map(|(code, meaning)| vec![(*code).into(), (*meaning).into()]),
        &mut page,
    );
    for command in root.get_subcommands() {
        describe(command, 2, &mut page);
    }
    page
}

/// `command` and those below it, under a heading of `level`.
fn describe(command: &Command, level: usize, page: &mut String) {
    // Its own page has what is below `limit`; `help` is everywhere.
    if command.is_hide_set() || command.get_name() == "help" {
        return;
    }
    let name = command.get_bin_name().unwrap_or(command.get_name());
    let about = command
        .get_long_about()
        .or(command.get_about())
        .map(ToString::to_string)
        .unwrap_or_default();
    let _ = write!(page, "\n{} {name}\n\n{}.\n", "#".repeat(level), sentence(about.trim()));
    let usage = command.clone().render_usage().to_string();
    let _ = write!(page, "\n```\n{}\n```\n", usage.trim_start_matches("Usage: ").trim());
    options(command.get_arguments().filter(|arg| !arg.is_global_set()), page);
    if command.get_name() != "limit" {
        command.get_subcommands().for_each(|below| describe(below, level + 1, page));
    }
}

/// A table of arguments, if there are any to tell of.
fn options<'a>(arguments: impl Iterator<Item = &'a Arg>, page: &mut String) {
    let told = arguments
        .filter(|arg| !arg.is_hide_set() && !matches!(arg.get_id().as_str(), "help" | "version"));
    let rows: Vec<Vec<String>> =
        told.map(|arg| vec![code(&spelling(arg)), default_of(arg), meaning(arg)]).collect();
    if !rows.is_empty() {
        table(&["Argument", "Default", "Meaning"], rows.into_iter(), page);
    }
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
        code(&values.join(","))
    }
}

fn meaning(arg: &Arg) -> String {
    let help = arg.get_long_help().or(arg.get_help()).map(ToString::to_string).unwrap_or_default();
    let mut meaning = help.split_whitespace().collect::<Vec<_>>().join(" ");
    let choices = arg.get_possible_values();
    let choices: Vec<String> = choices
        .iter()
        .filter(|choice| !choice.is_hide_set())
        .map(|choice| code(choice.get_name()))
        .collect();
    if arg.get_action().takes_values() && !choices.is_empty() {
        let _ = write!(meaning, ": {}", choices.join(", "));
    }
    if let Some(variable) = arg.get_env() {
        let _ = write!(meaning, " (or the environment's `{}`)", variable.to_string_lossy());
    }
    meaning
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::path::Path;

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
        for chapter in CHAPTERS {
            for entry in list::entries(chapter.registry) {
                assert!(all.contains(text(&entry, "name")), "{entry}");
                for parameter in entry["parameters"].as_array().into_iter().flatten() {
                    let name = text(parameter, "name");
                    assert!(
                        all.contains(&code(name)) || all.contains(&name.replace('_', "-")),
                        "{parameter}"
                    );
                }
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
