//! Answer of `linerate doctor`: each check of the host, and the remedy where something is missing.

use linerate_campaign::doctor::Check;
use linerate_report::Document;
use linerate_report::document::{Block, Origin, Section, Table};
use serde_json::json;

/// Returns the checks: those with a remedy first.
pub fn document(checks: &[Check]) -> Document {
    let rows = |good: bool| -> Vec<Vec<String>> {
        checks.iter().filter(|check| check.good == good).map(row).collect()
    };
    // What must be repaired comes first.
    let (missing, fine) = (rows(false), rows(true));
    let table = |id: &str, caption: &str, heads: &[&str], rows: &[Vec<String>]| {
        (!rows.is_empty()).then(|| Block::Table(Table::of_words(id, caption, heads, rows)))
    };
    let heads = ["check", "found", "remedy"];
    let blocks =
        // Checks without a remedy need no third column.
        [table("missing", "Missing", &heads, &missing), table("ok", "OK", &heads[..2], &fine)];
    let section =
        Section { id: "answer", title: "Checks", blocks: blocks.into_iter().flatten().collect() };
    let json = json!({ "checks": checks });
    Document::answer("This host", "as checked", Origin::Read, vec![section], json)
}

fn row(check: &Check) -> Vec<String> {
    let remedy = check.remedy.clone();
    [check.subject.clone(), check.seen.clone()].into_iter().chain(remedy).collect()
}

#[cfg(test)]
mod tests {
    use linerate_report::text;

    use super::*;

    #[test]
    fn what_is_missing_comes_first_with_its_remedy() {
        let checks = [Check::good("clock source", "tsc"), Check::lacking("labs", "no ip", "apt")];
        let answer = document(&checks);
        let text = text::whole(&answer);
        let places = ["labs", "apt", "clock source"].map(|part| text.find(part).expect("shown"));
        assert!(places.is_sorted(), "{text}");
        assert_eq!(answer.study["checks"][1]["remedy"], "apt");
        assert_eq!(answer.study["checks"][0]["remedy"], serde_json::Value::Null);
    }
}
