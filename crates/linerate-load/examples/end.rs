//! One end of a workload, for benchmarks: runs it and prints one line of JSON. It counts only
//! intervals that ended within the load, because data that arrives during the drain would inflate
//! the rate. See `shared/mod.rs` for arguments; `serve=FILE` or `to=FILE` selects the end.

mod shared;

use linerate_load::engine::EngineReport;
use linerate_model::{Counter, Distribution, Nanos};
use serde_json::{Value, json};

fn main() {
    let outcome = shared::run_from_arguments();
    for report in [&outcome.active, &outcome.passive].into_iter().flatten() {
        println!("{}", line(report, outcome.seconds));
    }
}

fn line(report: &EngineReport, seconds: f64) -> Value {
    /// An interval is cut a little after its tick. The last one of the load still belongs to it.
    const LATENESS: Nanos = Nanos::from_millis(20);
    let end = Nanos::from_secs_f64(seconds) + LATENESS;
    let within = || report.intervals.iter().filter(|interval| interval.end <= end);
    let sum = |counter: Counter| within().map(|interval| interval.counters[counter]).sum::<u64>();
    let whole = |counter: Counter| {
        report.intervals.iter().map(|interval| interval.counters[counter]).sum::<u64>()
    };
    let mut service = Distribution::default();
    within().for_each(|interval| service.merge(&interval.service));
    let percentile = |quantile| service.percentile(quantile).flatten();
    json!({
        "seconds": seconds,
        "bytes_received": sum(Counter::PayloadReceived),
        "bytes_sent": sum(Counter::PayloadSent),
        "datagrams_received": sum(Counter::DatagramsReceived),
        "datagrams_received_in_all": whole(Counter::DatagramsReceived),
        "datagrams_sent_in_all": whole(Counter::DatagramsSent),
        "transactions": sum(Counter::Transactions),
        "reads": sum(Counter::Reads),
        "writes": sum(Counter::Writes),
        "span_ns": within().map(|interval| interval.end.0).max(),
        "steady": steady(report, Nanos::from_secs_f64(seconds)),
        "p50_ns": percentile(0.5),
        "p99_ns": percentile(0.99),
        "modes": report.flows.first().map(|flow| &flow.modes),
        "incidents": report.incidents.iter().map(|incident| &incident.message).collect::<Vec<_>>(),
    })
}

/// Counts between the first and the last cut before `load_until`, and the time between these: start
/// and end of the load are not in it. It is of one worker: several cut their intervals apart.
fn steady(report: &EngineReport, load_until: Nanos) -> Value {
    let whole: Vec<_> =
        report.intervals.iter().filter(|interval| interval.end <= load_until).collect();
    let [first, rest @ ..] = &whole[..] else { return Value::Null };
    let Some(last) = rest.last() else { return Value::Null };
    let count = |counter: Counter| {
        let n = rest.iter().map(|interval| interval.counters[counter]).sum::<u64>();
        (n > 0).then(|| (counter.name().to_owned(), json!(n)))
    };
    let mut counts: serde_json::Map<_, _> =
        Counter::ALL.iter().copied().filter_map(count).collect();
    counts.insert("span_ns".to_owned(), json!((last.end - first.end).0));
    Value::Object(counts)
}
