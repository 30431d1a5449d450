//! Columns of numbers and texts: writing, and reading without trust.

use linerate_model::{Lines, printable};

use super::BlobError;

/// Collects a body.
#[derive(Default)]
pub(super) struct Writer(pub(super) Vec<u8>);

impl Writer {
    /// LEB128: seven bits a byte, low ones first.
    pub(super) fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    /// The number of `text`'s bytes, then them.
    pub(super) fn text(&mut self, text: &str) {
        self.varint(text.len() as u64);
        self.0.extend_from_slice(text.as_bytes());
    }

    /// Numbers as zigzag differences; how many is known to the reader.
    pub(super) fn column(&mut self, values: impl IntoIterator<Item = u64>) {
        let mut before = 0;
        for value in values {
            // Differences wrap, so that any sequence of 64-bit numbers can be written, also one
            // that falls.
            self.varint(zigzag(value.wrapping_sub(before) as i64));
            before = value;
        }
    }
}

/// Small differences of either sign as small numbers: 0, -1, 1, -2, ...
fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

fn unzigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

/// Takes a body apart; every read is checked.
pub(super) struct Reader<'a>(pub(super) &'a [u8]);

impl<'a> Reader<'a> {
    pub(super) fn byte(&mut self) -> Result<u8, BlobError> {
        let (&byte, rest) = self.0.split_first().ok_or(BlobError::Truncated)?;
        self.0 = rest;
        Ok(byte)
    }

    pub(super) fn bytes(&mut self, n_bytes: usize) -> Result<&'a [u8], BlobError> {
        let (bytes, rest) = self.0.split_at_checked(n_bytes).ok_or(BlobError::Truncated)?;
        self.0 = rest;
        Ok(bytes)
    }

    pub(super) fn varint(&mut self) -> Result<u64, BlobError> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            // The tenth byte has room for one bit only. More would be shifted out unnoticed.
            if shift == 63 && bits > 1 {
                break;
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(BlobError::Content("a number of more than 64 bits".to_owned()))
    }

    /// A number of things of which each takes at least one byte: more than are left is a lie, found
    /// before memory is taken for them.
    pub(super) fn count(&mut self) -> Result<usize, BlobError> {
        let count = usize::try_from(self.varint()?).map_err(|_| BlobError::Truncated)?;
        // Each item takes at least one byte, so this bound holds before any item is read.
        if count > self.0.len() { Err(BlobError::Truncated) } else { Ok(count) }
    }

    pub(super) fn text(&mut self) -> Result<String, BlobError> {
        let n_bytes = self.count()?;
        let text = std::str::from_utf8(self.bytes(n_bytes)?);
        // The file may come from anybody: control characters in a name must not reach a terminal.
        text.map(|text| printable(text, Lines::One).into_owned())
            .map_err(|_| BlobError::Content("a name that is not UTF-8".to_owned()))
    }

    pub(super) fn column(&mut self, n_values: usize) -> Result<Vec<u64>, BlobError> {
        let mut before = 0_u64;
        // The count comes from the file. Memory is reserved only for as many values as bytes are
        // left.
        let mut values = Vec::with_capacity(n_values.min(self.0.len()));
        for _ in 0..n_values {
            before = before.wrapping_add(unzigzag(self.varint()?) as u64);
            values.push(before);
        }
        Ok(values)
    }

    /// Numbers that must fit 32 bits.
    pub(super) fn column_u32(&mut self, n_values: usize) -> Result<Vec<u32>, BlobError> {
        let narrow = |value: u64| {
            u32::try_from(value).map_err(|_| BlobError::Content("a number too large".to_owned()))
        };
        self.column(n_values)?.into_iter().map(narrow).collect()
    }

    /// Nothing may be left.
    pub(super) fn end(&self) -> Result<(), BlobError> {
        if self.0.is_empty() {
            Ok(())
        } else {
            Err(BlobError::Content(format!("{} bytes too many", self.0.len())))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_steady_counter_takes_one_byte_a_value() {
        let mut writer = Writer::default();
        writer.column([1_000, 1_010, 1_020, 1_020, 1_015]);
        assert_eq!(writer.0, [0xd0, 0x0f, 20, 20, 0, 9]);
        assert_eq!(Reader(&writer.0).column(5), Ok(vec![1_000, 1_010, 1_020, 1_020, 1_015]));
    }

    #[test]
    fn the_extremes_survive() {
        let values = [0, u64::MAX, 0, 1 << 63, i64::MAX as u64, u64::MAX - 1];
        let mut writer = Writer::default();
        writer.column(values);
        assert_eq!(Reader(&writer.0).column(values.len()), Ok(values.to_vec()));
    }

    #[test]
    fn overlong_numbers_and_lying_counts_are_refused() {
        assert!(matches!(Reader(&[0xff; 11]).varint(), Err(BlobError::Content(_))));
        assert_eq!(Reader(&[0xff, 0xff, 0xff, 0xff, 0x0f]).count(), Err(BlobError::Truncated));
        assert_eq!(Reader(&[0x80]).varint(), Err(BlobError::Truncated));
    }
}
