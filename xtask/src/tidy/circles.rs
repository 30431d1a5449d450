//! Imports of a crate go one way: a file that others import does not import them.
//!
//! Not counted: a file declares its children, and these may use its items.

use std::collections::{BTreeMap, BTreeSet};

use super::Finding;
use super::repository::{File, Repository};

/// Crates without a circle of imports.
const STRAIGHT: [&str; 4] =
    ["linerate", "linerate-answers", "linerate-campaign", "linerate-import"];

/// Modules, and those that each imports.
type Imports = BTreeMap<String, BTreeSet<String>>;

/// No file imports another that imports it, by whatever way round.
pub(super) fn no_circles(repository: &Repository) -> Vec<Finding> {
    STRAIGHT.iter().flat_map(|name| of_crate(repository, name)).collect()
}

fn of_crate(repository: &Repository, name: &str) -> Vec<Finding> {
    let files: Vec<(String, &File)> = repository
        .rust()
        .filter(|file| file.crate_name() == name && !file.only_tests)
        .filter_map(|file| Some((module(&file.path)?, file)))
        .collect();
    let modules: BTreeSet<&str> = files.iter().map(|(module, _)| module.as_str()).collect();
    let imports: Imports = files
        .iter()
        .map(|(module, file)| {
            // Tests may import from anywhere.
            let product = &file.code().product;
            let named =
                paths(product).into_iter().filter_map(|path| target(&modules, module, &path));
            (module.clone(), named.filter(|other| other != module).collect())
        })
        .collect();
    let in_circle = |module: &&String| reachable(&imports, module).contains(module.as_str());
    let places: Vec<&str> = imports.keys().filter(in_circle).map(String::as_str).collect();
    if places.is_empty() {
        return Vec::new();
    }
    let what = format!("{} files import each other: {}", places.len(), places.join(", "));
    vec![Finding::new(name, what, "move what both need into a file of its own")]
}

/// `crates/x/src/a/b.rs` and `crates/x/src/a/b/mod.rs` are `a::b`; the root of the crate is empty.
fn module(path: &str) -> Option<String> {
    let (_, inside) = path.split_once("/src/")?;
    let inside = inside.strip_suffix(".rs")?;
    let inside = inside.strip_suffix("/mod").unwrap_or(inside);
    Some(if inside == "main" || inside == "lib" {
        String::new()
    } else {
        inside.replace('/', "::")
    })
}

/// Paths from `crate` or `super` that `code` names, groups in braces written out.
fn paths(code: &str) -> Vec<String> {
    let mut found = Vec::new();
    for start in ["crate::", "super::"] {
        for (at, _) in code.match_indices(start) {
            let before = code[..at].chars().next_back();
            // The word may be part of a longer path, such as `other::crate::`.
            if !before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == ':') {
                spread("", &code[at..], &mut found);
            }
        }
    }
    found
}

/// Adds the paths that begin `text`, each after `prefix`; returns how many bytes they are.
fn spread(prefix: &str, text: &str, found: &mut Vec<String>) -> usize {
    let end =
        text.find(|c: char| !(c.is_alphanumeric() || c == '_' || c == ':')).unwrap_or(text.len());
    let path = format!("{prefix}{}", &text[..end]);
    if !text[end..].starts_with('{') {
        found.push(path);
        return end;
    }
    // Groups may contain groups.
    let mut at = end + 1;
    while at < text.len() && !text[at..].starts_with('}') {
        let step = spread(&path, &text[at..], found);
        // At least one character, so that a text that is no path cannot stop the loop.
        at += step.max(text[at..].chars().next().map_or(1, char::len_utf8));
    }
    at + 1
}

/// The module of the crate that `path` leads to, as `from` names it: the deepest there is.
fn target(modules: &BTreeSet<&str>, from: &str, path: &str) -> Option<String> {
    // `super` is relative to the module that names it.
    let mut base: Vec<&str> =
        if path.starts_with("super") { from.split("::").collect() } else { Vec::new() };
    for step in
        path.split("::").filter(|step| !step.is_empty() && !["crate", "self"].contains(step))
    {
        if step == "super" {
            base.pop();
        } else {
            base.push(step);
        }
    }
    // The longest prefix that is a module: what follows is an item in it.
    (1..=base.len())
        .rev()
        .map(|n| base[..n].join("::"))
        .find(|module| modules.contains(module.as_str()))
}

fn reachable<'i>(imports: &'i Imports, from: &str) -> BTreeSet<&'i str> {
    let mut seen = BTreeSet::new();
    let mut open: Vec<&str> = imports.get(from).into_iter().flatten().map(String::as_str).collect();
    while let Some(module) = open.pop() {
        if seen.insert(module) {
            open.extend(imports.get(module).into_iter().flatten().map(String::as_str));
        }
    }
    seen
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let files: Vec<(String, &str)> = files
            .iter()
            .map(|(path, text)| (format!("crates/linerate/src/{path}"), *text))
            .collect();
        let files: Vec<(&str, &str)> =
            files.iter().map(|(path, text)| (path.as_str(), *text)).collect();
        no_circles(&Repository::of(&files)).into_iter().map(|finding| finding.what).collect()
    }

    #[test]
    fn files_that_import_each_other_are_found_whatever_way_round() {
        let direct = [("a.rs", "use crate::b::B;\n"), ("b.rs", "fn f() { crate::a::g(); }\n")];
        assert_eq!(found(&direct), ["2 files import each other: a, b"]);
        let round = [
            ("a/mod.rs", "use crate::{b::B, c};\n"),
            ("b.rs", "use crate::{\n    d::{D, E},\n};\n"),
            ("c.rs", ""),
            ("d.rs", "use crate::a::inner::F;\n"),
            ("a/inner.rs", "use super::A;\n"),
        ];
        assert_eq!(found(&round), ["4 files import each other: a, a::inner, b, d"]);
    }

    #[test]
    fn imports_that_go_one_way_are_none_and_neither_are_those_of_tests() {
        let straight = [
            ("main.rs", "mod a;\nuse crate::a::A;\n"),
            ("a.rs", "use crate::b::{self, B};\n"),
            ("b.rs", "fn f() {}\n#[cfg(test)]\nmod tests {\n    use crate::a::A;\n}\n"),
        ];
        assert_eq!(found(&straight), [""; 0]);
    }
}
