//! Rust text with what is not code blanked out, so that a word in a comment or a string is not
//! taken for code.

use proc_macro2::{LexError, Span, TokenStream, TokenTree};

/// Word, number, sign, bracket or text of a source.
pub(super) struct Token {
    pub(super) written: String,
    /// Counted from 1.
    pub(super) line: usize,
}

impl Token {
    /// Returns what stands between the quotes of a text, as it is written.
    pub(super) fn text(&self) -> Option<&str> {
        let is_text = self.written.starts_with(['"', 'r']) && self.written.ends_with(['"', '#']);
        let quoted = self.written.split_once('"').filter(|_| is_text);
        quoted.and_then(|(_, rest)| rest.rsplit_once('"')).map(|(text, _)| text)
    }
}

/// One source text as tokens, and seen three ways; all three have the same lines.
#[derive(Default)]
pub(super) struct Code {
    /// Tokens outside tests, without comments.
    pub(super) tokens: Vec<Token>,
    /// Code outside tests: comments, strings and test modules are blank.
    pub(super) product: String,
    /// All code, tests included: comments and strings are blank.
    pub(super) all: String,
    /// Comments only.
    pub(super) comments: String,
    /// Test modules only, comments and strings blank.
    pub(super) tests: String,
    /// Comments in test modules.
    pub(super) test_comments: String,
    /// Number of lines outside test modules, blank ones and comments included.
    pub(super) product_lines: usize,
    /// Line in which a text without tokens is broken, such as that of an unbalanced brace. All its
    /// views are empty.
    pub(super) broken: Option<usize>,
}

impl Code {
    /// Splits `text`. A file that is nothing but tests has no product code.
    pub(super) fn of(text: &str, only_tests: bool) -> Self {
        let (all, comments, mut tokens) = match split(text) {
            Ok(split) => split,
            Err(error) => {
                return Self { broken: Some(error.span().start().line), ..Self::default() };
            }
        };
        // Marks are made from code without comments and strings, in which a brace could mislead.
        let marks = in_tests(&all);
        let marked = |text: &str, wanted: bool| marked(text, &marks, wanted);
        tokens.retain(|token| !only_tests && !marks.get(token.line - 1).is_some_and(|test| *test));
        Self {
            tokens,
            product: if only_tests { String::new() } else { marked(&all, false) },
            tests: marked(&all, true),
            test_comments: marked(&comments, true),
            product_lines: marks.iter().filter(|in_tests| !**in_tests).count(),
            all,
            comments,
            broken: None,
        }
    }
}

/// Returns `text` with the lines of tests alone, or without them; other lines are empty.
fn marked(text: &str, marks: &[bool], wanted: bool) -> String {
    let lines =
        text.lines().zip(marks).map(|(line, in_tests)| if *in_tests == wanted { line } else { "" });
    lines.collect::<Vec<_>>().join("\n")
}

/// What a byte of a source text belongs to.
#[derive(Clone, Copy, PartialEq)]
enum Part {
    Code,
    /// A comment, or space.
    Comment,
    /// Text or a character literal.
    Literal,
}

/// Code and comments apart, each with the other blanked, and literals in neither; and the tokens.
fn split(text: &str) -> Result<(String, String, Vec<Token>), LexError> {
    let mut parts = vec![Part::Comment; text.len()];
    let mut tokens = Vec::new();
    mark(text.parse()?, text, &mut parts, &mut tokens);
    Ok((shown(text, &parts, Part::Code), shown(text, &parts, Part::Comment), tokens))
}

/// Returns `text` with all but its `wanted` part blanked. Line ends stay, so that all views have
/// the same lines.
fn shown(text: &str, parts: &[Part], wanted: Part) -> String {
    let shown = |(at, c)| if parts[at] == wanted || c == '\n' { c } else { ' ' };
    text.char_indices().map(shown).collect()
}

/// Marks the bytes of `stream`, and lists its tokens. A documentation comment is an attribute for
/// the parser: its tokens have the place of the comment.
fn mark(stream: TokenStream, text: &str, parts: &mut [Part], tokens: &mut Vec<Token>) {
    fn note(span: Span, text: &str, part: Part, parts: &mut [Part], tokens: &mut Vec<Token>) {
        let place = span.byte_range();
        tokens.push(Token { written: text[place.clone()].to_owned(), line: span.start().line });
        parts[place].fill(part);
    }
    for token in stream {
        let written = &text[token.span().byte_range()];
        match token {
            _ if written.starts_with("//") || written.starts_with("/*") => {}
            TokenTree::Group(group) => {
                note(group.span_open(), text, Part::Code, parts, tokens);
                mark(group.stream(), text, parts, tokens);
                note(group.span_close(), text, Part::Code, parts, tokens);
            }
            TokenTree::Literal(literal) if written.contains(['"', '\'']) => {
                note(literal.span(), text, Part::Literal, parts, tokens);
            }
            other => note(other.span(), text, Part::Code, parts, tokens),
        }
    }
}

/// For each line, whether it belongs to a `#[cfg(test)]` module: in formatted code its last line is
/// a brace in the same column as its first.
fn in_tests(code: &str) -> Vec<bool> {
    let lines: Vec<&str> = code.lines().collect();
    let mut marks = Vec::with_capacity(lines.len());
    while let Some(line) = lines.get(marks.len()) {
        let at = marks.len();
        let head = lines[at + 1..].iter().find(|line| !line.trim_start().starts_with("#["));
        if line.trim() == "#[cfg(test)]" && head.is_some_and(|line| opens_module(line)) {
            // Formatted code: the closing brace is in the column of the attribute.
            let closing = format!("{}}}", &line[..line.len() - line.trim_start().len()]);
            let end = lines[at..]
                .iter()
                .position(|line| *line == closing)
                .map_or(lines.len(), |offset| at + offset + 1);
            marks.resize(end, true);
        } else {
            marks.push(false);
        }
    }
    marks
}

fn opens_module(line: &str) -> bool {
    let head = line.trim_start();
    let head =
        ["pub(crate) ", "pub(super) "].iter().find_map(|at| head.strip_prefix(at)).unwrap_or(head);
    head.starts_with("mod ") && line.trim_end().ends_with('{')
}

/// The places of `word` in `code` that are whole words: line numbers from 1.
pub(super) fn word_lines(code: &str, word: &str) -> Vec<usize> {
    code.lines()
        .enumerate()
        .filter(|(_, line)| line.match_indices(word).any(|(at, _)| is_whole(line, at, word)))
        .map(|(n_line, _)| n_line + 1)
        .collect()
}

/// Returns whether `word` at `at` of `line` is no part of a longer word. A word that begins or ends
/// with a symbol, such as `todo!`, needs no boundary there.
fn is_whole(line: &str, at: usize, word: &str) -> bool {
    let part = |c: char| c.is_alphanumeric() || c == '_';
    let before = line[..at].chars().next_back();
    let after = line[at + word.len()..].chars().next();
    let open_start = !word.starts_with(part) || !before.is_some_and(part);
    let open_end = !word.ends_with(part) || !after.is_some_and(part);
    open_start && open_end
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_strings_and_characters_are_not_code() {
        let text = "let a = \"unsafe // no\"; // TODO later\nlet b = '\"'; let c: &'static str = \
            r#\"todo!() \"x\" \"#;\n/* async /* fn */ */ let d = '\\'';";
        let code = Code::of(text, false);
        assert!(
            !code.all.contains("unsafe")
                && !code.all.contains("todo!")
                && !code.all.contains("async")
        );
        assert!(code.all.contains("let c: &'static str =") && code.all.contains("let d ="));
        assert!(code.comments.contains("TODO later") && !code.comments.contains("let a"));
        assert_eq!(code.all.lines().count(), 3);
    }

    #[test]
    fn test_modules_are_left_out_and_what_follows_them_is_not() {
        let text = "fn a() {}\n\n#[cfg(test)]\nmod tests \
            {\n    fn b() {\n        x.unwrap();\n    }\n}\n\nfn c() {}\n";
        let code = Code::of(text, false);
        assert!(code.product.contains("fn a") && code.product.contains("fn c"));
        assert!(!code.product.contains("unwrap") && code.all.contains("unwrap"));
        assert!(code.tests.contains("unwrap") && !code.tests.contains("fn c"));
        assert_eq!(code.product_lines, 4);
    }

    #[test]
    fn words_are_found_whole() {
        assert_eq!(word_lines("unsafe_code\nunsafe {\n", "unsafe"), [2]);
        assert_eq!(word_lines("x.unwrap_or(1)\nx.unwrap()", ".unwrap()"), [2]);
    }
}
