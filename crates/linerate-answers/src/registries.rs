//! Answer of `linerate list`: every name that a plan or command can use, with its meaning.

use linerate_analysis::diagnosis::rules::RULES;
use linerate_analysis::limits::LIMITS;
use linerate_campaign::catalog::{self, LABS, PLANS, Preset};
use linerate_load::{Parameter, WORKLOADS};
use linerate_model::{METRICS, Metric};
use linerate_observe::SAMPLERS;
use linerate_report::Document;
use linerate_report::document::{Block, Origin, Section, Table};
use linerate_report::sections::SECTIONS;
use serde_json::{Value, json};

/// A registry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Registry {
    /// Loads and their parameters.
    Workloads,
    /// Readings taken during a trial.
    Samplers,
    /// Calculators of upper bounds.
    Limits,
    /// Diagnosis rules.
    Rules,
    /// Sections of a report.
    Sections,
    /// Plans that come with linerate.
    Plans,
    /// Labs that come with linerate.
    Labs,
    /// Metrics of a trial.
    Metrics,
}

impl Registry {
    /// Every registry, in the order of the command's help.
    pub const ALL: [Self; 8] = [
        Self::Workloads,
        Self::Samplers,
        Self::Limits,
        Self::Rules,
        Self::Sections,
        Self::Plans,
        Self::Labs,
        Self::Metrics,
    ];

    /// Returns its name on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Workloads => "workloads",
            Self::Samplers => "samplers",
            Self::Limits => "limits",
            Self::Rules => "rules",
            Self::Sections => "sections",
            Self::Plans => "plans",
            Self::Labs => "labs",
            Self::Metrics => "metrics",
        }
    }

    /// Returns its content in a few words.
    #[must_use]
    pub const fn summary(self) -> &'static str {
        match self {
            Self::Workloads => "Loads and their parameters",
            Self::Samplers => "Readings taken during a trial",
            Self::Limits => "Calculators of upper bounds",
            Self::Rules => "Diagnosis rules",
            Self::Sections => "Sections of a report",
            Self::Plans => "Plans that come with linerate",
            Self::Labs => "Labs that come with linerate",
            Self::Metrics => "Metrics of a trial",
        }
    }
}

/// Returns the entries of `what` with their parameters, as tables and as JSON.
pub fn document(what: Registry) -> Document {
    let entries = entries(what);
    let columns: &[&str] = match what {
        Registry::Metrics => &["name", "unit", "layer", "summary"],
        _ => &["name", "summary"],
    };
    let mut blocks = Vec::new();
    for (at, (purpose, entries)) in groups(&entries).enumerate() {
        let cells = |entry: &Value| columns.iter().map(|column| text(entry, column)).collect();
        let rows: Vec<Vec<String>> = entries.iter().map(cells).collect();
        let id = if at == 0 { what.name().to_owned() } else { format!("{}-{at}", what.name()) };
        let caption = purpose.unwrap_or(what.summary());
        blocks.push(Block::Table(Table::of_words(id, caption, columns, &rows)));
    }
    blocks.extend(entries.iter().filter_map(parameters));
    let section = Section { id: "answer", title: what.summary(), blocks };
    let title = format!("linerate list {}", what.name());
    Document::answer(title, what.summary(), Origin::Read, vec![section], Value::Array(entries))
}

/// Returns the names of all plans and labs by their purposes, and the registries.
pub fn overview() -> Document {
    let (mut blocks, mut study) = (Vec::new(), serde_json::Map::new());
    for what in [Registry::Plans, Registry::Labs] {
        let entries = entries(what);
        let groups: Vec<(String, Vec<String>)> = groups(&entries).map(names_of).collect();
        let rows: Vec<Vec<String>> =
            groups.iter().map(|(purpose, names)| vec![purpose.clone(), names.join(", ")]).collect();
        let columns = ["purpose", "names"];
        blocks.push(Block::Table(Table::of_words(what.name(), what.summary(), &columns, &rows)));
        let json = |(purpose, names)| json!({ "purpose": purpose, "names": names });
        study.insert(what.name().to_owned(), groups.into_iter().map(json).collect());
    }
    let rows = Registry::ALL
        .map(|what| vec![format!("linerate list {}", what.name()), what.summary().to_owned()]);
    let caption = "With a line for each entry";
    let columns = ["command", "content"];
    blocks.push(Block::Table(Table::of_words("registries", caption, &columns, &rows)));
    let registries =
        Registry::ALL.map(|what| json!({ "name": what.name(), "summary": what.summary() }));
    study.insert("registries".to_owned(), registries.into());
    let summary = "Plans and labs by purpose";
    let section = Section { id: "answer", title: summary, blocks };
    Document::answer("linerate list".to_owned(), summary, Origin::Read, vec![section], study.into())
}

/// Returns a purpose and the names of its entries.
fn names_of((purpose, entries): (Option<&str>, &[Value])) -> (String, Vec<String>) {
    let names = entries.iter().map(|entry| text(entry, "name")).collect();
    (purpose.unwrap_or_default().to_owned(), names)
}

/// Returns the entries of each purpose, in their order; all at once without purposes.
pub(crate) fn groups(entries: &[Value]) -> impl Iterator<Item = (Option<&str>, &[Value])> {
    let purpose = |entry: &'_ Value| entry["purpose"].as_str().map(str::to_owned);
    let groups = entries.chunk_by(move |one, next| purpose(one) == purpose(next));
    groups.map(|entries| (entries[0]["purpose"].as_str(), entries))
}

/// Returns the parameters of `entry`, if it has any.
fn parameters(entry: &Value) -> Option<Block> {
    let parameters = entry["parameters"].as_array().filter(|list| !list.is_empty())?;
    let mut columns = vec!["name", "default", "takes", "meaning"];
    // Limits have no ranges, so their tables have no such column.
    columns.retain(|column| parameters.iter().any(|one| one[*column].is_string()));
    let cells = |one: &Value| columns.iter().map(|column| text(one, column)).collect();
    let rows: Vec<Vec<String>> = parameters.iter().map(cells).collect();
    let name = text(entry, "name");
    Some(Block::Table(Table::of_words(
        format!("parameters-{name}"),
        format!("Parameters of {name}"),
        &columns,
        &rows,
    )))
}

fn text(entry: &Value, key: &str) -> String {
    entry[key].as_str().unwrap_or_default().to_owned()
}

/// Returns the entries of `what`: `name`, `summary`, and the fields of their kind.
#[must_use]
pub fn entries(what: Registry) -> Vec<Value> {
    match what {
        Registry::Workloads => WORKLOADS
            .iter()
            .map(|workload| {
                let parameters: Vec<Value> =
                    workload.parameters().iter().map(parameter_json).collect();
                described(workload.name(), workload.summary(), &parameters)
            })
            .collect(),
        Registry::Samplers => named(SAMPLERS.iter().map(|one| (one.name, one.summary))),
        Registry::Limits => LIMITS
            .iter()
            .map(|limit| {
                let parameters: Vec<Value> = limit
                    .options
                    .iter()
                    .map(|o| json!({ "name": o.name, "default": o.default, "meaning": o.meaning }))
                    .collect();
                described(limit.name, limit.summary, &parameters)
            })
            .collect(),
        Registry::Rules => named(RULES.iter().map(|one| (one.name, one.summary))),
        Registry::Sections => named(SECTIONS.iter().map(|one| (one.name, one.summary))),
        Registry::Plans => presets(PLANS),
        Registry::Labs => presets(LABS),
        Registry::Metrics => metrics(),
    }
}

fn named(entries: impl Iterator<Item = (&'static str, &'static str)>) -> Vec<Value> {
    entries.map(|(name, summary)| json!({ "name": name, "summary": summary })).collect()
}

fn described(name: &str, summary: &str, parameters: &[Value]) -> Value {
    json!({ "name": name, "summary": summary, "parameters": parameters })
}

fn parameter_json(p: &Parameter) -> Value {
    json!({
        "name": p.name,
        "takes": p.takes.to_string(),
        "default": p.default,
        "meaning": p.meaning,
    })
}

fn presets(presets: &[Preset]) -> Vec<Value> {
    presets.iter().map(preset_json).collect()
}

fn preset_json(preset: &Preset) -> Value {
    let Preset { name, purpose, .. } = preset;
    let summary = catalog::summary(preset);
    json!({ "name": name, "purpose": purpose.heading(), "summary": summary })
}

fn metrics() -> Vec<Value> {
    let mut metrics: Vec<&Metric> = METRICS.to_vec();
    // The table is in the order of the computation; a reader looks names up.
    metrics.sort_unstable();
    metrics.into_iter().map(metric_json).collect()
}

fn metric_json(m: &Metric) -> Value {
    let layer = m.layer.map(|layer| layer.to_string());
    json!({ "name": m.name, "unit": m.unit.symbol(), "layer": layer, "summary": m.meaning })
}

#[cfg(test)]
mod tests {
    use linerate_report::text::whole;

    use super::*;

    #[test]
    fn plans_and_labs_stand_below_their_purpose_once_and_in_alphabetical_order() {
        for what in [Registry::Plans, Registry::Labs] {
            let entries = entries(what);
            let groups: Vec<(Option<&str>, &[Value])> = groups(&entries).collect();
            let mut purposes: Vec<_> = groups.iter().map(|(purpose, _)| purpose).collect();
            purposes.sort_unstable();
            purposes.dedup();
            assert_eq!(purposes.len(), groups.len(), "a purpose is in one piece");
            for (purpose, entries) in groups {
                let names: Vec<String> = entries.iter().map(|entry| text(entry, "name")).collect();
                assert!(names.is_sorted(), "{purpose:?}: {names:?}");
                let shown = whole(&document(what));
                assert!(shown.contains(purpose.expect("a purpose")), "{shown}");
            }
        }
        let samplers = entries(Registry::Samplers);
        assert_eq!(groups(&samplers).count(), 1, "samplers have no purposes");
    }

    #[test]
    fn the_overview_has_each_plan_and_lab_in_the_row_of_its_purpose() {
        let answer = overview();
        for what in [Registry::Plans, Registry::Labs] {
            for entry in entries(what) {
                let groups = answer.study[what.name()].as_array().expect("a list");
                let has = |group: &&Value| {
                    group["names"].as_array().expect("a list").contains(&entry["name"])
                };
                let within: Vec<&Value> = groups.iter().filter(has).collect();
                assert_eq!(within.len(), 1, "{entry}");
                assert_eq!(within[0]["purpose"], entry["purpose"]);
            }
        }
        let shown = whole(&answer);
        for what in Registry::ALL {
            assert!(shown.contains(&format!("linerate list {}", what.name())), "{shown}");
        }
    }

    #[test]
    fn every_entry_and_parameter_is_in_the_text() {
        for what in Registry::ALL {
            let answer = document(what);
            let shown = whole(&answer);
            for entry in answer.study.as_array().expect("a list") {
                assert!(shown.contains(&text(entry, "name")), "{entry}");
                for one in entry["parameters"].as_array().into_iter().flatten() {
                    assert!(shown.contains(&text(one, "name")), "{one}");
                }
            }
        }
    }
}
