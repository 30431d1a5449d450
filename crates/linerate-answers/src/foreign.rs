//! Answers of `linerate to iperf3://HOST` and `linerate serve iperf3`: lines, results and JSON.
//!
//! What the foreign end does not report is a gap: `-` in a line, `null` in JSON, and named below
//! the result.

use linerate_iperf3::drive::{Line, Outcome, Way, WayOutcome};
use linerate_iperf3::serve::{Served, StreamRecord, TestRecord};
use linerate_iperf3::session::Ending;
use linerate_iperf3::wire::{Parameters, Protocol};
use linerate_model::metric;
use serde_json::{Value, json};

use crate::figures::quantity;

const BITS_PER_BYTE: f64 = 8.0;
/// Mark of a figure that nobody reported.
const GAP: &str = "-";

/// Returns the header of the lines of a measurement.
#[must_use]
pub fn heading(is_udp: bool, is_both: bool) -> String {
    let rates: &[&str] = if is_both { &["from here", "to here"] } else { &[metric::GOODPUT.name] };
    let rest = match is_udp {
        true => ["datagrams", metric::LOST.name, "cpu a | b"],
        false => ["retrans", metric::RTT.name, "cpu a | b"],
    };
    let mut text = format!("{:>13}", "seconds");
    rates.iter().for_each(|head| text += &format!("{head:>16}"));
    rest.iter().for_each(|head| text += &format!("{head:>12}"));
    text + "\n"
}

/// Returns a line of a measurement.
#[must_use]
pub fn line(line: &Line, is_udp: bool) -> String {
    let span = line.until.saturating_sub(line.from).as_secs_f64();
    let seconds = format!("{:>5.1} - {:<5.1}", line.from.as_secs_f64(), line.until.as_secs_f64());
    let mut text = format!("{seconds:>13}");
    let ways: Vec<&Way> = line.ways.iter().flatten().collect();
    for way in &ways {
        let bits = way.bytes as f64 * BITS_PER_BYTE / span.max(1e-9);
        text += &format!("{:>16}", quantity(metric::GOODPUT, bits));
    }
    let sum = |of| known_sum(&ways, of).map(|sum| sum.to_string());
    let gap = |text: Option<String>| text.unwrap_or_else(|| GAP.to_owned());
    if is_udp {
        let datagrams = sum(|way| Some(way.datagrams));
        text += &format!("{:>12}{:>12}", gap(datagrams), gap(sum(|way| way.lost)));
    } else {
        let rtt = ways.iter().find_map(|way| way.rtt);
        let rtt = rtt.map(|rtt| format!("{} µs", rtt.as_micros()));
        text += &format!("{:>12}{:>12}", gap(sum(|way| way.retransmits)), gap(rtt));
    }
    // The other end reports its CPU at the end only.
    text += &format!("{:>12}", format!("{:.0} | {GAP} %", line.cpu));
    if line.is_omitted {
        text += "  (warm-up: not in the result)";
    }
    text + "\n"
}

/// Returns the sum over the directions whose count is known; `None` if no count is.
fn known_sum(ways: &[&Way], of: fn(&Way) -> Option<u64>) -> Option<u64> {
    let known = ways.iter().filter_map(|way| of(way));
    known.reduce(|sum, more| sum + more)
}

fn way_json(way: &Way) -> Value {
    json!({
        "bytes": way.bytes,
        metric::RETRANSMITS.name: way.retransmits,
        "rtt_s": way.rtt.map(|rtt| rtt.as_secs_f64()),
        "datagrams": way.datagrams,
        metric::LOST.name: way.lost,
    })
}

/// Returns a line as JSON.
#[must_use]
pub fn line_json(line: &Line) -> Value {
    json!({
        "from_s": line.from.as_secs_f64(),
        "until_s": line.until.as_secs_f64(),
        "warm_up": line.is_omitted,
        "from_here": line.ways[0].as_ref().map(way_json),
        "to_here": line.ways[1].as_ref().map(way_json),
        "cpu_here_percent": line.cpu,
        "cpu_there_percent": Value::Null,
    })
}

/// Directions of a result, with their words.
const WAYS: [&str; 2] = ["from here", "to here"];

/// Returns the figures that the foreign end does not report.
fn gaps(is_udp: bool, outcome: &Outcome) -> Vec<&'static str> {
    let [forward, backward] = &outcome.ways;
    let mut gaps = Vec::new();
    if forward.is_some() && is_udp {
        gaps.push("when datagrams from here were lost, and which were repeated or reordered");
    }
    if backward.as_ref().is_some_and(|way| !is_udp && way.retransmits.is_none()) {
        gaps.push("retransmissions of the other end");
    }
    gaps.push("device counters, settings and CPU of its host over time");
    gaps
}

/// Returns the result of a measurement.
#[must_use]
pub fn result(protocol: Protocol, outcome: &Outcome) -> String {
    let is_udp = protocol == Protocol::Udp;
    let word = if is_udp { "UDP" } else { "TCP" };
    let mut text = String::new();
    for (way, direction) in outcome.ways.iter().zip(WAYS) {
        let Some(way) = way else { continue };
        text += &format!("{word} {direction}: {}", quantity(metric::GOODPUT, way.goodput()));
        if is_udp {
            text += &loss(way);
            if let Some(jitter) = way.jitter {
                text += &format!(" · jitter {:.0} µs", jitter * 1e6);
            }
        } else {
            let again = way.retransmits.map_or_else(|| GAP.to_owned(), |n| n.to_string());
            text += &format!(" · retrans {again}");
        }
        text.push('\n');
    }
    text += &format!(
        "cpu: this end {:.0} %, the other {:.0} % of one CPU (its own figure)\n",
        outcome.cpu_here, outcome.cpu_there
    );
    text += &format!("not known of the other end: {}\n", gaps(is_udp, outcome).join("; "));
    if let Some(output) = &outcome.output {
        text += &format!("text of the server:\n{output}\n");
    }
    text
}

fn loss(way: &WayOutcome) -> String {
    let (Some(lost), Some(sent)) = (way.lost, way.datagrams) else {
        return format!(" · lost {GAP}");
    };
    let percent = 100.0 * lost as f64 / sent.max(1) as f64;
    format!(" · lost {lost} of {sent} datagrams ({percent:.2} %)")
}

fn outcome_json(way: &WayOutcome) -> Value {
    json!({
        "goodput_bits_per_second": way.goodput(),
        "bytes": way.bytes,
        "seconds": way.seconds,
        "sent_bytes": way.sent_bytes,
        metric::RETRANSMITS.name: way.retransmits,
        "datagrams": way.datagrams,
        metric::LOST.name: way.lost,
        "jitter_s": way.jitter,
    })
}

/// Returns a whole measurement as JSON.
#[must_use]
pub fn document(server: &str, asked: &Parameters, outcome: &Outcome, lines: &[Line]) -> Value {
    let is_udp = asked.protocol == Protocol::Udp;
    json!({
        "schema": 1,
        "command": "to",
        "server": server,
        "protocol": if is_udp { "udp" } else { "tcp" },
        "parameters": asked.json(),
        "from_here": outcome.ways[0].as_ref().map(outcome_json),
        "to_here": outcome.ways[1].as_ref().map(outcome_json),
        "cpu_here_percent": outcome.cpu_here,
        "cpu_there_percent": outcome.cpu_there,
        "congestion": outcome.congestion,
        "server_output": outcome.output,
        "gaps": gaps(is_udp, outcome),
        "lines": lines.iter().map(line_json).collect::<Vec<_>>(),
    })
}

/// Returns the line of an event of a server; `None` for one that nobody waits for.
#[must_use]
pub fn served(event: &Served) -> Option<String> {
    match event {
        Served::Listening(at) => Some(format!(
            "serving iperf3 clients at {at}, TCP and UDP; for example: iperf3 -c THIS-HOST -p {}",
            at.port()
        )),
        Served::Refused(client, why) => Some(format!("{client}: refused: {}", refusal(*why))),
        Served::Began(..) => None,
        Served::Ended(record) => Some(test_line(record)),
    }
}

fn refusal(why: linerate_iperf3::serve::Refusal) -> &'static str {
    use linerate_iperf3::serve::Refusal;
    match why {
        Refusal::NotPermitted => "not in --allow",
        Refusal::Quota => "as many tests of this host run as --per-client allows",
        Refusal::Full => "the server has no room for another test",
        Refusal::Stray => "a data stream that its test does not expect",
        Refusal::NoCookie => "no cookie in time: not a client of iperf3",
    }
}

/// Returns how a test ended.
fn ending(ending: &Ending) -> String {
    match ending {
        Ending::Complete => "complete".to_owned(),
        Ending::Interrupted => "interrupted by the client".to_owned(),
        Ending::Gone => "the client vanished".to_owned(),
        Ending::Late(missed) => format!("dropped: the client did not {missed} in time"),
        Ending::Refused(_, why) => format!("refused: {why}"),
        Ending::Broken(cause) => format!("not the protocol of iperf3: {cause}"),
        Ending::Terminated => "ended with the server".to_owned(),
    }
}

/// Returns the sums of the streams that this end receives (`false`) or sends.
fn sums(record: &TestRecord, sends: bool) -> Option<(f64, u64, Option<u64>)> {
    let streams: Vec<&StreamRecord> =
        record.streams.iter().filter(|stream| stream.sends == sends).collect();
    let bytes: u64 = streams.iter().map(|stream| stream.bytes).sum();
    let lost = streams.iter().filter_map(|stream| stream.lost);
    let lost = streams.iter().any(|stream| stream.lost.is_some()).then(|| lost.sum());
    let datagrams = streams.iter().map(|stream| stream.datagrams).sum();
    let bits = bytes as f64 * BITS_PER_BYTE / record.seconds.max(1e-9);
    (!streams.is_empty()).then_some((bits, datagrams, lost))
}

fn test_line(record: &TestRecord) -> String {
    let protocol = record.parameters.as_ref().map(|asked| match asked.protocol {
        Protocol::Tcp => "tcp",
        Protocol::Udp => "udp",
    });
    let mut parts = vec![protocol.unwrap_or(GAP).to_owned()];
    // A test without a load has no rates.
    let measured = record.seconds > 0.0;
    for (sends, word) in [(false, "in"), (true, "out")] {
        let Some((bits, datagrams, lost)) = sums(record, sends).filter(|_| measured) else {
            continue;
        };
        let mut part = format!("{word} {}", quantity(metric::GOODPUT, bits));
        if let Some(lost) = lost {
            let percent = 100.0 * lost as f64 / datagrams.max(1) as f64;
            part += &format!(", lost {lost} of {datagrams} ({percent:.2} %)");
        }
        parts.push(part);
    }
    if measured {
        parts.push(format!("{:.1} s, cpu {:.0} %", record.seconds, record.cpu));
    }
    parts.push(ending(&record.ending));
    format!("{:>4}  {}  {}", record.number, record.client, parts.join(" · "))
}

fn stream_json(stream: &StreamRecord) -> Value {
    json!({
        "id": stream.id,
        "sends": stream.sends,
        "bytes": stream.bytes,
        metric::RETRANSMITS.name: stream.retransmits,
        "datagrams": stream.datagrams,
        metric::LOST.name: stream.lost,
        metric::DUPLICATES.name: stream.duplicates,
        metric::REORDERED.name: stream.reordered,
        "jitter_s": stream.jitter,
    })
}

/// Returns a test of a server as JSON.
#[must_use]
pub fn test_json(record: &TestRecord) -> Value {
    json!({
        "test": record.number,
        "client": record.client.to_string(),
        "parameters": record.parameters.as_ref().map(|asked| asked.json()),
        "ending": ending(&record.ending),
        "complete": record.ending == Ending::Complete,
        "seconds": record.seconds,
        "cpu_percent": record.cpu,
        "streams": record.streams.iter().map(stream_json).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn what_the_other_end_does_not_report_is_a_gap_and_never_zero() {
        let way = Way { bytes: 1_250_000, datagrams: 10, ..Way::default() };
        let one = Line {
            from: Duration::ZERO,
            until: Duration::from_secs(1),
            is_omitted: false,
            ways: [Some(way), None],
            cpu: 12.4,
        };
        let udp = line(&one, true);
        assert!(udp.contains("10 Mbit/s") && udp.contains("12 | - %"), "{udp}");
        let columns: Vec<&str> = udp.split_whitespace().collect();
        assert_eq!(columns[5..7], ["10", "-"], "{udp}");
        let tcp = line(&one, false);
        let columns: Vec<&str> = tcp.split_whitespace().collect();
        assert_eq!(columns[5..7], ["-", "-"], "{tcp}");
        assert_eq!(line_json(&one)["from_here"]["lost"], Value::Null);
        let back = WayOutcome { bytes: 1_250_000, seconds: 1.0, ..WayOutcome::default() };
        let outcome = Outcome { ways: [None, Some(back)], ..Outcome::default() };
        let text = result(Protocol::Tcp, &outcome);
        assert!(text.contains("retrans -") && text.contains("retransmissions of the"), "{text}");
        assert!(result(Protocol::Udp, &outcome).contains("lost -"));
    }
}
