//! The reference in `docs/reference`: pages of Markdown made from the registries and the command
//! line. The reasons behind them are in `docs/methodology`.

use std::fmt::Write;

use serde_json::Value;

use crate::registries::{Registry, entries, groups};

/// A page.
#[derive(Clone, Debug)]
pub struct Page {
    /// Name of its file in `docs/reference`.
    pub name: String,
    /// Its text, in Markdown.
    pub text: String,
}

/// A command, as its help describes it.
#[derive(Clone, Debug, Default)]
pub struct Command {
    /// Full name, such as `linerate tune host`.
    pub name: String,
    /// Purpose.
    pub about: String,
    /// Usage line.
    pub usage: String,
    /// Its own arguments.
    pub arguments: Vec<Argument>,
    /// Its subcommands.
    pub below: Vec<Command>,
}

/// An argument of a command.
#[derive(Clone, Debug)]
pub struct Argument {
    /// Letters, name and value, such as `-t, --time SECONDS`.
    pub spelling: String,
    /// Default value; empty if there is none.
    pub default: String,
    /// Meaning, with the values it can take.
    pub meaning: String,
}

/// A page made from a registry.
struct Chapter {
    registry: Registry,
    file: &'static str,
    title: &'static str,
    introduction: &'static str,
}

const fn chapter(
    registry: Registry,
    file: &'static str,
    title: &'static str,
    introduction: &'static str,
) -> Chapter {
    Chapter { registry, file, title, introduction }
}

/// Every chapter but that of the commands, in the order of a campaign.
const CHAPTERS: &[Chapter] = &[
    chapter(
        Registry::Plans,
        "plans.md",
        "Plans that come with linerate",
        "`linerate run NAME` runs one; `linerate plan NAME --show` prints its text, \
            to begin a plan of your own with.",
    ),
    chapter(
        Registry::Labs,
        "labs.md",
        "Labs that come with linerate",
        "`linerate run PLAN --lab NAME` builds one from network namespaces, and \
            takes it down again. What is measured there is marked as emulated.",
    ),
    chapter(
        Registry::Workloads,
        "workloads.md",
        "Workloads",
        "What a `[[sweep.job]]` names as its `workload`. Its parameters go into \
            `params`, or into `[sweep.axis]` as `\"params.NAME\"` to vary. A quantity is a text \
            with its unit (`\"25 Gbit/s\"`, `\"64 KiB\"`, `\"5 ms\"`; k, M, G are decimal, Ki, Mi, \
            Gi binary), a bare number is a count.",
    ),
    chapter(
        Registry::Samplers,
        "samplers.md",
        "Samplers",
        "What is read on every host once an interval while a trial runs. One that a \
            host cannot open is named in the report, and in `linerate doctor`.",
    ),
    chapter(
        Registry::Metrics,
        "metrics.md",
        "Metrics",
        "What is computed of a trial. Bits have a layer, rates a direction; JSON and \
            tables carry base units (bit/s, s, B, or a plain number).",
    ),
    chapter(
        Registry::Limits,
        "limits.md",
        "Limits",
        "Upper bounds with their derivation and source, by `linerate limit NAME`. \
            The same models give the ceilings of a report.",
    ),
    chapter(
        Registry::Rules,
        "rules.md",
        "Diagnosis rules",
        "What may be said to be in the way, and when. A rule that fires says what \
            was seen, why it matters and what to try; several may.",
    ),
    chapter(
        Registry::Sections,
        "sections.md",
        "Sections of a report",
        "The same in every format; one that has nothing to say is left out.",
    ),
];

/// The file of the commands.
const COMMANDS: &str = "commands.md";
/// Above every page.
const MADE: &str =
    "<!-- Made by `cargo xtask docs` from the registries. Change them, not this. -->\n\n";

/// Returns every page, the index first. `global` are the options of every command.
#[must_use]
pub fn pages(commands: &[Command], global: &[Argument]) -> Vec<Page> {
    let mut index = format!(
        "{MADE}# Reference\n\nEvery name linerate knows, with units and defaults; `linerate list` \
            prints the same. How it is measured, and why, is in [the \
            methodology](../methodology/README.md).\n\n- [Commands](commands.md): what is typed\n"
    );
    let mut pages = Vec::new();
    for chapter in CHAPTERS {
        let entries = entries(chapter.registry);
        let names: Vec<String> =
            entries.iter().map(|entry| format!("`{}`", text(entry, "name"))).collect();
        let named =
            // A long list of names in the index would hide the other chapters.
            if names.len() > MOST_NAMED { names.len().to_string() } else { names.join(", ") };
        let _ = writeln!(index, "- [{}]({}): {named}", chapter.title, chapter.file);
        pages.push(Page { name: chapter.file.to_owned(), text: page(chapter, &entries) });
    }
    pages.push(Page { name: COMMANDS.to_owned(), text: command_page(commands, global) });
    // The index comes first, but it is complete only after all chapters.
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
            for (purpose, entries) in groups(entries) {
                if let Some(purpose) = purpose {
                    let _ = write!(page, "\n## {purpose}\n");
                }
                let rows = entries
                    .iter()
                    .map(|entry| vec![code(text(entry, "name")), text(entry, "summary").into()]);
                table(&["Name", "What it is"], rows, &mut page);
            }
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
            // Empty means required and a dash means that there is no default; both are conventions
            // of the registry.
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
    // Values that parse can be copied into a plan; words such as "maximum" explain the default.
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
            // A bar or a line break in a cell would end it.
            row.iter().map(|cell| cell.replace('|', "\\|").replace('\n', " ")).collect();
        let _ = writeln!(page, "| {} |", cells.join(" | "));
    }
}

fn command_page(commands: &[Command], global: &[Argument]) -> String {
    let mut page = format!(
        "{MADE}# Commands\n\n`linerate COMMAND --help` prints the same. The calculators of \
            `linerate limit` are under [limits](limits.md).\n\n## Every command\n"
    );
    arguments(global, &mut page);
    let codes = [
        ("0", "done, every goal met"),
        ("1", "done, but a goal or shape was missed"),
        ("2", "the command or plan is wrong; nothing was run"),
        ("3", "the measurement is invalid"),
        ("4", "a host, agent, file or permission is missing"),
        ("130", "interrupted; the ledger has the results so far"),
    ];
    table(
        &["Exit code", "Meaning"],
        codes.iter().map(|(code, meaning)| vec![(*code).into(), (*meaning).into()]),
        &mut page,
    );
    commands.iter().for_each(|command| describe(command, 2, &mut page));
    page
}

/// Writes `command` and its subcommands under a heading of `level`.
fn describe(command: &Command, level: usize, page: &mut String) {
    let heading = "#".repeat(level);
    let _ = write!(page, "\n{heading} {}\n\n{}.\n", command.name, sentence(command.about.trim()));
    let _ = write!(page, "\n```\n{}\n```\n", command.usage);
    arguments(&command.arguments, page);
    command.below.iter().for_each(|below| describe(below, level + 1, page));
}

/// Writes a table of arguments, if there are any.
fn arguments(arguments: &[Argument], page: &mut String) {
    if !arguments.is_empty() {
        table(&["Argument", "Default", "Meaning"], arguments.iter().map(argument_row), page);
    }
}

fn argument_row(argument: &Argument) -> Vec<String> {
    let default = match argument.default.as_str() {
        "" => String::new(),
        value => code(value),
    };
    vec![code(&argument.spelling), default, argument.meaning.clone()]
}
