//! Checks of dependencies: explained in ARCHITECTURE.md, free of copyleft, none that is banned.

use std::collections::BTreeSet;

use serde_json::Value;
use spdx::{Expression, ParseMode};

use super::{Finding, repository::Repository};

/// Decided against anywhere in the tree: a second TLS library, and a copyleft packet ring.
const BANNED: [&str; 2] = ["openssl-sys", "xdpilone"];
/// Licences under which we take packages, by their SPDX names.
const PERMISSIVE: [&str; 6] = ["Apache-2.0", "BSD-3-Clause", "ISC", "MIT", "Unicode-3.0", "Zlib"];
/// Metadata that a crate's page shows.
const METADATA: [&str; 6] =
    ["description", "keywords", "categories", "license", "rust_version", "readme"];
/// Decided against for our own crates: an unmaintained codec, and a second system call layer.
const BANNED_DIRECT: [&str; 2] = ["bincode", "nix"];

/// Every direct dependency has its sentence, and none was decided against.
pub(super) fn explained(repository: &Repository) -> Vec<Finding> {
    let text = repository.file("ARCHITECTURE.md").map_or("", |file| file.text.as_str());
    let ours: BTreeSet<&str> =
        repository.members().filter_map(|package| package["name"].as_str()).collect();
    let direct: BTreeSet<&str> = repository
        .members()
        .flat_map(|package| package["dependencies"].as_array().map_or(&[][..], Vec::as_slice))
        .filter_map(|dependency| dependency["name"].as_str())
        // Our own crates have a table of their own.
        .filter(|name| !ours.contains(name))
        .collect();
    let banned = direct.iter().filter(|name| BANNED_DIRECT.contains(name)).map(|name| {
        Finding::new(
            "Cargo.toml",
            format!("`{name}` was decided against"),
            "use what ARCHITECTURE.md names instead",
        )
    });
    let mut findings: Vec<Finding> = banned.collect();
    let unexplained =
        direct.into_iter().filter(|name| !text.contains(&format!("`{name}`"))).map(|name| {
            let what = format!("`{name}` is a dependency and is not mentioned");
            Finding::new("ARCHITECTURE.md", what, "say in a sentence what it is for")
        });
    findings.extend(unexplained);
    findings
}

/// Finds crates of ours without metadata.
pub(super) fn described(repository: &Repository) -> Vec<Finding> {
    let is_empty = |value: &Value| {
        value.as_str().is_none_or(str::is_empty) && value.as_array().is_none_or(Vec::is_empty)
    };
    repository
        .members()
        .flat_map(|package| {
            let missing = METADATA.iter().filter(|key| is_empty(&package[**key]));
            let place = package["name"].as_str().unwrap_or_default().to_owned();
            missing
                .map(|key| {
                    Finding::new(&place, format!("has no `{key}`"), "add it to its Cargo.toml")
                })
                .collect::<Vec<_>>()
        })
        .collect()
}

/// Finds packages in the tree that are banned or available under no permissive licence.
pub(super) fn licences(repository: &Repository) -> Vec<Finding> {
    let mut findings = Vec::new();
    for package in repository.packages() {
        let place = format!(
            "{} {}",
            package["name"].as_str().unwrap_or("?"),
            package["version"].as_str().unwrap_or("?")
        );
        if package["name"].as_str().is_some_and(|name| BANNED.contains(&name)) {
            findings.push(Finding::new(
                place.clone(),
                "was decided against",
                "find what drags it in: cargo tree -i",
            ));
        }
        match package["license"].as_str() {
            None => findings.push(Finding::new(
                place,
                "names no licence",
                "replace it, or have its author name one",
            )),
            Some(licence) if !is_permissive(licence) => {
                findings.push(Finding::new(
                    place,
                    format!("is under {licence}"),
                    "replace it, or read its terms and add it to the permissive licences",
                ));
            }
            Some(_) => {}
        }
    }
    findings
}

/// Returns true if an SPDX expression allows terms that are all in [`PERMISSIVE`]: a static agent
/// must carry no conditions. Crates once wrote `A OR B` as `A/B`.
fn is_permissive(expression: &str) -> bool {
    let expression = Expression::parse_mode(expression, ParseMode::LAX);
    expression.is_ok_and(|expression| {
        expression.evaluate(|needed| {
            needed.license.id().is_some_and(|licence| PERMISSIVE.contains(&licence.name))
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_licence_is_permissive_if_one_choice_is() {
        for good in [
            "MIT",
            "MIT OR Apache-2.0",
            "MIT/Apache-2.0",
            "Apache-2.0 WITH LLVM-exception",
            "MIT OR GPL-2.0-only",
        ] {
            assert!(is_permissive(good), "{good}");
        }
        assert!(is_permissive("(MIT OR Apache-2.0) AND Unicode-3.0"));
        for bad in [
            "GPL-3.0-or-later",
            "MIT AND LGPL-2.1",
            "EPL-2.0",
            "Apache-2.0 AND EPL-2.0",
            "EUPL-1.2",
            "(MIT OR Apache-2.0) AND MPL-2.0",
            "",
        ] {
            assert!(!is_permissive(bad), "{bad}");
        }
    }

    #[test]
    fn a_crate_without_a_description_or_with_an_empty_list_is_found() {
        let mut repository = Repository::of(&[]);
        let mut package = serde_json::json!({
            "id": "ours", "name": "ours", "description": "A tool.", "keywords": ["tool"],
            "categories": ["science"], "license": "MIT", "rust_version": "1.90", "readme": "R.md",
        });
        let found = |package: &Value, repository: &mut Repository| {
            repository.metadata =
                serde_json::json!({ "workspace_members": ["ours"], "packages": [package] });
            described(repository).into_iter().map(|finding| finding.what).collect::<Vec<_>>()
        };
        assert_eq!(found(&package, &mut repository), [""; 0]);
        package["description"] = Value::Null;
        package["keywords"] = serde_json::json!([]);
        assert_eq!(found(&package, &mut repository), ["has no `description`", "has no `keywords`"]);
    }

    #[test]
    fn copyleft_banned_and_unexplained_packages_are_found() {
        let mut repository = Repository::of(&[("ARCHITECTURE.md", "`serde` reads plans.")]);
        repository.metadata = serde_json::json!({
            "workspace_members": ["ours"],
            "packages": [
                { "id": "ours", "name": "ours", "version": "1", "license": "MIT",
                  "dependencies": [{ "name": "serde" }, { "name": "xsk" }, { "name": "nix" }] },
                { "id": "serde", "name": "serde", "version": "1", "license": "MIT OR Apache-2.0" },
                { "id": "xsk", "name": "xsk", "version": "1", "license": "EUPL-1.2" },
                { "id": "nix", "name": "nix", "version": "1", "license": "MIT" },
                { "id": "tls", "name": "openssl-sys", "version": "1", "license": "MIT" },
                { "id": "odd", "name": "odd", "version": "1", "license": null },
            ],
        });
        let found: Vec<String> =
            licences(&repository).into_iter().map(|finding| finding.place).collect();
        assert_eq!(found, ["xsk 1", "openssl-sys 1", "odd 1"]);
        let what: Vec<String> =
            explained(&repository).into_iter().map(|finding| finding.what).collect();
        assert_eq!(what.len(), 3, "{what:?}");
        assert_eq!(what[0], "`nix` was decided against");
    }
}
