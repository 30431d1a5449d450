//! Output of each generator as one [`Reading`]: always the bytes delivered to the *receiver*.
//!
//! Versions read: iperf3 3.12, nuttcp 6.1.2, iperf 2.1.8, sockperf 3.7 (Debian 12), and linerate's
//! example `end`.

use anyhow::{Context, anyhow, ensure};
use serde_json::Value;

const BITS_PER_BYTE: f64 = 8.0;
const MEGA: f64 = 1e6;
/// nuttcp's megabyte.
const MEBI: f64 = 1_048_576.0;

/// Bytes or operations that one run delivered.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Reading {
    /// Bits of payload, datagrams or transactions a second, as the row counts.
    pub(super) rate: f64,
    /// Payload bytes delivered, where the tool says so.
    pub(super) bytes: f64,
    /// Of datagrams sent, how many did not arrive.
    pub(super) loss: Option<f64>,
    /// Times of a whole transaction, us.
    pub(super) p50_us: Option<f64>,
    pub(super) p99_us: Option<f64>,
}

/// Kind of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    Bits,
    /// Datagrams of this number of bytes.
    Datagrams(u32),
    Transactions,
}

/// The line of JSON that linerate's example `end` prints.
///
/// # Errors
/// If it reports incidents: its figures are then not those of the workload alone.
pub(super) fn example(text: &str) -> anyhow::Result<Value> {
    let line: Value = serde_json::from_str(text.lines().next().unwrap_or_default())
        .context("read the example's line")?;
    let incidents = &line["incidents"];
    ensure!(incidents.as_array().is_some_and(Vec::is_empty), "incidents: {incidents}");
    Ok(line)
}

/// The number called `name` in `line`.
pub(super) fn number(line: &Value, name: &str) -> anyhow::Result<f64> {
    line[name].as_f64().with_context(|| format!("no {name} in {line}"))
}

/// iperf3's JSON, from the server and the client.
pub(super) fn iperf3(server: &str, client: &str, unit: Unit) -> anyhow::Result<Reading> {
    let server: Value =
        serde_json::from_str(server).context("parse the JSON of iperf3's server")?;
    let received = &server["end"]["sum_received"];
    // Bytes at the receiver: those at the sender may still be in buffers, or lost.
    let field = |name: &str| {
        received[name].as_f64().with_context(|| format!("iperf3: no end.sum_received.{name}"))
    };
    let (bytes, seconds) = (field("bytes")?, field("seconds")?);
    // For a stream the receiver's bytes are all that is needed.
    let Unit::Datagrams(size) = unit else {
        return Ok(Reading { rate: bytes * BITS_PER_BYTE / seconds, bytes, ..Reading::default() });
    };
    let client: Value =
        serde_json::from_str(client).context("parse the JSON of iperf3's client")?;
    let sent = client["end"]["sum"]["packets"]
        .as_f64()
        .context("iperf3: no end.sum.packets at the client")?;
    // The server reports bytes; its count of packets includes lost ones.
    let arrived = bytes / f64::from(size);
    Ok(Reading {
        rate: arrived / seconds,
        bytes,
        loss: Some(1.0 - arrived / sent),
        ..Reading::default()
    })
}

/// nuttcp's `-fparse` line.
pub(super) fn nuttcp(client: &str, unit: Unit) -> anyhow::Result<Reading> {
    let line = client
        .lines()
        .find(|line| line.starts_with("megabytes="))
        .context("nuttcp: no line of results")?;
    let field = |name: &str| nuttcp_field(line, name);
    let bytes = field("megabytes")? * MEBI;
    // nuttcp's megabyte is binary for bytes and decimal for rates.
    if let Unit::Datagrams(size) = unit {
        let rate = field("rate_Mbps")? * MEGA / BITS_PER_BYTE / f64::from(size);
        return Ok(Reading {
            rate,
            bytes,
            loss: Some(field("drop")? / field("pkt")?),
            ..Reading::default()
        });
    }
    Ok(Reading { rate: field("rate_Mbps")? * MEGA, bytes, ..Reading::default() })
}

fn nuttcp_field(line: &str, name: &str) -> anyhow::Result<f64> {
    let pair = line.split_whitespace().find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='));
    pair.and_then(|value| value.parse::<f64>().ok())
        .with_context(|| format!("nuttcp: no {name} in `{line}`"))
}

/// iperf's `-y C` lines from the server, one a connection.
pub(super) fn iperf(server: &str, streams: u32) -> anyhow::Result<Reading> {
    const BYTES: usize = 7;
    const RATE: usize = 8;
    let rows: Vec<Vec<&str>> = server.lines().map(|line| line.split(',').collect()).collect();
    // The line of connection -1 is the sum of the others.
    let connections = rows.iter().filter(|row| row.len() > RATE && row[5] != "-1");
    let mut reading = Reading::default();
    let mut n = 0;
    for row in connections {
        let number = |index: usize| {
            row[index].parse::<f64>().map_err(|_| anyhow!("iperf: not a number in {row:?}"))
        };
        reading.bytes += number(BYTES)?;
        reading.rate += number(RATE)?;
        n += 1;
    }
    // A connection without a line would make the sum too small unnoticed.
    anyhow::ensure!(n == streams, "iperf: {n} of {streams} connections reported: {server:?}");
    Ok(reading)
}

/// netperf's line of figures: a rate and for streams the bytes received.
pub(super) fn netperf(client: &str, unit: Unit) -> anyhow::Result<Reading> {
    let line = client.lines().next_back().unwrap_or_default();
    let figures: Vec<f64> = line.split(',').filter_map(|word| word.trim().parse().ok()).collect();
    match (unit, figures.as_slice()) {
        (Unit::Bits, [rate, bytes]) => {
            Ok(Reading { rate: rate * MEGA, bytes: *bytes, ..Reading::default() })
        }
        (Unit::Transactions, [rate]) => Ok(Reading { rate: *rate, ..Reading::default() }),
        _ => Err(anyhow!("netperf: no figures in {client:?}")),
    }
}

/// sockperf's text; its latencies are half a round trip.
pub(super) fn sockperf(client: &str) -> anyhow::Result<Reading> {
    let valid = client
        .lines()
        .find(|line| line.contains("[Valid Duration]"))
        .context("sockperf: no valid duration")?;
    let field = |name: &str| sockperf_field(valid, name);
    Ok(Reading {
        rate: field("ReceivedMessages=")? / field("RunTime=")?,
        p50_us: sockperf_percentile(client, "percentile 50.000"),
        p99_us: sockperf_percentile(client, "percentile 99.000"),
        ..Reading::default()
    })
}

fn sockperf_field(valid: &str, name: &str) -> anyhow::Result<f64> {
    let text = valid.split_once(name).map(|(_, rest)| rest).unwrap_or_default();
    let end = text.find([' ', ';']).unwrap_or(text.len());
    text[..end].parse::<f64>().map_err(|_| anyhow!("sockperf: no {name} in `{valid}`"))
}

/// Returns a percentile of the round trip, us.
fn sockperf_percentile(client: &str, name: &str) -> Option<f64> {
    let line = client.lines().find(|line| line.contains(name))?;
    // sockperf reports half of the round trip as latency.
    Some(line.rsplit_once('=')?.1.trim().parse::<f64>().ok()? * 2.0)
}

/// The lines of linerate's example `end`, passive and active.
pub(super) fn linerate(passive: &str, active: &str, unit: Unit) -> anyhow::Result<Reading> {
    const NANOS_PER_MICRO: f64 = 1e3;
    let parse = |text: &str| {
        serde_json::from_str::<Value>(text).with_context(|| format!("parse linerate's {text:?}"))
    };
    let (passive, active) = (parse(passive)?, parse(active)?);
    let seconds = number(&active, "seconds")?;
    let bytes = number(&passive, "bytes_received")?;
    // Absent for streams, which have no transactions.
    let time = |name: &str| active[name].as_f64().map(|ns| ns / NANOS_PER_MICRO);
    Ok(match unit {
        Unit::Bits => {
            Reading { rate: bytes * BITS_PER_BYTE / seconds, bytes, ..Reading::default() }
        }
        Unit::Datagrams(_) => {
            // Loss counts everything from start to end; the rate counts the measured span only.
            let received = number(&passive, "datagrams_received_in_all")?;
            let loss = 1.0 - received / number(&active, "datagrams_sent_in_all")?;
            let rate = number(&passive, "datagrams_received")? / seconds;
            Reading { rate, bytes, loss: Some(loss), ..Reading::default() }
        }
        Unit::Transactions => Reading {
            rate: number(&active, "transactions")? / seconds,
            bytes: 0.0,
            loss: None,
            p50_us: time("p50_ns"),
            p99_us: time("p99_ns"),
        },
    })
}

#[cfg(test)]
#[path = "../../../fuzz/driver.rs"]
mod driver;

#[cfg(test)]
mod tests {
    use super::*;

    fn close(a: f64, b: f64) -> bool {
        (a - b).abs() <= b.abs() * 1e-3
    }

    #[test]
    fn iperf3_is_read_at_its_server() {
        let server = r#"{"end":{"sum_sent":{"bytes":0},"sum_received":{"start":0,"end":1.003744,
        "seconds":1.003744,
            "bytes":1152188416,"bits_per_second":9183125705.359137,"sender":false}}}"#;
        let reading = iperf3(server, "", Unit::Bits).expect("as printed");
        assert!(close(reading.rate, 9_183_125_705.0), "{reading:?}");
        let server = r#"{"end":{"sum":{"bytes":0,"lost_packets":86257,"packets":150377},
            "sum_received":{"seconds":1.020583,"bytes":4103680,"lost_packets":86257,
            "packets":150377}}}"#;
        let client = r#"{"end":{"sum":{"bytes":9697920,"lost_packets":86257,"packets":151530}}}"#;
        let reading = iperf3(server, client, Unit::Datagrams(64)).expect("as printed");
        assert!(close(reading.rate, 62_826.0), "{reading:?}");
        assert!(close(reading.loss.expect("datagrams"), 0.576_849), "{reading:?}");
        assert!(iperf3(r#"{"error":"unable to connect"}"#, "", Unit::Bits).is_err());
    }

    /// Any output of a generator gives a reading or an error.
    #[test]
    fn fuzz_iperf3_json() {
        let corpus: Vec<Vec<u8>> = [
            r#"{"end":{"sum_received":{"seconds":1.003744,"bytes":1152188416,
            "bits_per_second":9183125705.359137}}}"#,
            r#"{"end":{"sum":{"lost_packets":86257,"packets":150377},
            "sum_received":{"seconds":1.020583,"bytes":4103680,"packets":150377}}}"#,
            "megabytes=499.3750 real_seconds=1.00 rate_Mbps=4180.6455 drop=87746 pkt=183927 \
                data_loss=47.70711\n",
            "19700101000000,127.0.0.1,36256,127.0.0.1,5501,3,0.0-1.0,153288764,1225883504\n",
            "sockperf: [Valid Duration] RunTime=0.548 sec; ReceivedMessages=24274\nsockperf: ---> \
                percentile 50.000 =    5.043\n",
            r#"{"bytes_received":2641490730,"datagrams_received":100,"seconds":2.0,
            "transactions":84000,"p50_ns":9500}"#,
        ]
        .map(|text| text.as_bytes().to_vec())
        .into();
        let words = [
            "null",
            "{",
            "}",
            "[",
            "[[[[[[[[[[[[[[[[",
            "\"",
            ":",
            ",",
            "-1",
            "1e999",
            "0.0",
            "\\ud800",
        ];
        driver::fuzz("iperf3_json", corpus, &words, |bytes| {
            let text = String::from_utf8_lossy(bytes);
            let mut read = Vec::new();
            for unit in [Unit::Bits, Unit::Datagrams(64), Unit::Transactions] {
                read.extend([
                    iperf3(&text, &text, unit),
                    nuttcp(&text, unit),
                    linerate(&text, &text, unit),
                ]);
            }
            read.extend([iperf(&text, 1), sockperf(&text)]);
            driver::class(
                &read
                    .iter()
                    .map(|one| one.as_ref().map(drop).map_err(|error| format!("{error:#}")))
                    .collect::<Vec<_>>(),
            )
        });
    }

    #[test]
    fn netperf_is_read_by_its_selected_figures() {
        let stream = netperf("4741.75,593873449\n", Unit::Bits).expect("as printed");
        assert!(close(stream.rate, 4.741_75e9) && close(stream.bytes, 593_873_449.0), "{stream:?}");
        assert!(close(
            netperf("37511.248\n", Unit::Transactions).expect("a rate").rate,
            37_511.248
        ));
        assert!(netperf("establish control: are you sure\n", Unit::Bits).is_err());
    }

    #[test]
    fn nuttcp_is_read_with_its_own_megabyte() {
        let line = "megabytes=499.3750 real_seconds=1.00 rate_Mbps=4180.6455 tx_cpu=15 rx_cpu=12 \
            rtt_ms=0.09\n";
        let reading = nuttcp(line, Unit::Bits).expect("as printed");
        assert!(
            close(reading.rate, 4.180_645e9) && close(reading.bytes, 523_632_640.0),
            "{reading:?}"
        );
        let line = "megabytes=5.8704 real_seconds=1.00 rate_Mbps=49.3282 tx_cpu=63 rx_cpu=18 \
            drop=87746 pkt=183927 data_loss=47.70711\n";
        let reading = nuttcp(line, Unit::Datagrams(64)).expect("as printed");
        assert!(
            close(reading.rate, 96_344.0) && close(reading.loss.expect("datagrams"), 0.477_07),
            "{reading:?}"
        );
        assert!(nuttcp("nuttcp-t: Error: server not ACKing\n", Unit::Bits).is_err());
    }

    #[test]
    fn iperf_is_summed_over_its_connections() {
        let server = concat!(
            "19700101000000,127.0.0.1,36256,127.0.0.1,5501,3,0.0-1.0,153288764,1225883504\n",
            "19700101000000,127.0.0.1,36234,127.0.0.1,5501,1,0.0-1.0,106758204,827374529\n"
        );
        let reading = iperf(server, 2).expect("as printed");
        assert_eq!((reading.rate, reading.bytes), (2_053_258_033.0, 260_046_968.0));
        assert!(iperf(server, 4).is_err(), "two connections are missing");
    }

    #[test]
    fn sockperf_counts_half_round_trips() {
        let text = "sockperf: [Total Run] RunTime=1.000 sec; Warm up time=400 msec; \
            SentMessages=41544; ReceivedMessages=41543\n\
            sockperf: [Valid Duration] RunTime=0.548 sec; SentMessages=24274; \
            ReceivedMessages=24274\n\
            sockperf: ---> percentile 99.000 =   50.543\nsockperf: ---> percentile 50.000 =    \
            5.043\n";
        let reading = sockperf(text).expect("as printed");
        assert!(close(reading.rate, 44_295.6), "{reading:?}");
        assert_eq!((reading.p50_us, reading.p99_us), (Some(10.086), Some(101.086)));
        assert!(sockperf("sockperf: ERROR: connection refused\n").is_err());
    }

    #[test]
    fn linerate_is_read_where_it_counts() {
        let passive = r#"{"bytes_received":2641490730,"datagrams_received":100,
        "datagrams_received_in_all":110,"seconds":2.0}"#;
        let active = r#"{"datagrams_sent_in_all":200,"seconds":2.0,"transactions":84000,
        "p50_ns":9500,"p99_ns":null}"#;
        let read = |unit| linerate(passive, active, unit).expect("as printed");
        assert!(close(read(Unit::Bits).rate, 10_565_962_920.0));
        let datagrams = read(Unit::Datagrams(64));
        assert!(close(datagrams.rate, 50.0) && close(datagrams.loss.expect("datagrams"), 0.45));
        let times = read(Unit::Transactions);
        assert_eq!((times.rate, times.p50_us, times.p99_us), (42_000.0, Some(9.5), None));
    }
}
