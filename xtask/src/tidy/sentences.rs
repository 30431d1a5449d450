//! The analysis builds no sentences: it returns data, and `linerate-report` writes the text.
//!
//! A text counts as a sentence if it has three words or more. Messages of panics and of refused
//! options, help of options, citations (constants called `...SOURCE`), reasons of lint attributes,
//! summaries of registries and names in JSON are left out.

use super::Finding;
use super::repository::{File, Repository};

/// The crate whose results are data.
const ROOM: &str = "crates/linerate-analysis/src/";
/// Fewest words of a sentence.
const WORDS: usize = 3;
/// Code, without spaces, behind which a text is no result. Names of experiments are names of arms
/// in plans and ledgers.
const EXEMPT: [&str; 17] = [
    "EXPECTED:&str=",
    "Experiment::at_host(",
    "Experiment::lift(",
    "Experiment::lift_by_one(",
    "Experiment::show(",
    "SOURCE:&str=",
    "(LossPlace::ReceiverBacklog,",
    "(LossPlace::ReceiverFilter,",
    "(LossPlace::ReceiverIngress,",
    "(LossPlace::SenderOutput,",
    "expect(",
    "expecting=",
    "fnsummary(&self)->&'staticstr{",
    "panic!(",
    "reason=",
    "summary:",
    "unreachable!(",
];

/// Functions whose arguments, however deep, are no results: they make errors, or declare options.
const EXEMPT_CALLS: [&str; 8] = [
    "Err(",
    "assert!(",
    "assert_eq!(",
    "assert_ne!(",
    "defaults(",
    "optional(",
    "refusal(",
    "required(",
];

/// Finds sentences in the analysis.
pub(super) fn sentences(repository: &Repository) -> Vec<Finding> {
    let product = repository.rust().filter(|file| file.path.starts_with(ROOM) && !file.only_tests);
    let places = product
        .flat_map(|file| lines(file).into_iter().map(|line| format!("{}:{line}", file.path)));
    let remedy = "return what the sentence says as an enum or struct, and write the text in \
        crates/linerate-report/src/sentences";
    places.map(|place| Finding::new(place, "a sentence in the analysis", remedy)).collect()
}

/// Returns the lines, from 1, at which a sentence begins outside tests.
fn lines(file: &File) -> Vec<usize> {
    let mut found = Vec::new();
    // The code so far, without texts and spaces.
    let mut before = String::new();
    for token in &file.code().tokens {
        match token.text() {
            Some(text) if is_sentence(text) && !is_exempt(&before) => found.push(token.line),
            Some(_) => {}
            None => before.push_str(&token.written),
        }
    }
    found
}

/// Returns true if a text behind `before`, which is code without spaces and texts, is no result.
fn is_exempt(before: &str) -> bool {
    if EXEMPT.iter().any(|end| before.ends_with(end)) {
        return true;
    }
    let mut closed = 0_usize;
    for (at, letter) in before.char_indices().rev() {
        match letter {
            ')' => closed += 1,
            '(' if closed > 0 => closed -= 1,
            '(' if EXEMPT_CALLS.iter().any(|call| before[..=at].ends_with(call)) => return true,
            // No call reaches back over the end of a statement.
            ';' if closed == 0 => return false,
            _ => {}
        }
    }
    false
}

/// Returns true if `text` has enough words of letters. Values in braces, code in backticks and
/// names of programs are no words.
fn is_sentence(text: &str) -> bool {
    fn is_word(word: &&str) -> bool {
        let letters = word.trim_matches(|letter: char| ",;:.()\\".contains(letter));
        !letters.is_empty() && letters.chars().all(|c| c.is_alphabetic() || c == '\'' || c == '-')
    }
    text.split_whitespace().filter(is_word).count() >= WORDS
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> Vec<String> {
        let repository = Repository::of(&[(path, text)]);
        sentences(&repository).into_iter().map(|finding| finding.what).collect()
    }

    #[test]
    fn a_sentence_of_the_analysis_is_found() {
        let path = "crates/linerate-analysis/src/other/a.rs";
        for text in [
            "fn a() { b(\"the sender waits\") }",
            "fn a() { b(format!(\n    \"the sender {x} \\\n        waits\"\n)) }",
            "const A: &str = \"it \\\"waits\\\" for a window\";",
            "fn a() { refusal(x); b(\"the sender waits\") }",
            "const A: &str = r#\"a \"quoted\" text of the sender\"#;",
            "fn a() { b(refusal(x), \"the sender waits\") }",
        ] {
            assert_eq!(found(path, text), ["a sentence in the analysis"], "{text}");
        }
    }

    #[test]
    fn names_panics_summaries_comments_and_tests_are_not() {
        let path = "crates/linerate-analysis/src/other/a.rs";
        for text in [
            "fn a() { b(\"{x} of {y} B\") }",
            "fn a() { b.expect(\"a rule spoke at a point\") }",
            "fn a() { e.push(refusal(\"key\", format!(\"{x} is no size of it\"))) }",
            "const O: [D; 1] = [required(\"rate\", \"rate of the link\")];",
            "const OF_A_SOURCE: &str = \"the law of someone\";",
            "fn a() {\n    b.expect(\n        \"a rule spoke at a point\",\n    )\n}",
            "    fn summary(&self) -> &'static str {\n        \"the sender waits for it\"\n    }",
            "#[expect(missing_docs, reason = \"names say it all\")]\nfn a() {}",
            "// \"the sender waits for it\"\nfn a() {}",
            "#[cfg(test)]\nmod tests {\n    fn a() { b(\"the sender waits\") }\n}",
        ] {
            assert_eq!(found(path, text), [""; 0], "{text}");
        }
        assert_eq!(
            found("crates/linerate-report/src/a.rs", "fn a() { b(\"the sender waits\") }"),
            [""; 0]
        );
    }
}
