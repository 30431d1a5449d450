//! Lines of the access specification that follows from a job's sizes, and the I/O priorities of
//! their transfers.

use linerate_sys::storage::Priority;

use super::super::{Class, Malformed};
use super::Reader;
use super::text::{Setting, size};

/// Transfers of one size. Shares in per cent.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Line {
    pub(super) bytes: u64,
    /// Of all transfers.
    pub(super) weight: f64,
    /// Reads among these.
    pub(super) read: f64,
    pub(super) priority: Option<Priority>,
}

/// Part of the transfers of one direction with a priority of its own.
#[derive(Clone, Copy, Debug)]
struct Part {
    /// Of transfers of this size only.
    bytes: Option<u64>,
    /// Per cent.
    share: f64,
    priority: Priority,
}

/// Directions in fio's order.
const READS: usize = 0;
const WRITES: usize = 1;

impl Line {
    fn text(&self, random: f64, align: Option<u64>) -> String {
        let align = align.map_or(String::new(), |bytes| format!(", align {bytes} B"));
        let priority =
            self.priority.map_or(String::new(), |priority| format!(", priority {priority}"));
        let Self { bytes, weight, read, .. } = self;
        format!("{bytes} B, weight {weight} %, read {read} %, random {random} %{align}{priority}")
    }

    /// Splits the line into reads and writes.
    fn apart(&self) -> [Self; 2] {
        let (reads, writes) = (self.read, 100.0 - self.read);
        [
            Self { weight: self.weight * reads / 100.0, read: 100.0, ..self.clone() },
            Self { weight: self.weight * writes / 100.0, read: 0.0, ..self.clone() },
        ]
    }
}

/// Splits off the parts of `lines` in each direction that have a priority.
fn split(lines: &[Line], parts: &[Vec<Part>; 2]) -> Vec<Line> {
    let mut split = Vec::new();
    for line in lines.iter().flat_map(Line::apart).filter(|line| line.weight > 0.0) {
        let direction = if line.read > 0.0 { READS } else { WRITES };
        let own = parts[direction]
            .iter()
            .filter(|part| part.bytes.is_none_or(|bytes| bytes == line.bytes));
        // Transfers without a priority of their own keep the rest of the line.
        let mut rest = 100.0;
        for part in own.filter(|part| part.share > 0.0) {
            rest -= part.share;
            let weight = line.weight * part.share / 100.0;
            split.push(Line { weight, priority: Some(part.priority), ..line });
        }
        if rest > 0.0 {
            split.push(Line { weight: line.weight * rest / 100.0, ..line });
        }
    }
    split
}

impl Reader {
    /// Sets the parameters of `lines`, of which `random` per cent go to random places: single
    /// parameters, or an access specification.
    pub(super) fn lines(
        &mut self,
        lines: Vec<Line>,
        random: f64,
        align: Option<u64>,
    ) -> Result<(), Malformed> {
        self.job_priority()?;
        let parts = self.parts()?;
        // Lines are split only if a part has a priority, so that plain jobs stay one line.
        let lines = if parts.iter().all(Vec::is_empty) { lines } else { split(&lines, &parts) };
        // A single line becomes plain parameters, which a person reads and edits more easily.
        let [line] = &lines[..] else {
            let text: Vec<String> = lines.iter().map(|line| line.text(random, align)).collect();
            self.job.text("access", &text.join("; "));
            return Ok(());
        };
        self.job.block = Some(line.bytes);
        self.job.size("block_size", line.bytes);
        self.job.text("read", &format!("{} %", line.read));
        self.job.text("random", &format!("{random} %"));
        if let Some(align) = align {
            self.job.size("align", align);
        }
        if let Some(priority) = line.priority {
            self.job.text("priority", &priority.to_string());
        }
        Ok(())
    }

    /// Reads `prioclass`, `prio` and `priohint`, for every transfer without a priority of its own.
    fn job_priority(&mut self) -> Result<(), Malformed> {
        let taken = ["prioclass", "prio", "priohint"].map(|key| self.take(key));
        if taken.iter().all(Option::is_none) {
            return Ok(());
        }
        // The kernel takes a level without a class for best-effort, and fio does so too.
        let class = self.number_or(taken[0].as_ref(), 2)?;
        let level = self.number_or(taken[1].as_ref(), 0)?;
        let hint = self.number_or(taken[2].as_ref(), 0)?;
        let priority = Priority::new(class, level, hint);
        for setting in taken.into_iter().flatten() {
            match priority {
                Some(priority) => {
                    self.class(&setting, Class::Exact, format!("priority {priority}"))
                }
                None => self.class(
                    &setting,
                    Class::Refused,
                    "classes are 1 to 3, levels and hints 0 to 7",
                ),
            }
        }
        if let Some(priority) = priority {
            self.job.text("priority", &priority.to_string());
        }
        Ok(())
    }

    fn number_or(&self, setting: Option<&Setting>, otherwise: u16) -> Result<u16, Malformed> {
        setting.map_or(Ok(otherwise), |setting| self.number(setting))
    }

    /// Reads `cmdprio_percentage` and `cmdprio_bssplit`, for reads and for writes.
    fn parts(&mut self) -> Result<[Vec<Part>; 2], Malformed> {
        let mut parts = [Vec::new(), Vec::new()];
        let default = self.default_parts()?;
        if let Some(setting) = self.take("cmdprio_percentage") {
            for (direction, part) in parts.iter_mut().enumerate() {
                let share = share(&setting, of_direction(&setting.value, direction))?;
                part.push(Part { bytes: None, share, priority: default[direction] });
            }
            self.class(
                &setting,
                Class::Exact,
                "lines of an access specification, those with a priority apart",
            );
        }
        if let Some(setting) = self.take("cmdprio_bssplit") {
            for (direction, part) in parts.iter_mut().enumerate() {
                for entry in of_direction(&setting.value, direction).split(':') {
                    part.push(entry_of(&setting, entry, default[direction])?);
                }
            }
            self.class(
                &setting,
                Class::Exact,
                "lines of an access specification, those with a priority apart",
            );
        }
        Ok(parts)
    }

    /// Reads the default priority of a part, for reads and for writes: realtime 0.
    fn default_parts(&mut self) -> Result<[Priority; 2], Malformed> {
        // fio's default class is 1 (realtime) for parts, unlike for whole jobs.
        let mut numbers = [[1, 1], [0, 0], [0, 0]];
        let keys = ["cmdprio_class", "cmdprio", "cmdprio_hint"];
        for (values, key) in numbers.iter_mut().zip(keys) {
            let Some(setting) = self.take(key) else { continue };
            for (direction, value) in values.iter_mut().enumerate() {
                let text = of_direction(&setting.value, direction);
                *value = text.parse().map_err(|_| malformed(&setting, "not a number"))?;
            }
            self.class(&setting, Class::Exact, "priority in lines of an access specification");
        }
        let [class, level, hint] = numbers;
        let of = |way: usize| Priority::new(class[way], level[way], hint[way]);
        match (of(READS), of(WRITES)) {
            (Some(reads), Some(writes)) => Ok([reads, writes]),
            _ => Err(Malformed::new(1, "cmdprio: classes are 1 to 3, levels and hints 0 to 7")),
        }
    }
}

fn malformed(setting: &Setting, what: &str) -> Malformed {
    Malformed::new(setting.line, format!("{}={}: {what}", setting.key, setting.value))
}

/// Returns the value of one direction: the one before the comma for both, or the one behind it for
/// writes.
fn of_direction(text: &str, direction: usize) -> &str {
    // fio separates directions by commas; one value is for both.
    let values: Vec<&str> = text.split(',').collect();
    values.get(direction).or(values.first()).copied().unwrap_or_default().trim()
}

fn share(setting: &Setting, text: &str) -> Result<f64, Malformed> {
    let share = text.parse().ok().filter(|share| (0.0..=100.0).contains(share));
    share.ok_or_else(|| malformed(setting, "not a share in per cent"))
}

/// Reads `SIZE/PER CENT` or `SIZE/PER CENT/CLASS/LEVEL` or that with `/HINT`.
fn entry_of(setting: &Setting, entry: &str, default: Priority) -> Result<Part, Malformed> {
    let wrong = || {
        malformed(setting, &format!("`{entry}` is not SIZE/SHARE or SIZE/SHARE/CLASS/LEVEL/HINT"))
    };
    let fields: Vec<&str> = entry.split('/').map(str::trim).collect();
    let number = |place: usize| fields.get(place).map_or(Some(0), |text| text.parse::<u16>().ok());
    let priority = match fields.len() {
        2 => Some(default),
        4 | 5 => number(2)
            .zip(number(3))
            .zip(number(4))
            .and_then(|((class, level), hint)| Priority::new(class, level, hint)),
        _ => None,
    };
    let bytes = size(fields[0]).ok_or_else(wrong)?;
    Ok(Part {
        bytes: Some(bytes),
        share: share(setting, fields.get(1).ok_or_else(wrong)?)?,
        priority: priority.ok_or_else(wrong)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_with_a_priority_are_lines_of_their_own_and_weights_stay() {
        let line = |bytes, weight, read| Line { bytes, weight, read, priority: None };
        let first = Priority::new(1, 0, 0).expect("one");
        let reads = vec![Part { bytes: Some(65_536), share: 100.0, priority: first }];
        let found =
            split(&[line(65_536, 20.0, 100.0), line(1 << 20, 80.0, 37.5)], &[reads, Vec::new()]);
        let expected = [
            Line { priority: Some(first), ..line(65_536, 20.0, 100.0) },
            line(1 << 20, 30.0, 100.0),
            line(1 << 20, 50.0, 0.0),
        ];
        assert_eq!(found, expected);
    }
}
