//! Figures that are computed from one reading by a shared formula: each has the reading that its
//! row of the metrics' table names.

use linerate_analysis::IntervalSeries;
use linerate_model::Direction::Sum;
use linerate_model::{Counter, Metric, TrialRecord, metric};

use crate::fixture::{datagrams, delivered, job, judged, near, samples, steady, trial, value};

/// Seconds of a measurement.
const MEASURED: f64 = 4.0;
/// Datagrams that are sent in a second.
const PACKETS: f64 = 2_000.0;

#[test]
fn figures_of_hosts_are_those_of_their_series_added_over_the_hosts() {
    let rows: [(&Metric, &str, &str, f64, f64); 9] = [
        (metric::SOFTNET_DROPPED, "softnet", "dropped", 2.0, MEASURED),
        (metric::SOFTNET_SQUEEZED, "softnet", "squeezed", 3.0, MEASURED),
        (metric::INTERRUPTS, "interrupts", "total", 500.0, 1.0),
        (metric::CONTEXT_SWITCHES, "context_switches", "switches", 700.0, 1.0),
        (metric::INSTRUCTIONS_PER_PACKET, "perf_hardware", "instructions", 1e6, 1.0 / PACKETS),
        (metric::CACHE_MISSES_PER_PACKET, "perf_hardware", "cache_misses", 9e3, 1.0 / PACKETS),
        (metric::L1_MISSES_PER_PACKET, "perf_hardware", "l1_data_misses", 8e4, 1.0 / PACKETS),
        (metric::CONTROLLER_RECEIVED, "ncsi", "pass_through_received", 11.0, MEASURED),
        (metric::CONTROLLER_DROPPED, "ncsi", "pass_through_dropped", 13.0, MEASURED),
    ];
    let read = rows.map(|(_, sampler, name, per_second, _)| (sampler, name, "", per_second));
    let mut trial = datagrams(2_000, 2_000, 10_000);
    trial.samples = vec![("left".into(), samples(&read)), ("right".into(), samples(&read))];
    let point = judged(trial);
    for (metric, _, _, per_second, factor) in rows {
        near(value(&point, 0, metric, Sum), 2.0 * per_second * factor);
    }
}

/// A load of 60 intervals of 100 ms, each with ten of `counter` at the active end.
fn counted(counter: Counter) -> TrialRecord {
    let mut counted = delivered(&[0; 60]);
    counted.spec.jobs = vec![job("tcp_rr", "a", "b")];
    let (active, passive) = &mut counted.jobs[0];
    active.intervals.clone_from(&passive.intervals);
    active.intervals.iter_mut().for_each(|interval| interval.counters[counter] = 10);
    counted
}

#[test]
fn rates_of_operations_have_the_course_of_their_counter() {
    for (metric, counter) in [
        (metric::TRANSACTION_RATE, Counter::Transactions),
        (metric::CONNECTION_RATE, Counter::Connections),
    ] {
        let point = &judged(counted(counter));
        let figure = point.jobs[0].metric(metric, Sum).expect("a rate");
        let settled = figure.settled.as_ref().expect("the trial is long enough");
        assert!(settled.has_single_number, "{metric}: {settled:?}");
        let series = &point.trials[0].series[&IntervalSeries::Of(metric)];
        near(series[2], 100.0);
    }
}

#[test]
fn exchanges_of_a_disk_are_counted_per_second() {
    let mut disk = trial(0, vec![job("storage", "a", "b")]);
    let counts = [(Counter::Steps, 30), (Counter::Reads, 30), (Counter::Exchanges, 20)];
    disk.jobs[0] = (steady(&counts), steady(&[]));
    let point = judged(disk);
    near(value(&point, 0, metric::EXCHANGE_RATE, Sum), 20.0);
}
