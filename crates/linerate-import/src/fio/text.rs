//! Text of fio's job files: sections, keys, comments, included files, variables, and sizes and
//! times as fio reads them.

use std::path::Path;

use super::super::{Malformed, Targets};

/// Microseconds in a second.
pub(super) const MICROS: f64 = 1e6;

/// Key as written.
#[derive(Clone)]
pub(super) struct Setting {
    /// Line, from 1.
    pub(super) line: usize,
    pub(super) key: String,
    pub(super) value: String,
}

impl Setting {
    /// Returns the error that `text`, the value or a part of it, is no `kind`.
    pub(super) fn is_no(&self, kind: &str, text: &str) -> Malformed {
        Malformed::new(self.line, format!("{}={text}: not a {kind}", self.key))
    }
}

/// A section and its own keys.
pub(super) struct Section {
    pub(super) line: usize,
    pub(super) name: String,
    pub(super) settings: Vec<Setting>,
}

/// Most levels of included files: fio's own limit.
const MOST_INCLUDED: u32 = 16;
/// Most included files of one job file: each of 16 levels might include the next many times.
const MOST_FILES: u32 = 256;
/// Size of the largest included file.
const MOST_BYTES: u64 = 1 << 20;

/// Reads the sections of a file. Settings of an included file have the line of the `include`.
pub(super) fn sections(text: &str, targets: &Targets<'_>) -> Result<Vec<Section>, Malformed> {
    let mut sections = Vec::new();
    add(&mut sections, text, targets, (targets.folder, 0), None, &mut 0)?;
    Ok(sections)
}

fn add(
    sections: &mut Vec<Section>,
    text: &str,
    targets: &Targets<'_>,
    (folder, depth): (&Path, u32),
    included_at: Option<usize>,
    n_files: &mut u32,
) -> Result<(), Malformed> {
    for (number, text) in (1..).zip(text.lines()) {
        let line = included_at.unwrap_or(number);
        // fio ends a line at a comment, wherever that begins.
        let text = text.split([';', '#']).next().unwrap_or_default().trim();
        if text.is_empty() {
            continue;
        }
        if let Some(name) = text.strip_prefix("include ").map(str::trim) {
            let path = folder.join(name);
            let failed = |why: String| Malformed::new(line, format!("include {name}: {why}"));
            if depth >= MOST_INCLUDED {
                return Err(failed(format!("more than {MOST_INCLUDED} files include each other")));
            }
            // A file may include one that includes the next many times; the number of levels alone
            // bounds nothing.
            *n_files += 1;
            if *n_files > MOST_FILES {
                return Err(failed(format!("more than {MOST_FILES} files are included")));
            }
            let text = targets
                .here
                .text(&path, MOST_BYTES)
                .map_err(|error| failed(format!("{}: {error}", path.display())))?;
            add(
                sections,
                &text,
                targets,
                // An included file names further ones relative to itself.
                (path.parent().unwrap_or(folder), depth + 1),
                Some(line),
                n_files,
            )?;
            continue;
        }
        if let Some(rest) = text.strip_prefix('[') {
            let Some((name, _)) = rest.split_once(']') else {
                return Err(Malformed::new(
                    line,
                    format!("`{text}`: the section's name is cut off"),
                ));
            };
            sections.push(Section { line, name: name.to_owned(), settings: Vec::new() });
            continue;
        }
        let Some(section) = sections.last_mut() else {
            return Err(Malformed::new(
                line,
                format!("`{text}` stands before any section: this is no fio job file"),
            ));
        };
        // A key without a value is set to 1 in fio.
        let (key, value) = text.split_once('=').unwrap_or((text, "1"));
        let value = expand(value.trim(), targets).map_err(|what| Malformed::new(line, what))?;
        section.settings.push(Setting { line, key: key.trim().to_lowercase(), value });
    }
    Ok(())
}

/// Replaces `${NAME}` by the environment variable. fio treats an unset one as empty, and then
/// refuses the value.
fn expand(value: &str, targets: &Targets<'_>) -> Result<String, String> {
    let mut expanded = String::new();
    let mut rest = value;
    while let Some((before, after)) = rest.split_once("${") {
        let (name, behind) = after
            .split_once('}')
            .ok_or_else(|| format!("`{value}`: the variable's name is cut off"))?;
        expanded.push_str(before);
        // No variable has such a name.
        let readable = !name.is_empty() && !name.contains(['=', '\0']);
        let found = readable.then(|| targets.here.variable(name)).flatten();
        expanded.push_str(&found.ok_or_else(|| {
            format!("`{value}`: the environment has no {name}: set it to what fio would be given")
        })?);
        rest = behind;
    }
    expanded.push_str(rest);
    Ok(expanded)
}

/// Reads bytes as fio does; see the file.
pub(super) fn size(text: &str) -> Option<u64> {
    let text = text.trim().to_lowercase();
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let number: u64 = text[..digits].parse().ok()?;
    let unit = &text[digits..];
    // fio has it the other way round: `kib` is decimal and `kb` binary, unless `kb_base` is 1000.
    let decimal = unit.len() == 3 && unit.ends_with("ib");
    let power = match unit.get(..1) {
        None => 0,
        Some("b") if unit == "b" => 0,
        Some(letter) => {
            let known = [
                letter.to_owned(),
                format!("{letter}b"),
                format!("{letter}i"),
                format!("{letter}ib"),
            ];
            let power =
                ["k", "m", "g", "t", "p"].iter().position(|known| *known == letter)? as u32 + 1;
            known.iter().any(|known| known == unit).then_some(power)?
        }
    };
    number.checked_mul(if decimal { 1000_u64 } else { 1024 }.checked_pow(power)?)
}

/// Reads seconds as fio does. Times without a unit count `per_second` to the second.
pub(super) fn seconds(text: &str, per_second: f64) -> Option<f64> {
    let text = text.trim().to_lowercase();
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let number: f64 = text[..digits].parse().ok()?;
    let factor = match &text[digits..] {
        // A number alone has the key's own unit.
        "" => return Some(number / per_second),
        "us" | "usec" => 1.0 / MICROS,
        "ms" | "msec" => 1e-3,
        "s" | "sec" => 1.0,
        "m" => 60.0,
        "h" => 3_600.0,
        "d" => 86_400.0,
        _ => return None,
    };
    Some(number * factor)
}
