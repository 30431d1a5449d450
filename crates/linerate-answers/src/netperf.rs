//! Answers of `linerate serve netperf`: lines and JSON.

use linerate_model::metric;
use linerate_netperf::serve::{Refusal, Served, TestRecord};
use linerate_netperf::wire::{Request, Results, direction, flag};
use serde_json::{Value, json};

use crate::figures::quantity;

const BITS_PER_BYTE: f64 = 8.0;

/// Returns the line of an event.
#[must_use]
pub fn served(event: &Served) -> String {
    match event {
        Served::Listening(at) => format!(
            "serving netperf clients at {at}; for example: netperf -H THIS-HOST -p {}",
            at.port()
        ),
        Served::Refused(client, why) => format!("{client}: refused: {}", refusal(*why)),
        Served::Ended(record) => test_line(record),
    }
}

fn refusal(why: Refusal) -> &'static str {
    match why {
        Refusal::NotPermitted => "not in --allow",
        Refusal::Quota => "as many tests of this host run as --per-client allows",
        Refusal::Full => "the server has no room for another test",
    }
}

/// Returns the name of the test, as netperf has it.
fn name(request: &Request) -> String {
    let protocol = if request.is_udp { "UDP" } else { "TCP" };
    let kind = match (request.is_exchange(), request.direction & direction::SENDS != 0) {
        (true, _) if request.flags & flag::CONNECTIONS != 0 => "CRR",
        (true, _) => "RR",
        (false, true) => "MAERTS",
        (false, false) => "STREAM",
    };
    format!("{protocol}_{kind}")
}

/// Returns the bits per second of one direction: sent (0) or received (1) by this end.
fn rate(results: &Results, way: usize) -> f64 {
    results.bytes[way] as f64 * BITS_PER_BYTE / f64::from(results.seconds).max(1e-9)
}

fn transactions_per_second(results: &Results) -> f64 {
    f64::from(results.transactions) / f64::from(results.seconds).max(1e-9)
}

fn test_line(record: &TestRecord) -> String {
    let TestRecord { client, request, results } = record;
    let head = format!("{client}: {}", name(request));
    let results = match results {
        Ok(results) => results,
        Err(number) => {
            return format!("{head}: refused: {}", std::io::Error::from_raw_os_error(*number));
        }
    };
    let seconds = results.seconds;
    if request.is_exchange() {
        let rate = transactions_per_second(results);
        return format!("{head}: {rate:.0} transactions/s in {seconds:.1} s");
    }
    let is_sending = request.direction & direction::SENDS != 0;
    let (way, word) = if is_sending { (0, "sent") } else { (1, "received") };
    let goodput = quantity(metric::GOODPUT, rate(results, way));
    let retransmits = match results.retransmits {
        n if is_sending && n >= 0 => format!(" · retrans {n}"),
        _ => String::new(),
    };
    format!("{head}: {goodput} {word} in {seconds:.1} s{retransmits}")
}

/// Returns the JSON of a test.
#[must_use]
pub fn test_json(record: &TestRecord) -> Value {
    let mut document = json!({
        "client": record.client.to_string(),
        "test": name(&record.request),
    });
    match &record.results {
        Err(number) => {
            document["error"] = std::io::Error::from_raw_os_error(*number).to_string().into();
        }
        Ok(results) => {
            document["seconds"] = results.seconds.into();
            document["bytes_sent"] = results.bytes[0].into();
            document["bytes_received"] = results.bytes[1].into();
            document["transactions"] = results.transactions.into();
            let known = Some(results.retransmits).filter(|n| *n >= 0);
            document[metric::RETRANSMITS.name] = known.into();
        }
    }
    document
}
