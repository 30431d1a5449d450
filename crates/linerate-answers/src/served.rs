//! Answer of `linerate serve`: goodput to clients of other programs, a line for each second, and
//! the result at the end.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use linerate_analysis::Study;
use linerate_model::{Campaign, Counter, Direction, Interval, Nanos, Use, metric};
use linerate_report::document::{Block, Origin, Section, Table};
use linerate_report::{Document, sentences, uncapitalised};
use serde_json::Value;

use crate::figures::quantity;

const BITS_PER_BYTE: f64 = 8.0;
const SECOND: Nanos = Nanos::from_secs(1);

/// Sums of one second.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    /// Bytes that clients acknowledged.
    acknowledged: u64,
    /// Bytes that clients sent.
    received: u64,
    files: u64,
    /// Time in which files were in transfer, ns; workers add up.
    serving_ns: u64,
}

impl Sums {
    const fn bytes(&self) -> u64 {
        self.acknowledged + self.received
    }
}

/// Sums by second, of the intervals taken so far.
#[derive(Debug, Default)]
pub struct Seconds {
    sums: BTreeMap<u64, Sums>,
    printed: u64,
}

impl Seconds {
    /// Takes intervals of a worker. Returns a line for each second that is complete now and in
    /// which something was transferred.
    pub fn take(&mut self, intervals: &[Interval]) -> Vec<String> {
        let mut reached = 0;
        for interval in intervals {
            // An interval across two seconds belongs to the one with more of it.
            let second = interval.start.0.midpoint(interval.end.0) / SECOND.0;
            let sums = self.sums.entry(second).or_default();
            sums.acknowledged += interval.counters[Counter::PayloadAcknowledged];
            sums.received += interval.counters[Counter::PayloadReceived];
            sums.files += interval.counters[Counter::Transactions];
            sums.serving_ns += interval.counters[Counter::Serving];
            reached = reached.max(interval.end.0 / SECOND.0);
        }
        // Workers report one after the other, so a second is complete once the next one has ended.
        let complete = reached.saturating_sub(1);
        let lines = (self.printed..complete).filter_map(|second| self.line(second)).collect();
        self.printed = self.printed.max(complete);
        lines
    }

    fn line(&self, second: u64) -> Option<String> {
        // Idle seconds are not printed: a server may wait for hours.
        let sums = self.sums.get(&second).filter(|sums| sums.bytes() + sums.files > 0)?;
        let rate = sums.bytes() as f64 * BITS_PER_BYTE;
        let rate = quantity(metric::GOODPUT, rate);
        Some(format!("{second:>5} - {:<5}  {rate:>14}  {} files", second + 1, sums.files))
    }

    /// Returns the sums of all seconds in one line.
    fn total(&self) -> String {
        let all = self.sums.values().fold(Sums::default(), added);
        let bytes = format!(
            "{} files, {} B acknowledged by clients, {} B received from clients",
            all.files, all.acknowledged, all.received
        );
        // Without time in transfer there is no rate.
        if all.serving_ns == 0 {
            return bytes;
        }
        let rate = all.bytes() as f64 * BITS_PER_BYTE / Nanos(all.serving_ns).as_secs_f64();
        let rate = quantity(metric::GOODPUT_SERVED, rate);
        format!("{bytes}; {rate} goodput while files were in transfer")
    }

    /// Returns whether something was transferred in the last second before `end`.
    fn moved_until(&self, end: Nanos) -> bool {
        // An end at a full second belongs to the second before.
        let last = end.0.saturating_sub(1) / SECOND.0;
        self.sums.get(&last).is_some_and(|sums| sums.bytes() > 0)
    }
}

fn added(sum: Sums, one: &Sums) -> Sums {
    Sums {
        acknowledged: sum.acknowledged + one.acknowledged,
        received: sum.received + one.received,
        files: sum.files + one.files,
        serving_ns: sum.serving_ns + one.serving_ns,
    }
}

/// Files that a server offers.
#[derive(Clone, Copy, Debug)]
pub struct FilesOffered {
    /// `http` or `ftp`.
    pub protocol: &'static str,
    /// Address that it listens on.
    pub address: IpAddr,
    /// Port.
    pub port: u16,
    /// True if they are those of a folder.
    pub is_folder: bool,
    /// True if files come in.
    pub takes_uploads: bool,
    /// True if clients use TLS.
    pub has_tls: bool,
    /// Time to serve, s.
    pub seconds: f64,
}

impl FilesOffered {
    /// Returns an example of a URL for clients.
    fn url(&self) -> String {
        let scheme = if self.protocol == "http" && self.has_tls { "https" } else { self.protocol };
        // A client cannot connect to the unspecified address.
        let at = if self.address.is_unspecified() {
            format!("THIS-HOST:{}", self.port)
        } else {
            SocketAddr::new(self.address, self.port).to_string()
        };
        let path = if self.is_folder { "" } else { "file" };
        format!("{scheme}://{at}/{path}")
    }

    /// Returns the address and the command of a client, in one line.
    #[must_use]
    pub fn announcement(&self) -> String {
        let url = self.url();
        let example = match self.takes_uploads {
            true => format!("curl -T FILE {url}"),
            false if self.is_folder => format!("wget -r {url}"),
            false => format!("curl -o /dev/null {url}"),
        };
        let insecure = if self.has_tls { " (with -k or --no-check-certificate)" } else { "" };
        format!("serving {url} for {} s; for example: {example}{insecure}", self.seconds)
    }
}

/// Returns the answer. `duration` is the time to serve, and `complete` whether all of it passed: an
/// interrupted trial has no figures, though clients were served.
pub fn document(
    campaign: &Campaign,
    study: &Study,
    seconds: &Seconds,
    (duration, complete): (Nanos, bool),
) -> Document {
    let mut blocks = Vec::new();
    let mut notes = Vec::new();
    if complete {
        let rows = rows(study);
        if rows.is_empty() {
            let text = format!("No client transferred a file in {} s.", duration.as_secs_f64());
            blocks.push(Block::Paragraph(text));
        } else {
            let heads = ["figure", "direction", "value"];
            let table = Table::of_words("served", "Served to clients", &heads, &rows);
            blocks.push(Block::Table(table));
        }
        notes.extend([
            "Goodput served: bytes that the clients acknowledged or sent, over the time in which a \
                file was in transfer."
                .to_owned(),
            format!(
                "Goodput: the same bytes over all {} s, idle time included.",
                duration.as_secs_f64()
            ),
        ]);
        let points = study.points.iter();
        notes.extend(points.flat_map(|point| {
            point
                .why
                .iter()
                .map(|why| format!("{}: {}", point.validity.word(), sentences::reason(why)))
        }));
    } else {
        blocks.push(Block::Paragraph(format!("Ended before its time: {}.", seconds.total())));
    }
    // A transfer that was cut off makes the last second too low.
    if seconds.moved_until(duration) {
        notes.push(
            "The time ended while clients were served, and their transfers were cut off. Serve \
                longer with -t SECONDS."
                .to_owned(),
        );
    }
    notes.extend(digests(campaign));
    if !notes.is_empty() {
        blocks.push(Block::List(notes));
    }
    let section = Section { id: "answer", title: "Result", blocks };
    let origin = Origin::Measured(campaign.header.testbed);
    Document::answer("Files served", "to clients", origin, vec![section], Value::Null)
}

fn rows(study: &Study) -> Vec<Vec<String>> {
    let jobs = study.points.iter().flat_map(|point| &point.jobs);
    jobs.flat_map(|job| {
        Use::Served.metrics().flat_map(move |wanted| {
            let found = job.metrics.iter().filter(move |figure| figure.metric == wanted);
            found.filter_map(move |metric| {
                let layer = metric.layer.map(|layer| format!(" {layer}")).unwrap_or_default();
                let value = quantity(wanted, metric.estimate?.value);
                // The clients are the `from` end of a served file.
                let direction = match metric.direction {
                    Direction::Rx => "to clients",
                    Direction::Tx => "from clients",
                    Direction::Sum => "both",
                };
                Some(vec![
                    format!("{}{layer}", uncapitalised(wanted.title)),
                    direction.to_owned(),
                    value,
                ])
            })
        })
    })
    .collect()
}

/// Returns the digest of the last file that each connection's place received.
fn digests(campaign: &Campaign) -> Vec<String> {
    let jobs = campaign.trials.iter().flat_map(|trial| &trial.jobs);
    let flows = jobs.flat_map(|(_, passive)| &passive.flows);
    flows
        .filter_map(|flow| {
            let digest = flow.modes.get("sha256_last")?;
            Some(format!("connection {}: SHA-256 of the last file {digest}", flow.flow))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_are_shown_an_address_and_a_command_that_they_can_use() {
        let any = FilesOffered {
            protocol: "http",
            address: IpAddr::from([0, 0, 0, 0]),
            port: 8080,
            is_folder: false,
            takes_uploads: false,
            has_tls: false,
            seconds: 60.0,
        };
        let expected = "serving http://THIS-HOST:8080/file for 60 s; for example: curl -o \
            /dev/null http://THIS-HOST:8080/file";
        assert_eq!(any.announcement(), expected);
        let folder = FilesOffered {
            address: "2001:db8::7".parse().expect("an address"),
            is_folder: true,
            has_tls: true,
            ..any
        };
        let line = folder.announcement();
        assert!(line.contains("wget -r https://[2001:db8::7]:8080/ (with -k"), "{line}");
        let uploads = FilesOffered { protocol: "ftp", takes_uploads: true, ..any };
        let line = uploads.announcement();
        assert!(line.ends_with("curl -T FILE ftp://THIS-HOST:8080/file"), "{line}");
    }

    fn interval(second: u64, acknowledged: u64) -> Interval {
        let (start, end) = (Nanos::from_secs(second), Nanos::from_secs(second + 1));
        let mut interval = Interval { start, end, ..Interval::default() };
        interval.counters[Counter::PayloadAcknowledged] = acknowledged;
        interval.counters[Counter::Serving] = SECOND.0 / 2;
        interval
    }

    #[test]
    fn a_second_is_printed_once_the_next_has_ended_and_an_idle_one_never() {
        let mut seconds = Seconds::default();
        assert!(seconds.take(&[interval(0, 1_000_000)]).is_empty(), "another worker may follow");
        assert!(seconds.take(&[interval(0, 1_000_000)]).is_empty());
        let lines = seconds.take(&[interval(1, 0), interval(2, 5)]);
        assert_eq!(lines.len(), 1, "{lines:?}");
        assert!(lines[0].contains("16 Mbit/s"), "both workers: {lines:?}");
        assert!(seconds.take(&[interval(3, 5)]).iter().all(|line| line.contains("2 - 3")));
    }

    #[test]
    fn the_total_rate_leaves_out_idle_time() {
        let mut seconds = Seconds::default();
        seconds.take(&[interval(0, 500_000), interval(9, 500_000)]);
        assert!(seconds.total().contains("; 8 Mbit/s goodput"), "{}", seconds.total());
        assert!(seconds.moved_until(Nanos::from_secs(10)));
        assert!(!seconds.moved_until(Nanos::from_secs(9)));
    }
}
