//! What is wrong with a person's input, all of it at once.

use std::ops::Range;

/// One problem in a text a person wrote (a plan, a lab file, a command line value).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Byte range in the text, where known.
    pub span: Option<Range<usize>>,
    /// What is wrong, lower case, no full stop.
    pub message: String,
    /// What was expected, where that helps.
    pub expected: Option<String>,
    /// The nearest known name, for a misspelt one.
    pub nearest: Option<String>,
}

impl Problem {
    /// A problem at `span`.
    #[must_use]
    pub fn new(span: Option<Range<usize>>, message: impl Into<String>) -> Self {
        Self { span, message: message.into(), expected: None, nearest: None }
    }

    /// The same, saying what was expected.
    #[must_use]
    pub fn expected(mut self, expected: impl Into<String>) -> Self {
        self.expected = Some(expected.into());
        self
    }

    /// The same, naming the nearest known name.
    #[must_use]
    pub fn nearest(mut self, nearest: Option<&str>) -> Self {
        self.nearest = nearest.map(str::to_owned);
        self
    }
}

/// The known name closest to `word`, if it is close enough to be what was meant (at most a third of it wrong).
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let limit = word.chars().count().max(3).div_ceil(3);
    known
        .into_iter()
        .map(|name| (edit_distance(word, name), name))
        .filter(|(distance, _)| *distance <= limit)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}

/// Levenshtein distance in characters; O(len(a) * len(b)).
fn edit_distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, ca) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, cb) in b.iter().enumerate() {
            let substituted = diagonal + usize::from(ca != *cb);
            diagonal = row[j + 1];
            row[j + 1] = substituted.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelling_finds_its_name_and_nonsense_finds_none() {
        let known = ["tcp_stream", "udp_stream", "tcp_rr"];
        assert_eq!(nearest("tcp_steam", known), Some("tcp_stream"));
        assert_eq!(nearest("quic", known), None);
    }
}
