//! Percent-encoding of URLs (RFC 3986 clause 2.1) in bytes: names of files are bytes, and need not
//! be UTF-8.
//!
//! No decoded name has a control character: a line break in one would be a second command of FTP or
//! a second field of HTTP.

use std::fmt;

/// ASCII DEL, the control character above the printable ones.
const DELETE: u8 = 0x7f;
/// The first printable character.
const BLANK: u8 = 0x20;

/// Reason for which a text cannot be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mistake {
    /// `%` without two hexadecimal digits behind it.
    Digits,
    /// A control character, NUL among them, encoded or not.
    Control,
    /// The result is longer than the buffer.
    Long,
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Digits => {
                "`%` needs two hexadecimal digits behind it (write a per cent sign as %25)"
            }
            Self::Control => "it holds a control character",
            Self::Long => "it is too long",
        })
    }
}

/// Decodes `text`.
///
/// # Errors
/// If an escape is incomplete, or stands for a control character.
pub(crate) fn decode(text: &[u8]) -> Result<Vec<u8>, Mistake> {
    let mut decoded = Vec::with_capacity(text.len());
    decode_into(text, &mut decoded)?;
    Ok(decoded)
}

/// Decodes `text` into `decoded`, within its reserved bytes: nothing is allocated.
///
/// # Errors
/// As [`decode`], and if there is no room.
pub(crate) fn decode_into(text: &[u8], decoded: &mut Vec<u8>) -> Result<(), Mistake> {
    decoded.clear();
    let mut rest = text;
    while let [first, behind @ ..] = rest {
        let (byte, behind) = match (first, behind) {
            (b'%', [high, low, behind @ ..]) => {
                (hexadecimal(*high)? << 4 | hexadecimal(*low)?, behind)
            }
            (b'%', _) => return Err(Mistake::Digits),
            (byte, behind) => (*byte, behind),
        };
        if byte < BLANK || byte == DELETE {
            return Err(Mistake::Control);
        }
        if decoded.len() == decoded.capacity() {
            return Err(Mistake::Long);
        }
        decoded.push(byte);
        rest = behind;
    }
    Ok(())
}

fn hexadecimal(digit: u8) -> Result<u8, Mistake> {
    (digit as char).to_digit(16).map(|value| value as u8).ok_or(Mistake::Digits)
}

/// Writes `name` with everything encoded but what RFC 3986 clause 2.3 leaves as it is, and slashes.
pub(crate) fn encode(name: &[u8], to: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    for byte in name {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => {
                to.push(*byte)
            }
            byte => {
                to.extend([b'%', DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 0xf)]])
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn escapes_are_decoded_once_and_line_breaks_refused() {
        assert_eq!(decode(b"a%20b%2Fc%25%41%c3%A4").as_deref(), Ok(&b"a b/c%A\xc3\xa4"[..]));
        assert_eq!(decode(b"%2541").as_deref(), Ok(&b"%41"[..]));
        for wrong in [&b"%"[..], b"%4", b"%4g", b"%+1", b"a%", b"%%41"] {
            assert_eq!(decode(wrong), Err(Mistake::Digits), "{wrong:?}");
        }
        for wrong in [&b"%00"[..], b"a%0d%0aDELE b", b"%0A", b"%7f", b"a\nb", b"%1b"] {
            assert_eq!(decode(wrong), Err(Mistake::Control), "{wrong:?}");
        }
        let mut small = Vec::with_capacity(2);
        let room = small.capacity();
        assert_eq!(decode_into(&vec![b'a'; room + 1], &mut small), Err(Mistake::Long));
    }

    proptest! {
        #[test]
        fn encoded_names_are_decoded(name in proptest::collection::vec(any::<u8>(), 0..200)) {
            let mut encoded = Vec::new();
            encode(&name, &mut encoded);
            prop_assert!(encoded.iter().all(|byte| byte.is_ascii_graphic()));
            let has_control = name.iter().any(|byte| byte.is_ascii_control());
            prop_assert_eq!(decode(&encoded),
                if has_control { Err(Mistake::Control) } else { Ok(name) });
        }
    }
}
