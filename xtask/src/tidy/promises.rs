//! Promises of the documentation: each names a test, and the test exists.

use std::collections::BTreeSet;

use super::{Finding, repository::Repository};

/// Pages that name tests.
const PAGES: [&str; 2] = ["docs/security.md", "ARCHITECTURE.md"];
/// Heading of the column with the tests of a table's promises.
const HEADING: &str = "Test";
/// Fewest underscores in the name of a test. Parameters and settings have fewer.
const UNDERSCORES: usize = 3;
/// Start of a command that proves a promise.
const COMMAND: &str = "cargo xtask ";

/// Every test that a page names exists, and every promise in a table has one.
pub(super) fn tested(repository: &Repository) -> Vec<Finding> {
    let functions = functions(repository);
    let mut findings = Vec::new();
    for page in PAGES.iter().filter_map(|path| repository.file(path)) {
        let mut column = None;
        for (line_idx, line) in page.text.lines().enumerate() {
            let place = format!("{}:{}", page.path, line_idx + 1);
            // A name in backticks with several underscores is meant as a test.
            let unknown = quoted(line).filter(|text| is_test(text) && !functions.contains(text));
            findings.extend(unknown.map(|name| {
                let what = format!("no function is called `{name}`");
                Finding::new(&place, what, "name the test as it is called now")
            }));
            // A line that is no row ends the table.
            let Some(cells) = cells(line) else {
                column = None;
                continue;
            };
            // The first row has the headings.
            let Some(at) = column else {
                column = Some(cells.iter().position(|cell| *cell == HEADING));
                continue;
            };
            let cell = at.and_then(|at| cells.get(at));
            // The row of dashes under the headings is no promise.
            if cell.is_some_and(|cell| !cell.starts_with("---") && !has_proof(cell, repository)) {
                let what = "a promise without a test or command";
                findings.push(Finding::new(&place, what, "name the test that would fail"));
            }
        }
    }
    findings
}

/// Returns the names of all functions in Rust files.
fn functions(repository: &Repository) -> BTreeSet<&str> {
    let names = repository.rust().flat_map(|file| file.text.split("fn ").skip(1));
    names.filter_map(|text| text.split(|c: char| !is_in_name(c)).next()).collect()
}

fn is_in_name(c: char) -> bool {
    c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_'
}

/// Returns the texts between backticks in `line`.
fn quoted(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2)
}

fn is_test(text: &str) -> bool {
    text.chars().all(is_in_name) && text.matches('_').count() >= UNDERSCORES
}

/// Returns the cells of a table's row.
fn cells(line: &str) -> Option<Vec<&str>> {
    let row = line.strip_prefix('|')?.trim_end().strip_suffix('|')?;
    Some(row.split('|').map(str::trim).collect())
}

/// Returns whether a cell names a test, a file of tests or a command.
fn has_proof(cell: &str, repository: &Repository) -> bool {
    quoted(cell)
        .any(|text| is_test(text) || text.starts_with(COMMAND) || repository.file(text).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_promise_names_a_test_that_exists() {
        let page = "| Promise | Test |\n|---|---|\n\
            | a | `a_promise_that_is_kept_now` |\n\
            | b | `a_promise_whose_test_is_gone` |\n\
            | c | none |\n\
            | d | `cargo xtask torture ledger` |\n\
            | e | `crates/a/tests/b.rs` |\n\n\
            | What | `lowest_port` |\n|---|---|\n| f | - |\n";
        let repository = Repository::of(&[
            (PAGES[0], page),
            ("crates/a/tests/b.rs", "#[test]\nfn a_promise_that_is_kept_now() {}\n"),
        ]);
        let places: Vec<String> =
            tested(&repository).into_iter().map(|finding| finding.place).collect();
        assert_eq!(places, ["docs/security.md:4", "docs/security.md:5"]);
    }
}
