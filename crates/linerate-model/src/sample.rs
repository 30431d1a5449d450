//! SampleColumn of samplers: series over a trial.

use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{Nanos, SeriesSpec};

/// How a series is to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SeriesKind {
    /// Monotone; the figure is its change.
    Counter,
    /// The figure is its value.
    Gauge,
}

/// All readings of one host during one trial, column by column.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SampleBlock {
    /// Columns: those of one host are the same from trial to trial, and are kept once.
    pub series: Arc<[SeriesSpec]>,
    /// Reading times, nanoseconds since the trial's start barrier on the agreed clock (a reading
    /// before it is 0).
    pub times: Vec<Nanos>,
    /// `columns[s][t]` is series `s` at time `t`; `None` where it could not be read.
    pub columns: Vec<SampleColumn>,
    /// Samplers that could not be opened, and why: shown as gaps, never as zero.
    pub unavailable: Vec<(String, String)>,
    /// CPU time the sampling itself took, ns.
    pub cost_ns: u64,
}

/// Readings of one series; `None` where it could not be read. Most counters of a host do not change
/// during a trial: those take the memory of one reading.
#[derive(Clone, Debug, Default)]
pub struct SampleColumn {
    /// The readings, not a number where one is missing; a single one if all are the same.
    values: Box<[f64]>,
    n: usize,
}

impl SampleColumn {
    /// Returns how many there are, missing ones included.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.n
    }

    /// Returns true if there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.n == 0
    }

    /// Returns the reading at `index`; `None` also if there is no such place.
    #[must_use]
    pub fn get(&self, index: usize) -> Option<f64> {
        let place = if self.values.len() == 1 { 0 } else { index };
        self.values.get(place).copied().filter(|value| index < self.n && !value.is_nan())
    }

    /// Splits it in two before `index`: the second part is returned.
    #[must_use]
    pub fn split_off(&mut self, index: usize) -> Self {
        let rest = self.iter().skip(index).collect();
        *self = self.iter().take(index).collect();
        rest
    }

    /// Returns each reading.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = Option<f64>> + ExactSizeIterator + '_ {
        (0..self.n).map(|index| self.get(index))
    }
}

impl FromIterator<Option<f64>> for SampleColumn {
    fn from_iter<I: IntoIterator<Item = Option<f64>>>(readings: I) -> Self {
        let mut values: Vec<f64> =
            readings.into_iter().map(|reading| reading.unwrap_or(f64::NAN)).collect();
        let n = values.len();
        // By their bits: minus zero is another reading than zero.
        if values.windows(2).all(|pair| pair[0].to_bits() == pair[1].to_bits()) {
            values.truncate(1);
        }
        Self { values: values.into_boxed_slice(), n }
    }
}

impl From<Vec<Option<f64>>> for SampleColumn {
    fn from(readings: Vec<Option<f64>>) -> Self {
        readings.into_iter().collect()
    }
}

impl PartialEq for SampleColumn {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Serialize for SampleColumn {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter())
    }
}

impl<'de> Deserialize<'de> for SampleColumn {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Vec::<Option<f64>>::deserialize(deserializer).map(Self::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readings_are_what_was_read() {
        for read in [
            vec![],
            vec![Some(5.0)],
            vec![None],
            vec![Some(5.0); 3],
            vec![None; 3],
            vec![Some(0.0), Some(-0.0)],
            vec![Some(1.0), None, Some(1.0)],
        ] {
            let readings = SampleColumn::from(read.clone());
            let back: Vec<Option<f64>> = readings.iter().collect();
            let bits = |all: &[Option<f64>]| -> Vec<_> {
                all.iter().map(|reading| reading.map(f64::to_bits)).collect()
            };
            assert_eq!(bits(&back), bits(&read));
            assert_eq!((readings.len(), readings.get(read.len())), (read.len(), None));
        }
        assert_eq!(SampleColumn::from(vec![Some(5.0); 100]).values.len(), 1);
    }
}
