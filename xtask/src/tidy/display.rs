//! No meaning is read back out of text that is made for readers.
//!
//! Recognised are: a string literal with a space in it, or a constant of the same file that is
//! one, behind `==` or `!=`, as the argument of a function that searches, cuts or splits text, or
//! as the pattern of a match. Names that programs exchange (metrics, workloads, modes, units) have
//! no space. What this does not see: texts without a space, and texts compared through variables.

use super::Finding;
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
/// Operations that compare, search, cut or split.
const OPERATIONS: [&str; 18] = [
    "== ",
    "!= ",
    ".contains(",
    ".ends_with(",
    ".eq_ignore_ascii_case(",
    ".find(",
    ".match_indices(",
    ".matches(",
    ".rfind(",
    ".rsplit(",
    ".rsplit_once(",
    ".split(",
    ".split_once(",
    ".starts_with(",
    ".strip_prefix(",
    ".strip_suffix(",
    ".trim_end_matches(",
    ".trim_start_matches(",
];

/// Comparisons with display text.
pub(super) fn compared(repository: &Repository) -> Vec<Finding> {
    let mut findings = Vec::new();
    let sources = repository
        .rust()
        .filter(|file| ROOMS.contains(&file.crate_name()) && file.path.contains("/src/"));
    for file in sources.filter(|file| !file.only_tests) {
        let lines = lines(&file.text, &file.code().product);
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

/// Returns the lines of `text`, from 1, that compare display text in its `product` code.
fn lines(text: &str, product: &str) -> Vec<usize> {
    // Constants of the same file only: others cannot be resolved without the compiler.
    let constants: Vec<&str> = text.lines().filter_map(constant).collect();
    let numbered = product.lines().zip(text.lines()).enumerate();
    numbered
        .filter(|(_, (code, line))| compares(code, line, &constants))
        .map(|(at, _)| at + 1)
        .collect()
}

/// Returns whether a line compares display text. `code` is the line without strings and comments.
fn compares(code: &str, line: &str, constants: &[&str]) -> bool {
    let code: Vec<char> = code.chars().collect();
    let line: Vec<char> = line.chars().collect();
    is_pattern(&code, &line)
        || OPERATIONS.iter().any(|operation| operates(&code, &line, operation, constants))
}

/// The name of the constant that a line declares as a text with a space.
fn constant(line: &str) -> Option<&str> {
    let (_, rest) = line.split_once("const ")?;
    let (name, rest) = rest.split_once(": &")?;
    let (_, value) = rest.split_once("str = ")?;
    literal(&value.chars().collect::<Vec<_>>()).is_some_and(|(spaced, _)| spaced).then_some(name)
}

/// Returns true if `operation` is in `code` before a text with a space, or before one of
/// `constants`. Texts are blank in `code` and not in `line`.
fn operates(code: &[char], line: &[char], operation: &str, constants: &[&str]) -> bool {
    let operation: Vec<char> = operation.chars().collect();
    let at = code
        .windows(operation.len())
        .enumerate()
        .filter(|(_, window)| *window == operation.as_slice());
    at.map(|(at, _)| at + operation.len()).any(|behind| {
        let skipped =
            line[behind..].iter().take_while(|letter| matches!(letter, '&' | '*' | ' ')).count();
        let argument = &line[behind + skipped..];
        let name: String = argument
            .iter()
            .take_while(|letter| letter.is_alphanumeric() || **letter == '_')
            .collect();
        literal(argument).is_some_and(|(spaced, _)| spaced) || constants.contains(&name.as_str())
    })
}

/// Returns true if the line begins with a text with a space as the pattern of a match.
fn is_pattern(code: &[char], line: &[char]) -> bool {
    let start = line.iter().take_while(|letter| matches!(letter, ' ' | '|')).count();
    let Some((true, length)) = literal(&line[start..]) else { return false };
    let behind: String = code.get(start + length..).unwrap_or_default().iter().collect();
    behind.starts_with(" =>") || behind.starts_with(" | ") || behind.starts_with(" if ")
}

/// Returns whether the text that begins here has a space in it, and its length with the quotes, or
/// `None` if no text begins here.
fn literal(text: &[char]) -> Option<(bool, usize)> {
    let mut letters = text.iter().enumerate().skip(1);
    text.first().filter(|quote| **quote == '"')?;
    let mut spaced = false;
    while let Some((at, letter)) = letters.next() {
        match letter {
            '\\' => drop(letters.next()),
            '"' => return Some((spaced, at + 1)),
            ' ' => spaced = true,
            _ => {}
        }
    }
    None
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
