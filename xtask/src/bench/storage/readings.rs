//! Results of runs, kept from one call to the next.

use std::io::Write as _;
use std::path::Path;

use anyhow::Context;
use serde_json::Value;

use super::rows::Row;
use crate::bench::statistics::Median;

/// Result of one run.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Reading {
    pub(super) iops: f64,
    pub(super) p99_us: f64,
    pub(super) iops_per_core: f64,
    /// The engine linerate used.
    pub(super) engine: Option<String>,
}

/// A figure of a reading.
pub(super) type Figure = fn(&Reading) -> f64;
pub(super) const IOPS: Figure = |reading| reading.iops;
pub(super) const P99_US: Figure = |reading| reading.p99_us;
pub(super) const IOPS_PER_CORE: Figure = |reading| reading.iops_per_core;

/// One row's runs, by contestant and round; `None` where one failed.
pub(super) struct Runs {
    pub(super) row: Row,
    pub(super) readings: Vec<Vec<Option<Reading>>>,
}

impl Runs {
    pub(super) fn none(row: Row) -> Self {
        Self { row, readings: vec![Vec::new(); row.contestants.len()] }
    }

    /// Rounds that every contestant has run.
    pub(super) fn rounds(&self) -> usize {
        self.readings.iter().map(Vec::len).min().unwrap_or(0)
    }

    /// The median over the rounds.
    pub(super) fn median(&self, contestant: usize, of: Figure) -> Option<Median> {
        let values: Vec<f64> = self.readings[contestant].iter().flatten().map(of).collect();
        Median::of(&values)
    }

    /// The median of the ratios within a round, the one over the other.
    pub(super) fn ratio(&self, (one, other): (usize, usize), of: Figure) -> Option<Median> {
        let pairs = self.readings[one].iter().zip(&self.readings[other]);
        let both = pairs.filter_map(|(one, other)| one.as_ref().zip(other.as_ref()));
        let ratios: Vec<f64> = both.map(|(one, other)| of(one) / of(other)).collect();
        Median::of(&ratios)
    }
}

/// Readings of this and earlier calls, a line of JSON each: row, contestant, transfers per second,
/// p99 in microseconds, per core, engine; nulls for a run that failed. A round of a row is written
/// as a whole, so that what is compared was always run one after the other.
pub(super) struct Log(Option<std::fs::File>);

impl Log {
    /// Opens `file` and fills `runs` with what is in it.
    pub(super) fn open(file: Option<&Path>, runs: &mut [Runs]) -> anyhow::Result<Self> {
        let Some(path) = file else { return Ok(Self(None)) };
        for line in std::fs::read_to_string(path).unwrap_or_default().lines() {
            let told: Value =
                serde_json::from_str(line).with_context(|| format!("read {}", path.display()))?;
            let Some(runs) = runs.iter_mut().find(|runs| told[0] == runs.row.name()) else {
                continue;
            };
            let at =
                runs.row.contestants.iter().position(|contestant| told[1] == contestant.name());
            let at =
                at.with_context(|| format!("{}: nobody is called {}", path.display(), told[1]))?;
            let number = |place: usize| told[place].as_f64();
            let reading = number(2).zip(number(3)).zip(number(4));
            let engine = told[5].as_str().map(str::to_owned);
            let reading = reading.map(|((iops, p99_us), iops_per_core)| Reading {
                iops,
                p99_us,
                iops_per_core,
                engine,
            });
            runs.readings[at].push(reading);
        }
        let opened = std::fs::OpenOptions::new().create(true).append(true).open(path);
        Ok(Self(Some(opened.with_context(|| format!("open {}", path.display()))?)))
    }

    /// Adds a round of `row`, in the order of its contestants.
    pub(super) fn append(&mut self, row: Row, round: &[Option<Reading>]) -> anyhow::Result<()> {
        let Some(file) = &mut self.0 else { return Ok(()) };
        let mut lines = String::new();
        for (contestant, reading) in row.contestants.iter().zip(round) {
            let number = |of: Figure| reading.as_ref().map(of);
            let engine = reading.as_ref().and_then(|reading| reading.engine.as_ref());
            let told = (
                row.name(),
                contestant.name(),
                number(IOPS),
                number(P99_US),
                number(IOPS_PER_CORE),
                engine,
            );
            lines += &serde_json::to_string(&told)?;
            lines.push('\n');
        }
        file.write_all(lines.as_bytes()).context("keep a round of readings")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::storage::rows::rows;

    #[test]
    fn what_one_call_measured_the_next_one_knows() {
        let path =
            std::env::temp_dir().join(format!("linerate-bench-storage-log-{}", std::process::id()));
        let row = rows()[0];
        let reading = |iops: f64| Reading {
            iops,
            p99_us: 2.0,
            iops_per_core: 3.0,
            engine: Some("pread".into()),
        };
        let round =
            [Some(reading(110.0)), Some(Reading { engine: None, ..reading(100.0) }), None, None];
        Log::open(Some(&path), &mut [])
            .and_then(|mut log| log.append(row, &round))
            .expect("written");
        let mut runs = [Runs::none(row)];
        Log::open(Some(&path), &mut runs).expect("read");
        std::fs::remove_file(&path).expect("it was made");
        assert_eq!(runs[0].readings, round.map(|reading| vec![reading]));
        assert_eq!(runs[0].rounds(), 1);
        let ratio = runs[0].ratio((0, 1), IOPS).expect("both ran");
        assert_eq!((ratio.value, ratio.n), (1.1, 1));
        assert_eq!(runs[0].ratio((0, 2), IOPS), None);
    }
}
