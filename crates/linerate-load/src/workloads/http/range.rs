//! Parts of a file: `Range: bytes=...` of a request and `Content-Range: bytes ...` of an answer
//! (RFC 9110 clause 14).
//!
//! One range is served. A request for several, or for other units, gets the whole file, as clause
//! 14.2 allows.

use std::ops::Range;

/// Requested range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    /// From this byte to that one, or to the end.
    From(u64, Option<u64>),
    /// This many bytes at the end.
    Last(u64),
}

impl Asked {
    /// Reads the value of a `Range` field; `None` if it is to be ignored.
    pub(super) fn parse(value: &str) -> Option<Self> {
        let (unit, set) = value.split_once('=')?;
        let (first, last) = set.trim().split_once('-')?;
        if !unit.trim().eq_ignore_ascii_case("bytes") {
            return None;
        }
        match (first, last) {
            ("", last) => number(last).map(Self::Last),
            (first, "") => number(first).map(|first| Self::From(first, None)),
            (first, last) => {
                // A range that ends before it begins is ignored, as clause 14.1.1 asks.
                let (first, last) = (number(first)?, number(last)?);
                (first <= last).then_some(Self::From(first, Some(last)))
            }
        }
    }

    /// Returns the bytes in a file of `size` bytes; `None` if it has none of them.
    pub(super) fn within(self, size: u64) -> Option<Range<u64>> {
        match self {
            Self::From(first, last) => {
                // The last byte may be beyond the end: the rest is meant.
                let end = last.map_or(size, |last| last.saturating_add(1).min(size));
                (first < size).then_some(first..end)
            }
            // More than the file has means all of it.
            Self::Last(n) => (n > 0 && size > 0).then(|| size.saturating_sub(n)..size),
        }
    }
}

/// Returns the first byte of an answer's range, of `bytes 4-9/10`.
pub(super) fn first_of_content(value: &str) -> Option<u64> {
    let (unit, rest) = value.trim().split_once(' ')?;
    let (first, _) = rest.split_once('-')?;
    number(first.trim()).filter(|_| unit.eq_ignore_ascii_case("bytes"))
}

/// Reads digits only; a number too large for any file becomes the largest.
fn number(text: &str) -> Option<u64> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn single_ranges_are_understood_and_others_ignored() {
        assert_eq!(Asked::parse("bytes=0-499"), Some(Asked::From(0, Some(499))));
        assert_eq!(Asked::parse("Bytes=500-"), Some(Asked::From(500, None)));
        assert_eq!(Asked::parse("bytes=-5"), Some(Asked::Last(5)));
        assert_eq!(Asked::parse("bytes=99999999999999999999-"), Some(Asked::From(u64::MAX, None)));
        for ignored in [
            "bytes=0-1,4-5",
            "lines=1-2",
            "bytes=5-2",
            "bytes=",
            "bytes=-",
            "bytes=+1-2",
            "bytes 1-2",
            "bytes=a-b",
        ] {
            assert_eq!(Asked::parse(ignored), None, "{ignored}");
        }
    }

    #[test]
    fn ranges_end_with_the_file_or_cannot_be_satisfied() {
        assert_eq!(Asked::From(2, Some(4)).within(10), Some(2..5));
        assert_eq!(Asked::From(2, Some(u64::MAX)).within(10), Some(2..10));
        assert_eq!(Asked::From(9, None).within(10), Some(9..10));
        assert_eq!(Asked::From(10, None).within(10), None);
        assert_eq!(Asked::Last(3).within(10), Some(7..10));
        assert_eq!(Asked::Last(30).within(10), Some(0..10));
        assert_eq!(Asked::Last(0).within(10), None);
        assert_eq!(Asked::Last(3).within(0), None);
        assert_eq!(first_of_content("bytes 42-1233/1234"), Some(42));
        assert_eq!(first_of_content("bytes */1234"), None);
    }
}
