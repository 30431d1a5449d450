//! SampleColumn of the samplers, by host: rates over a span.
//!
//! A counter's value is interpolated linearly between two readings. A rate is returned only if the
//! readings cover at least half of the span; a series that could not be read gives none, never
//! zero.

use std::collections::{BTreeMap, BTreeSet};

use linerate_model::{
    Campaign, SampleBlock, SampleColumn, SamplerName, Series, SeriesKind, SeriesSpec, TrialRecord,
    series,
};
use serde_json::Value;

use super::span::Span;

/// Least fraction of a span that readings must cover.
const LEAST_COVERED: f64 = 0.5;
/// Nanoseconds in a second.
pub(super) const NANOS: f64 = 1e9;
/// The loopback interface: it carries no frames.
pub(super) const LOOPBACK: &str = "lo";

/// The readings of one host in one trial.
pub(super) struct Samples<'a>(Vec<&'a SampleBlock>);

impl<'a> Samples<'a> {
    /// Returns the readings of `host`.
    pub(super) fn of(trial: &'a TrialRecord, host: &str) -> Self {
        Self(
            trial.samples.iter().filter(|(name, _)| name == host).map(|(_, block)| block).collect(),
        )
    }

    /// Returns the readings of one block.
    pub(super) fn of_one(block: &'a SampleBlock) -> Self {
        Self(vec![block])
    }

    /// Returns the growth per second of the counters `wanted` selects, all added; `None` if none
    /// was read well enough.
    pub(super) fn rate(&self, span: Span, wanted: impl Fn(&SeriesSpec) -> bool) -> Option<f64> {
        let mut sum = None;
        for block in &self.0 {
            for (series, column) in block.series.iter().zip(&block.columns) {
                if series.kind() == SeriesKind::Counter && wanted(series) {
                    let rate = growth(block, column, span);
                    sum = rate.map(|rate| sum.unwrap_or(0.0) + rate).or(sum);
                }
            }
        }
        sum
    }

    /// Returns the number of series that `wanted` selects.
    pub(super) fn n_series(&self, wanted: impl Fn(&SeriesSpec) -> bool) -> usize {
        self.0.iter().flat_map(|block| block.series.iter()).filter(|series| wanted(series)).count()
    }

    /// Returns the things that `sampler` reads, each once.
    pub(super) fn instances(&self, sampler: SamplerName) -> BTreeSet<&'a str> {
        let series = self
            .0
            .iter()
            .flat_map(|block| block.series.iter())
            .filter(|series| series.is_of(sampler));
        series.map(|series| series.instance.as_str()).collect()
    }

    /// Returns the growth during `span` of the counters `wanted` selects, all added.
    pub(super) fn change(&self, span: Span, wanted: impl Fn(&SeriesSpec) -> bool) -> Option<f64> {
        self.rate(span, wanted).map(|rate| rate * span.seconds())
    }

    /// Returns the largest growth during `span` of any one counter that `wanted` selects.
    pub(super) fn largest_change(
        &self,
        span: Span,
        wanted: impl Fn(&SeriesSpec) -> bool,
    ) -> Option<f64> {
        let changes = self.0.iter().flat_map(|block| {
            let columns = block.series.iter().zip(&block.columns);
            let picked = columns
                .filter(|(series, _)| series.kind() == SeriesKind::Counter && wanted(series));
            picked.filter_map(|(_, column)| growth(block, column, span)).collect::<Vec<_>>()
        });
        changes.max_by(f64::total_cmp).map(|rate| rate * span.seconds())
    }

    /// Returns the number of devices that sampler `interface` reads besides the loopback.
    pub(super) fn n_devices(&self) -> usize {
        let series = self.0.iter().flat_map(|block| block.series.iter());
        let devices =
            series.filter(|s| s.is_of(series::interface::SAMPLER) && s.instance != LOOPBACK);
        devices.map(|series| series.instance.as_str()).collect::<BTreeSet<&str>>().len()
    }

    /// Returns the growth per second of `column` for `instance`.
    pub(super) fn of_instance(&self, span: Span, column: Series, instance: &str) -> Option<f64> {
        self.rate(span, |read| column.is(read) && read.instance == instance)
    }

    /// Returns the span from the first to the last reading within `span`, or `span` where those
    /// cover too little of it. A counter that does not grow outside a short load would be too low
    /// if it were interpolated to the ends of the load.
    pub(super) fn steady(&self, span: Span) -> Span {
        let times = || self.0.iter().flat_map(|block| &block.times);
        let within = || times().filter(|at| span.from <= **at && **at <= span.to);
        let inner =
            within().min().zip(within().max()).map(|(from, to)| Span { from: *from, to: *to });
        let covers = |inner: &Span| inner.seconds() >= LEAST_COVERED * span.seconds();
        inner.filter(covers).unwrap_or(span)
    }

    /// Returns the mean of the gauge `column` over the readings within `span`: of the things
    /// `wanted` selects the one with the largest.
    pub(super) fn mean_of(
        &self,
        span: Span,
        column: Series,
        wanted: impl Fn(&str) -> bool,
    ) -> Option<f64> {
        let means = self.0.iter().flat_map(|block| {
            let columns = block.series.iter().zip(&block.columns);
            let picked = columns.filter(|(s, _)| column.is(s) && wanted(&s.instance));
            picked.filter_map(|(_, column)| {
                let within = block
                    .times
                    .iter()
                    .zip(column.iter())
                    .filter(|(at, _)| span.from <= **at && **at <= span.to);
                crate::statistics::mean(&within.filter_map(|(_, value)| value).collect::<Vec<_>>())
            })
        });
        means.max_by(f64::total_cmp)
    }

    /// From the first to the last reading.
    pub(super) fn extent(&self) -> Option<Span> {
        let times = || self.0.iter().flat_map(|block| &block.times);
        Some(Span { from: *times().min()?, to: *times().max()? })
    }
}

fn growth(block: &SampleBlock, column: &SampleColumn, span: Span) -> Option<f64> {
    let read: Vec<(f64, f64)> = block
        .times
        .iter()
        .zip(column.iter())
        .filter_map(|(at, value)| value.map(|value| (at.0 as f64, value)))
        .collect();
    let (first, last) = (read.first()?.0, read.last()?.0);
    let (from, to) = ((span.from.0 as f64).max(first), (span.to.0 as f64).min(last));
    if to <= from || (to - from) < LEAST_COVERED * span.seconds() * NANOS {
        return None;
    }
    let change = value_at(&read, to) - value_at(&read, from);
    (change >= 0.0).then(|| change * NANOS / (to - from))
}

/// Returns the value at `at`, which lies within the readings.
fn value_at(read: &[(f64, f64)], at: f64) -> f64 {
    let after = read.partition_point(|(time, _)| *time < at).min(read.len() - 1);
    let (later, above) = read[after];
    let (earlier, below) = read[after.saturating_sub(1)];
    if later > earlier {
        below + (above - below) * (at - earlier) / (later - earlier)
    } else {
        above
    }
}

/// Known facts of the hosts of a campaign.
pub(super) struct Hosts<'a>(BTreeMap<&'a str, &'a Value>);

impl<'a> Hosts<'a> {
    /// Returns the hosts of `campaign`.
    pub(super) fn of(campaign: &'a Campaign) -> Self {
        Self(campaign.hosts.iter().map(|record| (record.host.as_str(), &record.facts)).collect())
    }

    /// Returns a fact of `host` by its dotted path; `None` if unknown or unavailable.
    pub(super) fn fact(&self, host: &str, path: &str) -> Option<&'a Value> {
        let found = path.split('.').try_fold(*self.0.get(host)?, |tree, name| tree.get(name))?;
        (!found.is_null() && found.get("unavailable").is_none()).then_some(found)
    }

    /// Returns a fact of one interface of `host`.
    pub(super) fn interface_fact(&self, host: &str, device: &str, name: &str) -> Option<&'a Value> {
        let found = self.fact(host, "interfaces")?.get(device)?.get(name)?;
        (!found.is_null() && found.get("unavailable").is_none()).then_some(found)
    }

    /// Returns an identifier of the kernel of `host`: its boot id, or the host's own name where
    /// that is not known.
    pub(super) fn kernel(&self, host: &str) -> String {
        let boot = self.fact(host, "kernel.boot_id").and_then(Value::as_str);
        boot.map_or_else(|| format!("host {host}"), str::to_owned)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_model::Nanos;

    fn block(times: &[u64], values: &[Option<f64>]) -> SampleBlock {
        SampleBlock {
            series: [series::cpu::USER.of("cpu0")].into(),
            times: times.iter().map(|second| Nanos(second * 1_000_000_000)).collect(),
            columns: vec![values.to_vec().into()],
            ..SampleBlock::default()
        }
    }

    fn seconds(from: u64, to: u64) -> Span {
        Span { from: Nanos::from_secs(from), to: Nanos::from_secs(to) }
    }

    #[test]
    fn a_steady_rate_is_of_the_readings_within_a_load_that_begins_and_ends_between_two() {
        // 100 a second from 1.5 s to 5.5 s, read every second.
        let values = [0.0, 0.0, 50.0, 150.0, 250.0, 350.0, 400.0, 400.0];
        let values: Vec<Option<f64>> = values.into_iter().map(Some).collect();
        let block = block(&[0, 1, 2, 3, 4, 5, 6, 7], &values);
        let samples = Samples(vec![&block]);
        let half = |second: u64| Nanos(second * 1_000_000_000 + 500_000_000);
        let load = Span { from: half(1), to: half(5) };
        let rate = |load| samples.of_instance(samples.steady(load), series::cpu::USER, "cpu0");
        assert_eq!(rate(load), Some(100.0));
        assert_eq!(samples.of_instance(load, series::cpu::USER, "cpu0"), Some(87.5));
        // Two readings do not cover half of a load; its ends are interpolated.
        let short = Span { from: half(1), to: half(2) };
        assert_eq!(rate(short), Some(75.0));
    }

    #[test]
    fn rates_are_interpolated_and_gaps_are_bridged_but_not_invented() {
        let user = |block: &SampleBlock, span| {
            Samples(vec![block]).rate(span, |read| series::cpu::USER.is(read))
        };
        let whole = block(&[0, 2, 4], &[Some(0.0), None, Some(400.0)]);
        assert_eq!(user(&whole, seconds(1, 3)), Some(100.0));
        assert_eq!(user(&whole, seconds(0, 20)), None);
        let none = block(&[0, 2, 4], &[None, None, Some(1.0)]);
        assert_eq!(user(&none, seconds(0, 4)), None);
    }
}
