//! Names of metrics and series: spelt once, in the tables of `linerate-model`.
//!
//! A text that equals such a name is refused everywhere else, because a misspelt constant does not
//! compile and a misspelt text does. A series' name of one word (`user`, `drops`) is too common to
//! be looked for. What is no metric but is called alike is listed in [`OTHER_THINGS`].

use std::collections::BTreeSet;

use super::Finding;
use super::repository::{File, Repository};

/// The tables: metrics as `NAME = rate("name", ...`, series as `NAME "name"`.
const TABLES: [&str; 2] =
    ["crates/linerate-model/src/metric/table.rs", "crates/linerate-model/src/series.rs"];
/// Where a text of this name is something else: a file, or a folder, and the names; none stands for
/// all.
const OTHER_THINGS: &[(&str, &[&str])] = &[
    // Parameters of workloads.
    ("crates/linerate-analysis/src/diagnosis/rules/", &["pacing_rate", "receive_buffer"]),
    ("crates/linerate-analysis/src/study/evidence.rs", &["receive_buffer"]),
    ("crates/linerate-analysis/src/tune/experiments/pacing.rs", &["pacing_rate"]),
    ("crates/linerate-control/src/agent/asked.rs", &["pacing_rate"]),
    ("crates/linerate-load/src/workloads/", &["pacing_rate", "receive_buffer"]),
    ("crates/linerate/src/commands/to.rs", &["pacing_rate", "receive_buffer", "rtt"]),
    // Options of limits.
    ("crates/linerate-analysis/src/limits/", &["rtt"]),
    // Counters of workloads, and keys of a search's goal.
    ("crates/linerate-model/src/tally.rs", &[]),
    ("crates/linerate-model/src/plan/search.rs", &["loss_ratio"]),
    // Words in names of a driver's counters.
    ("crates/linerate-observe/src/samplers/ethtool.rs", &["lost"]),
    // Heads of tables, keys of JSON and words in texts.
    ("crates/linerate-papers/src/reproduce/", &["lost"]),
    ("crates/linerate-report/src/", &["duplicates", "late", "lost", "reordered"]),
    ("crates/linerate-report/src/curves.rs", &["iops", "rtt"]),
    ("crates/linerate-report/src/links.rs", &["bandwidth"]),
    ("crates/linerate-report/src/render/fio.rs", &["iops"]),
    ("crates/linerate-report/src/sections/transfers.rs", &["goodput"]),
    ("crates/linerate-sys/src/storage/raw/ring.rs", &["in_flight"]),
    ("crates/linerate-answers/src/ledger.rs", &["lost"]),
];

/// Names are constants outside their tables.
pub(super) fn spelt_once(repository: &Repository) -> Vec<Finding> {
    let names: BTreeSet<&str> =
        TABLES.iter().filter_map(|path| repository.file(path)).flat_map(declared).collect();
    let product = repository.rust().filter(|file| file.path.starts_with("crates/"));
    let product = product.filter(|file| !file.only_tests && !TABLES.contains(&file.path.as_str()));
    let remedy = "use the constant: `metric::GOODPUT`, `series::softnet::DROPPED`; what is \
        something else is listed in xtask/src/tidy/names.rs";
    let of = |file| literals(file).into_iter().map(move |(line, text)| (file, line, text));
    product
        .flat_map(of)
        .filter(|(file, _, text)| names.contains(text) && !is_something_else(&file.path, text))
        .map(|(file, line, text)| {
            Finding::new(format!("{}:{line}", file.path), format!("the text \"{text}\""), remedy)
        })
        .collect()
}

fn is_something_else(path: &str, text: &str) -> bool {
    let fits = |(place, names): &(&str, &[&str])| {
        path.starts_with(place) && (names.is_empty() || names.contains(&text))
    };
    OTHER_THINGS.iter().any(fits)
}

/// The names that a table declares; of series those of several words.
fn declared(table: &File) -> Vec<&str> {
    let is_name =
        |text: &str| text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    // One word alone is too common in series to be searched for.
    let is_told_apart = |text: &str| table.path == TABLES[0] || text.contains('_');
    let names = literals(table).into_iter().map(|(_, text)| text);
    names.filter(|text| is_name(text) && is_told_apart(text)).collect()
}

/// The texts in the product's code of `file` that begin and end on one line and escape nothing,
/// with their lines.
fn literals(file: &File) -> Vec<(usize, &str)> {
    let code = file.code();
    let mut found = Vec::new();
    let lines = file.text.lines().zip(code.product.lines()).zip(code.comments.lines());
    for (number, ((line, product), comments)) in lines.enumerate() {
        // The line of a test is empty in the product's code.
        if product.is_empty() {
            continue;
        }
        let is_comment =
            |at: usize| comments.chars().nth(line[..at].chars().count()).is_some_and(|c| c != ' ');
        let quotes: Vec<usize> =
            line.match_indices('"').map(|(at, _)| at).filter(|at| !is_comment(*at)).collect();
        found.extend(quotes.chunks_exact(2).map(|pair| (number + 1, &line[pair[0] + 1..pair[1]])));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const METRICS: &str = "metrics! {\n    GOODPUT = rate(\"goodput\", Unit::BitPerSecond, L4, \
        UP,\n        \"payload bits\");\n}\n";
    const SERIES: &str = "samplers! {\n    softnet {\n        counter Count: DROPPED \"dropped\" \
        RX_MISSED \"rx_missed\";\n    }\n}\n";

    fn found(path: &str, text: &str) -> Vec<String> {
        let repository = Repository::of(&[(TABLES[0], METRICS), (TABLES[1], SERIES), (path, text)]);
        spelt_once(&repository)
            .into_iter()
            .map(|finding| format!("{} {}", finding.place, finding.what))
            .collect()
    }

    #[test]
    fn a_name_outside_its_table_is_found_and_in_tests_comments_and_sentences_it_is_not() {
        let text = "// \"goodput\"\nfn a() { b(\"of goodput\", \"goodput\"); }\nconst C: &str \
            = \"rx_missed\"; // \"goodput\"\n\
                    const D: &str = \"dropped\";\n#[cfg(test)]\nmod tests \
                    {\n    const E: &str = \"goodput\";\n}\n";
        assert_eq!(
            found("crates/linerate-report/src/a.rs", text),
            [
                "crates/linerate-report/src/a.rs:2 the text \"goodput\"",
                "crates/linerate-report/src/a.rs:3 the text \"rx_missed\""
            ]
        );
    }

    #[test]
    fn what_is_something_else_is_listed_by_place() {
        let text = "fn a() { b(\"goodput\"); }\n";
        assert!(found("crates/linerate-report/src/sections/transfers.rs", text).is_empty());
        assert_eq!(found("crates/linerate-report/src/sections/points.rs", text).len(), 1);
    }
}
