//! Words of a command line as letters, and their values as netperf reads them.

use std::ffi::OsString;
use std::time::Duration;

use clap_lex::RawArgs;

use super::{Result, WrongOption};

/// Splits words into letters with their values; `-k`, `-o` and `-O` of a test take the next word
/// unless it begins with a dash.
pub(super) fn letters(
    words: &[OsString],
    values: &str,
    flags: &str,
) -> Result<Vec<(char, String)>> {
    let raw = RawArgs::new(words);
    let mut cursor = raw.cursor();
    let mut found = Vec::new();
    while let Some(word) = raw.next(&mut cursor) {
        let stray = || WrongOption::Stray(word.display().to_string());
        let mut shorts = word.to_short().ok_or_else(stray)?;
        while let Some(letter) = shorts.next_flag() {
            let letter = letter.map_err(|_| stray())?;
            let is_list = flags.contains('k') && "koO".contains(letter);
            let value = if values.contains(letter) {
                let attached = shorts.next_value_os().map(ToOwned::to_owned);
                let value = attached.or_else(|| raw.next_os(&mut cursor).map(ToOwned::to_owned));
                value.ok_or(WrongOption::NoValue(letter))?
            } else if !flags.contains(letter) {
                return Err(WrongOption::Unknown(letter));
            } else if is_list && raw.peek(&cursor).is_some_and(|next| !starts_with_dash(next)) {
                raw.next_os(&mut cursor).map(ToOwned::to_owned).unwrap_or_default()
            } else {
                OsString::new()
            };
            found.push((letter, value.to_string_lossy().into_owned()));
        }
    }
    Ok(found)
}

fn starts_with_dash(word: clap_lex::ParsedArg<'_>) -> bool {
    word.to_value_os().as_encoded_bytes().first() == Some(&b'-')
}

/// Splits a pair: without a comma, both are the value.
pub(super) fn both(value: &str) -> [Option<&str>; 2] {
    match value.split_once(',') {
        Some((first, second)) => [first, second].map(|text| Some(text).filter(|t| !t.is_empty())),
        None => [Some(value), Some(value)],
    }
}

/// Splits a pair: without a comma, only the first is the value.
pub(super) fn first(value: &str) -> [Option<&str>; 2] {
    if value.contains(',') { both(value) } else { [Some(value), None] }
}

/// Reads a whole number with one of netperf's letters: upper case is a power of 1024.
pub(super) fn size(letter: char, text: &str) -> Result<u32> {
    let wrong = || WrongOption::Value(letter, text.to_owned(), "a number of bytes, such as 64K");
    let (digits, factor) = match text.chars().last() {
        Some('k') => (&text[..text.len() - 1], 1_000),
        Some('m') => (&text[..text.len() - 1], 1_000_000),
        Some('g') => (&text[..text.len() - 1], 1_000_000_000),
        Some('K') => (&text[..text.len() - 1], 1 << 10),
        Some('M') => (&text[..text.len() - 1], 1 << 20),
        Some('G') => (&text[..text.len() - 1], 1 << 30),
        _ => (text, 1),
    };
    let number: u32 = digits.parse().map_err(|_| wrong())?;
    let bytes = number.checked_mul(factor).filter(|bytes| i32::try_from(*bytes).is_ok());
    bytes.ok_or_else(wrong)
}

pub(super) fn number<T: std::str::FromStr>(letter: char, text: &str) -> Result<T> {
    let wrong = |_| WrongOption::Value(letter, text.to_owned(), "a number");
    text.parse().map_err(wrong)
}

/// Reads an octet, in any base that C has.
pub(super) fn octet(letter: char, text: &str) -> Result<u8> {
    let wrong = |_| WrongOption::Value(letter, text.to_owned(), "a traffic class, such as 0xb8");
    let parsed = match (text.strip_prefix("0x"), text.strip_prefix('0')) {
        (Some(digits), _) => u8::from_str_radix(digits, 16),
        (None, Some(digits)) if !digits.is_empty() => u8::from_str_radix(digits, 8),
        _ => text.parse(),
    };
    parsed.map_err(wrong)
}

/// Reads a time in seconds.
pub(super) fn seconds(letter: char, text: &str) -> Result<Duration> {
    let time: f64 = number(letter, text)?;
    let wrong = |_| WrongOption::Value(letter, text.to_owned(), "a time in seconds");
    Duration::try_from_secs_f64(time).map_err(wrong)
}

pub(super) fn set<T>(pair: &mut [T; 2], values: [Option<T>; 2]) {
    for (one, value) in pair.iter_mut().zip(values) {
        if let Some(value) = value {
            *one = value;
        }
    }
}

/// Reads both values of a pair.
pub(super) fn read<T>(
    pair: [Option<&str>; 2],
    of: impl Fn(&str) -> Result<T>,
) -> Result<[Option<T>; 2]> {
    let [first, second] = pair.map(|text| text.map(&of).transpose());
    Ok([first?, second?])
}
