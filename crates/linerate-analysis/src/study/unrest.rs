//! Changes of a host's capability during the load: swapping, and CPUs that went faster or slower
//! (docs/methodology/repeats.md#validity).
//!
//! A CPU's frequency counts while the CPU works; that of an idle one is irrelevant. Not covered:
//! changes between two readings, and hosts without cpufreq, as most virtual machines are; their
//! frequency is unknown.

use linerate_model::{SampleBlock, SampleColumn, SeriesSpec, series};

use super::host::BUSY;
use super::reason::Reason;
use super::samples::Samples;
use super::span::Span;

/// Share of the time between two readings from which on a CPU is at work.
const AT_WORK: f64 = 0.5;
/// Share of its highest frequency by which a working CPU may become slower: what one CPU bounds
/// becomes slower by as much.
pub const MOST_CHANGED: f64 = 0.05;

/// Returns the reasons why a trial, measured during `span`, is suspect by the samplers of its
/// hosts.
pub(super) fn doubts(samples: &[(String, SampleBlock)], span: Span) -> Vec<Reason> {
    let mut doubts = Vec::new();
    for (host, block) in samples {
        let swapped = Samples::of_one(block)
            .change(span, |read| read.is_of(series::swap::SAMPLER))
            .map_or(0.0, f64::round);
        if swapped > 0.0 {
            doubts.push(Reason::Swapped { host: host.clone(), pages: swapped });
        }
        let changes = frequencies(block, span)
            .into_iter()
            .filter(|(_, range)| range.changed() > MOST_CHANGED);
        if let Some((cpu, range)) =
            changes.max_by(|(_, a), (_, b)| a.changed().total_cmp(&b.changed()))
        {
            let (host, cpu) = (host.clone(), cpu.to_owned());
            doubts.push(Reason::Frequency { host, cpu, low_hz: range.low, high_hz: range.high });
        }
    }
    doubts
}

/// The frequencies a CPU worked at, Hz.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Range {
    low: f64,
    high: f64,
}

impl Range {
    /// Returns the relative difference between the highest and the lowest frequency.
    fn changed(self) -> f64 {
        if self.high > 0.0 { 1.0 - self.low / self.high } else { 0.0 }
    }
}

/// At which frequencies the CPUs of `block` worked during `span`, each that did for two readings at
/// least.
fn frequencies(block: &SampleBlock, span: Span) -> Vec<(&str, Range)> {
    let is_frequency = |read: &SeriesSpec| series::frequency::FREQUENCY.is(read);
    let cpus = block.series.iter().zip(&block.columns).filter(|(series, _)| is_frequency(series));
    let of =
        |series: &SeriesSpec, column: &SampleColumn| range_at_work(block, span, series, column);
    cpus.filter_map(|(series, column)| Some((series.instance.as_str(), of(series, column)?)))
        .collect()
}

/// Returns the range of a CPU's frequency in the intervals of `span` in which it had work.
fn range_at_work(
    block: &SampleBlock,
    span: Span,
    series: &SeriesSpec,
    column: &SampleColumn,
) -> Option<Range> {
    let columns = block.series.iter().zip(&block.columns);
    let of_cpu = columns.filter(|(s, _)| s.instance == series.instance && series::any(&BUSY, s));
    let busy: Vec<&SampleColumn> = of_cpu.map(|(_, column)| column).collect();
    let mut read = Vec::new();
    for k in 1..block.times.len() {
        let (before, at) = (block.times[k - 1], block.times[k]);
        let worked: Option<f64> =
            busy.iter().map(|column| Some(column.get(k)? - column.get(k - 1)?)).sum();
        let at_work = worked.is_some_and(|ns| ns >= AT_WORK * at.since(before).0 as f64);
        if span.from <= before && at <= span.to && at_work {
            read.extend(column.get(k));
        }
    }
    range(read.into_iter())
}

/// From the lowest to the highest of `readings`; `None` of fewer than two.
fn range(readings: impl Iterator<Item = f64>) -> Option<Range> {
    let (mut n, mut range) = (0, Range { low: f64::INFINITY, high: 0.0 });
    for reading in readings {
        n += 1;
        range = Range { low: range.low.min(reading), high: range.high.max(reading) };
    }
    (n > 1).then_some(range)
}

#[cfg(test)]
mod tests {
    use linerate_model::{Nanos, SeriesKind, WrittenSeries};

    use super::super::samples::NANOS;
    use super::*;

    fn series(sampler: &str, name: &str, instance: &str, kind: SeriesKind) -> SeriesSpec {
        let [sampler, name, instance] = [sampler, name, instance].map(str::to_owned);
        WrittenSeries { sampler, name, instance, unit: String::new(), kind }.into()
    }

    /// Host `a`, read once a second.
    fn read(columns: Vec<(SeriesSpec, Vec<f64>)>) -> Vec<(String, SampleBlock)> {
        let n = columns[0].1.len() as u64;
        let block = SampleBlock {
            series: columns.iter().map(|(series, _)| series.clone()).collect(),
            times: (0..n).map(Nanos::from_secs).collect(),
            columns: columns
                .into_iter()
                .map(|(_, column)| column.into_iter().map(Some).collect())
                .collect(),
            ..SampleBlock::default()
        };
        vec![("a".into(), block)]
    }

    fn seconds(from: u64, to: u64) -> Span {
        Span { from: Nanos::from_secs(from), to: Nanos::from_secs(to) }
    }

    #[test]
    fn pages_swapped_while_measured_are_told_and_others_are_not() {
        let swapping = |pages: [f64; 5]| {
            read(vec![(series("swap", "pages_out", "", SeriesKind::Counter), pages.to_vec())])
        };
        assert_eq!(doubts(&swapping([9.0; 5]), seconds(1, 3)), []);
        assert_eq!(
            doubts(&swapping([0.0, 9.0, 9.0, 9.0, 50.0]), seconds(1, 3)),
            [],
            "before and after"
        );
        let told = doubts(&swapping([0.0, 0.0, 6.0, 7.0, 7.0]), seconds(1, 3));
        assert_eq!(told, [Reason::Swapped { host: "a".into(), pages: 7.0 }]);
    }

    /// Returns a CPU at these frequencies, GHz, that worked for these shares of the seconds before
    /// each reading.
    fn clocked(gigahertz: [f64; 5], busy: [f64; 5]) -> Vec<(String, SampleBlock)> {
        let mut ns = 0.0;
        let worked = busy.map(|share| {
            ns += share * NANOS;
            ns
        });
        read(vec![
            (
                series("frequency", "frequency", "cpu1", SeriesKind::Gauge),
                gigahertz.map(|f| f * 1e9).to_vec(),
            ),
            (series("cpu", "system", "cpu1", SeriesKind::Counter), worked.to_vec()),
        ])
    }

    #[test]
    fn a_cpu_that_slows_down_at_work_is_told_and_one_that_rests_is_not() {
        let all = seconds(0, 4);
        assert_eq!(doubts(&clocked([3.0, 3.0, 2.9, 3.0, 3.0], [1.0; 5]), all), [], "jitter");
        assert_eq!(
            doubts(&clocked([3.0, 3.0, 1.2, 1.2, 3.0], [1.0, 1.0, 0.1, 0.2, 1.0]), all),
            [],
            "at rest"
        );
        let told = doubts(&clocked([1.2, 3.0, 3.0, 2.4, 2.4], [1.0; 5]), all);
        let (host, cpu) = ("a".to_owned(), "cpu1".to_owned());
        assert_eq!(told, [Reason::Frequency { host, cpu, low_hz: 2.4e9, high_hz: 3e9 }]);
        assert_eq!(
            doubts(&clocked([3.0, 3.0, 3.0, 2.4, 2.4], [1.0; 5]), seconds(0, 2)),
            [],
            "after it"
        );
    }

    #[test]
    fn without_readings_nothing_is_said() {
        let only = read(vec![(
            series("frequency", "frequency", "cpu1", SeriesKind::Gauge),
            vec![3e9, 1e9, 3e9],
        )]);
        assert_eq!(doubts(&only, seconds(0, 2)), [], "its effect is not known");
    }
}
