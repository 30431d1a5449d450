//! Progress of `linerate to`: the header, then each complete line.

use linerate_analysis::live::{LiveLine, LiveLines};
use linerate_analysis::planned_ceiling;
use linerate_campaign::testbeds::Ground;
use linerate_control::Progress;
use linerate_model::{CampaignHeader, Direction, HostRecord, TrialOutcome, TrialSpec};
use linerate_report::live::{LiveForm, LiveTable};
use serde_json::Value;

use crate::path;
use crate::path_lines::{PathAsked, header};

/// Lines of a measurement that runs.
pub struct PathProgress<'a> {
    ground: &'a Ground,
    asked: PathAsked<'a>,
    table: LiveTable,
    lines: LiveLines,
    hosts: Vec<HostRecord>,
    complete: Vec<LiveLine>,
}

/// Kind of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathEventKind {
    /// The header.
    Start,
    /// A line.
    Interval,
}

impl PathEventKind {
    /// Returns the name of the event in a stream of them.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Interval => "interval",
        }
    }
}

/// Something to print: an event, its data, and its text for a person.
#[derive(Clone, Debug, PartialEq)]
pub struct PathEvent {
    /// Its kind.
    pub kind: PathEventKind,
    /// Data of the event.
    pub data: Value,
    /// Text with its line breaks.
    pub text: String,
}

impl<'a> PathProgress<'a> {
    /// Returns the progress of a measurement on `ground` whose lines have the form `form`.
    #[must_use]
    pub fn new(
        ground: &'a Ground,
        asked: PathAsked<'a>,
        form: &LiveForm<'_>,
        lines: LiveLines,
    ) -> Self {
        let (table, hosts, complete) = (LiveTable::new(form), Vec::new(), Vec::new());
        Self { ground, asked, table, lines, hosts, complete }
    }

    /// Returns the lines that are complete so far.
    #[must_use]
    pub fn complete(&self) -> &[LiveLine] {
        &self.complete
    }

    /// Returns what is to be printed after `progress`; `None` if it is no part of the measurement.
    pub fn events(&mut self, progress: &Progress<'_>) -> Option<Vec<PathEvent>> {
        Some(match progress {
            Progress::HostJoined { record } => {
                self.hosts.push((*record).clone());
                Vec::new()
            }
            Progress::TrialStarted { trial, .. } => self.begin(trial),
            Progress::Intervals { side, intervals, .. } => {
                let lines = self.lines.take(*side, intervals);
                self.lines(lines)
            }
            Progress::TrialEnded { outcome, .. } => self.rest(*outcome),
            _ => return None,
        })
    }

    /// Returns the lines that a trial with this outcome leaves.
    pub fn rest(&mut self, outcome: TrialOutcome) -> Vec<PathEvent> {
        let lines = self.lines.rest(outcome);
        self.lines(lines)
    }

    /// Returns the header, once all hosts have joined.
    fn begin(&mut self, trial: &TrialSpec) -> Vec<PathEvent> {
        let (capacities, testbed) = (self.ground.capacities.clone(), self.ground.kind);
        let campaign = CampaignHeader { capacities, testbed, ..CampaignHeader::default() };
        let direction = if self.asked.is_reverse { Direction::Rx } else { Direction::Tx };
        let ceiling = planned_ceiling(&campaign, &self.hosts, trial, direction);
        let ceiling = ceiling.map(|ceiling| ceiling.value);
        self.table.set_ceiling(ceiling);
        let [from, to, ..] = &self.ground.testbed.endpoints[..] else { return Vec::new() };
        vec![PathEvent {
            kind: PathEventKind::Start,
            data: path::start([from, to], trial, ceiling),
            text: header([from, to], &self.hosts, &self.asked).text(),
        }]
    }

    fn lines(&mut self, lines: Vec<LiveLine>) -> Vec<PathEvent> {
        let events = lines.iter().map(|line| PathEvent {
            kind: PathEventKind::Interval,
            data: path::line(line),
            text: self.table.line(line),
        });
        let events = events.collect();
        self.complete.extend(lines);
        events
    }
}

#[cfg(test)]
mod tests {
    use linerate_campaign::testbeds;
    use linerate_model::{
        BitRate, BoundClass, Bytes, Capacity, Counter, Interval, JobSpec, Nanos, Params, Side,
    };
    use linerate_report::live::LoadKind;

    use super::*;
    use crate::path::Offered;

    const FORM: LiveForm<'static> = LiveForm {
        kind: LoadKind::Stream,
        is_both: false,
        omit: Nanos(0),
        title: None,
        unit: None,
    };

    /// Returns the load of a measurement whose only data goes this way.
    fn asked(is_reverse: bool) -> PathAsked<'static> {
        PathAsked {
            workload: "tcp_stream",
            is_reverse,
            congestion: None,
            offered: Offered::NoDatagrams,
            window: None,
            omit: Nanos(0),
            duration: Some(Nanos::from_secs(2)),
        }
    }

    /// Returns a path whose link carries 100 Mbit/s from `b` to `a`; no other capacity is known.
    fn ground() -> Ground {
        let capacity = Capacity {
            name: "link a-b, out of b".into(),
            edge: "link a-b".into(),
            class: BoundClass::Link,
            rate: BitRate(1e8),
            frame_overhead: Bytes(38),
            mtu: Bytes(1500),
            pairs: vec![("b".into(), "a".into())],
            source: "declared".into(),
            members: Vec::new(),
        };
        let mut ground = testbeds::loopback(false);
        ground.capacities.push(capacity);
        ground
    }

    fn trial(ground: &Ground) -> TrialSpec {
        let [a, b] = &ground.testbed.endpoints[..] else { panic!("two ends") };
        let job = JobSpec {
            workload: "tcp_stream".into(),
            from: a.clone(),
            to: b.clone(),
            params: Params::default(),
            background: None,
        };
        TrialSpec { jobs: vec![job], ..TrialSpec::default() }
    }

    /// Returns a second of a worker that received `bytes`.
    fn second(number: u64, bytes: u64) -> Interval {
        let (start, end) = (Nanos::from_secs(number), Nanos::from_secs(number + 1));
        let mut second = Interval { start, end, ..Interval::default() };
        second.counters[Counter::PayloadReceived] = bytes;
        second
    }

    #[test]
    fn the_header_comes_when_the_load_begins_and_each_line_once_it_is_complete() {
        let ground = ground();
        let trial = &trial(&ground);
        let lines = LiveLines::new(Nanos::from_secs(1), Nanos::from_secs(2));
        let mut progress = PathProgress::new(&ground, asked(true), &FORM, lines);
        let reconnecting = Progress::Reconnecting { host: "b", attempt: 1 };
        assert_eq!(progress.events(&reconnecting), None, "no part of the measurement");
        let (host, facts) = ("local".to_owned(), Value::Null);
        let record = &HostRecord { host, facts, clock_offset_ns: 0, clock_uncertainty_ns: 0 };
        assert_eq!(progress.events(&Progress::HostJoined { record }), Some(Vec::new()));
        let begun = Progress::TrialStarted { trial, number: 1, of: 1, eta: Nanos(0) };
        let [start] = &progress.events(&begun).expect("a part")[..] else { panic!("one event") };
        assert_eq!((start.kind.name(), &start.data["ends"][1]["name"]), ("start", &"b".into()));
        let ceiling = start.data["ceiling_bps"].as_f64().expect("the link is known");
        assert!((9e7..1e8).contains(&ceiling), "{ceiling}: payload of frames on 100 Mbit/s");
        assert!(start.text.contains("127.0.0.1"), "{}", start.text);
        let mut read = |side, intervals: &[Interval]| {
            let of = Progress::Intervals { trial, job: 0, side, intervals };
            progress.events(&of).expect("a part")
        };
        assert_eq!(read(Side::Passive, &[second(0, 0)]), [], "one end has not reported yet");
        let first = read(Side::Active, &[second(0, 10_000_000)]);
        assert_eq!(first.iter().map(|one| one.kind.name()).collect::<Vec<_>>(), ["interval"]);
        assert_eq!(first[0].data["payload_bytes_rx"], 1e7);
        assert!(first[0].text.contains("of 94.93 Mbit/s"), "under a heading: {}", first[0].text);
        assert_eq!(read(Side::Active, &[second(1, 5_000_000)]), []);
        let outcome = TrialOutcome::Interrupted;
        let ended = Progress::TrialEnded { trial, outcome, number: 1, of: 1, eta: Nanos(0) };
        let last = progress.events(&ended).expect("a part");
        assert_eq!(last[0].data["payload_bytes_rx"], 5e6);
        assert!(!last[0].text.contains("of 94.93 Mbit/s"), "only once: {}", last[0].text);
        assert_eq!(progress.rest(outcome), [], "nothing is printed twice");
        let bytes: Vec<f64> = progress.complete().iter().map(|line| line.backward_bytes).collect();
        assert_eq!(bytes, [1e7, 5e6]);
    }

    #[test]
    fn the_ceiling_is_that_of_the_direction_in_which_data_goes() {
        let ground = ground();
        let lines = LiveLines::new(Nanos::from_secs(1), Nanos::from_secs(2));
        let mut progress = PathProgress::new(&ground, asked(false), &FORM, lines);
        let trial = &trial(&ground);
        let begun = Progress::TrialStarted { trial, number: 1, of: 1, eta: Nanos(0) };
        let started = progress.events(&begun).expect("a part");
        assert!(started[0].data["ceiling_bps"].is_null(), "only the way back is limited");
    }
}
