//! Printed figures that follow from one or two other figures of the same paper, as data.
//!
//! A paper's data file lists them under `[[follows]]`: the figures, how they combine, and the
//! digits to which the result is printed. An item of that kind needs no code of its own.

use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::{Replay, ReplayItem, agrees_to};

/// The key of the data file that holds these items.
const KEY: &str = "follows";

/// One printed figure and the figures from which it follows.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Follows {
    id: String,
    what: String,
    printed: f64,
    /// Digits after the decimal point to which it is printed; -1 is "to tens".
    digits: i32,
    #[serde(default)]
    unit: String,
    #[serde(default)]
    rounded: Rounded,
    of: Vec<Figure>,
    #[serde(rename = "as")]
    form: Form,
    why: String,
}

/// Rounding of the digits after the last printed one.
#[derive(Clone, Copy, Default, Deserialize, PartialEq)]
#[serde(rename_all = "kebab-case")]
enum Rounded {
    /// Rounded half up or cut off.
    #[default]
    Either,
    /// Rounded half up, as the paper's other figures of this kind are.
    HalfUp,
}

/// A figure of the paper: a number, or the place of one in the data file
/// (`table_1.message_bytes.0`).
#[derive(Deserialize)]
#[serde(untagged)]
enum Figure {
    Number(f64),
    Place(String),
}

/// Combination of the figures.
#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Form {
    /// The first one itself.
    Same,
    /// The first one over the second one.
    Quotient,
    /// The same in per cent.
    Share,
    /// The same less 100 %.
    Gain,
}

impl Form {
    /// Returns the value and its arithmetic; `None` if the number of figures is wrong.
    fn value(self, of: &[f64]) -> Option<(f64, String)> {
        const PERCENT: f64 = 100.0;
        Some(match (self, of) {
            (Self::Same, [value]) => (*value, "given elsewhere as".to_owned()),
            (Self::Quotient, [a, b]) => (a / b, format!("{a} / {b} =")),
            (Self::Share, [a, b]) => (a / b * PERCENT, format!("{a} / {b} =")),
            (Self::Gain, [a, b]) => ((a / b - 1.0) * PERCENT, format!("{a} / {b} - 1 =")),
            _ => return None,
        })
    }
}

impl Follows {
    fn item(self, figures: &toml::Table) -> Option<ReplayItem> {
        // One figure without a place makes the whole item wrong, and the caller reports it.
        let of: Option<Vec<f64>> = self.of.iter().map(|figure| figure.value(figures)).collect();
        let (value, arithmetic) = self.form.value(&of?)?;
        let agrees = match self.rounded {
            // Papers rarely state how they round, so both ways are accepted.
            Rounded::Either => agrees_to(self.printed, value, self.digits),
            Rounded::HalfUp => {
                let scale = 10_f64.powi(self.digits);
                (value * scale).round() == (self.printed * scale).round()
            }
        };
        let unit = if self.unit.is_empty() { String::new() } else { format!(" {}", self.unit) };
        // Negative digits mean rounding to tens, which needs no decimals in print.
        let printed_digits = usize::try_from(self.digits).unwrap_or(0);
        // One digit more than is printed shows how it was rounded.
        let shown_digits = usize::try_from(self.digits + 1).unwrap_or(0);
        Some(ReplayItem {
            id: self.id,
            what: self.what,
            printed: format!("{:.printed_digits$}{unit}", self.printed),
            recomputed: format!("{arithmetic} {value:.shown_digits$}{unit}"),
            agrees,
            digits: Some(self.digits),
            why_it_matters: self.why,
        })
    }
}

impl Figure {
    fn value(&self, figures: &toml::Table) -> Option<f64> {
        let place = match self {
            Self::Number(value) => return Some(*value),
            Self::Place(place) => place,
        };
        let mut parts = place.split('.');
        // Tables of the data file nest, and arrays are addressed by index.
        let first = figures.get(parts.next()?)?;
        let value = parts.try_fold(first, |value, part| match value {
            toml::Value::Array(values) => values.get(part.parse::<usize>().ok()?),
            other => other.get(part),
        })?;
        // TOML distinguishes 9 from 9.0, a printed table does not.
        value.as_float().or_else(|| value.as_integer().map(|count| count as f64))
    }
}

/// Returns the replay of `paper` from its data file: the items listed there, and those that `items`
/// derives from its other figures.
pub(super) fn replay<T: DeserializeOwned>(
    paper: &str,
    data: &str,
    items: fn(&T) -> Vec<ReplayItem>,
) -> Replay {
    let mut figures: toml::Table = data.parse().expect("the embedded data file is TOML");
    let listed = figures.remove(KEY).unwrap_or_else(|| toml::Value::Array(Vec::new()));
    let listed: Vec<Follows> = listed.try_into().expect("every item of `follows` is complete");
    let followed = listed.into_iter().map(|one| {
        let id = one.id.clone();
        one.item(&figures)
            // The data file is part of the program, so a missing figure is a mistake of ours and no
            // input error.
            .unwrap_or_else(|| panic!("{paper}: {id}: a figure in `of` is missing or too many"))
    });
    let mut all: Vec<ReplayItem> = followed.collect();
    let printed: T = toml::Value::Table(figures)
        .try_into()
        .expect("the embedded data file has the figures used");
    all.extend(items(&printed));
    Replay { paper: paper.to_owned(), items: all }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn items(follows: &str) -> Vec<ReplayItem> {
        let data = format!(
            "rate = 70.8\n[table]\nsizes = [4, 2873]\n[[follows]]\nid = \"a\"\nwhat \
                = \"b\"\n{follows}\nwhy = \"c\"\n"
        );
        replay::<toml::Table>("paper", &data, |_| Vec::new()).items
    }

    #[test]
    fn a_figure_that_follows_agrees_to_the_digits_it_is_printed_to() {
        let quotient = |printed: &str| {
            items(&format!(
                "printed = {printed}\ndigits = 0\nof = [\"table.sizes.1\", \"table.sizes.0\"]\nas \
                    = \"quotient\""
            ))
        };
        let found = quotient("718");
        assert!(found[0].agrees && found[0].digits == Some(0), "{found:?}");
        assert_eq!(found[0].recomputed, "2873 / 4 = 718.2");
        assert!(!quotient("719")[0].agrees && !quotient("717")[0].agrees);
    }

    #[test]
    fn a_figure_that_was_cut_off_agrees_only_where_cutting_off_is_allowed() {
        let gain = |rounded: &str| {
            items(&format!("printed = 70\ndigits = 0\n{rounded}\nof = [\"rate\"]\nas = \"same\""))
        };
        assert!(gain("")[0].agrees);
        assert!(!gain("rounded = \"half-up\"")[0].agrees);
        let tens =
            items("printed = 760\ndigits = -1\nof = [762]\nas = \"same\"\nunit = \"Mbit/s\"");
        assert!(tens[0].agrees);
        assert_eq!(
            (tens[0].printed.as_str(), tens[0].recomputed.as_str()),
            ("760 Mbit/s", "given elsewhere as 762 Mbit/s")
        );
    }

    #[test]
    #[should_panic(expected = "a figure in `of` is missing")]
    fn a_place_without_a_figure_is_a_fault_of_the_data_file() {
        items("printed = 1\ndigits = 0\nof = [\"table.sizes.7\"]\nas = \"same\"");
    }
}
