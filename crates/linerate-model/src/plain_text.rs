//! Plans, labs and testbeds are files that somebody may have sent: no text in them may hold what a
//! terminal obeys.
//!
//! TOML allows every character in a string, written `\u001b` or, for some, as it is. Their names
//! and parameters go to ledgers, reports and other hosts. A line feed is refused like every other
//! control character, since no name or value has two lines; a tab is not.

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::{Problem, is_obeyed};

/// Every string and key of the TOML `text` with a control character in it, with its place. Nothing,
/// if the text is no TOML: whoever reads it says so.
#[must_use]
pub fn control_characters(text: &str) -> Vec<Problem> {
    let mut problems = Vec::new();
    if let Ok(root) = DeTable::parse(text) {
        in_table(root.get_ref(), &mut problems);
    }
    problems
}

fn in_table(table: &DeTable<'_>, problems: &mut Vec<Problem>) {
    for (key, value) in table {
        in_text(key.get_ref(), || key.span(), problems);
        in_value(value, problems);
    }
}

fn in_value(value: &Spanned<DeValue<'_>>, problems: &mut Vec<Problem>) {
    match value.get_ref() {
        DeValue::String(text) => in_text(text, || value.span(), problems),
        DeValue::Array(values) => values.iter().for_each(|value| in_value(value, problems)),
        DeValue::Table(table) => in_table(table, problems),
        _ => {}
    }
}

fn in_text(text: &str, span: impl Fn() -> std::ops::Range<usize>, problems: &mut Vec<Problem>) {
    if let Some(c) = text.chars().find(|&c| is_obeyed(c) && c != '\t') {
        let message = format!("the text has a control character in it, U+{:04X}", u32::from(c));
        problems
            .push(Problem::new(Some(span()), message).expected("text without control characters"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_control_character_is_found_in_every_string_and_key_and_with_its_place() {
        let text = "a = \"x\\u001by\"\n[[b]]\nc = [{ \"d\\u009b\" = 1 }, \"\u{202e}\", \"a\\tb \
            µ\", \"two\\nlines\"]\n";
        let found = control_characters(text);
        let at: Vec<&str> =
            found.iter().map(|problem| &text[problem.span.clone().expect("a place")]).collect();
        assert_eq!(at, ["\"x\\u001by\"", "\"d\\u009b\"", "\"\u{202e}\"", "\"two\\nlines\""]);
        assert!(
            found[0].message.contains("U+001B") && found[2].message.contains("U+202E"),
            "{found:?}"
        );
        assert!(control_characters("a = 'b'\nc = { d = [1, 2.5, true] }").is_empty());
        assert!(control_characters("no TOML \x1b").is_empty());
    }
}
