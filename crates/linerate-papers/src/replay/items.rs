//! Items of a paper as data: printed figures, the values that follow from other figures, and the
//! condition under which the two agree.
//!
//! A paper's data file has the printed figures, and two lists. An item of `[[follows]]` is one
//! figure that follows from one or two others, with the digits to which it is printed. An item of
//! `[[item]]` has texts with expressions in them, such as `{{ (a / b)|to(1) }}`, and in `agrees` a
//! condition. Expressions name figures by their place in the file (`table_2.single_cpu`), and the
//! models of this crate by name (`link_ceiling`). A new item needs no code.

use std::collections::BTreeMap;

use linerate_analysis::limits::pci::{self, Clock, Width};
use linerate_analysis::limits::pcie::{Link, LinkLayerPackets};
use linerate_analysis::limits::{ethernet, fibre_channel, headers, lag, tcp};
use linerate_model::{BitRate, Bytes};
use minijinja::value::Serde;
use minijinja::{Environment, Error, ErrorKind, UndefinedBehavior, Value, context};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::{Paper, ReplayItem};

/// Bits per second in a Mbit/s.
const MEGA: f64 = 1e6;

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
    /// Numbers, or the places of figures in the file.
    of: Vec<toml::Value>,
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

/// An item whose texts and condition contain expressions.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Item {
    id: String,
    what: String,
    /// Values with names, `name = expression`; a later one may use the earlier ones.
    #[serde(default, rename = "let")]
    values: Vec<String>,
    printed: String,
    recomputed: String,
    agrees: String,
    why: String,
    /// The item is repeated for each of these, as `row`.
    #[serde(default = "one_row")]
    rows: Vec<toml::Value>,
}

fn one_row() -> Vec<toml::Value> {
    vec![toml::Value::Boolean(true)]
}

/// Figures of a paper, and the functions that expressions may call.
struct Figures {
    environment: Environment<'static>,
    known: BTreeMap<String, Value>,
}

impl Figures {
    fn of(table: &toml::Table) -> Self {
        let mut environment = Environment::new();
        // A misspelt figure is an error, and no empty text.
        environment.set_undefined_behavior(UndefinedBehavior::Strict);
        environment.add_filter("to", |value: f64, digits: usize| format!("{value:.digits$}"));
        environment.add_filter("signed", |value: f64, digits: usize| format!("{value:+.digits$}"));
        environment.add_filter("plus", |value: u64, other: u64| value + other);
        environment.add_filter("pci_peak", pci_peak);
        environment.add_function("agrees_to", agrees_to);
        environment.add_function("link_ceiling", link_ceiling);
        environment.add_function("links_filled", |links: u32, flows: u32| {
            lag::occupancy(links, flows).links_used
        });
        environment.add_function("segment", |mtu| tcp::segment_payload(Bytes(mtu), headers()).0);
        environment.add_function("fibre_channel", fibre_channel);
        environment.add_function("pcie", pcie);
        environment.add_global("tcp_headers", headers().0);
        let known = table.iter().map(|(name, value)| (name.clone(), Value::from(Serde(value))));
        Self { environment, known: known.collect() }
    }

    fn value(&self, expression: &str) -> Result<Value, Error> {
        self.environment.compile_expression(expression)?.eval(self.known.clone())
    }

    fn number(&self, place: &toml::Value) -> Result<f64, Error> {
        let value = place.as_str().map_or_else(|| Ok(Value::from(Serde(place))), |e| self.value(e));
        f64::try_from(value?)
    }

    fn text(&self, template: &str) -> Result<String, Error> {
        self.environment.render_str(template, self.known.clone())
    }

    fn follows(&self, one: Follows) -> Result<ReplayItem, Error> {
        const PERCENT: f64 = 100.0;
        let of = one.of.iter().map(|place| self.number(place)).collect::<Result<Vec<f64>, _>>()?;
        let (value, arithmetic) = match (one.form, of[..].as_ref()) {
            (Form::Same, [value]) => (*value, "given elsewhere as".to_owned()),
            (Form::Quotient, [a, b]) => (a / b, format!("{a} / {b} =")),
            (Form::Share, [a, b]) => (a / b * PERCENT, format!("{a} / {b} =")),
            (Form::Gain, [a, b]) => ((a / b - 1.0) * PERCENT, format!("{a} / {b} - 1 =")),
            _ => return Err(wrong("a figure in `of` is missing or too many")),
        };
        let agrees = match one.rounded {
            // Papers rarely state how they round, so both ways are accepted.
            Rounded::Either => agrees_to(one.printed, value, one.digits),
            Rounded::HalfUp => {
                let scale = 10_f64.powi(one.digits);
                (value * scale).round() == (one.printed * scale).round()
            }
        };
        let unit = if one.unit.is_empty() { String::new() } else { format!(" {}", one.unit) };
        // Negative digits mean rounding to tens, which needs no decimals in print.
        let printed_digits = usize::try_from(one.digits).unwrap_or(0);
        // One digit more than is printed shows how it was rounded.
        let shown_digits = usize::try_from(one.digits + 1).unwrap_or(0);
        Ok(ReplayItem {
            id: one.id,
            what: one.what,
            printed: format!("{:.printed_digits$}{unit}", one.printed),
            recomputed: format!("{arithmetic} {value:.shown_digits$}{unit}"),
            agrees,
            digits: Some(one.digits),
            why_it_matters: one.why,
        })
    }

    /// Returns the items of `one`, one for each of its rows.
    fn items(&mut self, one: &Item) -> Result<Vec<ReplayItem>, Error> {
        one.rows.iter().map(|row| self.item(one, row)).collect()
    }

    fn item(&mut self, one: &Item, row: &toml::Value) -> Result<ReplayItem, Error> {
        self.known.insert("row".to_owned(), Value::from(Serde(row)));
        for named in &one.values {
            let (name, expression) =
                named.split_once(" = ").ok_or_else(|| wrong("a value is `name = expression`"))?;
            let value = self.value(expression)?;
            self.known.insert(name.to_owned(), value);
        }
        Ok(ReplayItem {
            id: self.text(&one.id)?,
            what: self.text(&one.what)?,
            printed: self.text(&one.printed)?,
            recomputed: self.text(&one.recomputed)?,
            agrees: bool::try_from(self.value(&one.agrees)?)?,
            digits: None,
            why_it_matters: self.text(&one.why)?,
        })
    }
}

fn wrong(what: &'static str) -> Error {
    Error::new(ErrorKind::InvalidOperation, what)
}

/// Returns the items of the paper's data file.
pub(super) fn of_data(paper: &Paper) -> Vec<ReplayItem> {
    with_known(paper, [])
}

/// Returns the items of the paper's data file, whose expressions may also name the values `known`.
pub(super) fn with_known<const N: usize>(
    Paper { name, data, .. }: &Paper,
    known: [(&str, Value); N],
) -> Vec<ReplayItem> {
    let mut table: toml::Table = data.parse().expect("the embedded data file is TOML");
    fn list<T: DeserializeOwned>(table: &mut toml::Table, key: &str) -> Vec<T> {
        let listed = table.remove(key).unwrap_or_else(|| toml::Value::Array(Vec::new()));
        listed.try_into().unwrap_or_else(|error| panic!("an item of `{key}` is wrong: {error}"))
    }
    let follows: Vec<Follows> = list(&mut table, "follows");
    let listed: Vec<Item> = list(&mut table, "item");
    let mut figures = Figures::of(&table);
    figures.known.extend(known.map(|(name, value)| (name.to_owned(), value)));
    // The data file is part of the program, so a mistake in it is one of ours and no input error.
    let failed = |id: &str, error: Error| -> ! { panic!("{name}: {id}: {error:#}") };
    let mut items = Vec::new();
    for one in follows {
        let id = one.id.clone();
        items.push(figures.follows(one).unwrap_or_else(|error| failed(&id, error)));
    }
    for one in &listed {
        items.extend(figures.items(one).unwrap_or_else(|error| failed(&one.id, error)));
    }
    items
}

/// Returns the bytes of headers of a TCP segment. Without timestamps ceilings are higher, so a
/// paper gets the benefit of the doubt.
fn headers() -> Bytes {
    headers::tcp(headers::IpVersion::V4, headers::Timestamps::Off)
}

/// Returns the payload that a TCP stream carries over a link, both in Mbit/s.
fn link_ceiling(megabits: f64, mtu: u64) -> f64 {
    let overhead = ethernet::packet_overhead(0);
    tcp::goodput(BitRate(megabits * MEGA), Bytes(mtu), overhead, headers()).0 / MEGA
}

/// Returns the peak of a 64-bit bus with this clock, in Mbit/s.
fn pci_peak(clock: &str) -> Result<f64, Error> {
    let clock = Clock::deserialize(toml::Value::from(clock));
    Ok(pci::peak(Width::Bits64, clock.map_err(|_| wrong("no clock of PCI"))?).0 / MEGA)
}

/// Returns what a link of Fibre Channel of this speed carries in its largest frames, in MB/s.
fn fibre_channel(speed: u32) -> Result<f64, Error> {
    let speed = fibre_channel::speed(speed).ok_or_else(|| wrong("no speed of Fibre Channel"))?;
    Ok(speed.bandwidth(fibre_channel::LARGEST_PAYLOAD).0 / (8.0 * MEGA))
}

/// Returns a PCI Express link with packets of at most `max_payload` bytes: its rate after the line
/// code, and what it carries in transfers of `size` bytes, in Gbit/s. Reads are not limited by
/// their request size, which keeps the ceiling an upper one.
fn pcie(generation: u32, lanes: u32, max_payload: u64, size: u64) -> Result<Value, Error> {
    const GIGA: f64 = 1e9;
    let link = Link::new(generation, lanes, Bytes(max_payload), Bytes(4096));
    let link = link.ok_or_else(|| wrong("no link of PCI Express"))?;
    // This variant repeats IDT's own count of link-layer packets.
    let of_idt = Link { dllp: LinkLayerPackets::Idt, ..link };
    Ok(context! {
        rate => link.rate.0 / GIGA,
        read => link.read(Bytes(size)).0 / GIGA,
        write => link.write(Bytes(size)).0 / GIGA,
        idt_write => of_idt.write(Bytes(size)).0 / GIGA,
        overhead => link.request_overhead().0,
        idt_overhead => of_idt.request_overhead().0,
    })
}

/// Returns whether `printed` is `value` to the printed number of decimals, rounded half up or cut
/// off: papers do both.
fn agrees_to(printed: f64, value: f64, decimals: i32) -> bool {
    /// Error of decimal fractions in binary.
    const ROUNDING: f64 = 1e-9;
    let scale = 10_f64.powi(decimals);
    let target = (printed * scale).round();
    // Half up and not half to even, because printed tables round half up.
    let rounded = (value * scale + 0.5 + ROUNDING).floor();
    // Some papers cut digits off instead of rounding.
    let cut = (value * scale + ROUNDING).floor();
    target == rounded || target == cut
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounding_and_cutting_off_both_agree_and_nothing_else_does() {
        assert!(agrees_to(84.60, 84.609, 2) && agrees_to(84.61, 84.609, 2));
        assert!(agrees_to(61.01, 61.005, 2));
        assert!(!agrees_to(84.62, 84.609, 2) && !agrees_to(1.63, 1.620, 2));
    }

    fn of_text(data: &str) -> Vec<ReplayItem> {
        let data = String::leak(data.to_owned());
        of_data(&Paper { name: "paper", title: "Paper", data, compute: of_data })
    }

    fn items(follows: &str) -> Vec<ReplayItem> {
        let data = format!(
            "rate = 70.8\n[table]\nsizes = [4, 2873]\n[[follows]]\nid = \"a\"\nwhat \
                = \"b\"\n{follows}\nwhy = \"c\"\n"
        );
        of_text(&data)
    }

    #[test]
    fn a_figure_that_follows_agrees_to_the_digits_it_is_printed_to() {
        let quotient = |printed: &str| {
            items(&format!(
                "printed = {printed}\ndigits = 0\nof = [\"table.sizes[1]\", \
                 \"table.sizes[0]\"]\nas = \"quotient\""
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
    #[should_panic(expected = "a: invalid operation: cannot convert undefined")]
    fn a_place_without_a_figure_is_a_fault_of_the_data_file() {
        items("printed = 1\ndigits = 0\nof = [\"table.sizes[7]\"]\nas = \"same\"");
    }

    #[test]
    #[should_panic(expected = "a: undefined value")]
    fn a_misspelt_figure_in_a_text_is_a_fault_of_the_data_file() {
        let texts = "what = \"b\"\nprinted = \"{{ rat }}\"\nrecomputed = \"1\"\nwhy = \"c\"";
        of_text(&format!("rate = 8\n[[item]]\nid = \"a\"\n{texts}\nagrees = \"true\"\n"));
    }

    #[test]
    fn an_item_is_its_texts_and_its_condition_for_each_row() {
        let data = r#"
            rate = 8
            [[item]]
            id = "{{ row }}-times"
            what = "b"
            let = ["all = rate * row", "half = all / 2"]
            printed = "{{ all }}"
            recomputed = "{{ half|to(1) }}, {{ half|signed(0) }}"
            agrees = "half <= 8"
            why = "c"
            rows = [2, 3]
        "#;
        let items = of_text(data);
        let [two, three] = &items[..] else { panic!("{items:?}") };
        assert_eq!((two.id.as_str(), two.printed.as_str()), ("2-times", "16"));
        assert_eq!((two.recomputed.as_str(), two.agrees), ("8.0, +8", true));
        assert_eq!((three.recomputed.as_str(), three.agrees), ("12.0, +12", false));
    }
}
