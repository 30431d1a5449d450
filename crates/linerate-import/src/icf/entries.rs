//! Keys of a configuration with the values below them.

use crate::Malformed;

/// Key and the values below it.
pub(super) struct Entry<'a> {
    pub(super) line: usize,
    pub(super) key: &'a str,
    pub(super) values: Vec<(usize, &'a str)>,
}

impl<'a> Entry<'a> {
    pub(super) fn is(&self, start: &str) -> bool {
        // Keys are compared by their beginning, because versions append units and captions.
        self.key.get(..start.len()).is_some_and(|key| key.eq_ignore_ascii_case(start))
    }

    /// Returns its first value.
    pub(super) fn value(&self) -> Result<(usize, &'a str), Malformed> {
        let missing = || {
            Malformed::new(self.line, format!("`{}` has no value: is the file cut off?", self.key))
        };
        self.values.first().copied().ok_or_else(missing)
    }

    /// Returns the numbers in its value, separated by blanks or commas.
    pub(super) fn numbers(&self, least: usize) -> Result<Vec<u64>, Malformed> {
        let (line, text) = self.value()?;
        numbers(line, text, least)
    }
}

/// Splits `text` at blanks and commas.
pub(super) fn fields(text: &str) -> Vec<&str> {
    text.split(|c: char| c == ',' || c.is_whitespace()).filter(|field| !field.is_empty()).collect()
}

/// Reads the numbers at the beginning of `text`, of which there must be `least`.
pub(super) fn numbers(line: usize, text: &str, least: usize) -> Result<Vec<u64>, Malformed> {
    let wrong = |what: String| Malformed::new(line, what);
    let number =
        |field: &str| field.parse().map_err(|_| wrong(format!("`{field}` is not a number")));
    // Text follows the numbers in some versions, such as names of cycle types.
    let found = fields(text)
        .into_iter()
        .take_while(|field| field.starts_with(|c: char| c.is_ascii_digit() || c == '-'));
    let found = found.map(number).collect::<Result<Vec<u64>, _>>()?;
    if found.len() < least {
        return Err(wrong(format!("`{text}` has {} numbers, and {least} are needed", found.len())));
    }
    Ok(found)
}

/// Reads keys with their values; the file must begin and end with its version.
pub(super) fn entries(text: &str) -> Result<Vec<Entry<'_>>, Malformed> {
    let lines: Vec<(usize, &str)> =
        (1..).zip(text.lines().map(str::trim)).filter(|(_, line)| !line.is_empty()).collect();
    let (Some((_, first)), Some((last_at, last))) = (lines.first(), lines.last()) else {
        return Err(Malformed::new(1, "the file is empty"));
    };
    if !is_version(first) {
        return Err(Malformed::new(
            1,
            "not an Iometer configuration: the first line of one is `Version ...`",
        ));
    }
    // The last line repeats the first, so a file that was cut off is noticed.
    if lines.len() < 2 || !is_version(last) {
        return Err(Malformed::new(
            *last_at,
            "the file is cut off: its last line is not `Version ...` again",
        ));
    }
    let mut entries: Vec<Entry<'_>> = Vec::new();
    for &(line, text) in &lines[1..lines.len() - 1] {
        match text.strip_prefix('\'') {
            // A caption of the columns below it.
            Some(caption) if caption.starts_with(char::is_whitespace) => {}
            Some(key) => {
                entries.push(Entry {
                    line,
                    key: key.trim_end_matches('=').trim(),
                    values: Vec::new(),
                });
            }
            None => match entries.last_mut() {
                Some(entry) => entry.values.push((line, text)),
                None => {
                    return Err(Malformed::new(line, format!("`{text}` is under no key")));
                }
            },
        }
    }
    Ok(entries)
}

/// Returns true for the first and the last line of a configuration.
fn is_version(line: &str) -> bool {
    let start = line.trim_start_matches('\'').get(..8);
    start.is_some_and(|start| start.eq_ignore_ascii_case("version "))
}
