//! The text of fio's job files: sections, keys, variables, and sizes and times as fio reads them.

use super::super::Malformed;

/// Microseconds in a second.
pub(super) const MICROS: f64 = 1e6;

/// A key as it stands.
#[derive(Clone)]
pub(super) struct Setting {
    /// From 1.
    pub(super) line: usize,
    pub(super) key: String,
    pub(super) value: String,
}

/// A section and its own keys.
pub(super) struct Section {
    pub(super) line: usize,
    pub(super) name: String,
    pub(super) settings: Vec<Setting>,
}

/// The sections of a file.
pub(super) fn sections(text: &str) -> Result<Vec<Section>, Malformed> {
    let mut sections: Vec<Section> = Vec::new();
    for (line, text) in (1..).zip(text.lines()) {
        let text = text.trim();
        if text.is_empty() || text.starts_with([';', '#']) {
            continue;
        }
        if let Some(rest) = text.strip_prefix('[') {
            let Some((name, _)) = rest.split_once(']') else {
                return Err(Malformed { line, what: format!("`{text}`: the section's name is cut off") });
            };
            sections.push(Section { line, name: name.to_owned(), settings: Vec::new() });
            continue;
        }
        let Some(section) = sections.last_mut() else {
            return Err(Malformed {
                line,
                what: format!("`{text}` stands before any section: this is no fio job file"),
            });
        };
        let (key, value) = text.split_once('=').unwrap_or((text, "1"));
        let value = expand(value.trim()).map_err(|what| Malformed { line, what })?;
        section.settings.push(Setting { line, key: key.trim().to_lowercase(), value });
    }
    Ok(sections)
}

/// `${NAME}` is the environment's; empty if it is not set.
fn expand(value: &str) -> Result<String, String> {
    let mut expanded = String::new();
    let mut rest = value;
    while let Some((before, after)) = rest.split_once("${") {
        let (name, behind) =
            after.split_once('}').ok_or_else(|| format!("`{value}`: the variable's name is cut off"))?;
        expanded.push_str(before);
        // No variable has such a name.
        let readable = !name.is_empty() && !name.contains(['=', '\0']);
        expanded.push_str(&if readable { std::env::var(name).unwrap_or_default() } else { String::new() });
        rest = behind;
    }
    expanded.push_str(rest);
    Ok(expanded)
}

/// Bytes as fio reads them; see the file.
pub(super) fn size(text: &str) -> Option<u64> {
    let text = text.trim().to_lowercase();
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let number: u64 = text[..digits].parse().ok()?;
    let unit = &text[digits..];
    let decimal = unit.len() == 3 && unit.ends_with("ib");
    let power = match unit.get(..1) {
        None => 0,
        Some("b") if unit == "b" => 0,
        Some(letter) => {
            let known = [letter.to_owned(), format!("{letter}b"), format!("{letter}i"), format!("{letter}ib")];
            let power = ["k", "m", "g", "t", "p"].iter().position(|known| *known == letter)? as u32 + 1;
            known.iter().any(|known| known == unit).then_some(power)?
        }
    };
    number.checked_mul(if decimal { 1000_u64 } else { 1024 }.checked_pow(power)?)
}

/// Seconds as fio reads times, whose unit is `per_second` to the second unless it is written.
pub(super) fn seconds(text: &str, per_second: f64) -> Option<f64> {
    let text = text.trim().to_lowercase();
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let number: f64 = text[..digits].parse().ok()?;
    let factor = match &text[digits..] {
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
