//! No meaning is read back out of text that is made for readers.
//!
//! Recognised are: a string literal with a space in it, or a constant of the same file that is
//! one, behind `==` or `!=`, as the argument of a function that searches, cuts or splits text, or
//! as the pattern of a match. Names that programs exchange (metrics, workloads, modes, units) have
//! no space. What this does not see: texts without a space, and texts compared through variables.

use super::Finding;
use super::code::Token;
use super::repository::Repository;

/// Crates that get data typed and could ask for it.
const ROOMS: [&str; 6] = [
    "linerate",
    "linerate-analysis",
    "linerate-answers",
    "linerate-campaign",
    "linerate-control",
    "linerate-report",
];
/// Files that still do it, and in how many lines: what ssh, serde and clap say, and words of
/// readings and side effects that are not typed yet. Only ever lowered.
const ALLOWED: [(&str, usize); 4] = [
    ("crates/linerate-analysis/src/limits/options.rs", 1),
    ("crates/linerate-campaign/src/towards.rs", 1),
    ("crates/linerate-campaign/src/tune/host.rs", 1),
    ("crates/linerate/src/reference.rs", 1),
];
/// Functions that compare, search, cut or split.
const FUNCTIONS: [&str; 16] = [
    "contains",
    "ends_with",
    "eq_ignore_ascii_case",
    "find",
    "match_indices",
    "matches",
    "rfind",
    "rsplit",
    "rsplit_once",
    "split",
    "split_once",
    "starts_with",
    "strip_prefix",
    "strip_suffix",
    "trim_end_matches",
    "trim_start_matches",
];

/// Comparisons with display text.
pub(super) fn compared(repository: &Repository) -> Vec<Finding> {
    let mut findings = Vec::new();
    let sources = repository
        .rust()
        .filter(|file| ROOMS.contains(&file.crate_name()) && file.path.contains("/src/"));
    for file in sources.filter(|file| !file.only_tests) {
        let lines = lines(&file.code().tokens);
        // The allowance is exact in both directions, so that it falls with the code.
        let allowed = ALLOWED.iter().find(|(path, _)| *path == file.path).map_or(0, |(_, n)| *n);
        if lines.len() > allowed {
            let remedy = "give what the text says a type (an enum, a field), and make the text of \
                it where it is printed";
            let place = |line: &usize| {
                Finding::new(format!("{}:{line}", file.path), "compares display text", remedy)
            };
            findings.extend(lines.iter().map(place));
        } else if lines.len() < allowed {
            let what = format!("{} lines compare display text, {allowed} are allowed", lines.len());
            findings.push(Finding::new(
                &file.path,
                what,
                "lower its number in xtask/src/tidy/display.rs",
            ));
        }
    }
    findings
}

/// Returns the lines, from 1, that compare display text.
fn lines(tokens: &[Token]) -> Vec<usize> {
    // Constants of the same file only: others cannot be resolved without the compiler.
    let constants: Vec<&str> = (0..tokens.len()).filter_map(|at| constant(&tokens[at..])).collect();
    let compared = (0..tokens.len()).filter(|at| compares(tokens, *at, &constants));
    let mut lines: Vec<usize> = compared.map(|at| tokens[at].line).collect();
    lines.dedup();
    lines
}

/// Returns true if the token at `at` is display text, or one of `constants`, that is compared.
fn compares(tokens: &[Token], at: usize, constants: &[&str]) -> bool {
    let is_text = is_spaced(&tokens[at]);
    let is_constant = || constants.contains(&tokens[at].written.as_str());
    is_text && is_pattern(tokens, at) || (is_text || is_constant()) && is_operand(tokens, at)
}

fn is_spaced(token: &Token) -> bool {
    token.text().is_some_and(|text| text.contains(' '))
}

/// The name of the constant that `tokens` begin to declare as a text with a space.
fn constant(tokens: &[Token]) -> Option<&str> {
    /// Those of `NAME: &'static str`.
    const MOST: usize = 6;
    let [keyword, name, rest @ ..] = tokens else { return None };
    let value = rest.iter().take(MOST).position(|token| token.written == "=")? + 1;
    let is_text = keyword.written == "const" && rest.get(value).is_some_and(is_spaced);
    is_text.then_some(name.written.as_str())
}

/// Returns true if the token at `at` is compared, or the argument of one of the functions.
fn is_operand(tokens: &[Token], at: usize) -> bool {
    let before = tokens[..at].iter().rev().map(|token| token.written.as_str());
    let before: Vec<&str> = before.skip_while(|sign| ["&", "*"].contains(sign)).take(3).collect();
    match before[..] {
        ["=", "=" | "!", ..] => true,
        ["(", function, "."] => FUNCTIONS.contains(&function),
        _ => false,
    }
}

/// Returns true if the token at `at` is a pattern of a match, at the beginning of its line.
fn is_pattern(tokens: &[Token], at: usize) -> bool {
    let written = |at: usize| tokens.get(at).map_or("", |token| token.written.as_str());
    let is_first = at == 0 || tokens[at - 1].line < tokens[at].line || written(at - 1) == "|";
    let is_arm = written(at + 1) == "=" && written(at + 2) == ">";
    is_first && (is_arm || ["|", "if"].contains(&written(at + 1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> Vec<String> {
        let repository = Repository::of(&[(path, text)]);
        compared(&repository).into_iter().map(|finding| finding.place).collect()
    }

    #[test]
    fn a_comparison_with_display_text_is_found() {
        let path = "crates/linerate-analysis/src/a.rs";
        for line in [
            "name.trim_start_matches(\"expected: \")",
            "a == \"sender qdisc\"",
            "a != &\"sender qdisc\"",
            "name.split(\", \").next()",
            "    \"receiver socket\" => 1,",
            "    | \"receiver socket\" | other => 1,",
            "const OF_ALL: &str = \", all jobs\"; fn a() { b.ends_with(OF_ALL) }",
        ] {
            assert_eq!(found(path, line), [format!("{path}:1")], "{line}");
        }
    }

    #[test]
    fn names_of_programs_tests_and_comments_are_not() {
        let path = "crates/linerate-analysis/src/a.rs";
        for line in [
            "a == \"goodput\" && text != \"b\" // == \"sender qdisc\"",
            "format!(\"{a} == \\\"b c\\\"\").contains('x')",
            "assert(x, \"a b\"); all.contains(&name)",
            "const OF_ALL: &str = \", all jobs\"; fn a() { println!(\"{OF_ALL}\") }",
            "#[cfg(test)]\nmod tests {\n    fn a() { b.contains(\"a b\") }\n}",
        ] {
            assert_eq!(found(path, line), [""; 0], "{line}");
        }
        assert_eq!(
            found("crates/linerate-lab/src/a.rs", "a == \"b c\""),
            [""; 0],
            "a room that reads other programs"
        );
    }
}
