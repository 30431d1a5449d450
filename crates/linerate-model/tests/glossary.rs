//! docs/glossary.md defines every metric and every status word, once and in order.

use std::collections::BTreeSet;

use linerate_model::{METRICS, Validity, Verdict};

const GLOSSARY: &str = include_str!("../../../docs/glossary.md");
/// Suffixes by which the name of a metric's statistic differs from the metric's.
const STATISTICS: [&str; 8] = ["_p50", "_p90", "_p99", "_p999", "_p9999", "_min", "_mean", "_max"];

/// Headings of one level, without code font.
fn headings(level: &str) -> Vec<String> {
    let prefix = format!("{level} ");
    let lines = GLOSSARY.lines().filter_map(|line| line.strip_prefix(prefix.as_str()));
    lines.map(|heading| heading.trim_matches('`').to_owned()).collect()
}

/// The word or words of a status as the glossary has them.
fn is_defined(status: &str) -> bool {
    headings("####").iter().flat_map(|heading| heading.split(", ")).any(|word| word == status)
}

#[test]
fn every_metric_has_one_entry() {
    let terms = headings("###");
    let missing: BTreeSet<&str> = METRICS
        .iter()
        .map(|metric| {
            let base = STATISTICS.iter().find_map(|suffix| metric.name.strip_suffix(suffix));
            let is_term = |name: &str| terms.iter().any(|term| term == name);
            if is_term(metric.name) { metric.name } else { base.unwrap_or(metric.name) }
        })
        .filter(|name| terms.iter().filter(|term| *term == name).count() != 1)
        .collect();
    assert!(missing.is_empty(), "add to docs/glossary.md, once each: {missing:?}");
}

#[test]
fn every_status_word_has_an_entry() {
    let validity = [Validity::Valid, Validity::Suspect, Validity::Invalid, Validity::Impossible];
    for standing in validity {
        assert!(is_defined(standing.word()), "{} is not in docs/glossary.md", standing.word());
    }
    for verdict in [Verdict::Proven, Verdict::Suspected, Verdict::Inconclusive] {
        let word = serde_json::to_value(verdict).expect("an enum is a word");
        let word = word.as_str().expect("an enum is a word");
        assert!(is_defined(word), "{word} is not in docs/glossary.md");
    }
    assert!(is_defined("ruled out") && is_defined("not tested"));
}

#[test]
fn terms_are_in_alphabetical_order_and_have_text() {
    let (_, terms) = GLOSSARY.split_once("\n## Terms and metrics\n").expect("the part of terms");
    let names: Vec<String> = terms
        .lines()
        .filter_map(|line| line.strip_prefix("### "))
        .map(|name| name.trim_matches('`').to_lowercase().replace(['_', '-'], " "))
        .collect();
    assert!(names.is_sorted(), "{:?}", names.windows(2).find(|pair| pair[0] > pair[1]));
    for entry in terms.split("\n### ").skip(1) {
        let text = entry.split_once('\n').map_or("", |(_, text)| text.trim());
        assert!(text.ends_with(['.', ')']) && text.len() > 20, "no definition: {entry}");
    }
}
