//! Sizes, rates and ranges as iperf3 and fio users type them.

use linerate_model::Bytes;

/// Reads a size: a number of bytes with K, M, G or T for powers of 1024, or a quantity with its
/// unit such as `4 KiB`.
#[must_use]
pub fn size(text: &str) -> Option<Bytes> {
    // Quantities with units are read first, so that `4 KiB` is not taken for a letter.
    text.parse().ok().or_else(|| suffixed(text, 1024.0).map(|bytes| Bytes(bytes as u64)))
}

/// Reads a rate in bit/s: a number with K, M, G or T for powers of 1000.
#[must_use]
pub fn rate(text: &str) -> Option<f64> {
    suffixed(text, 1000.0)
}

fn suffixed(text: &str, base: f64) -> Option<f64> {
    // Both tools accept both cases.
    let power = match text.as_bytes().last()?.to_ascii_lowercase() {
        b'k' => 1,
        b'm' => 2,
        b'g' => 3,
        b't' => 4,
        _ => 0,
    };
    let number = &text[..text.len() - usize::from(power > 0)];
    // The parser accepts `inf` and `nan`.
    let value = number.parse::<f64>().ok().filter(|value| value.is_finite() && *value >= 0.0)?;
    Some(value * base.powi(power))
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
    fn sizes_have_letters_or_units() {
        for (text, bytes) in
            [("4k", 4096), ("1M", 1 << 20), ("64KiB", 65_536), ("512", 512), ("1.5K", 1536)]
        {
            assert_eq!(size(text), Some(Bytes(bytes)), "{text}");
        }
        for wrong in ["4q", "k", "", "-1", "infK"] {
            assert_eq!(size(wrong), None, "{wrong}");
        }
        assert_eq!((rate("1M"), rate("0"), rate("x")), (Some(1e6), Some(0.0), None));
    }
}
