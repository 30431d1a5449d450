//! Statements of the paper's text, beside its own averages (E1.b to E1.g of
//! docs/methodology/papers.md#printed-figures).

use serde::Deserialize;

use super::{ReplayItem, Tables, item};
use linerate_analysis::statistics::mean;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Printed {
    claim: Vec<Claim>,
    collapse: Collapse,
    window: Window,
    statement: Vec<Statement>,
}

/// A hedged figure in the text.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Claim {
    id: String,
    what: String,
    says: Says,
    megabits: f64,
    series: Vec<String>,
    why: String,
}

/// Words with which a text qualifies a figure.
#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Says {
    About,
    Nearly,
    Over,
}

/// The direction that collapses with data in both directions, according to the text.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Collapse {
    id: String,
    what: String,
    says: String,
    direction: Vec<Direction>,
    why: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Direction {
    name: String,
    alone: Vec<String>,
    both: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Window {
    initial_kb: u64,
    initial_bytes: u64,
    final_kb: u64,
    final_bytes: u64,
}

/// A statement beside the text of a standard.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Statement {
    id: String,
    what: String,
    printed: String,
    standard: String,
    why: String,
}

impl Says {
    /// Returns whether the words fit a value.
    fn fits(self, value: f64, figure: f64) -> bool {
        /// Range of "about" and "nearly".
        const REACH: f64 = 0.05;
        match self {
            Self::About => (value / figure - 1.0).abs() <= REACH,
            // "Nearly" never means more than the figure.
            Self::Nearly => value <= figure && value >= figure * (1.0 - REACH),
            Self::Over => value >= figure,
        }
    }

    const fn word(self) -> &'static str {
        match self {
            Self::About => "about",
            Self::Nearly => "nearly",
            Self::Over => "over",
        }
    }
}

/// Compares every statement of the text.
pub(super) fn check(tables: &Tables) -> Vec<ReplayItem> {
    let printed: Printed = toml::from_str(include_str!("../../../data/intel-ncsi.toml"))
        .expect("the embedded data file is well formed");
    let mut items: Vec<ReplayItem> =
        printed.claim.iter().map(|claim| compare(claim, tables)).collect();
    items.push(direction_named(&printed.collapse, tables));
    items.push(window_unit(&printed.window));
    items.extend(printed.statement.into_iter().map(against_standard));
    // Claims come from several lists of the file; the report follows the numbering of the errata.
    items.sort_by(|a, b| a.id.cmp(&b.id));
    items
}

fn compare(claim: &Claim, tables: &Tables) -> ReplayItem {
    let averages = averages(&claim.series, tables);
    let mean = mean(&averages).expect("a claim names its series");
    item(
        claim.id.clone(),
        claim.what.clone(),
        format!("{} {} Mbit/s", claim.says.word(), claim.megabits),
        format!("mean of {averages:?} = {mean:.2} Mbit/s"),
        claim.says.fits(mean, claim.megabits),
        claim.why.clone(),
    )
}

fn direction_named(collapse: &Collapse, tables: &Tables) -> ReplayItem {
    let changes: Vec<(&str, f64, f64)> = collapse
        .direction
        .iter()
        .map(|direction| {
            let mean_of =
                |names| mean(&averages(names, tables)).expect("a direction names its series");
            (direction.name.as_str(), mean_of(&direction.alone), mean_of(&direction.both))
        })
        .collect();
    let fell_most = changes
        .iter()
        // The direction that lost most is the one that collapsed.
        .min_by(|a, b| (a.2 / a.1).total_cmp(&(b.2 / b.1)))
        .expect("a link has two directions")
        .0;
    let said = |(name, alone, both): &(&str, f64, f64)| {
        format!("{name} {alone:.2} to {both:.2} Mbit/s ({:+.0} %)", (both / alone - 1.0) * 100.0)
    };
    item(
        collapse.id.clone(),
        collapse.what.clone(),
        format!("poor {}", collapse.says),
        changes.iter().map(said).collect::<Vec<_>>().join("; "),
        fell_most == collapse.says,
        collapse.why.clone(),
    )
}

fn averages(names: &[String], tables: &Tables) -> Vec<f64> {
    names.iter().map(|name| tables[name].printed).collect()
}

fn window_unit(window: &Window) -> ReplayItem {
    let kibibytes = |bytes: u64| bytes as f64 / 1024.0;
    let kilobits = |bytes: u64| bytes as f64 * 8.0 / 1e3;
    // The paper prints whole kilobits.
    let agrees = kilobits(window.initial_bytes).round() as u64 == window.initial_kb
        && kilobits(window.final_bytes).round() as u64 == window.final_kb;
    item(
        "E1.e",
        "unit of the TCP windows",
        format!("{} Kb and {} Kb", window.initial_kb, window.final_kb),
        format!(
            "{} B = {:.1} KiB = {:.0} kbit; {} B = {:.1} KiB = {:.0} kbit",
            window.initial_bytes,
            kibibytes(window.initial_bytes),
            kilobits(window.initial_bytes),
            window.final_bytes,
            kibibytes(window.final_bytes),
            kilobits(window.final_bytes)
        ),
        agrees,
        "Read as bits, the windows are an eighth as large, and the device's buffer of 8 KiB would \
            have been enough.",
    )
}

fn against_standard(statement: Statement) -> ReplayItem {
    let agrees = statement.printed == statement.standard;
    item(statement.id, statement.what, statement.printed, statement.standard, agrees, statement.why)
}
