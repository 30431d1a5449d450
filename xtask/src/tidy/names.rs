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
    ("crates/linerate-campaign/src/drafts.rs", &["pacing_rate"]),
    ("crates/linerate-campaign/src/foreign.rs", &["pacing_rate"]),
    // Options of limits.
    ("crates/linerate-analysis/src/limits/", &["rtt"]),
    // Counters of workloads, and keys of a search's goal.
    ("crates/linerate-model/src/tally.rs", &[]),
    ("crates/linerate-model/src/plan/search.rs", &["loss_ratio"]),
    // Words in names of a driver's counters.
    ("crates/linerate-observe/src/samplers/ethtool.rs", &["lost"]),
    // Heads of tables, keys of JSON and words in texts.
    ("crates/linerate-analysis/src/study/series.rs", &["datagrams_received"]),
    ("crates/linerate-report/src/", &["duplicates", "late", "lost", "reordered"]),
    ("crates/linerate-report/src/links.rs", &["bandwidth"]),
    ("crates/linerate-report/src/render/fio.rs", &["iops"]),
    ("crates/linerate-sys/src/storage/raw/ring.rs", &["in_flight"]),
    ("crates/linerate-answers/src/ledger.rs", &["lost"]),
    // Keys of iperf3's messages.
    ("crates/linerate-iperf3/src/", &["bandwidth", "retransmits"]),
    // An option of iperf3.
    ("crates/linerate-campaign/src/iperf3.rs", &["bandwidth"]),
];

/// Texts that are called like a metric or a series but are something else, as [`OTHER_THINGS`]
/// lists them. Only ever lowered, but for words of another program: the keys of iperf3's messages,
/// the parameter that becomes one of them and an option were added.
const N_OTHER_THINGS: usize = 55;
/// Constants that name two or more metrics, with the reason why they are no column of the table.
/// Each one has to be looked at when a metric is added. Only ever shortened.
const LISTS: [(&str, &str); 5] = [
    // The share of each metric above which a rule is worth a try: a threshold of that rule.
    ("crates/linerate-analysis/src/diagnosis/rules/unknown.rs", "NEAREST"),
    // Stages of a path and readings there: types of the analysis.
    ("crates/linerate-analysis/src/study/headline/mark.rs", "JUDGED"),
    // Words of RFC 8219.
    ("crates/linerate-report/src/sections/latency/one_way.rs", "FIGURES"),
    // Clauses of sentences around a value.
    ("crates/linerate-report/src/sentences/evidence.rs", "FIGURES"),
    // Words of Iometer.
    ("crates/linerate-report/src/sections/storage.rs", "TABLES"),
];

/// Arrays of two or more metrics, the constants of [`LISTS`] among them. Only ever lowered.
const N_ARRAYS: usize = 30;

/// Names are constants outside their tables.
pub(super) fn spelt_once(repository: &Repository) -> Vec<Finding> {
    let names: BTreeSet<&str> =
        TABLES.iter().filter_map(|path| repository.file(path)).flat_map(declared).collect();
    let product = repository.rust().filter(is_product);
    let remedy = "use the constant: `metric::GOODPUT`, `series::softnet::DROPPED`; what is \
        something else is listed in xtask/src/tidy/names.rs";
    let of = |file| literals(file).into_iter().map(move |(line, text)| (file, line, text));
    let named = product.flat_map(of).filter(|(_, _, text)| names.contains(text));
    let (other, wrong): (Vec<_>, Vec<_>) =
        named.partition(|(file, _, text)| is_something_else(&file.path, text));
    let finding = |(file, line, text): (&File, usize, &str)| {
        Finding::new(format!("{}:{line}", file.path), format!("the text \"{text}\""), remedy)
    };
    let miscounted = (other.len() > N_OTHER_THINGS).then(|| {
        let what =
            format!("{} texts that are something else, {N_OTHER_THINGS} allowed", other.len());
        Finding::new("xtask/src/tidy/names.rs", what, "give the new one another name")
    });
    wrong.into_iter().map(finding).chain(miscounted).collect()
}

/// Lists of metrics are columns of their table, but for [`LISTS`].
pub(super) fn lists(repository: &Repository) -> Vec<Finding> {
    let product = repository.rust().filter(is_product);
    let found: Vec<(&str, String)> = product
        .flat_map(|file| lists_in(file).into_iter().map(move |name| (file.path.as_str(), name)))
        .collect();
    let remedy = "make it a use or another column of the metrics' table, and read it from there";
    let is_allowed = |(path, name): &(&str, String)| LISTS.contains(&(*path, name.as_str()));
    let new = found
        .iter()
        .filter(|list| !is_allowed(list))
        .map(|(path, name)| Finding::new(*path, format!("`{name}` lists metrics"), remedy));
    let has = |path: &str, name: &str| found.iter().any(|(at, one)| *at == path && one == name);
    let gone =
        LISTS.iter().filter(|(path, name)| repository.file(path).is_some() && !has(path, name));
    let gone = gone.map(|(path, name)| {
        Finding::new(*path, format!("`{name}` lists no metrics"), "take it off the allowed lists")
    });
    let n_arrays: usize =
        repository.rust().filter(is_product).map(|file| arrays_in(&file.code().product)).sum();
    let more = (n_arrays > N_ARRAYS).then(|| {
        let what = format!("{n_arrays} arrays of metrics, {N_ARRAYS} allowed");
        Finding::new("crates", what, remedy)
    });
    new.chain(gone).chain(more).collect()
}

/// Returns true for the product's files that may not list metrics.
fn is_product(file: &&File) -> bool {
    file.path.starts_with("crates/") && !file.only_tests && !TABLES.contains(&file.path.as_str())
}

/// Returns the number of arrays that name two or more metrics. An array in another one does not
/// count.
fn arrays_in(product: &str) -> usize {
    let (mut n_arrays, mut depth, mut from) = (0, 0_usize, 0);
    for (at, letter) in product.char_indices() {
        match letter {
            '[' => {
                if depth == 0 {
                    from = at;
                }
                depth += 1;
            }
            ']' => {
                depth = depth.saturating_sub(1);
                n_arrays += usize::from(depth == 0 && n_metrics(&product[from..at]) > 1);
            }
            _ => {}
        }
    }
    n_arrays
}

/// Returns how often `text` names a metric.
fn n_metrics(text: &str) -> usize {
    let words = text.split("metric::").skip(1);
    words.filter(|word| word.starts_with(|first: char| first.is_ascii_uppercase())).count()
}

/// Returns the names of the constants of a file that name two or more metrics.
fn lists_in(file: &File) -> Vec<String> {
    let product = &file.code().product;
    let starts = product.match_indices("const ").chain(product.match_indices("static "));
    starts
        .filter_map(|(at, keyword)| {
            let (name, rest) = product[at + keyword.len()..].split_once(':')?;
            let is_name = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
            let value = rest.split_once('=')?.1.split("];").next()?;
            let statement = value.split(";\n").next().unwrap_or(value);
            (name.chars().all(is_name) && n_metrics(statement) > 1).then(|| name.to_owned())
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

/// The texts in the product's code of `file` that escape nothing, with their lines.
fn literals(file: &File) -> Vec<(usize, &str)> {
    let tokens = file.code().tokens.iter();
    let texts = tokens.filter_map(|token| Some((token.line, token.text()?)));
    texts.filter(|(_, text)| !text.contains('\\')).collect()
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
    fn what_is_something_else_is_listed_by_place_and_counted() {
        let text = "fn a() { b(\"goodput\"); }\n";
        assert!(found("crates/linerate-model/src/tally.rs", text).is_empty());
        assert_eq!(found("crates/linerate-report/src/sections/points.rs", text).len(), 1);
        let many = text.repeat(N_OTHER_THINGS + 1);
        let found = found("crates/linerate-model/src/tally.rs", &many);
        assert!(found[0].contains("are something else"), "{found:?}");
    }

    #[test]
    fn a_constant_of_two_metrics_is_found_and_one_that_is_allowed_must_be_there() {
        let text = "const ONE: &Metric = metric::GOODPUT;\nconst TWO: [&Metric; 2] = [\n    \
            metric::GOODPUT,\n    metric::IOPS,\n];\nfn a() { b([metric::A, metric::B]); }\n\
            #[cfg(test)]\nmod tests {\n    const T: [u8; 2] = [metric::A, metric::B];\n}\n";
        let (path, name) = LISTS[0];
        let allowed = text.replace("TWO", name);
        let places = |files: &[(&str, &str)]| -> Vec<String> {
            lists(&Repository::of(files)).into_iter().map(|one| one.what).collect()
        };
        assert_eq!(places(&[("crates/x/src/a.rs", text)]), ["`TWO` lists metrics"]);
        assert!(places(&[(path, &allowed)]).is_empty());
        assert_eq!(places(&[(path, "")]), [format!("`{name}` lists no metrics")]);
        // The constant and the array of `a` count, one metric and the test's array do not.
        assert_eq!(arrays_in(text.split("#[cfg(test)]").next().expect("a part")), 2);
        let many = "fn a() { b([metric::A, metric::B]); }\n".repeat(N_ARRAYS + 1);
        let found = places(&[("crates/x/src/a.rs", &many)]);
        assert!(found[0].contains("arrays of metrics"), "{found:?}");
    }
}
