//! Sizes, rates, times and ranges as iperf3 and fio users type them.

use linerate_model::{BitRate, Bytes, Nanos, PacketRate};

/// Reads a size: a number of bytes, or a quantity with its unit such as `4K`, `4 KiB` or `4 kB`.
#[must_use]
pub fn size(text: &str) -> Option<Bytes> {
    bare(text).map(|bytes| Bytes(bytes as u64)).or_else(|| text.parse().ok())
}

/// Reads a rate in bit/s: a number, or a quantity with its unit such as `1G` or `1 Gbit/s`.
#[must_use]
pub fn rate(text: &str) -> Option<BitRate> {
    bare(text).map(BitRate).or_else(|| text.parse().ok())
}

/// Reads operations a second: a number, with a power of 1000 such as `2k` or without one.
#[must_use]
pub fn operations(text: &str) -> Option<PacketRate> {
    const POWERS: [(char, f64); 4] = [('K', 1e3), ('M', 1e6), ('G', 1e9), ('T', 1e12)];
    let text = text.trim();
    let letter = text.chars().next_back()?.to_ascii_uppercase();
    let (number, factor) = match POWERS.iter().find(|(power, _)| *power == letter) {
        Some((_, factor)) => (text[..text.len() - 1].trim_end(), *factor),
        None => (text, 1.0),
    };
    bare(number).map(|number| PacketRate(number * factor))
}

/// Reads a time: a number of seconds, or a quantity with its unit such as `500 ms`.
#[must_use]
pub fn time(text: &str) -> Option<Nanos> {
    bare(text).map(Nanos::from_secs_f64).or_else(|| text.parse().ok())
}

/// Reads the longest time to connect: a number of milliseconds, or a quantity with its unit, of at
/// most an hour.
#[must_use]
pub fn milliseconds(text: &str) -> Option<Nanos> {
    /// Longest time that somebody waits for a connection.
    const MOST: Nanos = Nanos::from_secs(3_600);
    // A number that is too large must not become a time with a unit.
    let read = match text.parse::<u64>() {
        Ok(number) => number.checked_mul(1_000_000).map(Nanos),
        Err(_) => time(text),
    };
    read.filter(|time| (Nanos(1)..=MOST).contains(time))
}

/// Reads the CPU of one end, or two CPUs with a comma between them.
#[must_use]
pub fn cpus(text: &str) -> Option<[Option<usize>; 2]> {
    let listed: Result<Vec<usize>, _> = text.split(',').map(str::parse).collect();
    match listed.as_deref() {
        Ok([here]) => Some([Some(*here), None]),
        Ok([here, there]) => Some([Some(*here), Some(*there)]),
        _ => None,
    }
}

/// Reads a number without a unit.
fn bare(text: &str) -> Option<f64> {
    // The parser accepts `inf` and `nan`.
    text.parse::<f64>().ok().filter(|value| value.is_finite() && *value >= 0.0)
}

/// Returns the meaning of a size whose unit people read in two ways: `K` and `KB` are powers of
/// 1024 to some, and of 1000 to others.
#[must_use]
pub fn meaning(text: &str) -> Option<String> {
    let unit = text.trim().trim_start_matches(|c: char| c.is_ascii_digit() || c == '.').trim();
    let is_ambiguous = matches!(unit.to_ascii_uppercase().as_str(), "K" | "M" | "G" | "T")
        || matches!(unit, "KB" | "MB" | "GB" | "TB");
    let bytes = size(text).filter(|_| is_ambiguous)?;
    let other = if unit.len() == 1 { "B" } else { "iB" };
    let (unit, number) = (&unit[..1], text.trim().trim_end_matches(char::is_alphabetic).trim());
    let exact = bytes.0;
    Some(format!(
        "{text} is {exact} B (write {number} {}{other} for the other meaning)",
        unit.to_ascii_uppercase()
    ))
}

/// Reads a differentiated services code point: a number, or a name of RFC 2474, 2597, 3246 or 8622.
#[must_use]
pub fn code_point(text: &str) -> Option<u64> {
    let name = text.to_ascii_uppercase();
    match (name.as_str(), digits(&name, "CS").as_deref(), digits(&name, "AF").as_deref()) {
        ("EF", ..) => Some(46),
        ("VA" | "VOICE-ADMIT", ..) => Some(44),
        ("LE", ..) => Some(1),
        (_, Some([class @ 0..=7]), _) => Some(class * 8),
        (_, _, Some([class @ 1..=4, drop @ 1..=3])) => Some(class * 8 + drop * 2),
        _ => text.parse().ok(),
    }
}

/// Returns the digits of `name` behind `prefix`.
fn digits(name: &str, prefix: &str) -> Option<Vec<u64>> {
    name.strip_prefix(prefix)?.chars().map(|digit| digit.to_digit(10).map(u64::from)).collect()
}

/// Reads a type-of-service byte in decimal, octal or hexadecimal, and returns its code point. Its
/// two lowest bits belong to congestion marks, which the kernel sets.
#[must_use]
pub fn type_of_service(text: &str) -> Option<u64> {
    let byte = match (text.strip_prefix("0x"), text.strip_prefix('0')) {
        (Some(hexadecimal), _) => u8::from_str_radix(hexadecimal, 16),
        (None, Some(octal)) if !octal.is_empty() => u8::from_str_radix(octal, 8),
        _ => text.parse(),
    };
    byte.ok().filter(|byte| byte & 0b11 == 0).map(|byte| u64::from(byte >> 2))
}

/// Reads queue depths: `4`, `1..256x2` (doubling) or `1..8+1` (steps of one).
#[must_use]
pub fn depths(text: &str) -> Option<Vec<u32>> {
    let number = |text: &str| text.parse::<u32>().ok().filter(|number| *number > 0);
    let Some((first, rest)) = text.split_once("..") else {
        return Some(vec![number(text)?]);
    };
    let (last, step, is_factor) = match (rest.split_once('x'), rest.split_once('+')) {
        // A factor of one would never reach the end.
        (Some((last, factor)), _) => (last, number(factor).filter(|factor| *factor > 1)?, true),
        (None, Some((last, step))) => (last, number(step)?, false),
        (None, None) => (rest, 1, false),
    };
    let (first, last) = (number(first)?, number(last)?);
    let next =
        // A range up to the largest number must end and not wrap.
        |depth: &u32| if is_factor { depth.checked_mul(step) } else { depth.checked_add(step) };
    Some(std::iter::successors(Some(first), next).take_while(|depth| *depth <= last).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_to_connect_is_in_milliseconds_or_has_a_unit_and_ends_after_an_hour() {
        assert_eq!(milliseconds("1500"), Some(Nanos::from_millis(1500)));
        assert_eq!(milliseconds("2 s"), Some(Nanos::from_secs(2)));
        assert_eq!(milliseconds("3600000"), Some(Nanos::from_secs(3_600)));
        for wrong in ["0", "3600001", "18446744073710", "18446744073709551616", "2 h", "x"] {
            assert_eq!(milliseconds(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn one_or_two_cpus_are_read() {
        assert_eq!(cpus("3"), Some([Some(3), None]));
        assert_eq!(cpus("3,0"), Some([Some(3), Some(0)]));
        assert_eq!(["", "a", "1,2,3", "1,"].map(cpus), [None; 4]);
    }

    #[test]
    fn depths_are_numbers_and_ranges() {
        assert_eq!(depths("16"), Some(vec![16]));
        assert_eq!(depths("1..256x4"), Some(vec![1, 4, 16, 64, 256]));
        assert_eq!(depths("2..9+3"), Some(vec![2, 5, 8]));
        assert_eq!(depths("1..3"), Some(vec![1, 2, 3]));
        for wrong in ["0", "x", "1..8x1", "1..8+0", "8..", ""] {
            assert_eq!(depths(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn operations_a_second_are_numbers_with_powers_of_1000() {
        for (text, rate) in
            [("500", 500.0), ("2k", 2e3), ("2K", 2e3), ("1.5 M", 1.5e6), ("17000", 17e3)]
        {
            assert_eq!(operations(text), Some(PacketRate(rate)), "{text}");
        }
        for other in ["800 Mbit/s", "10 kpps", "2kB", "k", "", "-1", "inf", "90 %"] {
            assert_eq!(operations(other), None, "{other}");
        }
    }

    #[test]
    fn sizes_rates_and_times_have_letters_or_units_and_one_meaning() {
        for (text, bytes) in [
            ("4k", 4096),
            ("1M", 1 << 20),
            ("64K", 65_536),
            ("64 KiB", 65_536),
            ("64KiB", 65_536),
            ("64 KB", 64_000),
            ("64kB", 64_000),
            ("512", 512),
            ("512 B", 512),
            ("1.5K", 1536),
        ] {
            assert_eq!(size(text), Some(Bytes(bytes)), "{text}");
        }
        for wrong in ["4q", "k", "", "-1", "infK", "inf", "4 Kb"] {
            assert_eq!(size(wrong), None, "{wrong}");
        }
        for text in
            ["1G", "1g", "1 G", "1 Gbit/s", "1Gbit/s", "1Gbps", "1gbps", "1 Gb/s", "1Gbit", "1e9"]
        {
            assert_eq!(rate(text), Some(BitRate(1e9)), "{text}");
        }
        assert_eq!(
            (rate("100K"), rate("0"), rate("x")),
            (Some(BitRate(1e5)), Some(BitRate(0.0)), None)
        );
        assert_eq!((rate("1 GB"), rate("1 GiB")), (None, None), "bytes are no rate");
        for (text, ms) in
            [("10", 10_000), ("0.5", 500), ("10 s", 10_000), ("500ms", 500), ("1 min", 60_000)]
        {
            assert_eq!(time(text), Some(Nanos::from_millis(ms)), "{text}");
        }
        assert_eq!((time("-1"), time("10 x")), (None, None));
    }

    #[test]
    fn what_people_read_in_two_ways_is_said_back() {
        let said = |text| meaning(text).unwrap_or_default();
        assert_eq!(said("64K"), "64K is 65536 B (write 64 KB for the other meaning)");
        assert_eq!(said("64 KB"), "64 KB is 64000 B (write 64 KiB for the other meaning)");
        for clear in ["64 KiB", "512", "512 B", "64 kB", "x"] {
            assert_eq!(meaning(clear), None, "{clear}");
        }
    }

    #[test]
    fn code_points_have_names_and_a_type_of_service_is_four_times_as_much() {
        for (text, expected) in [
            ("46", Some(46)),
            ("EF", Some(46)),
            ("cs0", Some(0)),
            ("CS7", Some(56)),
            ("af11", Some(10)),
            ("AF43", Some(38)),
            ("LE", Some(1)),
            ("CS8", None),
            ("AF44", None),
            ("AF4", None),
        ] {
            assert_eq!(code_point(text), expected, "{text}");
        }
        for (text, expected) in [
            ("0xb8", Some(46)),
            ("184", Some(46)),
            ("0270", Some(46)),
            ("0", Some(0)),
            ("1", None),
            ("256", None),
        ] {
            assert_eq!(type_of_service(text), expected, "{text}");
        }
    }
}
