//! Checks of source files: unsafe, I/O and async only in their crates, no leftovers, no oversize.

use super::Finding;
use super::code::word_lines;
use super::repository::{File, Repository};

/// The one crate with `unsafe`.
const UNSAFE_ROOM: &str = "linerate-sys";
/// The one test with it: an allocator that counts is an unsafe trait, and it proves that a step
/// does not allocate.
const COUNTING_ALLOCATOR: &str = "crates/linerate-load/tests/counting/mod.rs";
/// The one crate with async code: it answers browsers and measures nothing.
const ASYNC_ROOM: &str = "linerate-dashboard";
/// Rooms that touch no file, socket, thread or clock.
const PURE_ROOMS: [&str; 5] = [
    "linerate-model",
    "linerate-analysis",
    "linerate-papers",
    "linerate-report",
    "linerate-import",
];
/// Items that touch one. `core::net` has the addresses without the sockets.
const IMPURE: [&str; 6] =
    ["std::fs", "std::net", "std::thread", "std::process", "Instant", "SystemTime"];
/// Longest file, tests apart.
const MOST_LINES: usize = 600;
/// Widest line.
const WIDTH: usize = 100;
/// Wider lines that are left. Lower it when you break some.
const MOST_WIDE: usize = 10;

/// Findings for each line of `code` with one of `words`.
fn words(file: &File, code: &str, words: &[&str], remedy: &'static str) -> Vec<Finding> {
    words
        .iter()
        .flat_map(|word| word_lines(code, word).into_iter().map(move |line| (word, line)))
        .map(|(word, line)| {
            Finding::new(format!("{}:{line}", file.path), format!("`{word}`"), remedy)
        })
        .collect()
}

/// Every source file has tokens: no other check sees the rest of a file that is broken.
pub(super) fn broken(repository: &Repository) -> Vec<Finding> {
    let broken = repository.rust().filter_map(|file| Some((&file.path, file.code().broken?)));
    broken
        .map(|(path, line)| {
            Finding::new(
                format!("{path}:{line}"),
                "has no tokens from here",
                "balance its braces and quotes",
            )
        })
        .collect()
}

/// `unsafe` is written in one crate only, tests included but for one.
pub(super) fn unsafe_outside_sys(repository: &Repository) -> Vec<Finding> {
    let outside = repository
        .rust()
        .filter(|file| file.crate_name() != UNSAFE_ROOM && file.path != COUNTING_ALLOCATOR);
    let remedy = "put it behind a safe noun in linerate-sys";
    outside.flat_map(|file| words(file, &file.code().all, &["unsafe"], remedy)).collect()
}

/// Every other crate forbids it at its root.
pub(super) fn forbid_attribute(repository: &Repository) -> Vec<Finding> {
    fn is_root(file: &&File) -> bool {
        let tail = file.path.strip_prefix("crates/").unwrap_or(&file.path);
        let tail = tail.split_once('/').map_or("", |(_, tail)| tail);
        tail == "src/lib.rs" || tail == "src/main.rs"
    }
    repository
        .rust()
        .filter(is_root)
        .filter(|file| file.crate_name() != UNSAFE_ROOM)
        .filter(|file| !file.code().all.contains("#![forbid(unsafe_code)]"))
        .map(|file| {
            Finding::new(
                &file.path,
                "unsafe code is not forbidden",
                "add `#![forbid(unsafe_code)]`",
            )
        })
        .collect()
}

/// Pure rooms touch nothing outside.
pub(super) fn pure_rooms(repository: &Repository) -> Vec<Finding> {
    let pure = repository.rust().filter(|file| PURE_ROOMS.contains(&file.crate_name()));
    let remedy = "take it as an argument; addresses without sockets are in core::net";
    pure.flat_map(|file| words(file, &file.code().product, &IMPURE, remedy)).collect()
}

/// Nothing is async outside of one crate.
pub(super) fn no_async(repository: &Repository) -> Vec<Finding> {
    let remedy = "use a thread; only linerate-dashboard has an async runtime";
    repository
        .rust()
        .filter(|file| file.crate_name() != ASYNC_ROOM)
        .flat_map(|file| words(file, &file.code().all, &["async", ".await"], remedy))
        .collect()
}

/// Finds files that are too long.
pub(super) fn file_size(repository: &Repository) -> Vec<Finding> {
    let product = repository.rust().filter(|file| !file.only_tests);
    product
        .map(|file| (file, file.code().product_lines))
        .filter(|(_, n_lines)| *n_lines > MOST_LINES)
        .map(|(file, n_lines)| {
            let what = format!("{n_lines} lines without tests, more than {MOST_LINES}");
            Finding::new(&file.path, what, "split it: a file does one thing")
        })
        .collect()
}

/// No line is wider than a review shows. rustfmt leaves long literals and macro calls as they are,
/// so some are left: their number may fall and not rise.
pub(super) fn width(repository: &Repository) -> Vec<Finding> {
    // Characters, not bytes: names with accents are no wider.
    let wide = |text: &str| text.lines().filter(|line| line.chars().count() > WIDTH).count();
    let files: Vec<(&File, usize)> = repository
        .rust()
        .map(|file| (file, wide(&file.text)))
        .filter(|(_, n_wide)| *n_wide > 0)
        .collect();
    let n_wide: usize = files.iter().map(|(_, n_wide)| n_wide).sum();
    if n_wide <= MOST_WIDE {
        return Vec::new();
    }
    let what =
        |n: usize| format!("{n} of {n_wide} lines over {WIDTH} columns, {MOST_WIDE} allowed");
    files
        .into_iter()
        .map(|(file, n)| Finding::new(&file.path, what(n), "break some of them, here or elsewhere"))
        .collect()
}

/// Finds test files that no program includes: where cargo does not search for them, nothing else
/// notices that their tests never run.
pub(super) fn test_files(repository: &Repository) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in repository.rust() {
        let Some((folder, name)) = file.path.rsplit_once("/tests/") else { continue };
        let Some(manifest) = repository.file(&format!("{folder}/Cargo.toml")) else { continue };
        let name = name.trim_end_matches(".rs");
        // The modules of a folder are declared by its mod.rs, and rustc finds what that names.
        if name.contains('/') || !manifest.text.contains("autotests = false") {
            continue;
        }
        let is_program = [format!("name = \"{name}\""), format!("path = \"tests/{name}.rs\"")]
            .iter()
            .any(|entry| manifest.text.contains(entry));
        let declaration = format!("mod {name};");
        let is_module = repository.rust().any(|other| {
            other.path.starts_with(&format!("{folder}/tests/"))
                && other.code().all.lines().any(|line| line == declaration)
        });
        if !is_program && !is_module {
            let what = "no test program includes this file, so its tests never run";
            findings.push(Finding::new(&file.path, what, "declare it in tests/main.rs"));
        }
    }
    findings
}

/// No comment marks something unfinished; clippy finds unfinished code.
pub(super) fn leftovers(repository: &Repository) -> Vec<Finding> {
    let (marks, remedy) = (["TODO", "FIXME", "XXX"], "finish it, or open an issue");
    repository.rust().flat_map(|file| words(file, &file.code().comments, &marks, remedy)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(findings: &[Finding]) -> Vec<&str> {
        findings.iter().map(|finding| finding.place.as_str()).collect()
    }

    #[test]
    fn a_file_without_tokens_is_a_finding_with_its_line() {
        let repository = Repository::of(&[
            ("crates/linerate/src/a.rs", "fn a() {}\n"),
            ("crates/linerate/src/b.rs", "fn a() {}\nfn b() { (1 }\n"),
        ]);
        assert_eq!(places(&broken(&repository)), ["crates/linerate/src/b.rs:2"]);
    }

    #[test]
    fn unsafe_is_found_everywhere_but_in_its_room() {
        let repository = Repository::of(&[
            ("crates/linerate-sys/src/raw.rs", "unsafe fn a() {}"),
            ("crates/linerate-load/src/a.rs", "// unsafe\nfn a() { unsafe { b() } }"),
            (
                "crates/linerate-load/tests/counting/mod.rs",
                "unsafe impl GlobalAlloc for Counting {}",
            ),
            ("crates/linerate-load/src/lib.rs", "#![forbid(unsafe_code)]\n"),
            (
                "crates/linerate-lab/src/lib.rs",
                "//! `#![forbid(unsafe_code)]` is promised here and not written\n",
            ),
        ]);
        assert_eq!(places(&unsafe_outside_sys(&repository)), ["crates/linerate-load/src/a.rs:2"]);
        assert_eq!(places(&forbid_attribute(&repository)), ["crates/linerate-lab/src/lib.rs"]);
    }

    #[test]
    fn io_in_a_pure_room_is_found_and_elsewhere_or_in_tests_is_not() {
        let test = "#[cfg(test)]\nmod tests {\n    use std::fs;\n}\n";
        let repository = Repository::of(&[
            ("crates/linerate-model/src/a.rs", test),
            (
                "crates/linerate-model/src/b.rs",
                "use std::time::{Duration, Instant};\nuse std::fs::File;",
            ),
            ("crates/linerate-store/src/a.rs", "use std::fs::File;"),
            ("crates/linerate-report/tests/golden.rs", "use std::fs::File;"),
        ]);
        let found = pure_rooms(&repository);
        assert_eq!(
            places(&found),
            ["crates/linerate-model/src/b.rs:2", "crates/linerate-model/src/b.rs:1"]
        );
    }

    #[test]
    fn a_module_declared_for_tests_only_is_a_test() {
        let repository = Repository::of(&[
            (
                "crates/linerate-control/src/conductor/mod.rs",
                "mod core;\n#[cfg(test)]\nmod world;\n",
            ),
            ("crates/linerate-control/src/conductor/world.rs", "fn a() { b().unwrap(); }"),
            (
                "crates/linerate-control/src/conductor/core.rs",
                "#[cfg(test)]\nmod tests;\nfn a() { b().unwrap(); }",
            ),
            ("crates/linerate-control/src/conductor/core/tests.rs", "fn a() { b().unwrap(); }"),
        ]);
        let tests: Vec<bool> = repository.rust().map(|file| file.only_tests).collect();
        assert_eq!(tests, [false, true, false, true]);
    }

    #[test]
    fn async_is_found() {
        let repository =
            Repository::of(&[("crates/linerate-control/src/a.rs", "async fn a() { b().await }")]);
        assert_eq!(no_async(&repository).len(), 2);
        let pages = ("crates/linerate-dashboard/src/a.rs", "async fn a() { b().await }");
        assert_eq!(no_async(&Repository::of(&[pages])), []);
    }

    #[test]
    fn leftovers_are_found_in_comments_but_not_in_strings() {
        let text = "fn a() { b(\"TODO\"); }\n// TODO: c\n";
        let found = leftovers(&Repository::of(&[("crates/linerate/src/a.rs", text)]));
        assert_eq!(places(&found), ["crates/linerate/src/a.rs:2"]);
    }

    #[test]
    fn wide_lines_are_found_where_there_are_more_than_allowed() {
        let wide = format!("// {}\n", "x".repeat(WIDTH));
        let allowed = wide.repeat(MOST_WIDE);
        let some = ("crates/linerate/src/a.rs", allowed.as_str());
        assert_eq!(width(&Repository::of(&[some])), []);
        let one_more = ("crates/linerate/src/b.rs", wide.as_str());
        let found = width(&Repository::of(&[some, one_more]));
        assert_eq!(places(&found), ["crates/linerate/src/a.rs", "crates/linerate/src/b.rs"]);
    }

    #[test]
    fn a_long_file_is_found_and_its_tests_do_not_count() {
        let long = "fn a() {}\n".repeat(MOST_LINES + 1);
        let tested = format!(
            "fn a() {{}}\n#[cfg(test)]\nmod tests {{\n{}}}\n",
            "    fn b() {}\n".repeat(MOST_LINES)
        );
        let repository = Repository::of(&[
            ("crates/linerate/src/a.rs", &long),
            ("crates/linerate/src/b.rs", &tested),
        ]);
        assert_eq!(places(&file_size(&repository)), ["crates/linerate/src/a.rs"]);
    }

    #[test]
    fn a_test_file_that_no_program_includes_is_found() {
        let manifest = "autotests = false\n[[test]]\nname = \"all\"\npath = \"tests/main.rs\"\n\
            [[test]]\nname = \"alone\"\n";
        let files = |root: &'static str, manifest: &'static str| {
            let repository = Repository::of(&[
                ("crates/a/Cargo.toml", manifest),
                ("crates/a/tests/main.rs", root),
                ("crates/a/tests/alone.rs", ""),
                ("crates/a/tests/common/mod.rs", ""),
                ("crates/a/tests/forgotten.rs", ""),
            ]);
            test_files(&repository).into_iter().map(|finding| finding.place).collect::<Vec<_>>()
        };
        assert_eq!(
            files("mod common;\n// mod forgotten;\n", manifest),
            ["crates/a/tests/forgotten.rs"]
        );
        assert!(files("mod common;\nmod forgotten;\n", manifest).is_empty());
        assert!(files("mod common;\n", "").is_empty(), "cargo finds it");
    }
}
