//! Text files of procfs and sysfs: read again and again without allocation, and cut into lines,
//! words and numbers.
//!
//! Numbers are ASCII decimal or hexadecimal as the kernel prints them; anything else is `None`,
//! never a guess.

use std::fs::File;
use std::os::unix::fs::FileExt;

use crate::Unavailable;

/// Room beyond the size seen when opened: counters grow digits, CPUs come online.
const SLACK: usize = 4096;

/// A kernel file kept open, with the buffer it is read into.
#[derive(Debug)]
pub(crate) struct KernelText {
    file: File,
    buffer: Vec<u8>,
}

impl KernelText {
    /// Opens `path` and reads it once, to learn how large it is.
    pub(crate) fn open(path: &str) -> Result<Self, Unavailable> {
        let unavailable = |cause: std::io::Error| Unavailable(format!("read {path}: {cause}"));
        let file = File::open(path).map_err(unavailable)?;
        // The size that `stat` reports for such files is zero, so it is found by reading.
        let mut text = Self { file, buffer: vec![0; SLACK] };
        loop {
            let length = fill(&text.file, &mut text.buffer).map_err(unavailable)?;
            // Slack must be left: a file that just fits may be cut off at the next reading.
            if length + SLACK <= text.buffer.len() {
                return Ok(text);
            }
            text.buffer.resize(text.buffer.len() * 2, 0);
        }
    }

    /// The file as it is now; `None` if it cannot be read or has outgrown the buffer (a cut number
    /// would be a wrong one).
    pub(crate) fn read(&mut self) -> Option<&[u8]> {
        let length = fill(&self.file, &mut self.buffer).ok()?;
        // A full buffer may mean that more follows.
        (length < self.buffer.len()).then(|| &self.buffer[..length])
    }
}

/// Reads from the start until the end of the file or of the buffer: files of many records come in
/// pieces.
fn fill(file: &File, buffer: &mut [u8]) -> std::io::Result<usize> {
    let mut length = 0;
    while length < buffer.len() {
        // `pread` at an offset: the kernel makes the text anew at offset 0, and a seek costs
        // another call.
        match file.read_at(&mut buffer[length..], length as u64)? {
            0 => break,
            n => length += n,
        }
    }
    Ok(length)
}

/// The lines of `text`, without their ends.
pub(crate) fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(|&byte| byte == b'\n').filter(|line| !line.is_empty())
}

/// The words of `line`, separated by blanks.
pub(crate) fn words(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(|byte| byte.is_ascii_whitespace()).filter(|word| !word.is_empty())
}

/// A decimal number; `None` if it is anything else or exceeds 64 bits.
pub(crate) fn decimal(word: &[u8]) -> Option<u64> {
    number(word, 10)
}

/// A hexadecimal number without prefix.
pub(crate) fn hexadecimal(word: &[u8]) -> Option<u64> {
    number(word, 16)
}

fn number(word: &[u8], radix: u64) -> Option<u64> {
    let digit = |byte: &u8| (*byte as char).to_digit(radix as u32).map(u64::from);
    let mut digits = word.iter().map(digit);
    let first = digits.next()??;
    // The first digit is taken apart, so that an empty word is no number.
    digits.try_fold(first, |value, digit| value.checked_mul(radix)?.checked_add(digit?))
}

/// The number after `prefix`, e.g. 3 of `cpu3` or 7 of `CPU7`.
pub(crate) fn suffix_number(word: &[u8], prefix: &[u8]) -> Option<u32> {
    decimal(word.strip_prefix(prefix)?)?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_exact_or_nothing() {
        assert_eq!(decimal(b"18446744073709551615"), Some(u64::MAX));
        assert_eq!(decimal(b"18446744073709551616"), None);
        for bad in [&b""[..], b"-1", b"1.5", b"0x1", b"1\0"] {
            assert_eq!(decimal(bad), None, "{bad:?}");
        }
        assert_eq!(hexadecimal(b"0000f00f"), Some(0xf00f));
        assert_eq!(suffix_number(b"cpu17", b"cpu"), Some(17));
        assert_eq!(suffix_number(b"cpu", b"cpu"), None);
    }

    #[test]
    fn a_file_read_twice_is_read_from_its_start_both_times() {
        let mut stat = KernelText::open("/proc/stat").unwrap();
        assert!(stat.read().unwrap().starts_with(b"cpu "));
        assert!(stat.read().unwrap().starts_with(b"cpu "));
        let error = KernelText::open("/proc/lr-none").unwrap_err();
        assert!(error.0.starts_with("read /proc/lr-none: "), "{error}");
    }
}
