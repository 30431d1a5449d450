//! Records that are written many times a second, as compressed columns.
//!
//! A blob is one byte of format version, then a deflate stream (RFC 1951). Inside, each field of
//! the records is one column: numbers as zigzag varints of the difference to the number before, so
//! that a steady counter takes a byte or two before compression and almost none after. Columns that
//! may change from version to version (counters, fields of the TCP state) carry their name: a
//! reader skips columns that it does not know and sets missing columns to zero.

mod column;
mod intervals;
mod samples;

use std::io::{Read, Write};

use flate2::Compression;
use flate2::read::DeflateDecoder;
use flate2::write::DeflateEncoder;
use linerate_model::{FlowReport, Lines, printable_json};

use crate::budget::Budget;

pub(crate) use intervals::{decode_intervals, encode_intervals};
pub(crate) use samples::{KnownSeries, decode_samples, encode_samples};

/// Version of the format of new blobs.
const VERSION: u8 = 1;
/// No chunk holds more intervals.
pub(crate) const MAX_INTERVALS: usize = 1 << 16;

/// A blob does not decode.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BlobError {
    /// It ends too early.
    #[error("it is cut off")]
    Truncated,
    /// Its format is of a later version.
    #[error("its format is version {0}, this linerate knows {VERSION}")]
    Version(u8),
    /// The compressed stream is broken.
    #[error("it does not inflate")]
    Compression,
    /// It asks for more memory than a file of this size may.
    #[error("the file asks for more than the {} MiB of memory that one of its size may \
        take", budget >> 20)]
    TooMuch {
        /// Memory that it may take, bytes.
        budget: u64,
    },
    /// Content that makes no sense.
    #[error("it holds {0}")]
    Content(String),
}

/// `body` behind its version, compressed.
pub(crate) fn pack(body: &[u8]) -> Vec<u8> {
    // Intervals are written every second while the load runs, so little CPU matters more than size.
    let mut encoder = DeflateEncoder::new(vec![VERSION], Compression::fast());
    encoder.write_all(body).expect("writing to memory cannot fail");
    encoder.finish().expect("writing to memory cannot fail")
}

/// Bytes that are inflated at once.
const PIECE_BYTES: u64 = 256 << 10;

/// The body of `blob`, as far as `budget` goes.
pub(crate) fn unpack(blob: &[u8], budget: &Budget) -> Result<Vec<u8>, BlobError> {
    let (&version, deflated) = blob.split_first().ok_or(BlobError::Truncated)?;
    if version != VERSION {
        return Err(BlobError::Version(version));
    }
    let mut body = Vec::new();
    inflate(deflated, &mut body, budget).map(|()| body)
}

/// Appends what `deflated` inflates to; on an error the budget has everything back.
fn inflate(deflated: &[u8], body: &mut Vec<u8>, budget: &Budget) -> Result<(), BlobError> {
    let mut decoder = DeflateDecoder::new(deflated);
    loop {
        let n_taken = body.len();
        // In pieces: several threads decode, and what one takes the others must not count on.
        let cause = match decoder.by_ref().take(PIECE_BYTES).read_to_end(body) {
            Ok(0) => return Ok(()),
            Ok(n_bytes) => match budget.take(n_bytes, 1) {
                Ok(()) => continue,
                Err(cause) => cause,
            },
            // Deflate marks its end. A stream without the mark is cut off, not broken.
            Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => BlobError::Truncated,
            Err(_) => BlobError::Compression,
        };
        budget.give(n_taken, 1);
        return Err(cause);
    }
}

/// Memory for the JSON of one flow, at most, per byte of text.
const FLOW_BYTES_A_BYTE: usize = 8;

/// Flow reports come once per trial and side, with names and addresses in them: JSON, compressed.
pub(crate) fn encode_flows(flows: &[FlowReport]) -> Vec<u8> {
    pack(crate::codec::json(&flows).as_bytes())
}

/// The reverse of [`encode_flows`].
pub(crate) fn decode_flows(blob: &[u8], budget: &Budget) -> Result<Vec<FlowReport>, BlobError> {
    let text = unpack(blob, budget)?;
    let text = printable_json(&text, Lines::One);
    budget.take(text.len(), FLOW_BYTES_A_BYTE)?;
    serde_json::from_slice(&text)
        .map_err(|error| BlobError::Content(format!("no flow reports: {error}")))
}

#[cfg(test)]
mod tests {
    use linerate_model::{Counter, Interval};
    use proptest::prelude::*;

    use super::*;

    fn hundred_intervals() -> Vec<Interval> {
        let interval = |n: u64| {
            let mut interval = Interval::default();
            interval.start.0 = n * 100_000_000;
            interval.end.0 = (n + 1) * 100_000_000 + n % 7;
            interval.counters[Counter::PayloadSent] = 1_250_000_000 + n % 13 * 65_536;
            interval
        };
        (0..100).map(interval).collect()
    }

    #[test]
    fn a_steady_interval_takes_few_bytes() {
        let intervals = hundred_intervals();
        let blob = encode_intervals(&intervals.iter().collect::<Vec<_>>());
        assert_eq!(decode_intervals(&blob, &Budget::plenty()), Ok(intervals));
        assert!(blob.len() < 6 * 100, "{} bytes for 100 intervals", blob.len());
    }

    #[test]
    fn a_small_file_cannot_ask_for_much_memory_by_many_counters() {
        let full = |counters: &[Counter]| {
            let mut interval = Interval::default();
            counters.iter().for_each(|counter| interval.counters[*counter] = 1);
            let blob = encode_intervals(&vec![&interval; MAX_INTERVALS]);
            decode_intervals(&blob, &Budget::of_file(blob.len() as u64)).map(|read| read.len())
        };
        assert_eq!(full(&[Counter::Steps]), Ok(MAX_INTERVALS));
        assert!(matches!(full(Counter::ALL), Err(BlobError::TooMuch { .. })));
    }

    #[test]
    fn a_blob_cut_anywhere_is_an_error() {
        let intervals = hundred_intervals();
        let blob = encode_intervals(&intervals.iter().collect::<Vec<_>>());
        for length in 0..blob.len() {
            assert!(
                decode_intervals(&blob[..length], &Budget::plenty()).is_err(),
                "{length} of {} bytes",
                blob.len()
            );
        }
        let mut later = blob;
        later[0] = 9;
        assert_eq!(decode_intervals(&later, &Budget::plenty()), Err(BlobError::Version(9)));
    }

    proptest! {
        #[test]
        fn no_bytes_make_decoding_panic(body in prop::collection::vec(any::<u8>(), 0..300)) {
            for blob in [body.clone(), pack(&body)] {
                let _ = decode_intervals(&blob, &Budget::plenty());
                let _ = decode_samples(&blob, &Budget::of_file(300), &mut KnownSeries::default());
                let _ = decode_flows(&blob, &Budget::plenty());
            }
        }

        #[test]
        fn no_damage_makes_decoding_panic(at in 0_usize..10_000, to in any::<u8>()) {
            let intervals = hundred_intervals();
            let mut body = unpack(&encode_intervals(&intervals.iter().collect::<Vec<_>>()),
                &Budget::plenty()).expect("it was just packed");
            let at = at % body.len();
            body[at] = to;
            let _ = decode_intervals(&pack(&body), &Budget::of_file(300));
        }
    }
}
