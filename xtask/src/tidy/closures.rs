//! Closures bound to names are short: a longer one is a function without a signature.
//!
//! The check counts product code only.

use super::Finding;
use super::code::Code;
use super::repository::Repository;

/// Longest closure with a name, in lines from `let` to the semicolon.
const MOST_LINES: usize = 3;

/// Finds the places at which a long closure gets its name.
pub(super) fn long_closures(repository: &Repository) -> Vec<Finding> {
    let places = repository.rust().flat_map(|file| {
        let lines = long_closures_in(file.code()).into_iter();
        lines.map(move |line| format!("{}:{line}", file.path))
    });
    let what = format!("a closure with a name and more than {MOST_LINES} lines");
    let remedy = "make it a function, or shorten it to three lines";
    places.map(|place| Finding::new(place, what.as_str(), remedy)).collect()
}

/// Returns the lines, from 1, at which a long closure gets its name.
fn long_closures_in(code: &Code) -> Vec<usize> {
    let lines: Vec<&str> = code.product.lines().collect();
    let comments: Vec<&str> = code.comments.lines().collect();
    let starts = (0..lines.len()).filter(|&at| {
        let value =
            lines[at].trim_start().strip_prefix("let ").and_then(|rest| rest.split_once('='));
        // rustfmt puts a long closure on the line after the equals sign.
        let next = lines.get(at + 1).map_or("", |line| line.trim_start());
        let value =
            value.map(|(_, value)| if value.trim().is_empty() { next } else { value.trim() });
        value.is_some_and(|value| value.trim_start_matches("move ").starts_with('|'))
    });
    let is_long = |at: &usize| statement_lines(&lines[*at..], &comments[*at..]) > MOST_LINES;
    starts.filter(is_long).map(|at| at + 1).collect()
}

/// Returns the number of lines up to the semicolon that ends the first statement, without lines
/// that are only a comment.
fn statement_lines(lines: &[&str], comments: &[&str]) -> usize {
    let mut depth = 0_i64;
    let end = lines.iter().position(|line| {
        depth += line.matches(['(', '{', '[']).count() as i64;
        depth -= line.matches([')', '}', ']']).count() as i64;
        depth == 0 && line.ends_with(';')
    });
    let is_comment =
        |line: &usize| lines[*line].trim().is_empty() && !comments[*line].trim().is_empty();
    // A comment inside a closure explains it and does not make it longer.
    end.map_or(0, |end| end + 1 - (0..=end).filter(is_comment).count())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_closure_of_four_lines_is_found_and_one_of_three_is_not() {
        let four = "let a = |x| {\n    let y = x;\n    y\n};\n";
        let three = "let b = move |x: u8| {\n    x + 1\n};\nlet c = 5;\nlet d = a | b;\n";
        let below = "let e =\n    |x| match x {\n        1 => 2,\n        _ => 3,\n    };\n";
        let explained = "let f = |x| {\n    // Why.\n    x + 1\n};\n";
        let code = format!("{four}{three}{below}{explained}");
        assert_eq!(long_closures_in(&Code::of(&code, false)), [1, 10]);
        let tests = format!("#[cfg(test)]\nmod tests {{\n{four}}}\n");
        let repository =
            Repository::of(&[("crates/x/src/a.rs", &code), ("crates/x/src/b.rs", &tests)]);
        let places: Vec<String> =
            long_closures(&repository).into_iter().map(|found| found.place).collect();
        assert_eq!(places, ["crates/x/src/a.rs:1", "crates/x/src/a.rs:10"]);
    }
}
