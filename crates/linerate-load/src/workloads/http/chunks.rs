//! Bodies in chunks (RFC 9112 clause 7.1), parsed in the receive queue: the framing of a chunk is
//! taken out, and the chunk itself is handled like any file.
//!
//! Extensions and trailers are skipped. Lines end with CRLF only, and a size has at most sixteen
//! hexadecimal digits: input that two readers may understand differently is refused.

use std::fmt::Write as _;

/// Position of the next frame in a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Before {
    /// The first chunk.
    First,
    /// A later one, which begins with the end of the chunk before.
    Next,
}

/// Framing of the next chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Frame {
    /// This many bytes of frame, followed by this many of the file.
    Chunk { taken: usize, bytes: u64 },
    /// The last one, with the trailers: the body ends after this many bytes.
    Last { taken: usize },
}

/// Digits of the longest size.
const MOST_DIGITS: usize = 16;

/// Reads the frame at the beginning of `bytes`; `None` until it is complete.
///
/// # Errors
/// The fault, in words.
pub(super) fn frame(bytes: &[u8], before: Before) -> Result<Option<Frame>, &'static str> {
    let mut at = 0;
    if before == Before::Next {
        // Each chunk ends with a line end of its own, which belongs to the next frame.
        match line(bytes)? {
            Some(b"") => at = 2,
            // The line end may be cut in two.
            None if b"\r\n".starts_with(bytes) => return Ok(None),
            _ => return Err("a chunk longer than its size"),
        }
    }
    let Some(size) = line(&bytes[at..])? else { return Ok(None) };
    at += size.len() + 2;
    let bytes_of_chunk = self::size(size)?;
    if bytes_of_chunk > 0 {
        return Ok(Some(Frame::Chunk { taken: at, bytes: bytes_of_chunk }));
    }
    loop {
        let Some(trailer) = line(&bytes[at..])? else { return Ok(None) };
        at += trailer.len() + 2;
        if trailer.is_empty() {
            return Ok(Some(Frame::Last { taken: at }));
        }
    }
}

/// Returns the first line of `bytes` without its end, if it is complete.
fn line(bytes: &[u8]) -> Result<Option<&[u8]>, &'static str> {
    let Some(end) = bytes.iter().position(|byte| matches!(byte, b'\r' | b'\n')) else {
        return Ok(None);
    };
    match (bytes[end], bytes.get(end + 1)) {
        (b'\r', Some(b'\n')) => Ok(Some(&bytes[..end])),
        // The second half of the line end may still be under way.
        (b'\r', None) => Ok(None),
        _ => Err("a line among chunks that does not end with CRLF"),
    }
}

/// Reads the size in a line such as `1a3f;name=value`.
fn size(line: &[u8]) -> Result<u64, &'static str> {
    const WRONG: &str = "the size of a chunk";
    let digits = line.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
    let behind = line[digits..].trim_ascii_start();
    // A sign, a blank or a `0x` would be read differently by other servers.
    if digits == 0 || digits > MOST_DIGITS || behind.first().is_some_and(|byte| *byte != b';') {
        return Err(WRONG);
    }
    let digits = std::str::from_utf8(&line[..digits]).map_err(|_| WRONG)?;
    u64::from_str_radix(digits, 16).map_err(|_| WRONG)
}

/// Writes the frame before a chunk of `bytes`, or the end of the body for none.
pub(super) fn write(to: &mut String, before: Before, bytes: u64) {
    to.clear();
    let end = if before == Before::Next { "\r\n" } else { "" };
    // A write to memory cannot fail.
    let _ = match bytes {
        0 => write!(to, "{end}0\r\n\r\n"),
        bytes => write!(to, "{end}{bytes:x}\r\n"),
    };
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Reads a body that arrives in two pieces, the second once the first is used up. The bytes
    /// after the body remain.
    fn read(text: &[u8], split: usize) -> Result<(Vec<u8>, usize), &'static str> {
        let (mut at, mut come, mut body, mut before) = (0, split, Vec::new(), Before::First);
        loop {
            match frame(&text[at..come], before)? {
                Some(Frame::Chunk { taken, mut bytes }) => {
                    at += taken;
                    while bytes > 0 {
                        if at == come && come == text.len() {
                            return Err("it ended early");
                        }
                        let piece = (come - at).min(bytes as usize);
                        body.extend(&text[at..at + piece]);
                        (at, bytes) = (at + piece, bytes - piece as u64);
                        come = if at == come { text.len() } else { come };
                    }
                    before = Before::Next;
                }
                Some(Frame::Last { taken }) => return Ok((body, at + taken)),
                None if come == text.len() => return Err("it ended early"),
                None => come = text.len(),
            }
        }
    }

    #[test]
    fn the_example_of_the_standard_is_read_whatever_comes_first() {
        let text = b"4\r\nWiki\r\n5;a=\"b\"\r\npedia\r\n00e\r\n \
            in\r\n\r\nchunks.\r\n0\r\nExpires: never\r\n\r\nGET";
        for split in 0..=text.len() {
            let end = text.len() - 3;
            assert_eq!(
                read(text, split),
                Ok((b"Wikipedia in\r\n\r\nchunks.".to_vec(), end)),
                "{split}"
            );
        }
    }

    #[test]
    fn ambiguous_frames_are_refused() {
        for wrong in [
            &b"4\nWiki\r\n0\r\n\r\n"[..],
            b"\r\n",
            b"-4\r\n",
            b"+4\r\n",
            b"0x4\r\n",
            b"4 4\r\n",
            b"11111111111111111\r\n",
            b"4;a\rb\r\n",
            b"4\r\nWikipedia\r\n0\r\n\r\n",
            b"g\r\n",
        ] {
            let fault = read(wrong, wrong.len());
            assert!(
                fault.is_err_and(|fault| fault != "it ended early"),
                "{:?}",
                String::from_utf8_lossy(wrong)
            );
        }
        assert_eq!(
            frame(b"ffffffffffffffff\r\n", Before::First),
            Ok(Some(Frame::Chunk { taken: 18, bytes: u64::MAX }))
        );
    }

    proptest! {
        #[test]
        fn a_written_body_is_read_split_at_every_byte(
            chunks in proptest::collection::vec(1_usize..40, 0..6),
        ) {
            let (mut text, mut body, mut head, mut before) = (Vec::new(), Vec::new(),
                String::new(), Before::First);
            for (number, bytes) in chunks.iter().enumerate() {
                write(&mut head, before, *bytes as u64);
                // Payload that looks like frames.
                let frames = b"\r\n0\r\n\r\n5".iter().cycle();
                let payload: Vec<u8> = frames.skip(number).take(*bytes).copied().collect();
                text.extend(head.bytes());
                text.extend(&payload);
                body.extend(payload);
                before = Before::Next;
            }
            write(&mut head, before, 0);
            text.extend(head.bytes());
            for split in 0..=text.len() {
                prop_assert_eq!(read(&text, split), Ok((body.clone(), text.len())));
            }
        }
    }
}
