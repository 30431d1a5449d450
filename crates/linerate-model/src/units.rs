//! Quantities with their unit in the type: [`BitRate`], [`PacketRate`], [`Bytes`], [`Nanos`],
//! [`Ratio`].
//!
//! In plans and on the wire a quantity is a string with its unit (`"25 Gbit/s"`, `"64 KiB"`, `"5
//! ms"`); a bare number is a count and is refused here. k/M/G are decimal, Ki/Mi/Gi binary (IEC
//! 80000-13). `B` is bytes, `bit` is bits. A prefix alone is what iperf3 and fio mean by it: `1G`
//! is 1 Gbit/s, and `64K` is 64 KiB. Units are read in either case, but `b` is never `B`.

use std::fmt;
use std::ops::{Add, Sub};
use std::str::FromStr;

use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Bits per second; the layer is said by whoever carries it.
///
/// # Examples
/// ```
/// use linerate_model::{BitRate, Bytes, Nanos};
///
/// let link: BitRate = "25 Gbit/s".parse().expect("a rate with its unit");
/// assert_eq!(link.0, 25e9);
/// // 1.25 GB in one second are 10 Gbit/s.
/// let rate = BitRate::over(Bytes(1_250_000_000), Nanos::from_secs(1)).expect("time passes");
/// assert_eq!(rate.to_string(), "10 Gbit/s");
/// // A number without a unit is refused.
/// assert!("25".parse::<BitRate>().is_err());
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd)]
#[must_use]
pub struct BitRate(pub f64);

/// Packets (frames, datagrams) per second.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd)]
#[must_use]
pub struct PacketRate(pub f64);

/// A number of bytes.
///
/// # Examples
/// ```
/// use linerate_model::Bytes;
///
/// assert_eq!("64 KiB".parse(), Ok(Bytes(65_536)));
/// assert_eq!("64 kB".parse(), Ok(Bytes(64_000)));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[must_use]
pub struct Bytes(pub u64);

/// A span of time in nanoseconds, or an instant as nanoseconds since the epoch its holder names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[must_use]
pub struct Nanos(pub u64);

/// A dimensionless ratio; `Ratio(0.5)` prints as `50 %`.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd)]
pub struct Ratio(pub f64);

/// A quantity's text could not be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not {expected}")]
pub struct QuantityError {
    /// The text as written.
    pub text: String,
    /// The expected form, with an example.
    pub expected: &'static str,
}

/// Units of one dimension with their factor to the base unit. The first matching spelling prints.
type UnitTable = &'static [(&'static str, f64)];

const BIT_RATE_UNITS: UnitTable = &[
    ("bit/s", 1.0),
    ("kbit/s", 1e3),
    ("Mbit/s", 1e6),
    ("Gbit/s", 1e9),
    ("Tbit/s", 1e12),
    ("bps", 1.0),
    ("kbps", 1e3),
    ("Mbps", 1e6),
    ("Gbps", 1e9),
    ("Tbps", 1e12),
    ("b/s", 1.0),
    ("kb/s", 1e3),
    ("Mb/s", 1e6),
    ("Gb/s", 1e9),
    ("Tb/s", 1e12),
    ("bit", 1.0),
    ("kbit", 1e3),
    ("Mbit", 1e6),
    ("Gbit", 1e9),
    ("Tbit", 1e12),
    ("k", 1e3),
    ("M", 1e6),
    ("G", 1e9),
    ("T", 1e12),
];
const PACKET_RATE_UNITS: UnitTable = &[
    ("packet/s", 1.0),
    ("kpacket/s", 1e3),
    ("Mpacket/s", 1e6),
    ("pps", 1.0),
    ("kpps", 1e3),
    ("Mpps", 1e6),
    ("/s", 1.0),
];
const BYTE_UNITS: UnitTable = &[
    ("B", 1.0),
    ("KiB", 1024.0),
    ("MiB", 1_048_576.0),
    ("GiB", 1_073_741_824.0),
    ("TiB", 1_099_511_627_776.0),
    ("kB", 1e3),
    ("MB", 1e6),
    ("GB", 1e9),
    ("TB", 1e12),
    ("K", 1024.0),
    ("M", 1_048_576.0),
    ("G", 1_073_741_824.0),
    ("T", 1_099_511_627_776.0),
];
const TIME_UNITS: UnitTable =
    &[("ns", 1.0), ("us", 1e3), ("µs", 1e3), ("ms", 1e6), ("s", 1e9), ("min", 60e9), ("h", 3600e9)];
const RATIO_UNITS: UnitTable = &[("%", 0.01), ("", 1.0)];

fn parse_quantity(
    text: &str,
    units: UnitTable,
    expected: &'static str,
) -> Result<f64, QuantityError> {
    let error = || QuantityError { text: text.to_owned(), expected };
    let trimmed = text.trim();
    let split = trimmed
        .char_indices()
        .find(|&(i, c)| {
            // An `e` before a digit belongs to the number; elsewhere it begins a unit.
            let exponent = (c == 'e' || c == 'E')
                && trimmed[i + 1..].starts_with(|d: char| d.is_ascii_digit() || d == '-');
            !(c.is_ascii_digit() || matches!(c, '.' | '_' | '-' | '+') || exponent)
        })
        .map_or(trimmed.len(), |(i, _)| i);
    // Underscores group digits, as in plans.
    let number: f64 = trimmed[..split].replace('_', "").parse().map_err(|_| error())?;
    let unit = trimmed[split..].trim();
    let factor = factor(units, unit).ok_or_else(error)?;
    let value = number * factor;
    // No quantity here has a meaning below zero.
    if value.is_finite() && value >= 0.0 { Ok(value) } else { Err(error()) }
}

/// Returns the factor of `unit`, in either case. `B` and `b` are different units.
fn factor(units: UnitTable, unit: &str) -> Option<f64> {
    let is_same =
        |name: &str| name.eq_ignore_ascii_case(unit) && counts_bytes(name) == counts_bytes(unit);
    units.iter().find(|(name, _)| is_same(name)).map(|(_, factor)| *factor)
}

/// Returns true if `unit` counts bytes, such as "MB/s". The B of "MBIT/S" does not.
fn counts_bytes(unit: &str) -> bool {
    unit.find('B').is_some_and(|at| !unit[at + 1..].to_ascii_lowercase().starts_with("it"))
}

/// A whole number of whole units, exactly: a double holds only 53 bits, and a wall clock in
/// nanoseconds needs 61.
fn parse_exact(text: &str, units: UnitTable) -> Option<u64> {
    let text = text.trim();
    let (number, unit) =
        text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()));
    let factor = factor(units, unit.trim())?;
    number.parse::<u64>().ok()?.checked_mul(factor as u64)
}

/// Prints `value` in the largest decimal unit in which it is at least one, with at most six
/// significant decimals. `text`, without the sign of a negative zero: a sum of nothing is one.
fn unsigned_zero(text: &str) -> &str {
    if text == "-0" { "0" } else { text }
}

fn write_decimal(f: &mut fmt::Formatter<'_>, value: f64, units: &[(&str, f64)]) -> fmt::Result {
    let (name, factor) =
        // The largest unit that fits gives the shortest number.
        units.iter().rev().find(|(_, factor)| value >= *factor).unwrap_or(&units[0]);
    let scaled = format!("{:.6}", value / factor);
    let shown = if scaled.contains('.') {
        scaled.trim_end_matches('0').trim_end_matches('.')
    } else {
        &scaled
    };
    write!(f, "{} {name}", unsigned_zero(shown))
}

macro_rules! text_quantity {
    ($type:ident, $expected:literal) => {
        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }
        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct Text;
                impl Visitor<'_> for Text {
                    type Value = $type;
                    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                        f.write_str($expected)
                    }
                    fn visit_str<E: de::Error>(self, text: &str) -> Result<$type, E> {
                        text.parse().map_err(E::custom)
                    }
                }
                deserializer.deserialize_str(Text)
            }
        }
    };
}

text_quantity!(BitRate, "a bit rate with its unit, such as \"25 Gbit/s\"");
text_quantity!(PacketRate, "a packet rate with its unit, such as \"1.5 Mpps\"");
text_quantity!(Bytes, "a size with its unit, such as \"64 KiB\"");
text_quantity!(Nanos, "a time with its unit, such as \"5 s\"");
text_quantity!(Ratio, "a ratio such as \"90 %\"");

impl FromStr for BitRate {
    type Err = QuantityError;
    fn from_str(text: &str) -> Result<Self, QuantityError> {
        parse_quantity(text, BIT_RATE_UNITS, "a bit rate with its unit, such as \"25 Gbit/s\"")
            .map(Self)
    }
}

impl FromStr for PacketRate {
    type Err = QuantityError;
    fn from_str(text: &str) -> Result<Self, QuantityError> {
        parse_quantity(text, PACKET_RATE_UNITS, "a packet rate with its unit, such as \"1.5 Mpps\"")
            .map(Self)
    }
}

impl FromStr for Bytes {
    type Err = QuantityError;
    fn from_str(text: &str) -> Result<Self, QuantityError> {
        const EXPECTED: &str = "a size with its unit, such as \"64 KiB\"";
        // Large counts are exact only as integers.
        if let Some(bytes) = parse_exact(text, BYTE_UNITS) {
            return Ok(Self(bytes));
        }
        let value = parse_quantity(text, BYTE_UNITS, EXPECTED)?;
        // Half a byte is a mistake and no rounding.
        if value.fract() == 0.0 && value <= u64::MAX as f64 {
            Ok(Self(value as u64))
        } else {
            Err(QuantityError { text: text.to_owned(), expected: "a whole number of bytes" })
        }
    }
}

impl FromStr for Nanos {
    type Err = QuantityError;
    fn from_str(text: &str) -> Result<Self, QuantityError> {
        if let Some(span) = parse_exact(text, TIME_UNITS) {
            return Ok(Self(span));
        }
        parse_quantity(text, TIME_UNITS, "a time with its unit, such as \"5 s\"")
            // A fraction of a nanosecond is beyond every clock.
            .map(|ns| Self(ns.round() as u64))
    }
}

impl FromStr for Ratio {
    type Err = QuantityError;
    fn from_str(text: &str) -> Result<Self, QuantityError> {
        parse_quantity(text, RATIO_UNITS, "a ratio such as \"90 %\"").map(Self)
    }
}

impl fmt::Display for BitRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The other spellings are only read.
        write_decimal(f, self.0, &BIT_RATE_UNITS[..5])
    }
}

impl fmt::Display for PacketRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_decimal(f, self.0, &PACKET_RATE_UNITS[..3])
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A size that is not whole in a larger unit stays exact in a smaller one. `kB` is left
        // out: a frame has 1000 B.
        let whole = BYTE_UNITS
            .iter()
            .filter(|(name, factor)| *name != "kB" && self.0.is_multiple_of(*factor as u64));
        let (name, factor) = whole
            .min_by_key(|(_, factor)| self.0 / *factor as u64)
            .expect("every size is whole in bytes");
        write!(f, "{} {name}", self.0 / *factor as u64)
    }
}

impl fmt::Display for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scale = [("ns", 1_u64), ("us", 1_000), ("ms", 1_000_000), ("s", 1_000_000_000)];
        let whole = scale
            .iter()
            .rev()
            .find(|(_, factor)| self.0 >= *factor && self.0.is_multiple_of(*factor));
        let (name, factor) = whole.unwrap_or(&scale[0]);
        write!(f, "{} {name}", self.0 / factor)
    }
}

impl fmt::Display for Ratio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Four places distinguish a loss of one in a million from none.
        let percent = format!("{:.4}", self.0 * 100.0);
        write!(f, "{} %", unsigned_zero(percent.trim_end_matches('0').trim_end_matches('.')))
    }
}

/// Bits in a byte.
const BITS_PER_BYTE: f64 = 8.0;
/// Nanoseconds in a second.
const NANOS_PER_SECOND: f64 = 1e9;

impl BitRate {
    /// The mean rate of `bytes` over `span`; `None` if the span is zero.
    #[must_use]
    pub fn over(bytes: Bytes, span: Nanos) -> Option<Self> {
        (span.0 > 0).then(|| Self(bytes.0 as f64 * BITS_PER_BYTE / span.as_secs_f64()))
    }
}

impl Bytes {
    /// The same amount in bits.
    #[must_use]
    pub fn bits(self) -> f64 {
        self.0 as f64 * BITS_PER_BYTE
    }
}

impl Nanos {
    /// `seconds` as nanoseconds, rounded; negative and non-finite values become zero.
    pub fn from_secs_f64(seconds: f64) -> Self {
        Self((seconds * NANOS_PER_SECOND).round() as u64)
    }

    /// Whole milliseconds.
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis * 1_000_000)
    }

    /// Whole seconds.
    pub const fn from_secs(seconds: u64) -> Self {
        Self(seconds * 1_000_000_000)
    }

    /// The span in seconds.
    #[must_use]
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / NANOS_PER_SECOND
    }

    /// `self - earlier`, or zero if `earlier` is later.
    pub fn since(self, earlier: Self) -> Self {
        // Clocks of two ends may disagree by more than the span.
        Self(self.0.saturating_sub(earlier.0))
    }
}

impl From<Nanos> for std::time::Duration {
    fn from(span: Nanos) -> Self {
        Self::from_nanos(span.0)
    }
}

impl Add for Nanos {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0 + other.0)
    }
}

impl Sub for Nanos {
    type Output = Self;
    /// # Panics
    /// In debug builds, if `other` is larger.
    fn sub(self, other: Self) -> Self {
        Self(self.0 - other.0)
    }
}

impl Add for Bytes {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0 + other.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_read_and_print_the_same_value() {
        for text in ["25 Gbit/s", "100 Mbit/s", "1.5 kbit/s", "0 bit/s"] {
            assert_eq!(text.parse::<BitRate>().expect(text).to_string(), text);
        }
        for text in ["64 KiB", "1460 B", "16 MiB", "0 B"] {
            assert_eq!(text.parse::<Bytes>().expect(text).to_string(), text);
        }
        for text in ["5 s", "250 ms", "1500 us", "7 ns"] {
            assert_eq!(text.parse::<Nanos>().expect(text).to_string(), text);
        }
        assert_eq!("1.5 MB".parse::<Bytes>(), Ok(Bytes(1_500_000)));
        assert_eq!("90 %".parse::<Ratio>(), Ok(Ratio(0.9)));
        assert_eq!("1e6 pps".parse::<PacketRate>(), Ok(PacketRate(1e6)));
        assert_eq!("128KiB".parse::<Bytes>(), Ok(Bytes(131_072)));
        for text in ["1G", "1 Gbit/s", "1Gbps", "1 gbit/s", "1 GBIT/S", "1 Gb/s"] {
            assert_eq!(text.parse(), Ok(BitRate(1e9)), "{text}");
        }
        assert_eq!("64K".parse::<Bytes>(), "64 KiB".parse::<Bytes>());
    }

    #[test]
    fn a_wall_clock_in_nanoseconds_is_exact() {
        for ns in [1_795_219_500_000_000_001, u64::MAX, (1 << 53) + 1, 0] {
            assert_eq!(Nanos(ns).to_string().parse(), Ok(Nanos(ns)));
            assert_eq!(Bytes(ns).to_string().parse(), Ok(Bytes(ns)));
        }
    }

    #[test]
    fn a_bare_number_or_wrong_unit_is_refused() {
        for text in ["25", "", "Gbit/s", "-1 Gbit/s", "25 GB", "inf Gbit/s", "1..2 Gbit/s"] {
            assert!(text.parse::<BitRate>().is_err(), "{text}");
        }
        for text in ["100 MB/s", "1 GBps"] {
            assert!(text.parse::<BitRate>().is_err(), "{text} counts bytes");
        }
        assert!("1.5 B".parse::<Bytes>().is_err());
        assert!("64 Kib".parse::<Bytes>().is_err());
        assert!(serde_json::from_str::<Bytes>("64").is_err());
    }
}
