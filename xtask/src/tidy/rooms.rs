//! Dependencies between our crates, as the table in ARCHITECTURE.md allows.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{Finding, repository::Repository};

/// The file with the table of rooms.
const ARCHITECTURE: &str = "ARCHITECTURE.md";
/// The prefix of our crates, left out in the table's second column.
const PREFIX: &str = "linerate-";

/// Libraries that only some rooms may use, with those rooms.
const EXCLUSIVE: [(&str, &[&str]); 7] = [
    ("anyhow", &["xtask"]),
    ("axum", &["linerate-dashboard"]),
    ("clap", &["linerate", "linerate-agent", "xtask"]),
    ("io-uring", &["linerate-sys"]),
    ("libc", &["linerate-sys"]),
    ("rusqlite", &["linerate-store"]),
    ("tokio", &["linerate-dashboard"]),
];

/// Crates of ours that a crate may use.
#[derive(Debug, PartialEq)]
enum Allowed {
    All,
    Only(Vec<String>),
}

/// Every edge between our crates is in the table, and every crate has its row.
pub(super) fn edges(repository: &Repository) -> Vec<Finding> {
    let Some(table) = repository
        .file(ARCHITECTURE)
        .map(|file| rooms(&file.text))
        // An empty table would allow everything.
        .filter(|table| !table.is_empty())
    else {
        let what = "there is no table of rooms: `| Crate | Room | Uses (of ours) | ...`";
        return vec![Finding::new(
            ARCHITECTURE,
            what,
            "write the table; tidy reads the allowed edges from it",
        )];
    };
    let mut findings = Vec::new();
    for package in repository.members() {
        let name = package["name"].as_str().unwrap_or_default();
        let Some(allowed) = table.get(name) else {
            findings.push(Finding::new(
                ARCHITECTURE,
                format!("`{name}` has no row"),
                "add it to the table of rooms",
            ));
            continue;
        };
        let forbidden = dependencies(package).filter(|other| {
            // Other libraries have checks of their own.
            (other.starts_with(PREFIX) || *other == "linerate")
                && !matches!(allowed, Allowed::Only(list) if list.iter().any(|one| one == other))
                && *allowed != Allowed::All
        });
        findings.extend(forbidden.map(|other| {
            let remedy = "drop the dependency, or change the table and say why";
            Finding::new(
                name,
                format!("uses `{other}`, which the table of rooms does not allow"),
                remedy,
            )
        }));
    }
    findings
}

/// Libraries that belong to one room are used there only.
pub(super) fn exclusive_libraries(repository: &Repository) -> Vec<Finding> {
    let mut findings = Vec::new();
    for package in repository.members() {
        let name = package["name"].as_str().unwrap_or_default();
        for (library, rooms) in EXCLUSIVE {
            if !rooms.contains(&name) && dependencies(package).any(|used| used == library) {
                let what = format!("uses `{library}`, which belongs to {}", rooms.join(" and "));
                findings.push(Finding::new(name, what, "go through that room"));
            }
        }
    }
    findings
}

/// Dependencies of a package, without those of its tests.
fn dependencies(package: &Value) -> impl Iterator<Item = &str> {
    let all = package["dependencies"].as_array().map_or(&[][..], Vec::as_slice);
    all.iter()
        // Tests may use what the product must not.
        .filter(|dependency| dependency["kind"] != "dev")
        .filter_map(|dependency| dependency["name"].as_str())
}

/// Reads the table: the first column is the crate in backticks, the third what it may use.
fn rooms(text: &str) -> BTreeMap<String, Allowed> {
    let mut table = BTreeMap::new();
    let mut inside = false;
    for line in text.lines() {
        let cells: Vec<&str> = line.trim().trim_matches('|').split('|').map(str::trim).collect();
        if !line.trim_start().starts_with('|') {
            inside = false;
        } else if cells.len() >= 3 && cells[0] == "Crate" && cells[2].contains("(of ours)") {
            // The heading of the third column identifies the table among others.
            inside = true;
        } else if inside && cells.len() >= 3 && cells[0].starts_with('`') {
            table.insert(cells[0].trim_matches('`').to_owned(), allowed(cells[2]));
        }
    }
    table
}

fn allowed(cell: &str) -> Allowed {
    if cell == "all" {
        return Allowed::All;
    }
    let names = cell
        .split(',')
        .map(|name| name.trim().trim_matches('`'))
        .filter(|name| !name.is_empty() && *name != "-");
    Allowed::Only(
        names.map(|name| format!("{PREFIX}{}", name.trim_start_matches(PREFIX))).collect(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "\
text
| Crate | Room | Uses (of ours) | Forbidden |
|---|---|---|---|
| `linerate-model` | words | - | I/O |
| `linerate-store` | memory | model | verdicts |
| `linerate` | door | all | logic |

| Other | Table | Uses |
| `linerate-lab` | x | model |
";

    fn repository(members: &[(&str, &[(&str, &str)])]) -> Repository {
        let packages: Vec<Value> = members
            .iter()
            .map(|(name, dependencies)| {
                let dependencies: Vec<Value> = dependencies
                    .iter()
                    .map(|(name, kind)| serde_json::json!({ "name": name, "kind": kind }))
                    .collect();
                serde_json::json!({ "id": name, "name": name, "dependencies": dependencies })
            })
            .collect();
        let ids: Vec<&str> = members.iter().map(|(name, _)| *name).collect();
        let mut repository = Repository::of(&[("ARCHITECTURE.md", TABLE)]);
        repository.metadata = serde_json::json!({ "packages": packages, "workspace_members": ids });
        repository
    }

    #[test]
    fn an_edge_outside_the_table_is_found_and_tests_may_have_it() {
        let good = repository(&[
            (
                "linerate-store",
                &[("linerate-model", ""), ("serde", ""), ("linerate-analysis", "dev")],
            ),
            ("linerate", &[("linerate-store", "")]),
        ]);
        assert_eq!(edges(&good), []);
        let bad = repository(&[("linerate-store", &[("linerate-analysis", "")])]);
        let found = edges(&bad);
        assert_eq!(found.len(), 1);
        assert!(found[0].what.contains("`linerate-analysis`"), "{found:?}");
    }

    #[test]
    fn a_crate_without_a_row_and_a_text_without_a_table_are_found() {
        assert_eq!(
            edges(&repository(&[("linerate-lab", &[])]))[0].what,
            "`linerate-lab` has no row"
        );
        assert!(
            edges(&Repository::of(&[("ARCHITECTURE.md", "prose")]))[0].what.contains("no table")
        );
    }

    #[test]
    fn a_library_of_another_room_is_found() {
        let bad = repository(&[("linerate-store", &[("clap", ""), ("rusqlite", "")])]);
        let found = exclusive_libraries(&bad);
        assert_eq!(found.len(), 1);
        assert!(found[0].what.contains("`clap`"));
    }
}
