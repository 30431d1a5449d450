//! Text of others made fit to be shown: control characters are written out as `\u001b` instead of
//! being obeyed.
//!
//! A host name, an error message or a plan may come from a peer or a file that somebody else wrote.
//! A terminal obeys what is in it: an escape sequence moves the cursor, changes a window's title or
//! pastes text; a bidirectional override shows a line in another order. The spelling with four
//! hexadecimal digits is valid in JSON too (RFC 8259 clause 7), and every character concerned has
//! four. Text is made printable where it enters (messages of peers, ledgers) and once more where it
//! leaves (terminal, reports).

use std::borrow::Cow;
use std::fmt::Write as _;

/// Treatment of line feeds and tabs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lines {
    /// The text is one line: a line feed is written out as `\n`, a tab becomes a space.
    One,
    /// The text may have several lines: both stay, and a carriage return before a line feed is left
    /// out.
    Several,
}

/// Most that text of JSON may grow by being made printable: this factor, and [`JSON_ROOM`] bytes.
const JSON_GROWTH: usize = 2;
/// Bytes that any text of JSON may grow by.
const JSON_ROOM: usize = 4 << 10;

/// Returns true if a terminal obeys `c` instead of showing it: C0 and C1 control characters, DEL,
/// marks of bidirectional text (Unicode Standard Annex 9, section 2), line and paragraph
/// separators, and the byte order mark.
#[must_use]
pub fn is_obeyed(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{feff}')
        || matches!(c, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Returns `text` with every character that would be obeyed written out. What is printable already
/// stays as it is.
#[must_use]
pub fn printable(text: &str, lines: Lines) -> Cow<'_, str> {
    let stays = |c: char| !is_obeyed(c) || lines == Lines::Several && matches!(c, '\n' | '\t');
    if text.chars().all(stays) {
        // Nearly all texts are printable already, and this path copies nothing.
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            c if stays(c) => out.push(c),
            '\t' => out.push(' '),
            // A line from Windows ends in both characters; only the line feed is kept.
            '\r' if lines == Lines::Several && chars.peek() == Some(&'\n') => {}
            c => write_out(&mut out, c),
        }
    }
    Cow::Owned(out)
}

/// Returns the JSON `text` with every string in it, keys included, made printable. Nothing else of
/// it changes: what is no JSON is no JSON afterwards. A text of mostly control characters would
/// take several times its memory; it is cut where it exceeds twice its length, so that its reader
/// refuses it.
#[must_use]
pub fn printable_json(text: &[u8], lines: Lines) -> Cow<'_, [u8]> {
    // Every character concerned is escaped with a backslash, is DEL, or is not ASCII. Other control
    // characters are refused by readers.
    if text.iter().all(|&byte| byte != b'\\' && byte < 0x7f) {
        return Cow::Borrowed(text);
    }
    // Its reader refuses what is not UTF-8.
    let Ok(json) = std::str::from_utf8(text) else { return Cow::Borrowed(text) };
    let most = json.len().saturating_mul(JSON_GROWTH).saturating_add(JSON_ROOM);
    let mut out = String::with_capacity(json.len());
    let mut rest = json;
    while let Some(at) = rest.find(|c: char| c == '\\' || c >= '\u{7f}' && is_obeyed(c)) {
        let (before, found) = rest.split_at(at);
        out.push_str(before);
        rest = match found.strip_prefix('\\') {
            Some(after) => escape(&mut out, after, lines),
            None => {
                let mut chars = found.chars();
                out.push('\\');
                chars.next().into_iter().for_each(|c| write_out(&mut out, c));
                chars.as_str()
            }
        };
        // A short text of control characters must not grow beyond the memory that its reader
        // planned for.
        if out.len() > most {
            return Cow::Owned(out.into_bytes());
        }
    }
    out.push_str(rest);
    Cow::Owned(out.into_bytes())
}

/// Appends the escape that `after` follows its backslash with, and returns what comes after that.
fn escape<'a>(out: &mut String, after: &'a str, lines: Lines) -> &'a str {
    /// Hexadecimal digits of `\u`.
    const DIGITS: usize = 4;
    let Some(letter) = after.chars().next() else {
        out.push('\\');
        return after;
    };
    let (code, rest) = match letter {
        'b' => (Some('\u{8}'), &after[1..]),
        'f' => (Some('\u{c}'), &after[1..]),
        'n' => (Some('\n'), &after[1..]),
        'r' => (Some('\r'), &after[1..]),
        't' => (Some('\t'), &after[1..]),
        'u' => match after
            .get(1..=DIGITS)
            .filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()))
        {
            // Halves of a surrogate pair are no characters: nothing that is obeyed is written with
            // two.
            Some(digits) => (
                u32::from_str_radix(digits, 16).ok().and_then(char::from_u32),
                &after[1 + DIGITS..],
            ),
            None => (None, &after[1..]),
        },
        other => (None, &after[other.len_utf8()..]),
    };
    match code.filter(|&c| is_obeyed(c)) {
        Some('\t') if lines == Lines::One => out.push(' '),
        Some('\r') if lines == Lines::Several && rest.starts_with("\\n") => {}
        Some(c) if lines == Lines::One || !matches!(c, '\n' | '\t') => {
            out.push('\\');
            write_out(out, c);
        }
        _ => {
            out.push('\\');
            out.push_str(&after[..after.len() - rest.len()]);
        }
    }
    rest
}

/// Appends `c` written out.
fn write_out(out: &mut String, c: char) {
    match c {
        '\n' => out.push_str("\\n"),
        '\r' => out.push_str("\\r"),
        c => {
            // Writing to a string cannot fail.
            let _ = write!(out, "\\u{:04x}", u32::from(c));
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    /// Text in which about every second character is one that is obeyed.
    fn hostile() -> impl Strategy<Value = String> {
        let obeyed = prop::sample::select(
            (0..=0xffff).filter_map(char::from_u32).filter(|c| is_obeyed(*c)).collect::<Vec<_>>(),
        );
        let plain =
            prop::sample::select(vec!['a', '\\', 'u', '0', '1', 'b', '"', 'µ', '[', 'n', '😀']);
        prop::collection::vec(prop_oneof![obeyed, plain, any::<char>()], 0..40)
            .prop_map(String::from_iter)
    }

    #[test]
    fn escape_sequences_are_written_out_and_plain_text_is_not_touched() {
        assert_eq!(
            printable("\x1b]0;owned\x07 a\tb\r\nc", Lines::One),
            "\\u001b]0;owned\\u0007 a b\\r\\nc"
        );
        assert_eq!(
            printable("a\r\n\tb\u{9b}31m\u{202e}\r", Lines::Several),
            "a\n\tb\\u009b31m\\u202e\\r"
        );
        let plain = "100 µs → \\n 😀 שלום";
        assert!(matches!(printable(plain, Lines::One), Cow::Borrowed(text) if text == plain));
    }

    #[test]
    fn strings_of_json_are_made_printable_and_nothing_else_changes() {
        let json = "{\n\t\"k\\u001b\": [1, \"a\\nb\\tc\\\\n\\/\\ud83d\\ude00\u{7f}\"]}";
        let one = "{\n\t\"k\\\\u001b\": [1, \"a\\\\nb c\\\\n\\/\\ud83d\\ude00\\\\u007f\"]}";
        assert_eq!(printable_json(json.as_bytes(), Lines::One), one.as_bytes());
        let several = "{\n\t\"k\\\\u001b\": [1, \"a\\nb\\tc\\\\n\\/\\ud83d\\ude00\\\\u007f\"]}";
        assert_eq!(printable_json(json.as_bytes(), Lines::Several), several.as_bytes());
        let many = format!("\"{}\"", "\u{7f}".repeat(100_000));
        let cut = printable_json(many.as_bytes(), Lines::One);
        assert!(
            cut.len() < 3 * many.len() && serde_json::from_slice::<Value>(&cut).is_err(),
            "{}",
            cut.len()
        );
    }

    proptest! {
        #[test]
        fn nothing_printable_is_obeyed_and_it_is_printable_once_and_for_all(text in hostile()) {
            let one = printable(&text, Lines::One);
            prop_assert!(!one.chars().any(is_obeyed), "{one:?}");
            prop_assert_eq!(&printable(&one, Lines::One), &one);
            let several = printable(&text, Lines::Several);
            prop_assert!(!several.chars().any(|c| is_obeyed(c) && c != '\n' && c != '\t'),
                "{several:?}");
        }

        #[test]
        fn text_that_is_made_printable_in_json_is_what_is_made_printable_outside(
            text in hostile(), key in hostile()
        ) {
            for lines in [Lines::One, Lines::Several] {
                let json = serde_json::json!({ (key.as_str()): [&text] }).to_string();
                let clean: Value = serde_json::from_slice(&printable_json(json.as_bytes(),
                    lines)).expect("still JSON");
                let expected = serde_json::json!({ (printable(&key, lines)): [printable(&text,
                    lines)] });
                prop_assert_eq!(&clean, &expected);
                // As some programs write it: everything beyond ASCII escaped.
                let units = |c: char| c.encode_utf16(&mut [0; 2]).to_vec();
                let escaped = |unit: &u16| format!("\\u{unit:04X}");
                let ascii: String = json.chars().map(|c| match c {
                    ' '..='~' => c.to_string(),
                    c => units(c).iter().map(escaped).collect(),
                }).collect();
                let clean: Value = serde_json::from_slice(&printable_json(ascii.as_bytes(),
                    lines)).expect("still JSON");
                prop_assert_eq!(&clean, &expected);
            }
        }

        #[test]
        fn any_bytes_pass(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let clean = printable_json(&bytes, Lines::One);
            prop_assert_eq!(
                serde_json::from_slice::<Value>(&bytes).is_ok(),
                serde_json::from_slice::<Value>(&clean).is_ok()
            );
        }
    }
}
