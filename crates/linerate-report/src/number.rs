//! Numbers for people: the unit of a column, and as many digits as the interval supports.
//!
//! Rates use k, M, G (decimal), and sizes Ki, Mi (binary, IEC 80000-13). Rounding is decimal, half
//! up, on the shortest decimal text of the value, so 0.125 to two places is 0.13. Only the display
//! form is rounded, never the number.

use linerate_model::{Estimate, Metric, Shown, Unit};
use serde::Serialize;

/// Unit as shown: its symbol and its size in base units.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Scale {
    /// Unit of the stored number.
    pub base: &'static str,
    /// Unit as shown; empty for a plain count.
    pub symbol: &'static str,
    /// Base units per shown unit.
    pub factor: f64,
}

const BIT_RATES: &[(&str, f64)] =
    &[("bit/s", 1.0), ("kbit/s", 1e3), ("Mbit/s", 1e6), ("Gbit/s", 1e9), ("Tbit/s", 1e12)];
const BYTE_RATES: &[(&str, f64)] = &[("B/s", 1.0), ("kB/s", 1e3), ("MB/s", 1e6), ("GB/s", 1e9)];
const BINARY_BYTE_RATES: &[(&str, f64)] =
    &[("B/s", 1.0), ("KiB/s", 1024.0), ("MiB/s", 1024.0 * 1024.0)];
const PACKET_RATES: &[(&str, f64)] = &[("packet/s", 1.0), ("kpacket/s", 1e3), ("Mpacket/s", 1e6)];
const RATES: &[(&str, f64)] = &[("1/s", 1.0), ("k/s", 1e3), ("M/s", 1e6)];
const SECONDS: &[(&str, f64)] = &[("ns", 1e-9), ("µs", 1e-6), ("ms", 1e-3), ("s", 1.0)];
const NANOSECONDS: &[(&str, f64)] = &[("ns", 1.0), ("µs", 1e3), ("ms", 1e6), ("s", 1e9)];
const HERTZ: &[(&str, f64)] = &[("Hz", 1.0), ("kHz", 1e3), ("MHz", 1e6), ("GHz", 1e9)];
/// Sizes and shares that stand behind a number in running text.
const PLAIN_UNITS: &[&str] = &["%", "B", "KiB", "MiB", "GiB", "TiB", "us"];
/// Largest number of nanoseconds shown in ns, so that costs per packet have one unit.
const LARGEST_PLAIN_NANOSECONDS: f64 = 20_000.0;
/// Text of a time that never ended.
const INFINITE: &str = "∞";
/// Significant digits of a number without an interval.
const DIGITS_WITHOUT_INTERVAL: i32 = 4;
/// Least number of significant digits, for any width of the interval.
const LEAST_DIGITS: i32 = 2;
/// Most decimal places.
const MOST_DECIMALS: i32 = 6;
/// Ratio of value to interval end from which the end has digits of its own.
const FAR_BELOW: f64 = 10.0;

/// Returns whether `word` is the symbol of a unit, with or without punctuation after it.
pub(crate) fn is_symbol(word: &str) -> bool {
    // In a sentence a unit carries its punctuation.
    let word = word.trim_end_matches([',', '.', ';', ':', ')', ']']);
    let families = [BIT_RATES, BYTE_RATES, BINARY_BYTE_RATES, PACKET_RATES, RATES, SECONDS, HERTZ];
    PLAIN_UNITS.contains(&word) || families.into_iter().flatten().any(|(symbol, _)| *symbol == word)
}

impl Scale {
    /// Plain numbers without a unit.
    pub(crate) const COUNT: Self = Self { base: "", symbol: "", factor: 1.0 };
    /// Ratios in per cent.
    pub const PERCENT: Self = Self { base: "ratio", symbol: "%", factor: 0.01 };
    /// Seconds, shown as seconds.
    pub const SECONDS: Self = Self { base: "s", symbol: "s", factor: 1.0 };

    /// Returns the scale in which `values` of `metric` read best: one for all of them.
    #[must_use]
    pub fn of(metric: &Metric, values: impl IntoIterator<Item = f64>) -> Self {
        match metric.shown {
            Shown::ByUnit => Self::fit(metric.unit, values),
            Shown::BinaryPrefixes => Self::picked(metric.unit, values, BINARY_BYTE_RATES),
            Shown::PlainNumber => Self { base: "ratio", ..Self::COUNT },
        }
    }

    /// Returns the scale in which `values` in `unit` read best: one for all of them.
    #[must_use]
    pub fn fit(unit: Unit, values: impl IntoIterator<Item = f64>) -> Self {
        Self::picked(unit, values, BYTE_RATES)
    }

    fn picked(
        unit: Unit,
        values: impl IntoIterator<Item = f64>,
        byte_rates: &'static [(&'static str, f64)],
    ) -> Self {
        let sizes =
            // Infinite times and zeros have no size that a unit could fit.
            values.into_iter().map(f64::abs).filter(|value| value.is_finite() && *value > 0.0);
        let (low, high) =
            sizes.fold((f64::INFINITY, 0.0_f64), |(low, high), v| (low.min(v), high.max(v)));
        let pick = |units, size| Self::from_units(unit, units, size, (low, high));
        match unit {
            Unit::BitPerSecond => pick(BIT_RATES, high),
            Unit::BytePerSecond => pick(byte_rates, high),
            Unit::PacketPerSecond => pick(PACKET_RATES, high),
            // Rates below ten thousand need no prefix.
            Unit::PerSecond => pick(RATES, if high < 1e4 { 1.0 } else { high }),
            // Times use the unit of the smallest: 23 µs beside 4000 µs, not 0.023 ms.
            Unit::Second => pick(SECONDS, if low.is_finite() { low } else { 1.0 }),
            Unit::Nanosecond if high < LARGEST_PLAIN_NANOSECONDS => pick(NANOSECONDS, 1.0),
            Unit::Nanosecond => pick(NANOSECONDS, low),
            Unit::Hertz => pick(HERTZ, high),
            // A share is shown in per cent whatever its size.
            Unit::Ratio => Self::PERCENT,
            Unit::Count => Self { base: "1", ..Self::COUNT },
            Unit::Byte | Unit::SecondPerGigabyte | Unit::Core => {
                Self { base: unit.symbol(), symbol: unit.symbol(), factor: 1.0 }
            }
        }
    }

    /// Returns the scale of the largest of `units` that `size` reaches, for values from `low` to
    /// `high`.
    fn from_units(
        unit: Unit,
        units: &'static [(&'static str, f64)],
        size: f64,
        (low, high): (f64, f64),
    ) -> Self {
        let place = units.iter().rposition(|(_, factor)| size >= *factor).unwrap_or(0);
        // 938 and 1685 are easier to compare than 0.938 and 1.685.
        let mixed =
            place > 0 && low < units[place].1 && size < 10.0 * units[place].1 && size == high;
        let (symbol, factor) = units[place - usize::from(mixed)];
        Self { base: unit.symbol(), symbol, factor }
    }

    /// Formats `value` in the shown unit without an interval: whole numbers as they are, others to
    /// four digits.
    #[must_use]
    pub fn plain(&self, value: f64) -> String {
        let scaled = value / self.factor;
        if !scaled.is_finite() {
            return INFINITE.into();
        }
        // Whole numbers are counts or settings, and decimals would suggest a measurement.
        if scaled.fract() == 0.0 && scaled.abs() < 1e9 {
            return round_half_up(scaled, 0);
        }
        round_half_up(scaled, decimals(scaled.abs(), DIGITS_WITHOUT_INTERVAL))
    }

    /// Formats the same with its unit.
    #[must_use]
    pub fn shown(&self, value: f64) -> String {
        format!("{} {}", self.plain(value), self.symbol).trim_end().to_owned()
    }

    /// Returns the decimal places of a column of `values` without intervals: four digits for the
    /// largest, at least two for the smallest, and no place that is always zero.
    #[must_use]
    pub(crate) fn decimals_of_all(&self, values: impl Iterator<Item = f64>) -> usize {
        let sizes: Vec<f64> =
            values.map(|value| (value / self.factor).abs()).filter(|v| v.is_finite()).collect();
        // Zeros need no decimal places.
        let positive = || sizes.iter().copied().filter(|size| *size > 0.0);
        let most = positive().fold(0.0, f64::max);
        let least = positive().fold(f64::INFINITY, f64::min);
        let places = decimals(most, DIGITS_WITHOUT_INTERVAL).max(decimals(least, LEAST_DIGITS));
        // A place that is zero in every row is noise.
        sizes
            .into_iter()
            .map(|value| {
                let text = round_half_up(value, places);
                text.split_once('.').map_or(0, |(_, fraction)| fraction.trim_end_matches('0').len())
            })
            .max()
            .unwrap_or(0)
    }

    /// Formats `estimate`: its value and its interval to the same decimal place. Ends of a very
    /// wide interval have digits of their own, so 0.05 to 37 is neither `0` nor `37.00`.
    #[must_use]
    pub fn estimate(&self, estimate: &Estimate) -> (String, Option<(String, String)>) {
        let (Some(low), Some(high)) = (estimate.low, estimate.high) else {
            return (self.plain(estimate.value), None);
        };
        let places = self.decimals_of(estimate);
        let value = (estimate.value / self.factor).abs();
        let end = |end: f64| end_text(end / self.factor, value, places);
        (round_half_up(estimate.value / self.factor, places), Some((end(low), end(high))))
    }

    /// Returns the decimal places that the interval of `estimate` supports: its half width keeps
    /// two digits if it begins with 1 or 2, else one; the value keeps at least two.
    #[must_use]
    pub(crate) fn decimals_of(&self, estimate: &Estimate) -> usize {
        let value = (estimate.value / self.factor).abs();
        let half = match (estimate.low, estimate.high) {
            (Some(low), Some(high)) => (high - low) / 2.0 / self.factor,
            _ => 0.0,
        };
        // A logarithm of zero or of an open end gives no number of digits.
        if half <= 0.0 || !half.is_finite() {
            return decimals(value, DIGITS_WITHOUT_INTERVAL);
        }
        let first = half.log10().floor();
        // Two digits where the first is small: 1 to 2 is a large step, 8 to 9 is not.
        let digits = if half / 10_f64.powf(first) < 3.0 { 2 } else { 1 };
        // An interval far narrower than the value would print useless digits.
        decimals(half, digits).max(decimals(value, LEAST_DIGITS)).min(decimals(value, 6))
    }
}

/// Returns the text of the `end` of an interval around `value`, which has so many decimal `places`.
fn end_text(end: f64, value: f64, places: usize) -> String {
    let own = decimals(end.abs(), LEAST_DIGITS);
    let wide = (end - value).abs() >= value / 2.0;
    let places = match end.abs() {
        // An end far below the value would read as zero at the value's precision.
        size if size > 0.0 && size < value / FAR_BELOW => own,
        size if wide && size > value => own.min(places),
        _ => places,
    };
    round_half_up(end, places)
}

/// Returns the decimal places that show `value` to `digits` significant digits.
fn decimals(value: f64, digits: i32) -> usize {
    if value <= 0.0 || !value.is_finite() {
        return 0;
    }
    (digits - 1 - value.log10().floor() as i32).clamp(0, MOST_DECIMALS) as usize
}

/// Rounds `value` to `decimals` decimal places, ties away from zero, on its shortest decimal text;
/// `∞` if it is infinite.
#[must_use]
pub(crate) fn round_half_up(value: f64, decimals: usize) -> String {
    if value.is_infinite() {
        return if value > 0.0 { INFINITE.to_owned() } else { format!("-{INFINITE}") };
    }
    // The shortest decimal text of the number is what was measured or written, so ties are ties.
    let text = value.abs().to_string();
    let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
    let mut digits: Vec<u8> = whole
        .bytes()
        .chain(fraction.bytes().chain(std::iter::repeat(b'0')).take(decimals))
        .collect();
    // Half up, as printed tables round.
    if fraction.as_bytes().get(decimals).is_some_and(|digit| *digit >= b'5') {
        let kept = digits.iter().rposition(|digit| *digit != b'9');
        let carried = kept.map_or(0, |at| at + 1);
        digits[carried..].fill(b'0');
        match kept {
            Some(at) => digits[at] += 1,
            None => digits.insert(0, b'1'),
        }
    }
    let point = digits.len() - decimals;
    // A value that rounds to zero has no sign.
    let negative = value < 0.0 && digits.iter().any(|digit| *digit != b'0');
    let mut shown = String::from(if negative { "-" } else { "" });
    shown.extend(digits[..point].iter().map(|digit| char::from(*digit)));
    if decimals > 0 {
        shown.push('.');
        shown.extend(digits[point..].iter().map(|digit| char::from(*digit)));
    }
    shown
}

/// Formats `share` of a ceiling in per cent with one decimal place, never rounded up to 100 %.
#[must_use]
pub fn percent(share: f64) -> String {
    let text = round_half_up(share * 100.0, 1);
    // A share below the ceiling must not read as the ceiling.
    if share < 1.0 && text == "100.0" { "99.9".into() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounding_is_decimal_and_half_up() {
        let cases = [
            (0.125, 2, "0.13"),
            (1.005, 2, "1.01"),
            (2.5, 0, "3"),
            (-2.5, 0, "-3"),
            (-0.04, 1, "0.0"),
            (9.996, 2, "10.00"),
            (99.95, 1, "100.0"),
            (949.285, 2, "949.29"),
            (1e21, 0, "1000000000000000000000"),
            (7.0, 3, "7.000"),
        ];
        for (value, decimals, shown) in cases {
            assert_eq!(round_half_up(value, decimals), shown, "{value} to {decimals}");
        }
    }

    #[test]
    fn digits_come_from_the_interval() {
        let mega = Scale { base: "bit/s", symbol: "Mbit/s", factor: 1e6 };
        let estimate = |value: f64, low: f64, high: f64| Estimate {
            value: value * 1e6,
            low: Some(low * 1e6),
            high: Some(high * 1e6),
            confidence: Some(0.95),
            n: 6,
        };
        let shown = |e: Estimate| mega.estimate(&e);
        assert_eq!(
            shown(estimate(936.123, 935.771, 936.402)),
            ("936.1".into(), Some(("935.8".into(), "936.4".into())))
        );
        assert_eq!(
            shown(estimate(936.123, 900.0, 950.0)),
            ("936".into(), Some(("900".into(), "950".into())))
        );
        assert_eq!(shown(estimate(936.123, 936.111, 936.135)).0, "936.123");
    }

    #[test]
    fn a_wide_interval_leaves_its_value_readable() {
        let estimate = |value: f64, low: f64, high: f64| {
            let estimate =
                Estimate { value, low: Some(low), high: Some(high), confidence: Some(0.75), n: 3 };
            let (value, ends) = Scale::COUNT.estimate(&estimate);
            let (low, high) = ends.expect("an interval");
            format!("{value} [{low}, {high}]")
        };
        assert_eq!(estimate(1.943, 0.0457, 2.004), "1.9 [0.046, 2.0]");
        assert_eq!(estimate(0.993, 0.986, 37.01), "0.99 [0.99, 37]");
        assert_eq!(estimate(1414.0, 862.0, 243_384.0), "1414 [862, 243384]");
        assert_eq!(estimate(23.2, 1.04, 23.4), "23 [1.0, 23]");
        assert_eq!(estimate(0.5, 0.0, 3.0), "0.50 [0.00, 3.0]");
        assert_eq!(
            estimate(65.88, 41.09, f64::INFINITY),
            "65.88 [41.09, ∞]",
            "some runs lost what the others answered"
        );
    }

    #[test]
    fn a_column_of_numbers_has_one_precision() {
        let shown = |values: &[f64]| Scale::COUNT.decimals_of_all(values.iter().copied());
        assert_eq!(shown(&[19.0, 346.25, 4724.5]), 0);
        assert_eq!(shown(&[0.1, 0.2, 1.0]), 1);
        assert_eq!(shown(&[1.0, 2.0]), 0);
        assert_eq!(shown(&[0.012_345, 12.5]), 3);
        assert_eq!(shown(&[]), 0);
    }

    #[test]
    fn a_column_has_one_unit() {
        let fit = |unit, values: &[f64]| Scale::fit(unit, values.iter().copied()).symbol;
        assert_eq!(fit(Unit::BitPerSecond, &[2e7, 9.36e8]), "Mbit/s");
        assert_eq!(fit(Unit::BitPerSecond, &[9.38e8, 1.685e9]), "Mbit/s");
        assert_eq!(fit(Unit::BitPerSecond, &[9.38e8, 25e9]), "Gbit/s");
        assert_eq!(fit(Unit::Second, &[23e-6, 4e-3]), "µs");
        assert_eq!(fit(Unit::PacketPerSecond, &[124_000.0]), "kpacket/s");
        assert_eq!(fit(Unit::PerSecond, &[9_000.0]), "1/s");
        assert_eq!(fit(Unit::Nanosecond, &[900.0, 12_000.0]), "ns");
        assert_eq!(fit(Unit::BitPerSecond, &[]), "bit/s");
    }

    #[test]
    fn a_share_below_one_never_reads_as_all_of_it() {
        assert_eq!(percent(0.9999), "99.9");
        assert_eq!(percent(1.0), "100.0");
        assert_eq!(percent(0.986), "98.6");
    }
}
