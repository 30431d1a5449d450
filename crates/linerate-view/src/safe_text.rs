//! Text that is safe to write to a terminal: its control characters are shown, not obeyed.

use std::borrow::Cow;

use linerate_model::{Lines, printable};

/// Returns `text` without the passwords of addresses, and with control characters escaped. Where
/// messages are coloured, sequences that only choose a colour or style pass.
#[must_use]
pub fn safe_text(text: &str, has_color: bool) -> String {
    // Every message passes here, so no command can print a password by mistake.
    let hidden = linerate_model::redacted(text);
    let parts = if has_color { styles(&hidden) } else { vec![(&*hidden, "")] };
    parts
        .iter()
        .flat_map(|(text, style)| [printable(text, Lines::Several), Cow::Borrowed(*style)])
        .collect()
}

/// Splits `text` into parts, each with the style sequence after it (`ESC [ numbers m`, ECMA-48
/// clause 8.3.117). The last part has none.
fn styles(text: &str) -> Vec<(&str, &str)> {
    const START: &str = "\x1b[";
    let mut parts = Vec::new();
    let (mut part, mut from) = (0, 0);
    while let Some(at) = text[from..].find(START).map(|at| from + at) {
        from = at + START.len();
        let numbers =
            text[from..].bytes().take_while(|byte| matches!(byte, b'0'..=b'9' | b';')).count();
        // Only sequences that choose a style end in `m`; all others are escaped.
        if text[from + numbers..].starts_with('m') {
            from += numbers + 1;
            parts.push((&text[part..at], &text[at..from]));
            part = from;
        }
    }
    parts.push((&text[part..], ""));
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_printed_is_never_obeyed() {
        let hostile = "host \x1b]0;owned\x07 \x1b[2J \u{9b}31m\u{202e} done\r\n\tnext";
        assert_eq!(
            safe_text(hostile, false),
            "host \\u001b]0;owned\\u0007 \\u001b[2J \\u009b31m\\u202e done\n\tnext"
        );
    }

    #[test]
    fn only_complete_style_sequences_are_styles() {
        let text = "\x1b[1;31merror\x1b[0m: \x1b[2J \x1b[6n \x1b[38;5;9m\x1b";
        let styles = styles(text);
        assert_eq!(
            styles,
            [
                ("", "\x1b[1;31m"),
                ("error", "\x1b[0m"),
                (": \x1b[2J \x1b[6n ", "\x1b[38;5;9m"),
                ("\x1b", "")
            ]
        );
    }
}
