//! Decimal half-up rounding, as printed tables round (docs/methodology/repeats.md#rounding).
//!
//! Binary floating point cannot represent most decimals: 1.005 is stored a little below the tie, so
//! `{:.2}` prints 1.00 where a table made in decimal prints 1.01. Values with few decimals are
//! therefore converted to the integers that they were.

use linerate_model::BitRate;

/// Largest number of decimals handled exactly.
const MAX_DECIMALS: u32 = 9;

/// `value` rounded half away from zero to `decimals` places, as text. The value is read as the
/// shortest decimal that denotes it (so 1.005 is a tie), which is what a person who wrote it
/// meant.
///
/// # Panics
/// If `value` is not finite.
///
/// # Examples
/// ```
/// use linerate_analysis::statistics::half_up;
///
/// // 1.005 is a tie. The nearest double is a little smaller, so `format!` rounds down.
/// assert_eq!(format!("{:.2}", 1.005), "1.00");
/// assert_eq!(half_up(1.005, 2), "1.01");
/// ```
#[must_use]
pub fn half_up(value: f64, decimals: usize) -> String {
    assert!(value.is_finite(), "only a finite value has decimals");
    // The shortest decimal that denotes a value is what was written; the binary value lies beside
    // it.
    let text = format!("{:?}", value.abs());
    // Very small and very large values are printed with an exponent, which has no digits to round.
    let plain = if text.contains('e') { format!("{:.20}", value.abs()) } else { text };
    let (whole, fraction) = plain.split_once('.').unwrap_or((&plain, ""));
    let round_up = fraction.as_bytes().get(decimals).is_some_and(|digit| *digit >= b'5');
    let mut digits: Vec<u8> = whole
        .bytes()
        .chain((0..decimals).map(|i| *fraction.as_bytes().get(i).unwrap_or(&b'0')))
        .collect();
    if round_up {
        increment(&mut digits);
    }
    let mut text = String::from_utf8(digits).expect("digits are ASCII");
    if decimals > 0 {
        text.insert(text.len() - decimals, '.');
    }
    // A value that rounds to zero has no sign in a table.
    let negative = value < 0.0 && text.bytes().any(|byte| (b'1'..=b'9').contains(&byte));
    if negative { format!("-{text}") } else { text }
}

/// Returns a rate in bit/s to four significant digits: no more of it was measured.
#[must_use]
pub fn measured_rate(rate: f64) -> String {
    const DIGITS: i32 = 4;
    let size = if rate > 0.0 { rate.log10().floor() as i32 } else { 0 };
    // A rate below 1,000 bit/s is not rounded to fractions of a bit.
    let step = 10_f64.powi((size + 1 - DIGITS).max(0));
    BitRate((rate / step).round() * step).to_string()
}

/// Returns the mean of values that were printed with at most `places` decimals, rounded half up to
/// `decimals` places; `None` for no values. The sum is computed in integers, so ties are exact.
///
/// # Panics
///
/// If `places` exceeds nine.
///
/// # Examples
/// ```
/// use linerate_analysis::statistics::mean_half_up;
///
/// // (0.01 + 0.02) / 2 = 0.015, a tie.
/// assert_eq!(mean_half_up(&[0.01, 0.02], 2, 2).as_deref(), Some("0.02"));
/// ```
#[must_use]
pub fn mean_half_up(values: &[f64], places: u32, decimals: u32) -> Option<String> {
    assert!(
        places <= MAX_DECIMALS && decimals <= MAX_DECIMALS,
        "decimals are exact up to nine places"
    );
    let scale = 10_i128.pow(places);
    let sum: i128 = values.iter().map(|value| (value * scale as f64).round() as i128).sum();
    let divisor = scale * i128::try_from(values.len()).ok().filter(|n| *n > 0)?;
    let numerator = sum * 10_i128.pow(decimals);
    // Twice the numerator plus the divisor over twice the divisor is integer rounding half up.
    let rounded = (2 * numerator.abs() + divisor) / (2 * divisor);
    let sign = if numerator < 0 && rounded > 0 { "-" } else { "" };
    let (unit, width) = (10_i128.pow(decimals), decimals as usize);
    let fraction =
        if decimals == 0 { String::new() } else { format!(".{:0width$}", rounded % unit) };
    Some(format!("{sign}{}{fraction}", rounded / unit))
}

fn increment(digits: &mut Vec<u8>) {
    for digit in digits.iter_mut().rev() {
        if *digit == b'9' {
            *digit = b'0';
        } else {
            *digit += 1;
            return;
        }
    }
    digits.insert(0, b'1');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_measured_rate_has_four_digits() {
        let told = [15_897_001.0, 94_514_132.4, 999_960_000.0, 3.0, 0.0].map(measured_rate);
        assert_eq!(told, ["15.9 Mbit/s", "94.51 Mbit/s", "1 Gbit/s", "3 bit/s", "0 bit/s"]);
    }
    use crate::statistics::intel;

    /// docs/methodology/repeats.md#rounding: all 32 averages reproduce, 61.0050 among them.
    #[test]
    fn all_32_intel_averages_are_reproduced() {
        let series = intel::all();
        assert_eq!(series.len(), 32);
        for (name, series) in series {
            let mean = mean_half_up(&series.values, 2, 2).expect("sixty values");
            assert_eq!(mean, format!("{:.2}", series.printed), "{name}");
        }
    }

    #[test]
    fn ties_round_away_from_zero() {
        for (value, decimals, expected) in [
            (61.005, 2, "61.01"),
            (2.5, 0, "3"),
            (-2.5, 0, "-3"),
            (0.999, 2, "1.00"),
            (9.995, 2, "10.00"),
            (-0.001, 2, "0.00"),
            (12.0, 1, "12.0"),
            (1e-7, 3, "0.000"),
        ] {
            assert_eq!(half_up(value, decimals), expected, "{value}");
        }
    }
}
