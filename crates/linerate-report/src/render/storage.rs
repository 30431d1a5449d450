//! Storage jobs of a study for the formats of other tools: figures by direction, and statistics of
//! a distribution.

use linerate_analysis::TransferCounts;
use linerate_model::{Distribution, Metric, metric};
use serde_json::Value;

/// Storage job at one point.
pub(super) struct StorageJob<'a> {
    point: &'a Value,
    job: &'a Value,
    /// Times of single transfers, reads and writes together, nanoseconds.
    pub(super) service: Distribution,
    /// Those of reads alone, and of writes.
    pub(super) reads: Distribution,
    pub(super) writes: Distribution,
    /// Times of flushes, of discards, and of transactions with their replies.
    pub(super) flushes: Distribution,
    pub(super) trims: Distribution,
    pub(super) exchanges: Distribution,
    /// Counts of each worker in each run.
    pub(super) counts: Vec<TransferCounts>,
}

/// Defaults of the workload that other tools' formats write out.
pub(super) const DEPTH: &str = "32";
pub(super) const TARGET: &str = "/var/tmp";
/// The workload.
const STORAGE: &str = "storage";

/// Every storage job of `study`, point by point.
pub(super) fn jobs(study: &Value) -> Vec<StorageJob<'_>> {
    let points = study["points"].as_array().into_iter().flatten();
    let jobs = points.flat_map(|point| {
        point["jobs"].as_array().into_iter().flatten().map(move |job| (point, job))
    });
    // The formats of fio and Iometer have no other kind of job.
    jobs.filter(|(_, job)| job["workload"] == STORAGE)
        .map(|(point, job)| {
            // A ledger of before has none apart.
            let of = |name: &str| {
                serde_json::from_value(job["distributions"][name].clone()).unwrap_or_default()
            };
            StorageJob {
                point,
                job,
                service: of("service"),
                reads: of("reads"),
                writes: of("writes"),
                flushes: of("flushes"),
                trims: of("trims"),
                exchanges: of("response"),
                counts: serde_json::from_value(job["transfers"].clone()).unwrap_or_default(),
            }
        })
        .collect()
}

impl StorageJob<'_> {
    /// The estimate of `metric`, of reads (`rx`), of writes (`tx`) or of both (`sum`); 0 where
    /// there is none, as fio has it.
    pub(super) fn figure(&self, metric: &Metric, direction: &str) -> f64 {
        self.known(metric, direction).unwrap_or(0.0)
    }

    /// The same; `None` where there is none.
    pub(super) fn known(&self, metric: &Metric, direction: &str) -> Option<f64> {
        let metrics = &self.job["metrics"];
        let by_direction = &metrics[format!("{metric}_{direction}")];
        let plain = &metrics[metric.name];
        let found = if by_direction.is_object() {
            by_direction
        // A metric with one direction is stored without it in its name.
        } else if plain["direction"] == direction {
            plain
        } else {
            &Value::Null
        };
        found["estimate"].as_f64()
    }

    /// The workers that were counted.
    pub(super) fn workers(&self) -> Vec<u32> {
        let mut workers: Vec<u32> = self.counts.iter().map(|one| one.worker).collect();
        workers.sort_unstable();
        // Each worker has a count per run.
        workers.dedup();
        workers
    }

    /// Returns the counts of `worker`, or of all workers, over all runs. Seconds are those of the
    /// runs: workers run in parallel.
    pub(super) fn counted(&self, worker: Option<u32>) -> TransferCounts {
        let n_workers = if worker.is_some() { 1 } else { self.workers().len().max(1) };
        let mut sum = TransferCounts::default();
        for one in self.counts.iter().filter(|one| worker.is_none_or(|worker| one.worker == worker))
        {
            // Workers of a run measure at the same time, so their seconds do not add up.
            sum.seconds += one.seconds / n_workers as f64;
            sum.reads += one.reads;
            sum.writes += one.writes;
            sum.bytes_read += one.bytes_read;
            sum.bytes_written += one.bytes_written;
            sum.read_errors += one.read_errors;
            sum.write_errors += one.write_errors;
            sum.exchanges += one.exchanges;
            sum.flushes += one.flushes;
            sum.trims += one.trims;
            sum.bytes_trimmed += one.bytes_trimmed;
            sum.timed += one.timed;
            sum.read_ns += one.read_ns;
            sum.write_ns += one.write_ns;
            // The longest of all runs; a sum of maxima has no meaning.
            sum.read_max_ns = sum.read_max_ns.max(one.read_max_ns);
            sum.write_max_ns = sum.write_max_ns.max(one.write_max_ns);
        }
        sum
    }

    /// The figures of the single runs behind it.
    pub(super) fn runs(&self, metric: &Metric, direction: &str) -> Vec<f64> {
        let metrics = &self.job["metrics"];
        let by_direction = &metrics[format!("{metric}_{direction}")];
        let plain = &metrics[metric.name];
        let found = if by_direction.is_object() { by_direction } else { plain };
        if found["direction"] != direction {
            return Vec::new();
        }
        found["values"].as_array().into_iter().flatten().filter_map(Value::as_f64).collect()
    }

    /// Times of reads (`rx`), of writes (`tx`) or of both (`sum`). Of a load of one kind they are
    /// those of both.
    pub(super) fn times(&self, direction: &str) -> Distribution {
        let (apart, other) = match direction {
            "rx" => (&self.reads, "tx"),
            "tx" => (&self.writes, "rx"),
            "sum" => return self.service.clone(),
            _ => return Distribution::default(),
        };
        // A load of one kind keeps its times once.
        let is_only =
            self.figure(metric::IOPS, direction) > 0.0 && self.figure(metric::IOPS, other) == 0.0;
        if apart.is_empty() && is_only { self.service.clone() } else { apart.clone() }
    }

    /// A parameter as the plan or its axis has it, without quotes; empty where it has its default.
    pub(super) fn parameter(&self, name: &str) -> String {
        let told = &self.job["params"][name];
        // Numbers and texts stand without quotes in other formats.
        told.as_str().map_or_else(
            || if told.is_null() { String::new() } else { told.to_string() },
            str::to_owned,
        )
    }

    /// A parameter, or `default` where it has its default.
    pub(super) fn parameter_or(&self, name: &str, default: &str) -> String {
        Some(self.parameter(name))
            .filter(|text| !text.is_empty())
            .unwrap_or_else(|| default.to_owned())
    }

    /// Returns the obtained value of `name`, such as the engine.
    pub(super) fn obtained(&self, name: &str) -> String {
        self.job["obtained"][name].as_str().unwrap_or_default().to_owned()
    }

    /// Its sweep, and where in it.
    pub(super) fn name(&self) -> String {
        let sweep = self.point["sweep"].as_str().unwrap_or_default();
        let place = self.point["parameters"].as_object().into_iter().flatten();
        let place = place.map(|(axis, value)| {
            let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            format!("{} {value}", axis.trim_start_matches("params."))
        });
        [sweep.to_owned()].into_iter().chain(place).collect::<Vec<_>>().join(", ")
    }

    /// Seconds measured, all trials added.
    pub(super) fn seconds(&self) -> f64 {
        let trials = self.point["trials"].as_array().into_iter().flatten();
        trials
            .filter_map(|trial| {
                let end = trial["intervals"]["seconds"].as_array()?.last()?.as_f64()?;
                // A trial that ended early may end before its measurement began.
                Some((end - trial["measured_from"].as_f64()?).max(0.0))
            })
            .sum()
    }
}

/// Transfers at or above `low` and below `high`, nanoseconds.
pub(super) fn between(times: &Distribution, low: u64, high: u64) -> u64 {
    times.buckets.iter().filter(|(ns, _)| (low..high).contains(ns)).map(|(_, n)| n).sum()
}

/// How many there are.
pub(super) fn count(times: &Distribution) -> u64 {
    times.buckets.iter().map(|(_, n)| n).sum()
}

/// Mean and standard deviation, nanoseconds; 0 without any.
pub(super) fn moments(times: &Distribution) -> (f64, f64) {
    // No transfers give zero and not NaN.
    let n = count(times).max(1) as f64;
    let mean = times.buckets.iter().map(|(ns, count)| *ns as f64 * *count as f64).sum::<f64>() / n;
    let variance = times
        .buckets
        .iter()
        .map(|(ns, count)| (*ns as f64 - mean).powi(2) * *count as f64)
        .sum::<f64>()
        / n;
    (mean, variance.sqrt())
}

/// The smallest time that the share `quantile` of transfers does not exceed, nanoseconds.
pub(super) fn quantile(times: &Distribution, quantile: f64) -> u64 {
    let wanted = (quantile * count(times) as f64).ceil().max(1.0) as u64;
    // Buckets are in ascending order.
    let mut passed = 0;
    let found = times.buckets.iter().find(|(_, n)| {
        passed += n;
        passed >= wanted
    });
    // Rounding may ask for one more than there are.
    found.or(times.buckets.last()).map_or(0, |(ns, _)| *ns)
}
