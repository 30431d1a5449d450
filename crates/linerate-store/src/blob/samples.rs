//! A host's readings as columns. A column of whole numbers is stored by differences, any other bit
//! by bit; where a reading is missing, a map of bits says so.

use std::sync::Arc;

use linerate_model::{Nanos, SampleBlock, SampleColumn, SeriesKind, SeriesSpec, WrittenSeries};

use super::column::{Reader, Writer};
use super::{BlobError, pack, unpack};
use crate::budget::Budget;

/// Every value is there and whole: differences.
const WHOLE: u8 = 0;
/// Any values: their bits, exclusive-or with the value before.
const REAL: u8 = 1;
/// Added to either: some values are missing, and a map of bits comes first.
const GAPS: u8 = 2;

/// Above it not every whole number has a double of its own.
const EXACT: f64 = 9_007_199_254_740_992.0;

/// `block` as a blob.
pub(crate) fn encode_samples(block: &SampleBlock) -> Vec<u8> {
    let mut writer = Writer::default();
    writer.varint(block.times.len() as u64);
    writer.column(block.times.iter().map(|time| time.0));
    writer.varint(block.series.len() as u64);
    for series in block.series.iter() {
        for text in [series.sampler(), series.name(), &series.instance, series.unit()] {
            writer.text(text);
        }
        writer.varint(u64::from(series.kind() == SeriesKind::Gauge));
    }
    writer.varint(block.columns.len() as u64);
    for column in &block.columns {
        encode_column(&mut writer, column);
    }
    writer.varint(block.unavailable.len() as u64);
    for (sampler, why) in &block.unavailable {
        writer.text(sampler);
        writer.text(why);
    }
    writer.varint(block.cost_ns);
    pack(&writer.0)
}

/// The reverse of [`encode_samples`].
pub(crate) fn decode_samples(
    blob: &[u8],
    budget: &Budget,
    known: &mut KnownSeries,
) -> Result<SampleBlock, BlobError> {
    let body = unpack(blob, budget)?;
    let mut reader = Reader(&body);
    let mut block = SampleBlock::default();
    let n_times = reader.count()?;
    block.times = reader.column(n_times)?.into_iter().map(Nanos).collect();
    block.series = known.read(&mut reader, budget)?;
    let n_columns = reader.count()?;
    budget.take(n_columns, size_of::<Vec<f64>>())?;
    for _ in 0..n_columns {
        let column = decode_column(&mut reader, budget)?;
        block.columns.push(column);
    }
    let n_unavailable = reader.count()?;
    budget.take(n_unavailable, 2 * size_of::<(String, String)>())?;
    for _ in 0..n_unavailable {
        block.unavailable.push((reader.text()?, reader.text()?));
    }
    block.cost_ns = reader.varint()?;
    reader.end()?;
    budget.give(body.len(), 1);
    Ok(block)
}

/// The series of the block before: most blocks of a campaign have the same.
#[derive(Debug, Default)]
pub(crate) struct KnownSeries {
    /// As they are written.
    bytes: Vec<u8>,
    series: Arc<[SeriesSpec]>,
}

impl KnownSeries {
    /// Reads the series of a block.
    fn read(
        &mut self,
        reader: &mut Reader<'_>,
        budget: &Budget,
    ) -> Result<Arc<[SeriesSpec]>, BlobError> {
        // Each part of what is written says how long it is, so the same beginning is the same
        // series.
        if let Some(rest) = reader.0.strip_prefix(self.bytes.as_slice())
            && !self.bytes.is_empty()
        {
            reader.0 = rest;
            return Ok(Arc::clone(&self.series));
        }
        let before = reader.0;
        let n_series = reader.count()?;
        budget.take(n_series, 2 * size_of::<SeriesSpec>())?;
        let mut series = Vec::new();
        for _ in 0..n_series {
            let written = WrittenSeries {
                sampler: reader.text()?,
                name: reader.text()?,
                instance: reader.text()?,
                unit: reader.text()?,
                kind: if reader.varint()? == 1 { SeriesKind::Gauge } else { SeriesKind::Counter },
            };
            series.push(written.into());
        }
        let bytes = before[..before.len() - reader.0.len()].to_vec();
        *self = Self { bytes, series: series.into() };
        Ok(Arc::clone(&self.series))
    }
}

fn encode_column(writer: &mut Writer, column: &SampleColumn) {
    let values = || column.iter().flatten();
    // Minus zero is a whole number, but as an integer it would lose its sign.
    let whole = |value: f64| {
        value.fract() == 0.0 && value.abs() < EXACT && (value != 0.0 || value.is_sign_positive())
    };
    let kind = if values().all(whole) { WHOLE } else { REAL };
    let gaps = values().count() < column.len();
    writer.varint(column.len() as u64);
    writer.0.push(kind | if gaps { GAPS } else { 0 });
    if gaps {
        let mut bits = vec![0_u8; column.len().div_ceil(8)];
        for (place, value) in column.iter().enumerate() {
            bits[place / 8] |= u8::from(value.is_some()) << (place % 8);
        }
        writer.0.extend(bits);
    }
    if kind == WHOLE {
        // Whole numbers can be negative, so they go through a signed type.
        writer.column(values().map(|value| value as i64 as u64));
        return;
    }
    let mut before = 0;
    for value in values() {
        // Neighbours of a reading share sign, exponent and leading digits: their exclusive-or is
        // mostly zeros, which compress well.
        writer.0.extend_from_slice(&(value.to_bits() ^ before).to_le_bytes());
        before = value.to_bits();
    }
}

fn decode_column(reader: &mut Reader<'_>, budget: &Budget) -> Result<SampleColumn, BlobError> {
    // Not `count`: a column in which every value is missing needs one bit for each value, not a
    // byte.
    let n_values = usize::try_from(reader.varint()?).map_err(|_| BlobError::Truncated)?;
    let kind = reader.byte()?;
    budget.take(n_values, size_of::<Option<f64>>())?;
    let present: Vec<bool> = match kind & GAPS {
        // Without a map of bits each value takes at least one byte.
        0 if n_values > reader.0.len() => return Err(BlobError::Truncated),
        0 => vec![true; n_values],
        _ => {
            let bits = reader.bytes(n_values.div_ceil(8))?;
            (0..n_values).map(|index| bits[index / 8] >> (index % 8) & 1 == 1).collect()
        }
    };
    let n_present = present.iter().filter(|present| **present).count();
    let mut values = match kind & !GAPS {
        WHOLE => reader
            .column(n_present)?
            .into_iter()
            .map(|value| value as i64 as f64)
            .collect::<Vec<_>>(),
        REAL => decode_real(reader, n_present)?,
        other => return Err(BlobError::Content(format!("a column of unknown kind {other}"))),
    }
    .into_iter();
    Ok(present.into_iter().map(|present| if present { values.next() } else { None }).collect())
}

fn decode_real(reader: &mut Reader<'_>, n_values: usize) -> Result<Vec<f64>, BlobError> {
    const BYTES: usize = size_of::<u64>();
    let n_bytes = n_values.checked_mul(BYTES).ok_or(BlobError::Truncated)?;
    let mut before = 0;
    // The state runs over all chunks: each value is coded against the one before.
    let bits = reader.bytes(n_bytes)?.chunks_exact(BYTES).map(|chunk| {
        before ^= u64::from_le_bytes(chunk.try_into().expect("chunks are of this size"));
        f64::from_bits(before)
    });
    Ok(bits.collect())
}
